"""Lowered quantized deconvolutions give the original's result in OpenVINO's int8 pipeline.

Its low precision transformations change what a graph computes where they have faults, so a proof
about the graph does not cover this: every spelling that a lowering emits runs here.
"""

from typing import Any

import numpy as np
import pytest

from int8_peers import (
    TOLERANCE,
    QuantizedLayer,
    data,
    difference,
    fake_quantized,
    filter_of,
    int8_differences,
    model,
    run,
    spelled,
)
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.rewrite.runtime_faults import FAULTS
from support.layers import constant, parameter, result

pytestmark = [pytest.mark.oracles, pytest.mark.thorough]

FORMS = ("zero-insertion", "phases", "stacked", "gemm", "auto")
SIZES = {1: (7,), 2: (4, 5), 3: (3, 4, 3)}
STRIDES = [
    *((s,) for s in (1, 2, 3, 4)),
    *((1, 1), (1, 2), (3, 1), (2, 2), (4, 3)),
    *((1, 1, 2), (2, 1, 1), (1, 3, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2)),
]
ZERO_POINTS = (0, 3, 64, 128, 255)


def kernels(strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The kernel is the stride, one more, and twice it."""
    rows = ((s, s + 1, 2 * s) for s in strides)
    return sorted(set(zip(*rows, strict=True)))


def beyond(layers: list[QuantizedLayer]) -> dict[tuple[QuantizedLayer, str], float]:
    """Return the layers and forms whose result is off."""
    return {which: off for which, off in int8_differences(layers, FORMS).items() if off > TOLERANCE}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zero_point", ZERO_POINTS)
@pytest.mark.parametrize("strides", STRIDES, ids=str)
def test_grid(strides: tuple[int, ...], zero_point: int) -> None:
    size = SIZES[len(strides)]
    assert not beyond([QuantizedLayer(size, k, strides, zero_point) for k in kernels(strides)])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strides", [(2,), (1, 2), (2, 2), (2, 1, 1)], ids=str)
def test_other_quantizations(strides: tuple[int, ...]) -> None:
    size, kernel = SIZES[len(strides)], tuple(2 * s for s in strides)
    layers = [
        QuantizedLayer(size, kernel, strides, 128, "symmetric"),
        QuantizedLayer(size, kernel, strides, 0, "symmetric", behind=False),
        QuantizedLayer(size, kernel, strides, 64, "subtract"),
        QuantizedLayer(size, kernel, strides, 200, "subtract", behind=False),
        QuantizedLayer(size, kernel, strides, 128, groups=2),
        QuantizedLayer(size, kernel, strides, 128, groups=4),
    ]
    assert not beyond(layers)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("every", [(1, 1), (2, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("size", [(1,), (1, 1), (1, 5), (4, 1), (1, 4, 3), (1, 1, 1)], ids=str)
def test_axes_of_size_1(size: tuple[int, ...], every: tuple[int, int]) -> None:
    """A Pad whose only padded axis has one element is wrong, also in front of a convolution."""
    axes = len(size)
    layers = []
    strides = (every[0],) * (axes - 1) + every[1:]
    # Of [N, 1, 1, H, W] padded in depth OpenVINO's convolution itself is wrong (depth-of-one).
    for c in (1, 4) if axes < 3 else (4,):
        for kernel in kernels(strides):
            pads = (0,) * axes
            layers.append(QuantizedLayer(size, kernel, strides, pads=pads, channels=c, batch=8))
    assert not beyond(layers)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_originals(axes: int) -> None:
    """The comparison is fair: the original in int8 is its own result in f32.

    It is not for every layer: OpenVINO 2026.4 errs where the kernel is no multiple of the stride.
    """
    size, strides = SIZES[axes], (2,) * axes
    kinds: Any = ((128, "asymmetric"), (0, "asymmetric"), (0, "symmetric"), (64, "subtract"))
    for zero, kind in kinds:
        layer = QuantizedLayer(size, (4,) * axes, strides, zero, kind)
        assert int8_off(model(layer), data(layer)) <= TOLERANCE


def int8_off(graph: Graph, x: Any) -> float:
    """Return how far a graph in OpenVINO int8 is from itself in f32."""
    (found,), (want,) = (run([spelled(graph)], [x], int8=int8) for int8 in (True, False))
    return difference(found, want)


def padded_quantized(rows: int) -> Graph:
    """Return a convolution of quantized data behind a Pad of an axis of size `rows` alone."""
    g = Graph()
    x = fake_quantized(g, parameter(g, (1, 4, rows, 6), np.float32, "x"), (-1, 3), (-1, 3), "fq")
    ends = [constant(g, np.array(v, np.int64), f"{v}") for v in ((0, 0, 0, 0), (0, 0, 1, 0))]
    pad: Any = REGISTRY["Pad", "opset12"]
    convolution: Any = REGISTRY["Convolution", "opset1"]
    concat: Any = REGISTRY["Concat", "opset1"]
    y = Value(g.add(pad("constant"), [x, *ends], name="pad").id)
    rng = np.random.default_rng(0)
    filters = [filter_of(g, rng, (4, 4, 2, 3), 0, name) for name in ("v", "w")]
    lists: Any = dict.fromkeys(("strides", "dilations"), (1, 1))
    conv = convolution(**lists, pads_begin=(0, 0), pads_end=(0, 0))
    # Two users: a Pad in front of one convolution is fused into it.
    both = [Value(g.add(conv, [y, w], name=f"convolution{n}").id) for n, w in enumerate(filters)]
    result(g, Value(g.add(concat(1), both, name="both").id))
    return g


@pytest.mark.parametrize(("rows", "wrong"), [(1, True), (2, False)])
def test_pad_of_one(rows: int, wrong: bool) -> None:
    """OpenVINO has the fault. Once a version does not, add that version to `absent`."""
    assert FAULTS["pad-of-one"].seen
    graph = padded_quantized(rows)
    x = np.random.default_rng(1).uniform(-2, 2, (1, 4, rows, 6)).astype(np.float32)
    assert (int8_off(graph, x) > TOLERANCE) == wrong
