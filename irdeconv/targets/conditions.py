"""Conditions: expressions over named values of a layer, such as `kernel <= 16`.

A condition has integers, strings, `true` and `false`, tuples, `+ - * / // %` (`/` is exact),
comparisons (also chained), `in` and `not in`, `and or not`, `ceil floor min max abs`, and names.
`targets/operations.py` lists the names of each operation.

- A name with axes holds for every axis: `kernel <= 16` is evaluated for each axis and must hold
  each time. `pad` and `amount` hold for both sides of each axis, `channels` of a Concat for each
  input, `axis` and `step` of a Slice for each axis that it slices.
- `kernel_d`, `kernel_h` and `kernel_w` name one axis, counted from the last. On an axis that the
  layer lacks, sizes, kernels, strides, dilations, steps and scales are 1, all amounts 0.
- A value that is known only at run time meets no condition that depends on it.
- A division by zero does not meet a condition.

Nothing is executed: Python's parser makes a tree, and each of its nodes becomes a short function.
Texts are short, numbers small, and there are no powers, so that evaluating always ends.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from irdeconv.opening import shown
from irdeconv.targets.expressions import (
    AXES,
    CompiledPart,
    Compiler,
    ConditionError,
    NameTerm,
    Row,
    Value,
    parsed,
)

MOST_REMEMBERED = 4096  # rows of values whose result a condition keeps
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Facts:
    """The values of a layer's names; None (or no entry) is known only at run time.

    `values` has the names without axes. `channels` of a Concat is a tuple with an entry per input,
    `axis` and `step` of a Slice have an entry per axis that it slices. `axes` has the names with
    axes: an entry per spatial axis, the last one is w. For `amount` of a Pad and `step` of a Slice
    these are all axes of the tensor. `pad` and `amount` have two entries each: `pad_begin` and
    `pad_end`, `amount_begin` and `amount_end`.
    """

    values: Mapping[str, Value | None]
    axes: Mapping[str, Sequence[Value | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """A condition of an operation: `parse` makes it, `failure` evaluates it."""

    text: str
    operation: str
    _part: CompiledPart = field(repr=False, compare=False)
    _terms: tuple[NameTerm, ...] = field(repr=False, compare=False)
    _results: dict[Row, str | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, operation: str) -> Condition:
        """Parse a condition; ConditionError (a ValueError) says what is wrong with it."""
        text = " ".join(text.split())
        compiler = Compiler(operation)
        part = compiler.part(parsed(text))
        if part.type != "boolean":
            raise ConditionError(f"it is a {part.type}, not a comparison or a boolean")
        if not compiler.terms:
            raise ConditionError("it depends on no value of the layer")
        return cls(text, operation, part, tuple(compiler.terms))

    def failure(self, facts: Facts) -> str | None:
        """Return None if the condition is met, else the condition with the numbers in it."""
        results = self._results
        for side in self._sides:
            rows, axes = self._rows([_column(t, facts, side) for t in self._terms])
            for at, row in enumerate(rows):
                if row not in results:
                    if len(results) >= MOST_REMEMBERED:
                        results.clear()
                    results[row] = self._result(row)
                result = results[row]
                if result is not None:
                    part = at // axes if len(rows) > axes else None
                    return f"{self.text}: {result}{_place(side, part, axes, at % axes)}"
        return None

    @cached_property
    def _sides(self) -> tuple[str, ...]:
        return ("begin", "end") if any(t.name.sides for t in self._terms) else ("",)

    @cached_property
    def _varies(self) -> tuple[bool, bool]:
        """Whether a name has a value for each axis, and one for each part."""
        return any(t.per_axis for t in self._terms), any(t.per_part for t in self._terms)

    def _rows(self, columns: Sequence[Sequence[Value | None]]) -> tuple[list[Row], int]:
        """Return the rows of values, the axes of each part one behind another; how many axes.

        The axes of different names end with the same axis: the spatial ones are last.
        """
        if self._varies == (False, False):
            return [tuple([c[0] for c in columns])], 1
        paired = list(zip(self._terms, columns, strict=True))
        axes = max((len(c) for t, c in paired if t.per_axis), default=1)
        parts = max((len(c) for t, c in paired if t.per_part), default=1)
        rows: list[Row] = []
        for part in range(parts):
            whole = [
                (*(t.name.absent,) * (axes - len(c)), *c)
                if t.per_axis
                else (c[part if t.per_part else 0],) * axes
                for t, c in paired
            ]
            rows += zip(*whole, strict=True)
        return rows, axes

    def _result(self, row: Row) -> str | None:
        """Return None if the condition is met for a row of values, else why not."""
        values = {t.text: v for t, v in zip(self._terms, row, strict=True)}
        try:
            result = self._part.value(row)
        except ZeroDivisionError:
            return f"division by zero with {_listed(values)}"
        except (ArithmeticError, ValueError):  # with an infinite fill value of a Pad
            return f"no number with {_listed(values)}"
        if result is None:
            unknown = [t for t, v in values.items() if v is None]
            return (
                f"{' and '.join(unknown)} {'are' if unknown[1:] else 'is'} known only at run time"
            )
        return None if result else self._numbers(row, values)

    def _numbers(self, row: Row, values: Mapping[str, Value | None]) -> str:
        """Return the values of both sides of a comparison, of another expression all names'."""
        tree = parsed(self.text)
        if isinstance(tree, ast.Name):
            return _shown(values[tree.id])
        if not isinstance(tree, ast.Compare):
            return _listed(values)
        compiler, out = Compiler(self.operation, self._terms), []
        for operand in (tree.left, *tree.comparators):
            text = ast.get_source_segment(self.text, operand) or ""
            with_numbers = _WORD.sub(
                lambda m: _shown(values[m[0]]) if m[0] in values else m[0], text
            )
            if with_numbers == text:
                continue
            value = _shown(compiler.part(operand).value(row))
            out.append(value if isinstance(operand, ast.Name) else f"{with_numbers} = {value}")
        return " and ".join(out)


def _column(term: NameTerm, facts: Facts, side: str) -> Sequence[Value | None]:
    """Return a term's values: one for each axis or part, else a single one."""
    if term.per_part or term.name.absent is None:
        value = facts.values.get(term.base)
        return value if isinstance(value, tuple) and term.per_part else (value,)
    values = facts.axes.get(f"{term.base}_{side}" if term.name.sides else term.base, (None,))
    if not term.axis:
        return values
    return (values[-term.axis] if term.axis <= len(values) else term.name.absent,)


def _place(side: str, part: int | None, axes: int, axis: int) -> str:
    """Return which axis, side and part a result is about."""
    back = axes - axis
    words = [
        f"axis {AXES[back - 1] if back <= len(AXES) else axis}" if axes > 1 else "",
        side,
        "" if part is None else f"part {part}",
    ]
    text = ", ".join(filter(None, words))
    return f" ({text})" if text else ""


def _listed(values: Mapping[str, Value | None]) -> str:
    return ", ".join(f"{n} = {_shown(v)}" for n, v in values.items())


def _shown(value: Value | None) -> str:
    """Return a value as conditions are written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return f"{shown(value.numerator)}/{shown(value.denominator)}"
    return "unknown" if value is None else shown(value)
