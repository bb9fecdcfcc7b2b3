"""What a convolution kernel does, counted, and how long that takes on one thread.

The nanoseconds were fitted to measurements of several hundred layers, drawn at random and taken
from networks, on an x86-64 core with 256-bit vectors. Only their proportions matter.
"""

from __future__ import annotations

from dataclasses import dataclass

VECTOR = 4  # rows of a product that the processor computes together


@dataclass
class Work:
    """Counts; `elements` of f32 unless said otherwise.

    `multiplied`: multiply-accumulates of products, rows rounded up; `packed`, `read`, `written`:
    elements of their left, right and result matrices; `summed`: elements read by products of one
    row; `copied`: elements gathered, in `runs` of neighbours; `strided`: elements gathered that do
    not lie next to each other; `added`: elements of additions; `compiled`: elements of compiled
    loops, `looped`: how many of these loops; `steps`: calls of NumPy; `blocks`;
    `groups`: products. `scratch`: elements of memory besides input, output and filter.
    """

    multiplied: float = 0
    packed: float = 0
    read: float = 0
    written: float = 0
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
    scratch: int = 0

    def product(self, m: int, k: int, n: int, count: float) -> None:
        """Count products `[m, k] @ [k, n]`."""
        self.groups += count
        if m == 1:
            self.summed += count * k * n
            return
        self.multiplied += count * -(-m // VECTOR) * VECTOR * k * n
        self.packed += count * m * k
        self.read += count * k * n
        self.written += count * m * n

    def copy(self, elements: float, run: int, strided: bool = False) -> None:
        """Count a copy whose innermost loops have `run` elements."""
        if strided:
            self.strided += elements
        else:
            self.copied += elements
        self.runs += elements / max(1, run)

    def nanoseconds(self, itemsize: int) -> float:
        """Return the estimated time; elements of f64 take twice that of f32."""
        scaled = {name: 1.0 if name in FIXED else itemsize / 4 for name in COST}
        return float(sum(getattr(self, n) * rate * scaled[n] for n, rate in COST.items()))


FIXED = ("runs", "looped", "steps", "blocks", "groups")
COST = {
    "multiplied": 0.022,
    "packed": 0.14,
    "read": 0.01,
    "written": 0.02,
    "summed": 0.04,
    "copied": 0.15,
    "runs": 0.5,
    "strided": 0.36,
    "added": 0.14,
    "compiled": 0.035,
    "looped": 15.0,
    "steps": 1600.0,
    "blocks": 4700.0,
    "groups": 110.0,
}
