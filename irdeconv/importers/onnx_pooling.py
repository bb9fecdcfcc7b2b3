"""ONNX's LpPool, GlobalLpPool and MaxUnpool."""

from __future__ import annotations

import math
from typing import Any

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal, require_one_length
from irdeconv.importers.onnx_convolution import pool_lists
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.elementwise import Multiply, Power
from irdeconv.ops.indexing import ScatterElementsUpdate
from irdeconv.ops.padding import Pad12
from irdeconv.ops.pooling import AvgPool14, AvgPool16
from irdeconv.ops.reduction import ReduceSum
from irdeconv.ops.unary import Abs, Sqrt


def _powers(n: OnnxNode, b: ImportBuilder, p: float) -> Value:
    return n[0] if p == 1 else b.add(Power(), b.add(Abs(), n[0]), b.like(p, n[0]))


def _root(b: ImportBuilder, sums: Value, p: float) -> Value:
    if p == 2:
        return b.add(Sqrt(), sums)
    return sums if p == 1 else b.add(Power(), sums, b.like(1 / p, sums))


def _p(n: OnnxNode) -> float:
    """Return the exponent: a real number in version 1, an integer from version 2 on."""
    return n.number("p", 2.0) if n.version < 2 else float(n.integer("p", 2))


@rule("LpPool", "1 2 11 18 22")
def lp_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The p-th root of the sum of |x|^p over each window, as a mean times the window's size."""
    p, lists = _p(n), pool_lists(n, b)
    if lists["rounding_type"] != "floor":
        lists |= {"rounding_type": "floor", "pads_end": _rounded_up(n, b, lists)}
    powers = b.add(Abs(), n[0]) if p == 1 else _powers(n, b, p)
    if any(d != 1 for d in lists["dilations"]):
        mean = b.add(AvgPool16(**lists, exclude_pad=False), powers)
    else:
        del lists["dilations"]
        mean = b.add(AvgPool14(**lists, exclude_pad=False), powers)
    count = b.like(math.prod(lists["kernel"]), mean)
    return _root(b, b.add(Multiply(), mean, count), p)


def _rounded_up(n: OnnxNode, b: ImportBuilder, lists: dict[str, Any]) -> tuple[int, ...]:
    """Return the end padding with which sizes that are rounded down become those rounded up."""
    sizes = b.static(n[0], "data pooled with ceil_mode=1")[2:]
    names = ("kernel", "strides", "dilations", "pads_begin", "pads_end")
    out = []
    for axis, size in enumerate(sizes):
        k, s, d, begin, end = (lists[name][axis] for name in names)
        left = size + begin + end - d * (k - 1) - 1
        windows = -(-left // s) + 1
        if (windows - 1) * s >= size + begin:  # no window begins behind the data
            windows -= 1
        out.append(max(end, (windows - 1) * s + d * (k - 1) + 1 - size - begin))
    return tuple(out)


@rule("GlobalLpPool", "1 2 22")
def global_lp_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The p-th root of the sum of |x|^p over all spatial axes."""
    p = _p(n)
    powers = b.add(Abs(), n[0]) if p == 1 else _powers(n, b, p)
    axes = b.ints(*range(2, b.rank(powers)))
    return _root(b, b.add(ReduceSum(keep_dims=True), powers, axes), p)


@rule("MaxUnpool", "9 11 22")
def max_unpool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Put maxima back to their places in the whole tensor, zeros elsewhere.

    Where `output_shape` is larger than what the pooling was of, zeros follow.
    """
    x, kernel = n[0], n.ints("kernel_shape")
    axes = len(kernel)
    strides, pads = n.ints("strides") or (1,) * axes, n.ints("pads") or (0,) * (2 * axes)
    shape = b.static(x, "the data")
    require_one_length(spatial_axes=shape[2:], kernel_shape=kernel, strides=strides)
    require_one_length(pads=pads, kernel_shape_twice=kernel * 2)
    rows = zip(shape[2:], strides, pads[:axes], pads[axes:], kernel, strict=True)
    size = (*shape[:2], *((d - 1) * s - p - q + k for d, s, p, q, k in rows))
    given = n.known(b, 2, "output_shape")
    wanted = size if given is None else tuple(b.vector(n[2], "output_shape"))
    if len(wanted) != len(size) or any(w < s for w, s in zip(wanted, size, strict=True)):
        raise Refusal(f"output_shape {list(wanted)} is below {list(size)}")
    dtype = b.dtype(x)
    flat = b.add(Broadcast("numpy"), b.scalar(0, dtype), b.ints(math.prod(size)))
    places, values = b.reshape(n[1], (-1,)), b.reshape(x, (-1,))
    y = b.reshape(b.add(ScatterElementsUpdate(), flat, places, values, b.scalar(0)), size)
    if wanted == size:
        return y
    n.remarks.append("places count in the data before pooling; ONNX Runtime counts in the output")
    more = b.ints(*(w - s for w, s in zip(wanted, size, strict=True)))
    return b.add(Pad12("constant"), y, b.ints(*(0,) * len(size)), more)
