"""ONNX models for tests, made with onnx.helper, and ONNX Runtime as their reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird

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
