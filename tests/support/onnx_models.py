"""ONNX models of tests: how they are made, deconvolutions, and what computes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird
from irdeconv.base.form_names import AUTO, CONDITIONS
from support.runtime_truth import outputs

# ONNX models for tests, made with onnx.helper, and ONNX Runtime as their reader.

F32 = TensorProto.FLOAT


def info(name: str, shape: Any, dtype: int = F32) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 17,
) -> Any:
    """A model; outputs are names (untyped) or value infos."""
    initializers = [
        numpy_helper.from_array(np.asarray(v), name) for name, v in (constants or {}).items()
    ]
    ends = [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), ends, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 9
    return made


def node(type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node, with the names of its inputs and outputs in a text."""
    return helper.make_node(type, inputs.split(), outputs.split(), name=f"L{outputs}", **attributes)


def single(
    type: str,
    feeds: dict[str, Any],
    constants: dict[str, Any] | None = None,
    *,
    outputs: int = 1,
    inputs: Sequence[str] | None = None,
    opset: int = 17,
    **attributes: Any,
) -> Any:
    """A model of one node `n` whose inputs are the feeds, then the constants."""
    names = list(inputs or [*feeds, *(constants or {})])
    ends = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(type, names, ends, name="n", **attributes)
    kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in feeds.items()}
    infos = [info(k, v.shape, kinds[k]) for k, v in feeds.items()]
    return model([node], infos, ends, constants, opset=opset)


def convert(made: Any, **options: Any) -> ird.Graph:
    return ird.convert(made.SerializeToString(), **options)


def run(made: Any, feeds: dict[str, Any], form: str | None = None) -> list[Any]:
    return list(ird.run(convert(made), feeds, form=form).values())


def typed(made: Any) -> Any:
    """The model with typed outputs, as ONNX Runtime wants them."""
    out = onnx.shape_inference.infer_shapes(made)
    known = {v.name: v for v in out.graph.value_info}
    for o in out.graph.output:
        if o.name in known and not o.type.WhichOneof("value"):
            o.CopyFrom(known[o.name])
    return out


def runtime(made: Any, feeds: dict[str, Any]) -> list[Any]:
    """ONNX Runtime's outputs, computed without rewriting the graph."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        typed(made).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


# ONNX models around a ConvTranspose of integers, whose sums are exact in f32.

Ints = tuple[int, ...]
FORMS = (*CONDITIONS, AUTO)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A ConvTranspose: shapes of data and filter, which of the data's axes are open, the rest."""

    data: Ints
    filter: Ints
    open: Ints = ()
    bias: bool = True
    computed: bool = False
    opset: int = 17
    ir: int = 8
    listed: bool = False
    dtype: int = TensorProto.FLOAT
    attributes: dict[str, Any] = field(default_factory=dict)

    def numbers(self, shape: Ints, seed: int = 0) -> Any:
        values = np.random.default_rng(seed).integers(-4, 5, shape)
        return values.astype(helper.tensor_dtype_to_np_dtype(self.dtype))

    def info(self, name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, self.dtype, shape)

    @property
    def weights(self) -> dict[str, Any]:
        groups = self.attributes.get("group", 1)
        bias = {"b": self.numbers((self.filter[1] * groups,), 2)} if self.bias else {}
        return {"w": self.numbers(self.filter, 1), **bias}

    @property
    def feeds(self) -> dict[str, Any]:
        return {"x": self.numbers(self.data), **(self.weights if self.computed else {})}

    def model(self) -> Any:
        """x -> ConvTranspose "up/ConvTranspose" -> y -> Neg -> z."""
        dims = [f"d{a}" if a in self.open else n for a, n in enumerate(self.data)]
        inputs = [self.info("x", dims)]
        tensors = [numpy_helper.from_array(v, k) for k, v in self.weights.items()]
        if self.computed or self.listed:
            inputs += [self.info(k, v.shape) for k, v in self.weights.items()]
        names = ["x", *self.weights]
        up = helper.make_node("ConvTranspose", names, ["y"], "up/ConvTranspose", **self.attributes)
        nodes = [up, helper.make_node("Neg", ["y"], ["z"], "last")]
        ends = [self.info("z", [None] * len(self.data))]
        kept = [] if self.computed else tensors
        graph = helper.make_graph(nodes, "g", inputs, ends, kept)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir)


def types(made: Any) -> list[str]:
    """The operation types of a model's own graph, in order."""
    return [n.op_type for n in made.graph.node]


def run_onnx(made: Any, feeds: dict[str, Any]) -> list[Any]:
    """ONNX Runtime's outputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = made if isinstance(made, str) else made.SerializeToString()
    return list(ort.InferenceSession(data, options).run(None, feeds))


def checked(made: Any) -> Any:
    """The model, which onnx's own checker accepts."""
    onnx.checker.check_model(made, full_check=True)
    return made


# irdeconv, OpenVINO on the IR that it writes, and ONNX Runtime compute a model alike.


def real(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def integers(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def openvino(graph: ird.Graph, feeds: dict[str, Any], path: Path) -> list[Any]:
    """OpenVINO's outputs of the IR that irdeconv writes."""
    ird.write(graph, path)
    return outputs(path, feeds)


def agree(made: Any, feeds: dict[str, Any], path: Path, *, steps: int = 0) -> None:
    """All compute the same: real numbers up to rounding, integers up to `steps`."""
    graph = convert(made)
    every = {
        "irdeconv": list(ird.run(graph, feeds).values()),
        "openvino": openvino(graph, feeds, path),
    }
    want = runtime(made, feeds)
    for name, got in every.items():
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            assert mine.shape == theirs.shape, name
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(mine, theirs, 1e-4, atol=1e-5, err_msg=name)
            else:
                gap = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
                assert gap.max(initial=0) <= steps, name
