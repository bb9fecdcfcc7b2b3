"""Multinomial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.random import sampling, twister
from irdeconv.op import Op, op
from irdeconv.ops.checks import index_type, single, want_rank, want_type
from irdeconv.spec import DYNAMIC, Array, Spec, bounds, non_negative
from irdeconv.traits import DRAWN, JUMPS, Rounding


@op("Multinomial", since=13)
class Multinomial(Op):
    """Draw classes by their probabilities: probs (N, C), a count S -> (N, S) as `convert_type`.

    The probabilities need not add up to 1; with `log_probs` they are logarithms. Without
    `with_replacement` a class is drawn at most once in a row. Numbers equal those of the runtime's
    CPU: the Mersenne Twister seeded with the sequence of both seeds, where both are 0 with two
    zeros instead of the time, so that a run can be repeated. Never folded into a constant.
    [generation/Multinomial-13]
    """

    pure: ClassVar[bool] = False

    convert_type: ElementType
    with_replacement: bool
    log_probs: bool
    global_seed: int = 0
    op_seed: int = 0

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """Whatever the runtime draws is right where the time is its seed."""
        return JUMPS if self.global_seed or self.op_seed else DRAWN

    def check(self) -> Iterator[Problem]:
        yield from index_type(self, "convert_type")

    def infer(self, probs: Spec, num_samples: Spec) -> Spec:
        want_type(probs, "real", 0, "probs")
        want_rank(probs.shape, 2, 2, 0, "probs")
        count = single(num_samples, 1, "num_samples")
        top = bounds(count)[1]
        if top is not None and top < 0:
            text = f"num_samples is {count}; it must not be negative"
            raise OpError(text, code="E305", port=1)
        rows, classes = probs.shape or (DYNAMIC, DYNAMIC)
        most = bounds(classes)[1]
        if not self.with_replacement and most is not None and bounds(count)[0] > most:
            text = f"num_samples is {count}; there are {classes} classes, each drawn at most once"
            raise OpError(text, code="E305", port=1)
        return Spec(self.convert_type, (rows, non_negative(count)))

    def evaluate(self, probs: Array, num_samples: Array) -> Array:
        shape = self.infer(Spec.of(probs, keep=False), Spec.of(num_samples)).shape or ()
        rows, count = (int(d) for d in shape)  # type: ignore[arg-type]
        kind: Any = self.convert_type.container
        if 0 in (rows, count):
            return np.zeros((rows, count), kind)
        if not probs.shape[1]:
            raise OpError("probs has no class to draw", code="E302", port=0)
        words = twister.words_of_sequence((self.global_seed, self.op_seed), rows * count)
        drawn = (words.astype(np.float32) / np.float32(2**32)).reshape(rows, count)
        with np.errstate(all="ignore"):
            chances = np.exp(probs.astype(np.float32)) if self.log_probs else probs
            found = sampling.draw(chances.astype(np.float32), drawn, again=self.with_replacement)
        return found.astype(kind)
