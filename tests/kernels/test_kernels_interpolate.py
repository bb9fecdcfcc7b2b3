"""Interpolation kernels against the specification's pseudo-code, one output element at a time."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irdeconv.kernels.interpolation import Resize, Rules, interpolate

TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
TRANSFORMATIONS += ("align_corners",)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


def coordinate(rule: str, o: int, scale: float, size: int, length: int) -> float:
    if scale == 1 and size == length:
        return float(o)
    if rule == "half_pixel":
        return (o + 0.5) / scale - 0.5
    if rule == "pytorch_half_pixel":
        return (o + 0.5) / scale - 0.5 if size > 1 else 0.0
    if rule == "asymmetric":
        return o / scale
    if rule == "tf_half_pixel_for_nn":
        return (o + 0.5) / scale
    return 0.0 if size == 1 else o * (length - 1) / (size - 1)


def nearest(rule: str, x: float, scale: float) -> int:
    if rule == "simple":
        return math.ceil(x) if scale < 1 else int(x)
    if rule == "floor":
        return math.floor(x)
    if rule == "ceil":
        return math.ceil(x)
    if rule == "round_prefer_floor" and x == math.floor(x) + 0.5:
        return math.floor(x)
    return math.floor(x + 0.5)


def cubic(x: float, a: float) -> float:
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def neighbours(rules: Rules, r: Resize, length: int, o: int, shrinks: bool) -> dict[int, float]:
    """Return weights by input position along one axis."""
    if rules.mode.endswith("pillow"):
        ratio = length / r.size
        wide = max(ratio, 1.0)
        center = (o + 0.5) * ratio - 0.5
        kernel = (
            (lambda d: max(0.0, 1 - abs(d)))
            if rules.mode == "bilinear_pillow"
            else (lambda d: cubic(d, rules.cube_coeff))
        )
        found = {i: kernel((i - center) / wide) for i in range(length)}
    else:
        x = coordinate(rules.transformation, o, r.scale, r.size, length)
        if rules.mode == "nearest":
            return {min(max(nearest(rules.nearest, x, r.scale), 0), length - 1): 1.0}
        if rules.mode == "cubic":
            found = {}
            for i in range(math.floor(x) - 1, math.floor(x) + 3):
                at = min(max(i, 0), length - 1)
                found[at] = found.get(at, 0.0) + cubic(x - i, rules.cube_coeff)
            return found
        if rules.mode == "linear_onnx":
            x = min(max(x, 0.0), length - 1.0)
        a = r.scale if rules.mode == "linear" and rules.antialias and shrinks else 1.0
        found = {i: max(0.0, 1 - abs(a * (x - i))) for i in range(length)}
        if rules.mode == "linear_onnx":
            return found
    total = sum(found.values())
    return {i: (v / total if total else 0.0) for i, v in found.items()}


def naive(x: Any, resizes: list[Resize], rules: Rules) -> Any:
    sizes = list(x.shape)
    for r in resizes:
        sizes[r.axis] = r.size
    shrinks = any(r.scale < 1 for r in resizes)
    y = np.zeros(sizes)
    for index in itertools.product(*(range(n) for n in sizes)):
        choices = [{i: 1.0} for i in index]
        for r in resizes:
            choices[r.axis] = neighbours(rules, r, x.shape[r.axis], index[r.axis], shrinks)
        for site in itertools.product(*choices):
            weight = math.prod(choices[a][i] for a, i in enumerate(site))
            y[index] += weight * float(x[site])
    return y


def draw(seed: int) -> tuple[Any, list[Resize]]:
    r = random.Random(seed)
    shape = (r.randint(1, 2), *(r.randint(1, 7) for _ in range(r.randint(1, 3))))
    axes = r.sample(range(len(shape)), r.randint(1, min(2, len(shape))))
    x = np.random.default_rng(seed).random(shape)
    resizes = []
    for a in axes:
        if r.random() < 0.5:
            size = r.randint(1, 10)
            resizes.append(Resize(a, size, size / shape[a]))
        else:  # powers of two: coordinates are exact in f32 as well
            scale = r.choice([0.5, 2.0, 4.0, 1.0])
            resizes.append(Resize(a, max(1, int(shape[a] * scale)), scale))
    return x, resizes


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("mode", "antialias"),
    [
        ("linear", False),
        ("linear", True),
        ("linear_onnx", False),
        ("cubic", False),
        ("bilinear_pillow", False),
        ("bicubic_pillow", True),
    ],
)
def test_weighted_modes(mode: Any, antialias: bool, seed: int, transformation: Any) -> None:
    x, resizes = draw(seed)
    rules = Rules(mode, transformation, antialias=antialias, cube_coeff=-0.5 - 0.25 * (seed % 2))
    want = naive(x, resizes, rules)
    # Coordinates are f32: their error, up to 10 * 2**-24, meets slopes of at most 2 per axis.
    assert np.abs(interpolate(x, resizes, rules) - want).max() < 1e-5
    y = interpolate(x.astype(np.float32), resizes, rules)
    assert y.dtype == np.float32
    assert np.abs(y - want).max() < 1e-5


@pytest.mark.parametrize("rule", NEAREST)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_nearest(rule: Any, transformation: Any, scale: float) -> None:
    x = np.arange(2 * 8 * 3).reshape(2, 8, 3)
    rules = Rules("nearest", transformation, rule)
    for axis in (0, 1, 2):
        size = int(x.shape[axis] * scale)
        if size:
            resizes = [Resize(axis, size, size / x.shape[axis])]
            y = interpolate(x, resizes, rules)
            assert y.dtype == x.dtype
            assert (y == naive(x, resizes, rules)).all()


def test_by_hand() -> None:
    x = np.array([1.0, 2.0, 4.0], np.float32)
    twice = [Resize(0, 6, 2.0)]
    half = interpolate(x, twice, Rules("linear_onnx"))
    assert half.tolist() == [1, 1.25, 1.75, 2.5, 3.5, 4]
    corners = interpolate(x, [Resize(0, 5, 5 / 3)], Rules("linear_onnx", "align_corners"))
    assert corners.tolist() == [1, 1.5, 2, 3, 4]
    assert interpolate(x, twice, Rules()).tolist() == [1, 1, 2, 2, 4, 4]
    # Cubic at 0.5 between 2 and 4 with a = -0.75: (-3, 19, 19, -3) / 32.
    middle = interpolate(x, [Resize(0, 6, 2.0)], Rules("cubic", "asymmetric"))
    assert middle[3] == pytest.approx((-3 * 1 + 19 * 2 + 19 * 4 - 3 * 4) / 32)


def test_integers_are_rounded_and_saturated() -> None:
    x = np.array([1, 2, 3, 4], np.uint8)
    y = interpolate(x, [Resize(0, 7, 7 / 4)], Rules("linear_onnx", "align_corners"))
    assert y.dtype == np.uint8
    assert y.tolist() == [1, 2, 2, 2, 3, 4, 4]
    steep = np.array([0, 0, 255, 255, 0, 0], np.uint8)
    y = interpolate(steep, [Resize(0, 12, 2.0)], Rules("cubic"))
    assert y.max() == 255
    assert y.min() == 0


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    x = np.array([1, 3], dtype)
    y = interpolate(x, [Resize(0, 4, 2.0)], Rules("linear"))
    assert y.dtype == dtype
    assert y.astype(float).tolist() == [1, 1.5, 2.5, 3]


def test_infinity_stays_in_its_neighbourhood() -> None:
    x = np.zeros((1, 16), np.float32)
    x[0, 5] = np.inf
    y = interpolate(x, [Resize(1, 32, 2.0)], Rules("linear"))
    assert np.flatnonzero(np.isinf(y)).tolist() == [9, 10, 11, 12]
    assert not np.isnan(y).any()


def test_empty() -> None:
    assert interpolate(np.ones((2, 3)), [Resize(1, 0, 0.0)], Rules()).shape == (2, 0)
    assert interpolate(np.ones((0, 3)), [Resize(1, 6, 2.0)], Rules("linear")).shape == (0, 6)
