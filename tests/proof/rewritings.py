"""Kinds of rewritings of a layer: what builds pairs; zeros between the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

# Deconvolutions and what computes the same: pairs of models, built with OpenVINO's own classes.

Size = Any  # an int, or a node with one element
Value = Any  # a node of OpenVINO
Step = Callable[["Case", Value], Value]
Pair = tuple[ov.Model, ov.Model]
Build = Callable[["Case", "Case"], Pair]


@dataclass(frozen=True)
class Case:
    """One deconvolution: data [N, C, *I], filter [g, C/g, M/g, *K], y[o] = full[o + begin].

    `open_axes` are axes of the data whose sizes the file leaves open; `changed` and `moved` make
    the near misses.
    """

    data: tuple[int, ...]
    filter: tuple[int, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()  # output_padding
    open_axes: tuple[int, ...] = ()
    changed: bool = False
    moved: int = 0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("begin", 0), ("end", 0), ("dilations", 1), ("extra", 0)):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * len(self.strides))

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def kernel(self) -> tuple[int, ...]:
        return self.filter[3:]

    @property
    def groups(self) -> int:
        return self.filter[0]

    @property
    def channels(self) -> int:
        """Output channels M."""
        return self.filter[0] * self.filter[2]

    @property
    def weights(self) -> Any:
        """The filter [g, C/g, M/g, *K]: distinct integers but 0, of both signs."""
        count = math.prod(self.filter)
        order = np.random.default_rng(count).permutation(count)
        values = (order + 1) * np.where(order % 3 == 0, -1, 1)
        values = (values * self.scale).astype(np.float32).reshape(self.filter)
        if self.changed:
            values.flat[count // 2] += self.scale
        return values

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Of each axis: elements of the full scatter that are cut off before and behind it."""
        ends = [e - x for e, x in zip(self.end, self.extra, strict=True)]
        shift = [self.moved, *(0 for _ in ends[1:])]
        return tuple((b + s, e - s) for b, e, s in zip(self.begin, ends, shift, strict=True))

    @property
    def reaches(self) -> tuple[int, ...]:
        """D(K-1) of each axis."""
        return tuple(d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True))

    @property
    def trailing(self) -> tuple[int, ...]:
        """S-1: the zeros behind the last element where every one has them."""
        return tuple(s - 1 for s in self.strides)

    def within(self, begin: Sequence[int], end: Sequence[int]) -> Case:
        """The same layer with other edges."""
        return replace(self, begin=tuple(begin), end=tuple(end), extra=(), moved=0)

    def parameter(self) -> Value:
        shape = [-1 if a in self.open_axes else n for a, n in enumerate(self.data)]
        x = op.parameter(shape, np.float32, name="x")
        x.output(0).set_names({"x"})
        return x

    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of data to try: larger ones, too, where axes are open."""
        more = [
            tuple(n + d * (a in self.open_axes) for a, n in enumerate(self.data)) for d in (1, 4)
        ]
        return list(dict.fromkeys([self.data, *more]))


# Nodes


def const(values: Any, dtype: Any = np.int64) -> Value:
    return op.constant(np.asarray(values, dtype))


def floats(values: Any) -> Value:
    return const(np.ascontiguousarray(values), np.float32)


def shape_of(x: Value) -> Any:
    return (x if isinstance(x, ov.Output) else x.output(0)).get_partial_shape()


def size(x: Value, axis: int) -> Size:
    dim = shape_of(x)[axis]
    if dim.is_static:
        return dim.get_length()
    return op.gather(op.shape_of(x), const([axis]), const(0))


def times(n: Size, by: int) -> Size:
    return n * by if isinstance(n, int) else op.multiply(n, const([by]))


def plus(n: Size, by: int) -> Size:
    return n + by if isinstance(n, int) else op.add(n, const([by]))


def vector(*sizes: Size) -> Value:
    if all(isinstance(n, int) for n in sizes):
        return const(list(sizes))
    return op.concat([const([n]) if isinstance(n, int) else n for n in sizes], 0)


def reshape(x: Value, *sizes: Size) -> Value:
    return op.reshape(x, vector(*sizes), False)


def sizes_of(x: Value) -> list[Size]:
    return [size(x, axis) for axis in range(rank_of(x))]


def rank_of(x: Value) -> int:
    return len(shape_of(x))


def pad(x: Value, before: list[int], behind: list[int]) -> Value:
    """Zeros around each axis; negative amounts crop."""
    if not any(before) and not any(behind):
        return x
    return op.pad(x, const(before), const(behind), "constant", const(0, np.float32))


def window(case: Case, full: Value, trailing: tuple[int, ...] | None = None) -> Value:
    """Cut the output out of the full scatter, which has some zeros more behind."""
    more = trailing or (0,) * case.rank
    before = [-b for b, _ in case.edges]
    behind = [-e - t for (_, e), t in zip(case.edges, more, strict=True)]
    return pad(full, [0, 0, *before], [0, 0, *behind])


def slice_axis(x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    return op.slice(x, const([start]), const([stop]), const([step]), const([axis]))


def reverse(x: Value, axes: list[int]) -> Value:
    for axis in axes:
        x = slice_axis(x, axis, -1, -(2**31), -1)
    return x


def flipped(weights: Any) -> Any:
    """A convolution's filter [g, M/g, C/g, *K] of a deconvolution's."""
    turned = np.swapaxes(weights, 1, 2)
    return turned[(..., *(slice(None, None, -1),) * (weights.ndim - 3))]


def convolution(
    x: Value,
    filter: Any,
    begin: list[int],
    end: list[int],
    dilations: tuple[int, ...] | None = None,
    strides: list[int] | None = None,
) -> Value:
    """Convolve with a filter [g, M/g, C/g, *K]: an array, or a node (without g where g is 1)."""
    rank = len(begin)
    ones = [1] * rank
    args = (strides or ones, begin, end, list(dilations or ones))
    if not isinstance(filter, np.ndarray):
        grouped = rank_of(filter) == rank + 3
        return (op.group_convolution if grouped else op.convolution)(x, filter, *args)
    if filter.shape[0] == 1:
        return op.convolution(x, floats(filter[0]), *args)
    return op.group_convolution(x, floats(filter), *args)


def correlate(case: Case, spread: Value, trailing: Any = None, filter: Any = None) -> Value:
    """Convolve data between which zeros stand; `trailing` zeros more stand behind each axis."""
    more = trailing or (0,) * case.rank
    before = [r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True)]
    behind = [r - e - t for r, (_, e), t in zip(case.reaches, case.edges, more, strict=True)]
    if min(before + behind) < 0:
        spread = pad(spread, [0, 0, *before], [0, 0, *behind])
        before = behind = [0] * case.rank
    filter = flipped(case.weights) if filter is None else filter
    return convolution(spread, filter, before, behind, case.dilations)


def deconvolution(case: Case, x: Value, filter: Any = None) -> Value:
    """The original layer."""
    args = (
        list(case.strides),
        None,
        list(case.begin),
        list(case.end),
        list(case.dilations),
        "explicit",
        list(case.extra),
    )
    weights = case.weights if filter is None else filter
    if not isinstance(weights, np.ndarray):
        grouped = rank_of(weights) == case.rank + 3
        make = op.group_convolution_backprop_data if grouped else op.convolution_backprop_data
        return make(x, weights, *args)
    if case.groups == 1:
        return op.convolution_backprop_data(x, floats(weights[0]), *args)
    return op.group_convolution_backprop_data(x, floats(weights), *args)


def model(inputs: list[Value], *outputs: Value) -> ov.Model:
    results = []
    for i, y in enumerate(outputs):
        y.output(0).set_names({f"y{i}"})
        results.append(op.result(y, name=f"out{i}"))
    return ov.Model(results, inputs, "pair")


# The list

S2 = Case((2, 3, 5), (1, 3, 2, 4), (3,), (1,), (0,))
PLANE = Case((2, 4, 3, 4), (2, 2, 3, 3, 2), (2, 3), (1, 0), (0, 2), (1, 2), (1, 0))
SPACE = Case((1, 2, 2, 3, 2), (1, 2, 3, 2, 3, 1), (1, 2, 2), (0, 1, 0), (1, 1, 0))
CROPS = Case((1, 2, 3, 2), (1, 2, 3, 2, 3), (2, 2), (0, 1), (-2, 2))
OPEN = Case((1, 3, 3, 4), (1, 3, 2, 4, 3), (2, 2), (1, 1), (1, 1), open_axes=(0, 2, 3))
LINE = Case((2, 3, 4), (1, 3, 2, 2), (2,))
TILES = Case((2, 4, 2, 3), (2, 2, 3, 2, 3), (2, 3))
TILES_OPEN = Case((1, 3, 2, 3), (1, 3, 2, 2, 2), (2, 2), open_axes=(0, 2, 3))
ONES = Case((2, 3, 4, 5), (1, 3, 2, 3, 2), (1, 1), (1, 0), (0, 1))
ONES_OPEN = Case((1, 4, 4, 5), (2, 2, 3, 3, 2), (1, 1), (2, 0), (0, 1), (2, 1), open_axes=(0, 2, 3))
GROUPS = Case((1, 4, 3, 4), (2, 2, 3, 3, 2), (2, 1), (1, 0), (1, 1), open_axes=(0, 2, 3))

ANY = (S2, PLANE, SPACE, CROPS, OPEN)
FEW = (S2, PLANE, OPEN)
TILED = (LINE, TILES, TILES_OPEN)  # K == S
STRIDELESS = (ONES, ONES_OPEN)


Edit = Callable[[str], str]


@dataclass(frozen=True)
class Kind:
    """A kind of rewriting: its name, what builds pairs, the cases that it is tried on.

    `half` says which of the two files are saved with constants in fp16, `edit` changes the text of
    the lowered one.
    """

    name: str
    build: Build
    cases: tuple[Case, ...]
    half: tuple[bool, bool] = (False, False)
    edit: Edit | None = None

    @property
    def rounds(self) -> bool:
        """Whether both sides are equal up to the rounding of weights only."""
        return self.half[0] != self.half[1]

    def variants(self, case: Case) -> dict[str, Case]:
        """The case itself, and those whose lowered side is a near miss of it."""
        return {
            "equal": case,
            "one weight changed": replace(case, changed=True),
            "moved by one": replace(case, moved=1),
        }

    def write(self, case: Case, target: Case, folder: Path) -> tuple[Path, Path]:
        """Save both models; return the paths of their .xml files."""
        paths = folder / "original.xml", folder / "lowered.xml"
        for path, built, half in zip(paths, self.build(case, target), self.half, strict=True):
            ov.save_model(built, path, compress_to_fp16=half)
        if self.edit:
            paths[1].write_text(self.edit(paths[1].read_text("utf-8")), "utf-8")
        return paths


KINDS: dict[str, Kind] = {}


def pair(
    name: str,
    *cases: Case,
    half: tuple[bool, bool] = (False, False),
    edit: Edit | None = None,
) -> Callable[[Build], Build]:
    """Add a kind that builds both models itself."""

    def add(build: Build) -> Build:
        assert name not in KINDS, name
        KINDS[name] = Kind(name, build, cases, half, edit)
        return build

    return add


def layer(name: str, *cases: Case) -> Callable[[Step], Step]:
    """Add a kind that replaces a single deconvolution: a function of the case and the data."""

    def add(step: Step) -> Step:
        def build(source: Case, lowered: Case) -> Pair:
            x, z = source.parameter(), lowered.parameter()
            return model([x], deconvolution(source, x)), model([z], step(lowered, z))

        pair(name, *cases)(build)
        return step

    return add


# Kinds that put zeros between the data and convolve.

Spread = Callable[[Value, int, int], Value]  # x, axis, stride: every axis becomes S times as long


def pulse(axis: int, rank: int, stride: int) -> Any:
    """1, 0, 0 along one of `rank` axes."""
    values = np.zeros(stride, np.float32)
    values[0] = 1
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


def merged(x: Value, axis: int) -> Value:
    """Merge an axis with the one behind it."""
    sizes = sizes_of(x)
    if all(isinstance(n, int) for n in sizes):
        return reshape(x, *sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :])
    stride = sizes[axis + 1]
    return reshape(x, *sizes[:axis], times(sizes[axis], stride), *sizes[axis + 2 :])


def lifted(x: Value, axis: int) -> Value:
    return op.unsqueeze(x, const([axis + 1]))


def by_axes(name: str, *cases: Case) -> Callable[[Spread], Spread]:
    """Add a kind that treats one axis after the other."""

    def add(spread: Spread) -> Spread:
        @layer(name, *cases)
        def step(case: Case, x: Value) -> Value:
            for axis, stride in enumerate(case.strides, 2):
                if stride > 1:
                    x = spread(x, axis, stride)
            return correlate(case, x, case.trailing)

        return spread

    return add


@by_axes("zeros: Unsqueeze, Pad, Reshape", *ANY)
def padded(x: Value, axis: int, stride: int) -> Value:
    none = [0] * (rank_of(x) + 1)
    behind = none.copy()
    behind[axis + 1] = stride - 1
    return merged(pad(lifted(x, axis), none, behind), axis)


@by_axes("zeros: Concat with zeros, Reshape", *FEW, SPACE)
def concatenated(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    zeros = op.multiply(y, const(0, np.float32))
    if all(isinstance(n, int) for n in sizes_of(y)):
        zeros = floats(np.zeros(sizes_of(y)))
    else:
        zeros = op.broadcast(const(0, np.float32), op.shape_of(y))
    return merged(op.concat([y, *[zeros] * (stride - 1)], axis + 1), axis)


@by_axes("zeros: Tile, mask", *FEW)
def tiled(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    repeats = [stride if a == axis + 1 else 1 for a in range(rank_of(y))]
    mask = floats(pulse(axis + 1, rank_of(y), stride))
    return merged(op.multiply(op.tile(y, const(repeats)), mask), axis)


@by_axes("zeros: Broadcast, mask", *FEW)
def broadcast(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    target = sizes_of(y)
    target[axis + 1] = stride
    mask = floats(pulse(axis + 1, rank_of(y), stride))
    return merged(op.multiply(mask, op.broadcast(y, vector(*target))), axis)


@by_axes("zeros: product with a pulse", *FEW, SPACE)
def multiplied(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    return merged(op.multiply(y, floats(pulse(axis + 1, rank_of(y), stride))), axis)


@by_axes("zeros: Broadcast bidirectional, Select", *FEW)
def selected(x: Value, axis: int, stride: int) -> Value:
    y = lifted(x, axis)
    mask = pulse(axis + 1, rank_of(y), stride)
    copies = op.broadcast(y, const(mask.shape), broadcast_spec="BIDIRECTIONAL")
    chosen = op.select(const(mask, bool), copies, const(0, np.float32))
    return merged(chosen, axis)


@by_axes("zeros: Pad in front of the axis, Transpose", *FEW)
def padded_before(x: Value, axis: int, stride: int) -> Value:
    y = op.unsqueeze(x, const([0]))
    rank = rank_of(y)
    y = pad(y, [0] * rank, [stride - 1, *[0] * (rank - 1)])
    order = [*range(1, axis + 2), 0, *range(axis + 2, rank)]
    return merged(op.transpose(y, const(order)), axis)


def spread_out(case: Case, x: Value) -> Value:
    for axis, stride in enumerate(case.strides, 2):
        if stride > 1:
            x = padded(x, axis, stride)
    return x


def interpolated(x: Value, axes: list[int], strides: list[int], by_sizes: bool) -> Value:
    shown = vector(*(times(size(x, a), s) for a, s in zip(axes, strides, strict=True)))
    target = shown if by_sizes else floats(strides)
    mode = "sizes" if by_sizes else "scales"
    return op.interpolate(
        x,
        target,
        "nearest",
        mode,
        None,
        None,
        "asymmetric",
        "floor",
        False,
        -0.75,
        const(axes),
    )


def masked_enlargement(case: Case, x: Value, by_sizes: bool) -> Value:
    axes = list(range(2, 2 + case.rank))
    big = interpolated(x, axes, list(case.strides), by_sizes)
    for axis, stride in enumerate(case.strides, 2):
        mask = floats(pulse(axis, rank_of(x), stride))
        repeats = vector(*(size(x, a) if a == axis else 1 for a in range(rank_of(x))))
        big = op.multiply(big, op.tile(mask, repeats))
    return correlate(case, big, case.trailing)


@layer("zeros: Interpolate nearest by scales, mask", S2, PLANE, OPEN)
def nearest_scales(case: Case, x: Value) -> Value:
    return masked_enlargement(case, x, by_sizes=False)


@layer("zeros: Interpolate nearest by sizes, mask", S2, PLANE, OPEN)
def nearest_sizes(case: Case, x: Value) -> Value:
    return masked_enlargement(case, x, by_sizes=True)


@layer("zeros: product with a whole mask", S2, PLANE, SPACE)
def whole_mask(case: Case, x: Value) -> Value:
    axes = list(range(2, 2 + case.rank))
    mask = np.zeros([1, 1, *(n * s for n, s in zip(case.data[2:], case.strides, strict=True))])
    mask[(..., *(slice(None, None, s) for s in case.strides))] = 1
    big = interpolated(x, axes, list(case.strides), by_sizes=False)
    return correlate(case, op.multiply(big, floats(mask)), case.trailing)


@layer("zeros: Reshape, one Pad, Reshape", *ANY)
def padded_at_once(case: Case, x: Value) -> Value:
    n, c, *sizes = sizes_of(x)
    ones = [part for n in sizes for part in (n, 1)]
    behind = [part for s in case.strides for part in (0, s - 1)]
    y = pad(reshape(x, n, c, *ones), [0] * (2 + len(ones)), [0, 0, *behind])
    wide = [times(n, s) for n, s in zip(sizes, case.strides, strict=True)]
    return correlate(case, reshape(y, n, c, *wide), case.trailing)


@layer("zeros: cut to S(I-1)+1 by StridedSlice", *FEW)
def cut_to_last(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    rank = rank_of(x)
    keep = [1, 1] + [0] * case.rank
    ends = [0, 0, *(1 - s if s > 1 else 2**31 - 1 for s in case.strides)]
    cut = op.strided_slice(x, const([0] * rank), const(ends), const([1] * rank), keep, keep)
    return correlate(case, cut)


def grid(case: Case) -> tuple[list[int], Any]:
    """Shape of the data with zeros between, and where each element stands in it (spatial axes)."""
    sizes = [s * (n - 1) + 1 for n, s in zip(case.data[2:], case.strides, strict=True)]
    axes = [np.arange(n) * s for n, s in zip(case.data[2:], case.strides, strict=True)]
    return sizes, np.stack(np.meshgrid(*axes, indexing="ij"), -1)


@layer("zeros: ScatterNDUpdate", S2, PLANE, SPACE, CROPS)
def scatter_nd(case: Case, x: Value) -> Value:
    sizes, where = grid(case)
    forth = [*range(2, 2 + case.rank), 0, 1]
    back = [case.rank, case.rank + 1, *range(case.rank)]
    zeros = floats(np.zeros([*sizes, *case.data[:2]]))
    y = op.scatter_nd_update(zeros, const(where), op.transpose(x, const(forth)))
    return correlate(case, op.transpose(y, const(back)))


@layer("zeros: ScatterNDUpdate of all indices", S2, PLANE)
def scatter_all(case: Case, x: Value) -> Value:
    sizes, where = grid(case)
    n, c = np.meshgrid(*map(np.arange, case.data[:2]), indexing="ij")
    spatial = (1,) * case.rank
    head = [np.broadcast_to(a.reshape(*a.shape, *spatial), case.data) for a in (n, c)]
    tail = [np.broadcast_to(a, case.data) for a in np.moveaxis(where, -1, 0)]
    zeros = floats(np.zeros([*case.data[:2], *sizes]))
    indices = const(np.stack([*head, *tail], -1), np.int32)
    return correlate(case, op.scatter_nd_update(zeros, indices, x))


@layer("zeros: ScatterUpdate", S2, PLANE, SPACE)
def scatter_update(case: Case, x: Value) -> Value:
    shape = list(case.data)
    for axis, stride in enumerate(case.strides, 2):
        indices = const(np.arange(shape[axis]) * stride)
        shape[axis] = stride * (shape[axis] - 1) + 1
        x = op.scatter_update(floats(np.zeros(shape)), indices, x, const(axis))
    return correlate(case, x)


@layer("zeros: ScatterElementsUpdate", S2, PLANE, SPACE)
def scatter_elements(case: Case, x: Value) -> Value:
    shape = list(case.data)
    for axis, stride in enumerate(case.strides, 2):
        line = np.arange(shape[axis]) * stride
        line = line.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        indices = const(np.broadcast_to(line, shape), np.int32)
        shape[axis] = stride * (shape[axis] - 1) + 1
        x = op.scatter_elements_update(floats(np.zeros(shape)), indices, x, const(axis))
    return correlate(case, x)


@layer("zeros: Gather from data with a zero behind", S2, PLANE, SPACE)
def gathered(case: Case, x: Value) -> Value:
    for axis, (n, stride) in enumerate(zip(case.data[2:], case.strides, strict=True), 2):
        behind = [1 if a == axis else 0 for a in range(rank_of(x))]
        indices = np.full(stride * (n - 1) + 1, n)
        indices[::stride] = np.arange(n)
        x = op.gather(pad(x, [0] * rank_of(x), behind), const(indices), const(axis))
    return correlate(case, x)


def zeros_like(x: Value, case: Case) -> Value:
    if case.open_axes:
        return op.broadcast(const(0, np.float32), op.shape_of(x))
    return floats(np.zeros(sizes_of(x)))


SQUARE = Case((2, 4, 3, 4), (2, 2, 3, 3, 2), (2, 2), (1, 0), (0, 2), (1, 2), (1, 0))
THREES = Case((1, 2, 2, 3), (1, 2, 2, 4, 2), (3, 3), (0, 1), (2, 0))


@layer("zeros: Concat of channels, DepthToSpace blocks first", SQUARE, THREES, OPEN)
def depth_blocks(case: Case, x: Value) -> Value:
    stride = case.strides[0]
    zeros = zeros_like(x, case)
    y = op.concat([x, *[zeros] * (stride**case.rank - 1)], 1)
    y = op.depth_to_space(y, "blocks_first", stride)
    return correlate(case, y, case.trailing)


@layer("zeros: Concat of channels, DepthToSpace depth first", SQUARE, THREES, OPEN)
def depth_first(case: Case, x: Value) -> Value:
    stride = case.strides[0]
    blocks = stride**case.rank
    n, c, *sizes = sizes_of(x)
    y = op.unsqueeze(x, const([2]))
    y = op.concat([y, *[zeros_like(y, case)] * (blocks - 1)], 2)
    y = op.depth_to_space(reshape(y, n, times(c, blocks), *sizes), "depth_first", stride)
    return correlate(case, y, case.trailing)


@layer("zeros: Concat of batches, BatchToSpace", S2, PLANE, OPEN)
def batch_to_space(case: Case, x: Value) -> Value:
    none = [0] * (2 + case.rank)
    blocks = int(np.prod(case.strides))
    if case.rank == 1:  # the runtime knows it for four and five axes alone
        x = op.unsqueeze(x, const([3]))
    y = op.concat([x, *[zeros_like(x, case)] * (blocks - 1)], 0)
    strides = [1, 1, *case.strides, *[1] * (case.rank == 1)]
    cut = [*none, *[0] * (case.rank == 1)]
    y = op.batch_to_space(y, const(strides), const(cut), const(cut))
    if case.rank == 1:
        y = op.squeeze(y, const([3]))
    return correlate(case, y, case.trailing)


@layer("zeros: product with a matrix of zeros and ones", S2, PLANE)
def by_matrix(case: Case, x: Value) -> Value:
    for axis, (n, stride) in enumerate(zip(case.data[2:], case.strides, strict=True), 2):
        matrix = np.zeros((n, stride * (n - 1) + 1))
        matrix[np.arange(n), np.arange(n) * stride] = 1
        order = list(range(rank_of(x)))
        order[axis], order[-1] = order[-1], order[axis]
        y = op.matmul(op.transpose(x, const(order)), floats(matrix), False, False)
        x = op.transpose(y, const(order))
    return correlate(case, x)


@layer("zeros: Pads of their own for the borders", *ANY)
def separate_pads(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    before = [r - b for r, (b, _) in zip(case.reaches, case.edges, strict=True)]
    sums = zip(case.reaches, case.edges, case.strides, strict=True)
    behind = [r - e - s + 1 for r, (_, e), s in sums]
    none = [0] * rank_of(x)
    x = pad(pad(x, [0, 0, *before], none), none, [0, 0, *behind])
    return correlate(case.within(case.reaches, case.reaches), x)


@layer("zeros: borders by Concat, cropped by Slice", S2, PLANE, SPACE)
def concatenated_borders(case: Case, x: Value) -> Value:
    x = spread_out(case, x)
    for axis in range(2, 2 + case.rank):
        reach, (begin, end) = case.reaches[axis - 2], case.edges[axis - 2]
        before, behind = reach - begin, reach - end - case.strides[axis - 2] + 1
        length = size(x, axis)
        if before < 0 or behind < 0:
            x = slice_axis(x, axis, max(0, -before), length + min(0, behind))
        rows = [
            floats(np.zeros([n if a == axis else m for a, m in enumerate(sizes_of(x))]))
            for n in (max(0, before), max(0, behind))
        ]
        x = op.concat([rows[0], x, rows[1]], axis)
    return correlate(case.within(case.reaches, case.reaches), x)


@layer("zeros: all of the scatter, then cropped", *ANY)
def cropped_behind(case: Case, x: Value) -> Value:
    none = (0,) * case.rank
    return window(case, correlate(case.within(none, none), spread_out(case, x), case.trailing))


@layer("zeros: data reversed, filter as it is, reversed again", *FEW)
def reversed_twice(case: Case, x: Value) -> Value:
    axes = list(range(2, 2 + case.rank))
    begin = [e + t for (_, e), t in zip(case.edges, case.trailing, strict=True)]
    mirrored = case.within(begin, [b for b, _ in case.edges])
    y = reverse(spread_out(case, x), axes)
    return reverse(correlate(mirrored, y, filter=np.swapaxes(case.weights, 1, 2)), axes)
