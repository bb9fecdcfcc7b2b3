"""Deconvolutions of all kinds on the values of a graph: pads, sizes, groups, filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from support.differential.making import Held, Making, layer, pick
from support.live_operations.mutate import numbers

Ints = tuple[int, ...]


def deconvolution(m: Making) -> list[Held] | None:
    """Add a deconvolution of a value with one to three spatial axes."""
    held = m.some("f32", "f16", "bf16", "f64", least=3)
    if held is None or held.array.ndim > 5 or 0 in held.array.shape:
        return None
    n, channels = held.array.ndim - 2, held.array.shape[1]
    kernel = _ints(m, n, 1, 4 if n < 3 else 3)
    groups = pick(m.rng, [g for g in range(1, channels + 1) if channels % g == 0])
    outputs = 1 + m.below(3)
    shape = (channels // groups, outputs, *kernel)
    grouped = groups > 1 or (m.chance(0.1) and channels == outputs == 1)
    if grouped:
        shape = (groups, *shape)
    weights = _filter(m, held, shape)
    if weights is None:
        return None
    attributes, extra = _attributes(m, held, kernel)
    kind = "GroupConvolutionBackpropData" if grouped else "ConvolutionBackpropData"
    made = m.add(layer(kind, 1, **attributes), [held, weights, *extra])
    return _tail(m, made) if made else None


def _ints(m: Making, count: int, low: int, high: int) -> Ints:
    return tuple(int(v) for v in m.rng.integers(low, high + 1, count))


def _filter(m: Making, held: Held, shape: Ints) -> Held | None:
    """A constant, an input, or 8-bit numbers that are scaled."""
    values = numbers(m.rng, held.dtype, shape, 4).values
    way = m.rng.random()
    if way < 0.7:
        return m.constant(values, held.dtype)
    if way < 0.85:
        return m.parameter(values, held.dtype)
    eight = m.constant(np.clip(values, -8, 7).astype(np.int8), "i8")
    made = m.add(layer("Convert", 1, destination_type=held.dtype), [eight])
    if made and m.chance(0.6):
        made = m.add(layer("Multiply", 1), [made[0], m.constant(np.array(0.25), held.dtype)])
    return made[0] if made else None


def _attributes(m: Making, held: Held, kernel: Ints) -> tuple[dict[str, Any], list[Held]]:
    n, size = len(kernel), held.array.shape[2:]
    strides, dilations = _ints(m, n, 1, 3), _ints(m, n, 1, 2)
    begin, end = (
        tuple(m.below(d * (k - 1) + 1) for d, k in zip(dilations, kernel, strict=True))
        for _ in range(2)
    )
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "pads_begin": begin if m.chance(0.6) else (0,) * n,
        "pads_end": end if m.chance(0.6) else (0,) * n,
        "auto_pad": pick(m.rng, ("explicit", "explicit", "same_upper", "same_lower", "valid")),
        "output_padding": tuple(m.below(s) for s in strides) if m.chance(0.4) else (0,) * n,
    }
    if m.chance(0.6):
        return attributes, []
    rows = zip(size, strides, dilations, kernel, strict=True)
    full = [s * (i - 1) + d * (k - 1) + 1 for i, s, d, k in rows]
    wanted = [max(1, f - m.below(3) + (m.below(2) if m.chance(0.3) else 0)) for f in full]
    return attributes, [_sizes(m, wanted)]


def _sizes(m: Making, wanted: list[int]) -> Held:
    """The output's size: a constant, or what another tensor's shape says."""
    kind = pick(m.rng, ("i64", "i64", "i32"))
    if m.chance(0.75):
        return m.constant(wanted, kind)
    f32 = ELEMENT_TYPES["f32"]
    like = m.parameter(np.zeros((1, 1, *wanted), np.float32), f32)
    made = m.add(layer("ShapeOf", 3, output_type=ELEMENT_TYPES[kind]), [like])
    places = m.constant(np.arange(2, 2 + len(wanted)))
    spatial = made and m.add(layer("Gather", 8), [made[0], places, m.constant(0)])
    return spatial[0] if spatial else m.constant(wanted, kind)


def _tail(m: Making, made: list[Held]) -> list[Held] | None:
    """Add a bias and an activation now and then, as networks have them."""
    y = made[0]
    if m.chance(0.4):
        channels = (1, y.array.shape[1], *(1,) * (y.array.ndim - 2))
        bias = m.constant(numbers(m.rng, y.dtype, channels, 3).values, y.dtype)
        made = m.add(layer("Add", 1), [y, bias]) or made
    if m.chance(0.3):
        made = m.add(layer("ReLU", 1), [made[0]]) or made
    return made
