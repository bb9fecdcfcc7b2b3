"""Compiled functions that a table can call; see `records`. Imported only where numba is installed.

Each reads its arguments from a record. One is compiled when the first call of it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv import progress
from irdeconv.kernels.compiled import (
    TILES,
    chain,
    convolution,
    micro_kernel,
    pooling,
    programs,
    recurrent,
    sums,
)
from irdeconv.kernels.compiled.records import Writer, arguments_of, record, types_of, writer
from irdeconv.kernels.shared import jit
from irdeconv.spec import Array

_STEPS: dict[str, tuple[Callable[[Any, Any], None], types.BaseTuple]] = {}
F = Callable[[Any, Any], None]


def _step(kinds: types.BaseTuple) -> Callable[[F], F]:
    """Register a function that reads arguments of these types."""

    def register(fn: F) -> F:
        _STEPS[fn.__name__] = fn, kinds
        return fn

    return register


@cache
def _address(step: str) -> int:
    return jit.address_of(_found(step)[0], "void(int64, int64)", step)


def _found(step: str) -> tuple[Callable[[Any, Any], None], types.BaseTuple]:
    return _tiles_step(step) if step.startswith(TILES) else _STEPS[step]


def compile_all(more: Iterable[str] = ()) -> None:
    """Compile all functions and some of the micro-kernel, or read them from the disk."""
    for step in progress.each("compiling calls", [*_STEPS, *more], name=str):
        _address(step)


@cache
def _writer(step: str) -> Writer:
    return writer(_found(step)[1])


def recorded(step: str, arguments: Sequence[Any]) -> tuple[int, Array]:
    """Return the address of a function and the record of its arguments; TypeError for others."""
    return _address(step), record(_writer(step), arguments)


_PAIRS = "UniTuple(UniTuple(int64, 2), 3)"
_DEPTHWISE = types_of(
    "float32[:,:,:,::1], float32[:,::1], int64[::1], float32[::1], UniTuple(int64, 6), "
    f"float32[:,:,:,::1], int64, int64, {_PAIRS}, UniTuple(int64[::1], 2), int64"
)
_FILL = types_of(f"float32[:,:,:,::1], float32[:,::1], int64, UniTuple(int64, 6), {_PAIRS}")
_TILES = types_of(
    "float32[::1], int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], "
    "UniTuple(int64[::1], 4), UniTuple(int64[::1], 3), float32[::1], float32[::1], int64[::1], "
    "int64, int64"
)
_FINISH = types_of(
    "float32[:,:], float32[::1], float32[::1], float32[:,:], float32[:,:], float32, float32, int64"
)
_COPY = types_of("float32[:,:,:], float32[:,:,:]")
_FLOAT = types_of("float32[:,:,:], float32")
_PROGRAM = types_of(
    "float32[:,:], int64[:,::1], int64[:,::1], float32[::1], float32[:,::1], int64[:,::1], "
    "float32[:,::1]"
)
_MEANS = types_of("float32[:,::1], float32[::1], float32")
_SOFTMAX = types_of("float32[:,::1], float32[:,::1], float32[::1]")
_POOL = types_of(
    "float32[:,:,::1], float32[:,:,::1], float32[:,::1], float32[::1], "
    "UniTuple(UniTuple(int64, 3), 2), float32[:,::1]"
)
_WEIGH = types_of("float32[:,:,::1], uint32[:,::1], float32[:,::1], float32[:,:,::1]")
_PRODUCTS = types_of("float32[:,:], float32[:,::1], float32[:,::1]")

_depthwise, _fill = arguments_of(_DEPTHWISE), arguments_of(_FILL)
_finish, _copy, _float = (arguments_of(kinds) for kinds in (_FINISH, _COPY, _FLOAT))
_pool, _weigh = arguments_of(_POOL), arguments_of(_WEIGH)
_program, _means, _products = (arguments_of(kinds) for kinds in (_PROGRAM, _MEANS, _PRODUCTS))
_softmax = arguments_of(_SOFTMAX)


@_step(_DEPTHWISE)
def depthwise(record: Any, bases: Any) -> None:
    """See `convolution.depthwise`."""
    convolution.depthwise(*_depthwise(record, bases))


@_step(_FILL)
def fill_all(record: Any, bases: Any) -> None:
    """See `convolution.fill_all`."""
    convolution.fill_all(*_fill(record, bases))


@_step(_FINISH)
def finish_rows(record: Any, bases: Any) -> None:
    """See `chain.finish_rows`."""
    chain.finish_rows(*_finish(record, bases))


@_step(_PROGRAM)
def run_program(record: Any, bases: Any) -> None:
    """See `programs.run_program`."""
    programs.run_program(*_program(record, bases))


@_step(_MEANS)
def row_means(record: Any, bases: Any) -> None:
    """See `sums.row_means`."""
    sums.row_means(*_means(record, bases))


@_step(_SOFTMAX)
def softmax_rows(record: Any, bases: Any) -> None:
    """See `sums.softmax_rows`."""
    sums.softmax_rows(*_softmax(record, bases))


@_step(_PRODUCTS)
def row_products(record: Any, bases: Any) -> None:
    """See `recurrent.row_products`."""
    recurrent.row_products(*_products(record, bases))


@_step(_POOL)
def pool_planes(record: Any, bases: Any) -> None:
    """See `pooling.pool_planes`."""
    pooling.pool_planes(*_pool(record, bases))


@_step(_WEIGH)
def weigh(record: Any, bases: Any) -> None:
    """See `sums.weigh`."""
    sums.weigh(*_weigh(record, bases))


@_step(_COPY)
def copy(record: Any, bases: Any) -> None:
    """See `sums.copy`."""
    sums.copy(*_copy(record, bases))


@_step(_FLOAT)
def fill(record: Any, bases: Any) -> None:
    """See `sums.fill`."""
    sums.fill(*_float(record, bases))


@cache
def _tiles_step(step: str) -> tuple[Callable[[Any, Any], None], types.BaseTuple]:
    """Make a function of the micro-kernel from its name; see `panels.step_name`."""
    rows, vectors, *counts = map(int, step.removeprefix(TILES).split("_"))
    kernel = getattr(micro_kernel, f"tiles{rows}x{vectors}")
    many = types.BaseTuple.from_types([types.UniTuple(types.int64, n) for n in counts])
    kinds = types.BaseTuple.from_types([*_TILES, many])
    read = arguments_of(kinds)

    def tiles(record: Any, bases: Any) -> None:
        kernel(*read(record, bases))

    return tiles, kinds
