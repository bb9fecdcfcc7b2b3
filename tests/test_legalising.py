"""Every rule of the lowering for targets, forced by a tiny target: numbers, conditions, proof."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.rewrite.emit import RuleCall
from irdeconv.rewrite.legalising import STAGES
from irdeconv.rewrite.lower_convolution import plan_convolution
from irdeconv.rewrite.lower_deconv import IR_STYLE
from support.dialect_layers import ONEDNN, TENSORRT
from support.legal_layers import (
    Subject,
    Written,
    convolution_subject,
    dialect_subject,
    ir_subject,
    onnx_subject,
    random_convolution,
    random_deconvolution,
    target_of,
)
from support.legal_rules import EVERY, SPARE, Rule, both
from support.sweeps import parts

DIALECTS = ("IR", "ONNX", "other")
LAYERS, MANY = 2, 30  # per rule and dialect
SEEDS = parts(LAYERS, MANY)


def subject_of(rule: Rule, dialect: str, seed: int, *, opened: bool = False) -> Subject:
    """A random layer for a rule; every second one has a bias."""
    rng = np.random.default_rng([zlib.crc32(f"{rule.name} {dialect}".encode()), seed])
    bias, free = seed % 2 == 1, rule.open if opened else ()
    if rule.convolution:
        conv = random_convolution(rng, rule.shapes)
        free = tuple(a for a in free if a < conv.axes + 2)
        return convolution_subject(rng, conv, bias=bias, onnx=dialect == "ONNX", free=free)
    layer = random_deconvolution(rng, rule.shapes)
    free = tuple(a for a in free if a < layer.axes + 2)
    if dialect == "IR":
        return ir_subject(rng, layer, bias=bias, free=free)
    if dialect == "ONNX":
        return onnx_subject(rng, layer, bias=bias, free=free)
    flat = layer.axes == 1 or any(layer.output_padding)
    version = ONEDNN if flat else TENSORRT
    return dialect_subject(rng, layer, version, bias=bias, transposes=rule.target.has("Transpose"))


def written(rule: Rule, subject: Subject) -> Written:
    """Lower a layer by a rule, run and check it."""
    form = None if rule.convolution else rule.form
    low = subject.lower(rule.target, form, convolutions=rule.convolution)
    got = low.run()
    assert got.shape == subject.want.shape, subject.note
    assert np.array_equal(got, subject.want), subject.note
    assert all(r.form for r in low.report), subject.note
    return low


def require_rule(rule: Rule, low: Written) -> None:
    """What was to be forced was used."""
    note = f"{low.subject.note}: {low.rules} {low.nodes}"
    used = low.rules
    if rule.convolution and low.report.layers and not low.subject.is_onnx:
        used = convolution_rules(rule, low)
    if rule.uses and not (rule.convolution and low.subject.is_onnx):
        assert not low.report.layers or {*used} & {*rule.uses}, note
    for name in rule.nodes:
        assert any(name in node or written_as(name) in node for node in low.nodes), note
    for name in rule.absent:
        assert name not in low.nodes, note


def written_as(name: str) -> str:
    """ONNX's name of an operation."""
    return {"Multiply": "Mul", "BackpropData": "ConvTranspose"}.get(name, name)


def convolution_rules(rule: Rule, low: Written) -> list[str]:
    """The rules that rewrite a convolution."""
    graph = low.subject.model
    (node,) = (n for n in graph.nodes() if n.name == "conv")
    plan = plan_convolution(graph, node, rule.target, IR_STYLE)
    assert plan is not None
    return [d.rule.__name__ for d in plan.decisions if isinstance(d, RuleCall)]


def is_provable(rule: Rule, low: Written) -> bool:
    """Whether the proof follows what was written (BUGS of the proof are listed here)."""
    kept = low.subject.is_onnx and set(low.nodes) <= {"ConvTranspose"} and not low.rules
    single = rule.convolution and low.subject.is_onnx and set(low.nodes) == {"Conv"}
    chained = "pads_by_convolution" in low.rules
    return rule.proved and not kept and not single and not chained


def require_proof(low: Written) -> None:
    proved, note = low.is_proved()
    if not proved and 'Result "y/' in note:
        pytest.xfail("of a layer and its bias the proof pairs the layer with the sum")
    assert proved, note


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_a_rule_is_exact_and_legal_and_proved(rule: Rule, dialect: str, seed: int) -> None:
    if rule.convolution and dialect == "other":
        return
    subject = subject_of(rule, dialect, seed)
    low = written(rule, subject)
    require_rule(rule, low)
    assert low.violations() == [], subject.note
    if is_provable(rule, low) and low.report.layers:
        require_proof(low)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", parts(1, MANY))
@pytest.mark.parametrize("dialect", ["IR", "ONNX"])
@pytest.mark.parametrize("rule", [r for r in EVERY if r.open], ids=str)
def test_open_sizes(rule: Rule, dialect: str, seed: int) -> None:
    subject = subject_of(rule, dialect, 1000 + seed, opened=True)
    low = written(rule, subject)
    require_rule(rule, low)
    assert low.violations() == [], subject.note
    if is_provable(rule, low) and low.report.layers:
        require_proof(low)  # for some sizes at least


@pytest.mark.thorough
@pytest.mark.oracles
@pytest.mark.parametrize("seed", parts(1, MANY))
@pytest.mark.parametrize("dialect", ["IR", "ONNX"])
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_runtimes_agree(rule: Rule, dialect: str, seed: int) -> None:
    subject = subject_of(rule, dialect, 2000 + seed)
    low = written(rule, subject)
    got = low.run_live()
    assert got.shape == subject.want.shape, subject.note
    assert np.array_equal(got, subject.want), subject.note


# By hand ---------------------------------------------------------------------------------------


def lowered(target: Any, form: str | None, *, seed: int = 0, **sizes: Any) -> Written:
    from support.layers import Layer

    n = len(sizes["size"])
    given: dict[str, Any] = {
        "batch": 1,
        "groups": None,
        "c": 2,
        "m": 3,
        "kernel": (3,) * n,
        "strides": (2,) * n,
        "dilations": (1,) * n,
        "pads_begin": (1,) * n,
        "pads_end": (1,) * n,
        "output_padding": (0,) * n,
    }
    return ir_subject(np.random.default_rng(seed), Layer(**given | sizes)).lower(target, form)


def test_each_stage_has_rules() -> None:
    assert [stage for stage, _, _ in STAGES] == sorted(stage for stage, _, _ in STAGES)


def test_crops_without_a_slice_are_zeros_in_the_filter() -> None:
    target = target_of(without=["Slice", "DepthToSpace", "Transpose", "Concat"])
    low = lowered(target, "zero-insertion", size=(4, 5), pads_begin=(2, 3), pads_end=(0, 4))
    assert low.rules == ["uncropped"]
    assert "StridedSlice" not in low.nodes
    assert np.array_equal(low.run(), low.subject.want)


def test_conditions_of_one_group_count_for_grouped_layers() -> None:
    target = target_of({"Convolution": ["spatial_axes == 2"]}, without=["GroupConvolution"])
    low = lowered(target, None, size=(7,), groups=2)
    assert "as_plane" in low.rules
    assert np.array_equal(low.run(), low.subject.want)


def test_inputs_and_outputs_are_filled_by_different_counts() -> None:
    target = target_of(both("inputs % 4 == 0", "outputs % 8 == 0"))
    low = lowered(target, "zero-insertion", size=(4, 5))
    assert "filled_channels" in low.rules
    assert low.violations() == []


def test_pads_beyond_a_limit_take_several_convolutions() -> None:
    target = target_of(both("pad <= 1"), listed=SPARE)
    low = lowered(
        target, "zero-insertion", size=(4, 5), kernel=(5, 4), pads_begin=(0, 0), pads_end=(0, 0)
    )
    assert low.rules.count("pads_by_convolution") > 1
    assert np.array_equal(low.run(), low.subject.want)


def test_an_open_batch_takes_no_arithmetic_on_sizes() -> None:
    """The target lists none, and none is written."""
    rng = np.random.default_rng(1)
    layer = random_deconvolution(rng, EVERY[3].shapes)
    for target in (target_of(without=["GroupConvolution"]), target_of(both("dilation == 1"))):
        low = ir_subject(rng, layer, free=(0,)).lower(target, "zero-insertion")
        assert "ShapeOf" not in low.nodes


def test_a_stride_in_steps_has_no_output_padding_beyond_it() -> None:
    from support.layers import Layer

    layer = Layer(1, (3, 4), None, 2, 3, (3, 2), (4, 4), (1, 1), (1, 0), (0, 0), (3, 3))
    rng = np.random.default_rng(3)
    listed = ["ConvolutionBackpropData", "GroupConvolutionBackpropData", "Slice"]
    target = target_of({key: ["stride in (1, 2)"] for key in listed[:2]}, listed=listed)
    low = onnx_subject(rng, layer).lower(target)
    assert "stride_in_steps" in low.rules
    assert np.array_equal(low.run(), low.subject.want)


def test_what_no_rule_reaches_is_refused() -> None:
    for target in (
        target_of(both("kernel >= 100")),
        target_of(both("groups == 7")),
        target_of({}, listed=["Reshape"]),
        target_of(head="max_rank = 2"),
    ):
        with pytest.raises(ird.TargetError) as refusal:
            lowered(target, None, size=(4, 5))
        (error,) = refusal.value.diagnostics
        assert error.code == "E421"
