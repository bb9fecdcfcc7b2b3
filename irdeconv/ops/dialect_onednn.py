"""oneDNN Graph's deconvolution: ConvTranspose-1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from irdeconv.base.errors import Problem, attribute_error, attribute_problem
from irdeconv.ir import geometry
from irdeconv.ir.attributes import AxisInts, Ints, Positive, ValueRange
from irdeconv.ir.geometry import Semantics, Window, WindowTerms
from irdeconv.ir.op import attribute, op
from irdeconv.ir.spec import Spec
from irdeconv.ops import core
from irdeconv.ops.core import CommonTerms, Setting
from irdeconv.ops.dialect_template import PLAIN, Cannot, DialectDeconvolution, DialectSystem

Format = Literal["XIO", "OIX", "XOI", "IOX"]


@op("ConvTranspose", "onednn_graph_1", aliases=("ConvTranspose-1",), standard=False)
class OneDnnConvTranspose(DialectDeconvolution):
    """Deconvolution: data (N, *I, C) or (N, C, *I), filter, optional bias (M,); f32, f16, bf16.

    `data_format` NXC or NCX holds for input and output. The filter's layout is `filter_format`
    (XIO, OIX) or, since oneDNN 3, `weights_format` (XOI, IOX): I all input channels, O the output
    channels of a group, X the spatial axes; both names take all four values. Under auto_pad the
    given pads are ignored; output_padding always lengthens the output. The library computes
    output_padding < strides only, the document sets no limit (`semantics`).
    [oneDNN Graph ConvTranspose-1]
    """

    keys: ClassVar[tuple[str, str]] = ("onednn", "onednn_document")
    system: ClassVar[str] = "oneDNN Graph"
    signature = "data: f32|f16|bf16 t [?, ?, *I:1..3]; filter: t [?, ?, *K:I]; bias?: t [M]"
    channel_rule: ClassVar[str] = "axis I must equal"
    padding_hint: ClassVar[str] = 'the document sets no limit: semantics="document" computes it'
    dialect: ClassVar[str] = "onednn"

    strides: Annotated[Ints, ValueRange(1, per_axis=True, needed=True)]
    pads_begin: Annotated[Ints, ValueRange(None, per_axis=True, needed=True)]
    pads_end: Annotated[Ints, ValueRange(None, per_axis=True, needed=True)]
    dilations: Annotated[Ints, ValueRange(1, per_axis=True, needed=True)]
    auto_pad: Literal["none", "same_upper", "same_lower", "valid"] = "none"
    output_padding: AxisInts = ()
    groups: Positive = 1
    data_format: Literal["NXC", "NCX"] = "NXC"
    filter_format: Format | None = None
    weights_format: Format | None = None
    semantics: Semantics = attribute("runtime", internal=True)

    def check(self) -> Iterator[Problem]:
        if len({self.filter_format, self.weights_format} - {None}) > 1:
            text = f"filter_format={self.filter_format} and "
            text += f"weights_format={self.weights_format} are two names of one attribute"
            yield attribute_problem("weights_format", text, hint="keep one of them")

    def common_terms(self, axes: int) -> CommonTerms:
        return CommonTerms(**self.lists, auto_pad=self.auto_pad.replace("none", "explicit"))

    def window(self, t: WindowTerms) -> Window:
        return geometry.onednn(self.auto_pad, t)

    @property
    def channels_last(self) -> bool:
        return self.data_format == "NXC"

    @property
    def layout(self) -> str:
        """The filter's layout; the document's default if both attributes are absent."""
        return self.weights_format or self.filter_format or "XIO"

    def filter_order(self, axes: int) -> Ints:
        letters = self.layout.replace("X", "X" * axes)
        spatial = (at for at, letter in enumerate(letters) if letter == "X")
        return letters.index("I"), letters.index("O"), *spatial

    def padding_limits(self, t: CommonTerms) -> Sequence[int | None]:
        return t.strides if self.semantics == "runtime" else super().padding_limits(t)

    def check_attributes(self, axes: int) -> None:
        core.check_not_negative("output_padding", self.output_padding, self.system)
        if self.auto_pad != "none":
            return
        # The library takes negative pads at the end that are above -stride.
        core.check_not_negative("pads_begin", self.pads_begin, self.system)
        if self.semantics == "document":
            core.check_not_negative("pads_end", self.pads_end, self.system)
        for axis, (pad, stride) in enumerate(zip(self.pads_end, self.strides, strict=False)):
            if pad <= -stride:
                text = f"pads_end is {pad} on spatial axis {axis}; the library lengthens the "
                text += f"output by less than the stride {stride} only"
                hint = "output_padding lengthens the output"
                raise attribute_error("pads_end", text, hint=hint)

    def warnings(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        if self.weights_format in ("OIX", "XIO") or self.filter_format in ("IOX", "XOI"):
            name = "weights_format" if self.weights_format else "filter_format"
            text = f"{name}={self.layout}: a value of the other spelling of this attribute; "
            text += "the library refuses it"
            hint = "filter_format (before 3.0) knows XIO and OIX, weights_format XOI and IOX"
            yield Problem("W301", text, attribute=name, hint=hint)
        if self.auto_pad == "none" and any(p < 0 for p in self.pads_end):
            text = f"pads_end {list(self.pads_end)} has negative values: the document excludes "
            text += "them, the library lengthens the output"
            hint = "output_padding is the documented way"
            yield Problem("W301", text, attribute="pads_end", hint=hint)
        if self.auto_pad != "none" and (any(self.pads_begin) or any(self.pads_end)):
            text = f"auto_pad={self.auto_pad}: pads_begin and pads_end are required and ignored"
            yield Problem("W301", text, attribute="auto_pad")
        if inputs[1].shape is not None:
            yield from self._divergence(s, inputs[1].shape[-2:])

    def _divergence(self, s: Setting, channels: Sequence[Any]) -> Iterator[Problem]:
        """Warn of differences between document and library; `channels` are the filter's by XIO."""
        if not (self.filter_format or self.weights_format) and any(c != 1 for c in channels):
            text = "neither filter_format nor weights_format is given: the document's default is "
            text += "XIO, which irdeconv reads, the library's is XOI"
            yield Problem("W300", text, port=1, hint="name the layout")
        if self.semantics == "document":
            yield from core.large_padding(s, "the library refuses it")
        if s.same and s.short:
            text = f"auto_pad={self.auto_pad}: on spatial axes {s.short} the kernel is shorter "
            text += "than the stride; the document's total is negative there, the library takes 0, "
            text += "and so does irdeconv"
            yield Problem("W300", text, attribute="auto_pad")


def _spelled(semantics: Semantics, s: Setting) -> tuple[OneDnnConvTranspose, tuple[Spec, ...]]:
    if s.output_shape is not None:
        raise Cannot("there is no output_shape")
    auto_pad: Any = s.auto_pad.replace("explicit", "none")
    op = OneDnnConvTranspose(
        **s.explicit_lists,
        auto_pad=auto_pad,
        groups=s.groups,
        data_format="NCX",
        weights_format="IOX",
        semantics=semantics,
    )
    return op, (s.data_spec(), s.filter_spec())


READINGS = (
    DialectSystem("onednn", "oneDNN Graph", PLAIN, partial(_spelled, "runtime")),
    DialectSystem(
        "onednn_document", "oneDNN Graph, text", PLAIN, partial(_spelled, "document"), listed=False
    ),
)
