"""Port maps, back edges and bodies of Loop, TensorIterator and If; facts of version 10."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from irdeconv.base.errors import did_you_mean, some
from irdeconv.formats.document import (
    Context,
    Document,
    MapEntry,
    PortMap,
    XmlBody,
    XmlLayer,
    integer,
)
from irdeconv.ir.dtypes import BY_PRECISION, ElementType, f32, i32
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Convert, Parameter
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing

Build = Callable[[Document, Context], Graph | None]

# Port map -> the body it belongs to.
_BODY_OF_MAP = {
    "port_map": "body",
    "back_edges": "body",
    "then_port_map": "then_body",
    "else_port_map": "else_body",
}
_WANTED = {
    "Loop": ("port_map", "body"),
    "TensorIterator": ("port_map", "body"),
    "If": ("then_port_map", "else_port_map", "then_body", "else_body"),
}
_SLICING = ("axis", "start", "end", "stride", "part_size")
_ENTRY = ("external_port_id", "internal_layer_id", *_SLICING, "purpose")
_PURPOSES = {"input": ("current_iteration",), "output": ("execution_condition",)}


def read_bodies(layer: XmlLayer, context: Context, build: Build) -> tuple[Body, ...] | None:
    """Return the bodies of a layer, checked as graphs, and their maps; None after an error."""
    tags = {b.tag for b in layer.bodies} | {m.tag for m in layer.maps}
    missing = [tag for tag in _WANTED.get(layer.type or "", ()) if tag not in tags]
    for tag in missing:
        context.add("E104", f"it has no <{tag}>", layer=layer)
    before, out = context.errors - len(missing), []
    for body in layer.bodies:
        if layer.type != "TensorIterator":  # with open types OpenVINO runs none
            _close_types(layer, body)
        graph = build(body.document, context)
        checker = _MapChecker(layer, body, context)
        for port_map in layer.maps:
            if _BODY_OF_MAP[port_map.tag] == body.tag:
                checker.read(port_map)
        if graph is not None:
            graph.info.name, graph.info.rt_info = body.tag, body.document.rt_info
            ends = tuple(checker.inward), tuple(checker.outward), tuple(checker.edges)
            out.append(Body(graph, *ends, tag=body.tag))
    return tuple(out) if context.errors == before else None


def _close_types(layer: XmlLayer, body: XmlBody) -> None:
    """Give a body's inputs of open type the types that the ports declare, which feed them.

    Inference replaces them by the types that the body gets.
    """
    ports = {p.id: BY_PRECISION.get(p.precision or "") for p in layer.inputs}
    inner = {x.id: x.data for x in body.document.layers if x.type == "Parameter" and x.data}
    for entry in (e for m in layer.maps if _BODY_OF_MAP[m.tag] == body.tag for e in m.entries):
        texts = dict(entry.attributes)
        data = inner.get(texts.get("internal_layer_id"))
        dtype = ports.get(texts.get("external_port_id"))
        if data and dtype and data.get("element_type") == "dynamic":
            data["element_type"] = dtype.name


class _MapChecker:
    """Checks one port map of a layer and body; it reads `inward`, `outward` and `edges`."""

    def __init__(self, layer: XmlLayer, body: XmlBody, context: Context) -> None:
        self._layer, self._context = layer, context
        layers = body.document.layers
        self._inner = {integer(x.id): (n, x) for n, x in enumerate(layers) if x.id is not None}
        self._inputs = {integer(p.id): p for p in layer.inputs}
        self._outputs = {integer(p.id): p for p in layer.outputs}
        sides = (enumerate(side) for side in (self._outputs, self._inputs))
        self._places = tuple({n: at for at, n in side if n is not None} for side in sides)
        self._fed: dict[int, MapEntry] = {}
        self._vague = False  # whether an entry does not name the input of the body that it feeds
        self.inward: list[BodyInput] = []
        self.outward: list[BodyOutput] = []
        self.edges: list[tuple[int, int]] = []

    def read(self, port_map: PortMap) -> None:
        for entry in port_map.entries:
            if port_map.tag == "back_edges":
                self.back_edge(entry)
            else:
                self.entry(entry)
        self.finish(port_map)

    def _add(
        self, code: str, message: str, entry: MapEntry, attribute: str | None = None, **more: Any
    ) -> None:
        layer, sub = self._layer, entry.sub
        self._context.add(code, message, attribute=attribute, layer=layer, sub=sub, **more)

    def _numbers(
        self, entry: MapEntry, names: tuple[str, ...], needed: tuple[str, ...]
    ) -> dict[str, int] | None:
        """Return the integer attributes of an entry; None after reporting its errors."""
        texts, out = dict(entry.attributes), {}
        missing = [n for n in needed if n not in texts]
        for name in missing:
            self._add("E105", f'<{entry.tag}> has no attribute "{name}"', entry)
        given = [] if missing else [n for n in names if n in texts]
        for name in given:
            number = integer(texts[name])
            if number is None:
                self._add("E106", f'{name}="{texts[name]}" is not an integer', entry, name)
            else:
                out[name] = number
        return None if missing or len(out) < len(given) else out

    def _unknown(self, entry: MapEntry, known: tuple[str, ...]) -> None:
        self._context.unknown_attributes(
            dict(entry.attributes), known, f"<{entry.tag}>", layer=self._layer, sub=entry.sub
        )

    def _internal(
        self, entry: MapEntry, number: int, attribute: str, kind: str
    ) -> tuple[int, XmlLayer] | None:
        """Return a layer of the body and its position."""
        found = self._inner.get(number)
        if found is not None and found[1].type == kind:
            return found
        text = f"the body has no layer {number}"
        if found is not None:
            text = f"layer {number} of the body is a {found[1].type}, not a {kind}"
        self._add("E211", text, entry, attribute)
        return None

    def entry(self, entry: MapEntry) -> None:
        """Check an `<input>` or `<output>` of a port map."""
        self._unknown(entry, _ENTRY)
        numbers = self._numbers(entry, _ENTRY[:-1], ("external_port_id", "internal_layer_id"))
        if numbers is None:
            self._vague = True
            return
        inward = entry.tag == "input"
        kind = "Parameter" if inward else "Result"
        number = numbers["internal_layer_id"]
        found = self._internal(entry, number, "internal_layer_id", kind)
        self._vague = self._vague or found is None
        inner = None if found is None else found[1]
        if inner is not None and inward:
            if number in self._fed:
                text = f'the body\'s input "{inner.name}" is mapped twice'
                self._add("E211", text, entry, "internal_layer_id")
            self._fed[number] = entry
        self._external(entry, numbers, inward)
        self._slicing(entry, numbers, inner, inward)
        if found is not None:
            self._keep(entry, numbers, found[0], inward)

    def _keep(self, entry: MapEntry, numbers: dict[str, int], position: int, inward: bool) -> None:
        slicing = {k: v for k, v in numbers.items() if k in _SLICING}
        parts = Slicing(**slicing) if "axis" in slicing else None
        number, special = numbers["external_port_id"], bool(dict(entry.attributes).get("purpose"))
        port = self._places[inward].get(number)
        if inward:
            self.inward.append(BodyInput(position, None if special else port, parts, special))
        else:
            self.outward.append(BodyOutput(position, port, parts, special))

    def _external(self, entry: MapEntry, numbers: dict[str, int], inward: bool) -> None:
        number, purpose = numbers["external_port_id"], dict(entry.attributes).get("purpose")
        allowed = _PURPOSES[entry.tag]
        if purpose and purpose not in allowed:
            text = f'the purpose "{purpose}" is not one of {", ".join(allowed)}'
            self._add("E211", text, entry, "purpose", hint=did_you_mean(purpose, allowed))
        mine, others = (self._inputs, self._outputs) if inward else (self._outputs, self._inputs)
        if number in mine or (number == -1 and purpose):
            return
        what = "input" if inward else "output"
        wrong = f"; it is an {'output' if inward else 'input'} port" if number in others else ""
        have = some(self._places[inward])
        text = f"the layer has no {what} port {number}{wrong} (there are: {have})"
        self._add("E211", text, entry, "external_port_id")

    def _slicing(
        self, entry: MapEntry, numbers: dict[str, int], inner: XmlLayer | None, inward: bool
    ) -> None:
        if "axis" not in numbers:
            for name in _SLICING[1:]:
                if name in numbers:
                    self._add("W101", f"{name} without axis has no effect", entry, name)
            return
        stride, part = numbers.get("stride"), numbers.get("part_size", 1)
        if stride == 0:
            hint = "OpenVINO crashes on such a file"
            self._add("E211", "the stride is 0", entry, "stride", hint=hint)
        if part < 1:
            self._add("E211", f"part_size is {part}", entry, "part_size")
        elif stride and part > abs(stride):
            text = f"parts of {part} overlap: the stride is {stride}"
            self._add("E211", text, entry, "part_size")
        self._axis(entry, numbers, inner, inward)

    def _axis(
        self, entry: MapEntry, numbers: dict[str, int], inner: XmlLayer | None, inward: bool
    ) -> None:
        axis = numbers["axis"]
        port = (self._inputs if inward else self._outputs).get(numbers["external_port_id"])
        rank = len(port.dims) if port is not None and port.dims else None
        if rank is None and inner is not None:
            inside = inner.outputs if inward else inner.inputs
            rank = len(inside[0].dims) or None if inside else None
        if rank is None:
            return
        if not -rank <= axis < rank:
            text = f"axis {axis} is outside {-rank}..{rank - 1} (rank {rank})"
            self._add("E211", text, entry, "axis")
            return
        size = integer(port.dims[axis]) if port is not None and port.dims and inward else None
        if size is None or size < 0:
            return
        for name in ("start", "end"):
            value = numbers.get(name)
            if value is not None and not -size - 1 <= value <= size:
                text = f"{name} {value} is outside the axis, which has {size} elements"
                self._add("E211", text, entry, name)

    def back_edge(self, entry: MapEntry) -> None:
        """Check an `<edge>` of `<back_edges>`: from a Result of the body to a Parameter."""
        names = ("from-layer", "to-layer")
        self._unknown(entry, (*names, "from-port", "to-port"))
        numbers = self._numbers(entry, names, names)
        if numbers is None:
            return
        source = self._internal(entry, numbers["from-layer"], "from-layer", "Result")
        target = self._internal(entry, numbers["to-layer"], "to-layer", "Parameter")
        if source is not None and target is not None:
            self.edges.append((source[0], target[0]))

    def finish(self, port_map: PortMap) -> None:
        """Report inputs of the body that nothing feeds, and outputs that nothing gives."""
        if port_map.tag == "back_edges" or self._vague:
            return
        given = Counter(o.port for o in self.outward)
        for position, port in enumerate(self._outputs.values()):
            if given[position] != 1 and self._layer.type in _WANTED:
                how = "nothing gives" if position not in given else "several entries give"
                text = f"{how} output port {port.id}"
                self._context.add("E211", text, layer=self._layer, sub=port_map.sub)
        for number, (_, inner) in self._inner.items():
            if inner.type == "Parameter" and number is not None and number not in self._fed:
                text = f'nothing feeds the body\'s input "{inner.name}"'
                self._context.add("E211", text, layer=self._layer, sub=port_map.sub)


def as_version_11(graph: Graph) -> None:
    """Give a version 10 model the names and the element types at its ends that OpenVINO gives it.

    f16 inputs are f32 outside. Outputs are f32 or i32: i64, u64 and u32 become i32, all others
    f32. A Convert behind the input or in front of the Result does this.
    """
    _name_ends(graph)
    for node in graph.parameters:
        if isinstance(node.op, Parameter) and node.op.element_type.name == "f16":
            _open_input(graph, node, node.op)
    converted: dict[Value, Value] = {}
    for node in graph.results:
        for value in graph.inputs_of(node.id):
            inside = graph.spec(value)
            outside = _outside(inside.dtype)
            if outside == inside.dtype or outside is None:
                continue
            if value not in converted:
                converted[value] = _close_output(graph, value, outside)
            graph.set_input(node.id, 0, converted[value])
            node.declared_inputs = (Spec(outside, inside.shape),)


def as_version_10(graph: Graph) -> Graph:
    """Return the graph without the Converts that version 10 implies: as it is written."""
    out = graph.copy()
    for node in list(out.nodes("Convert")):
        (source,) = out.inputs_of(node.id)
        if isinstance(node.op, Convert) and node.op.at_end and _implied(out, node, source):
            out.replace_uses(Value(node.id), source)
            out.node(source.node).add_names(source.port, node.names_of(0))
            out.remove(node.id)
    return out


def _implied(graph: Graph, node: Node, source: Value) -> bool:
    """Whether a Convert is still at an end; an input becomes f16 again."""
    producer, inside = graph.node(source.node), node.spec().dtype
    if inside is None or inside.name != "f16":
        return all(graph.node(user).type == "Result" for user in graph.successors(node.id))
    if not isinstance(producer.op, Parameter) or producer.op.element_type != f32:
        return False
    graph.replace_op(producer.id, replace(producer.op, element_type=inside))
    producer.declared, producer.specs = node.declared, node.specs
    return True


def _name_ends(graph: Graph) -> None:
    """Name unnamed inputs and outputs."""
    ends = [Value(node.id) for node in graph.parameters]
    ends += [v for node in graph.results for v in graph.inputs_of(node.id)]
    for node_id, port in ends:
        node = graph.node(node_id)
        count = len(node.tensor_names)
        if port < count and not node.tensor_names[port]:
            node.add_names(port, (node.name if count == 1 else f"{node.name}.{port}",))


def _outside(inside: ElementType | None) -> ElementType | None:
    """Return the element type of an output; None if it is unknown or never converted."""
    if inside is None or inside.kind == "string":
        return None
    return i32 if inside.name in ("i32", "i64", "u64", "u32") else f32


def _open_input(graph: Graph, node: Node, op: Parameter) -> None:
    """Make an input f32, and convert it to its former type inside the model."""
    inside, shape = op.element_type, op.shape
    uses = graph.users(Value(node.id))
    graph.replace_op(node.id, replace(op, element_type=f32))
    node.declared = (Spec(f32, shape),)
    value = _convert(graph, Value(node.id), inside, shape_of=Spec(inside, shape))
    for user, port in uses:
        graph.set_input(user, port, value)


def _close_output(graph: Graph, value: Value, outside: ElementType) -> Value:
    """Convert an output; the tensor's names go with it."""
    producer = graph.node(value.node)
    out = _convert(graph, value, outside, shape_of=graph.spec(value))
    names = list(producer.tensor_names)
    if value.port < len(names):
        graph.node(out.node).tensor_names = (names[value.port],)
        names[value.port] = ()
        producer.tensor_names = tuple(names)
    return out


def _convert(graph: Graph, value: Value, dtype: ElementType, *, shape_of: Spec) -> Value:
    producer = graph.node(value.node)
    name = f"{producer.output_key(value.port)}/{dtype}"
    node = graph.add(Convert(dtype, at_end=True), [value], name=name, location=producer.location)
    node.declared = (Spec(dtype, shape_of.shape),)
    return Value(node.id)
