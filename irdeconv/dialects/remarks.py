"""Warnings of layers that documents, formulas and runtimes read differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from irdeconv.dialects.base import Sizes
from irdeconv.errors import Problem
from irdeconv.geometry import IntVector, Vector, filled
from irdeconv.spec import Dim, Spec, is_static

# Element types that OpenVINO's CPU plugin computes in f32.
NARROWED = ("f64", "i32", "i64", "u32", "u64")


def openvino(data: Spec) -> Iterator[Problem]:
    """Yield what OpenVINO's CPU plugin computes less precisely than its type says."""
    if data.dtype is not None and data.dtype.name in NARROWED:
        yield Problem(
            "W303",
            f"the OpenVINO CPU plugin computes {data.dtype} in f32",
            "note",
            port=0,
            hint="large values lose their last digits there",
        )


def prose(op: Any, s: Sizes, output_shape: Vector) -> Iterator[Problem]:
    """Yield that OpenVINO's prose splits an odd total the other way round than its formula."""
    full = s.full()
    if not op.auto_pad.startswith("same") or not isinstance(full, IntVector):
        return
    if not isinstance(output_shape, IntVector):
        return
    extra = IntVector(filled(op.output_padding, len(s.strides.values), 0))
    total = full - output_shape + extra
    odd = [axis for axis, t in enumerate(total.values) if t > 0 and t % 2]
    if odd:
        here, there = ("begin", "end") if op.auto_pad == "same_upper" else ("end", "begin")
        yield _warning(
            "W301",
            f"auto_pad={op.auto_pad}: an odd total on spatial axes {odd}; formula and runtime "
            f"put the odd element at the {here}, the document's prose at the {there}",
            "auto_pad",
        )


def large_padding(op: Any, axes: int, words: str) -> Iterator[Problem]:
    """Yield where output_padding is not below the stride."""
    strides = filled(op.strides, axes, 1)
    extra = filled(op.output_padding, axes, 0)
    if any(p >= s for p, s in zip(extra, strides, strict=True)):
        yield _warning(
            "W301",
            f"output_padding {list(extra)} is not below the strides {list(strides)}: {words}",
            "output_padding",
        )


def onednn(op: Any, channels: Sequence[Dim], kernel: Sequence[Dim]) -> Iterator[Problem]:
    """Yield what oneDNN's document and library read differently; `channels` are the filter's."""
    axes = len(op.strides)
    if not (op.filter_format or op.weights_format) and any(c != 1 for c in channels):
        yield Problem(
            "W300",
            "neither filter_format nor weights_format is given: the document's default is XIO, "
            "which irdeconv reads, the library's is XOI",
            "warning",
            port=1,
            hint="name the layout",
        )
    if op.semantics == "document":
        yield from large_padding(op, axes, "the library refuses it")
    if not op.auto_pad.startswith("same"):
        return
    short = _short(kernel, op.strides, filled(op.dilations, axes, 1))
    if short:
        yield _warning(
            "W300",
            f"auto_pad={op.auto_pad}: on spatial axes {short} the kernel is shorter than the "
            "stride; the document's total is negative there, the library takes 0, and so does "
            "irdeconv",
            "auto_pad",
        )


def onnx(op: Any, data: Spec, kernel: Sequence[Dim], axes: int) -> Iterator[Problem]:
    """Yield what ONNX Runtime and ONNX's own tools make differently of a layer."""
    same = op.auto_pad.startswith("SAME")
    if op.semantics == "document":
        yield from large_padding(op, axes, "ONNX Runtime refuses it")
        yield from _unreachable(op, data, kernel, axes)
    if same and not op.output_shape and any(op.output_padding):
        yield _warning(
            "W301",
            f"auto_pad={op.auto_pad} with output_padding {list(op.output_padding)}: ONNX's shape "
            "inference adds it to the output size, ONNX Runtime and irdeconv do not",
            "output_padding",
        )
    reasons = ["groups"] if op.group > 1 else []
    if op.output_shape and not same:
        reasons.append("output_shape without SAME_*")
    if reasons:
        yield Problem(
            "W303",
            f"onnx.reference computes {' and '.join(reasons)} wrongly (version 1.23)",
            "note",
            hint="compare with ONNX Runtime instead",
        )


def _unreachable(op: Any, data: Spec, kernel: Sequence[Dim], axes: int) -> Iterator[Problem]:
    """Yield an output_shape that ONNX Runtime refuses and the text does not."""
    if not op.output_shape or not is_static(data.shape):
        return
    size = data.shape[1:-1] if op.channels_last else data.shape[2:]
    strides, dilations = filled(op.strides, axes, 1), filled(op.dilations, axes, 1)
    rows = zip(size, strides, dilations, kernel, op.output_shape[-axes:], strict=True)
    full = [(s * (i - 1) + d * (k - 1) + 1, s, o) for i, s, d, k, o in rows if isinstance(k, int)]
    if any(o - f >= s for f, s, o in full):
        yield Problem(
            "W303",
            f"output_shape {list(op.output_shape)} is larger than the scatter by a stride or "
            "more, which ONNX Runtime refuses",
            "warning",
            attribute="output_shape",
        )


def tensorrt(op: Any) -> Iterator[Problem]:
    """Yield that a rounding has nothing to round."""
    if op.mode.endswith("ROUND_UP"):
        yield _warning(
            "W301",
            f"padding_mode={op.mode}: the printed formulas of the modes are those of convolution; "
            "the size of a deconvolution is exact, so rounding up and down are the same",
            "padding_mode",
        )


def _short(kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Return the axes on which the dilated kernel is shorter than the stride."""
    rows = enumerate(zip(kernel, strides, dilations, strict=True))
    return [a for a, (k, s, d) in rows if isinstance(k, int) and d * (k - 1) + 1 < s]


def _warning(code: str, message: str, attribute: str) -> Problem:
    return Problem(code, message, "warning", attribute=attribute)
