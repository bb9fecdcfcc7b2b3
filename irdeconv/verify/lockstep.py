"""Run two plans side by side, handing over one shared tensor at a time.

Each plan runs in a thread of its own; the first waits until the second has taken a tensor. So the
memory in use is that of both runs plus the tensors under comparison, whatever the graphs' size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from irdeconv.graph import Node
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.spec import Array

Compare = Callable[[str, Node, Array, Node, Array], None]


@dataclass
class _Exchange:
    """Tensors on their way from the first run to the second."""

    waiting: dict[str, tuple[Node, Array]] = field(default_factory=dict)
    wanted: str | None = None
    finished: set[str] = field(default_factory=set)
    turn: threading.Condition = field(default_factory=threading.Condition)

    def offer(self, key: str, node: Node, array: Array) -> None:
        """Hand a tensor over; returns when the second run has taken it or wants another one."""
        with self.turn:
            self.waiting[key] = (node, array)
            self.turn.notify_all()
            self.turn.wait_for(
                lambda: (
                    not self.waiting
                    or "second" in self.finished
                    or (self.wanted is not None and self.wanted not in self.waiting)
                )
            )

    def take(self, key: str) -> tuple[Node, Array] | None:
        """Wait for a tensor; None where the first run ended without it."""
        with self.turn:
            self.wanted = key
            self.turn.notify_all()
            self.turn.wait_for(lambda: key in self.waiting or "first" in self.finished)
            self.wanted = None
            found = self.waiting.pop(key, None)
            self.turn.notify_all()
            return found

    def finish(self, who: str) -> None:
        """Say that a run has ended."""
        with self.turn:
            self.finished.add(who)
            self.turn.notify_all()


def run_side_by_side(
    a: Plan,
    b: Plan,
    inputs: Feeds,
    keys: tuple[Mapping[int, str], Mapping[int, str]],
    compare: Compare,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run both plans on the same inputs and call `compare` for every shared key; both outputs.

    `keys` name the nodes to compare by node id, each key once per plan. Errors of either run are
    raised here, the first plan's before the second's.
    """
    keys_a, keys_b = keys
    shared = set(keys_a.values()) & set(keys_b.values())
    exchange = _Exchange()
    outputs: dict[str, dict[str, Array]] = {}
    errors: dict[str, BaseException] = {}

    def first(node: Node, arrays: tuple[Array, ...]) -> None:
        key = keys_a.get(node.id)
        if key in shared and arrays:
            exchange.offer(str(key), node, arrays[0])

    def second(node: Node, arrays: tuple[Array, ...]) -> None:
        key = keys_b.get(node.id)
        if key in shared and arrays:
            found = exchange.take(str(key))
            if found is not None:
                compare(str(key), found[0], found[1], node, arrays[0])

    def work(who: str, plan: Plan, trace: Callable[[Node, tuple[Array, ...]], None]) -> None:
        try:
            outputs[who] = plan.run(inputs, trace)
        except BaseException as e:  # raised again in the caller's thread
            errors[who] = e
        finally:
            exchange.finish(who)

    threads = [
        threading.Thread(target=work, args=("first", a, first), daemon=True),
        threading.Thread(target=work, args=("second", b, second), daemon=True),
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for who in ("first", "second"):
        if who in errors:
            raise errors[who]
    return outputs["first"], outputs["second"]
