"""Kernels of pooling, detection, interpolation and sequences against their definitions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.ir import geometry
from irdeconv.kernels import boxes, jit, pooling, recurrent, suppression
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.candidate import WindowAxis, window_axes
from irdeconv.kernels.interpolation import Resize, Rules, interpolate
from irdeconv.kernels.scratch import BlockSizes
from irdeconv.kernels.threads import Threads
from irdeconv.ops import detectron
from support import oracle
from support.rows import each_row


def draw(seed: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Draw a shape, and what the oracle takes: kernel, strides, dilations, pads and outputs."""
    r = random.Random(seed)
    rank = r.randint(1, 3)
    top = {1: 11, 2: 7, 3: 4}[rank]

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(r.randint(low, high) for _ in range(rank))

    shape = (r.randint(1, 2), r.randint(1, 3), *axis(1, top))
    return shape, (axis(1, 4), axis(1, 4), axis(1, 3), axis(0, 5), axis(1, 5))


def axes_of(sizes: Sequence[int], rule: Sequence[tuple[int, ...]]) -> list[WindowAxis]:
    *windows, outputs = rule
    return window_axes(sizes, outputs, *windows)


def values(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(0).integers(0, 20, shape).astype(dtype)


@pytest.fixture(params=[(1, 0), (1 << 18, 0), (1, np.inf), (1 << 18, np.inf)])
def plane_bytes(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool plane by plane or all at once, by slices or by shifts of flat memory."""
    monkeypatch.setattr(blocking, "SIZES", BlockSizes(pooling_bytes=request.param[0]))
    monkeypatch.setattr(pooling, "_slices_cost", lambda axes: request.param[1])


@pytest.mark.usefixtures("plane_bytes")
@pytest.mark.sampled(100)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int64])
@pytest.mark.parametrize("seed", range(25))
def test_maxima_and_their_places(seed: int, dtype: Any) -> None:
    shape, rule = draw(seed)
    windows = axes_of(shape[2:], rule)
    x = values(shape, dtype)
    best, where = oracle.max_pool(x, *rule)
    lowest = np.finfo(dtype).min if dtype == np.float32 else np.iinfo(dtype).min
    want = np.where(best == None, lowest, best).astype(dtype)  # noqa: E711 -- elementwise
    assert (pooling.max_pool(x, windows) == want).all()
    for axis in range(x.ndim):
        y, found = pooling.max_pool_indices(x, windows, axis)
        inside = int(np.prod(shape[axis:]))
        known = np.array([w is not None for w in where.reshape(-1)]).reshape(where.shape)
        assert y.dtype == dtype
        assert (y == want).all()
        assert (found[known] == where[known] % inside).all()


@pytest.mark.usefixtures("plane_bytes")
@each_row("exclude_pad", [True, False])
@each_row("seed", range(25))
def test_means(seed: int, exclude_pad: bool) -> None:
    shape, rule = draw(seed)
    windows = axes_of(shape[2:], rule)
    total, inside = oracle.avg_pool(values(shape, np.int32), *rule)
    count = inside if exclude_pad else np.full(inside.shape, np.prod(rule[0]))
    for dtype in (np.float64, np.float32, np.int32):
        y = pooling.avg_pool(values(shape, dtype), windows, exclude_pad=exclude_pad)
        assert y.dtype == dtype
        for got, s, n in zip(
            y.flat, total.flat, np.broadcast_to(count, total.shape).flat, strict=True
        ):
            if n:
                exact = int(s) / int(n)
                assert got == (round(exact) if dtype == np.int32 else dtype(exact))


def test_windows_without_data() -> None:
    x = np.ones((1, 1, 2), np.float32)
    windows = axes_of(x.shape[2:], [(1,), (1,), (1,), (1,), (4,)])
    assert pooling.avg_pool(x, windows, exclude_pad=True)[0, 0].tolist() == [0, 1, 1, 0]
    assert pooling.max_pool_indices(x, windows)[1].tolist() == [[[0, 0, 1, 0]]]


def test_index_of_a_window_without_data_is_its_planes_first() -> None:
    x = np.ones((1, 2, 3), np.float32)
    windows = axes_of(x.shape[2:], [(1,), (4,), (1,), (1,), (2,)])  # positions -1 and 3
    assert pooling.max_pool_indices(x, windows, 1)[1].tolist() == [[[0, 0], [3, 3]]]
    assert pooling.max_pool_indices(x, windows, 2)[1].tolist() == [[[0, 0], [0, 0]]]


def test_negative_infinity_gives_the_lowest_finite_value() -> None:
    x = np.full((1, 1, 3), -np.inf, np.float32)
    windows = axes_of(x.shape[2:], [(2,), (1,), (1,), (1,), (4,)])
    y, found = pooling.max_pool_indices(x, windows)
    assert (y == np.finfo(np.float32).min).all()
    assert (pooling.max_pool(x, windows) == y).all()
    assert (pooling.max_pool(x * np.nan, windows) == y).all()  # NaN never wins either
    assert not pooling.max_pool_indices(x * np.nan, windows)[1].any()
    assert found.tolist() == [[[0, 0, 1, 2]]]


def test_narrow_floats_are_summed_in_f32() -> None:
    for dtype, big in ((np.float16, 2048), (ml_dtypes.bfloat16, 256)):
        x = np.array([big, 1, 1, big], dtype).reshape(1, 1, 4)
        windows = axes_of([4], [(4,), (1,), (1,), (0,), (1,)])
        y = pooling.avg_pool(x, windows, exclude_pad=True)
        assert y.dtype == dtype
        assert float(y.item()) == float(dtype((2 * big + 2) / 4))


@each_row(
    ("rounding", "size", "pad", "stride", "want"),
    [
        ("floor", 8, (1, 1), 3, 3),
        ("ceil", 8, (1, 1), 3, 4),
        ("ceil_torch", 8, (1, 1), 3, 3),
        ("ceil", 6, (2, 0), 2, 4),
        ("ceil_torch", 6, (2, 0), 2, 4),
        ("floor", 6, (2, 0), 2, 3),
    ],
)
def test_rounding(rounding: Any, size: int, pad: tuple[int, int], stride: int, want: int) -> None:
    assert geometry.steps(size, 3, stride, pad, rounding) == want


@pytest.mark.parametrize(
    ("rule", "want"), [("same_upper", (1, 2)), ("same_lower", (2, 1)), ("valid", (0, 0))]
)
def test_automatic_pads(rule: str, want: tuple[int, int]) -> None:
    begin, end = geometry.pads(rule, [7], [4], [1], [1], ([5], [5]))
    assert (*begin, *end) == want
    assert geometry.pads("explicit", [7], [4], [1], [1], ([5], [6])) == ((5,), (6,))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), (3, 2), (3, 3), (2, 4)])
def test_common_windows(
    kernel: int, stride: int, pad: int, average: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows that are compiled where numba is there, against the form without it."""
    x = (
        np.random.default_rng(pad)
        .normal(size=(2, 3, 9, 21 if stride < 3 else 77))
        .astype(np.float32)
    )
    x.reshape(-1)[[0, 30, 31, 200]] = np.nan, np.inf, -np.inf, np.inf
    x[1, 1] = -np.inf
    for extra in range(3):
        sizes = tuple((i + pad + extra - kernel) // stride + 1 for i in x.shape[2:])
        rule = (kernel,) * 2, (stride,) * 2, (1, 1), (pad, min(pad, 1)), sizes
        windows = axes_of(x.shape[2:], rule)
        counts = pooling.counts(windows, exclude_pad=True) if average else None
        got, want = (np.empty((2, 3, *sizes), np.float32) for _ in range(2))
        with np.errstate(all="ignore"):
            pooling.Pooling(x.shape, x.dtype, windows, counts)(x, got, Threads(3))
            with monkeypatch.context() as m:
                m.setattr(jit, "available", lambda: False)
                pooling.Pooling(x.shape, x.dtype, windows, counts)(x, want, Threads())
        np.testing.assert_allclose(got, want, rtol=9 * 2.0**-24 if average else 0, atol=2.0**-22)


# Detection: loops over boxes, samples and edges.


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


@each_row("seed", range(8))
def test_area_of_a_polygon_within_a_box(seed: int) -> None:
    r = np.random.default_rng(seed)
    angles = r.choice([0, math.pi / 2, 1.3, 2.7], (20, 1))  # level edges among them
    boxes = np.concatenate([r.normal(0, 1, (20, 2)), r.uniform(0.5, 4, (20, 2)), angles], 1)
    directions = suppression.axes(boxes)
    sides = 0.5 * boxes[:, None, 2:4] * [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    polygons = sides @ directions + boxes[:, None, :2]
    half = np.array([1.5, 1.0])
    for value, corners in zip(suppression.clipped(polygons, half), polygons, strict=True):
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


def test_rotated_boxes_apart_do_not_overlap() -> None:
    box, other = np.array([[-0.25, 1.5, 1.5, 1.75, 1.75], [-1.75, 1, 0.75, 1.75, 0.25]])
    assert suppression.rotated_overlap(box, other[None]) == 0
    assert suppression.rotated_overlap(other, box[None]) == 0


@each_row("limit", [1, 7, 300])
@each_row("block", [1, 3, 64])
def test_boxes_are_kept_one_by_one(block: int, limit: int) -> None:
    r = np.random.default_rng(limit)
    low = r.uniform(0, 9, (300, 2))
    boxes = np.concatenate([low, low + r.uniform(0, 4, (300, 2))], 1).astype(np.float32)
    kept: list[int] = []
    for i, box in enumerate(boxes):
        if len(kept) < limit and not np.any(suppression.overlap(box, boxes[kept].T) > 0.3):
            kept.append(i)
    goes = lambda some, others: suppression.overlap(some, others) > 0.3  # noqa: E731
    assert suppression.greedy(boxes, limit, goes, block) == kept


@each_row("size", [1, 2, 16, 17, 100, 3000])
@each_row("values", [1, 4, 10**9])
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


@each_row("sampling", [0, 1, 3])
@each_row("region", [[1, 2, 3.5, 3], [-4, 1.25, 2, 9], [3, 3, 3, 3], [20, 0, 30, 4]])
@each_row("shape", [(5, 4), (1, 7)])
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
    axes = [boxes.axis_of_samples(begin[i], extent[i], bins, sampling) for i in (1, 0)]
    np.testing.assert_allclose(boxes.average(features, *axes), want, atol=1e-5)


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


# Interpolation kernels against the specification's pseudo-code, one output element at a time.


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


def draw_resize(seed: int) -> tuple[Any, list[Resize]]:
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


@pytest.mark.sampled(120)
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
    x, resizes = draw_resize(seed)
    rules = Rules(mode, transformation, antialias=antialias, cube_coeff=-0.5 - 0.25 * (seed % 2))
    want = naive(x, resizes, rules)
    # Coordinates are f32: their error, up to 10 * 2**-24, meets slopes of at most 2 per axis.
    assert np.abs(interpolate(x, resizes, rules) - want).max() < 1e-5
    y = interpolate(x.astype(np.float32), resizes, rules)
    assert y.dtype == np.float32
    assert np.abs(y - want).max() < 1e-5


@each_row("rule", NEAREST)
@each_row("transformation", TRANSFORMATIONS)
@each_row("scale", [0.25, 0.5, 1.0, 2.0, 4.0])
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
    y = interpolate(np.array([1, 3], dtype), [Resize(0, 4, 2.0)], Rules("linear"))
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


# Classification of sequences against sums over all paths and a loop over steps.


def read_path(path: tuple[int, ...], blank: int, *, merge: bool) -> list[int]:
    """Return what a path of classes spells."""
    pairs = zip((None, *path), path, strict=False)
    return [c for p, c in pairs if c != blank and not (merge and c == p)]


@each_row("merge", [False, True])
@each_row("seed", range(12))
def test_loss_sums_all_paths(seed: int, merge: bool) -> None:
    r = np.random.default_rng(seed)
    steps, classes = int(r.integers(1, 6)), int(r.integers(2, 5))
    blank = int(r.integers(0, classes))
    others = [c for c in range(classes) if c != blank]
    labels = r.choice(others, int(r.integers(0, steps + 1)))
    chances = r.dirichlet(np.ones(classes), steps)
    total = sum(
        math.prod(chances[t, c] for t, c in enumerate(path))
        for path in itertools.product(range(classes), repeat=steps)
        if read_path(path, blank, merge=merge) == list(labels)
    )
    want = -math.log(total) if total else math.inf
    got = recurrent.loss(np.log(chances) + 5, labels, blank, merge=merge)
    assert math.isclose(got, want, abs_tol=1e-9)


@each_row("merge", [False, True])
@each_row("seed", range(6))
def test_decoding_reads_each_sequence(seed: int, merge: bool) -> None:
    r = random.Random(seed)
    lengths = [r.randint(0, 7) for _ in range(5)]
    classes = np.array([[r.randint(0, 2) for _ in range(7)] for _ in lengths])
    used = np.arange(7) < np.array(lengths)[:, None]
    out, counts = recurrent.decoded(classes, used, 1, merge=merge)
    for found, number, steps, length in zip(out, counts, classes, lengths, strict=True):
        want = read_path(tuple(steps[:length]), 1, merge=merge)
        assert list(found) == want + [-1] * (7 - len(want))
        assert number == len(want)
