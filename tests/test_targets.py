"""Targets refuse and weigh forms, and decide which one is chosen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.cli.options import OptionParser, add_form
from irdeconv.rewrite.form_names import AUTO, CONDITIONS
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.targets import ScoreWeights, Target, parse_target
from support.ir_text import write_ir
from support.layers import Layer
from test_costs import graph_only
from test_forms import graph_of, two_d


def chosen(layer: Layer, target: Any, **more: Any) -> tuple[str | None, dict[str, str | None]]:
    low = ird.lower(graph_only(layer, **more), "auto", target, explain_costs=True, best_effort=True)
    (record,) = low.report
    return record.form, {c.form: c.refused for c in record.costs}


def test_the_choice_is_the_least_score_of_the_weighting() -> None:
    graph = graph_only(two_d())
    for weights in (
        ScoreWeights(1, 0, 0, 0),
        ScoreWeights(0, 1, 0, 0),
        ScoreWeights(0, 0, 1, 0),
        ScoreWeights(0, 0, 0, 1),
        ScoreWeights(2, 3, 5, 7),
    ):
        (record,) = ird.lower(graph, "auto", Target(cost=weights), explain_costs=True).report
        rows = {c.form: c for c in record.costs if c.cost is not None}
        for c in rows.values():
            assert c.cost is not None
            assert c.score == pytest.approx(
                weights.mac * c.cost.macs
                + weights.byte * c.cost.bytes
                + weights.scratch * c.cost.scratch
                + weights.node * c.cost.nodes
            )
        open_rows = [c for c in rows.values() if c.refused is None]
        least = min(c.score for c in open_rows if c.score is not None)
        assert rows[record.form or ""].score == least
    assert chosen(two_d(), Target(cost=ScoreWeights(1, 0, 0, 0)))[0] == "phases"
    wide = two_d(c=64, m=64, size=(32, 32))
    assert chosen(wide, "generic")[0] == "phases"
    # Of a kernel that is the stride both make the same convolution; the first one is taken.
    assert chosen(replace(wide, kernel=(2, 2)), "generic")[0] == "stacked"


UPSAMPLED = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))


def target(name: str = "tiny", *, without: str = "", **conditions: str) -> Target:
    """A target with all operations that forms take, but for some, and these conditions."""
    names = "Add Concat Convolution DepthToSpace GroupConvolution Pad Reshape Slice Transpose"
    names += " Gather Multiply ShapeOf Squeeze Subtract Unsqueeze"
    listed = {n: [conditions[n]] if n in conditions else [] for n in names.split()}
    rows = [f"{n} = {json.dumps(c)}" for n, c in listed.items() if n not in without.split()]
    return parse_target("[operations]\n" + "\n".join(rows), name)


UNLISTED = "{} is not in the target's list of operations"


@pytest.mark.parametrize(
    ("limits", "layer", "form", "reason"),
    [
        ({"Convolution": "kernel <= 2"}, two_d(), "zero-insertion", None),  # split
        ({"Convolution": "kernel <= 2"}, two_d(), "phases", None),
        ({"Convolution": "dilation == 1"}, two_d(dilations=(1, 3)), "zero-insertion", None),
        ({"without": "GroupConvolution"}, two_d(groups=2), "stacked", None),  # dense
        (
            {"Convolution": "spatial_axes == 1"},
            two_d(),
            "gemm",
            "the kernel [4, 4] is not the stride [2, 2]",
        ),
        ({"Convolution": "spatial_axes == 1"}, UPSAMPLED, "gemm", "spatial_axes == 1: 2"),
        ({"without": "Pad"}, two_d(), "phases", None),  # own pads
        (
            {"without": "Pad Concat", "Convolution": "pad == 0"},
            two_d(),
            "stacked",
            "pad == 0: 1 (axis h, begin)",
        ),
        ({"without": "DepthToSpace"}, two_d(), "phases", None),
        ({"without": "DepthToSpace Transpose"}, two_d(), "phases", None),  # Concat
        (
            {"without": "DepthToSpace Transpose Reshape"},
            two_d(),
            "stacked",
            UNLISTED.format("DepthToSpace"),
        ),
        ({"without": "Transpose"}, two_d(), "stacked", None),
    ],
)
def test_limits_refuse_forms(limits: Any, layer: Layer, form: str, reason: str | None) -> None:
    _, refused = chosen(layer, target(**limits))
    assert refused[form] == reason


def test_filters_that_are_no_constants_can_be_refused() -> None:
    npu = target(Convolution="constant_filter")
    form, refused = chosen(two_d(), npu, filter_input=True)
    assert form == "zero-insertion"
    assert {refused[f] for f in ("zero-insertion", "phases", "stacked")} == {
        "constant_filter: false"
    }
    assert chosen(two_d(), npu)[1]["phases"] is None


def test_alignment_counts_rounded_channels() -> None:
    """C = 2 and M = 3 are rounded up to 8; the stacked form has 12 outputs, rounded to 16."""
    graph = graph_only(two_d())
    weights = ScoreWeights(1, 0, 0, 0, channel_alignment=8)
    (record,) = ird.lower(graph, "auto", Target(cost=weights), explain_costs=True).report
    factors = {c.form: c.score / c.cost.macs for c in record.costs if c.score and c.cost}
    assert factors["zero-insertion"] == factors["phases"] == pytest.approx(4 * 8 / 3)
    assert factors["stacked"] == pytest.approx(4 * 16 / 12)


def test_no_form_suits() -> None:
    graph, feeds, want = graph_of(two_d())
    tiny = target("tiny", Convolution="spatial_axes == 1")
    with pytest.raises(ird.TargetError, match="no form meets the conditions of tiny") as caught:
        ird.lower(graph, "auto", tiny)
    (error,) = caught.value.diagnostics
    assert error.code == "E421"
    assert "phases: spatial_axes == 1: 2" in [n.message for n in error.notes]
    low = ird.lower(graph, "auto", tiny, best_effort=True)
    (record,) = low.report
    assert record.reason == "no form meets tiny"
    assert {d.code for d in low.report.diagnostics} == {"W402"}
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


def test_a_form_that_was_asked_for_is_held_to_the_conditions() -> None:
    graph = graph_only(two_d())
    with pytest.raises(ird.TargetError, match="phases violates conditions of tiny"):
        ird.lower(graph, "phases", target("tiny", Convolution="spatial_axes == 1"))
    low = ird.lower(graph, "phases", target("tiny", Convolution="kernel <= 2"))
    assert [r.form for r in low.report] == ["phases"]
    assert ird.lower(graph, "phases").report.diagnostics == ()


def test_packaged_targets_choose() -> None:
    layer = two_d(c=16, m=16, size=(16, 16))
    assert chosen(layer, "zero-insertion-hardware")[0] == "zero-insertion"
    low = ird.lower(graph_only(layer), "auto", "no-depth-to-space").graph
    assert not list(low.nodes("DepthToSpace"))
    assert list(low.nodes("Transpose"))


def test_the_help_names_every_form() -> None:
    assert [*CONDITIONS] == [*FORMS]
    parser = OptionParser("irdeconv", None)
    add_form(parser, none=True)
    text = " ".join(parser.format_help().split())
    assert all(form in text for form in (*FORMS, AUTO))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, out = tmp_path / "net.xml", tmp_path / "low.xml"
    write_ir(net, two_d(), np.ones(two_d().filter_shape))
    (tmp_path / "npu.toml").write_text(
        "[operations]\nConvolution = ['kernel <= 2']\nConcat = []\nReshape = []\n"
    )
    command = ["lower", str(net), "--target", str(tmp_path / "npu.toml")]
    assert main([*command, "--explain-costs", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "deconv: stacked refused: " in text
    assert "1 deconvolution of 1 lowered as auto for npu" in text
    assert main([*command, "--explain-costs", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "npu"
    rows = {c["form"]: c for c in report["layers"][0]["costs"]}
    assert list(rows) == list(FORMS)
    assert rows["phases"]["macs"] == 2 * 2 * 3 * 16 * 3 * 4
    assert rows["phases"]["chosen"]
    (tmp_path / "npu.toml").write_text("[operations]\nConvolution = ['kernel <= 2']\n")
    assert main([*command, "-o", str(tmp_path / "no.xml")]) == 1
    assert not (tmp_path / "no.xml").exists()
    assert "error[E421]" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "no.xml"), "--best-effort"]) == 0
    assert "warning[W402]" in capsys.readouterr().err
    assert main(["lower", str(net), "--form", "gemm"]) == 0
    text = capsys.readouterr().out
    assert "deconv: zero-insertion instead of gemm: the kernel [4, 4]" in text
    assert "1 deconvolution of 1 lowered as gemm, 1 of them as zero-insertion instead; " in text
    assert main(["lower", str(net), "--target", "generc"]) == 2
    assert 'did you mean "generic"?' in capsys.readouterr().err
