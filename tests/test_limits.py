"""The limits: shown, set, and held by whoever reads, infers, lowers or runs."""

from __future__ import annotations

import json

import pytest

import irdeconv as ird
from support.commands import command


def test_limits_are_shown_and_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("doctor", "--limits", "--limit", "layers=2") == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[1:3] for words in shown if words[0] == "layers"] == [["2", "layers"]]
    assert command("doctor", "--limits", "--format", "json", "--limit", "tensor_bytes=1.5G") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["limits"]}
    assert rows["tensor_bytes"]["value"] == 3 * 2**29
    assert rows["layers"]["value"] == rows["layers"]["default"] == ird.Limits().layers
    sample = "ir_samples/openvino/group_deconv.xml"
    for verb in ("validate", "infer", "run", "lower"):
        assert command(verb, sample, "--limit", "layers=3") == 5
        assert "--limit layers=N" in "".join(capsys.readouterr())
        assert command(verb, sample, "--limit", "layers=4", "-q") == 0
        capsys.readouterr()


@pytest.mark.parametrize(
    "text", ["layers", "layer=1", "layers=x", "layers=-1", "edges=9e9", "edges=²"]
)
def test_limits_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("infer", "ir_samples/openvino/dynamic.xml", "--limit", text) == 2
    assert "E700" in capsys.readouterr().err
