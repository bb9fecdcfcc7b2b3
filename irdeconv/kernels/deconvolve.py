"""Which kernels could compute a deconvolution, cheapest first."""

from __future__ import annotations

import numpy as np

from irdeconv.kernels.deconv_phases import phases_candidates
from irdeconv.kernels.deconv_separable import separable
from irdeconv.kernels.deconv_terms import terms_candidates
from irdeconv.kernels.deconv_wide import wide_candidates
from irdeconv.kernels.deconv_winograd import winograd_candidates
from irdeconv.kernels.narrow import narrow
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows, finish
from irdeconv.kernels.team import Team
from irdeconv.spec import Array


def deconvolution_candidates(windows: Windows) -> list[Candidate]:
    """Return the kernels for a deconvolution of floats, sorted by estimated cost; at least one."""
    found = direct_candidates(windows)
    if found[0].prepare is _no_terms:
        return found
    if _is_narrow(windows):
        return sorted(narrow(windows, deconvolution_candidates), key=lambda c: c.cost)
    found = [separable(windows, c) for c in [*found, *winograd_candidates(windows)]]
    return sorted(found, key=lambda c: c.cost)


def direct_candidates(windows: Windows) -> list[Candidate]:
    """Return those kernels that multiply every input with every tap as the definition does.

    Each sum has the definition's products and no others but zeros; only their order differs.
    """
    if 0 in windows.shape or 0 in windows.out_shape or not windows.taps:
        return [Candidate("zeros", 0.0, 0, _no_terms)]
    if _is_narrow(windows):
        return sorted(narrow(windows, direct_candidates), key=lambda c: c.cost)
    found = [
        *terms_candidates(windows),
        *phases_candidates(windows),
        *wide_candidates(windows),
    ]
    return sorted(found, key=lambda c: c.cost)


def _is_narrow(windows: Windows) -> bool:
    return np.dtype(windows.dtype).itemsize < 4


def _no_terms(_: Array) -> Kernel:
    return _zeros


def _zeros(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Fill an output that no input reaches. A Kernel."""
    out[...] = 0
    if out.size:
        finish(out, epilogue, team)
