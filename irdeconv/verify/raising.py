"""Raising that keeps only proved deconvolutions, and puts back all others.

To the proof the raised graph is the original, the given graph its lowering. A resize that became a
depthwise deconvolution is proved at exact sizes: both are matrices of exact fractions. Interpolate
is defined here once more for this, for copies and linear weights without pads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import is_static
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.raising import Raised, raise_deconvolutions
from irdeconv.verify.check import check

HALF = Fraction(1, 2)
LARGEST_SIDE = 1 << 12  # positions of an axis, taps of a filter
NEAREST: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "simple": math.floor,  # where it enlarges
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
}
Weights = dict[int, Fraction]  # of the inputs that an output reads


class Unlike(Exception):
    """The two are unlike, or one is not followed; the text says what."""


def resize_unproved(raised: Graph, deconvolution: Node, source: Graph) -> str | None:
    """Return why a deconvolution is not proved equal to the resize of its name; None if it is."""
    found = [n for n in source.find(deconvolution.name) if n.type == "Interpolate"]
    if len(found) != 1:
        return "no resize has its name"
    if raised.inputs_of(deconvolution.id)[0] != source.inputs_of(found[0].id)[0]:
        return "it reads something else"
    try:
        _compare(raised, deconvolution, source, found[0])
    except Unlike as e:
        return str(e)
    return None


def _compare(raised: Graph, node: Node, source: Graph, resize: Node) -> None:
    shape, out = source.spec(source.inputs_of(resize.id)[0]).shape, resize.spec().shape
    filter = constant(raised, raised.inputs_of(node.id)[1])
    if not is_static(shape) or not is_static(out) or filter is None:
        raise Unlike("sizes are open, or the filter is no constant")
    axes = len(shape) - 2
    if shape[:2] != out[:2] or filter.size != shape[1] * math.prod(filter.shape[-axes:]):
        raise Unlike("it is no filter for each channel")
    if max(*shape[2:], *out[2:], *filter.shape[-axes:]) > LARGEST_SIDE:
        raise Unlike("its axes are too large to be looked at")
    if node.spec().shape != out:
        raise Unlike("the sizes of the outputs differ")
    rows = _resized(source, resize, shape, out)
    op: Any = node.op
    taps = [
        _taps(rows[a], shape[2 + a], filter.shape[a - axes], op.strides[a], op.dilations[a],
              op.pads_begin[a])
        for a in range(axes)
    ]  # fmt: skip
    kernels = filter.reshape(shape[1], *filter.shape[-axes:]).astype(np.float64)
    if not np.isfinite(kernels).all() or (kernels != kernels[:1]).any():
        raise Unlike("the channels have different filters")
    for at in itertools.product(*(range(n) for n in kernels.shape[1:])):
        wanted = [t.get(k) for t, k in zip(taps, at, strict=True)]
        if None not in wanted and math.prod(w for w in wanted if w is not None) != Fraction(
            float(kernels[(0, *at)])
        ):
            raise Unlike(f"tap {list(at)} differs")


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
                    raise Unlike(f"output {o} does not read input {i}")
            elif out.setdefault(k, weight) != weight:
                raise Unlike(f"output {o} weighs input {i} otherwise")
    return out


def _resized(
    source: Graph, resize: Node, shape: tuple[int, ...], out: tuple[int, ...]
) -> list[list[Weights]]:
    """Return the weights of every output along each spatial axis, by the definition."""
    op: Any = resize.op
    if any(op.pads_begin) or any(op.pads_end) or getattr(op, "antialias", False):
        raise Unlike("a resize with pads or antialias is not followed")
    others = [source.spec(v).known for v in source.inputs_of(resize.id)[1:]]
    if any(v is None for v in others):
        raise Unlike("the sizes of the resize are not constant")
    resizes, rules = op.resizes(shape, *others)
    scales = {r.axis: Fraction(float(np.float32(r.scale))) for r in resizes}
    made = []
    for a in range(2, len(shape)):
        scale = scales.get(a, Fraction(1))
        if abs(scale - Fraction(out[a], shape[a])) < Fraction(1, 10**6):
            scale = Fraction(out[a], shape[a])
        places = _places(shape[a], out[a], scale, rules.transformation)
        made.append([_weighed(x, shape[a], rules.mode, rules.nearest) for x in places])
    return made


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
        raise Unlike(f"the mode {mode} is not followed")
    x = min(max(x, Fraction(0)), Fraction(size - 1))
    low = math.floor(x)
    return {low: 1 - (x - low)} | ({low + 1: x - low} if x != low else {})


def raise_proved(graph: Graph, only: Collection[str] | None = None) -> Raised:
    """Return a copy with proved decompositions raised; raises as `raise_deconvolutions`."""
    return raise_deconvolutions(graph, only, unproved)


def unproved(raised: Graph, source: Graph) -> dict[str, str]:
    """Return the deconvolutions not proved equal to `source`, all if others differ; why."""
    before = {n.name for n in source.nodes() if n.op.deconvolution}
    new = [n for n in raised.nodes() if n.op.deconvolution and n.name not in before]
    report = check(raised, source)
    if report.problems:
        return {n.name: f"it is not proved: {report.problems[0]}" for n in new}
    done = {c.layer: c for c in report.layers}
    out: dict[str, str] = {}
    for node in new:
        if any(n.type == "Interpolate" for n in source.find(node.name)):
            why = resize_unproved(raised, node, source)
            out |= {} if why is None else {node.name: f"it is not proved: {why}"}
            continue
        proof = done.get(node.name)
        if proof is None:
            out[node.name] = "it is not proved: the proof does not find it"
        elif proof.reason is not None:
            out[node.name] = f"it is not proved: {proof.reason}"
        elif not proof.every:
            out[node.name] = f"it is proved for {proof.proved}"
    return out
