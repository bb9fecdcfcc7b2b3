"""Reading ONNX models: nodes in order, each by the rule of its type, into a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irdeconv.errors import UnsupportedError
from irdeconv.geometry import Semantics
from irdeconv.graph import Value
from irdeconv.importers import (  # noqa: F401 -- importing fills RULES
    onnx_convolution,
    onnx_elementwise,
    onnx_normalization,
    onnx_reduction,
    onnx_resize,
    onnx_shape,
)
from irdeconv.importers.builder import Refusal
from irdeconv.importers.imported import Imported, malformed
from irdeconv.importers.onnx_node import NHWC, RULES, OnnxNode
from irdeconv.importers.onnx_tensors import declared_shape, element_type, onnx_module, to_array
from irdeconv.importers.reader import ModelReader
from irdeconv.source import Location, SourceFile
from irdeconv.spec import Shape
from irdeconv.suggest import did_you_mean

OLDEST = 7
ATTRIBUTE_KINDS = {1: "f", 2: "i", 3: "s", 4: "t", 6: "floats", 7: "ints", 8: "strings"}


def read_onnx(
    path: str,
    data: bytes | Any | None = None,
    *,
    shapes: Mapping[str, Shape | None] | None = None,
    semantics: Semantics = "runtime",
) -> Imported:
    """Read an ONNX model (operation sets 7 and later) from a file, its bytes or a ModelProto.

    Tensor names stay, node names become layer names. `shapes` makes open input shapes exact.
    Raises UnsupportedError with everything that is not covered, InputError for a bad file,
    InferenceError where shapes do not fit. Needs the package onnx.
    """
    location = Location(SourceFile(path, b""))
    model, files = _load(path, data, location)
    done = OnnxReader(location, dict(shapes or {}), semantics, model).read()
    done.files = files
    return done


def _load(path: str, data: bytes | Any | None, location: Location) -> tuple[Any, tuple[Path, ...]]:
    """Return a ModelProto with local functions inlined, and the files of its external data."""
    onnx = onnx_module("onnx", "load", "checker")
    protobuf = onnx_module("google.protobuf.message")
    try:
        if data is None:
            model = onnx.load(path, load_external_data=False)
            files = _external(model, Path(path).parent)
            onnx_module("onnx.external_data_helper").load_external_data_for_model(
                model, str(Path(path).parent)
            )
        elif isinstance(data, bytes):
            model, files = onnx.load_model_from_string(data), ()
        else:
            model, files = data, ()
        if model.functions:
            model = onnx_module("onnx.inliner").inline_local_functions(model)
    except (protobuf.DecodeError, protobuf.Error) as e:
        raise malformed(location, "not an ONNX model: its protobuf cannot be read") from e
    except FileNotFoundError as e:
        if str(e.filename or path) == path:
            raise
        raise malformed(location, f"external data is missing: {e.filename}") from None
    except UnsupportedError:
        raise
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as e:
        raise malformed(location, f"the ONNX model cannot be loaded: {e}") from None
    if not model.graph.node and not model.graph.output:
        raise malformed(location, "not an ONNX model: it has no nodes and no outputs")
    return model, files


def _external(model: Any, folder: Path) -> tuple[Path, ...]:
    """Return the files that initializers name."""
    entries = (e for t in model.graph.initializer for e in t.external_data)
    return tuple({folder / e.value for e in entries if e.key == "location"})


@dataclass
class OnnxReader(ModelReader):
    """Builds the graph of one ONNX model."""

    model: Any
    values: dict[str, Value | None] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)

    def read(self) -> Imported:
        """Import inputs, nodes and outputs; raise everything that is wrong at once."""
        graph = self.model.graph
        self.results = [o.name for o in graph.output]
        self.opsets = {i.domain or "ai.onnx": i.version for i in self.model.opset_import}
        done = self.start(graph.name or "model", f"ONNX, operation set {self._opset('')}")
        if self._check_opsets():
            self._inputs()
            for node in graph.node:
                done.kinds[self._label(node)] += 1
                self._node(node)
            self._outputs()
        return self.finish(done)

    def _opset(self, domain: str) -> int:
        return int(self.opsets.get(domain or "ai.onnx", 0))

    def _check_opsets(self) -> bool:
        latest = onnx_module("onnx.defs").onnx_opset_version()
        opset = self._opset("")
        if OLDEST <= opset <= latest or (not opset and self.opsets):
            return True
        if not opset:
            self.out.malformed("the model names no operation set")
        elif opset < OLDEST:
            text = f"operation set {opset} is not covered; the oldest is {OLDEST}"
            self.out.uncovered("", text, "onnx.version_converter makes newer models of old ones")
        else:
            text = f"operation set {opset} is newer than the installed onnx, which knows {latest}"
            self.out.uncovered("", text, "install a newer onnx")
        return False

    # Inputs, initializers, outputs -------------------------------------------------------------

    def _inputs(self) -> None:
        graph = self.model.graph
        self.tensors = {t.name: t for t in graph.initializer}
        if graph.sparse_initializer:
            self.out.uncovered("", "sparse initializers are not covered")
        inputs = [i for i in graph.input if i.name not in self.tensors]
        names = [i.name for i in inputs]
        if "" in self.shapes and len(names) == 1:
            self.shapes[names[0]] = self.shapes.pop("")
        for item in inputs:
            self.values[item.name] = self._input(item)
        for name in sorted(set(self.shapes) - set(names)):
            text = f'the model has no input "{name}"; it has {", ".join(names)}'
            self.out.add("E310", text, hint=did_you_mean(name, names))

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
        shape = self.shapes.get(item.name, declared_shape(tensor))
        return self.builder.parameter(item.name, dtype, shape)

    def _value(self, name: str) -> Value | None:
        """Return a tensor by name, making the constant of an initializer at its first use."""
        if name not in self.values and name in self.tensors:
            try:
                array, dtype = to_array(self.tensors[name])
                self.values[name] = self.builder.constant(name, array, dtype)
            except Refusal as e:
                self.values[name] = None
                self.out.uncovered(name, f'initializer "{name}": {e}')
            except (ValueError, TypeError, OSError) as e:
                self.values[name] = None
                self.out.malformed(f'initializer "{name}": {e}', "E122")
        return self.values.get(name)

    def _outputs(self) -> None:
        self.builder.begin("outputs")
        for name in self.results:
            value = self._value(name)
            if value is not None:
                self.builder.result(value, name)
            elif name not in self.values:
                self.out.malformed(f'the output "{name}" has no producer', "E204")

    # Nodes -------------------------------------------------------------------------------------

    def _label(self, node: Any) -> str:
        return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)

    def _node(self, node: Any) -> None:
        """Import one node; what is wrong is recorded and its outputs are unknown then."""
        name = node.name or next((o for o in node.output if o), node.op_type)
        inputs = [self._value(i) if i else None for i in node.input]
        for i in node.input:
            if i and i not in self.values:
                text = f'{self._title(node)}: its input "{i}" has no producer'
                self.out.malformed(text, "E204", "nodes must come after those that they use")
        self.values.update({o: None for o in node.output if o})
        view = self._view(node, name, tuple(inputs))
        if view is None or any(i and v is None for i, v in zip(node.input, inputs, strict=True)):
            return
        self.attempt(name, self._title(node), lambda: self._build(node, view))

    def _title(self, node: Any) -> str:
        name = node.name or next((o for o in node.output if o), "")
        return f'{self._label(node)} "{name}" (operation set {self._opset(node.domain)})'

    def _view(self, node: Any, name: str, inputs: tuple[Value | None, ...]) -> OnnxNode | None:
        """Return the node as its rule sees it; None, with a report, where there is no rule."""
        version, problem = self._version(node)
        if problem is None and any(a.ref_attr_name for a in node.attribute):
            problem = "attributes that refer to a function's are not covered"
        if problem is not None:
            self.out.uncovered(name, f"{self._title(node)}: {problem}")
            return None
        attributes = {a.name: _attribute(a) for a in node.attribute}
        outputs = tuple(node.output)
        return OnnxNode(
            type=node.op_type,
            name=name,
            version=version,
            attributes=attributes,
            inputs=inputs,
            outputs=outputs,
            semantics=self.semantics,
        )

    def _version(self, node: Any) -> tuple[int, str | None]:
        """Return the version of a node's operation, and why it is not covered."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        coverage = RULES.get((domain, node.op_type))
        if coverage is None:
            return 0, "the operation is not covered"
        opset = self._opset(domain)
        if domain == NHWC:
            return max((v for v in coverage.versions if v <= opset), default=1), None
        defs = onnx_module("onnx.defs")
        try:
            version = int(defs.get_schema(node.op_type, opset, domain).since_version)
        except defs.SchemaError:
            return 0, "this operation set does not have the operation"
        if version not in coverage.versions:
            return version, f"version {version} of the operation is not covered"
        return version, None

    def _build(self, node: Any, view: OnnxNode) -> None:
        """Apply the rule and give its results their names."""
        coverage = RULES["" if node.domain == "ai.onnx" else node.domain, node.op_type]
        made = coverage.rule(view, self.builder)
        results = (made,) if isinstance(made, Value) else made
        view.refuse_rest()
        if any(view.wants(i) for i in range(len(results), len(view.outputs))):
            raise Refusal(f"more outputs than {len(results)} are not covered")
        for text in view.remarks:
            message = f"{self._title(node)}: {text}"
            self.out.add("W303", message, location=self.location, layer=view.name)
        self.builder.own(results[0], layer=view.name)
        for name, value in zip(view.outputs, results, strict=False):
            if name:
                alone = name in self.results
                self.values[name] = self.builder.bind(value, name, alone=alone)


def _attribute(a: Any) -> Any:
    """Return an attribute as int, float, str, a tuple of them, or a TensorProto."""
    field_name = ATTRIBUTE_KINDS.get(a.type)
    if field_name is None:
        return a
    value = getattr(a, field_name)
    if field_name == "s":
        return value.decode("utf-8", "replace")
    if field_name == "strings":
        return tuple(v.decode("utf-8", "replace") for v in value)
    return tuple(value) if field_name in ("floats", "ints") else value
