"""How long kernels take that pass over memory with NumPy: phases, terms, wide, multiples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irdeconv.kernels.deconvolution.blocks import OutputBlock
from irdeconv.kernels.shared.candidate import Candidate, Estimate
from irdeconv.kernels.shared.products import CALL
from irdeconv.kernels.shared.rates import rate, scaled


@dataclass
class Passes:
    """Counts of what a kernel does: elements of f32 unless said otherwise.

    `product`: nanoseconds that its products alone would take; `items` of work; `calls` of NumPy;
    `copied`; `rows` of copies, sums and stores, the innermost loops; `written` to places beside
    each other's; `filled` with zeros, where no tap reaches; `added`.
    """

    product: float = 0
    items: float = 0
    calls: float = 0
    copied: float = 0
    rows: float = 0
    written: float = 0
    filled: float = 0
    added: float = 0

    def fill(self, block: OutputBlock, channels: int, times: float) -> None:
        """Count the zeros of a block that has positions which no tap reaches."""
        if not block.covered:
            size = math.prod(part.outputs for part in block.parts)
            self.filled += times * block.count * channels * size

    def add(self, other: Passes, times: float) -> None:
        """Count another's work so many times."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + times * value)

    def nanoseconds(self, rates: NumpyRates) -> float:
        """Return the estimated time."""
        return float(sum(value * getattr(rates, name) for name, value in vars(self).items()))

    def candidate(
        self, name: str, rates: NumpyRates, scratch: int, prepare: Callable[..., Any]
    ) -> Candidate:
        """Return a candidate that costs what this work takes."""
        estimate = Estimate(scaled(rates), self.nanoseconds)
        items = max(1, round(self.items))
        return Candidate(name, estimate.cost, scratch, prepare, items=items, estimate=estimate)


@dataclass(frozen=True, kw_only=True)
class NumpyRates:
    """Nanoseconds of one of each count in `Passes`."""

    product: float = 1.0
    items: float = rate("call", 5000.0)
    calls: float = rate("call", CALL)
    copied: float = rate("copy", 0.2)
    rows: float = rate("call", 13.0)
    written: float = rate("strided", 0.35)
    filled: float = rate("copy", 0.06)
    added: float = rate("added", 0.2)


PHASES = NumpyRates(
    product=1.01,
    items=5910,
    calls=1680,
    copied=0.0798,
    rows=0.995,
    written=0.271,
    filled=0.0425,
    added=0.2,
)
TERMS = NumpyRates(
    product=0.991,
    items=5570,
    calls=326,
    copied=0.204,
    rows=1.92,
    written=0.247,
    filled=0.0356,
    added=0.0684,
)
PADDED = NumpyRates(
    product=1.036,
    items=15870,
    calls=569,
    copied=0.0696,
    rows=2.53,
    written=0.165,
    filled=0.06,
    added=0.0657,
)
WIDE = NumpyRates(
    product=1.051,
    items=11870,
    calls=4423,
    copied=0.1125,
    rows=3.86,
    written=0.1325,
    filled=0.06,
    added=0.2,
)
MULTIPLES = NumpyRates(
    product=1, items=0, calls=2670, copied=0.2, rows=4.7, written=0.323, filled=0.0314, added=0.2
)
