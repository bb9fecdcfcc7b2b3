"""Graphs: nodes by id, the producer of every input port, the users of every node.

Every mutator keeps two invariants: one producer per input port, and dense input ports. `lint`
checks that there are no cycles. Edges are in plain dictionaries, because every walk reads them. For
the algorithms of networkx there is a multigraph; only this module imports it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from irdeconv.base import work
from irdeconv.base.errors import (
    ArgumentTypeError,
    Diagnostic,
    IrdeconvError,
    UnknownKeyError,
    count,
    did_you_mean,
    first_names,
    misused,
)
from irdeconv.base.hints import hinted_attributes, hinted_calls, hinted_names, named
from irdeconv.base.markup import MOST_ROWS, html_table, line, plain, scrolled
from irdeconv.base.source import Location
from irdeconv.ir.op import TYPES, Op
from irdeconv.ir.spec import Spec

if TYPE_CHECKING:
    import networkx as nx


X = TypeVar("X")


def producers_first(waits: list[set[int]]) -> list[int]:
    """Return numbers after those that they wait for, else in order; circles are left out."""
    if all(w < number for number, ws in enumerate(waits) for w in ws):
        return list(range(len(waits)))
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for number, ws in enumerate(waits):
        for w in ws:
            readers[w].append(number)
    left = [len(ws) for ws in waits]
    ready = [number for number, count in enumerate(left) if not count]
    out = []
    while ready:
        number = heapq.heappop(ready)
        out.append(number)
        for r in readers[number]:
            left[r] -= 1
            if not left[r]:
                heapq.heappush(ready, r)
    return out


@hinted_names
class Value(NamedTuple):
    """An output of a node: the node's id and the number of the output."""

    node: int
    port: int = 0


@hinted_calls
@hinted_names
@dataclass(slots=True, repr=False)
class Node:
    """One operation in a graph.

    `origins` names the source layers that a rewritten node replaces. `declared` and
    `declared_inputs` are the specs that the file states, `specs` the inferred ones (None before
    inference). `tensor_names` has the names of each output. `rt_info` is the layer's XML, kept for
    writing, `port_rt_info` that of its ports as ("input" or "output", port, XML); `extra` are
    attributes of `<layer>` beyond the four standard ones, `extra_data` those of `<data>` that the
    operation does not know. `port_elements` numbers the `<port>`s of inputs and outputs among the
    elements of the layer, for their places.
    """

    id: int
    op: Op
    name: str
    location: Location | None = None
    origins: tuple[str, ...] = ()
    tensor_names: tuple[tuple[str, ...], ...] = ()
    declared: tuple[Spec, ...] = ()
    declared_inputs: tuple[Spec, ...] = ()
    specs: tuple[Spec, ...] | None = None
    rt_info: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    extra_data: tuple[tuple[str, str], ...] = ()
    port_rt_info: tuple[tuple[str, int, str], ...] = ()
    port_elements: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def __hash__(self) -> int:
        message = f"{self.label} is a node, not an id"
        raise misused(message, "write node.id", kind=ArgumentTypeError)

    def copy(self) -> Node:
        """Return an independent node; its parts are immutable and shared."""
        return Node(*_PARTS(self))

    def __repr__(self) -> str:
        outputs = ", ".join(str(self.spec(port)) for port in range(self.outputs))
        title = f'<Node %{self.id} "{plain(self.name)}": {self.type} of {self.op.version}'
        return f"{title} -> {outputs}>" if outputs else f"{title}>"

    def _repr_html_(self) -> str:
        rows = [("id", self.id), ("type", f"{self.type} of {self.op.version}")]
        rows += [(name, text) for name, text in self.op.to_attributes().items()]
        rows += [(f"output {port}", self.spec(port)) for port in range(self.outputs)]
        names = [name for port in self.tensor_names for name in port]
        rows += [("tensors", ", ".join(names))] * bool(names)
        rows += [("replaces", ", ".join(self.origins))] * bool(self.origins)
        rows += [("place", self.location)] * (self.location is not None)
        return html_table(self.name, ("", ""), rows)

    @property
    def type(self) -> str:
        """The operation's type as `<layer>` spells it."""
        return self.op.type

    @property
    def label(self) -> str:
        """The layer's name in messages: type and name."""
        return f'{self.type} "{self.name}"'

    @property
    def outputs(self) -> int:
        """Number of output ports, as far as known."""
        return len(self.specs if self.specs is not None else self.declared)

    def spec(self, port: int = 0) -> Spec:
        """Return the inferred spec of an output, or the declared one before inference."""
        specs = self.specs if self.specs is not None else self.declared
        return specs[port] if port < len(specs) else Spec(None, None)

    def names_of(self, port: int) -> tuple[str, ...]:
        """Return the tensor names of an output."""
        return self.tensor_names[port] if port < len(self.tensor_names) else ()

    def add_names(self, port: int, names: Iterable[str]) -> None:
        """Add names to those of an output's tensor."""
        every = list(self.tensor_names) + [()] * (port + 1 - len(self.tensor_names))
        every[port] = (*every[port], *names)
        self.tensor_names = tuple(every)

    def output_key(self, port: int) -> str:
        """Return the name of an output by its layer, as `run --dump` saves it: NAME, NAME.1, ..."""
        return self.name if self.outputs < 2 else f"{self.name}.{port}"

    def place_of(self, side: Literal["input", "output"], port: int) -> Location | None:
        """Return the place of a `<port>`, or of the layer if the file has no such element."""
        elements = self.port_elements[side == "output"]
        if self.location is None or port >= len(elements):
            return self.location
        return self.location.within(elements[port])


_PARTS = attrgetter(*(f.name for f in fields(Node)))


@dataclass
class Info:
    """Properties of the whole model: name, IR version, rt_info XML.

    `file` is the model's file, `files` are the other files that were read, except the
    `.bin` of an IR.
    """

    name: str = "model"  # of the model
    ir_version: int = 11  # of the file
    rt_info: str | None = None
    file: str | None = None  # that it was read from
    extra: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()


class _ById(dict[int, X]):
    """Parts of a graph by node id."""

    def __missing__(self, node: Any) -> X:
        hint = f'write graph["{node}"].id' if isinstance(node, str) else "nodes() has all layers"
        message = f'"{node}" is no id: ids are numbers' if isinstance(node, str) else ""
        raise misused(message or f"there is no node {node}", hint, kind=UnknownKeyError)


class GraphError(IrdeconvError):
    """A structural invariant would break."""


def _broken(message: str, hint: str | None = None) -> GraphError:
    return GraphError(Diagnostic("E220", "error", message, hint=hint))


@hinted_calls
@hinted_attributes
class Graph:
    """A dataflow graph of operations.

    Node ids are ints and grow; iteration is in id order, which for a graph that was read is the
    order of the layers in the file.
    """

    # Draws a graph as SVG, None for one that is too large; set by the package that knows layers.
    painter: ClassVar[Callable[[Graph], str | None] | None] = None
    info: Info  # of the whole model

    def __init__(self, info: Info | None = None) -> None:
        self.info = info or Info()
        self._nodes: dict[int, Node] = _ById()
        self._sources: dict[int, list[Value]] = _ById()
        # (user, its port): output port
        self._users: dict[int, dict[tuple[int, int], int]] = _ById()
        self._next = 0
        self._in_order = True  # whether nodes were added in the order of their ids

    def __repr__(self) -> str:
        return line(self, self.info.name, count(len(self), "layer"), *self._ends())

    def _ends(self) -> list[str]:
        """Return `1 input x f32[1,3]` and the same of outputs; a name only if there is one port."""
        fed = [v for n in self.results for v in self.inputs_of(n.id)]
        outputs = self.outputs if len(fed) == len(self.results) else []  # else it is being built
        inputs = zip(self.inputs, (n.spec() for n in self.parameters), strict=True)
        ends = {"input": inputs, "output": zip(outputs, map(self.spec, fed), strict=False)}
        out = []
        for what, end in ends.items():
            each = [f"{plain(name)} {spec}" for name, spec in end]
            out.append(" ".join([count(len(each), what), *each[: 1 if len(each) == 1 else 0]]))
        return out

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = []
        shown = 0
        for node in self.nodes():
            shown += node.type != "Const"
            if node.type == "Const" or len(rows) >= MOST_ROWS:
                continue
            inputs = (self.node(v.node).name for v in self.inputs_of(node.id))
            specs = ", ".join(str(node.spec(port)) for port in range(node.outputs))
            rows.append((node.id, node.name, node.type, ", ".join(inputs), specs))
        title = repr(self)[1:-1] + " (constants are not listed)"
        head = ("id", "name", "type", "inputs", "outputs")
        return scrolled(self._repr_svg_()) + html_table(title, head, rows, total=shown)

    def _repr_svg_(self) -> str | None:
        return None if Graph.painter is None else Graph.painter(self)

    # Reading -----------------------------------------------------------------------------------

    @property
    def nx(self) -> nx.MultiDiGraph[int]:
        """A networkx graph that cannot be changed; nodes carry `node`, edge keys are ports."""
        import networkx

        out: nx.MultiDiGraph[int] = networkx.MultiDiGraph()
        out.add_nodes_from((n.id, {"node": n}) for n in self.nodes())
        for node, sources in self._sources.items():
            for port, value in enumerate(sources):
                out.add_edge(value.node, node, key=(value.port, port))
        networkx.freeze(out)
        return out

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: object) -> bool:
        """Whether there is a node with this id, or a layer of this name."""
        if isinstance(node, str):
            return any(n.name == node for n in self.nodes())
        return node in self._nodes

    def __iter__(self) -> Iterator[Node]:
        return self.nodes()

    def __getitem__(self, name: str) -> Node:
        """Return the only layer of a name; UsageError with similar names if there is none."""
        found = self.find(name)
        if len(found) == 1:
            return found[0]
        if found:
            hint = "find() returns all, node() the one of an id"
            raise misused(f'{len(found)} layers are called "{name}"', hint)
        near = did_you_mean(str(name), [n.name for n in self.nodes()])
        hint = near or ("node() takes ids" if isinstance(name, int) else "nodes() has all layers")
        raise misused(f'there is no layer "{name}"', hint, kind=UnknownKeyError)

    @property
    def next_id(self) -> int:
        """The id that the next node gets: above those of all others."""
        return self._next

    def node(self, node: int) -> Node:
        """Return a node by id; UsageError, which is also a KeyError, if there is none."""
        return self._nodes[node]

    @named
    def nodes(self, type: str | None = None) -> Iterator[Node]:
        """Iterate over the nodes in id order, all or those of one operation type.

        UsageError for an unknown type with a name like that of a known one.
        """
        nodes = list(self._nodes.values())
        if not self._in_order:
            nodes.sort(key=lambda n: n.id)
        if type is None:
            return iter(nodes)
        chosen = [n for n in nodes if n.op.type == type]
        if not chosen and type not in TYPES:
            near = did_you_mean(type, [*TYPES, *{n.op.type for n in nodes}])
            if near:
                raise misused(f'there is no operation "{type}"', near)
        return iter(chosen)

    @named
    def find(self, name: str) -> list[Node]:
        """Return the nodes of that name."""
        return [n for n in self.nodes() if n.name == name]

    def inputs_of(self, node: int) -> tuple[Value, ...]:
        """Return the producers of a node's inputs in port order."""
        return tuple(self._sources[node])

    def producers(self, node: int) -> list[int]:
        """Return the ids of the producers of a node's inputs in port order."""
        return [v.node for v in self._sources[node]]

    def input_specs(self, node: int) -> tuple[Spec, ...]:
        """Return the specs at a node's inputs in port order."""
        nodes = self._nodes
        return tuple([nodes[v.node].spec(v.port) for v in self._sources[node]])

    def users(self, value: Value) -> list[tuple[int, int]]:
        """Return (node, input port) of every use of a value, sorted."""
        return sorted([at for at, port in self._users[value.node].items() if port == value.port])

    def highest_port(self, node: int) -> int:
        """Return the highest output port of a node that anything uses; -1 if nothing does."""
        return max(self._users[node].values(), default=-1)

    def successors(self, node: int) -> list[int]:
        """Return the ids of the nodes that use any output of a node, sorted."""
        return sorted({user for user, _ in self._users[node]})

    def spec(self, value: Value) -> Spec:
        """Return the spec of a value."""
        return self._nodes[value.node].spec(value.port)

    @property
    def parameters(self) -> list[Node]:
        """The model's inputs in order."""
        return list(self.nodes("Parameter"))

    @property
    def results(self) -> list[Node]:
        """The model's outputs in order."""
        return list(self.nodes("Result"))

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs in order."""
        return unique((*n.names_of(0), n.name)[0] for n in self.parameters)

    def input_names(self) -> dict[str, Node]:
        """Return every spelling under which a model input may be fed."""
        names: dict[str, Node] = {}
        for node in self.parameters:
            for name in (node.name, *(n for port in node.tensor_names for n in port)):
                names.setdefault(name, node)
        for name, node in zip(self.inputs, self.parameters, strict=True):
            names.setdefault(name, node)
        return names

    @property
    def outputs(self) -> list[str]:
        """The names of the model's outputs in order: tensor names, else layer names."""
        return unique(self.output_name(n) for n in self.results)

    def output_name(self, result: Node) -> str:
        """Return the name of a Result's tensor: a tensor name if it has one."""
        for value in self.inputs_of(result.id):  # none if the graph is unfinished
            names = self.node(value.node).names_of(value.port)
            if names:
                return names[0]
        for key, text in result.extra:
            if key == "output_names" and text:
                return text
        return result.name

    def topological(self) -> list[Node]:
        """Return the nodes, producers first; among ready nodes the lowest id comes first."""
        nodes = list(self.nodes())
        if all(v.node < n.id for n in nodes for v in self._sources[n.id]):
            return nodes
        number = {n.id: at for at, n in enumerate(nodes)}
        order = producers_first([{number[v.node] for v in self._sources[n.id]} for n in nodes])
        if len(order) < len(nodes):
            raise _broken(f"the graph has a cycle through {self.cycle()}")
        return [nodes[at] for at in order]

    def reading_order(self) -> list[Node]:
        """Return the nodes in id order, but every producer in front of its first user.

        On a cycle one node stands behind a user.
        """
        order: dict[int, Node] = {}
        entered: set[int] = set()
        for first in self.nodes():
            stack = [first.id]
            while stack:
                top = stack[-1]
                if top in entered:
                    stack.pop()
                    order.setdefault(top, self.node(top))
                else:
                    entered.add(top)
                    producers = [v.node for v in self.inputs_of(top) if v.node not in entered]
                    stack += reversed(producers)
        return list(order.values())

    def cycle(self) -> list[str]:
        """Return the names along one cycle; empty if there is none."""
        found = cycle_in({n: self.producers(n) for n in self._sources})
        return [self.node(n).name for n in found]

    def live(self) -> set[int]:
        """Return the ids of the nodes that a Result or a node with side effects needs."""
        ends = (n.id for n in self.nodes() if n.op.side_effect or n.op.type == "Result")
        return reached(ends, self.producers)

    # Changing ----------------------------------------------------------------------------------

    @named
    def add(
        self,
        op: Op,
        inputs: Sequence[Value] = (),
        *,
        name: str,
        id: int | None = None,
        location: Location | None = None,
        origins: tuple[str, ...] = (),
        specs: tuple[Spec, ...] | None = None,
    ) -> Node:
        """Add a node behind existing ones; inputs are given in port order."""
        for v in inputs:
            if v.node not in self._nodes:
                raise _broken(f'"{name}" uses node {v.node}, which does not exist')
        ident = self._next if id is None else id
        if ident in self._nodes:
            raise _broken(f"node {ident} exists already")
        if ident < self._next:
            self._in_order = False
        else:
            self._next = ident + 1
        node = self._nodes[ident] = Node(ident, op, name, location, origins, specs=specs)
        self._sources[ident] = list(inputs)
        self._users[ident] = {}
        for port, v in enumerate(inputs):
            self._users[v.node][ident, port] = v.port
        return node

    @named
    def connect(self, value: Value, node: int, port: int) -> None:
        """Connect a value to the next free input port of a node."""
        sources, users = self._sources.get(node), self._users.get(value.node)
        if sources is None or users is None:
            raise _broken(f"edge {value} -> {node} names a node that does not exist")
        if port != len(sources):
            raise _broken(f'input ports of "{self.node(node).name}" must stay dense: {port}')
        sources.append(value)
        users[node, port] = value.port

    @named
    def set_input(self, node: int, port: int, value: Value) -> None:
        """Replace the producer of one input."""
        old = self._sources[node][port]
        if value.node not in self._nodes:
            raise _broken(f"node {value.node} does not exist")
        del self._users[old.node][node, port]
        self._users[value.node][node, port] = value.port
        self._sources[node][port] = value

    @named
    def replace_uses(self, old: Value, new: Value) -> None:
        """Replace `old` by `new` in every user."""
        for node, port in self.users(old):
            if node != new.node:
                self.set_input(node, port, new)

    @named
    def replace_op(self, node: int, op: Op) -> None:
        """Give a node another operation with the same ports."""
        self.node(node).op = op

    @named
    def remove(self, node: int) -> None:
        """Remove a node that nothing uses."""
        if self._users[node]:
            users = first_names([self.node(n).name for n in self.successors(node)])
            hint = "replace_uses(Value(node.id), other) connects them to another layer first"
            raise _broken(f'"{self.node(node).name}" is still used by {users}', hint)
        for port, v in enumerate(self._sources.pop(node)):
            del self._users[v.node][node, port]
        del self._nodes[node], self._users[node]

    @work.gc_paused()
    def copy(self) -> Graph:
        """Return an independent graph; operations and constants are immutable and shared."""
        out = Graph(replace(self.info))
        out._nodes.update((n.id, n.copy()) for n in self.nodes())
        out._sources.update((n, list(sources)) for n, sources in self._sources.items())
        out._users.update((n, dict(users)) for n, users in self._users.items())
        out._next = self._next
        return out

    def __copy__(self) -> Graph:
        return self.copy()

    def lint(self) -> None:
        """Raise GraphError if a cycle exists."""
        self.topological()


def reached(starts: Iterable[int], near: Callable[[int], Iterable[int]]) -> set[int]:
    """Return the start nodes and all reachable ones; `near` yields the neighbours of a node."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        for node in near(stack.pop()):
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return seen


def cycle_in(producers: Mapping[int, Sequence[int]], others: Collection[int] = ()) -> list[int]:
    """Return the nodes of one cycle without the `others`, each behind its producer; or none."""
    waiting = {n: 0 if n in others else len(sources) for n, sources in producers.items()}
    users: dict[int, list[int]] = {n: [] for n in producers}
    for node, sources in producers.items():
        for source in sources:
            users[source].append(node)
    ready = [n for n, count in waiting.items() if not count]
    for node in ready:  # grows on the way
        for user in users[node]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    left = waiting.keys() - set(ready)
    if not left:
        return []
    # Each of these has a producer among them, so walking back must return to a node.
    at, walked = min(left), dict[int, int]()
    while at not in walked:
        walked[at] = len(walked)
        at = next(source for source in producers[at] if source in left)
    return list(walked)[walked[at] :][::-1]


def upstream(graph: Graph, nodes: Iterable[int], follows: Callable[[Value], bool]) -> set[int]:
    """Return the ids of nodes and of all that feed them through inputs that `follows` accepts."""
    return reached(nodes, lambda n: (v.node for v in graph.inputs_of(n) if follows(v)))


def unique(names: Iterable[str]) -> list[str]:
    """Return the names, repeated ones with `.1`, `.2`, ... behind them."""
    seen: dict[str, int] = {}
    out: list[str] = []
    taken = set()
    for name in names:
        k = seen.get(name, 0)
        new = name if k == 0 else f"{name}.{k}"
        while new in taken:
            k += 1
            new = f"{name}.{k}"
        seen[name] = k + 1
        taken.add(new)
        out.append(new)
    return out


@dataclass
class FreshNames:
    """Names for additions that differ from the existing names."""

    taken: set[str]
    _next: dict[str, int] = field(default_factory=dict, repr=False)

    def fresh(self, wanted: str) -> str:
        """Return the wanted name, with a number behind it if the name is taken."""
        name, k = wanted, self._next.get(wanted, 2)
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self._next[wanted] = k
        self.taken.add(name)
        return name
