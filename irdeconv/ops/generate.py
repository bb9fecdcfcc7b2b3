"""Range, Eye and Identity."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from irdeconv.dtypes import ElementType, of_numpy
from irdeconv.errors import OpError
from irdeconv.op import Op, op
from irdeconv.ops.checks import elements, one_type, single, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Spec, non_negative
from irdeconv.traits import MOVES


def _scalars(inputs: tuple[Array, ...], dtype: ElementType) -> tuple[float, float, float]:
    """Return start, stop and step; real ones of an integer range are truncated first."""
    values = [v.reshape(-1)[0].item() for v in inputs]
    if any(math.isnan(v) or math.isinf(v) for v in values):
        raise OpError(f"start, stop and step are {values}; they must be finite", code="E305")
    first, last, by = (int(v) if dtype.is_integral else float(v) for v in values)
    return first, last, by


def _count(start: float, stop: float, step: float) -> int:
    if step == 0:
        raise OpError("step is 0", code="E305", port=2)
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(-((start - stop) // step), 0)
    return max(math.ceil((stop - start) / step), 0)


def _range(inputs: tuple[Array, ...], dtype: ElementType) -> Array:
    """Return start + i * step."""
    start, stop, step = _scalars(inputs, dtype)
    at: Any = np.arange(_count(start, stop, step))
    if dtype.is_integral:
        return np.asarray(start + at * step, dtype.container)
    real: Any = np.float64 if dtype.bits == 64 else np.float32
    return np.asarray(real(start) + at.astype(real) * real(step), dtype.container)


class _Range(Op):
    """Base of the two versions."""

    def _infer(self, inputs: tuple[Spec, Spec, Spec], dtype: ElementType | None) -> Spec:
        for port, (s, name) in enumerate(zip(inputs, ("start", "stop", "step"), strict=True)):
            want_type(s, "number", port, name)
            want_rank(s.shape, 0, 0, port, name)
        values = [s.known for s in inputs]
        start, stop, step = values
        if start is None or stop is None or step is None or dtype is None:
            return Spec(dtype, (DYNAMIC,))
        return Spec(dtype, (_count(*_scalars((start, stop, step), dtype)),))


@op("Range", until=3)
class Range1(_Range):
    """start, start + step, ... before stop; three scalars of one type -> a vector.

    [generation/Range-1]
    """

    def infer(self, start: Spec, stop: Spec, step: Spec) -> Spec:
        dtype = one_type(start, stop, step, names=("start", "stop", "step"))
        return self._infer((start, stop, step), dtype)

    def evaluate(self, start: Array, stop: Array, step: Array) -> Array:
        return _range((start, stop, step), of_numpy(start.dtype))


@op("Range", since=4)
class Range(_Range):
    """start, start + step, ... before stop, as `output_type`; three scalars -> a vector.

    For an integer result real inputs are truncated first.  [generation/Range-4]
    """

    output_type: ElementType

    def infer(self, start: Spec, stop: Spec, step: Spec) -> Spec:
        want_type(Spec(self.output_type, None), "number", 0, "output_type")
        return self._infer((start, stop, step), self.output_type)

    def evaluate(self, start: Array, stop: Array, step: Array) -> Array:
        return _range((start, stop, step), self.output_type)


@op("Eye", since=9)
class Eye(Op):
    """1 on a diagonal, 0 elsewhere: rows, columns, diagonal (above the main one: > 0) -> matrix.

    All of them integers, scalars or vectors of one; `batch_shape` repeats the matrix.
    [generation/Eye-9]
    """

    output_type: ElementType

    def infer(
        self,
        num_rows: Spec,
        num_columns: Spec,
        diagonal_index: Spec,
        batch_shape: Spec | None = None,
    ) -> Spec:
        single(diagonal_index, 2, "diagonal_index")
        rows, columns = single(num_rows, 0, "num_rows"), single(num_columns, 1, "num_columns")
        sizes = [(0, "num_rows", rows), (1, "num_columns", columns)]
        batch = () if batch_shape is None else elements(batch_shape, 3, "batch_shape")
        sizes += [(3, "batch_shape", d) for d in batch or ()]
        for port, name, size in sizes:
            if isinstance(size, int) and size < 0:
                text = f"{name} has {size}; it must not be negative"
                raise OpError(text, code="E305", port=port)
        if batch is None:
            return Spec(self.output_type, None)
        return Spec(self.output_type, tuple(map(non_negative, (*batch, rows, columns))))

    def evaluate(
        self,
        num_rows: Array,
        num_columns: Array,
        diagonal_index: Array,
        batch_shape: Array | None = None,
    ) -> Array:
        rows, columns, diagonal = (v.item() for v in (num_rows, num_columns, diagonal_index))
        one = np.eye(rows, columns, diagonal, dtype=self.output_type.container)
        batch = () if batch_shape is None else tuple(batch_shape.tolist())
        return np.array(np.broadcast_to(one, (*batch, rows, columns)))


@op("Identity", since=16)
class Identity(Op):
    """The input itself; any type.  [util/Identity-16]"""

    partial: ClassVar[bool] = True
    rounding = MOVES

    def infer(self, data: Spec) -> Spec:
        return data

    def evaluate(self, data: Array) -> Array:
        return data
