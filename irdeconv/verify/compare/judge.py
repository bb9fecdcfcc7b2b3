"""One layer under comparison: what it makes of the partner's inputs, and what rounding allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from irdeconv.op import Op
from irdeconv.spec import Array
from irdeconv.verify.compare import rounding
from irdeconv.verify.compare.carry import Error, carried
from irdeconv.verify.compare.difference import Allowed, roundoff, same_values
from irdeconv.verify.compare.partner import Partner, Precision


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
    """A layer, its inputs on the partner's side, its own outputs and those `made` of the former.

    `wide`, `narrow` and `computes` are those of the partner.
    """

    op: Op
    inputs: tuple[Followed, ...]
    outs: tuple[Array, ...]
    made: tuple[Array, ...]
    wide: bool = False
    narrow: bool = False
    computes: Precision = "f32"

    @staticmethod
    def of(
        op: Op,
        inputs: tuple[Followed, ...],
        arrays: list[Array],
        outs: tuple[Array, ...],
        partner: Partner,
    ) -> Judge:
        """Compute the layer from the partner's inputs, where they differ from its own `arrays`."""
        judge = partial(Judge, wide=partner.wide, narrow=partner.narrow, computes=partner.computes)
        values = [f.value for f in inputs]
        if not rounding.is_exact(op):
            inputs = _reread(op, inputs, partner.computes)
        if all(map(same_values, values, arrays)):
            return judge(op, inputs, outs, outs)
        try:
            return judge(op, inputs, outs, rounding.evaluate(op, values))
        except Exception:  # the partner's tensors do not fit this layer, whatever it objects to
            own = zip(arrays, inputs, strict=True)
            kept = tuple(Followed(a, None, f.terms, f.all_terms, f.sound) for a, f in own)
            return judge(op, kept, outs, outs)

    @property
    def arrays(self) -> list[Array]:
        """The input values."""
        return [f.value for f in self.inputs]

    def verdict(self, port: int, theirs: Array) -> tuple[Array, Allowed]:
        """Return what the partner's output should be and how far it may be off."""
        made = self.made[port]
        wanted = made if same_values(made, theirs) else self._precise[port]
        allowed = self._own[port]
        more = rounding.reread(made, self.computes)
        if not (isinstance(more, float) or rounding.is_exact(self.op)):
            more = more * (1 if self._carried[port] is not None else self._terms(port) + 1)
            name = f"{allowed.rule} + {self.computes}"
            allowed = Allowed(np.asarray(allowed.limit + more), name)
        near = not any(f.terms for f in self.inputs)
        error, terms = self._carried[port], self._terms(port)
        return wanted, limited(made, theirs, error, terms, allowed, near=near)

    def bridged(self, port: int) -> Followed:
        """Return the output for its readers, where the partner does not have it."""
        made, error = self.made[port], self._carried[port]
        if error is not None and rounding.is_real(made) and not self._kept_exactly(port):
            error = error + 2 * np.asarray(self._own[port].limit)
        sound = all(f.sound for f in self.inputs)
        return Followed(made, error, self._terms(port), self._all_terms(port), sound)

    def _kept_exactly(self, port: int) -> bool:
        """Whether nothing is rounded; a conversion to a type of more bits does not, either."""
        converts = self.op.rounding.rule == "conversion" and port < len(self.inputs)
        same = converts and same_values(self.inputs[port].value, self.made[port])
        return same or rounding.is_exact(self.op)

    def seen(self, port: int, theirs: Array, *, passed: bool) -> Followed:
        """Return the partner's output for its readers."""
        mine = self.outs[port]
        value = mine if same_values(mine, theirs) else theirs
        if value.dtype != mine.dtype and value.dtype.kind not in "OSUT":
            with np.errstate(all="ignore"):
                value = value.astype(mine.dtype)
        sound = passed and all(f.sound for f in self.inputs)
        return Followed(value, self._kept(port, value), 0, self._all_terms(port), sound)

    def _kept(self, port: int, value: Array) -> Error:
        """Bound how far a shown value is off the one that the partner goes on with."""
        if not self.wide or not rounding.is_narrow(value):
            return 0.0
        if not rounding.is_exact(self.op):
            return rounding.stored(value)
        carried = self._carried[port]
        unlike = isinstance(carried, np.ndarray) and carried.shape not in ((), value.shape)
        return None if unlike else carried

    @cached_property
    def _precise(self) -> tuple[Array, ...]:
        if not rounding.worth_precision(self.op, self.made):
            return self.made
        return rounding.precise(self.op, self.arrays, self.made)

    @cached_property
    def _own(self) -> tuple[Allowed, ...]:
        found = rounding.allowed(self.op, self.arrays, self.made)
        if not self.narrow:
            return found
        more = (rounding.summed_narrowly(self.op, self.arrays, y) for y in self.made)
        return tuple(replace(f, limit=f.limit + m) for f, m in zip(found, more, strict=True))

    @cached_property
    def _carried(self) -> list[Error]:
        return carried(self.op, self.arrays, [f.error for f in self.inputs], self.made)

    def _terms(self, port: int) -> int:
        return max((f.terms for f in self.inputs), default=0) + self._local(port)

    def _all_terms(self, port: int) -> int:
        return max((f.all_terms for f in self.inputs), default=0) + self._local(port) + 1

    def _local(self, port: int) -> int:
        made = self.made[port]
        return rounding.local_terms(self.op, self.arrays, made, narrow=self.narrow)


def limited(
    made: Array, theirs: Array, error: Error, terms: int, own: Allowed, *, near: bool = False
) -> Allowed:
    """Join a layer's own bound, the error carried to it and the partner's element type.

    Bounds that were carried far grow beyond use, or there are none: then the `terms` roundings on
    the way count, each relative to the largest value. From what was seen the way is not far
    (`near`).
    """
    found = own
    if not (isinstance(error, float) and error == 0):
        scaled = rounding.scaled(made, 2 * (terms + 1))
        if error is not None:
            found = Allowed(np.asarray(own.limit + error), f"{own.rule} + carried")
        far = rounding.is_real(made) and not near
        if error is None:
            found = Allowed(np.maximum(own.limit, scaled.limit), scaled.rule)
        elif far and _top(found) > _top(scaled):
            found = scaled
    coarse = roundoff(theirs.dtype)
    if rounding.is_real(made) and coarse > roundoff(made.dtype):
        size = np.abs(made.astype(np.float64))
        # A partner with narrower tensors than an f64 layer's computes in single precision, from
        # rounded inputs: the factor 2 of f64 bounds (rounding.allowed) leaves room for these.
        coarser = max(1.0, min(coarse, rounding.SINGLE) / rounding.unit(made))
        found = Allowed(coarser * found.limit, found.rule)
        found = Allowed(found.limit + coarse * size, f"{found.rule} + u |y| of {theirs.dtype}")
    return found


def _reread(op: Op, inputs: tuple[Followed, ...], computes: Precision) -> tuple[Followed, ...]:
    """Return the inputs with the error of reading them in less than their own type.

    Factors of a sum are read so, and data; limits, slopes and axes are not.
    """
    more = [rounding.reread(f.value, computes) for f in inputs]
    read = len(inputs) if op.rounding.rule == "sum" else 1
    return tuple(
        replace(f, error=_sum(f.error, m) if port < read else f.error)
        for port, (f, m) in enumerate(zip(inputs, more, strict=True))
    )


def _sum(a: Error, b: Error) -> Error:
    return None if a is None or b is None else a + b


def _top(allowed: Allowed) -> float:
    return float(np.max(allowed.limit, initial=0.0))
