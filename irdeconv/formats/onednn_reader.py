"""Reading JSON dumps of oneDNN Graph, as the library writes them with ONEDNN_GRAPH_DUMP=graph.

Its operations with exact counterparts are imported by the rules of `RULES`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from irdeconv.base.errors import did_you_mean, misused, values_of
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.opening import parse_json
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats import importing
from irdeconv.formats.arrays import SavedArrays, UnreadableArray
from irdeconv.formats.reading import Reading
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Value, producers_first
from irdeconv.ir.op import Op
from irdeconv.ir.spec import DYNAMIC, Array, Spec, is_static
from irdeconv.ops import activation, elementwise, reduction
from irdeconv.ops.activation import LogSoftmax, SoftMax
from irdeconv.ops.dialect_onednn import OneDnnConvTranspose
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Concat, Reshape, Transpose
from irdeconv.ops.pooling import AvgPool14, MaxPool14
from irdeconv.ops.reduction import BatchNormInference


@dataclass(kw_only=True)
class DumpNode(importing.SourceNode):
    """An operation; `target` is the type of its output; `modern`: oneDNN 3 or later wrote it."""

    kind: str
    modern: bool
    target: ElementType

    @property
    def channels_last(self) -> bool:
        """Whether data_format is NXC, the default."""
        return self.word("data_format", "NXC", "NXC NCX") == "NXC"

    def get(self, name: str, default: Any = None, want: Any = object) -> Any:
        """Return an attribute of any type; without a default it is required."""
        found = super().get(name, default)
        values = found if isinstance(found, list) else [found]
        if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
            raise importing.Refusal(f"{name} holds a number of more than 64 bits")
        return found

    def ints(
        self, name: str, axes: int | None = None, default: int | None = None
    ) -> tuple[int, ...]:
        """Return a list of integers, `axes` of them; the library pads lists with zeros."""
        if default is not None and axes is not None and name not in self:
            return (default,) * axes
        values = self.get(name)
        found = tuple(int(v) for v in (values if isinstance(values, list) else [values]))
        if axes is not None and len(found) > axes and not any(found[axes:]):
            found = found[:axes]
        if axes is not None and len(found) != axes:
            raise importing.Refusal(f"{name} has {values_of(len(found))} for {axes} spatial axes")
        return found


_NUMBERS: dict[str, tuple[type, ...]] = {"s64": (int,), "f32": (int, float), "string": (str,)}


def wrong_value(attribute: dict[str, Any]) -> Any:
    """Return a value that is not of the type that an attribute of a dump states, else None."""
    stated = str(attribute.get("type", ""))
    types = _NUMBERS.get(stated.removesuffix("[]"))
    if types is None:
        return None
    value = attribute["value"]
    values = value if stated.endswith("[]") and isinstance(value, list) else [value]
    return next((v for v in values if not _is(v, types)), None)


def _is(value: Any, types: tuple[type, ...]) -> bool:
    if type(value) is int and int in types:
        return -(2**63) <= value < 2**63
    return type(value) in types and value == value  # no NaN


Rule = Callable[[DumpNode, importing.ImportBuilder], Value]
RULES: dict[str, Rule] = {}
rule = importing.registrar(RULES)


AUTO_PADS = "none same_upper same_lower valid"


def to_ncx(n: DumpNode, b: importing.ImportBuilder, x: Value) -> Value:
    """Return data with the channels in front, wherever data_format has them."""
    return b.channels_first(x) if n.channels_last else x


def from_ncx(n: DumpNode, b: importing.ImportBuilder, y: Value) -> Value:
    """Return a result in data_format."""
    return b.channels_last(y) if n.channels_last else y


def _windows(n: DumpNode, axes: int) -> dict[str, Any]:
    """Return strides, pads and dilations of a convolution or pooling."""
    lists: dict[str, Any] = {
        "strides": n.ints("strides", axes),
        "pads_begin": n.ints("pads_begin", axes),
        "pads_end": n.ints("pads_end", axes),
        "dilations": n.ints("dilations", axes, 1),
    }
    if min(lists["pads_begin"] + lists["pads_end"]) < 0:
        raise importing.Refusal("negative pads")
    auto_pad = n.word("auto_pad", "none", AUTO_PADS)
    if auto_pad == "none":
        return lists | {"auto_pad": "explicit"}
    return lists | {"auto_pad": auto_pad, "pads_begin": (0,) * axes, "pads_end": (0,) * axes}


@rule("Convolution")
def convolution(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Data NXC or NCX, filter XIO = [X, I/g, O] or OIX = [O, I/g, X], optional bias [O]."""
    x = to_ncx(n, b, n[0])
    axes, groups = b.rank(x) - 2, int(n.get("groups", 1))
    layout = n.word("filter_format" if "filter_format" in n else "weights_format", "XIO", "XIO OIX")
    order = (axes + 1, axes, *range(axes)) if layout == "XIO" else tuple(range(axes + 2))
    y = b.convolution(x, b.permute(n[1], order), groups, **_windows(n, axes))
    return from_ncx(n, b, b.plus(y, b.per_channel(n[2], axes)) if len(n.inputs) > 2 else y)


@rule("ConvTranspose")
def conv_transpose(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Kept as oneDNN's own deconvolution."""
    axes = b.rank(n[0]) - 2
    layout: dict[str, Any] = {}
    for name in ("filter_format", "weights_format"):
        if name in n:
            layout[name] = n.word(name, "", "XIO OIX XOI IOX")
    if not layout:
        # The default changed with the attribute's name.
        layout = {"weights_format": "XOI"} if n.modern else {"filter_format": "XIO"}
    auto_pad: Any = n.word("auto_pad", "none", AUTO_PADS)
    data_format: Any = n.word("data_format", "NXC", "NXC NCX")
    op = OneDnnConvTranspose(
        strides=n.ints("strides", axes),
        pads_begin=n.ints("pads_begin", axes),
        pads_end=n.ints("pads_end", axes),
        dilations=n.ints("dilations", axes, 1),
        auto_pad=auto_pad,
        output_padding=n.ints("output_padding", axes, 0),
        groups=int(n.get("groups", 1)),
        data_format=data_format,
        semantics=n.semantics,
        **layout,
    )
    return b.outputs(op, *n.given)[0]


@rule("MaxPool AvgPool")
def pool(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Maxima or means of windows; rounding up only if the windows fit without a rest."""
    x = to_ncx(n, b, n[0])
    axes = b.rank(x) - 2
    kernel, lists = n.ints("kernel", axes), _windows(n, axes)
    if n.word("rounding_type", "floor", "floor ceil") == "ceil" and lists["auto_pad"] == "explicit":
        for a, size in enumerate(b.static(x, "the data")[2:]):
            reach = lists["dilations"][a] * (kernel[a] - 1) + 1
            padded = size + lists["pads_begin"][a] + lists["pads_end"][a]
            if (padded - reach) % lists["strides"][a]:
                raise importing.Refusal(
                    "rounding_type=ceil with windows that reach beyond the padding"
                )
    if n.kind == "MaxPool":
        return from_ncx(n, b, b.outputs(MaxPool14(kernel=kernel, **lists, axis=0), x)[0])
    if any(d != 1 for d in lists.pop("dilations")):
        raise importing.Refusal("dilations of AvgPool")
    exclude = bool(n.get("exclude_pad"))
    return from_ncx(n, b, b.add(AvgPool14(kernel=kernel, **lists, exclude_pad=exclude), x))


@rule("BiasAdd")
def bias_add(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Add one value for each channel."""
    rank = b.rank(n[0])
    if n.channels_last:
        return b.plus(n[0], b.reshape(n[1], (*(1,) * (rank - 1), -1)))
    return b.plus(n[0], b.per_channel(n[1], rank - 2))


@rule("BatchNormInference")
def batch_norm(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel."""
    x = to_ncx(n, b, n[0])
    statistics = tuple(b.convert(n[i], b.dtype(x)) for i in range(1, 5))
    if any(b.dtype(n[i]) != b.dtype(x) for i in range(1, 5)):
        raise importing.Refusal("statistics of another element type than the data")
    return from_ncx(n, b, b.add(BatchNormInference(float(n.get("epsilon"))), x, *statistics))


@rule("Add Subtract Multiply Divide Maximum Minimum SquaredDifference")
def binary(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Two tensors, broadcast as auto_broadcast says."""
    mode: Any = n.word("auto_broadcast", "numpy", "numpy none")
    return b.add(getattr(elementwise, n.kind)(auto_broadcast=mode), n[0], n[1])


def _gelu(n: DumpNode, b: importing.ImportBuilder) -> Op:
    mode = n.word("mode", "gelu_erf", "gelu_erf gelu_tanh")
    return activation.Gelu("ERF" if mode == "gelu_erf" else "TANH")


def _softmax(n: DumpNode, b: importing.ImportBuilder) -> Op:
    if n.kind == "SoftMax":
        n.word("mode", "none", "none")
    return (SoftMax if n.kind == "SoftMax" else LogSoftmax)(int(n.get("axis", 1)))


_SHORT: dict[str, Rule] = {
    "Clamp": importing.by_numbers("clip", min=None, max=None),
    "Concat": importing.one_operation(lambda n, b: Concat(int(n.get("axis"))), None),
    "Elu": importing.by_numbers("elu", alpha=None),
    "GELU": importing.one_operation(_gelu),
    "HardSigmoid": importing.by_numbers("hardsigmoid", alpha=None, beta=None),
    "LeakyReLU": importing.by_numbers("leakyrelu", alpha=None),
    "LogSoftmax": importing.one_operation(_softmax),
    "Pow": importing.by_numbers("pow", beta=None),
    "Reciprocal": lambda n, b: b.div(b.like(1, n[0]), n[0]),
    "Reorder": lambda n, b: n[0],  # another memory layout of the same values
    "Round": importing.one_operation(elementwise.Round("half_to_even")),
    "SoftMax": importing.one_operation(_softmax),
    "SoftPlus": importing.by_numbers("softplus", beta=1.0),
    "Square": lambda n, b: b.mul(n[0], n[0]),
}
RULES |= _SHORT
_SAME = "Abs Exp HardSwish=HSwish Log Mish ReLU Sigmoid Sqrt Tanh"
RULES |= {kind: importing.one_operation(op) for kind, op in importing.named_operations(_SAME)}


@rule("MatMul")
def matmul(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Matrix product, perhaps of transposed matrices, plus an optional bias of the columns."""
    op = MatMul(bool(n.get("transpose_a", False)), bool(n.get("transpose_b", False)))
    return b.plus(b.add(op, n[0], n[1]), n.input(2))


@rule("StaticReshape")
def reshape(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Reshape; 0 copies a dimension with special_zero."""
    return b.add(Reshape(special_zero=bool(n.get("special_zero"))), n[0], b.ints(*n.ints("shape")))


@rule("StaticTranspose")
def transpose(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Permute the axes; negative ones count from the end."""
    rank = b.rank(n[0])
    order = tuple(a + rank if a < 0 else a for a in n.ints("order", rank))
    return b.add(Transpose(), n[0], b.ints(*order))


@rule("ReduceL1 ReduceL2 ReduceMax ReduceMin ReduceMean ReduceProd ReduceSum")
def reduce(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Reduce the axes of the attribute or of the second input."""
    axes = b.ints(*n.ints("axes")) if "axes" in n else n[1]
    op = getattr(reduction, n.kind)(keep_dims=bool(n.get("keep_dims", False)))
    return b.add(op, n[0], axes)


@rule("TypeCast")
def type_cast(n: DumpNode, b: importing.ImportBuilder) -> Value:
    """Convert to the element type of the output."""
    if not (b.dtype(n[0]).is_real and n.target.is_real):
        raise importing.Refusal(f"a conversion from {b.dtype(n[0])} to {n.target}")
    return b.convert(n[0], n.target)


_BY_DUMP_NAME = {n: n for n in ("f32", "f16", "bf16", "u8", "boolean")} | {"s32": "i32", "s8": "i8"}
# The inputs of each kind that hold parameters.
WEIGHT_PORTS: dict[str, tuple[int, ...]] = {
    "BatchNormInference": (1, 2, 3, 4),
    "BiasAdd": (1,),
    "ConvTranspose": (1, 2),
    "Convolution": (1, 2),
}
TOO_LARGE = 2**63
VARIANCE = ("BatchNormInference", 4)
DRAWN_AT_ONCE = 1 << 16  # random numbers of f64


def read_onednn(path: str, data: bytes, how: Reading) -> importing.Imported:
    """Read a dump; tensor 7 is called `t7`.

    `weights` names an .npz whose keys are tensor ids or names, or is "random": parameters are then
    drawn with `seed`. Tensors that nothing produces are model inputs otherwise. Raises
    UnsupportedError with everything that is not covered, InputError for a bad file.
    """
    location = Location(SourceFile(path, data))
    dump, weights = _parse(data, location), cast("str | None", how.weights)
    saved: AbstractContextManager[SavedArrays | None] = nullcontext()
    try:
        if weights is not None and weights != "random":
            saved = SavedArrays(weights)
        with saved as arrays:
            reader = DumpReader(
                location=location,
                shapes=how.exact_shapes,
                semantics=how.semantics,
                dump=dump,
                arrays=arrays,
                seed=how.seed if weights == "random" else None,
            )
            return reader.read()
    except UnreadableArray as e:
        assert weights is not None
        message = f"the weights {os.fspath(weights)} cannot be read: {e}"
        raise misused(message, "np.savez writes an .npz") from None


def _parse(data: bytes, location: Location) -> Any:
    try:
        dump = parse_json(data)
    except json.JSONDecodeError as e:
        place = Location(location.source, fixed=(e.lineno, e.colno))
        raise importing.malformed(place, f"not a JSON document: {e.msg}") from None
    except ValueError as e:
        raise importing.malformed(location, f"not a JSON document: {e}") from None
    if not isinstance(dump, dict) or not isinstance(dump.get("graph"), list):
        hint = "oneDNN writes such dumps with the environment variable ONEDNN_GRAPH_DUMP=graph"
        raise importing.malformed(
            location, 'not a dump of oneDNN Graph: it has no list "graph"', hint
        )
    for key in ("input_ports", "output_ports"):
        if not isinstance(dump.get(key, []), list):
            raise importing.malformed(location, f'"{key}" is no list')
    return dump


@dataclass
class DumpReader(importing.ModelReader):
    """Builds the graph of one dump."""

    dump: Any
    arrays: SavedArrays | None
    seed: int | None
    values: dict[int, Value | None] = field(default_factory=dict)
    tensors: dict[int, Any] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def read(self) -> importing.Imported:
        """Import all operations; raise all errors at once."""
        version = str(self.dump.get("version", "unknown"))
        self.modern = not version.startswith(("0.", "1.", "2."))
        done = self.start("onednn_graph", f"oneDNN Graph {version}")
        nodes = self._nodes()
        if not self.out.errors:
            self._sources(nodes)
            for node in self._sorted(nodes):
                done.kinds[node["kind"]] += 1
                self._node(node)
            self._outputs(nodes)
            self._unused()
        return self.finish(done)

    def _nodes(self) -> list[Any]:
        """Return the operations whose structure is right; remember their tensors."""
        out, producers = [], set()
        for at, node in enumerate(self.dump["graph"]):
            problem = _structure(node)
            if problem is not None:
                self.out.malformed(f"operation {at} of the dump: {problem}")
                continue
            for tensor in (*node["inputs"], *node["outputs"]):
                self.tensors.setdefault(tensor["id"], tensor)
            for tensor in node["outputs"]:
                if tensor["id"] in producers:
                    self.out.malformed(f"tensor {tensor['id']} has two producers", "E203")
                producers.add(tensor["id"])
            out.append(node)
        if not out:
            self.out.malformed("the dump has no operations", "E209")
        return out

    def _sorted(self, nodes: list[Any]) -> list[Any]:
        """Return the operations, producers first."""
        makers = {t["id"]: at for at, n in enumerate(nodes) for t in n["outputs"]}
        reads = [[makers[t["id"]] for t in n["inputs"] if t["id"] in makers] for n in nodes]
        order = producers_first([set(r) for r in reads])
        if len(order) < len(nodes):
            left = sorted(set(range(len(nodes))) - set(order))
            names = ", ".join(_name(nodes[at]) for at in left[: importing.SHOWN_LAYERS])
            more = ", ..." if len(left) > importing.SHOWN_LAYERS else ""
            self.out.malformed(f"the operations {names}{more} form a cycle", "E205")
        return [nodes[at] for at in order]

    def _sources(self, nodes: list[Any]) -> None:
        """Make inputs or constants of the tensors that nothing produces."""
        made = {t["id"] for n in nodes for t in n["outputs"]}
        free = [t["id"] for n in nodes for t in n["inputs"] if t["id"] not in made]
        first = self._ports("input_ports", set(free))
        parameters = {
            t["id"]: (n["kind"], port)
            for n in nodes
            for port, t in enumerate(n["inputs"])
            if port in WEIGHT_PORTS.get(n["kind"], ())
        }
        for ident in dict.fromkeys([*first, *free]):
            try:
                self.values[ident] = self._source(ident, parameters.get(ident))
            except importing.Refusal as e:
                self.values[ident] = None
                self.out.uncovered(f"t{ident}", f"tensor {ident}: {e}")

    def _ports(self, key: str, known: set[int]) -> list[int]:
        """Return the tensors that the dump names as ends."""
        return [i for i in self.dump.get(key, []) if type(i) is int and i in known]

    def _source(self, ident: int, role: tuple[str, int] | None) -> Value:
        name = f"t{ident}"
        spec = self._spec(self.tensors[ident])
        assert spec.dtype is not None
        for key in (str(ident), name):
            if self.arrays is not None and key in self.arrays:
                self.used.add(key)
                return self._constant(name, self.arrays[key], spec)
        constant = self.tensors[ident].get("property_type") == "constant"
        if self.seed is not None and (role is not None or constant):
            return self._constant(name, self._random(ident, spec, role), spec)
        if name in self.shapes:
            self.used.add(name)
        return self.builder.parameter(name, spec.dtype, self.shapes.get(name, spec.shape))

    def _constant(self, name: str, array: Array, spec: Spec) -> Value:
        assert spec.dtype is not None
        if spec.shape is not None and array.shape != spec.shape:
            raise importing.Refusal(f"the weights have shape {list(array.shape)}, the dump {spec}")
        container = spec.dtype.container
        if container.itemsize == array.dtype.itemsize and array.dtype.kind == "V":
            array = array.view(container)
        elif array.dtype.kind not in "biuf":
            raise importing.Refusal(f"the weights are {array.dtype}, which are no real numbers")
        with np.errstate(all="ignore"):
            out = array.astype(container, copy=False)
        if not spec.dtype.is_real and not np.array_equal(out, array):
            raise importing.Refusal(f"the weights have numbers that do not exist in {spec.dtype}")
        return self.builder.constant(name, out, spec.dtype)

    def _random(self, ident: int, spec: Spec, role: tuple[str, int] | None) -> Array:
        """Draw a parameter; its values depend on seed and tensor alone."""
        shape = spec.shape
        if not is_static(shape):
            raise importing.OpenSizeRefusal("random weights of an open shape")
        if len(shape) > (most := current().rank):
            raise importing.Refusal(f"random weights of {len(shape)} axes; the limit is {most}")
        axes = math.prod(max(d, 1) for d in shape)  # NumPy holds no empty array of any sizes either
        if axes > (most := current().random_weights):
            hint = raise_hint("random_weights")
            raise importing.Refusal(f"random weights {spec}: more than {most:,} elements; {hint}")
        assert spec.dtype is not None
        rng = np.random.default_rng([self.seed or 0, ident])
        out = np.empty(shape, spec.dtype.container)
        fan, flat = max(1, math.prod(shape) // max((1, *shape))), out.reshape(-1)
        for start in range(0, out.size, DRAWN_AT_ONCE):
            size = min(DRAWN_AT_ONCE, out.size - start)
            if role == VARIANCE:
                drawn = rng.uniform(0.5, 1.5, size)
            else:
                drawn = rng.standard_normal(size) / np.sqrt(fan)
            flat[start : start + size] = drawn.astype(out.dtype)
        return out

    def _spec(self, tensor: Any) -> Spec:
        name = tensor["dtype"]
        if name not in _BY_DUMP_NAME:
            raise importing.Refusal(f"the element type {name} is not covered")
        shape = tuple(int(d) if d >= 0 else DYNAMIC for d in tensor.get("shape", []))
        return Spec(ELEMENT_TYPES[_BY_DUMP_NAME[name]], shape)

    def _unused(self) -> None:
        """Report weights and shapes that name no tensor."""
        names = [f"t{i}" for i in self.tensors]
        for key in sorted(set(self.arrays or ()) - self.used):
            hint = did_you_mean(key, names)
            self.out.add("E310", f'the weights "{key}" belong to no input tensor', hint=hint)
        for key in sorted(set(self.shapes) - self.used - {""}):  # inference knows the only input
            hint = did_you_mean(key, names)
            self.out.add("E310", f'the model has no input "{key}"', hint=hint)

    def _outputs(self, nodes: list[Any]) -> None:
        consumed = {t["id"] for n in nodes for t in n["inputs"]}
        made = [t["id"] for n in nodes for t in n["outputs"]]
        wanted = self._ports("output_ports", set(made))
        for ident in wanted or [i for i in made if i not in consumed]:
            value = self.values.get(ident)
            if value is not None:
                self.builder.result(value, f"t{ident}")

    def _node(self, node: Any) -> None:
        name = _name(node)
        title = f'{node["kind"]} "{name}" (id {node["id"]})'
        self.values |= dict.fromkeys((t["id"] for t in node["outputs"]), None)
        inputs = [self.values.get(t["id"]) for t in node["inputs"]]
        known = tuple(v for v in inputs if v is not None)
        if node["kind"] not in RULES:
            self.out.uncovered(name, f"{title}: the operation is not covered")
        elif len(known) == len(inputs):
            self.attempt(name, title, lambda: self._build(node, name, known))

    def _build(self, node: Any, name: str, inputs: tuple[Value, ...]) -> None:
        attributes = {k: v["value"] for k, v in node.get("attrs", {}).items()}
        spec = self._spec(node["outputs"][0]) if node["outputs"] else Spec(None, None)
        if spec.dtype is None or len(node["outputs"]) != 1:
            raise importing.Refusal(f"{len(node['outputs'])} outputs are not covered")
        view = DumpNode(
            kind=node["kind"],
            name=name,
            attributes=attributes,
            inputs=inputs,
            modern=self.modern,
            semantics=self.semantics,
            target=spec.dtype,
        )
        value = RULES[view.kind](view, self.builder)
        view.refuse_rest()
        if self.builder.dtype(value) != spec.dtype:
            raise importing.Refusal(f"the output is {spec.dtype}, but its inputs give {value}")
        self.builder.own(value, layer=name)
        if value.node in self.builder.made and spec.shape:
            self.graph.node(value.node).declared = (spec,)
        ident = node["outputs"][0]["id"]
        self.values[ident] = self.builder.bind(value, f"t{ident}", alone=True)


def _name(node: Any) -> str:
    """Return an operation's name, one made of its kind if it has none."""
    name = node.get("name")
    return name if name and isinstance(name, str) else f"{node['kind']}_{node['id']}"


def _structure(node: Any) -> str | None:
    """Return the error of an operation's JSON, or None."""
    if not isinstance(node, dict):
        return "it is no object"
    for key, kind in (("id", int), ("kind", str), ("inputs", list), ("outputs", list)):
        found = node.get(key)
        if not isinstance(found, kind) or (kind is int and not _number(found, -TOO_LARGE)):
            return f'"{key}" is missing or no {kind.__name__}'
    for tensor in (*node["inputs"], *node["outputs"]):
        if not isinstance(tensor, dict) or not _number(tensor.get("id"), 0):
            return "a tensor has no id"
        shape = tensor.get("shape", [])
        if not isinstance(shape, list) or not all(_number(d, -TOO_LARGE) for d in shape):
            return f"tensor {tensor['id']} has no list of integers as shape"
        if not isinstance(tensor.get("dtype"), str):
            return f"tensor {tensor['id']} has no dtype"
    attributes = node.get("attrs", {})
    if not isinstance(attributes, dict):
        return '"attrs" is no object'
    if not all(isinstance(a, dict) and "value" in a for a in attributes.values()):
        return "an attribute has no value"
    for name, attribute in attributes.items():
        wrong = wrong_value(attribute)
        if wrong is not None:
            return f"the attribute {name} is {attribute['type']}, but has {str(wrong)[:60]}"
    return None


def _number(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < TOO_LARGE
