"""ONNX's Pad."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule, wrap
from irdeconv.ops.movement import Concat
from irdeconv.ops.padding import Pad12
from irdeconv.ops.slicing import Gather, Slice
from irdeconv.spec import bounds

MODES = ("constant", "reflect", "edge")


@rule("Pad", "1 2 11 13 18 19 21 23 24 25")
def pad(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Extend axes; negative pads crop; wrap repeats the data."""
    x = n[0]
    mode = n.meaning("mode", "constant", {m: m for m in (*MODES, "wrap")})
    if n.version < 11:
        pads: Value = b.ints(*n.ints("pads" if n.version > 1 else "paddings"))
        value: Value | None = b.like(n.number("value", 0.0), x)
    else:
        pads, value = n[1], n.input(2)
    begin, end = _pads(n, b, pads, _rank(n, b, x, pads))
    if mode == "wrap":
        return _wrapped(b, x, begin, end)
    op = Pad12(mode)
    if mode != "constant":
        _check_mirror(b, x, begin, end, mode)
    if mode != "constant" or value is None:
        return b.add(op, x, begin, end)
    return b.add(op, x, begin, end, b.as_scalar(value))


def _rank(n: OnnxNode, b: ImportBuilder, x: Value, pads: Value) -> int:
    """Return the number of axes; pads of all axes tell it where the data does not."""
    shape = b.spec(pads).shape
    if b.spec(x).shape is None and shape and not (n.version >= 18 and n.input(3)):
        count = shape[0]
        if isinstance(count, int):
            return count // 2
    return b.rank(x)


def _wrapped(b: ImportBuilder, x: Value, begin: Value, end: Value) -> Value:
    """Take the elements from -begin to size + end of each axis, counted around."""
    for axis, (p, q) in enumerate(zip(b.need(begin, "pads"), b.need(end, "pads"), strict=True)):
        size = b.shape(x, 1)[axis]
        if p or q:
            if not isinstance(size, int) or size < 1:
                raise Refusal(f"wrapping axis {axis} of size {size}")
            b.room(abs(int(p)) + size + abs(int(q)))
            places = np.arange(-int(p), size + int(q)) % size
            x = b.add(Gather(), x, b.const(places), b.scalar(axis))
    return x


def _check_mirror(b: ImportBuilder, x: Value, begin: Value, end: Value, mode: str) -> None:
    """Refuse what systems compute differently: cropping and mirroring on one axis."""
    lists = [b.known(v) for v in (begin, end)]
    if lists[0] is None or lists[1] is None:
        return
    for axis, (p, q) in enumerate(zip(lists[0].tolist(), lists[1].tolist(), strict=True)):
        low = bounds(b.shape(x, 1)[axis])[0]
        if min(p, q) < 0 < max(p, q) and (mode == "reflect" or -min(p, q) >= low):
            raise Refusal(f"pads {p} and {q} of axis {axis} crop and {mode} on one axis")


def _pads(n: OnnxNode, b: ImportBuilder, pads: Value, rank: int) -> tuple[Value, Value]:
    """Return pads_begin and pads_end of all axes."""
    axes = n.known(b, 3, "axes") if n.version >= 18 else None
    known = b.known(pads)
    if known is None:
        if axes is not None:
            return _placed(b, pads, [wrap(int(a), rank) for a in axes], rank)
        halves = ((0, rank), (rank, 2 * rank))
        found = [b.add(Slice(), pads, *map(b.ints, (*half, 1, 0))) for half in halves]
        return found[0], found[1]
    chosen = list(range(rank)) if axes is None else [wrap(int(a), rank) for a in axes]
    if known.dtype.kind != "i":
        raise Refusal(f"pads are {b.dtype(pads)}")
    if known.size != 2 * len(chosen):
        raise Refusal(f"pads have {known.size} values for {len(chosen)} axes")
    out = np.zeros((2, rank), np.int64)
    out[:, chosen] = known.reshape(2, -1)
    return b.ints(*out[0]), b.ints(*out[1])


def _placed(b: ImportBuilder, pads: Value, axes: list[int], rank: int) -> tuple[Value, Value]:
    """Return pads of some axes, which are no constant, with 0 for the others."""
    all = b.add(Concat(0), b.convert(pads, i64), b.ints(0))
    none, count = 2 * len(axes), len(axes)
    begin = [axes.index(a) if a in axes else none for a in range(rank)]
    end = [count + axes.index(a) if a in axes else none for a in range(rank)]
    found = [b.add(Gather(), all, b.ints(*at), b.scalar(0)) for at in (begin, end)]
    return found[0], found[1]
