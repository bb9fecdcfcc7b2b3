"""Weights that are missing, and those that are left out, on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.commands import command
from support.ir_text import write_ir
from support.layers import Layer

LAYER = Layer(1, (4, 4), None, 2, 3, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    write_ir(tmp_path / "net.xml", LAYER, np.ones((2, 3, 3, 3), np.float32))
    return tmp_path / "net.xml"


def test_missing_weights_are_an_unreadable_model(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net.with_suffix(".bin").unlink()
    assert command("validate", net) == 1
    for verb in ("run", "infer", "lower", "inspect", "explain"):
        capsys.readouterr()
        assert command(verb, net) == 3
        err = capsys.readouterr().err
        assert (err.count("error"), f"{net.with_suffix('.bin')} is missing" in err) == (1, True)


def test_a_shape_that_only_values_confirm_is_wider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layer = replace(LAYER, output_shape=(7, 7), pads_begin=(0, 0), pads_end=(0, 0))
    write_ir(tmp_path / "net.xml", layer, np.ones((2, 3, 3, 3), np.float32))
    for more, status in ([], "same"), (["--no-weights"], "wider"):
        assert command("infer", tmp_path / "net.xml", "--format", "json", *more) == 0
        tensors = {t["name"]: t for t in json.loads(capsys.readouterr().out)["tensors"]}
        assert tensors["deconv"]["status"] == status


def test_no_weights_is_the_structure_alone(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net.with_suffix(".bin").unlink()
    assert command("validate", net, "--no-weights") == 0
    assert capsys.readouterr().out.endswith("valid, 0 errors, 0 warnings, without weights\n")
    assert command("infer", net, "--no-weights") == 0
    assert "structure alone" in capsys.readouterr().out
    assert command("inspect", net, "--no-weights") == 0
    assert command("explain", net, "--no-weights") == 0
    capsys.readouterr()
    assert command("infer", net, "--no-weights", "-o", net.with_name("x.xml")) == 2
    assert "-o needs the weights" in capsys.readouterr().err
    assert command("infer", net, "--no-weights", "--weights", "w.bin") == 2
    assert "exclude each other" in capsys.readouterr().err
    assert command("run", net, "--no-weights") == 2
    assert "it is one of validate, infer, inspect, explain" in capsys.readouterr().err
