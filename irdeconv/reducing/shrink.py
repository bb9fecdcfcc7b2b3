"""Shrink a model that shows a fault, stage by stage, until nothing more can be left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from irdeconv import progress
from irdeconv.errors import Diagnostic, IrdeconvError, NothingToReduceError, misused
from irdeconv.graph import Graph, Node, unique
from irdeconv.markup import html_text, html_title, line
from irdeconv.passes.infer_specs import inferred
from irdeconv.plural import count
from irdeconv.reducing import by_layers, by_sizes, by_values
from irdeconv.reducing.flow import guess
from irdeconv.reducing.search import Check, Exhausted, Outcome, Search
from irdeconv.reducing.variant import Variant
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.spec import Array
from irdeconv.wrapping import printable

ROUNDS = 3  # of all stages; what one leaves out may let another leave out more

Stage = Callable[[Search], None]
STAGES: Mapping[str, Stage] = {
    "leaving out layers": by_layers.fewer_layers,
    "shrinking sizes": by_sizes.smaller,
    "simplifying attributes": by_values.plainer_attributes,
    "simplifying numbers": by_values.simpler_numbers,
    "leaving out notes": by_values.without_notes,
}


@dataclass(frozen=True)
class ModelSize:
    """How large a model is: its layers (constants, inputs and outputs are none), constants."""

    layers: int
    constant_bytes: int

    @staticmethod
    def of(graph: Graph) -> ModelSize:
        """Measure an inferred graph."""
        constants = sum(n.spec().nbytes or 0 for n in graph.nodes("Const"))
        return ModelSize(len(Variant((graph,), {}).layers), constants)


@dataclass(frozen=True, kw_only=True, repr=False)
class Reduced:
    """The small model that still shows the fault.

    `graph` is the piece, `other` the same piece of the model that it was compared with, `inputs`
    the values of its inputs by name. `found` says what the check found in it. `stopped` says why
    the search ended early; None means that the piece is minimal. `checks` counts the variants that
    were checked, `repeated` those that had been checked before, `undecided` those about which the
    check could say nothing. `in_one_piece`: OpenVINO differs when it executes the whole model, but
    not layer by layer.
    """

    piece: Variant
    before: ModelSize
    after: ModelSize
    found: str
    checks: int
    repeated: int
    undecided: int
    seconds: float
    stopped: str | None = None
    in_one_piece: bool = False

    @property
    def graph(self) -> Graph:
        """The piece."""
        return self.piece.graph

    @property
    def other(self) -> Graph | None:
        """The same piece of the second model."""
        return self.piece.graphs[1] if len(self.piece.graphs) > 1 else None

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the piece's inputs by name."""
        return self.piece.inputs

    @property
    def layers(self) -> list[Node]:
        """The layers that are left, producers first."""
        return self.piece.layers

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "layers": [{"name": n.name, "type": n.type} for n in self.layers],
            "layers_before": self.before.layers,
            "constant_bytes": self.after.constant_bytes,
            "constant_bytes_before": self.before.constant_bytes,
            "inputs": {name: list(a.shape) for name, a in self.inputs.items()},
            "found": self.found,
            "checks": self.checks,
            "repeated": self.repeated,
            "undecided": self.undecided,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
        }

    def __repr__(self) -> str:
        return line(self, None, str(self), count(self.checks, "check"))

    def _repr_html_(self) -> str:
        return html_title(f"{self}, {count(self.checks, 'check')}") + html_text(self.found)

    def __str__(self) -> str:
        names = ", ".join(f'{n.type} "{n.name}"' for n in self.layers)
        return printable(f"{count(self.before.layers, 'layer')} -> {self.after.layers}: {names}")


def shrink(
    original: Variant,
    check: Check,
    outcome: Outcome,
    *,
    max_checks: int | None = None,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reduced:
    """Return the least that was found of a variant with that outcome, within the limits.

    An interruption ends the search as a limit does; `Reduced.stopped` says so.
    """
    search = Search(check, original, outcome, max_checks, seconds, clock)
    stopped = None
    try:
        _search(search)
    except Exhausted as e:
        stopped = str(e)
    except KeyboardInterrupt:
        stopped = "interrupted"
    best = search.best
    return Reduced(
        piece=best,
        before=ModelSize.of(original.graph),
        after=ModelSize.of(best.graph),
        found=search.outcome.said,
        checks=search.checks,
        repeated=search.repeated,
        undecided=search.undecided,
        seconds=search.elapsed,
        stopped=stopped,
    )


def _search(search: Search) -> None:
    by_values.exact_shapes(search)
    for number in range(ROUNDS):
        before = search.best
        for what, stage in STAGES.items():
            with progress.stage(f"{what}, round {number + 1}") as step:
                search.step = step
                stage(search)
        if search.best is before:
            return


def require_failure(
    check: Check, original: Variant, *, twice: bool, explain: Callable[[], str | None] = str
) -> Outcome:
    """Return what a check says of the original, which it has to fail.

    Raises NothingToReduceError (E509) with what it said instead, also where two runs differ;
    `explain` may know why the fault does not show.
    """
    first = check(original)
    if twice:
        second = check(original)
        if first.fails != second.fails:
            runs = f"first: {first.said}; then: {second.said}"
            raise nothing_to_reduce(
                f"the check does not say the same of the same model: {runs}", FLAKY
            )
    if not first.fails:
        why = explain()
        raise nothing_to_reduce(
            why or f"the fault does not show in the model: {first.said}", check.hint
        )
    return first


FLAKY = "make the check repeatable: fixed seeds, one thread, no cache"


def nothing_to_reduce(message: str, hint: str) -> IrdeconvError:
    """Return the error of a model that shows no fault (E509)."""
    return NothingToReduceError(Diagnostic("E509", "error", message, hint=hint))


def variant_of(graphs: Sequence[Graph], feeds: Feeds) -> Variant:
    """Return models as a variant: names that are unique, inputs by name, everything inferred.

    The inputs of a second graph take the names of the first one's: the same name, else in order.
    Raises InferenceError where a graph does not fit together, UsageError for other inputs.
    """
    first, *others = (_named(inferred(g)) for g in graphs)
    arrays = Binder.of(inferred(graphs[0])).bind(feeds)
    names = [n.name for n in first.parameters]
    for graph in others:
        _take_names(graph, names)
    return Variant((first, *others), dict(zip(names, arrays, strict=True)))


def _named(graph: Graph) -> Graph:
    """Give every node a name of its own, in place; inputs keep theirs if they can.

    What the file declared is left behind: it would contradict smaller sizes.
    """
    nodes = sorted(graph.nodes(), key=lambda n: n.type != "Parameter")
    for node, name in zip(nodes, unique(n.name for n in nodes), strict=True):
        node.name = name
        node.declared, node.declared_inputs, node.port_elements = (), (), ((), ())
        node.tensor_names = node.tensor_names if any(node.tensor_names) else ()
    graph.info = replace(graph.info, file=None)
    return graph


def _take_names(graph: Graph, names: Sequence[str]) -> None:
    """Give a graph's inputs these names, in order unless they are the same; others make room."""
    mine = graph.parameters
    if len(mine) != len(names):
        has = f"{count(len(mine), 'input')}, the first model {len(names)}"
        raise misused(f"the second model has {has}")
    if {n.name for n in mine} == set(names):
        return
    for node, name in zip(mine, names, strict=True):
        node.name = name
    others = [n for n in graph.nodes() if n not in mine]
    renamed = unique([*names, *(n.name for n in others)])[len(names) :]
    for node, name in zip(others, renamed, strict=True):
        node.name = name


def guessed_feeds(graph: Graph, seed: int) -> dict[str, Array]:
    """Return an array per input: reals in [0, 1), others 0; open sizes are the smallest ones."""
    pairs = zip(graph.inputs, graph.parameters, strict=True)
    return {name: guess(n.spec(), seed, i) for i, (name, n) in enumerate(pairs)}
