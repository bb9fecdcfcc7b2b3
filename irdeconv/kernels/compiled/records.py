"""Calls of compiled functions that are written down, so that a loop makes many of them at once.

A call from Python takes microseconds, mostly to look at its arrays; small layers take as long. A
record holds what the call needs to know of its arguments, in words of 64 bits: where an array's
memory begins, its sizes and strides; numbers; the members of tuples one behind the other. Imported
only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


Writer = Callable[[Any, list[int]], None]


def writer(kind: types.Type) -> Writer:
    """Return what appends the words of arguments of a type, TypeError for one of another type.

    What depends on the type is decided here, once: numba takes long to tell its types apart.
    """
    if isinstance(kind, types.Array):
        return _array_writer(kind)
    if isinstance(kind, types.Float):
        return _float_writer(kind)
    return _tuple_writer(kind) if isinstance(kind, types.BaseTuple) else _write_integer


def _write_integer(value: Any, words: list[int]) -> None:
    words.append(int(value))


def _float_writer(kind: types.Float) -> Writer:
    dtype, bits = np.dtype(f"f{kind.bitwidth // 8}"), np.dtype(f"i{kind.bitwidth // 8}")

    def write(value: Any, words: list[int]) -> None:
        words.append(int(np.array(value, dtype).view(bits)))

    return write


def _tuple_writer(kind: types.BaseTuple) -> Writer:
    members = [writer(k) for k in kind]

    def write(value: Any, words: list[int]) -> None:
        if len(value) != len(members):
            raise TypeError(f"{value} is no {kind}")
        for member, v in zip(members, value, strict=True):
            member(v, words)

    return write


def _array_writer(kind: types.Array) -> Writer:
    ndim, dtype, anyhow = kind.ndim, np.dtype(str(kind.dtype)), kind.layout == "A"

    def write(value: Array | ScratchPlace, words: list[int]) -> None:
        suits = value.ndim == ndim and value.dtype == dtype
        if isinstance(value, ScratchPlace):
            place = value.base, value.offset
        else:
            suits = suits and (anyhow or value.flags.c_contiguous)
            place = 0, address(value)
        if not suits:
            raise TypeError(f"an array of {value.dtype} {value.shape} is no {kind}")
        words += (*place, *value.shape, *value.strides)

    return write


def record(write: Writer, arguments: Sequence[Any]) -> Array:
    """Write down the arguments of a call."""
    words: list[int] = []
    write(arguments, words)
    return np.array(words, np.int64)
