"""Pairs whose lowered file says of itself what is not so: marks, dims and precisions of ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lxml import etree
from openvino import opset13 as op

from support.ir_edit import Ir
from support.pair_parts import (
    DATA,
    WEIGHTS,
    Node,
    concat,
    conv,
    deconv,
    group_deconv,
    model,
    named,
    parameter,
    size,
    spread,
    strided,
    turned,
    twins,
    vector,
)

MARKS = "marks"


def layer(ir: Ir, name: str) -> Any:
    return next(la for la in ir.layers if la.get("name") == name)


def marked(strides: str, name: str = "spread", **ports: Sequence[int]) -> Callable[[Ir], None]:
    """An edit: mark a layer as zero-insertion and let its ports declare these dims."""

    def edit(ir: Ir) -> None:
        found = layer(ir, name)
        text = f'<attribute name="irdeconv_zero_insertion" version="0" strides="{strides}"/>'
        found.append(etree.fromstring(f"<rt_info>{text}</rt_info>"))
        for where, dims in ports.items():
            declare(found, where, dims)
            if where == "input":
                source = ir.producer(found, 0)
                assert source is not None
                declare(source, "output", dims)

    return edit


def declare(layer: Any, where: str, dims: Sequence[int]) -> None:
    """Let a layer's first port of input or output declare other dims."""
    port = layer.find(f"{where}/port")
    for dim in list(port.iter("dim")):
        port.remove(dim)
    for value in dims:
        etree.SubElement(port, "dim").text = str(value)


def wrong_spread(name: str, spread_x: Callable[[Node], Node], edit: Callable[[Ir], None]) -> None:
    """Add a pair of stride 2 whose zeros are put in wrongly, under a mark."""

    def make(low: bool) -> Any:
        x = parameter("x", DATA)
        return model({"y": strided(x, spread_x(x)) if low else deconv(x, stride=2)}, [x])

    twins(MARKS, name, make, DATA, edit=edit)


def _swapped(x: Node) -> Node:
    """Zeros between, but height and width exchanged."""
    y = op.transpose(x, vector(0, 1, 3, 2))
    y = op.pad(
        op.unsqueeze(y, vector(3, 5)),
        vector(*[0] * 6),
        vector(0, 0, 0, 1, 0, 1),
        "constant",
        op.constant(np.float32(0)),
    )
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


def _tiled(x: Node) -> Node:
    y = op.tile(op.unsqueeze(x, vector(3, 5)), vector(1, 1, 1, 2, 1, 2))
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


def _behind(x: Node) -> Node:
    """All zeros behind all elements."""
    y = op.pad(x, vector(0, 0, 0, 0), vector(0, 0, 5, 5), "constant", op.constant(np.float32(0)))
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


def _rows_only(x: Node) -> Node:
    """Three zeros behind each row's element, none between rows: of the right size."""
    y = op.pad(
        op.unsqueeze(x, vector(4)),
        vector(*[0] * 5),
        vector(0, 0, 0, 0, 3),
        "constant",
        op.constant(np.float32(0)),
    )
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


def _channels(x: Node) -> Node:
    """Zeros between channels."""
    y = op.pad(
        op.unsqueeze(x, vector(2)),
        vector(*[0] * 5),
        vector(0, 0, 3, 0, 0),
        "constant",
        op.constant(np.float32(0)),
    )
    return named(op.reshape(y, vector(1, 2, 10, 10), False), "spread")


SIX = (1, 2, 5, 2, 5, 2)
wrong_spread("mark_swapped", _swapped, marked("2,2"))
wrong_spread("mark_with_dims_swapped", _swapped, marked("2,2", input=SIX, output=(1, 2, 10, 10)))
wrong_spread("mark_on_copies", _tiled, marked("2,2", input=SIX))
wrong_spread("mark_on_zeros_behind", _behind, marked("2,2", input=SIX))
wrong_spread("mark_on_rows", _rows_only, marked("2,2", input=SIX))
wrong_spread("mark_on_channels", _channels, marked("2,2", input=SIX))
wrong_spread("mark_on_ones", lambda x: spread(x, value=1.0), marked("2,2"))
wrong_spread("mark_on_zeros_before", lambda x: spread(x, before=1), marked("2,2"))
wrong_spread("mark_on_edges", lambda x: spread(x, mode="edge"), marked("2,2"))


def _mark_of_other_strides(low: bool) -> Any:
    x = parameter("x", (1, 2, 4, 4))
    if not low:
        y = op.convolution_backprop_data(
            x, op.constant(WEIGHTS), [2, 3], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
        )
        return model({"y": named(y, "deconv")}, [x])
    y = op.pad(
        op.unsqueeze(x, vector(3, 5)),
        vector(*[0] * 6),
        vector(0, 0, 0, 2, 0, 1),
        "constant",
        op.constant(np.float32(0)),
    )
    y = named(op.reshape(y, vector(1, 2, 8, 12), False), "spread")
    y = op.pad(y, vector(0, 0, 2, 2), vector(0, 0, 1, 0), "constant", op.constant(np.float32(0)))
    return model({"y": named(conv(y, pad=0), "deconv")}, [x])


twins(
    MARKS,
    "mark_of_other_strides",
    _mark_of_other_strides,
    (1, 2, 4, 4),
    edit=marked("2,3", input=(1, 2, 4, 2, 4, 3), output=(1, 2, 8, 12)),
)


DECLARED = "declared types and shapes"
PRECISION = {"f32": "FP32", "i64": "I64", "f16": "FP16"}


def says(name: str, precision: str) -> Callable[[Ir], None]:
    """An edit: a layer's output, and the inputs that read it, declare another precision."""

    def edit(ir: Ir) -> None:
        found = layer(ir, name)
        found.find("output/port").set("precision", precision)
        for edge in ir.edges_from(found):
            for port in ir.layer(edge.get("to-layer")).findall("input/port"):
                if port.get("id") == edge.get("to-port"):
                    port.set("precision", precision)

    return edit


def converted(name: str, type: str, of_filter: bool) -> None:
    """Add a pair in which data or filter are narrowed under a port that declares f32."""

    def make(low: bool) -> Any:
        x = parameter("x", DATA)
        w = (WEIGHTS * 1.5 + 2048 * 4 * of_filter).astype(np.float32)
        if not low:
            return model({"y": deconv(x, w)}, [x])

        def narrow(v: Node) -> Node:
            return op.convert(named(op.convert(v, type), "narrow"), "f32")

        filter = op.constant(turned(w))
        data = x if of_filter else narrow(op.multiply(x, op.constant(np.float32(1))))
        filter = narrow(filter) if of_filter else filter
        y = op.convolution(data, filter, [1, 1], [2, 2], [2, 2], [1, 1])
        return model({"y": named(y, "deconv")}, [x])

    twins(DECLARED, name, make, DATA, edit=says("narrow", "FP32"))


converted("filter_through_i32", "i32", True)
converted("filter_through_f16_declared_f32", "f16", True)
converted("data_through_boolean", "boolean", False)


def _false_sizes(low: bool) -> Any:
    """A Reshape by a computed size: what the ports declare is one axis of another one."""
    x = parameter("x", DATA)
    if not low:
        return model({"y": deconv(x)}, [x])
    y = named(op.transpose(conv(x), vector(0, 1, 3, 2)), "turned")
    return model({"y": named(op.reshape(y, vector(1, 4, 7, 7), False), "deconv")}, [x])


def _says_identity(ir: Ir) -> None:
    declare(layer(ir, "turned"), "output", (1, 4, 7, 1, 7))


def _grouped(low: bool) -> Any:
    """A flat filter of two groups that declares another order of its axes."""
    x = parameter("x", (1, 4, 5, 5))
    w = np.arange(1, 73).reshape(2, 2, 2, 3, 3).astype(np.float32)
    if not low:
        y = group_deconv(x, w)
        return model({"y": named(y, "deconv")}, [x])
    filter = np.flip(w, (3, 4)).transpose(0, 2, 1, 3, 4)[::-1]
    y = op.group_convolution(
        x, op.constant(np.ascontiguousarray(filter)), [1, 1], [2, 2], [2, 2], [1, 1]
    )
    return model({"y": named(y, "deconv")}, [x])


def _shape_of_other(low: bool) -> Any:
    """ShapeOf of a value whose port declares the right sizes, and which has others."""
    x = parameter("x", DATA)
    if not low:
        return model({"y": deconv(x)}, [x])
    part = named(op.slice(x, vector(0), vector(4), vector(1), vector(3)), "part")
    more = op.subtract(vector(5), size(part, 3))
    end = concat(vector(0, 0, 0), more)
    y = op.pad(conv(x), vector(0, 0, 0, 0), end, "constant", op.constant(np.float32(0)))
    return model({"y": named(y, "deconv")}, [x])


twins(DECLARED, "dims_hide_a_transpose", _false_sizes, DATA, edit=_says_identity)
twins(
    DECLARED,
    "sizes_of_a_part",
    _shape_of_other,
    DATA,
    edit=lambda ir: declare(layer(ir, "part"), "output", DATA),
)
twins(DECLARED, "groups_exchanged", _grouped, (1, 4, 5, 5))
