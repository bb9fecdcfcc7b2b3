"""Split and VariadicSplit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from irdeconv.errors import OpError, Problem
from irdeconv.kernels.copies import ConcatKernel
from irdeconv.limits import current, raise_hint
from irdeconv.op import op
from irdeconv.ops.binding import ViewOp
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import (
    axis_of,
    elements,
    exact,
    positive_number,
    single,
    want_rank,
    want_type,
)
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Spec, bounds


def _with(spec: Spec, axis: int, size: Dim) -> Spec:
    assert spec.shape is not None
    return Spec(spec.dtype, (*spec.shape[:axis], size, *spec.shape[axis + 1 :]))


def _axis(data: Spec, axis: Spec) -> int | None:
    """Return the axis to split along; None where it or the rank is unknown."""
    want_type(axis, "integer", 1, "axis")
    want_rank(axis.shape, 0, 1, 1, "axis")
    known = single(axis, 1, "axis")
    if isinstance(known, Interval) or data.shape is None:
        return None
    return axis_of(known, len(data.shape), port=1)


def _unknown(data: Spec) -> Spec:
    return Spec(data.dtype, None if data.shape is None else (DYNAMIC,) * len(data.shape))


@op("Split")
class Split(ViewOp):
    """Cut into `num_splits` equal parts along `axis` (a scalar input); any type.

    [movement/Split-1]
    """

    num_splits: int

    def check(self) -> Iterator[Problem]:
        yield from positive_number(self, "num_splits")
        limit = current().ports
        if self.num_splits > limit:
            text = f"num_splits is {self.num_splits}, so many outputs; the limit is {limit}"
            yield Problem("E601", text, attribute="num_splits", hint=raise_hint("ports"))

    def infer(self, data: Spec, axis: Spec) -> tuple[Spec, ...]:
        at = _axis(data, axis)
        if at is None or data.shape is None:
            return (_unknown(data),) * self.num_splits
        size = divided(data.shape[at], self.num_splits, f"axis {at}", "num_splits")
        return (_with(data, at, size),) * self.num_splits

    def view(self, shape: tuple[int, ...], axis: Array) -> Callable[[Array], tuple[Array, ...]]:
        at = axis_of(int(axis.reshape(-1)[0]), len(shape), port=1)
        size = divided(shape[at], self.num_splits, f"axis {at}", "num_splits")
        return _parts((size,) * self.num_splits, at)


@op("VariadicSplit")
class VariadicSplit(ViewOp):
    """Cut into parts of `split_lengths` along `axis`; one -1 takes what is left; any type.

    [movement/VariadicSplit-1]
    """

    def infer(self, data: Spec, axis: Spec, split_lengths: Spec) -> tuple[Spec, ...]:
        at = _axis(data, axis)
        want_rank(split_lengths.shape, 1, 1, 2, "split_lengths")
        lengths = elements(split_lengths, 2, "split_lengths")
        if lengths is None:
            raise OpError(
                "split_lengths has an unknown number of values, so the number of outputs is "
                "unknown",
                code="E305",
                port=2,
            )
        if at is None or data.shape is None:
            return (_unknown(data),) * len(lengths)
        return tuple(_with(data, at, d) for d in _lengths(data.shape[at], lengths))

    def view(
        self, shape: tuple[int, ...], axis: Array, split_lengths: Array
    ) -> Callable[[Array], tuple[Array, ...]]:
        at = axis_of(int(axis.reshape(-1)[0]), len(shape), port=1)
        return _parts(_lengths(shape[at], tuple(int(v) for v in split_lengths)), at)


def _parts(sizes: Sequence[Dim], axis: int) -> Callable[[Array], tuple[Array, ...]]:
    """Return what makes the views of parts of exact sizes."""
    lengths = exact(sizes)
    assert lengths is not None
    places = ConcatKernel.of(lengths, axis).parts
    return lambda x: tuple(x[p] for p in places)


def _lengths(size: Dim, lengths: tuple[Dim, ...]) -> list[Dim]:
    """Return the parts' sizes with -1 filled in; E305 where they do not add up."""
    given = [v for v in lengths if v != -1]
    if len(lengths) - len(given) > 1 or any(not isinstance(v, Interval) and v < 0 for v in given):
        raise OpError(
            f"split_lengths is [{', '.join(map(str, lengths))}]; at most one value may be -1 and "
            "none below it",
            code="E305",
            port=2,
        )
    total: Dim = 0
    for v in given:
        total = total + v
    rest = size - total
    wild = len(given) < len(lengths)
    low, high = bounds(rest)
    certain = not any(isinstance(v, Interval) for v in given)
    if certain and ((high is not None and high < 0) or (not wild and low > 0)):
        raise OpError(
            f"split_lengths {list(lengths)} do not fit an axis of {size}: {total} are named",
            code="E305",
            port=2,
        )
    left = Interval.of(max(low, 0), None if high is None else max(high, 0))
    return [left if v == -1 else _part(v) for v in lengths]


def _part(v: Dim) -> Dim:
    # A value that may be -1 may stand for any size.
    return DYNAMIC if isinstance(v, Interval) and v.lo < 0 else v
