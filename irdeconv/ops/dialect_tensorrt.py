"""TensorRT's deconvolution: IDeconvolutionLayer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from irdeconv.base.errors import OpError, Problem, attribute_error, attribute_problem
from irdeconv.ir import geometry
from irdeconv.ir.attributes import AxisInts, Ints, Positive, PositiveAxisInts
from irdeconv.ir.geometry import Window, WindowTerms, filled
from irdeconv.ir.op import attribute, op
from irdeconv.ir.spec import Dim, Spec, is_static
from irdeconv.ops import core
from irdeconv.ops.core import CommonTerms, Setting
from irdeconv.ops.dialect_template import PLAIN, Cannot, DialectDeconvolution, DialectSystem

PaddingMode = Literal[
    "EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER",
    "CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP",
    "kEXPLICIT_ROUND_DOWN", "kEXPLICIT_ROUND_UP", "kSAME_UPPER", "kSAME_LOWER",
    "kCAFFE_ROUND_DOWN", "kCAFFE_ROUND_UP",
]  # fmt: skip
INT8_MULTIPLE = 4


@op("Deconvolution", "tensorrt", standard=False)
class TensorRtDeconvolution(DialectDeconvolution):
    """Deconvolution: data (N, C, *I), kernel (C, M/g, *K), optional bias (M,) -> (N, M, *O).

    Two or three spatial axes; f32, f16, bf16, i8. SAME_* override the paddings; the rounding modes
    make no difference for a deconvolution, whose size is always exact. Paddings are
    `pre_padding`/`post_padding`, or `padding_nd` for both. In int8 the channels of a group must be
    a multiple of 4, for input and output.  [IDeconvolutionLayer]
    """

    keys: ClassVar[tuple[str, str]] = ("tensorrt", "tensorrt")
    layout: ClassVar[str] = "CKRS = [C, M/g, *K]"
    system: ClassVar[str] = "TensorRT"
    signature = "data: f32|f16|bf16|i8 t [N, D, *I:2..3]; kernel: t [C, M, *K:I]; bias?: t [B]"
    groups_name: ClassVar[str] = "num_groups"
    kernel_name: ClassVar[str] = "kernel_size"
    window_attributes: ClassVar[tuple[str, ...]] = ("padding_mode", "pre_padding", "post_padding")
    dialect: ClassVar[str] = "tensorrt"

    kernel_size: PositiveAxisInts = attribute(aliases=("kernel_size_nd",))
    num_output_maps: Positive = attribute(aliases=("nb_output_maps",))
    padding_mode: PaddingMode = attribute("EXPLICIT_ROUND_DOWN", exact=True)
    pre_padding: AxisInts = ()
    post_padding: AxisInts = ()
    padding: AxisInts = attribute((), xml="padding_nd", aliases=("padding",))
    stride: PositiveAxisInts = attribute((), aliases=("stride_nd",))
    dilation: PositiveAxisInts = attribute((), aliases=("dilation_nd",))
    num_groups: Positive = attribute(1, aliases=("nb_groups",))

    def check(self) -> Iterator[Problem]:
        if self.padding and (self.pre_padding or self.post_padding):
            text = "padding_nd is given besides pre_padding or post_padding"
            hint = "padding_nd sets both; keep one of the two ways"
            yield attribute_problem("padding_nd", text, hint=hint)
        pre, post = self.pads(len(self.kernel_size))
        if self.mode.startswith("CAFFE") and pre != post:
            text = f"padding_mode={self.mode} with pre_padding {list(pre)} and post_padding "
            text += f"{list(post)} is ambiguous: Caffe pads both sides alike"
            yield attribute_problem("padding_mode", text, hint="use an EXPLICIT mode")

    @property
    def mode(self) -> str:
        """The padding mode without the `k` of the enumeration's names."""
        return self.padding_mode.removeprefix("k")

    def pads(self, axes: int) -> tuple[Ints, Ints]:
        """Return the paddings before and after, as given."""
        both = filled(self.padding, axes, 0)
        return self.pre_padding or both, self.post_padding or both

    def common_terms(self, axes: int) -> CommonTerms:
        pre, post = self.pads(axes)
        return CommonTerms(
            strides=self.stride,
            dilations=self.dilation,
            pads_begin=pre,
            pads_end=post,
            auto_pad=self.mode.lower() if self.mode.startswith("SAME") else "explicit",
        )

    def window(self, t: WindowTerms) -> Window:
        return geometry.tensorrt(self.mode, t)

    def padding_limits(self, t: CommonTerms) -> Sequence[int | None]:
        return (0,) * len(t.strides)

    def output_channels(self, outputs: Dim) -> Dim:
        return self.num_output_maps

    def check_attributes(self, axes: int) -> None:
        for name in ("pre_padding", "post_padding", "padding"):
            core.check_not_negative(name, self.lists[name], self.system)

    def check_channels(self, data: Spec, filter: Spec, channels: Dim, outputs: Dim) -> None:
        super().check_channels(data, filter, channels, outputs)
        groups = self.num_groups
        if self.num_output_maps % groups:
            text = f"{groups} groups do not divide {self.num_output_maps} output maps"
            raise attribute_error("num_groups", text)
        if isinstance(outputs, int) and outputs * groups != self.num_output_maps:
            text = f"num_output_maps is {self.num_output_maps}, the kernel gives "
            text += f"{outputs * groups} = {groups} groups x {outputs}"
            raise attribute_error("num_output_maps", text)
        if data.dtype is None or data.dtype.name != "i8":
            return
        for what, count in (("input", channels), ("output", self.num_output_maps)):
            if isinstance(count, int) and (count // groups) % INT8_MULTIPLE:
                text = f"int8 needs groups of a multiple of {INT8_MULTIPLE} {what} channels; "
                text += f"{count} channels in {groups} groups make {count // groups}"
                raise OpError(text, code="E303", attribute="num_groups")

    def warnings(self, s: Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        if self.mode.endswith("ROUND_UP"):
            text = f"padding_mode={self.mode}: the printed formulas of the modes are those of "
            text += "convolution; the size of a deconvolution is exact, so rounding up and down "
            text += "are the same"
            yield Problem("W301", text, attribute="padding_mode")
        if s.same and (any(s.pads_begin) or any(s.pads_end)):
            text = f"padding_mode={self.mode} overrides the given paddings"
            yield Problem("W301", text, attribute="padding_mode")


def _spelled(s: Setting) -> tuple[TensorRtDeconvolution, tuple[Spec, ...]]:
    if s.output_shape is not None:
        raise Cannot("there is no output_shape")
    if any(s.output_padding):
        raise Cannot("there is no output_padding")
    if not is_static(s.kernel):
        raise Cannot("kernel_size is an attribute there, here it is known at run time only")
    mode: Any = s.auto_pad.upper() if s.same else "EXPLICIT_ROUND_DOWN"
    pre, post = s.explicit_pads
    op = TensorRtDeconvolution(
        kernel_size=s.kernel,
        num_output_maps=s.group_outputs * s.groups,
        padding_mode=mode,
        pre_padding=pre,
        post_padding=post,
        stride=s.strides,
        dilation=s.dilations,
        num_groups=s.groups,
    )
    return op, (s.data_spec(), s.filter_spec())


_MODES = tuple(mode for mode in PLAIN if mode[0] != "valid")
READINGS = (DialectSystem("tensorrt", "TensorRT", _MODES, _spelled),)
