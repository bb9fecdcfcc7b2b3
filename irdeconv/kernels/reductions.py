"""Reductions, softmax, normalizations; products of two tensors; scaled dot-product attention.

Reductions are of float tensors `[outer, n, inner]` along n, on groups of rows that stay in the
cache, with the results as scratch memory. Attention takes blocks of queries, so that never all
scores exist at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.convolution_direct import DIRECT
from irdeconv.kernels.jit import ADDED, DIVIDED, MULTIPLIED
from irdeconv.kernels.numpy_calls import (
    FEW_ELEMENTS,
    POSITIONAL,
    KeptCalls,
    NumPyCalls,
    Prepared,
    add_along,
    kept,
    larger,
    largest_along,
    make,
    moved,
)
from irdeconv.kernels.panels import (
    Panels,
    ProductColumns,
    VectorPlaces,
    best_tile,
    computed,
    vector_starts,
)
from irdeconv.kernels.products import better_swapped, ones, row_sums
from irdeconv.kernels.recorded_calls import (
    ProgramCode,
    Recorded,
    Repeated,
    SharedCalls,
    complete,
    recorded_copy,
    recorded_extremes,
    recorded_fill,
    recorded_means,
    recorded_products,
    recorded_program,
    recorded_softmax,
    recorded_standardize,
)
from irdeconv.kernels.scratch import ScratchPlan, Space, pieces
from irdeconv.kernels.threads import Team

WORTH_WRITING = 1 << 16  # elements that are worth writing down calls which are made once
Work = Callable[[Array, Array, Space], NumPyCalls]


def rows_of(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int] | None:
    """Return (outer, n, inner) for neighbouring axes (sorted); None if they are none."""
    if not axes or list(axes) != list(range(axes[0], axes[-1] + 1)):
        return None
    before, behind = shape[: axes[0]], shape[axes[-1] + 1 :]
    return math.prod(before), math.prod(shape[a] for a in axes), math.prod(behind)


def by_rows(x: Array, out: Array, team: Team, work: Work) -> None:
    """Make the calls `work(part of x, part of out, space)` for groups of the first axis."""
    size = x.size // max(1, len(x))
    step = max(1, scratch.SIZES.row_elements // max(1, size))

    def group(rows: slice, space: Space) -> None:
        make(work(x[rows], out[rows], space))

    team.each(pieces(len(x), step) if step < len(x) else [slice(None)], group)


def _total(x: Array, out: Array) -> None:
    add_along(x, 1, None, out, True)


CLOSE_POWERS = (
    30.0  # exponents apart: exp(-CLOSE_POWERS) is large enough for the products behind a softmax
)
LOWERED_ROWS = 16  # whose largest elements take longer to find than that of all


def _lower(axis: int, x: Array, top: Array, out: Array) -> None:
    """Write x minus a number for each row along the axis, so that no exponential is large.

    It is the row's largest element, or that of all rows if all elements are near.
    """
    if top.size >= LOWERED_ROWS:
        high = x.max()
        if high - x.min() <= CLOSE_POWERS:
            np.subtract(x, high, out)
            return
    largest_along(x, axis, None, top, True, -np.inf)
    np.subtract(x, top, out)


def _sum(x: Array, space: Space, times: int | None = None) -> NumPyCalls:
    """Sum along axis 1; the calls' result broadcasts to `x`, or to so many `times` each sum."""
    outer, n, inner = x.shape
    times = times or n
    if inner == 1 and times <= SPREAD_ROW and x.flags.c_contiguous:
        # A product that gives each sum several times: to spread it over a short row takes longer.
        total = space.array((outer, times, 1), x.dtype)
        yield np.matmul, (x.reshape(outer, n), ones((n, times), x.dtype)), total.reshape(outer, -1)
        return total
    if inner == 1 and x.flags.c_contiguous:
        sums = yield from row_sums(x.reshape(x.shape[:2]), space)
        total = sums.reshape(-1, 1, 1)
        return total
    total = space.array((outer, 1, inner), x.dtype)
    yield _total, (x,), total
    return total


SPREAD_ROW = 32
FEW_TERMS = 16  # of sums, up to which each is an operand of one program


@dataclass(frozen=True)
class Mean:
    """Sums along the middle axis of `[outer, n, inner]`, divided by `divisor`; 0: norms."""

    block: tuple[int, int, int]
    divisor: int

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the means of `x` into `out`."""
        outer, _n, inner = self.block
        by_rows(x.reshape(self.block), out.reshape(outer, inner), team, self._calls)

    def _calls(self, x: Array, out: Array, space: Space) -> NumPyCalls:
        if self.divisor:
            total = yield from _sum(x, space)
            yield np.divide, (total[:, 0], np.array(self.divisor, x.dtype)), out
        else:
            yield np.multiply, (x, x), (squares := space.array(x.shape, x.dtype))
            total = yield from _sum(squares, space)
            yield np.sqrt, (total[:, 0],), out
        return out

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        (outer, n, inner), work = self.block, None
        if not x.flags.c_contiguous:  # reshaped, it would be a copy of the present elements
            return None
        rows = x.reshape(self.block)
        small = inner > 1 and 1 < n <= FEW_TERMS and x.size <= WORTH_WRITING and self.divisor
        if small and x.dtype == np.float32 and jit.available():
            code = [(ADDED, (k and n, k + 1), n) for k in range(n - 1)]
            code += [(DIVIDED, (n, n + 1), n)] * (self.divisor != 1)
            program = ProgramCode(code, [np.array(self.divisor, np.float32)], 0)
            terms = [rows[:, k] for k in range(n)]
            made = recorded_program(program, terms, out.reshape(outer, inner))
            work = None if made is None else Repeated((made,))
        if self.divisor:
            work = work or recorded_means(rows, out.reshape(-1), self.divisor)
        return work or kept(x, self._calls(rows, out.reshape(outer, inner), Space()))


@dataclass(frozen=True)
class ReducedRows:
    """The largest or the smallest of rows, or of up to `FEW_TERMS` elements along the middle axis.

    NumPy's own reductions take as long for each of the few, or their product, as for a row.
    """

    block: tuple[int, int, int]
    ufunc: np.ufunc

    @staticmethod
    def of(block: tuple[int, int, int] | None, ufunc: np.ufunc) -> ReducedRows | None:
        """Return the kernel for `[outer, n, inner]`, if it is one of these."""
        rows = ufunc in (np.maximum, np.minimum) and block and block[2] == 1 <= block[1]
        return ReducedRows(block, ufunc) if block and (rows or 0 < block[1] <= FEW_TERMS) else None

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the results into `out`."""
        make(self._calls(x, out))

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        if not x.flags.c_contiguous:
            return None
        work = None
        if self.ufunc is not np.multiply:
            rows, smallest = x.reshape(self.block), self.ufunc is np.minimum
            work = recorded_extremes(rows, out.reshape(-1), smallest)
        return work or kept(x, self._calls(x, out))

    def _calls(self, x: Array, out: Array) -> NumPyCalls:
        (outer, n, inner), rows = self.block, x.reshape(self.block)
        out, ufunc = out.reshape(outer, inner), POSITIONAL.get(self.ufunc, self.ufunc)
        if n > FEW_TERMS:
            yield self.ufunc.reduce, (rows, 1, None), out
            return out
        yield moved, (rows[:, 0],), out
        for k in range(1, n):
            yield ufunc, (out, rows[:, k]), out
        return out


FEW_SUMS_IN_A_ROW = 64  # along an axis, up to which each is a call that adds slices


@dataclass(frozen=True)
class RunningSum:
    """Sums of the elements up to each one along an axis, or from it to the end in `reverse`.

    `exclusive` ones are without the element itself.
    """

    axis: int
    exclusive: bool
    reverse: bool

    def _seen(self, x: Array, out: Array) -> tuple[Array, Array]:
        """Return the arrays with the axis in front and in the order of the sums."""
        x, out = (np.moveaxis(a, self.axis, 0)[:: -1 if self.reverse else 1] for a in (x, out))
        return (x[:-1], out[1:]) if self.exclusive else (x, out)

    def __call__(self, x: Array, *_: Array, out: Array, team: Team | None = None) -> None:
        """Write the sums of `x` into `out`."""
        if self.exclusive:
            out[...] = 0
        x, out = self._seen(x, out)
        if not self._by_slices(out):
            np.cumsum(x, 0, dtype=out.dtype, out=out)
            return
        np.copyto(out[0], x[0])
        for k in range(1, len(x)):
            np.add(out[k - 1], x[k], out=out[k])

    @staticmethod
    def _by_slices(out: Array) -> bool:
        return 0 < len(out) <= FEW_SUMS_IN_A_ROW and abs(out.strides[0]) > out.itemsize

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        first, whole = [recorded_fill(out, 0)] if self.exclusive else [], out
        x, out = self._seen(x, out)
        if x.dtype != np.float32 or not self._by_slices(out):
            return None
        if not jit.available():
            fill = [(moved, (np.zeros((), out.dtype),), whole)] * self.exclusive
            adds = [(np.add, (out[k - 1], x[k]), out[k]) for k in range(1, len(x))]
            return kept(x, [*fill, (moved, (x[0],), out[0]), *adds])
        code, steps = ProgramCode([(ADDED, (0, 1), 2)], (), 0), range(1, len(x))
        sums = [recorded_program(code, [out[k - 1], x[k]], out[k]) for k in steps]
        return Repeated.of([complete([*first, recorded_copy(x[0], out[0]), *sums])])


@dataclass(frozen=True)
class Softmax:
    """exp(x) / sum(exp(x)) along the middle axis of `[outer, n, inner]`, or its logarithm."""

    block: tuple[int, int, int]
    log: bool = False

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write it into `out`."""
        work = self.fixed(x, out=out) if x.size >= WORTH_WRITING else None
        if work is not None:
            work(team)
        else:
            by_rows(x.reshape(self.block), out.reshape(self.block), team, self._calls)

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        if not x.flags.c_contiguous:
            return None
        x, out = x.reshape(self.block), out.reshape(self.block)
        work = None if self.log else recorded_softmax(x, out)
        return work or kept(x, self._calls(x, out, Space()))

    def _calls(self, x: Array, out: Array, space: Space) -> NumPyCalls:
        top = space.array((len(x), 1, x.shape[2]), x.dtype)
        yield _lower, (1, x, top), out
        if self.log:
            power = space.array(x.shape, x.dtype)
            yield np.exp, (out,), power
            total = yield from _sum(power, space)
            yield np.log, (total,), total
            yield np.subtract, (out, total), out
        else:
            yield np.exp, (out,), out
            total = yield from _sum(out, space)
            yield np.divide, (out, total), out
        return out


@dataclass(frozen=True)
class Standardize:
    """Subtract the mean along axis 1; with `variance` divide by its root, `eps` `inside` or not."""

    variance: bool
    eps: float
    inside: bool

    def fixed(self, x: Array, out: Array) -> Repeated | None:
        """Return the call for contiguous arrays `[outer, n, inner]`."""
        way = (1 if self.inside else 2) if self.variance else 0
        return recorded_standardize(x, out, self.eps, way)

    def __call__(self, x: Array, out: Array, team: Team) -> None:
        """Write it into `out`, both `[outer, n, inner]`."""
        by_rows(x, out, team, self.calls)

    def calls(self, x: Array, out: Array, space: Space) -> NumPyCalls:
        """Return the calls for some rows."""
        count, small = np.array(x.shape[1], x.dtype), np.array(self.eps, x.dtype)
        total = yield from _sum(x, space)
        yield np.divide, (total, count), total
        yield np.subtract, (x, total), out
        if not self.variance:
            return out
        squares = space.array(x.shape, x.dtype)
        yield np.square, (out,), squares
        spread = yield from _sum(squares, space)
        yield np.divide, (spread, count), spread
        if self.inside:
            yield np.add, (spread, small), spread
        yield np.sqrt, (spread,), spread
        if not self.inside:
            yield np.add, (spread, small), spread
        yield np.divide, (out, spread), out
        return out


@dataclass(frozen=True)
class OnRows:
    """A kernel `(x, out, team)` of `[outer, n, inner]` for tensors that are seen in that shape."""

    block: tuple[int, int, int]
    kernel: Callable[..., None]

    def __call__(self, x: Array, *_: Array, out: Array, team: Team) -> None:
        """Write the kernel's result into `out`."""
        self.kernel(x.reshape(self.block), out.reshape(self.block), team)

    def fixed(self, x: Array, *_: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        return self.recorded(x, out) or kept(x, self.calls(x, out))

    def calls(self, x: Array, out: Array) -> NumPyCalls:
        """Return calls of NumPy; none if the kernel has no such."""
        if isinstance(self.kernel, Standardize):
            rows = out.reshape(self.block)
            if not x.flags.c_contiguous:
                yield moved, (x,), out
            source = x.reshape(self.block) if x.flags.c_contiguous else rows
            yield from self.kernel.calls(source, rows, Space())
        return out

    def recorded(self, x: Array, out: Array) -> Repeated | None:
        """Return compiled calls, if there are any."""
        if not isinstance(self.kernel, Standardize):
            return None
        rows = out.reshape(self.block)
        if x.flags.c_contiguous:
            return self.kernel.fixed(x.reshape(self.block), rows)
        then = self.kernel.fixed(rows, rows)
        return then and Repeated.of([complete([recorded_copy(x, out), *then.pieces])])


@dataclass(frozen=True)
class GroupNorm:
    """Standardize rows; multiply and add numbers of the channels, axis 1 of `planes`."""

    rows: OnRows
    planes: tuple[int, int, int]

    def __call__(self, x: Array, scale: Array, bias: Array, out: Array, team: Team) -> None:
        """Write the result into `out`."""
        self.rows(x, out=out, team=team)
        make(self._scaled(scale, bias, out))

    def _scaled(self, scale: Array, bias: Array, out: Array) -> NumPyCalls:
        planes = out.reshape(self.planes)
        yield np.multiply, (planes, scale[:, None]), planes
        yield np.add, (planes, bias[:, None]), planes
        return out

    def fixed(self, x: Array, scale: Array, bias: Array, out: Array) -> Prepared | None:
        """See `FixedCall`."""
        first, planes = self.rows.recorded(x, out), out.reshape(self.planes)
        if first is None:
            rows = list(self.rows.calls(x, out)) if x.size <= FEW_ELEMENTS else []
            return kept(x, [*rows, *self._scaled(scale, bias, out)]) if rows else None
        code = ProgramCode([(MULTIPLIED, (0, 1), 3), (ADDED, (3, 2), 3)], (), 0)
        then = recorded_program(code, [planes, scale[:, None], bias[:, None]], planes)
        return Repeated.of([complete([*first.pieces, then])])


def normalize_l2(x: Array, out: Array, team: Team, *, eps: float, add: bool) -> None:
    """Divide by the root of the sum of squares along axis 1, `eps` added or as lower bound."""
    small = np.array(eps, x.dtype)

    def work(part: Array, result: Array, space: Space) -> NumPyCalls:
        yield np.square, (part,), result
        total = yield from _sum(result, space)
        yield (np.add if add else larger), (total, small), total
        yield np.sqrt, (total,), total
        yield np.divide, (part, total), result
        return result

    by_rows(x, out, team, work)


SMALL_PRODUCTS = 1 << 17  # multiply-adds of a matrix, up to which calls of NumPy cost more
PACKED_RIGHT = 1 << 16  # elements of a known right matrix, up to which it is packed ...
MANY_ROWS = 16  # ... for products of at least so many rows
FEW_COLUMNS = 4  # below which the BLAS is faster
TILED_ROWS = range(8, 33)  # of products for which the micro-kernel is faster than the BLAS ...
TILED_MATRIX = range(1 << 17, 1 << 24)  # ... by a known matrix of so many elements, packed anew
TILED_DEPTH = 256  # products in a sum, below which its way to the output takes too long


@dataclass(frozen=True)
class MatrixProduct:
    """a b, matrices in the last two axes; `turned` ones are transposed. `known` is a constant b."""

    turned: tuple[bool, bool]
    known: Array | None = None

    def _seen(self, a: Array, b: Array) -> tuple[Array, Array]:
        left, right = self.turned
        return a.swapaxes(-1, -2) if left else a, b.swapaxes(-1, -2) if right else b

    def __call__(self, a: Array, b: Array, out: Array, team: Team) -> None:
        """Write the products into `out`."""
        a, b = self._seen(a, b)
        whole = a.flags.c_contiguous and out.flags.c_contiguous and b.ndim == 2
        if whole and better_swapped(out.size // max(1, out.shape[-1]), b.T):

            def work(right: Array, space: Space) -> None:
                make(_swapped(a, right, out, space))

            team.each([b], work)
        else:
            np.matmul(a, b, out=out)

    def fixed(self, a: Array, b: Array, out: Array) -> Prepared | None:
        """See `FixedCall`; None unless products are small, or of few rows."""
        known = self.known is not None
        a, b = self._seen(a, b if self.known is None else self.known)
        floats = all(x.dtype == np.float32 and x.ndim > 1 and x.size for x in (a, b, out))
        few = b.ndim == 2 and out.size // max(1, b.shape[1]) in TILED_ROWS
        large = b.size in TILED_MATRIX and b.shape[0] >= TILED_DEPTH and a.flags.c_contiguous
        if floats and known and few and large and jit.available() and jit.works():
            return _tiled(a, b, out)
        packed = known and b.size <= PACKED_RIGHT and b.shape[-1] >= FEW_COLUMNS
        packed = packed and out.size >= MANY_ROWS * b.shape[-1]
        small = packed or out.size * a.shape[-1] <= SMALL_PRODUCTS
        if not (floats and small):
            return None
        if not (jit.available() and jit.works()):
            return kept(out, [(np.matmul, (a, b), out)])
        work = recorded_products(a, b, out, known=known)
        return None if work is None else Repeated((work,))


def _tiled(a: Array, b: Array, out: Array) -> SharedCalls | None:
    """Return the product of rows and a known matrix by the micro-kernel, transposed."""
    (depth, columns), rows, lanes = b.shape, a.size // b.shape[0], jit.lanes()
    line = -(-rows // lanes) * lanes  # whole vectors
    x, sums = np.zeros((depth, line), np.float32), np.empty((columns, rows), np.float32)
    first = recorded_copy(a.reshape(rows, depth).T, x[:, :rows])
    last = recorded_copy(sums.T, out.reshape(rows, columns))
    if first is None or last is None:
        return None
    tile, at = best_tile(columns, line // lanes), np.arange(rows)
    places = VectorPlaces.lying(ProductColumns(at, at), vector_starts(rows, False))
    work = DIRECT.sums * depth * computed(columns, line // lanes, tile)
    step = scratch.shared_step(columns, columns, work, tile.rows)
    products = tuple(
        Panels(b.T[part], tile).recorded(
            x.reshape(-1),
            np.arange(depth) * line,
            places,
            sums[part].reshape(-1),
            np.arange(part.stop - part.start) * rows,
            0,
            ScratchPlan(),
        )
        for part in pieces(columns, step)
    )
    return SharedCalls(((first,), products, (last,)))


def _swapped(a: Array, b: Array, out: Array, space: Space) -> NumPyCalls:
    (depth, columns), rows = b.shape, out.size // b.shape[1]
    total = space.array((columns, rows), out.dtype)
    yield np.matmul, (b.T, a.reshape(rows, depth).T), total
    yield moved, (total.T,), out.reshape(rows, columns)
    return out


@dataclass(frozen=True)
class Attention:
    """softmax(q k^T scale + bias) v, over matrices; `sink` competes for the weights.

    query [*B, L, E], key [*B, S, E], value [*B, S, V] and bias [*B, L, S] broadcast over the batch
    axes B, sink is [*B, L or 1, 1]; all are of one type, f32 or f64. Under `causal` query i sees
    the keys up to i. A query that sees no key gives NaN.
    """

    scale: float | None = None
    causal: bool = False

    def fixed(self, query: Array, key: Array, value: Array, out: Array) -> Prepared | None:
        """Return the call without a bias on these arrays; None unless matrices are small."""
        batch, (rows, count), width = out.shape[:-2], (out.shape[-2], key.shape[-2]), key.shape[-1]
        floats = all(x.dtype == np.float32 for x in (query, key, value, out))
        if not floats or not out.size or not count:
            return None
        if not (jit.available() and jit.works()):
            return self._kept(query, key, value, out)
        if self.causal or rows * count * (width + out.shape[-1]) > SMALL_PRODUCTS:
            return None
        scale = np.array(self._factor(width), np.float32)
        code = ProgramCode([(MULTIPLIED, (0, 2), 1)], [scale], 0)
        calls, (q, k, v) = [], (_spread(x, batch) for x in (query, key, value))
        for at in np.ndindex(*batch):
            plan, turned = ScratchPlan(), np.empty((width, count), np.float32)
            weights, totals = plan.array((rows, count), np.float32), plan.array((rows,), np.float32)
            parts = [
                recorded_copy(k[at].T, turned),
                recorded_program(code, [turned], turned),
                recorded_products(q[at], turned, weights),
                Recorded.of("softmax_rows", weights, weights, totals),
                recorded_products(weights, v[at], out[at]),
            ]
            calls.append(complete(parts))
        return Repeated.of(calls)

    def _kept(self, query: Array, key: Array, value: Array, out: Array) -> KeptCalls | None:
        batch, length = out.shape[:-2], out.shape[-2]
        if math.prod(batch) * length * key.shape[-2] > FEW_SCORES:
            return None
        query, key, value = (_spread(x, batch) for x in (query, key, value))
        calls = self._calls((query, key, value, out), (None, None), slice(0, length), Space())
        return kept(out, calls, FEW_SCORES)

    def _factor(self, width: int) -> float:
        return 1 / math.sqrt(max(width, 1)) if self.scale is None else self.scale

    def run(
        self,
        inputs: tuple[Array, Array, Array],
        bias: Array | None,
        sink: Array | None,
        out: Array,
        team: Team,
    ) -> None:
        """Write into `out [*B, L, V]`, which is contiguous."""
        batch, (length, count) = out.shape[:-2], (out.shape[-2], inputs[1].shape[-2])
        rows = max(1, scratch.SIZES.attention_elements // max(1, count))
        views = [_spread(x, batch) for x in inputs]
        more = [None if x is None else _spread(x, batch) for x in (bias, sink)]
        # Small matrices of the last axes are computed together.
        sizes = [math.prod(batch[axis:]) * length * count for axis in range(len(batch))]
        apart = next((a for a, size in enumerate(sizes) if size <= FEW_SCORES), len(batch))
        blocks = [(at, p) for at in np.ndindex(*batch[:apart]) for p in pieces(length, rows)]

        def work(item: tuple[tuple[int, ...], slice], space: Space) -> None:
            at, part = item
            query, key, value = (x[at] for x in views)
            others = [None if x is None else _rows(x[at], part) for x in more]
            matrices = _rows(query, part), key, value, out[at][..., part, :]
            make(self._calls(matrices, others, part, space))

        team.each(blocks, work)

    def _scores(
        self, query: Array, key: Array, bias: Array | None, part: slice, space: Space
    ) -> NumPyCalls:
        """Return the calls for the exponents; the smaller factor is scaled."""
        factor, seen = np.array(self._factor(query.shape[-1]), query.dtype), key.shape[-2]
        less = min(query, key, key=lambda x: x.size)
        scaled = space.array(less.shape, query.dtype)
        yield np.multiply, (less, factor), scaled
        query, key = (scaled, key) if less is query else (query, scaled)
        weights = space.array((*query.shape[:-1], seen), query.dtype)
        yield np.matmul, (query, key.swapaxes(-1, -2)), weights
        if bias is not None:
            yield np.add, (weights, bias), weights
        if self.causal:  # only the last columns are hidden from some rows
            later = np.arange(part.start, seen) > np.arange(part.start, part.stop)[:, None]
            yield partial(_hide, later), (), weights[..., part.start :]
        return weights

    def _calls(
        self,
        matrices: tuple[Array, Array, Array, Array],
        more: Sequence[Array | None],
        part: slice,
        space: Space,
    ) -> NumPyCalls:
        """Return the calls for the queries of a part: matrices q, k, v and out; bias and sink."""
        (query, key, value, out), (bias, sink) = matrices, more
        seen = min(key.shape[-2], part.stop) if self.causal else key.shape[-2]
        weights = yield from self._scores(query, key[..., :seen, :], bias, part, space)
        top = space.array((*query.shape[:-1], 1), out.dtype)
        if sink is None and seen:
            yield _lower, (-1, weights, top), weights
        else:
            yield _most, (weights,), top
            if sink is not None:
                yield larger, (top, sink), top
            yield np.subtract, (weights, top), weights
        yield np.exp, (weights,), weights
        total = np.zeros(top.shape, out.dtype)
        if seen:
            sums = yield from _sum(weights.reshape(-1, seen, 1), space, out.shape[-1])
            total = sums.reshape(*query.shape[:-1], -1)
        if sink is not None:
            yield np.subtract, (sink, top), top
            yield np.exp, (top,), top
            yield np.add, (total, top), total
        yield np.matmul, (weights, value[..., :seen, :]), out
        yield np.divide, (out, total), out
        return out


FEW_SCORES = 1 << 15  # of matrices whose calls would take longer than their elements


def _most(x: Array, out: Array) -> None:
    largest_along(x, -1, None, out, True, -np.inf)


def _hide(places: Array, out: Array) -> None:
    np.copyto(out, -np.inf, where=places)


def _spread(x: Array, batch: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, (*batch, *x.shape[-2:]))


def _rows(x: Array, part: slice) -> Array:
    return x[..., part, :] if x.shape[-2] > 1 else x
