"""ONNX's Conv, ConvTranspose, poolings, MaxUnpool and Pad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.base.errors import values_of
from irdeconv.formats.importing import ImportBuilder, OpenSizeRefusal, Refusal
from irdeconv.formats.onnx_node import NHWC, OnnxNode, Outputs, require_one_length, rule, wrap
from irdeconv.ir.dtypes import i64
from irdeconv.ir.graph import Value
from irdeconv.ir.op import lookup
from irdeconv.ir.spec import Shape, bounds, compatible, format_shape, is_static
from irdeconv.ops.convolution import DeformableConvolution
from irdeconv.ops.elementwise import Abs, Divide, FloorMod, Power, Sqrt
from irdeconv.ops.indexing import ScatterElementsUpdate
from irdeconv.ops.movement import Concat, Pad12
from irdeconv.ops.pooling import AvgPool14, AvgPool16, MaxPool14
from irdeconv.ops.reduction import ReduceMax, ReduceMean, ReduceSum

AUTO_PAD: dict[str, Any] = {
    "NOTSET": "explicit",
    "SAME_UPPER": "same_upper",
    "SAME_LOWER": "same_lower",
    "VALID": "valid",
}


def _mode(n: OnnxNode) -> str:
    mode = n.text("auto_pad", "NOTSET")
    if mode not in AUTO_PAD:
        raise Refusal(f'auto_pad="{mode}" is none of {", ".join(AUTO_PAD)}')
    return mode


def _auto_pad(n: OnnxNode) -> Any:
    mode = _mode(n)
    if mode != "NOTSET" and any(n.ints("pads")):
        raise Refusal(f"pads together with auto_pad={mode}: ONNX allows one of them")
    return AUTO_PAD[mode]


def _lists(n: OnnxNode, axes: int) -> dict[str, Any]:
    """Return strides, dilations and pads with ONNX's defaults filled in."""
    pads = n.ints("pads") or (0,) * (2 * axes)
    out = {
        "strides": n.ints("strides") or (1,) * axes,
        "dilations": n.ints("dilations") or (1,) * axes,
    }
    for name, values, count in (*((k, v, axes) for k, v in out.items()), ("pads", pads, 2 * axes)):
        if len(values) != count:
            raise Refusal(f"{name} has {values_of(len(values))} for {axes} spatial axes")
    if min(pads, default=0) < 0:
        raise Refusal(f"pads are {list(pads)}; ONNX allows no negative ones")
    return out | {"pads_begin": pads[:axes], "pads_end": pads[axes:]}


def conv(n: OnnxNode, b: ImportBuilder) -> Value:
    """X [N, C, *I], W [M, C/g, *K], optional bias [M]."""
    y, bias = convolved(n, b, n[0], n[1]), n.input(2)
    return y if bias is None else b.plus(y, b.per_channel(bias, b.rank(y) - 2))


rule("Conv", "1 11 22")(conv)


def convolved(n: OnnxNode, b: ImportBuilder, x: Value, w: Value) -> Value:
    """Return the convolution that the node's attributes say, without a bias."""
    groups = n.integer("group", 1)
    shape = b.shape(w) if groups == 1 else b.static(w, "the filter")
    axes = len(shape if b.spec(x).shape is None else b.shape(x)) - 2
    kernel = n.ints("kernel_shape")
    if kernel and not compatible(kernel, shape[2:]):
        found = format_shape(shape[2:])
        raise Refusal(f"kernel_shape is {list(kernel)}, the filter's kernel {found}")
    # The runtime convolves one to three spatial axes; more are irdeconv's own.
    lists = _lists(n, axes) | {"auto_pad": _auto_pad(n), "unrestricted": axes > 3}
    return b.convolution(x, w, groups, **lists)


@rule("DeformConv", "19 22")
def deform_conv(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A convolution whose taps are moved by offsets and multiplied by a mask; bias [M]."""
    x, w, offsets, bias, mask = n[0], n[1], n[2], n.input(3), n.input(4)
    axes = b.rank(x) - 2
    if axes != 2:
        raise Refusal(f"{axes} spatial axes: only images are covered")
    kernel = n.ints("kernel_shape")
    if kernel and kernel != b.static(w, "the filter")[2:]:
        raise Refusal(f"kernel_shape is {list(kernel)}, the filter {list(b.shape(w))}")
    op = DeformableConvolution(
        **_lists(n, axes),
        group=n.integer("group", 1),
        deformable_group=n.integer("offset_group", 1),
        bilinear_interpolation_pad=True,
    )
    y = b.add(op, x, offsets, w, *(() if mask is None else (mask,)))
    return y if bias is None else b.plus(y, b.per_channel(bias, axes))


def _transposed(
    n: OnnxNode, b: ImportBuilder, opset: str, **own: Callable[[OnnxNode], Any]
) -> Outputs:
    """Keep the dialect's operation of the version that the model's operation set means."""
    version: Any = lookup("ConvTranspose", f"{opset}{n.version}")
    lists = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
    op = version(
        auto_pad=_mode(n),
        group=n.integer("group", 1),
        semantics=n.semantics,
        **{name: n.ints(name) for name in lists},
        **{name: read(n) for name, read in own.items()},
    )
    return b.outputs(op, n[0], n[1], *(() if n.input(2) is None else (n[2],)))


rule("ConvTranspose", "1 11 22")(lambda n, b: _transposed(n, b, "onnx_opset"))
rule("ConvTranspose", "1 11", NHWC)(  # channels last, with a fused activation
    lambda n, b: _transposed(
        n,
        b,
        f"{NHWC}_",
        activation=lambda n: n.text("activation", "") if "activation" in n else None,
        activation_params=lambda n: n.numbers("activation_params"),
    )
)


def pool_lists(n: OnnxNode, b: ImportBuilder) -> dict[str, Any]:
    """Return a pooling's attributes: kernel, strides, dilations, pads, rounding of sizes."""
    axes = b.rank(n[0]) - 2
    kernel = n.ints("kernel_shape")
    if len(kernel) != axes:
        raise Refusal(f"kernel_shape has {values_of(len(kernel))} for {axes} spatial axes")
    lists = _lists(n, axes)
    if min(lists["strides"], default=1) < 1:
        raise Refusal(f"strides are {list(lists['strides'])}")
    auto_pad = _auto_pad(n)
    if auto_pad.startswith("same"):
        _check_same(b.shape(n[0])[2:], kernel, lists)
    # A window never begins behind the data and its begin padding.
    rounding = "ceil_torch" if n.flag("ceil_mode", False) else "floor"
    return lists | {"kernel": kernel, "rounding_type": rounding, "auto_pad": auto_pad}


def _check_same(sizes: Shape, kernel: tuple[int, ...], lists: dict[str, Any]) -> None:
    """Refuse SAME_* poolings that systems compute differently: dilated ones, negative totals."""
    if any(d != 1 for d in lists["dilations"]):
        raise Refusal("auto_pad=SAME_* with dilations: systems differ in the output's size")
    for axis, (size, k, s) in enumerate(zip(sizes, kernel, lists["strides"], strict=True)):
        if k < s and (not isinstance(size, int) or (-(-size // s) - 1) * s + k < size):
            kind = Refusal if isinstance(size, int) else OpenSizeRefusal
            raise kind(
                f"auto_pad=SAME_* with kernel {k} below stride {s} on spatial axis {axis}: the "
                "total padding may be negative, which systems split differently"
            )


@rule("MaxPool", "1 8 10 11 12 22")
def max_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Maxima, and on request their places in the whole tensor in row-major order."""
    order = n.flag("storage_order", False)
    y, places = b.outputs(MaxPool14(**pool_lists(n, b), axis=0), n[0])
    if not n.wants(1):
        return y
    return y, _by_columns(b, n[0], places) if order else places


def _by_columns(b: ImportBuilder, x: Value, places: Value) -> Value:
    """Return places in row-major order as those in which the first spatial axis runs fastest."""
    sizes = b.static(x, "data with storage_order=1")[2:]
    plane = b.scalar(math.prod(sizes))
    inside = b.add(FloorMod(), places, plane)
    total, step = b.sub(places, inside), math.prod(sizes)
    for size in reversed(sizes):
        step //= size
        at = b.add(FloorMod(), inside, b.scalar(size))
        inside = b.add(Divide(m_pythondiv=True), b.sub(inside, at), b.scalar(size))
        total = b.plus(total, b.mul(at, b.scalar(step)))
    return total


@rule("AveragePool", "1 7 10 11 19 22")
def average_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means; padding counts with count_include_pad."""
    lists = pool_lists(n, b)
    exclude = not n.flag("count_include_pad", False)
    if not exclude and lists["rounding_type"] != "floor":
        _check_overhang(n, b.shape(n[0])[2:], lists)
    return _means(b, n[0], lists, exclude)


def _means(b: ImportBuilder, x: Value, lists: dict[str, Any], exclude_pad: bool) -> Value:
    """Return the means of windows, by the older operation if nothing is dilated."""
    if any(d != 1 for d in lists["dilations"]):
        return b.add(AvgPool16(**lists, exclude_pad=exclude_pad), x)
    plain = {k: v for k, v in lists.items() if k != "dilations"}
    return b.add(AvgPool14(**plain, exclude_pad=exclude_pad), x)


def _check_overhang(n: OnnxNode, sizes: Shape, lists: dict[str, Any]) -> None:
    """Refuse or note windows that reach beyond the padding: ONNX Runtime counts the whole kernel.

    ONNX's own tests, from version 19 on, count only the elements within the padding.
    """
    padded = any((*lists["pads_begin"], *lists["pads_end"]))
    if lists["auto_pad"] != "explicit" or not padded:
        return
    for axis, size in enumerate(sizes):
        names = ("kernel", "strides", "dilations", "pads_begin", "pads_end")
        k, s, d, begin, end = (lists[name][axis] for name in names)
        if s == 1 or (isinstance(size, int) and (size + begin + end - d * (k - 1) - 1) % s == 0):
            continue
        text = (
            f"ceil_mode=1 with count_include_pad=1 on spatial axis {axis}: the last window "
            "reaches beyond the padding, where ONNX Runtime counts the whole kernel"
        )
        if n.version < 19:
            raise Refusal(text)
        n.remarks.append(text)


@rule("GlobalAveragePool GlobalMaxPool", "1 22")
def global_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means or maxima over all spatial axes."""
    x, shape = n[0], b.shape(n[0])
    if len(shape) < 2 or (is_static(shape) and 0 in shape):
        raise Refusal("data without spatial axes or elements")
    reduction = ReduceMax if n.type == "GlobalMaxPool" else ReduceMean
    return b.add(reduction(keep_dims=True), x, b.ints(*range(2, len(shape))))


def _powers(n: OnnxNode, b: ImportBuilder, p: float) -> Value:
    size = b.add(Abs(), n[0])
    return size if p == 1 else b.add(Power(), size, b.like(p, size))


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
    mean = _means(b, _powers(n, b, p), lists, exclude_pad=False)
    count = b.like(math.prod(lists["kernel"]), mean)
    return _root(b, b.mul(mean, count), p)


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
    powers = _powers(n, b, p)
    axes = b.ints(*range(2, b.rank(powers)))
    return _root(b, b.add(ReduceSum(keep_dims=True), powers, axes), p)


@rule("MaxUnpool", "9 11 22")
def max_unpool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Put maxima back to their places, zeros elsewhere and behind, up to `output_shape`."""
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
    flat = b.broadcast(b.scalar(0, dtype), b.ints(math.prod(size)))
    places, values = b.reshape(n[1], (-1,)), b.reshape(x, (-1,))
    y = b.reshape(b.add(ScatterElementsUpdate(), flat, places, values, b.scalar(0)), size)
    if wanted == size:
        return y
    n.remarks.append("places count in the data before pooling; ONNX Runtime counts in the output")
    more = b.ints(*(w - s for w, s in zip(wanted, size, strict=True)))
    return b.add(Pad12("constant"), y, b.ints(*(0,) * len(size)), more)


@rule("Pad", "1 2 11 13 18 19 21 23 24 25")
def pad(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Extend axes; negative pads crop; wrap repeats the data."""
    x = n[0]
    mode = n.choice("mode", "constant reflect edge wrap")
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
    """Return the number of axes; if the data's rank is open, that of pads for all axes."""
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
            x = b.take(x, b.const(places), axis)
    return x


def _check_mirror(b: ImportBuilder, x: Value, begin: Value, end: Value, mode: str) -> None:
    """Refuse pads that systems compute differently: cropping and mirroring on one axis."""
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
        begin = b.slice(pads, [0], [rank], [1], [0])
        return begin, b.slice(pads, [rank], [2 * rank], [1], [0])
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
    found = [b.take(all, b.ints(*at), 0) for at in (begin, end)]
    return found[0], found[1]
