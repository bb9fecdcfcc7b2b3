"""Edit ONNX models in place: cut pieces out, rename; all other nodes stay byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base.errors import Diagnostic, OpError, UnsupportedError, misused
from irdeconv.formats.importing import malformed
from irdeconv.formats.models import ModelLike, is_onnx
from irdeconv.formats.onnx_container import OnnxFile, every_body, load_file, names, scopes, uses
from irdeconv.formats.onnx_lowering import SUFFIX, delete, end_with
from irdeconv.formats.onnx_node import (
    bodies,
    element_type,
    in_order,
    onnx_module,
    onnx_type,
    own_names,
    read_by,
    title_of,
)
from irdeconv.formats.onnx_spelling import OLDEST, NodeWriter
from irdeconv.formats.onnx_types import CONV_TRANSPOSE, infer_types, tensor_type
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import FreshNames, Graph, Info, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import ONNX, Const, Opaque, Result


def to_edit(model: ModelLike, path: str | PathLike[str] | None) -> OnnxFile | None:
    """Load an ONNX model that is edited as such: if `path` names an .onnx, else return None.

    Raises UsageError for a model of another format, and the errors of `load_file`.
    """
    if path is None or Path(path).suffix != SUFFIX:
        return None
    if not is_onnx(model):
        raise misused(f"{path}: only an ONNX model becomes an .onnx", "write an .xml")
    return load_file(model)


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
        for name in scope.initializers:
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


def keep_piece(model: OnnxFile, piece: Graph) -> list[Any]:
    """Reduce a model to a piece of its outline, in place; return the tensors that are new.

    Raises UsageError (E507) for an output of unknown type.
    """
    body, nodes = model.proto.graph, dict[int, Any]()
    fresh = FreshNames(names(body))
    for layer in piece.nodes():
        at = dict(layer.op.data).get("at") if isinstance(layer.op, Opaque) else None
        if at is not None:
            node = nodes[int(at)] = body.node[int(at)]
            for port, old in enumerate(node.output):
                # A tensor that flows into the piece is no longer an output of the layer.
                name = next(iter(layer.names_of(port)), old and fresh.fresh(old))
                if name != old:
                    node.output[port] = name
    made = piece.nodes("Const")
    tensors = [_tensor(n.names_of(0)[0], n.op) for n in made if isinstance(n.op, Const)]
    said = {i.name: i for i in body.value_info if not i.type.HasField("tensor_type")}
    said |= {i.name: i for i in (*body.input, *body.output)}
    results = [*zip(piece.outputs, piece.results, strict=True)]
    once = {piece.inputs_of(n.id)[0]: (name, n) for name, n in reversed(results)}  # of each tensor
    sides = zip(piece.inputs, piece.parameters, strict=True), reversed(once.values())
    ends = [[_end(said, name, n.spec()) for name, n in side] for side in sides]
    return _rebuilt(model, [nodes[at] for at in sorted(nodes)], tensors, *ends)


def _tensor(name: str, op: Const) -> Any:
    kind, data = onnx_type(op.element_type), bytes(op.data.raw())
    return onnx_module().TensorProto(name=name, data_type=kind, dims=op.shape, raw_data=data)


def _end(said: Mapping[str, Any], name: str, spec: Spec) -> Any:
    """Return the declaration of an input or output: that of the model, else its spec.

    Raises UsageError (E507) if there is neither.
    """
    out, tensor = onnx_module().ValueInfoProto(name=name), tensor_type(spec)
    if name in said:
        out.CopyFrom(said[name])
    if not out.HasField("type") and tensor is not None:
        out.type.tensor_type.CopyFrom(tensor)
    elif name not in said and tensor is None:
        text = f'the piece would end at the tensor "{name}", whose type is unknown'
        raise misused(text, "end it elsewhere, or declare the type in the model", code="E507")
    return out


def _rebuilt(
    model: OnnxFile,
    nodes: Sequence[Any],
    tensors: Sequence[Any],
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
) -> list[Any]:
    """Give a model other nodes and more tensors, in place; return the copies of these tensors.

    `inputs` and `outputs` take the places of its own. No constants are left that nothing reads.
    """
    body, constants = model.proto.graph, {*next(scopes(model.proto)).initializers}
    own = [i for i in body.input if i.name not in constants]
    given = own if inputs is None else inputs
    flows, new = {i.name for i in given}, {t.name for t in tensors}
    old = [i for i in body.input if i.name in constants - flows]
    if model.proto.ir_version < 4:  # initializers are inputs, too
        old += [_end({}, t.name, Spec(element_type(t.data_type), tuple(t.dims))) for t in tensors]
    parts = (body.node, nodes), (body.input, [*given, *old]), (body.output, outputs or body.output)
    for items, others in parts:
        copies = list(others)
        del items[:]
        items.extend(copies)
    made, ends = {o for n in body.node for o in n.output}, {o.name for o in body.output}
    alive = made | flows | uses(body).keys()
    delete(body.quantization_annotation, lambda note: note.tensor_name not in alive)
    read = uses(body).keys() - flows
    kept = read | (flows - constants)
    delete(body.initializer, lambda t: t.name not in kept)
    delete(body.sparse_initializer, lambda t: t.values.name not in kept)
    body.initializer.extend(tensors)
    known = flows | {t.name for t in body.initializer}
    delete(body.input, lambda i: i.name not in known)
    delete(body.value_info, lambda i: i.name not in made or i.name in ends)
    return [t for t in body.initializer if t.name in new]


class _Edits:
    """Follows an edited graph back from the outputs of a model; see `rewritten`."""

    def __init__(self, model: OnnxFile, before: Graph, after: Graph) -> None:
        self.model, self.before, self.after = model, before, after
        body, self.scope = model.proto.graph, next(scopes(model.proto))
        self.makers = {o: at for at, n in enumerate(body.node) for o in n.output if o}
        self.types, self.fresh = infer_types(model), FreshNames(names(body))
        known = {*self.makers, *self.scope.initializers, *self.scope.entries}
        self.values: dict[str, Value] = {}
        self.first: dict[Value, str] = {}  # the name of each tensor that has one in the model
        for node in after.nodes():
            for port, own in enumerate(node.tensor_names):
                for name in filter(known.__contains__, own):
                    self.values[name] = Value(node.id, port)
                    self.first.setdefault(Value(node.id, port), name)
        self.nodes: dict[int, list[Any]] = {}
        self.tensors: list[Any] = []

    def walk(self, outputs: Iterable[str], growth: int | None, *, decompress: bool) -> None:
        """Collect the nodes and tensors that outputs need; `growth` is that of `rewritten`."""
        todo, fold = list(outputs), growth is not None
        while todo:
            name = todo.pop()
            name = self.first[self.values[name]] if fold and name in self.values else name
            at = self.makers.get(name)
            if at is None or at in self.nodes:
                continue
            node = self.model.proto.graph.node[at]
            made = None
            if sum(map(bool, node.output)) == 1:
                known = growth is not None and self.folded(name, node, growth, decompress)
                made = [] if known else self.spelled(name, node, strict=not fold)
            self.nodes[at] = [self.rerouted(node) if fold else node] if made is None else made
            todo += (i for n in self.nodes[at] for i in read_by(n))

    def rerouted(self, node: Any) -> Any:
        """Return a node that reads equal tensors by their first names; itself if it does so."""
        pairs = ((i, self.first[self.values[i]]) for i in read_by(node) if i in self.values)
        new = {old: name for old, name in pairs if old != name}
        out = type(node).FromString(node.SerializeToString()) if new else node
        rename_reads(out, new)
        return out

    def folded(self, name: str, node: Any, growth: int, decompress: bool) -> bool:
        """Add an initializer in the place of a node if its value is known and small enough."""
        spec, value = self.types.exact.get(name), self.values.get(name)
        op = None if value is None else self.after.node(value.node).op
        if not isinstance(op, Const):
            known = None if spec is None or spec.unsure else spec.known
            if spec is None or known is None or spec.dtype is None or spec.dtype.is_real:
                return False
            op = Const(spec.dtype, known.shape, ArrayData.of(known, spec.dtype))
        kind, size = op.element_type, op.data.array().nbytes
        narrow = node.op_type == "Cast" and kind.is_real and not decompress
        if node.op_type == "Constant" or narrow or kind.kind == "string":
            return False
        if size > growth + sum(self.types.spec(self.scope, i).nbytes or 0 for i in node.input):
            return False
        self.tensors.append(_tensor(name, op))
        return True

    def spelled(self, name: str, node: Any, *, strict: bool) -> list[Any] | None:
        """Return the nodes of a layer that is new; None if it is not, or has no spelling.

        With `strict` a layer without a spelling is an error.
        """
        value, opset = self.values.get(name), self.scope.opsets.get("", 0)
        if value is None or not self.changed(value.node):
            return None
        writer = NodeWriter(self.after, opset, self.fresh, title_of(node), {})
        try:
            writer.require(OLDEST, "new nodes")
            self.prepare(writer, value)
            end_with(writer, value, node)
        except OpError as e:
            if strict and value.node not in self.before:  # others may stay
                raise _refused(self.model, f'{node.op_type} "{title_of(node)}": {e}') from None
            return None
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
                    raise OpError("it reads a tensor that lies inside another node")
                self.prepare(writer, source)

    def changed(self, at: int) -> bool:
        """Whether a layer is new, or reads other tensors or numbers than before."""
        if at not in self.before or self.before.node(at).op is not self.after.node(at).op:
            return True
        for old, new in zip(self.before.inputs_of(at), self.after.inputs_of(at), strict=True):
            source, op = self.before.node(old.node), self.after.node(new.node).op
            same = old == new or any(self.values.get(n) == new for n in source.names_of(old.port))
            if isinstance(source.op, Const) and isinstance(op, Const):
                same = same or source.op.data.raw() == op.data.raw()
            if not same:
                return True
        return False


def rewritten(
    model: OnnxFile,
    before: Graph,
    after: Graph,
    growth: int | None = None,
    *,
    decompress: bool = False,
) -> list[Any]:
    """Make the edits of its imported graph in a model, in place; return the new tensors.

    A tensor of `after` has the value that its name had before. So each node that an output needs
    may stay, and read equal tensors by other names. A layer that is new becomes nodes, if ONNX has
    a spelling for it. With `growth` known values become initializers, as `simplify` describes it;
    without, all else stays. Raises UnsupportedError (E402) for a raised layer without a spelling,
    and if initializers are only defaults, which importing takes as constants.
    """
    body = model.proto.graph
    made = _Edits(model, before, after)
    usual = next((t.name for t in body.initializer if t.name not in made.scope.initializers), None)
    if usual is not None:
        text = f'the initializer "{usual}" is an input, too, so its value is only a default'
        raise _refused(model, text)
    read, nodes = uses(body), list(body.node) if growth is None else []
    ends = [o for n in nodes for o in n.output if not any(read[i] for i in n.output)]
    made.walk([*ends, *(o.name for o in body.output)], growth, decompress=decompress)
    nodes = [n for at in sorted(made.nodes) for n in made.nodes[at]]
    counts = (sum(n.op_type == CONV_TRANSPOSE for n in items) for items in (nodes, body.node))
    new = [n for n in after.nodes() if n.id not in before and n.op.deconvolution]
    if growth is None and len(new) > next(counts) - next(counts):
        raise _refused(model, f"{new[0].label} lies inside a node")
    return _rebuilt(model, in_order(nodes), made.tensors)


def _refused(model: OnnxFile, text: str) -> UnsupportedError:
    """Return the error of an edit that the ONNX file cannot have."""
    hint = "write an .xml: -o NAME.xml"
    return UnsupportedError(Diagnostic("E402", "error", text, model.location, hint=hint))


def rename_parts(model: OnnxFile, layers: Mapping[str, str], tensors: Mapping[str, str]) -> None:
    """Rename nodes and tensors of the model's own graph, in place; bodies read the new names.

    A node without a name of its own is called like its first output. Raises UsageError (E508) for
    a new name that a tensor of a body has.
    """
    body = model.proto.graph
    inner = {name for part in every_body(body) if part is not body for name in own_names(part)}
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
        own = own_names(body)
        outside = {old: name for old, name in new.items() if old not in own}
        for inner in body.node:
            rename_reads(inner, outside)
        for item in body.output:
            item.name = outside.get(item.name, item.name)
