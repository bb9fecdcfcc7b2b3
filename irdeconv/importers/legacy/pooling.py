"""Legacy poolings: sizes round up unless told otherwise, means divide in three ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.convolution import WindowLists, windows
from irdeconv.importers.legacy.layer import Ints, LegacyLayer, Outputs, layer
from irdeconv.ops.padding import Pad12
from irdeconv.ops.pooling import AvgPool1, MaxPool1


@dataclass(frozen=True)
class _WindowCounts:
    """How many windows there are on each axis, and where they end behind the data."""

    outputs: Ints
    ends: Ints


@layer("Pooling")
def pooling(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Maxima or means of windows.

    Sizes are ceil((I + pads - K) / S) + 1, less a window that would begin behind the data and the
    pads in front; `rounding_type` floor rounds down. Means divide by the elements of the data
    unless `exclude-pad` is false and something is padded in front: then by those of the data with
    as many zeros behind as in front.
    """
    shape = b.static(n[0], "the data")
    sizes = shape[2:]
    if len(shape) not in (3, 4, 5):
        raise Refusal(f"data of {len(shape)} dimensions")
    w = windows(n, sizes)
    method = n.word("pool-method", "max", "max avg")
    excludes = n.flag("exclude-pad", False)
    if any(d != 1 for d in w.dilations):
        raise Refusal(f"dilations {list(w.dilations)} of a pooling")
    found = _sizes(n, w, sizes)
    if method == "max":
        return b.add(MaxPool1(**_lists(w, found, sizes)), n[0])
    if excludes or not any(w.pads_begin):
        return b.add(AvgPool1(exclude_pad=True, **_lists(w, found, sizes)), n[0])
    return _with_zeros(b, n[0], w, found, sizes)


def _rounds_up(n: LegacyLayer) -> bool:
    spelled = [a for a in ("rounding_type", "rounding-type") if a in n]
    texts = {n.text(a).lower() for a in spelled}
    if texts - {"ceil", "floor"} or len(texts) > 1:
        raise Refusal(f"the rounding {', '.join(sorted(texts))} is not covered")
    return texts != {"floor"}


def _sizes(n: LegacyLayer, w: WindowLists, sizes: Ints) -> _WindowCounts:
    """Return the number of windows by the rule of the Inference Engine."""
    up, auto = _rounds_up(n), n.text("auto_pad", "").lower()
    outputs, ends = [], []
    for size, k, s, p, q in zip(sizes, w.kernel, w.strides, w.pads_begin, w.pads_end, strict=True):
        if auto.startswith("same"):
            count = -(-size // s)
        else:
            room = size + p + q - k
            count = (-(-room // s) if up and auto != "valid" else room // s) + 1
            count -= (count - 1) * s >= size + p
        outputs.append(count)
        ends.append((count - 1) * s + k - p - size)
    return _WindowCounts(tuple(outputs), tuple(ends))


def _lists(w: WindowLists, found: _WindowCounts, sizes: Ints) -> dict[str, Any]:
    """Return the attributes of a pooling that has these windows, as plain as they can be."""
    lists: dict[str, Any] = {
        "kernel": w.kernel,
        "strides": w.strides,
        "pads_begin": w.pads_begin,
        "pads_end": w.pads_end,
    }
    rooms = [
        (i + p + q - k, s)
        for i, p, q, k, s in zip(sizes, w.pads_begin, w.pads_end, w.kernel, w.strides, strict=True)
    ]
    if tuple(r // s + 1 for r, s in rooms) == found.outputs:
        return lists
    if tuple(-(-r // s) + 1 for r, s in rooms) == found.outputs:
        return {**lists, "rounding_type": "ceil"}
    # Neither way of rounding has this many windows: pads at the end tell how far the last reaches.
    return {**lists, "pads_end": tuple(max(e, 0) for e in found.ends)}


def _with_zeros(
    b: ImportBuilder, x: Value, w: WindowLists, found: _WindowCounts, sizes: Ints
) -> Value:
    """Return means over the data and as many zeros behind as in front."""
    if all(e <= p for e, p in zip(found.ends, w.pads_begin, strict=True)):
        # No window reaches beyond these zeros: all means divide by the whole kernel.
        return b.add(AvgPool1(exclude_pad=False, **_lists(w, found, sizes)), x)
    pads = b.ints(0, 0, *w.pads_begin)
    padded = b.add(Pad12(pad_mode="constant"), x, pads, pads)
    zeros = (0,) * len(sizes)
    within = tuple(s + 2 * p for s, p in zip(sizes, w.pads_begin, strict=True))
    ends = tuple(max(e - p, 0) for e, p in zip(found.ends, w.pads_begin, strict=True))
    moved = WindowLists(w.kernel, w.strides, zeros, ends, w.dilations)
    return b.add(AvgPool1(exclude_pad=True, **_lists(moved, found, within)), padded)
