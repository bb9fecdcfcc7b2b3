"""Lowered values are proved element by element where they are the source's, and only there.

Also weights that are rounded, what stands behind a layer, and kinds of equal rewritings.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.proof import sums, symbolic
from irdeconv.proof.linear import prove
from irdeconv.proof.model import Model, Obligation, Port, Proof, Shape, Unproved
from irdeconv.proof.reader import read
from pair_texts import Pair, kinds
from proof_models import (
    DATA,
    ONES,
    PADS,
    STEPS,
    Region,
    lowered,
    obligation,
    obliged,
    source,
    typed,
    weights,
)


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


@pytest.mark.parametrize("huge", [[1e308] * 3, [1.5e308, 1.5e308], [np.inf, -np.inf, 1.0]])
def test_a_sum_beyond_the_range_of_f64_is_not_proved(huge: list[float]) -> None:
    one = np.ones(1)
    parts = [sums.Part(one * w, one, np.zeros(1, int), np.float64) for w in huge]
    with pytest.raises(Unproved, match="beyond the range"):
        sums.compare(parts, parts[:1], "weights")


def test_roles_may_be_swapped() -> None:
    """As `raise` needs it: the deconvolution is the new side."""
    w = weights(2, 3, 4, 4)
    assert prove(obliged(lowered(w), source(w))).every
    with pytest.raises(Unproved, match="add up to"):
        prove(obliged(lowered(w), source(w + (w == 8))))


def test_a_filter_that_is_an_input() -> None:
    shapes = ((2, 3, 4, 4),)
    assert prove(obliged(source(None), lowered(None), DATA, *shapes)).every
    region, output = lowered(None)
    [at] = [i for i, la in enumerate(region.layers) if la.type == "Slice"]
    region.layers[at] = replace(
        region.layers[at], type="Identity", version="opset16", inputs=(Port(region.parameters[1]),)
    )
    with pytest.raises(Unproved, match="add up to"):
        prove(obliged(source(None), (region, output), DATA, *shapes))


def open_axes(*sizes: int | tuple[int, int | None]) -> Obligation:
    w = weights(2, 3, 4, 4)
    r = Region()
    y = r.add("ZeroInsertion", r.parameter("x"), version="irdeconv_1", strides=(2, 2))
    y = r.add("Convolution", y, np.flip(w, (2, 3)).swapaxes(0, 1), **ONES | PADS)
    return obliged(source(w), (r, y), (2, (2, 2), *sizes))


def test_open_sizes_are_walked_and_named() -> None:
    proof = prove(open_axes((0, None), 4))
    assert not proof.every
    assert proof.sizes == "the open sizes 1, 2, 3, 5, 8, 9 only"
    assert prove(open_axes((6, 7), 4)).sizes == "the open sizes 6, 7 only"
    # Of several axes the pairs are named, not each for itself.
    proof = prove(open_axes((0, None), (0, None)))
    assert proof.sizes == "the open sizes 1x1, 2x2, 3x3, 5x5, 8x8, 9x8, 8x9 only"


def test_channels_that_are_open_are_those_of_the_filter() -> None:
    w = weights(2, 3, 4, 4)
    shape: Shape = (2, (0, None), 3, 4)
    assert prove(obliged(source(w), lowered(w), shape)).maps == (
        "[2, 3, 6, 8]: 16 equations of weights",
    )


def sized(r: Region, w: Any, moved: int = 0) -> Port:
    """A deconvolution of which `y` tells the size, as source or by zero-insertion (moved)."""
    x, wanted = r.parameter("x"), r.parameter("wanted")
    if not moved:
        return r.add("ConvolutionBackpropData", x, w, wanted, **STEPS)
    y = r.add("ZeroInsertion", x, version="irdeconv_1", strides=(2, 2))
    end = r.add("Concat", np.array([2, 3]), wanted, axis=0)
    f = np.flip(w, (2, 3)).swapaxes(0, 1)
    y = r.add("Convolution", y, f, **ONES | {"pads_begin": (2, 2), "pads_end": (9, 9)})
    return r.add("Slice", y, np.array([0, 0, 0, 0]), end, np.ones(4, int))


def test_sizes_that_are_wanted_at_run_time() -> None:
    w = weights(2, 3, 4, 4)
    a, b = Region(), Region()
    pair = (a, sized(a, w)), (b, sized(b, w, 1))
    proof = prove(obligation(*pair, [((2, 2, 3, 4), "f32"), ((2,), "i64")]))
    assert not proof.every
    assert len(proof.maps) == 6


def test_no_data() -> None:
    w, shape = weights(2, 3, 4, 4), (2, 2, 0, 4)
    r = Region()
    r.parameter("x")
    zeros = r.const(np.zeros((2, 3, 0, 8), np.float32))
    said = {"pads_begin": (1, 1), "pads_end": (1, 1), "output_padding": (0, 0)}
    with pytest.raises(Unproved, match="the value is f32"):
        prove(obliged(source(w, **said), (r, zeros), (2, 2, 1, 4)))
    r = Region()
    r.parameter("x")
    zeros = r.const(np.zeros((2, 3, 2, 10), np.float32))
    said = {"pads_begin": (0, 0), "pads_end": (0, 0)}
    assert prove(obliged(source(w, **said), (r, zeros), shape)).every


# Other forms


def test_groups_as_plain_convolutions() -> None:
    """C/g = 2, M/g = 3; the parts may be joined in one order only."""
    w, shape = weights(2, 2, 3, 4, 4), (2, 4, 3, 4)
    a = source(w)
    for order in ([0, 1], [1, 0]):
        r = Region()
        x = r.parameter("x")
        parts = []
        for g in order:
            part = r.add(
                "Slice",
                x,
                np.array([2 * g]),
                np.array([2 * g + 2]),
                np.ones(1, int),
                np.ones(1, int),
            )
            parts.append(r.add("ConvolutionBackpropData", part, w[g], **STEPS))
        b = r, r.add("Concat", *parts, axis=1)
        if order == [0, 1]:
            assert prove(obliged(a, b, shape)).every
        else:
            with pytest.raises(Unproved, match="add up to 0, in the source to"):
                prove(obliged(a, b, shape))


@pytest.mark.parametrize("form", ["MatMul", "Einsum"])
def test_a_product_of_matrices(form: str) -> None:
    w, shape = weights(2, 3, 2, 2), (2, 2, 3, 4)
    said = STEPS | {"pads_begin": (0, 0), "pads_end": (0, 0)}
    for order in ((0, 3, 1, 4, 2, 5), (0, 3, 1, 5, 2, 4)):
        r = Region()
        x = r.parameter("x")
        if form == "Einsum":
            y = r.add("Einsum", x, w, equation="nchw,cmkl->nhwmkl")
        else:
            y = r.add(
                "Reshape",
                r.add("Transpose", x, np.array([0, 2, 3, 1])),
                np.array([24, 2]),
                special_zero=False,
            )
            y = r.add("MatMul", y, w.reshape(2, -1).T, transpose_a=False, transpose_b=True)
            y = r.add("Reshape", y, np.array([2, 3, 4, 3, 2, 2]), special_zero=False)
        y = r.add("Transpose", y, np.array(order))
        b = r, r.add("Reshape", y, np.array([2, 3, 6, 8]), special_zero=False)
        if order[3] == 4:
            assert prove(obliged(source(w, **said), b, shape)).every
        else:
            with pytest.raises(Unproved, match="add up to"):
                prove(obliged(source(w, **said), b, shape))


def test_channels_last() -> None:
    w = weights(2, 3, 4, 4)
    a = Region()
    y = a.add(
        "ConvTranspose",
        a.parameter("x"),
        w,
        version="com.ms.internal.nhwc_1",
        strides=(2, 2),
        pads=(1, 1, 1, 1),
    )
    r = Region()
    x = r.add("Transpose", r.parameter("x"), np.array([0, 3, 1, 2]))
    z = r.add("ConvolutionBackpropData", x, w, **STEPS)
    z = r.add("Transpose", z, np.array([0, 2, 3, 1]))
    assert prove(obliged((a, y), (r, z), (2, 3, 4, 2))).every


def test_channels_that_are_no_axis() -> None:
    """A filter over pixels and channels mixed is compared element by element."""
    a, b = Region(), Region()
    w = weights(2, 1, 2, 2)
    y = a.add(
        "ConvolutionBackpropData",
        a.parameter("x"),
        w,
        **STEPS | {"pads_begin": (0, 0), "pads_end": (0, 0)},
    )
    flat = b.add("Reshape", b.parameter("x"), np.array([1, 12]), special_zero=False)
    matrix = np.zeros((2, 2, 3, 4, 6), np.float32)
    for i, j in np.ndindex(2, 3):
        matrix[:, i, j, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = w[:, 0]
    z = b.add("MatMul", flat, matrix.reshape(12, 24), transpose_a=False, transpose_b=False)
    z = b.add("Reshape", z, np.array([1, 1, 4, 6]), special_zero=False)
    assert prove(obliged((a, y), (b, z), (1, 2, 2, 3))).every
    matrix[0, 1, 1, 0, 0] += 1
    b.layers[z.layer - 3] = replace(b.layers[z.layer - 3], elements=typed(matrix.reshape(12, 24)))
    with pytest.raises(Unproved):
        prove(obliged((a, y), (b, z), (1, 2, 2, 3)))


# Refusals


def test_what_is_refused() -> None:
    w = weights(2, 3, 4, 4)

    def changed(build: Any) -> str:
        r, y = lowered(w)
        with pytest.raises(Unproved) as caught:
            prove(obliged(source(w), (r, build(r, y))))
        return str(caught.value)

    assert "converts f32" in changed(lambda r, y: r.add("Convert", y, destination_type="f16"))
    assert "is not followed" in changed(lambda r, y: r.add("Exp", y))
    assert "powers of 2" in changed(lambda r, y: r.add("Divide", y, np.float32(3)))
    assert "not take a value times" in changed(lambda r, y: r.add("Multiply", y, y))
    wide = np.array([4096, 4096, 6, 8])
    assert changed(lambda r, y: r.add("Broadcast", y, wide, mode="numpy"))
    ones = np.ones((3, 3, 1, 1), np.float32)
    said = ONES | {"pads_begin": (0, 0)}
    assert "convolution of a convolution" in changed(
        lambda r, y: r.add("Convolution", y, ones, **said)
    )
    assert "is no part" in changed(lambda r, y: r.add("ReadValue", version="opset6"))


def test_inputs_have_to_be_of_one_type() -> None:
    w = weights(2, 3, 4, 4)
    r, y = lowered(w)
    at = next(i for i, la in enumerate(r.layers) if la.elements and la.elements.array.ndim == 0)
    r.layers[at] = replace(r.layers[at], elements=typed(np.int32(0)))
    with pytest.raises(Unproved, match="inputs of the types"):
        prove(obliged(source(w), (r, y)))


@pytest.mark.parametrize("walk", [prove, symbolic.prove])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 2, -1), (0, 1, 2, 3 + 2**48), (0, 1, 3, 3)])
def test_axes_are_a_permutation(
    walk: Callable[[Obligation], Proof], order: tuple[int, ...]
) -> None:
    """The runtime refuses axes that are counted from the end."""
    w = weights(2, 3, 4, 4)
    r, y = lowered(w)
    pair = obliged(source(w), (r, r.add("Transpose", y, np.array(order))))
    if order == (0, 1, 2, 3):
        assert walk(pair).every
        return
    with pytest.raises(Unproved, match=r"order|beyond 32 bits"):
        walk(pair)


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value fits, all of them together may not."""
    w = weights(2, 3, 4, 4)
    monkeypatch.setattr("irdeconv.proof.linear.MOST_HELD", 1000)
    with pytest.raises(Unproved, match="are more than the proof takes on"):
        prove(obliged(source(w), lowered(w)))


def test_a_large_layer() -> None:
    w = np.random.default_rng(0).standard_normal((96, 64, 4, 4)).astype(np.float32)
    shape = (1, 96, 16, 16)
    assert prove(obliged(source(w), lowered(w, shape), shape)).every


def summed_up(times: int) -> tuple[Region, Port]:
    """Return a layer and that many additions, each of which reads the last one twice."""
    region, y = lowered(weights(2, 3, 4, 4))
    for _ in range(times):
        y = region.add("Add", y, y)
    return region, y


def a_chain(length: int) -> tuple[Region, Port]:
    region, y = lowered(weights(2, 3, 4, 4))
    for _ in range(length):
        y = region.add("ReLU", y)
    return region, y


def test_sums_of_ever_more_terms_are_refused() -> None:
    """Of 2^200 terms in the end."""
    with pytest.raises(Unproved, match="512 terms of a sum are more than"):
        prove(obliged(source(weights(2, 3, 4, 4)), summed_up(200)))


def test_a_chain_of_layers_is_refused_before_it_is_walked() -> None:
    with pytest.raises(Unproved, match="20001 layers are more than"):
        prove(obliged(source(weights(2, 3, 4, 4)), a_chain(30_000)))


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


KINDS = kinds("equal")

# Whole networks, for pairing; operations that are not in the list; products that are not followed.
BEYOND = {
    "dilation: SpaceToBatch, convolution, BatchToSpace",
    "files: other names",
    "filter: reversed by ReverseSequence",
    "layers: two in a row with ReLU between",
    "layers: two of one filter",
    "layers: two on the same data share the zeros",
    "legal: copies by a convolution, a deconvolution",
    "legal: windows as channels by a convolution",
    "legal: zeros by a deconvolution of one tap",
    "nothing: Pad, Slice, StridedSlice",
    "phases: ScatterUpdate",
    "scale: BatchNormInference folded",
    "spelling: numbers in another spelling or type",
    "taps: a separable filter as two convolutions",
    "zeros: ScatterElementsUpdate",
    "zeros: ScatterUpdate",
    "zeros: product with a matrix of zeros and ones",
}


def obligations(a: Model, b: Model) -> list[Obligation]:
    """All outputs of two models as single obligations; inputs are twins in their order."""
    twins = {Port(j): Port(i) for i, j in zip(a.parameters, b.parameters, strict=True)}
    ends = zip(a.results, b.results, strict=True)
    return [
        Obligation(
            source=a,
            lowered=b,
            wanted=a.layers[i].inputs[0],
            output=b.layers[j].inputs[0],
            twins=twins,
            fact=lambda p: a.layers[p.layer].outputs[p.port],
        )
        for i, j in ends
    ]


def judge(name: str, pairs: list[Pair], folder: Path) -> None:
    for pair, variant in itertools.product(pairs, ["", "changed", "moved"]):
        found = obligations(*map(read, pair.write(folder, variant)))
        if not variant and name not in BEYOND:
            rounds = len(pair.half) == 1
            assert any(prove(ob).rounding > 0 for ob in found) == rounds, pair
        else:
            with pytest.raises(Unproved):
                print([prove(ob) for ob in found], variant, pair)


@pytest.mark.oracles
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", list(KINDS)[::3])
def test_kinds_of_rewriting(name: str, tmp_path: Path) -> None:
    judge(name, KINDS[name][-1:], tmp_path)


@pytest.mark.oracles
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_rewriting_in_all_cases(name: str, tmp_path: Path) -> None:
    judge(name, KINDS[name], tmp_path)


@pytest.mark.oracles
def test_few_kinds_are_beyond() -> None:
    assert set(KINDS) >= BEYOND
    assert len(BEYOND) <= len(KINDS) // 8
