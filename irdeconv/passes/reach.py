"""Which outputs a lowering form multiplies a tap or an input element with, axis by axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from irdeconv.passes.site import DeconvolutionSite
from irdeconv.passes.subpixel import narrowest
from irdeconv.spec import Array

AxisReach = Callable[[DeconvolutionSite, int, Array], Array]


@dataclass(frozen=True)
class Reach:
    """How far a bad value spreads along one axis of a site (float32, 1 where it does).

    For some outputs `taps` returns [O, K], where an output multiplies anything with a tap, `inputs`
    [O, I], where it multiplies an input element with anything.
    """

    taps: AxisReach
    inputs: AxisReach


def every_output(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """Every tap reaches every output."""
    return np.ones((len(outputs), site.kernel[axis]), np.float32)


def outputs_of_residue(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches all outputs of its residue."""
    return _taps(site, axis, outputs)[0].astype(np.float32)


def tap_by_definition(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """A tap reaches o with o + pads_begin = s*S + k*D, s in 0..I."""
    meets, source = _taps(site, axis, outputs)
    return (meets & (source >= 0) & (source < site.size[axis])).astype(np.float32)


def _taps(site: DeconvolutionSite, axis: int, outputs: Array) -> tuple[Array, Array]:
    """Return [O, K]: whether a tap belongs to an output's residue, and the input that it meets."""
    taps = np.arange(site.kernel[axis])
    at = outputs[:, None] + site.begin[axis] - taps * site.dilations[axis]
    return at % site.strides[axis] == 0, at // site.strides[axis]


def input_by_definition(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """An input element reaches o with o + pads_begin = s*S + k*D, k in 0..K."""
    inputs = np.arange(site.size[axis])
    at = outputs[:, None] + site.begin[axis] - inputs * site.strides[axis]
    tap = at // site.dilations[axis]
    meets = (at % site.dilations[axis] == 0) & (tap >= 0) & (tap < site.kernel[axis])
    return np.asarray(meets, np.float32)


def outputs_of_span(site: DeconvolutionSite, axis: int, outputs: Array) -> Array:
    """An input element reaches the outputs whose widened filter spans it."""
    stacked = narrowest(site.axes[axis], site.size[axis])
    residues = [r for r in stacked.residues if r.taps]
    low, high = min(r.first for r in residues), max(r.first + r.extent for r in residues)
    inputs = np.arange(site.size[axis])
    offset = inputs - (outputs[:, None] + stacked.front) // site.strides[axis]
    return np.asarray((offset >= low) & (offset < high), np.float32)


BY_DEFINITION = Reach(tap_by_definition, input_by_definition)
