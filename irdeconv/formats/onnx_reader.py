"""Reading ONNX models: each node by the rule of its type, or by its ONNX definition.

Operations without a rule that ONNX defines by others are imported as those others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import Any

from irdeconv.base.errors import Diagnostic, Note, asking, count, did_you_mean
from irdeconv.base.opening import shown
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats import (  # noqa: F401 -- importing fills RULES
    onnx_attention,
    onnx_control,
    onnx_convolution,
    onnx_domains,
    onnx_elementwise,
    onnx_normalization,
    onnx_recurrent,
    onnx_shape,
)
from irdeconv.formats.importing import (
    ImportBuilder,
    Imported,
    ModelReader,
    Refusal,
    Reported,
    operation,
)
from irdeconv.formats.onnx_container import load
from irdeconv.formats.onnx_node import (
    RULES,
    Bodies,
    Entry,
    Found,
    ImportedBody,
    Names,
    OnnxNode,
    ValueSequence,
    declared_shape,
    element_type,
    first_output,
    in_order,
    initializers,
    onnx_module,
    opsets_of,
    overload,
    plain_attribute,
    require_one_length,
    standard,
    title_of,
    to_array,
    type_proto,
)
from irdeconv.formats.reading import Reading
from irdeconv.ir.graph import Value
from irdeconv.ir.op import Op, lookup
from irdeconv.ir.spec import Shape, compatible, format_shape, is_static, merge
from irdeconv.ops.movement import Squeeze1
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.infer_specs import require_rank

UNCOVERED_OPERATION = "the operation is not covered"
LATEST = 2**31 - 1  # operation sets that onnx takes are 32 bits wide, those in a file 64
DEEPEST = 32  # calls of functions inside of each other; one takes ten calls of Python
IGNORED = ("consumed_inputs",)  # of version 1, about memory


class NodeReader(ModelReader):
    """Imports nodes into the graphs whose names they are given with."""

    results: frozenset[str] = frozenset()
    functions: Mapping[Any, Any] = {}  # the model's own, by the names in calls
    misfits: list[Diagnostic] = []  # noqa: RUF012 -- of nodes that a reader does not refuse

    def nodes(self, names: Names, nodes: Sequence[Any]) -> None:
        """Import nodes, producers first."""
        ordered = in_order(nodes)
        for node in ordered:
            self._node(names, node)
        if len(ordered) < len(nodes):
            done = {id(n) for n in ordered}
            left = [f'"{title_of(n)}"' for n in nodes if id(n) not in done]
            text = f"nodes that depend on each other in a circle: {', '.join(left[:5])}"
            self.out.malformed(text, "E204")

    def tensors(self, graph: Any) -> dict[str, Any]:
        """Return the initializers of a graph by name."""
        for kind in (graph.input, graph.initializer):
            for name, times in Counter(one.name for one in kind).items():
                if times > 1:
                    self.out.malformed(f"{shown(name)} exists already", "E203")
        found = initializers(graph)
        for item in graph.input:
            said = declared_shape(item.type.tensor_type) if item.name in found else None
            dims = said and tuple(found[item.name].dims)
            if said and dims and (len(said) != len(dims) or None in map(merge, said, dims)):
                both = f"{format_shape(dims)}, and it is declared {format_shape(said)}"
                self.out.malformed(f"the initializer {shown(item.name)} is {both}", "E302")
        return found

    def value(self, names: Names, name: str) -> Found | None:
        """Return a tensor by name, making the constant of an initializer at its first use."""
        if name not in names.values and name in names.tensors:
            names.values[name] = self.initializer(names, name)
        if name in names.values:
            return names.values[name]
        if names.outer is None:
            return None
        found = self.value(names.outer, name)
        if names.capture is not None and found is not None:
            capture = names.capture
            if isinstance(found, ValueSequence):
                found = ValueSequence(tuple(map(capture, found.items)))
            else:
                found = capture(found)
            names.values[name] = found
        return found

    def initializer(self, names: Names, name: str) -> Value | None:
        """Return the constant of an initializer; None if it cannot be read."""
        try:
            array, dtype = to_array(names.tensors[name])
            return names.builder.constant(names.prefix + name, array, dtype)
        except Refusal as e:
            self.out.uncovered(name, f'initializer "{name}": {e}')
        except (ValueError, TypeError, OSError) as e:
            self.out.malformed(f'initializer "{name}": {e}', "E122")
        return None

    def _node(self, names: Names, node: Any) -> None:
        """Import one node; after an error, which is recorded, its outputs are unknown."""
        inputs = [i if not names.lacks(i) else "" for i in node.input]
        found = [self.value(names, i) if i else None for i in inputs]
        for i in inputs:
            if i and not names.knows(i):
                text = f'{self._title(names, node)}: its input "{i}" has no producer'
                self.out.malformed(text, "E204")
        for o in node.output:
            if o in names.values or o in names.tensors:
                text = f'{self._title(names, node)}: its output "{o}" exists already'
                self.out.malformed(text, "E203")
        names.values.update({o: None for o in node.output if o})
        missing = any(i and v is None for i, v in zip(inputs, found, strict=True))
        self.import_node(names, node, () if missing else found)

    def import_node(self, names: Names, node: Any, found: Sequence[Found | None]) -> None:
        """Import a node by its rule or definition; without known inputs it is only looked up."""

        def build() -> None:
            make = self._maker(names, node, found)
            if len(found) == len(node.input):
                make()

        layer = names.owner or names.prefix + title_of(node)
        self.attempt(layer, self._title(names, node), build, names.builder)

    def _title(self, names: Names, node: Any) -> str:
        domain = standard(node.domain)
        name = node.name or first_output(node)
        shown = f' "{name}"' if not names.owner else ""
        return f"{names.title}{label(node)}{shown} (operation set {names.opset(domain)})"

    def _maker(self, names: Names, node: Any, found: Sequence[Found | None]) -> Callable[[], None]:
        """Return a function that builds a node by rule or definition; Refusal if none covers it."""
        domain = standard(node.domain)
        function = self.functions.get((domain, node.op_type, overload(node)))
        if function is not None:
            usual = {a.name: a for a in function.attribute_proto}
            return lambda: self._inlined(names, node, function, usual, found)
        coverage = RULES.get((domain, node.op_type))
        version, opset, problem = 0, names.opset(domain), UNCOVERED_OPERATION
        schema = schema_of(node.op_type, opset, domain)
        if schema is not None:
            version = int(schema.since_version)
        elif coverage is not None and domain not in ("", "ai.onnx.ml"):
            version = max((v for v in coverage.versions if v <= opset), default=1)
        elif coverage is not None and 0 not in coverage.versions:  # 0: outside the standard
            raise Refusal("this operation set does not have the operation")
        view = self._view(names, node, version, found)
        if coverage is not None and version in coverage.versions:
            return lambda: self._by_rule(names, node, view)
        if coverage is not None:
            problem = f"version {version} of the operation is not covered"
        own = lookup(node.op_type, domain) if coverage is None and domain else None
        if own is not None:
            return lambda: self._by_class(names, view, own)
        if domain == "com.microsoft.nchwc":
            problem += "; ORT_ENABLE_ALL saves for one processor, ORT_ENABLE_EXTENDED for all"
        if schema is None and coverage is None and domain == "":
            problem = asking(problem, node.op_type, {kind for of, kind in RULES if not of})
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            raise Refusal(problem)
        return lambda: self._by_definition(names, node, schema, found)

    def _view(
        self, names: Names, node: Any, version: int, found: Sequence[Found | None]
    ) -> OnnxNode:
        sequences = {i: v for i, v in enumerate(found) if isinstance(v, ValueSequence)}
        return OnnxNode(
            type=node.op_type,
            name=names.prefix + title_of(node),
            version=version,
            attributes={
                k: plain_attribute(a) for k, a in names.given(node).items() if k not in IGNORED
            },
            inputs=tuple(v if isinstance(v, Value) else None for v in found),
            sequences=sequences,
            outputs=tuple(node.output),
            semantics=self.semantics,
            bodies=InnerGraphs(self, names, node),
        )

    def _by_rule(self, names: Names, node: Any, view: OnnxNode) -> None:
        """Apply the rule and give its results their names."""
        names.builder.begin(view.name)
        domain = standard(node.domain)
        made = RULES[domain, node.op_type].rule(view, names.builder)
        results = (made,) if isinstance(made, Value | ValueSequence) else made
        view.refuse_rest()
        schema = schema_of(node.op_type, names.opset(domain), domain)
        newer = [] if schema is None else [k for k in view.attributes if k not in schema.attributes]
        if newer:
            raise Refusal(f"version {view.version} has no attribute {', '.join(newer)}")
        if any(view.wants(i) for i in range(len(results), len(view.outputs))):
            raise Refusal(f"more outputs than {len(results)} are not covered")
        for text in view.remarks:
            message = f"{self._title(names, node)}: {text}"
            self.out.add("W303", message, location=self.location, layer=names.owner or view.name)
        self.keep(names, view.name, view.outputs, results)

    def _by_class(self, names: Names, view: OnnxNode, cls: type[Op]) -> None:
        """Add the operation of an extension whose version is the node's domain."""
        names.builder.begin(view.name)
        results = names.builder.outputs(operation(cls, view.attributes), *view.given)
        self.keep(names, view.name, view.outputs, results)

    def keep(
        self, names: Names, layer: str, outputs: Sequence[str], results: Sequence[Found | None]
    ) -> None:
        """Give a layer's results their names, in the model's own graph as tensor names too."""
        first = results[0] if results else None
        if isinstance(first, Value):
            names.builder.own(first, layer=layer)
        for name, value in zip(outputs, results, strict=False):
            if name and isinstance(value, Value) and names.outer is None and not names.owner:
                alone = name in self.results
                names.values[name] = names.builder.bind(value, name, alone=alone)
            elif name:
                names.values[name] = value

    def _by_definition(
        self, names: Names, node: Any, schema: Any, found: Sequence[Found | None]
    ) -> None:
        """Import the nodes of an operation's definition in ONNX."""
        try:
            function = definition(schema, names, node, found)
        except RuntimeError as e:
            raise Refusal(f"its definition fails: {e}") from None
        if function is None:
            raise Refusal(UNCOVERED_OPERATION)
        attributes = {k: a.default_value for k, a in schema.attributes.items()}
        usual = {k: a for k, a in attributes.items() if a.type}
        self._inlined(names, node, function, usual, found)

    def _inlined(
        self,
        names: Names,
        node: Any,
        function: Any,
        usual: Mapping[str, Any],
        found: Sequence[Found | None],
    ) -> None:
        """Import the nodes of a function in place of a call; `usual` are default attributes."""
        given = dict(zip(function.input, found, strict=False))
        if names.depth == DEEPEST:
            raise Refusal(f"functions call each other {DEEPEST} deep")
        layer = names.prefix + title_of(node)
        inner = Names(
            builder=names.builder,
            opsets={**names.opsets, **opsets_of(function.opset_import)},
            values={k: v for k, v in given.items() if v is not None},
            absent=frozenset(k for k in function.input if given.get(k) is None),
            attributes={**usual, **names.given(node)},
            prefix=f"{layer}/",
            title=f"{self._title(names, node)}, in its definition: ",
            owner=names.owner or layer,
            body=function,
            depth=names.depth + 1,
        )
        self.nodes(inner, function.node)
        names.builder.begin(layer)
        self.keep(names, layer, node.output, [inner.values.get(o) for o in function.output])


@dataclass
class Captured:
    """Brings values from outside into a body: constants as its own, others as Parameters."""

    outside: ImportBuilder
    inside: ImportBuilder
    layer: str
    found: dict[Value, Value] = field(default_factory=dict)

    def __call__(self, value: Value) -> Value:
        """Return the value inside that represents a value from outside."""
        known, spec = constant(self.outside.graph, value), self.outside.spec(value)
        if known is not None:
            return self.inside.const(known, spec.dtype)
        if value not in self.found:
            name = f"{self.layer}/outside/{len(self.found)}"
            self.found[value] = self.inside.stand_in(name, spec)
        return self.found[value]


@dataclass(frozen=True)
class InnerGraphs(Bodies):
    """The graphs that a node holds, for its rule."""

    reader: NodeReader
    names: Names
    node: Any

    def _names(self, body: Any, builder: ImportBuilder) -> Names:
        outside, layer = self.names, self.names.prefix + title_of(self.node)
        return Names(
            builder=builder,
            opsets=outside.opsets,
            tensors=self.reader.tensors(body),
            body=body,
            attributes=outside.attributes,
            prefix=f"{layer}/",
            title=f"{self.reader._title(outside, self.node)}, in its body: ",
            owner=outside.owner or layer,
            depth=outside.depth,
            outer=outside,
        )

    def inline(self, body: Any, inputs: Sequence[Found] = ()) -> tuple[Found, ...]:
        """Import the nodes of a GraphProto in place; return its outputs."""
        builder = self.names.builder
        inner = self._names(body, builder)
        require_one_length(inputs_of_the_body=body.input, values=inputs)
        inner.values |= {i.name: v for i, v in zip(body.input, inputs, strict=True)}
        kept = builder.source, builder.made
        self.reader.nodes(inner, body.node)
        builder.source, builder.made = kept
        return self._outputs(body, inner)

    def branches(self, bodies: Sequence[Any]) -> list[ImportedBody | str]:
        """Import GraphProtos without inputs; one that does not fit is its error, unless all are."""
        out, misfits, made = self.reader.out, self.reader.misfits, list[ImportedBody | str]()
        start, count, ends = len(out.diagnostics), out.error_count, [len(misfits)]
        for body in bodies:
            before = len(out.errors)
            try:
                made.append(self.graph(body, ()))
            except Reported:
                made += [d.message for d in out.errors[before : before + 1]]
            ends.append(len(misfits))
        if any(a == b for a, b in pairwise(ends)):
            del misfits[ends[0] :]
        found = out.diagnostics[start:]
        codes = {d.code for d in found if d.severity == "error"}
        fits = any(isinstance(one, ImportedBody) for one in made) and len(made) == len(bodies)
        if not fits or not all("E300" <= code <= "E306" for code in codes):
            raise Reported
        out.diagnostics[start:] = [d for d in found if d.severity != "error"]
        out.error_count = count
        return made

    def _outputs(self, body: Any, inner: Names) -> tuple[Found, ...]:
        found = [self.reader.value(inner, o.name) for o in body.output]
        missing = [o.name for o in body.output if not inner.knows(o.name)]
        if missing:
            raise Refusal(f'the output "{missing[0]}" of its body has no producer')
        if any(v is None for v in found):
            raise Reported
        return tuple(v for v in found if v is not None)

    def graph(
        self, body: Any, entries: Sequence[Entry], axes: Mapping[int, int | None] | None = None
    ) -> ImportedBody:
        """Import a GraphProto; outputs of `axes` get one of size 1 there, or lose all (None)."""
        outside, layer = self.names.builder, self.names.prefix + title_of(self.node)
        builder = outside.inner(layer)
        inner, graph = self._names(body, builder), builder.graph
        if len(body.input) != len(entries):
            raise Refusal(f"its body has {len(body.input)} inputs for {len(entries)}")
        parameters = []
        for item, entry in zip(body.input, entries, strict=True):
            value, parameter = _enter(builder, item.name, entry)
            inner.values[item.name] = value
            parameters.append(parameter)
        captured = Captured(outside, builder, layer)
        inner.capture = captured
        self.reader.nodes(inner, body.node)
        outputs = self._outputs(body, inner)
        builder.begin(f"{layer}/outputs")
        for at, end in enumerate(outputs):
            if not isinstance(end, Value):
                raise Refusal(f'the output "{body.output[at].name}" of its body is a sequence')
            if axes is not None and at in axes:
                axis = axes[at]
                end = builder.as_scalar(end, inf) if axis is None else builder.unsqueeze(end, axis)
            builder.result(end, f"{layer}/{at}")
        results = tuple(n.id for n in graph.results)
        builder.finish()
        pairs = tuple((v.node, k) for k, v in captured.found.items())
        return ImportedBody(graph, tuple(parameters), results, pairs)


def _enter(builder: ImportBuilder, name: str, entry: Entry) -> tuple[Value, int | None]:
    """Return an input of a body as its nodes see it, and its Parameter."""
    spec = entry.spec
    if entry.constant is not None:
        return builder.const(entry.constant, spec.dtype), None
    value = builder.stand_in(name, spec)
    if entry.axis is None:
        return value, value.node
    return builder.add(Squeeze1(), value, builder.ints(entry.axis)), value.node


def label(node: Any) -> str:
    """Return an operation with its domain."""
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


@lru_cache(maxsize=4096)
def schema_of(type: str, opset: int, domain: str) -> Any:
    """Return the schema of an operation in an operation set; None if onnx has none."""
    defs = onnx_module("onnx.defs")
    if not (isinstance(type, str) and isinstance(domain, str)):  # damaged text is bytes
        return None
    try:
        return defs.get_schema(type, min(max(opset, 0), LATEST), domain)
    except defs.SchemaError:
        return None


def definition(schema: Any, names: Names, node: Any, found: Sequence[Found | None]) -> Any:
    """Return the FunctionProto that defines a node for the element types of its inputs, or None."""
    onnx, opset = onnx_module(), names.opset(schema.domain)

    def newest(versions: Sequence[int]) -> int:
        return max([v for v in versions if v <= opset], default=min(versions, default=0))

    text = b""
    if schema.has_context_dependent_function:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [i if v is not None else "" for i, v in zip(node.input, found, strict=True)]
        del copy.attribute[:]
        for name, attribute in names.given(node).items():
            copy.attribute.add().CopyFrom(attribute)
            copy.attribute[-1].name = name
        types = [type_proto(names.builder, v).SerializeToString() for v in found]
        version = newest(schema.context_dependent_function_opset_versions)
        text = schema.get_context_dependent_function_with_opset_version(
            version, copy.SerializeToString(), types
        )
    elif schema.has_function:
        version = newest(schema.function_opset_versions)
        text = schema.get_function_with_opset_version(version)
    if not text:
        return None
    if not isinstance(text, bytes):
        return text
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    return function


def read_onnx(path: str, data: bytes | Any | None = None, how: Reading | None = None) -> Imported:
    """Read an ONNX model from a file, its bytes or a ModelProto.

    Tensor names stay, node names become layer names. `shapes` makes open input shapes exact.
    Raises UnsupportedError with everything that is not covered, InputError for a bad file,
    InferenceError if shapes do not fit. Needs the package onnx.
    """
    location, how = Location(SourceFile(path, b"")), how or Reading()
    model, files = load(path, data, location)
    done = OnnxReader(location, how.exact_shapes, how.semantics).read(model)
    done.files = files
    return done


class OnnxReader(NodeReader):
    """Builds the graph of one ONNX model."""

    def read(self, model: Any) -> Imported:
        """Import inputs, nodes and outputs; raise all errors at once."""
        graph = model.graph
        self.functions = {(standard(f.domain), f.name, overload(f)): f for f in model.functions}
        outputs = [o.name for o in graph.output]
        self.results = frozenset(outputs)
        opsets = opsets_of(model.opset_import)
        format = f"ONNX, operation set {opsets.get('', 0)}"
        done = self.start(graph.name or "model", format)
        names = Names(builder=self.builder, opsets=opsets, tensors=self.tensors(graph), body=graph)
        if self._check_opsets(opsets):
            self.import_inputs(graph, names)
            done.kinds.update(map(label, graph.node))
            self.nodes(names, graph.node)
            self._outputs(outputs, names)
            if not self.shapes:  # else declarations are of other inputs
                self._compare_declared(graph, names)
        return self.finish(done)

    def _check_opsets(self, opsets: Mapping[str, int]) -> bool:
        latest = onnx_module("onnx.defs").onnx_opset_version()
        opset = opsets.get("", 0)
        if 1 <= opset <= latest or (not opset and opsets):
            return True
        if not opset:
            self.out.malformed("the model names no operation set")
        elif opset < 0:
            self.out.malformed(f"operation set {opset}: the first one is 1")
        else:
            text = f"operation set {opset} is newer than the installed onnx, which knows {latest}"
            self.out.uncovered("", f"{text}: update onnx", "pip install -U onnx")
        return False

    def import_inputs(self, graph: Any, names: Names) -> None:
        """Import the inputs of the model's own graph."""
        inputs = [i for i in graph.input if i.name not in names.tensors]
        given = [i.name for i in inputs]
        if "" in self.shapes and len(given) == 1:
            self.shapes[given[0]] = self.shapes.pop("")
        for item in inputs:
            names.values[item.name] = self._input(item)
        for name in sorted(set(self.shapes) - set(given)):
            text = f'the model has no input "{name}"; it has {", ".join(given)}'
            self.out.add("E310", text, hint=did_you_mean(name, given) or "name one of them")

    def _input(self, item: Any) -> Value | None:
        if item.type.WhichOneof("value") != "tensor_type":
            kind = item.type.WhichOneof("value") or "untyped"
            self.out.uncovered(item.name, f'input "{item.name}" is a {kind}, not a tensor')
            return None
        tensor = item.type.tensor_type
        try:
            dtype = element_type(tensor.elem_type)
        except Refusal as e:
            self.out.uncovered(item.name, f'input "{item.name}": {e}')
            return None
        return self.builder.parameter(item.name, dtype, self.input_shape(item.name, tensor))

    def input_shape(self, name: str, tensor: Any) -> Shape | None:
        """Return the shape of an input: the requested one if its rank fits, else the declared."""
        declared = declared_shape(tensor)
        try:
            require_rank(name, declared, self.shapes.get(name))
        except ValueError as e:
            self.out.add("E310", str(e))
            return declared
        return self.shapes.get(name, declared)

    def _compare_declared(self, graph: Any, names: Names) -> None:
        """Warn if the model declares other shapes of its tensors than the inferred ones.

        Those that follow from another one are counted there.
        """
        tensors = {i.name: i.type.tensor_type for i in (*graph.value_info, *graph.output)}
        texts, same = dict[int, str](), set[int]()
        for name, tensor in tensors.items():
            value, said = names.values.get(name), declared_shape(tensor)
            shape = self.builder.spec(value).shape if isinstance(value, Value) else None
            if isinstance(value, Value) and not compatible(said, shape):
                both = f"declared {format_shape(said)}, but it is {format_shape(shape)}"
                texts.setdefault(value.node, f"the tensor {shown(name)} is {both}")
            elif isinstance(value, Value) and said == shape and is_static(shape):
                same.add(value.node)
        hint = "ONNX Runtime uses the inferred shape; a declaration may be left out"
        for node, behind in self._first(texts, same).items():
            verb = "differs" if behind == 1 else "differ"
            notes = [Note(f"{count(behind, 'tensor')} behind it {verb}, too")] * bool(behind)
            more: Any = {"location": self.location, "hint": hint, "notes": notes}
            self.out.add("W202", texts[node], **more)

    def _first(self, differing: Collection[int], same: Collection[int]) -> dict[int, int]:
        """Return the nodes that differ without another one before, and how many are behind each."""
        graph, of = self.builder.graph, dict[int, int]()
        behind = dict[int, int]()
        for node in graph.topological() if differing else ():
            before = next((of[v.node] for v in graph.inputs_of(node.id) if v.node in of), None)
            if before is not None and node.id not in same:
                of[node.id] = before
                behind[before] += node.id in differing
            elif node.id in differing:
                of[node.id], behind[node.id] = node.id, 0
        return behind

    def _outputs(self, outputs: list[str], names: Names) -> None:
        self.builder.begin("outputs")
        for name in outputs:
            value = self.value(names, name)
            if isinstance(value, Value):
                self.builder.result(value, name)
            elif value is not None:
                self.out.uncovered(name, f'output "{name}" is a sequence, not a tensor')
            elif not names.knows(name):
                self.out.malformed(f'the output "{name}" has no producer', "E204")
