"""Cut a piece out of a graph: from some layers or tensors to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from irdeconv.editing.assemble import assemble
from irdeconv.editing.cut import Cutter, Region, behind, constant_layers, variable
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
    """A piece of a graph as a graph of its own, with what its ends are in the whole.

    `known` names the tensors from outside that are constants here: their values follow from shapes.
    """

    graph: Graph
    inputs: tuple[PieceEnd, ...]
    outputs: tuple[PieceEnd, ...]
    known: tuple[str, ...] = ()


class _Output(NamedTuple):
    """A tensor that the piece gives, and the Result of the whole graph that it keeps, if any."""

    value: Value
    result: int | None
    why: Literal["asked", "model"] = "asked"


def extract(
    graph: Graph,
    from_: Sequence[str] = (),
    to: Sequence[str] = (),
    add: Sequence[str] = (),
) -> Graph:
    """Return the piece of a graph from some layers or tensors to others, as a graph of its own.

    `from_` names tensors, which become inputs, and layers, whose data inputs do; without it the
    piece begins at the model's inputs. `to` names tensors and layers, which become outputs; without
    it the piece ends at the model's. `add` names outputs besides these. Texts are those of
    `Selection`. Constants come along; any other tensor that the piece reads from outside becomes an
    input as well. Inputs have the inferred element types and shapes and the tensor's names. Raises
    UsageError for names that are none (E503) and where nothing can be cut out (E507),
    InferenceError where the layers of the piece do not fit together; others need not.
    """
    return cut_out(graph, from_, to, add).graph


def cut_out(
    graph: Graph,
    from_: Sequence[str] = (),
    to: Sequence[str] = (),
    add: Sequence[str] = (),
) -> Piece:
    """Return the piece that `extract` returns, and what its ends are in the whole graph."""
    return _Extraction(with_specs(graph), from_, to, add).piece()


def up_to(graph: Graph, values: Sequence[Value]) -> Piece:
    """Return the piece of an inferred graph that computes some tensors from the model's inputs."""
    cuts = [Value(n.id) for n in graph.parameters]
    region = Cutter(graph, cuts, {n.id for n in graph.nodes()}, set()).region(values)
    return _built(graph, region, cuts, [_Output(v, None) for v in values], asked=False)


def with_specs(graph: Graph) -> Graph:
    """Return the graph with specs; what does not fit together keeps its declared ones."""
    if all(n.specs is not None for n in graph.nodes()):
        return graph
    whole = graph.copy()
    infer_specs(whole)
    return whole


class _Extraction:
    """One cut: `cuts` are the tensors that --from names, `inside` is what lies behind them."""

    def __init__(
        self, graph: Graph, from_: Sequence[str], to: Sequence[str], add: Sequence[str]
    ) -> None:
        self.graph, self.from_, self.to = graph, from_, to
        self.wanted = [*(("--to", t) for t in to), *(("--add-output", t) for t in add)]
        found, selection = Collector(), Selection(graph)
        self.begins = selection.collect((("--from", t) for t in from_), found)
        self.ends = selection.collect(self.wanted, found)
        if found.errors:
            raise UsageError(found.diagnostics)
        self.constants = constant_layers(graph)
        self.problems = Collector()
        self.cuts: dict[Value, None] = {}
        self.named: list[list[Value]] = []
        self.inside = self._begin()

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
        data = [v for v in dict.fromkeys(inputs) if not self._belongs(v)]
        if place.side == "layer" and data:
            return data, {place.node}
        # No data flow into a constant or an input: it is cut behind, as a tensor is.
        ports = range(self.graph.node(place.node).outputs)
        values = [Value(place.node, p) for p in ports]
        if place.side == "output":
            values = [Value(place.node, place.port)]
        return values, {user for v in values for user, _ in self.graph.users(v)}

    def _belongs(self, value: Value) -> bool:
        """Whether no data flow in: a constant, what follows from shapes, a variable."""
        if value.node in self.constants or self.graph.spec(value).known is not None:
            return True
        node = self.graph.node(value.node)
        return node.type == "ReadValue" and variable(node) is not None

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
        return _built(self.graph, region, list(self.cuts), outputs, asked=bool(self.from_))

    def _sources(self, nodes: Sequence[int]) -> list[Value]:
        return [v for i in nodes for v in self.graph.inputs_of(i)]

    def _outputs(self) -> list[_Output]:
        results = {self.graph.inputs_of(r.id)[0]: r.id for r in reversed(self.graph.results)}
        made: dict[tuple[Value, int | None], _Output] = {}
        if not self.to:
            ends = [(v, r.id) for r in self.graph.results for v in self._sources([r.id])]
            found = [(v, r) for v, r in ends if v.node in self.inside]
            if not found and not self.wanted:
                self._refuse_end(bool(ends))
            made = {(v, r): _Output(v, r, "model") for v, r in found}
        for (option, text), place in zip(self.wanted, self.ends, strict=True):
            for value in self._ending(place, f"{option} {text}"):
                is_result = self.graph.node(place.node).type == "Result"
                result = place.node if is_result else results.get(value)
                made.setdefault((value, result), _Output(value, result))
        return list(made.values())

    def _ending(self, place: Place, text: str) -> list[Value]:
        """Return the tensors that an option names, after reporting what is wrong with it."""
        node, inputs = self.graph.node(place.node), self.graph.inputs_of(place.node)
        if place.side == "input" or node.type == "Result":
            values = [inputs[place.port]]
        elif place.side == "output":
            values = [Value(node.id, place.port)]
        else:
            values = [Value(node.id, p) for p in range(node.outputs)]
        if not values:
            self.problems.add("E507", f'{text}: {node.type} "{node.name}" has no outputs')
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
            f"{text} is not computed from {self._listed()}",
            hint="it lies in front of it: --from and --to may be the wrong way round"
            if turned
            else "name where the piece begins on the way to it with one more --from",
        )

    def _refuse_end(self, any_results: bool) -> None:
        message = f"no output of the model is computed from {self._listed()}"
        hint = "name where the piece ends with --to"
        self.problems.add("E507", message if any_results else "the model has no outputs", hint=hint)

    def _listed(self) -> str:
        return ", ".join(f"--from {text}" for text in self.from_)

    def _check_use(self, region: Region, outputs: Sequence[_Output]) -> None:
        """Report what --from names in vain, inputs of unknown type, and an empty piece."""
        if self.problems.errors:
            return
        if outputs and not region.layers - self.constants and self.from_:
            ends = ", ".join(map(" ".join, self.wanted)) or "the model's outputs"
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


def _built(
    graph: Graph, region: Region, cuts: Sequence[Value], outputs: Sequence[_Output], *, asked: bool
) -> Piece:
    """Build the piece: inputs in the order of `cuts`, then of the layers."""
    order = {n.id: k for k, n in enumerate(graph.reading_order())}
    inputs = [v for v in dict.fromkeys(cuts) if v in region.inputs]
    more = region.inputs.difference(inputs)
    inputs += sorted(more, key=lambda v: (order[v.node], v.port))
    piece = assemble(graph, region, inputs, [(o.value, o.result) for o in outputs], order)
    begins = []
    for name, value in zip(piece.inputs, inputs, strict=True):
        is_input = graph.node(value.node).type == "Parameter"
        why: Literal["asked", "needed", "model"] = "model" if is_input else "needed"
        begins.append(PieceEnd(name, value, "asked" if asked and value not in more else why))
    ends = [PieceEnd(name, o.value, o.why) for name, o in zip(piece.outputs, outputs, strict=True)]
    known = [graph.node(v.node).output_key(v.port) for v in sorted(region.known)]
    return Piece(piece, tuple(begins), tuple(ends), tuple(known))
