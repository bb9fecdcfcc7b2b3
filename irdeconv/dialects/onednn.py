"""oneDNN Graph's deconvolution: ConvTranspose-1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

from irdeconv import geometry
from irdeconv.attributes import Ints
from irdeconv.dialects import base, remarks
from irdeconv.errors import OpError, Problem
from irdeconv.geometry import IntVector, Semantics, Window, filled
from irdeconv.op import Builder, SpecBuilder, SugarOp, attribute, op
from irdeconv.ops import core
from irdeconv.spec import Shape, Spec

LISTS = ("strides", "pads_begin", "pads_end", "dilations", "output_padding")
SYSTEM = "oneDNN Graph"
Format = Literal["XIO", "OIX", "XOI", "IOX"]


@op("ConvTranspose", "onednn_graph_1", aliases=("ConvTranspose-1",), standard=False)
class OneDnnConvTranspose(SugarOp):
    """Deconvolution: data (N, *I, C) or (N, C, *I), filter, optional bias (M,); f32, f16, bf16.

    `data_format` NXC or NCX holds for input and output. The filter's layout is `filter_format`
    (XIO, OIX) or, since oneDNN 3, `weights_format` (XOI, IOX): I all input channels, O the output
    channels of a group, X the spatial axes; both names take all four values. Under auto_pad the
    given pads are ignored; output_padding always lengthens the output. The library computes
    output_padding < strides only, the document sets no limit (`semantics`).
    [oneDNN Graph ConvTranspose-1]
    """

    deconvolution: ClassVar[bool] = True

    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    auto_pad: Literal["none", "same_upper", "same_lower", "valid"] = "none"
    output_padding: Ints = ()
    groups: int = 1
    data_format: Literal["NXC", "NCX"] = "NXC"
    filter_format: Format | None = None
    weights_format: Format | None = None
    semantics: Semantics = attribute("runtime", internal=True)

    def check(self) -> Iterator[Problem]:
        yield from core.positive("strides", self.strides)
        yield from core.positive("dilations", self.dilations)
        yield from core.equal_lengths(self, LISTS)
        for name in LISTS[:4]:
            if not getattr(self, name):
                yield Problem("E210", f"{name} is empty; it is required", attribute=name)
        if self.groups < 1:
            yield Problem(
                "E210", f"groups is {self.groups}; it must be at least 1", attribute="groups"
            )
        if (
            self.filter_format
            and self.weights_format
            and (self.filter_format != self.weights_format)
        ):
            yield Problem(
                "E210",
                f"filter_format={self.filter_format} and "
                f"weights_format={self.weights_format} are two names of one attribute",
                attribute="weights_format",
                hint="keep one of them",
            )

    @property
    def layout(self) -> str:
        """The filter's layout; the document's default where neither attribute is given."""
        return self.weights_format or self.filter_format or "XIO"

    def expand(self, b: Builder[Any], data: Any, filter: Any, bias: Any = None) -> Any:
        x, w = b.spec(data), b.spec(filter)
        axes = base.layer_axes(x, w, [getattr(self, n) for n in LISTS])
        self.validate(x, w, None if bias is None else b.spec(bias), axes)
        if axes is None:
            if isinstance(b, SpecBuilder):
                return Spec(x.dtype or w.dtype, None)
            raise OpError("the rank of data and filter is unknown", code="E400", port=0)
        if self.data_format == "NXC":
            data = base.to_channels_first(b, data, axes)
        grouped = base.split_groups(
            b, base.permute(b, filter, self._to_iox(axes)), self.groups, axes
        )
        s = base.layer_sizes(
            b, data, grouped, filled(self.strides, axes, 1), filled(self.dilations, axes, 1)
        )
        y = base.deconvolve(b, data, grouped, s, self.window(s), least=1)
        y = base.add_bias(b, y, bias, axes)
        return base.to_channels_last(b, y, axes) if self.data_format == "NXC" else y

    def window(self, s: base.Sizes) -> Window:
        """Return the window by oneDNN's rule."""
        axes = len(s.strides.values)
        return geometry.onednn(
            self.auto_pad,
            IntVector(filled(self.pads_begin, axes, 0)),
            IntVector(filled(self.pads_end, axes, 0)),
            IntVector(filled(self.output_padding, axes, 0)),
            s.strides,
            s.extent,
        )

    def _to_iox(self, axes: int) -> tuple[int, ...]:
        """Return the order of axes that makes the filter (C, M/g, *K)."""
        spatial_last = self.layout.endswith("X")
        first = 2 if spatial_last else 0
        channels = (0, 1) if spatial_last else (axes, axes + 1)
        if self.layout.replace("X", "") == "OI":
            channels = channels[::-1]
        return (*channels, *range(first, first + axes))

    def validate(self, x: Spec, w: Spec, bias: Spec | None, axes: int | None) -> None:
        """Raise OpError where the inputs do not fit what oneDNN accepts."""
        base.check_ranks(x, w, range(3, 6), self.layout)
        base.check_types((x, w, bias), ("f32", "f16", "bf16"), SYSTEM)
        base.check_lists(self, LISTS, axes)
        base.check_not_negative(self, ("output_padding",), SYSTEM)
        if self.auto_pad == "none":
            self._check_pads()
        if self.semantics == "runtime":
            self._check_extra()
        if w.shape is not None and axes is not None:
            base.check_kernel([w.shape[k] for k in self._to_iox(axes)[2:]])
        inputs, outputs = self._channels(w.shape, axes)
        at = 1 if self.data_format == "NCX" else -1
        base.check_groups(base.channel(x.shape, at), inputs, self.groups, "groups")
        base.check_bias(bias, outputs)

    def _check_pads(self) -> None:
        """Refuse negative pads; the library takes those at the end that are above -stride."""
        base.check_not_negative(self, ("pads_begin",), SYSTEM)
        if self.semantics == "document":
            base.check_not_negative(self, ("pads_end",), SYSTEM)
        for axis, (pad, stride) in enumerate(zip(self.pads_end, self.strides, strict=False)):
            if pad <= -stride:
                raise OpError(
                    f"pads_end is {pad} on spatial axis {axis}; the library lengthens the output "
                    f"by less than the stride {stride} only",
                    code="E304",
                    attribute="pads_end",
                    hint="output_padding lengthens the output",
                )

    def _check_extra(self) -> None:
        """Refuse output_padding that the library does not compute."""
        for axis, (extra, stride) in enumerate(
            zip(self.output_padding, self.strides, strict=False)
        ):
            if extra >= stride:
                raise OpError(
                    f"output_padding is {extra} on spatial axis {axis}; the library computes "
                    f"values below the stride {stride} only",
                    code="E304",
                    attribute="output_padding",
                    hint='the document sets no limit: semantics="document" computes it',
                )

    def _channels(self, w: Shape | None, axes: int | None) -> tuple[Any, Any]:
        if w is None or axes is None:
            return base.channel(None, 0), base.channel(None, 0)
        i, o, *_ = self._to_iox(axes)
        return w[i], w[o] * self.groups

    def remarks(self, data: Spec, filter: Spec, bias: Spec | None = None) -> Iterator[Problem]:
        if self.weights_format in ("OIX", "XIO") or self.filter_format in ("IOX", "XOI"):
            name = "weights_format" if self.weights_format else "filter_format"
            yield Problem(
                "W301",
                f"{name}={self.layout}: a value of the other spelling of this attribute; "
                "the library refuses it",
                "warning",
                attribute=name,
                hint="filter_format (before 3.0) knows XIO and OIX, weights_format XOI and IOX",
            )
        if self.auto_pad == "none" and any(p < 0 for p in self.pads_end):
            yield Problem(
                "W301",
                f"pads_end {list(self.pads_end)} has negative values: the document excludes them, "
                "the library lengthens the output",
                "warning",
                attribute="pads_end",
                hint="output_padding is the documented way",
            )
        ignored = any(self.pads_begin) or any(self.pads_end)
        if self.auto_pad != "none" and ignored:
            yield Problem(
                "W301",
                f"auto_pad={self.auto_pad}: pads_begin and pads_end are required and ignored",
                "warning",
                attribute="auto_pad",
            )
        if filter.shape is not None:
            order = self._to_iox(len(self.strides))
            sizes = [filter.shape[at] for at in order]
            yield from remarks.onednn(self, sizes[:2], sizes[2:])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the filter."""
        x = inputs[0]
        if x.shape is not None and self.data_format == "NXC":
            x = replace(x, shape=(x.shape[0], x.shape[-1], *x.shape[1:-1]))
        return core.scatter_macs(x, inputs[1])
