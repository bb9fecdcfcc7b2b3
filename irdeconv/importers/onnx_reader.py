"""Reading ONNX models: inputs, nodes and outputs, into a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irdeconv.geometry import Semantics
from irdeconv.graph import Value
from irdeconv.importers import (  # noqa: F401 -- importing fills RULES
    onnx_arithmetic,
    onnx_cast,
    onnx_control,
    onnx_convolution,
    onnx_elementwise,
    onnx_integer,
    onnx_microsoft,
    onnx_normalization,
    onnx_pad,
    onnx_places,
    onnx_pooling,
    onnx_qlinear,
    onnx_quantization,
    onnx_random,
    onnx_recurrent,
    onnx_reduction,
    onnx_resize,
    onnx_sequence,
    onnx_shape,
    onnx_signal,
)
from irdeconv.importers.builder import Refusal
from irdeconv.importers.imported import Imported
from irdeconv.importers.onnx_model import load
from irdeconv.importers.onnx_names import Names, opsets_of
from irdeconv.importers.onnx_nodes import NodeReader, label
from irdeconv.importers.onnx_tensors import declared_shape, element_type, onnx_module
from irdeconv.source import Location, SourceFile
from irdeconv.spec import Shape
from irdeconv.suggest import did_you_mean


def read_onnx(
    path: str,
    data: bytes | Any | None = None,
    *,
    shapes: Mapping[str, Shape | None] | None = None,
    semantics: Semantics = "runtime",
) -> Imported:
    """Read an ONNX model from a file, its bytes or a ModelProto.

    Tensor names stay, node names become layer names. `shapes` makes open input shapes exact.
    Raises UnsupportedError with everything that is not covered, InputError for a bad file,
    InferenceError where shapes do not fit. Needs the package onnx.
    """
    location = Location(SourceFile(path, b""))
    model, files = load(path, data, location)
    done = OnnxReader(location, dict(shapes or {}), semantics).read(model)
    done.files = files
    return done


class OnnxReader(NodeReader):
    """Builds the graph of one ONNX model."""

    def read(self, model: Any) -> Imported:
        """Import inputs, nodes and outputs; raise everything that is wrong at once."""
        graph = model.graph
        outputs = [o.name for o in graph.output]
        self.results = frozenset(outputs)
        opsets = opsets_of(model.opset_import)
        format = f"ONNX, operation set {opsets.get('', 0)}"
        done = self.start(graph.name or "model", format)
        names = Names(
            builder=self.builder,
            opsets=opsets,
            tensors={t.name: t for t in graph.initializer},
        )
        if self._check_opsets(opsets):
            self._inputs(graph, names)
            done.kinds.update(map(label, graph.node))
            self.nodes(names, graph.node)
            self._outputs(outputs, names)
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
            self.out.uncovered("", text, "install a newer onnx")
        return False

    def _inputs(self, graph: Any, names: Names) -> None:
        if graph.sparse_initializer:
            self.out.uncovered("", "sparse initializers are not covered")
        inputs = [i for i in graph.input if i.name not in names.tensors]
        given = [i.name for i in inputs]
        if "" in self.shapes and len(given) == 1:
            self.shapes[given[0]] = self.shapes.pop("")
        for item in inputs:
            names.values[item.name] = self._input(item)
        for name in sorted(set(self.shapes) - set(given)):
            text = f'the model has no input "{name}"; it has {", ".join(given)}'
            self.out.add("E310", text, hint=did_you_mean(name, given))

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
