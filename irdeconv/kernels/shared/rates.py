"""The rates of the kernels' cost formulas on this machine.

Rates were fitted on one processor. Each is a multiple of one number of its profile, so on another
processor it is as much larger or smaller as that number is there. The same profile always chooses
the same kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, TypeVar

from irdeconv.kernels.shared.calibrated import calibrated
from irdeconv.kernels.shared.machine import FITTED, NUMBERS, PACKAGED, MachineProfile, packaged_name

R = TypeVar("R")
NUMBER = "number"  # of the profile, which a field of a record of rates is a multiple of


def rate(number: str, value: float | None = None) -> Any:
    """Declare a rate: of which number of a profile it is a multiple, and the nanoseconds."""
    told = {NUMBER: number}
    return field(metadata=told) if value is None else field(default=value, metadata=told)


@dataclass
class _InForce:
    """The profile that costs are made of; None before it is looked for."""

    profile: MachineProfile | None = None


_NOW = _InForce()


def profile() -> MachineProfile:
    """Return the profile in force: that of a calibration, else a packaged one."""
    if _NOW.profile is None:
        _NOW.profile = calibrated().profile or PACKAGED[packaged_name()]
    return _NOW.profile


@cache
def relative() -> MachineProfile:
    """Return how many times as long things take as where the rates were fitted."""
    return profile().over(FITTED)


@cache
def scaled(rates: R) -> R:
    """Return a record's rates on this machine, always the same object."""
    found: R = _times(rates, relative())
    return found


def unscaled(rates: R) -> R:
    """Return what a record must hold for these to be its rates on this machine."""
    found: R = _times(rates, MachineProfile(**dict.fromkeys(NUMBERS, 1.0)).over(relative()))
    return found


def _times(rates: Any, by: MachineProfile) -> Any:
    told = {f.name: f.metadata.get(NUMBER) for f in fields(rates)}
    return replace(
        rates, **{n: getattr(rates, n) * getattr(by, of) for n, of in told.items() if of}
    )


@contextmanager
def using(another: MachineProfile) -> Iterator[None]:
    """Let costs be those of another profile, for tests and tools, one thread at a time."""
    before = _NOW.profile
    try:
        take(another)
        yield
    finally:
        take(before)


def take(another: MachineProfile | None) -> None:
    """Make costs of another profile from now on; None: look for it anew."""
    _NOW.profile = another
    relative.cache_clear()
    scaled.cache_clear()
