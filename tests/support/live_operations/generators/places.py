"""Operations that read or write at computed places: gather, scatter, sort, count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from op_cases import Tensor
from support.live_operations.generators.tools import (
    Generator,
    Rng,
    Sample,
    anything,
    axis,
    flag,
    index,
    kind,
    numbers,
    pick,
    sample,
    shape,
)

NUMBERS = ("f32", "f32", "f16", "i32", "i64", "u8", "i8")


def _below(rng: Rng, sizes: Any, of: tuple[int, ...], *, negative: bool = True) -> Any:
    """Indices in range, some counted from the end."""
    values = rng.integers(0, np.maximum(sizes, 1), of)
    return np.where(rng.random(of) < 0.25 * negative, values - sizes, values)


def _not_empty(rng: Rng, low: int, high: int) -> tuple[int, ...]:
    return tuple(max(d, 1) for d in shape(rng, low, high))


def gather(rng: Rng, name: str, version: str) -> Sample:
    size, number = _not_empty(rng, 1, 4), int(version[5:])
    at, batch = axis(rng, len(size)), 0
    if number >= 7 and rng.random() < 0.3:
        batch = int(rng.integers(0, at % len(size) + 1))
    of = (*size[:batch], *shape(rng, 0, 2, 3))
    places = _below(rng, size[at], of, negative=number >= 8)
    inputs = [numbers(rng, anything(rng), size), index(rng, places), index(rng, at)]
    return sample(rng, name, version, {"batch_dims": batch}, inputs, [2])


def gather_elements(rng: Rng, name: str, version: str) -> Sample:
    size = _not_empty(rng, 1, 4)
    at = axis(rng, len(size))
    of = list(size)
    of[at] = int(rng.integers(1, 5))
    inputs = [numbers(rng, anything(rng), size), index(rng, _below(rng, size[at], tuple(of)))]
    return sample(rng, name, version, {"axis": at}, inputs)


def gather_nd(rng: Rng, name: str, version: str) -> Sample:
    size = _not_empty(rng, 1, 4)
    batch = int(rng.integers(0, len(size)))
    depth = int(rng.integers(1, len(size) - batch + 1))
    of = (*size[:batch], *shape(rng, 0, 2, 3), depth)
    places = _below(rng, np.array(size[batch : batch + depth]), of)
    inputs = [numbers(rng, anything(rng), size), index(rng, places)]
    return sample(rng, name, version, {"batch_dims": batch}, inputs)


def scatter(rng: Rng, name: str, version: str) -> Sample:
    """ScatterUpdate: distinct places on an axis."""
    size, dtype = _not_empty(rng, 1, 4), anything(rng)
    at = axis(rng, len(size)) % len(size)
    places = rng.permutation(size[at])[: int(rng.integers(1, size[at] + 1))]
    updates = numbers(rng, dtype, (*size[:at], len(places), *size[at + 1 :]))
    inputs = [numbers(rng, dtype, size), index(rng, places), updates, index(rng, at)]
    return sample(rng, name, version, {}, inputs, [3])


def scatter_elements(rng: Rng, name: str, version: str) -> Sample:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, *NUMBERS)
    at = axis(rng, len(size))
    how = pick(rng, ("none", "sum", "prod", "min", "max", "mean"))
    of = list(size)
    if int(version[5:]) < 12 or how == "none":  # the last of equal places is anybody's
        of[at] = 1
    places = _below(rng, size[at], tuple(of))
    updates = numbers(rng, dtype, of, 3)
    inputs = [numbers(rng, dtype, size, 3), index(rng, places), updates, index(rng, at)]
    texts = {"reduction": how, "use_init_val": flag(rng)}
    return sample(rng, name, version, texts, inputs, [3])


def scatter_nd(rng: Rng, name: str, version: str) -> Sample:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, *NUMBERS)
    depth = int(rng.integers(1, len(size) + 1))
    whole = math.prod(size[:depth])
    flat = rng.permutation(whole)[: int(rng.integers(1, min(whole, 4) + 1))]
    places = np.stack(np.unravel_index(flat, size[:depth]), -1)
    updates = numbers(rng, dtype, (len(flat), *size[depth:]), 3)
    texts = {"reduction": pick(rng, ("none", "sum", "sub", "prod", "min", "max"))}
    inputs = [numbers(rng, dtype, size, 3), index(rng, places), updates]
    return sample(rng, name, version, texts, inputs)


def one_hot(rng: Rng, name: str, version: str) -> Sample:
    size, depth = shape(rng, 0, 3), int(rng.integers(1, 5))
    dtype = kind(rng, "f32", "i32", "i64", "f16", "u8", "boolean")
    places = index(rng, rng.integers(-1, depth + 1, size))
    on, off = (Tensor(dtype, np.array(v).astype(dtype.container)) for v in (1, 0))
    texts = {"axis": axis(rng, len(size) + 1), "negative_indices_mode": "ignore_negative"}
    return sample(rng, name, version, texts, [places, index(rng, depth), on, off], [1, 2, 3])


def top_k(rng: Rng, name: str, version: str) -> Sample:
    """Distinct values, so that the order is defined."""
    size, dtype = _not_empty(rng, 1, 3), kind(rng, "f32", "f32", "f16", "i32", "f64")
    at = axis(rng, len(size))
    values = rng.permutation(math.prod(size)).reshape(size).astype(dtype.container)
    texts = {
        "axis": at,
        "mode": pick(rng, ("max", "min")),
        "sort": pick(rng, ("value", "index")),
        "index_element_type": pick(rng, ("i32", "i64")) if int(version[5:]) > 1 else None,
        "stable": flag(rng) if rng.random() < 0.3 else "false",
    }
    if texts["stable"] == "true":
        texts["sort"] = "value"
    k = index(rng, int(rng.integers(1, size[at] + 1)))
    return sample(rng, name, version, texts, [Tensor(dtype, values), k], [1], 2)


def non_zero(rng: Rng, name: str, version: str) -> Sample:
    texts = {"output_type": pick(rng, ("i64", "i32"))}
    return sample(rng, name, version, texts, [numbers(rng, anything(rng), shape(rng, 1, 4), 1)])


def unique(rng: Rng, name: str, version: str) -> Sample:
    size, dtype = _not_empty(rng, 1, 3), kind(rng, "f32", "i32", "i64", "u8", "f16")
    texts = {
        "sorted": flag(rng),
        "index_element_type": pick(rng, ("i64", "i32")),
        "count_element_type": pick(rng, ("i64", "i32")),
    }
    inputs = [numbers(rng, dtype, size, 2)]
    if rng.random() < 0.5:
        inputs.append(index(rng, axis(rng, len(size))))
    return sample(rng, name, version, texts, inputs, [1], 4)


def ranges(rng: Rng, name: str, version: str) -> Sample:
    dtype = kind(rng, "i64", "i32", "f32")
    start, step = int(rng.integers(-5, 6)), int(pick(rng, (1, 2, 3, -1, -2)))
    stop = start + step * int(rng.integers(0, 6)) + int(rng.integers(0, 2))
    kept = [Tensor(dtype, np.array(v).astype(dtype.container)) for v in (start, stop, step)]
    texts = {"output_type": dtype}
    return sample(rng, name, version, texts, kept, [0, 1, 2] if rng.random() < 0.5 else [2])


def eye(rng: Rng, name: str, version: str) -> Sample:
    rows, columns, at = (int(v) for v in rng.integers((1, 1, -3), (5, 5, 4)))
    inputs = [index(rng, v) for v in (rows, columns, at)]
    if rng.random() < 0.4:
        inputs.append(index(rng, shape(rng, 1, 2)))
    texts = {"output_type": pick(rng, ("f32", "i32", "i64", "u8", "f16"))}
    return sample(rng, name, version, texts, inputs, [0, 1, 2, 3])


def bucketize(rng: Rng, name: str, version: str) -> Sample:
    dtype = kind(rng, "f32", "i32", "i64")
    edges = np.sort(rng.permutation(9)[: int(rng.integers(1, 6))]).astype(dtype.container)
    texts = {"output_type": pick(rng, ("i64", "i32")), "with_right_bound": flag(rng)}
    inputs = [numbers(rng, dtype, shape(rng)), Tensor(dtype, edges)]
    return sample(rng, name, version, texts, inputs)


def search_sorted(rng: Rng, name: str, version: str) -> Sample:
    dtype, size = kind(rng, "f32", "i32", "i64"), list(_not_empty(rng, 1, 3))
    edges = np.sort(numbers(rng, dtype, size).values, -1)
    size[-1] = int(rng.integers(1, 5))
    texts = {"right_mode": flag(rng), "output_type": pick(rng, ("i64", "i32"))}
    return sample(rng, name, version, texts, [Tensor(dtype, edges), numbers(rng, dtype, size)])


def bags(rng: Rng, name: str, version: str) -> Sample:
    """EmbeddingBag*, of offsets or packed."""
    dtype = kind(rng, "f32", "f16")
    rows = int(rng.integers(2, 6))
    table = numbers(rng, dtype, (rows, *shape(rng, 1, 2, 3)))
    texts = {"reduction": pick(rng, ("sum", "mean"))}
    if "Packed" in name:
        size = tuple(int(v) for v in rng.integers(1, 4, 2))
        inputs = [table, index(rng, rng.integers(0, rows, size))]
        weights = numbers(rng, dtype, size)
    else:
        count = int(rng.integers(2, 6))
        offsets = np.sort(rng.integers(0, count, int(rng.integers(1, 4))))
        offsets[0] = 0
        places = index(rng, rng.integers(0, rows, count))
        inputs = [table, places, Tensor(places.dtype, offsets.astype(places.dtype.container))]
        inputs.append(Tensor(places.dtype, np.array(0).astype(places.dtype.container)))
        weights = numbers(rng, dtype, (count,))
    if texts["reduction"] == "sum" and rng.random() < 0.5:
        inputs.append(weights)
    lists = range(1, len(inputs)) if rng.random() < 0.5 else [3]
    return sample(rng, name, version, texts, inputs, list(lists))


def shifts(rng: Rng, name: str, version: str) -> Sample:
    """BitwiseLeftShift, BitwiseRightShift."""
    dtype, size = kind(rng, "i32", "u8", "i64", "u32"), shape(rng)
    a = numbers(rng, dtype, size)
    by = rng.integers(0, 4, size).astype(dtype.container)
    return sample(rng, name, version, {}, [a, Tensor(dtype, by)])


GENERATORS: dict[str, Generator] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterUpdate": scatter,
    "ScatterElementsUpdate": scatter_elements,
    "ScatterNDUpdate": scatter_nd,
    "OneHot": one_hot,
    "TopK": top_k,
    "NonZero": non_zero,
    "Unique": unique,
    "Range": ranges,
    "Eye": eye,
    "Bucketize": bucketize,
    "SearchSorted": search_sorted,
    "EmbeddingBagOffsets": bags,
    "EmbeddingBagOffsetsSum": bags,
    "EmbeddingBagPacked": bags,
    "EmbeddingBagPackedSum": bags,
    "BitwiseLeftShift": shifts,
    "BitwiseRightShift": shifts,
}
