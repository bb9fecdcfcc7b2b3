"""What a convolution kernel does, counted, and how long that takes on one thread.

The nanoseconds were fitted to measurements of several hundred layers, drawn at random and taken
from networks, on an x86-64 core with 256-bit vectors. Only their proportions matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from irdeconv.kernels.convolution.conv3d import COLUMN, Conv3d
from irdeconv.kernels.convolution.frames import phase_shape
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.candidate import Candidate, Estimate, Kernel
from irdeconv.kernels.shared.products import lanes, tile
from irdeconv.kernels.shared.rates import rate, scaled
from irdeconv.spec import Array

NEAR_CACHE = 1 << 18  # elements of a matrix that is still near when it is read again
VECTOR = 4  # rows of a product that the processor computes together
AT_LEAST = 8  # rows of a small product that take as long as fewer, and terms as its sums do


@dataclass
class Work:
    """Counts of a kernel's work, elements unless said otherwise.

    `multiplied`: multiply-accumulates of products, rows rounded up; `tiled`: those of products that
    the BLAS computes where the operands lie, rounded up; `packed`, `read`: left and right
    matrices of the others; `written`: results of both; `far`: those of them that do not fit a near
    cache, `cold` those that come from main memory; `summed`: matrices multiplied by a single row;
    `copied`: elements gathered, in `runs` of neighbours, `strided`: those that are no neighbours;
    `added`: additions; `compiled`: elements of compiled loops; `looped`: short inner loops;
    `steps`: calls of NumPy; `blocks`; `groups`: products or planes. `scratch`: memory besides
    input, output and the filter as given.
    """

    conv: Conv3d
    multiplied: float = 0
    tiled: float = 0
    packed: float = 0
    read: float = 0
    written: float = 0
    far: float = 0
    cold: float = 0
    summed: float = 0
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

    def product(self, m: int, k: int, n: int, count: float) -> None:
        """Count products `[m, k] @ [k, n]`."""
        self.groups += count
        if m == 1:
            self.summed += count * k * n
            return
        rows, columns = tile(m, k, n)
        if rows or m * k * n <= blocking.SIZES.small_macs:
            width = columns or n
            self.tiled += count * max(m, AT_LEAST) * (k + AT_LEAST) * n * lanes(width) / width
        else:
            self.multiplied += count * -(-m // VECTOR) * VECTOR * k * n
            self.packed += count * m * k
            self.read += count * k * n
        self.written += count * m * n
        self.far += count * sum(size for size in (m * k, k * n, m * n) if size > NEAR_CACHE)

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
        """Count the memory of a block that is converted, where sums have a wider type."""
        if not self.conv.direct:
            self.scratch += inputs + outputs

    def nanoseconds(self, rates: WorkRates) -> float:
        """Return the estimated time; elements of f64 take twice that of f32."""
        size = self.conv.itemsize / 4
        scaled = ((n, rate if n in FIXED else rate * size) for n, rate in vars(rates).items())
        return float(sum(getattr(self, n) * rate for n, rate in scaled))

    def candidate(self, name: str, prepare: Callable[[Array], Kernel]) -> Candidate:
        """Return a candidate that costs what this work takes."""
        estimate = Estimate(scaled(WORK), self.nanoseconds)
        scratch = int(self.scratch) * self.conv.itemsize
        items = max(1, int(self.blocks))
        return Candidate(name, estimate.cost, scratch, prepare, items=items, estimate=estimate)


FIXED = ("runs", "looped", "steps", "blocks", "groups")


@dataclass(frozen=True, kw_only=True)
class WorkRates:
    """Nanoseconds of f32 for one of each count in `Work`."""

    multiplied: float = rate("product", 0.0199)
    tiled: float = rate("product", 0.0146)
    packed: float = rate("copy", 0.0253)
    read: float = rate("copy", 0.00572)
    written: float = rate("copy", 0)
    far: float = rate("far", 0.0934)
    cold: float = rate("far", 0.215)
    summed: float = rate("copy", 0.0141)
    copied: float = rate("copy", 0.14)
    runs: float = rate("call", 1.14)
    strided: float = rate("strided", 0.234)
    added: float = rate("added", 0.16)
    compiled: float = rate("sums", 0.0107)
    looped: float = rate("call", 14)
    steps: float = rate("call", 1096)
    blocks: float = rate("call", 5758)
    groups: float = rate("call", 101)


WORK = WorkRates()
