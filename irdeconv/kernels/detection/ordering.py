"""Orders that are not stable: where the runtime's sorting leaves equal keys.

Detectors give many equal scores (saturated or quantised ones), and which of them come first decides
which boxes are kept. Keys are compared by < alone; without equal ones every sorting agrees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.spec import Array

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
    """Partition until only short runs are unsorted; heap sort where that goes too deep."""
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
