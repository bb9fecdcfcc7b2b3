"""ONNX models around a ConvTranspose of integers, whose sums are exact in f32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Ints = tuple[int, ...]
FORMS = ("zero-insertion", "phases", "stacked", "gemm", "auto")


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
