"""Pooling by shifts of flat memory: windows of all positions at once, of which few are kept.

A shift of contiguous memory costs 0.1 ns per element where slices with a stride cost 0.2 to 0.8, so
it pays although windows are also computed where none starts, across the ends of rows as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.windows import WindowAxis, reads
from irdeconv.spec import Array


class FlatPass(NamedTuple):
    """One pass: ufunc(buffers[left], buffers[right] from `offset` on) into buffers[target].

    Buffer 0 is the source, 1 and 2 are spare. `lost` counts the elements at the end whose windows
    leave the memory.
    """

    left: int
    right: int
    offset: int
    lost: int
    target: int


@dataclass(frozen=True)
class FlatPooling:
    """Planes `[*I]` pooled into `[*O]`.

    `need` is the part of each axis that windows reach, `picked` where windows start there,
    `padded` says that planes are first copied between borders.
    """

    axes: tuple[WindowAxis, ...]
    need: tuple[int, ...]
    padded: bool
    passes: tuple[FlatPass, ...]
    picked: tuple[slice, ...]
    result: int

    @staticmethod
    def of(axes: Sequence[WindowAxis], *, idempotent: bool) -> FlatPooling:
        """Return the plan; `idempotent` says that a tap may be combined twice (maximum)."""
        need = tuple(a.span(a.out) for a in axes)
        padded = any(a.begin or n > a.size for a, n in zip(axes, need, strict=True))
        if not padded:
            need = tuple(a.size for a in axes)
        passes = _passes(axes, need, idempotent)
        picked = (
            slice(None),
            *(slice(0, (a.out - 1) * a.stride + 1, a.stride) for a in axes),
        )
        return FlatPooling(
            axes=tuple(axes),
            need=need,
            padded=padded,
            passes=passes,
            picked=picked,
            result=passes[-1].target if passes else 0,
        )

    @property
    def cost(self) -> float:
        """Estimated nanoseconds for one plane."""
        whole = math.prod(self.need)
        outputs = math.prod(a.out for a in self.axes)
        return whole * (0.1 * len(self.passes) + 0.25 * self.padded) + 0.4 * outputs

    def run(self, planes: Array, ufunc: Any, start: Any, kind: Any, space: Space) -> Array:
        """Return the results `[planes, *O]` as a view of scratch memory or of the planes."""
        source = self._source(planes, start, kind, space)
        size = source.size
        buffers = [source.reshape(-1)]
        buffers += [space.array((size,), kind) for _ in self.passes[:2]]
        for left, right, offset, lost, target in self.passes:
            keep = size - lost
            ufunc(
                buffers[left][:keep],
                buffers[right][offset : offset + keep],
                out=buffers[target][:keep],
            )
        results: Array = buffers[self.result].reshape(source.shape)[self.picked]
        return results

    def _source(self, planes: Array, start: Any, kind: Any, space: Space) -> Array:
        if not self.padded and planes.dtype == kind and planes.flags.c_contiguous:
            return planes
        out = space.array((len(planes), *self.need), kind)
        into, source = [slice(None)], [slice(None)]
        for axis, need in zip(self.axes, self.need, strict=True):
            target, read = reads(axis.size, 1, -axis.begin, need)
            into.append(target)
            source.append(read)
        if self.padded:
            out[...] = start
        out[tuple(into)] = planes[tuple(source)]
        return out


def _passes(
    axes: Sequence[WindowAxis], need: Sequence[int], idempotent: bool
) -> tuple[FlatPass, ...]:
    """Return the passes, last axis first: widths double where taps may be combined twice."""
    out: list[FlatPass] = []
    now, lost = 0, 0
    for a in reversed(range(len(axes))):
        step = axes[a].dilation * math.prod(need[a + 1 :])
        kernel, width, base = axes[a].kernel, 1, now
        while width < kernel:
            shift = min(width, kernel - width) if idempotent else 1
            spare = 2 if now == 1 else 1
            if idempotent:
                out.append(FlatPass(now, now, shift * step, lost + shift * step, spare))
                lost += shift * step
                now = spare
            elif width == 1:
                out.append(FlatPass(base, base, step, lost + step, spare))
                now = spare
            else:  # adds to what the pass before has made
                out.append(FlatPass(now, base, width * step, lost + width * step, now))
            width += shift
        if not idempotent:
            lost += (kernel - 1) * step
    return tuple(out)
