"""Depthwise convolution of small planes: one product of whole tensors for each tap.

All planes lie one behind the other, so each tap reads them a number of elements further on. Its
weights are laid out like the output, with a 0 wherever the tap leaves the plane: there it reads
another row or plane. With a stride the input is first split modulo the stride. Infinities and NaN
then reach outputs beside those that see them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.candidate import Candidate, ConvProblem, Epilogue, Fix, Kernel, Piece, deliver
from irdeconv.kernels.convolution import (
    Blockwise,
    Conv3d,
    Work,
    as_conv3d,
)
from irdeconv.kernels.numpy_calls import add_along
from irdeconv.kernels.recorded_calls import Calls, in_turn, remade
from irdeconv.kernels.scratch import Space

Phase = tuple[int, ...]
TAP_PASSES = 2.6  # additions that take as long as a product and its addition


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernel, if planes have one channel each, are small, and no larger than others."""
    conv = as_conv3d(problem)
    one = conv.channels == conv.outputs == 1 < conv.groups and conv.taps > 1
    few = conv.taps * conv.groups * conv.plane <= scratch.SIZES.shifted_elements
    if not (one and few) or conv.compute.kind != "f" or jit.available():
        return []
    shifts = shifts_of(conv)
    if shifts is None:
        return []
    taps, work, size = shifts, Work(conv), conv.groups * conv.plane
    phases, times = {phase for phase, _ in taps}, conv.images
    work.blocks, work.steps, work.added = times, 3 * times, TAP_PASSES * times * conv.taps * size
    strided = max(a.stride for a in conv.axes) > 1
    run = max(conv.sizes[1:])
    work.copy(len(phases) * times * size, run, strided)
    work.scratch = size * (conv.taps + 2 * len(phases))

    def prepare(w: Array) -> Kernel:
        return Shifted(conv, range(conv.images), laid_out(conv, conv.filter(w)), tuple(taps))

    return [replace(work.candidate("shifted", prepare), spreads=True)]


def shifts_of(conv: Conv3d) -> list[tuple[Phase, int]] | None:
    """Return for each tap which part of the input it reads, and how many elements further on.

    None if that part has more positions along an axis than the output.
    """
    pitch = [math.prod(conv.sizes[axis + 1 :]) for axis in range(3)]
    found = []
    for k in np.ndindex(*(a.kernel for a in conv.axes)):
        phase, shift = [], 0
        for axis, tap, step in zip(conv.axes, k, pitch, strict=True):
            far, near = divmod(tap * axis.dilation - axis.begin, axis.stride)
            if axis.reach(tap)[0].stop + far > axis.out:
                return None
            phase.append(near)
            shift += far * step
        found.append((tuple(phase), shift))
    return found


def laid_out(conv: Conv3d, w: Array) -> Array:
    """Return `w [g, 1, 1, depth, row, column]` as `[taps, g * positions]`."""
    full = np.zeros((conv.taps, conv.groups, *conv.sizes), w.dtype)
    for place, k in zip(full, np.ndindex(*w.shape[3:]), strict=True):
        inside: Any = tuple(a.reach(t)[0] for a, t in zip(conv.axes, k, strict=True))
        place[(slice(None), *inside)] = w[(slice(None), 0, 0, *k)].reshape(-1, 1, 1, 1)
    return full.reshape(conv.taps, -1)


@dataclass(frozen=True)
class Shifted(Blockwise[int]):
    """A block is an image; `weights` see `laid_out`, `shifts` see `shifts_of`."""

    weights: Array
    shifts: tuple[tuple[Phase, int], ...]

    def _lies(self, x: Array) -> bool:
        return True  # it is copied

    def _fixed(self, x: Array, out: Array, b: int, finish: Fix) -> Piece:
        everything = slice(0, self.conv.groups), slice(0, self.conv.plane)
        work = remade(lambda space: self._calls(x[b], out[b], space))
        return in_turn([work], finish(out[b], b, *everything))

    def _block(self, x: Array, out: Array, b: int, epilogue: Epilogue | None, space: Space) -> None:
        conv, target = self.conv, out[b]
        total = target if conv.direct else space.array(target.shape, conv.compute)
        for call in self._calls(x[b], total, space):
            call()
        deliver(total, target, epilogue, b, slice(0, conv.groups), slice(0, conv.plane))

    def _calls(self, x: Array, total: Array, space: Space) -> Calls:
        """Return the calls for the planes `x [g, depth, row, column]` into `total`."""
        conv, size = self.conv, total.size
        margin = max(abs(shift) for _, shift in self.shifts)
        parts: dict[Phase, Array] = {}
        calls: Calls = []
        for phase in dict(self.shifts):
            flat = parts[phase] = space.array((size + 2 * margin,), conv.compute)
            pairs = zip(phase, conv.axes, strict=True)
            cut: Any = (slice(None), *(slice(p, None, a.stride) for p, a in pairs))
            given, planes = x[cut], flat[margin : margin + size].reshape(-1, *conv.sizes)
            seen: Any = tuple(map(slice, map(min, given.shape, planes.shape)))
            calls.append(partial(flat.fill, 0))
            calls.append(partial(np.copyto, planes[seen], given[seen]))
        terms = space.array((conv.taps, size), conv.compute)
        for (phase, shift), weights, term in zip(self.shifts, self.weights, terms, strict=True):
            read = parts[phase][margin + shift : margin + shift + size]
            calls.append(partial(np.multiply, read, weights, term))
        calls.append(partial(add_along, terms, 0, None, total.reshape(-1)))
        return calls
