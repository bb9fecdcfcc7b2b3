"""How fast the processor is: a profile of a few times, of which the costs of kernels are made.

The rates of the kernels' cost formulas were fitted on one processor, whose profile is `FITTED`;
`shared.rates` turns them into those of another. Without a calibration of this machine a packaged
profile is taken, by what OpenBLAS has chosen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cache

from irdeconv.kernels.shared.blas import blas_cores


@dataclass(frozen=True, kw_only=True)
class MachineProfile:
    """Nanoseconds on one thread, of f32."""

    product: float  # a multiply-add of NumPy's matrix product
    sums: float  # a vector of products that the micro-kernel adds
    copy: float  # an element that is copied in a cache
    far: float  # an element that is copied from memory to memory
    strided: float  # an element that is written beside another
    added: float  # an element of a sum of two arrays
    call: float  # a call of NumPy from Python
    compiled: float  # a call of a compiled function from Python
    wake: float  # until a thread that sleeps works

    def over(self, other: MachineProfile) -> MachineProfile:
        """Return each number as a multiple of another profile's."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return MachineProfile(**{name: mine / its for (name, mine), its in pairs})


NUMBERS = tuple(f.name for f in fields(MachineProfile))
FITTED = MachineProfile(
    product=0.0175,
    sums=0.162,
    copy=0.044,
    far=0.208,
    strided=0.266,
    added=0.070,
    call=650.0,
    compiled=445.0,
    wake=18_800.0,
)
# OpenBLAS names the kernels that it chose by a processor. How many bits the vectors of these have,
# and how long a product takes, as a multiple of the fitted profile's.
USUAL_BITS = 256
CORES = {
    512: frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"}),
    128: frozenset({"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Athlon"}),
}
PRODUCTS = {512: 0.52, USUAL_BITS: 1.0, 128: 2.8}
PACKAGED = {
    f"vectors of {bits} bits": replace(FITTED, product=times * FITTED.product)
    for bits, times in PRODUCTS.items()
}


@cache
def multiplies_in_place() -> bool:
    """Whether OpenBLAS multiplies small matrices where they lie; its other kernels pack them all.

    Rows that lie a multiple of 4 KiB apart then compete for the same places in the first cache.
    """
    return bool(CORES[512] & blas_cores())


def packaged_name() -> str:
    """Return which packaged profile is this processor's."""
    found = (bits for bits, names in CORES.items() if names & blas_cores())
    return f"vectors of {next(found, USUAL_BITS)} bits"
