"""Problems (a convolution or deconvolution at exact sizes), and kernels prepared for one.

Letters: N batch, C input channels, M output channels, g groups, I, O spatial sizes, K kernel sizes,
S strides, D dilations; `*` means the spatial axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import scratch
from irdeconv.kernels.scratch import ITEMS, Space, clear, pieces
from irdeconv.kernels.threads import Team

REFILLED = 1 << 19  # elements of a computed filter whose places are kept; f32 counts them
LONG_ITEM = 1e6  # nanoseconds; work is cut into more pieces if each would take longer
NEARLY = 1.02  # times the least cost
LONG = 2e6  # nanoseconds of a layer that two threads should gain from, ...
GAIN = 1.6  # ... so many times as fast as one, ...
DEARER = 1.1  # ... if that costs one at most so many times as much
SHARES = (1, 2, 4, 8)  # parts that are tried
ROUNDING = 1.1  # times as fast, if a kernel rounds more than sums of products do, ...
ROUNDING_NS = 50_000.0  # ... and nanoseconds saved


class Epilogue(Protocol):
    """Work on the sums before they are stored: bias, activation, residual addition."""

    positional: bool
    """Whether it reads other tensors of the output's shape, so that a tile's place matters."""

    def __call__(self, tile: Array, image: int, channels: slice, positions: slice) -> None:
        """Finish a tile `[channels, positions]` of the output in place.

        `positions` counts the elements of an output plane (the product of O); an epilogue that is
        not positional ignores it.
        """


class Kernel(Protocol):
    """A (de)convolution with its filter rearranged; the result of a candidate's `prepare`."""

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """Compute `out [N, M, *O]` (C-contiguous) from `x [N, C, *I]` (any strides)."""


Piece = Callable[[Space], None]
"""Work on memory at fixed addresses, with scratch memory as its argument."""

Fix = Callable[[Array, int, slice, slice], Piece | None]
"""Returns the call of an epilogue with these arguments, for memory at fixed addresses."""


@runtime_checkable
class NamedKernel(Protocol):
    """A kernel chosen by the filter's values, so that its candidate has another name."""

    name: str
    why: str


@runtime_checkable
class FixedKernel(Protocol):
    """A kernel that can compute its views of memory at fixed addresses once."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return the kernel's work on these arrays; None if it is unknown."""


@runtime_checkable
class MovableKernel(FixedKernel, Protocol):
    """A kernel that is hardly slower if every run has other memory, if it is `movable`."""

    movable: bool


@dataclass(frozen=True)
class Estimate:
    """A kernel's time: counts of its actions times fitted rates.

    `rates` is the record of a family of kernels, in nanoseconds; `nanoseconds` takes such a record
    and is linear in its fields, so that `tools/fit_rates.py` can fit them to measurements.
    """

    rates: Any
    nanoseconds: Callable[[Any], float]

    @property
    def cost(self) -> float:
        """The time by the rates of this machine."""
        return self.nanoseconds(self.rates)


@dataclass(frozen=True)
class Candidate:
    """A kernel that could do the work.

    `cost` is its estimated time in nanoseconds on one thread, `scratch` its memory in bytes besides
    input, output and the filter as given (rearranged filters count). Threads can share `items`
    pieces of work. `transforms`: it multiplies transformed inputs and taps, as Winograd's kernels
    do, instead of the definition's products, and so rounds more. `spreads`: an infinity or NaN of
    the input reaches outputs that do not see it. `estimate` is the source of the cost, if its
    rates are fitted by the tool. `cuts` are other ways to cut the work, which may be measured too.
    """

    name: str
    cost: float
    scratch: int
    prepare: Callable[[Array], Kernel]
    items: int = 1
    transforms: bool = False
    spreads: bool = False
    estimate: Estimate | None = None
    cuts: tuple[Candidate, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """A text that no other candidate for the same problem has."""
        return f"{self.name}, pieces {self.items}, scratch {self.scratch}"

    @property
    def gain(self) -> float:
        """The speed of two threads relative to one, if all pieces take as long."""
        return self.items / -(-self.items // 2)

    def changed(self, change: Callable[[Candidate], Candidate]) -> Candidate:
        """Return it with all of its cuts changed alike."""
        return replace(change(self), cuts=tuple(map(change, self.cuts)))

    def given(self, change: Callable[[Array], Array]) -> Candidate:
        """Return it for other filters, which are changed into those that it takes."""
        return replace(self, prepare=lambda w: self.prepare(change(w)))

    def refillable(
        self, shape: tuple[int, ...], arrange: Callable[[Array], Array], dtype: np.dtype[Any]
    ) -> tuple[Kernel | None, list[tuple[Array, Array]]]:
        """Prepare for later filters: arrays, and which element each place has, 0 for none."""
        size = math.prod(shape)
        if size < REFILLED:
            kernel = self.prepare(arrange(np.arange(1, size + 1, dtype=dtype).reshape(shape)))
            if packed := getattr(kernel, "packed", None):  # all that it reads of a filter
                return kernel, [(a, a.astype(np.intp)) for a in packed]
        return None, []  # it is prepared in every run


def every_cut(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return all ways to cut the work of candidates, one of each label.

    Cuts that threads cannot share as well as the candidate are left out, even for a single thread:
    the choice must not depend on the number of threads.
    """
    found = dict[str, Candidate]()
    for candidate in candidates:
        least = min(candidate.items, ITEMS)
        for way in (candidate, *(c for c in candidate.cuts if c.items >= least)):
            found.setdefault(way.label, way)
    return list(found.values())


def shared(ways: Iterable[Candidate]) -> Candidate:
    """Choose the cheapest way to cut the work, or one that costs nearly as little.

    Of the latter it is the one whose items threads share best. If the work is long and none of
    them is shared well, more may be paid for one that is.
    """
    cuts = list(ways)
    least = min(c.cost for c in cuts)
    wanted = max(ITEMS, int(least / LONG_ITEM))
    near = [c for c in cuts if c.cost <= NEARLY * least]
    if least > LONG and all(c.gain < GAIN for c in near):
        near = [c for c in cuts if c.cost <= DEARER * least and c.gain >= GAIN] or near
    return best_of(max(near, key=lambda c: (min(c.items, wanted), -c.cost)), cuts)


def best_of(best: Candidate, cuts: Iterable[Candidate]) -> Candidate:
    """Return the best cut, with the others as its `cuts`."""
    return replace(best, cuts=tuple(c for c in cuts if c is not best))


def worthwhile(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out kernels that transform tiles, and so round more, if they save little."""
    plain = min((c.cost for c in candidates if not c.transforms), default=math.inf)
    return [
        c
        for c in candidates
        if not c.transforms or max(c.cost + ROUNDING_NS, c.cost * ROUNDING) < plain
    ]


def _zero(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Fill an output that no input reaches. A Kernel."""
    clear(out)
    if out.size:
        finish(out, epilogue, team)


ZERO = Candidate("zero", cost=0.0, scratch=0, prepare=lambda w: _zero)


def finish(out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Apply an epilogue to a whole output, tile by tile."""
    if epilogue is None:
        return
    block = scratch.SIZES.epilogue_bytes
    n, m = out.shape[:2]
    flat = out.reshape(n, m, -1)
    width = flat.shape[2]
    rows = max(1, min(m, block // max(1, width * out.itemsize)))
    span = width if rows > 1 else max(1, block // out.itemsize)
    tiles = [
        (i, channels, positions)
        for i in range(n)
        for channels in pieces(m, rows)
        for positions in pieces(width, span)
    ]
    team.each(tiles, lambda tile, _: epilogue(flat[tile], *tile))


def deliver(
    tile: Array, out: Array, epilogue: Epilogue | None, image: int, channels: slice, at: slice
) -> None:
    """Finish a tile `[channels, positions]` and store it into `out`, a view of the same shape."""
    if epilogue is not None:
        epilogue(tile, image, channels, at)
    if tile is not out:
        out[...] = tile


NONE = slice(0, 0)


def reads(size: int, stride: int, shift: int, outputs: int) -> tuple[slice, slice]:
    """Return (outputs, inputs): output o reads o*stride + shift, if 0 <= that < size."""
    lo = max(0, -(shift // stride))
    hi = min(outputs, (size - 1 - shift) // stride + 1)
    if hi <= lo:
        return NONE, NONE
    first = lo * stride + shift
    return slice(lo, hi), slice(first, first + (hi - lo - 1) * stride + 1, stride)


@dataclass(frozen=True)
class WindowAxis:
    """One spatial axis: output o sees o*stride + k*dilation - begin for k < kernel."""

    size: int = 1
    out: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    begin: int = 0

    @property
    def plain(self) -> bool:
        """Whether output o reads input o and nothing else."""
        return self.kernel == self.stride == 1 and self.begin == 0 and self.size == self.out

    @property
    def padded(self) -> bool:
        """Whether some window leaves the data."""
        return self.begin > 0 or self.span(self.out) - self.begin > self.size

    def span(self, count: int) -> int:
        """Return the number of positions that the windows of `count` neighbouring outputs cover."""
        return (count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def reach(self, k: int) -> tuple[slice, slice]:
        """Return (outputs, inputs): the outputs with tap `k` inside the data, and their inputs."""
        return reads(self.size, self.stride, k * self.dilation - self.begin, self.out)

    @property
    def inner(self) -> Sequence[int]:
        """The taps that may read data, in order; of a kernel larger than the data they are few."""
        first = max(0, -(((self.out - 1) * self.stride - self.begin) // self.dilation))
        stop = min(self.kernel, (self.begin + self.size - 1) // self.dilation + 1)
        if stop - first <= self.out * self.size:
            return range(first, stop)
        shifts = {
            i + self.begin - o * self.stride for o in range(self.out) for i in range(self.size)
        }
        taps = {s // self.dilation for s in shifts if s % self.dilation == 0}
        return sorted(k for k in taps if first <= k < stop)

    def valid(self) -> Array:
        """Return the number of taps inside the data for every output."""
        inside = np.zeros(self.out, np.int64)
        for k in self.inner:
            inside[self.reach(k)[0]] += 1
        return inside

    def trimmed(self) -> tuple[WindowAxis, slice]:
        """Return the axis without outer taps that read padding for every output, and the rest."""
        useful = [k for k in self.inner if self.reach(k)[0] != NONE]
        first, stop = (useful[0], useful[-1] + 1) if useful else (0, 1)
        kernel, begin = stop - first, self.begin - first * self.dilation
        stride = self.stride if self.out > 1 else 1
        dilation = self.dilation if kernel > 1 else 1
        return WindowAxis(self.size, self.out, kernel, stride, dilation, begin), slice(first, stop)


def window_axes(
    sizes: Sequence[int],
    outputs: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
) -> list[WindowAxis]:
    """Return the axes of windows on `sizes` positions; one value per spatial axis in every list."""
    rows = zip(sizes, outputs, kernel, strides, dilations, begin, strict=True)
    return [WindowAxis(*row) for row in rows]


def type_of_sums(dtype: Any) -> np.dtype[Any]:
    """Return the type of sums: types of less than 32 bits are summed in f32."""
    kind = np.dtype(dtype)
    return kind if kind.itemsize >= 4 else np.dtype(np.float32)


class Levels(NamedTuple):
    """Numbers that stand for u8: the level n is (n - zero) * step."""

    step: float
    zero: int


@dataclass(frozen=True)
class ConvProblem:
    """A convolution or deconvolution at exact sizes; one value per spatial axis in every list.

    `shape` is the input's [N, C, *I], `sizes` are the output's *O, `begin` the leading pads of
    either sign. Convolution: y[o] = sum of x[o*S + k*D - begin] * w[k], the filter being
    [g, M/g, C/g, *K]. Deconvolution: full[s*S + k*D] += x[s] * w[k], y[o] = full[o + begin], the
    filter being [g, C/g, M/g, *K]. Both are zero outside. `dtype` is the element type's NumPy name.
    `levels` are those of the input; if they are known, each output's taps have 8 bits, too.
    """

    shape: tuple[int, ...]
    outputs: int
    groups: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: str = "float32"
    levels: Levels | None = None

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The output's [N, M, *O]."""
        return (self.shape[0], self.outputs, *self.sizes)

    @property
    def group_inputs(self) -> int:
        """C/g, the input channels of a group."""
        return self.shape[1] // self.groups

    @property
    def group_outputs(self) -> int:
        """M/g, the output channels of a group."""
        return self.outputs // self.groups

    @property
    def taps(self) -> int:
        """The product of K."""
        return math.prod(self.kernel)

    @property
    def positions(self) -> int:
        """The product of I."""
        return math.prod(self.shape[2:])

    def axes(self, sizes: tuple[int, ...], outputs: tuple[int, ...]) -> list[WindowAxis]:
        """Return the axes of its windows on `sizes` positions."""
        windows = self.kernel, self.strides, self.dilations, self.begin
        return window_axes(sizes, outputs, *windows)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to sum, so that the output is zero, or has no elements."""
        return 0 in self.shape or 0 in self.out_shape or 0 in self.kernel

    @cached_property
    def compute(self) -> np.dtype[Any]:
        """The type of sums."""
        return type_of_sums(self.dtype)

    @property
    def narrow(self) -> bool:
        """Whether sums are rounded to a narrower type when they are stored."""
        return np.dtype(self.dtype).itemsize < 4

    @property
    def itemsize(self) -> int:
        """Bytes of an element that is computed with."""
        return self.compute.itemsize

    @property
    def reversed(self) -> ConvProblem:
        """The convolution that computes this deconvolution of stride 1, or the other way round.

        y[o] is the sum of x[o + begin - k*D] * w[k], so its taps run backwards; see
        `reversed_filter`.
        """
        rows = zip(self.dilations, self.kernel, self.begin, strict=True)
        return replace(self, begin=tuple(d * (k - 1) - b for d, k, b in rows))


def reversed_filter(w: Array) -> Array:
    """Return the view of a filter `[g, M/g, C/g, *K]` as `[g, C/g, M/g, *K]`, taps reversed."""
    return np.flip(w.swapaxes(1, 2), tuple(range(3, w.ndim)))


def trailing(x: Array, parts: Iterable[Any]) -> Array:
    """Return the view of `x` that takes `parts` (slices or ints) along its last axes."""
    index: Any = (..., *parts)
    view: Array = x[index]
    return view


def zero_insert(x: Array, strides: Sequence[int], trailing: bool = False) -> Array:
    """Put S-1 zeros between neighbours: `[N,C,*I]` -> `[N,C,*S(I-1)+1]` (0 stays 0).

    `strides` has one entry per spatial axis. With `trailing` zeros follow the last element as well:
    `[N,C,*S*I]`. The result has the element type of `x`.
    """
    rows = zip(x.shape[2:], strides, strict=True)
    sizes = tuple(s * i if trailing or not i else s * (i - 1) + 1 for i, s in rows)
    y = np.zeros((*x.shape[:2], *sizes), x.dtype)
    places: Any = (..., *(slice(None, None, s) for s in strides))
    y[places] = x
    return y
