"""The rules of other systems, their verdicts on a layer, and attributes for a wanted output size.

PyTorch and TensorFlow have no IR here, only rules.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, count
from irdeconv.base.json_form import Record
from irdeconv.base.limits import Limits, current
from irdeconv.ir import geometry
from irdeconv.ir.attributes import Ints
from irdeconv.ir.geometry import IntVector, Vector, Window
from irdeconv.ir.op import Op
from irdeconv.ir.spec import DYNAMIC, Dim, Shape, Spec, ints, is_static, non_negative
from irdeconv.ops import core
from irdeconv.ops.core import PadsRule, Setting, as_given, check_output, part, shape_text
from irdeconv.ops.dialect_template import (
    PLAIN,
    Cannot,
    Crop,
    DialectDeconvolution,
    DialectSystem,
    System,
)
from irdeconv.ops.dialects import READINGS


def setting(op: Op, inputs: tuple[Spec, ...]) -> Setting | None:
    """Return a deconvolution's setting; None if even the number of axes is unknown.

    Ranks that do not fit are for inference to refuse; those that leave no axis have no setting.
    """
    if any(x.shape is not None and len(x.shape) < 3 for x in inputs[:2]):
        return None
    if isinstance(op, DialectDeconvolution):
        return op.setting(*inputs)
    return _canonical_setting(op, *inputs) if isinstance(op, core.Deconvolution) else None


def rule(op: Op, s: Setting) -> PadsRule:
    """Return the rule that makes the pads of a layer."""
    return op.rule(s) if isinstance(op, DialectDeconvolution) else as_given(s)


def _canonical_setting(
    op: core.Deconvolution, x: Spec, w: Spec, pads_begin: Spec, pads_end: Spec
) -> Setting | None:
    axes, begin, end = len(op.strides), ints(pads_begin), ints(pads_end)
    if begin is None or end is None or {len(begin), len(end), len(op.dilations)} != {axes}:
        return None
    channels, *size = part(x.shape, 1, axes + 1)
    groups, _, outputs, *kernel = part(w.shape, 0, axes + 3)
    return Setting(
        system="canonical",
        size=tuple(size),
        kernel=tuple(kernel),
        strides=op.strides,
        dilations=op.dilations,
        pads_begin=begin,
        pads_end=end,
        output_padding=(0,) * axes,
        groups=groups if isinstance(groups, int) else 1,
        channels=channels,
        outputs=groups * outputs,
        dtype=x.dtype,
    )


def _canonical(s: Setting) -> tuple[Op, tuple[Spec, ...]]:
    if s.output_shape is not None or s.auto_pad not in ("explicit", "valid"):
        raise Cannot("there are only pads")
    begin, end = (np.array(p, np.int64) for p in s.explicit_pads)
    pads = Spec.of(begin), Spec.of(end - np.array(s.output_padding, np.int64))
    op = core.Deconvolution(s.strides, s.dilations)
    return op, (s.data_spec(), s.filter_spec(grouped=True), *pads)


CANONICAL = DialectSystem("canonical", "the canonical form", PLAIN[:1], _canonical, listed=False)


@dataclass(frozen=True)
class PyTorch(System):
    """torch.nn.ConvTranspose1d, 2d, 3d: one padding for both sides, no auto_pad.

    An output_shape is the argument `output_size`, which chooses output_padding.
    """

    symmetric: ClassVar[bool] = True

    def crop(self, s: Setting) -> Crop:
        """Return the window, or say which check of PyTorch fails."""
        padding, extra = self._attributes(s)
        for name, values in (("padding", padding), ("output_padding", extra)):
            if min(values) < 0:
                raise OpError(f"{name} {list(values)} is negative", code="E304")
        rows = zip(extra, s.strides, s.dilations, strict=True)
        for axis, (p, stride, dilation) in enumerate(rows):
            if p >= max(stride, dilation):
                least = f"it must be less than stride {stride} or dilation {dilation}"
                message = f"output_padding is {p} on spatial axis {axis}; {least}"
                raise OpError(message, code="E304")
        _check_axes(s)
        crop = _crop(s, geometry.pytorch(IntVector(padding), IntVector(extra)))
        check_output(crop.size)
        return crop

    def _attributes(self, s: Setting) -> tuple[Ints, Ints]:
        if s.same:
            raise Cannot(f"there is no {s.auto_pad} for a transposed convolution")
        begin, end = s.explicit_pads
        if begin != end:
            differ = f"pads {list(begin)} and {list(end)} differ; "
            said = differ if s.output_shape is None else ""
            raise Cannot(f"{said}padding is the same on both sides")
        return begin, s.output_padding if s.output_shape is None else self._extra(s, begin)

    def _extra(self, s: Setting, padding: Ints) -> Ints:
        """Return the output_padding that `output_size` chooses."""
        out = []
        rows = zip(s.full, s.strides, padding, s.output_shape or (), strict=True)
        for axis, (full, stride, p, size) in enumerate(rows):
            if not isinstance(full, int) or not isinstance(size, int):
                raise Cannot("output_padding depends on sizes that are not known")
            least = full - 2 * p
            if not least <= size < least + stride:
                possible = f"{least} to {least + stride - 1} are possible"
                message = f"output_size is {size} on spatial axis {axis}; {possible}"
                raise OpError(message, code="E306")
            out.append(size - least)
        return tuple(out)

    def spell(self, s: Setting) -> dict[str, str]:
        """Return padding and output_padding, or output_size."""
        padding, extra = self._attributes(s)
        out = {"padding": shape_text(padding)}
        if s.output_shape is not None:
            return out | {"output_size": shape_text(s.output_shape)}
        return out | ({"output_padding": shape_text(extra)} if any(extra) else {})


@dataclass(frozen=True)
class TensorFlow(System):
    """conv1d_transpose, conv2d_transpose, conv3d_transpose with one of the two paddings.

    The output size is an argument of the functions; without one it is that of Keras, which refuses
    strides together with dilations.
    """

    padding: str

    def crop(self, s: Setting) -> Crop:
        """Return the window of this padding; pads and auto_pad of the layer do not take part."""
        if s.groups > 1:
            raise Cannot("there are no groups")
        _check_axes(s)
        full, size = _vector(s.full), self.size(s)
        if size is None or full is None:
            return self._open(s)
        rows = zip(s.size, s.strides, s.extent, size, strict=True)
        for axis, (i, stride, dk, o) in enumerate(rows):
            assert isinstance(i, int)
            assert isinstance(dk, int)
            allowed = geometry.tensorflow_sizes(self.padding, i, stride, dk)
            if o not in allowed:
                given = f"a convolution over {o} elements on spatial axis {axis}"
                must = f"output_shape must be {allowed[0]} to {allowed[-1]}"
                raise OpError(f"{given} does not give {i}; {must}", code="E306")
        return _crop(s, geometry.tensorflow(self.padding, full, IntVector(size)))

    def size(self, s: Setting) -> Ints | None:
        """Return the output size: the one that is asked for, or the default."""
        if s.output_shape is not None:
            return s.output_shape if is_static(s.output_shape) else None
        size, extent = _vector(s.size), _vector(s.extent)
        if size is None or extent is None:
            return None
        strides = IntVector(s.strides)
        return _values(geometry.tensorflow_size(self.padding, size, strides, extent))

    def _open(self, s: Setting) -> Crop:
        """Return the window for unknown sizes: the default's pads do not depend on them."""
        extent = _vector(s.extent)
        if extent is None or s.output_shape is not None:
            begin = 0 if self.padding == "VALID" else DYNAMIC
            rest = (DYNAMIC,) * s.axes
            return Crop((begin,) * s.axes, rest, s.output_shape or rest)
        strides = IntVector(s.strides)
        one = geometry.tensorflow_size(self.padding, IntVector((1,) * s.axes), strides, extent)
        return _crop(s, geometry.tensorflow(self.padding, extent, one))

    def spell(self, s: Setting) -> dict[str, str]:
        """Return padding and output_shape."""
        out = {"padding": self.padding}
        return out if s.output_shape is None else out | {"output_shape": shape_text(s.output_shape)}

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield the setting that asks for the wanted size."""
        if is_static(wanted.size):
            yield replace(s, output_shape=wanted.size)


_MODES = (PLAIN[0], ("explicit", True))
FRAMEWORKS = (
    PyTorch("pytorch", "PyTorch", _MODES),
    TensorFlow("tensorflow_same", "TensorFlow SAME", _MODES, "SAME"),
    TensorFlow("tensorflow_valid", "TensorFlow VALID", _MODES, "VALID"),
)


def _check_axes(s: Setting) -> None:
    if not 1 <= s.axes <= 3:
        raise OpError(f"{s.axes} spatial axes; 1 to 3 are possible", code="E301")


def _vector(values: Shape) -> IntVector | None:
    return IntVector(values) if is_static(values) else None


def _crop(s: Setting, window: Window) -> Crop:
    begin, end = _values(window.pads_begin), _values(window.pads_end)
    rows = zip(s.full, begin, end, strict=True)
    size = tuple(non_negative(f - b - e) for f, b, e in rows)
    return Crop(begin, end, size)


def _values(v: Vector) -> Ints:
    assert isinstance(v, IntVector)
    return v.values


Kind = Literal["same", "shift", "longer", "shorter", "size", "rejected", "inexpressible", "unknown"]
SYSTEMS: tuple[System, ...] = (*(r for r in READINGS if r.listed), *FRAMEWORKS)


class Verdict(Record, keys="system title same kind text *crop instead"):
    """One row: the window of a system and whether its numbers are those of the layer.

    `crop` is None if the system refuses the attributes or has none for them.
    """

    system: str  # its short name
    title: str  # its full name
    crop: Crop | None
    kind: Annotated[Kind, str]  # such as same, shift, size, rejected or unknown
    text: str  # the difference, or the refusal, in words
    # attributes with which it computes the layer's numbers; null if the same ones do, or none
    instead: dict[str, str] | None = None

    @property
    def same(self) -> bool | None:
        """Whether the numbers are those of the layer; null if that depends on unknown sizes."""
        return None if self.kind == "unknown" else self.kind == "same"


def find(key: str) -> System:
    """Return the system with this key."""
    return next(s for s in (*READINGS, *FRAMEWORKS, CANONICAL) if s.key == key)


def verdicts(s: Setting, own: Crop | None) -> tuple[Verdict, ...]:
    """Return a row for every system; `own` is the layer's window, None if it is refused."""
    return _verdicts(s, own, current())


@lru_cache(maxsize=64)  # networks have many layers of the same numbers
def _verdicts(s: Setting, own: Crop | None, limits: Limits) -> tuple[Verdict, ...]:
    return tuple(verdict(system, s, own) for system in SYSTEMS)


def verdict(system: System, s: Setting, own: Crop | None) -> Verdict:
    """Ask one system."""
    crop: Crop | None = None
    kind: Kind = "unknown"
    try:
        crop, text = system.crop(s), "accepted"
    except Cannot as e:
        kind, text = "inexpressible", f"not expressible: {e}"
    except OpError as e:
        kind, text = "rejected", f"rejected: {e}"
    if own is not None and crop is not None:
        kind, text = difference(own, crop)
    instead = None
    if own is not None and kind not in ("same", "unknown"):
        for way in system.ways(s, own):  # attributes that give the layer's window there
            with suppress(Cannot, OpError):
                if difference(own, system.crop(way))[0] == "same":
                    instead = system.spell(way)
                    break
    return Verdict(system.key, system.title, crop, kind, text, instead)


def difference(own: Crop, other: Crop) -> tuple[Kind, str]:
    """Return the kind of difference and its words; equal windows give the same numbers."""
    found = [_axis(own, other, axis) for axis in range(len(own.size))]
    same = (k == "same" or _same_pads(own, other, axis) for axis, (k, _) in enumerate(found))
    if own == other or all(same):
        return "same", "the same numbers"
    different = {kind for kind, _ in found if kind != "same"}
    if different == {"unknown"}:
        return "unknown", "depends on sizes that are not known"
    different -= {"unknown"}
    kind: Kind = different.pop() if len(different) == 1 else "size"
    if kind == "size" and own.size == other.size:
        kind = "shift"
    return kind, "; ".join(_words([words for _, words in found]))


def _same_pads(own: Crop, other: Crop, axis: int) -> bool:
    """Whether both pads are known and equal, so that the size does not matter."""
    pads = own.begin[axis], own.end[axis]
    known = all(isinstance(pad, int) for pad in pads)
    return known and pads == (other.begin[axis], other.end[axis])


def _axis(own: Crop, other: Crop, axis: int) -> tuple[Kind, str]:
    """Return how one axis differs, and its words."""
    shift = _less(other.begin[axis], own.begin[axis])
    longer = _less(other.size[axis], own.size[axis])
    kind: Kind = "same"
    if shift is None or longer is None:
        kind = "size" if longer or shift else "unknown"
    elif shift:
        kind = "size" if longer else "shift"
    elif longer:
        kind = "longer" if longer > 0 else "shorter"
    parts = []
    if shift:
        verb = "cuts off" if shift > 0 else "keeps"
        parts.append(f"shift by {abs(shift)} at the begin ({verb} {abs(shift)} more)")
    if longer and shift:
        parts.append(f"size {other.size[axis]} instead of {own.size[axis]}")
    elif longer:
        which = "extra" if longer > 0 else "missing"
        parts.append(f"{count(abs(longer), 'row')} {which} at the end")
    if kind == "unknown":
        parts.append("depends on sizes that are not known")
    return kind, ", ".join(parts)


def _less(a: Dim, b: Dim) -> int | None:
    return a - b if isinstance(a, int) and isinstance(b, int) else None


def _words(of_axes: list[str]) -> list[str]:
    """Describe the axes that differ; those that differ alike in one go."""
    out = []
    for words in dict.fromkeys(filter(None, of_axes)):
        where = [str(axis) for axis, other in enumerate(of_axes) if other == words]
        every = len(where) == len(of_axes)
        named = "axes" if len(where) > 1 else "axis"
        out.append(words if every else f"{words} on {named} {' and '.join(where)}")
    return out


MOST_SHOWN = 12
SEARCHED = 400  # pads and output_padding tried per axis and mode


class Solution(Record, keys="attributes *crop"):
    """Attributes, and the place of their output in the scatter."""

    attributes: dict[str, str]  # as a file spells them
    crop: Crop


class Solutions(Record):
    """The smallest solutions, how many more were found, and whether the search was cut short."""

    wanted: Ints  # the size of the output that was asked for
    found: tuple[Solution, ...]  # the smallest changes first
    more: int  # that were found and are not listed
    complete: bool  # whether everything was tried
    reason: str | None = None  # why there are none


@dataclass(frozen=True, order=True)
class AxisPads:
    """Pads and output_padding of one axis, ordered by how much they change."""

    cost: int
    begin: int
    end: int
    extra: int


def solve(system: System, s: Setting, wanted: Ints, *, shown: int = MOST_SHOWN) -> Solutions:
    """Search pads, output_padding, auto_pad and output_shape that give the wanted sizes.

    Pads below DK and output_padding below max(S, D) are tried on every axis by asking the system,
    the smallest first; of these the first few of every axis are combined.
    """
    if not is_static(s.size) or not is_static(s.kernel):
        return Solutions(wanted, (), 0, True, "the sizes of data and filter are not all known")
    ranked: list[tuple[int, int, int, Setting]] = []
    count, complete = 0, True
    for rank, (auto_pad, shape) in enumerate(system.modes):
        base = replace(s, auto_pad=auto_pad, output_shape=wanted if shape else None)
        axes = [_choices(system, base, axis, wanted[axis]) for axis in range(s.axes)]
        count += math.prod(len(c) for c, _ in axes)
        complete &= all(whole for _, whole in axes)
        for choices in itertools.product(*(c[:shown] for c, _ in axes)):
            cost, unlike = sum(c.cost for c in choices), len(set(choices))
            ranked.append((cost, unlike, rank, _padded(base, choices)))
    ranked.sort(key=lambda row: row[:3])
    found = [Solution(system.spell(way), system.crop(way)) for *_, way in ranked[:shown]]
    return Solutions(wanted, tuple(found), max(count - len(found), 0), complete)


def _padded(base: Setting, choices: Sequence[AxisPads]) -> Setting:
    """Return the setting with a choice on every axis."""
    begin, end, extra = zip(*((c.begin, c.end, c.extra) for c in choices), strict=True)
    return replace(base, pads_begin=begin, pads_end=end, output_padding=extra)


def _choices(system: System, base: Setting, axis: int, wanted: int) -> tuple[list[AxisPads], bool]:
    """Return the choices on one axis, all axes made alike, and whether all were tried."""
    alike = base.on_axis(axis, base.axes)
    tried = list(itertools.islice(_candidates(alike, wanted), SEARCHED + 1))
    found = []
    for choice in tried[:SEARCHED]:
        with suppress(Cannot, OpError):
            if system.crop(_padded(alike, [choice] * base.axes)).size[0] == wanted:
                found.append(choice)
    return found, len(tried) <= SEARCHED


def _candidates(alike: Setting, wanted: int) -> Iterator[AxisPads]:
    """Yield in order pads and output_padding that may fit; without explicit pads the latter.

    There may be as many as numbers; only so many as are searched, and one more, are sure to come.
    """
    full, extent = alike.full[0], alike.extent[0]
    assert isinstance(full, int)
    assert isinstance(extent, int)
    extras = max(alike.strides[0], alike.dilations[0])
    if alike.auto_pad != "explicit" or alike.output_shape is not None:
        most = 1 if alike.output_shape is not None else min(extras, SEARCHED + 1)
        yield from (AxisPads(extra, 0, 0, extra) for extra in range(most))
        return
    least = max(wanted - full, 0)
    tried = range(least, min(extras, least + SEARCHED + 1))
    yield from heapq.merge(*(_pads(full + extra - wanted, extent, extra) for extra in tried))


def _pads(total: int, extent: int, extra: int) -> Iterator[AxisPads]:
    """Yield in order the pairs of pads below `extent` that add up to `total`."""
    for begin in range(total // 2, max(total - extent + 1, 0) - 1, -1):
        end = total - begin
        # A pair of equal pads with output_padding is as good as one unequal pad.
        cost = total + extra + 2 * (end - begin)
        yield AxisPads(cost, begin, end, extra)
        if begin != end:
            yield AxisPads(cost, end, begin, extra)
