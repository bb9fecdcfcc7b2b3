"""Convolution and deconvolution of arrays, and the choice of their kernels.

    convolution:    y[o] = sum over k of x[o*S + k*D - begin] * w[k],  0 outside of x
    deconvolution:  full[s*S + k*D] += x[s] * w[k],  y[o] = full[o + begin],  0 outside of full

At stride 1 each is the other. A plan prepares its kernels once. Letters: see `candidate.py`. IEEE
754 is followed silently: Inf and NaN in the data are results, not warnings.

`compile_kernels` compiles what this processor's kernels need, so that no run waits for it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.ir.spec import Array
from irdeconv.kernels import (
    convolution_depthwise,
    convolution_direct,
    convolution_im2col,
    convolution_rows,
    convolution_shifted,
    deconvolution_direct,
    deconvolution_phases,
    deconvolution_terms,
    deconvolution_winograd,
    jit,
)
from irdeconv.kernels.candidate import (
    ZERO,
    Candidate,
    ConvProblem,
    FixedKernel,
    Kernel,
    reversed_filter,
)
from irdeconv.kernels.convolution import MOST_AXES
from irdeconv.kernels.deconvolution import axes_of
from irdeconv.kernels.deconvolution_phases import separable
from irdeconv.kernels.jit import retried
from irdeconv.kernels.panels import own_tiles, step_name
from irdeconv.kernels.products import convolve_in_order, deconvolve_in_order, in_order
from irdeconv.kernels.threads import Threads, arithmetic

# Each lists its kernels for a problem, perhaps none.
KERNELS = (
    convolution_im2col.pointwise_candidates,
    convolution_im2col.candidates,
    convolution_depthwise.depthwise_candidates,
)
# They list their kernels for a deconvolution, maybe none; these transform nothing.
DIRECT: tuple[Callable[..., list[Candidate]], ...] = (
    deconvolution_terms.candidates,
    deconvolution_phases.candidates,
    deconvolution_phases.single_candidates,
)
FAR_APART = 16  # the stride from which on `wide` moves outputs faster than `residues`
# Kernels of convolutions and of deconvolutions were measured apart: the part of the cost of the
# one that the other may take at most, and the same if both transform tiles.
OTHER_WAY = 0.8
OTHER_WAY_TILES = 0.9
CONVERT = 0.7  # ns per element read or written
UNSEEN = 6000  # ns of small layers that the cost formulas of convolutions leave out


def convolution_candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution, the cheapest first; at least one.

    1 to 3 spatial axes, any pads. Element types are floats, or integers of 32 and 64 bits, which
    wrap. The filter given to `prepare` is `[g, M/g, C/g, *K]`. An output without anything to sum is
    zero.
    """
    if problem.empty:
        return [ZERO]
    compiled = convolution_direct.candidates(problem)
    # If `direct` is listed it is as fast as `interleaved`, or faster.
    plain = convolution_rows.candidates, convolution_shifted.candidates
    listing = KERNELS if compiled else (*KERNELS, *plain)
    candidates = compiled + [c for kernels in listing for c in kernels(problem)]
    return sorted(candidates, key=lambda c: c.cost)


def for_convolution(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a convolution, the cheapest first; deconvolutions if far cheaper."""
    candidates = convolution_candidates(problem)
    if not problem.empty and problem.compute.kind == "f" and not problem.narrow:
        least = candidates[0].cost
        candidates += [
            c
            for c in as_deconvolution(problem, least)
            if c.cost < (OTHER_WAY_TILES if c.transforms else OTHER_WAY) * least
        ]
    return sorted(candidates, key=lambda c: c.cost)


def as_deconvolution(problem: ConvProblem, limit: float = math.inf) -> list[Candidate]:
    """Return kernels for a convolution of stride 1 as a deconvolution, within `limit` ns."""
    if any(s != 1 for s in problem.strides):
        return []

    back = problem.reversed
    found = deconvolution_phases.single_candidates(back)
    found += deconvolution_winograd.candidates(back, limit)
    return [_turned(c, back) for c in found]


def _turned(candidate: Candidate, back: ConvProblem) -> Candidate:
    """Give a candidate for the problem `back`, which is reversed, the filter that it expects."""

    def turned(w: Array) -> Array:
        return np.ascontiguousarray(reversed_filter(w), back.compute)

    return candidate.changed(lambda cut: cut.given(turned))


def for_deconvolution(problem: ConvProblem, *, direct: bool = False) -> list[Candidate]:
    """Return the kernels for a deconvolution of floats, the cheapest first; at least one.

    `direct`: only those that multiply every input with every tap as the definition does. Each sum
    has the definition's products and no others but zeros; only their order differs.
    """
    if problem.empty:
        return [ZERO]
    candidates = deconvolution_direct.candidates(problem)
    listing = DIRECT
    if not candidates or problem.strides[-1] >= FAR_APART:
        listing = (*DIRECT, deconvolution_terms.wide_candidates)
    if not direct:
        listing = (*listing, deconvolution_winograd.candidates)
    candidates += [c for kernels in listing for c in kernels(problem)]
    candidates += as_convolution(problem)
    if direct:
        candidates = [c for c in candidates if not (c.transforms or c.spreads)]
    else:
        candidates = [c.changed(partial(separable, problem)) for c in candidates]
    if problem.compute.kind == "f":
        alone = deconvolution_terms.candidates(problem)[0]
        candidates = [c.changed(partial(_with_finite_filters, alone)) for c in candidates]
    if problem.narrow:
        candidates = [c.changed(partial(_converting, problem)) for c in candidates]
    return sorted(candidates, key=lambda c: c.cost)


def _with_finite_filters(alone: Candidate, candidate: Candidate) -> Candidate:
    """Leave filters with infinities or NaN to a kernel of the definition's products alone.

    The others multiply zeros around the inputs as well, which is NaN then.
    """

    def prepare(w: Array) -> Kernel:
        return (candidate if np.isfinite(w).all() else alone).prepare(w)

    return replace(candidate, prepare=prepare)


def as_convolution(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels for a deconvolution of stride 1, which is a convolution."""
    if problem.rank > MOST_AXES or any(s != 1 for s in problem.strides):
        return []

    back = problem.reversed

    def named(c: Candidate) -> Candidate:
        return replace(c, name=f"convolution {c.name}", cost=c.cost + UNSEEN)

    return [_turned(c, back).changed(named) for c in convolution_candidates(back)]


def _converting(problem: ConvProblem, candidate: Candidate) -> Candidate:
    """Add the cost of converting, by block, if floats narrower than f32 are summed in f32."""
    elements = math.prod(problem.shape) + math.prod(problem.out_shape)
    cost = candidate.cost + CONVERT * elements
    return replace(candidate.given(lambda w: w.astype(problem.compute)), cost=cost)


EXACT = ((np.dtype(np.float32), 2**24), (np.dtype(np.float64), 2**53))  # up to which integers are

Sums = Callable[[Array, Array, ConvProblem, Array], None]
"""Writes the sums of `(x, w, problem)` into a contiguous output; all of one type, nothing empty."""


def convolution(
    x: Array, w: Array, problem: ConvProblem, out: Array | None = None, sums: Sums | None = None
) -> Array:
    """Convolve `x [N,C,*I]` with `w [M,C/g,*K]` or `[g,M/g,C/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes are fast, more are possible. Pads may be negative (crop), windows may lie
    wholly in the padding. The element type is that of `x`: floats narrower than f32 are summed in
    f32 and rounded once, integers are exact and wrap. `out` may be any array of the result's shape
    and type. `sums` may be `prepared_sums()` of this filter.
    """
    w = (
        w
        if w.ndim == problem.rank + 3
        else w.reshape(problem.groups, len(w) // problem.groups, *w.shape[1:])
    )
    return _evaluate(x, w, problem, math.prod(w.shape[2:]), sums or _convolve, out)


def prepared_sums() -> Sums:
    """Return a function for one problem and one filter, whose kernels are prepared once."""
    kernels: dict[tuple[str, bool], Kernel] = {}

    def sums(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
        if in_order() or problem.rank > MOST_AXES:
            return _convolve(x, w, problem, out)
        key = problem.dtype, jit.available()
        if key not in kernels:
            kernels[key] = retried(lambda: _unspread(problem)[0].prepare(w))
        _LOCAL.team.begin()
        return kernels[key](x, out, None, _LOCAL.team)

    return sums


def deconvolution(x: Array, w: Array, problem: ConvProblem, out: Array | None = None) -> Array:
    """Deconvolve `x [N,C,*I]` with `w [g,C/g,M/g,*K]`: `[N,M,*O]`.

    1 to 3 spatial axes; any pads and output sizes. Element types and `out` are as for a
    convolution. No inserted zero is multiplied.  [semantics, the canonical form]
    """
    taps = math.prod(a.counts[0] if a.counts else 0 for a in axes_of(problem))
    return _evaluate(x, w, problem, w.shape[1] * taps, _deconvolve, out)


@np.errstate(all="ignore")
def _evaluate(
    x: Array, w: Array, problem: ConvProblem, terms: int, sums: Sums, out: Array | None
) -> Array:
    """Return `[N, M, *O]` in the element type of `x`, zero if nothing can be summed.

    `terms` bounds the number of products that meet in an output. Integers are exact and wrap.
    """
    y = np.empty(problem.out_shape, x.dtype) if out is None else out
    if 0 in y.shape or 0 in w.shape or 0 in x.shape:
        y[...] = 0
        return y
    # Kernels sum narrow floats in f32 themselves, tile by tile.
    itself = x.dtype.kind not in "iub" and problem.rank <= MOST_AXES and not in_order()
    dtype = x.dtype if itself else accumulator(x, w, terms)
    total = y if dtype == y.dtype and y.flags.c_contiguous else np.empty(y.shape, dtype)
    typed = replace(problem, dtype=dtype.name)
    sums(x.astype(dtype, copy=False), w.astype(dtype, copy=False), typed, total)
    return _store(total, y)


def accumulator(x: Array, w: Array, terms: int) -> np.dtype[Any]:
    """Return the type in which sums of `terms` products of x and w, not empty, are computed.

    f32 and f64 stay as they are, narrower floats use f32. Integers use a float type (fast matrix
    products) if every partial sum fits its mantissa, else 64-bit integers, whose wrap-around
    agrees with that of every narrower type.
    """
    if x.dtype in (np.float32, np.float64):
        return x.dtype
    if x.dtype.kind not in "iub":
        return np.dtype(np.float32)
    bound = terms * math.prod(max(abs(int(a.min())), abs(int(a.max()))) for a in (x, w))
    for dtype, limit in EXACT:
        if bound <= limit:
            return dtype
    return np.dtype(np.uint64 if x.dtype.kind == "u" else np.int64)


def _store(total: Array, out: Array) -> Array:
    """Write sums into `out`: floats are rounded once, integers wrap as NumPy's casts do."""
    if total is out:
        return out
    if out.dtype.kind in "iu" and total.dtype.kind == "f":
        # A cast from float to a narrow integer is undefined beyond its range; from i64 it wraps.
        total = total.astype(np.int64)
    np.copyto(out, total, casting="unsafe")
    return out


def _convolve(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    if in_order():
        convolve_in_order(x, w, problem, out)
    elif problem.rank > MOST_AXES:
        _plane_by_plane(x, w, problem, out)
    else:
        _once(lambda: _unspread(problem), x, w, out)


def _unspread(problem: ConvProblem) -> list[Candidate]:
    return [c for c in convolution_candidates(problem) if not c.spreads]


def _plane_by_plane(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    """Convolve as sums of convolutions without the first spatial axis."""
    lists = ("kernel", "strides", "dilations", "begin", "sizes")
    inner = {name: getattr(problem, name)[1:] for name in lists}
    rest = replace(problem, shape=(*x.shape[:2], *x.shape[3:]), **inner)
    out[...] = 0
    part = np.empty(rest.out_shape, out.dtype)
    for o in range(out.shape[2]):
        for k in range(w.shape[3]):
            at = o * problem.strides[0] + k * problem.dilations[0] - problem.begin[0]
            if 0 <= at < x.shape[2]:
                _convolve(x[:, :, at], w[:, :, :, k], rest, part)
                out[:, :, o] += part


def _deconvolve(x: Array, w: Array, problem: ConvProblem, out: Array) -> None:
    if in_order():
        deconvolve_in_order(x, w, problem, out)
    else:
        _once(lambda: for_deconvolution(problem, direct=True), x, w, out)


class _Local(threading.local):
    """A team per thread: scratch memory that stays mapped from call to call."""

    def __init__(self) -> None:
        self.team = Threads()


_LOCAL = _Local()


def _once(listed: Callable[[], list[Candidate]], x: Array, w: Array, out: Array) -> None:
    """Prepare the first kernel and run it."""
    kernel = retried(lambda: listed()[0].prepare(w))
    _LOCAL.team.begin()
    kernel(x, out, None, _LOCAL.team)


def _warm_layer(
    channels: int, outputs: int, groups: int, kernel: int, stride: int, begin: int, size: int
) -> ConvProblem:
    return ConvProblem(
        shape=(1, channels, WARM_SIDE, WARM_SIDE),
        outputs=outputs,
        groups=groups,
        kernel=(kernel,) * 2,
        strides=(stride,) * 2,
        dilations=(1, 1),
        begin=(begin,) * 2,
        sizes=(size,) * 2,
    )


WARM_SIDE = 20  # of inputs; every tile and transform fits in
# Small layers for which every compiled kernel is a candidate: the micro-kernel's tiles have
# different numbers of rows, and depthwise layers have a loop of their own.
CONVOLUTIONS = (
    *(_warm_layer(8, outputs, 1, 1, 1, 0, WARM_SIDE) for outputs in (6, 8, 12, 24)),
    _warm_layer(16, 16, 1, 3, 1, 1, WARM_SIDE),
    _warm_layer(16, 16, 1, 3, 2, 1, WARM_SIDE // 2),
    _warm_layer(8, 8, 8, 3, 1, 1, WARM_SIDE),
    _warm_layer(8, 8, 8, 3, 2, 1, WARM_SIDE // 2),
)
DECONVOLUTIONS = (
    _warm_layer(16, 16, 1, 2, 2, 0, 2 * WARM_SIDE),
    _warm_layer(16, 16, 1, 4, 2, 1, 2 * WARM_SIDE),
    _warm_layer(4, 4, 1, 3, 3, 0, 3 * WARM_SIDE),
    _warm_layer(8, 8, 8, 4, 2, 1, 2 * WARM_SIDE),
)


def compile_kernels() -> None:
    """Compile the calls of a table, then run every candidate of some layers; numba is there."""
    jit.load()
    import_module("irdeconv.kernels.compiled_recurrent")
    steps = import_module("irdeconv.kernels.compiled_records")
    steps.compile_all(map(step_name, own_tiles()))
    import_module("irdeconv.kernels.compiled_sharing").sharing()
    work = [(layer, c) for layer in CONVOLUTIONS for c in for_convolution(layer)]
    turned = [(layer, c) for layer in DECONVOLUTIONS for c in for_deconvolution(layer)]
    for layer, candidate in progress.each("trying kernels", work, name=lambda pair: pair[1].name):
        shape = layer.groups, layer.group_outputs, layer.group_inputs, *layer.kernel
        _try_kernel(layer, candidate, shape)
    for layer, candidate in progress.each("trying kernels", turned, name=lambda pair: pair[1].name):
        shape = layer.groups, layer.group_inputs, layer.group_outputs, *layer.kernel
        _try_kernel(layer, candidate, shape)


def _try_kernel(layer: ConvProblem, candidate: Candidate, shape: tuple[int, ...]) -> None:
    x, out = np.ones(layer.shape, np.float32), np.empty(layer.out_shape, np.float32)
    team = Threads(1)
    team.begin()
    kernel = candidate.prepare(np.ones(shape, np.float32))
    with arithmetic():
        kernel(x, out, None, team)
    if isinstance(kernel, FixedKernel):
        kernel.fixed(x, out, lambda tile, image, channels, positions: None)
