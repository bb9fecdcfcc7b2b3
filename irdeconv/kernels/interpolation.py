"""Interpolation of whole maps axis by axis; sampling at real coordinates.

Each axis of a whole map is a sparse matrix of weights. Its coordinates are computed in f32, as
OpenVINO does: whether a position is exactly on a half decides which neighbour `nearest` takes. I is
the input's size along the axis, O the output's. Sampling: GridSample and deformable convolution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.copies import Nearest, take
from irdeconv.kernels.recorded_calls import Recorded, Repeated
from irdeconv.kernels.scratch import ScratchPlace, ScratchPlan, pieces, seen
from irdeconv.kernels.threads import Team, Threads

Mode = Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"]
Transformation = Literal[
    "half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"
]
NearestMode = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]

_HALF = np.float32(0.5)


@dataclass(frozen=True)
class Rules:
    """The mapping of coordinates and the weights of neighbours."""

    mode: Mode = "nearest"
    transformation: Transformation = "half_pixel"
    nearest: NearestMode = "round_prefer_floor"
    antialias: bool = False
    cube_coeff: float = -0.75


@dataclass(frozen=True)
class Resize:
    """One resized axis; `scale` is O / I or the scale that was given instead of a size."""

    axis: int
    size: int
    scale: float


@dataclass(frozen=True)
class AxisWeights:
    """A sparse matrix: output o is the sum over t of x[index[o, t]] * weight[o, t]."""

    index: Array
    weight: Array


def coordinates(resize: Resize, size: int, rule: Transformation) -> Array:
    """Return the position in the input, `[O]` f32, of every output position."""
    o = np.arange(resize.size, dtype=np.float32)
    scale = np.float32(resize.scale)
    if scale == 1 and size == resize.size:
        return o
    if rule == "asymmetric":
        return o / scale
    if rule == "tf_half_pixel_for_nn":
        return (o + _HALF) / scale
    if rule == "align_corners":
        last = resize.size - 1
        return o * np.float32(size - 1) / np.float32(last) if last else o * 0
    if rule == "pytorch_half_pixel" and resize.size == 1:
        return o * 0
    half: Array = (o + _HALF) / scale - _HALF
    return half


def _triangle(x: Array) -> Array:
    weight: Array = np.maximum(1 - np.abs(x), 0)
    return weight


def _cubic(coeff: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = ((coeff + 2) * x - (coeff + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * coeff - 4 * coeff
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


def _filtered(
    center: Array, size: int, kernel: Callable[[Array], Array], stretch: float, support: float
) -> AxisWeights:
    """Weigh all neighbours within `support` by a kernel `stretch` times as wide; sums are 1."""
    first = np.ceil(center - support).astype(np.int64)
    taps = first[:, None] + np.arange(math.floor(2 * support) + 1)
    weight = kernel((taps - center[:, None]) / stretch)
    weight[(taps < 0) | (taps >= size) | (np.abs(taps - center[:, None]) > support)] = 0
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)
    return AxisWeights(np.clip(taps, 0, size - 1), weight)


def axis_weights(resize: Resize, size: int, rules: Rules) -> AxisWeights:
    """Return the matrix of one axis for every mode but nearest; `antialias` is used unchanged."""
    if rules.mode.endswith("pillow"):  # half-pixel centres, always antialiased, O / I as the scale
        ratio = size / resize.size
        stretch = max(ratio, 1.0)
        center = (np.arange(resize.size) + 0.5) * ratio - 0.5
        if rules.mode == "bilinear_pillow":
            return _filtered(center, size, _triangle, stretch, stretch)
        return _filtered(center, size, _cubic(rules.cube_coeff), stretch, 2 * stretch)
    x = coordinates(resize, size, rules.transformation)
    if rules.mode == "cubic":  # four neighbours; those outside the data repeat its border
        taps = np.floor(x).astype(np.int64)[:, None] + np.arange(-1, 3)
        weight = _cubic(rules.cube_coeff)(x.astype(np.float64)[:, None] - taps)
        return AxisWeights(np.clip(taps, 0, size - 1), weight)
    if rules.mode == "linear" and rules.antialias:
        stretch = 1 / resize.scale
        return _filtered(x.astype(np.float64), size, _triangle, stretch, stretch)
    # The two neighbours of each position, clamped to the data.
    x = np.clip(x, 0, size - 1).astype(np.float64)
    low = np.floor(x).astype(np.int64)
    part = x - low
    index = np.stack([low, np.minimum(low + 1, size - 1)], axis=1)
    return AxisWeights(index, np.stack([1 - part, part], axis=1))


def nearest_of(resize: Resize, size: int, rules: Rules) -> Array:
    """Return the index of the nearest neighbour, `[O]` i64, of an axis of `size`."""
    x, rule = coordinates(resize, size, rules.transformation), rules.nearest
    if rule == "simple":
        rule = "ceil" if resize.scale < 1 else "floor"
        x = np.maximum(x, 0)  # truncation: positions before the data belong to its first element
    by = np.floor if rule in ("floor", "round_prefer_ceil") else np.ceil
    shift = {"round_prefer_floor": -_HALF, "round_prefer_ceil": _HALF}.get(rule, np.float32(0))
    return np.clip(np.asarray(by(x + shift), np.int64), 0, size - 1)


def dense_matrix(matrix: AxisWeights, size: int, dtype: Any) -> Array:
    """Return the weights as a matrix `[O, I]`."""
    count = len(matrix.index)
    full = np.zeros((count, size))
    np.add.at(full, (np.arange(count)[:, None], matrix.index), matrix.weight)
    return full.astype(dtype)


@np.errstate(all="ignore")
def interpolate(x: Array, resizes: Sequence[Resize], rules: Rules) -> Array:
    """Resize the given axes of `x`.

    `nearest` copies elements of any type. The other modes compute in f32 (f64 for f64); the result
    has the element type of `x`, integers rounded to the nearest (halves to even) and saturated.
    [image/Interpolate-11]
    """
    sizes = {r.axis: r.size for r in resizes}
    out = np.zeros([sizes.get(a, n) for a, n in enumerate(x.shape)], x.dtype)
    if out.size == 0 or x.size == 0:
        return out
    if rules.mode == "nearest":
        Interpolation(x.shape, x.dtype, resizes, rules)(x, out=out, team=Threads())
        return out
    dtype = np.dtype(np.float64 if x.dtype.itemsize == 8 else np.float32)
    y = x.astype(dtype, copy=False)
    for one in Interpolation(x.shape, dtype, resizes, rules).passes:
        y = _apply(y, one)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), limits.min, limits.max)
    return y.astype(x.dtype, copy=False)


def _apply(x: Array, one: AxisPass) -> Array:
    """Multiply along one axis, by a dense product if that costs less than gathers."""
    if one.dense is not None:
        y = np.empty((*x.shape[: one.axis], len(one.dense), *x.shape[one.axis + 1 :]), x.dtype)
        _product(np.ascontiguousarray(x), one.dense, one.axis, y)
        # A dense product spreads an Inf or NaN over its whole row; the gather does not.
        if np.isfinite(y.sum()):
            return y
    return apply_weights(x, one.weights, one.axis)


def apply_weights(x: Array, matrix: AxisWeights, axis: int) -> Array:
    """Add the weighted neighbours along an axis; a weight of 0 leaves out even an Inf or NaN."""
    behind = (1,) * (x.ndim - axis - 1)
    total: Array | None = None
    for t in range(matrix.index.shape[1]):
        weight = matrix.weight[:, t].astype(x.dtype).reshape(-1, *behind)
        part = np.take(x, matrix.index[:, t], axis=axis)
        # Zero weights (clipped neighbours) must not turn an Inf into a NaN.
        part = np.multiply(part, weight, out=np.zeros_like(part), where=weight != 0)
        total = part if total is None else np.add(total, part, out=total)
    return np.zeros(0, x.dtype) if total is None else total


@dataclass(frozen=True)
class AxisPass:
    """One axis: its weights and, if a product costs least, their dense matrix `[O, I]`."""

    axis: int
    weights: AxisWeights
    dense: Array | None


class Interpolation:
    """Resizes the given axes of f32 or f64 tensors of one shape (`nearest`: of any type)."""

    def __init__(
        self, shape: Sequence[int], dtype: Any, resizes: Sequence[Resize], rules: Rules
    ) -> None:
        self.nearest: Nearest | None = None
        self.passes: list[AxisPass] = []
        if rules.mode == "nearest":
            indices = [(r.axis, nearest_of(r, shape[r.axis], rules)) for r in resizes]
            self.nearest = Nearest.of(shape, indices)
            return
        # The specification: one shrinking axis scales the kernel of every axis, growing ones too.
        rules = replace(rules, antialias=rules.antialias and any(r.scale < 1 for r in resizes))
        # Shrinking axes first leaves less to do for the others; the last axis takes longest.
        for r in sorted(resizes, key=lambda r: (r.size / shape[r.axis], -r.axis)):
            size = shape[r.axis]
            if r.size == size and r.scale == 1:
                continue
            matrix = axis_weights(r, size, rules)
            # Whether a dense product costs less than a gather for each tap, in ns per element.
            gather = 2.0 if r.axis == len(shape) - 1 else 0.7
            pays = size * 2 / 85 < matrix.index.shape[1] * gather
            self.passes.append(
                AxisPass(r.axis, matrix, dense_matrix(matrix, size, dtype) if pays else None)
            )

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the resized `x` into `out` (C-contiguous)."""
        if self.nearest is not None:
            self.nearest(x, out, team)
            return
        # A dense product spreads an Inf or NaN over its row, a weight of 0 makes a NaN of it.
        finite = bool(np.isfinite(np.add.reduce(x, axis=None)))
        team.begin()
        for n, one in enumerate(self.passes):
            count = len(one.weights.index)
            shape = (*x.shape[: one.axis], count, *x.shape[one.axis + 1 :])
            last = n == len(self.passes) - 1
            y = out if last else team.space.array(shape, x.dtype)
            if not finite:
                y[...] = apply_weights(x, one.weights, one.axis)
            elif one.dense is not None:
                _product(x, one.dense, one.axis, y)
            else:
                _gather(x, one, y, team)
            x = y
        if not self.passes:
            np.copyto(out, x)

    def fixed(self, x: Array, *_: Array, out: Array) -> Repeated | None:
        """See `FixedCall`; planes of the first axes are cut apart, or rows of a single one."""
        if not (x.dtype == out.dtype == np.float32 and x.flags.c_contiguous):
            return None
        if not (jit.available() and jit.works()):
            return None
        if self.nearest is not None:
            return self.nearest.recorded(x, out)
        if not self.passes:
            return None
        ahead = min(one.axis for one in self.passes)
        planes = x.reshape(-1, *x.shape[ahead:])
        results = out.reshape(len(planes), *out.shape[ahead:])
        if len(planes) == 1 and self.passes[-1].axis == ahead:
            rows = results.shape[1]
            some = pieces(rows, scratch.shared_step(rows, rows, out.size))
            return Repeated(tuple(self._rows(planes, results, ahead, p) for p in some))
        step = max(1, scratch.SIZES.row_elements * len(planes) // out.size)
        some = pieces(len(planes), scratch.shared_step(len(planes), step, out.size))
        return Repeated(
            tuple(_recorded(self.passes, planes[p], results[p], ahead - 1) for p in some)
        )

    def _rows(self, x: Array, out: Array, ahead: int, rows: slice) -> Recorded:
        """Record the work for some rows of the plane, along which the last pass is."""
        *others, last = self.passes
        index = last.weights.index[rows]
        first, stop = int(index.min()), int(index.max()) + 1
        weights = AxisWeights(index - first, last.weights.weight[rows])
        passes = [*others, replace(last, weights=weights)]
        return _recorded(passes, x[:, first:stop], out[:, rows], ahead - 1)


def _recorded(passes: Sequence[AxisPass], x: Array, out: Array, ahead: int) -> Recorded:
    """Record the work on the axes from `ahead` on."""
    source: Array | ScratchPlace = x
    plan, calls = ScratchPlan(), []
    for n, one in enumerate(passes):
        axis, shape, index = one.axis - ahead, source.shape, one.weights.index
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        size = (*shape[:axis], len(index), *shape[axis + 1 :])
        last = n == len(passes) - 1
        target: Array | ScratchPlace = out if last else plan.array(size, np.float32)
        before = _three(source, (outer, shape[axis], inner))
        after = _three(target, (outer, len(index), inner))
        # Unsigned, as numba takes a negative index from the end.
        places = np.ascontiguousarray(index.T, np.uint32)
        weights = np.ascontiguousarray(one.weights.weight.T, np.float32)
        calls.append(Recorded.of("weigh", before, places, weights, after))
        source = target
    return Recorded.joined(calls)


def _three(array: Array | ScratchPlace, shape: tuple[int, int, int]) -> Array | ScratchPlace:
    """Return a contiguous array as one of three axes."""
    return seen(array, lambda a: a.reshape(shape))


def _product(x: Array, matrix: Array, axis: int, out: Array) -> None:
    count, size = matrix.shape
    if axis == x.ndim - 1:
        np.matmul(x.reshape(-1, size), matrix.T, out=out.reshape(-1, count))
        return
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    np.matmul(matrix, x.reshape(outer, size, inner), out=out.reshape(outer, count, inner))


def _gather(x: Array, one: AxisPass, out: Array, team: Team) -> None:
    """Add the weighted neighbours of all positions, one tap after the other."""
    behind = (1,) * (x.ndim - one.axis - 1)
    taps = one.weights.index.shape[1]
    part = team.space.array(out.shape, x.dtype) if taps > 1 else out
    for t in range(taps):
        y = part if t else out
        take(x, one.weights.index[:, t], one.axis, y)
        factor = one.weights.weight[:, t].astype(x.dtype).reshape(-1, *behind)
        np.multiply(y, factor, out=y)
        if t:
            np.add(out, y, out=out)


TAPS_AT_ONCE = 1 << 16  # elements of the taps that are read at a time


@dataclass(frozen=True, kw_only=True)
class DeformableWindows:
    """Windows of two axes: tap k of output o reads around o * stride + k * dilation - begin.

    With `padded` a place up to one element outside of the data is interpolated with zeros there;
    otherwise it is clamped, and a place outside gives zero.
    """

    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    padded: bool

    def base(self, axis: int, taps: int, outputs: slice) -> Array:
        """Return the places of the taps of outputs without offsets: [taps, outputs], f32."""
        at = np.arange(outputs.start, outputs.stop) * self.strides[axis] - self.begin[axis]
        places = np.arange(taps)[:, None] * self.dilations[axis] + at
        return np.asarray(places, np.float32)

    def neighbours(self, place: Array, size: int) -> tuple[list[tuple[Array, Array]], Array]:
        """Return (index, weight) of the elements around places, and a mask of used places."""
        if self.padded:
            inside = (place > -1) & (place < size)
            low = np.floor(place)
            high = low + 1
        else:
            inside = (place >= 0) & (place < size)
            low = np.maximum(np.floor(place), 0)
            high = np.minimum(np.ceil(place), size - 1)
        fraction = place - low
        pairs = []
        for at, weight in ((low, 1 - fraction), (high, fraction)):
            valid = inside & (at >= 0) & (at < size)
            index = np.where(valid, at, 0).astype(np.intp)
            pairs.append((index, np.where(valid, weight, 0)))
        return pairs, inside


def taps(plane: Array, y: Array, x: Array, windows: DeformableWindows) -> Array:
    """Read channels at places (P, K) of a plane (H, W, C): (P, K, C)."""
    height, width, channels = plane.shape
    rows, row_inside = windows.neighbours(y, height)
    columns, column_inside = windows.neighbours(x, width)
    inside = row_inside & column_inside
    flat = plane.reshape(-1, channels)
    out = np.zeros((*y.shape, channels), plane.dtype)
    for row, high in rows:
        for column, wide in columns:
            weight = np.where(inside, high * wide, 0).astype(plane.dtype)
            read = np.take(flat, row * width + column, 0)
            np.multiply(read, weight[..., None], out=read)
            np.add(out, read, out=out)
    return out


def convolve(
    data: Array,
    offsets: Array,
    filters: Array,
    mask: Array | None,
    windows: DeformableWindows,
    groups: tuple[int, int],
) -> Array:
    """Return (N, M, OH, OW) for data (N, C, H, W), all f32 or all f64.

    offsets (N, 2 d K, OH, OW) are pairs of y and x, filters (M, C / g, KH, KW), mask (N, d K, OH,
    OW); `groups` is (g, d): groups of channels that share a filter, or offsets.
    """
    plain, deformable = groups
    batch, channels = data.shape[:2]
    rows, columns = offsets.shape[2:]
    count, (height, width) = len(filters), filters.shape[2:]
    # Taps before channels, as they are read.
    split = filters.reshape(plain, count // plain, -1, height * width)
    weights = split.transpose(0, 3, 2, 1).reshape(plain, -1, count // plain)
    out = np.empty((batch, count, rows, columns), data.dtype)
    planes = data.reshape(batch, deformable, -1, *data.shape[2:]).transpose(0, 1, 3, 4, 2)
    planes = np.ascontiguousarray(planes)
    # In f32 for every type: at a border a place that is rounded otherwise reads 0.
    narrow = offsets.astype(np.float32, copy=False)
    moved = narrow.reshape(batch, deformable, height * width, 2, rows, columns)
    scaled = None if mask is None else mask.reshape(batch, deformable, -1, rows, columns)
    step = max(1, TAPS_AT_ONCE // max(1, channels * height * width * columns))
    for n, part in itertools.product(range(batch), pieces(rows, step)):
        base = _places(windows, (height, width), part, columns)
        masks = None if scaled is None else scaled[n, :, :, part]
        read = _patches(planes[n], base, moved[n, :, :, :, part], masks, windows)
        grouped = read.reshape(*read.shape[:2], plain, -1)
        parts = [grouped[:, :, g].reshape(len(read), -1) for g in range(plain)]
        sums = [np.matmul(p, w) for p, w in zip(parts, weights, strict=True)]
        out[n, :, part] = np.concatenate(sums, 1).T.reshape(count, -1, columns)
    return out


def _patches(
    planes: Array, base: list[Array], moved: Array, masks: Array | None, windows: DeformableWindows
) -> Array:
    """Return the taps (P, K, C) of planes (d, H, W, C / d) at places (P, K) plus offsets."""
    read = []
    for d, plane in enumerate(planes):
        offset = moved[d].reshape(*moved.shape[1:3], -1).transpose(1, 2, 0)
        y, x = ((b + o).astype(plane.dtype) for b, o in zip(base, offset, strict=True))
        found = taps(plane, y, x, windows)
        if masks is not None:
            found *= masks[d].reshape(len(masks[d]), -1).T[..., None]
        read.append(found)
    return read[0] if len(read) == 1 else np.concatenate(read, -1)


def _places(
    windows: DeformableWindows, kernel: tuple[int, ...], part: slice, columns: int
) -> list[Array]:
    """Return y and x of every tap without offsets: [rows * columns, taps]."""
    y = windows.base(0, kernel[0], part).T[:, None, :, None]
    x = windows.base(1, kernel[1], slice(0, columns)).T[None, :, None, :]
    shape = (part.stop - part.start, columns, *kernel)
    return [np.broadcast_to(v, shape).reshape(-1, kernel[0] * kernel[1]) for v in (y, x)]


CUBIC = -0.75  # the parameter of the cubic convolution


def source(place: Array, size: int, *, align_corners: bool) -> Array:
    """Map -1..1 to element numbers: to the centres of the outer elements, or to their edges."""
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


def bordered(at: Array, size: int) -> Array:
    """Return the nearest element inside."""
    return np.clip(at, 0, size - 1)


def reflected(at: Array, size: int, *, align_corners: bool) -> Array:
    """Mirror element numbers at the outer centres (align_corners) or edges, again and again."""
    if align_corners:
        period = max(2 * (size - 1), 1)
        inside = np.abs(at) % period
        return np.where(inside >= size, period - inside, inside)
    inside = at % (2 * size)
    return np.where(inside >= size, 2 * size - 1 - inside, inside)


def linear_weights(fraction: Array) -> list[tuple[int, Array]]:
    """Return (offset, weight) of the two elements around a place."""
    return [(0, 1 - fraction), (1, fraction)]


def cubic_weights(fraction: Array) -> list[tuple[int, Array]]:
    """Return (offset, weight) of the four elements around a place."""
    near, far = fraction, 1 - fraction

    def inner(d: Array) -> Array:
        return ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1

    def outer(d: Array) -> Array:
        return ((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC

    return [(-1, outer(1 + near)), (0, inner(near)), (1, inner(far)), (2, outer(1 + far))]


NeighbourWeights = Callable[[Array], list[tuple[int, Array]]]
Extend = Callable[[Array, int], Array] | None


def sample(
    data: Array, y: Array, x: Array, weights: NeighbourWeights | None, extend: Extend
) -> Array:
    """Read data (N, C, H, W) at rows y and columns x (N, *O); returns (N, C, *O).

    `weights` None takes the nearest element (halves to even ones). `extend` maps element numbers
    outside to ones inside; None reads zeros there.
    """
    if weights is None:
        return _read(data, np.rint(y).astype(np.int64), np.rint(x).astype(np.int64), extend)
    top, left = np.floor(y), np.floor(x)
    rows, columns = weights(y - top), weights(x - left)
    out = np.zeros((*data.shape[:2], *y.shape[1:]), data.dtype)
    for down, wy in rows:
        for across, wx in columns:
            at = (top + down).astype(np.int64), (left + across).astype(np.int64)
            out += _read(data, *at, extend) * (wy * wx)[:, None]
    return out


def _read(data: Array, y: Array, x: Array, extend: Extend) -> Array:
    height, width = data.shape[2:]
    batch = np.arange(len(data)).reshape(-1, *(1,) * (y.ndim - 1))
    if extend is not None:
        y, x = extend(y, height), extend(x, width)
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    found = data[batch, :, bordered(y, height), bordered(x, width)]
    return np.moveaxis(np.where(inside[..., None], found, 0), -1, 1).astype(data.dtype)
