"""IR files of one deconvolution, written by hand and not by the package's writer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from support import irbuild as ib
from support.layers import Layer

ELEMENT_TYPES = {"float32": "f32", "int64": "i64", "int32": "i32"}


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
) -> Path:
    """Write `path` and its `.bin`: input x, constant filter, layer `deconv`, output y.

    `data_shape` declares other (-1: dynamic) dimensions; with `shape_input` output_shape is a model
    input instead of a constant.
    """
    declared = list(layer.data_shape if data_shape is None else data_shape)
    w = np.ascontiguousarray(w, dtype)
    element_type = ELEMENT_TYPES[w.dtype.name]
    layers = [
        ib.parameter(0, "x", declared, element_type, names="x"),
        ib.const(1, "w", w.shape, 0, w.nbytes, element_type),
    ]
    blob, shapes = w.tobytes(), [(declared, element_type), (w.shape, element_type)]
    if layer.output_shape is not None:
        wanted = np.array(layer.output_shape, np.int64)
        shapes.append((wanted.shape, "i64"))
        layers.append(_output_shape(wanted, len(blob), shape_input))
        blob += b"" if shape_input else wanted.tobytes()
    output = [declared[0], layer.m * (layer.groups or 1), *layer.output_size]
    if data_shape is not None or shape_input:
        output[2:] = [-1] * layer.axes
    precision, n = ib.PRECISIONS[element_type], len(shapes)
    inputs = [ib.port(i, s, ib.PRECISIONS[t]) for i, (s, t) in enumerate(shapes)]
    outputs = [ib.port(n, output, precision, ' names="y"')]
    kind, data = layer.op.type, attributes(layer)
    layers.append(ib.layer(3, "deconv", kind, data, inputs=inputs, outputs=outputs))
    layers.append(ib.layer(4, "y/sink", "Result", inputs=[ib.port(0, output, precision)]))
    ends = [(i, 0, 3, i) for i in range(n)] + [(3, n, 4, 0)]
    path.write_text(ib.net(layers, *ends, name="one"))
    path.with_suffix(".bin").write_bytes(blob)
    return path


def _output_shape(wanted: Any, offset: int, shape_input: bool) -> str:
    if shape_input:
        return ib.parameter(2, "output_shape", wanted.shape, "i64", names="output_shape")
    return ib.const(2, "output_shape", wanted.shape, offset, wanted.nbytes, "i64")


# The network of most tests of the command line: one small deconvolution.


LAYER = Layer(1, (4, 4), None, 3, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
W = np.arange(54, dtype=np.float32).reshape(3, 2, 3, 3)


def write_small_net(folder: Path) -> Path:
    """Write net.xml and net.bin into a folder."""
    return write_ir(folder / "net.xml", LAYER, W)
