"""Runtimes as the second side of a comparison (extra `oracles`): their CPUs.

OpenVINO executes the model in pieces: each piece ends in Results behind every layer under
comparison and begins with the results of the pieces before it, so memory holds one piece and the
values that later ones read. The added Results keep OpenVINO from fusing those layers, on purpose:
the layers are under comparison, not the fusions. If it fuses in spite of them, a product with 1 is
inserted.

In ONNX Runtime every tensor that both sides have becomes an output of the model, so no layer is
fused away. Tensors are fetched in groups, and each group is one run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.base.errors import Diagnostic, UnsupportedError, misused
from irdeconv.base.extras import needed
from irdeconv.base.opening import missing
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.models import is_onnx
from irdeconv.formats.onnx_container import load
from irdeconv.ir.graph import Node
from irdeconv.ir.spec import Array
from irdeconv.runtime.peers import in_order, last_line, onnx_session
from irdeconv.runtime.plan import Plan
from irdeconv.verify.partner import Fetched, Partner, Precision, layer_keys, other_parts

PIECE_BYTES = 1 << 26  # outputs of one piece, unless a single layer has more
# Every layer computes as it says: not in bf16, and not in the 8-bit integers in which the plugin
# executes quantized layers and products with compressed weights.
AS_STATED = {
    "INFERENCE_PRECISION_HINT": "f32",
    "LP_TRANSFORMS_MODE": "NO",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}
CONFIGS: dict[Precision, dict[str, str]] = {
    "f32": AS_STATED,
    "bf16": AS_STATED | {"INFERENCE_PRECISION_HINT": "bf16"},
    "int8": {"INFERENCE_PRECISION_HINT": "f32"},
}
STANDARD = (
    "lower or convert with -o FILE.xml writes standard operations; compare with openvino:FILE.xml"
)
# In the midst of patterns (GELU, HSwish, RMS, ...) that OpenVINO takes as one layer for the readers
# of the last one, with values that this layer rounds differently, though the others are Results.
FUSED = frozenset("Clamp Erf Maximum Minimum ReduceMean ReduceSum Sigmoid SoftPlus Tanh".split())
READABLE = tuple("f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 boolean".split())

Key = tuple[str, int]  # a layer's name and output port


def openvino() -> Any:
    """Import OpenVINO; UnsupportedError if it is missing or broken."""
    names = "Core", "Model", "PartialShape", "opset8"
    return needed("comparing with OpenVINO", "openvino", *names)


def refused(message: str, hint: str | None = None) -> UnsupportedError:
    """Return the error of a limitation of OpenVINO (E506)."""
    return UnsupportedError(Diagnostic("E506", "error", message, hint=hint))


@dataclass
class OpenVinoPartner(Partner):
    """The model of an IR file, executed by OpenVINO on the inputs of a plan.

    `inputs` are by the plan's input names; `computes` is the precision OpenVINO may use, if that
    is less than the layers' own types. With `whole` it executes the model in one piece, with its
    fusions, and has only the outputs. Raises UnsupportedError if OpenVINO is missing or refuses,
    FileAccessError if there is no such file.
    """

    plan: Plan
    file: Path
    inputs: dict[str, Array]
    weights: Path | None = None
    computes: Precision = "f32"
    whole: bool = False
    _keys: dict[int, list[Key | None]] = field(default_factory=dict)  # by node id, for each port
    _pieces: list[list[Key]] = field(default_factory=list)
    _ready: dict[Key, Array] = field(default_factory=dict)
    _kept: dict[Key, Array] = field(default_factory=dict)
    _types: dict[str, str] = field(default_factory=dict)
    _unread: list[str] = field(default_factory=list)
    _last: dict[Key, int] = field(default_factory=dict)
    _done: int = 0

    def __post_init__(self) -> None:
        self._ov = openvino()
        try:
            self._core = self._ov.Core()
        except RuntimeError as e:
            raise refused(f"OpenVINO does not start: {_said(e)}") from e
        # A written ZeroInsertion ends in a Reshape of its name that has more zeros at the end.
        nodes = [step.node for step in self.plan.steps]
        steps = {node.id for node in nodes if node.type != "ZeroInsertion"}
        model, keys = self._read(), layer_keys(self.plan.graph)
        layers = _layers(model)
        named = {n.get_friendly_name(): (k, n) for k, n in layers.items()}
        unlike = other_parts(keys.values(), named)
        self._keys = {
            i: [(named[k][0], port) for port in range(named[k][1].get_output_size())]
            for i, k in keys.items()
            if i in steps and k in named and k not in unlike
        }
        if self.file.suffix == ".onnx":
            self.fakes_quantizing = True
            self._match_tensors([n for n in nodes if n.id in steps], layers)
        self._pieces = [] if self.whole else self._cut(model)

    def _match_tensors(self, nodes: Iterable[Node], layers: dict[str, Any]) -> None:
        """Match by the names of tensors, by those of layers only if one side has no others.

        OpenVINO makes several layers of an ONNX node, and the last one has the node's name.
        """
        names = {
            (k, p): o.get_names() for k, n in layers.items() for p, o in enumerate(n.outputs())
        }
        tensors = {name: key for key, of_port in names.items() for name in of_port}
        for node in nodes:
            mine = [node.names_of(port) for port in range(max(node.outputs, 1))]
            found = [next((tensors[n] for n in ports if n in tensors), None) for ports in mine]
            if any(found):
                self._keys[node.id] = found
            elif any(mine) and any(names[k] for k in self._keys.get(node.id, ()) if k):
                del self._keys[node.id]

    def fetch(self, node: Node) -> Fetched | None:
        """Return a layer's outputs, after executing the pieces up to it."""
        keys = self._keys.get(node.id, [])
        while any(key in piece for piece in self._pieces for key in keys):
            self._execute(self._pieces.pop(0))
        arrays = tuple(self._ready.pop(key, None) if key else None for key in keys)
        if all(array is None for array in arrays):
            return None
        return Fetched(next(self._types[k[0]] for k in keys if k and k[0] in self._types), arrays)

    def outputs(self) -> list[Array | None]:
        """Execute the remaining pieces and return the model outputs."""
        while self._pieces:
            self._ready.clear()
            self._execute(self._pieces.pop(0))
        self._ready.clear()
        model = self._read()
        fed = self._replace(_layers(model))
        results = list(model.get_results())
        readable = [r for r in results if _type(r.input_value(0)) in READABLE]
        self._unread += [r.get_friendly_name() for r in results if r not in readable]
        values = iter(self._infer(model, readable, fed)) if readable else iter(())
        return [next(values) if r in readable else None for r in results]

    def close(self) -> None:
        """Forget all values."""
        self._pieces, self._ready, self._kept = [], {}, {}

    def warnings(self) -> list[Diagnostic]:
        """Return the layers whose element types NumPy cannot read from OpenVINO."""
        if not self._unread:
            return []
        message = f"OpenVINO's tensors of {', '.join(self._unread[:8])} cannot be read"
        return [Diagnostic("W502", "warning", message)]

    def _read(self) -> Any:
        """Read the model with the shapes of the inputs."""
        if not self.file.exists():
            raise missing(self.file)
        try:
            model = self._core.read_model(str(self.file), str(self.weights or ""))
            fed = [(p, self._ov.PartialShape(list(a.shape))) for p, a in self._bound(model)]
            shapes = {p: shape for p, shape in fed if p.get_partial_shape() != shape}
            if shapes:
                model.reshape(shapes)
        except UnsupportedError:
            raise
        except RuntimeError as e:
            raise refused(f"OpenVINO does not read {self.file}: {_said(e)}", STANDARD) from None
        return model

    def _bound(self, model: Any) -> list[tuple[Any, Array]]:
        """Return the model's inputs with their arrays: by name, else in order."""
        ports = list(model.inputs)
        if len(ports) != len(self.inputs):
            count = f"{len(ports)} inputs, the first model {len(self.inputs)}"
            raise refused(f"{self.file} has {count} in OpenVINO")
        named = [n for p in ports for n in self.inputs if n in {*p.names, p.node.friendly_name}]
        names = named if sorted(named) == sorted(self.inputs) else list(self.inputs)
        return [(p, self.inputs[n]) for p, n in zip(ports, names, strict=True)]

    def _cut(self, model: Any) -> list[list[Key]]:
        """Return the outputs of every piece, in OpenVINO's order."""
        wanted = {key for keys in self._keys.values() for key in keys}
        pieces: list[list[Key]] = []
        room = 0
        for name, node in _layers(model).items():
            for port, output in enumerate(node.outputs()):
                if (name, port) not in wanted:
                    continue
                if _type(output) not in READABLE:
                    self._unread.append(name)
                    continue
                size = _nbytes(output)
                if not pieces or size > room:
                    pieces.append([])
                    room = PIECE_BYTES
                pieces[-1].append((name, port))
                room -= size
                self._types[name] = node.get_type_name()
        self._last = _last_readers(model, pieces)
        return pieces

    def _execute(self, piece: list[Key]) -> None:
        """Compute one piece, and keep the values that the next ones read."""
        model = self._read()
        layers = _layers(model)
        fed = self._replace(layers)
        results = [self._ov.opset8.result(layers[name].output(port)) for name, port in piece]
        fed |= self._held([layers[name] for name, _ in piece])
        values = dict(zip(piece, self._infer(model, results, fed), strict=True))
        self._ready |= values
        self._done += 1
        kept = self._kept | values
        self._kept = {k: v for k, v in kept.items() if self._last[k] >= self._done}

    def _replace(self, layers: dict[str, Any]) -> dict[Any, Array]:
        """Feed the readers of kept values from new Parameters; return those with their values."""
        fed = {}
        for (name, port), array in self._kept.items():
            output = layers[name].output(port)
            parameter = self._ov.opset8.parameter(list(array.shape), output.get_element_type())
            for reader in list(output.get_target_inputs()):
                reader.replace_source_output(parameter.output(0))
            fed[parameter] = array
        return fed

    def _held(self, layers: Iterable[Any]) -> dict[Any, Array]:
        """Multiply values that others read by a Parameter; return it with its value 1."""
        fed = {}
        for output in [n.output(0) for n in _fused(layers)]:
            if _type(output) == "f32":
                one = self._ov.opset8.parameter([], output.get_element_type())
                readers = list(output.get_target_inputs())
                same = self._ov.opset8.multiply(output, one)
                for reader in readers:
                    if reader.get_node().get_type_name() != "Result":
                        reader.replace_source_output(same.output(0))
                fed[one] = np.ones((), np.float32)
        return fed

    def _infer(self, model: Any, results: list[Any], fed: dict[Any, Array]) -> Iterable[Array]:
        """Compile the part of the model that the results need and run it once."""
        sinks = _assigning(model, results)
        needed = _reachable([*results, *sinks])
        inputs = {p.node.friendly_name: a for p, a in self._bound(model)}
        named = ((p, inputs.get(p.get_friendly_name())) for p in model.get_parameters())
        given = [*fed.items(), *((p, a) for p, a in named if a is not None)]
        feeds = [(p, a) for p, a in given if p.get_friendly_name() in needed]
        try:
            part = self._ov.Model(results, sinks, [p for p, _ in feeds], "part")
            compiled = self._core.compile_model(part, "CPU", CONFIGS[self.computes])
            outputs = compiled([a for _, a in feeds])
            return [_values(outputs[i], _type(r.input_value(0))) for i, r in enumerate(results)]
        except RuntimeError as e:
            raise refused(f"OpenVINO does not execute {self.file}: {_said(e)}") from None


def _fused(layers: Iterable[Any]) -> list[Any]:
    """Return the layers whose values OpenVINO would round with those of their readers.

    Besides FUSED they are factors of a sum: products, and the differences of DequantizeLinear,
    which are no values of the model, (x - zero point) * scale = x * scale - zero point * scale.
    """
    found = {}
    for node in layers:
        below = [i.get_source_output().get_node() for i in node.inputs()]
        kinds = {"Add": "Multiply", "Multiply": "Subtract"}
        inner = [n for n in below if n.get_type_name() == kinds.get(node.get_type_name())]
        for n in [*inner, *([node] if node.get_type_name() in FUSED else [])]:
            found[n.get_friendly_name()] = n
    return list(found.values())


def _type(output: Any) -> str:
    return str(output.get_element_type().get_type_name())


def _values(array: Array, type: str) -> Array:
    """Return a copy of a result: bf16 comes as the bits of float16, f64 was computed in f32."""
    if type == "bf16" and array.dtype == np.float16:
        return np.array(array.view(ml_dtypes.bfloat16))
    return array.astype(np.float32 if type == "f64" else array.dtype)


def _layers(model: Any) -> dict[str, Any]:
    """Return the nodes by their unique names, producers first."""
    hidden = ("Parameter", "Constant", "Result", "Assign")  # the last is no value of its own
    named = [(_key(n), n) for n in model.get_ordered_ops() if n.get_type_name() not in hidden]
    count = Counter(name for name, _ in named)
    return {name: n for name, n in named if count[name] == 1}


def _key(node: Any) -> str:
    """Return a name that every reading gives: OpenVINO numbers layers of ONNX nodes anew."""
    names = [name for output in node.outputs() for name in output.get_names()]
    return str(min(names, default=node.get_friendly_name()))


def _last_readers(model: Any, pieces: list[list[Key]]) -> dict[Key, int]:
    """Return, per output, the last piece that reads it; model outputs are read at the end."""
    number = {name: i for i, piece in enumerate(pieces) for name, _ in piece}
    last: dict[Key, int] = {}
    for node in reversed(list(model.get_ordered_ops())):
        for port, output in enumerate(node.outputs()):
            readers = [i.get_node() for i in output.get_target_inputs()]
            times = (_time(r, number, last, len(pieces)) for r in readers)
            last[_key(node), port] = max(times, default=-1)
    return {key: last[key] for piece in pieces for key in piece}


def _time(reader: Any, number: dict[str, int], last: dict[Key, int], end: int) -> int:
    if reader.get_type_name() == "Result":
        return end
    name = _key(reader)
    if name in number:
        return number[name]
    outputs = range(reader.get_output_size())
    # The model need not have the reader: importers leave layers behind that no result needs.
    return max((last.get((name, port), -1) for port in outputs), default=end)


def _reachable(results: Iterable[Any]) -> set[str]:
    """Return the names of all nodes that the results need."""
    seen: set[str] = set()
    todo = list(results)
    while todo:
        node = todo.pop()
        if node.get_friendly_name() not in seen:
            seen.add(node.get_friendly_name())
            todo += [v.get_node() for v in node.input_values()]
    return seen


def _assigning(model: Any, results: Iterable[Any]) -> list[Any]:
    """Return the assignments of variables that are read; OpenVINO executes no others alone."""
    needed = _reachable(results)
    nodes = list(model.get_ordered_ops())
    read = [n for n in nodes if n.get_type_name() == "ReadValue"]
    names = {_variable_of(n) for n in read if n.get_friendly_name() in needed}
    return [n for n in nodes if n.get_type_name() == "Assign" and _variable_of(n) in names]


def _variable_of(node: Any) -> str:
    return str(node.get_attributes()["variable_id"])


def _nbytes(output: Any) -> int:
    shape = output.get_partial_shape()
    if shape.is_dynamic:
        return PIECE_BYTES // 8
    size: int = output.get_element_type().size
    return math.prod(map(int, shape.get_shape())) * size


def _said(error: Exception) -> str:
    return last_line(str(error)) or type(error).__name__


@dataclass
class OnnxRuntimePartner(Partner):
    """The model of an .onnx file, executed by ONNX Runtime on the inputs of a plan.

    Layers are matched by the names of their tensors. `inputs` are by the plan's input names. With
    `whole` only the outputs are fetched, so that layers may be fused. Raises UnsupportedError if
    ONNX Runtime is missing or refuses, UsageError for a file of another format, FileAccessError if
    there is no such file.
    """

    plan: Plan
    file: Path
    inputs: dict[str, Array]
    whole: bool = False
    _groups: list[list[str]] = field(default_factory=list)
    _ready: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed("comparing with ONNX Runtime", "onnxruntime", "InferenceSession")
        if not self.file.exists():
            raise missing(self.file)
        if not is_onnx(self.file):
            hint = "onnxruntime:FILE.onnx names a model for it"
            raise misused(f"ONNX Runtime does not read {self.file}: it is no .onnx", hint)
        proto, _ = load(str(self.file), None, Location(SourceFile(str(self.file), b"")))
        self._types = {o: n.op_type for n in proto.graph.node for o in n.output if o}
        self._ends = [o.name for o in proto.graph.output]
        if not self.whole:
            self._group()
        for name in {name for group in self._groups for name in group}.difference(self._ends):
            proto.graph.output.add(name=name)
        for node in (n for n in proto.graph.node if n.op_type == "ZipMap"):
            node.op_type, node.domain = "Identity", ""  # as here: the tensor instead of maps
            del node.attribute[:]
            for end in (o for o in proto.graph.output if o.name in node.output):
                end.ClearField("type")
        with self._errors():
            self._session = onnx_session(proto.SerializeToString())
            names = [end.name for end in self._session.get_inputs()]
            given = in_order([{name} for name in names], self.inputs)
            self._feeds = dict(zip(names, given, strict=True))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as e:  # of any class
            raise refused(f"ONNX Runtime fails on {self.file}: {last_line(str(e))}") from None

    def _group(self) -> None:
        """Divide the tensors that both sides have, in the order of the plan."""
        room = 0
        for step in self.plan.steps:
            specs = step.node.specs or ()
            known = [s.dtype is not None and s.dtype.name in READABLE for s in specs]
            named = [self._name(step.node, port) for port in range(len(specs))]
            names = [name for name, read in zip(named, known, strict=True) if name and read]
            size = sum(PIECE_BYTES // 8 if s.nbytes is None else s.nbytes for s in specs)
            # All outputs of a layer are in one group: `fetch` has no more than one at a time.
            if names and (not self._groups or size > room):
                self._groups.append([])
                room = PIECE_BYTES
            if names:
                self._groups[-1] += names
                room -= size

    def _name(self, node: Node, port: int) -> str | None:
        return next((n for n in node.names_of(port) if n in self._types), None)

    def fetch(self, node: Node) -> Fetched | None:
        """Return a layer's outputs, after the run that computes its group."""
        names = [self._name(node, port) for port in range(max(node.outputs, 1))]
        wanted = {name for name in names if name is not None}
        while self._groups and not wanted.isdisjoint(n for g in self._groups for n in g):
            group = self._groups.pop(0)
            with self._errors():
                self._ready = dict(zip(group, self._session.run(group, self._feeds), strict=True))
        found = tuple(self._ready.get(name or "") for name in names)
        if all(array is None for array in found):
            return None
        return Fetched(next(self._types[name] for name in names if name), found)

    def outputs(self) -> list[Array | None]:
        """Return the model outputs."""
        self._ready = {}
        with self._errors():
            return list(self._session.run(self._ends, self._feeds))

    def close(self) -> None:
        """Forget all values."""
        self._groups, self._ready = [], {}
