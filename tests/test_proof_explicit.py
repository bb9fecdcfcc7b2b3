"""Lowered values are proved element by element where they are the source's, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irdeconv.proof.explicit import prove
from irdeconv.proof.model import Obligation, Port, Shape, Unproved
from support.proof_models import Region, obligation

STEPS = {"strides": (2, 2), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
ONES = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
DATA = (2, 2, 3, 4)


def weights(*shape: int, seed: int = 0) -> Any:
    """Distinct integers but 0."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count) + 1
    return (order * np.where(order % 2 == 0, 1, -1)).reshape(shape).astype(np.float32)


def source(w: Any, **said: Any) -> tuple[Region, Port]:
    """A deconvolution of the data; a filter of None is an input."""
    r = Region()
    x = r.parameter("x")
    f = r.parameter("w") if w is None else r.const(w)
    kind = "GroupConvolutionBackpropData" if w is not None and w.ndim == 5 else None
    return r, r.add(kind or "ConvolutionBackpropData", x, f, **STEPS | said)


def spread(r: Region, x: Port, shape: tuple[int, ...]) -> Port:
    """Put a zero behind each element of both axes, then cut the last ones, then pad by 2."""
    n, c, h, w = shape
    y = r.add("Unsqueeze", x, np.array([3, 5]))
    y = r.add(
        "Pad", y, np.zeros(6, int), np.array([0, 0, 0, 1, 0, 1]), np.float32(0), pad_mode="constant"
    )
    y = r.add("Reshape", y, np.array([n, c, 2 * h, 2 * w]), special_zero=False)
    ends = np.array([0, 0, 2, 2]), np.array([0, 0, 1, 1])
    return r.add("Pad", y, *ends, np.float32(0), pad_mode="constant")


def lowered(w: Any, shape: tuple[int, ...] = DATA) -> tuple[Region, Port]:
    """The same by zero-insertion; a filter of None is an input that is reversed in the graph."""
    r = Region()
    y = spread(r, r.parameter("x"), shape)
    if w is None:
        back = -np.ones(2, int)
        f = r.add("Slice", r.parameter("w"), back, np.full(2, -(2**31)), back, np.array([2, 3]))
        f = r.add("Transpose", f, np.array([1, 0, 2, 3]))
    else:
        f = r.const(np.flip(w, (2, 3)).swapaxes(0, 1))
    return r, r.add("Convolution", y, f, **ONES)


def obliged(a: Any, b: Any, data: Shape = DATA, *more: Shape, type: str = "f32") -> Obligation:
    return obligation(a, b, [(shape, type) for shape in (data, *more)])


def test_zero_insertion() -> None:
    w = weights(2, 3, 4, 4)
    proof = prove(obliged(source(w), lowered(w)))
    assert proof.every
    assert proof.rounding == 0
    assert proof.maps == ("[2, 3, 6, 8]: 16 equations of weights",)


@pytest.mark.parametrize("at", range(0, 96, 5))
def test_one_weight_is_another_one(at: int) -> None:
    w = weights(2, 3, 4, 4)
    other = w.copy()
    other.flat[at] += 1
    with pytest.raises(Unproved, match=f"add up to {other.flat[at]:.9g}, in the source to"):
        prove(obliged(source(w), lowered(other)))
