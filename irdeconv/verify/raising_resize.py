"""A resize as a depthwise deconvolution, where its borders are those of one.

Along an axis output o is the sum over i of A[o, i] x[i]. That is a deconvolution of stride S where
A[o, i] = h[o - S*i] everywhere. Copies of whole factors are, for every size. Linear weights are in
the midst of the data; at the ends a resize repeats the border, where a deconvolution goes on with
zeros. So sizes decide: aligned corners with O = S(I-1) + 1 end where the data end.

It is found and proved at exact sizes: both are matrices of exact fractions. Interpolate is defined
here once more for this, for copies and linear weights without pads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import is_static
from irdeconv.proof.model import Unproved, need
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.verify.raising_compose import Decomposition, Raising, TapAxis, spelled

HALF = Fraction(1, 2)
LARGEST_SIDE = 1 << 12  # positions of an axis, taps of a filter
SIDES_TOO_LARGE = "its axes are too large to be looked at"
NEAREST: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "simple": math.floor,  # where it enlarges
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
}
Weights = dict[int, Fraction]  # of the inputs that an output reads


def upsampling(graph: Graph, node: Node) -> Decomposition:
    """Return the deconvolution of an Interpolate; Unproved where it is none."""
    data = graph.inputs_of(node.id)[0]
    name, spec, out = f'Interpolate "{node.name}"', graph.spec(data), node.spec().shape
    shape, dtype = spec.shape, spec.dtype
    known = shape is not None and 3 <= len(shape) <= 5 and isinstance(shape[1], int)
    need(known, "the channels of the data are not known")
    if dtype is None or not dtype.is_real:
        raise Unproved(f"the data are {dtype}")
    if not is_static(shape) or not is_static(out):
        raise Unproved(f"{name} ends otherwise for other sizes: they are open")
    need(shape[:2] == out[:2], "it enlarges batch or channels")
    need(max(*shape[2:], *out[2:]) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    rows, rule = _resized(graph, node, shape, out)
    lines = [_line(name, r, n, rule) for r, n in zip(rows, shape[2:], strict=True)]
    need(any(line.stride > 1 for line, _ in lines), "it enlarges no axis")
    spellings = [spelled(np.array(line.places), line) for line, _ in lines]
    each = [
        np.array([h.get(line.low + t, Fraction(0)) for t in taps], object)
        for (line, h), (taps, *_) in zip(lines, spellings, strict=True)
    ]
    kernel: Any = reduce(np.multiply.outer, each)
    filter = kernel.astype(float).astype(dtype.container)
    exact = all(Fraction(float(a)) == b for a, b in zip(filter.flat, kernel.flat, strict=True))
    need(exact, f"its weights are no numbers of {dtype}")
    tiled = np.tile(filter, (shape[1], 1, 1, *(1,) * kernel.ndim))
    _, dilations, begin, end, extra = zip(*spellings, strict=True)
    strides = tuple(line.stride for line, _ in lines)
    made = Raising(tiled, strides, dilations, begin, end, extra)
    return Decomposition(data, node.id, made)


def _line(name: str, rows: list[Weights], size: int, rule: str) -> tuple[TapAxis, Weights]:
    """Return stride and taps of an axis with h; Unproved where the weights differ by position."""
    count = len(rows)
    if count == size:
        return TapAxis(1, 0, (0,), 0), {0: Fraction(1)}
    for stride in {count // size, (count - 1) // max(size - 1, 1)} - {0, 1}:
        last = stride * (size - 1)
        with suppress(Unproved):
            met = _taps(rows, size, count + last, stride, 1, last)
            h = {k - last: weight for k, weight in met.items() if weight}
            places = tuple(range(max(h) - min(h) + 1))
            return TapAxis(stride, min(h), places, count - stride * size), h
    raise Unproved(
        f"{name} weighs neighbours by position ({size} elements become {count}, {rule}); "
        "a deconvolution weighs all alike, and zeros beyond the borders"
    )


def resize_unproved(raised: Graph, deconvolution: Node, source: Graph) -> str | None:
    """Return why a deconvolution is not proved equal to the resize of its name; None if it is."""
    found = [n for n in source.find(deconvolution.name) if n.type == "Interpolate"]
    if len(found) != 1:
        return "no resize has its name"
    if raised.inputs_of(deconvolution.id)[0] != source.inputs_of(found[0].id)[0]:
        return "it reads something else"
    try:
        _compare(raised, deconvolution, source, found[0])
    except Unproved as e:
        return str(e)
    return None


def _compare(raised: Graph, node: Node, source: Graph, resize: Node) -> None:
    shape, out = source.spec(source.inputs_of(resize.id)[0]).shape, resize.spec().shape
    filter = constant(raised, raised.inputs_of(node.id)[1])
    if not is_static(shape) or not is_static(out) or filter is None:
        raise Unproved("sizes are open, or the filter is no constant")
    kernel = filter.shape[2 - len(shape) :]
    each = shape[:2] == out[:2] and filter.size == shape[1] * math.prod(kernel)
    need(each, "it is no filter for each channel")
    need(max(*shape[2:], *out[2:], *kernel) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    need(node.spec().shape == out, "the sizes of the outputs differ")
    rows, _ = _resized(source, resize, shape, out)
    op: Any = node.op
    terms = (rows, shape[2:], kernel, op.strides, op.dilations, op.pads_begin)
    taps = [_taps(*axis) for axis in zip(*terms, strict=True)]
    kernels = filter.reshape(shape[1], *kernel).astype(np.float64)
    alike = np.isfinite(kernels).all() and (kernels == kernels[:1]).all()
    need(alike, "the channels have different filters")
    for at in itertools.product(*(range(n) for n in kernels.shape[1:])):
        wanted = [t[k] for t, k in zip(taps, at, strict=True) if k in t]
        met = len(wanted) == len(taps)
        same = not met or math.prod(wanted) == Fraction(float(kernels[(0, *at)]))
        need(same, f"tap {list(at)} differs")


def _taps(
    rows: list[Weights], size: int, count: int, stride: int, dilation: int, begin: int
) -> dict[int, Fraction]:
    """Return what each tap has to be that any pair of positions meets, along an axis."""
    out: dict[int, Fraction] = {}
    for o, weights in enumerate(rows):
        for i in range(size):
            k, between = divmod(o + begin - stride * i, dilation)
            weight = weights.get(i, Fraction(0))
            if between or not 0 <= k < count:
                if weight:
                    raise Unproved(f"output {o} does not read input {i}")
            elif out.setdefault(k, weight) != weight:
                raise Unproved(f"output {o} weighs input {i} otherwise")
    return out


def _resized(
    source: Graph, resize: Node, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[list[list[Weights]], str]:
    """Return the weights of every output along each spatial axis, and the rule of coordinates."""
    op: Any = resize.op
    plain = not (any(op.pads_begin) or any(op.pads_end) or getattr(op, "antialias", False))
    need(plain, "a resize with pads or antialias is not followed")
    others = [source.spec(v).known for v in source.inputs_of(resize.id)[1:]]
    need(all(v is not None for v in others), "the sizes of the resize are not constant")
    resizes, rules = op.resizes(shape, *others)
    scales = {r.axis: Fraction(float(np.float32(r.scale))) for r in resizes}
    made = []
    for a in range(2, len(shape)):
        scale = scales.get(a, Fraction(1))
        if abs(scale - Fraction(out[a], shape[a])) < Fraction(1, 10**6):
            scale = Fraction(out[a], shape[a])
        places = _places(shape[a], out[a], scale, rules.transformation)
        made.append([_weighed(x, shape[a], rules.mode, rules.nearest) for x in places])
    return made, rules.transformation


def _places(size: int, count: int, scale: Fraction, rule: str) -> Iterator[Fraction]:
    """Yield the position in the input of every output."""
    for o in range(count):
        if size == count:
            yield Fraction(o)
        elif rule == "asymmetric":
            yield o / scale
        elif rule == "tf_half_pixel_for_nn":
            yield (o + HALF) / scale
        elif rule == "align_corners":
            yield Fraction(o * (size - 1), max(count - 1, 1))
        else:  # half_pixel; pytorch_half_pixel differs where one element is left
            yield (o + HALF) / scale - HALF


def _weighed(x: Fraction, size: int, mode: str, nearest: str) -> Weights:
    if mode == "nearest":
        return {min(max(NEAREST[nearest](x), 0), size - 1): Fraction(1)}
    if mode not in ("linear", "linear_onnx"):
        raise Unproved(f"the mode {mode} is not followed")
    x = min(max(x, Fraction(0)), Fraction(size - 1))
    low = math.floor(x)
    return {low: 1 - (x - low)} | ({low + 1: x - low} if x != low else {})
