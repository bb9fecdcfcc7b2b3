"""Which kernels could compute a deconvolution, cheapest first."""

from __future__ import annotations

from irdeconv.kernels.deconv_phases import phases_candidates
from irdeconv.kernels.deconv_terms import terms_candidates
from irdeconv.kernels.prepared import Candidate, Epilogue, Kernel, Windows, finish
from irdeconv.kernels.team import Team
from irdeconv.spec import Array


def deconvolution_candidates(windows: Windows) -> list[Candidate]:
    """Return the kernels for a deconvolution of floats, sorted by estimated cost; at least one."""
    if 0 in windows.shape or 0 in windows.out_shape or not windows.taps:
        return [Candidate("zeros", 0.0, 0, lambda _: _zeros)]
    found = [*terms_candidates(windows), *phases_candidates(windows)]
    return sorted(found, key=lambda c: c.cost)


def _zeros(x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
    """Fill an output that no input reaches. A Kernel."""
    out[...] = 0
    if out.size:
        finish(out, epilogue, team)
