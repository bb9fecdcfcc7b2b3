"""Pairs with bodies, with declarations, and with other interfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from lxml import etree
from openvino import opset13 as op

from pair_parts import (
    DATA,
    ROWS,
    WEIGHTS,
    Node,
    beside,
    concat,
    conv,
    deconv,
    floats,
    group_deconv,
    model,
    named,
    pair,
    parameter,
    save,
    size,
    spread,
    strided,
    turned,
    twins,
    vector,
)
from support.ir_edit import Ir

# Pairs that differ in a body or in what a variable holds.


def iterated(body: Callable[[Node], Node], **slices: int) -> Callable[[Node], Node]:
    """A TensorIterator over the rows of [4, 3]."""

    def made(s: Node) -> Node:
        row = op.parameter((1, 3), np.float32)
        done = op.result(body(row))
        cut = {"start": 0, "stride": 1, "part_size": 1, "end": -1, "axis": 0, **slices}
        iterator = op.tensor_iterator()
        iterator.set_body(ov.Model([done], [row], "body"))
        iterator.set_sliced_input(row, s.output(0), *cut.values())
        return iterator.get_concatenated_slices(done.output(0), 0, 1, 1, -1, 0)

    return made


def counted(times: int, body: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """A Loop that applies `body` to [4, 3] again and again."""

    def made(s: Node) -> Node:
        state, go = op.parameter(ROWS, np.float32), op.constant(np.array([True]))
        done, still = op.result(body(state)), op.result(op.constant(np.array([True])))
        loop = op.loop(op.constant(np.int64(times)), go)
        loop.set_function(ov.Model([still, done], [state], "body"))
        loop.set_special_body_ports([-1, 0])
        loop.set_merged_input(state, s.output(0), done.output(0))
        return loop.get_iter_value(done.output(0), -1)

    return made


def chosen(
    then: Callable[[Node], Node], otherwise: Callable[[Node], Node], least: float = 12
) -> Callable[[Node], Node]:
    """An If on whether the sum of the data is at least so much."""

    def made(s: Node) -> Node:
        test = op.greater(op.reduce_sum(s, vector(0, 1), False), op.constant(np.float32(least)))
        branches, results, parameters = [], [], []
        for body in (then, otherwise):
            p = op.parameter(s.output(0).get_partial_shape(), np.float32)
            r = op.result(body(p))
            branches.append(ov.Model([r], [p], "branch"))
            results.append(r)
            parameters.append(p)
        made = op.if_op(test.output(0))
        made.set_then_body(branches[0])
        made.set_else_body(branches[1])
        made.set_input(s.output(0) if isinstance(s, ov.Node) else s, *parameters)
        return made.set_output(*results)

    return made


def in_body(
    name: str,
    wrap: Callable[[Callable[[Node], Node]], Callable[[Node], Node]],
    right: Callable[[Node], Node],
    wrong: Callable[[Node], Node],
) -> None:
    """Add a pair whose body is another one."""
    beside("bodies", name, lambda low, s: wrap(wrong if low else right)(s))


in_body(
    "iterator_constant",
    iterated,
    lambda v: op.add(v, floats(1, 2, 3)),
    lambda v: op.add(v, floats(1, 2, 4)),
)
in_body(
    "iterator_attribute", iterated, lambda v: op.clamp(v, 0.0, 3.0), lambda v: op.clamp(v, 0.0, 4.0)
)
in_body(
    "iterator_operation",
    iterated,
    lambda v: op.maximum(v, floats(3)),
    lambda v: op.minimum(v, floats(3)),
)
in_body(
    "loop_constant",
    lambda b: counted(3, b),
    lambda v: op.multiply(v, floats(2)),
    lambda v: op.multiply(v, floats(3)),
)
in_body(
    "loop_axis", lambda b: counted(1, b), lambda v: op.softmax(v, 0), lambda v: op.softmax(v, 1)
)
in_body(
    "if_then",
    lambda b: chosen(b, op.relu),
    lambda v: op.add(v, floats(1)),
    lambda v: op.add(v, floats(2)),
)
in_body(
    "if_else",
    lambda b: chosen(op.relu, b, least=500),
    lambda v: op.add(v, floats(1)),
    lambda v: op.add(v, floats(2)),
)
in_body(
    "if_in_loop",
    lambda b: counted(2, chosen(b, b)),
    lambda v: op.add(v, floats(1)),
    lambda v: op.add(v, floats(2)),
)
in_body(
    "loop_in_if",
    lambda b: chosen(counted(2, b), counted(2, b)),
    lambda v: op.multiply(v, floats(2)),
    lambda v: op.subtract(v, floats(2)),
)
beside(
    "bodies",
    "loop_times",
    lambda low, s: counted(4 if low else 3, lambda v: op.add(v, floats(1)))(s),
)
beside(
    "bodies",
    "iterator_backwards",
    lambda low, s: iterated(
        lambda v: op.add(v, floats(1)), **({"start": -1, "stride": -1, "end": 0} if low else {})
    )(s),
)
beside(
    "bodies",
    "branches_exchanged",
    lambda low, s: chosen(*([op.relu, op.negative][:: -1 if low else 1]))(s),
)


def _deconv_in_loop(low: bool, s: Node) -> Node:
    w = (np.arange(9).reshape(1, 1, 3, 3) + (4 if low else 1)).astype(np.float32)

    def body(v: Node) -> Node:
        y = op.reshape(v, vector(1, 1, 4, 3), False)
        y = op.convolution_backprop_data(
            y, op.constant(w), [1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
        )
        return op.reshape(y, vector(*ROWS), False)

    return counted(1, body)(s)


beside("bodies", "deconvolution_in_loop", _deconv_in_loop)


def _same_text(folder: Path) -> None:
    """Write bodies whose texts are equal: their constants differ in the bytes alone."""
    for low, name in enumerate(("original", "lowered")):
        x, s = parameter("x", DATA), parameter("s", ROWS)
        y = named(conv(x), "deconv") if low else deconv(x)
        t = iterated(lambda v: op.add(v, floats(1, 2, 3)))(s)
        path = folder / f"{name}.xml"
        save(model({"y": y, "t": t}, [x, s]), path)
        ir = Ir.read(path)
        (data,) = (d for d in ir.root.find(".//body").iter("data") if d.get("offset"))
        data.set("offset", "9000")
        ir.blob += bytes(9000 - len(ir.blob)) + np.array([1, 2, 3 + low], np.float32).tobytes()
        ir.write(path)


pair("bodies", "iterator_bytes", _same_text, DATA, ROWS)


# States ------------------------------------------------------------------------------------------


def stateful(
    name: str, make: Callable[[bool, Node], tuple[Node, list[Node]]], edit: Any = None
) -> None:
    """Add a pair beside whose deconvolution a variable differs; two runs in a row show it."""

    def both(low: bool) -> ov.Model:
        x, s = parameter("x", DATA), parameter("s", ROWS)
        y = named(conv(x), "deconv") if low else deconv(x)
        t, sinks = make(low, s)
        return model({"y": y, "t": t}, [x, s], sinks)

    twins("states", name, both, DATA, ROWS, edit=edit)


def read(s: Node, id: str, initial: Node | None = None) -> Node:
    return op.read_value(
        s if initial is None else initial, id, np.float32, ov.PartialShape(list(ROWS))
    )


def _stored(right: Callable[[Node], Node], wrong: Callable[[Node], Node]) -> Any:
    def make(low: bool, s: Node) -> tuple[Node, list[Node]]:
        old = read(s, "v")
        new = op.add(old, s)
        return op.relu(new), [op.assign((wrong if low else right)(new), "v")]

    return make


stateful("stores_another_value", _stored(lambda v: v, lambda v: op.add(v, floats(1))))
stateful(
    "stores_another_constant",
    _stored(lambda v: op.multiply(v, floats(2)), lambda v: op.multiply(v, floats(3))),
)
stateful(
    "stores_nothing",
    _stored(lambda v: v, lambda v: v),
    edit=lambda ir: ir.remove(ir.of_type("Assign")[0]),
)


def _begins(low: bool, s: Node) -> tuple[Node, list[Node]]:
    first = op.constant(np.full(ROWS, 2 if low else 1, np.float32))
    new = op.add(read(s, "v", first), s)
    return op.relu(new), [op.assign(new, "v")]


def _exchanged(low: bool, s: Node) -> tuple[Node, list[Node]]:
    a, b = read(s, "a"), read(op.negative(s), "b")
    new = [op.add(a, s), op.multiply(b, floats(2))]
    return op.subtract(*new), [
        op.assign(v, n) for v, n in zip(new, "ba" if low else "ab", strict=True)
    ]


def _renamed(low: bool, s: Node) -> tuple[Node, list[Node]]:
    id = "w" if low else "v"
    new = op.add(read(s, id), s)
    return op.relu(new), [op.assign(new, id)]


def _open(low: bool, s: Node) -> tuple[Node, list[Node]]:
    old = op.read_value(s, "v", np.float32, ov.PartialShape([-1, 3] if low else list(ROWS)))
    return op.relu(old), [op.assign(op.add(old, s), "v")]


stateful("begins_otherwise", _begins)
stateful("variables_exchanged", _exchanged)
stateful("variable_renamed", _renamed)
stateful("variable_of_open_shape", _open)


# Pairs whose lowered file says of itself what is not so: marks, dims and precisions of ports.

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


# Pairs that show another interface: order, shapes, types, names of inputs and outputs.


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
