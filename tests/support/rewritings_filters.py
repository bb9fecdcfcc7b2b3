"""Kinds whose filter is computed in the graph, and operations that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino import opset16

from support.rewritings import (
    FEW,
    SPACE,
    Case,
    Pair,
    Value,
    const,
    correlate,
    deconvolution,
    flipped,
    floats,
    layer,
    model,
    pair,
    rank_of,
    reverse,
    sizes_of,
    slice_axis,
    vector,
)
from support.rewritings_zeros import spread_out

Filter = Callable[[Case], Value]


def turned(case: Case) -> Any:
    """The filter of the convolution as an array [M, C, *K] or [g, M/g, C/g, *K]."""
    weights = flipped(case.weights)
    return np.ascontiguousarray(weights[0] if case.groups == 1 else weights)


def unturned(case: Case) -> Any:
    """The same, taps in the order of the deconvolution."""
    return np.ascontiguousarray(turned(case)[spatial(case, slice(None, None, -1))])


def spatial(case: Case, cut: slice) -> Any:
    return (..., *[cut] * case.rank)


def axes_of(case: Case) -> list[int]:
    """Axes of taps in the filter of the convolution."""
    first = 2 if case.groups == 1 else 3
    return list(range(first, first + case.rank))


def with_filter(case: Case, x: Value, filter: Value) -> Value:
    return correlate(case, spread_out(case, x), case.trailing, filter)


def filter_of(name: str, *cases: Case) -> Callable[[Filter], Filter]:
    """Add a kind whose convolution takes a computed filter."""

    def add(make: Filter) -> Filter:
        layer(name, *cases)(lambda case, x: with_filter(case, x, make(case)))
        return make

    return add


@filter_of("filter: reversed by Slice", *FEW, SPACE)
def by_slice(case: Case) -> Value:
    return reverse(floats(unturned(case)), axes_of(case))


@filter_of("filter: reversed by StridedSlice", *FEW)
def by_strided_slice(case: Case) -> Value:
    rank, axes = unturned(case).ndim, axes_of(case)
    mask = [1] * rank
    steps = [-1 if a in axes else 1 for a in range(rank)]
    none = const([0] * rank)
    return op.strided_slice(floats(unturned(case)), none, none, const(steps), mask, mask)


@filter_of("filter: reversed by Gather", *FEW)
def by_gather(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.gather(filter, const(np.arange(k)[::-1]), const(axis))
    return filter


@filter_of("filter: reversed by Gather with negative indices", *FEW)
def by_negative_gather(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.gather(filter, const(-1 - np.arange(k)), const(axis - filter_rank(case)))
    return filter


def filter_rank(case: Case) -> int:
    return int(turned(case).ndim)


@filter_of("filter: reversed by ReverseSequence", *FEW)
def by_reverse_sequence(case: Case) -> Value:
    filter = floats(unturned(case))
    for axis, k in zip(axes_of(case), case.kernel, strict=True):
        filter = op.reverse_sequence(filter, const([k] * turned(case).shape[0]), 0, axis)
    return filter


def as_reverse(text: str) -> str:
    """Write Reverse, which Python cannot build, where an operation of the same inputs stands."""
    root = ElementTree.fromstring(text)
    for element in root.iter("layer"):
        if element.get("type") == "NormalizeL2":
            element.set("type", "Reverse")
            data = element.find("data")
            assert data is not None
            data.attrib.clear()
            data.set("mode", "index")
    return ElementTree.tostring(root, "unicode")


@pair("filter: reversed by Reverse", *FEW, edit=as_reverse)
def by_reverse(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    turned = op.normalize_l2(floats(unturned(target)), const(axes_of(target)), 1.0, "add")
    return model([x], deconvolution(source, x)), model([z], with_filter(target, z, turned))


@filter_of("filter: transposed in the graph", *FEW)
def by_transpose(case: Case) -> Value:
    backwards = floats(turned(case).T)
    return op.transpose(backwards, const(np.arange(filter_rank(case))[::-1]))


@filter_of("filter: reshaped in the graph", *FEW)
def by_reshape(case: Case) -> Value:
    shape = list(turned(case).shape)
    return op.reshape(floats(turned(case).ravel()), const([*shape[:-1], -1]), False)


@filter_of("filter: put together by Concat and Add", *FEW)
def by_concat(case: Case) -> Value:
    first, *rest = np.split(turned(case), turned(case).shape[-1], -1)
    rows = op.concat([floats(part) for part in (first * 0.5, *rest)], -1)
    return op.add(rows, pad_last(first * 0.5, len(rest)))


def pad_last(array: Any, more: int) -> Value:
    filled = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)])
    return floats(filled)


@pair("filter: a parameter, reversed in the graph", *FEW)
def given(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    shape = source.filter if source.groups > 1 else source.filter[1:]
    w, v = (op.parameter(list(shape), np.float32, name="w") for _ in (x, z))
    for node in (w, v):
        node.output(0).set_names({"w"})
    rank, axes = len(shape), axes_of(source)
    order = list(range(rank))
    order[axes[0] - 2], order[axes[0] - 1] = order[axes[0] - 1], order[axes[0] - 2]
    kept = axes[:-1] if target.changed else axes  # a near miss: an axis is not reversed
    turned = op.transpose(reverse(v, kept), const(order))
    return model([x, w], deconvolution(source, x, w)), model([z, v], with_filter(target, z, turned))


# Compressed filters


def quantised(name: str, dtype: Any, zero: int, scales: tuple[float, ...], *cases: Case) -> None:
    """Add a kind whose filter is stored in `dtype`, with a zero point and scales per channel."""

    def stored(case: Case) -> tuple[Any, Any]:
        """Integers [.., M, C, *K] and what they stand for."""
        low, high = (0, 15) if dtype == ov.Type.u4 else (-128, 127) if zero <= 0 else (0, 255)
        shape = turned(case).shape
        count = int(np.prod(shape))
        values = (np.arange(count) * 7 + 3) % (high - low) + low
        if case.changed:
            values[count // 2] += 1
        values = values.reshape(shape)
        factors = np.resize(scales, shape[axes_of(case)[0] - 2])
        factors = factors.reshape(-1, *[1] * (case.rank + 1)).astype(np.float32)
        return values, factors

    def build(source: Case, target: Case) -> Pair:
        x, z = source.parameter(), target.parameter()
        values, factors = stored(source)
        whole = flipped(((values - zero) * factors).astype(np.float32))
        if source.groups > 1:
            whole = whole.reshape(source.filter)
        else:
            whole = flipped(((values - zero) * factors).astype(np.float32)[None])[0]
        values, factors = stored(target)
        node = op.constant(values.astype(np.uint8 if zero > 0 else np.int8))
        if dtype == ov.Type.u4:
            node = op.constant(ov.Tensor(packed(values), ov.Shape(values.shape), ov.Type.u4))
        filter = op.convert(node, np.float32)
        if zero:
            filter = op.subtract(filter, op.convert(const(zero, np.uint8), np.float32))
        filter = op.multiply(filter, floats(factors))
        return (
            model([x], deconvolution(source, x, floats(whole))),
            model([z], with_filter(target, z, filter)),
        )

    pair(name, *cases)(build)


def packed(values: Any) -> Any:
    """Two 4-bit numbers in a byte, the first one low."""
    flat = np.append(values.ravel(), [0] * (values.size % 2)).astype(np.uint8)
    return np.ascontiguousarray(flat[0::2] | (flat[1::2] << 4))


quantised("filter: i8 with scales per channel", np.int8, 0, (0.5, 2, 0.25), *FEW)
quantised("filter: u8 with a zero point and scales", np.uint8, 128, (0.5, 4, 1), *FEW)
quantised("filter: u4 with a zero point and a scale", ov.Type.u4, 8, (0.25,), *FEW)


@filter_of("filter: f16 and Convert", *FEW)
def half(case: Case) -> Value:
    return op.convert(const(turned(case), np.float16), np.float32)


@filter_of("filter: i32 and Convert, scaled by powers of two", *FEW)
def scaled(case: Case) -> Value:
    filter = op.convert(const(turned(case) * 4, np.int32), np.float32)
    return op.multiply(filter, const(0.25, np.float32))


# Operations that do nothing


def idle(name: str, *operations: Callable[[Value], Value]) -> None:
    """Add a kind with operations that do nothing before, between and behind the others."""

    def step(case: Case, x: Value) -> Value:
        values = iter(operations * 3)

        def calm(x: Value) -> Value:
            for _ in operations:
                x = next(values)(x)
            return x

        x = spread_out(case, calm(x))
        return calm(correlate(case, calm(x), case.trailing))

    layer(name, *FEW)(step)


def to_last(x: Value) -> Value:
    """Channels to the end and back."""
    rank = rank_of(x)
    last = op.transpose(x, const([0, *range(2, rank), 1]))
    return op.transpose(last, const([0, rank - 1, *range(1, rank - 1)]))


def lifted(x: Value) -> Value:
    return op.squeeze(op.unsqueeze(x, const([1])), const([1]))


def halved(x: Value) -> Value:
    parts = op.split(op.concat([x, x], 1), const(1), 2).outputs()
    return op.concat([parts[1]], 1)


idle("nothing: Convert to the same type", lambda x: op.convert(x, np.float32))
idle(
    "nothing: times 1, plus 0, minus 0, divided by 1",
    lambda x: op.multiply(x, const(1, np.float32)),
    lambda x: op.add(const(0, np.float32), x),
    lambda x: op.subtract(x, floats(np.zeros([1] * rank_of(x)))),
    lambda x: op.divide(x, const(1, np.float32)),
)
idle("nothing: Identity", opset16.identity)
idle(
    "nothing: Reshape and Transpose",
    lambda x: op.reshape(x, const([0] * rank_of(x)), True),
    lambda x: op.reshape(x, vector(*sizes_of(x)), False),
    lambda x: op.transpose(x, const(np.arange(rank_of(x)))),
)
idle(
    "nothing: Pad, Slice, StridedSlice",
    lambda x: op.pad(x, *(const([0] * rank_of(x)),) * 2, "constant", const(3, np.float32)),
    lambda x: slice_axis(x, 1, 0, 2**63 - 1),
    lambda x: op.strided_slice(
        x, *(const([0] * rank_of(x)),) * 2, const([1] * rank_of(x)), *([1] * rank_of(x),) * 2
    ),
)
idle("nothing: Concat of one, Squeeze of Unsqueeze", lambda x: op.concat([x], 1), lifted)
idle(
    "nothing: Tile by 1, Broadcast to its own shape",
    lambda x: op.tile(x, const([1] * rank_of(x))),
    lambda x: op.broadcast(x, op.shape_of(x)),
)
idle("nothing: channels to the end and back, Concat and Split", to_last, halved)
