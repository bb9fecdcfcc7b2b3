"""OpenVINO's two deconvolutions: ConvolutionBackpropData-1 and GroupConvolutionBackpropData-1."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from irdeconv import geometry
from irdeconv.attributes import Ints
from irdeconv.dialects import base, remarks
from irdeconv.dtypes import i64
from irdeconv.errors import OpError, Problem
from irdeconv.geometry import IntVector, Semantics, Vector, Window, filled
from irdeconv.op import Builder, SpecBuilder, SugarOp, attribute, op
from irdeconv.ops import core
from irdeconv.ops.convert import Convert
from irdeconv.ops.vectors import GraphVector, vector
from irdeconv.spec import Interval, Shape, Spec, dims, format_shape, ints, merge

AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]
LISTS = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")


@dataclass(frozen=True)
class BackpropData(SugarOp):
    """What both share: attributes, checks, expansion.

    Absent lists mean 1 (strides, dilations) and 0 (pads, output_padding), as in the runtime; the
    document requires strides, pads and dilations. `semantics` chooses between what the runtime
    computes and what the document's formulas say.
    """

    deconvolution: ClassVar[bool] = True

    strides: Ints = attribute((), documented=True)
    pads_begin: Ints = attribute((), documented=True)
    pads_end: Ints = attribute((), documented=True)
    dilations: Ints = attribute((), documented=True)
    auto_pad: AutoPad = "explicit"
    output_padding: Ints = ()
    semantics: Semantics = attribute("runtime", internal=True)

    def check(self) -> Iterator[Problem]:
        yield from core.positive("strides", self.strides)
        yield from core.positive("dilations", self.dilations)
        yield from core.equal_lengths(self, LISTS)

    @property
    def groups_axis(self) -> int:
        """1 where the filter has a leading group axis."""
        return 0

    def expand(self, b: Builder[Any], data: Any, filter: Any, output_shape: Any = None) -> Any:
        """Resolve the pads and add core.Deconvolution."""
        x, w = b.spec(data), b.spec(filter)
        shape = None if output_shape is None else b.spec(output_shape)
        axes = self.spatial_axes(x, w, shape)
        self.validate(x, w, shape, axes)
        if axes is None:
            if isinstance(b, SpecBuilder):
                return Spec(x.dtype or w.dtype, None)
            raise OpError("the rank of data and filter is unknown", code="E400", port=0)
        grouped = filter
        if not self.groups_axis:
            grouped = base.split_groups(b, filter, 1, axes)
        s = base.layer_sizes(
            b, data, grouped, filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        )
        wanted = None if output_shape is None else vector(b, _as_i64(b, output_shape))
        y = base.deconvolve(b, data, grouped, s, self.window(s, wanted, self.semantics))
        return y if shape is None else b.refine(y, _with_output(b.spec(y), shape))

    def window(self, s: base.Sizes, output_shape: Vector | None, semantics: Semantics) -> Window:
        """Return the window by the rule of the chosen semantics."""
        axes = len(s.strides.values)
        return geometry.OPENVINO[semantics](
            self.auto_pad,
            IntVector(filled(self.pads_begin, axes, 0)),
            IntVector(filled(self.pads_end, axes, 0)),
            IntVector(filled(self.output_padding, axes, 0)),
            s.full,
            output_shape,
        )

    def spatial_axes(self, data: Spec, filter: Spec, output_shape: Spec | None) -> int | None:
        """Return the number of spatial axes from the first source that knows it."""
        if data.shape is not None:
            return len(data.shape) - 2
        if filter.shape is not None:
            return len(filter.shape) - 2 - self.groups_axis
        if (
            output_shape is not None
            and output_shape.shape
            and isinstance(output_shape.shape[0], int)
        ):
            return output_shape.shape[0]
        given = [len(getattr(self, name)) for name in LISTS if getattr(self, name)]
        return given[0] if given else None

    def validate(self, x: Spec, w: Spec, shape: Spec | None, axes: int | None) -> None:
        """Raise OpError where ranks, channels, element types or lists do not fit."""
        if x.shape is not None and not 3 <= len(x.shape) <= 5:
            raise OpError(
                f"data has rank {len(x.shape)}; it needs 3 to 5 axes: N, C and 1 to 3 spatial ones",
                code="E301",
                port=0,
            )
        if axes is not None and not 1 <= axes <= 3:
            raise OpError(f"{axes} spatial axes; 1 to 3 are possible", code="E301", port=1)
        want = None if axes is None else axes + 2 + self.groups_axis
        if want is not None and w.shape is not None and len(w.shape) != want:
            layout = "[g, C/g, M/g, *K]" if self.groups_axis else "[C, M, *K]"
            raise OpError(
                f"data has {axes} spatial axes, so the filter needs rank {want} {layout}, "
                f"but it has rank {len(w.shape)}",
                code="E301",
                port=1,
            )
        self._check_types(x, w, shape)
        if axes is not None:
            self._check_lists(axes)
            self._check_output_shape(shape, axes)
        self._check_channels(x.shape, w.shape)
        base.check_kernel((w.shape or ())[2 + self.groups_axis :])

    def _check_types(self, x: Spec, w: Spec, shape: Spec | None) -> None:
        if x.dtype is not None and w.dtype is not None and x.dtype != w.dtype:
            raise OpError(
                f"data is {x.dtype}, the filter {w.dtype}; they must have one element type",
                code="E303",
                port=1,
            )
        for port, spec in enumerate((x, w)):
            if spec.dtype is not None and spec.dtype.kind not in ("float", "int", "uint"):
                raise OpError(f"element type {spec.dtype} is not numeric", code="E303", port=port)
        if shape is not None and shape.dtype is not None and not shape.dtype.is_integral:
            raise OpError(
                f"output_shape is {shape.dtype}; it must be of an integer type",
                code="E303",
                port=2,
            )

    def _check_lists(self, axes: int) -> None:
        for name in LISTS:
            values = getattr(self, name)
            if values and len(values) != axes:
                raise OpError(
                    f"{name} has {len(values)} values for {axes} spatial axes",
                    code="E304",
                    attribute=name,
                )

    def _check_output_shape(self, shape: Spec | None, axes: int) -> None:
        if shape is None or shape.shape is None:
            return
        if len(shape.shape) != 1 or merge(shape.shape[0], axes) is None:
            raise OpError(
                f"output_shape has shape {format_shape(shape.shape)}; it needs one value for "
                f"each of the {axes} spatial axes",
                code="E305",
                port=2,
            )
        for axis, size in enumerate(dims(shape) or ()):
            if isinstance(size, int) and size < 0:
                raise OpError(
                    f"output_shape asks for size {size} on spatial axis {axis}",
                    code="E305",
                    port=2,
                )

    def _check_channels(self, x: Shape | None, w: Shape | None) -> None:
        if x is None or w is None:
            return
        if merge(x[1], w[0]) is None:
            raise OpError(
                f"data has {x[1]} channels, the filter wants {w[0]}",
                code="E302",
                port=1,
                hint="the filter's first axis must equal the data's channel axis",
            )

    def remarks(
        self, data: Spec, filter: Spec, output_shape: Spec | None = None
    ) -> Iterator[Problem]:
        """Warn where document and runtime part, and of unusual but legal values."""
        axes = self.spatial_axes(data, filter, output_shape)
        if axes is None:
            return
        yield from self._divergence(data, filter, output_shape, axes)
        yield from remarks.openvino(data)
        for axis, p in enumerate(self.output_padding):
            if p < 0:
                yield Problem(
                    "W301",
                    f"output_padding is {p} on spatial axis {axis}: the runtime takes a "
                    "negative one as a crop",
                    "warning",
                    attribute="output_padding",
                )
        for name in ("pads_begin", "pads_end"):
            if self.auto_pad == "explicit" and any(p < 0 for p in getattr(self, name)):
                yield Problem(
                    "W303",
                    f"{name} has negative values: shape inference accepts them, the "
                    "OpenVINO CPU plugin refuses to compile the layer",
                    "warning",
                    attribute=name,
                )
        out = self.expand(SpecBuilder(), *_present(data, filter, output_shape))
        if out.shape is not None and any(d == 0 for d in out.shape):
            yield Problem("W302", f"the output {out} is empty", "warning")

    def _divergence(
        self, data: Spec, filter: Spec, output_shape: Spec | None, axes: int
    ) -> Iterator[Problem]:
        if output_shape is None:
            return
        b = SpecBuilder()
        grouped = filter if self.groups_axis else base.split_groups(b, filter, 1, axes)
        s = base.layer_sizes(
            b, data, grouped, filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        )
        wanted = vector(b, _as_i64(b, output_shape))
        both: tuple[Semantics, ...] = ("runtime", "document")
        yield from remarks.prose(self, s, wanted)
        shown = {m: _numbers(self.window(s, wanted, m).pads_begin) for m in both}
        if shown["runtime"] is None or shown["runtime"] == shown["document"]:
            return
        yield Problem(
            "W300",
            f"auto_pad={self.auto_pad} with output_shape: the runtime begins the output at "
            f"{shown['runtime']} of the full scatter, the published formula at "
            f"{shown['document'] or 'a place that depends on the sizes'}; irdeconv computes the "
            f"{self.semantics}'s",
            "warning",
            attribute="auto_pad",
            hint='choose with semantics="runtime" or semantics="document"',
        )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the filter."""
        return core.scatter_macs(inputs[0], inputs[1])


@op("ConvolutionBackpropData")
class ConvolutionBackpropData(BackpropData):
    """Deconvolution: data (N, C, *I), filter (C, M, *K), optional output_shape (n,) -> (N, M, *O).

    One to three spatial axes; data and filter share a numeric element type, output_shape has any
    integer type and may be computed.  [convolution/ConvolutionBackpropData-1]
    """


@op("GroupConvolutionBackpropData")
class GroupConvolutionBackpropData(BackpropData):
    """Grouped deconvolution: data (N, C, *I), filter (g, C/g, M/g, *K) -> (N, M, *O).

    Output channels are contiguous chunks per group; otherwise as ConvolutionBackpropData.
    [convolution/GroupConvolutionBackpropData-1]
    """

    @property
    def groups_axis(self) -> int:
        return 1

    def _check_channels(self, x: Shape | None, w: Shape | None) -> None:
        if x is None or w is None:
            return
        wanted = w[0] * w[1]
        if merge(x[1], wanted) is None:
            raise OpError(
                f"data has {x[1]} channels, the filter wants {wanted} = {w[0]} groups x {w[1]}",
                code="E302",
                port=1,
                hint="the filter's first two axes multiply to the data's channel axis",
            )

    def remarks(
        self, data: Spec, filter: Spec, output_shape: Spec | None = None
    ) -> Iterator[Problem]:
        yield from super().remarks(data, filter, output_shape)
        shape = filter.shape
        if shape and shape[0] == 1 and any(d != 1 for d in shape[1:3]):
            yield Problem(
                "W303",
                "one group: the OpenVINO CPU plugin does not compile a "
                "GroupConvolutionBackpropData with g = 1 unless C = M = 1",
                "warning",
                port=1,
                hint="ConvolutionBackpropData computes the same",
            )


def _present(*specs: Spec | None) -> tuple[Spec, ...]:
    return tuple(s for s in specs if s is not None)


def _as_i64(b: Builder[Any], x: Any) -> Any:
    spec = b.spec(x)
    return x if spec.dtype == i64 or ints(spec) is not None else b.add(Convert(i64), x)


def _numbers(v: Vector) -> tuple[int, ...] | None:
    if isinstance(v, GraphVector):
        return ints(v.x)
    assert isinstance(v, IntVector)
    return v.values


def _with_output(spec: Spec, output_shape: Spec) -> Spec:
    """Put what is known of output_shape into the inferred shape: it decides the size."""
    wanted = dims(output_shape)
    if spec.shape is None or wanted is None or len(wanted) != len(spec.shape) - 2:
        return spec
    exact = [
        w if not isinstance(w, Interval) else merge(d, w) or w
        for d, w in zip(spec.shape[2:], wanted, strict=True)
    ]
    return dataclasses.replace(spec, shape=(*spec.shape[:2], *exact))


__all__ = ["BackpropData", "ConvolutionBackpropData", "GroupConvolutionBackpropData"]
