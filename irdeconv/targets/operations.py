"""The operations of a target's list, and the names that conditions of each may use.

Operations have OpenVINO's names, also for ONNX models. Slice means Slice and StridedSlice,
Split means Split and VariadicSplit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.ops.catalog import CATALOG

NameType = Literal["number", "boolean", "string", "tuple of numbers"]


@dataclass(frozen=True)
class Name:
    """A name of conditions.

    `absent` is its value on an axis that the layer lacks; None: the name has no axes. With `sides`
    it covers the begin and the end of an axis. With `each` it has a value for each part of a
    Concat or each axis of a Slice. `choices` are all values of a string.
    """

    about: str
    type: NameType = "number"
    absent: int | None = None
    sides: bool = False
    each: bool = False
    choices: tuple[str, ...] = ()


_COMMON = {
    "rank": Name("most axes of any input or output that is not constant"),
    "batch": Name("size of axis 0"),
    "type": Name("element type of the data", "string", choices=tuple(ELEMENT_TYPES)),
    "size": Name("spatial size of the data", absent=1),
}
_CONVOLUTION = _COMMON | {
    "spatial_axes": Name("number of spatial axes"),
    "kernel": Name("kernel size", absent=1),
    "stride": Name("stride", absent=1),
    "dilation": Name("dilation", absent=1),
    "pad": Name("pads of both sides", absent=0, sides=True),
    "pad_begin": Name("pad in front of an axis", absent=0),
    "pad_end": Name("pad behind an axis", absent=0),
    "inputs": Name("input channels of all groups"),
    "outputs": Name("output channels of all groups"),
    "groups": Name("number of groups"),
    "depthwise": Name("whether groups == inputs and groups > 1", "boolean"),
    "multiplier": Name("outputs // groups"),
    "constant_filter": Name("whether the filter is constant", "boolean"),
    "has_bias": Name("whether a constant per output channel is added directly", "boolean"),
}
_DECONVOLUTION = _CONVOLUTION | {"output_padding": Name("output padding", absent=0)}
_DATA = _COMMON | {"channels": Name("size of axis 1")}
_PAD_MODES = ("constant", "edge", "reflect", "symmetric")
_RESIZE_MODES = (
    "nearest",
    "linear",
    "linear_onnx",
    "cubic",
    "bilinear_pillow",
    "bicubic_pillow",
)

# The operations that have more names than the common ones.
_OPERATIONS = {
    "Convolution": _CONVOLUTION,
    "GroupConvolution": _CONVOLUTION,
    "ConvolutionBackpropData": _DECONVOLUTION,
    "GroupConvolutionBackpropData": _DECONVOLUTION,
    "Pad": _DATA
    | {
        "amount": Name("amounts of every axis, both sides", absent=0, sides=True),
        "amount_begin": Name("amount in front of an axis", absent=0),
        "amount_end": Name("amount behind an axis", absent=0),
        "mode": Name("how it fills", "string", choices=_PAD_MODES),
        "value": Name("value that it fills with"),
    },
    "Slice": _DATA
    | {
        "axis": Name("number of each axis that it slices", each=True),
        "step": Name("step of each axis that it slices", absent=1, each=True),
    },
    "Concat": _DATA
    | {
        "axis": Name("number of the axis, from 0"),
        "parts": Name("number of inputs"),
        "channels": Name("size of axis 1 of each input", each=True),
    },
    "Split": _DATA | {"axis": Name("number of the axis, from 0")},
    "Transpose": _DATA | {"order": Name("order of the axes", "tuple of numbers")},
    "DepthToSpace": _DATA
    | {
        "block": Name("block size"),
        "mode": Name("order of channels", "string", choices=("blocks_first", "depth_first")),
    },
    "Interpolate": _DATA
    | {
        "scale": Name("size of the output divided by that of the input", absent=1),
        "mode": Name("how it interpolates", "string", choices=_RESIZE_MODES),
    },
}
ALIASES = {"StridedSlice": "Slice", "VariadicSplit": "Split"}
# ONNX's operations that have no counterpart of one operation in OpenVINO.
ONNX_ONLY = frozenset(
    ["QuantizeLinear", "DequantizeLinear", "InstanceNormalization", "LayerNormalization"]
)
OPERATIONS = tuple(sorted((CATALOG.keys() | ONNX_ONLY) - ALIASES.keys()))


def names_of(operation: str) -> dict[str, Name]:
    """Return the names that conditions of an operation may use."""
    return _OPERATIONS.get(operation, _DATA)
