"""A random grid over every system's deconvolution: the definition against every way of computing.

Direct, lowered and written (in standard operations) results equal a naive scatter to the bit.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.op import infer_op
from irdeconv.ir.spec import DYNAMIC, Interval, Spec, bounds
from irdeconv.rewrite.standardize import standardize
from support.dialect_layers import (
    INEXACT,
    NHWC,
    ONEDNN,
    ONNX,
    TENSORRT,
    TYPES,
    VERSIONS,
    DialectLayer,
    build,
    data,
    expected,
    problems,
)
from support.dialect_random import random_layer
from support.rows import parts

pytestmark = pytest.mark.thorough

CHUNKS, CASES = 10, 50
DYNAMIC_CHUNKS, DYNAMIC_CASES, LOOSE_CASES = 3, 10, 120
SEED = 20240914
# Sums of products of numbers up to these stay exact: 8 bits of bf16, 11 of f16.
TOPS: dict[str, tuple[Any, int]] = {
    "f32": (np.float32, 9), "f64": (np.float64, 9), "f16": (np.float16, 4),
    "bf16": (ml_dtypes.bfloat16, 1),
}  # fmt: skip

each_version = pytest.mark.parametrize("version", VERSIONS)


def written(graph: Graph) -> Graph:
    """The graph as ird.write spells it."""
    out = standardize(graph)
    assert all(n.op.standard for n in out.nodes())
    return out


def ways(graph: Graph, *, more: bool = False) -> dict[str, Graph]:
    """The same computation as read, lowered, and in standard operations."""
    low = ird.lower(graph).graph
    found = {"direct": graph, "lowered": low, "written": written(graph)}
    return found | {"lowered and written": written(low)} if more else found


def output_spec(graph: Graph) -> Spec:
    graph = ird.infer(graph)
    (sink,) = graph.nodes("Result")
    (spec,) = graph.input_specs(sink.id)
    return spec


def same(layer: DialectLayer, got: Any, want: Any) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    narrow = got.dtype.itemsize == 2
    if layer.get("activation") is None or (layer.get("activation") not in INEXACT and not narrow):
        return np.array_equal(got, want)
    limit = 2e-3 if narrow else 1e-6
    return np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=limit, atol=limit)


def run_case(rng: np.random.Generator, version: str) -> str:
    """Run one random layer in every way; return what became of it."""
    layer = random_layer(rng, version, budget=250)
    if min(layer.output_size) < 1:
        assert [p.code for p in problems(layer)] == ["E306"], layer
        return "empty"
    types = [TOPS[name] for name in TYPES[version] if name in TOPS]
    dtype, top = types[0] if rng.random() < 0.6 else types[int(rng.integers(len(types)))]
    arrays = data(layer, rng, dtype, top)
    assert problems(layer, dtype) == [], layer
    want = expected(layer, *arrays)
    free = tuple(p for p in range(1, len(arrays)) if rng.random() < 0.25)
    graph, feeds = build(layer, arrays, inputs=(0, *free))
    for way, g in ways(graph, more=rng.random() < 0.25).items():
        assert output_spec(g).shape == want.shape, (way, layer)
        got = ird.run(g, feeds, form=None, fuse=False)["y"]
        assert same(layer, got, want), (way, layer, got.ravel()[:9], want.ravel()[:9])
    return str(np.dtype(dtype))


@each_version
@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", parts(4, CHUNKS))
def test_definition_and_every_way_agree(version: str, chunk: int) -> None:
    seen = [
        run_case(np.random.default_rng([SEED, VERSIONS.index(version), chunk, k]), version)
        for k in range(CASES)
    ]
    assert seen.count("empty") <= 0.5 * CASES
    assert {"float32", "float16"} <= set(seen)


def test_output_padding_beyond_what_pads_cut_off_is_written() -> None:
    layer = DialectLayer(ONNX[1], 1, (1,), 1, 1, 1, (2,), {
        "strides": (3,), "pads": (3, 0), "output_padding": (2,)
    })  # fmt: skip
    graph, feeds = build(layer, data(layer, np.random.default_rng(0), np.float32))
    assert layer.output_size == (1,)
    assert ird.run(graph, feeds, form=None, fuse=False)["y"].tolist() == [[[0]]]
    assert ird.run(written(graph), feeds, form=None, fuse=False)["y"].tolist() == [[[0]]]


@pytest.mark.parametrize("step", parts(1, [3, 1]))
def test_the_grid_is_large_enough(step: int) -> None:
    """Over 3,000 layers have a result, and every kind of rule occurs often."""
    grid = [
        random_layer(np.random.default_rng([SEED, v, chunk, k]), version, budget=250)
        for v, version in enumerate(VERSIONS)
        for chunk in range(0, CHUNKS, step)
        for k in range(CASES)
    ]
    legal = [la for la in grid if min(la.output_size) >= 1]
    assert len(legal) >= 3000 // step
    onnx = [la for la in legal if la.version in (*ONNX, *NHWC)]
    kinds = {
        (la.version, la.get("auto_pad"), "output_shape" in la.attributes, la.get("semantics"))
        for la in onnx
    }
    assert len(kinds) == 5 * 4 * 2 * 2
    layouts = {
        (la.get("auto_pad"), la.get("data_format"), la.layout)
        for la in legal
        if la.version == ONEDNN
    }
    assert len(layouts) == 4 * 2 * 4
    assert len({la.get("padding_mode") for la in legal if la.version == TENSORRT}) == 12
    assert len({(la.version, la.get("activation")) for la in legal if la.version in NHWC}) == 14
    assert sum(la.groups > 1 and la.c != la.m for la in legal) > 900 // step
    assert sum(len(set(la.strides)) == la.axes > 1 for la in legal) > 500 // step
    assert sum(la.bias is not None for la in legal) > 1000 // step


def resized(layer: DialectLayer, rng: np.random.Generator) -> DialectLayer:
    size = tuple(int(v) for v in rng.integers(1, (9, 5, 4)[layer.axes - 1] + 1, layer.axes))
    return DialectLayer(**{**vars(layer), "batch": int(rng.integers(1, 4)), "size": size})


@pytest.mark.sampled(2)
@each_version
@pytest.mark.parametrize("chunk", parts(1, DYNAMIC_CHUNKS))
def test_layers_of_unknown_size_run_at_any(version: str, chunk: int) -> None:
    """Lowered and written once with unknown sizes, run at several."""
    runs = 0
    for k in range(DYNAMIC_CASES):
        rng = np.random.default_rng([SEED + 1, VERSIONS.index(version), chunk, k])
        layer = random_layer(rng, version, budget=250)
        if min(layer.output_size) < 1:
            continue
        arrays = data(layer, rng, np.float32)
        channel = len(layer.data_shape) - 1 if layer.channels_last else 1
        known = int(rng.random() < 0.7) * layer.data_shape[channel] or None
        declared = [known if a == channel else None for a in range(layer.axes + 2)]
        graph, _ = build(layer, arrays, data_shape=declared)
        plans = {
            way: ird.compile(g, form=None, fuse=False)
            for way, g in ways(graph, more=rng.random() < 0.25).items()
        }
        for _ in range(3):
            other = resized(layer, rng)
            if problems(other):
                continue
            x = data(other, rng, np.float32)[0]
            want = expected(other, x, *arrays[1:])
            for way, plan in plans.items():
                assert same(other, plan.run({"x": x})["y"], want), (way, other)
            runs += 1
    assert runs > DYNAMIC_CASES


def loose(rng: np.random.Generator, shape: tuple[int, ...], level: float) -> Spec:
    """A spec that allows the shape and says less."""
    if rng.random() < 0.1 * level:
        return Spec(Spec.of(np.zeros(1, np.float32)).dtype, None)
    dims = [
        d if rng.random() > level else DYNAMIC if rng.random() < 0.5 else
        Interval(max(d - int(rng.integers(0, 3)), 0), d + int(rng.integers(0, 3)))
        for d in shape
    ]  # fmt: skip
    return Spec(Spec.of(np.zeros(1, np.float32)).dtype, tuple(
        Interval.of(*bounds(d)) if isinstance(d, Interval) and d.lo == d.hi else d for d in dims
    ))  # fmt: skip


@pytest.mark.sampled(3)
@each_version
def test_less_knowledge_gives_compatible_shapes(version: str) -> None:
    known = 0
    for k in range(LOOSE_CASES):
        rng = np.random.default_rng([SEED + 2, VERSIONS.index(version), k])
        layer = random_layer(rng, version)
        if min(layer.output_size) < 1:
            continue
        specs = tuple(loose(rng, s, float(rng.choice([0.3, 0.7, 1.0]))) for s in layer.shapes)
        (got,) = infer_op(layer.op, specs)
        if got.shape is None:
            assert all(s.shape is None for s in specs[:2])
            continue
        assert len(got.shape) == layer.axes + 2
        for d, n in zip(got.shape, layer.output_shape, strict=True):
            low, high = bounds(d)
            assert low <= n, (layer, specs, got)
            assert high is None or n <= high, (layer, specs, got)
            known += high is not None
    assert known > LOOSE_CASES
