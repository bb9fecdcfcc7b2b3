"""A suite's layers by the tests' own definition: the scatter of tests/support/oracle.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from irdeconv.verify.suite_layer import SuiteLayer
from support.dialect_layers import ACTIVATIONS, DialectLayer
from support.dialect_layers import expected as expected_of_dialect
from support.layers import Layer
from support.layers import expected as expected_of_openvino

VERSIONS = {
    "onednn": "onednn_graph_1",
    "onnx": "onnx_opset11",
    "ort-nhwc": "com.ms.internal.nhwc_11",
    "tensorrt": "tensorrt",
}


def naive(layer: SuiteLayer, arrays: dict[str, Any]) -> Any:
    """The output by loops over scalars; attributes are read anew from what the layer says."""
    x, w, bias = arrays["x"], arrays["filter"], arrays.get("bias")
    wide = [None if a is None else a.astype(np.float64) for a in (x, w, bias)]
    if layer.dialect == "openvino":
        return expected_of_openvino(_openvino(layer), wide[0], wide[1])
    return expected_of_dialect(_dialect(layer), *wide)


def products(layer: SuiteLayer, arrays: dict[str, Any]) -> int:
    """How many scalars the naive definition multiplies."""
    return layer.batch * int(np.prod(layer.size, initial=1)) * int(arrays["filter"].size)


def _openvino(layer: SuiteLayer) -> Layer:
    return Layer(
        batch=layer.batch,
        size=layer.size,
        groups=None if layer.groups == 1 else layer.groups,
        c=layer.channels // layer.groups,
        m=layer.outputs // layer.groups,
        kernel=layer.kernel,
        strides=layer.strides,
        dilations=layer.dilations,
        pads_begin=layer.pads_begin,
        pads_end=layer.pads_end,
        output_padding=layer.output_padding,
        auto_pad=layer.auto_pad,
        output_shape=layer.output_shape,
    )


def _dialect(layer: SuiteLayer) -> DialectLayer:
    attributes: dict[str, Any] = dict(layer.extras)
    given = {
        "strides": layer.strides,
        "dilations": layer.dilations,
        "output_padding": layer.output_padding,
        "output_shape": layer.output_shape,
    }
    explicit = layer.auto_pad == "explicit"
    if layer.dialect == "tensorrt":
        mode = "EXPLICIT_ROUND_DOWN" if explicit else layer.auto_pad.upper()
        given = {"stride": layer.strides, "dilation": layer.dilations}
        given |= {"pre_padding": layer.pads_begin, "post_padding": layer.pads_end}
        attributes = {"padding_mode": mode} | attributes
    elif layer.dialect == "onednn":
        given |= {"pads_begin": layer.pads_begin, "pads_end": layer.pads_end}
        attributes |= {"auto_pad": "none" if explicit else layer.auto_pad}
    else:
        given |= {"pads": (*layer.pads_begin, *layer.pads_end)}
        attributes |= {"auto_pad": "NOTSET" if explicit else layer.auto_pad.upper()}
    if layer.activation != "none":
        name, *parameters = layer.activation.split()
        assert name in ACTIVATIONS
        attributes |= {"activation": name, "activation_params": tuple(map(float, parameters))}
    return DialectLayer(
        layer.version or VERSIONS[layer.dialect],
        layer.batch,
        layer.size,
        layer.groups,
        layer.channels // layer.groups,
        layer.outputs // layer.groups,
        layer.kernel,
        {k: v for k, v in given.items() if v is not None} | attributes,
        bias=0 if layer.bias else None,
    )
