"""Mistakes in a (de)convolution's filter or groups: the layer is computed with each of them.

Filters are seen as [g, I, O, *K], the spatial axes last; which of I and O are input channels does
not matter here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from irdeconv.dialects.template import DialectDeconvolution
from irdeconv.op import Op
from irdeconv.ops import core
from irdeconv.ops.convolution import ConvolutionBase, GroupConvolution
from irdeconv.spec import Array
from irdeconv.verify.compare.difference import Allowed, TensorDifference
from irdeconv.verify.compare.kinds import listed, same
from irdeconv.verify.compare.rounding import evaluate, floats, is_real


def with_filter_mistake(
    seen: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference where a mistake of the filter or the groups gives `b`."""
    groups = filter_groups(op, inputs)
    if seen.kind is not None or groups is None or seen.shape_a != seen.shape_b:
        return seen
    x, w, *rest = floats(inputs, lambda v: v.astype(np.float64))
    limit = np.asarray(allowed.limit)
    # Another filter has other magnitudes: of the same order, but not the same ones.
    slack = 4 * float(limit[np.isfinite(limit)].max(initial=0.0))

    def compute(v: Array) -> Array:
        return evaluate(op, [x, v.reshape(w.shape), *rest])[0]

    kind = filter_mistake(compute, w.reshape(groups), b, slack)
    if kind is None and groups[0] > 1:
        kind = group_mistake(lambda v: evaluate(op, [v, w, *rest])[0], x, groups[0], b, slack)
    return seen if kind is None else replace(seen, kind=kind)


def filter_groups(op: Op, inputs: list[Array]) -> tuple[int, ...] | None:
    """Return the shape [g, I, O, *K] of a layer's filter; None where the layout is another one."""
    if len(inputs) < 2 or not is_real(inputs[1]) or not inputs[1].size:
        return None
    shape = inputs[1].shape
    if isinstance(op, DialectDeconvolution):
        return op.grouped_shape(shape)
    if isinstance(op, (core.Deconvolution, GroupConvolution)):
        return shape
    return (1, *shape) if isinstance(op, ConvolutionBase) else None


def filter_mistake(
    compute: Callable[[Array], Array], w: Array, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the filter that gives `b`: `compute(filter)` computes the layer.

    `w` is grouped [g, I, O, *K].
    """
    for text, wrong in _filters(w):
        if _gives(compute(np.ascontiguousarray(wrong)), b, allowed):
            return text
    return None


def _filters(w: Array) -> Iterator[tuple[str, Array]]:
    """Yield the mistakes that porting a filter makes: what it is, and the filter it gives."""
    g, i, o, *kernel = w.shape
    spatial = range(3, w.ndim)
    yield "the kernel is flipped", np.flip(w, tuple(spatial))
    for count in range(1, len(kernel)):
        for axes in itertools.combinations(spatial, count):
            text = f"the kernel is flipped along spatial axes {listed(a - 3 for a in axes)}"
            yield text, np.flip(w, axes)
    # Of unlike sizes the axes cannot be swapped, only be read in the wrong order.
    swapped = w if i == o else w.reshape(g, o, i, *kernel)
    yield "input and output channels are swapped", swapped.swapaxes(1, 2)
    for p, q in itertools.combinations(spatial, 2):
        if w.shape[p] == w.shape[q]:
            what = "rows and columns" if len(kernel) == 2 else f"axes {listed((p - 3, q - 3))}"
            yield f"kernel {what} are swapped", w.swapaxes(p, q)
    if g > 1:
        yield "the filters of the groups are in reverse order", w[::-1]


def group_mistake(
    compute: Callable[[Array], Array], x: Array, groups: int, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the order of channels that gives `b`: `compute(x)` is the layer."""
    channels = np.arange(x.shape[1])
    blocks = channels.reshape(groups, -1).T.reshape(-1)
    interleaved = f"channels of {groups} groups interleaved instead of one group after another"
    for order in (blocks, np.argsort(blocks)):
        y = compute(np.ascontiguousarray(x[:, order]))
        if _gives(y, b, allowed):
            return f"input {interleaved}"
        if _gives(y[:, np.arange(y.shape[1]).reshape(groups, -1).T.reshape(-1)], b, allowed):
            return f"input and output {interleaved}"
    return None


def _gives(y: Array, b: Array, allowed: float) -> bool:
    return y.shape == b.shape and same(y.astype(np.float64), b.astype(np.float64), allowed)
