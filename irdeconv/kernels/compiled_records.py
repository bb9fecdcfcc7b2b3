"""Compiled functions that run from recorded tables of calls; imported only if numba is installed.

A call from Python takes microseconds, mostly to examine its arrays; small layers take as long. A
record holds the arguments in words of 64 bits: an array's address, its sizes and
strides; numbers; the members of tuples one behind the other. A function is compiled when its first
call is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from threading import RLock
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic
from numba.np.arrayobj import (
    make_array,
    populate_array,
)

from irdeconv.base import progress
from irdeconv.ir.spec import Array
from irdeconv.kernels import (
    compiled_blas,
    compiled_chain,
    compiled_convolution,
    compiled_micro_kernel,
    compiled_moves,
    compiled_sums,
    compiled_winograd,
    jit,
)
from irdeconv.kernels.compiled_sharing import call_step
from irdeconv.kernels.jit import PACKED, TILES
from irdeconv.kernels.scratch import ScratchPlace, address

_WORD = ir.IntType(64)
_COMPILING = RLock()  # threads that need the same function compile it once


class _RecordReader:
    """Writes code that reads a record; places in memory are counted from `bases`."""

    def __init__(self, context: Any, builder: ir.IRBuilder, record: ir.Value, bases: ir.Value):
        self.context, self.builder = context, builder
        self.record, self.bases = (builder.inttoptr(v, _WORD.as_pointer()) for v in (record, bases))
        self.at = 0

    def word(self) -> ir.Value:
        place = self.builder.gep(self.record, [ir.Constant(_WORD, self.at)])
        self.at += 1
        return self.builder.load(place)

    def value(self, kind: types.Type) -> ir.Value:
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
        # A place is (number of the base, distance): memory that stays has the base 0, which is the
        # address 0, and scratch memory one that differs from thread to thread.
        base = builder.load(builder.gep(self.bases, [self.word()]))
        address = builder.add(base, self.word())
        shape, strides = ([self.word() for _ in range(kind.ndim)] for _ in range(2))
        array = make_array(kind)(self.context, builder)
        size = self.context.get_constant(types.intp, kind.dtype.bitwidth // 8)
        data = builder.inttoptr(address, array.data.type)
        # Without `meminfo` numba counts no references: `Recorded.kept` keeps the memory.
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
    # Filled here, since addresses take longer to find in Python. The order is that of
    # `ScratchPlace.given`: nothing, scratch memory, none of a team, the first array, the second.
    bases = np.zeros(5, np.int64)
    bases[1], bases[3], bases[4] = memory.ctypes.data, x.ctypes.data, out.ctypes.data
    run_table(table, bases)


@jit.compiled
def _write_array(words: Any, at: int, array: Any) -> int:
    """Write the words of a flat array; returns the place behind them."""
    words[at + 1], words[at + 2] = array.ctypes.data, len(array)
    words[at + 3] = array.itemsize
    return at + 4


def _call_tiles(
    step: Any,
    counts: Any,
    x: Any,
    offsets: Any,
    panels: Any,
    bias: Any,
    limits: Any,
    reads: Any,
    stores: Any,
    pieces: Any,
    near: Any,
    out: Any,
    starts: Any,
    base: Any,
    shared: Any,
) -> None:
    """Call the micro-kernel at an address; its tuples of zeros have `counts` elements in all."""
    words, bases = np.zeros(66 + counts, np.int64), np.zeros(1, np.int64)
    at = _write_array(words, _write_array(words, 0, x), offsets)
    for numbers in (panels, bias, limits):
        at = _write_array(words, at, numbers)
    at = _write_array(words, at, reads)
    for integers in stores:
        at = _write_array(words, at, integers)
    for integers in pieces:
        at = _write_array(words, at, integers)
    at = _write_array(words, _write_array(words, at, near), out)
    at = _write_array(words, at, starts)
    words[at], words[at + 1] = base, shared
    call_step(step, words.ctypes.data, bases.ctypes.data)
    words[0] = bases[0]  # numba frees an array after its last use; an address does not count


Writer = Callable[[Any, list[int]], None]


def writer(kind: types.Type) -> Writer:
    """Return a function that appends the words of arguments of a type; TypeError for others.

    It examines the type once, here: numba is slow at distinguishing types.
    """
    if isinstance(kind, types.Array):
        return _array_writer(kind)
    if isinstance(kind, types.Float):
        return _float_writer(kind)
    if isinstance(kind, types.BaseTuple):
        return _tuple_writer(kind)
    return lambda value, words: words.append(int(value))


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
    """Return the record of a call's arguments."""
    words: list[int] = []
    write(arguments, words)
    return np.array(words, np.int64)


def _address(step: str) -> int:
    with _COMPILING:
        return _compiled_address(step)


@cache
def _compiled_address(step: str) -> int:
    return jit.address_of(_found(step)[0], "void(int64, int64)", step)


def tiles(step: str) -> Callable[..., None]:
    """Return a function that calls the micro-kernel of a step with arrays of Python."""
    with _COMPILING:
        return partial(_tiles_caller(), _address(step), sum(map(int, step.split("_")[2:])))


@cache
def _tiles_caller() -> Callable[..., None]:
    # One function for all tiles: to compile each for arrays of Python as well takes twice as long.
    # Arrays of other types are refused: the micro-kernel would read them as these.
    reals, numbers, out = (
        types.Array(kind, 1, "C", readonly=readonly, aligned=False)
        for kind, readonly in ((types.float32, True), (types.int64, True), (types.float32, False))
    )
    tuples = types.UniTuple(numbers, 4), types.UniTuple(numbers, 3)
    arrays = reals, numbers, reals, reals, reals, numbers, *tuples, out, out, numbers
    count = types.int64
    return jit.compiled_for(types.void(count, count, *arrays, count, count))(_call_tiles)


@cache
def _found(step: str) -> tuple[Callable[[Any, Any], None], types.BaseTuple]:
    """Return the function of a step, and the types of the kernel's arguments, which it reads.

    A step of the micro-kernel has the tile in its name; see `panels.step_name`.
    """
    if step.startswith(TILES):
        name = step.removeprefix(TILES)
        packed = max(n for n, prefix in PACKED.items() if name.startswith(prefix))
        rows, vectors, *counts = map(int, name.removeprefix(PACKED[packed]).split("_"))
        kernel = compiled_micro_kernel.tile_code(rows, vectors, packed)
        many = types.BaseTuple.from_types([types.UniTuple(types.int64, n) for n in counts])
        kinds = types.BaseTuple.from_types([*_TILES, many])
    else:
        kernel, kinds = _STEPS[step]
    read = arguments_of(kinds)

    def call(record: Any, bases: Any) -> None:
        kernel(*read(record, bases))

    return call, kinds


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
_MATRICES = "UniTuple(float32[:,::1], 3)"
_READ_2, _READ_4 = (f"Array(float32, {axes}, 'C', readonly=True)" for axes in (2, 4))
_TILES = types_of(
    "float32[::1], int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], "
    "UniTuple(int64[::1], 4), UniTuple(int64[::1], 3), float32[::1], float32[::1], int64[::1], "
    "int64, int64"
)
# The kernel of each step, and the types of its arguments. Those that `depthwise` only reads are as
# calls from Python have them, so that both are one function, which is compiled once.
_STEPS = {
    kernel.__name__: (kernel, types_of(arguments))
    for kernel, arguments in (
        (
            compiled_convolution.depthwise,
            f"{_READ_4}, {_READ_2}, int64[::1], float32[:,::1], UniTuple(int64, 6), "
            f"float32[:,:,:,::1], int64, int64, {_PAIRS}, UniTuple(int64[::1], 2), "
            "UniTuple(int64, 4)",
        ),
        (
            compiled_convolution.fill_all,
            f"float32[:,:,:,::1], float32[:,::1], int64, UniTuple(int64, 6), {_PAIRS}",
        ),
        (
            compiled_chain.finish_rows,
            "float32[:,:], float32[::1], float32[::1], float32[:,:], float32[:,:], float32, "
            "float32, int64, float32[:,::1]",
        ),
        (
            compiled_chain.run_program,
            "float32[:,:], int64[:,::1], int64[:,::1], float32[::1], float32[:,::1], "
            "int64[:,::1], float32[:,::1]",
        ),
        (compiled_sums.row_means, "float32[:,::1], float32[::1], float32"),
        (compiled_sums.row_extremes, "float32[:,::1], float32[::1], int64"),
        (compiled_sums.softmax_rows, "float32[:,::1], float32[:,::1], float32[::1]"),
        (
            compiled_sums.standardize_rows,
            "float32[:,::1], float32[:,::1], float32[::1], float32[::1], float32[::1], int64",
        ),
        (compiled_sums.row_products, "float32[:,:,:], float32[:,:,::1], float32[:,:,::1]"),
        (
            compiled_blas.blas_products,
            "int64, int64, float32[:,:,:,:], float32[:,:,:,:], float32[:,:,:,:]",
        ),
        (
            compiled_sums.pool_planes,
            "float32[:,:,::1], float32[:,:,::1], float32[:,::1], float32[::1], "
            "UniTuple(UniTuple(int64, 3), 2), float32[:,::1]",
        ),
        (compiled_sums.weigh, "float32[:,:,::1], uint32[:,::1], float32[:,::1], float32[:,:,::1]"),
        (
            compiled_sums.sum_terms,
            "float32[::1], float32[::1], float32[::1], UniTuple(int64, 2), UniTuple(int64, 5), "
            "UniTuple(int64[::1], 3), "
            "Tuple((int64, int64, int64[::1], int64[::1], UniTuple(int64[::1], 3)))",
        ),
        (
            jit.compiled(compiled_winograd.enter),
            "float32[:,:,:,:,:], float32[::1], "
            "Tuple((int64, int64, int64, UniTuple(int64, 3))), float32[::1], UniTuple(int64, 3), "
            f"UniTuple(UniTuple(int64, 3), 2), {_MATRICES}",
        ),
        (
            compiled_winograd.leave,
            f"float32[::1], int64, UniTuple(int64, 3), UniTuple(int64, 3), {_MATRICES}",
        ),
        (compiled_sums.copy, "float32[:,:,:], float32[:,:,:]"),
        (compiled_sums.fill, "float32[:,:,:], float32"),
    )
} | {
    f"cast_{source}_{target}": (kernel, types_of(f"{source}[::1], {target}[::1]"))
    for name in jit.CAST_TYPES
    for kernel, source, target in (
        (compiled_moves.cut_each, "float32", name),
        (compiled_moves.cast_each, name, "float32"),
    )
}
