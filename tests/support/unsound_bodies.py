"""Pairs that differ in a body or in what a variable holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op

from support.ir_edit import Ir
from support.pair_parts import (
    DATA,
    ROWS,
    Node,
    beside,
    conv,
    deconv,
    floats,
    model,
    named,
    pair,
    parameter,
    save,
    twins,
    vector,
)


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
