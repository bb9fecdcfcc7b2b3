"""Which values of attributes may stand together in a dialect, on rows that are not complete yet.

A row has values as files and grids spell them: a number for all spatial axes, or a list of which
the first `axes` values count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from irdeconv.attributes import Ints

View = Mapping[str, Any]
LISTS = ("size", "kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding")
RELATIVE = ("none", "full", "smaller", "larger")  # of output_shape, beside numbers
ROUNDING = ("EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP")


def per_axis(value: int | Ints, axes: int) -> Ints:
    """Return a value for every spatial axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value[:axes])


@dataclass(frozen=True)
class Rule:
    """A test of some attributes; it waits until all of them have a value."""

    names: tuple[str, ...]
    test: Callable[[View], bool]


def allowed(dialect: str, view: View) -> bool:
    """Whether a row may become a layer of the dialect, as far as its values are known."""
    return all(
        rule.test(view) for rule in _ALL + _OF[dialect] if all(n in view for n in rule.names)
    )


def _each(view: View, *names: str) -> list[Ints]:
    axes = view["axes"]
    return list(zip(*(per_axis(view[n], axes) for n in names), strict=True))


def _padding_below_stride(view: View) -> bool:
    return all(p < s for p, s in _each(view, "output_padding", "strides"))


def _no_negative(name: str) -> Rule:
    return Rule(("axes", name), lambda v: all(p >= 0 for (p,) in _each(v, name)))


def _end_above_stride(view: View) -> bool:
    return bool(view["auto_pad"] != "explicit") or all(
        p > -s for p, s in _each(view, "pads_end", "strides")
    )


def _is(name: str, *values: Any) -> Rule:
    return Rule((name,), lambda v: v[name] in values)


def _pads_without_mode(name: str) -> Rule:
    return Rule(
        ("axes", "auto_pad", name),
        lambda v: v["auto_pad"] == "explicit" or not any(p for (p,) in _each(v, name)),
    )


def _reachable(view: View) -> bool:
    """ONNX Runtime's limit: an output_shape less than a stride above the scatter."""
    return view["output_shape"] != "larger" or all(s > 1 for (s,) in _each(view, "strides"))


def _modes(view: View) -> bool:
    return bool(view["padding_mode"] == ROUNDING[0] or view["auto_pad"] == "explicit")


def _caffe(view: View) -> bool:
    alike = all(p == q for p, q in _each(view, "pads_begin", "pads_end"))
    return alike or not view["padding_mode"].startswith("CAFFE")


_ALL = (
    Rule(("groups", "channels"), lambda v: v["channels"] % v["groups"] == 0),
    Rule(("groups", "outputs"), lambda v: v["outputs"] % v["groups"] == 0),
)
_BELOW = Rule(("axes", "output_padding", "strides"), _padding_below_stride)
_NOT_NEGATIVE = (_no_negative("pads_begin"), _no_negative("pads_end"))
_ONNX = (
    _BELOW,
    *_NOT_NEGATIVE,
    _pads_without_mode("pads_begin"),
    _pads_without_mode("pads_end"),
    Rule(("axes", "output_shape", "strides"), _reachable),
    Rule(
        ("version", "element_type"),
        lambda v: v["element_type"] != "bf16" or v["version"] == "onnx_opset22",
    ),
)
_OF: dict[str, tuple[Rule, ...]] = {
    "openvino": (_is("bias", False),),
    "onednn": (
        _BELOW,
        Rule(
            ("axes", "auto_pad", "pads_begin"),
            lambda v: v["auto_pad"] != "explicit" or all(p >= 0 for (p,) in _each(v, "pads_begin")),
        ),
        Rule(("axes", "auto_pad", "pads_end", "strides"), _end_above_stride),
        _is("output_shape", "none"),
    ),
    "onnx": _ONNX,
    "ort-nhwc": (*_ONNX, Rule(("element_type",), lambda v: v["element_type"] != "bf16")),
    "tensorrt": (
        *_NOT_NEGATIVE,
        _is("output_shape", "none"),
        Rule(
            ("axes", "output_padding"), lambda v: not any(p for (p,) in _each(v, "output_padding"))
        ),
        Rule(("auto_pad",), lambda v: v["auto_pad"] != "valid"),
        Rule(("axes",), lambda v: v["axes"] > 1),
        Rule(("padding_mode", "auto_pad"), _modes),
        Rule(("axes", "padding_mode", "pads_begin", "pads_end"), _caffe),
    ),
}
