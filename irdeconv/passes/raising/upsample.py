"""A resize alone as a depthwise deconvolution, where its borders are those of one.

Along an axis output o is the sum over i of A[o, i] x[i]. That is a deconvolution of stride S where
A[o, i] = h[o - S*i] everywhere. Copies of whole factors are, for every size. Linear weights are in
the midst of the data; at the ends a resize repeats the border, where a deconvolution goes on with
zeros. So sizes decide: aligned corners with O = S(I-1) + 1 end where the data end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.interpolation_weights import Resize, Rules, axis_weights, dense_matrix
from irdeconv.passes.raising.compose import Behind, ChannelBlock, Raising, TapAxis, compose, spelled
from irdeconv.passes.raising.site import Decomposition, signal
from irdeconv.passes.raising.size import Size, SizeEvaluator, Unreadable
from irdeconv.passes.raising.steps import AxisTracer
from irdeconv.passes.raising.tensor import Tensor
from irdeconv.spec import Array, is_static

LARGEST_AXIS = 1 << 11  # elements of an axis whose weights are looked at


def upsampling(graph: Graph, node: Node) -> Decomposition:
    """Return the deconvolution of an Interpolate; Unreadable where it is none."""
    op: Any = node.op
    data = graph.inputs_of(node.id)[0]
    spec = graph.spec(data)
    if spec.shape is None or not 3 <= len(spec.shape) <= 5 or not isinstance(spec.shape[1], int):
        raise Unreadable("the channels of the data are not known")
    if spec.dtype is None or not spec.dtype.is_real:
        raise Unreadable(f"the data are {spec.dtype}")
    made = _copies(graph, node, data) if op.mode == "nearest" else _weights(graph, node, data)
    if max(made.strides) < 2:
        raise Unreadable("it enlarges no axis")
    return Decomposition(data, node.id, made, None, repeats=True, interleaves=False)


def _copies(graph: Graph, node: Node, data: Value) -> Raising:
    shape = graph.spec(data).shape or ()
    sizes = [
        Size.of(d) if isinstance(d, int) else Size.symbol(f"axis {a}") for a, d in enumerate(shape)
    ]
    tracer = AxisTracer(graph, SizeEvaluator(graph, {data: sizes}))
    wide = tracer.apply(node, Tensor.source(sizes))
    if wide.shape[:2] != sizes[:2]:
        raise Unreadable("it enlarges batch or channels")
    axes, channels = range(2, len(shape)), sizes[1].number or 0
    signals = tuple(signal(wide, a, sizes[a]) for a in axes)
    single = (1,) * len(axes)
    ones = np.ones((channels, 1, 1, *single), _container(graph, data))
    made = [sizes[0], sizes[1], *(s.size for s in signals)]
    block = ChannelBlock(channels, tuple(made[2:]), ones, signals, single, single)
    kept = tuple(signal(Tensor.source(made), a, made[a]) for a in axes)
    return compose([block], Behind(tuple(range(channels)), kept))


def _weights(graph: Graph, node: Node, data: Value) -> Raising:
    """Return the deconvolution of weighted neighbours, at exact sizes."""
    op: Any = node.op
    shape = graph.spec(data).shape
    others = [graph.spec(v).known for v in graph.inputs_of(node.id)[1:]]
    if not is_static(shape) or any(v is None for v in others):
        raise Unreadable(f'Interpolate "{node.name}" ends otherwise for other sizes: they are open')
    if op.mode == "area" or any(op.pads_begin) or any(op.pads_end):
        raise Unreadable(f'Interpolate "{node.name}" pads, or is of the mode {op.mode}')
    resizes, rules = op.resizes(shape, *others)
    by_axis = {r.axis: r for r in resizes if r.size != shape[r.axis]}
    if any(a < 2 for a in by_axis):
        raise Unreadable("it enlarges batch or channels")
    lines = [_line(node, by_axis.get(a), shape[a], rules) for a in range(2, len(shape))]
    rows = [spelled(np.arange(len(h)), tap) for tap, h in lines]
    kernel = np.ones(())
    for (taps, *_), (_, h) in zip(rows, lines, strict=True):
        kernel = np.multiply.outer(kernel, [h[t] if 0 <= t < len(h) else 0.0 for t in taps])
    dtype = _container(graph, data)
    if not np.array_equal(kernel.astype(dtype).astype(np.float64), kernel):
        raise Unreadable(f"its weights are no numbers of {dtype}")
    filter = np.tile(kernel.astype(dtype), (shape[1], 1, 1, *(1,) * kernel.ndim))
    _, dilations, begin, end, extra = zip(*rows, strict=True)
    strides = tuple(tap.stride for tap, _ in lines)
    return Raising(filter, strides, dilations, begin, end, extra)


def _line(
    node: Node, resize: Resize | None, size: int, rules: Rules
) -> tuple[TapAxis, list[float]]:
    """Return stride and taps of an axis with h; Unreadable where the weights differ by position."""
    if resize is None:
        return TapAxis(1, 0, (0,), 0), [1.0]
    if max(size, resize.size) > LARGEST_AXIS or size < 2:
        raise Unreadable(f"an axis of {size} elements becomes one of {resize.size}")
    matrix = dense_matrix(axis_weights(resize, size, rules), size, np.float64)
    for stride in {resize.size // size, (resize.size - 1) // (size - 1)} - {0, 1}:
        taps = _taps(matrix, stride)
        if taps:
            low, high = min(taps), max(taps)
            places = tuple(range(high - low + 1))
            h = [taps.get(low + k, 0.0) for k in places]
            return TapAxis(stride, low, places, resize.size - stride * size), h
    raise Unreadable(
        f'Interpolate "{node.name}" weighs neighbours by position ({size} elements become '
        f"{resize.size}, {rules.transformation}); a deconvolution weighs all alike, and zeros "
        "beyond the borders"
    )


def _taps(matrix: Array, stride: int) -> dict[int, float] | None:
    """Return h where A[o, i] = h[o - stride * i] throughout; None where it is not so."""
    rows, columns = np.indices(matrix.shape)
    lowest = stride * (matrix.shape[1] - 1)
    k = rows - stride * columns + lowest
    least, most = np.full(k.max() + 1, np.inf), np.full(k.max() + 1, -np.inf)
    np.minimum.at(least, k, matrix)
    np.maximum.at(most, k, matrix)
    met = np.isfinite(least)
    if (least[met] != most[met]).any():
        return None
    used = np.flatnonzero(met & (most != 0))
    return {int(j) - lowest: float(most[j]) for j in used}


def _container(graph: Graph, data: Value) -> np.dtype[Any]:
    dtype = graph.spec(data).dtype
    assert dtype is not None
    return np.dtype(dtype.container)
