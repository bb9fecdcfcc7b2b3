"""ONNX element types, tensors and declared shapes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from irdeconv.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.extras import needed
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.spec import DYNAMIC, Array, Shape

# TensorProto.DataType by name; complex numbers and the FNUZ types have no counterpart.
_BY_ONNX_NAME = {
    "FLOAT": "f32",
    "DOUBLE": "f64",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "f8e4m3",
    "FLOAT8E5M2": "f8e5m2",
    "FLOAT8E8M0": "f8e8m0",
    "FLOAT4E2M1": "f4e2m1",
    "INT64": "i64",
    "INT32": "i32",
    "INT16": "i16",
    "INT8": "i8",
    "INT4": "i4",
    "UINT64": "u64",
    "UINT32": "u32",
    "UINT16": "u16",
    "UINT8": "u8",
    "UINT4": "u4",
    "UINT2": "u2",
    "BOOL": "boolean",
    "STRING": "string",
}


def onnx_module(name: str = "onnx", *names: str) -> Any:
    """Import a module of the package onnx; UnsupportedError where it is missing or broken."""
    return needed("reading ONNX models", name, *names)


def element_type(number: int) -> ElementType:
    """Return the element type of a TensorProto.DataType; Refusal where there is none."""
    name = _type_names().get(number, str(number))
    if name not in _BY_ONNX_NAME:
        raise Refusal(f"the element type {name} is not covered")
    return ELEMENT_TYPES[_BY_ONNX_NAME[name]]


@cache
def _type_names() -> dict[int, str]:
    return {v: k for k, v in onnx_module().TensorProto.DataType.items()}


def onnx_type(dtype: ElementType) -> int:
    """Return the TensorProto.DataType of an element type; Refusal where ONNX has none."""
    name = next((k for k, v in _BY_ONNX_NAME.items() if v == dtype.name), None)
    if name is None:
        raise Refusal(f"ONNX has no element type {dtype}")
    number: int = onnx_module().TensorProto.DataType.Value(name)
    return number


def to_array(tensor: Any) -> tuple[Array, ElementType]:
    """Return the values of a TensorProto in their container, and the element type.

    Raises Refusal for types without a counterpart, ValueError where the data does not fit the
    shape or was left in another file.
    """
    helper = onnx_module("onnx.numpy_helper")
    dtype = element_type(tensor.data_type)
    if tensor.data_location == tensor.EXTERNAL:
        raise ValueError("its data lies in another file, which was not read")
    if tensor.HasField("segment"):
        raise ValueError("it is a segment of a tensor, which is not covered")
    shape = list(tensor.dims)
    if any(d < 0 for d in shape):
        raise ValueError(f"its shape {shape} has a negative dimension")
    try:
        values = helper.to_array(tensor)
    except (ValueError, TypeError):
        raise ValueError(f"its data do not fill the shape {shape} of {dtype}") from None
    if dtype.kind == "string":
        # Not values.flat, which stops at 32 axes.
        text = [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in values.reshape(-1)]
        out = np.empty(len(text), object)
        out[:] = text
        return out.reshape(values.shape), dtype
    return np.asarray(values).astype(dtype.container, copy=False), dtype


def declared_shape(tensor: Any) -> Shape | None:
    """Return the shape of a TypeProto.Tensor: symbols and unset dimensions are open."""
    if not tensor.HasField("shape"):
        return None
    return tuple(
        int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else DYNAMIC
        for d in tensor.shape.dim
    )


def type_proto(builder: ImportBuilder, value: Any) -> Any:
    """Return the TypeProto of a value; an empty one for anything else than a tensor."""
    out = onnx_module().TypeProto()
    if not isinstance(value, Value):
        return out
    out.tensor_type.elem_type = onnx_type(builder.dtype(value))
    shape = builder.spec(value).shape
    if shape is not None:
        out.tensor_type.shape.SetInParent()
        for dim in shape:
            new = out.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                new.dim_value = dim
    return out
