"""Reading ONNX models for a comparison: a node that is not imported stays as an opaque operation.

An opaque operation has the node's type, version, attributes and bodies as canonical text. Names
inside bodies are numbered, and a tensor that a body reads from outside becomes an input. Types and
shapes of its outputs are those that the model declares, or that a filter behind it implies.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from irdeconv.base.errors import Diagnostic, IrdeconvError
from irdeconv.base.source import Location
from irdeconv.formats import onnx_node
from irdeconv.formats.importing import Imported, Refusal
from irdeconv.formats.onnx_container import OnnxFile, every_body, is_external
from irdeconv.formats.onnx_reader import OnnxReader, label, schema_of
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import DYNAMIC, Shape, Spec, bounds, compatible
from irdeconv.ops.basic import ONNX, Opaque
from irdeconv.rewrite.compressed_filters import constant

SMALL_TENSOR = 1 << 16  # bytes: larger tensors are no shapes
# Every runtime computes these alike of constants: it moves, chooses, or rounds once.
EXACT = frozenset(
    """Abs Add And Cast Ceil Clip Concat Constant ConstantOfShape Div Equal Expand Flatten Floor
    Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mul Neg
    Not Or Pad ReduceMax ReduceMin Relu Reshape Round Shape Sign Size Slice Split Sqrt Squeeze
    Sub Tile Transpose Trilu Unsqueeze Where Xor""".split()
)
WINDOWS = ("Conv", "ConvTranspose")
# What ONNX Runtime 1.32 lacks of integers, and of f64; of other types it has little but movements.
_NO_INTEGERS = """Col2Im DepthToSpace Einsum Erf EyeLike Gemm GridSample OneHot PRelu Relu Resize
    SpaceToDepth Trilu Unique"""
_NO_F64 = """Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli Clip Col2Im
    Conv ConvTranspose Cosh Det Elu Erf Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample
    HardSigmoid HardSwish Hardmax InstanceNormalization LRN LeakyRelu LpPool MaxRoiPool MaxUnpool
    Mean MeanVarianceNormalization Mish Multinomial NonZero OneHot PRelu RNN Resize RoiAlign Selu
    Sinh Softplus Softsign Tan ThresholdedRelu"""
LACKING = {
    **dict.fromkeys(("f16", "f32", "string"), frozenset[str]()),
    **dict.fromkeys(("boolean", "i64", "i32", "i8", "u8"), frozenset(_NO_INTEGERS.split())),
    "f64": frozenset(_NO_F64.split()),
}
MOVING = frozenset(
    """Cast Concat DequantizeLinear Flatten Gather GatherElements GatherND Identity QuantizeLinear
    Reshape Shape Slice Split Squeeze Transpose Unsqueeze""".split()
)
UNKNOWN = Spec(None, None)
_UNUSED = ("name", "doc_string", "value_info", "metadata_props", "quantization_annotation")


class LenientReader(OnnxReader):
    """Builds the graph of one ONNX model without refusing nodes.

    `ranks` are the specs that inputs without a shape must have because of filters. With `believe`
    opaque operations have the types and shapes that the model declares, listed in `assumed`.
    `wrong` lists declarations that inference contradicts, `misfits` the errors in shapes and types
    of nodes that became opaque, `lacking` what ONNX Runtime does not compute. `silent` has the
    text of nodes without outputs, which the graph cannot hold.
    """

    ranks: Mapping[str, Spec] = {}
    believe = False
    sketch = False

    def read(self, model: Any) -> Imported:
        """Import a model as it is executed: an initializer that may be replaced is an input."""
        graph = model.graph
        self._inputs = {i.name for i in graph.input} if model.ir_version >= 4 else set()
        self.specs: dict[int, dict[str, Spec]] = {}
        self.exact: dict[str, Spec] = {}  # of the model's own graph, with values
        self._inexact: set[Value] = set()
        self._types: dict[str, set[ElementType | None]] = {}  # that an unknown one may be
        self.silent: list[str] = []
        self.assumed: list[str] = []
        self.wrong: list[str] = []
        self.misfits: list[Diagnostic] = []
        self.lacking: dict[str, str] = {}  # by the element type, if it matters
        self._declared = declarations(graph)
        self._implied = implied(graph)
        return super().read(model)

    def tensors(self, graph: Any) -> dict[str, Any]:
        """Return the initializers of a graph that are constants."""
        count = len(self.out.diagnostics)
        found = super().tensors(graph)
        self.misfits += [d for d in self.out.diagnostics[count:] if d.code == "E302"]
        return {n: t for n, t in found.items() if n not in self._inputs}

    def initializer(self, names: onnx_node.Names, name: str) -> Value | None:
        """Return a constant; a large one, of a sketch, by its type and shape only."""
        tensor = names.tensors[name]
        if not self.sketch or (tensor.ByteSize() <= SMALL_TENSOR and not is_external(tensor)):
            return super().initializer(names, name)
        try:
            spec = Spec(onnx_node.element_type(tensor.data_type), tuple(tensor.dims))
        except Refusal:
            return super().initializer(names, name)
        return names.builder.declared(Opaque("onnx.tensor", ONNX, declared=(spec,)), ())[0]

    def nodes(self, names: onnx_node.Names, nodes: Sequence[Any]) -> None:
        """Import nodes, and note the specs of all names; calls and rounds are joined.

        Declarations are compared with the inferred specs.
        """
        super().nodes(names, nodes)
        known = self.specs.setdefault(id(names.body), {})
        for name, value in names.values.items():
            spec = names.builder.spec(value) if isinstance(value, Value) else UNKNOWN
            known[name] = _joined(known.get(name, spec), spec)
            if spec.known is not None and names.outer is None and not names.owner:
                self.exact[name] = spec
        for name, tensor in names.tensors.items():
            with suppress(Refusal):
                known.setdefault(
                    name, Spec(onnx_node.element_type(tensor.data_type), tuple(tensor.dims))
                )
        parts = [getattr(names.body, key, ()) for key in ("value_info", "output")]
        items = (i for part in parts for i in part if hasattr(i, "type") and i.name in known)
        for item in items:
            said, spec = _spec(item), known[item.name]
            types = self._types.get(item.name) if spec.dtype is None else {spec.dtype}
            right = said.dtype is None or types is None or said.dtype in types
            if not (right and compatible(spec.shape, said.shape)):
                self.wrong.append(f'"{item.name}" is {spec}, which its file declares as {said}')

    def input_shape(self, name: str, tensor: Any) -> Shape | None:
        """Return the shape of an input: the declared one, else the open one that filters imply."""
        found = super().input_shape(name, tensor)
        return self.ranks[name].shape if found is None and name in self.ranks else found

    def import_node(
        self, names: onnx_node.Names, node: Any, found: Sequence[onnx_node.Found | None]
    ) -> None:
        """Import a node by its rule or definition; if that fails, as an opaque operation."""
        self.wrong += NodeText(names, node).wrong_types(found)
        self.lacking |= NodeText(names, node).lacking(found)
        before, errors = len(self.out.diagnostics), self.out.error_count
        super().import_node(names, node, found)
        failed = self.out.error_count > errors
        if failed:
            said = self.out.diagnostics[before:]
            self.misfits += [d for d in said if "E301" <= d.code <= "E306"]
            del self.out.diagnostics[before:]
            self.out.error_count = errors
        if failed or not self._folds_surely(names, node, found):
            self._keep_opaque(names, node, found)

    @np.errstate(all="ignore")
    def _folds_surely(
        self, names: onnx_node.Names, node: Any, found: Sequence[onnx_node.Found | None]
    ) -> bool:
        """Whether every runtime folds a node to the same constants, if it is one.

        Numbers of inexact functions may differ in the last place, so they must decide nothing. ONNX
        leaves open the result of a Cast or Pow beyond the range of its integers.
        """
        graph = names.builder.graph
        if node.op_type == "Gather" and not self._gathers_inside(names, node, found):
            return False
        made = [v for o in node.output if isinstance(v := names.values.get(o), Value)]
        read = [v for v in found if isinstance(v, Value)]
        inexact = node.op_type not in EXACT or any(v in self._inexact for v in read)
        for value in made:
            result, dtype = constant(graph, value), names.builder.spec(value).dtype
            if result is None or dtype is None:
                continue
            if dtype.is_real:
                self._inexact |= {value} if inexact and read else set()
                continue
            if any(v in self._inexact for v in read):
                return False
            arrays = [a for v in read if (a := constant(graph, v)) is not None]
            real = node.op_type == "Cast" and arrays[0].dtype.kind in "fV"  # V: bf16
            if real or node.op_type == "Pow":
                wide = [a.astype(np.float64) for a in arrays]
                wanted = wide[0] if real else np.power(*wide)
                truth = wanted != 0 if dtype.kind == "bool" else np.trunc(wanted)
                if np.isnan(wanted).any() or not np.array_equal(truth, result):
                    return False
        return True

    @staticmethod
    def _gathers_inside(
        names: onnx_node.Names, node: Any, found: Sequence[onnx_node.Found | None]
    ) -> bool:
        """Whether constant indices are not surely outside: there OpenVINO has 0, others nothing."""
        read = [v for v in found if isinstance(v, Value)]
        shape = names.builder.spec(read[0]).shape if len(read) == 2 else None
        places = constant(names.builder.graph, read[1]) if shape else None
        if shape is None or places is None or not places.size:
            return True
        axis = names.given(node).get("axis")
        size = bounds(shape[axis.i if axis else 0])[1]
        return size is None or bool((places >= -size).all() and (places < size).all())

    def _keep_opaque(
        self, names: onnx_node.Names, node: Any, found: Sequence[onnx_node.Found | None]
    ) -> None:
        text = NodeText(names, node)
        data = {"inputs": " ".join(map(text.port, found)), **text.attributes()}
        outside = [self.value(names, name) for name in text.outside]
        if len(found) < len(node.input) or any(v is None for v in outside):
            return  # a name has no producer, which was reported
        data["outside"] = " ".join(map(text.port, outside))
        layer, rows = names.prefix + onnx_node.title_of(node), tuple(sorted(data.items()))
        if not any(node.output):
            self.silent.append(f'{label(node)} "{layer}" {" ".join(node.input)} {rows}')
            return
        specs = [Spec(t, None) for t in text.element_types(found)]
        if names.outer is None and not names.owner:
            specs = [self._refined(*pair) for pair in zip(node.output, specs, strict=True)]
        self._types |= text.possible_types()
        version = f"{ONNX}{onnx_node.standard(node.domain)}/{text.version}"
        names.builder.begin(layer)
        made = Opaque(f"onnx.{node.op_type}", version, rows, tuple(specs))
        self.keep(names, layer, node.output, names.builder.declared(made, text.inputs))

    def _refined(self, name: str, inferred: Spec) -> Spec:
        """Return the best spec of an output: inferred, implied by filters, or declared."""
        sure = self._implied.get(name, inferred)
        said = self._declared.get(name, sure)
        if not self.believe or said in (sure, UNKNOWN) or said.shape is None:
            return sure
        self.assumed.append(f'"{name}" is {said}, as its file declares')
        return said


def sketched(model: Any, location: Location) -> LenientReader:
    """Read a model without the data of large tensors; `specs` has the known specs by name."""
    reader = LenientReader(location, {}, "runtime")
    reader.sketch = True
    with suppress(IrdeconvError):  # others report malformed models
        reader.read(model)
    return reader


def _joined(a: Spec, b: Spec) -> Spec:
    """Return the common part of two specs, without a value."""
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        rows = zip(a.shape, b.shape, strict=True)
        shape = tuple(m if m == n else DYNAMIC for m, n in rows)
    return Spec(a.dtype if a.dtype == b.dtype else None, shape)


def _spec(item: Any) -> Spec:
    """Return the spec in a ValueInfoProto."""
    try:
        tensor = item.type.tensor_type
        return Spec(onnx_node.element_type(tensor.elem_type), onnx_node.declared_shape(tensor))
    except Refusal:
        return UNKNOWN


def implied(graph: Any, outside: Mapping[str, Any] | None = None) -> dict[str, Spec]:
    """Return the type and rank that data must have because of the filters behind them.

    The first states of a Loop that surely runs are included; `outside` has the
    initializers around a body.
    """
    filters = {**(outside or {}), **{t.name: t for t in graph.initializer}}
    out = {}
    for node in graph.node:
        known = node.op_type in WINDOWS and node.domain in (*onnx_node.STANDARD, onnx_node.NHWC)
        if known and len(node.input) > 1 and node.input[1] in filters:
            tensor = filters[node.input[1]]
            with suppress(Refusal):
                spec = Spec(onnx_node.element_type(tensor.data_type), (DYNAMIC,) * len(tensor.dims))
                out[node.input[0]] = spec
        for _, body in onnx_node.bodies(node) if _surely_runs(node, filters) else ():
            inner = implied(body, filters)
            pairs = zip(node.input[2:], body.input[2:], strict=False)
            out |= {name: inner[i.name] for name, i in pairs if i.name in inner}
    return out


def declarations(graph: Any) -> dict[str, Spec]:
    """Return a graph's declarations of its tensors, and those of states in bodies of Loops."""
    out = {i.name: _spec(i) for i in (*graph.value_info, *graph.output)}
    for node in (n for n in graph.node if n.op_type == "Loop"):
        for _, body in onnx_node.bodies(node):
            pairs = zip(node.input[2:], body.input[2:], strict=False)
            out = {**{name: _spec(i) for name, i in pairs}, **out}
    return out


def _surely_runs(node: Any, constants: Mapping[str, Any]) -> bool:
    """Whether a node is a Loop without a condition that runs once or more."""
    if node.op_type != "Loop" or node.domain not in onnx_node.STANDARD or len(node.input) < 2:
        return False
    times = constants.get(node.input[0])
    with suppress(Refusal, ValueError):
        return times is not None and not node.input[1] and onnx_node.to_array(times)[0].min() > 0
    return False


@dataclass
class NodeText:
    """The canonical text of a node in a graph with `names`; `inputs` are those to be given to it.

    `outside` are the names that its bodies read from outside, in the order of their first use.
    """

    names: onnx_node.Names
    node: Any
    inputs: list[Value] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    _numbers: int = 0

    def port(self, found: onnx_node.Found | None) -> str:
        """Add an input, a sequence of tensors or nothing; return the text of it."""
        if found is None:
            return "-"
        items = found.items if isinstance(found, onnx_node.ValueSequence) else (found,)
        self.inputs += items
        return f"[{len(items)}]" if isinstance(found, onnx_node.ValueSequence) else "+"

    @property
    def version(self) -> int:
        """The operation's version, of a domain without schemas the operation set's."""
        if self.schema is None:
            return self.names.opset(onnx_node.standard(self.node.domain))
        return int(self.schema.since_version)

    @cached_property
    def schema(self) -> Any:
        """The operation's schema; None if onnx has none."""
        domain = onnx_node.standard(self.node.domain)
        return schema_of(self.node.op_type, self.names.opset(domain), domain)

    def element_types(self, found: Sequence[onnx_node.Found | None]) -> list[ElementType | None]:
        """Return the element types of the outputs that follow from the operation's definition."""
        count = len(self.node.output)
        if self.schema is None:
            return [None] * count
        known = {p.type_str: t for p, t in self._typed(found) if p.is_homogeneous}
        types = [p.type_str for p in self.schema.outputs] or [""]
        types += types[-1:] * (count - len(types))
        return [known.get(t, onnx_node.SCHEMA_TYPES.get(t)) for t in types[:count]]

    def possible_types(self) -> dict[str, set[ElementType | None]]:
        """Return the element types that the definition allows for each output."""
        ports = [] if self.schema is None else list(self.schema.outputs)
        ports += ports[-1:] * (len(self.node.output) - len(ports))
        pairs = zip(self.node.output, ports, strict=False)
        return {name: {onnx_node.SCHEMA_TYPES.get(t) for t in port.types} for name, port in pairs}

    def wrong_types(self, found: Sequence[onnx_node.Found | None]) -> Iterator[str]:
        """Yield the element types of inputs that the operation's definition does not allow."""
        known: dict[str, ElementType] = {}
        for port, found_type in [] if self.schema is None else self._typed(found):
            names = {t for t in port.types if onnx_node.SCHEMA_TYPES.get(t) == found_type}
            first = known.setdefault(port.type_str, found_type) if port.is_homogeneous else None
            if not names or first not in (found_type, None):
                yield f"{self.node.op_type} reads {found_type} as {port.name}"

    def lacking(self, found: Sequence[onnx_node.Found | None]) -> dict[str, str]:
        """Return what ONNX Runtime does not compute of the node, by the element type."""
        name, ends, typed = self.node.op_type, set[str](), list[tuple[Any, ElementType]]()
        if self.schema is not None:
            ports = (*self.schema.inputs[:1], *self.schema.outputs[:1])
            ends, typed = {p.type_str for p in ports}, list(self._typed(found))
        out = {
            t.name: f"{name} of {t} is not in ONNX Runtime"
            for port, t in typed
            if port.type_str in ends
            and (name in LACKING[t.name] if t.name in LACKING else name not in MOVING)
        }
        odd = self._is_odd(found)
        return out | (
            {"": f"ONNX Runtime does not run {onnx_node.title_of(self.node)}"} if odd else {}
        )

    def _is_odd(self, found: Sequence[onnx_node.Found | None]) -> bool:
        """Whether ONNX Runtime would end at ranks, sizes or attributes that irdeconv takes."""
        name, given = self.node.op_type, self.names.given(self.node)
        specs = [self.names.builder.spec(v) if isinstance(v, Value) else UNKNOWN for v in found]
        second, third = (s.shape for s in [*specs, UNKNOWN, UNKNOWN, UNKNOWN][1:3])
        if name == "Transpose":
            return "perm" in given and not given["perm"].ints
        if name == "Dropout":
            ratio = specs[1].known if len(specs) > 1 else None
            return ratio is not None and not ((ratio >= 0) & (ratio < 1)).all()
        if name == "Conv" and second and third is not None and third != second[:1]:
            return True
        same = "auto_pad" in given and given["auto_pad"].s.startswith(b"SAME")
        if same and name != "ConvTranspose" and "dilations" in given:
            return bool({*given["dilations"].ints} - {1})
        return name.startswith(("Reduce", "Squeeze")) and second == ()

    def _typed(self, found: Sequence[onnx_node.Found | None]) -> Iterator[tuple[Any, ElementType]]:
        """Yield the declaration and element type of each input whose type is known."""
        inputs = self.schema.inputs
        for at, value in enumerate(found):
            if isinstance(value, Value) and inputs:
                port = inputs[min(at, len(inputs) - 1)]
                spec = self.names.builder.spec(value)
                if spec.dtype is not None:
                    yield port, spec.dtype

    def attributes(self) -> dict[str, str]:
        """Return the text of each attribute that differs from its default, and the overload."""
        usual = {} if self.schema is None else self.schema.attributes
        out = {"/overload": onnx_node.overload(self.node)}
        for name, given in self.names.given(self.node).items():
            default = usual[name].default_value if name in usual else None
            if default is None or not default.type or self._text(default) != self._text(given):
                out[name] = self._text(given)
        return out

    def _text(self, a: Any) -> str:
        """Return an attribute's value as text; tensors and graphs as a hash."""
        value = onnx_node.plain_attribute(a)
        if not hasattr(value, "SerializeToString"):
            return repr((a.type, value))
        if value is a:
            value = type(a)()
            value.CopyFrom(a)
            value.ClearField("name")
            value.ClearField("doc_string")
        elif value.DESCRIPTOR.name == "TensorProto":
            value = _plain_tensor(value)
        elif value.DESCRIPTOR.name == "GraphProto":
            value = self._body(value, {})
        data = value.SerializeToString(deterministic=True)
        return f"{a.type} {hashlib.sha256(data).hexdigest()}"

    def _body(self, graph: Any, around: Mapping[str, str]) -> Any:
        """Return a graph with numbered names, without fields that change no result."""
        out = type(graph)()
        out.CopyFrom(graph)
        for name in _UNUSED:
            out.ClearField(name)
        local = dict(around)
        made = [i.name for i in (*out.input, *out.initializer)]
        made += [o for n in out.node for o in n.output if o]
        for name in dict.fromkeys(made):
            self._numbers += 1
            local[name] = f"inside {self._numbers}"
        for item in out.input:
            if item.type.HasField("tensor_type"):
                item.type.tensor_type.ClearField("shape")
            _keep_only(item, ("type",), name=local[item.name])
        for at, tensor in enumerate(out.initializer):
            name = local[tensor.name]
            out.initializer[at].CopyFrom(_plain_tensor(tensor))
            out.initializer[at].name = name
        for node in out.node:
            self._rename(node, local)
        for item in out.output:
            _keep_only(item, (), name=self._named(item.name, local))
        return out

    def _rename(self, node: Any, local: Mapping[str, str]) -> None:
        node.input[:] = [i and self._named(i, local) for i in node.input]
        node.output[:] = [o and local[o] for o in node.output]
        given = self.names.given(node)
        rows = []
        for name in sorted(given):
            row = type(node.attribute[0])(name=name, type=given[name].type)
            row.CopyFrom(given[name])
            row.name = name
            row.ClearField("doc_string")
            if row.HasField("t"):
                row.t.CopyFrom(_plain_tensor(row.t))
            rows.append(row)
        _keep_only(
            node, ("input", "output", "op_type", "overload"), domain=onnx_node.standard(node.domain)
        )
        node.attribute.extend(rows)
        for _, body in onnx_node.bodies(node):
            body.CopyFrom(self._body(body, local))

    def _named(self, name: str, local: Mapping[str, str]) -> str:
        if name in local:
            return local[name]
        if name not in self.outside:
            self.outside.append(name)
        return f"outside {self.outside.index(name)}"


def _keep_only(message: Any, fields: Sequence[str], **more: str) -> None:
    """Clear all fields of a message but some, and set others."""
    for descriptor, _ in message.ListFields():
        if descriptor.name not in fields:
            message.ClearField(descriptor.name)
    for name, text in more.items():
        setattr(message, name, text)


def _plain_tensor(tensor: Any) -> Any:
    """Return a TensorProto with its data as bytes, without a name; as it is if it has no such."""
    helper = onnx_node.onnx_module("onnx.numpy_helper")
    out = type(tensor)(data_type=tensor.data_type, dims=tensor.dims)
    array = None
    if not is_external(tensor):  # the package onnx would open any file
        with suppress(ValueError, TypeError, KeyError):
            array = helper.to_array(tensor)
    if array is None or array.dtype.kind in "OSU":
        out.CopyFrom(tensor)
        out.ClearField("name")
        out.ClearField("doc_string")
        return out
    out.raw_data = array.tobytes()
    return out


def loaded(model: OnnxFile) -> Any:
    """Return a copy of a ModelProto with all its data inside."""
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    replace(model, proto=proto).fill()
    return proto


def unused(model: Any) -> Counter[bytes]:
    """Return the nodes of a model that no output of their graph needs, without their names."""
    out: Counter[bytes] = Counter()
    for body in every_body(model.graph, *model.functions):
        needed = {str(getattr(o, "name", o)) for o in body.output}
        for node in reversed(onnx_node.in_order(body.node)):
            if needed.intersection(node.output) or not any(node.output):
                needed.update(onnx_node.read_by(node))
                continue
            bare = type(node)()
            bare.CopyFrom(node)
            _keep_only(bare, ("input", "output", "op_type", "domain", "overload", "attribute"))
            out[bare.SerializeToString(deterministic=True)] += 1
    return out


def misfits(model: Any) -> list[str]:
    """Return how nodes of ONNX's own domains break the schemas and rules of their operations."""
    out = list[str]()
    for outermost in (model.graph, *model.functions):
        opsets = onnx_node.opsets_of((*model.opset_import, *getattr(outermost, "opset_import", ())))
        for body in every_body(outermost):
            out += _ends(body, inner=body is not model.graph)
            for node in body.node:
                domain = onnx_node.standard(node.domain)
                schema = schema_of(node.op_type, opsets.get(domain, 0), domain)
                found = [] if schema is None else _misfits(node, schema)
                known = schema or domain or any(f.name == node.op_type for f in model.functions)
                found += [] if known else ["is in no operation set"]
                if node.domain not in ("", domain) and body is not model.graph:
                    found.append(f"names the domain {node.domain} in a body or function")
                out += [f"{node.op_type} {text}" for text in found]
    return out


def _ends(body: Any, *, inner: bool) -> list[str]:
    """Return names of several nodes, and outputs of an inner graph that are from outside."""
    names = Counter(n.name for n in body.node if n.name)
    out = [f'"{name}" is the name of {k} nodes' for name, k in names.items() if k > 1]
    if inner and hasattr(body, "initializer"):
        made = {o for n in body.node for o in n.output}
        made |= {i.name for i in (*body.input, *body.initializer)}
        outer = (o.name for o in body.output if o.name not in made)
        out += [f'"{name}" comes from outside of the body that returns it' for name in outer]
    return out


def _misfits(node: Any, schema: Any) -> list[str]:
    given = {a.name: a.type for a in node.attribute}
    kinds = {n: int(a.type.value) for n, a in schema.attributes.items()}
    # ONNX Runtime needs hidden_size, which ONNX does not.
    needed = (n for n, a in schema.attributes.items() if a.required or n == "hidden_size")
    lacks = [n for n in needed if n not in given]
    out = [f"has the attribute {n}" for n, t in given.items() if kinds.get(n) not in (t, None)]
    out += [f"has the attribute {n}" for n in given if n not in (*kinds, "consumed_inputs")]
    out += [f"has no attribute {n}" for n in lacks]
    out += ["has an attribute twice"] * (len(given) < len(node.attribute))
    pairs = zip(schema.inputs, node.input, strict=False)
    out += [f"lacks {p.name}" for p, name in pairs if not name and p.option == p.option.Single]
    for what, most, least in (
        (node.input, schema.max_input, schema.min_input),
        (node.output, schema.max_output, schema.min_output),
    ):
        if not least <= len(what) <= most:
            out.append(f"has {len(what)} inputs or outputs")
    return out + ["is not in this operation set any more"] * schema.deprecated
