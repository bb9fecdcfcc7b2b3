"""Copies and programs of f32 written down as compiled calls, where they can be.

All functions return None for what no compiled code is made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.kernels.compiled import ROW_PART, SPLAT
from irdeconv.kernels.compiled.recorded import Recorded, Repeated
from irdeconv.kernels.shared import blocking, jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.kernels.shared.scratch import ScratchPlan, address
from irdeconv.spec import Array

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
    """Return views of three axes."""
    if len(axes) > 3:
        return None
    whole = [(1, *(0 for _ in arrays))] * (3 - len(axes)) + list(axes)
    shape = tuple(axis[0] for axis in whole)
    return [
        np.lib.stride_tricks.as_strided(a, shape, tuple(axis[1 + i] for axis in whole))
        for i, a in enumerate(arrays)
    ]


def recorded_copy(source: Array, target: Array) -> Recorded | None:
    """Write down a copy of memory that stays where it is; `source` broadcasts to `target`."""
    if source.dtype != np.float32 or target.dtype != np.float32 or not jit.available():
        return None
    source = np.broadcast_to(source, target.shape)
    views = _three_axes(merged(target.shape, source.strides, target.strides), [source, target])
    return None if views is None else Recorded.of("copy", *views)


def recorded_fill(target: Array, value: Any) -> Recorded | None:
    """Write down that an array is filled."""
    if target.dtype != np.float32 or not jit.available():
        return None
    axes = merged(target.shape, target.strides)
    if axes[-1][1] != 4:
        axes.append((1, 4))
    views = _three_axes(axes, [target])
    return None if views is None else Recorded.of("fill", *views, np.float32(value))


@dataclass(frozen=True)
class ProgramCode:
    """Instructions (operation, slots of one to three operands, slot of the result).

    Slots are inputs, the result, constants, then registers, of which there are so many.
    """

    instructions: Code
    constants: Sequence[Array]
    registers: int


def recorded_program(code: ProgramCode, inputs: Sequence[Array], out: Array) -> Recorded | None:
    """Write down a program of element-wise operations; see `programs.run_program`.

    Inputs broadcast to `out`.
    """
    if any(a.dtype != np.float32 for a in (out, *inputs)):
        return None
    arrays = [out, *(np.broadcast_to(a, out.shape) for a in inputs)]
    axes = merged(out.shape, *(a.strides for a in arrays))
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
    return Recorded.joined(calls).keeping(inputs)


def _recorded_rows(
    code: ProgramCode, places: Sequence[tuple[int, int, int]], out: Array
) -> Recorded:
    """Write down a program on an array of two axes."""
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


def recorded_means(x: Array, out: Array, divisor: float) -> Repeated | None:
    """Write down the means of rows `x [outer, n, 1]`; None where they are not compiled."""
    if not _are_rows(x, out):
        return None
    rows = x[..., 0]
    return Repeated(
        tuple(
            Recorded.of("row_means", rows[p], out[p], np.float32(divisor)) for p in _row_pieces(x)
        )
    )


def recorded_softmax(x: Array, out: Array) -> Repeated | None:
    """Write down the softmax of rows `x [outer, n, 1]`; None where it is not compiled."""
    if not (_are_rows(x, out) and out.flags.c_contiguous):
        return None
    rows, results, calls = x[..., 0], out[..., 0], []
    for p in _row_pieces(x):
        totals = ScratchPlan().array((p.stop - p.start,), np.float32)
        calls.append(Recorded.of("softmax_rows", rows[p], results[p], totals))
    return Repeated(tuple(calls))


def _are_rows(x: Array, out: Array) -> bool:
    """Whether there is compiled code for rows `x [outer, n, 1]`."""
    suits = x.shape[2] == 1 and x.dtype == out.dtype == np.float32 and x.flags.c_contiguous
    return suits and jit.available() and jit.works()


def _row_pieces(x: Array) -> list[slice]:
    """Split rows into those that are called together."""
    return pieces(len(x), max(1, blocking.SIZES.row_elements // max(1, x.shape[1])))
