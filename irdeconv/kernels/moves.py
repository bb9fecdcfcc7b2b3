"""Moves to and from computed places, and the best of rows, by compiled code where there is some."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels.threads import Team

WAYS = ("none", "sum", "prod", "min", "max")  # in the order of their numbers in compiled code
FEW_BEST = 32  # elements of a row, up to which they are found faster than by sorting it


def suits(data: np.dtype[Any] | None, indices: np.dtype[Any] | None) -> bool:
    """Whether compiled code moves elements of a type to or from indices of another one."""
    known = data is not None and data.itemsize == 4 and data.kind in "fiu"
    return known and indices in (np.int32, np.int64) and jit.available() and jit.works()


def _loops() -> Any:
    return import_module("irdeconv.kernels.compiled_moves")


def _seen(x: Array, at: int) -> Array:
    """Return `[outer, size, inner]`."""
    shape = math.prod(x.shape[:at]), x.shape[at], math.prod(x.shape[at + 1 :])
    return np.ascontiguousarray(x).reshape(shape)


def _real(x: Array, at: int) -> Array:
    """Return `[outer, size, inner]` as f32, which moves any 4 bytes as they are."""
    return _seen(x, at).view(np.float32)


@dataclass(frozen=True)
class TakeEach:
    """GatherElements along an axis; `evaluate` is asked if an index is outside of it."""

    axis: int
    evaluate: Callable[..., Array]

    def __call__(self, data: Array, indices: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the elements into `out`."""
        at = self.axis
        if _loops().take_each(_real(data, at), _seen(indices, at), _real(out, at)):
            np.copyto(out, self.evaluate(data, indices))


@dataclass(frozen=True)
class PutEach:
    """ScatterElementsUpdate along an axis, in one of `WAYS`; see `TakeEach`."""

    axis: int
    way: int
    evaluate: Callable[..., Array]

    def __call__(
        self, data: Array, indices: Array, updates: Array, *more: Array, out: Array, team: Team
    ) -> None:
        """Write the data with the updates into `out`."""
        np.copyto(out, data)
        at = self.axis
        given = _real(out, at), _seen(indices, at), _real(updates, at)
        if _loops().put_each(*given, self.way):
            np.copyto(out, self.evaluate(data, indices, updates, *more))


@dataclass(frozen=True)
class TakeRows:
    """Gather along an axis by one list of indices; an index outside of it gives zeros."""

    axis: int
    wraps: bool

    def __call__(self, data: Array, indices: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the rows into `out`."""
        at, flat = self.axis, np.ascontiguousarray(indices).reshape(-1)
        x = _real(data, at)
        result = out.view(np.float32).reshape(len(x), len(flat), x.shape[2])
        _loops().take_rows(x, flat, result, self.wraps)


def best_of_rows(x: Array, count: int, *, largest: bool) -> tuple[Array, Array]:
    """Return the first elements of sorted rows `[.., n]` of f32, and their places."""
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    values, places = (
        np.empty((len(rows), count), np.float32),
        np.empty((len(rows), count), np.int64),
    )
    _loops().best(rows, values, places, largest)
    shape = (*x.shape[:-1], count)
    return values.reshape(shape), places.reshape(shape)
