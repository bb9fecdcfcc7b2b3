"""Expressions of conditions: a checked tree of Python's parser, as functions of a few lines each.

Each node becomes a `CompiledPart`: the type of its value, and a function that computes it from a
row of values, one for each term. None is a value that is known only at run time.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from irdeconv.opening import shown
from irdeconv.suggest import did_you_mean
from irdeconv.targets.operations import Name, names_of

Number = int | Fraction | float
Value = Number | bool | str | tuple[int | None, ...]
Row = Sequence[Value | None]
LONGEST_CONDITION, MOST_NESTED, LARGEST_LITERAL = (
    500,
    30,
    2**63,
)  # characters, nested expressions, an integer
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


@dataclass(frozen=True)
class CompiledPart:
    """The type of an expression's value, and a function that computes it."""

    type: str
    value: Callable[[Row], Value | None]


def parsed(text: str) -> ast.expr:
    """Return the tree of a text; ConditionError if it is no expression."""
    if len(text) > LONGEST_CONDITION:
        raise ConditionError(
            f"a condition has at most {LONGEST_CONDITION} characters, not {len(text):,}"
        )
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
        """Return the part of a node; ConditionError says what is wrong with it."""
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
            message = f"{_text(node)} is a {part.type}, not a comparison or a boolean"
            raise ConditionError(message)
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
            message = f"{text}: {_text(b)} is a {of_b.type}, not a {wanted}"
            raise ConditionError(message, hint)
        for name, other in ((a, b), (b, a)):
            choices = self._choices(name)
            words = [n.value for n in ast.walk(other) if isinstance(n, ast.Constant)]
            for word in [str(w) for w in words if choices and w not in choices]:
                known = f"{_text(name)} is one of {', '.join(choices)}"
                hint = did_you_mean(word, choices) or known
                raise ConditionError(f'{text}: {_text(name)} is never "{word}"', hint)

    def _choices(self, node: ast.expr) -> tuple[str, ...]:
        name = node.id if isinstance(node, ast.Name) else ""
        return next((t.name.choices for t in self.terms if t.text == name), ())


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
