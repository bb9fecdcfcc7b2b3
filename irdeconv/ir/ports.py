"""Declared ports: the inputs that an operation accepts, and often its outputs, in one text.

    signature = "data: real t [N, C, *I]; lengths: integer [N]; mask?: t [N, 1] -> t [N, C, *I]"

An input has a name (`?`: it may be absent, `*`: any number of them may follow, `+`: one or more),
element types and axes; without axes its shape is any. The rest describes the values of an
integer input: `= N` a size, `= *O` the sizes of a group, `of data` axes of an input before it.

- Types are a kind (`KINDS`), element types (`f32|f16`) or the name of an attribute that is a type.
  A lower-case letter behind them, or alone, names one type: all inputs with this letter have it.
  The first of them gives its kind.
- An axis is a letter (one size wherever it stands), a number, `?` (any size), the name of an
  attribute, or a product of these (`4*A`). `*I` is a group of any number of axes, equal wherever it
  stands; of `*I:2` there are at most two, of `*I:1..3` one to three, of `*K:I` as many as of I.
  `one` is a scalar or a vector, of one element.
- Outputs follow `->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

from irdeconv.base.errors import OpError, value_error, values_of
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.spec import (
    DYNAMIC,
    UNKNOWN,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    merge,
    merge_shapes,
    non_negative,
    value_dims,
)

Types = Literal["any", "number", "real", "boolean", "integer", "bits"]

# OpenVINO reads no axes, sizes or indices of these, and does not count nf4 as floating-point.
_NO_NUMBERS = ("u1", "u2", "u3", "u6", "nf4")
KINDS: dict[str, tuple[str, Callable[[ElementType], bool]]] = {
    "any": ("any type", lambda t: True),
    "number": ("a number type", lambda t: t.is_real or t.is_integral),
    "real": ("a floating-point type", lambda t: t.is_real and t.name not in _NO_NUMBERS),
    "boolean": ("boolean", lambda t: t.kind == "bool"),
    "integer": ("an integer type", lambda t: t.is_integral and t.name not in _NO_NUMBERS),
    "bits": ("an integer type or boolean", lambda t: t.is_integral or t.kind == "bool"),
}
Specs = Spec | tuple[Spec, ...]  # the result of `infer`
Letters = dict[str, Dim]

_FACTOR = re.compile(r"[A-Z]|[a-z]\w*|\d+")
_PORT = re.compile(
    r"(?:(\w+)([?*+]?): )?([\w|]+)(?: ([a-z]))?(?: (one|\[.*\]))?(?: = (\*?[A-Z])| of (\w+))?"
)


@dataclass(frozen=True)
class Product:
    """A size as a product of numbers, attributes and letters; `waits` until letters have sizes."""

    text: str
    factors: tuple[str | int, ...]
    waits: bool

    def size(self, op: Any, sizes: Letters) -> Dim:
        """Return the size; letters without one are open."""
        total: Dim = 1
        for f in self.factors:
            if isinstance(f, int):
                total = total * f
            else:
                total = total * (sizes.get(f, DYNAMIC) if f.isupper() else getattr(op, f))
        return total


Axis = str | Product  # a letter or `?`, else a product


@dataclass(frozen=True)
class Axes:
    """The axes of a port: those before a group, the group (None: there is none), those behind it.

    `terms` are all but `?` and the group by number; those behind a group count from the end.
    `counts` are how many axes the group has at least and at most: as many as the group `like`.
    """

    before: tuple[Axis, ...]
    group: str | None
    behind: tuple[Axis, ...]
    counts: tuple[int, int | None]
    like: str
    text: str
    terms: tuple[tuple[int, Axis], ...]

    @cached_property
    def ranks(self) -> tuple[int, int | None]:
        """The lowest rank and the highest one; None: there is no limit."""
        fixed, (least, most) = len(self.before) + len(self.behind), self.counts
        return fixed + least, None if most is None else fixed + most


@dataclass(frozen=True)
class DeclaredPort:
    """A declared input or output: `kind` of types, the letter of its type, axes (None: any).

    `mark` is `?` if it may be absent, `*` or `+` if it may be repeated. `one`: of one
    element. `means` is the letter or group whose sizes the values are, `of` the input whose axes.
    """

    name: str
    mark: str
    kind: str
    letter: str
    axes: Axes | None
    one: bool = False
    means: str = ""
    of: str = ""


@dataclass(frozen=True)
class Declaration:
    """The ports of an operation; `kinds` of the types by letter; `valued`: values count as well."""

    inputs: tuple[DeclaredPort, ...]
    outputs: tuple[DeclaredPort, ...]
    kinds: dict[str, str]
    valued: bool

    def of(self, count: int) -> Sequence[DeclaredPort]:
        """Return the ports of so many inputs."""
        if not self.inputs or self.inputs[-1].mark not in ("*", "+"):
            return self.inputs
        *fixed, last = self.inputs
        more = range(count - len(fixed))
        return *fixed, *(_numbered(last, i) for i in more)


@cache
def _numbered(port: DeclaredPort, number: int) -> DeclaredPort:
    return replace(port, name=f"{port.name} {number}")


@cache
def declaration(signature: str) -> Declaration:
    """Parse a signature; ValueError if it has a mistake."""
    left, _, right = signature.partition("->")
    inputs = tuple(_with_counts(map(_port, _parts(left))))
    kinds = {p.letter: p.kind for p in reversed(inputs) if p.letter and p.kind}
    valued = any(p.means or p.of for p in inputs)
    return Declaration(inputs, tuple(map(_port, _parts(right))), kinds, valued)


def _with_counts(inputs: Iterable[DeclaredPort]) -> Iterator[DeclaredPort]:
    """Yield the inputs; a group that is `like` an earlier one may have as many axes as that."""
    counts: dict[str | None, tuple[int, int | None]] = {}
    for p in inputs:
        axes = p.axes
        if axes is not None and axes.like:
            if axes.like not in counts:
                raise ValueError(f'"{axes.like}" declares no port: no group before it has the name')
            axes = replace(axes, counts=counts[axes.like])
        if axes is not None:
            counts.setdefault(axes.group, axes.counts)
        yield replace(p, axes=axes)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _port(text: str) -> DeclaredPort:
    match = _PORT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" declares no port')
    name, mark, kind, letter, axes, means, of = match.groups(default="")
    if len(kind) == 1:
        kind, letter = "", kind
    shape = _axes("*:1" if axes == "one" else axes[1:-1]) if axes else None
    return DeclaredPort(name, mark, kind, letter, shape, axes == "one", means, of)


def _axes(text: str) -> Axes:
    axes = [a.strip() for a in text.split(",") if a.strip()]
    at = next((i for i, a in enumerate(axes) if a.startswith("*")), len(axes))
    before, behind = tuple(map(_axis, axes[:at])), tuple(map(_axis, axes[at + 1 :]))
    group, count = None, "0"
    if at < len(axes):
        group, _, count = axes[at][1:].partition(":")
    like = count if count.isupper() else ""
    least, _, most = ("" if like else count).rpartition("..")
    rows = (*enumerate(before), *enumerate(behind, -len(behind)))
    return Axes(
        before=before,
        group=group,
        behind=behind,
        counts=(int(least or 0), int(most) if most else None),
        like=like,
        text=text.replace(f":{count}", ""),
        terms=tuple(r for r in rows if r[1] != "?"),
    )


def _axis(text: str) -> Axis:
    if text == "?" or re.fullmatch("[A-Z]", text):
        return text
    factors = text.split("*")
    if not all(map(_FACTOR.fullmatch, factors)):
        raise ValueError(f'"{text}" declares no port: it is no axis')
    waits = any(f.isupper() for f in factors)
    return Product(text, tuple(int(f) if f.isdigit() else f for f in factors), waits)


class Fit:
    """Inputs that fit their ports: sizes by letter (`fit["N"]`), groups of axes, element types."""

    def __init__(self, op: Any, declared: Declaration, inputs: Sequence[Spec | None]) -> None:
        self.op, self.declared = op, declared
        self.sizes: Letters = {}
        self.groups: dict[str, Shape | None] = {}
        self.types: dict[str, ElementType | None] = {}
        ports = zip(declared.of(len(inputs)), inputs, strict=False)
        self.given = [(n, p, s) for n, (p, s) in enumerate(ports) if s is not None]
        for port, p, s in self.given:
            if s.dtype is not None:
                self._check_type(port, p, s.dtype)
        rows = [(port, p, p.axes, s.shape) for port, p, s in self.given]
        shaped = [(port, p, a, s) for port, p, a, s in rows if a is not None and s is not None]
        for port, p, axes, shape in shaped:
            want_rank(shape, *axes.ranks, port, p.name)
        waiting: list[Waiting] = []
        for port, p, axes, shape in shaped:
            self._bind(port, p, axes, shape, waiting)
        for waits in waiting:
            self._check_product(*waits)
        for port, p, s in self.given if declared.valued else ():
            if p.means:
                self._take_sizes(port, p, value_dims(s))
            elif p.of and s.known is not None:
                self.axes(p.name)

    def __getitem__(self, letter: str) -> Dim:
        return self.sizes.get(letter, DYNAMIC)

    def __setitem__(self, letter: str, size: Dim) -> None:
        self.sizes[letter] = size

    def result(self) -> Specs:
        """Return the specs of the declared outputs as `infer` does; unset letters are open."""
        specs = tuple(Spec(self._type(p), self._shape(p.axes)) for p in self.declared.outputs)
        return specs if len(specs) != 1 else specs[0]

    def spec(self, name: str) -> Spec | None:
        """Return an input by its name; None: it is absent."""
        return next((s for _, p, s in self.given if p.name == name), None)

    def values(self, name: str) -> tuple[Dim, ...] | None:
        """Return the values of an integer input; None if it is absent, or their number unknown."""
        spec = self.spec(name)
        return None if spec is None else value_dims(spec)

    def count(self, name: str) -> Dim:
        """Return the number of values of a vector, open if it is not known."""
        spec = self.spec(name)
        return DYNAMIC if spec is None or not spec.shape else spec.shape[0]

    def value(self, name: str) -> Dim:
        """Return the value of an input of one element, UNKNOWN if not known."""
        return (self.values(name) or (UNKNOWN,))[0]

    def axes(self, name: str) -> tuple[int, ...] | None:
        """Return axes that are an input, counted from 0; None if they are unknown; E305."""
        port, p = next((n, p) for n, p, _ in self.given if p.name == name)
        data, values = self.spec(p.of), exact(self.values(name))
        if values is None or data is None or data.shape is None:
            return None
        return tuple(axis_of(v, len(data.shape), port=port) for v in values)

    def _take_sizes(self, port: int, p: DeclaredPort, values: tuple[Dim, ...] | None) -> None:
        for v in values or ():
            high = bounds(v)[1]
            if high is not None and high < 0:
                raise value_error(port, f"{p.name} has {v}; it must not be negative")
        sizes = None if values is None else tuple(map(non_negative, values))
        if p.means.startswith("*"):
            self.groups[p.means[1:]] = sizes
        else:
            self.sizes[p.means] = DYNAMIC if sizes is None else sizes[0]

    def _check_type(self, port: int, p: DeclaredPort, dtype: ElementType) -> None:
        named = getattr(self.op, p.kind, None) if p.kind and _names(p.kind) is None else None
        if named is not None and dtype != named:
            text = f"{p.name} is {dtype}; it must be {named}, as {p.kind} says"
            raise OpError(text, code="E303", port=port)
        if p.kind and named is None:
            _want(dtype, p.kind, port, p.name)
        if not p.letter:
            return
        have = self.types.setdefault(p.letter, dtype)
        if have is not dtype and have != dtype:
            first = next(q.name for _, q, s in self.given if q.letter == p.letter and s.dtype)
            text = f"{first} is {have} and {p.name} is {dtype}; both must have one element type"
            raise OpError(text, code="E303", port=port)
        if not p.kind and p.letter in self.declared.kinds:
            _want(dtype, self.declared.kinds[p.letter], port, p.name)

    def _bind(
        self, port: int, p: DeclaredPort, axes: Axes, shape: Shape, waiting: list[Waiting]
    ) -> None:
        """Merge the sizes of an input; products that wait for letters are added to `waiting`."""
        if p.one and shape and shape[0] != 1 and merge(shape[0], 1) is None:
            raise _wrong(port, p, 0, shape, "one")
        if axes.group:
            self._bind_group(port, p, axes, axes.group, shape)
        for axis, term in axes.terms:
            if isinstance(term, Product):
                if term.waits:
                    waiting.append((port, p, axis, shape, term))
                else:
                    self._check_product(port, p, axis, shape, term)
                continue
            size = both = shape[axis]
            have = self.sizes.get(term)
            if have is not None and have != size:
                both = merge(have, size)  # type: ignore[assignment]
                if both is None:
                    raise _wrong(port, p, axis, shape, f"{have}{self._source(term)}")
            self.sizes[term] = both

    def _bind_group(self, port: int, p: DeclaredPort, axes: Axes, group: str, shape: Shape) -> None:
        first = len(axes.before)
        have, own = self.groups.get(group), shape[first : len(shape) - len(axes.behind)]
        if have is None and not axes.like:
            self.groups[group] = own
            return
        fixed = len(shape) - len(own)
        like = self.groups.get(axes.like)
        if like is not None and len(like) != len(own):
            text = f"{p.name} has rank {len(shape)}; it must be {fixed + len(like)}"
            text += f", [{axes.text}]" if axes.before and "?" not in axes.text else ""
            raise OpError(f"{text}{self._source(f':{axes.like}')}", code="E301", port=port)
        if have is not None and len(have) != len(own):
            text = f"{p.name} has rank {len(shape)}; it must be {fixed + len(have)}"
            raise OpError(f"{text}{self._source(f'*{group}')}", code="E301", port=port)
        for axis, (a, b) in enumerate(zip(have or (), own, strict=False), first):
            if merge(a, b) is None:
                raise _wrong(port, p, axis, shape, f"{a}{self._source(f'*{group}')}")
        self.groups[group] = merge_shapes(have, own)

    def _check_product(
        self, port: int, p: DeclaredPort, axis: int, shape: Shape, term: Product
    ) -> None:
        need = term.size(self.op, self.sizes)
        if shape[axis] != need and merge(shape[axis], need) is None:
            why = "" if term.text == f"{need}" else f" ({term.text})"
            raise _wrong(port, p, axis, shape, f"{need}{why}")

    def _source(self, term: str) -> str:
        """Say which input comes first with the size of a letter, or the axes or rank of a group."""
        for _, p, spec in self.given:
            if p.axes is None or spec.shape is None:
                continue
            if term == f"*{p.axes.group}":
                return f", as in {p.name}"
            if term == f":{p.axes.group}":
                return f", for {p.name} of rank {len(spec.shape)}"
            for axis, own in p.axes.terms:
                if own == term:
                    return f", as axis {axis % len(spec.shape)} of {p.name}"
        return ""

    def _type(self, p: DeclaredPort) -> ElementType | None:
        if p.letter:
            return self.types.get(p.letter)
        found: ElementType = ELEMENT_TYPES.get(p.kind) or getattr(self.op, p.kind)
        return found

    def _shape(self, axes: Axes | None) -> Shape | None:
        assert axes is not None
        group = () if axes.group is None else self.groups.get(axes.group)
        if group is None:
            return None
        return (*map(self._size, axes.before), *group, *map(self._size, axes.behind))

    def _size(self, term: Axis) -> Dim:
        if isinstance(term, Product):
            return term.size(self.op, self.sizes)
        return self.sizes.get(term, DYNAMIC)


def axis_of(axis: int, rank: int, *, attribute: str | None = None, port: int | None = None) -> int:
    """Return an axis counted from 0 (negative ones count from the end).

    Outside the rank: E304 if the axis is an attribute, E305 if it is an input's value.
    """
    if not -rank <= axis < rank:
        text = f"axis {axis} is outside a tensor of rank {rank} ({-rank} to {rank - 1} is allowed)"
        raise OpError(text, code="E304" if port is None else "E305", attribute=attribute, port=port)
    return axis % rank


def exact(values: Sequence[Dim] | None) -> tuple[int, ...] | None:
    """Return the values if all of them are exact."""
    if values is None:
        return None
    out = tuple(v for v in values if not isinstance(v, Interval))
    return out if len(out) == len(values) else None


Waiting = tuple[int, DeclaredPort, int, Shape, Product]  # of a port, an axis of a shape


def fit(op: Any, *inputs: Spec | None, signature: str | None = None) -> Fit:
    """Check inputs against the declared ports, or those of another signature; E301, E302, E303."""
    return Fit(op, declaration(signature or op.signature), inputs)


def want_type(spec: Spec, types: str, port: int, name: str) -> None:
    """Require an element type, or one of a kind (unknown ones pass); E303."""
    if spec.dtype is not None:
        _want(spec.dtype, types, port, name)


@cache
def _names(types: str) -> frozenset[str] | None:
    """Return the names of the element types; None: `types` is the name of an attribute."""
    if types in KINDS:
        return frozenset(n for n, t in ELEMENT_TYPES.items() if KINDS[types][1](t))
    names = frozenset(types.split("|"))
    return names if names <= ELEMENT_TYPES.keys() else None


def _want(dtype: ElementType, types: str, port: int, name: str) -> None:
    if dtype.name not in (_names(types) or ()):
        *others, last = types.split("|")
        text = f"{', '.join(others)} or {last}" if others else last
        text = KINDS[types][0] if types in KINDS else text
        text += f", but not {', '.join(_NO_NUMBERS)}" if dtype.name in _NO_NUMBERS else ""
        raise OpError(f"{name} is {dtype}; it must be {text}", code="E303", port=port)


def want_rank(
    shape: Shape | None, lowest: int, highest: int | None, port: int | None, name: str
) -> None:
    """Require a rank within bounds (unknown ones pass); E301."""
    rank = lowest if shape is None else len(shape)
    if rank < lowest or (highest is not None and rank > highest):
        if highest == lowest:
            rule = f"{lowest}"
        elif highest is None:
            rule = f"at least {lowest}"
        else:
            rule = f"{lowest} {'or' if highest == lowest + 1 else 'to'} {highest}"
        raise OpError(f"{name} has rank {rank}; it must be {rule}", code="E301", port=port)


def _wrong(port: int, p: DeclaredPort, axis: int, shape: Shape, need: str) -> OpError:
    text = f"axis {axis % len(shape)} of {p.name} has size {shape[axis]}; it must be {need}"
    if len(shape) == 1:
        text = f"{p.name} has {values_of(shape[0])}; it must have {need}"
    return OpError(text, code="E302", port=port)
