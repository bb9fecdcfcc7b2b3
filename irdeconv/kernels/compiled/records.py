"""Calls of compiled functions that are written down, so that a loop makes many of them at once.

A call from Python takes microseconds, mostly to look at its arrays; small layers take as long. A
record holds what the call needs to know of its arguments, in words of 64 bits: where an array's
memory begins, its sizes and strides; numbers; the members of tuples one behind the other. Imported
only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]
from numba.core.sigutils import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    normalize_signature,
)
from numba.extending import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    intrinsic,
)
from numba.np.arrayobj import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    make_array,
    populate_array,
)

from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.scratch import ScratchPlace, address
from irdeconv.spec import Array

_WORD = ir.IntType(64)


class _RecordReader:
    """Writes code that reads a record: `bases` is what places in memory are counted from."""

    def __init__(self, context: Any, builder: ir.IRBuilder, record: ir.Value, bases: ir.Value):
        self.context, self.builder = context, builder
        self.record, self.bases = (builder.inttoptr(v, _WORD.as_pointer()) for v in (record, bases))
        self.at = 0

    def word(self) -> ir.Value:
        """Read the next word."""
        place = self.builder.gep(self.record, [ir.Constant(_WORD, self.at)])
        self.at += 1
        return self.builder.load(place)

    def value(self, kind: types.Type) -> ir.Value:
        """Read an argument."""
        builder, context = self.builder, self.context
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [self.value(k) for k in kind])
        if isinstance(kind, types.Array):
            return self._array(kind)
        word, wanted = self.word(), context.get_value_type(kind)
        if isinstance(kind, types.Float):
            return builder.bitcast(builder.trunc(word, ir.IntType(kind.bitwidth)), wanted)
        return word if wanted == _WORD else builder.trunc(word, wanted)

    def _array(self, kind: types.Array) -> ir.Value:
        builder = self.builder
        base = builder.load(builder.gep(self.bases, [self.word()]))
        address = builder.add(base, self.word())
        shape, strides = ([self.word() for _ in range(kind.ndim)] for _ in range(2))
        array = make_array(kind)(self.context, builder)
        size = self.context.get_constant(types.intp, kind.dtype.bitwidth // 8)
        data = builder.inttoptr(address, array.data.type)
        populate_array(array, data, shape, strides, size, meminfo=None)
        return array._getvalue()


def arguments_of(kinds: types.BaseTuple) -> Any:
    """Make a function for compiled code: (record, bases) -> the arguments, of these types."""

    def typed(context: Any, record: Any, bases: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _RecordReader(context, builder, *values).value(kinds)

        return kinds(types.int64, types.int64), generate

    return intrinsic(typed)


def types_of(signature: str) -> types.BaseTuple:
    """Return the types of the arguments that a signature lists."""
    found, _ = normalize_signature(f"void({signature})")
    return types.BaseTuple.from_types(found)


def _call(context: Any, step: Any, record: Any, bases: Any) -> Any:
    """Call the function at an address."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
        step, *arguments = values
        builder.call(builder.inttoptr(step, kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


call_step: Any = intrinsic(_call)


@jit.compiled_for("void(int64[::1], int64[::1])")
def run_table(table: Any, bases: Any) -> None:
    """Make all calls of a table: for each the function's address and the record's."""
    start = bases.ctypes.data
    for k in range(0, len(table), 2):
        call_step(table[k], table[k + 1], start)


_READ = types.Array(types.float32, 1, "C", readonly=True)


@jit.compiled_for((types.int64[::1], types.uint8[::1], _READ, types.float32[::1]))
def run_table_on(table: Any, memory: Any, x: Any, out: Any) -> None:
    """Make all calls of a table; places are counted from scratch memory, `x` and `out`, too."""
    bases = np.zeros(4, np.int64)
    bases[1], bases[2], bases[3] = memory.ctypes.data, x.ctypes.data, out.ctypes.data
    run_table(table, bases)


def words(kind: types.Type, value: Any) -> list[int]:
    """Return the words of an argument; TypeError where it is none of that type."""
    sort = _sort(kind)
    if sort is types.Array:
        return _words_of_array(kind, value)
    if sort is types.Float:
        number = np.float32 if kind.bitwidth == 32 else np.float64
        return [int(np.array(value, number).view(f"i{kind.bitwidth // 8}"))]
    if sort is not types.BaseTuple:
        return [int(value)]
    if len(kind) != len(value):
        raise TypeError(f"{value} is no {kind}")
    return [w for k, v in zip(kind, value, strict=True) for w in words(k, v)]


@cache
def _sort(kind: types.Type) -> type | None:
    """Return which of the types that are told apart one is: numba takes long to tell."""
    sorts = types.Array, types.BaseTuple, types.Float
    return next((sort for sort in sorts if isinstance(kind, sort)), None)


def _words_of_array(kind: types.Array, value: Array | ScratchPlace) -> list[int]:
    suits = value.ndim == kind.ndim and value.dtype == _dtype(kind.dtype)
    if isinstance(value, ScratchPlace):
        place = [value.base, value.offset]
    else:
        suits = suits and (kind.layout == "A" or value.flags.c_contiguous)
        place = [0, address(value)]
    if not suits:
        raise TypeError(f"an array of {value.dtype} {value.shape} is no {kind}")
    return [*place, *value.shape, *value.strides]


@cache
def _dtype(kind: types.Type) -> np.dtype[Any]:
    return np.dtype(str(kind))


def record(kinds: types.BaseTuple, arguments: Sequence[Any]) -> Array:
    """Write down the arguments of a call."""
    return np.array(words(kinds, arguments), np.int64)
