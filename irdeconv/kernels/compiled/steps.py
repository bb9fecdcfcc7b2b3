"""Compiled functions that a table can call; see `records`. Imported only where numba is installed.

Each reads its arguments from a record. One is compiled when the first call of it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]

from irdeconv import progress
from irdeconv.kernels.compiled import (
    chain,
    convolution,
    micro_kernel,
    pooling,
    programs,
    recurrent,
    sums,
)
from irdeconv.kernels.compiled.records import arguments_of, record, types_of
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
    return jit.address_of(_STEPS[step][0], "void(int64, int64)")


def compile_all(without: Collection[str] = ()) -> None:
    """Compile all functions but some, or read them from the disk."""
    wanted = [step for step in _STEPS if step not in without]
    for step in progress.each("compiling calls", wanted, name=str):
        _address(step)


def recorded(step: str, arguments: Sequence[Any]) -> tuple[int, Array]:
    """Return the address of a function and the record of its arguments; TypeError for others."""
    return _address(step), record(_STEPS[step][1], arguments)


_PAIRS = "UniTuple(UniTuple(int64, 2), 3)"
_DEPTHWISE = types_of(
    "float32[:,:,:,::1], float32[:,::1], int64[::1], float32[::1], UniTuple(int64, 6), "
    f"float32[:,:,:,::1], int64, int64, {_PAIRS}, UniTuple(int64[::1], 2), int64"
)
_FILL = types_of(f"float32[:,:,:,::1], float32[:,::1], int64, UniTuple(int64, 6), {_PAIRS}")
_TILES = types_of(
    "float32[::1], int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], "
    "UniTuple(int64[::1], 4), UniTuple(int64[::1], 3), float32[::1], float32[::1], int64[::1], "
    "int64, int64, UniTuple(UniTuple(int64, 1), 3)"
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
_POOL = types_of(
    "float32[:,:,::1], float32[:,:,::1], float32[:,::1], float32[::1], "
    "UniTuple(UniTuple(int64, 3), 2), float32[:,::1]"
)
_WEIGH = types_of("float32[:,:,::1], int64[:,::1], float32[:,::1], float32[:,:,::1]")
_PRODUCTS = types_of("float32[:,:], float32[:,::1], float32[:,::1]")

_depthwise, _fill, _tiles = (arguments_of(kinds) for kinds in (_DEPTHWISE, _FILL, _TILES))
_finish, _copy, _float = (arguments_of(kinds) for kinds in (_FINISH, _COPY, _FLOAT))
_pool, _weigh = arguments_of(_POOL), arguments_of(_WEIGH)
_program, _means, _products = (arguments_of(kinds) for kinds in (_PROGRAM, _MEANS, _PRODUCTS))


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


@_step(_TILES)
def tiles24x1(record: Any, bases: Any) -> None:
    """See `micro_kernel`, here and below."""
    micro_kernel.tiles24x1(*_tiles(record, bases))


@_step(_TILES)
def tiles12x2(record: Any, bases: Any) -> None:
    """Of 12 rows."""
    micro_kernel.tiles12x2(*_tiles(record, bases))


@_step(_TILES)
def tiles8x3(record: Any, bases: Any) -> None:
    """Of 8 rows, three vectors wide."""
    micro_kernel.tiles8x3(*_tiles(record, bases))


@_step(_TILES)
def tiles6x4(record: Any, bases: Any) -> None:
    """Of 6 rows, four vectors wide."""
    micro_kernel.tiles6x4(*_tiles(record, bases))


@_step(_TILES)
def tiles12x1(record: Any, bases: Any) -> None:
    """Of 12 rows, one vector wide."""
    micro_kernel.tiles12x1(*_tiles(record, bases))


@_step(_TILES)
def tiles6x2(record: Any, bases: Any) -> None:
    """Of 6 rows, two vectors wide."""
    micro_kernel.tiles6x2(*_tiles(record, bases))


@_step(_TILES)
def tiles4x3(record: Any, bases: Any) -> None:
    """Of 4 rows."""
    micro_kernel.tiles4x3(*_tiles(record, bases))


@_step(_TILES)
def tiles4x6(record: Any, bases: Any) -> None:
    """Of 4 rows, 6 vectors wide."""
    micro_kernel.tiles4x6(*_tiles(record, bases))


@_step(_TILES)
def tiles3x8(record: Any, bases: Any) -> None:
    """Of 3 rows, 8 vectors wide."""
    micro_kernel.tiles3x8(*_tiles(record, bases))


@_step(_TILES)
def tiles2x12(record: Any, bases: Any) -> None:
    """Of 2 rows, 12 vectors wide."""
    micro_kernel.tiles2x12(*_tiles(record, bases))


@_step(_TILES)
def tiles10x2(record: Any, bases: Any) -> None:
    """Of 10 rows, 2 vectors wide."""
    micro_kernel.tiles10x2(*_tiles(record, bases))


@_step(_TILES)
def tiles5x5(record: Any, bases: Any) -> None:
    """Of 5 rows, 5 vectors wide."""
    micro_kernel.tiles5x5(*_tiles(record, bases))


@_step(_TILES)
def tiles8x1(record: Any, bases: Any) -> None:
    """Of 8 rows, 1 vectors wide."""
    micro_kernel.tiles8x1(*_tiles(record, bases))


@_step(_TILES)
def tiles3x4(record: Any, bases: Any) -> None:
    """Of 3 rows, 4 vectors wide."""
    micro_kernel.tiles3x4(*_tiles(record, bases))


@_step(_TILES)
def tiles2x6(record: Any, bases: Any) -> None:
    """Of 2 rows, 6 vectors wide."""
    micro_kernel.tiles2x6(*_tiles(record, bases))


@_step(_TILES)
def tiles5x2(record: Any, bases: Any) -> None:
    """Of 5 rows, 2 vectors wide."""
    micro_kernel.tiles5x2(*_tiles(record, bases))
