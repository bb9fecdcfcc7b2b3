"""Weights that are rounded, what stands behind a layer: proved where they are the source's."""

from typing import Any

import numpy as np
import pytest

from irdeconv.proof.linear import prove
from irdeconv.proof.model import Obligation, Port, Unproved
from proof_models import (
    ONES,
    STEPS,
    Region,
    lowered,
    obliged,
    source,
    weights,
)

# Weights that are rounded


def folded(change: Any) -> Obligation:
    """A scale per channel behind the source, folded into the filter of the lowered one."""
    rng = np.random.default_rng(3)
    w, scale = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4, 4), (1, 3, 1, 1)))
    r, y = source(w)
    y = r.add("Multiply", y, scale)
    return obliged((r, y), lowered(change((w * scale).astype(np.float32))))


def test_a_folded_scale_is_rounded_correctly() -> None:
    assert 0 < prove(folded(lambda w: w)).rounding < 2**-24


@pytest.mark.parametrize("side", [-np.inf, np.inf])
def test_a_neighbour_of_the_rounded_weight_is_refused(side: float) -> None:
    def change(w: Any) -> Any:
        w.flat[5] = np.nextafter(w.flat[5], np.float32(side))
        return w

    with pytest.raises(Unproved, match="add up to"):
        prove(folded(change))


def test_a_filter_in_half_precision() -> None:
    w = np.random.default_rng(4).standard_normal((2, 3, 4, 4)).astype(np.float32)
    assert 2**-13 < prove(obliged(source(w), halved(w.astype(np.float16)))).rounding < 2**-11
    off = w.astype(np.float16)
    off.flat[7] = np.nextafter(off.flat[7], np.float16(9))
    with pytest.raises(Unproved, match="add up to"):
        prove(obliged(source(w), halved(off)))
    with pytest.raises(Unproved, match="add up to"):  # as if it were stored in half precision
        prove(obliged(source(w), lowered(w.astype(np.float16).astype(np.float32))))


def halved(w: Any) -> tuple[Region, Port]:
    r, _ = lowered(np.zeros((2, 3, 4, 4)))
    f = r.add("Convert", np.flip(w, (2, 3)).swapaxes(0, 1), destination_type="f32")
    return r, r.add("Convolution", Port(f.layer - 4), f, **ONES)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_weights_have_to_be_finite(bad: float) -> None:
    w = weights(2, 3, 4, 4)
    w.flat[3] = bad
    with pytest.raises(Unproved, match="no finite numbers"):
        prove(obliged(source(w), lowered(w)))


def test_sums_of_weights_are_exact() -> None:
    """1 + 2**-60 - 1 is no zero, though it is one in float64."""
    x = (1, 1, 2, 2)
    big, small = np.ones((1, 1, 1, 1), np.float32), np.full((1, 1, 1, 1), 2**-60, np.float32)
    said = ONES | {"pads_begin": (0, 0)}
    a = Region()
    y = a.add("Convolution", a.parameter("x"), big, **said)
    b = Region()
    z = b.add("Convolution", b.parameter("x"), big, **said)
    z = b.add("Add", z, b.add("Convolution", Port(0), small, **said))
    b2 = b.add("Subtract", z, b.add("Convolution", Port(0), small, **said))
    assert prove(obliged((a, y), (b, b2), x)).every
    assert prove(obliged((a, y), (b, z), x)).rounding == 2**-60  # the rounding of the sum
    half = a.add("Multiply", y, np.float32(0.5))
    with pytest.raises(Unproved, match=r"add up to 1, in the source to 0\.5"):
        prove(obliged((a, half), (b, z), x))


# What stands behind


TAILS: dict[str, Any] = {
    "ReLU": [],
    "Tanh": [],
    "PReLU": [np.float32(0.25)],
    "HardSigmoid": [np.float32(0.25), np.float32(0.5)],
}


@pytest.mark.parametrize("kind", TAILS)
def test_activations(kind: str) -> None:
    w = weights(2, 3, 4, 4)

    def ended(pair: tuple[Region, Port], kind: str, *more: Any) -> tuple[Region, Port]:
        return pair[0], pair[0].add(kind, pair[1], *more)

    same = TAILS[kind]
    assert prove(obliged(ended(source(w), kind, *same), ended(lowered(w), kind, *same))).every
    others = [ended(lowered(w), "Sigmoid"), lowered(w)]
    others += [ended(lowered(w), kind, *(v * 2 for v in same))] if same else []
    others += [ended(ended(lowered(w), kind, *same), kind, *same)]
    for other in others:
        with pytest.raises(Unproved, match="the value is"):
            prove(obliged(ended(source(w), kind, *same), other))


def test_zeros_beside_an_activation_are_refused() -> None:
    w = weights(2, 3, 4, 4)
    r, y = lowered(w)
    y = r.add("Sigmoid", y)
    y = r.add(
        "Pad", y, np.zeros(4, int), np.array([0, 0, 0, 1]), np.float32(0), pad_mode="constant"
    )
    with pytest.raises(Unproved, match="puts zeros beside what has an activation"):
        prove(obliged(source(w), (r, y)))


def test_a_bias_subtracted() -> None:
    w, bias = weights(2, 3, 4, 4), weights(1, 3, 1, 1, seed=5)
    r, y = source(w)
    a = r, r.add("Add", y, bias)
    for change, good in ((0, True), (1, False)):
        s, z = lowered(w)
        b = s, s.add("Subtract", z, (-bias + change * (bias == 2)).astype(np.float32))
        if good:
            assert prove(obliged(a, b)).every
        else:
            with pytest.raises(Unproved, match="add up to 1, in the source to 2"):
                prove(obliged(a, b))


def test_a_bias_in_front_meets_the_border() -> None:
    """A bias of the data is not read where the window leaves the data."""
    w, bias = weights(2, 3, 4, 4), weights(1, 2, 1, 1, seed=5)
    pairs = []
    for early in (True, False):
        r = Region()
        x = r.parameter("x")
        y = r.add("Add", x, bias) if early else x
        y = r.add("ConvolutionBackpropData", y, w, **STEPS)
        total = np.einsum("cmhw,c->m", w, bias.reshape(-1)).reshape(1, 3, 1, 1)
        pairs.append((r, y if early else r.add("Add", y, total)))
    assert prove(obliged(pairs[0], pairs[0])).every
    with pytest.raises(Unproved, match="add up to"):
        prove(obliged(*pairs))
