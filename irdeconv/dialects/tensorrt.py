"""TensorRT's deconvolution: IDeconvolutionLayer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from irdeconv import geometry
from irdeconv.attributes import Ints
from irdeconv.dialects import base, remarks
from irdeconv.errors import OpError, Problem
from irdeconv.geometry import IntVector, Window, filled
from irdeconv.op import Builder, SpecBuilder, SugarOp, attribute, op
from irdeconv.ops import core
from irdeconv.spec import Dim, Spec

LISTS = ("kernel_size", "pre_padding", "post_padding", "padding", "stride", "dilation")
SYSTEM = "TensorRT"
PaddingMode = Literal[
    "EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "SAME_UPPER", "SAME_LOWER",
    "CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP",
    "kEXPLICIT_ROUND_DOWN", "kEXPLICIT_ROUND_UP", "kSAME_UPPER", "kSAME_LOWER",
    "kCAFFE_ROUND_DOWN", "kCAFFE_ROUND_UP",
]  # fmt: skip
INT8_MULTIPLE = 4


@op("Deconvolution", "tensorrt", standard=False)
class TensorRtDeconvolution(SugarOp):
    """Deconvolution: data (N, C, *I), kernel (C, M/g, *K), optional bias (M,) -> (N, M, *O).

    Two or three spatial axes; f32, f16, bf16, i8. SAME_* override the paddings; the rounding modes
    make no difference for a deconvolution, whose size is always exact. Paddings are
    `pre_padding`/`post_padding`, or `padding_nd` for both. In int8 the channels of a group must be
    a multiple of 4, for input and output.  [IDeconvolutionLayer]
    """

    deconvolution: ClassVar[bool] = True

    kernel_size: Ints = attribute(aliases=("kernel_size_nd",))
    num_output_maps: int = attribute(aliases=("nb_output_maps",))
    padding_mode: PaddingMode = attribute("EXPLICIT_ROUND_DOWN", exact=True)
    pre_padding: Ints = ()
    post_padding: Ints = ()
    padding: Ints = attribute((), xml="padding_nd", aliases=("padding",))
    stride: Ints = attribute((), aliases=("stride_nd",))
    dilation: Ints = attribute((), aliases=("dilation_nd",))
    num_groups: int = attribute(1, aliases=("nb_groups",))

    def check(self) -> Iterator[Problem]:
        yield from core.positive("kernel_size", self.kernel_size)
        yield from core.positive("stride", self.stride)
        yield from core.positive("dilation", self.dilation)
        yield from core.equal_lengths(self, LISTS)
        for name in ("num_groups", "num_output_maps"):
            if getattr(self, name) < 1:
                yield Problem(
                    "E210",
                    f"{name} is {getattr(self, name)}; it must be at least 1",
                    attribute=name,
                )
        if self.padding and (self.pre_padding or self.post_padding):
            yield Problem(
                "E210",
                "padding_nd is given besides pre_padding or post_padding",
                attribute="padding_nd",
                hint="padding_nd sets both; keep one of the two ways",
            )
        pre, post = self.pads(len(self.kernel_size))
        if self.mode.startswith("CAFFE") and pre != post:
            yield Problem(
                "E210",
                f"padding_mode={self.mode} with pre_padding {list(pre)} and post_padding "
                f"{list(post)} is ambiguous: Caffe pads both sides alike",
                attribute="padding_mode",
                hint="use an EXPLICIT mode",
            )

    @property
    def mode(self) -> str:
        """The padding mode without the `k` of the enumeration's names."""
        return self.padding_mode.removeprefix("k")

    def pads(self, axes: int) -> tuple[Ints, Ints]:
        """Return the paddings before and after, as given."""
        both = filled(self.padding, axes, 0)
        return self.pre_padding or both, self.post_padding or both

    def expand(self, b: Builder[Any], data: Any, kernel: Any, bias: Any = None) -> Any:
        x, w = b.spec(data), b.spec(kernel)
        axes = base.layer_axes(x, w, [self.kernel_size])
        self.validate(x, w, None if bias is None else b.spec(bias), axes)
        if axes is None:
            if isinstance(b, SpecBuilder):
                return Spec(x.dtype or w.dtype, None)
            raise OpError("the rank of data and kernel is unknown", code="E400", port=0)
        grouped = base.split_groups(b, kernel, self.num_groups, axes)
        s = base.layer_sizes(
            b, data, grouped, filled(self.stride, axes, 1), filled(self.dilation, axes, 1)
        )
        y = base.deconvolve(b, data, grouped, s, self.window(s), least=1)
        return base.add_bias(b, y, bias, axes)

    def window(self, s: base.Sizes) -> Window:
        """Return the window by TensorRT's rule."""
        pre, post = self.pads(len(s.strides.values))
        return geometry.tensorrt(self.mode, IntVector(pre), IntVector(post), s.strides, s.extent)

    def validate(self, x: Spec, w: Spec, bias: Spec | None, axes: int | None) -> None:
        """Raise OpError where the inputs do not fit what TensorRT accepts."""
        base.check_ranks(x, w, range(4, 6), "CKRS = [C, M/g, *K]")
        base.check_types((x, w, bias), ("f32", "f16", "bf16", "i8"), SYSTEM)
        base.check_lists(self, LISTS, axes)
        base.check_not_negative(self, ("pre_padding", "post_padding", "padding"), SYSTEM)
        shape = w.shape
        base.check_groups(
            base.channel(x.shape, 1), base.channel(shape, 0), self.num_groups, "num_groups"
        )
        if self.num_output_maps % self.num_groups:
            raise OpError(
                f"{self.num_groups} groups do not divide {self.num_output_maps} output maps",
                code="E304",
                attribute="num_groups",
            )
        outputs: Dim = base.channel(shape, 1) * self.num_groups
        if isinstance(outputs, int) and outputs != self.num_output_maps:
            raise OpError(
                f"num_output_maps is {self.num_output_maps}, the kernel gives {outputs} = "
                f"{self.num_groups} groups x {base.channel(shape, 1)}",
                code="E304",
                attribute="num_output_maps",
            )
        base.check_bias(bias, self.num_output_maps)
        base.check_kernel_size("kernel_size", self.kernel_size, (shape or ())[2:])
        if x.dtype is not None and x.dtype.name == "i8":
            self._check_int8(base.channel(shape, 0))

    def _check_int8(self, inputs: Dim) -> None:
        for what, count in (("input", inputs), ("output", self.num_output_maps)):
            if isinstance(count, int) and (count // self.num_groups) % INT8_MULTIPLE:
                raise OpError(
                    f"int8 needs groups of a multiple of {INT8_MULTIPLE} {what} channels; "
                    f"{count} channels in {self.num_groups} groups make "
                    f"{count // self.num_groups}",
                    code="E303",
                    attribute="num_groups",
                )

    def remarks(self, data: Spec, kernel: Spec, bias: Spec | None = None) -> Iterator[Problem]:
        yield from remarks.tensorrt(self)
        pre, post = self.pads(len(self.kernel_size))
        if self.mode.startswith("SAME") and (any(pre) or any(post)):
            yield Problem(
                "W301",
                f"padding_mode={self.mode} overrides the given paddings",
                "warning",
                attribute="padding_mode",
            )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the kernel."""
        return core.scatter_macs(inputs[0], inputs[1])
