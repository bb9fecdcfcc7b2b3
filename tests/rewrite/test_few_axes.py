"""Every form for 1 to 3 spatial axes, groups, strides that differ, biases: exact, with few axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.standardize import standardize
from support import oracle
from support.layers import Layer, build, constant, expected, numbers, result
from support.runtime_truth import outputs

pytestmark = pytest.mark.thorough

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
    rng = np.random.default_rng(9)
    bias = numbers(rng, shape, x.dtype)
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


def onnx_model(layer: Layer, x: Any, w: Any, bias: Any) -> Any:
    """A ConvTranspose alone, with its bias as an input of its own, if any."""
    import onnx
    from onnx import helper, numpy_helper

    filter = w if layer.groups is None else w.reshape(-1, *w.shape[2:])
    tensors = {"w": filter} | ({} if bias is None else {"b": bias})
    node = helper.make_node(
        "ConvTranspose",
        ["x", *tensors],
        ["y"],
        "deconv",
        group=layer.groups or 1,
        kernel_shape=layer.kernel,
        strides=layer.strides,
        dilations=layer.dilations,
        pads=[*layer.pads_begin, *layer.pads_end],
        output_padding=layer.output_padding,
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [info("x", onnx.TensorProto.FLOAT, x.shape)],
        [info("y", onnx.TensorProto.FLOAT, [None] * x.ndim)],
        [numpy_helper.from_array(v, k) for k, v in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.oracles
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_onnx_runtime_computes_the_same_with_few_axes(form: str, bias: bool) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from support.onnx_models import checked, run_onnx

    for layer in layers(form):
        x, w = arrays(layer)
        grouped = w if layer.groups else w[np.newaxis]
        begins = [b for b, _ in layer.window()]
        want = oracle.deconvolution(
            x, grouped, layer.strides, layer.dilations, begins, layer.output_size
        ).astype(np.float32)
        b = numbers(np.random.default_rng(2), (want.shape[1],), np.float32) if bias else None
        if b is not None:
            want = want + b.reshape(per_channel(layer))
        made = onnx_model(layer, x, w, b)
        low = ird.lower_onnx(made.SerializeToString(), form=form)
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
def test_openvino_computes_the_same_with_few_axes(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    for form in FORMS:
        for layer in layers(form):
            x, w = arrays(layer)
            graph, feeds, want = with_bias(layer, x, w, per_channel(layer))
            path = tmp_path / "m.xml"
            ird.write(ird.lower(graph, form).graph, path)
            np.testing.assert_array_equal(
                outputs(path, [feeds["x"]])[0], want, err_msg=f"{form} {layer}"
            )
