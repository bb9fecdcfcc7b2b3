"""Generated tensors: Range, Eye, Identity, RandomUniform, Multinomial."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_problem, size_error, value_error
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.attributes import IndexType, ValueRange
from irdeconv.ir.dtypes import ElementType, i32, of_numpy
from irdeconv.ir.op import DRAWN, JUMPS, Op, Rounding, op
from irdeconv.ir.ports import Fit, want_type
from irdeconv.ir.spec import Array, Arrays, Spec, bounds, is_static
from irdeconv.kernels import random_numbers
from irdeconv.ops.basic import PassingOp
from irdeconv.ops.checks import inferred_shape, known


def _scalars(inputs: Arrays, dtype: ElementType) -> tuple[float, float, float]:
    """Return start, stop and step; real ones of an integer range are truncated first."""
    values = [v.reshape(-1)[0].item() for v in inputs]
    if any(math.isnan(v) or math.isinf(v) for v in values):
        raise OpError(f"start, stop and step are {values}; they must be finite", code="E305")
    first, last, by = (int(v) if dtype.is_integral else float(v) for v in values)
    return first, last, by


def _count(start: float, stop: float, step: float) -> int:
    if step == 0:
        raise value_error(2, "step is 0")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(-((start - stop) // step), 0)
    return max(math.ceil((stop - start) / step), 0)


def _range(inputs: Arrays, dtype: ElementType) -> Array:
    """Return start + i * step."""
    start, stop, step = _scalars(inputs, dtype)
    at: Any = np.arange(_count(start, stop, step))
    if dtype.is_integral:
        return np.asarray(start + at * step, dtype.container)
    real: Any = np.float64 if dtype.bits == 64 else np.float32
    return np.asarray(real(start) + at.astype(real) * real(step), dtype.container)


_READ = "f64|f32|f16|bf16|i64|i32|i16|i8|i4|u64|u32|u16|u8|u4"


@op("Range", until=3)
class Range1(Op):
    """start, start + step, ... before stop; three scalars of one type -> a vector.

    [generation/Range-1]
    """

    signature = f"start: {_READ} t []; stop: t []; step: t [] -> t [N]"

    def complete(self, at: Fit, start: Spec, stop: Spec, step: Spec) -> None:
        for port, spec in enumerate((start, stop, step)):
            value = 1 if spec.known is None else spec.known.item()
            if not math.isfinite(value) or (port == 2 and value == 0):
                raise value_error(port, f"{('start', 'stop', 'step')[port]} is {value}")
        values, dtype = known((start, stop, step)), self._dtype(at)
        if values is not None and dtype is not None:
            at["N"] = _count(*_scalars(tuple(values), dtype))

    def _dtype(self, at: Fit) -> ElementType | None:
        return at.types.get("t")

    def evaluate(self, start: Array, stop: Array, step: Array) -> Array:
        return _range((start, stop, step), of_numpy(start.dtype))


@op("Range", since=4)
class Range(Range1):
    """start, start + step, ... before stop, as `output_type`; three scalars -> a vector.

    For an integer result real inputs are truncated first.  [generation/Range-4]
    """

    signature = f"start: {_READ} []; stop: {_READ} []; step: {_READ} [] -> output_type [N]"
    output_type: ElementType

    def _dtype(self, at: Fit) -> ElementType | None:
        want_type(Spec(self.output_type, None), "number", 0, "output_type")
        return self.output_type

    def evaluate(self, start: Array, stop: Array, step: Array) -> Array:
        return _range((start, stop, step), self.output_type)


@op("Eye", since=9)
class Eye(Op):
    """1 on a diagonal, 0 elsewhere: rows, columns, diagonal (above the main one: > 0) -> matrix.

    All of them integers, scalars or vectors of one; `batch_shape` repeats the matrix.
    [generation/Eye-9]
    """

    signature = (
        "num_rows: i32|i64 one = N; num_columns: i32|i64 one = M; diagonal_index: i32|i64 one; "
        "batch_shape?: i32|i64 [?] = *B -> output_type [*B, N, M]"
    )
    output_type: ElementType

    def complete(self, at: Fit, *inputs: Spec) -> None:
        if len(inputs) < 4:
            at.groups["B"] = ()

    def evaluate(self, *inputs: Array) -> Array:
        rows, columns, diagonal = (v.item() for v in inputs[:3])
        one = np.eye(rows, columns, diagonal, dtype=self.output_type.container)
        batch = tuple(inputs[3].tolist()) if len(inputs) > 3 else ()
        return np.array(np.broadcast_to(one, (*batch, rows, columns)))


@op("Identity", since=16)
class Identity(PassingOp):
    """The input itself; any type.  [util/Identity-16]"""

    partial: ClassVar[bool] = True


class _Drawn(Op):
    """Base of random numbers. If the clock is the seed, any numbers of a runtime are right."""

    pure: ClassVar[bool] = False
    global_seed: int
    op_seed: int

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        return JUMPS if self.global_seed or self.op_seed else DRAWN


@op("Multinomial", since=13)
class Multinomial(_Drawn):
    """Draw classes by their probabilities: probs (N, C), a count S -> (N, S) as `convert_type`.

    The probabilities need not add up to 1; with `log_probs` they are logarithms. Without
    `with_replacement` a class is drawn at most once in a row. Numbers equal those of the runtime's
    CPU: the Mersenne Twister seeded with the sequence of both seeds. If both are 0, the seeds are
    two zeros instead of the time, so that a run can be repeated. Never folded into a constant.
    [generation/Multinomial-13]
    """

    signature = "probs: real [N, C]; num_samples: integer one = S -> convert_type [N, S]"

    convert_type: IndexType
    with_replacement: bool
    log_probs: bool
    global_seed: int = 0
    op_seed: int = 0

    def complete(self, at: Fit, probs: Spec, num_samples: Spec) -> None:
        count, most = at["S"], bounds(at["C"])[1]
        if not self.with_replacement and most is not None and bounds(count)[0] > most:
            text = f"num_samples is {count}; there are {at['C']} classes, each drawn at most once"
            raise value_error(1, text)

    def evaluate(self, probs: Array, num_samples: Array) -> Array:
        rows, count = inferred_shape(self, probs, num_samples)
        kind: Any = self.convert_type.container
        if 0 in (rows, count):
            return np.zeros((rows, count), kind)
        if not probs.shape[1]:
            raise size_error(0, "probs has no class to draw")
        words = random_numbers.words_of_sequence((self.global_seed, self.op_seed), rows * count)
        drawn = (words.astype(np.float32) / np.float32(2**32)).reshape(rows, count)
        with np.errstate(all="ignore"):
            chances = np.exp(probs.astype(np.float32)) if self.log_probs else probs
            found = random_numbers.draw(
                chances.astype(np.float32), drawn, again=self.with_replacement
            )
        return found.astype(kind)


_Seed = Annotated[int, ValueRange(0, high=2**64 - 1)]
_INT32 = np.iinfo(np.int32)


@op("RandomUniform", since=8)
class RandomUniform(_Drawn):
    """Random numbers from `min_val` up to, not including, `max_val`: a shape, two scalars -> it.

    `output_type` is floating-point, i32 or i64, that of both limits. Philox 4x32-10 with key
    `global_seed` and counter `op_seed`; under `alignment` "pytorch" the Mersenne Twister seeded
    with `global_seed`. Bits equal the first inference of the runtime's CPU: real numbers but bf16
    are computed as f32, i64 limits that fit as i32, others with two words for each number. Later
    inferences continue the runtime's sequence; here each run begins it anew. If both seeds are 0,
    the runtime uses the time for one; here they are 0, so that a run can be repeated. Never folded
    into a constant.
    [generation/RandomUniform-8]
    """

    signature = (
        "output_shape: i32|i64 [?] = *O; min_val: output_type one; max_val: output_type one "
        "-> output_type [*O]"
    )

    output_type: ElementType
    global_seed: _Seed = 0
    op_seed: _Seed = 0
    alignment: Literal["tensorflow", "pytorch"] = "tensorflow"

    def check(self) -> Iterator[Problem]:
        dtype = self.output_type
        if not dtype.is_real and dtype.name not in ("i32", "i64"):
            text = f"output_type is {dtype}; it must be floating-point, i32 or i64"
            yield attribute_problem("output_type", text)

    def complete(self, at: Fit, output_shape: Spec, min_val: Spec, max_val: Spec) -> None:
        low, high = min_val.known, max_val.known
        if low is not None and high is not None and not low.item() < high.item():
            text = f"min_val is {low.item()}, max_val {high.item()}; it must be larger"
            raise value_error(2, text)
        sizes, limit = at.groups["O"], current().drawn_elements
        if is_static(sizes) and math.prod(sizes) > limit:
            text = f"output_shape {list(sizes)} has more than {limit} elements"
            raise OpError(text, code="E306", port=0, hint=raise_hint("drawn_elements"))

    def evaluate(self, output_shape: Array, min_val: Array, max_val: Array) -> Array:
        shape = inferred_shape(self, output_shape, min_val, max_val)
        limits = min_val.reshape(-1)[0], max_val.reshape(-1)[0]
        if self.output_type.is_real:
            narrow = self.output_type.name == "bf16"
            kind = self.output_type.container if narrow else np.dtype(np.float32)
        else:
            fits = all(_INT32.min <= int(v) <= _INT32.max for v in limits)
            kind = (i32 if fits else self.output_type).container
        low, high = (np.asarray(v).astype(kind)[()] for v in limits)
        seeds = self.global_seed, self.op_seed
        torch = self.alignment == "pytorch"
        drawn = random_numbers.uniform(math.prod(shape), low, high, seeds, torch=torch)
        return drawn.astype(self.output_type.container).reshape(shape)
