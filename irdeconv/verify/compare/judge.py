"""One layer under comparison: what it makes of the partner's inputs, and what rounding allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.op import Op
from irdeconv.spec import Array
from irdeconv.verify.compare import rounding
from irdeconv.verify.compare.carry import Error, carried
from irdeconv.verify.compare.difference import Allowed, roundoff, same_values


@dataclass(frozen=True)
class Followed:
    """The partner's value of a tensor, or what the graph makes of the partner's last values.

    `error` bounds how far it may be off the partner's, `terms` counts the roundings since the
    partner's last value. `all_terms` and `sound` look back to the inputs: the roundings on the
    longest way, and whether all layers on the way passed.
    """

    value: Array
    error: Error = 0.0
    terms: int = 0
    all_terms: int = 0
    sound: bool = True


@dataclass(frozen=True)
class Judge:
    """A layer, its inputs on the partner's side, its own outputs and those `made` of the former."""

    op: Op
    inputs: tuple[Followed, ...]
    outs: tuple[Array, ...]
    made: tuple[Array, ...]

    @staticmethod
    def of(
        op: Op, inputs: tuple[Followed, ...], arrays: list[Array], outs: tuple[Array, ...]
    ) -> Judge:
        """Compute the layer from the partner's inputs, where they differ from its own `arrays`."""
        values = [f.value for f in inputs]
        if all(map(same_values, values, arrays)):
            return Judge(op, inputs, outs, outs)
        try:
            return Judge(op, inputs, outs, rounding.evaluate(op, values))
        except Exception:  # the partner's tensors do not fit this layer, whatever it objects to
            own = zip(arrays, inputs, strict=True)
            kept = tuple(Followed(a, None, f.terms, f.all_terms, f.sound) for a, f in own)
            return Judge(op, kept, outs, outs)

    @property
    def arrays(self) -> list[Array]:
        """The input values."""
        return [f.value for f in self.inputs]

    def verdict(self, port: int, theirs: Array) -> tuple[Array, Allowed]:
        """Return what the partner's output should be and how far it may be off."""
        made = self.made[port]
        wanted = made if same_values(made, theirs) else self._precise[port]
        allowed = self._own[port]
        return wanted, limited(made, theirs, self._carried[port], self._terms(port), allowed)

    def bridged(self, port: int) -> Followed:
        """Return the output for its readers, where the partner does not have it."""
        made, error = self.made[port], self._carried[port]
        if error is not None and rounding.is_real(made) and not rounding.is_exact(self.op):
            error = error + 2 * np.asarray(self._own[port].limit)
        sound = all(f.sound for f in self.inputs)
        return Followed(made, error, self._terms(port), self._all_terms(port), sound)

    def seen(self, port: int, theirs: Array, *, passed: bool) -> Followed:
        """Return the partner's output for its readers."""
        mine = self.outs[port]
        value = mine if same_values(mine, theirs) else theirs
        if value.dtype != mine.dtype and value.dtype.kind not in "OSUT":
            with np.errstate(all="ignore"):
                value = value.astype(mine.dtype)
        sound = passed and all(f.sound for f in self.inputs)
        return Followed(value, 0.0, 0, self._all_terms(port), sound)

    @cached_property
    def _precise(self) -> tuple[Array, ...]:
        if not rounding.worth_precision(self.op, self.made):
            return self.made
        return rounding.precise(self.op, self.arrays, self.made)

    @cached_property
    def _own(self) -> tuple[Allowed, ...]:
        return rounding.allowed(self.op, self.arrays, self.made)

    @cached_property
    def _carried(self) -> list[Error]:
        return carried(self.op, self.arrays, [f.error for f in self.inputs], self.made)

    def _terms(self, port: int) -> int:
        before = max((f.terms for f in self.inputs), default=0)
        return before + rounding.local_terms(self.op, self.arrays, self.made[port])

    def _all_terms(self, port: int) -> int:
        before = max((f.all_terms for f in self.inputs), default=0)
        return before + rounding.local_terms(self.op, self.arrays, self.made[port]) + 1


def limited(made: Array, theirs: Array, error: Error, terms: int, own: Allowed) -> Allowed:
    """Join a layer's own bound, the error carried to it and the partner's element type.

    Bounds that were carried far grow beyond use, or there are none: then the roundings on the way
    count, each relative to the largest value.
    """
    found = own
    if not (isinstance(error, float) and error == 0):
        scaled = rounding.scaled(made, 2 * (terms + 1))
        found = scaled
        if error is not None:
            bound = np.asarray(own.limit + error)
            if not float(bound.max(initial=0.0)) > float(np.max(scaled.limit)):
                found = Allowed(bound, f"{own.rule} + carried")
    coarse = roundoff(theirs.dtype)
    if rounding.is_real(made) and coarse > roundoff(made.dtype):
        size = np.abs(made.astype(np.float64))
        # A partner with narrower tensors than an f64 layer's computes in single precision, from
        # rounded inputs: the factor 2 of f64 bounds (rounding.allowed) leaves room for these.
        coarser = max(1.0, min(coarse, rounding.SINGLE) / rounding.unit(made))
        found = Allowed(coarser * found.limit, found.rule)
        found = Allowed(found.limit + coarse * size, f"{found.rule} + u |y| of {theirs.dtype}")
    return found
