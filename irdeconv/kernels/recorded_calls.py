"""Compiled calls with fixed memory, recorded once and made together; needs no numba.

A step of a plan is a list of such calls if all of it is compiled; consecutive steps then take one
call from Python (`compiled_records`). Functions return None if there is no compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import Piece
from irdeconv.kernels.jit import ROW_PART, SPLAT
from irdeconv.kernels.machine import matrix_product
from irdeconv.kernels.products import ProductCall, pitch
from irdeconv.kernels.scratch import (
    COMMON,
    SCRATCH,
    ScratchPlace,
    ScratchPlan,
    Space,
    address,
    pieces,
    seen,
)
from irdeconv.kernels.threads import Team


@dataclass(frozen=True, eq=False)
class Recorded:
    """Compiled calls, one after the other.

    `table` has the addresses of a function and a record for each; `kept` is the memory that they
    use; `scratch` and `common` count bytes of the thread's own and of its team's scratch memory.
    Several threads may make them at once.
    """

    table: tuple[int, ...]
    kept: tuple[Any, ...] = field(repr=False)
    scratch: int = 0
    common: int = 0

    @staticmethod
    def of(step: str, *arguments: Any) -> Recorded:
        """Record a call of a function of `kernels.compiled_records`; numba is imported."""
        steps = import_module("irdeconv.kernels.compiled_records")
        function, record = steps.recorded(step, arguments)
        # The record holds addresses, so everything that lies there is kept with it.
        places = [a for a in arguments if isinstance(a, ScratchPlace)]
        ends = (
            max((p.end for p in places if p.base == base), default=0) for base in (SCRATCH, COMMON)
        )
        return Recorded((function, address(record)), (record, *arguments), *ends)

    @staticmethod
    def joined(parts: Iterable[Recorded]) -> Recorded:
        """Return the calls of all parts, which may use the same scratch memory."""
        some = list(parts)
        return Recorded(
            table=tuple(n for part in some for n in part.table),
            kept=tuple(k for part in some for k in part.kept),
            scratch=max((part.scratch for part in some), default=0),
            common=max((part.common for part in some), default=0),
        )

    @cached_property
    def _loops(self) -> Any:
        return import_module("irdeconv.kernels.compiled_records")

    @cached_property
    def _words(self) -> Array:
        return np.array(self.table, np.int64)

    def __call__(self, space: Space) -> None:
        """Make the calls."""
        bases, _held = space.again(self, lambda: _bases(space, self.scratch, self.common))
        self.run(bases)

    def run(self, bases: Array) -> None:
        """Make the calls, with places counted from these; see `_bases`."""
        self._loops.run_table(self._words, bases)

    def run_on(self, x: Array, out: Array, space: Space) -> None:
        """Make calls that read and write the f32 of these contiguous arrays."""
        # A table is kept for the kernel, its bases are not: other threads make the same calls with
        # arrays and scratch memory of their own.
        memory = space.array((self.scratch,), np.uint8) if self.scratch else _NO_BYTES
        self._loops.run_table_on(self._words, memory, x.reshape(-1), out.reshape(-1))


_NO_BYTES = np.zeros(0, np.uint8)


def _bases(space: Space, scratch: int, common: int | Array = 0) -> tuple[Array, Any]:
    """Return the addresses from which calls count (0 and scratch memory), and that memory."""
    # The memory is returned too: without a reference to it the addresses would become invalid.
    own = space.array((scratch,), np.uint8)
    shared = space.array((common,), np.uint8) if isinstance(common, int) else common
    return np.array([0, address(own), address(shared)], np.int64), (own, shared)


Phases = tuple[tuple[Recorded, ...], ...]


@runtime_checkable
class FixedCall(Protocol):
    """A call of an operation that can be prepared for memory at fixed addresses."""

    def fixed(self, *arrays: Array, out: Array) -> Callable[[Team], None] | None:
        """Return the call's work on these arrays; None if it is unknown."""


def _do(work: Piece, space: Space) -> None:
    work(space)


Calls = list[Callable[[], Any]]


def remade(make: Callable[[Space], Calls]) -> Piece:
    """Return the work of calls that are prepared once for the same scratch memory."""

    def work(space: Space) -> None:
        for call in space.again(work, lambda: make(space)):
            call()

    return work


@dataclass(frozen=True)
class Repeated:
    """Pieces of work on memory at fixed addresses, which threads may share."""

    pieces: tuple[Piece, ...]

    def __call__(self, team: Team) -> None:
        """Do them all."""
        team.each(self.pieces, _do)

    @staticmethod
    def of(pieces: Iterable[Piece | None], work: float = math.inf) -> Repeated | None:
        """Return pieces as one, None if one is None; `work` is the nanoseconds of all of them."""
        some = list(pieces)
        known = tuple(piece for piece in some if piece is not None)
        if len(known) < len(some):
            return None
        return Repeated((in_turn(known),) if work < 2 * blocking.SHARED_NS else known)

    @property
    def phases(self) -> Phases:
        """All pieces as one phase, see `SharedCalls`; nothing if some of them are not compiled."""
        found = tuple(p for p in self.pieces if isinstance(p, Recorded))
        return (found,) if found and len(found) == len(self.pieces) else ()


@dataclass(frozen=True, eq=False)
class SharedCalls:
    """Compiled calls in phases: threads share the pieces of one and wait for its end.

    See `compiled_sharing`.
    """

    phases: Phases

    @cached_property
    def alone(self) -> Recorded:
        """All calls, one after the other."""
        return Recorded.joined(chain.from_iterable(self.phases))

    @cached_property
    def _words(self) -> tuple[Array, ...]:
        pieces = [piece for phase in self.phases for piece in phase]
        table = np.array(self.alone.table, np.int64)
        ends = np.cumsum([0, *(len(piece.table) for piece in pieces)])
        firsts = np.cumsum([0, *map(len, self.phases)])
        return table, ends, firsts, blocking.allocate(2 * blocking.ALIGNMENT).view(np.int64)

    def __call__(self, team: Team) -> None:
        """Make the calls."""
        team.together(self)

    def job(self, space: Space) -> tuple[int, Any]:
        """See `CompiledCalls`."""
        return space.again(self, lambda: self._made(space))

    def _made(self, space: Space) -> tuple[int, Any]:
        bases, held = _bases(space, self.alone.scratch, space.common.room(self.alone.common))
        table, ends, firsts, counts = map(address, self._words)
        job = np.array([table, ends, firsts, len(self.phases), counts, address(bases)], np.int64)
        return address(job), (job, bases, held)


def shared_calls(steps: Iterable[Phases], threads: int) -> Callable[[Team], None]:
    """Return the calls of steps, one after the other, each of phases that threads may share."""
    phases: list[tuple[Recorded, ...]] = []
    for phase in filter(None, chain.from_iterable(steps)):  # one without pieces would never end
        if phases and (threads == 1 or len(phase) == len(phases[-1]) == 1):
            phases[-1] = (Recorded.joined([*phases[-1], *phase]),)
        else:
            phases.append(phase if threads > 1 else (Recorded.joined(phase),))
    return Repeated(phases[0]) if len(phases[0]) == 1 == len(phases) else SharedCalls(tuple(phases))


@dataclass(frozen=True, eq=False)
class _InTurn:
    """Pieces of work, some of them compiled, of which those use the same scratch memory."""

    parts: tuple[Piece, ...]

    @cached_property
    def _scratch(self) -> int:
        return max((part.scratch for part in self.parts if isinstance(part, Recorded)), default=0)

    def __call__(self, space: Space) -> None:
        bases, _held = space.again(self, lambda: _bases(space, self._scratch))
        for part in self.parts:
            if isinstance(part, Recorded):
                part.run(bases)
            else:
                part(space)


def in_turn(pieces: Iterable[Piece], *ends: Piece | None) -> Piece:
    """Return several pieces of work, one after the other, as one; an end of None is no work."""
    # Neighbours that are compiled become one table, which takes one call from Python.
    found: list[Piece] = []
    for piece in (*pieces, *filter(None, ends)):
        if found and isinstance(piece, Recorded) and isinstance(found[-1], Recorded):
            found[-1] = Recorded.joined([found[-1], piece])
        else:
            found.append(piece)
    return found[0] if len(found) == 1 else _InTurn(tuple(found))


def complete(pieces: Iterable[Piece | None]) -> Piece | None:
    """Return several pieces of work as one; None if one of them could not be recorded."""
    found = list(pieces)
    known = [piece for piece in found if piece is not None]
    return in_turn(known) if len(known) == len(found) else None


BRIEF_ROW = 16  # elements of a row, below which its beginning takes longer than the rest
MOST_LAID = 1 << 14  # elements of operands that are laid on one row, as a plan keeps the memory
MOST_SLICES = 64  # of an array that are written down one by one

Code = Sequence[tuple[int, tuple[int, ...], int]]


def merged(shape: Sequence[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """Return (size, stride in each array) of axes, those as one that follow each other in all."""
    found: list[tuple[int, ...]] = []
    for size, *steps in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if found and all(a == b * size for a, b in zip(found[-1][1:], steps, strict=True)):
            found[-1] = (found[-1][0] * size, *steps)
        else:
            found.append((size, *steps))
    return found or [(1, *(4 for _ in strides))]


def _three_axes(axes: Sequence[tuple[int, ...]], arrays: Sequence[Array]) -> list[Array] | None:
    if len(axes) > 3:
        return None
    whole = [(1, *(0 for _ in arrays))] * (3 - len(axes)) + list(axes)
    shape = tuple(axis[0] for axis in whole)
    return [
        np.lib.stride_tricks.as_strided(a, shape, tuple(axis[1 + i] for axis in whole))
        for i, a in enumerate(arrays)
    ]


def recorded_copy(source: Array, target: Array) -> Recorded | None:
    """Record a copy of memory at fixed addresses; `source` broadcasts to `target`."""
    if source.dtype != np.float32 or target.dtype != np.float32 or not jit.available():
        return None
    source = np.broadcast_to(source, target.shape)
    views = _three_axes(merged(target.shape, source.strides, target.strides), [source, target])
    if views is None:
        return None
    x, y = views
    _, rows, width = y.shape
    if x.strides[1] or rows < 3 or width >= BRIEF_ROW or y.strides[1:] != (4 * width, 4):
        return Recorded.of("copy", x, y)
    done, parts = 1, [recorded_copy(x[:, :1], y[:, :1])]  # a repeated short row: each time twice
    while done < rows:
        more = min(done, rows - done)
        parts.append(recorded_copy(y[:, :more], y[:, done : done + more]))
        done += more
    return Recorded.joined(part for part in parts if part is not None)


def recorded_fill(target: Array, value: Any) -> Recorded | None:
    """Record a call that fills an array."""
    if target.dtype != np.float32 or not jit.available():
        return None
    axes = merged(target.shape, target.strides)
    if axes[-1][1] != 4:
        axes.append((1, 4))
    views = _three_axes(axes, [target])
    return None if views is None else Recorded.of("fill", *views, np.float32(value))


@dataclass(frozen=True)
class ProgramCode:
    """Instructions (operation, slots of operands, of the result) and the number of registers."""

    instructions: Code
    constants: Sequence[Array]
    registers: int


def recorded_program(code: ProgramCode, inputs: Sequence[Array], out: Array) -> Recorded | None:
    """Record a program of element-wise operations on `out`; see `compiled_chain.run_program`."""
    if any(a.dtype != np.float32 for a in (out, *inputs)):
        return None
    arrays = [out, *(np.broadcast_to(a, out.shape) for a in inputs)]
    axes = merged(out.shape, *(a.strides for a in arrays))
    small = out.size <= MOST_LAID and out.flags.c_contiguous
    if axes[-1][0] < BRIEF_ROW and len(axes) > 1 and small:
        return _on_one_row(code, arrays[1:], out)
    while len(axes) < 3:
        axes.insert(0, (1, *(0 for _ in arrays)))
    (outer, *apart), (rows, *steps), (width, step, *nexts) = axes[-3:]
    plain = step == 4 or width == 1
    plain = plain and not any(s % 4 for s in (*apart, *steps)) and not set(nexts) - {0, 4}
    if not plain or len(axes) > 3 or outer > MOST_SLICES:
        return None
    whole = np.lib.stride_tricks.as_strided(out, (outer, rows, width), (apart[0], steps[0], 4))
    base, calls = address(out), []
    for k, part in enumerate(whole):
        first = base + k * apart[0]
        places = [
            ((address(a) + k * far - first) // 4, down // 4, right // 4)
            for a, far, down, right in zip(inputs, apart[1:], steps[1:], nexts, strict=True)
        ]
        calls.append(_recorded_rows(code, places, part))
    found = Recorded.joined(calls)
    return replace(found, kept=(*found.kept, *inputs))


def _on_one_row(code: ProgramCode, inputs: Sequence[Array], out: Array) -> Recorded | None:
    """Record a program on contiguous memory; short rows of other operands are laid there first."""
    parts: list[Recorded | None] = []
    laid = list(inputs)
    for k, x in enumerate(inputs):
        if any(x.strides) and not x.flags.c_contiguous:
            laid[k] = np.empty(out.shape, np.float32)
            parts.append(recorded_copy(x, laid[k]))
    parts.append(recorded_program(code, [x.reshape(-1) for x in laid], out.reshape(-1)))
    return None if None in parts else Recorded.joined(part for part in parts if part is not None)


def _recorded_rows(
    code: ProgramCode, places: Sequence[tuple[int, int, int]], out: Array
) -> Recorded:
    """Record a program on an array of two axes."""
    table = [(op, *(*args, *args[:1] * 3)[:3], to) for op, args, to in code.instructions]
    plan, slots = ScratchPlan(), len(places) + 1 + len(code.constants) + code.registers
    scratch = [
        plan.array((slots, SPLAT), np.float32),
        plan.array((slots, 2), np.int64),
        plan.array((code.registers, ROW_PART), np.float32),
    ]
    values = np.array([float(c) for c in code.constants], np.float32)
    numbers = np.array(table, np.int64), np.array(places, np.int64).reshape(-1, 3)
    return Recorded.of("run_program", out, *numbers, values, *scratch)


def recorded_products(
    a: Array | ScratchPlace, b: Array, out: Array | ScratchPlace, *, known: bool = False
) -> Piece | None:
    """Record products of matrices `[*B, N, C]` and `[*B, C, M]`, which broadcast, of f32.

    `b` is copied now if it is `known`, by each call if its elements do not follow each other.
    None if axes of B cannot be seen as one.
    """
    right, work, batch = b, list[Piece | None](), math.prod(out.shape[:-2])
    if known or not b.flags.c_contiguous:
        wide = pitch(b.shape[-1], np.float32)  # rows begin where vectors do
        memory = blocking.allocate(4 * math.prod(b.shape[:-1]) * wide).view(np.float32)
        right = memory.reshape(*b.shape[:-1], wide)
        part = right[..., : b.shape[-1]]
        if known:
            part[...] = b
        else:
            work.append(recorded_copy(b, part))
    right = right.reshape(-1, *right.shape[-2:])
    if len(right) not in (1, batch):
        return None
    shape, full = (len(right), -1, a.shape[-1]), (*out.shape[:-2], *a.shape[-2:])
    try:  # rows of one right operand are those of one product
        left = seen(a, lambda x: np.broadcast_to(x, full).reshape(shape, copy=False))
    except ValueError:
        return None
    rows = seen(out, lambda x: x.reshape(*left.shape[:2], -1))
    return complete([*work, Recorded.of("row_products", left, right, rows)])


def recorded_matmuls(calls: Iterable[ProductCall]) -> Recorded | None:
    """Record products of f32 that NumPy's BLAS makes; None if compiled code cannot call it."""
    function = matrix_product()
    if function is None or not (jit.available() and jit.works()):
        return None
    found = []
    for fn, *arrays in calls:
        views = [_as_stacks(array) for array in arrays]
        if fn is np.multiply or not all(map(_suits_blas, views)) or views[2].strides[3] != 4:
            return None
        stack = views[2].shape[:2]
        views = [np.broadcast_to(view, (*stack, *view.shape[2:])) for view in views[:2]] + views[2:]
        found.append(Recorded.of("blas_products", *function, *views))
    return Recorded.joined(found)


def _as_stacks(array: Array) -> Array:
    """View matrices in a stack as [P, Q, M, N], if they are not too many axes."""
    shape = array.shape[1:] if array.ndim == 5 and len(array) == 1 else array.shape
    return array.reshape((1,) * (4 - len(shape)) + shape)


def _suits_blas(array: Array) -> bool:
    """Whether a BLAS takes the matrices: long rows or columns of f32, which do not overlap."""
    if array.ndim != 4 or array.dtype != np.float32 or min(array.shape[2:]) < 2:
        return False
    (far, near), (rows, columns) = array.strides[2:], array.shape[2:]
    if near != 4:
        far, near, columns = near, far, rows
    return near == 4 and far % 4 == 0 and 4 * columns <= far < 4 << 31


def recorded_means(x: Array, out: Array, divisor: float) -> Repeated | None:
    """Record the means of rows `x [outer, n, 1]`; None if they are not compiled."""
    count = np.float32(divisor)
    return _on_rows(x, out, lambda p: Recorded.of("row_means", x[p, :, 0], out[p], count))


def recorded_extremes(x: Array, out: Array, smallest: bool) -> Repeated | None:
    """Record the largest or smallest of rows `x [outer, n, 1]`; None if they are not compiled."""
    return _on_rows(x, out, lambda p: Recorded.of("row_extremes", x[p, :, 0], out[p], smallest))


def recorded_softmax(x: Array, out: Array) -> Repeated | None:
    """Record the softmax of rows `x [outer, n, 1]`; None if it is not compiled."""

    def record(p: slice) -> Recorded:
        totals = ScratchPlan().array((p.stop - p.start,), np.float32)
        return Recorded.of("softmax_rows", x[p, :, 0], out[p, :, 0], totals)

    return _on_rows(x, out, record) if out.flags.c_contiguous else None


def recorded_standardize(x: Array, out: Array, small: float, way: int) -> Repeated | None:
    """Record `standardize_rows` of rows `x [outer, n, 1]`; None if it is not compiled."""
    numbers = np.array([x.shape[1], small], np.float32)

    def record(p: slice) -> Recorded:
        plan = ScratchPlan()
        places = plan.array((x.shape[1],), np.float32), plan.array((1,), np.float32)
        return Recorded.of("standardize_rows", x[p, :, 0], out[p, :, 0], *places, numbers, way)

    return _on_rows(x, out, record) if out.flags.c_contiguous else None


ROW_NS = 1.0  # that an element of a row takes, about


def _on_rows(x: Array, out: Array, record: Callable[[slice], Recorded]) -> Repeated | None:
    """Record calls on rows `x [outer, n, 1]`, some at a time; None without compiled code."""
    suits = x.shape[2] == 1 and x.dtype == out.dtype == np.float32 and x.flags.c_contiguous
    if not (suits and jit.available() and jit.works()):
        return None
    step = max(1, blocking.SIZES.row_elements // max(1, x.shape[1]))
    step = blocking.shared_step(len(x), step, ROW_NS * x.size)
    return Repeated(tuple(map(record, pieces(len(x), step))))
