"""Activations that exporters spell out in several operations, as the rules of single ones.

x sigmoid(x) is Swish, x clip(x + 3, 0, 6) / 6 HSwish, x (erf(x / sqrt(2)) + 1) / 2 Gelu. The rules
round the same formulas in another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import elementwise as steps
from irdeconv.kernels.elementwise import Instruction

NEAR = 1e-6  # relative: a constant is meant that is no nearer to the exact number
Factors = tuple[list[int], float]  # registers, and the product of the constants


def recognized(
    instructions: Sequence[Instruction], operands: Sequence[Array | None]
) -> list[Instruction]:
    """Return instructions with such activations as one, without those that nothing needs."""
    spelled = _Spelled(list(instructions), operands)
    for at in range(len(instructions)):
        spelled.replace(at)
    return spelled.needed()


class _Spelled:
    """Instructions whose results are the registers from `first` on."""

    def __init__(self, instructions: list[Instruction], operands: Sequence[Array | None]) -> None:
        self.instructions, self.operands = instructions, operands
        self.first = 1 + len(operands)
        self._factors: dict[int, Factors] = {}

    def made(self, register: int) -> Instruction | None:
        """Return the instruction whose result a register is."""
        return self.instructions[register - self.first] if register >= self.first else None

    def number(self, register: int) -> float | None:
        """Return a constant of one element."""
        array = self.operands[register - 1] if 0 < register < self.first else None
        return None if array is None or array.size != 1 else float(array.reshape(-1)[0])

    def factors(self, register: int) -> Factors:
        """Return what a register is the product of, of two registers at most."""
        if register not in self._factors:
            registers, constant = self._product(register)
            two = len(registers) <= 2
            self._factors[register] = (registers, constant) if two else ([register], 1.0)
        return self._factors[register]

    def _product(self, register: int) -> Factors:
        constant, made = self.number(register), self.made(register)
        if constant is not None:
            return [], constant
        if made is not None and made.rule is np.multiply:
            (some, a), (others, b) = map(self.factors, made.args)
            return some + others, a * b
        divisor = self.number(made.args[1]) if made and made.rule is np.divide else None
        if made is not None and divisor:
            some, a = self.factors(made.args[0])
            return some, a / divisor
        return [register], 1.0

    def above(self, register: int, wanted: float) -> int | None:
        """Return x if a register is x + `wanted`."""
        made = self.made(register)
        if made is None or made.rule is not np.add:
            return None
        for x, other in (made.args, made.args[::-1]):
            if self.number(other) == wanted:
                return x
        return None

    def replace(self, at: int) -> None:
        """Put a single activation in the place of the last operation of its formula."""
        if self.instructions[at].rule not in (np.multiply, np.divide):
            return
        registers, constant = self.factors(self.first + at)
        if len(registers) != 2:
            return
        for x, gate in (registers, registers[::-1]):
            found = self._activation(x, gate, constant)
            if found is not None:
                self.instructions[at] = found
                self._factors[self.first + at] = [self.first + at], 1.0
                return

    def _activation(self, x: int, gate: int, constant: float) -> Instruction | None:
        """Return the activation that is x * gate * constant."""
        made = self.made(gate)
        if made is None:
            return None
        if (made.rule, made.args, constant) == (steps.sigmoid, (x,), 1):
            return Instruction(steps.swish, (x,), (1.0,))
        sixth = math.isclose(constant, 1 / 6, rel_tol=NEAR)
        if made.rule is steps.clamp and made.params == (0, 6) and sixth:
            return Instruction(steps.hswish, (x,)) if self.above(made.args[0], 3) == x else None
        if (made.args, constant) == ((x,), 1) and self._is_hsigmoid(made):
            return Instruction(steps.hswish, (x,))
        erf = self.made(self.above(gate, 1) or 0)
        if erf is not None and erf.rule is steps.erf and constant == 0.5:
            registers, scale = self.factors(erf.args[0])
            if registers == [x] and math.isclose(scale, math.sqrt(0.5), rel_tol=NEAR):
                return Instruction(steps.gelu_erf, (x,))
        return None

    @staticmethod
    def _is_hsigmoid(made: Instruction) -> bool:
        if made.rule is not steps.hard_sigmoid:
            return made.rule is steps.hsigmoid
        alpha, beta = made.params
        return math.isclose(alpha, 1 / 6, rel_tol=NEAR) and beta == 0.5

    def needed(self) -> list[Instruction]:
        """Return the instructions that the last one depends on, renumbered."""
        wanted = {self.first + len(self.instructions) - 1}
        for at in range(len(self.instructions) - 1, -1, -1):
            if self.first + at in wanted:
                wanted.update(self.instructions[at].args)
        kept = [at for at in range(len(self.instructions)) if self.first + at in wanted]
        places = {self.first + at: self.first + k for k, at in enumerate(kept)}
        return [
            replace(one, args=tuple(places.get(a, a) for a in one.args))
            for one in (self.instructions[at] for at in kept)
        ]
