"""The search for a smaller variant that still fails.

A variant is a graph, or those of both sides, and the values of its inputs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from irdeconv.base.errors import count
from irdeconv.base.progress import Advance
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.rewrite.infer_specs import infer_specs

PASSIVE = ("Parameter", "Const", "Result")  # what is no layer of its own
Edit = Callable[[Node], Op | None]


@dataclass(frozen=True)
class Variant:
    """Inferred graphs with the same inputs and outputs in the same order; the first one counts.

    `feeds` has an array per input, by the name of its Parameter in the first graph.
    """

    graphs: tuple[Graph, ...]
    feeds: dict[str, Array]

    def __repr__(self) -> str:
        return f"Variant({', '.join(map(repr, self.graphs))})"

    @property
    def graph(self) -> Graph:
        """The first graph."""
        return self.graphs[0]

    @property
    def layers(self) -> list[Node]:
        """The layers of the first graph, producers first."""
        return layers(self.graph)

    @property
    def arrays(self) -> list[Array]:
        """The values of the inputs in order."""
        return [self.feeds[n.name] for n in self.graph.parameters]

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the inputs by the names under which other runtimes know them as well."""
        return dict(zip(self.graph.inputs, self.arrays, strict=True))

    def edited(self, edit: Edit, feeds: Mapping[str, Array] | None = None) -> Variant | None:
        """Return a copy with other operations and feeds; None if nothing changes or fits."""
        changed, graphs = feeds is not None, []
        for graph in self.graphs:
            new = graph.copy()
            for node in new.nodes():
                op = edit(node)
                if op is not None:
                    new.replace_op(node.id, op)
                    changed = True
            if not is_valid(new, graph):
                return None
            graphs.append(new)
        return Variant(tuple(graphs), {**self.feeds, **(feeds or {})}) if changed else None


def layers(graph: Graph) -> list[Node]:
    """Return the layers of a graph, producers first; constants, inputs and outputs are none."""
    return [n for n in graph.topological() if n.type not in PASSIVE]


def is_valid(graph: Graph, before: Graph | None = None) -> bool:
    """Whether a graph fits, inferred in place; unknown operations need the inputs of `before`."""
    if any(d.severity == "error" for d in infer_specs(graph)):
        return False
    for node in graph.nodes():
        if any(p.severity == "error" for p in node.op.problems()):
            return False
        if isinstance(node.op, Opaque) and before is not None and node.id in before:
            new, old = graph.input_specs(node.id), before.input_specs(node.id)
            if [(s.dtype, s.shape) for s in new] != [(s.dtype, s.shape) for s in old]:
                return False
    return True


@dataclass
class Hasher:
    """Fingerprints of variants; data that several of them share are read once."""

    _known: dict[int, tuple[Any, bytes]] = field(default_factory=dict)

    def of(self, variant: Variant) -> bytes:
        """Return a fingerprint of everything that a check can see."""
        total = hashlib.blake2b(digest_size=16)
        for graph in variant.graphs:
            self._graph(graph, total.update)
        for name in sorted(variant.feeds):
            total.update(repr((name, self._array(variant.feeds[name]))).encode())
        return total.digest()

    def _graph(self, graph: Graph, update: Callable[[bytes], None]) -> None:
        for node in graph.nodes():
            update(repr((node.id, node.name, *self._op(node.op))).encode())
            update(repr((graph.inputs_of(node.id), node.rt_info)).encode())
            for body in bodies_of(node):
                update(repr((body.tag, body.inputs, body.outputs, body.edges)).encode())
                self._graph(body.graph, update)

    def _op(self, op: Op) -> Iterable[Any]:
        if isinstance(op, Const):
            return op.element_type, op.shape, self._array(op.data)
        if isinstance(op, Opaque):  # whose body names places in a file
            return op.kind, op.data, op.sections
        if isinstance(op, BodyOp):  # whose bodies follow
            return op.type, op.version
        return (op,)

    def _array(self, data: Any) -> bytes:
        known = self._known.get(id(data))
        if known is None:
            array = data if isinstance(data, np.ndarray) else data.array()
            plain = array.astype(str) if array.dtype == object else np.ascontiguousarray(array)
            head = repr((array.shape, str(array.dtype))).encode()
            digest = hashlib.blake2b(head, digest_size=16)
            digest.update(plain.tobytes())
            # Keeping the data keeps its id from being given to other data.
            known = self._known[id(data)] = (data, digest.digest())
        return known[1]


T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What a check said of a variant.

    `fails` says that the fault shows, `said` what was seen, in a line. `suspects` are names of
    layers that the check itself names. `valid` is False where it could say nothing.
    """

    fails: bool
    said: str
    suspects: tuple[str, ...] = ()
    valid: bool = True


class Check(Protocol):
    """Says whether the fault shows in a variant; `hint` helps if it does not show in the model."""

    hint: str

    def __call__(self, variant: Variant) -> Outcome:
        """Check one variant."""


class Exhausted(Exception):
    """A limit is reached; `str` says which."""


@dataclass
class Search:
    """The best variant so far, and the rules by which another one takes its place.

    `max_checks` and `seconds` are limits (None: none), `clock` tells the time in seconds. What was
    tried before is not checked again; variants that do not fit together never are.
    """

    check: Check
    best: Variant
    outcome: Outcome
    max_checks: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    step: Advance | None = None
    checks: int = 0
    repeated: int = 0
    undecided: int = 0
    _hasher: Hasher = field(default_factory=Hasher)
    _seen: dict[bytes, Outcome] = field(default_factory=dict)
    _start: float = 0.0

    def __post_init__(self) -> None:
        self._start = self.clock()
        self._seen[self._hasher.of(self.best)] = self.outcome

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self.clock() - self._start

    def fails(self, variant: Variant | None) -> bool:
        """Whether the fault shows in a variant, which then is the best one; Exhausted."""
        if variant is None:
            return False
        key = self._hasher.of(variant)
        outcome = self._seen.get(key)
        if outcome is None:
            outcome = self._seen[key] = self._checked(variant)
        else:
            self.repeated += 1
        if outcome.fails:
            self.best, self.outcome = variant, outcome
        return outcome.fails

    def _checked(self, variant: Variant) -> Outcome:
        self._require_room()
        self.checks += 1
        if self.step is not None:
            self.step(detail=f"{count(len(self.best.layers), 'layer')} left")
        outcome = self.check(variant)
        self.undecided += not outcome.valid
        return outcome

    def _require_room(self) -> None:
        if self.max_checks is not None and self.checks >= self.max_checks:
            raise Exhausted(f"the limit of {count(self.max_checks, 'check')} is reached")
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise Exhausted(f"the limit of {self.seconds:g} s is reached")


def first_failing(length: int, fails: Callable[[int], bool]) -> int:
    """Return the least failing n in 1..length; `fails` counts as monotone, `length` fails."""
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def minimized(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a minimal failing part of the items (ddmin), in order; all together do fail."""
    left, pieces = list(items), 2
    while len(left) > 1:
        pieces = min(pieces, len(left))
        bounds = [len(left) * i // pieces for i in range(pieces + 1)]
        chunks = [left[a:b] for a, b in pairwise(bounds)]
        alone = next((c for c in chunks if fails(c)), None)
        if alone is not None:
            left, pieces = alone, 2
            continue
        rests = (
            [x for chunk in chunks[:i] + chunks[i + 1 :] for x in chunk]
            for i in range(len(chunks) if pieces > 2 else 0)
        )
        rest = next((r for r in rests if fails(r)), None)
        if rest is not None:
            left, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(left):
            break
        else:
            pieces *= 2
    return left
