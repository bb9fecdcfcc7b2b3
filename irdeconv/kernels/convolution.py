"""The common parts of convolution kernels: a common form, frames, blocks, counted work.

In that form there are three axes (depth, row, column, missing ones of size 1), and no taps that
only ever meet padding. A single axis becomes the rows, so neighbouring rows are adjacent in memory.

The nanoseconds were fitted to several hundred layers, random ones and layers of networks, on x86-64
cores. Only their proportions matter.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from irdeconv.ir.spec import Array
from irdeconv.kernels.candidate import (
    NONE,
    Candidate,
    ConvProblem,
    Epilogue,
    Estimate,
    Fix,
    Kernel,
    Levels,
    Piece,
    WindowAxis,
    reads,
    type_of_sums,
)
from irdeconv.kernels.products import CALL, product_cost
from irdeconv.kernels.recorded_calls import Calls, Repeated
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Team

ROW, COLUMN = 1, 2  # places in the tuples of three axes
MOST_AXES = 3  # spatial axes that kernels know


@dataclass(frozen=True)
class Conv3d:
    """A convolution of `images` x [groups, channels] -> [groups, outputs].

    `channels` and `outputs` are those of one group. `cuts` are the used taps, along the filter's
    own axes. See `ConvProblem` for `levels`.
    """

    images: int
    groups: int
    channels: int
    outputs: int
    axes: tuple[WindowAxis, WindowAxis, WindowAxis]
    cuts: tuple[slice, ...]
    dtype: str
    levels: Levels | None = None

    @cached_property
    def compute(self) -> np.dtype[Any]:
        """The type of sums."""
        return type_of_sums(self.dtype)

    @cached_property
    def itemsize(self) -> int:
        """Bytes per element of `compute`."""
        return self.compute.itemsize

    @cached_property
    def direct(self) -> bool:
        """Whether sums may be written to the output as they are."""
        return self.compute == np.dtype(self.dtype)

    @cached_property
    def taps(self) -> int:
        """The product of K."""
        return math.prod(a.kernel for a in self.axes)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The output's spatial sizes."""
        depth, row, column = self.axes
        return depth.out, row.out, column.out

    @cached_property
    def plane(self) -> int:
        """Positions of an output plane."""
        return math.prod(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether it is one matrix product per position."""
        return all(a.plain for a in self.axes)

    def data(self, x: Array) -> Array:
        """Return the view `[N, C, depth, row, column]` of the input."""
        return x.reshape(self._shape)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return (self.images, self.groups * self.channels, *(a.size for a in self.axes))

    def filter(self, w: Array) -> Array:
        """Return `[g, M/g, C/g, depth, row, column]` of the used taps, in `compute`."""
        index: Any = (..., *self.cuts)
        part = w[index]
        shape = (*w.shape[:3], *(a.kernel for a in self.axes))
        return np.ascontiguousarray(part, self.compute).reshape(shape)


@lru_cache(maxsize=64)  # every kernel asks
def as_conv3d(problem: ConvProblem, *, along: int = ROW) -> Conv3d:
    """Bring a convolution into the form of three axes; an only one becomes axis `along`."""
    trimmed = [a.trimmed() for a in problem.axes(problem.shape[2:], problem.sizes)]
    axes = [a for a, _ in trimmed if not (a.plain and a.size == 1)] or [WindowAxis()]
    if len(axes) == 1:
        axes = [axes[0] if i == along else WindowAxis() for i in range(3)]
    depth, row, column = [WindowAxis()] * (3 - len(axes)) + axes
    return Conv3d(
        images=problem.shape[0],
        groups=problem.groups,
        channels=problem.group_inputs,
        outputs=problem.group_outputs,
        axes=(depth, row, column),
        cuts=tuple(cut for _, cut in trimmed),
        dtype=problem.dtype,
        levels=problem.levels,
    )


B = TypeVar("B")  # a block


@dataclass(frozen=True)
class Blockwise(ABC, Generic[B]):
    """A `FixedKernel` whose blocks are computed one by one; it reads contiguous input in place."""

    conv: Conv3d
    blocks: Sequence[B]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        data, y = self._data(x, team.space), self._planes(out)
        team.each(self.blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _data(self, x: Array, space: Space) -> Array:
        """Return the data for blocks; `[N, C, depth, row, column]` unless overridden."""
        return self.conv.data(x)

    def _planes(self, out: Array) -> Array:
        return out.reshape(*out.shape[:2], self.conv.plane)

    @abstractmethod
    def _block(self, x: Array, out: Array, b: B, epilogue: Epilogue | None, space: Space) -> None:
        """Compute a block of `out [N, M, positions]`."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return the call for arrays at fixed addresses; None if they need a copy."""
        if not (self.conv.direct and x.dtype == self.conv.compute and self._lies(x)):
            return None
        data, y = self._data(x, Space()), self._planes(out)
        return Repeated(tuple(self._fixed(data, y, b, finish) for b in self.blocks))

    def _lies(self, x: Array) -> bool:
        """Whether blocks can read the input in place."""
        return bool(x.flags.c_contiguous)

    @abstractmethod
    def _fixed(self, x: Array, out: Array, b: B, finish: Fix) -> Piece:
        """Return the call that computes a block."""


SLACK = 32  # elements behind a frame that whole vectors may read


@dataclass(frozen=True)
class Frame:
    """A box of the zero-extended input `[N, C, depth, row, column]`: `f[target] = x[source]`.

    `shape` is the box's, `inside`: it sees nothing but data, `empty`: it sees none.
    """

    shape: tuple[int, ...]
    source: tuple[slice, ...]
    target: tuple[slice, ...]
    inside: bool
    empty: bool
    dtype: np.dtype[Any]

    @property
    def elements(self) -> int:
        """The number of the box's elements."""
        return math.prod(self.shape)

    def of(self, x: Array, space: Space) -> Array:
        """Return the box in the type of sums; a view of `x` if that is enough."""
        f, calls = self.calls(x, space)
        for call in calls:
            call()
        return f

    def calls(self, x: Array, space: Space) -> tuple[Array, Calls]:
        """Return the box and the calls that fill it."""
        if self.inside and x.dtype == self.dtype:
            return x[self.source], []
        f = space.array(self.shape, self.dtype)
        calls: Calls = [] if self.inside else [partial(f.fill, 0)]
        if not self.empty:
            calls.append(partial(np.copyto, f[self.target], x[self.source]))
        return f, calls


def frame_of(
    conv: Conv3d, images: slice, channels: slice, box: Sequence[tuple[int, int, int]]
) -> Frame:
    """Describe the box of (start, count, step) along depth, row and column."""
    counts = [count for _, count, _ in box]
    rows = zip(conv.axes, box, strict=True)
    places = [reads(axis.size, step, start, count) for axis, (start, count, step) in rows]
    target, source = ([p[n] for p in places] for n in (0, 1))
    return Frame(
        shape=(images.stop - images.start, channels.stop - channels.start, *counts),
        source=(images, channels, *source),
        target=(slice(None), slice(None), *target),
        inside=target == [slice(0, n) for n in counts],
        empty=NONE in target,
        dtype=conv.compute,
    )


def phase_shape(conv: Conv3d) -> tuple[int, ...]:
    """Return the shape of a zero-extended plane, its columns split modulo a stride.

    Those of stride 2 are not: reading every second one takes less than splitting.
    """
    depth, row, column = (a.span(a.out) for a in conv.axes)
    stride = conv.axes[COLUMN].stride
    phases = 1 if stride == 2 else stride
    return (1, 1, phases, depth, row, -(-column // phases))


def tap_offsets(conv: Conv3d, shape: Sequence[int]) -> Array:
    """Return for each tap the offset of the first output's input in a frame `[*phases, *rest]`."""
    taps = np.indices([a.kernel for a in conv.axes]).reshape(3, -1)
    reads = [k * a.dilation for k, a in zip(taps, conv.axes, strict=True)]
    # Element i of an axis lies in the phase i modulo the stride, at the place i // stride. So a
    # step of the output is a step of one in the frame, for every stride.
    pairs = [divmod(r, p) for r, p in zip(reads, shape, strict=False)]
    place = (*(phase for _, phase in pairs), *(shift for shift, _ in pairs))
    return np.asarray(np.ravel_multi_index(place, tuple(shape)), np.int64)


def overlapping(a: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return a view from the first element on; strides are in bytes."""
    if a.flags.c_contiguous:
        # A tenth of the time of as_strided, which matters for small layers.
        view: Array = np.ndarray(shape, a.dtype, a, 0, strides)
        return view
    return as_strided(a, shape, strides)


def flat_planes(x: Array, space: Space) -> Array:
    """Return `x [N, C, *I]` as `[N, C, positions]`, copied if planes are not contiguous."""
    step = x.itemsize
    for size, stride in zip(reversed(x.shape[2:]), reversed(x.strides[2:]), strict=True):
        if size > 1 and stride != step:
            flat = space.array(x.shape, x.dtype)
            flat[...] = x
            x = flat
            break
        step *= size
    return x.reshape(*x.shape[:2], -1)


NEAR_CACHE = 1 << 18  # elements of a matrix that is still near when it is read again


@dataclass
class Work:
    """Counts of a kernel's work, elements unless said otherwise.

    `product`: nanoseconds that matrix products alone would take; `far`: elements of their matrices
    that do not fit a near cache, or of a compiled loop's output; `cold`: those that come from main
    memory; `summed`: matrices multiplied by a single row, and `singles`, how often; `copied`:
    elements gathered, in `runs` of neighbours, `strided`: those that are no neighbours; `added`:
    additions; `compiled`: elements of compiled loops; `looped`: short inner loops; `steps`: calls
    of NumPy; `blocks`; `groups`: products or planes. `scratch`: memory besides input, output and
    the filter as given.
    """

    conv: Conv3d
    product: float = 0
    far: float = 0
    cold: float = 0
    summed: float = 0
    singles: float = 0
    copied: float = 0
    runs: float = 0
    strided: float = 0
    added: float = 0
    compiled: float = 0
    looped: float = 0
    steps: float = 0
    blocks: float = 0
    groups: float = 0
    scratch: float = 0

    def multiply(self, m: int, k: int, n: int, count: float) -> None:
        """Count products `[m, k] @ [k, n]`."""
        self.groups += count
        if m == 1:
            self.summed += count * k * n
            self.singles += count
            return
        self.product += count * max(0.0, product_cost(m, k, n) - CALL)
        self.far += count * sum(size for size in (m * k, k * n, m * n) if size > NEAR_CACHE)
        self.cold += m * k  # weights, which other layers drove out

    def copy(self, elements: float, run: int, strided: bool = False) -> None:
        """Count a copy whose innermost loops have `run` elements."""
        if strided:
            self.strided += elements
        else:
            self.copied += elements
        self.runs += elements / max(1, run)

    def frame(self, elements: int, blocks: int) -> bool:
        """Count the copy into a zero-extended frame, if any is needed; return whether it is."""
        needed = any(a.padded for a in self.conv.axes) or not self.conv.direct
        if needed:
            self.scratch += elements + math.prod(phase_shape(self.conv)[3:])
            self.copy(blocks * elements, self.conv.axes[COLUMN].size)
            self.added += 0.3 * blocks * elements  # zeros
            self.steps += 2
        return needed

    def convert(self, inputs: int, outputs: int) -> None:
        """Count the memory of a block that is converted, if sums have a wider type."""
        if not self.conv.direct:
            self.scratch += inputs + outputs

    def nanoseconds(self, rates: WorkRates) -> float:
        """Return the estimated time; elements of f64 take twice that of f32."""
        size = self.conv.itemsize / 4
        scaled = ((n, rate if n in FIXED else rate * size) for n, rate in vars(rates).items())
        return float(sum(getattr(self, n) * rate for n, rate in scaled))

    def candidate(
        self, name: str, prepare: Callable[[Array], Kernel], rates: WorkRates | None = None
    ) -> Candidate:
        """Return a candidate with this work's cost."""
        estimate = Estimate(rates or WORK, self.nanoseconds)
        scratch = int(self.scratch) * self.conv.itemsize
        items = max(1, int(self.blocks))
        return Candidate(name, estimate.cost, scratch, prepare, items=items, estimate=estimate)


FIXED = ("singles", "runs", "looped", "steps", "blocks", "groups")


@dataclass(frozen=True, kw_only=True)
class WorkRates:
    """Nanoseconds of f32 for one of each count in `Work`."""

    product: float = 0.933
    far: float = 0.00823
    cold: float = 0.238
    summed: float = 0.055
    singles: float = 40.0
    copied: float = 0.1
    runs: float = 0.585
    strided: float = 0.366
    added: float = 0.054
    compiled: float = 0.00907
    looped: float = 10.5
    steps: float = 450
    blocks: float = 1500
    groups: float = 10.5


WORK = WorkRates()

# Of the compiled loops of depthwise layers.
DEPTHWISE = WorkRates(
    far=0.00746,
    copied=0.0811,
    runs=1.07,
    compiled=0.0106,
    looped=10.7,
    steps=1710,
    blocks=263,
    groups=47.3,
)
