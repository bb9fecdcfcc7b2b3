"""Suppression of overlapping boxes: NMS, matrix NMS, limits that sink, rotated boxes.

Boxes are two opposite corners, [y1, x1, y2, x2] or [x1, y1, x2, y2]; rotated ones [x, y, width,
height, angle], the angle in radians.

Detectors give many equal scores (saturated or quantised ones), and their order decides which boxes
are kept. So the runtime's unstable sorting is repeated. Keys are compared by < alone; without equal
ones every sorting agrees.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np

from irdeconv.ir.spec import Array


def corners(boxes: Array, *, center: bool) -> Array:
    """Return boxes (N, 4) with the lower corner first; `center`: they are [x, y, width, height]."""
    if center:
        middle, half = boxes[:, 1::-1], boxes[:, :1:-1] / 2
        return np.concatenate([middle - half, middle + half], 1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.concatenate([pairs.min(1), pairs.max(1)], 1)


def overlap(box: Array, others: Array, unit: float = 0.0) -> Array:
    """Return the intersection over the union of boxes (4, ...) and others (4, ...), broadcast.

    It is 0 for an empty box. `unit` is added to every side: 1 if corners are pixels that belong
    to the box.
    """
    with np.errstate(all="ignore"):  # sides may be infinite
        down = np.minimum(box[2], others[2]) - np.maximum(box[0], others[0]) + unit
        across = np.minimum(box[3], others[3]) - np.maximum(box[1], others[1]) + unit
        common = np.maximum(down, 0) * np.maximum(across, 0)
        own = (box[2] - box[0] + unit) * (box[3] - box[1] + unit)
        areas = (others[2] - others[0] + unit) * (others[3] - others[1] + unit)
        return np.where((areas > 0) & (own > 0), common / (own + areas - common), 0)


def touching(box: Array, others: Array, unit: float) -> Array:
    """Return `overlap`, but 0 for boxes with a gap between them that `unit` would fill."""
    apart = (others[0] > box[2]) | (others[2] < box[0])
    apart |= (others[1] > box[3]) | (others[3] < box[1])
    return np.where(apart, 0, overlap(box, others, unit))


BOXES_AT_ONCE = 32  # that are compared with all others at once
AT_ONCE = 1 << 20  # overlaps that are computed at once


def greedy(
    boxes: Array, limit: int, goes: Callable[[Array, Array], Array], block: int = BOXES_AT_ONCE
) -> list[int]:
    """Return the places that are kept of boxes (n, numbers) in the order of their scores.

    `goes(some, others)` is a mask (b, m) of boxes (numbers, b, 1) and others (numbers, 1, m): an
    other one goes if a better box is kept that it meets. At most `block` boxes are asked at once.
    """
    rest, places = np.ascontiguousarray(boxes.T), np.arange(len(boxes))
    kept: list[int] = []
    while len(places) and len(kept) < limit:
        count = max(1, min(block, limit - len(kept), AT_ONCE // len(places)))
        stay = ~goes(rest[:, :count, None], rest[:, None])
        alive = np.ones(len(places), bool)
        for i, those in enumerate(stay):
            if alive[i]:
                kept.append(int(places[i]))
                alive &= those
        alive[:count] = False
        rest, places = rest[:, alive], places[alive]
    return kept


def select(
    boxes: Array, scores: Array, limit: int, iou: float, least: float, sigma: float
) -> list[tuple[float, int]]:
    """Return (score, box) of those that are kept, the best first.

    A box goes whose overlap with a better one reaches `iou`; with a `sigma` above 0 its score is
    lowered by exp(-overlap^2 / 2 sigma) instead. Scores must exceed `least`.
    """
    if sigma > 0:
        queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > least]
        heapq.heapify(queue)
        found: list[tuple[float, int]] = []
        while queue and len(found) < limit:
            negative, i, seen = heapq.heappop(queue)
            shares = overlap(boxes[i], boxes[[k for _, k in found[seen:]]].T)
            score = -negative * math.exp(-0.5 * float(np.sum(shares * shares)) / sigma)
            if score == -negative:
                found.append((score, i))
            elif score > least:
                heapq.heappush(queue, (-score, i, len(found)))
        return found
    order = ranked(scores, scores > least)
    kept = greedy(boxes[order], limit, lambda box, others: overlap(box, others) >= iou)
    return [(float(scores[i]), int(i)) for i in order[kept]]


def ranked(scores: Array, chosen: Array) -> Array:
    """Return the places of the chosen ones, the best first; equal scores keep their order."""
    places = np.flatnonzero(chosen)
    return places[np.argsort(-scores[places], kind="stable")]


def decays(boxes: Array, sigma: float | None, unit: float) -> Array:
    """Return the factor (n,) of each of n boxes in the order of their scores.

    It is the smallest of (1 - o) / (1 - m), or exp((m^2 - o^2) sigma), over the better boxes: o is
    the overlap with it, m the largest overlap of that one with those that are better still.
    """
    out = np.ones(len(boxes), np.float32)
    most = np.zeros(len(boxes), np.float32)
    rows = max(AT_ONCE // max(len(boxes), 1), 1)
    for begin in range(0, len(boxes), rows):
        end = min(begin + rows, len(boxes))
        better = np.arange(end) < np.arange(begin, end)[:, None]
        shares = np.where(better, _overlaps(boxes[begin:end], boxes[:end], unit), np.float32(0))
        most[begin:end] = np.fmax.reduce(shares, 1, initial=np.float32(0))
        factors = np.where(better, _factors(shares, most[:end], sigma), np.float32(1))
        out[begin:end] = np.fmin.reduce(factors, 1, initial=np.float32(1))
    return out


def _factors(shares: Array, most: Array, sigma: float | None) -> Array:
    with np.errstate(all="ignore"):
        if sigma is None:
            wide = most.astype(np.float64)
            tiny = float(np.float32(1e-10))
            return np.asarray((1 - shares.astype(np.float64)) / (1 - wide + tiny), np.float32)
        return np.asarray(np.exp((most * most - shares * shares) * np.float32(sigma)))


def _overlaps(some: Array, others: Array, unit: float) -> Array:
    """Return (rows, n); boxes that do not touch share nothing, a reversed box has no area."""
    a, b = some[:, None], others[None]
    apart = np.any((b[..., :2] > a[..., 2:]) | (b[..., 2:] < a[..., :2]), -1)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]) + unit
    common = sides[..., 0] * sides[..., 1]
    with np.errstate(all="ignore"):  # no area at all: 0 / 0, which lowers nothing
        shares = common / (_areas(a, unit) + _areas(b, unit) - common)
    return np.where(apart, np.float32(0), shares)


def _areas(boxes: Array, unit: float) -> Array:
    sides = boxes[..., 2:] - boxes[..., :2]
    return np.where(np.any(sides < 0, -1), np.float32(0), np.prod(sides + unit, -1))


SINKS = 0.5  # a limit at or below this stays as it is


def multiclass_select(
    boxes: Array,
    scores: Array,
    count: int | None,
    least: float,
    iou: float,
    eta: float,
    unit: float,
) -> Array:
    """Return the places of the boxes that are kept, the best first.

    The `count` best boxes take part (None: all) whose score is at least `least`. A box goes whose
    overlap with a better one reaches `iou`; from 0 to 1, `eta` is the factor by which that sinks.
    """
    order = ranked(scores, scores >= np.float32(least))[:count]
    ready = boxes[order]
    if 0 <= eta < 1:
        return order[_sinking(ready, scores[order], least, iou, eta, unit)]
    limit = np.float32(iou)
    kept = greedy(ready, len(order), lambda box, others: overlap(box, others, unit) >= limit)
    return order[kept]


def _sinking(
    boxes: Array, scores: Array, least: float, iou: float, eta: float, unit: float
) -> list[int]:
    limit, factor, kept = np.float32(iou), np.float32(eta), list[int]()
    for i, score in enumerate(scores):
        # As in the runtime, a score of exactly the threshold meets only the box that was kept last.
        met = kept if score > np.float32(least) else kept[-1:]
        if np.any(overlap(boxes[i], boxes[met].T, unit) >= limit):
            continue
        kept.append(i)
        if limit > SINKS:
            limit *= factor
    return kept


_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_FLAT = 1e-7  # relative: an edge that rises less is level, dividing by its rise would cancel
_RESIDUE = 16 * np.finfo(np.float64).eps


def axes(boxes: Array) -> Array:
    """Return the directions (..., 2, 2) of width and height: two rows, each x and y."""
    cos, sin = np.cos(boxes[..., 4]), np.sin(boxes[..., 4])
    return np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)


def rotated_overlap(box: Array, others: Array) -> Array:
    """Return the intersection over the union with each of the others (n, 5); 0 for empty boxes."""
    box, others = box.astype(np.float64), others.astype(np.float64)
    own, areas = box[2] * box[3], others[:, 2] * others[:, 3]
    with np.errstate(all="ignore"):  # sides may be infinite
        corners = np.matmul(_CORNERS * others[:, None, 2:4], axes(others)) + others[:, None, :2]
        common = clipped(np.matmul(corners - box[:2], axes(box).T), box[2:4] / 2)
        common[common < _RESIDUE * own] = 0  # of boxes apart rounding leaves something
        valid = (areas > 0) & (own > 0)
        return np.where(valid, common / np.where(valid, own + areas - common, 1), 0)


def clipped(polygons: Array, half: Array) -> Array:
    """Return the area of polygons (n, corners, 2) within the box -half..half.

    Moving every point to the nearest one of the box leaves the common part where it is and folds
    the rest to lines: the area is the integral of the moved y over the moved x along the edges.
    """
    (x, y), (to_x, to_y) = (
        np.moveaxis(polygons, -1, 0),
        np.moveaxis(np.roll(polygons, -1, 1), -1, 0),
    )
    begin, end = np.clip(x, -half[0], half[0]), np.clip(to_x, -half[0], half[0])
    run = np.where(to_x == x, 1, to_x - x)
    slope = (to_y - y) / run
    low, high = y + slope * (begin - x), y + slope * (end - x)
    rise = high - low
    level = np.abs(rise) <= _FLAT * (np.abs(low) + np.abs(high) + half[1])
    middle = np.clip((low + high) / 2, -half[1], half[1])
    mean = (_integral(high, half[1]) - _integral(low, half[1])) / np.where(level, 1, rise)
    parts: Array = np.where(level, middle, mean) * (end - begin)
    return np.asarray(np.abs(np.sum(parts, -1)))


def _integral(y: Array, half: float) -> Array:
    """Return the integral of y cut to -half..half, up to a constant."""
    cut = np.clip(y, -half, half)
    return np.asarray(cut * y - cut * cut / 2)


UNDIVIDED = 16  # runs up to this length are left to a stable insertion sort


def first(keys: Array, count: int) -> Array:
    """Return the places of the `count` smallest keys in order: a heap of the smallest, sorted."""
    if len(np.unique(keys)) == len(keys):
        return np.argsort(keys, kind="stable")[:count]
    values = keys.tolist()
    order = list(range(len(values)))
    _keep_smallest(order, values, 0, count, len(order))
    return np.array(order[:count], np.int64)


def ascending(keys: Array) -> Array:
    """Return the places of all keys in order: quicksort by the median of three, then insertion."""
    if len(keys) <= UNDIVIDED or len(np.unique(keys)) == len(keys):
        return np.argsort(keys, kind="stable")
    values = keys.tolist()
    order = list(range(len(values)))
    _divide(order, values)
    return np.array(order)[np.argsort(keys[order], kind="stable")]


def _keep_smallest(
    order: list[int], values: Sequence[float], begin: int, middle: int, end: int
) -> None:
    """Sort the smallest of order[begin:end] into order[begin:middle]."""
    heap = order[begin:middle]
    if not heap:
        return
    for parent in range(len(heap) // 2 - 1, -1, -1):
        _sift(heap, values, parent, len(heap), heap[parent])
    for i in range(middle, end):
        if values[order[i]] < values[heap[0]]:
            moved, order[i] = order[i], heap[0]
            _sift(heap, values, 0, len(heap), moved)
    for last in range(len(heap) - 1, 0, -1):
        moved, heap[last] = heap[last], heap[0]
        _sift(heap, values, 0, last, moved)
    order[begin:middle] = heap


def _sift(heap: list[int], values: Sequence[float], top: int, size: int, moved: int) -> None:
    """Put an element into the place `top`: its hole sinks to a leaf, then the element rises."""
    hole = child = top
    while child < (size - 1) // 2:
        child = 2 * child + 2
        if values[heap[child]] < values[heap[child - 1]]:
            child -= 1
        heap[hole], hole = heap[child], child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * child + 1
        heap[hole], hole = heap[child], child
    parent = (hole - 1) // 2
    while hole > top and values[heap[parent]] < values[moved]:
        heap[hole], hole = heap[parent], parent
        parent = (hole - 1) // 2
    heap[hole] = moved


def _divide(order: list[int], values: Sequence[float]) -> None:
    """Partition until only short runs are unsorted; heap sort if that goes too deep."""
    pending = [(0, len(order), 2 * (len(order).bit_length() - 1))]
    while pending:
        begin, end, depth = pending.pop()
        while end - begin > UNDIVIDED:
            if depth == 0:
                _keep_smallest(order, values, begin, end, end)
                break
            depth -= 1
            cut = _partition(order, values, begin, end)
            pending.append((cut, end, depth))
            end = cut


def _partition(order: list[int], values: Sequence[float], begin: int, end: int) -> int:
    """Put the median of second, middle and last in front and divide the others by it."""
    three = [begin + 1, begin + (end - begin) // 2, end - 1]
    a, b, c = (values[order[i]] for i in three)
    if a < b:
        median = three[1] if b < c else three[2] if a < c else three[0]
    else:
        median = three[0] if a < c else three[2] if b < c else three[1]
    order[begin], order[median] = order[median], order[begin]
    pivot = values[order[begin]]
    low, high = begin + 1, end
    while True:
        while values[order[low]] < pivot:
            low += 1
        high -= 1
        while pivot < values[order[high]]:
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1
