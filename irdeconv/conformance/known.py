"""What peers are known to compute otherwise, so that nobody takes it for a mistake of the suite.

docs/disagreements.md tells the same with reasons; tests hold both against the running systems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from irdeconv.conformance.layer import SuiteLayer
from irdeconv.dialects.system import placed


class Circumstances(NamedTuple):
    """A layer, which of its arrays holds an infinity and a NaN, and whether results are exact."""

    layer: SuiteLayer
    spoiled: str | None
    exact: bool


class Defect(NamedTuple):
    """What a peer does with a file of a case, and when."""

    peer: str
    file: str
    text: str
    applies: Callable[[Circumstances], bool]


def _pointwise(c: Circumstances) -> bool:
    if set(c.layer.kernel) | set(c.layer.strides) != {1}:
        return False
    crop = placed(c.layer.op, c.layer.specs)
    return crop is not None and any(crop.begin) and crop.size == c.layer.size


def _single_3d(c: Circumstances) -> bool:
    layer = c.layer
    single = layer.axes == 3 and layer.groups == layer.channels == layer.outputs == 1
    return single and layer.dilations[0] != layer.dilations[1]


def _negative_pads(c: Circumstances) -> bool:
    layer = c.layer
    if layer.dialect != "openvino" or layer.auto_pad != "explicit":
        return False  # other dialects are written without
    # Beside an output_shape the end follows from the size.
    return min(layer.pads_begin) < 0 or (layer.output_shape is None and min(layer.pads_end) < 0)


def _empty_axis(c: Circumstances) -> bool:
    return 0 in c.layer.size


def _narrowed(c: Circumstances) -> bool:
    return c.layer.element_type == "f64" and not c.exact


def _no_kernel(c: Circumstances) -> bool:
    return c.layer.element_type in ("f64", "bf16")


def _old_half(c: Circumstances) -> bool:
    return c.layer.version == "onnx_opset1" and c.layer.element_type == "f16"


_OV, _ORT, _MODEL, _LOWERED = "openvino", "onnxruntime", "model.xml", "lowered.xml"
_SPREADS = "it multiplies zeros by infinities where the definition multiplies nothing"
DEFECTS: tuple[Defect, ...] = (
    Defect(
        _OV,
        _MODEL,
        "a kernel of size 1 at stride 1 ignores pads where the output has the data's size",
        _pointwise,
    ),
    Defect(
        _OV,
        _LOWERED,
        "a 3D Convolution with C = M = 1 and unlike dilations on the first two axes is garbage",
        _single_3d,
    ),
    Defect(_OV, _MODEL, "negative pads do not compile", _negative_pads),
    Defect(_OV, _MODEL, "an axis without data gives another size", _empty_axis),
    Defect(_OV, _LOWERED, "what its Pad makes of no data is not written", _empty_axis),
    Defect(_OV, _MODEL, "f64 is computed in f32", _narrowed),
    Defect(_OV, _LOWERED, "f64 is computed in f32", _narrowed),
    Defect(_OV, _MODEL, _SPREADS, lambda c: c.spoiled == "filter"),
    Defect("any", _LOWERED, _SPREADS, lambda c: c.spoiled is not None),
    Defect(_ORT, "model.onnx", "no implementation of f64 and bf16 on the CPU", _no_kernel),
    Defect(_ORT, "model.onnx", "it does not load f16 of operation set 1", _old_half),
)


def known(layer: SuiteLayer, spoiled: str | None, *, exact: bool) -> list[dict[str, str]]:
    """Return the known defects of peers on a layer, as the manifest has them."""
    here = Circumstances(layer, spoiled, exact)
    return [{"peer": d.peer, "file": d.file, "text": d.text} for d in DEFECTS if d.applies(here)]
