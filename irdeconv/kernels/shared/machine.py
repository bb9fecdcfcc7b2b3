"""How fast the processor is, next to the one to which the costs of kernels were fitted.

Costs are counts times rates in nanoseconds. What differs most between processors is how long
NumPy's matrix product takes next to everything else, so its rates are multiplied by what is known
of the processor here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from irdeconv.kernels.shared.blas import blas_cores


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Times relative to the fitted ones."""

    name: str
    product: float = 1.0  # NumPy's matrix product
    sums: float = 1.0  # a vector of the micro-kernel's products


USUAL = Machine(name="vectors of 256 bits")
WIDE = Machine(name="vectors of 512 bits", product=0.52)
# OpenBLAS names the kernels that it chose by a processor.
WIDE_CORES = frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"})


@cache
def machine() -> Machine:
    """Return what is known of this processor."""
    return WIDE if WIDE_CORES & blas_cores() else USUAL
