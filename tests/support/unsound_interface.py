"""Pairs that show another interface: order, shapes, types, names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from support.ir_edit import Ir
from support.pair_parts import DATA, Node, conv, deconv, model, named, parameter, twins


def interface(name: str, make: Callable[[bool], ov.Model], edit: Any = None) -> None:
    twins("interface", name, make, edit=edit)


def _layers(low: bool, x: Node) -> Node:
    return named(conv(x), "deconv") if low else deconv(x)


def _plain(
    shape: Any = DATA, type: Any = np.float32, other: Any = None
) -> Callable[[bool], ov.Model]:
    """The input has another shape or type in the lowered model."""

    def make(low: bool) -> ov.Model:
        x = parameter("x", (shape if other is None else other) if low else shape, type)
        return model({"y": _layers(low, x)}, [x])

    return make


interface("static_of_open", _plain("1,2,?,5", other=DATA))
interface("open_of_static", _plain(DATA, other="1,2,?,5"))
interface("another_size", _plain(DATA, other=(1, 2, 6, 5)))
interface("another_interval", _plain("1,2,3..9,5", other="1,2,3..8,5"))
interface("another_batch", _plain("?,2,5,5", other="1..,2,5,5"))


def _typed(low: bool) -> ov.Model:
    x = parameter("x", DATA, np.float16 if low else np.float32)
    return model({"y": named(conv(op.convert(x, "f32")), "deconv") if low else deconv(x)}, [x])


def _inputs(low: bool) -> ov.Model:
    x, s = parameter("x", DATA), parameter("s", DATA)
    return model({"y": _layers(low, x), "t": op.relu(s)}, [s, x] if low else [x, s])


def _names(low: bool) -> ov.Model:
    x, s = (parameter(n, DATA) for n in ("sx" if low else "xs"))
    return model({"y": _layers(low, x), "t": op.relu(s)}, [x, s])


def _outputs(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    y = _layers(low, x)
    shown = {"y": y, "t": op.relu(x)}
    return model(dict(list(shown.items())[:: -1 if low else 1]), [x])


def _output_names(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    y, t = _layers(low, x), op.relu(x)
    return model({"t": y, "y": t} if low else {"y": y, "t": t}, [x])


def _more(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    return model({"y": _layers(low, x)} | ({"t": op.relu(x)} if low else {}), [x])


def _fewer(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    return model({"y": _layers(low, x)} | ({} if low else {"t": op.relu(x)}), [x])


def _unused(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    return model({"y": _layers(low, x)}, [x, parameter("unused", (3,))] if low else [x])


def _output_type(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    return model({"y": _layers(low, x), "t": op.shape_of(x, "i32" if low else "i64")}, [x])


def _another_name(ir: Ir) -> None:
    (port,) = (p for p in ir.root.iter("port") if p.get("names") == "y")
    port.set("names", "y,more")


for _name, _make in (
    ("input_type", _typed), ("input_order", _inputs), ("input_names", _names),
    ("output_order", _outputs), ("output_names", _output_names), ("one_output_more", _more),
    ("one_output_less", _fewer), ("unused_input", _unused), ("output_type", _output_type),
):  # fmt: skip
    interface(_name, _make)
interface("one_more_name", _plain(), edit=_another_name)
