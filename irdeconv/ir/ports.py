"""Declared ports: the inputs that an operation accepts, and often its outputs, in one text.

    signature = "data: real t [N, C, *I]; lengths: integer [N]; mask?: t [N, 1] -> t [N, C, *I]"

An input has a name (`?`: it may be absent, `*`: any number of them may follow), element types and
axes; without axes its shape is any.

- Types are a kind (`KINDS`) or an element type. A lower-case letter behind it, or alone, stands for
  one type: all inputs of the letter have it, and it is of the kind that the first of them names.
- An axis is a letter (one size wherever it stands), a number, `?` (any size), the name of an
  attribute, or a product of these (`4*A`). `*I` is a group of any number of axes, equal wherever it
  stands; of `*I:2` there are at most two. `one` is a scalar or a vector, of one element.
- Outputs follow `->`. Their types may also be attributes.

`fit` checks inputs against the declaration; see `Op.infer`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.spec import DYNAMIC, Dim, Shape, Spec, merge, merge_shapes

Types = Literal["any", "number", "real", "boolean", "integer", "bits"]

KINDS: dict[str, tuple[str, Callable[[ElementType], bool]]] = {
    "any": ("any type", lambda t: True),
    "number": ("a number type", lambda t: t.is_real or t.is_integral),
    "real": ("a floating-point type", lambda t: t.is_real),
    "boolean": ("boolean", lambda t: t.kind == "bool"),
    "integer": ("an integer type", lambda t: t.is_integral),
    "bits": ("an integer type or boolean", lambda t: t.is_integral or t.kind == "bool"),
}
Specs = Spec | tuple[Spec, ...]  # what `infer` returns
Axis = str | tuple[str | int, ...]  # a letter or `?`, else the factors of a product

_FACTOR = re.compile(r"[A-Z]|[a-z]\w*|\d+")
_PORT = re.compile(r"(?:(\w+)([?*]?): )?(\w+)(?: ([a-z]))?(?: (one|\[.*\]))?")


@dataclass(frozen=True)
class Axes:
    """The axes of a port: those in front of a group, the group (None: there is none), the rest."""

    lead: tuple[Axis, ...]
    group: str | None = None
    most: int | None = 0
    tail: tuple[Axis, ...] = ()

    @property
    def lowest(self) -> int:
        """The lowest rank."""
        return len(self.lead) + len(self.tail)

    @property
    def highest(self) -> int | None:
        """The highest rank; None where any number of axes may follow."""
        return None if self.most is None else self.lowest + self.most


@dataclass(frozen=True)
class Port:
    """A declared input or output: `kind` of types, the letter of its type, axes (None: any).

    `mark` is `?` where it may be absent, `*` where it may be repeated.
    """

    name: str
    mark: str
    kind: str
    letter: str
    axes: Axes | None
    one: bool = False


Product = tuple[int, Port, int, Shape, tuple[str | int, ...]]  # port, axis, shape, factors


@dataclass(frozen=True)
class Declaration:
    """The ports of an operation; `kinds` of the types by letter."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    kinds: dict[str, str]

    def of(self, count: int) -> Iterator[Port]:
        """Yield the ports of so many inputs."""
        for number in range(count):
            port = self.inputs[min(number, len(self.inputs) - 1)]
            if port.mark == "*":
                port = replace(port, name=f"{port.name} {number - len(self.inputs) + 1}")
            yield port


@cache
def declaration(signature: str) -> Declaration:
    """Parse a signature; ValueError where it has a mistake."""
    left, _, right = signature.partition("->")
    inputs = tuple(map(_port, _parts(left)))
    kinds = {p.letter: p.kind for p in reversed(inputs) if p.letter and p.kind}
    return Declaration(inputs, tuple(map(_port, _parts(right))), kinds)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _port(text: str) -> Port:
    match = _PORT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" declares no port')
    name, mark, kind, letter, axes = match.groups()
    if len(kind) == 1:
        kind, letter = "", kind
    shape = None if axes is None else _axes("*:1" if axes == "one" else axes[1:-1])
    return Port(name or "", mark or "", kind, letter or "", shape, axes == "one")


def _axes(text: str) -> Axes:
    axes = [a.strip() for a in text.split(",") if a.strip()]
    at = next((i for i, a in enumerate(axes) if a.startswith("*")), None)
    if at is None:
        return Axes(tuple(map(_axis, axes)))
    group, _, most = axes[at][1:].partition(":")
    lead, tail = tuple(map(_axis, axes[:at])), tuple(map(_axis, axes[at + 1 :]))
    return Axes(lead, group, int(most) if most else None, tail)


def _axis(text: str) -> Axis:
    if text == "?" or re.fullmatch("[A-Z]", text):
        return text
    factors = text.split("*")
    if not all(map(_FACTOR.fullmatch, factors)):
        raise ValueError(f'"{text}" declares no port: it is no axis')
    return tuple(int(f) if f.isdigit() else f for f in factors)


class Fit:
    """Inputs that fit their ports: sizes by letter (`fit["N"]`), groups of axes, element types."""

    def __init__(self, op: Any, declared: Declaration, inputs: Sequence[Spec | None]) -> None:
        self.op, self.declared = op, declared
        self.sizes: dict[str, Dim] = {}
        self.groups: dict[str, Shape | None] = {}
        self.types: dict[str, ElementType | None] = {}
        ports = enumerate(zip(self.declared.of(len(inputs)), inputs, strict=True))
        self.given = [(port, p, s) for port, (p, s) in ports if s is not None]
        for given in self.given:
            self._check_type(*given)
        shaped = [(port, p, s.shape) for port, p, s in self.given if p.axes and s.shape is not None]
        for port, p, shape in shaped:
            assert p.axes is not None
            want_rank(shape, p.axes.lowest, p.axes.highest, port, p.name)
        products = [row for one in shaped for row in self._bind(*one)]
        for product in products:
            self._check_product(*product)

    def __getitem__(self, letter: str) -> Dim:
        return self.sizes.get(letter, DYNAMIC)

    def __setitem__(self, letter: str, size: Dim) -> None:
        self.sizes[letter] = size

    def result(self) -> Specs:
        """Return the specs of the declared outputs as `infer` does; unset letters are open."""
        specs = tuple(Spec(self._type(p), self._shape(p.axes)) for p in self.declared.outputs)
        return specs if len(specs) != 1 else specs[0]

    def _check_type(self, port: int, p: Port, spec: Spec) -> None:
        if spec.dtype is None:
            return
        if p.kind:
            want_type(spec, p.kind, port, p.name)
        if not p.letter:
            return
        have = self.types.setdefault(p.letter, spec.dtype)
        if have != spec.dtype:
            first = next(q.name for _, q, s in self.given if q.letter == p.letter and s.dtype)
            raise _two_types(first, have, p.name, spec.dtype, port)
        if not p.kind and p.letter in self.declared.kinds:
            want_type(spec, self.declared.kinds[p.letter], port, p.name)

    def _bind(self, port: int, p: Port, shape: Shape) -> Iterator[Product]:
        """Merge the sizes of an input; yield the products, which wait for all letters."""
        assert p.axes is not None
        if p.one:
            if shape and merge(shape[0], 1) is None:
                raise _wrong(port, p, 0, shape, "one")
            return
        if p.axes.group:
            self._bind_group(port, p, p.axes.group, shape, len(p.axes.lead))
        behind = len(shape) - len(p.axes.tail)
        for axis, term in (*enumerate(p.axes.lead), *enumerate(p.axes.tail, behind)):
            if isinstance(term, tuple):
                product = port, p, axis, shape, term
                if any(isinstance(f, str) and f.isupper() for f in term):
                    yield product
                else:
                    self._check_product(*product)
            elif term != "?":
                have = self.sizes.get(term)
                both = shape[axis] if have is None else merge(have, shape[axis])
                if both is None:
                    raise _wrong(port, p, axis, shape, f"{have}{self._source(term)}")
                self.sizes[term] = both

    def _bind_group(self, port: int, p: Port, group: str, shape: Shape, first: int) -> None:
        assert p.axes is not None
        have, axes = self.groups.get(group), shape[first : first + len(shape) - p.axes.lowest]
        if have is not None and len(have) != len(axes):
            text = f"{p.name} has rank {len(shape)}; it must be {p.axes.lowest + len(have)}"
            raise OpError(f"{text}{self._source(f'*{group}')}", code="E301", port=port)
        for axis, (a, b) in enumerate(zip(have or (), axes, strict=False), first):
            if merge(a, b) is None:
                raise _wrong(port, p, axis, shape, f"{a}{self._source(f'*{group}')}")
        self.groups[group] = merge_shapes(have, axes)

    def _check_product(
        self, port: int, p: Port, axis: int, shape: Shape, factors: tuple[str | int, ...]
    ) -> None:
        need = self._product(factors)
        if merge(shape[axis], need) is None:
            text = "*".join(map(str, factors))
            why = "" if text == f"{need}" else f" ({text})"
            raise _wrong(port, p, axis, shape, f"{need}{why}")

    def _product(self, factors: tuple[str | int, ...]) -> Dim:
        total: Dim = math.prod(self._factor(f) for f in factors)
        return total

    def _factor(self, f: str | int) -> Any:
        if isinstance(f, int):
            return f
        return self[f] if f.isupper() else getattr(self.op, f)

    def _source(self, term: str) -> str:
        """Say which input comes first with the size of a letter, or the axes of a group."""
        for _, p, spec in self.given:
            if p.axes is None or spec.shape is None:
                continue
            if term == f"*{p.axes.group}":
                return f", as in {p.name}"
            if term in p.axes.lead:
                return f", as axis {p.axes.lead.index(term)} of {p.name}"
            if term in p.axes.tail:
                at = len(spec.shape) - len(p.axes.tail) + p.axes.tail.index(term)
                return f", as axis {at} of {p.name}"
        return ""

    def _type(self, p: Port) -> ElementType | None:
        if p.letter:
            return self.types.get(p.letter)
        found: ElementType = ELEMENT_TYPES.get(p.kind) or getattr(self.op, p.kind)
        return found

    def _shape(self, axes: Axes | None) -> Shape | None:
        assert axes is not None
        group: Shape | None = ()
        if axes.group is not None:
            group = self.groups.get(axes.group)
        if group is None:
            return None
        lead, tail = map(self._size, axes.lead), map(self._size, axes.tail)
        return (*lead, *group, *tail)

    def _size(self, term: Axis) -> Dim:
        if isinstance(term, tuple):
            return self._product(term)
        return self.sizes.get(term, DYNAMIC)


def fit(op: Any, *inputs: Spec | None, signature: str | None = None) -> Fit:
    """Check inputs against the declared ports, or those of another signature; E301, E302, E303."""
    return Fit(op, declaration(signature or op.signature), inputs)


def want_type(spec: Spec, types: str, port: int, name: str) -> None:
    """Require an element type, or one of a kind (unknown ones pass); E303."""
    if spec.dtype is None:
        return
    text, fits = KINDS.get(types) or (types, lambda t: t.name == types)
    if not fits(spec.dtype):
        raise OpError(f"{name} is {spec.dtype}; it must be {text}", code="E303", port=port)


def want_rank(shape: Shape | None, lowest: int, highest: int | None, port: int, name: str) -> None:
    """Require a rank within bounds (unknown ones pass); E301."""
    if shape is None:
        return
    rank = len(shape)
    if rank < lowest or (highest is not None and rank > highest):
        if highest == lowest:
            rule = f"{lowest}"
        else:
            rule = f"at least {lowest}" if highest is None else f"{lowest} to {highest}"
        raise OpError(f"{name} has rank {rank}; it must be {rule}", code="E301", port=port)


def _wrong(port: int, p: Port, axis: int, shape: Shape, need: str) -> OpError:
    if len(shape) == 1:
        text = f"{p.name} has {shape[0]} values; it must have {need}"
    else:
        text = f"axis {axis} of {p.name} has size {shape[axis]}; it must be {need}"
    return OpError(text, code="E302", port=port)


def _two_types(first: str, a: object, second: str, b: object, port: int) -> OpError:
    text = f"{first} is {a} and {second} is {b}; both must have one element type"
    return OpError(text, code="E303", port=port)
