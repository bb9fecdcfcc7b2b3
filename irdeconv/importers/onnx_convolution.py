"""ONNX's Conv, ConvTranspose and poolings."""

from __future__ import annotations

import math
from typing import Any

from irdeconv.dialects.onnx import ConvTranspose1, ConvTranspose11, ConvTranspose22
from irdeconv.dialects.ort_nhwc import NhwcConvTranspose1, NhwcConvTranspose11
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import NHWC, OnnxNode, Outputs, rule
from irdeconv.ops.deformable import DeformableConvolution
from irdeconv.ops.elementwise import Add, Divide, FloorMod, Multiply, Subtract
from irdeconv.ops.pooling import AvgPool14, AvgPool16, MaxPool14
from irdeconv.ops.reduction import ReduceMax, ReduceMean
from irdeconv.spec import Shape, compatible, format_shape, is_static

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
            raise Refusal(f"{name} has {len(values)} values for {axes} spatial axes")
    if min(pads, default=0) < 0:
        raise Refusal(f"pads are {list(pads)}; ONNX allows no negative ones")
    return out | {"pads_begin": pads[:axes], "pads_end": pads[axes:]}


@rule("Conv", "1 11 22")
def conv(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """X [N, C, *I], W [M, C/g, *K], optional bias [M]."""
    y, bias = convolved(n, b, n[0], n[1]), n.input(2)
    return y if bias is None else b.add(Add(), y, b.per_channel(bias, b.rank(y) - 2))


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
    return y if bias is None else b.add(Add(), y, b.per_channel(bias, axes))


def _transpose_attributes(n: OnnxNode) -> dict[str, Any]:
    lists = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
    return {
        "auto_pad": _mode(n),
        "group": n.integer("group", 1),
        "semantics": n.semantics,
        **{name: n.ints(name) for name in lists},
    }


def _inputs(n: OnnxNode) -> tuple[Value, ...]:
    return (n[0], n[1]) if n.input(2) is None else (n[0], n[1], n[2])


@rule("ConvTranspose", "1 11 22")
def conv_transpose(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Kept as the dialect's operation of the version that the model's operation set means."""
    version = {1: ConvTranspose1, 11: ConvTranspose11, 22: ConvTranspose22}[n.version]
    return b.outputs(version(**_transpose_attributes(n)), *_inputs(n))


@rule("ConvTranspose", "1 11", NHWC)
def conv_transpose_nhwc(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """ONNX Runtime's channels-last deconvolution with its fused activation."""
    version = {1: NhwcConvTranspose1, 11: NhwcConvTranspose11}[n.version]
    activation: Any = n.text("activation", "") if "activation" in n else None
    op = version(
        **_transpose_attributes(n),
        activation=activation,
        activation_params=n.numbers("activation_params"),
    )
    return b.outputs(op, *_inputs(n))


def pool_lists(n: OnnxNode, b: ImportBuilder) -> dict[str, Any]:
    """Return what poolings share: kernel, strides, dilations, pads and how sizes are rounded."""
    axes = b.rank(n[0]) - 2
    kernel = n.ints("kernel_shape")
    if len(kernel) != axes:
        raise Refusal(f"kernel_shape has {len(kernel)} values for {axes} spatial axes")
    lists = _lists(n, axes)
    if min(lists["strides"], default=1) < 1:
        raise Refusal(f"strides are {list(lists['strides'])}")
    auto_pad = _auto_pad(n)
    if auto_pad.startswith("same"):
        _check_same(b.shape(n[0])[2:], kernel, lists)
    # A window never begins behind the data and its begin padding.
    rounding = "ceil_torch" if n.integer("ceil_mode", 0) else "floor"
    return lists | {"kernel": kernel, "rounding_type": rounding, "auto_pad": auto_pad}


def _check_same(sizes: Shape, kernel: tuple[int, ...], lists: dict[str, Any]) -> None:
    """Refuse SAME_* poolings that systems compute differently: dilated ones, negative totals."""
    if any(d != 1 for d in lists["dilations"]):
        raise Refusal("auto_pad=SAME_* with dilations: systems differ in the output's size")
    for axis, (size, k, s) in enumerate(zip(sizes, kernel, lists["strides"], strict=True)):
        if k < s and (not isinstance(size, int) or (-(-size // s) - 1) * s + k < size):
            raise Refusal(
                f"auto_pad=SAME_* with kernel {k} below stride {s} on spatial axis {axis}: the "
                "total padding may be negative, which systems split differently"
            )


@rule("MaxPool", "1 8 10 11 12 22")
def max_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Maxima, and on request their places in the whole tensor in row-major order."""
    order = n.integer("storage_order", 0)
    op = MaxPool14(**pool_lists(n, b), axis=0)
    y, places = b.outputs(op, n[0])
    if not n.wants(1):
        return y
    return y, _by_columns(b, n[0], places) if order else places


def _by_columns(b: ImportBuilder, x: Value, places: Value) -> Value:
    """Return places in row-major order as those in which the first spatial axis runs fastest."""
    sizes = b.static(x, "data with storage_order=1")[2:]
    plane = b.scalar(math.prod(sizes))
    inside = b.add(FloorMod(), places, plane)
    total, step = b.add(Subtract(), places, inside), math.prod(sizes)
    for size in reversed(sizes):
        step //= size
        at = b.add(FloorMod(), inside, b.scalar(size))
        inside = b.add(Divide(m_pythondiv=True), b.add(Subtract(), inside, at), b.scalar(size))
        total = b.add(Add(), total, b.add(Multiply(), at, b.scalar(step)))
    return total


@rule("AveragePool", "1 7 10 11 19 22")
def average_pool(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Means; padding counts with count_include_pad."""
    lists = pool_lists(n, b)
    exclude = not n.integer("count_include_pad", 0)
    if not exclude and lists["rounding_type"] != "floor":
        _check_overhang(n, b.shape(n[0])[2:], lists)
    if any(d != 1 for d in lists["dilations"]):
        return b.add(AvgPool16(**lists, exclude_pad=exclude), n[0])
    del lists["dilations"]
    return b.add(AvgPool14(**lists, exclude_pad=exclude), n[0])


def _check_overhang(n: OnnxNode, sizes: Shape, lists: dict[str, Any]) -> None:
    """Judge windows that reach beyond the padding, of which ONNX Runtime counts the whole kernel.

    ONNX's own tests, from version 19 on, count what lies within the padding.
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
