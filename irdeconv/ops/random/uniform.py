"""RandomUniform."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from irdeconv.dtypes import ElementType, i32
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.random import numbers
from irdeconv.limits import current, raise_hint
from irdeconv.op import Op, op
from irdeconv.ops.checks import elements, one_type, want_one, want_rank
from irdeconv.spec import Array, Interval, Spec, non_negative
from irdeconv.traits import DRAWN, JUMPS, Rounding

_INT32 = np.iinfo(np.int32)


@op("RandomUniform", since=8)
class RandomUniform(Op):
    """Random numbers from `min_val` up to, not including, `max_val`: a shape, two scalars -> it.

    `output_type` is floating-point, i32 or i64, that of both limits. Philox 4x32-10 with key
    `global_seed` and counter `op_seed`; under `alignment` "pytorch" the Mersenne Twister seeded
    with `global_seed`. Bits equal the first inference of the runtime's CPU: real numbers but bf16
    are computed as f32, i64 limits that fit as i32, others with two words for each number. Later
    inferences go on in the runtime's sequence; here each run begins it anew. Where both seeds are 0
    the runtime takes the time for one: here they are 0, so that a run can be repeated. Never folded
    into a constant.
    [generation/RandomUniform-8]
    """

    pure: ClassVar[bool] = False

    output_type: ElementType
    global_seed: int = 0
    op_seed: int = 0
    alignment: Literal["tensorflow", "pytorch"] = "tensorflow"

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """Whatever the runtime draws is right where the time is its seed."""
        return JUMPS if self.global_seed or self.op_seed else DRAWN

    def check(self) -> Iterator[Problem]:
        dtype = self.output_type
        if not dtype.is_real and dtype.name not in ("i32", "i64"):
            text = f"output_type is {dtype}; it must be floating-point, i32 or i64"
            yield Problem("E210", text, attribute="output_type")
        for name in ("global_seed", "op_seed"):
            value = getattr(self, name)
            if not 0 <= value < 2**64:
                text = f"{name} is {value}; it must have 64 bits and no sign"
                yield Problem("E210", text, attribute=name)

    def infer(self, output_shape: Spec, min_val: Spec, max_val: Spec) -> Spec:
        want_rank(output_shape.shape, 1, 1, 0, "output_shape")
        sizes = elements(output_shape, 0, "output_shape")
        own = Spec(self.output_type, None)
        for port, spec, name in ((1, min_val, "min_val"), (2, max_val, "max_val")):
            one_type(own, spec, names=("output_type", name), ports=(0, port))
            want_one(spec, port, name)
        low, high = min_val.known, max_val.known
        if low is not None and high is not None and not low.item() < high.item():
            text = f"min_val is {low.item()}, max_val {high.item()}; it must be larger"
            raise OpError(text, code="E305", port=2)
        if sizes is None:
            return Spec(self.output_type, None)
        for size in sizes:
            if not isinstance(size, Interval) and size < 0:
                text = f"output_shape has {size}; it must not be negative"
                raise OpError(text, code="E305", port=0)
        known = [s for s in sizes if not isinstance(s, Interval)]
        limit = current().drawn_elements
        if math.prod(known) > limit and len(known) == len(sizes):
            text = f"output_shape {known} has more than {limit} elements"
            raise OpError(text, code="E306", port=0, hint=raise_hint("drawn_elements"))
        return Spec(self.output_type, tuple(map(non_negative, sizes)))

    def evaluate(self, output_shape: Array, min_val: Array, max_val: Array) -> Array:
        given = Spec.of(output_shape), Spec(None, (), min_val), Spec(None, (), max_val)
        shape = tuple(map(int, self.infer(*given).shape or ()))  # type: ignore[arg-type]
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
        drawn = numbers.uniform(math.prod(shape), low, high, seeds, torch=torch)
        return drawn.astype(self.output_type.container).reshape(shape)
