"""Proofs at exact sizes for whatever is linear in the data, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from irdeconv.proof.call import room
from irdeconv.proof.linear import Fixed, LinearWalk, Misfit, Value
from irdeconv.proof.model import Layer, Obligation, Port, Proof, TypedArray, Unproved, need
from irdeconv.proof.taps import Bases
from irdeconv.proof.terms import NONE, Linear, Term
from irdeconv.proof.weights import Different

SIZES, CUTS = (1, 2, 3, 5, 8), (0, 1, 2, 3, -1)


@dataclass
class Leaves:
    """What a region reads from outside, at sizes of which the open ones are chosen.

    Open axes have the size `wish` or the next one that is allowed, the one numbered `longer` one
    more; `fixed` says it of single ones. `cut` is what sizes wanted of the output lack.
    """

    ob: Obligation
    bases: Bases
    fixed: dict[tuple[Port, int], int]
    wish: int
    longer: int
    cut: int
    values: dict[Port, Value] = field(default_factory=dict)
    chosen: list[int] = field(default_factory=list)  # sizes of open axes
    asked: list[int] = field(default_factory=list)  # sizes wanted of the output

    def get(self, port: Port) -> Value:
        """Return the value at a port of the source."""
        if port not in self.values:
            self.values[port] = self._known(port) or self._numbered(port)
        return self.values[port]

    def choose(self, port: Port, free: Sequence[int]) -> Fixed:
        """Return sizes of the output that are wanted at run time."""
        if port not in self.values:
            raise Unproved("the sizes wanted of the output are computed inside of the rewriting")
        cuts = itertools.islice(itertools.cycle(CUTS), self.cut, self.cut + len(free))
        sizes = [max(o - c, 1) for o, c in zip(free, cuts, strict=True)]
        self.asked += sizes
        type = self.ob.fact(port).type or "i64"
        self.values[port] = made = Fixed(TypedArray(np.array(sizes, np.int64), type))
        return made

    def _known(self, port: Port) -> Fixed | None:
        def leaf(read: Port, reader: Layer) -> Value | None:
            shape = self.ob.fact(read).shape if reader.type == "ShapeOf" else None
            sizes = [n for n in shape or () if isinstance(n, int)]
            if shape is None or len(sizes) < len(shape):
                return None
            return Linear(None, (Term(np.broadcast_to(NONE, sizes)),))

        try:
            value = LinearWalk(self.ob.source, self.bases, leaf).value(port)
        except Unproved:
            return None
        return value if isinstance(value, Fixed) else None

    def _numbered(self, port: Port) -> Linear:
        type, shape = self.ob.fact(port)
        if shape is None:
            raise Unproved(f"the rank of {self.ob.source.of(port)} is not known")
        sizes = [n if isinstance(n, int) else self._size(port, a, *n) for a, n in enumerate(shape)]
        numbers = self.bases.add(tuple(sizes), rows=max(room(sizes), 1))
        return Linear(type, (Term(numbers),))

    def _size(self, port: Port, axis: int, low: int, high: int | None) -> int:
        if low == high:
            return low
        size = max(low, 1) + self.wish - 1 + (len(self.chosen) == self.longer)
        if (port, axis) in self.fixed:
            return self.fixed[port, axis]
        self.chosen.append(size if high is None else min(size, high))
        return self.chosen[-1]


def prove(ob: Obligation) -> Proof:
    """Prove that the lowered value is the source's, at its fixed sizes or at some of the open ones.

    Raises Unproved where it is not, or does not follow.
    """
    plans = [(n, -1, i) for i, n in enumerate(SIZES)] + [(SIZES[-1], i, 0) for i in range(6)]
    fixed: dict[tuple[Port, int], int] = {}
    sizes: dict[tuple[int, ...], None] = {}
    failure, lines, worst = Unproved("no size was walked"), [], 0.0
    for plan in plans:
        leaves, wanted = _source(ob, fixed, plan)
        if isinstance(wanted, Unproved):
            failure = wanted  # the source does not allow these sizes
        else:
            worst = max(worst, _compared(ob, leaves, wanted))
            sizes[*leaves.chosen, *leaves.asked] = None
            lines.append(f"{list(wanted.shape)}: {leaves.bases.equations} equations of weights")
        if not leaves.chosen + leaves.asked or -1 < plan[1] >= len(leaves.chosen) - 1:
            break
    if not lines:
        raise failure
    is_open = any(sizes)
    listed = ", ".join("x".join(map(str, row)) for row in sizes)
    text = f"the open sizes {listed} only" if is_open else "its sizes, which are fixed"
    return Proof("element by element", text, not is_open, tuple(lines), worst)


def _source(
    ob: Obligation, fixed: dict[tuple[Port, int], int], plan: tuple[int, int, int]
) -> tuple[Leaves, Linear | Unproved]:
    """Return the source's value, with data of as many channels as its filters have."""
    stops = set(ob.twins.values())
    while True:
        leaves = Leaves(ob, Bases(), fixed, *plan)

        def leaf(port: Port, reader: Layer, leaves: Leaves = leaves) -> Value | None:
            return leaves.get(port) if port in stops else None

        walk = LinearWalk(ob.source, leaves.bases, leaf, leaves.choose)
        try:
            return leaves, walk.linear(walk.value(ob.wanted))
        except Misfit as e:
            if e.axis in fixed:
                return leaves, e
            fixed[e.axis] = e.size
        except Unproved as e:
            return leaves, e


def _compared(ob: Obligation, leaves: Leaves, wanted: Linear) -> float:
    """Return the rounding of the lowered value's weights; Unproved unless it is the wanted one."""

    def leaf(port: Port, reader: Layer) -> Value | None:
        return leaves.get(ob.twins[port]) if port in ob.twins else None

    walk = LinearWalk(
        ob.lowered, leaves.bases, leaf, runs=True, fixed=not leaves.chosen + leaves.asked
    )
    output = walk.linear(walk.value(ob.output))
    same = [f"{v.type} {list(v.shape)} {v.last}" for v in (output, wanted)]
    need(same[0] == same[1], f"the value is {same[0]}, the source's is {same[1]}")
    if 0 in wanted.shape:
        return 0.0
    ranks = {len(b.shape) for b in leaves.bases.all if b.is_data}
    why = None
    for axis in (1, max(ranks, default=0) - 1, None):
        try:
            rounding = leaves.bases.equal(output, wanted, axis)
        except Different:
            raise
        except Unproved as e:
            why = why or e
            continue
        if rounding and not ranks:  # no weights: it may decide a size or an index
            raise Unproved("a constant that meets no data is rounded")
        return rounding
    raise why or Unproved("nothing was compared")
