"""A case of the ONNX dialect as an ONNX model of one node (extra `onnx`)."""

from __future__ import annotations

from typing import Any

from irdeconv.conformance.cases import SuiteCase
from irdeconv.conformance.vectors import Vectors
from irdeconv.errors import Diagnostic, UnsupportedError
from irdeconv.extras import ExtraError, extra
from irdeconv.spec import Array

_LISTS = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
_IR_VERSION = {1: 3, 11: 6, 22: 10}  # the one of the release that brought the operation set


def require_onnx() -> None:
    """Raise UnsupportedError where the package onnx is missing."""
    try:
        extra("onnx.helper")
    except ExtraError as e:
        message = f"writing .onnx needs the package onnx, which {e}"
        raise UnsupportedError(Diagnostic("E506", "error", message)) from e


def onnx_model(case: SuiteCase, made: Vectors) -> bytes:
    """Return the model: constants as initializers, the inputs and the output `y`."""
    helper = extra("onnx.helper")
    op: Any = case.layer.op
    opset = int(op.version.removeprefix("onnx_opset"))
    given = {name: list(getattr(op, name)) for name in _LISTS if getattr(op, name)}
    given |= {"group": op.group} | ({"auto_pad": op.auto_pad} if op.auto_pad != "NOTSET" else {})
    ports = [p for p in ("x", "filter", "bias") if p in made.inputs or p in made.constants]
    node = helper.make_node("ConvTranspose", ports, ["y"], name="deconv", **given)
    kind = helper.np_dtype_to_tensor_dtype(case.layer.dtype.container)

    def info(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    def tensor(name: str, array: Array) -> Any:
        return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)

    # Version 3 of the file format lists initializers among the inputs.
    inputs = [info(n, a.shape) for n, a in made.inputs.items()]
    if opset == 1:
        inputs += [info(n, a.shape) for n, a in made.constants.items()]
    graph = helper.make_graph(
        [node],
        case.name,
        inputs,
        [info("y", case.layer.output)],
        [tensor(n, a) for n, a in made.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = _IR_VERSION[opset]
    model.producer_name, model.producer_version = "irdeconv", ""
    return bytes(model.SerializeToString(deterministic=True))
