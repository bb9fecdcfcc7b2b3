"""Edit ONNX models in place: cut pieces out, rename; all other nodes stay byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from irdeconv.base.errors import Diagnostic, OpError, UnsupportedError, misused
from irdeconv.formats.importing import malformed
from irdeconv.formats.onnx_container import OnnxFile, every_body, names, scopes, uses
from irdeconv.formats.onnx_lowering import delete, end_with
from irdeconv.formats.onnx_node import bodies, in_order, onnx_module, onnx_type, read_by, title_of
from irdeconv.formats.onnx_spelling import OLDEST, NodeWriter
from irdeconv.formats.onnx_types import infer_types, tensor_type
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import FreshNames, Graph, Info, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import ONNX, Const, Opaque, Result


def outline(model: OnnxFile) -> Graph:
    """Return a graph with a layer for each node of the model's own graph, of any operation.

    Specs are inferred or else declared. A layer reads what the bodies of its node read, too; its
    attribute `at` is the number of the node. Raises InputError for names without a producer.
    """
    body, scope, types = model.proto.graph, next(scopes(model.proto)), infer_types(model)
    graph = Graph(Info(name=body.name or "model", file=model.name))
    values: dict[str, Value] = {}

    def add(kind: str, name: str, outputs: Sequence[str], node: Any = None, at: int = 0) -> None:
        specs = tuple(types.exact.get(o) or types.spec(scope, o) for o in outputs)
        op = Opaque(kind, ONNX, (("at", str(at)),) if node else (), specs)
        reads = [values[i] for i in read_by(node)] if node else []
        made = graph.add(op, reads, name=name, location=model.location, specs=specs)
        made.tensor_names = tuple((o,) if o else () for o in outputs)
        values.update({o: Value(made.id, port) for port, o in enumerate(outputs) if o})

    try:
        for item in (i for i in body.input if i.name not in scope.initializers):
            add("Parameter", item.name, [item.name])
        for name in (*scope.initializers, *(s.values.name for s in body.sparse_initializer)):
            add("Const", name, [name])
        nodes = list(body.node)
        numbers = {id(n): at for at, n in enumerate(nodes)}
        for node in in_order(nodes):
            kind = "Const" if node.op_type == "Constant" else node.op_type
            add(kind, title_of(node), node.output, node, numbers[id(node)])
        for name in (o.name for o in body.output):
            specs = (types.spec(scope, name),)
            graph.add(Result(), [values[name]], name=f"{name}/result", specs=specs)
    except KeyError as e:
        text = f"the tensor {e} has no producer, or nodes form a circle"
        raise malformed(model.location, text, code="E204") from None
    return graph


def keep_piece(model: OnnxFile, piece: Graph) -> Any:
    """Reduce a model to a piece of its outline, in place; return the tensors that are new."""
    body, nodes = model.proto.graph, dict[int, Any]()
    fresh = FreshNames(names(body))
    for layer in piece.nodes():
        at = dict(layer.op.data).get("at") if isinstance(layer.op, Opaque) else None
        if at is not None:
            node = nodes[int(at)] = body.node[int(at)]
            for port, (old, own) in enumerate(zip(node.output, layer.tensor_names, strict=True)):
                # A tensor that flows into the piece is no longer an output of the layer.
                name = own[0] if own else fresh.fresh(old) if old else ""
                if name != old:
                    node.output[port] = name
    made = piece.nodes("Const")
    tensors = [_tensor(n.names_of(0)[0], n.op) for n in made if isinstance(n.op, Const)]
    return rebuild(model, piece, [nodes[at] for at in sorted(nodes)], tensors)


def _tensor(name: str, op: Const) -> Any:
    """Return a constant as an initializer."""
    kind, data = onnx_type(op.element_type), bytes(op.data.raw())
    return onnx_module().TensorProto(name=name, data_type=kind, dims=op.shape, raw_data=data)


def rebuild(model: OnnxFile, graph: Graph, nodes: Sequence[Any], tensors: Iterable[Any]) -> Any:
    """Give a model other nodes and more tensors, in place; return the copies of these tensors.

    Inputs and outputs are those of `graph`. Nothing is left that no node or output reads. Inputs
    and outputs that the model has declared stay declared in the same way.
    """
    body, constants = model.proto.graph, {*next(scopes(model.proto)).initializers}
    said = {i.name: i for i in body.value_info if not i.type.HasField("tensor_type")}
    said |= {i.name: i for i in (*body.input, *body.output)}
    sides = (graph.inputs, graph.parameters), (graph.outputs, graph.results)
    ends = [[_end(said, name, n.spec()) for name, n in zip(*s, strict=True)] for s in sides]
    flows, defaults = {*graph.inputs}, {*graph.inputs} - constants
    old = [i for i in body.input if i.name in constants - flows]
    for items, new in ((body.node, nodes), (body.input, ends[0] + old), (body.output, ends[1])):
        del items[:]
        items.extend(new)
    made = {o for n in body.node for o in n.output}
    held = made | flows
    delete(body.quantization_annotation, lambda note: note.tensor_name not in held)
    read = uses(body).keys() - flows
    delete(body.initializer, lambda t: t.name not in read and t.name not in defaults)
    delete(body.sparse_initializer, lambda t: t.values.name not in read)
    body.initializer.extend(tensors)
    known = flows | {t.name for t in body.initializer}
    delete(body.input, lambda i: i.name not in known)
    declared = made.difference(graph.outputs)
    delete(body.value_info, lambda i: i.name not in declared)
    before = constants | defaults
    return [t for t in body.initializer if t.name not in before]


def _end(said: Mapping[str, Any], name: str, spec: Spec) -> Any:
    """Return the declaration of an input or output."""
    out, tensor = onnx_module().ValueInfoProto(name=name), tensor_type(spec)
    if name in said:
        out.CopyFrom(said[name])
    elif tensor is not None:
        out.type.tensor_type.CopyFrom(tensor)
    return out


class _Edits:
    """Follows an edited graph back from the outputs of a model; see `rewritten`."""

    def __init__(
        self, model: OnnxFile, before: Graph, after: Graph, growth: int | None, decompress: bool
    ) -> None:
        self.model, self.before, self.after = model, before, after
        self.growth, self.decompress = growth, decompress
        body, self.scope = model.proto.graph, next(scopes(model.proto))
        self.makers = {o: at for at, n in enumerate(body.node) for o in n.output if o}
        self.types, self.fresh = infer_types(model), FreshNames(names(body))
        known = self.makers.keys() | self.scope.initializers.keys() | self.scope.entries
        self.values: dict[str, Value] = {}
        self.first: dict[Value, str] = {}  # the name of each tensor that has one in the model
        for node in after.nodes():
            for port, own in enumerate(node.tensor_names):
                for name in known.intersection(own) and own:
                    self.values[name] = Value(node.id, port)
                    self.first.setdefault(Value(node.id, port), name)
        self.nodes: dict[int, list[Any]] = {}
        self.tensors: list[Any] = []

    def walk(self, outputs: Iterable[str]) -> None:
        """Collect the nodes and tensors that outputs need."""
        todo = list(outputs)
        while todo:
            name = self.same(todo.pop())
            at = self.makers.get(name)
            if at is None or at in self.nodes:
                continue
            node = self.model.proto.graph.node[at]
            alone = sum(map(bool, node.output)) == 1
            if not (alone and self.folded(name, node)):
                self.nodes[at] = (alone and self.spelled(name, node)) or [self.rerouted(node)]
                todo += (i for n in self.nodes[at] for i in read_by(n))
            else:
                self.nodes[at] = []

    def same(self, name: str) -> str:
        """Return the first name of the tensor that has this one; in `raise` each node stays."""
        value = self.values.get(name)
        return name if value is None or self.growth is None else self.first[value]

    def rerouted(self, node: Any) -> Any:
        """Return a node that reads equal tensors by their first names; itself if it does so."""
        new = {i: self.same(i) for i in read_by(node) if self.same(i) != i}
        if not new:
            return node
        out = type(node).FromString(node.SerializeToString())
        rename_reads(out, new)
        return out

    def folded(self, name: str, node: Any) -> bool:
        """Add an initializer in the place of a node if its value is known and small enough."""
        if self.growth is None or node.op_type == "Constant":
            return False
        value, spec = self.values.get(name), self.types.exact.get(name)
        op = None if value is None else self.after.node(value.node).op
        if not isinstance(op, Const):
            if spec is None or spec.known is None or spec.unsure or spec.dtype is None:
                return False
            op = Const(spec.dtype, spec.known.shape, ArrayData.of(spec.known, spec.dtype))
            if spec.dtype.is_real:
                return False
        sources = [self.types.spec(self.scope, i) for i in node.input]
        source, kind = sources[0].dtype if sources else None, op.element_type
        narrow = source is not None and kind.is_real and source.bits < min(kind.bits, 32)
        size, room = op.data.array().nbytes, self.growth + sum(s.nbytes or 0 for s in sources)
        if kind.kind == "string" or size > room or (narrow and not self.decompress):
            return False
        self.tensors.append(_tensor(name, op))
        return True

    def spelled(self, name: str, node: Any) -> list[Any]:
        """Return the nodes of a new layer; none if it is not new or has no spelling."""
        value, opset = self.values.get(name), self.scope.opsets.get("", 0)
        if value is None or opset < OLDEST or not self.changed(value.node):
            return []
        constants = self.model.proto.ir_version < 4  # see `lower_onnx`
        writer = NodeWriter(self.after, opset, self.fresh, title_of(node), {}, constants)
        try:
            self.prepare(writer, value)
            end_with(writer, value, node)
        except OpError:
            return []
        self.tensors += writer.tensors
        return writer.nodes

    def prepare(self, writer: NodeWriter, value: Value) -> None:
        """Let new nodes read named tensors; OpError if old ones without a name would be needed."""
        for source in self.after.inputs_of(value.node):
            op, name = self.after.node(source.node).op, self.first.get(source)
            new = source.node not in self.before
            if name is not None and not (new and name in self.scope.initializers):
                writer.written[source] = name
            elif not isinstance(op, Const):
                if not new:
                    raise OpError("a part of another node is read")
                self.prepare(writer, source)

    def changed(self, at: int) -> bool:
        """Whether a layer is new, or reads other tensors than before."""
        if at not in self.before or self.before.node(at).op is not self.after.node(at).op:
            return True
        pairs = zip(self.before.inputs_of(at), self.after.inputs_of(at), strict=True)
        return not all(a == b or self.is_same(a, b) for a, b in pairs)

    def is_same(self, old: Value, new: Value) -> bool:
        """Whether an input is the one of before by name, or by the bytes of a constant."""
        source, op = self.before.node(old.node), self.after.node(new.node).op
        if isinstance(source.op, Const) and isinstance(op, Const):
            return source.op.data.raw() == op.data.raw()
        return any(self.values.get(name) == new for name in source.names_of(old.port))


def rewritten(
    model: OnnxFile,
    before: Graph,
    after: Graph,
    growth: int | None = None,
    *,
    decompress: bool = False,
) -> Any:
    """Make the edits of its imported graph in a model, in place; return the new tensors.

    A tensor keeps its value in `after`, where it keeps its name. So each node that an output needs
    may stay, and read equal tensors by other names. A layer that is new becomes nodes, if ONNX has
    a spelling for it. With `growth` known values become initializers, as `simplify` describes it.
    Raises UnsupportedError if initializers are only defaults, which importing takes as constants.
    """
    body = model.proto.graph
    made = _Edits(model, before, after, growth, decompress)
    usual = next((t.name for t in body.initializer if t.name not in made.scope.initializers), None)
    if usual is not None:
        text = f'the initializer "{usual}" is an input, too, so its value is only a default'
        hint = "take it out of the inputs, or write an .xml, in which it is a constant"
        raise UnsupportedError(Diagnostic("E402", "error", text, model.location, hint=hint))
    made.walk(o.name for o in body.output)
    if growth is None:  # what nothing reads stays
        read = uses(body)
        made.walk(o for n in body.node if not any(read[o] for o in n.output) for o in n.output)
    nodes = in_order([n for at in sorted(made.nodes) for n in made.nodes[at]])
    return rebuild(model, after, nodes, made.tensors)


def rename_parts(model: OnnxFile, layers: Mapping[str, str], tensors: Mapping[str, str]) -> None:
    """Rename nodes and tensors of the model's own graph, in place; bodies read the new names.

    A node without a name of its own is called like its first output. Raises UsageError (E508) for
    a new name that a tensor of a body has.
    """
    body = model.proto.graph
    inner = {
        o for part in every_body(body) if part is not body for n in part.node for o in n.output
    }
    for new in inner.intersection(tensors.values()):
        raise misused(f'tensor "{new}": a body has one of this name', code="E508")
    parts = (body.input, body.output, body.value_info, body.initializer)
    sparse = [s.values for s in body.sparse_initializer]
    for item in (*(item for part in parts for item in part), *sparse):
        item.name = tensors.get(item.name, item.name)
    for note in body.quantization_annotation:
        note.tensor_name = tensors.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = tensors.get(entry.value, entry.value)
    for node in body.node:
        title = title_of(node)
        if title in layers and (node.name or title not in tensors):
            node.name = layers[title]
        _rename(node.output, tensors)
        rename_reads(node, tensors)


def _rename(items: Any, new: Mapping[str, str]) -> None:
    for at in [at for at, name in enumerate(items) if name in new]:
        items[at] = new[items[at]]


def rename_reads(node: Any, new: Mapping[str, str]) -> None:
    """Give tensors that a node or its bodies read other names, in place."""
    _rename(node.input, new)
    for _, body in bodies(node):
        own = {o for n in body.node for o in n.output}
        own |= {i.name for i in (*body.input, *body.initializer)}
        outside = {old: name for old, name in new.items() if old not in own}
        for inner in body.node:
            rename_reads(inner, outside)
        for item in body.output:
            item.name = outside.get(item.name, item.name)
