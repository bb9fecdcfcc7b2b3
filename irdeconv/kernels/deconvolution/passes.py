"""How long kernels take that pass over memory with NumPy: phases, terms, wide, multiples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irdeconv.kernels.shared.candidate import Candidate, Estimate
from irdeconv.kernels.shared.products import CALL
from irdeconv.kernels.shared.rates import rate, scaled


@dataclass
class Passes:
    """Counts of what a kernel does: elements of f32 unless said otherwise.

    `product`: nanoseconds that its products alone would take; `calls` of NumPy; `copied`; `rows` of
    copies, sums and stores, the innermost loops; `written` to places beside each other's; `added`.
    """

    product: float = 0
    calls: float = 0
    copied: float = 0
    rows: float = 0
    written: float = 0
    added: float = 0

    def add(self, other: Passes, times: float) -> None:
        """Count another's work so many times."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + times * value)

    def nanoseconds(self, rates: PassRates) -> float:
        """Return the estimated time."""
        return float(sum(value * getattr(rates, name) for name, value in vars(self).items()))

    def candidate(
        self, name: str, rates: PassRates, scratch: int, prepare: Callable[..., Any], **more: Any
    ) -> Candidate:
        """Return a candidate that costs what this work takes."""
        estimate = Estimate(scaled(rates), self.nanoseconds)
        return Candidate(name, estimate.cost, scratch, prepare, estimate=estimate, **more)


@dataclass(frozen=True, kw_only=True)
class PassRates:
    """Nanoseconds of one of each count in `Passes`."""

    product: float = 1.0
    calls: float = rate("call", CALL)
    copied: float = rate("copy", 0.2)
    rows: float = rate("call", 13.0)
    written: float = rate("strided", 0.35)
    added: float = rate("added", 0.2)


PHASES = PassRates(product=0.834, calls=2318, copied=0.108, rows=1.51, written=0.315, added=0.2)
TERMS = PassRates(product=1.07, calls=1131, copied=0.228, rows=3.72, written=0.254, added=0.0332)
PADDED = PassRates(product=0.908, calls=906, copied=0.154, rows=3.27, written=0.193, added=0.0511)
WIDE = PassRates(product=0.774, calls=2506, copied=0, rows=4.19, written=0.104, added=0.2)
MULTIPLES = PassRates(product=1, calls=1808, copied=0.2, rows=2.82, written=0.278, added=0.2)
