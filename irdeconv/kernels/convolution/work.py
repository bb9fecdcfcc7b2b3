"""What a convolution kernel does, counted, and how long that takes on one thread.

The nanoseconds were fitted to measurements of several hundred layers, drawn at random and taken
from networks, on x86-64 cores. Only their proportions matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from irdeconv.kernels.convolution.conv3d import COLUMN, Conv3d
from irdeconv.kernels.convolution.frames import phase_shape
from irdeconv.kernels.shared.candidate import Candidate, Estimate, Kernel
from irdeconv.kernels.shared.products import call_cost, product_cost
from irdeconv.kernels.shared.rates import rate, scaled
from irdeconv.spec import Array

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
        self.product += count * max(0.0, product_cost(m, k, n) - call_cost())
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

    def candidate(
        self, name: str, prepare: Callable[[Array], Kernel], rates: WorkRates | None = None
    ) -> Candidate:
        """Return a candidate that costs what this work takes."""
        estimate = Estimate(scaled(rates or WORK), self.nanoseconds)
        scratch = int(self.scratch) * self.conv.itemsize
        items = max(1, int(self.blocks))
        return Candidate(name, estimate.cost, scratch, prepare, items=items, estimate=estimate)


FIXED = ("singles", "runs", "looped", "steps", "blocks", "groups")


@dataclass(frozen=True, kw_only=True)
class WorkRates:
    """Nanoseconds of f32 for one of each count in `Work`."""

    product: float = 0.933
    far: float = rate("far", 0.00823)
    cold: float = rate("far", 0.238)
    summed: float = rate("copy", 0.055)
    singles: float = rate("call", 21.9)
    copied: float = rate("copy", 0.1)
    runs: float = rate("call", 0.585)
    strided: float = rate("strided", 0.366)
    added: float = rate("added", 0.054)
    compiled: float = rate("sums", 0.00907)
    looped: float = rate("call", 10.5)
    steps: float = rate("call", 1710)
    blocks: float = rate("call", 5680)
    groups: float = rate("call", 10.5)


WORK = WorkRates()

# Of the compiled loops of depthwise layers.
DEPTHWISE = WorkRates(
    far=0.00746, copied=0.0811, runs=1.07, compiled=0.0106, looped=10.7, blocks=263, groups=47.3
)
