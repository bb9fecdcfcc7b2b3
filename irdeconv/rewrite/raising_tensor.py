"""Tensors and sizes as raising follows them.

Sizes that are known as polynomials in the open sizes of one tensor.

A tensor by what stands along its axes: elements of a source, copies of them, zeros.

An axis is a row of digits, the last one fastest. A `Pattern` is a digit of fixed size: at each of
its positions it adds to the source's channel, or there is a zero (None). A `Signal` runs through
one axis of the source: position offset + S*i + r holds element i where the pattern `pulse` has an
entry r, with the entry added to the channel. So zero-insertion is the pulse (0, None, ...), nearest
enlargement (0, 0, ...), and an axis that depth-to-space made (0, M, 2M, ...).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import ints
from irdeconv.ops.basic import Opaque

Monomial = tuple[str, ...]


def known_type(node: Node) -> str:
    """Return a node's type; nothing for one of an operation set that irdeconv does not know."""
    return "" if isinstance(node.op, Opaque) else node.type


class Unreadable(Exception):
    """A node does not do what a deconvolution's decomposition does; the text says what it does."""


@dataclass(frozen=True)
class Size:
    """A polynomial with integer coefficients; `terms` are sorted and have no zero among them."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: Size | int) -> Size:
        """Return a number as a size."""
        if isinstance(value, Size):
            return value
        return Size((((), value),) if value else ())

    @staticmethod
    def symbol(name: str) -> Size:
        """Return an open size."""
        return Size((((name,), 1),))

    @property
    def number(self) -> int | None:
        """The value where it is known, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size | int) -> Size:
        return _sum([*self.terms, *Size.of(other).terms])

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        pairs = ((a, b) for a in self.terms for b in Size.of(other).terms)
        return _sum([(tuple(sorted(a[0] + b[0])), a[1] * b[1]) for a, b in pairs])


def windows(room: Size, stride: int) -> Size:
    """Return the positions of a window that has `room`: (room - 1) // stride + 1."""
    if any(monomial and factor % stride for monomial, factor in room.terms):
        raise Unreadable(f"how often a stride of {stride} fits depends on open sizes")
    return _sum([(m, f // stride if m else (f - 1) // stride + 1) for m, f in _with_number(room)])


def _with_number(size: Size) -> list[tuple[Monomial, int]]:
    """Return the terms of a size, also the one of the number where that is 0."""
    return [*size.terms, *([] if any(not m for m, _ in size.terms) else [((), 0)])]


def _sum(terms: Sequence[tuple[Monomial, int]]) -> Size:
    factors: Counter[Monomial] = Counter()
    for monomial, factor in terms:
        factors[monomial] += factor
    return Size(tuple(sorted((m, f) for m, f in factors.items() if f)))


class SizeEvaluator:
    """Evaluates integer vectors on polynomials; `shapes` are those of the tensors that are known.

    A tensor of which nothing is known contributes its exact dimensions only.
    """

    def __init__(self, graph: Graph, shapes: dict[Value, list[Size]]) -> None:
        self.graph = graph
        self.shapes = shapes

    def get(self, value: Value) -> list[Size]:
        """Return the elements of a vector or scalar; Unreadable where one is not known."""
        known = ints(self.graph.spec(value))
        if known is not None:
            return [Size.of(v) for v in known]
        node = self.graph.node(value.node)
        inputs = self.graph.inputs_of(node.id)
        if known_type(node) == "ShapeOf":
            return self._shape(inputs[0])
        if known_type(node) in ("Squeeze", "Unsqueeze", "Reshape") or (
            known_type(node) == "Convert" and _holds_sizes(self.graph.spec(value).dtype)
        ):
            return self.get(inputs[0])
        if known_type(node) == "Concat":
            return [s for v in inputs for s in self.get(v)]
        if known_type(node) == "Gather":
            values, picked = self.get(inputs[0]), self.numbers(inputs[1])
            if any(not 0 <= i < len(values) for i in picked):
                raise Unreadable(f'Gather "{node.name}" reads {picked} of {len(values)} elements')
            return [values[i] for i in picked]
        if known_type(node) in _ARITHMETIC:
            return self._combine(node.type, self.get(inputs[0]), self.get(inputs[1]))
        raise Unreadable(f'the numbers that {node.type} "{node.name}" computes are not known')

    def numbers(self, value: Value) -> list[int]:
        """Return exact numbers; Unreadable where one is open."""
        values = [s.number for s in self.get(value)]
        if any(n is None for n in values):
            name = self.graph.node(value.node).name
            raise Unreadable(f'the numbers of "{name}" depend on open sizes')
        return [n for n in values if n is not None]

    def _shape(self, value: Value) -> list[Size]:
        if value in self.shapes:
            return self.shapes[value]
        shape = self.graph.spec(value).shape
        if shape is None:
            raise Unreadable(f'the rank of "{self.graph.node(value.node).name}" is not known')
        # An open dimension of another tensor is a symbol that nothing else equals.
        return [
            Size.of(d) if isinstance(d, int) else Size.symbol(f"{value.node}.{value.port}.{a}")
            for a, d in enumerate(shape)
        ]

    def _combine(self, kind: str, a: list[Size], b: list[Size]) -> list[Size]:
        n = max(len(a), len(b))
        if {len(a), len(b)} - {1, n}:
            raise Unreadable(f"vectors of {len(a)} and {len(b)} elements meet")
        rows = zip(a * (n // len(a)), b * (n // len(b)), strict=True)
        return [p + q if kind == "Add" else p - q if kind == "Subtract" else p * q for p, q in rows]


_ARITHMETIC = ("Add", "Multiply", "Subtract")


def _holds_sizes(dtype: ElementType | None) -> bool:
    """Whether a type is an integer in which no size wraps around."""
    return dtype is not None and dtype.kind in ("int", "uint") and dtype.bits >= 32


Pulse = tuple[int | None, ...]
NO_AXIS = -1


@dataclass(frozen=True)
class Pattern:
    """A digit of fixed size: what each position adds to the channel, None for a zero."""

    pulse: Pulse

    @property
    def size(self) -> Size:
        """The number of positions."""
        return Size.of(len(self.pulse))

    def spread(self, pulse: Pulse) -> Pattern:
        """Put a pattern in the place of every position."""
        return Pattern(_joined(self.pulse, pulse))


@dataclass(frozen=True)
class Signal:
    """A digit that runs through source axis `axis` of `count` elements.

    `offset` positions stand in front of the first pulse, `tail` behind the last one: zeros where
    positive, else so many positions are cut off. First and last entry of `pulse` are no None.
    """

    axis: int
    count: Size
    stride: int = 1
    offset: int = 0
    tail: int = 0
    pulse: Pulse = (0,)

    @property
    def size(self) -> Size:
        """The number of positions: offset + S(I-1) + pulse + tail."""
        rest = self.offset + len(self.pulse) + self.tail - self.stride
        return self.count * self.stride + rest

    @property
    def is_whole(self) -> bool:
        """Whether it is the source's axis as it stands."""
        return (self.stride, self.offset, self.tail, self.pulse) == (1, 0, 0, (0,))

    def padded(self, begin: int, end: int) -> Signal:
        """Return it with zeros at both ends; negative pads crop."""
        if (begin > 0 > self.offset) or (end > 0 > self.tail):
            raise Unreadable(f"axis {self.axis} is cropped and then padded")
        return replace(self, offset=self.offset + begin, tail=self.tail + end)

    def spread(self, pulse: Pulse) -> Signal:
        """Put a pattern in the place of every position."""
        n = len(pulse)
        made = replace(self, stride=self.stride * n, offset=self.offset * n, tail=self.tail * n)
        return replace(made, pulse=_joined(self.pulse, pulse)).trimmed()

    def trimmed(self) -> Signal:
        """Return it with the zeros at the ends of the pulse in offset and tail."""
        filled = [i for i, p in enumerate(self.pulse) if p is not None]
        if not filled:
            raise Unreadable(f"nothing but zeros is left of axis {self.axis}")
        first, stop = filled[0], filled[-1] + 1
        offset, tail = self.offset + first, self.tail + len(self.pulse) - stop
        return replace(self, pulse=self.pulse[first:stop], offset=offset, tail=tail)


Digit = Pattern | Signal
Digits = tuple[Digit, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor by its axes."""

    axes: tuple[Digits, ...]

    @staticmethod
    def source(shape: Sequence[Size]) -> Tensor:
        """Return a tensor (N, C, *I) that is its own source."""
        digits: list[Digits] = [(Signal(a, n),) for a, n in enumerate(shape)]
        channels = shape[1].number
        if channels is not None:
            digits[1] = (Pattern(tuple(range(channels))),)
        return Tensor(tuple(digits))

    @property
    def shape(self) -> list[Size]:
        """The sizes of the axes."""
        return [math.prod((d.size for d in axis), start=Size.of(1)) for axis in self.axes]

    def with_axis(self, axis: int, digits: Digits) -> Tensor:
        """Return it with another axis."""
        return Tensor((*self.axes[:axis], digits, *self.axes[axis + 1 :]))


def without_ones(axis: Digits, source: int) -> Digits:
    """Return an axis without source axes of size 1, which a Reshape may put anywhere.

    That of `source` stays.
    """
    return tuple(
        d
        for d in axis
        if not (isinstance(d, Signal) and d.axis != source and d.is_whole and d.count == Size.of(1))
    )


def single(axis: Digits) -> Digit:
    """Return an axis as one digit; Unreadable where several source axes mix in it."""
    out: Digit = Pattern((0,))
    if sum(isinstance(d, Signal) for d in axis) > 1:
        axis = without_ones(axis, NO_AXIS)
    for d in axis:
        if isinstance(d, Pattern):
            out = out.spread(d.pulse)
        elif isinstance(out, Pattern) and out.pulse == (0,):
            out = d
        else:
            raise Unreadable("an axis holds several axes of the source")
    return out


def _joined(slow: Pulse, fast: Pulse) -> Pulse:
    return tuple(None if p is None or q is None else p + q for p in slow for q in fast)


def regroup(tensor: Tensor, target: Sequence[Size | None]) -> Tensor:
    """Bring a tensor into another shape; None stands for the one size that is left to follow."""
    digits = [d for axis in tensor.axes for d in axis]
    if None not in target:
        made = _taken(digits, [t for t in target if t is not None])
        if digits:
            made[-1:] = [(*made[-1], *digits)]
    else:
        at = target.index(None)
        front = [t for t in target[:at] if t is not None]
        back = [t for t in target[at + 1 :] if t is not None]
        made = _taken(digits, front)
        digits.reverse()
        behind = _taken(digits, back[::-1], backwards=True)
        made = [*made, tuple(reversed(digits)), *behind[::-1]]
    out = Tensor(tuple(made))
    if any(t is not None and t != s for t, s in zip(target, out.shape, strict=True)):
        raise Unreadable("a Reshape mixes the axes of its source")
    return out


def _taken(digits: list[Digit], target: Sequence[Size], *, backwards: bool = False) -> list[Digits]:
    """Take digits from the front of a list until they fill each size of the target."""
    made = []
    for want in target:
        axis: list[Digit] = []
        have = Size.of(1)
        if want == have and digits and digits[0].size == have:
            axis.append(digits.pop(0))
        while have != want and digits:
            digits[:1] = _divided(digits[0], have, want, backwards)
            axis.append(digits.pop(0))
            have = have * axis[-1].size
        if have != want:
            raise Unreadable("a Reshape does not follow the axes of its source")
        made.append(tuple(reversed(axis)) if backwards else tuple(axis))
    return made


def _divided(digit: Digit, have: Size, want: Size, backwards: bool) -> list[Digit]:
    """Return a digit in two parts where only a part of it is wanted, the wanted one first."""
    if isinstance(digit, Signal):
        return [digit]
    n = len(digit.pulse)
    for part in range(1, n):
        if n % part == 0 and have * part == want:
            slow, fast = split(digit, n // part if backwards else part)
            return [fast, slow] if backwards else [slow, fast]
    return [digit]


def split(digit: Pattern, outer: int) -> tuple[Pattern, Pattern]:
    """Split a pattern into `outer` blocks: what the blocks add and what their positions add."""
    inner = len(digit.pulse) // outer
    rows = [digit.pulse[i * inner : (i + 1) * inner] for i in range(outer)]
    at = next(((i, j) for i, r in enumerate(rows) for j, p in enumerate(r) if p is not None), None)
    if at is None:
        raise Unreadable("nothing but zeros is left of an axis")
    fast = rows[at[0]]
    base = fast[at[1]] or 0
    column = [r[at[1]] for r in rows]
    slow = tuple(None if p is None else p - base for p in column)
    if _joined(slow, fast) != digit.pulse:
        raise Unreadable("a Reshape parts an axis that does not repeat")
    return Pattern(slow), Pattern(fast)


def pad_axis(axis: Digits, begin: int, end: int) -> Digits:
    """Return an axis with zeros at both ends; negative pads crop."""
    if not begin and not end:
        return axis
    digit = single(axis)
    if isinstance(digit, Signal):
        return (digit.padded(begin, end),)
    pulse = digit.pulse
    if min(begin, 0) + min(end, 0) + len(pulse) < 1:
        raise Unreadable("nothing is left of an axis")
    kept = pulse[max(-begin, 0) : len(pulse) - max(-end, 0)]
    return (Pattern((*(None,) * max(begin, 0), *kept, *(None,) * max(end, 0))),)
