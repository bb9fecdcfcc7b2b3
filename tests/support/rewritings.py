"""Deconvolutions and what computes the same: pairs of models, built with OpenVINO's own classes.

A kind of rewriting is a function of a case (one layer's parameters) that yields both models.
Filters are distinct integers, so that on integer data both sides have to agree exactly. The near
misses of a kind come from the same function: the lowered side of another case, with one weight
changed or with the window moved by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

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
