"""Straight-line programs of element-wise calls: who computes what into which memory.

A rule says what an operation computes: a ufunc, or a function that emits calls.

Values are numbered: inputs first, then constants and results in the order they were made. Registers
are tile-sized pieces of scratch memory; a result takes over that of a value that dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from irdeconv.spec import Array

Function = Callable[..., Any]  # (*arrays, out=array)
Rule = Callable[..., Any]  # a ufunc, or (emitter, *values, *parameters) -> value


@dataclass(frozen=True)
class Instruction:
    """One operation of a chain: its rule, argument registers, numeric parameters."""

    rule: Rule
    args: tuple[int, ...]
    params: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TileCall:
    """One call; `args` are values, the result is a value."""

    fn: Function
    args: tuple[int, ...]
    result: int


class Emitter:
    """Collects the calls of a program that computes in one element type.

    `approximates` says that rules may take a faster form whose last bits differ from NumPy's.
    """

    def __init__(
        self,
        inputs: int,
        dtype: np.dtype[Any],
        known: dict[int, Array],
        *,
        approximates: bool = True,
    ) -> None:
        self.dtype, self.approximates = dtype, approximates
        self.calls: list[TileCall] = []
        self.constants: dict[int, Array] = {}
        self._known = known
        self._count = inputs

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def constant(self, value: Any) -> int:
        """Return a scalar constant, rounded to the type."""
        number = self._new()
        with np.errstate(all="ignore"):
            self.constants[number] = np.array(value).astype(self.dtype).reshape(())
        return number

    def emit(self, rule: Rule, args: Sequence[int], params: Sequence[Any] = ()) -> int:
        """Add what a rule computes; returns the result."""
        if isinstance(rule, np.ufunc):
            return self.call(rule, *args)
        return int(rule(self, *args, *params))

    def call(self, fn: Function, *args: Any) -> int:
        """Add a call; arguments that are no `int` are scalar constants."""
        values = tuple(a if type(a) is int else self.constant(a) for a in args)
        if all(v in self.constants for v in values):
            return self._folded(fn, values)
        result = self._new()
        self.calls.append(TileCall(fn, values, result))
        return result

    def _folded(self, fn: Function, values: tuple[int, ...]) -> int:
        out = np.empty((), self.dtype)
        with np.errstate(all="ignore"):
            fn(*(self.constants[v] for v in values), out=out)
        return self.constant(out)

    def known(self, value: int) -> Array | None:
        """Return what a value is where it is a constant of any shape."""
        return self.constants.get(value, self._known.get(value))


@dataclass(frozen=True)
class TileProgram:
    """Calls with memory assigned.

    Slots: the inputs, the destination, the constants, then `registers` pieces of scratch memory.
    """

    code: tuple[tuple[Function, tuple[int, ...], int], ...]
    constants: tuple[Array, ...]
    registers: int

    def run(self, inputs: Sequence[Array], out: Array, scratch: Sequence[Array]) -> None:
        """Execute on one tile; inputs broadcast to `out`, `scratch` has its shape."""
        slots = [*inputs, out, *self.constants, *scratch]
        for fn, args, target in self.code:
            if len(args) == 2:
                fn(slots[args[0]], slots[args[1]], out=slots[target])
            else:
                fn(*[slots[i] for i in args], out=slots[target])


def copy(x: Array, out: Array) -> None:
    """Copy, rounding to the element type of `out`."""
    if x is not out:
        np.copyto(out, x, casting="same_kind")


def assign(
    inputs: int,
    emitter: Emitter,
    result: int,
    *,
    home: int | None,
    loads: Sequence[int] = (),
    store: bool = False,
) -> TileProgram:
    """Assign memory.

    `home` is the input that shares its memory with the destination; the others are only read.
    `loads` are the inputs that are first converted into a register. `store` says that the
    destination has another element type, so that it takes nothing but the result.
    """
    calls, final = _with_conversions(emitter.calls, result, loads, inputs, store)
    last = {value: at for at, call in enumerate(calls) for value in call.args}
    place = {i: i for i in range(inputs)}
    place |= {v: inputs + 1 + k for k, v in enumerate(emitter.constants)}
    first = inputs + 1 + len(emitter.constants)
    free: list[int] = [] if store or home in last else [inputs]
    code, registers = [], 0
    for at, call in enumerate(calls):
        args = tuple(place[v] for v in call.args)
        dying = {v for v in call.args if last[v] == at}
        free += [place[v] for v in dying if place[v] >= first or place[v] == inputs]
        if home in dying and not store:
            free.append(inputs)
        if call.result == final:
            slot = inputs
        elif free:
            slot = min(free)  # the destination first: it is in the cache anyway
            free.remove(slot)
        else:
            slot, registers = first + registers, registers + 1
        place[call.result] = slot
        code.append((call.fn, args, slot))
        if call.result not in last and call.result != final:
            free.append(slot)
    return TileProgram(tuple(code), tuple(emitter.constants.values()), registers)


def _with_conversions(
    calls: list[TileCall], result: int, loads: Sequence[int], inputs: int, store: bool
) -> tuple[list[TileCall], int]:
    """Put conversions around the calls; the last call computes the returned value."""
    fresh = max([result, inputs - 1, *(c.result for c in calls), *(max(c.args) for c in calls)]) + 1
    renamed = {value: fresh + k for k, value in enumerate(loads)}
    fresh += len(renamed)
    out = [TileCall(copy, (value,), new) for value, new in renamed.items()]
    out += [TileCall(c.fn, tuple(renamed.get(v, v) for v in c.args), c.result) for c in calls]
    result = renamed.get(result, result)
    if store or not calls or result != calls[-1].result:
        out.append(TileCall(copy, (result,), fresh))
        result = fresh
    return out, result


def evaluate(rule: Rule, arrays: Sequence[Array], params: Sequence[Any] = ()) -> Array:
    """Compute what a rule says of whole arrays of one element type, in this type."""
    program = _on_arrays(rule, len(arrays), arrays[0].dtype, tuple(params))
    shape = arrays[0].shape  # broadcast_shapes takes longer than the sums of a small cell
    if len(arrays) > 1:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    out = np.empty(shape, arrays[0].dtype)
    program.run(arrays, out, [np.empty_like(out) for _ in range(program.registers)])
    return out


@lru_cache(maxsize=256)  # cells of recurrent networks ask for the same one at every step
def _on_arrays(
    rule: Rule, inputs: int, dtype: np.dtype[Any], params: tuple[Any, ...]
) -> TileProgram:
    emitter = Emitter(inputs, dtype, {}, approximates=False)
    return assign(inputs, emitter, emitter.emit(rule, range(inputs), params), home=None)
