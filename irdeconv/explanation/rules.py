"""Which rule makes the pads of a layer, with its total and how an odd element is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irdeconv.explanation.setting import Setting
from irdeconv.spec import Dim, maximum


@dataclass(frozen=True)
class Total:
    """The sum of both pads on one axis: its formula, the same with numbers, its value."""

    formula: str
    numbers: str
    value: Dim


@dataclass(frozen=True)
class Rule:
    """How the pads come about. `larger_begin` is None where nothing is split."""

    text: str
    totals: tuple[Total, ...] = ()
    larger_begin: bool | None = None

    def split(self, axis: int) -> str:
        """Return how the total of an axis is divided."""
        if self.larger_begin is None:
            return ""
        total = self.totals[axis].value
        if total == 0:
            return "nothing to split"
        if isinstance(total, int) and total % 2 == 0:
            return "half at each side"
        side = "begin" if self.larger_begin else "end"
        if isinstance(total, int):
            return f"odd, the larger half at the {side}"
        return f"the larger half at the {side} where it is odd"

    def begin(self, axis: int) -> Dim | None:
        """Return what the split puts at the begin."""
        total = self.totals[axis].value if self.larger_begin is not None else None
        if not isinstance(total, int):
            return None
        return total - total // 2 if self.larger_begin else total // 2

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "text": self.text,
            "totals": [
                {
                    "formula": t.formula,
                    "numbers": t.numbers,
                    "value": t.value if isinstance(t.value, int) else str(t.value),
                }
                for t in self.totals
            ],
            "odd": None if self.larger_begin is None else "begin" if self.larger_begin else "end",
        }


def rule(s: Setting) -> Rule:
    """Return the rule of the layer's own system."""
    if s.system.startswith("openvino"):
        return _openvino(s)
    if s.system.startswith("onednn") or s.system == "tensorrt":
        return _extent(s)
    return _given(s) if s.system == "canonical" else _onnx(s)


def _given(s: Setting) -> Rule:
    if s.auto_pad == "valid":
        return Rule("auto_pad is valid: no pads, what is given is ignored")
    return Rule("as given")


def _openvino(s: Setting) -> Rule:
    document = s.system == "openvino_document"
    if s.output_shape is None:
        if s.auto_pad.startswith("same"):
            return Rule(f"{s.auto_pad} without output_shape: no pads, what is given is ignored")
        return _given(s)
    if not document and s.auto_pad == "explicit":
        return Rule("output_shape is given: pads_begin as given, the end follows from the size")
    if not document and s.auto_pad == "valid":
        return Rule("valid with output_shape: nothing at the begin, the end follows from the size")
    upper = s.auto_pad == "same_upper"
    if document:
        text = f"{s.auto_pad} with output_shape, the document's formula: given pads are ignored"
        return Rule(text, _from_output(s, clamp=False), upper)
    return Rule(f"{s.auto_pad} with output_shape", _from_output(s, clamp=True), upper)


def _extent(s: Setting) -> Rule:
    if not s.auto_pad.startswith("same"):
        return _given(s)
    totals = tuple(
        Total("max(DK - S, 0)", f"max({dk} - {stride}, 0)", maximum(dk - stride, 0))
        for dk, stride in zip(s.extent, s.strides, strict=True)
    )
    name = "padding_mode" if s.system == "tensorrt" else "auto_pad"
    text = f"{name} {s.auto_pad}: given pads are ignored"
    return Rule(text, totals, s.auto_pad == "same_lower")


def _onnx(s: Setting) -> Rule:
    mirrored = s.system in ("onnx_1", "nhwc_document")
    larger = (s.auto_pad != "same_upper") != mirrored
    mode = s.auto_pad.upper().replace("EXPLICIT", "NOTSET")
    if s.output_shape is not None:
        text = f"output_shape takes precedence, split for auto_pad {mode}"
        return Rule(text, _from_output(s, clamp=True), larger)
    if not s.auto_pad.startswith("same"):
        return _given(s)
    totals = tuple(
        Total(
            "max(FULL + op - I*S, 0)",
            f"max({full} + {op} - {i}*{stride}, 0)",
            maximum(dk - stride + op, 0),
        )
        for full, op, i, stride, dk in zip(
            s.full, s.output_padding, s.size, s.strides, s.extent, strict=True
        )
    )
    return Rule(f"auto_pad {mode} wants I*S", totals, larger)


def _from_output(s: Setting, *, clamp: bool) -> tuple[Total, ...]:
    assert s.output_shape is not None
    totals = []
    for full, op, size in zip(s.full, s.output_padding, s.output_shape, strict=True):
        value = full + op - size
        formula, numbers = "FULL + op - O", f"{full} + {op} - {size}"
        if clamp:
            formula, numbers = f"max({formula}, 0)", f"max({numbers}, 0)"
            value = maximum(value, 0)
        totals.append(Total(formula, numbers, value))
    return tuple(totals)
