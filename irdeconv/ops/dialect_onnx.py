"""ONNX's deconvolution: ConvTranspose of operation sets 1, 11 and 22.

And ONNX Runtime's channels-last one, ConvTranspose of com.ms.internal.nhwc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_error, attribute_problem, values_of
from irdeconv.ir import geometry
from irdeconv.ir.attributes import (
    AxisInts,
    Floats,
    NaturalAxisInts,
    NaturalInts,
    Positive,
    PositiveAxisInts,
)
from irdeconv.ir.geometry import Semantics, Window, WindowTerms, filled, size_hint
from irdeconv.ir.op import SCALE, SUM, Builder, Rounding, attribute, op
from irdeconv.ir.spec import Spec, is_static, maximum
from irdeconv.ops import core
from irdeconv.ops.activation import Clamp, HardSigmoid, PReLU, ReLU, Sigmoid
from irdeconv.ops.core import CommonTerms, PadsRule, PadsTotal, Setting, from_output
from irdeconv.ops.dialect_template import BOTH, Cannot, DialectDeconvolution, DialectSystem
from irdeconv.ops.elementwise import Tanh

AutoPad = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


@op("ConvTranspose", "onnx_opset11", standard=False)
class ConvTranspose11(DialectDeconvolution):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); f16, f32, f64.

    SAME_UPPER puts the smaller half of the total at the begin, everything else the larger one.
    [ONNX ConvTranspose-11]
    """

    keys: ClassVar[tuple[str, str]] = ("onnxruntime", "onnx_11")
    system: ClassVar[str] = "ONNX"
    signature = "data: f16|f32|f64 t [N, D, *I:1..6]; filter: t [C, M, *K:I]; bias?: t [B]"
    groups_name: ClassVar[str] = "group"
    kernel_name: ClassVar[str] = "kernel_shape"
    padding_hint: ClassVar[str] = (
        "the text allows less than stride or dilation, ONNX Runtime less than the stride"
    )
    window_attributes: ClassVar[tuple[str, ...]] = (
        "auto_pad",
        "pads",
        "output_padding",
        "output_shape",
    )
    dialect: ClassVar[str] = "onnx"
    mirrored_text: ClassVar[bool] = False
    whole_output_shape: ClassVar[bool] = False  # output_shape may name batch and channels too

    auto_pad: AutoPad = attribute("NOTSET", exact=True)
    dilations: PositiveAxisInts = ()
    group: Positive = 1
    kernel_shape: AxisInts = ()
    output_padding: NaturalAxisInts = ()
    output_shape: NaturalInts = ()  # takes precedence over SAME_*, that over VALID and pads
    pads: NaturalInts = ()  # the begins followed by the ends
    strides: PositiveAxisInts = ()
    # The runtime is ONNX Runtime, which computes the text of version 11 for every version; the
    # document is the formula printed for the version.
    semantics: Semantics = attribute("runtime", internal=True)

    def check(self) -> Iterator[Problem]:
        if self.pads and self.auto_pad != "NOTSET":
            text = f"pads cannot be given together with auto_pad={self.auto_pad}"
            yield attribute_problem("pads", text, hint="leave out one of them")

    def common_terms(self, axes: int) -> CommonTerms:
        pads = filled(self.pads, 2 * axes, 0)
        return CommonTerms(
            strides=self.strides,
            dilations=self.dilations,
            pads_begin=pads[:axes],
            pads_end=pads[axes:],
            output_padding=self.output_padding,
            auto_pad=self.auto_pad.lower().replace("notset", "explicit"),
            output_shape=self.output_shape[-axes:] or None,
        )

    @property
    def _is_mirrored(self) -> bool:
        return self.semantics == "document" and self.mirrored_text

    def window(self, t: WindowTerms) -> Window:
        return geometry.onnx(self.auto_pad, t, mirrored=self._is_mirrored)

    def rule(self, s: Setting) -> PadsRule:
        larger = (s.auto_pad != "same_upper") != self._is_mirrored
        if s.output_shape is not None:
            text = f"output_shape takes precedence, split for auto_pad {self.auto_pad}"
            return PadsRule(text, from_output(s, clamp=True), larger)
        if not s.same:
            return core.as_given(s)
        rows = zip(s.full, s.output_padding, s.size, s.strides, s.extent, strict=True)
        totals = tuple(
            PadsTotal(
                "max(FULL + op - I*S, 0)",
                f"max({full} + {op} - {i}*{stride}, 0)",
                maximum(dk - stride + op, 0),
            )
            for full, op, i, stride, dk in rows
        )
        return PadsRule(f"auto_pad {self.auto_pad} wants I*S", totals, larger)

    def padding_limits(self, t: CommonTerms) -> Sequence[int | None]:
        if self.semantics == "runtime":
            return t.strides
        return [max(s, d) for s, d in zip(t.strides, t.dilations, strict=True)]

    def check_attributes(self, axes: int) -> None:
        if self.pads and len(self.pads) != 2 * axes:
            text = f"pads has {values_of(len(self.pads))}; {axes} spatial axes need {2 * axes}"
            raise attribute_error("pads", text)
        allowed = (axes, axes + 2) if self.whole_output_shape else (axes,)
        if self.output_shape and len(self.output_shape) not in allowed:
            text = f"output_shape has {values_of(len(self.output_shape))} for {axes} spatial axes"
            raise attribute_error("output_shape", text)

    def check_setting(self, s: Setting) -> None:
        """Refuse an output_shape that no input of this size gives (ONNX Runtime's rule)."""
        sizes = s.output_shape if self.semantics == "runtime" else None
        for axis, (full, wanted) in enumerate(zip(s.full, sizes or (), strict=False)):
            limit = s.strides[axis]
            if isinstance(full, int) and isinstance(wanted, int) and wanted - full >= limit:
                text = f"output_shape is {wanted} on spatial axis {axis}, but {s.size[axis]} "
                text += f"inputs give {full}, and with output_padding at most {full + limit - 1}"
                hint = size_hint(full, wanted, extra=0, limit=limit, pads=0)
                raise OpError(text, code="E306", attribute="output_shape", hint=hint)

    def warnings(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        if len(self.output_shape) == s.axes + 2:
            text = f"output_shape has {s.axes + 2} values; ONNX Runtime takes the last {s.axes} "
            text += "where the model does not declare the filter's shape, and refuses them "
            text += "otherwise"
            hint = "leave out batch and channels"
            yield Problem("W301", text, attribute="output_shape", hint=hint)
        if self.output_shape and any(self.pads):
            yield Problem("W301", "output_shape is given, so pads are ignored", attribute="pads")
        if self.semantics == "document":
            yield from core.large_padding(s, "ONNX Runtime refuses it")
            rows = zip(s.full, s.strides, s.output_shape or (), strict=False)
            if any(isinstance(f, int) and isinstance(o, int) and o - f >= n for f, n, o in rows):
                text = f"output_shape {list(self.output_shape)} is larger than the scatter by a "
                text += "stride or more, which ONNX Runtime refuses"
                yield Problem("W303", text, attribute="output_shape")
        # ONNX's own tools compute these layers differently.
        if s.same and not self.output_shape and any(self.output_padding):
            text = f"auto_pad={self.auto_pad} with output_padding {list(self.output_padding)}: "
            text += "ONNX's shape inference adds it to the output size, ONNX Runtime and irdeconv "
            text += "do not"
            yield Problem("W301", text, attribute="output_padding")
        reasons = ["groups"] if self.group > 1 else []
        if self.output_shape and not s.same:
            reasons.append("output_shape without SAME_*")
        if reasons:
            text = f"onnx.reference computes {' and '.join(reasons)} wrongly (version 1.23)"
            yield Problem("W303", text, note=True, hint="compare with ONNX Runtime instead")
        if inputs[1].shape and (s.same or self.output_shape):  # else the pads say it
            yield from self._divergence(s, inputs)

    def _divergence(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        runtime = replace(self, semantics="runtime").begins(*inputs)
        document = replace(self, semantics="document").begins(*inputs)
        if runtime != document:
            yield Problem(
                "W300",
                f"an odd total is split differently: ONNX Runtime begins the output at "
                f"{list(runtime or ())} of the full scatter, the formula printed for this version "
                f"at {list(document or ())}; irdeconv computes the {self.semantics}'s",
                attribute="output_shape" if self.output_shape else "auto_pad",
                hint="version 11 of the text has the runtime's split",
            )
        if s.same and not self.output_shape and s.short and is_static(s.kernel):
            text = f"auto_pad={self.auto_pad}: on spatial axes {s.short} the kernel is shorter "
            text += "than the stride, so the output is smaller than input times stride"
            yield Problem("W301", text, attribute="auto_pad")


@op("ConvTranspose", "onnx_opset1", standard=False)
class ConvTranspose1(ConvTranspose11):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); f16, f32, f64.

    The formula printed for this version splits an odd total the other way round than its prose and
    than every later version.  [ONNX ConvTranspose-1]
    """

    keys: ClassVar[tuple[str, str]] = ("onnxruntime", "onnx_1")
    mirrored_text: ClassVar[bool] = True
    whole_output_shape: ClassVar[bool] = True


@op("ConvTranspose", "onnx_opset22", standard=False)
class ConvTranspose22(ConvTranspose11):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); also bf16.

    As version 11.  [ONNX ConvTranspose-22]
    """

    signature = ConvTranspose11.signature.replace("f16|f32|f64", "f16|f32|f64|bf16")


def spelled(
    version: type[ConvTranspose11], semantics: Semantics, s: Setting
) -> tuple[ConvTranspose11, tuple[Spec, ...]]:
    """Spell a setting in a version; in version 22 if only that has the element type."""
    wanted = s.output_shape or ()
    if not is_static(wanted):
        raise Cannot("output_shape is an attribute there, here it is known at run time only")
    if version is ConvTranspose11 and s.dtype is not None and s.dtype.name == "bf16":
        version = ConvTranspose22
    explicit = s.auto_pad == "explicit"
    auto_pad: Any = "NOTSET" if explicit else s.auto_pad.upper()
    op = version(
        auto_pad=auto_pad,
        dilations=s.dilations,
        group=s.groups,
        output_padding=s.output_padding,
        output_shape=wanted,
        pads=(*s.pads_begin, *s.pads_end) if explicit else (),
        strides=s.strides,
        semantics=semantics,
    )
    return op, (s.data_spec(channels_last=op.channels_last), s.filter_spec())


Activation = Literal["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"]
_Build = Callable[[Builder[Any], Any, Floats], Any]
UNBOUNDED = 3.4e38  # from here on an upper bound of Relu bounds nothing in f32


@op("ConvTranspose", "com.ms.internal.nhwc_1", standard=False)
class NhwcConvTranspose1(ConvTranspose11):
    """Deconvolution: data (N, *I, C), filter (C, M/g, *K), optional bias (M,) -> (N, *O, M).

    Only data and output are channels-last. f16, f32, f64.  [com.ms.internal.nhwc ConvTranspose-1]
    """

    keys: ClassVar[tuple[str, str]] = ("nhwc", "nhwc_document")
    dialect: ClassVar[str] = "ort-nhwc"
    signature = ConvTranspose11.signature.replace("[N, D, *I:1..6]", "[N, *I:1..6, D]")
    mirrored_text: ClassVar[bool] = True
    whole_output_shape: ClassVar[bool] = True
    channels_last: ClassVar[bool] = True

    activation: Activation | None = None
    activation_params: Floats = attribute(())

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        parameters = self.activation_params
        if self.activation is None:
            if parameters:
                text = f"activation_params {list(parameters)} without an activation"
                yield attribute_problem("activation_params", text)
            return
        _, names = _ACTIVATIONS[self.activation]
        unbounded = (
            self.activation == "Relu"
            and len(parameters) == 2
            and parameters[0] == 0
            and parameters[1] >= UNBOUNDED
        )
        if len(parameters) != len(names) and not unbounded:
            text = f"activation {self.activation} has {len(parameters)} parameters; it takes "
            text += f"{len(names)}: {', '.join(names) or 'none'}"
            yield attribute_problem("activation_params", text)

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """The rule by which `compare` judges it: with an activation it is not linear."""
        return SUM if self.activation is None else SCALE

    def activate(self, b: Builder[Any], y: Any) -> Any:
        if self.activation is None:
            return y
        build, _ = _ACTIVATIONS[self.activation]
        return build(b, y, self.activation_params)


def _constant(b: Builder[Any], y: Any, value: float) -> Any:
    """Return a scalar of y's element type, which may be unknown in inference only."""
    dtype = b.spec(y).dtype
    scalar = b.const(np.array(value, dtype.container if dtype else np.float32))
    return scalar if dtype else b.refine(scalar, Spec(None, ()))


def _with_constants(op: PReLU | HardSigmoid) -> _Build:
    return lambda b, y, p: b.add(op, y, *(_constant(b, y, v) for v in p))


# The function that builds an activation, and the names of its parameters in order.
_ACTIVATIONS: dict[Activation, tuple[_Build, tuple[str, ...]]] = {
    "Relu": (lambda b, y, p: b.add(ReLU(), y), ()),
    "Tanh": (lambda b, y, p: b.add(Tanh(), y), ()),
    "Sigmoid": (lambda b, y, p: b.add(Sigmoid(), y), ()),
    "LeakyRelu": (_with_constants(PReLU()), ("alpha",)),
    "Clip": (lambda b, y, p: b.add(Clamp(p[0], p[1]), y), ("min", "max")),
    "HardSigmoid": (_with_constants(HardSigmoid()), ("alpha", "beta")),
}


@op("ConvTranspose", "com.ms.internal.nhwc_11", standard=False)
class NhwcConvTranspose11(NhwcConvTranspose1):
    """Deconvolution: data (N, *I, C), filter (C, M/g, *K), optional bias (M,) -> (N, *O, M).

    Only data and output are channels-last. f16, f32, f64.  [com.ms.internal.nhwc ConvTranspose-11]
    """


_NHWC_RUNTIME = partial(spelled, NhwcConvTranspose11, "runtime")
_NHWC_DOCUMENT = partial(spelled, NhwcConvTranspose11, "document")
READINGS = (
    DialectSystem("onnx_1", "ONNX 1, text", BOTH, partial(spelled, ConvTranspose1, "document")),
    DialectSystem("onnx_11", "ONNX 11, text", BOTH, partial(spelled, ConvTranspose11, "document")),
    DialectSystem(
        "onnxruntime", "ONNX Runtime", BOTH, partial(spelled, ConvTranspose11, "runtime")
    ),
    DialectSystem("nhwc", "ONNX Runtime, nhwc", BOTH, _NHWC_RUNTIME),
    DialectSystem("nhwc_document", "nhwc, text", BOTH, _NHWC_DOCUMENT, listed=False),
)
