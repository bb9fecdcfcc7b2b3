"""ONNX's deconvolution: ConvTranspose of operation sets 1, 11 and 22."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from irdeconv import geometry
from irdeconv.attributes import Ints
from irdeconv.dialects import base, remarks
from irdeconv.errors import OpError, Problem
from irdeconv.geometry import IntVector, Semantics, Window, filled
from irdeconv.geometry_hints import size_hint
from irdeconv.op import Builder, SpecBuilder, SugarOp, attribute, op
from irdeconv.ops import core
from irdeconv.spec import DYNAMIC, Dim, Shape, Spec, is_static

AutoPad = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
LISTS = ("strides", "dilations", "output_padding", "kernel_shape")
SYSTEM = "ONNX"


@dataclass(frozen=True)
class ConvTranspose(SugarOp):
    """What all versions share: attributes, checks, expansion.

    `pads` are the begins followed by the ends. `output_shape` takes precedence over SAME_*, that
    over VALID and pads. `semantics` "runtime" is what ONNX Runtime computes, which for every
    version is the text of version 11; "document" follows the formula printed for the version.
    """

    deconvolution: ClassVar[bool] = True
    element_types: ClassVar[tuple[str, ...]] = ("f16", "f32", "f64")
    mirrored_text: ClassVar[bool] = False
    channels_last: ClassVar[bool] = False
    whole_output_shape: ClassVar[bool] = False  # output_shape may name batch and channels too

    auto_pad: AutoPad = attribute("NOTSET", exact=True)
    dilations: Ints = ()
    group: int = 1
    kernel_shape: Ints = ()
    output_padding: Ints = ()
    output_shape: Ints = ()
    pads: Ints = ()
    strides: Ints = ()
    semantics: Semantics = attribute("runtime", internal=True)

    def check(self) -> Iterator[Problem]:
        yield from core.positive("strides", self.strides)
        yield from core.positive("dilations", self.dilations)
        yield from core.equal_lengths(self, LISTS)
        if self.group < 1:
            yield Problem(
                "E210", f"group is {self.group}; it must be at least 1", attribute="group"
            )
        if self.pads and self.auto_pad != "NOTSET":
            yield Problem(
                "E210",
                f"pads cannot be given together with auto_pad={self.auto_pad}",
                attribute="pads",
                hint="leave out one of them",
            )
        for name in ("pads", "output_padding", "output_shape"):
            for at, v in enumerate(getattr(self, name)):
                if v < 0:
                    yield Problem(
                        "E210",
                        f"{name} is {v} at position {at}; no negative value is allowed",
                        attribute=name,
                    )

    def expand(self, b: Builder[Any], data: Any, filter: Any, bias: Any = None) -> Any:
        x, w = b.spec(data), b.spec(filter)
        axes = self.axes(x, w)
        self.validate(x, w, None if bias is None else b.spec(bias), axes)
        if axes is None:
            if isinstance(b, SpecBuilder):
                return Spec(x.dtype or w.dtype, None)
            raise OpError("the rank of data and filter is unknown", code="E400", port=0)
        if self.channels_last:
            data = base.to_channels_first(b, data, axes)
        grouped = base.split_groups(b, filter, self.group, axes)
        s = base.layer_sizes(
            b, data, grouped, filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        )
        y = base.deconvolve(b, data, grouped, s, self.window(s, self.semantics), least=1)
        y = b.refine(y, self._with_output(b.spec(y), axes))
        y = self.activate(b, base.add_bias(b, y, bias, axes))
        return base.to_channels_last(b, y, axes) if self.channels_last else y

    def activate(self, b: Builder[Any], y: Any) -> Any:
        """Return the result itself; the channels-last operation has a fused activation."""
        return y

    def axes(self, x: Spec, w: Spec) -> int | None:
        """Return the number of spatial axes."""
        return base.layer_axes(x, w, [getattr(self, n) for n in LISTS])

    def wanted(self, axes: int) -> IntVector | None:
        """Return output_shape; of n+2 values the last n."""
        return IntVector(self.output_shape[-axes:]) if self.output_shape else None

    def window(self, s: base.Sizes, semantics: Semantics) -> Window:
        """Return the window of the chosen semantics."""
        axes = len(s.strides.values)
        pads = filled(self.pads, 2 * axes, 0)
        return geometry.onnx(
            self.auto_pad,
            IntVector(pads[:axes]),
            IntVector(pads[axes:]),
            IntVector(filled(self.output_padding, axes, 0)),
            s.strides,
            s.extent,
            s.full,
            self.wanted(axes),
            mirrored=semantics == "document" and self.mirrored_text,
        )

    def _with_output(self, spec: Spec, axes: int) -> Spec:
        wanted = self.wanted(axes)
        if wanted is None or spec.shape is None:
            return spec
        return Spec(spec.dtype, (*spec.shape[:2], *wanted.values), spec.value)

    def validate(self, x: Spec, w: Spec, bias: Spec | None, axes: int | None) -> None:
        """Raise OpError where the inputs do not fit what ONNX and its runtime accept."""
        base.check_ranks(x, w, range(3, 9), "[C, M/g, *K]")
        base.check_types((x, w, bias), self.element_types, SYSTEM)
        base.check_lists(self, LISTS, axes)
        base.check_lists(self, ("pads",), axes, per_axis=2)
        allowed = (axes, axes + 2) if self.whole_output_shape and axes else (axes,)
        if self.output_shape and axes and len(self.output_shape) not in allowed:
            raise OpError(
                f"output_shape has {len(self.output_shape)} values for {axes} spatial axes",
                code="E304",
                attribute="output_shape",
            )
        shape = w.shape
        channels: Dim = base.channel(x.shape, -1 if self.channels_last else 1)
        base.check_groups(channels, base.channel(shape, 0), self.group, "group")
        base.check_bias(bias, base.channel(shape, 1) * self.group)
        kernel = (shape or ())[2:]
        base.check_kernel(kernel)
        base.check_kernel_size("kernel_shape", self.kernel_shape, kernel)
        if axes is not None:
            self._check_extra(axes)
            if self.output_shape:
                self._check_reachable(x.shape, kernel, axes)

    def _check_extra(self, axes: int) -> None:
        """Refuse output_padding that is too large: by the text, by ONNX Runtime."""
        strides, dilations = filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        for axis, extra in enumerate(self.output_padding):
            limit = max(strides[axis], dilations[axis])
            if self.semantics == "runtime":
                limit = strides[axis]
            if extra >= limit:
                raise OpError(
                    f"output_padding is {extra} on spatial axis {axis}; it must be less than "
                    f"{limit} (stride {strides[axis]}, dilation {dilations[axis]})",
                    code="E304",
                    attribute="output_padding",
                    hint="the text allows less than stride or dilation, ONNX Runtime less than "
                    "the stride",
                )

    def _check_reachable(self, x: Shape | None, kernel: Shape, axes: int) -> None:
        """Refuse an output_shape that no input of this size gives (ONNX Runtime's rule)."""
        wanted = self.wanted(axes)
        if x is None or not kernel or wanted is None or self.semantics == "document":
            return
        spatial = x[1:-1] if self.channels_last else x[2:]
        strides, dilations = filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        for axis, (size, s, d, k, o) in enumerate(
            zip(spatial, strides, dilations, kernel, wanted.values, strict=True)
        ):
            full = (size - 1) * s + (k - 1) * d + 1
            if isinstance(full, int) and o - full >= s:
                raise OpError(
                    f"output_shape is {o} on spatial axis {axis}, but {size} inputs give "
                    f"{full}, and with output_padding at most {full + s - 1}",
                    code="E306",
                    attribute="output_shape",
                    hint=size_hint(full, o, extra=0, limit=s, pads=0),
                )

    def remarks(self, data: Spec, filter: Spec, bias: Spec | None = None) -> Iterator[Problem]:
        axes = self.axes(data, filter)
        if axes is None:
            return
        if len(self.output_shape) == axes + 2:
            yield Problem(
                "W301",
                f"output_shape has {axes + 2} values; ONNX Runtime takes the last {axes} where the "
                "model does not declare the filter's shape, and refuses them otherwise",
                "warning",
                attribute="output_shape",
                hint="leave out batch and channels",
            )
        if self.output_shape and any(self.pads):
            yield Problem(
                "W301", "output_shape is given, so pads are ignored", "warning", attribute="pads"
            )
        kernel = filter.shape[2:] if filter.shape is not None else (DYNAMIC,) * axes
        yield from remarks.onnx(self, data, kernel, axes)
        yield from self._split_remarks(data, filter, axes)

    def _split_remarks(self, data: Spec, filter: Spec, axes: int) -> Iterator[Problem]:
        if self.channels_last and data.shape is not None:
            data = Spec(data.dtype, (data.shape[0], data.shape[-1], *data.shape[1:-1]))
        kernel = (filter.shape or ())[2:]
        size = data.shape[2:] if is_static(data.shape) else None
        if size is None and not self.output_shape:
            size = (1,) * axes  # the total of SAME_* does not depend on it
        if size is None or not is_static(kernel) or not filter.shape:
            return
        s = base.Sizes(
            IntVector(size),
            IntVector(kernel),
            IntVector(filled(self.strides, axes, 1)),
            IntVector(filled(self.dilations, axes, 1)),
        )
        here, there = (self.window(s, m).pads_begin for m in ("runtime", "document"))
        if here != there:
            yield Problem(
                "W300",
                f"an odd total is split differently: ONNX Runtime begins the output at "
                f"{_list(here)} of the full scatter, the formula printed for this version at "
                f"{_list(there)}; irdeconv computes the {self.semantics}'s",
                "warning",
                attribute="output_shape" if self.output_shape else "auto_pad",
                hint="version 11 of the text has the runtime's split",
            )
        reach = geometry.dilated_kernel(s.kernel, s.dilations)
        assert isinstance(reach, IntVector)
        both = zip(reach.values, s.strides.values, strict=True)
        short = [axis for axis, (extent, stride) in enumerate(both) if extent < stride]
        if self.auto_pad.startswith("SAME") and not self.output_shape and short:
            yield Problem(
                "W301",
                f"auto_pad={self.auto_pad}: on spatial axes {short} the kernel is shorter "
                "than the stride, so the output is smaller than input times stride",
                "warning",
                attribute="auto_pad",
            )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the filter."""
        return core.scatter_macs(inputs[0], inputs[1])


def _list(v: Any) -> list[int]:
    return list(v.values)


@op("ConvTranspose", "onnx_opset1", standard=False)
class ConvTranspose1(ConvTranspose):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); f16, f32, f64.

    The formula printed for this version splits an odd total the other way round than its prose and
    than every later version.  [ONNX ConvTranspose-1]
    """

    mirrored_text: ClassVar[bool] = True
    whole_output_shape: ClassVar[bool] = True


@op("ConvTranspose", "onnx_opset11", standard=False)
class ConvTranspose11(ConvTranspose):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); f16, f32, f64.

    SAME_UPPER puts the smaller half of the total at the begin, everything else the larger one.
    [ONNX ConvTranspose-11]
    """


@op("ConvTranspose", "onnx_opset22", standard=False)
class ConvTranspose22(ConvTranspose):
    """Deconvolution: data (N, C, *I), filter (C, M/g, *K), optional bias (M,); also bf16.

    As version 11.  [ONNX ConvTranspose-22]
    """

    element_types: ClassVar[tuple[str, ...]] = ("f16", "f32", "f64", "bf16")
