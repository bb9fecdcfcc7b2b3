"""Variants of a model, and their pieces: some layers, with the tensors they read as inputs.

A variant is a graph, or those of both sides, and the values of its inputs. Both sides of a
comparison are cut at the same places. Layers are matched by name; a layer that only one side has
belongs to the matched layers that read it. Values are computed lazily.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import count, misused
from irdeconv.base.json_form import NamedLayer
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Graph, Node, Value, unique, upstream
from irdeconv.ir.op import Op, as_tuple
from irdeconv.ir.spec import Array, Interval, Spec
from irdeconv.kernels.machine import one_blas_thread
from irdeconv.ops.basic import Const, Opaque, Parameter, Result
from irdeconv.rewrite.infer_specs import infer_specs, inferred
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.verify.partner import matched

PASSIVE = ("Parameter", "Const", "Result")  # no layers of their own
KEPT_BYTES = 1 << 29
Edit = Callable[[Node], Op | None]


class ModelSize(NamedTuple):
    """How large a model is: its layers (constants, inputs and outputs are none), constants."""

    layers: int  # number of layers
    constant_bytes: int  # of all constants


@dataclass(frozen=True)
class Variant:
    """Inferred graphs with the same inputs and outputs in the same order; the first one counts.

    `feeds` has an array per input, by the name of its Parameter in the first graph.
    """

    graphs: tuple[Graph, ...]
    feeds: dict[str, Array]
    editable = True  # whether there may be variants with other layers and numbers

    def __repr__(self) -> str:
        return f"Variant({', '.join(map(repr, self.graphs))})"

    @property
    def graph(self) -> Graph:
        """The first graph."""
        return self.graphs[0]

    @property
    def imported(self) -> Variant:
        """The variant that irdeconv executes."""
        return self

    @property
    def subject(self) -> Any:
        """The model for a function that checks it."""
        return self.graph.copy()

    def flow(self) -> Flow:
        """Return the values of the first graph's tensors."""
        return Flow(self.graph, self.feeds)

    @property
    def layers(self) -> list[Node]:
        """The layers of the first graph, producers first; constants, inputs, outputs are none."""
        return [n for n in self.graph.topological() if n.type not in PASSIVE]

    @property
    def listed(self) -> list[NamedLayer]:
        """Its layers: names and types."""
        return [{"name": n.name, "type": n.type} for n in self.layers]

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the inputs by the names under which other runtimes know them as well."""
        names = zip(self.graph.inputs, self.graph.parameters, strict=True)
        return {name: self.feeds[node.name] for name, node in names}

    @property
    def size(self) -> ModelSize:
        """How large the first graph is."""
        constants = sum(n.spec().nbytes or 0 for n in self.graph.nodes("Const"))
        return ModelSize(len(self.layers), constants)

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
class Flow:
    """The values of an inferred graph on given inputs.

    Values that cannot be computed (operations without an evaluator, layers that fail) are random,
    the same in every run; `guessed` has these nodes, and those that read from them.
    """

    graph: Graph
    feeds: dict[str, Array]
    guessed: set[int] = field(default_factory=set)
    _known: dict[Value, Array] = field(default_factory=dict)
    _bytes: int = 0

    def arrays(self, wanted: Iterable[Value]) -> dict[Value, Array | None]:
        """Return values, None if not even a shape is known."""
        wanted = list(wanted)
        missing = {v for v in wanted if v not in self._known}
        found = self._compute(missing) if missing else {}
        return {v: self._known.get(v, found.get(v)) for v in wanted}

    def replace(self, value: Value, array: Array) -> None:
        """Let a value be another one than the graph computes."""
        self._known[value] = array
        self.guessed.discard(value.node)

    def _compute(self, wanted: set[Value]) -> dict[Value, Array]:
        needed = upstream(self.graph, (v.node for v in wanted), lambda v: v not in self._known)
        order = [n for n in self.graph.topological() if n.id in needed]
        left = Counter(v for n in order for v in self.graph.inputs_of(n.id))
        live: dict[Value, Array] = {}
        with progress.stage("computing what flows into the piece", len(order)) as step:
            for node in order:
                step(detail=node.name)
                inputs = self.graph.inputs_of(node.id)
                arrays = [self._known.get(v, live.get(v)) for v in inputs]
                if any(v.node in self.guessed for v in inputs):
                    self.guessed.add(node.id)
                for port, array in enumerate(self._outputs(node, arrays)):
                    live[Value(node.id, port)] = array
                    if self._bytes + array.nbytes <= KEPT_BYTES:
                        self._known[Value(node.id, port)] = array
                        self._bytes += array.nbytes
                for v in inputs:
                    left[v] -= 1
                    if not left[v] and v not in wanted:
                        live.pop(v, None)
        return live

    def _outputs(self, node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
        if node.type == "Parameter":
            return (self.feeds[node.name],)
        try:
            with np.errstate(all="ignore"), one_blas_thread():
                made = node.op.evaluate(*inputs)
            return tuple(np.asarray(y) for y in as_tuple(made))
        except Exception:  # unknown operations, and any error of a broken layer
            self.guessed.add(node.id)
            return tuple(guess(s, node.id, port) for port, s in enumerate(node.specs or ()))


def guess(spec: Spec, *seed: int) -> Array:
    """Return numbers of a spec: reals in [0, 1), others 0; open sizes are the smallest ones."""
    shape = tuple(max(d.lo, 1) if isinstance(d, Interval) else d for d in spec.shape or ())
    dtype = np.dtype(np.float32) if spec.dtype is None else spec.dtype.container
    if spec.dtype is None or spec.dtype.is_real:
        return np.random.default_rng(seed).random(shape).astype(dtype)
    return np.full(shape, "" if dtype.kind == "O" else 0, dtype)


def variant_of(graphs: Sequence[Graph], feeds: Feeds) -> Variant:
    """Return models as a variant: names that are unique, inputs by name, everything inferred.

    The inputs of a second graph take the names of the first one's: the same name, else in order.
    Raises InferenceError if a graph does not fit together, UsageError for other inputs.
    """
    first, *others = (_named(inferred(g)) for g in graphs)
    arrays = Binder.of(inferred(graphs[0])).bind(feeds)
    names = [n.name for n in first.parameters]
    for graph in others:
        _take_names(graph, names)
    return Variant((first, *others), dict(zip(names, arrays, strict=True)))


def _named(graph: Graph) -> Graph:
    """Give every node a unique name in place, inputs first; declarations of sizes go."""
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
    if {n.name for n in mine} != set(names):
        others = [n for n in graph.nodes() if n.type != "Parameter"]
        renamed = unique([*names, *(n.name for n in others)])
        for node, name in zip([*mine, *others], renamed, strict=True):
            node.name = name


Unit = tuple[int, ...]  # a layer: its node in every graph
Port = tuple[Unit, int]  # an output of a unit


@dataclass
class Knife:
    """Cuts pieces out of one variant.

    `units` are its layers, producers first, and with two sides the outputs that no matched layer
    makes. A tensor that is cut off in front becomes an input with its value. Values that follow
    from constants become constants, and so do integers and booleans, because shapes, axes and
    indices depend on them; with `frozen` everything does but the first input. `known` are the
    nodes of the first graph at which it may be cut (None: all).
    """

    base: Variant
    frozen: bool = False
    known: Collection[int] | None = None
    flow: Flow = field(init=False)

    def __post_init__(self) -> None:
        self.flow = self.base.flow()

    @cached_property
    def units(self) -> list[Unit]:
        """The layers that pieces are made of, in the first graph's order."""
        graphs = self.base.graphs
        pairs = matched(*graphs) if len(graphs) > 1 else {}
        order = [n.id for n in self.base.layers if len(graphs) == 1 or n.id in pairs]
        inner = [
            (i, pairs[i]) if pairs else (i,) for i in order if self.known is None or i in self.known
        ]
        ends = zip(*(g.results for g in graphs), strict=False)
        return [*inner, *(tuple(n.id for n in e) for e in ends if not self._made(e, set(inner)))]

    def _made(self, results: tuple[Node, ...], units: set[Unit]) -> bool:
        """Whether an output is that of one unit on all sides, or an input or constant."""
        pairs = zip(self.base.graphs, results, strict=True)
        sources = [g.inputs_of(r.id)[0] for g, r in pairs]
        types = {self.base.graph.node(sources[0].node).type}
        same_port = len({s.port for s in sources}) == 1
        return bool(types & set(PASSIVE)) or (same_port and tuple(s.node for s in sources) in units)

    def named(self, names: Collection[str]) -> list[Unit]:
        """Return the units of these names."""
        return [u for u in self.units if self.base.graph.node(u[0]).name in names]

    def piece(self, kept: Sequence[Unit], outputs: Sequence[Port] | None = None) -> Variant | None:
        """Return the kept units and the sources of their inputs; None if they do not fit."""
        graphs, chosen = self.base.graphs, set(kept)
        sides = [_Side(graph, i, self.units, chosen) for i, graph in enumerate(graphs)]
        wanted = list(outputs) if outputs is not None else self.ends(kept)
        cuts = sorted({port for side in sides for port in side.cuts})
        inputs = self._inputs(cuts, {name for side in sides for name in side.given})
        if inputs is None or not wanted:
            return None
        built = [s.build(inputs, wanted, o) for s, o in zip(sides, self._orders, strict=True)]
        fitting = tuple(g for g in built if g is not None and is_valid(g))
        same = len(fitting) == len(graphs)
        return replace(self.base, graphs=fitting, feeds=inputs.feeds) if same else None

    def borders(self, kept: Sequence[Unit]) -> list[Value]:
        """Return the tensors of the first graph at which a piece is cut off in front."""
        graphs = enumerate(self.base.graphs)
        cuts = {cut for i, g in graphs for cut in _Side(g, i, self.units, set(kept)).cuts}
        return sorted(Value(unit[0], port) for unit, port in cuts)

    def ends(self, kept: Sequence[Unit]) -> list[Port]:
        """Return the outputs of the kept units that something else reads, or nothing at all."""
        graph, ids = self.base.graph, {u[0] for u in kept}
        out = []
        for unit in kept:
            node = graph.node(unit[0])
            if node.type == "Result":
                out.append((unit, 0))
                continue
            readers = [graph.users(Value(node.id, p)) for p in range(node.outputs)]
            ports = [p for p, users in enumerate(readers) if any(n not in ids for n, _ in users)]
            out += [(unit, p) for p in (ports if any(readers) else range(node.outputs))]
        return out

    def _inputs(self, cuts: list[Port], given: set[str]) -> _Inputs | None:
        """Return the inputs of a piece; None if nothing is known of a value."""
        kept = [n for n in self.base.graph.parameters if n.name in given]
        out = _Inputs(kept, {n.name: self.base.feeds[n.name] for n in kept})
        arrays = self.flow.arrays(Value(unit[0], port) for unit, port in cuts)
        for cut, (value, array) in zip(cuts, arrays.items(), strict=True):
            spec, node = self.base.graph.spec(value), self.base.graph.node(value.node)
            if array is None or spec.dtype is None:
                return None
            name = node.output_key(value.port)
            fixed = value.node in self._fixed or not spec.dtype.is_real
            fixed = fixed or (self.frozen and bool(out.feeds))
            if fixed and value.node not in self.flow.guessed:
                data = ArrayData.of(array, spec.dtype)
                op: Op = Const(element_type=spec.dtype, shape=array.shape, data=data)
            else:
                shape = array.shape if spec.shape is None else spec.shape
                op = Parameter(shape=shape, element_type=spec.dtype)
                out.feeds[name] = array
            names = node.names_of(value.port) or (() if name in self._tensors else (name,))
            out.cuts[cut] = Node(0, op, name, tensor_names=(names,) if names else ())
        return out

    @cached_property
    def _orders(self) -> list[list[Node]]:
        """The nodes of every graph, producers first."""
        return [graph.topological() for graph in self.base.graphs]

    @cached_property
    def _tensors(self) -> set[str]:
        """The names of all tensors of the first graph."""
        ports = (names for n in self.base.graph.nodes() for names in n.tensor_names)
        return {name for names in ports for name in names}

    @cached_property
    def _fixed(self) -> set[int]:
        """The nodes whose values follow from constants, or from shapes that are exact."""
        graph, fixed = self.base.graph, set()
        for node in graph.topological():
            inputs = graph.inputs_of(node.id)
            known = bool(node.specs) and all(s.known is not None for s in node.specs or ())
            made = bool(inputs) and all(v.node in fixed for v in inputs)
            if node.type == "Const" or ((known or made) and node.op.pure):
                fixed.add(node.id)
        return fixed


@dataclass(frozen=True)
class _Inputs:
    """The front of a piece: inputs of the model, and replacements of values cut off."""

    kept: list[Node]
    feeds: dict[str, Array]
    cuts: dict[Port, Node] = field(default_factory=dict)


class _Side:
    """One graph under the knife: the nodes of a piece, and its beginning."""

    def __init__(self, graph: Graph, number: int, units: list[Unit], kept: set[Unit]) -> None:
        self.graph = graph
        self.number = number
        borders = {u[number]: u for u in units if u not in kept}

        def inside(value: Value) -> bool:
            return value.node not in borders and graph.node(value.node).type != "Parameter"

        self.nodes = upstream(graph, (u[number] for u in kept), inside)
        read = {v for i in self.nodes for v in graph.inputs_of(i)}
        self.cuts = {(borders[v.node], v.port) for v in read if v.node in borders}
        producers = (graph.node(v.node) for v in read)
        self.given = {n.name for n in producers if n.type == "Parameter"}

    def build(self, inputs: _Inputs, outputs: list[Port], order: list[Node]) -> Graph | None:
        """Return the piece in the whole's `order`, inputs first; None without its outputs."""
        out = Graph(replace(self.graph.info, file=None))
        values: dict[Value, Value] = {}
        mine = {n.name: n.id for n in self.graph.parameters}
        for node in inputs.kept:
            values[Value(mine[node.name])] = Value(_add(out, node, ()).id)
        for type in ("Parameter", "Const"):
            for (unit, port), node in inputs.cuts.items():
                if node.type == type:
                    values[Value(unit[self.number], port)] = Value(_add(out, node, ()).id)
        ends = (unit[self.number] for unit, _ in outputs)
        needed = upstream(self.graph, ends, lambda v: v.node in self.nodes)
        for node in (n for n in order if n.id in needed and n.type != "Result"):
            new = _add(out, node, [values[v] for v in self.graph.inputs_of(node.id)])
            for port in range(max(node.outputs, 1)):
                values[Value(node.id, port)] = Value(new.id, port)
        for unit, port in outputs:
            if not self._add_result(out, values, Value(unit[self.number], port)):
                return None
        return out

    def _add_result(self, out: Graph, values: dict[Value, Value], value: Value) -> bool:
        node = self.graph.node(value.node)
        if node.type == "Result":
            value = self.graph.inputs_of(node.id)[0]
        if value not in values:
            return False
        node = self.graph.node(value.node)
        readers = (self.graph.node(i) for i, _ in self.graph.users(value))
        old = next((n for n in readers if n.type == "Result"), None)
        if old is not None:
            _add(out, old, [values[value]])
        else:
            out.add(Result(), [values[value]], name=f"{node.name}/sink_port_{value.port}")
        return True


def _add(graph: Graph, node: Node, inputs: Sequence[Value]) -> Node:
    """Add a copy of a node of another graph, without the file's declarations."""
    new = graph.add(node.op, inputs, name=node.name, origins=node.origins)
    new.tensor_names = node.tensor_names if any(node.tensor_names) else ()
    new.rt_info, new.extra, new.port_rt_info = node.rt_info, node.extra, node.port_rt_info
    return new
