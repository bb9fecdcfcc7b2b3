"""OpenVINO's two deconvolutions: ConvolutionBackpropData-1 and GroupConvolutionBackpropData-1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

from irdeconv.base.errors import Problem
from irdeconv.ir import geometry
from irdeconv.ir.attributes import AxisInts, PositiveAxisInts
from irdeconv.ir.geometry import Semantics, Window, WindowTerms
from irdeconv.ir.op import attribute, op
from irdeconv.ir.spec import Dim, Spec, is_static
from irdeconv.ops import core
from irdeconv.ops.core import CommonTerms, PadsRule, Setting
from irdeconv.ops.dialect_template import BOTH, DialectDeconvolution, DialectSystem

AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]
# Element types that OpenVINO's CPU plugin computes in f32.
NARROWED = ("f64", "i32", "i64", "u32", "u64")


@dataclass(frozen=True)
class BackpropData(DialectDeconvolution):
    """Base of both deconvolutions: attributes, checks, the window.

    Absent lists mean 1 (strides, dilations) and 0 (pads, output_padding), as in the runtime; the
    document requires strides, pads and dilations. `semantics` chooses between the runtime's
    results and the document's formulas.
    """

    keys: ClassVar[tuple[str, str]] = ("openvino_runtime", "openvino_document")
    system: ClassVar[str] = "OpenVINO"
    dialect: ClassVar[str] = "openvino"
    least_size: ClassVar[int] = 0

    strides: PositiveAxisInts = attribute((), documented=True)
    pads_begin: AxisInts = attribute((), documented=True)
    pads_end: AxisInts = attribute((), documented=True)
    dilations: PositiveAxisInts = attribute((), documented=True)
    auto_pad: AutoPad = "explicit"
    output_padding: AxisInts = ()
    semantics: Semantics = attribute("runtime", internal=True)

    def common_terms(self, axes: int) -> CommonTerms:
        return CommonTerms(**self.lists, auto_pad=self.auto_pad)

    def window(self, t: WindowTerms) -> Window:
        runtime = self.semantics == "runtime"
        return (geometry.openvino if runtime else geometry.openvino_document)(self.auto_pad, t)

    def rule(self, s: Setting) -> PadsRule:
        text = f"{s.auto_pad} with output_shape"
        document = self.semantics == "document"
        if s.output_shape is None:
            unused = f"{s.auto_pad} without output_shape: pads are 0, given ones are ignored"
            return PadsRule(unused) if s.same else core.as_given(s)
        if document:
            text += ", the document's formula: given pads are ignored"
        elif s.auto_pad == "explicit":
            text = "output_shape is given: pads_begin as given, the end follows from the size"
            return PadsRule(text)
        elif s.auto_pad == "valid":
            return PadsRule(f"{text}: nothing at the begin, the end follows from the size")
        totals = core.from_output(s, clamp=not document)
        return PadsRule(text, totals, s.auto_pad == "same_upper")

    def warnings(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        if s.output_shape is not None:
            yield from self._prose(s)
            yield from self._divergence(inputs)
        if s.dtype is not None and s.dtype.name in NARROWED:
            text = f"the OpenVINO CPU plugin computes {s.dtype} in f32"
            hint = "large values lose their last digits there"
            yield Problem("W303", text, note=True, port=0, hint=hint)
        for axis, p in enumerate(self.output_padding):
            if p < 0:
                text = f"output_padding is {p} on spatial axis {axis}: the runtime takes a "
                text += "negative one as a crop"
                yield Problem("W301", text, attribute="output_padding")
        for name in ("pads_begin", "pads_end"):
            if self.auto_pad == "explicit" and any(p < 0 for p in self.lists[name]):
                text = f"{name} has negative values: shape inference accepts them, the "
                text += "OpenVINO CPU plugin refuses to compile the layer"
                yield Problem("W303", text, attribute=name)
        out = self.expand_specs(*inputs)
        assert isinstance(out, Spec)
        if out.shape is not None and any(d == 0 for d in out.shape):
            yield Problem("W302", f"the output {out} is empty")

    def _prose(self, s: Setting) -> Iterator[Problem]:
        """Yield that the document's prose splits an odd total the other way than its formula."""
        if not s.same or not is_static(s.full) or not is_static(s.output_shape):
            return
        rows = zip(s.full, s.output_shape, s.output_padding, strict=True)
        totals = [full - size + extra for full, size, extra in rows]
        odd = [axis for axis, t in enumerate(totals) if t > 0 and t % 2]
        if odd:
            sides = ("begin", "end") if self.auto_pad == "same_upper" else ("end", "begin")
            text = f"auto_pad={self.auto_pad}: an odd total on spatial axes {odd}; formula and "
            text += f"runtime put the odd element at the {sides[0]}, the document's prose at the "
            text += f"{sides[1]}"
            yield Problem("W301", text, attribute="auto_pad")

    def _divergence(self, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        runtime = replace(self, semantics="runtime").begins(*inputs)
        document = replace(self, semantics="document").begins(*inputs)
        if runtime is None or runtime == document:
            return
        text = f"auto_pad={self.auto_pad} with output_shape: the runtime begins the output at "
        text += f"{runtime} of the full scatter, the published formula at "
        text += f"{document or 'a place that depends on the sizes'}; irdeconv computes the "
        text += f"{self.semantics}'s"
        hint = 'choose with semantics="runtime" or semantics="document"'
        yield Problem("W300", text, attribute="auto_pad", hint=hint)


@op("ConvolutionBackpropData")
class ConvolutionBackpropData(BackpropData):
    """Deconvolution: data (N, C, *I), filter (C, M, *K), optional output_shape (n,) -> (N, M, *O).

    One to three spatial axes; data and filter share a numeric element type, output_shape has any
    integer type and may be computed.  [convolution/ConvolutionBackpropData-1]
    """

    signature = "data: number t [N, D, *I:1..3]; filter: t [C, M, *K:I]; output_shape?: integer"
    layout: ClassVar[str] = "[C, M, *K]"


@op("GroupConvolutionBackpropData")
class GroupConvolutionBackpropData(BackpropData):
    """Grouped deconvolution: data (N, C, *I), filter (g, C/g, M/g, *K) -> (N, M, *O).

    Output channels are contiguous chunks per group; otherwise as ConvolutionBackpropData.
    [convolution/GroupConvolutionBackpropData-1]
    """

    group_count: ClassVar[None] = None
    signature = "data: number t [N, D, *I:1..3]; filter: t [G, C, M, *K:I]; output_shape?: integer"
    channel_rule: ClassVar[str] = "first two axes multiply to"
    layout: ClassVar[str] = "[g, C/g, M/g, *K]"

    def warnings(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        yield from super().warnings(s, inputs)
        shape = inputs[1].shape
        if shape and shape[0] == 1 and any(d != 1 for d in shape[1:3]):
            text = "one group: the OpenVINO CPU plugin does not compile a "
            text += "GroupConvolutionBackpropData with g = 1 unless C = M = 1"
            yield Problem("W303", text, port=1, hint="ConvolutionBackpropData computes the same")


def backprop_data(groups: Dim) -> type[BackpropData]:
    """Return the operation for a number of groups: the grouped one unless that is 1."""
    return ConvolutionBackpropData if groups == 1 else GroupConvolutionBackpropData


def _spelled(semantics: Semantics, s: Setting) -> tuple[BackpropData, tuple[Spec, ...]]:
    auto_pad: Any = s.auto_pad
    op = backprop_data(s.groups)(**s.explicit_lists, auto_pad=auto_pad, semantics=semantics)
    wanted = () if s.output_shape is None else (core.shape_input(s.output_shape),)
    return op, (s.data_spec(), s.filter_spec(grouped=s.groups > 1), *wanted)


READINGS = (
    DialectSystem("openvino_runtime", "OpenVINO runtime", BOTH, partial(_spelled, "runtime")),
    DialectSystem("openvino_document", "OpenVINO document", BOTH, partial(_spelled, "document")),
)
