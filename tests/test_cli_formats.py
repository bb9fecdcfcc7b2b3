"""Formats that show a graph: inspect, and the verbs that rewrite one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from support.commands import command
from support.ir_text import write_ir
from support.layers import Layer

LAYER = Layer(1, (4, 4), None, 2, 3, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.xml"
    write_ir(path, LAYER, np.arange(54, dtype=np.float32).reshape(2, 3, 3, 3))
    return path


@pytest.mark.parametrize(
    ("format", "start"),
    [("dot", "digraph"), ("html", "<!DOCTYPE html>"), ("ir", "graph 1 "), ("svg", "<svg ")],
)
def test_inspect_formats(
    net: Path, format: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("inspect", net, "--lower", "--format", format) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(start)
    out = tmp_path / "out"
    assert command("inspect", net, "--lower", "--format", format, "-o", out) == 0
    assert out.read_text() == shown


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "auto"])
def test_a_format_of_one_graph_shows_the_lowered_one(
    net: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    low = ird.lower(ird.infer(ird.read(net)), form).graph
    lowering = (net, "--lower", "--form", form)
    for options, graph in (([net], ird.infer(ird.read(net))), (lowering, low)):
        assert command("inspect", *options, "--format", "ir", "--constants") == 0
        comments = ird.inspect(graph).comments()
        assert capsys.readouterr().out == ird.dump(graph, elide=None, comments=comments)
        assert command("inspect", *options, "--format", "dot") == 0
        assert capsys.readouterr().out == ird.inspect(graph).to_dot()
    assert command("inspect", *lowering, "--format", "html") == 0
    assert '"key":"after"' in capsys.readouterr().out


def test_rewriting_verbs_print_the_emitted_graph(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low, certificates = tmp_path / "low.xml", tmp_path / "proofs.json"
    assert command("inspect", net, "--lower", "--format", "ir") == 0
    lines = capsys.readouterr().out.splitlines(keepends=True)
    shown = "".join(line for line in lines if not line.startswith("  // "))
    options = ("-o", low, "--certify", certificates, "--format", "ir")
    assert command("lower", net, *options) == 0
    out, err = capsys.readouterr()
    assert out == shown
    assert "1 deconvolution of 1 lowered as zero-insertion" in err
    assert len(json.loads(certificates.read_text())["certificates"]) == 1
    assert command("raise", low, "--format", "ir", "--certify", "-q") == 0
    out, err = capsys.readouterr()
    assert "ConvolutionBackpropData(%0" in out
    assert "ZeroInsertion" not in out
    assert err == ""


def test_inspect_json(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("inspect", net, "--lower", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "irdeconv/inspect/2"
    assert found["lowered"]["totals"]["deconvolutions"] == 0
