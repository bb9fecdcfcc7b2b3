"""Profiles of targets: what they are read from, refuse and weigh, and the form chosen by them."""

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
from irdeconv.passes.form_names import AUTO, CONDITIONS
from irdeconv.passes.forms import FORMS
from support.ir_text import write_ir
from support.layers import Layer
from test_costs import graph_only
from test_forms import graph_of, two_d


def chosen(layer: Layer, target: Any, **more: Any) -> tuple[str | None, dict[str, str | None]]:
    (record,) = ird.lower(graph_only(layer, **more), "auto", target).report
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
        (record,) = ird.lower(graph, "auto", Profile(weights=weights)).report
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
    assert chosen(two_d(), Profile(weights=ScoreWeights(1, 0, 0, 0)))[0] == "phases"
    wide = two_d(c=64, m=64, size=(32, 32))
    assert chosen(wide, "generic")[0] == "phases"
    assert chosen(replace(wide, kernel=(2, 2)), "generic")[0] == "gemm"


UPSAMPLED = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))


@pytest.mark.parametrize(
    ("limit", "layer", "form", "reason"),
    [
        ({"max_kernel": 2}, two_d(), "zero-insertion", "kernel 4, the target has at most 2"),
        ({"max_kernel": 2}, two_d(), "phases", None),
        ({"max_stride": 1}, two_d(), "phases", "stride 2, the target has at most 1"),
        (
            {"max_dilation": 1},
            two_d(dilations=(1, 3)),
            "zero-insertion",
            "dilation 3, the target has at most 1",
        ),
        ({"max_groups": 1}, two_d(groups=2), "stacked", "2 groups, the target has at most 1"),
        ({"max_spatial_axes": 1}, two_d(), "gemm", "the kernel [4, 4] is not the stride [2, 2]"),
        ({"max_spatial_axes": 1}, UPSAMPLED, "gemm", "2 spatial axes, the target has 1"),
        ({"pad": False}, two_d(), "phases", "the target does not pad"),
        (
            {"crop": False},
            replace(UPSAMPLED, pads_end=(0, 1)),
            "gemm",
            "the target does not crop",
        ),
        ({"zero_insertion": False}, two_d(), "zero-insertion", "the target inserts no zeros"),
        ({"depth_to_space": False}, two_d(), "phases", None),
        (
            {"depth_to_space": False, "strided_write": False},
            two_d(),
            "phases",
            "the target has no strided write and no interleaving",
        ),
        (
            {"strided_write": False},
            two_d(strides=(2, 3)),
            "stacked",
            "the target has no strided write and no DepthToSpace for this layer",
        ),
        ({"strided_write": False}, two_d(), "stacked", None),
    ],
)
def test_limits_refuse_forms(limit: Any, layer: Layer, form: str, reason: str | None) -> None:
    _, refused = chosen(layer, Profile(**limit))
    assert refused[form] == reason


def test_filters_that_are_no_constants_can_be_refused() -> None:
    form, refused = chosen(two_d(), Profile(non_constant_filters=False), filter_input=True)
    assert form == "zero-insertion"
    reason = "the filter is no constant, the target needs one"
    assert {refused[f] for f in ("zero-insertion", "phases", "stacked")} == {reason}
    assert chosen(two_d(), Profile(non_constant_filters=False))[1]["phases"] is None


def test_alignment_counts_rounded_channels() -> None:
    """C = 2 and M = 3 are rounded up to 8; the stacked form has 12 outputs, rounded to 16."""
    graph = graph_only(two_d())
    weights = ScoreWeights(1, 0, 0, 0)
    (record,) = ird.lower(graph, "auto", Profile(channel_alignment=8, weights=weights)).report
    factors = {c.form: c.score / c.cost.macs for c in record.costs if c.score and c.cost}
    assert factors["zero-insertion"] == factors["phases"] == pytest.approx(4 * 8 / 3)
    assert factors["stacked"] == pytest.approx(4 * 16 / 12)


def test_no_form_suits() -> None:
    graph, feeds, want = graph_of(two_d())
    low = ird.lower(graph, "auto", Profile(name="tiny", max_spatial_axes=1))
    (record,) = low.report
    assert (record.form, record.reason) == ("zero-insertion", "no form suits tiny")
    (warning,) = low.report.diagnostics
    assert warning.code == "W402"
    assert "phases: 2 spatial axes, the target has 1" in warning.message
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


def test_a_form_that_was_asked_for_is_warned_of() -> None:
    graph = graph_only(two_d())
    low = ird.lower(graph, "phases", "zero-insertion-hardware")
    assert [r.form for r in low.report] == ["phases"]
    assert [d.code for d in low.report.diagnostics] == ["W402"]
    assert ird.lower(graph, "phases").report.diagnostics == ()


def test_packaged_profiles() -> None:
    assert profile_names() == ["generic", "no-depth-to-space", "zero-insertion-hardware"]
    assert all(load_profile(name).description for name in profile_names())
    assert load_profile(None).name == "generic"
    layer = two_d(c=16, m=16, size=(16, 16))
    assert chosen(layer, "zero-insertion-hardware")[0] == "zero-insertion"
    low = ird.lower(graph_only(layer), "auto", "no-depth-to-space").graph
    assert not list(low.nodes("DepthToSpace"))
    assert list(low.nodes("Transpose"))


def test_a_profile_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "npu.toml"
    path.write_text('description = "mine"\nmax_kernel = 2\n[weights]\nmac = 0\nnode = 1\n')
    profile = load_profile(path)
    assert profile == Profile(
        "npu", "mine", max_kernel=2, weights=replace(ScoreWeights(), mac=0, node=1)
    )
    assert load_profile(str(path)) == profile
    with pytest.raises(ird.FileAccessError, match=r"E100.*missing\.toml"):
        load_profile(tmp_path / "missing.toml")


def test_every_mistake_of_a_profile_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'max_kernal = 3\nmax_stride = 0\npad = 1\nname = 7\n[weights]\nmacs = 1\nbyte = "x"\n'
    )
    with pytest.raises(ird.UsageError) as raised:
        load_profile(path)
    found = {d.message.split(": ", 1)[1].split(":")[0]: d.hint for d in raised.value.diagnostics}
    assert len(raised.value.diagnostics) == 6
    assert found['there is no key "max_kernal"'] == 'did you mean "max_kernel"?'
    assert "max_stride is a whole number from 1 to 2147483647, not 0" in found
    assert "pad is true or false, not 1" in found
    assert "name is a text, not 7" in found
    path.write_text("max_kernel 3")
    with pytest.raises(ird.UsageError, match="not TOML"):
        load_profile(path)
    with pytest.raises(ird.UsageError, match="there is no target") as unknown:
        load_profile("generik")
    assert unknown.value.diagnostics[0].hint == 'did you mean "generic"?'


def test_the_help_names_every_form() -> None:
    assert [*CONDITIONS] == [*FORMS]
    parser = OptionParser("irdeconv", None)
    add_form(parser, none=True)
    text = " ".join(parser.format_help().split())
    assert all(form in text for form in (*FORMS, AUTO))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, out = tmp_path / "net.xml", tmp_path / "low.xml"
    write_ir(net, two_d(), np.ones(two_d().filter_shape))
    (tmp_path / "npu.toml").write_text("max_kernel = 2\n")
    command = ["lower", str(net), "--form", "auto", "--target", str(tmp_path / "npu.toml")]
    assert main([*command, "--explain-costs", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "deconv: zero-insertion refused: kernel 4, the target has at most 2" in text
    assert "1 deconvolution of 1 lowered as auto for npu" in text
    assert main([*command, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "npu"
    rows = {c["form"]: c for c in report["layers"][0]["costs"]}
    assert list(rows) == list(FORMS)
    assert rows["phases"]["macs"] == 2 * 2 * 3 * 16 * 3 * 4
    assert rows["zero-insertion"]["refused"] == "kernel 4, the target has at most 2"
    assert main(["lower", str(net), "--form", "gemm"]) == 0
    text = capsys.readouterr().out
    assert "deconv: zero-insertion instead of gemm: the kernel [4, 4]" in text
    assert "1 deconvolution of 1 lowered as gemm, 1 of them as zero-insertion instead; " in text
    assert main(["lower", str(net), "--target", "generc"]) == 2
    assert 'did you mean "generic"?' in capsys.readouterr().err
