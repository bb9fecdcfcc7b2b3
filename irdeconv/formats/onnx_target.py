"""Whether a target can run the nodes of an ONNX model: each node against the target's list.

Nodes count as OpenVINO's operations: Conv is Convolution, or GroupConvolution if it has groups.
Nodes without a counterpart keep their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.base.source import Location
from irdeconv.formats.importing import Refusal
from irdeconv.formats.onnx_container import STANDARD, Scope, scopes, title_of
from irdeconv.formats.onnx_node import declared_shape, element_type, onnx_module, to_array
from irdeconv.formats.onnx_types import Types, infer_types
from irdeconv.ir.spec import Array, Spec
from irdeconv.ops.catalog import spelling
from irdeconv.ops.dialect_onnx import ConvTranspose11
from irdeconv.rewrite import target_facts
from irdeconv.rewrite.target_check import Violation
from irdeconv.rewrite.target_conditions import Facts, Number
from irdeconv.rewrite.target_facts import Tensors
from irdeconv.rewrite.targets import Target

# OpenVINO's names, where they differ by more than the case.
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

    `only` chooses the nodes; all others, constants and what is computed from constants alone are
    not looked at. Bodies and functions are. `location` is that of the file.
    """
    out = []
    for scope, node, name, facts in executed_nodes(model, only):
        layer = title_of(node) + (f" ({scope.title})" if scope.title else "")
        out += [Violation(layer, name, t, location) for t in target.failures(name, facts)]
    return out


def executed_nodes(
    model: Any, only: Callable[[Any], bool] = lambda node: True
) -> Iterator[tuple[Scope, Any, str, Facts]]:
    """Yield the nodes that a device executes: scope, node, OpenVINO's name of it, facts."""
    every = list(scopes(model))
    types = infer_types(model, every)
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
        helper = onnx_module("onnx.helper")
        self.attributes = {
            a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name
        }

    @property
    def is_constant(self) -> bool:
        """Whether the results are constants."""
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
        """Return the name of the operation and the facts."""
        kind, tensors = self.node.op_type, self._tensors()
        if self.node.domain not in STANDARD:
            return kind, tensors.facts()
        if kind in ("Conv", "ConvTranspose"):
            return self._windows()
        name = _NAMES.get(kind) or spelling(kind) or kind
        if kind == "Concat":
            parts = [self._spec(i) for i in self.node.input]
            return name, target_facts.joining(tensors, self._int("axis", 1), parts)
        if kind == "Slice":
            return name, target_facts.slicing(
                tensors, self._steps(tensors), self._spec(self._output).shape
            )
        if name == "Interpolate":
            mode = self._text("mode", "nearest")
            return name, target_facts.resizing(
                tensors, self._spec(self._output), _RESIZE_MODES.get(mode, mode)
            )
        return name, tensors.facts(*self._particulars(tensors))

    def _particulars(self, tensors: Tensors) -> tuple[target_facts.Values, target_facts.Axes]:
        """Return the values that only this operation has."""
        kind, rank = self.node.op_type, tensors.data.rank
        if kind == "Pad":
            begin, end = self._amounts(rank)
            return target_facts.padding(
                self._text("mode", "constant"), begin, end, self._fill(), tensors
            )
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
        name, layer = (
            self._convolution(data, filter)
            if self.node.op_type == "Conv"
            else self._deconvolution(data, filter)
        )
        constant = self._is_constant(self._input(1))
        # The output has the rank of the data, also if ONNX does not infer it.
        tensors = Tensors(data, (data,) if constant else (data, filter))
        facts = layer.facts(tensors, constant_filter=constant, has_bias=bool(self._input(2)))
        return name, facts

    def _convolution(self, data: Spec, filter: Spec) -> tuple[str, target_facts.WindowFacts]:
        groups = self._int("group", 1)
        kernel = self._list("kernel_shape")
        axes = (filter.rank or data.rank or len(kernel) + 2) - 2
        sizes = [target_facts.exact(d) for d in filter.shape or ()] or [None, None, *kernel]
        sizes += [None] * (axes + 2 - len(sizes))
        pads = self._list("pads") or (0,) * 2 * axes
        lists = (self._list("strides"), self._list("dilations"), pads[:axes], pads[axes:])
        auto_pad = self._text("auto_pad", "NOTSET")
        channels = (target_facts.product(groups, sizes[1]), sizes[0], groups)
        spelled = _AUTO_PAD.get(auto_pad, auto_pad.lower())
        layer = target_facts.convolution(data, channels, sizes[2:], lists, spelled)
        return f"{'Group' * (groups > 1)}Convolution", layer

    def _deconvolution(self, data: Spec, filter: Spec) -> tuple[str, target_facts.WindowFacts]:
        auto_pad: Any = self._text("auto_pad", "NOTSET")
        op = ConvTranspose11(
            auto_pad=auto_pad,
            group=self._int("group", 1),
            dilations=self._list("dilations"),
            kernel_shape=self._list("kernel_shape"),
            output_padding=self._list("output_padding"),
            output_shape=self._list("output_shape"),
            pads=self._list("pads"),
            strides=self._list("strides"),
        )
        try:
            output = op.infer(data, filter)
        except OpError:
            output = Spec(None, None)
        assert isinstance(output, Spec)
        return target_facts.deconvolution(op, (data, filter), output)

    def _steps(self, tensors: Tensors) -> dict[int, int | None] | None:
        """Return the step of each axis that a Slice names; None if they are unknown."""
        rank = tensors.data.rank
        if rank is None:
            return None
        if len(self.node.input) == 1:  # before operation set 10
            axes = self._list("axes") or tuple(range(len(self._list("starts"))))
            return {a % rank: 1 for a in axes}
        starts = self._spec(self._input(1)).shape
        count = target_facts.exact(starts[0]) if starts else None
        given = self._ints(3) if self._input(3) else None if count is None else range(count)
        if given is None:
            return None
        steps = self._ints(4) if self._input(4) else (1,) * len(given)
        return {a % rank: s for a, s in zip(given, steps or (None,) * len(given), strict=False)}

    def _amounts(
        self, rank: int | None
    ) -> tuple[target_facts.Sizes | None, target_facts.Sizes | None]:
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
        """Return the value that a Pad fills with."""
        if self._input(2):
            found = self._array(2)
            return None if found is None else target_facts.number(float(found.reshape(-1)[0]))
        return target_facts.number(float(self.attributes.get("value", 0)))

    def _tensors(self) -> Tensors:
        varying = [i for i in self.node.input if i and not self._is_constant(i)]
        every = tuple(map(self._spec, (*varying, *filter(None, self.node.output))))
        return Tensors(every[0] if every else Spec(None, None), every)

    @property
    def _output(self) -> str:
        return str(self.node.output[0]) if self.node.output else ""

    def _input(self, port: int) -> str:
        return str(self.node.input[port]) if port < len(self.node.input) else ""

    def _spec(self, name: str) -> Spec:
        tensor, _ = self.types.of(self.scope, name)
        if tensor is None:
            return Spec(None, None)
        try:
            dtype = element_type(tensor.elem_type)
        except Refusal:
            dtype = None
        return Spec(dtype, declared_shape(tensor))

    def _array(self, port: int) -> Array | None:
        """Return the values of an input that is a constant by itself."""
        name = self._input(port)
        owner = self.scope.owner(name)
        tensor = owner.initializers.get(name) if owner else None
        node = owner.producers.get(name) if owner and tensor is None else None
        if node is not None and node.op_type == "Constant":
            helper = onnx_module("onnx.helper")
            value = helper.get_attribute_value(node.attribute[0]) if node.attribute else None
            if isinstance(value, int | float | list):
                return np.asarray(value)
            tensor = value
        try:
            return None if tensor is None else to_array(tensor)[0]
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
        return tuple(value) if isinstance(value, list) else ()

    def _text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
