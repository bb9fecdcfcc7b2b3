"""The second model of a comparison as a run of its own that hands over one tensor at a time.

The plan runs in a thread and waits until what it has computed is taken or not wanted. So the memory
in use is that of two runs plus the tensors under comparison, whatever the graphs' size.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from irdeconv.graph import Graph, Node
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.spec import Array
from irdeconv.verify.compare.partner import Fetched, Partner


def layer_keys(graph: Graph) -> dict[int, str]:
    """Return, by node id, the names by which layers are matched, those that are unique.

    The last of the nodes that a rewriting made answers to the name of the source layer.
    """
    keys = {}
    last: dict[tuple[str, ...], int] = {}
    for node in graph.topological():
        if node.type not in ("Const", "Parameter", "Result"):
            keys[node.id] = node.name
            if node.origins:
                last[node.origins] = node.id
    keys |= {i: origins[0] for origins, i in last.items()}
    count = Counter(keys.values())
    return {i: key for i, key in keys.items() if count[key] == 1}


def other_parts(keys: Iterable[str], names: Iterable[str], *, complete: bool = True) -> set[str]:
    """Return the names by which no layer may be matched, since they mean something else.

    `keys` are the layers of one side in its order, `names` the other side's, `complete` if these
    are all that it has. What `X/Pad` is follows from how the layer X was taken apart, so what
    stands before X and is named like a part of it is matched where both have the same parts.
    """
    place = {key: i for i, key in enumerate(keys)}
    theirs = _parts(names, place)
    out = set()
    for owner, owned in _parts(place, place).items():
        before = {p for p in owned if place[p] < place[owner]}
        others = {p for p in theirs.get(owner, ()) if p not in place or p in before}
        if others - before or (complete and before - others):
            out |= before
    return out


def _parts(names: Iterable[str], owners: Collection[str]) -> dict[str, set[str]]:
    """Return the names below each owner, or below another of the names: `X/Pad` by `X`."""
    names = set(names)
    out: dict[str, set[str]] = {}
    for name in names:
        owner = name.rpartition("/")[0]
        while owner and owner not in owners and owner not in names:
            owner = owner.rpartition("/")[0]
        if owner:
            out.setdefault(owner, set()).add(name)
    return out


class _Stopped(Exception):
    """The comparison has ended before the run."""


@dataclass
class _Exchange:
    """Tensors on their way from the second run to the first."""

    waiting: dict[str, Fetched] = field(default_factory=dict)
    wanted: str | None = None
    ended: bool = False
    stopped: bool = False
    turn: threading.Condition = field(default_factory=threading.Condition)

    def offer(self, key: str, layer: Fetched) -> None:
        """Hand a layer over; returns when it was taken or another one is wanted."""
        with self.turn:
            self.waiting[key] = layer
            self.turn.notify_all()
            self.turn.wait_for(
                lambda: (
                    self.stopped
                    or not self.waiting
                    or (self.wanted is not None and self.wanted not in self.waiting)
                )
            )
            if self.stopped:
                raise _Stopped

    def take(self, key: str) -> Fetched | None:
        """Wait for a layer; None where the run ended without it."""
        with self.turn:
            self.wanted = key
            self.turn.notify_all()
            self.turn.wait_for(lambda: key in self.waiting or self.ended)
            self.wanted = None
            layer = self.waiting.pop(key, None)
            self.turn.notify_all()
            return layer

    def end(self) -> None:
        """Say that the run is over."""
        with self.turn:
            self.ended = True
            self.turn.notify_all()

    def stop(self, *, quietly: bool) -> None:
        """Say that nothing more is wanted; unless quietly, the run goes on to its end."""
        with self.turn:
            self.stopped = quietly
            self.waiting.clear()
            self.wanted = ""  # a name that no layer waits under
            self.turn.notify_all()


class PlanPartner(Partner):
    """Another graph, executed with NumPy."""

    wide = False

    def __init__(self, first: Graph, plan: Plan, inputs: Feeds) -> None:
        keys_a, keys_b = layer_keys(first), layer_keys(plan.graph)
        shared = set(keys_a.values()) - other_parts(keys_a.values(), keys_b.values())
        steps = {step.node.id for step in plan.steps}  # without what constants fold to
        self._offered = {i: k for i, k in keys_b.items() if k in shared and i in steps}
        offered = set(self._offered.values())
        self._asked = {i: k for i, k in keys_a.items() if k in offered}
        self._exchange = _Exchange()
        self._outputs: dict[str, Array] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(plan, inputs), daemon=True)
        self._thread.start()

    def fetch(self, node: Node) -> Fetched | None:
        """Wait for the layer of the same name."""
        key = self._asked.get(node.id)
        layer = None if key is None else self._exchange.take(key)
        if self._error is not None:
            raise self._error
        return layer

    def outputs(self) -> list[Array | None]:
        """Wait for the end of the run."""
        self._exchange.stop(quietly=False)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return list(self._outputs.values())

    def close(self) -> None:
        """Stop the run."""
        self._exchange.stop(quietly=True)
        self._thread.join()

    def _work(self, plan: Plan, inputs: Feeds) -> None:
        def trace(node: Node, arrays: tuple[Array, ...]) -> None:
            key = self._offered.get(node.id)
            if key is not None and arrays:
                self._exchange.offer(key, Fetched(node.type, arrays))

        try:
            self._outputs = plan.run(inputs, trace)
        except _Stopped:
            pass
        except BaseException as e:  # raised again in the caller's thread
            self._error = e
        finally:
            self._exchange.end()
