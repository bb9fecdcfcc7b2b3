"""Filters that are stored in few bits stay so in every form, zero points and scales included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.rewrite.compressed_filters import stored
from support.layers import Layer, constant, expected, parameter, result

FORMS = ["zero-insertion", "phases", "stacked", "auto"]
LAYER: dict[str, Any] = {
    "batch": 2,
    "size": (3, 4),
    "kernel": (3, 2),
    "strides": (2, 3),
    "dilations": (1, 2),
    "pads_begin": (1, 0),
    "pads_end": (0, 2),
    "output_padding": (1, 0),
}
PLAIN, GROUPED = Layer(groups=None, c=3, m=2, **LAYER), Layer(groups=2, c=3, m=2, **LAYER)
GEMM = Layer(
    **LAYER | {"kernel": (2, 3), "strides": (2, 3), "dilations": (1, 1), "pads_begin": (0, 0)}
    | {"pads_end": (0, 0), "output_padding": (0, 0)},
    groups=None, c=3, m=2,
)  # fmt: skip
# Along which axes of [C/g, M/g, *K] zero points and scales change.
PER = {"tensor": (), "input channel": (0,), "output channel": (1,)}
TYPES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}


def op(type: str, *args: Any) -> Any:
    return REGISTRY[type, "opset1"](*args)


def parameters(shape: tuple[int, ...], per: str, groups: bool) -> tuple[int, ...]:
    """Return the shape of zero points and scales; those of groups differ, too."""
    axes = [a + groups for a in PER[per]] + [0] * (groups and per != "tensor")
    return tuple(n if a in axes else 1 for a, n in enumerate(shape))


def quantized(layer: Layer, stored_in: str, per: str) -> tuple[Graph, Any, Any]:
    """Return a graph, its data and its filter: (levels - zero points) * scales, exactly."""
    rng = np.random.default_rng(len(stored_in + per))
    low, high = TYPES[stored_in]
    shape = layer.filter_shape
    some = parameters(shape, per, layer.groups is not None)
    levels = rng.integers(low, high + 1, shape)
    zeros = rng.integers(low // 2 + 1, high // 2 + 1, some)
    scales = 2.0 ** rng.integers(-3, 2, some)
    container = ELEMENT_TYPES[stored_in].container
    g = Graph()
    x = rng.integers(-9, 10, layer.data_shape).astype(np.float32)
    data = parameter(g, x.shape, np.float32, "x")
    f32 = ELEMENT_TYPES["f32"]
    w, z = (constant(g, v.astype(container), f"{v.shape}", stored_in) for v in (levels, zeros))
    w, z = (Value(g.add(op("Convert", f32), [v], name=f"{v.node}").id) for v in (w, z))
    w = Value(g.add(op("Subtract"), [w, z], name="centered").id)
    s = constant(g, scales.astype(np.float32), "scales")
    w = Value(g.add(op("Multiply"), [w, s], name="filter").id)
    result(g, Value(g.add(layer.op, [data, w], name="deconv").id))
    return g, x, ((levels - zeros) * scales).astype(np.float32)


def filters(graph: Graph) -> list[tuple[Node, Any]]:
    nodes = [*graph.nodes("Convolution"), *graph.nodes("GroupConvolution")]
    return [(n, stored(graph, graph.inputs_of(n.id)[1])) for n in nodes]


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("stored_in", TYPES)
@pytest.mark.parametrize(
    "layer", [PLAIN, GROUPED, GEMM], ids=["plain", "grouped", "kernel is stride"]
)
def test_every_form_keeps_the_bits(layer: Layer, stored_in: str, per: str) -> None:
    g, x, w = quantized(layer, stored_in, per)
    y = expected(layer, x, w)
    for form in FORMS:
        lowered = ird.lower(g, form).graph
        found = filters(lowered)
        assert found
        for node, filter in found:
            assert filter is not None, (form, node)
            assert str(filter.dtype) == stored_in
            assert [s.node.type for s in filter.steps] == ["Convert", "Subtract", "Multiply"]
            small = sum(p.values.size for s in filter.steps for p in s.parameters)
            assert small <= max(filter.values.size, 4 * w.size)
        assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], y), form
        assert ird.certify(g, lowered), form


@pytest.mark.parametrize("form", FORMS)
def test_quantized_by_fake_quantize(form: str) -> None:
    """Data and filter in f32, as training leaves them; 0 is a level of both."""
    _, x, w = quantized(GROUPED, "i8", "tensor")
    graph = Graph()
    y = parameter(graph, x.shape, np.float32, "x")
    limits = [[constant(graph, np.float32(v), str(v)) for v in (-128, 127, -64, 63.5)]] * 2
    y = Value(graph.add(op("FakeQuantize", 256), [y, *limits[0]], name="levels of x").id)
    inputs = [constant(graph, w, "w"), *limits[1]]
    filter = Value(graph.add(op("FakeQuantize", 256), inputs, name="filter").id)
    result(graph, Value(graph.add(GROUPED.op, [y, filter], name="deconv").id))
    lowered = ird.lower(graph, form).graph
    wanted = expected(GROUPED, x / 2, np.clip(np.round(w), -128, 127) / 2)
    assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], wanted)
    assert ird.certify(graph, lowered)


def test_a_zero_that_has_no_number_stays_outside() -> None:
    """Zero points of 0.5: what pads the filter is no level of it."""
    g, x, _ = quantized(PLAIN, "u8", "tensor")
    node = next(n for n in g.nodes() if n.name == "centered")
    g.replace_uses(g.inputs_of(node.id)[1], constant(g, np.float32(0.5), "half"))
    (before,) = ird.run(g, {"x": x}).values()
    for form in FORMS:
        lowered = ird.lower(g, form).graph
        assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], before)


@pytest.mark.oracles
@pytest.mark.parametrize("per", ["tensor", "output channel"])
def test_openvino_executes_them(per: str, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    for layer in (PLAIN, GROUPED, GEMM):
        g, x, w = quantized(layer, "u8", per)
        for form in FORMS:
            path = tmp_path / f"{form}.xml"
            ird.write(ird.lower(g, form), path)
            compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            assert np.array_equal(compiled([x])[0], expected(layer, x, w)), form
