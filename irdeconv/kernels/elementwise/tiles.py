"""How arrays that broadcast to one shape are cut into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Index = tuple[Any, ...]
Strides = tuple[int, ...]


@dataclass(frozen=True)
class TileLayout:
    """Axes merged where all arrays allow it, and the tiles: where they lie in `out`, in inputs."""

    shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    tiles: list[tuple[Index, tuple[Index, ...]]]


@lru_cache(maxsize=1024)
def tile_layout(
    shape: tuple[int, ...],
    strides: Strides,
    inputs: tuple[tuple[tuple[int, ...], Strides], ...],
    size: int,
) -> TileLayout:
    """Merge neighbouring axes and cut tiles of about `size` elements."""
    rank = len(shape)
    all_shapes = [shape, *((1,) * (rank - len(s)) + s for s, _ in inputs)]
    all_strides = [strides, *((0,) * (rank - len(t)) + t for _, t in inputs)]
    merged: list[list[int]] = []  # for each axis that is left, its size in every array
    ahead: list[int] = []
    for axis in range(rank):
        if shape[axis] == 1:
            continue
        sizes = [s[axis] for s in all_shapes]
        steps = [t[axis] for t in all_strides]
        if merged and _mergeable(merged[-1], ahead, sizes, steps):
            merged[-1] = [a * b for a, b in zip(merged[-1], sizes, strict=True)]
        else:
            merged.append(sizes)
        ahead = steps
    kept = merged or [[1] * len(all_shapes)]
    shapes = [tuple(axis[i] for axis in kept) for i in range(len(all_shapes))]
    return TileLayout(shapes[0], tuple(shapes[1:]), _tiles(shapes[0], shapes[1:], size))


def _mergeable(outer: list[int], ahead: list[int], sizes: list[int], steps: list[int]) -> bool:
    """Whether in every array an axis continues the one before it, or both are broadcast."""
    for before, stride, size, step in zip(outer, ahead, sizes, steps, strict=True):
        broadcast = before == 1, size == 1
        if broadcast[0] != broadcast[1] or (not broadcast[0] and stride != step * size):
            return False
    return True


def _tiles(
    shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]], size: int
) -> list[tuple[Index, tuple[Index, ...]]]:
    """Cut one axis into pieces; those before it are walked, those behind it stay whole."""
    cut = len(shape) - 1
    inner = 1
    while cut and inner * shape[cut] < size:
        inner *= shape[cut]
        cut -= 1
    rows = max(1, size // inner)
    tiles = []
    for place in np.ndindex(*shape[:cut]):
        for at in range(0, shape[cut], rows):
            index = (*place, slice(at, min(at + rows, shape[cut])))
            parts = tuple(
                tuple(
                    p if s[a] > 1 else (0 if a < cut else slice(None)) for a, p in enumerate(index)
                )
                for s in inputs
            )
            tiles.append((index, parts))
    return tiles
