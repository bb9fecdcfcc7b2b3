"""Which chains of f32 have a compiled form: a bias, an activation, tensors added around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from irdeconv.kernels import compiled
from irdeconv.kernels.compiled.recorded import Recorded, Repeated, in_turn
from irdeconv.kernels.compiled.written import ProgramCode, recorded_copy, recorded_program
from irdeconv.kernels.elementwise import steps
from irdeconv.kernels.elementwise.calls import Instruction, Rule, TileProgram, copy
from irdeconv.kernels.elementwise.tiles import tile_layout
from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.blocking import pieces
from irdeconv.spec import Array

if TYPE_CHECKING:
    from irdeconv.kernels.compiled.chain import CompiledChain

CODES: dict[Rule, int] = {
    steps.relu: compiled.CLAMP,
    steps.clamp: compiled.CLAMP,
    steps.prelu: compiled.PRELU,
    steps.hsigmoid: compiled.HSIGMOID,
    steps.hswish: compiled.HSWISH,
    steps.sigmoid: compiled.SIGMOID,
    steps.swish: compiled.SWISH,
    steps.hard_sigmoid: compiled.HARD_SIGMOID,
    steps.erf: compiled.ERF,
    steps.gelu_erf: compiled.GELU,
    steps.mish: compiled.MISH,
}


OPERATIONS: dict[Any, int] = {
    np.add: compiled.ADDED,
    np.subtract: compiled.SUBTRACTED,
    np.multiply: compiled.MULTIPLIED,
    np.divide: compiled.DIVIDED,
    np.maximum: compiled.LARGER,
    np.minimum: compiled.SMALLER,
    np.square: compiled.MULTIPLIED,
    np.sqrt: compiled.ROOT,
    np.positive: compiled.MOVED,
    copy: compiled.MOVED,
    steps.clip_loop: compiled.CLIPPED,
}
SHARED_ELEMENTS = 1 << 16  # elements of a piece that threads share


def recorded_program_of(
    program: TileProgram, inputs: Sequence[Array], out: Array
) -> Recorded | None:
    """Write a program down for memory that stays where it is; None for what is not compiled."""
    if any(fn not in OPERATIONS for fn, _, _ in program.code) or not jit.works():
        return None
    code = [
        (OPERATIONS[fn], args * 2 if fn is np.square else args, to) for fn, args, to in program.code
    ]
    return recorded_program(ProgramCode(code, program.constants, program.registers), inputs, out)


def recorded_pieces(program: TileProgram, inputs: Sequence[Array], out: Array) -> Repeated | None:
    """Write down a program on a whole array, in pieces that threads share."""
    shapes = tuple((a.shape, a.strides) for a in inputs)
    layout = tile_layout(out.shape, out.strides, shapes, SHARED_ELEMENTS)
    views = [a.reshape(s) for a, s in zip(inputs, layout.shapes, strict=True)]
    whole = out.reshape(layout.shape)
    return Repeated.of(
        recorded_program_of(program, [v[i] for v, i in zip(views, places, strict=True)], whole[at])
        for at, places in layout.tiles
    )


def recorded_elements(fused: CompiledChain, x: Array, out: Array) -> Repeated | None:
    """Write down a compiled form that treats all elements alike, in pieces that threads share."""
    same = x.shape == out.shape and x.dtype == out.dtype
    if not (same and x.flags.c_contiguous and out.flags.c_contiguous):
        return None
    source, flat, calls = x.reshape(-1), out.reshape(1, -1), []
    for cut in pieces(out.size, SHARED_ELEMENTS):
        end = Recorded.of("finish_rows", *fused.arguments(flat[:, cut], slice(0, 1)))
        calls.append(in_turn([recorded_copy(source[cut], flat[0, cut]), end]))
    return Repeated(tuple(calls))


class _ChainReader:
    """Reads instructions from the main tensor on."""

    def __init__(
        self, instructions: Sequence[Instruction], operands: Sequence[Array | None]
    ) -> None:
        self.instructions, self.operands, self.at = instructions, operands, 0

    @property
    def value(self) -> int:
        """The register of what was computed last."""
        return self.at and len(self.operands) + self.at

    def constant(self, register: int) -> Array | None:
        """Return a register's constant."""
        return self.operands[register - 1] if 0 < register <= len(self.operands) else None

    def added(self, constant: bool) -> int:
        """Go over an addition of a constant or of a tensor; return its register, 0 for none."""
        if self.at == len(self.instructions) or self.instructions[self.at].rule is not np.add:
            return 0
        others = [a for a in self.instructions[self.at].args if a != self.value]
        if len(others) != 1 or not 0 < others[0] <= len(self.operands):
            return 0
        if (self.constant(others[0]) is not None) != constant:
            return 0
        self.at += 1
        return int(others[0])

    def activation(self) -> Instruction | None:
        """Go over an activation; None for none."""
        if self.at == len(self.instructions):
            return None
        last = self.instructions[self.at]
        if last.rule not in CODES or last.args[0] != self.value:
            return None
        if last.rule is steps.prelu and self.constant(last.args[1]) is None:
            return None
        self.at += 1
        return last


def compiled_form(
    instructions: Sequence[Instruction], operands: Sequence[Array | None]
) -> CompiledChain | None:
    """Return the compiled form of a chain; None where it has none, or numba is not to be had."""
    if not jit.available():
        return None
    reader = _ChainReader(instructions, operands)
    constant = reader.constant(reader.added(True))
    nothing: Array = np.zeros(1, np.float32)
    bias = np.full(1, -0.0, np.float32) if constant is None else constant  # keeps a -0 as it is
    before = reader.added(False)
    last = reader.activation()
    after = reader.added(False)
    if reader.at < len(instructions) or not instructions:
        return None
    used = {s for s in (before, after) if s}
    if used != {i for i, a in enumerate(operands, 1) if a is None}:
        return None
    if not jit.works():
        return None
    from irdeconv.kernels.compiled.chain import Added, CompiledChain

    added = Added(before, after)
    if last is None:
        return CompiledChain(compiled.NOTHING, (0.0, 0.0), bias, nothing, added)
    slope = reader.constant(last.args[1]) if last.rule is steps.prelu else None
    limits = (0.0, math.inf) if last.rule is steps.relu else (*last.params, 0.0, 0.0)[:2]
    return CompiledChain(CODES[last.rule], limits, bias, nothing if slope is None else slope, added)
