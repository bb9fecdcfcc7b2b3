"""Conditions of targets: expressions over named values of a layer, such as `kernel <= 16`.

Operations have OpenVINO's names, also for ONNX models. Slice means Slice and StridedSlice, Split
means Split and VariadicSplit. `_OPERATIONS` has the names that conditions of each may use.

A condition has integers, strings, `true` and `false`, tuples, `+ - * / // %` (`/` is exact),
comparisons (also chained), `in` and `not in`, `and or not`, `ceil floor min max abs`, and names.

- A name with axes holds for every axis: `kernel <= 16` is evaluated for each axis and must hold
  each time. `pad` and `amount` hold for both sides of each axis, `channels` of a Concat for each
  input, `axis` and `step` of a Slice for each axis that it slices.
- `kernel_d`, `kernel_h` and `kernel_w` name one axis, counted from the last. On an axis that the
  layer lacks, sizes, kernels, strides, dilations, steps and scales are 1, all amounts 0.
- A value that is known only at run time, or a division by zero, meets no condition.

Nothing is executed: each node of Python's syntax tree becomes a `CompiledPart`. Texts are short,
numbers small, and there are no powers, so evaluation always ends.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

from irdeconv.base.errors import did_you_mean
from irdeconv.base.opening import shown
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ops.catalog import CATALOG

NameType = Literal["number", "boolean", "string", "tuple of numbers"]


@dataclass(frozen=True)
class Name:
    """A name of conditions.

    `absent` is its value on an axis that the layer lacks; None: the name has no axes. With `sides`
    it covers the begin and the end of an axis. With `each` it has a value for each part of a
    Concat or each axis of a Slice. `choices` are all values of a string.
    """

    about: str
    type: NameType = "number"
    absent: int | None = None
    sides: bool = False
    each: bool = False
    choices: tuple[str, ...] = ()


_COMMON = {
    "rank": Name("most axes of any input or output that is not constant"),
    "batch": Name("size of axis 0"),
    "type": Name("element type of the data", "string", choices=tuple(ELEMENT_TYPES)),
    "size": Name("spatial size of the data", absent=1),
}
_CONVOLUTION = _COMMON | {
    "spatial_axes": Name("number of spatial axes"),
    "kernel": Name("kernel size", absent=1),
    "stride": Name("stride", absent=1),
    "dilation": Name("dilation", absent=1),
    "pad": Name("pads of both sides", absent=0, sides=True),
    "pad_begin": Name("pad in front of an axis", absent=0),
    "pad_end": Name("pad behind an axis", absent=0),
    "inputs": Name("input channels of all groups"),
    "outputs": Name("output channels of all groups"),
    "groups": Name("number of groups"),
    "depthwise": Name("whether groups == inputs and groups > 1", "boolean"),
    "multiplier": Name("outputs // groups"),
    "constant_filter": Name("whether the filter is constant", "boolean"),
    "has_bias": Name("whether a constant per output channel is added directly", "boolean"),
}
_DECONVOLUTION = _CONVOLUTION | {"output_padding": Name("output padding", absent=0)}
_DATA = _COMMON | {"channels": Name("size of axis 1")}
_PAD_MODES = ("constant", "edge", "reflect", "symmetric")
_RESIZE_MODES = ("nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow")

# The operations that have more names than the common ones.
_OPERATIONS = {
    "Convolution": _CONVOLUTION,
    "GroupConvolution": _CONVOLUTION,
    "ConvolutionBackpropData": _DECONVOLUTION,
    "GroupConvolutionBackpropData": _DECONVOLUTION,
    "Pad": _DATA
    | {
        "amount": Name("amounts of every axis, both sides", absent=0, sides=True),
        "amount_begin": Name("amount in front of an axis", absent=0),
        "amount_end": Name("amount behind an axis", absent=0),
        "mode": Name("how it fills", "string", choices=_PAD_MODES),
        "value": Name("value that it fills with"),
    },
    "Slice": _DATA
    | {
        "axis": Name("number of each axis that it slices", each=True),
        "step": Name("step of each axis that it slices", absent=1, each=True),
    },
    "Concat": _DATA
    | {
        "axis": Name("number of the axis, from 0"),
        "parts": Name("number of inputs"),
        "channels": Name("size of axis 1 of each input", each=True),
    },
    "Split": _DATA | {"axis": Name("number of the axis, from 0")},
    "Transpose": _DATA | {"order": Name("order of the axes", "tuple of numbers")},
    "DepthToSpace": _DATA
    | {
        "block": Name("block size"),
        "mode": Name("order of channels", "string", choices=("blocks_first", "depth_first")),
    },
    "Interpolate": _DATA
    | {
        "scale": Name("size of the output divided by that of the input", absent=1),
        "mode": Name("how it interpolates", "string", choices=_RESIZE_MODES),
    },
}
ALIASES = {"StridedSlice": "Slice", "VariadicSplit": "Split"}
# ONNX's operations that have no counterpart of one operation in OpenVINO.
ONNX_ONLY = frozenset(
    ["QuantizeLinear", "DequantizeLinear", "InstanceNormalization", "LayerNormalization"]
)
OPERATIONS = tuple(sorted((CATALOG.keys() | ONNX_ONLY) - ALIASES.keys()))


def names_of(operation: str) -> dict[str, Name]:
    """Return the names that conditions of an operation may use."""
    return _OPERATIONS.get(operation, _DATA)


Number = int | Fraction | float
Value = Number | bool | str | tuple[int | None, ...]
Row = Sequence[Value | None]
LONGEST_CONDITION, MOST_NESTED = 500, 30  # characters, nested expressions
LARGEST_LITERAL = 2**63
QUOTED = 80  # characters of an expression in a message
AXES = "whd"  # counted from the last axis
_CONSTANTS = {"true": True, "false": False}
_TUPLE = "tuple of {}s"


class ConditionError(ValueError):
    """A mistake in a condition; `hint` says how to correct it, if that is known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class NameTerm:
    """A name as an expression uses it; `axis` counts from the last one, 0: not a single axis."""

    text: str
    base: str
    name: Name
    axis: int = 0

    @cached_property
    def per_axis(self) -> bool:
        """Whether it has a value for each axis."""
        return self.name.absent is not None and not self.name.each and not self.axis

    @cached_property
    def per_part(self) -> bool:
        """Whether it has a value for each input of a Concat, or each axis that a Slice slices."""
        return self.name.each and not self.axis

    def values(self, facts: Facts, side: str) -> tuple[Value | None, ...]:
        """Return the values of a layer: one for each axis or part, or a single one."""
        absent = self.name.absent
        if absent is None or self.per_part:
            value = facts.values.get(self.base)
            return value if self.per_part and isinstance(value, tuple) else (value,)
        values = facts.axes.get(f"{self.base}_{side}" if self.name.sides else self.base, (None,))
        if not self.axis:
            return tuple(values)
        return (values[-self.axis] if self.axis <= len(values) else absent,)


@dataclass(frozen=True)
class CompiledPart:
    """The type of an expression's value, and a function that computes it."""

    type: str
    value: Callable[[Row], Value | None]


def parsed(text: str) -> ast.expr:
    """Return the tree of a text; ConditionError if it is no expression."""
    if len(text) > LONGEST_CONDITION:
        most = f"a condition has at most {LONGEST_CONDITION} characters"
        raise ConditionError(f"{most}, not {len(text):,}")
    if "#" in text:
        raise ConditionError("a condition has no comments")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        message = e.msg if isinstance(e, SyntaxError) else str(e)
        raise ConditionError(f"it is not an expression: {message}") from None
    level: list[ast.AST] = [tree]
    for _ in range(MOST_NESTED):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ConditionError(f"it has more than {MOST_NESTED} nested expressions")
    return tree


def _divided(a: Number, b: Number) -> Number:
    result = Fraction(a) / Fraction(b)
    return result.numerator if result.denominator == 1 else result


_ARITHMETIC: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: dict[type[ast.unaryop], Callable[..., Number]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_ORDERS: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[..., bool]] = _ORDERS | {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FUNCTIONS: dict[str, tuple[int, Callable[..., Number]]] = {  # with the least number of arguments
    "ceil": (1, math.ceil),
    "floor": (1, math.floor),
    "abs": (1, abs),
    "min": (2, min),
    "max": (2, max),
}


class Compiler:
    """Makes the parts of expressions of an operation; `terms` gathers the names they use."""

    def __init__(self, operation: str, terms: Sequence[NameTerm] = ()) -> None:
        self.operation = operation
        self.terms = list(terms)

    def part(self, node: ast.expr) -> CompiledPart:
        """Return the part of a node; ConditionError describes a mistake in it."""
        match node:
            case ast.Constant(value=int() | str() as value):
                return self._constant(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Tuple(elts=items):
                return self._tuple([self.part(i) for i in items])
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
                return self._numbers(node, _ARITHMETIC[type(op)], [node.left, node.right])
            case ast.UnaryOp(op=op) if type(op) in _SIGNS:
                return self._numbers(node, _SIGNS[type(op)], [node.operand])
            case ast.UnaryOp(op=ast.Not()):
                inner = self._boolean(node.operand).value
                return CompiledPart(
                    "boolean", lambda row: None if (v := inner(row)) is None else not v
                )
            case ast.BoolOp():
                return self._junction(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return self._call(node, name, args)
        raise ConditionError(f"{_text(node)}: conditions have no such expression")

    def _constant(self, value: int | str) -> CompiledPart:
        if isinstance(value, str):
            return CompiledPart("string", lambda row: value)
        if value > LARGEST_LITERAL:
            raise ConditionError(f"{shown(value)} is larger than 2^63")
        return CompiledPart("boolean" if isinstance(value, bool) else "number", lambda row: value)

    def _name(self, text: str) -> CompiledPart:
        if text in _CONSTANTS:
            return self._constant(_CONSTANTS[text])
        place = next((k for k, t in enumerate(self.terms) if t.text == text), len(self.terms))
        if place == len(self.terms):
            self.terms.append(term_of(text, self.operation))
        return CompiledPart(self.terms[place].name.type, lambda row: row[place])

    def _tuple(self, items: list[CompiledPart]) -> CompiledPart:
        types = {i.type for i in items}
        if len(types) != 1:
            mixed = " and ".join(sorted(types)) or "nothing"
            raise ConditionError(f"a tuple has values of one type, not {mixed}")
        values = [i.value for i in items]

        def value(row: Row) -> Value | None:
            found = tuple(v(row) for v in values)
            return None if None in found else found  # type: ignore[return-value]

        return CompiledPart(_TUPLE.format(types.pop()), value)

    def _numbers(
        self, node: ast.expr, function: Callable[..., Number], items: list[ast.expr]
    ) -> CompiledPart:
        parts = [self.part(i) for i in items]
        for item, part in zip(items, parts, strict=True):
            if part.type != "number":
                raise ConditionError(f"{_text(node)}: {_text(item)} is a {part.type}, not a number")
        values = [p.value for p in parts]

        def value(row: Row) -> Value | None:
            found = [v(row) for v in values]
            return None if None in found else function(*found)

        return CompiledPart("number", value)

    def _call(self, node: ast.expr, name: str, args: list[ast.expr]) -> CompiledPart:
        least, function = _FUNCTIONS[name]
        if len(args) < least or len(args) > least == 1:
            needed = "one number" if least == 1 else "two numbers or more"
            raise ConditionError(f"{_text(node)}: {name} needs {needed}")
        return self._numbers(node, function, args)

    def _boolean(self, node: ast.expr) -> CompiledPart:
        part = self.part(node)
        if part.type != "boolean":
            raise ConditionError(f"{_text(node)} is a {part.type}, not a comparison or a boolean")
        return part

    def _junction(self, node: ast.BoolOp) -> CompiledPart:
        """`and`, `or`: an operand that is unknown counts only if the others do not decide."""
        values = [self._boolean(n).value for n in node.values]
        decisive = isinstance(node.op, ast.Or)

        def value(row: Row) -> Value | None:
            found = [v(row) for v in values]
            return decisive if decisive in found else None if None in found else not decisive

        return CompiledPart("boolean", value)

    def _comparison(self, node: ast.Compare) -> CompiledPart:
        operands = [node.left, *node.comparators]
        parts = [self.part(n) for n in operands]
        rows = list(zip(node.ops, operands, operands[1:], parts, parts[1:], strict=False))
        for op, left, right, a, b in rows:
            self._check(node, op, (left, a), (right, b))
        compared = [(_COMPARISONS[type(op)], a.value, b.value) for op, _, _, a, b in rows]

        def value(row: Row) -> Value | None:
            unknown = False
            for function, left, right in compared:
                a, b = left(row), right(row)
                if a is None or b is None:
                    unknown = True
                elif not function(a, b):
                    return False
            return None if unknown else True

        return CompiledPart("boolean", value)

    def _check(
        self,
        node: ast.expr,
        op: ast.cmpop,
        left: tuple[ast.expr, CompiledPart],
        right: tuple[ast.expr, CompiledPart],
    ) -> None:
        """Refuse a comparison that has no meaning, and one with a string that nothing equals."""
        (a, of_a), (b, of_b) = left, right
        wanted, text = of_a.type, _text(node)
        if isinstance(op, ast.In | ast.NotIn):
            wanted = _TUPLE.format(of_a.type)
        elif type(op) in _ORDERS and wanted != "number":
            raise ConditionError(f"{text}: {_text(a)} is a {wanted}; only numbers have an order")
        elif type(op) not in _COMPARISONS:
            raise ConditionError(f"{text}: conditions have no `is`; write ==")
        if of_b.type != wanted:
            hint = f"write ({_text(b)},)" if of_b.type == of_a.type else None
            raise ConditionError(f"{text}: {_text(b)} is a {of_b.type}, not a {wanted}", hint)
        for name, other in ((a, b), (b, a)):
            term = name.id if isinstance(name, ast.Name) else ""
            choices = next((t.name.choices for t in self.terms if t.text == term), ())
            words = [n.value for n in ast.walk(other) if isinstance(n, ast.Constant)]
            for word in [str(w) for w in words if choices and w not in choices]:
                known = f"{_text(name)} is one of {', '.join(choices)}"
                hint = did_you_mean(word, choices) or known
                raise ConditionError(f'{text}: {_text(name)} is never "{word}"', hint)


def term_of(text: str, operation: str) -> NameTerm:
    """Return the term of a name; ConditionError if the operation does not have it."""
    names = names_of(operation)
    if text in names:
        return NameTerm(text, text, names[text])
    base, _, letter = text.rpartition("_")
    if base in names and names[base].absent is not None and letter in [*AXES]:
        return NameTerm(text, base, names[base], AXES.index(letter) + 1)
    near = did_you_mean(text, [*names, *_FUNCTIONS])
    raise ConditionError(f"{operation} has no {text}", near or f"it has {', '.join(names)}")


def _text(node: ast.expr) -> str:
    """Return an expression as a message quotes it: cut if it is long."""
    text = ast.unparse(node)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


MOST_REMEMBERED = 4096  # results that a condition keeps
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
    _results: dict[object, bool] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, operation: str) -> Condition:
        """Parse a condition; ConditionError (a ValueError) describes a mistake in it."""
        text = " ".join(text.split())
        compiler = Compiler(operation)
        part = compiler.part(parsed(text))
        if part.type != "boolean":
            raise ConditionError(f"it is a {part.type}, not a comparison or a boolean")
        if not compiler.terms:
            raise ConditionError("it depends on no value of the layer")
        return cls(text, operation, part, tuple(compiler.terms))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that it has, those of single axes also without the axis."""
        return frozenset(n for t in self._terms for n in (t.text, t.base))

    def failure(self, facts: Facts) -> str | None:
        """Return None if the condition is met, else the condition with the numbers in it."""
        if self.holds(facts):
            return None
        for side in self._sides:
            rows, axes = self._rows([t.values(facts, side) for t in self._terms])
            for at, row in enumerate(rows):
                result = self._result(row)
                if result is not None:
                    part = at // axes if len(rows) > axes else None
                    return f"{self.text}: {result}{_place(side, part, axes, at % axes)}"
        raise AssertionError(self.text)

    def holds(self, facts: Facts) -> bool:
        """Return whether the condition is met; a search asks it thousands of times."""
        results = self._results
        for side in self._sides:
            columns = tuple([t.values(facts, side) for t in self._terms])
            met = results.get(columns)
            if met is None:
                if len(results) >= MOST_REMEMBERED:
                    results.clear()
                met = all(self._is_met(row) for row in self._rows(columns)[0])
                results[columns] = met
            if not met:
                return False
        return True

    def _is_met(self, row: Row) -> bool:
        try:
            return self._part.value(row) is True
        except (ArithmeticError, ValueError):  # a division by 0, an infinite fill value
            return False

    @cached_property
    def _sides(self) -> tuple[str, ...]:
        """The sides of an axis that are checked one by one."""
        return ("begin", "end") if any(t.name.sides for t in self._terms) else ("",)

    @cached_property
    def _varies(self) -> bool:
        """Whether a name has a value for each axis or part."""
        return any(t.per_axis or t.per_part for t in self._terms)

    def _rows(self, columns: Sequence[Sequence[Value | None]]) -> tuple[list[Row], int]:
        """Return the rows of values, with the axes of each part in order, and the number of axes.

        The axes of different names end with the same axis: the spatial ones are last.
        """
        if not self._varies:
            return [tuple([c[0] for c in columns])], 1
        paired = list(zip(self._terms, columns, strict=True))
        axes = max((len(c) for t, c in paired if t.per_axis), default=1)
        rows: list[Row] = []
        for part in range(max((len(c) for t, c in paired if t.per_part), default=1)):
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
            verb = "are" if unknown[1:] else "is"
            return f"{' and '.join(unknown)} {verb} known only at run time"
        return None if result else self._numbers(row, values)

    def _numbers(self, row: Row, values: Mapping[str, Value | None]) -> str:
        """Return the values of both sides of a comparison, of another expression all names'."""
        if not self._operands:
            return _listed(values)
        out = []
        for text, value in self._operands:
            with_numbers = _WORD.sub(
                lambda m: _shown(values[m[0]]) if m[0] in values else m[0], text
            )
            if text in values:
                out.append(_shown(values[text]))
            elif with_numbers != text:
                out.append(f"{with_numbers} = {_shown(value(row))}")
        return " and ".join(out)

    @cached_property
    def _operands(self) -> list[tuple[str, Callable[[Row], Value | None]]]:
        """The text and the function of each side of a comparison, or of a single name."""
        tree, compiler = parsed(self.text), Compiler(self.operation, self._terms)
        sides = [tree.left, *tree.comparators] if isinstance(tree, ast.Compare) else [tree]
        if not isinstance(tree, ast.Compare | ast.Name):
            return []
        texts = (ast.get_source_segment(self.text, side) or "" for side in sides)
        return [(text, compiler.part(side).value) for text, side in zip(texts, sides, strict=True)]


def _place(side: str, part: int | None, axes: int, axis: int) -> str:
    """Return which axis, side and part a result is about."""
    back = axes - axis
    name = AXES[back - 1] if back <= len(AXES) else axis
    place = f"axis {name}" if axes > 1 else ""
    words = [place, side, "" if part is None else f"part {part}"]
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
