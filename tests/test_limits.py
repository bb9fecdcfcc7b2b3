"""The limits: shown, set, and held by whoever reads, infers, lowers or runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import limits
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.basic import Const, Result
from irdeconv.rewrite.builder import GraphBuilder
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


def test_every_value_that_is_shown_can_be_set() -> None:
    for row in limits.table():
        assert limits.setting(f"{row['name']}={limits.shown(row)}") == (row["name"], row["value"])
    assert limits.setting("memory=None") == ("memory", limits.LARGEST_INT)
    assert limits.setting(" xml-bytes = 1.5 KiB") == ("xml_bytes", 1536)
    assert limits.setting("memory=8191P".replace("P", "T")) == ("memory", 8191 * 2**40)


def test_the_environment_sets_limits_and_options_go_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3, memory=2 GiB,ports=1,000, edges=7")
    assert limits.of_environment() == [
        ("layers", 3),
        ("memory", 2**31),
        ("ports", 1000),
        ("edges", 7),
    ]
    sample = "ir_samples/openvino/group_deconv.xml"
    assert command("validate", sample) == 5
    assert command("validate", sample, "--limit", "layers=9") == 0
    capsys.readouterr()
    assert command("doctor", "--limits", "--limit", "edges=8", "--format", "json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["limits"]}
    assert [rows[n]["source"] for n in ("layers", "edges", "rank")] == [
        "IRDECONV_LIMITS",
        "--limit",
        "default",
    ]
    assert command("doctor", "--limits") == 0
    assert "(E601); set by IRDECONV_LIMITS" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["validate", "batch"])
def test_a_bad_environment_is_one_diagnostic(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3;edges=4")
    words = ["validate"] if verb == "batch" else []
    assert command(verb, *words, "ir_samples/openvino/group_deconv.xml", "--format=json") == 2
    [found] = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["code"] == "E700"
    assert found["message"].startswith("IRDECONV_LIMITS: ")
    assert command("codes", "E601") == 0


def test_a_batch_hands_the_limits_of_its_environment_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3")
    sample = "ir_samples/openvino/group_deconv.xml"
    assert command("batch", "validate", sample, "--jobs=0", "-q") == 5
    assert command("batch", "validate", sample, "--jobs=0", "-q", "--limit=layers=9") == 0
    capsys.readouterr()


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_all_nodes_of_a_lowering_together_are_limited(form: str) -> None:
    graph, target = ird.read("ir_samples/openvino/group_deconv.xml"), "generic"
    with ird.Limits(lowered_total=99).applied():
        ird.lower(graph, form, target)
    with (
        ird.Limits(lowered_total=1).applied(),
        pytest.raises(ird.LimitError, match="lowered_total=N") as caught,
    ):
        ird.lower(graph, form, target)
    [found] = caught.value.diagnostics
    assert (found.code, found.severity) == ("E601", "error")
    assert found.location is not None


def test_too_many_nodes_are_refused_before_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    x = '%0 "x" = opset1.Parameter() {shape = [1, 1, 2, 2], element_type = f32}'
    w = '%1 "w" = opset1.Parameter() {shape = [1, 1, 9, 9], element_type = f32}'
    up = '%2 "up" = opset1.ConvolutionBackpropData(%0, %1) {strides = [9, 9], dilations = [1, 1]}'
    graph = ird.parse(f'graph 1 "g" {{ {x} {w} {up} %3 "y" = opset1.Result(%2) }}')
    monkeypatch.setattr(GraphBuilder, "add", None)
    with (
        ird.Limits(lowered_total=2 * 81 - 1).applied(),
        pytest.raises(ird.LimitError, match="lowered_total=N"),
    ):
        ird.lower(graph, "phases")


@pytest.mark.parametrize(
    "text",
    "layers layer=1 layers=x layers=-1 edges=9e9 edges=² layers=1.5 layers=1,00 edges=99999999999G "
    "layers= layers=nones rank=33 rank=none".split(),
)
def test_limits_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("infer", "ir_samples/openvino/dynamic.xml", "--limit", text) == 2
    assert "E700" in capsys.readouterr().err


def test_the_rank_cannot_be_raised() -> None:
    """Sorting and iterators of NumPy take 32 axes; a tensor of more is no crash, only too much."""
    with pytest.raises(ValueError, match="from 0 to 32"):
        ird.Limits(rank=33)
    axes = (1,) * 40 + (3,)
    graph = Graph()
    data = ArrayData.of(np.arange(3, dtype=np.float32).reshape(axes))
    x = graph.add(Const(f32, axes, data), name="x")
    graph.add(Result(), [Value(x.id)], name="y")
    assert "[0.0, 1.0, 2.0]" in ird.dump(graph)
    with pytest.raises(ird.InferenceError, match="has rank 41; the limit is 32") as caught:
        ird.infer(graph)
    assert "more than 32" in str(caught.value)
    with ird.Limits(rank=4).applied():
        assert limits.raise_hint("rank").endswith("Limits(rank=N)")
