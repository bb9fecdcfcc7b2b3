"""Cut a piece out of a graph: from some layers or tensors to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from irdeconv.editing.assemble import assemble
from irdeconv.editing.cut import Cutter, Region, behind, constant_layers
from irdeconv.editing.selection import Place, Selection
from irdeconv.errors import Collector, UsageError
from irdeconv.graph import Graph, Value
from irdeconv.passes.infer_specs import infer_specs


@dataclass(frozen=True)
class PieceEnd:
    """An input or output of a piece: its name there, the tensor of the whole graph that it is.

    `why`: it was "asked" for, the piece "needed" it, or it is an input or output of the "model".
    """

    name: str
    source: Value
    why: Literal["asked", "needed", "model"]


@dataclass(frozen=True)
class Piece:
    """A piece of a graph as a graph of its own, with what its ends are in the whole."""

    graph: Graph
    inputs: tuple[PieceEnd, ...]
    outputs: tuple[PieceEnd, ...]


@dataclass(frozen=True)
class _Output:
    """A tensor that the piece gives, and the Result of the whole graph that it keeps, if any."""

    value: Value
    result: int | None


def extract(graph: Graph, from_: Sequence[str] = (), to: Sequence[str] = ()) -> Graph:
    """Return the piece of a graph from some layers or tensors to others, as a graph of its own.

    `from_` names tensors, which become inputs, and layers, whose data inputs do; without it the
    piece begins at the model's inputs. `to` names tensors and layers, which become outputs; without
    it the piece ends at the model's. Texts are those of `Selection`. Constants come along; any
    other tensor that the piece reads from outside becomes an input as well. Inputs have the
    inferred element types and shapes and the tensor's names. Raises UsageError for names that are
    none (E503) and where nothing can be cut out (E507).
    """
    return cut_out(graph, from_, to).graph


def cut_out(graph: Graph, from_: Sequence[str] = (), to: Sequence[str] = ()) -> Piece:
    """Return the piece that `extract` returns, and what its ends are in the whole graph."""
    whole = _known(graph)
    return _Extraction(whole, from_, to).piece()


def _known(graph: Graph) -> Graph:
    """Return the graph with specs; what does not fit together keeps its declared ones."""
    if all(n.specs is not None for n in graph.nodes()):
        return graph
    whole = graph.copy()
    infer_specs(whole)
    return whole


class _Extraction:
    """One cut: `cuts` are the tensors that --from names, each with the texts that name it."""

    def __init__(self, graph: Graph, from_: Sequence[str], to: Sequence[str]) -> None:
        self.graph, self.from_, self.to = graph, from_, to
        selection = Selection(graph)
        found = Collector()
        places = [self._found(selection, texts, option, found) for texts, option in self._texts()]
        if found.errors:
            raise UsageError(found.diagnostics)
        self.begins, self.ends = places
        self.constants = constant_layers(graph)
        self.problems = Collector()
        self.cuts: dict[Value, None] = {}
        self.named: list[list[Value]] = []
        self.inside = self._begin()

    def _texts(self) -> list[tuple[Sequence[str], str]]:
        return [(self.from_, "--from"), (self.to, "--to")]

    @staticmethod
    def _found(
        selection: Selection, texts: Sequence[str], option: str, found: Collector
    ) -> list[Place]:
        try:
            return selection.places(texts, option)
        except UsageError as e:
            found.diagnostics += e.diagnostics
            return []

    def _begin(self) -> set[int]:
        """Find the tensors where the piece begins; return the layers behind them."""
        if not self.from_:
            self.cuts = {Value(n.id): None for n in self.graph.parameters}
            return {n.id for n in self.graph.nodes()}
        seeds: set[int] = set()
        for place in self.begins:
            values, first = self._cut(place)
            self.named.append(values)
            self.cuts |= dict.fromkeys(values)
            seeds |= first
        return behind(self.graph, seeds)

    def _cut(self, place: Place) -> tuple[list[Value], set[int]]:
        """Return the tensors that become inputs, and the first layers behind them."""
        inputs = self.graph.inputs_of(place.node)
        if place.side == "input":
            return [inputs[place.port]], {place.node}
        data = [v for v in dict.fromkeys(inputs) if not self._constant(v)]
        if place.side == "layer" and data:
            return data, {place.node}
        # No data flow into a constant or an input: it is cut behind, as a tensor is.
        ports = range(self.graph.node(place.node).outputs)
        values = [Value(place.node, p) for p in ports]
        if place.side == "output":
            values = [Value(place.node, place.port)]
        return values, {user for v in values for user, _ in self.graph.users(v)}

    def _constant(self, value: Value) -> bool:
        return value.node in self.constants or self.graph.spec(value).known is not None

    def piece(self) -> Piece:
        """Walk, refuse what makes no sense, and build the piece."""
        cutter = Cutter(self.graph, self.cuts, self.inside, self.constants)
        outputs = self._outputs()
        values = [o.value for o in outputs]
        if not self.to:
            # What only a variable needs that the piece does not keep is left out.
            assigned = [i for i in self.inside if self.graph.node(i).type == "Assign"]
            kept = cutter.region([*values, *self._sources(assigned)]).states
            values += self._sources(sorted(kept & set(assigned)))
        region = cutter.region(values)
        self._check_use(region, outputs)
        if self.problems.errors:
            raise UsageError(self.problems.diagnostics)
        return self._built(region, outputs)

    def _sources(self, nodes: Sequence[int]) -> list[Value]:
        return [v for i in nodes for v in self.graph.inputs_of(i)]

    def _outputs(self) -> list[_Output]:
        results = {self.graph.inputs_of(r.id)[0]: r.id for r in reversed(self.graph.results)}
        if not self.to:
            ends = [_Output(v, r.id) for r in self.graph.results for v in self._sources([r.id])]
            found = [o for o in ends if o.value.node in self.inside]
            if not found:
                self._refuse_end(bool(ends))
            return found
        made: dict[tuple[Value, int | None], _Output] = {}
        for text, place in zip(self.to, self.ends, strict=True):
            for value in self._ending(place, text):
                is_result = self.graph.node(place.node).type == "Result"
                result = place.node if is_result else results.get(value)
                made.setdefault((value, result), _Output(value, result))
        return list(made.values())

    def _ending(self, place: Place, text: str) -> list[Value]:
        """Return the tensors that a --to names, after reporting what is wrong with it."""
        node, inputs = self.graph.node(place.node), self.graph.inputs_of(place.node)
        if place.side == "input" or node.type == "Result":
            values = [inputs[place.port]]
        elif place.side == "output":
            values = [Value(node.id, place.port)]
        else:
            values = [Value(node.id, p) for p in range(node.outputs)]
        if not values:
            self.problems.add("E507", f'--to {text}: {node.type} "{node.name}" has no outputs')
        for value in values:
            if not self._reached(value) and value.node not in self.constants:
                self._refuse_unreached(value, text)
                break
        return values

    def _reached(self, value: Value) -> bool:
        return value in self.cuts or value.node in self.inside

    def _refuse_unreached(self, value: Value, text: str) -> None:
        front = behind(self.graph, [value.node])
        turned = any(v.node in front for v in self.cuts)
        self.problems.add(
            "E507",
            f"--to {text} is not computed from {self._listed()}",
            hint="it lies in front of it: --from and --to may be the wrong way round"
            if turned
            else "name where the piece begins on the way to it with one more --from",
        )

    def _refuse_end(self, any_results: bool) -> None:
        if any_results:
            message = f"no output of the model is computed from {self._listed()}"
            self.problems.add("E507", message, hint="name where the piece ends with --to")
        else:
            message = "the model has no outputs"
            self.problems.add("E507", message, hint="name where the piece ends with --to")

    def _listed(self) -> str:
        return ", ".join(f"--from {text}" for text in self.from_)

    def _check_use(self, region: Region, outputs: Sequence[_Output]) -> None:
        """Report what --from names in vain, inputs of unknown type, and an empty piece."""
        if self.problems.errors:
            return
        if outputs and not region.layers - self.constants and self.from_:
            ends = ", ".join(f"--to {text}" for text in self.to) or "the model's outputs"
            self.problems.add("E507", f"there is no layer between {self._listed()} and {ends}")
            return
        for text, values in zip(self.from_, self.named, strict=True):
            if not region.inputs & set(values):
                self.problems.add(
                    "E507",
                    f"--from {text}: nothing of the piece reads it",
                    hint="what is asked for with --to does not need it, or another --from cuts it "
                    "off",
                )
        for value in sorted(region.inputs):
            if self.graph.spec(value).dtype is None:
                node = self.graph.node(value.node)
                self.problems.add(
                    "E507",
                    f'the piece would begin at output {value.port} of {node.type} "{node.name}", '
                    "whose element type is unknown",
                    location=node.location,
                    layer=node.name,
                    hint="cut elsewhere, or declare the element type of its port",
                )

    def _built(self, region: Region, outputs: Sequence[_Output]) -> Piece:
        order = {n.id: k for k, n in enumerate(self.graph.reading_order())}
        more = region.inputs - self.cuts.keys()
        inputs = [v for v in self.cuts if v in region.inputs]
        inputs += sorted(more, key=lambda v: (order[v.node], v.port))
        graph = assemble(self.graph, region, inputs, [(o.value, o.result) for o in outputs], order)
        asked = self.cuts if self.from_ else {}
        ends = []
        for name, value in zip(graph.inputs, inputs, strict=True):
            is_input = self.graph.node(value.node).type == "Parameter"
            why: Literal["asked", "needed", "model"] = "model" if is_input else "needed"
            ends.append(PieceEnd(name, value, "asked" if value in asked else why))
        made = [
            PieceEnd(name, o.value, "asked" if self.to else "model")
            for name, o in zip(graph.outputs, outputs, strict=True)
        ]
        return Piece(graph, tuple(ends), tuple(made))
