"""How far infinities and NaNs spread: predicted against measured, form by form."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import CONDITIONS
from irdeconv.ir.geometry import IntVector
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.rewrite import forms
from irdeconv.rewrite.builder import GraphBuilder, replace_node
from irdeconv.rewrite.emit import pad_spatial
from irdeconv.rewrite.forms import DEFINITION, FORMS, REACHES, footprint
from irdeconv.rewrite.lower_deconv import canonicalize
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.subpixel import DeconvolutionSite, narrowest, site_of
from irdeconv.rewrite.targets import Target
from support.forms_grid import form_layer
from support.layers import Layer, build, constant, expected, numbers, result
from support.runtime_truth import outputs_of_each
from targets import lacking

pytestmark = pytest.mark.thorough

# The example: a 3x3 filter of stride 2 on a 4x4 map, one bad tap.
SMALL = Layer(1, (4, 4), None, 1, 1, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))


def site(graph: Graph) -> DeconvolutionSite:
    """The numbers of the one deconvolution of a graph."""
    graph = ird.infer(graph)
    (node,) = graph.find("deconv")
    found = site_of(graph, canonicalize(graph, node))
    assert found is not None
    return found


def bad_values(rng: np.random.Generator, array: Any, count: int) -> Any:
    """Put infinities and NaNs at `count` random places; return where."""
    flat = array.reshape(-1)
    places = rng.choice(flat.size, min(count, flat.size), replace=False)
    flat[places] = rng.choice([np.inf, -np.inf, np.nan], places.size)
    return ~np.isfinite(array)


def with_pads_apart(graph: Graph) -> Graph:
    """Return a lowered graph whose convolutions multiply their pads as well, as runtimes may."""

    def build(op: Any, b: GraphBuilder, x: Value, w: Value) -> Value:
        zero = (0,) * len(op.strides)
        x = pad_spatial(b, x, IntVector(op.pads_begin), IntVector(op.pads_end))
        return b.add(replace(op, pads_begin=zero, pads_end=zero), x, w)

    out = graph.copy()
    for node in [n for n in out.nodes() if isinstance(n.op, ConvolutionBase)]:
        if any(node.op.pads_begin + node.op.pads_end):  # type: ignore[attr-defined]
            replace_node(out, node, build)
    return out


def measure(graph: Graph, feeds: Any, form: str) -> Any:
    """What is not finite of the lowered graph's output, or of the definition's.

    Pads of convolutions count as multiplied; a kernel that skips them spoils no other outputs.
    """
    if form == DEFINITION:
        return ~np.isfinite(ird.run(graph, feeds, form=None, exact=True)["y"])
    low = ird.lower(graph, form)
    assert [r.form for r in low.report] == [form]
    every, ours = (
        ~np.isfinite(ird.run(g, feeds, form=None, fuse=False)["y"])
        for g in (with_pads_apart(low.graph), low.graph)
    )
    assert not (ours & ~every).any()
    return every


def applicable(graph: Graph) -> list[str]:
    """The definition and the forms that take the layer; one without a condition must."""
    taken = {f: [r.form for r in ird.lower(graph, f).report] == [f] for f in FORMS}
    assert all(taken[name] or CONDITIONS[name] for name in FORMS)
    return [DEFINITION, *(f for f in FORMS if taken[f])]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(60))
def test_bad_weights_spread_as_predicted(seed: int) -> None:
    rng = np.random.default_rng([55, seed])
    layer = form_layer(rng, budget=300)
    x = numbers(rng, layer.data_shape, np.float32)
    x[rng.random(x.shape) < 0.3] = 0  # zeros in the data are as bad as inserted ones
    w = numbers(rng, layer.filter_shape, np.float32)
    bad = bad_values(rng, w, int(rng.integers(1, 3)))
    graph, feeds = build(layer, x, w)
    for form in applicable(graph):
        want = footprint(REACHES[form], site(graph), bad if layer.groups else bad[None])
        got = measure(graph, feeds, form)
        assert np.array_equal(got, np.broadcast_to(want, got.shape)), (form, layer)


def met(s: DeconvolutionSite, axis: int, form: str) -> Any:
    """Whether an output of an axis multiplies an input element with anything, [O, I]."""
    outputs, inputs = np.arange(s.output[axis])[:, None], np.arange(s.size[axis])
    if form == "stacked":  # the widened filter spans it
        found = narrowest(s.axes[axis], s.size[axis])
        taken = [r for r in found.residues if r.taps]
        low, high = min(r.first for r in taken), max(r.first + r.extent for r in taken)
        offset = inputs - (outputs + found.front) // s.strides[axis]
        return (offset >= low) & (offset < high)
    at = outputs + s.begin[axis] - inputs * s.strides[axis]
    tap, over = np.divmod(at, s.dilations[axis])
    return (over == 0) & (tap >= 0) & (tap < s.kernel[axis])


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(60))
def test_bad_inputs_spread_as_predicted(seed: int) -> None:
    rng = np.random.default_rng([56, seed])
    layer = replace(form_layer(rng, budget=300), batch=1)
    x = numbers(rng, layer.data_shape, np.float32)
    w = numbers(rng, layer.filter_shape, np.float32)
    group = int(rng.integers(layer.groups or 1))
    channel = group * layer.c + int(rng.integers(layer.c))
    bad = bad_values(rng, x[0, channel], 1)
    graph, feeds = build(layer, x, w)
    for form in applicable(graph):
        want = bad.astype(np.int64)
        for axis in range(layer.axes):
            want = np.tensordot(want, met(site(graph), axis, form), ((0,), (1,)))
        got = measure(graph, feeds, form)[0]
        spoilt = got[group * layer.m : (group + 1) * layer.m]
        assert np.array_equal(spoilt, np.broadcast_to(want > 0, spoilt.shape)), (form, layer)
        assert got.sum() == spoilt.sum()


def one_bad_tap(value: float = np.nan) -> tuple[Graph, dict[str, Any]]:
    w = np.ones(SMALL.filter_shape, np.float32)
    w[0, 0, 1, 1] = value
    return build(SMALL, np.ones(SMALL.data_shape, np.float32), w)


def test_one_bad_tap_of_a_3x3() -> None:
    """By the definition 16 of 81 outputs, in zero-insertion all of them."""
    graph, feeds = one_bad_tap()
    low = ird.lower(graph)
    (record,) = low.report
    assert record.spread is not None
    assert record.spread.affected[DEFINITION] == record.spread.affected["phases"] == 16
    assert record.spread.affected["zero-insertion"] == 81
    assert int(measure(graph, feeds, "zero-insertion").sum()) == 81
    (warning,) = low.report.diagnostics
    assert (warning.code, warning.severity) == ("W401", "warning")
    assert "1 of 9 filter values are not finite" in warning.message
    assert "zero-insertion spoils 81 of 81 outputs, the definition 16" in warning.message
    assert "16 as phases" in warning.message
    assert record.to_dict()["spread"]["affected"]["phases"] == 16


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("target", ["generic", lacking("DepthToSpace")], ids=["generic", "lacking"])
def test_auto_avoids_what_spreads(value: float, target: str | Target) -> None:
    graph, feeds = one_bad_tap(value)
    low = ird.lower(graph, "auto", target)
    (record,) = low.report
    assert record.form in ("phases", "stacked")
    refused = {c.form: c.refused for c in record.costs}
    assert refused["zero-insertion"] == "spreads non-finite constants to 81 outputs instead of 16"
    assert int((~np.isfinite(ird.run(low.graph, feeds, form=None, fuse=False)["y"])).sum()) == 16


def test_auto_takes_what_spreads_where_nothing_else_is_left() -> None:
    target = lacking("DepthToSpace", "Transpose", "Concat")  # nothing interleaves
    (record,) = ird.lower(one_bad_tap()[0], "auto", target).report
    assert record.form == "zero-insertion"
    refused = {c.form: c.refused for c in record.costs if not c.chosen}
    for form in ("phases", "stacked"):
        assert "is not in the target's list of operations" in refused[form]


def test_a_finite_filter_gives_no_report() -> None:
    graph, _ = build(
        SMALL, np.ones(SMALL.data_shape, np.float32), np.ones(SMALL.filter_shape, np.float32)
    )
    for form in (*FORMS, "auto"):
        low = ird.lower(graph, form)
        assert [r.spread for r in low.report] == [None]
        assert low.report.diagnostics == ()


def test_bad_bias_spoils_its_channel_in_every_form() -> None:
    layer = replace(SMALL, m=3)
    x, w = np.ones(layer.data_shape, np.float32), np.ones(layer.filter_shape, np.float32)
    graph, feeds = build(layer, x, w)
    bias = constant(graph, np.array([0, np.inf, 1], np.float32).reshape(1, 3, 1, 1), "bias")
    (node,) = graph.find("deconv")
    (sink,) = graph.results
    node.tensor_names = ()
    graph.remove(sink.id)
    result(
        graph, Value(graph.add(REGISTRY["Add", "opset1"](), [Value(node.id), bias], name="b").id)
    )
    low = ird.lower(graph, "phases")
    (record,) = low.report
    assert record.spread is not None
    assert (record.spread.filter_bad, record.spread.bias_bad) == (0, 1)
    assert set(record.spread.affected.values()) == {81}
    assert "1 of 3 bias values are not finite" in low.report.diagnostics[0].message
    assert int((~np.isfinite(ird.run(low.graph, feeds, form=None, fuse=False)["y"])).sum()) == 81


def test_compressed_filters_and_unknown_sizes() -> None:
    w = np.ones(SMALL.filter_shape, np.float16)
    w[0, 0, 0, 0] = np.inf
    x = np.ones(SMALL.data_shape, np.float16)
    graph, _ = build(SMALL, x, w, data_shape=(None, 1, None, None))
    low = ird.lower(graph, "auto")
    (record,) = low.report
    assert record.spread is not None
    assert record.spread.assumed
    assert record.spread.affected[DEFINITION] == 32 * 32
    assert "stand in" in low.report.diagnostics[0].message


def sites() -> Iterator[DeconvolutionSite]:
    r = random.Random(5)
    for _ in range(60):
        kernel, stride, dilation = r.randint(1, 4), r.randint(1, 4), r.randint(1, 3)
        begin, end = r.randint(-3, 3), r.randint(-3, 3)
        yield DeconvolutionSite(
            batch=1, groups=1, c=1, m=2, size=(r.randint(1, 9), 5), kernel=(kernel, 2),
            strides=(stride, 2), dilations=(dilation, 1), begin=(begin, 0), end=(end, 1),
            itemsize=4, constant_filter=True,
        )  # fmt: skip


def test_outputs_that_are_alike_are_counted_once() -> None:
    fewer = 0
    for n, one in enumerate(sites()):
        filter = np.random.default_rng(n).random(one.filter_shape) < 0.3
        fewer += one.class_number(0) < one.output[0]
        for axis in range(2):
            places, counts = one.classes(axis)
            assert (len(places), counts.sum()) == (one.class_number(axis), one.output[axis])
        for reach in REACHES.values():
            assert forms._count(reach, one, filter, None) == footprint(reach, one, filter).sum()
        wanted = sum(
            0 <= s * one.strides[0] + k * one.dilations[0] - one.begin[0] < one.output[0]
            for s in range(one.size[0])
            for k in range(one.kernel[0])
        )
        assert one._pairs(0) == wanted
    assert fewer > 10


# Every form for 1 to 3 spatial axes, groups, strides that differ, biases: exact, with few axes.


STRIDES = {  # by the spatial axes; the second ones are equal, so that DepthToSpace suits
    1: [(3,), (2,)],
    2: [(2, 3), (2, 2), (1, 3), (4, 2)],
    3: [(2, 1, 3), (2, 2, 2), (3, 2, 1)],
}
SIZES, KERNELS = (3, 2, 4), (2, 4, 3)
GROUPS = [(None, 3, 2), (2, 3, 2), (3, 1, 2)]  # g, C/g, M/g
INTERLEAVING = {"DepthToSpace", "Transpose", "Reshape", "Concat"}
CONVOLUTIONS = {"Convolution", "GroupConvolution"}


def layers(form: str) -> Iterator[Layer]:
    """Layers that a form applies to: no two axes alike, pads that differ."""
    for axes, (groups, c, m) in itertools.product(STRIDES, GROUPS):
        for i, strides in enumerate(STRIDES[axes]):
            yield Layer(
                batch=2,
                size=tuple(n + 1 for n in SIZES[:axes]) if axes < 3 else SIZES,
                groups=groups,
                c=c,
                m=m,
                kernel=strides if form == "gemm" else KERNELS[:axes],
                strides=strides,
                dilations=(1,) * axes if form == "gemm" or i == 1 else (1, 2, 1)[:axes],
                pads_begin=(1, 0, 2)[:axes],
                pads_end=(0, 1, 1)[:axes],
                output_padding=(0, 0, strides[-1] - 1)[:axes],
            )


def with_bias(layer: Layer, x: Any, w: Any, shape: tuple[int, ...], first: bool = False) -> Any:
    """Return the graph of a layer with an Add behind it, its feeds, the wanted output."""
    graph, feeds = build(layer, x, w)
    bias = numbers(np.random.default_rng(9), shape, x.dtype)
    (node,), (sink,) = graph.find("deconv"), graph.results
    node.tensor_names = ()
    graph.remove(sink.id)
    inputs = [Value(node.id), constant(graph, bias, "bias")]
    add = graph.add(REGISTRY["Add", "opset1"](), inputs[::-1] if first else inputs, name="add")
    result(graph, Value(add.id))
    return graph, feeds, expected(layer, x, w) + bias


def arrays(layer: Layer) -> tuple[Any, Any]:
    rng = np.random.default_rng([layer.axes, *layer.strides])
    return numbers(rng, layer.data_shape, np.float32), numbers(rng, layer.filter_shape, np.float32)


def per_channel(layer: Layer) -> tuple[int, ...]:
    return (1, layer.m * (layer.groups or 1), *(1,) * layer.axes)


def computed(graph: Graph) -> list[Node]:
    """The nodes of a lowering that compute tensors of floating-point numbers from the data."""
    made = [n for n in graph.topological() if n.origins and n.type not in ("Const", "Convert")]
    return [n for n in made if n.spec().dtype and n.spec().dtype.container.kind == "f"]


def check_axes(graph: Graph, rank: int) -> None:
    """No tensor that a lowering adds has more axes than four or the data."""
    for node in computed(graph):
        assert (node.spec().rank or 99) <= max(4, rank), node


def check_bias(graph: Graph) -> int:
    """Every Add of a lowering stands directly behind a convolution; return how many there are."""
    adds = [n for n in computed(graph) if n.type == "Add"]
    for node in adds:
        assert CONVOLUTIONS & {graph.node(v.node).type for v in graph.inputs_of(node.id)}, node
    return len(adds)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_exact_with_few_axes(form: str, bias: bool) -> None:
    seen = 0
    for layer in layers(form):
        x, w = arrays(layer)
        if bias:
            graph, feeds, want = with_bias(layer, x, w, per_channel(layer), first=bool(seen % 2))
        else:
            (graph, feeds), want = build(layer, x, w), expected(layer, x, w)
        low = ird.lower(graph, form)
        assert [r.form for r in low.report] == [form]
        written = standardize(low.graph)
        for version in (low.graph, written):
            found = ird.run(version, feeds, form=None, fuse=False)["y"]
            np.testing.assert_array_equal(found, want, strict=True, err_msg=str(layer))
        check_axes(written, layer.axes + 2)
        interleaved = INTERLEAVING & {n.type for n in computed(low.graph)}
        assert bool(interleaved) == (form != "zero-insertion" and max(layer.strides) > 1)
        if bias and form != "zero-insertion":
            assert not low.graph.find("bias")
            assert check_bias(low.graph) >= 1
        seen += 1
    assert seen == 3 * sum(map(len, STRIDES.values()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS)
def test_open_sizes_with_few_axes(form: str) -> None:
    """The same graph suits other sizes, with a bias of one number."""
    for layer in layers(form):
        x, w = arrays(layer)
        shape = (None, x.shape[1], *(None,) * layer.axes)
        graph, _ = build(layer, x, w, data_shape=shape)
        low = ird.lower(graph, form)
        assert [r.form for r in low.report] == [form]
        check_axes(standardize(low.graph), layer.axes + 2)
        larger = replace(layer, batch=1, size=tuple(n + 1 for n in layer.size[::-1]))
        data = numbers(np.random.default_rng(4), larger.data_shape, np.float32)
        found = ird.run(standardize(low.graph), {"x": data}, form=None, fuse=False)["y"]
        np.testing.assert_array_equal(found, expected(larger, data, w), strict=True)


SQUARE = Layer(1, (3, 4), None, 2, 3, (3, 4), (2, 2), (1, 1), (1, 0), (0, 1), (0, 0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1), (3, 1, 1), (1, 3, 1, 1)])
def test_shapes_of_a_bias(form: str, shape: tuple[int, ...]) -> None:
    layer = replace(SQUARE, kernel=(2, 2)) if form == "gemm" else SQUARE
    graph, feeds, want = with_bias(layer, *arrays(layer), shape)
    low = ird.lower(graph, form).graph
    found = ird.run(low, feeds, form=None, fuse=False)["y"]
    np.testing.assert_array_equal(found, want, strict=True)
    assert form == "zero-insertion" or check_bias(low) >= 1


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_bias_stays_behind_the_interleaving(form: str) -> None:
    """A number per column, one per output, and an Add of which the deconvolution has a sibling."""
    layer = replace(SQUARE, kernel=(2, 2)) if form == "gemm" else SQUARE
    x, w = arrays(layer)
    for shape in ((layer.output_size[1],), (1, 3, *layer.output_size), (2, 3, 1, 1)):
        graph, feeds, want = with_bias(layer, x, w, shape)
        low = ird.lower(graph, form).graph
        assert low.find("bias")
        found = ird.run(low, feeds, form=None, fuse=False)["y"]
        np.testing.assert_array_equal(found, want, strict=True)
    graph, feeds, want = with_bias(layer, x, w, per_channel(layer))
    (node,) = graph.find("deconv")
    result(graph, Value(node.id), "bare")
    low = ird.lower(graph, form).graph
    found = ird.run(low, feeds, form=None, fuse=False)
    np.testing.assert_array_equal(found["y"], want, strict=True)
    np.testing.assert_array_equal(found["bare"], expected(layer, x, w), strict=True)


# ONNX ----------------------------------------------------------------------------------------


@pytest.mark.oracles
@pytest.mark.sampled(1)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_onnx_runtime_computes_the_same_with_few_axes(form: str, bias: bool) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from legal_layers import deconvolution_model
    from support.onnx_models import checked, run_onnx

    for layer in layers(form):
        x, w = arrays(layer)
        want = expected(layer, x, w)
        b = numbers(np.random.default_rng(2), (want.shape[1],), np.float32) if bias else None
        if b is not None:
            want = want + b.reshape(per_channel(layer))
        low = ird.lower_onnx(deconvolution_model(layer, x, w, b).SerializeToString(), form=form)
        assert [(r.form, r.reason) for r in low.report] == [(form, None)]
        (found,) = run_onnx(checked(low.proto), {"x": x})
        np.testing.assert_array_equal(found, want, strict=True, err_msg=str(layer))
        shaped = onnx.shape_inference.infer_shapes(low.proto, strict_mode=True).graph
        ranks = [len(v.type.tensor_type.shape.dim) for v in (*shaped.value_info, *shaped.output)]
        assert max(ranks) <= max(4, x.ndim)
        nodes = low.proto.graph.node
        assert "Add" not in {n.op_type for n in nodes}
        assert {len(n.input) for n in nodes if n.op_type == "Conv"} <= {2 + bias}


@pytest.mark.oracles
@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS)
def test_openvino_computes_the_same_with_few_axes(form: str, tmp_path: Path) -> None:
    models, wanted = [], []
    for n, layer in enumerate(layers(form)):
        graph, feeds, want = with_bias(layer, *arrays(layer), per_channel(layer))
        ird.write(ird.lower(graph, form).graph, path := tmp_path / f"{n}.xml")
        models.append((path, [feeds["x"]]))
        wanted.append(want)
    for layer, want, (got,) in zip(layers(form), wanted, outputs_of_each(models), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=f"{form} {layer}")
