"""Kernels of detection against definitions: loops over boxes, samples and edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.kernels import boxes, regions, suppression
from irdeconv.ops import detectron

Point = tuple[float, float]


def clip(polygon: list[Point], axis: int, limit: float, sign: int) -> list[Point]:
    """Return the part of a polygon where sign * coordinate <= limit."""
    out: list[Point] = []
    for p, q in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
        a, b = limit - sign * p[axis], limit - sign * q[axis]
        if a >= 0:
            out.append(p)
        if a * b < 0:
            out.append((p[0] + (q[0] - p[0]) * a / (a - b), p[1] + (q[1] - p[1]) * a / (a - b)))
    return out


def area(polygon: list[Point]) -> float:
    pairs = zip(polygon, [*polygon[1:], *polygon[:1]], strict=True)
    return abs(sum(p[0] * q[1] - q[0] * p[1] for p, q in pairs)) / 2


@pytest.mark.parametrize("seed", range(8))
def test_area_of_a_polygon_within_a_box(seed: int) -> None:
    r = np.random.default_rng(seed)
    angles = r.choice([0, math.pi / 2, 1.3, 2.7], (20, 1))  # level edges among them
    boxes = np.concatenate([r.normal(0, 1, (20, 2)), r.uniform(0.5, 4, (20, 2)), angles], 1)
    directions = suppression.axes(boxes)
    sides = 0.5 * boxes[:, None, 2:4] * [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    polygons = sides @ directions + boxes[:, None, :2]
    half = np.array([1.5, 1.0])
    got = suppression.clipped(polygons, half)
    for value, corners in zip(got, polygons, strict=True):
        left = [(float(x), float(y)) for x, y in corners]
        for axis in (0, 1):
            for sign in (-1, 1):
                left = clip(left, axis, half[axis], sign)
        assert math.isclose(value, area(left), abs_tol=1e-9)


def test_overlap_of_rotated_boxes_is_symmetric_and_full_for_the_same() -> None:
    r = np.random.default_rng(0)
    boxes = np.concatenate(
        [r.normal(0, 1, (12, 2)), r.uniform(0.5, 4, (12, 2)), r.uniform(-7, 7, (12, 1))], 1
    )
    shares = np.stack([suppression.rotated_overlap(b, boxes) for b in boxes])
    np.testing.assert_allclose(shares, shares.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(shares), 1, atol=1e-12)
    assert (shares >= 0).all()


@pytest.mark.parametrize("size", [1, 2, 16, 17, 100, 3000])
@pytest.mark.parametrize("values", [1, 4, 10**9])
def test_orders_are_orders(size: int, values: int) -> None:
    keys = np.random.default_rng(size).integers(0, values, size).astype(np.float32)
    full = suppression.ascending(keys)
    assert sorted(full) == list(range(size))
    assert (np.diff(keys[full]) >= 0).all()
    for count in (0, 1, size // 2, size):
        some = suppression.first(keys, count)
        assert len(set(some)) == count
        np.testing.assert_array_equal(keys[some], np.sort(keys)[:count])


class Adversary:
    """A key that is decided as late as possible, so that each pivot is nearly the smallest."""

    decided = 0
    candidate: Adversary | None = None

    def __init__(self) -> None:
        self.value = math.inf

    def decide(self) -> None:
        self.value, Adversary.decided = Adversary.decided, Adversary.decided + 1

    def __lt__(self, other: Adversary) -> bool:
        if self.value == other.value == math.inf:
            (self if self is Adversary.candidate else other).decide()
        if math.inf in (self.value, other.value):
            Adversary.candidate = self if self.value == math.inf else other
        return self.value < other.value


def test_keys_against_quicksort_are_sorted_by_a_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    heaps: list[int] = []
    sort = suppression._keep_smallest

    def counted(order: Any, values: Any, begin: int, middle: int, end: int) -> None:
        heaps.append(end - begin)
        sort(order, values, begin, middle, end)

    monkeypatch.setattr(suppression, "_keep_smallest", counted)
    keys: Any = [Adversary() for _ in range(400)]
    order = list(range(len(keys)))
    suppression._divide(order, keys)
    assert max(heaps) > suppression.UNDIVIDED
    values = np.array([min(k.value, len(keys)) for k in keys])
    np.testing.assert_array_equal(values[suppression.ascending(values)], np.sort(values))


@pytest.mark.parametrize("sigma", [None, 0.5])
@pytest.mark.parametrize("block", [1, 40, 10**6])
def test_decays(sigma: float | None, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression, "AT_ONCE", block)
    r = np.random.default_rng(3)
    low = r.integers(0, 9, (17, 2))
    boxes = np.concatenate([low, low + r.integers(0, 6, (17, 2))], 1).astype(np.float32)
    most = [0.0] * len(boxes)
    want = []
    for i, b in enumerate(boxes):
        shares = [share(b, boxes[j]) for j in range(i)]
        most[i] = max([0.0, *(s for s in shares if s == s)])
        factors = [
            (1 - s) / (1 - m + 1e-10) if sigma is None else math.exp((m * m - s * s) * sigma)
            for s, m in zip(shares, most, strict=False)
            if s == s
        ]
        want.append(min([1.0, *factors]))
    np.testing.assert_allclose(suppression.decays(boxes, sigma, 0.0), want, atol=1e-5)


def share(a: Any, b: Any) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width < 0 or height < 0:
        return 0.0
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return float(width * height / union) if union else math.nan


def read(plane: Any, y: float, x: float) -> float:
    """Return a bilinear sample; 0 more than one element outside."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = plane[top, left] * (1 - x + left) + plane[top, right] * (x - left)
    lower = plane[below, left] * (1 - x + left) + plane[below, right] * (x - left)
    return float(upper * (1 - y + top) + lower * (y - top))


@pytest.mark.parametrize("sampling", [0, 1, 3])
@pytest.mark.parametrize("region", [[1, 2, 3.5, 3], [-4, 1.25, 2, 9], [3, 3, 3, 3], [20, 0, 30, 4]])
@pytest.mark.parametrize("shape", [(5, 4), (1, 7)])
def test_pooled_regions(shape: tuple[int, int], region: list[float], sampling: int) -> None:
    features = np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)
    bins, (x1, y1, x2, y2) = 2, region
    width, height = max(x2 - x1, 1) / bins, max(y2 - y1, 1) / bins
    across = sampling or math.ceil(width)
    down = sampling or math.ceil(height)
    want = np.zeros((2, bins, bins))
    for c, i, j in np.ndindex(2, bins, bins):
        ys = [y1 + (i + (k + 0.5) / down) * height for k in range(down)]
        xs = [x1 + (j + (k + 0.5) / across) * width for k in range(across)]
        want[c, i, j] = np.mean([[read(features[c], y, x) for x in xs] for y in ys])
    begin = np.array(region[:2], np.float32)
    extent = np.maximum(np.array(region[2:], np.float32) - begin, np.float32(1))
    axes = [regions.axis_of_samples(begin[i], extent[i], bins, sampling) for i in (1, 0)]
    got = regions.average(features, *axes)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_levels_by_size() -> None:
    sides = [10, 111, 112, 223, 224, 447, 448, 900, 5000]
    rows = np.array([[3, 4, 3 + s, 4 + s] for s in sides] + [[5, 5, 5, 9]], np.float32)
    # Up to 112 level 0 (and below it), up to 224 level 1, and so on; the sides are 112 * 2^n.
    want = [0, 0, 1, 1, 2, 2, 3, 3, 3, 4]
    assert list(boxes.levels(rows, 4)) == want


def test_sizes_that_only_running_shows_are_refused() -> None:
    grid = detectron.ExperimentalDetectronPriorGridGenerator(h=3)
    shapes = (2, 4), (1, 9, 2, 5), (1, 3, 8, 6)
    with pytest.raises(OpError, match="h is 3, feature_map has 2") as caught:
        grid.evaluate(*(np.zeros(s, np.float32) for s in shapes))
    assert caught.value.problem.code == "E304"
    best = detectron.ExperimentalDetectronTopKROIs(max_rois=2)
    with pytest.raises(OpError, match="axis 1 of input_rois has size 6; it must be 4"):
        best.evaluate(np.zeros((6, 6), np.float32), np.zeros(6, np.float32))
