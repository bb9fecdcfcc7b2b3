"""IR files of one deconvolution, written by hand and not by the package's writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from layers import Layer

PRECISION = {"float32": ("f32", "FP32"), "int64": ("i64", "I64"), "int32": ("i32", "I32")}


def _dims(shape: Sequence[Any]) -> str:
    return "".join(f"<dim>{d}</dim>" for d in shape)


def _port(id: int, shape: Sequence[Any], dtype: Any, names: str = "") -> str:
    named = f' names="{names}"' if names else ""
    precision = PRECISION[np.dtype(dtype).name][1]
    return f'<port id="{id}" precision="{precision}"{named}>{_dims(shape)}</port>'


def _parameter(id: int, name: str, shape: Sequence[Any], dtype: Any) -> str:
    text = ",".join("?" if d == -1 else str(d) for d in shape)
    element_type = PRECISION[np.dtype(dtype).name][0]
    return (
        f'<layer id="{id}" name="{name}" type="Parameter" version="opset1">'
        f'<data shape="{text}" element_type="{element_type}"/>'
        f"<output>{_port(0, shape, dtype, name)}</output></layer>"
    )


def _const(id: int, name: str, array: Any, offset: int) -> str:
    text = ",".join(map(str, array.shape))
    element_type = PRECISION[array.dtype.name][0]
    return (
        f'<layer id="{id}" name="{name}" type="Const" version="opset1">'
        f'<data element_type="{element_type}" shape="{text}" offset="{offset}" '
        f'size="{array.nbytes}"/><output>{_port(0, array.shape, array.dtype)}</output></layer>'
    )


def attributes(layer: Layer) -> str:
    """Return the attributes of `<data>`."""
    lists = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")
    texts = {name: ",".join(map(str, getattr(layer, name))) for name in lists}
    texts["auto_pad"] = layer.auto_pad
    return " ".join(f'{k}="{v}"' for k, v in texts.items())


def write_ir(
    path: Path,
    layer: Layer,
    w: Any,
    dtype: Any = np.float32,
    *,
    data_shape: Sequence[int] | None = None,
    shape_input: bool = False,
) -> None:
    """Write `path` and its `.bin`: input x, constant filter, layer `deconv`, output y.

    `data_shape` declares other (-1: dynamic) dimensions; with `shape_input` output_shape is a model
    input instead of a constant.
    """
    declared = list(layer.data_shape if data_shape is None else data_shape)
    w = np.ascontiguousarray(w, dtype)
    layers = [_parameter(0, "x", declared, dtype), _const(1, "w", w, 0)]
    blob, shapes = w.tobytes(), [(declared, dtype), (w.shape, dtype)]
    if layer.output_shape is not None:
        wanted = np.array(layer.output_shape, np.int64)
        shapes.append((wanted.shape, np.int64))
        if shape_input:
            layers.append(_parameter(2, "output_shape", wanted.shape, np.int64))
        else:
            layers.append(_const(2, "output_shape", wanted, len(blob)))
            blob += wanted.tobytes()
    output = [declared[0], layer.m * (layer.groups or 1), *layer.output_size]
    if data_shape is not None or shape_input:
        output[2:] = [-1] * layer.axes
    n = len(shapes)
    inputs = "".join(_port(i, *s) for i, s in enumerate(shapes))
    layers.append(
        f'<layer id="3" name="deconv" type="{layer.op.type}" version="opset1">'
        f"<data {attributes(layer)}/><input>{inputs}</input>"
        f"<output>{_port(n, output, dtype, 'y')}</output></layer>"
        '<layer id="4" name="y/sink" type="Result" version="opset1">'
        f"<input>{_port(0, output, dtype)}</input></layer>"
    )
    edges = [(i, 0, 3, i) for i in range(n)] + [(3, n, 4, 0)]
    text = "".join(
        f'<edge from-layer="{a}" from-port="{p}" to-layer="{b}" to-port="{q}"/>'
        for a, p, b, q in edges
    )
    path.write_text(
        '<?xml version="1.0"?><net name="one" version="11"><layers>'
        f"{''.join(layers)}</layers><edges>{text}</edges></net>"
    )
    path.with_suffix(".bin").write_bytes(blob)
