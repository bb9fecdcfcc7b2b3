"""What each system makes of a setting: its own operation is built and asked.

A system translates the common terms into its attributes and lets the dialect's class check and
place the window, so a verdict is what validating and running such a layer would say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from irdeconv.attributes import Ints
from irdeconv.dialects.onednn import OneDnnConvTranspose
from irdeconv.dialects.onnx import ConvTranspose1, ConvTranspose11, ConvTranspose22
from irdeconv.dialects.openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.dialects.ort_nhwc import NhwcConvTranspose11
from irdeconv.dialects.tensorrt import TensorRtDeconvolution
from irdeconv.errors import OpError
from irdeconv.explanation.setting import Setting, wanted_spec
from irdeconv.geometry import Semantics
from irdeconv.op import Op, SpecBuilder, SugarOp, attributes
from irdeconv.ops import core
from irdeconv.spec import Dim, Interval, Shape, Spec, dims


class Cannot(Exception):
    """A system has no attribute for what a setting asks."""


@dataclass(frozen=True)
class Crop:
    """Where the output lies in the scatter: O = FULL - begin - end; a negative end adds."""

    begin: Shape
    end: Shape
    size: Shape


class System(Protocol):
    """One system of the table. `modes` are (auto_pad, whether output_shape is given)."""

    @property
    def key(self) -> str:
        """A short name for programs."""

    @property
    def title(self) -> str:
        """The name for people."""

    @property
    def modes(self) -> tuple[tuple[str, bool], ...]:
        """What `auto_pad` and `output_shape` may say."""

    def crop(self, s: Setting) -> Crop:
        """Return the window; raise OpError where the system refuses, Cannot where it has no way."""

    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes that decide the window, as the system spells them."""

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield settings that may give the wanted window here."""


class Recorder(SpecBuilder):
    """Expands a deconvolution on specs and keeps the canonical one."""

    def __init__(self) -> None:
        self.inputs: tuple[Spec, ...] = ()
        self.out: Spec | None = None

    def add(self, op: Op, *inputs: Spec) -> Spec:
        """Infer, and keep a core.Deconvolution."""
        out = super().add(op, *inputs)
        if isinstance(op, core.Deconvolution):
            self.inputs, self.out = inputs, out
        return out

    def refine(self, value: Spec, spec: Spec) -> Spec:
        """Return the more precise spec; it may be the deconvolution's."""
        self.out = spec if value is self.out else self.out
        return spec


def placed(op: Op, inputs: tuple[Spec, ...]) -> Crop | None:
    """Return an operation's window; None where not even the rank is known."""
    for problem in op.check():
        if problem.severity == "error":
            raise OpError(
                problem.message, code=problem.code, attribute=problem.attribute, hint=problem.hint
            )
    recorder = Recorder()
    if isinstance(op, SugarOp):
        op.expand(recorder, *inputs)
    else:
        recorder.add(op, *inputs)
    if recorder.out is None or recorder.out.shape is None:
        return None
    begin, end = (dims(v) for v in recorder.inputs[2:4])
    size = recorder.out.shape[2:]
    unknown = recorder.inputs[2].value is None, recorder.inputs[3].value is None
    assert begin is not None
    assert end is not None
    return Crop(
        (ANY,) * len(size) if unknown[0] else begin,
        (ANY,) * len(size) if unknown[1] else end,
        size,
    )


ANY = Interval(-(2**63), None)  # a pad of unknown value
BOTH = tuple((mode, shape) for shape in (False, True) for mode in (
    "explicit", "valid", "same_upper", "same_lower"
))  # fmt: skip
PLAIN = BOTH[:4]
Made = tuple[Op, tuple[Spec, ...]]


@dataclass(frozen=True)
class Dialect:
    """A system that one of the dialects' classes stands for."""

    key: str
    title: str
    modes: tuple[tuple[str, bool], ...]
    make: Callable[[Setting], Made]

    def crop(self, s: Setting) -> Crop:
        """Build the operation, check it and place its window."""
        found = placed(*self.make(s))
        assert found is not None
        return found

    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes of the operation; output_shape may be its third input."""
        op = self.make(s)[0]
        text = op.to_attributes()
        out = {k: text[k] for k in SHOWN if k in text and not _plain(op, k, text[k])}
        if "output_shape" not in attributes(type(op)) and s.output_shape is not None:
            out["output_shape"] = ",".join(map(str, s.output_shape))
        return out or {k: text[k] for k in SHOWN[:2] if k in text}

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield explicit pads with what is lacking at the end as output_padding."""
        yield from explicit(s, wanted)


def explicit(s: Setting, wanted: Crop, *, symmetric: bool = False) -> Iterator[Setting]:
    """Yield the setting with explicit pads that gives a window, if integers can say it."""
    begin, end = _numbers(wanted.begin), _numbers(wanted.end)
    if begin is None or end is None:
        return
    pads = begin if symmetric else tuple(max(e, 0) for e in end)
    extra = tuple(p - e for p, e in zip(pads, end, strict=True))
    if min(extra) >= 0:
        yield replace(
            s, pads_begin=begin, pads_end=pads, output_padding=extra, auto_pad="explicit",
            output_shape=None,
        )  # fmt: skip


def _numbers(values: Shape) -> Ints | None:
    known = tuple(v for v in values if isinstance(v, int))
    return known if len(known) == len(values) else None


SHOWN = (
    "auto_pad", "padding_mode", "pads", "pads_begin", "pads_end", "pre_padding", "post_padding",
    "output_padding", "output_shape",
)  # fmt: skip
EXPLICIT = ("explicit", "none", "NOTSET", "EXPLICIT_ROUND_DOWN")


def _plain(op: Op, name: str, text: str) -> bool:
    """Whether an attribute says nothing: the usual mode, zeros, or pads that are ignored."""
    return text in EXPLICIT or not text.strip("0,")


def _channels(s: Setting) -> tuple[Dim, Dim]:
    """Return (C, M/g); one per group where they are unknown."""
    outputs = s.outputs if isinstance(s.outputs, int) else s.groups
    return s.channels if isinstance(s.channels, int) else s.groups, max(outputs // s.groups, 1)


def _data(s: Setting, *, last: bool = False) -> Spec:
    channels = _channels(s)[0]
    return Spec(s.dtype, (1, *s.size, channels) if last else (1, channels, *s.size))


def _filter(s: Setting) -> Spec:
    channels, outputs = _channels(s)
    return Spec(s.dtype, (channels, outputs, *s.kernel))


def _pads(s: Setting) -> tuple[Ints, Ints]:
    """Return the pads; zeros where auto_pad takes their place."""
    zero = (0,) * s.axes
    return (s.pads_begin, s.pads_end) if s.auto_pad == "explicit" else (zero, zero)


def _openvino(semantics: Semantics) -> Callable[[Setting], Made]:
    def make(s: Setting) -> Made:
        cls = GroupConvolutionBackpropData if s.groups > 1 else ConvolutionBackpropData
        op = cls(
            s.strides, *_pads(s), s.dilations, s.auto_pad,  # type: ignore[arg-type]
            s.output_padding, semantics,
        )  # fmt: skip
        shape = _filter(s).shape
        assert shape is not None
        if s.groups > 1:
            shape = (s.groups, shape[0] // s.groups, *shape[1:])
        rest = () if s.output_shape is None else (wanted_spec(s.output_shape),)
        return op, (_data(s), Spec(s.dtype, shape), *rest)

    return make


def _onednn(semantics: Semantics) -> Callable[[Setting], Made]:
    def make(s: Setting) -> Made:
        if s.output_shape is not None:
            raise Cannot("there is no output_shape")
        mode: Any = "none" if s.auto_pad == "explicit" else s.auto_pad
        op = OneDnnConvTranspose(
            s.strides, *_pads(s), s.dilations, mode, s.output_padding, s.groups, "NCX",
            weights_format="IOX", semantics=semantics,
        )  # fmt: skip
        return op, (_data(s), _filter(s))

    return make


def _onnx(cls: Any, semantics: Semantics, *, last: bool = False) -> Callable[[Setting], Made]:
    def make(s: Setting) -> Made:
        shape = () if s.output_shape is None else _numbers(s.output_shape)
        if shape is None:
            raise Cannot("output_shape is an attribute there, here it is known at run time only")
        chosen = ConvTranspose22 if _wide(cls, s) else cls
        pads = sum(_pads(s), ()) if s.auto_pad == "explicit" else ()
        mode: Any = "NOTSET" if s.auto_pad == "explicit" else s.auto_pad.upper()
        op = chosen(
            auto_pad=mode, dilations=s.dilations, group=s.groups,
            output_padding=s.output_padding, output_shape=shape, pads=pads, strides=s.strides,
            semantics=semantics,
        )  # fmt: skip
        return op, (_data(s, last=last), _filter(s))

    return make


def _wide(cls: Any, s: Setting) -> bool:
    """Whether only version 22 has the element type."""
    return cls is ConvTranspose11 and s.dtype is not None and s.dtype.name == "bf16"


def _tensorrt(s: Setting) -> Made:
    if s.output_shape is not None:
        raise Cannot("there is no output_shape")
    if any(s.output_padding):
        raise Cannot("there is no output_padding")
    kernel = _numbers(s.kernel)
    if kernel is None:
        raise Cannot("kernel_size is an attribute there, here it is known at run time only")
    same = s.auto_pad.startswith("same")
    mode: Any = s.auto_pad.upper() if same else "EXPLICIT_ROUND_DOWN"
    pre, post = _pads(s)
    outputs = _channels(s)[1]
    assert isinstance(outputs, int)
    op = TensorRtDeconvolution(
        kernel, outputs * s.groups, mode, pre, post, (), s.strides, s.dilations, s.groups
    )
    return op, (_data(s), _filter(s))


def _canonical(s: Setting) -> Made:
    if s.output_shape is not None or s.auto_pad not in ("explicit", "valid"):
        raise Cannot("there are only pads")
    begin, end = (np.array(p, np.int64) for p in _pads(s))
    shape = _filter(s).shape
    assert shape is not None
    filter = Spec(s.dtype, (s.groups, shape[0] // s.groups, *shape[1:]))
    pads = Spec.of(begin), Spec.of(end - np.array(s.output_padding, np.int64))
    return core.Deconvolution(s.strides, s.dilations), (_data(s), filter, *pads)


DIALECTS = (
    Dialect("openvino_runtime", "OpenVINO runtime", BOTH, _openvino("runtime")),
    Dialect("openvino_document", "OpenVINO document", BOTH, _openvino("document")),
    Dialect("onednn", "oneDNN Graph", PLAIN, _onednn("runtime")),
    Dialect("onnx_1", "ONNX 1, text", BOTH, _onnx(ConvTranspose1, "document")),
    Dialect("onnx_11", "ONNX 11, text", BOTH, _onnx(ConvTranspose11, "document")),
    Dialect("onnxruntime", "ONNX Runtime", BOTH, _onnx(ConvTranspose11, "runtime")),
    Dialect("nhwc", "ONNX Runtime, nhwc", BOTH, _onnx(NhwcConvTranspose11, "runtime", last=True)),
    Dialect(
        "tensorrt", "TensorRT", (PLAIN[0], PLAIN[2], PLAIN[3]), _tensorrt
    ),
)  # fmt: skip
# Readings that have no row of their own in the table.
OTHERS = (
    Dialect("onednn_document", "oneDNN Graph, text", PLAIN, _onednn("document")),
    Dialect("nhwc_document", "nhwc, text", BOTH, _onnx(NhwcConvTranspose11, "document", last=True)),
    Dialect("canonical", "the canonical form", (PLAIN[0],), _canonical),
)
