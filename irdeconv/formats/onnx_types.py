"""Types and shapes of ONNX tensors, pieces of models as graphs, and checks of nodes for a target.

For a target, nodes count as OpenVINO's operations: Conv is Convolution, or GroupConvolution if it
has groups. Nodes without a counterpart keep their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import Diagnostic, OpError, misused
from irdeconv.base.source import Location
from irdeconv.formats import onnx_node
from irdeconv.formats.importing import Refusal
from irdeconv.formats.onnx_container import OnnxFile, Scope, scopes
from irdeconv.formats.onnx_opaque import UNKNOWN, sketched
from irdeconv.formats.onnx_reader import OnnxReader
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, Spec
from irdeconv.ops.catalog import spelling
from irdeconv.ops.dialect_onnx import ConvTranspose11
from irdeconv.rewrite import targets
from irdeconv.rewrite.infer_specs import require_rank
from irdeconv.rewrite.target_conditions import Facts, Number
from irdeconv.rewrite.targets import Target, Tensors, Violation


@dataclass
class Types:
    """Types and shapes in a model's scopes: those that importing found, and those declared."""

    found: Mapping[int, Mapping[str, Spec]]  # by the id of a graph or function
    misfits: Sequence[Diagnostic] = ()  # nodes whose inputs do not fit
    exact: Mapping[str, Spec] = field(default_factory=dict)  # of the model's graph, with values
    _said: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, scope: Scope, name: str) -> tuple[Any, bool]:
        """Return the TypeProto.Tensor of a name, and whether that rests on a declaration."""
        owner = scope.owner(name)
        if owner is None:
            return None, False
        body = owner.body
        stored = owner.initializers.get(name)
        if stored is not None:
            return _tensor(stored.data_type, stored.dims), False
        sure = tensor_type(self.found.get(id(body), {}).get(name))
        said = self._declared(body).get(name)
        better = said is not None and _known(said) > _known(sure)
        return (said, True) if better else (sure, False)

    def spec(self, scope: Scope, name: str) -> Spec:
        """Return the element type and shape of a name, as far as known."""
        tensor, _ = self.of(scope, name)
        if tensor is None:
            return UNKNOWN
        with suppress(Refusal):
            return Spec(onnx_node.element_type(tensor.elem_type), onnx_node.declared_shape(tensor))
        return Spec(None, onnx_node.declared_shape(tensor))

    def _declared(self, body: Any) -> dict[str, Any]:
        """Return a graph's declarations of its tensors; a function declares nothing."""
        if id(body) not in self._said:
            parts = ("value_info", "output", "input") if hasattr(body, "initializer") else ()
            self._said[id(body)] = {
                i.name: i.type.tensor_type
                for part in parts
                for i in getattr(body, part)
                if i.type.HasField("tensor_type") and i.type.tensor_type.elem_type
            }
        return self._said[id(body)]


def _tensor(element: int, shape: Iterable[Any] | None) -> Any:
    """Return a TypeProto.Tensor, whose dimensions are open but for integers."""
    out = onnx_node.onnx_module().TypeProto.Tensor(elem_type=element)
    return out if shape is None else onnx_node.set_shape(out, shape)


def tensor_type(spec: Spec | None) -> Any:
    """Return the type of a spec; None without an element type."""
    if spec is None or spec.dtype is None:
        return None
    return _tensor(onnx_node.onnx_type(spec.dtype), spec.shape)


def _known(tensor: Any) -> tuple[int, int]:
    """Return how much is known, to compare: the rank, then the number of exact dimensions."""
    if tensor is None:
        return -1, 0
    exact = sum(d.HasField("dim_value") for d in tensor.shape.dim)
    return int(tensor.HasField("shape")), exact


def infer_types(model: OnnxFile) -> Types:
    """Infer the types in a model's scopes by importing it, without the data of large tensors.

    Behind operations that are not covered only declarations remain. The scopes must stay alive.
    """
    with progress.stage("inferring shapes"):
        reader = sketched(model.proto, model.location)
        return Types(reader.specs, reader.misfits, reader.exact)


def set_shapes(model: OnnxFile, shapes: Mapping[str, Shape | None]) -> None:
    """Give inputs other shapes, in place; UsageError for a name that no input has."""
    items = {i.name: i for i in model.proto.graph.input}
    for name, shape in shapes.items():
        if name not in items:
            known = ", ".join(f'"{n}"' for n in items)
            raise misused(f'the model has no input "{name}"; it has {known}')
        tensor = items[name].type.tensor_type
        try:
            require_rank(name, onnx_node.declared_shape(tensor), shape)
        except ValueError as e:
            raise misused(str(e), code="E310") from None
        tensor.ClearField("shape")
        if shape is not None:
            onnx_node.set_shape(tensor, shape)


CONV_TRANSPOSE = "ConvTranspose"
DOMAINS = (*onnx_node.STANDARD, onnx_node.NHWC)


def is_deconvolution(node: Any) -> bool:
    """Whether a node is a deconvolution that irdeconv knows, with its output."""
    known = node.op_type == CONV_TRANSPOSE and node.domain in DOMAINS
    return known and bool(node.output and node.output[0])


@dataclass(frozen=True)
class Known:
    """The known type of a tensor that comes into a piece: an element type, perhaps a shape."""

    tensor: Any
    declared: bool = False


def inputs_of(scope: Scope, node: Any, types: Types) -> dict[str, Known]:
    """Return the known types of the tensors that a deconvolution reads, without constants.

    Data and filter have the same rank, a bias has one axis, and all have one element type. So an
    unknown type follows from another one, or from attributes.
    """
    data, *rest = (i for i in node.input if i)
    every = {name: types.of(scope, name) for name in (data, *rest)}
    rank = _rank(node, [every[name][0] for name in (data, *rest[:1])])
    element = next((t.elem_type for t, _ in every.values() if t is not None), 1)
    out: dict[str, Known] = {}
    for name in dict.fromkeys((data, *(n for n in rest if not scope.is_constant(n)))):
        tensor, declared = every[name]
        if tensor is None or not tensor.HasField("shape"):
            axes = 1 if name in rest[1:] else rank
            dims = None if axes is None else (None,) * axes
            tensor, declared = _tensor(element, dims), False
        out[name] = Known(tensor, declared)
    return out


def _rank(node: Any, tensors: Sequence[Any]) -> int | None:
    """Return the rank of a deconvolution's data by tensors of that rank, else by attributes."""
    known = [len(t.shape.dim) for t in tensors if t is not None and t.HasField("shape")]
    lists = ("strides", "dilations", "kernel_shape", "output_padding")
    known += [len(a.ints) + 2 for a in node.attribute if a.name in lists and a.ints]
    return next(iter(known), None)


def piece(
    model: OnnxFile,
    scope: Scope,
    nodes: Sequence[Any],
    outputs: Iterable[str],
    known: dict[str, Known],
) -> Any:
    """Return a ModelProto of some nodes of a scope, in their order.

    Tensors of `known` are its first inputs, read or not. Of the other tensors that the nodes read,
    constants are included, and the rest become inputs without a type.
    """
    out = onnx_node.onnx_module().ModelProto(ir_version=max(model.proto.ir_version, 4))
    for domain, version in scope.opsets.items():
        out.opset_import.add(domain=domain, version=version)
    out.graph.name = "piece"
    made = {o for n in nodes for o in n.output}
    tensors: dict[str, Any] = {}
    steps: dict[int, Any] = {}
    read = (i for n in nodes for i in n.input if i and i not in made)
    for name in dict.fromkeys((*known, *read)):
        found = None if name in known else scope.constant(name)
        if found is None:
            item = out.graph.input.add(name=name)
            if name in known:
                item.type.tensor_type.CopyFrom(known[name].tensor)
            continue
        tensors |= {t.name: t for t in found[0]}
        steps |= {id(n): n for n in found[1]}
    out.graph.initializer.extend(map(model.tensor, tensors.values()))
    out.graph.node.extend([*steps.values(), *nodes])
    for name in outputs:
        out.graph.output.add(name=name)
    return out


def graph_of(model: OnnxFile, made: Any, semantics: Semantics) -> Graph:
    """Import a piece; raises as reading an ONNX model does."""
    return OnnxReader(model.location, {}, semantics).read(made).graph


# OpenVINO's names that differ by more than the case.
_NAMES = dict(
    pair.split("=")
    for pair in """
        And=LogicalAnd ArgMax=TopK ArgMin=TopK AveragePool=AvgPool
        BatchNormalization=BatchNormInference Cast=Convert Ceil=Ceiling Clip=Clamp
        ConstantOfShape=Broadcast Div=Divide Expand=Broadcast Flatten=Reshape
        GRU=GRUSequence Gemm=MatMul GlobalAveragePool=ReduceMean GlobalMaxPool=ReduceMax
        GreaterOrEqual=GreaterEqual HardSwish=HSwish LSTM=LSTMSequence LeakyRelu=PReLU
        LessOrEqual=LessEqual LpNormalization=NormalizeL2 Max=Maximum
        MeanVarianceNormalization=MVN Min=Minimum Mul=Multiply Neg=Negative Not=LogicalNot
        Or=LogicalOr Pow=Power RNN=RNNSequence Reciprocal=Divide Resize=Interpolate
        Scan=TensorIterator ScatterElements=ScatterElementsUpdate ScatterND=ScatterNDUpdate
        Shape=ShapeOf Sub=Subtract Sum=Add Upsample=Interpolate Where=Select Xor=LogicalXor
    """.split()
)
_AUTO_PAD = {"NOTSET": "explicit", "VALID": "valid"}
_RESIZE_MODES = {"linear": "linear_onnx", "bilinear": "linear_onnx"}
_DRAWN = ("Random", "Bernoulli", "Multinomial")  # their results are no constants


def check_nodes(
    model: Any,
    target: Target,
    only: Callable[[Any], bool] = lambda node: True,
    location: Location | None = None,
) -> list[Violation]:
    """Return the conditions of a target that nodes of a ModelProto do not meet.

    `only` chooses the nodes; all others, constants and nodes of constants alone are not checked.
    Bodies and functions are. `location` is that of the file.
    """
    out = []
    for scope, node, name, facts in executed_nodes(model, only):
        layer = onnx_node.title_of(node) + (f" ({scope.title})" if scope.title else "")
        out += [Violation(layer, name, t, location) for t in target.failures(name, facts)]
    return out


def executed_nodes(
    model: Any, only: Callable[[Any], bool] = lambda node: True
) -> Iterator[tuple[Scope, Any, str, Facts]]:
    """Yield the nodes that a device executes: scope, node, OpenVINO's name of it, facts."""
    every = list(scopes(model))
    types = infer_types(OnnxFile(model, ""))
    # Functions count by their nodes.
    skipped = {("", "Identity"), *((f.domain, f.name) for f in model.functions)}
    constants: dict[Scope, set[str]] = {}
    for scope in every:  # outer ones first
        constants[scope] = set(scope.initializers)
        for node in scope.body.node:
            layer = _NodeFacts(scope, node, types, constants)
            if layer.is_constant:
                constants[scope].update(node.output)
            elif (node.domain, node.op_type) not in skipped and only(node):
                yield scope, node, *layer.described()


class _NodeFacts:
    """A node in its scope; `constants` are the constant tensors by scope, as far as read."""

    def __init__(
        self, scope: Scope, node: Any, types: Types, constants: Mapping[Scope, set[str]]
    ) -> None:
        self.scope, self.node, self.types, self.constants = scope, node, types, constants
        own = (a for a in node.attribute if not a.ref_attr_name)
        self.attributes = {a.name: onnx_node.plain_attribute(a) for a in own}

    @property
    def is_constant(self) -> bool:
        if self.node.op_type == "Constant":
            return True
        read = [i for i in self.node.input if i]
        bodies = any(a.HasField("g") for a in self.node.attribute)
        drawn = self.node.op_type.startswith(_DRAWN)
        return bool(read) and not bodies and not drawn and all(map(self._is_constant, read))

    def _is_constant(self, name: str) -> bool:
        owner = self.scope.owner(name)
        return owner is not None and name in self.constants[owner]

    def described(self) -> tuple[str, Facts]:
        kind = self.node.op_type
        varying = [i for i in self.node.input if i and not self._is_constant(i)]
        every = tuple(map(self._spec, (*varying, *filter(None, self.node.output))))
        tensors = Tensors(every[0] if every else UNKNOWN, every)
        if self.node.domain not in onnx_node.STANDARD:
            return kind, tensors.facts()
        if kind in ("Conv", "ConvTranspose"):
            return self._windows()
        name = _NAMES.get(kind) or spelling(kind) or kind
        output = self._spec(self.node.output[0] if self.node.output else "")
        if kind == "Concat":
            parts = [self._spec(i) for i in self.node.input]
            return name, targets.joining(tensors, self._int("axis", 1), parts)
        if kind == "Slice":
            return name, targets.slicing(tensors, self._steps(tensors), output.shape)
        if name == "Interpolate":
            mode = self._text("mode", "nearest")
            return name, targets.resizing(tensors, output, _RESIZE_MODES.get(mode, mode))
        return name, tensors.facts(*self._particulars(tensors))

    def _particulars(self, tensors: Tensors) -> tuple[targets.Values, targets.Axes]:
        kind, rank = self.node.op_type, tensors.data.rank
        if kind == "Pad":
            mode = self._text("mode", "constant")
            return targets.padding(mode, *self._amounts(rank), self._fill(), tensors)
        if kind == "Transpose":
            reverse = None if rank is None else tuple(range(rank))[::-1]
            return {"order": self._list("perm") or reverse}, {}
        if kind == "DepthToSpace":
            mode = "depth_first" if self._text("mode", "DCR") == "CRD" else "blocks_first"
            return {"block": self._int("blocksize", 1), "mode": mode}, {}
        if kind == "Split":
            return {"axis": self._int("axis", 0) % rank if rank else None}, {}
        return {}, {}

    def _windows(self) -> tuple[str, Facts]:
        """Return a Conv or ConvTranspose."""
        data, filter = (self._spec(self._input(port)) for port in (0, 1))
        plain = self.node.op_type == "Conv"
        name, layer = (self._convolution if plain else self._deconvolution)(data, filter)
        constant = self._is_constant(self._input(1))
        # The output has the rank of the data, also if ONNX does not infer it.
        tensors = Tensors(data, (data,) if constant else (data, filter))
        facts = layer.facts(tensors, constant_filter=constant, has_bias=bool(self._input(2)))
        return name, facts

    def _convolution(self, data: Spec, filter: Spec) -> tuple[str, targets.WindowFacts]:
        groups = self._int("group", 1)
        kernel = self._list("kernel_shape")
        axes = (filter.rank or data.rank or len(kernel) + 2) - 2
        sizes = [targets.exact(d) for d in filter.shape or ()] or [None, None, *kernel]
        sizes += [None] * (axes + 2 - len(sizes))
        pads = self._list("pads") or (0,) * 2 * axes
        lists = (self._list("strides"), self._list("dilations"), pads[:axes], pads[axes:])
        auto_pad = self._text("auto_pad", "NOTSET")
        channels = (targets.product(groups, sizes[1]), sizes[0], groups)
        spelled = _AUTO_PAD.get(auto_pad, auto_pad.lower())
        layer = targets.convolution(data, channels, sizes[2:], lists, spelled)
        return f"{'Group' * (groups > 1)}Convolution", layer

    def _deconvolution(self, data: Spec, filter: Spec) -> tuple[str, targets.WindowFacts]:
        auto_pad: Any = self._text("auto_pad", "NOTSET")
        names = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
        lists: dict[str, Any] = {name: self._list(name) for name in names}
        op = ConvTranspose11(auto_pad=auto_pad, group=self._int("group", 1), **lists)
        try:
            output = op.infer(data, filter)
        except OpError:
            output = UNKNOWN
        assert isinstance(output, Spec)
        return targets.deconvolution(op, (data, filter), output)

    def _steps(self, tensors: Tensors) -> dict[int, int | None] | None:
        """Return the step of each axis that a Slice names; None if they are unknown."""
        rank = tensors.data.rank
        if rank is None:
            return None
        if len(self.node.input) == 1:  # before operation set 10
            axes = self._list("axes") or tuple(range(len(self._list("starts"))))
            return {a % rank: 1 for a in axes}
        starts = self._spec(self._input(1)).shape
        count = targets.exact(starts[0]) if starts else None
        given = self._ints(3) if self._input(3) else None if count is None else range(count)
        if given is None:
            return None
        steps = self._ints(4) if self._input(4) else (1,) * len(given)
        return {a % rank: s for a, s in zip(given, steps or (None,) * len(given), strict=False)}

    def _amounts(self, rank: int | None) -> tuple[targets.Sizes | None, targets.Sizes | None]:
        """Return the amounts of a Pad in front of and behind each axis of the tensor."""
        pads = self._ints(1) if len(self.node.input) > 1 else self._list("pads")
        axes = self._ints(3) if self._input(3) else tuple(range(rank or 0))
        if pads is None or axes is None or not rank or len(pads) != 2 * len(axes):
            return None, None
        sides = ([0] * rank, [0] * rank)
        for k, amount in enumerate(pads):
            sides[k // len(axes)][axes[k % len(axes)] % rank] = amount
        return sides

    def _fill(self) -> Number | None:
        if self._input(2):
            found = self._array(2)
            return None if found is None else targets.number(float(found.reshape(-1)[0]))
        return targets.number(float(self.attributes.get("value", 0)))

    def _input(self, port: int) -> str:
        return str(self.node.input[port]) if port < len(self.node.input) else ""

    def _spec(self, name: str) -> Spec:
        return self.types.spec(self.scope, name)

    def _array(self, port: int) -> Array | None:
        """Return the values of an input that is a constant by itself."""
        name = self._input(port)
        owner = self.scope.owner(name)
        tensor = owner.initializers.get(name) if owner else None
        node = None if tensor is not None else self.scope.producer(name)
        if node is not None and node.op_type == "Constant":
            value = onnx_node.plain_attribute(node.attribute[0]) if node.attribute else None
            if isinstance(value, int | float | tuple):
                return np.asarray(value)
            tensor = value
        try:
            return None if tensor is None else onnx_node.to_array(tensor)[0]
        except (Refusal, ValueError, AttributeError):  # external data, a sparse tensor
            return None

    def _ints(self, port: int) -> tuple[int, ...] | None:
        found = self._array(port)
        return None if found is None else tuple(int(v) for v in found.reshape(-1))

    def _int(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def _list(self, name: str) -> tuple[int, ...]:
        value = self.attributes.get(name, ())
        return value if isinstance(value, tuple) else ()

    def _text(self, name: str, default: str) -> str:
        return str(self.attributes.get(name, default))
