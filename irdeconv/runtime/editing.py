"""Rename layers and tensors; cut a piece out of a graph, from some layers or tensors to others.

The piece has new inputs and outputs around copies of the layers. Values of its inputs come from a
run of the whole graph, or from saved arrays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal, NamedTuple

from irdeconv.base.errors import Collector, UsageError, did_you_mean, first_names
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import FreshNames, Graph, Node, Value, reached
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops.basic import Const, Opaque, Parameter, ReadValue6, Result
from irdeconv.rewrite.infer_specs import infer_specs, require_specs
from irdeconv.runtime.feeds import Binder
from irdeconv.runtime.plan import build_plan
from irdeconv.runtime.program import variable
from irdeconv.runtime.schedule import Settings
from irdeconv.runtime.selection import Place, Selection, values_at

Kind = Literal["layer", "tensor"]
KINDS: tuple[Kind, Kind] = ("layer", "tensor")


@dataclass(frozen=True)
class Renaming:
    """One name that has become another."""

    kind: Annotated[Kind, str]  # layer, tensor, input or output
    old: str  # before
    new: str  # after


@dataclass(frozen=True)
class Substitution:
    """A regular expression, and the replacement of its matches: of the first or of all."""

    pattern: re.Pattern[str]
    replacement: str
    everywhere: bool = False

    def __call__(self, name: str) -> str:
        """Return the name after the substitution."""
        return self.pattern.sub(self.replacement, name, count=0 if self.everywhere else 1)


@dataclass(frozen=True)
class Renamed:
    """The graph with other names, and the changes: each name once."""

    graph: Graph
    changes: tuple[Renaming, ...]

    @property
    def new_names(self) -> list[dict[str, str]]:
        """The new names by the old ones, of layers and of tensors."""
        return [{c.old: c.new for c in self.changes if c.kind == kind} for kind in KINDS]


_NewNames = dict[Kind, dict[str, str]]  # the new names by the old ones, of layers and of tensors


def rename(
    graph: Graph,
    names: Mapping[str, str] | None = None,
    substitutions: Iterable[Substitution] = (),
    kinds: Iterable[Kind] = KINDS,
) -> Renamed:
    """Return a copy with other names, given as to `irdeconv.rename`, and the changes.

    `substitutions` apply in turn to all names of `kinds` that are not in `names`. Layers and
    tensors in bodies keep their names. Raises UsageError for unknown old names and substitutions
    without effect (E503), and for new names that are empty or not unique (E508).
    """
    out, problems = graph.copy(), Collector(most=20)
    counts = {kind: _counted(out, kind, {}) for kind in KINDS}
    new_names = _exact(names or {}, counts, problems)
    now = {(kind, old): old for kind in kinds for old in counts[kind]}
    for substitution in substitutions:
        after = {key: substitution(name) for key, name in now.items()}
        if after == now:
            message = f'--pattern "{substitution.pattern.pattern}" changes no name'
            problems.add("E503", message, hint="inspect lists the names of all layers")
        now = after
    for (kind, old), new in now.items():
        if new != old:
            new_names[kind].setdefault(old, new)
    _check(out, counts, new_names, problems)
    problems.count_rest()
    problems.require_none(UsageError)
    for node in out.nodes():
        _apply(node, new_names)
    changes = [Renaming(k, old, new) for k in KINDS for old, new in new_names[k].items()]
    return Renamed(out, tuple(changes))


def _counted(graph: Graph, kind: Kind, names: Mapping[str, str]) -> Counter[str]:
    """Return the names of layers or tensors after renaming, with how many of them have each."""
    if kind == "layer":  # the ends and initializers of an ONNX model are only tensors
        ops = ((n, n.op) for n in graph.nodes())
        own = (n for n, op in ops if not isinstance(op, Opaque) or op.declares or op.data)
        return Counter(names.get(n.name, n.name) for n in own)
    ports = (port for node in graph.nodes() for port in node.tensor_names)
    return Counter(name for port in ports for name in {names.get(t, t) for t in port})


def _exact(
    names: Mapping[str, str], known: Mapping[Kind, Counter[str]], problems: Collector
) -> _NewNames:
    out: _NewNames = {kind: {} for kind in KINDS}
    for text, new in names.items():
        kinds = [kind for kind in KINDS if text in known[kind]]
        old = text
        if not kinds:
            prefix, _, old = text.partition(":")
            kinds = [kind for kind in KINDS if kind == prefix and old in known[kind]]
        for kind in kinds:
            if new != old:
                out[kind][old] = new
        if not kinds:
            every = [*known["layer"], *known["tensor"]]
            message = f'the model has no layer or tensor "{text}"'
            near = did_you_mean(old if prefix in KINDS else text, every)
            problems.add("E503", message, hint=near)
    return out


def _check(
    graph: Graph, known: Mapping[Kind, Counter[str]], found: _NewNames, problems: Collector
) -> None:
    """Report new names that are empty, have control characters, or make unlike names alike."""
    for kind in KINDS:
        names = found[kind]
        times = _counted(graph, kind, names)
        before: dict[str, list[str]] = {}  # the old names by the new one
        for old in known[kind]:
            before.setdefault(names.get(old, old), []).append(old)
        for new in dict.fromkeys(names.values()):
            olds = first_names(before[new])
            if not isinstance(new, str) or not new or not new.isprintable():
                problems.add("E508", f"{kind} {olds}: {new!a} is no name")
            elif times[new] > max(known[kind][old] for old in before[new]):
                problems.add("E508", f'{times[new]} {kind}s would be called "{new}": {olds}')


def _apply(node: Node, found: _NewNames) -> None:
    node.name, tensors = found["layer"].get(node.name, node.name), found["tensor"]
    if tensors:
        node.tensor_names = tuple(
            tuple(dict.fromkeys(tensors.get(t, t) for t in names)) for names in node.tensor_names
        )
        node.extra = tuple(
            (key, tensors.get(text, text) if key == "output_names" else text)
            for key, text in node.extra
        )


def feeds_result(graph: Graph, node: Node) -> bool:
    """Whether an output of the model is an output of the node."""
    return any(graph.node(i).type == "Result" for i in graph.successors(node.id))


def may_stand_for(graph: Graph, old: Node, new: Value) -> bool:
    """Whether a tensor may replace a node's output: outputs of the model stay apart."""
    if not feeds_result(graph, old):
        return True
    producer = graph.node(new.node)
    free = producer.type != "Parameter" and not feeds_result(graph, producer)
    return free and not producer.names_of(new.port)


def give_names(graph: Graph, old: Value, new: Value) -> None:
    """Let a tensor answer to another one's names as well, unless programs ask for it by its own."""
    more, producer = graph.node(old.node).names_of(old.port), graph.node(new.node)
    named_end = bool(producer.names_of(new.port)) and feeds_result(graph, producer)
    if more and producer.type != "Parameter" and not named_end:
        producer.add_names(new.port, more)


@dataclass
class Region:
    """The result of a walk back from the outputs of a piece.

    `layers` belong to the piece, `inputs` are tensors that flow in, `known` tensors from outside
    whose values follow from shapes alone, `states` the ReadValue and Assign of variables that the
    piece keeps.
    """

    layers: set[int] = field(default_factory=set)
    inputs: set[Value] = field(default_factory=set)
    known: set[Value] = field(default_factory=set)
    states: set[int] = field(default_factory=set)


def constant_layers(graph: Graph) -> set[int]:
    """Return the ids of the constants and of the layers that only constants flow into."""
    found: set[int] = set()
    for node in graph.topological():
        inputs = graph.inputs_of(node.id)
        fed = bool(inputs) and all(v.node in found for v in inputs)
        if node.type == "Const" or (fed and variable(node) is None and node.type != "Result"):
            found.add(node.id)
    return found


class Cutter:
    """Walks back from outputs, up to `cuts` and to the layers that are not in `inside`.

    Constants come along whole. A variable stays one if the piece both reads it and computes its
    new value; otherwise the output of ReadValue flows in.
    """

    def __init__(
        self, graph: Graph, cuts: Collection[Value], inside: set[int], constants: set[int]
    ) -> None:
        self._graph, self._cuts, self._inside, self._constants = graph, cuts, inside, constants
        self._assigns = {
            name: n.id for n in graph.nodes("Assign") if (name := variable(n)) is not None
        }

    def region(self, outputs: Iterable[Value]) -> Region:
        """Return the piece that ends in `outputs`."""
        region, read = Region(), set[Value]()
        self._walk(outputs, region, read)
        settled = False
        while not settled:
            settled = True
            for value in sorted(read):
                assign = self._assigns[variable(self._graph.node(value.node)) or ""]
                source = self._graph.inputs_of(assign)[0]
                if source.node in region.layers or source in self._cuts:
                    read.remove(value)
                    region.states |= {value.node, assign}
                    region.layers |= {value.node, assign}
                    self._walk([source, *self._graph.inputs_of(value.node)], region, read)
                    settled = False
        region.inputs |= read
        return region

    def _walk(self, values: Iterable[Value], region: Region, read: set[Value]) -> None:
        stack = list(values)
        while stack:
            value = stack.pop()
            node = self._graph.node(value.node)
            if value in self._cuts:
                region.inputs.add(value)
            elif node.id in region.layers:
                continue
            elif variable(node) in self._assigns and node.type == "ReadValue":
                read.add(value)
            elif node.id in self._inside or node.id in self._constants:
                region.layers.add(node.id)
                stack += self._graph.inputs_of(node.id)
            elif self._graph.spec(value).known is not None:
                region.known.add(value)
            else:
                region.inputs.add(value)


_OF_THE_GRAPH = ("id", "op", "name")


def adopt(graph: Graph, node: Node, inputs: Sequence[Value]) -> Node:
    """Add a copy of another graph's node, with all that belongs to it but its id."""
    made = graph.add(node.op, inputs, name=node.name)
    for entry in fields(Node):
        if entry.name not in _OF_THE_GRAPH:
            setattr(made, entry.name, getattr(node, entry.name))
    return made


def assemble(
    whole: Graph,
    region: Region,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[Value, int | None]],
    order: Mapping[int, int],
) -> Graph:
    """Return the graph of a region of an inferred graph.

    `inputs` and `outputs` are in their order; an output may keep a Result of the whole graph.
    `order` is that of the layers. Raises InferenceError if they do not fit together.
    """
    piece = _Assembly(whole, region)
    for value in inputs:
        piece.input(value)
    for value in sorted(region.known):
        piece.known(value)
    for i in sorted(region.layers, key=order.__getitem__):
        piece.layer(i, set(inputs))
    for value, result in outputs:
        piece.output(value, result)
    require_specs(piece.graph)
    piece.graph.lint()
    return piece.graph


class _Assembly:
    def __init__(self, whole: Graph, region: Region) -> None:
        self.whole = whole
        self.graph = Graph(replace(whole.info))
        self.made: dict[Value, Value] = {}
        kept = [whole.node(i) for i in region.layers]
        self.names = FreshNames({n.name for n in kept})
        self.tensors = {t for n in kept for port in n.tensor_names for t in port}

    def input(self, value: Value) -> None:
        """Add an input of the whole graph, or a new one for a tensor."""
        producer = self.whole.node(value.node)
        if producer.type == "Parameter":
            made = adopt(self.graph, producer, ())
            self.names.taken.add(made.name)
        else:
            spec = self.whole.spec(value)
            assert spec.dtype is not None
            made = self._stand_in(value, Parameter(spec.shape, spec.dtype))
        self.made[value] = Value(made.id)

    def known(self, value: Value) -> None:
        """Add the constant that a tensor from outside is known to be."""
        spec = self.whole.spec(value)
        array, dtype = spec.known, spec.dtype
        assert array is not None
        assert dtype is not None
        op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
        self.made[value] = Value(self._stand_in(value, op).id)

    def _stand_in(self, value: Value, op: Op) -> Node:
        """Add a node in place of a tensor from outside, with its names and its location."""
        producer = self.whole.node(value.node)
        made = self.graph.add(op, name=self.names.fresh(producer.output_key(value.port)))
        made.location, made.origins = producer.location, producer.origins
        made.tensor_names = (self._tensor_names(producer, value.port),)
        return made

    def layer(self, node: int, cut: set[Value]) -> None:
        """Add a layer; a tensor of it that flows in from outside leaves its names to the input."""
        old = self.whole.node(node)
        new = adopt(self.graph, old, [self.made[v] for v in self.whole.inputs_of(node)])
        new.tensor_names = tuple(
            () if Value(node, port) in cut else names for port, names in enumerate(old.tensor_names)
        )
        for port in range(old.outputs):
            self.made.setdefault(Value(node, port), Value(new.id, port))

    def output(self, value: Value, result: int | None) -> None:
        """Add a Result, the one of the whole graph or a new one."""
        source, producer = self.made[value], self.whole.node(value.node)
        if result is not None:
            adopt(self.graph, self.whole.node(result), [source])
            return
        end = self.graph.node(source.node)
        if not end.names_of(source.port):
            end.add_names(source.port, self._tensor_names(producer, value.port))
        name = self.names.fresh(f"{producer.name}/sink_port_{value.port}")
        self.graph.add(Result(), [source], name=name)

    def _tensor_names(self, producer: Node, port: int) -> tuple[str, ...]:
        """Return a tensor's names; one that has none is called after its layer."""
        names = producer.names_of(port)
        if not names and producer.output_key(port) not in self.tensors:
            names = (producer.output_key(port),)
        self.tensors |= set(names)
        return names


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
    """A piece of a graph as a graph of its own, with the counterparts of its ends in the whole.

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


def cut_out(
    graph: Graph, from_: Sequence[str] = (), to: Sequence[str] = (), add: Sequence[str] = ()
) -> Piece:
    """Return the piece of a graph as `irdeconv.extract` does; names are written as for `Selection`.

    Raises UsageError for unknown names (E503) and if nothing can be cut out (E507), InferenceError
    if the layers of the piece do not fit together; others need not.
    """
    return _Extraction(with_specs(graph), from_, to, add).piece()


def with_specs(graph: Graph) -> Graph:
    """Return the graph with specs; a layer that does not fit keeps its declared ones."""
    if all(n.specs is not None for n in graph.nodes()):
        return graph
    whole = graph.copy()
    infer_specs(whole)
    return whole


class _Extraction:
    """One cut: `cuts` are the tensors that --from names, `inside` the layers behind them."""

    def __init__(
        self, graph: Graph, from_: Sequence[str], to: Sequence[str], add: Sequence[str]
    ) -> None:
        self.graph, self.from_, self.to = graph, from_, to
        self.wanted = [*(("--to", t) for t in to), *(("--add-output", t) for t in add)]
        found, selection = Collector(), Selection(graph)
        self.begins = selection.collect((("--from", t) for t in from_), found)
        self.ends = selection.collect(self.wanted, found)
        found.require_none(UsageError)
        self.constants = constant_layers(graph)
        self.problems = Collector()
        self.cuts: dict[Value, None] = {}
        self.named: list[list[Value]] = []
        self.inside = self._begin()

    def _begin(self) -> set[int]:
        """Find the tensors at which the piece begins; return the layers behind them."""
        if not self.from_:
            self.cuts = {Value(n.id): None for n in self.graph.parameters}
            return {n.id for n in self.graph.nodes()}
        seeds: set[int] = set()
        for place in self.begins:
            values, first = self._cut(place)
            self.named.append(values)
            self.cuts |= dict.fromkeys(values)
            seeds |= first
        return reached(seeds, self.graph.successors)

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
        """Whether no data flow in: a constant, a value that follows from shapes, a variable."""
        if value.node in self.constants or self.graph.spec(value).known is not None:
            return True
        node = self.graph.node(value.node)
        return node.type == "ReadValue" and variable(node) is not None

    def piece(self) -> Piece:
        """Walk, check the options, and build the piece."""
        cutter = Cutter(self.graph, self.cuts, self.inside, self.constants)
        outputs = self._outputs()
        values = [o.value for o in outputs]
        if not self.to:
            # Leave out layers that only a variable outside the piece needs.
            assigned = [i for i in self.inside if self.graph.node(i).type == "Assign"]
            kept = cutter.region([*values, *self._sources(assigned)]).states
            values += self._sources(sorted(kept & set(assigned)))
        region = cutter.region(values)
        self._check_use(region, outputs)
        self.problems.require_none(UsageError)
        return _built(self.graph, region, list(self.cuts), outputs, asked=bool(self.from_))

    def _sources(self, nodes: Sequence[int]) -> list[Value]:
        return [v for i in nodes for v in self.graph.inputs_of(i)]

    def _outputs(self) -> list[_Output]:
        results = {self.graph.inputs_of(r.id)[0]: r.id for r in reversed(self.graph.results)}
        outputs: dict[tuple[Value, int | None], _Output] = {}
        if not self.to:
            ends = [(v, r.id) for r in self.graph.results for v in self._sources([r.id])]
            found = [(v, r) for v, r in ends if v.node in self.inside]
            if not found and not self.wanted:
                message = f"no output of the model is computed from {self._listed()}"
                message = message if ends else "the model has no outputs"
                self.problems.add("E507", message, hint="name where the piece ends with --to")
            outputs = {(v, r): _Output(v, r, "model") for v, r in found}
        for (option, text), place in zip(self.wanted, self.ends, strict=True):
            for value in self._ending(place, f'{option} "{text}"'):
                is_result = self.graph.node(place.node).type == "Result"
                result = place.node if is_result else results.get(value)
                outputs.setdefault((value, result), _Output(value, result))
        return list(outputs.values())

    def _ending(self, place: Place, text: str) -> list[Value]:
        """Return the tensors that an option names, after reporting its errors."""
        values = values_at(self.graph, place)
        if not values:
            label = self.graph.node(place.node).label
            self.problems.add("E507", f"{text}: {label} has no outputs")
        for value in values:
            if value in self.cuts or value.node in self.inside or value.node in self.constants:
                continue
            front = reached([value.node], self.graph.successors)
            hint = "name where the piece begins on the way to it with one more --from"
            if any(v.node in front for v in self.cuts):
                hint = "it lies in front of it: --from and --to may be the wrong way round"
            self.problems.add("E507", f"{text} is not computed from {self._listed()}", hint=hint)
            break
        return values

    def _listed(self) -> str:
        return ", ".join(f'--from "{text}"' for text in self.from_)

    def _check_use(self, region: Region, outputs: Sequence[_Output]) -> None:
        """Report --from options without effect, inputs of unknown type, and an empty piece."""
        if self.problems.errors:
            return
        if outputs and not region.layers - self.constants and self.from_:
            ends = ", ".join(f'{o} "{t}"' for o, t in self.wanted) or "the model's outputs"
            self.problems.add("E507", f"there is no layer between {self._listed()} and {ends}")
            return
        for text, values in zip(self.from_, self.named, strict=True):
            if not region.inputs & set(values):
                self.problems.add(
                    "E507",
                    f'--from "{text}": nothing of the piece reads it',
                    hint="what is asked for with --to does not need it, or another --from cuts it "
                    "off",
                )
        for node in map(self.graph.node, sorted(region.layers - region.states)):
            if node.type == "Assign" and (name := variable(node)) is not None:
                text = f'the piece would write the variable "{name}", which it does not read'
                hint = f"begin in front of its ReadValue, or end in front of {node.label}"
                self.problems.add_at(node, "E507", text, hint=hint)
        for value in sorted(region.inputs):
            node = self.graph.node(value.node)
            if self.graph.spec(value).dtype is None and node.type != "Parameter":
                output = f"output {value.port} of {node.label}, whose element type is unknown"
                hint = "cut elsewhere, or declare the element type of its port"
                text = f"the piece would begin at {output}"
                self.problems.add_at(node, "E507", text, hint=hint)


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


Execute = Callable[[Graph, Mapping[str, Array]], Iterable[Array]]


def node_by_node(graph: Graph, inputs: Mapping[str, Array]) -> Iterable[Array]:
    """Execute a graph node by node, without lowering; returns its outputs in order."""
    return build_plan(graph, settings=Settings(fuse=False)).run(inputs).values()


def record(
    whole: Graph, piece: Piece, inputs: Mapping[str, Array], execute: Execute = node_by_node
) -> dict[str, Array]:
    """Run a graph up to a piece of it; return the piece's inputs by name.

    `inputs` names the inputs of the whole, or those among them that the piece depends on. `execute`
    runs a graph; of a variable it gets the value before the first inference. Raises UsageError for
    inputs that do not fit, UnsupportedError for layers that cannot be executed.
    """
    head = _head(whole, piece)
    known = {alias: node.id for alias, node in whole.input_names().items()}
    given = {known[name]: array for name, array in inputs.items() if name in known}
    feeds = {e.name: given[e.source.node] for e in head.inputs if e.source.node in given}
    made = execute(head.graph, feeds)
    arrays = dict(zip((e.source for e in head.outputs), made, strict=True))
    return {e.name: arrays[e.source] for e in piece.inputs}


def needed(whole: Graph, piece: Piece) -> list[str]:
    """Return the inputs of the whole that the inputs of a piece depend on."""
    names = dict(zip((n.id for n in whole.parameters), whole.inputs, strict=True))
    return [names[e.source.node] for e in _head(whole, piece).inputs]


def recorded(whole: Graph, piece: Piece, arrays: Mapping[str, Array]) -> dict[str, Array] | None:
    """Take a piece's inputs from arrays by tensor or layer name, as `run --dump` has them; None."""
    found = {}
    for end in piece.inputs:
        node, port = whole.node(end.source.node), end.source.port
        names = [end.name, *node.names_of(port), node.output_key(port)]
        name = next((n for k in names for n in (f"dump/{k}", k) if n in arrays), None)
        if name is None:
            return None
        found[end.name] = arrays[name]
    return dict(zip(found, Binder.of(piece.graph).bind(found), strict=True))


def _head(whole: Graph, piece: Piece) -> Piece:
    """Return the part of the whole that computes the inputs of a piece."""
    graph = with_specs(whole).copy()
    begins = {Value(n.id): _first_value(graph, n) for n in list(graph.nodes("ReadValue"))}
    for read, begin in begins.items():
        graph.replace_uses(read, begin)
    sources = [e.source for e in piece.inputs]
    values, cuts = [begins.get(v, v) for v in sources], [Value(n.id) for n in graph.parameters]
    region = Cutter(graph, cuts, {n.id for n in graph.nodes()}, set()).region(values)
    head = _built(graph, region, cuts, [_Output(v, None) for v in values], asked=False)
    ends = [PieceEnd(e.name, v, e.why) for e, v in zip(head.outputs, sources, strict=True)]
    return Piece(head.graph, head.inputs, tuple(ends))


def _first_value(graph: Graph, node: Node) -> Value:
    """Return the output of a ReadValue before the first Assign: its input, or zeros."""
    inputs = graph.inputs_of(node.id)
    if inputs or not isinstance(node.op, ReadValue6):
        return inputs[0] if inputs else Value(node.id)
    dtype, shape = node.op.variable_type, node.op.variable_shape
    if not is_static(shape):
        return Value(node.id)
    zeros = ArrayData.of(node.op.zeros(), dtype)
    op = Const(element_type=dtype, shape=shape, data=zeros)
    specs = (node.spec(),)
    return Value(graph.add(op, name=f"{node.name}/zeros", specs=specs).id)
