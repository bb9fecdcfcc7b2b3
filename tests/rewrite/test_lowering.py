"""Lowering, and legalising for a target."""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval
from irdeconv.ops import core
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Result
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData as Conv
from irdeconv.ops.dialect_openvino import GroupConvolutionBackpropData as GroupConv
from irdeconv.ops.movement import Pad1
from irdeconv.rewrite import planning
from irdeconv.rewrite.builder import DEFAULT_STYLE
from irdeconv.rewrite.emit import RuleCall
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.legalising import STAGES
from irdeconv.rewrite.lower_deconv import plan_convolution
from irdeconv.verify.second_check import AGREES, NOT_APPLICABLE
from legal_layers import (
    EVERY,
    SPARE,
    Rule,
    Subject,
    Written,
    both,
    convolution_subject,
    dialect_subject,
    ir_subject,
    onnx_subject,
    random_convolution,
    random_deconvolution,
    target_of,
)
from legal_layers import Conv as Ordinary
from support import layers
from support.dialect_layers import ONEDNN, TENSORRT
from support.ir_text import write_ir
from support.rows import each_row, parts
from support.second import second_answer

# What lowering makes of a graph: its language, names, places, filters, shapes and report.

F32 = np.float32
ENDS = {"Parameter", "Result", "Const"}
DATA = {"ZeroInsertion", "Pad", "StridedSlice", "Convolution", "GroupConvolution"}
FILTER = {"Slice", "Transpose", "Squeeze", "Unsqueeze"}
SIZES = {"ShapeOf", "Gather", "Concat", "Convert", "Add", "Subtract", "Multiply", "Divide"}
SIZES |= {"Maximum"}


def types(graph: Graph) -> set[str]:
    return {n.type for n in graph.nodes()}


def two_d(**changes: Any) -> layers.Layer:
    """g = 2, C/g = 3, M/g = 2, other numbers on each axis."""
    layer = layers.Layer(2, (3, 4), 2, 3, 2, (3, 2), (2, 3), (1, 2), (1, 0), (0, 2), (1, 0))
    return replace(layer, **changes)


def arrays(layer: layers.Layer, seed: int = 5, dtype: Any = F32) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return layers.numbers(rng, layer.data_shape, dtype), layers.numbers(
        rng, layer.filter_shape, dtype
    )


def zero_insertion_nodes(layer: layers.Layer) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """The operations of zero-insertion, and the pads of its convolution, axis by axis.

    An axis of I elements becomes S*I with its zeros; the window begins at `begin` of the scatter.
    Zeros join by a Pad. If something is cropped they are pads of the convolution instead, unless
    the crop leaves nothing of the data.
    """
    amounts, own = [], []
    rows = (layer.size, layer.strides, layer.dilations, layer.kernel, layer.window())
    for i, s, d, k, (begin, size) in zip(*rows, strict=True):
        amounts.append((d * (k - 1) - begin, begin + size - s * i))
        lowest, highest = min(amounts[-1]), max(amounts[-1])
        own.append((0, 0) if lowest < 0 < highest and s * i <= -lowest else amounts[-1])
    if min(map(min, amounts)) >= 0:
        own = [(0, 0)] * layer.axes
    own = [(max(p, 0), max(q, 0)) for p, q in own]
    pads = [max(a) > 0 and not any(o) for a, o in zip(amounts, own, strict=True)]
    nodes = {
        "ZeroInsertion": set(layer.strides) != {1},
        "Pad": any(pads),
        "StridedSlice": min(map(min, amounts)) < 0,
        "Convolution" if (layer.groups or 1) == 1 else "GroupConvolution": True,
    }
    return tuple(n for n, used in nodes.items() if used), own


@each_row("seed", range(40))
def test_constant_layers_become_at_most_four_operations(seed: int) -> None:
    layer = layers.random_layer(np.random.default_rng([7, seed]), budget=300)
    if min(layer.output_size) < 0:
        layer = replace(layer, pads_begin=(0,) * layer.axes, pads_end=(0,) * layer.axes)
    graph, _ = layers.build(layer, *arrays(layer))
    low = ird.lower(graph)
    assert types(low.graph) <= ENDS | DATA
    (record,) = low.report
    nodes, pads = zero_insertion_nodes(layer)
    assert record.nodes == nodes
    for insertion in low.graph.nodes("ZeroInsertion"):
        assert insertion.op == core.ZeroInsertion(layer.strides, trailing=True)
    assert {type(n.op) for n in low.graph.nodes("Pad")} <= {Pad1}
    (conv,) = low.graph.nodes(record.nodes[-1])
    assert set(conv.op.strides) == {1}  # type: ignore[attr-defined]
    assert [*zip(conv.op.pads_begin, conv.op.pads_end, strict=True)] == pads  # type: ignore[attr-defined]
    assert conv.op.dilations == layer.dilations  # type: ignore[attr-defined]


@each_row("seed", range(40))
def test_dynamic_layers_add_only_filter_and_size_arithmetic(seed: int) -> None:
    rng = np.random.default_rng([8, seed])
    layer = layers.random_layer(rng, budget=300)
    graph, _ = layers.build(
        layer,
        *arrays(layer),
        filter_input=bool(seed % 2),
        shape_source=str(rng.choice(["input", "computed"])),
        data_shape=[None] * (layer.axes + 2),
    )
    low = ird.lower(graph).graph
    assert types(low) <= ENDS | DATA | FILTER | SIZES
    low.lint()
    assert ird.dump(ird.lower(low).graph) == ird.dump(low)


def test_names_places_origins_and_tensor_names_are_kept(tmp_path: Path) -> None:
    layer = two_d()
    write_ir(tmp_path / "net.xml", layer, arrays(layer)[1])
    graph = ird.read(tmp_path / "net.xml")
    low = ird.lower(graph).graph
    (old,), (new,) = graph.find("deconv"), low.find("deconv")
    assert new.type == "GroupConvolution"
    assert new.tensor_names == old.tensor_names == (("y",),)
    assert low.inputs == graph.inputs == ["x"]
    assert low.outputs == graph.outputs == ["y"]
    made = [n for n in low.nodes() if n.type in DATA]
    names = ["deconv/ZeroInsertion", "deconv/StridedSlice", "deconv"]
    assert [n.name for n in made] == names
    for n in made:
        assert n.origins == ("deconv",)
        assert str(n.location) == str(old.location)
    names = [n.name for n in low.nodes()]
    assert len(set(names)) == len(names)


def test_names_that_tell_the_type_tell_the_new_one() -> None:
    g = Graph()
    x, w = (
        layers.parameter(g, (1, 1, 3), F32, "x"),
        layers.constant(g, np.ones((1, 1, 2), F32), "w"),
    )
    node = g.add(Conv(strides=(2,)), [x, w], name="up.0/ConvolutionBackpropData")
    layers.result(g, Value(node.id))
    low = ird.lower(g)
    assert [n.name for n in low.graph.nodes("Convolution")] == ["up.0/Convolution"]
    assert [r.name for r in low.report] == ["up.0/ConvolutionBackpropData"]


def test_the_source_graph_is_untouched() -> None:
    layer = two_d()
    graph, feeds = layers.build(layer, *arrays(layer))
    before = ird.dump(graph)
    ird.lower(graph)
    ird.run(graph, feeds, fuse=False)
    assert ird.dump(graph) == before


def values(graph: Graph, node: Node) -> Any:
    return node.op.data.array()  # type: ignore[attr-defined]


def test_a_shared_filter_stays_intact() -> None:
    """One constant feeds two unlike deconvolutions and an output."""
    g = Graph()
    w = np.arange(1, 13, dtype=F32).reshape(2, 2, 3)
    x = layers.parameter(g, (1, 2, 4), F32, "x")
    shared = layers.constant(g, w, "w")
    g.node(shared.node).tensor_names = (("w",),)
    a = g.add(Conv(strides=(2,)), [x, shared], name="a")
    b = g.add(Conv(strides=(3,), pads_begin=(1,)), [x, shared], name="b")
    layers.result(g, Value(a.id), "ya")
    layers.result(g, Value(b.id), "yb")
    g.add(Result(), [shared], name="w/sink")
    low = ird.lower(g).graph
    assert np.array_equal(values(low, low.node(shared.node)), w)
    feeds = {"x": np.arange(8, dtype=F32).reshape(1, 2, 4)}
    direct, lowered = (ird.run(graph, feeds, form=None, fuse=False) for graph in (g, low))
    assert np.array_equal(lowered["w"], w)
    for name in ("ya", "yb"):
        assert np.array_equal(direct[name], lowered[name])
    assert np.array_equal(w, np.arange(1, 13, dtype=F32).reshape(2, 2, 3))


def test_the_lowered_filter_is_flipped_and_regrouped() -> None:
    w = np.arange(24, dtype=F32).reshape(2, 3, 2, 2)  # g, C/g, M/g, K
    layer = two_d(size=(3,), kernel=(2,), strides=(2,), dilations=(1,), pads_begin=(0,))
    layer = replace(layer, pads_end=(0,), output_padding=(0,))
    graph, _ = layers.build(layer, arrays(layer)[0], w)
    low = ird.lower(graph).graph
    (conv,) = low.nodes("GroupConvolution")
    new = values(low, low.node(low.inputs_of(conv.id)[1].node))
    assert new.shape == (2, 2, 3, 2)  # g, M/g, C/g, K
    for g, m, c, k in np.ndindex(*new.shape):
        assert new[g, m, c, k] == w[g, c, m, 1 - k]


@pytest.mark.parametrize("groups", [None, 2])
def test_compressed_filters_stay_compressed(groups: int | None) -> None:
    layer = two_d(groups=groups)
    x, w = arrays(layer)
    g, data = layers.begun(x.shape)
    half = layers.constant(g, w.astype(np.float16), "half")
    convert = REGISTRY["Convert", "opset1"](destination_type=ELEMENT_TYPES["f32"])  # type: ignore[call-arg]
    full = g.add(convert, [half], name="full")
    full.rt_info = '<rt_info><attribute name="decompression" version="0"/></rt_info>'
    node = g.add(layer.op, [data, Value(full.id)], name="deconv")
    layers.result(g, Value(node.id))
    low = ird.lower(g).graph
    (kept,) = low.nodes("Convert")
    assert kept.rt_info == full.rt_info
    source = low.node(low.inputs_of(kept.id)[0].node)
    assert str(source.spec()) == f"f16[{'2,2,3' if groups else '2,3'},3,2]"
    assert [n for n in low.nodes("Const") if n.spec().dtype == ELEMENT_TYPES["f32"]] == []
    for form in ("zero-insertion", "stacked"):
        low = ird.lower(g, form).graph
        assert [n for n in low.nodes("Const") if n.spec().dtype == ELEMENT_TYPES["f32"]] == []
        assert len(list(low.nodes("Convert"))) == 1
        y = ird.run(low, {"x": x}, form=None, fuse=False)["y"]
        assert np.array_equal(y, layers.expected(layer, x, w))


@pytest.mark.parametrize("groups", [None, 1, 3])
def test_filters_that_are_no_constants(groups: int | None) -> None:
    layer = two_d(groups=groups)
    x, w = arrays(layer)
    graph, feeds = layers.build(layer, x, w, filter_input=True)
    low = ird.lower(graph).graph
    assert {"Slice", "Transpose"} <= types(low)
    for weights in (w, -w[..., ::-1]):
        feeds["w"] = np.ascontiguousarray(weights)
        y = ird.run(low, feeds, form=None, fuse=False)["y"]
        assert np.array_equal(y, layers.expected(layer, x, feeds["w"]))


def test_unknown_batch_and_sizes_keep_what_is_known() -> None:
    layer = two_d()
    x, w = arrays(layer)
    graph, _ = layers.build(layer, x, w, data_shape=(None, 6, None, 4))
    low = ird.lower(graph).graph
    (conv,) = low.find("deconv")
    batch, channels, height, width = conv.spec().shape or ()
    assert isinstance(batch, Interval)
    assert isinstance(height, Interval)
    assert (batch.hi, channels, height.hi, width) == (None, 4, None, 10)
    # Pads do not depend on the data's size, so they are constants.
    assert types(low) <= ENDS | DATA


def test_the_report_counts_products() -> None:
    layer = two_d()
    graph, _ = layers.build(layer, *arrays(layer))
    (record,) = ird.lower(graph).report
    assert layer.output_size == (7, 10)
    assert record.to_dict() == {
        "name": "deconv",
        "type": "GroupConvolutionBackpropData",
        "form": "zero-insertion",
        "reason": None,
        "macs_direct": 2 * 6 * 12 * 2 * 6,  # N * C * I * M/g * K
        "macs_lowered": 2 * 4 * 70 * 3 * 6,  # N * M * O * C/g * K
        "nodes": ["ZeroInsertion", "StridedSlice", "GroupConvolution"],
    }


def test_the_report_of_unknown_sizes_has_no_products() -> None:
    layer = two_d()
    graph, _ = layers.build(layer, *arrays(layer), data_shape=(None, 6, None, None))
    (record,) = ird.lower(graph).report
    assert (record.macs_direct, record.macs_lowered) == (None, None)


def test_the_report_of_a_graph_without_deconvolutions() -> None:
    g = Graph()
    layers.result(g, layers.parameter(g, (1, 2), F32, "x"))
    low = ird.lower(g)
    assert len(low.report) == 0
    assert str(low.report) == "no deconvolutions"
    assert low.report.to_dict() == {"form": "zero-insertion", "layers": [], "diagnostics": []}
    assert types(low.graph) == {"Parameter", "Result"}


def test_the_canonical_operation_is_lowered_too() -> None:
    layer = two_d()
    x, w = arrays(layer)
    g = Graph()
    inputs = [layers.parameter(g, x.shape, F32, "x"), layers.constant(g, w, "w")]
    ends = [f - b - o for f, (b, o) in zip(map(layer.full, range(2)), layer.window(), strict=True)]
    inputs.append(layers.constant(g, np.array([b for b, _ in layer.window()], np.int64), "begin"))
    inputs.append(layers.constant(g, np.array(ends, np.int64), "end"))
    node = g.add(core.Deconvolution(layer.strides, layer.dilations), inputs, name="deconv")
    layers.result(g, Value(node.id))
    want = layers.expected(layer, x, w)
    assert np.array_equal(ird.run(g, {"x": x}, form=None, fuse=False)["y"], want)
    assert np.array_equal(ird.run(g, {"x": x}, form="zero-insertion", fuse=False)["y"], want)


def test_every_deconvolution_that_cannot_be_lowered_is_listed() -> None:
    g = Graph()
    for name in ("a", "b"):
        x = layers.parameter(g, (), F32, f"{name}/x")
        w = layers.parameter(g, (), F32, f"{name}/w")
        for v in (x, w):
            old = g.node(v.node).op
            g.replace_op(v.node, replace(old, shape=None))  # type: ignore[call-arg]
        node = g.add(GroupConv(), [x, w], name=name)
        layers.result(g, Value(node.id), f"{name}/y")
    with pytest.raises(ird.LoweringError) as raised:
        ird.lower(g)
    assert [(d.code, d.layer) for d in raised.value.diagnostics] == [("E400", "a"), ("E400", "b")]


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("behind", [False, True])
def test_a_deconvolution_that_no_output_needs_does_no_harm(form: str, behind: bool) -> None:
    """What the source has beside its outputs stays; a lowering that nothing reads does not."""
    layer = two_d()
    x, w = (np.ones(s, F32) for s in (layer.data_shape, layer.filter_shape))
    graph, _ = layers.build(layer, x, w)
    unread = Value(next(n.id for n in graph.nodes() if n.type == layer.op.type))
    if behind:
        graph.add(ReLU(), [unread], name="unread")
    graph.remove(graph.results[0].id)
    layers.result(graph, Value(graph.parameters[0].id), "same")
    kinds = types(ird.lower(ird.infer(graph), form).graph)
    assert ("ReLU" in kinds) == bool(kinds & {"Convolution", "GroupConvolution"}) == behind
    assert layer.op.type not in kinds


# Every rule of the lowering for targets, forced by a tiny target: numbers, conditions, proof.

DIALECTS = ("IR", "ONNX", "other")
SEEDS = parts(1, [range(1), range(1, 30)])  # layers of each rule and dialect


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


@pytest.mark.parametrize("free", [(3,), (0, 2, 3)])
@pytest.mark.parametrize("limit", ["pad == 0", "kernel <= 2"])
@pytest.mark.parametrize("onnx", [False, True])
def test_strides_of_one_channel_over_an_open_axis(
    onnx: bool, limit: str, free: tuple[int, ...]
) -> None:
    """A last axis that has one output at some size is read with spare outputs behind it."""
    rng = np.random.default_rng(len(limit))
    for size in ((6, 5), (4, 2)):
        rest = ((2, 3), (2, 3), (1, 1), (1, 1), (0, 0))
        layer = Ordinary(2, size, 1, 1, 2, *rest)
        subject = convolution_subject(rng, layer, bias=True, onnx=onnx, free=free)
        low = subject.lower(target_of({"Convolution": [limit]}), convolutions=True)
        assert np.array_equal(low.run(), subject.want)
        assert np.array_equal(low.run_live(), subject.want)
        assert not low.violations()
        assert low.is_proved()


def test_parts_of_a_kernel_that_read_nothing_at_some_size() -> None:
    layer = Ordinary(2, (6,), 1, 1, 2, (4,), (2,), (2,), (2,), (2,))
    subject = convolution_subject(
        np.random.default_rng(1), layer, bias=False, onnx=False, free=(2,)
    )
    low = subject.lower(target_of({"Convolution": ["kernel in (1, 3)"]}), convolutions=True)
    assert "Concat" in low.nodes
    assert low.is_proved()


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
        other = {"Multiply": "Mul", "BackpropData": "ConvTranspose"}.get(name, name)  # in ONNX
        assert any(name in node or other in node for node in low.nodes), note
    for name in rule.absent:
        assert name not in low.nodes, note


def convolution_rules(rule: Rule, low: Written) -> list[str]:
    """The rules that rewrite a convolution."""
    graph = low.subject.model
    (node,) = (n for n in graph.nodes() if n.name == "conv")
    plan = plan_convolution(graph, node, rule.target, DEFAULT_STYLE)
    assert plan is not None
    return [d.rule.__name__ for d in plan.decisions if isinstance(d, RuleCall)]


@pytest.mark.sampled(40)
@pytest.mark.thorough
@pytest.mark.parametrize("seeds", SEEDS, ids=len)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_a_rule_is_exact_and_legal_and_proved(rule: Rule, dialect: str, seeds: range) -> None:
    if rule.convolution and dialect == "other":
        return
    for seed in seeds:
        subject = subject_of(rule, dialect, seed)
        low = written(rule, subject)
        require_rule(rule, low)
        assert low.violations() == [], subject.note
        assert low.is_proved(), subject.note
        if dialect != "ONNX" and not rule.convolution and low.report.layers:
            verdict, text = second_answer(subject.model, low.model)
            answers = (AGREES, NOT_APPLICABLE) if rule.chained else (AGREES,)
            assert verdict in answers, (subject.note, text)


@pytest.mark.sampled(40)
@pytest.mark.thorough
@pytest.mark.parametrize("seeds", SEEDS, ids=len)
@pytest.mark.parametrize("dialect", ["IR", "ONNX"])
@pytest.mark.parametrize("rule", [r for r in EVERY if r.open], ids=str)
def test_open_sizes(rule: Rule, dialect: str, seeds: range) -> None:
    for seed in seeds:
        subject = subject_of(rule, dialect, 1000 + seed, opened=True)
        low = written(rule, subject)
        require_rule(rule, low)
        assert low.violations() == [], subject.note
        assert low.is_proved(), subject.note


@pytest.mark.sampled(40)
@pytest.mark.thorough
@pytest.mark.oracles
@pytest.mark.parametrize("seeds", SEEDS, ids=len)
@pytest.mark.parametrize("dialect", ["IR", "ONNX"])
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_runtimes_agree(rule: Rule, dialect: str, seeds: range) -> None:
    for seed in seeds:
        subject = subject_of(rule, dialect, 2000 + seed)
        got = written(rule, subject).run_live()
        assert got.shape == subject.want.shape, subject.note
        assert np.array_equal(got, subject.want), subject.note


# By hand ---------------------------------------------------------------------------------------


def lowered(
    target: Any, form: str | None, *, seed: int = 0, best_effort: bool = False, **sizes: Any
) -> Written:
    zeros, ones, twos, threes = ((v,) * len(sizes["size"]) for v in range(4))
    layer = layers.Layer(1, zeros, None, 2, 3, threes, twos, ones, ones, ones, zeros)
    subject = ir_subject(np.random.default_rng(seed), replace(layer, **sizes))
    return subject.lower(target, form, best_effort=best_effort)


def test_each_stage_has_rules() -> None:
    assert [stage for stage, _, _ in STAGES] == sorted(stage for stage, _, _ in STAGES)


def test_crops_without_a_slice_are_zeros_in_the_filter() -> None:
    target = target_of(without=["Slice", "DepthToSpace", "Transpose", "Concat"])
    low = lowered(target, "zero-insertion", size=(4, 5), pads_begin=(2, 3), pads_end=(0, 4))
    assert low.rules == ["uncropped"]
    assert "StridedSlice" not in low.nodes
    assert np.array_equal(low.run(), low.subject.want)


def test_copies_of_data_of_which_the_last_ones_are_not_read() -> None:
    deconvolution = ["kernel == 2", "stride == 2", "pad == 0", "output_padding == 0"]
    listed = ["ConvolutionBackpropData", "Convolution", "Add", "Slice"]
    target = target_of({listed[0]: deconvolution}, listed=listed)
    wide = dict.fromkeys(("kernel", "strides"), (16, 16))
    low = lowered(target, None, size=(2, 3), **wide, pads_begin=(0, 0), pads_end=(2, 7))
    assert "stride_by_copies" in low.rules
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
    layer = layers.Layer(1, (3, 4), None, 2, 3, (3, 2), (4, 4), (1, 1), (1, 0), (0, 0), (3, 3))
    rng = np.random.default_rng(3)
    listed = ["ConvolutionBackpropData", "GroupConvolutionBackpropData", "Slice"]
    target = target_of({key: ["stride in (1, 2)"] for key in listed[:2]}, listed=listed)
    low = onnx_subject(rng, layer).lower(target)
    assert "stride_in_steps" in low.rules
    assert np.array_equal(low.run(), low.subject.want)


def test_a_refusal_says_that_the_search_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_OPERATIONS", 20)
    with pytest.raises(ird.TargetError) as refusal:
        lowered(target_of(both("kernel >= 100")), None, size=(4, 5))
    (error,) = refusal.value.diagnostics
    assert any(planning.STOPPED in note.message for note in error.notes)


@pytest.mark.parametrize("condition", ['type == "f16"', "batch == 2"])
def test_a_batch_or_type_that_no_rule_changes_ends_the_search(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with --best-effort, which wants the spelling with the fewest violations."""
    monkeypatch.setattr(planning, "FEW_OPERATIONS", 5)
    target = target_of(both("kernel <= 2", "pad == 0", condition))
    with pytest.raises(ird.TargetError) as refusal:
        lowered(target, None, size=(4, 5))
    (error,) = refusal.value.diagnostics
    assert any(planning.VAIN in note.message for note in error.notes)
    assert not any(planning.STOPPED in note.message for note in error.notes)
    report = lowered(target, None, size=(4, 5), best_effort=True).report
    notes = [note.message for d in report.diagnostics for note in d.notes]
    assert any(condition in note for note in notes)
    assert not any(planning.VAIN in note for note in notes)


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
