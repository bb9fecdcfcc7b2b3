"""DeformableConvolution and BinaryConvolution, output by output."""

import itertools
import math
from typing import Any

import numpy as np

from op_cases import Case, Tensor, case, f16, f32, u1, unordered

Pair = tuple[int, int]
OLD, NEW = "DeformableConvolution-1", "DeformableConvolution-8"


def text(strides: Pair, begin: Pair, end: Pair, dilations: Pair) -> str:
    lists = {"strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations}
    return " ".join(f'{k}="{v[0]},{v[1]}"' for k, v in lists.items())


def outputs(sizes: list[int], kernel: list[int], rest: tuple[Pair, Pair, Pair, Pair]) -> list[int]:
    """Return how many windows fit; `rest` are strides, dilations and pads."""
    rows = zip(sizes, kernel, *rest, strict=True)
    return [(i + b + e - d * (k - 1) - 1) // s + 1 for i, k, s, d, b, e in rows]


def read(plane: Any, y: float, x: float, *, padded: bool) -> float:
    """Interpolate between the four neighbours."""
    height, width = plane.shape
    if padded:
        if not (-1 < y < height and -1 < x < width):
            return 0
    elif not (0 <= y < height and 0 <= x < width):
        return 0
    total = 0.0
    for dy, dx in itertools.product((0, 1), (0, 1)):
        row, column = math.floor(y) + dy, math.floor(x) + dx
        weight = (1 - abs(y - row)) * (1 - abs(x - column))
        if padded:
            inside = 0 <= row < height and 0 <= column < width
            total += weight * plane[row, column] if inside else 0
        else:  # behind the last element the data go on with it
            total += weight * plane[min(row, height - 1), min(column, width - 1)]
    return total


def deformable(
    op: str,
    shape: tuple[int, int, int, int],
    filters: tuple[int, int, int],
    *,
    strides: Pair = (1, 1),
    begin: Pair = (0, 0),
    end: Pair = (0, 0),
    dilations: Pair = (1, 1),
    group: int = 1,
    deformed: int = 1,
    mask: bool = False,
    padded: bool = False,
    reach: float = 0.3,
    kind: Any = f32,
    tolerance: float = 2.0**-18,
) -> Case:
    (batch, channels, *sizes), (count, *kernel) = shape, filters
    out, taps = outputs(sizes, kernel, (strides, dilations, begin, end)), kernel[0] * kernel[1]
    data, weights = unordered(shape), unordered((count, channels // group, *kernel)) * 0.25
    offsets = unordered((batch, 2 * deformed * taps, *out)) * reach
    scales = unordered((batch, deformed * taps, *out)) * 0.125 if mask else None
    y = np.zeros((batch, count, *out))
    each = itertools.product(*map(range, (batch, count, *out, channels // group, *kernel)))
    for n, m, i, j, c, u, v in each:
        channel = m // (count // group) * (channels // group) + c
        tap = channel // (channels // deformed) * taps + u * kernel[1] + v
        row = i * strides[0] - begin[0] + u * dilations[0] + offsets[n, 2 * tap, i, j]
        column = j * strides[1] - begin[1] + v * dilations[1] + offsets[n, 2 * tap + 1, i, j]
        value = read(data[n, channel], row, column, padded=padded)
        value *= 1 if scales is None else scales[n, tap, i, j]
        y[n, m, i, j] += weights[m, c, u, v] * value
    attributes = text(strides, begin, end, dilations)
    attributes += f' group="{group}" deformable_group="{deformed}"'
    if op == NEW:
        attributes += f' bilinear_interpolation_pad="{str(padded).lower()}"'
    inputs: list[Tensor] = [kind(data), kind(offsets), kind(weights)]
    inputs += [] if scales is None else [kind(scales)]
    return case(op, attributes, inputs, kind(y), tolerance=tolerance)


DEFORMABLE = [
    deformable(NEW, (0, 2, 5, 5), (3, 2, 2)),
    deformable(OLD, (2, 2, 5, 6), (3, 2, 3)),
    deformable(OLD, (1, 4, 5, 6), (4, 3, 2), strides=(2, 1), begin=(1, 0), end=(0, 2), group=2),
    deformable(OLD, (1, 4, 6, 5), (2, 2, 2), dilations=(2, 1), deformed=2, reach=0.7),
    deformable(NEW, (1, 2, 5, 6), (3, 2, 3), mask=True),
    deformable(NEW, (2, 2, 5, 4), (2, 3, 3), begin=(1, 1), end=(1, 1), padded=True, reach=0.4),
    deformable(
        NEW,
        (1, 4, 5, 4),
        (4, 2, 3),
        begin=(1, 1),
        end=(1, 1),
        group=2,
        deformed=2,
        mask=True,
        padded=True,
    ),
    deformable(NEW, (1, 2, 4, 4), (2, 2, 2), begin=(2, 1), end=(1, 2), mask=True, reach=0.9),
    deformable(NEW, (1, 2, 4, 4), (2, 2, 2), kind=f16, reach=0.25, tolerance=2.0**-8),
]


def bits(shape: tuple[int, ...]) -> Any:
    n = np.arange(math.prod(shape))
    return (((n * 5 + n * n * 3) % 7) < 3).astype(int).reshape(shape)


def lowest_first(filter: Any) -> Any:
    """Return the bits of each byte in the other order."""
    flat = list(filter.reshape(-1))
    flat += [0] * (-len(flat) % 8)
    turned = [b for i in range(0, len(flat), 8) for b in reversed(flat[i : i + 8])]
    return np.array(turned[: filter.size]).reshape(filter.shape)


def binary(
    shape: tuple[int, int, int, int],
    filters: tuple[int, int, int],
    *,
    strides: Pair = (1, 1),
    begin: Pair = (0, 0),
    end: Pair = (0, 0),
    dilations: Pair = (1, 1),
    pad_value: float = 0,
    **more: Any,
) -> Case:
    batch, channels, *sizes = shape
    count, *kernel = filters
    data, weights = unordered(shape), bits((count, channels, *kernel))
    out = outputs(sizes, kernel, (strides, dilations, begin, end))
    used = lowest_first(weights)
    y = np.zeros((batch, count, *out))
    for n, m, i, j, c, u, v in itertools.product(
        *map(range, (batch, count, *out, channels, *kernel))
    ):
        row = i * strides[0] - begin[0] + u * dilations[0]
        column = j * strides[1] - begin[1] + v * dilations[1]
        if 0 <= row < sizes[0] and 0 <= column < sizes[1]:
            bit = int(data[n, c, row, column] > 0)
        elif pad_value == 0:
            continue
        else:
            bit = int(pad_value == 1)
        y[n, m, i, j] += 1 if bit == used[m, c, u, v] else -1
    attributes = text(strides, begin, end, dilations)
    attributes += f' mode="xnor-popcount" pad_value="{pad_value}"'
    return case("BinaryConvolution-1", attributes, [f32(data), u1(weights)], f32(y), **more)


BINARY = [
    binary((0, 8, 4, 5), (3, 2, 3), defect="narrow types and strings"),
    binary((1, 8, 4, 5), (3, 2, 3)),
    binary((2, 16, 5, 4), (2, 1, 1)),
    binary((1, 8, 5, 6), (2, 3, 3), strides=(2, 1), begin=(1, 1), end=(1, 0)),
    binary((1, 8, 5, 5), (2, 3, 3), begin=(1, 1), end=(1, 1), pad_value=1),
    binary((1, 8, 5, 5), (2, 2, 2), begin=(1, 1), end=(1, 1), dilations=(2, 2), pad_value=-1),
    binary((1, 3, 4, 4), (2, 2, 2), crash="OpenVINO mixes bits up where C is no multiple of 8"),
]
CASES = [*DEFORMABLE, *BINARY]
