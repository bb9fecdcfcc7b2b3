"""Pairs that differ at some sizes only, and in a single way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset1
from openvino import opset13 as op

from pair_parts import (
    DATA,
    OPEN,
    WEIGHTS,
    Node,
    concat,
    conv,
    deconv,
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

# Pairs that differ at some sizes only: thresholds, parity, products, a filter by the size.

Extra = Callable[[Node, Node, Node], Node]  # of batch, height and width, [1] each: 0 mostly


def number(value: int) -> Node:
    return vector(value)


def between_0_and_1(v: Node) -> Node:
    return op.maximum(number(0), op.minimum(number(1), v))


def above(limit: int) -> Extra:
    return lambda n, h, w: between_0_and_1(op.subtract(h, number(limit)))


def distance(a: Node, b: Node) -> Node:
    """|a - b|; of Abs the runtime folds wrong values where it knows an interval."""
    return op.maximum(op.subtract(a, b), op.subtract(b, a))


def only_at(at: int) -> Extra:
    return lambda n, h, w: between_0_and_1(op.subtract(number(1), distance(h, number(at))))


def where(test: Callable[..., Node]) -> Extra:
    """1 where a comparison holds, by Select."""
    return lambda n, h, w: op.select(test(n, h, w), number(1), number(0))


def longer(extra: Extra) -> Callable[[Node], Node]:
    """The right convolution with as many zero columns at its end as `extra` says."""

    def lowered(x: Node) -> Node:
        more = extra(*(size(x, axis) for axis in (0, 2, 3)))
        end = concat(vector(0, 0, 0), more)
        zero = op.constant(np.float32(0))
        return named(op.pad(conv(x), vector(0, 0, 0, 0), end, "constant", zero), "deconv")

    return lowered


def shifted(extra: Extra) -> Callable[[Node], Node]:
    """The right size, but the data moved to the right by what `extra` says."""

    def lowered(x: Node) -> Node:
        more = extra(*(size(x, axis) for axis in (0, 2, 3)))
        begin = concat(vector(0, 0, 2), op.add(number(2), more))
        end = concat(vector(0, 0, 2), op.subtract(number(2), more))
        y = op.pad(x, begin, end, "constant", op.constant(np.float32(0)))
        return named(conv(y, pad=0), "deconv")

    return lowered


def of_size(
    name: str,
    lowered: Callable[[Node], Node],
    *shapes: Any,
    shape: str = OPEN,
    cause: str = "sizes",
) -> None:
    """Add a pair whose lowered side is `lowered(x)`."""

    def make(low: bool) -> Any:
        x = parameter("x", shape)
        return model({"y": lowered(x) if low else deconv(x)}, [x])

    twins(cause, name, make, *shapes)


def ceil_of_slice(step: int) -> Extra:
    """What a slice of another step has more of it than whole steps."""

    def extra(n: Node, h: Node, w: Node) -> Node:
        zeros = op.broadcast(op.constant(np.float32(0)), w)
        part = op.slice(zeros, number(0), number(2**31), number(step), number(0))
        whole = op.divide(w, number(step))
        return op.subtract(op.shape_of(part, "i64"), whole)

    return extra


def overflows(n: Node, h: Node, w: Node) -> Node:
    """0 for small heights; beyond 32 bits something else."""
    product = op.multiply(op.convert(h, "i32"), vector(2**26, type=np.int32))
    return op.convert(
        op.maximum(
            vector(0, type=np.int32), op.minimum(vector(1, type=np.int32), op.negative(product))
        ),
        "i64",
    )


SPECIAL: dict[str, tuple[Extra, tuple[int, ...]]] = {
    "above_64": (above(64), (1, 2, 65, 5)),
    "above_100": (above(100), (1, 2, 101, 5)),
    "above_1000": (above(1000), (1, 2, 1001, 1)),
    "above_5000": (above(5000), (1, 2, 5001, 1)),
    "only_at_77": (only_at(77), (1, 2, 77, 5)),
    "only_at_1024": (only_at(1024), (1, 2, 1024, 1)),
    "odd": (lambda n, h, w: op.floor_mod(w, number(2)), (1, 2, 4, 5)),
    "multiple_of_97": (
        lambda n, h, w: between_0_and_1(op.subtract(number(1), op.floor_mod(h, number(97)))),
        (1, 2, 97, 3),
    ),
    "multiple_of_6_and_35": (
        lambda n, h, w: between_0_and_1(op.subtract(number(1), op.floor_mod(h, number(210)))),
        (1, 2, 210, 3),
    ),
    "height_unlike_width": (
        lambda n, h, w: between_0_and_1(distance(h, w)),
        (1, 2, 5, 6),
    ),
    "height_above_width_by_70": (
        lambda n, h, w: between_0_and_1(op.subtract(op.subtract(h, w), number(70))),
        (1, 2, 80, 5),
    ),
    "product": (
        lambda n, h, w: between_0_and_1(op.subtract(op.multiply(h, w), number(6000))),
        (1, 2, 80, 80),
    ),
    "square": (
        lambda n, h, w: between_0_and_1(op.subtract(op.multiply(h, h), number(10**4))),
        (1, 2, 101, 3),
    ),
    "minimum": (
        lambda n, h, w: between_0_and_1(op.subtract(op.minimum(h, w), number(70))),
        (1, 2, 71, 72),
    ),
    "maximum": (
        lambda n, h, w: between_0_and_1(op.subtract(op.maximum(h, w), number(300))),
        (1, 2, 2, 301),
    ),
    "quotient": (
        lambda n, h, w: between_0_and_1(op.divide(h, number(200))),
        (1, 2, 200, 2),
    ),
    "by_select": (where(lambda n, h, w: op.greater(h, number(90))), (1, 2, 91, 2)),
    "by_equal": (where(lambda n, h, w: op.equal(w, number(33))), (1, 2, 2, 33)),
    "i32_overflow": (overflows, (1, 2, 33, 3)),
    "ceil_of_slice": (ceil_of_slice(3), (1, 2, 5, 7)),
}  # fmt: skip
for _name, (_extra, _shape) in SPECIAL.items():
    of_size(f"longer_{_name}", longer(_extra), _shape)
for _name in ("above_100", "only_at_77", "odd", "product"):
    of_size(f"shifted_{_name}", shifted(SPECIAL[_name][0]), SPECIAL[_name][1])

of_size(
    "batch_above_1",
    longer(lambda n, h, w: between_0_and_1(op.subtract(n, number(1)))),
    (2, 2, 5, 5),
    shape="?,2,5,5",
)
of_size(
    "batch_above_40",
    longer(lambda n, h, w: between_0_and_1(op.subtract(n, number(40)))),
    (41, 2, 2, 2),
    shape="?,2,2,2",
)
of_size("interval_middle", longer(only_at(83)), (1, 2, 83, 3), shape="1,2,64..100,3")
of_size("interval_end", longer(above(98)), (1, 2, 99, 3), shape="1,2,64..99,3")
of_size("interval_wide", longer(only_at(700)), (1, 2, 700, 2), shape="1,2,600..900,2")


def _chosen_filter(limit: int) -> Callable[[Node], Node]:
    """The filter is another one above a height."""

    def lowered(x: Node) -> Node:
        both = np.stack([turned(WEIGHTS), turned(WEIGHTS) + 1])
        which = above(limit)(*(size(x, axis) for axis in (0, 2, 3)))
        filter = op.gather(
            op.constant(both), op.squeeze(which, number(0)), op.constant(np.int64(0))
        )
        return named(op.convolution(x, filter, [1, 1], [2, 2], [2, 2], [1, 1]), "deconv")

    return lowered


def _scaled(limit: int) -> Callable[[Node], Node]:
    """The filter is multiplied with 1 or 2."""

    def lowered(x: Node) -> Node:
        which = op.add(number(1), above(limit)(*(size(x, axis) for axis in (0, 2, 3))))
        filter = op.multiply(op.constant(turned(WEIGHTS)), op.convert(which, "f32"))
        return named(op.convolution(x, filter, [1, 1], [2, 2], [2, 2], [1, 1]), "deconv")

    return lowered


def _biased(limit: int) -> Callable[[Node], Node]:
    """A bias of 0 or 1 is added."""

    def lowered(x: Node) -> Node:
        which = op.convert(above(limit)(*(size(x, axis) for axis in (0, 2, 3))), "f32")
        return named(op.add(conv(x), which), "deconv")

    return lowered


CHOSEN = "chosen by the size"
of_size("filter_above_3", _chosen_filter(3), (1, 2, 4, 4), cause=CHOSEN)
of_size("filter_above_100", _chosen_filter(100), (1, 2, 101, 4), cause=CHOSEN)
of_size("filter_scaled_above_70", _scaled(70), (1, 2, 71, 4), cause=CHOSEN)
of_size("bias_above_4", _biased(4), (1, 2, 5, 4), cause=CHOSEN)
of_size("bias_above_200", _biased(200), (1, 2, 201, 4), cause=CHOSEN)
of_size(
    "filter_in_interval", _chosen_filter(80), (1, 2, 81, 4), shape="1,2,64..100,4", cause=CHOSEN
)


def _by_input(name: str, wrong: Callable[[Node], Node], at: int) -> None:
    """output_shape is an input; the lowered layer differs at one height."""

    def make(low: bool) -> Any:
        x, wanted = parameter("x", (1, 2, 5, 5)), parameter("wanted", (2,), np.int64)
        if not low:
            y = op.convolution_backprop_data(
                x, op.constant(WEIGHTS), [1, 1], wanted, [0, 0], [0, 0], [1, 1]
            )
            return model({"y": named(y, "deconv")}, [x, wanted])
        height, width = (op.gather(wanted, number(a), op.constant(np.int64(0))) for a in (0, 1))
        end = [op.subtract(v, number(5)) for v in (op.add(height, wrong(height)), width)]
        y = op.pad(
            x,
            vector(0, 0, 2, 2),
            concat(vector(0, 0), *end),
            "constant",
            op.constant(np.float32(0)),
        )
        return model({"y": named(conv(y, pad=0), "deconv")}, [x, wanted])

    twins("disclosed sizes", name, make, (1, 2, 5, 5), (2,), values=((1, (at, 7)),))


_by_input("shape_above_20", lambda h: above(20)(h, h, h), 21)
_by_input("shape_only_at_9", lambda h: only_at(9)(h, h, h), 9)
_by_input("shape_odd", lambda h: op.floor_mod(h, number(2)), 7)
_by_input("shape_always", lambda h: number(1), 8)
_by_input("shape_clipped", lambda h: op.minimum(number(0), op.subtract(number(30), h)), 31)
_by_input(
    "shape_thrice",
    lambda h: op.subtract(number(1), op.minimum(number(1), op.floor_mod(h, number(3)))),
    9,
)

# What would be 0, but OpenVINO bounds the open sizes wrongly and computes something else.
FOLDED: dict[str, Extra] = {
    "abs": lambda n, h, w: op.maximum(number(0), op.subtract(h, op.abs(op.negative(h)))),
    "abs_of_0_less": lambda n, h, w: op.subtract(h, op.abs(op.subtract(number(0), h))),
    "abs_of_product": lambda n, h, w: op.subtract(h, op.abs(op.multiply(h, number(-1)))),
    "minimum": lambda n, h, w: op.add(
        number(3), op.minimum(number(0), op.maximum(number(-3), op.negative(h)))
    ),
    "clamp": lambda n, h, w: op.add(
        number(3), op.minimum(number(0), op.clamp(op.negative(h), -3, 0))
    ),
}
for _name, _extra in FOLDED.items():
    of_size(f"longer_{_name}", longer(_extra), (1, 2, 7, 5), shape="1,2,3..,?", cause="folded")
of_size(
    "longer_floor_mod",  # both ends of the interval leave 0
    longer(
        lambda n, h, w: op.subtract(
            op.subtract(h, op.multiply(number(5), op.divide(h, number(5)))),
            op.floor_mod(h, number(5)),
        )
    ),
    (1, 2, 7, 5),
    shape="1,2,5..30,?",
    cause="folded",
)


def _kept(low: bool) -> Any:
    """Stride 2 by a Reshape that keeps an axis where its size is 0: at the width 1."""
    x = parameter("x", "?,2,?,?")
    w = WEIGHTS[:, :, :1, :1]
    if not low:
        y = op.convolution_backprop_data(x, op.constant(w), [1, 2], [0, 0], [0, 1], [1, 1])
        return model({"y": named(y, "deconv")}, [x])
    zero = op.constant(np.float32(0))
    y = conv(op.pad(x, vector(0, 0, 0, 0), vector(0, 0, 0, -1), "constant", zero), w, 0)
    shape = concat(size(y, 0), number(4), size(y, 2), op.multiply(size(y, 3), number(2)))
    y = op.unsqueeze(y, vector(2, 5))  # N, 4, 1, H, W, 1
    y = op.pad(y, vector(*[0] * 6), vector(0, 0, 0, 0, 0, 1), "constant", zero)
    return model({"y": named(op.reshape(y, shape, True), "deconv")}, [x])


twins("sizes", "axis_kept", _kept, (1, 2, 3, 1))


# Pairs that hang on a single operation: integer width, rounding, masks, modes.

CAUSE = "corner cases of single operations"
ZERO = np.float32(0)


def lowered_case(
    name: str, lowered: Callable[[Node], Node], stride: int = 1, cause: str = CAUSE, **more: Any
) -> None:
    """Add a pair: deconvolution of a fixed size against `lowered(x)`."""

    def make(low: bool) -> Any:
        x = parameter("x", DATA)
        y = named(lowered(x), "deconv") if low else deconv(x, stride=stride, **more)
        return model({"y": y}, [x])

    twins(cause, name, make, DATA)


def padded(name: str, two: Callable[[], Node], cause: str = CAUSE) -> None:
    """Add a pair whose lowered side pads by `two()` at the begin: [1] or [], i64."""

    def lowered(x: Node) -> Node:
        amount = op.reshape(two(), vector(1), False)
        begin = op.concat([vector(0, 0), amount, amount], 0)
        rest = op.subtract(vector(4, 4), op.concat([amount, amount], 0))
        end = op.concat([vector(0, 0), rest], 0)
        return conv(op.pad(x, begin, end, "constant", op.constant(ZERO)), pad=0)

    lowered_case(name, lowered, cause=cause)


def i64(node: Node) -> Node:
    return op.convert(node, "i64")


def scalar(value: Any, type: Any) -> Node:
    return op.constant(np.array([value], type))


def clamped(node: Node) -> Node:
    """0..2: nothing that pads beyond the data."""
    return op.maximum(op.minimum(node, fixed(2)), fixed(0))


def fixed(value: int) -> Node:
    return scalar(value, np.int64)


padded(
    "i32_product",
    lambda: i64(
        op.divide(
            op.multiply(scalar(2**16, np.int32), scalar(2**16, np.int32)),
            scalar(2**31 - 1, np.int32),
        )
    ),
)
padded(
    "i32_sum",
    lambda: i64(
        op.maximum(
            scalar(0, np.int32),
            op.subtract(
                op.add(scalar(2**31 - 1, np.int32), scalar(3, np.int32)),
                scalar(2**31 - 2, np.int32),
            ),
        )
    ),
)
padded(
    "i8_sum",
    lambda: i64(
        op.divide(op.add(scalar(100, np.int8), scalar(100, np.int8)), scalar(100, np.int8))
    ),
)
padded(
    "u8_difference",
    lambda: op.add(i64(op.subtract(scalar(3, np.uint8), scalar(5, np.uint8))), fixed(4)),
)
padded("u8_negative", lambda: op.add(i64(op.negative(scalar(3, np.uint8))), fixed(5)))
padded(
    "u8_saturates",
    lambda: clamped(op.subtract(i64(op.convert(scalar(300, np.int64), "u8")), fixed(253))),
)
padded(
    "u8_saturates_floats",
    lambda: clamped(op.subtract(i64(op.convert(scalar(258, np.float32), "u8")), fixed(253))),
)
padded(
    "i8_saturates",
    lambda: clamped(op.subtract(i64(op.convert(scalar(200, np.int64), "i8")), fixed(125))),
)
padded(
    "i32_saturates",
    lambda: clamped(
        op.subtract(i64(op.convert(scalar(2**32 + 2**31 + 1, np.int64), "i32")), fixed(2**31 - 3))
    ),
)
padded("divide_floors", lambda: op.add(op.divide(fixed(-5), fixed(2), "numpy"), fixed(4)))
padded("divide_truncates", lambda: op.add(opset1.divide(fixed(-5), fixed(2)), fixed(4)))
padded("floor_mod_is_mod", lambda: op.add(op.floor_mod(fixed(-7), fixed(3)), fixed(3)))
padded("mod_is_floor_mod", lambda: op.mod(fixed(-7), fixed(3)))
padded("floor_mod_of_negative_divisor", lambda: op.add(op.floor_mod(fixed(7), fixed(-3)), fixed(1)))
padded("convert_rounds", lambda: op.subtract(i64(scalar(2.7, np.float32)), fixed(1)))
padded("convert_floors", lambda: op.add(i64(scalar(-2.5, np.float32)), fixed(5)))
padded("convert_to_boolean", lambda: i64(op.convert(scalar(2, np.int64), "boolean")))
padded(
    "round_half_up",
    lambda: op.subtract(i64(op.round(scalar(2.5, np.float32), "half_to_even")), fixed(1)),
)
padded(
    "gather_beyond",
    lambda: op.gather(op.constant(np.array([2, 1, 1])), vector(3), op.constant(np.int64(0))),
)
padded(
    "squeeze_order",
    lambda: op.strided_slice(
        op.constant(np.array([[2, 1], [3, 4]])),
        vector(1, 0),
        vector(2, 1),
        vector(1, 1),
        [0, 0],
        [0, 0],
        shrink_axis_mask=[1, 1],
    ),
)
padded(
    "range_of_floats",
    lambda: op.reduce_sum(
        i64(
            op.range(
                op.constant(np.float32(0)),
                op.constant(np.float32(2.5)),
                op.constant(np.float32(1)),
                "f32",
            )
        ),
        vector(0),
        True,
    ),
)


def _masks(
    begin_mask: list[int], end_mask: list[int], begin: int, end: int, step: int = 1, **more: Any
) -> Callable[[], Node]:
    numbers = op.constant(np.array([2, 1, 3, 5]))

    def two() -> Node:
        cut = op.strided_slice(
            numbers, vector(begin), vector(end), vector(step), begin_mask, end_mask, **more
        )
        return op.reduce_sum(cut, vector(0), True)

    return two


padded("begin_mask_used", _masks([1], [0], 0 + 1, 2))
padded("begin_mask_as_given", _masks([0], [0], 0, 2))
padded("end_mask_used", _masks([0], [1], 0, 1))
padded("negative_step_from_end", _masks([0], [1], 0 - 1, 0, -2))
padded("negative_begin", _masks([0], [0], -3, 1))


# Shapes and modes of what moves data ------------------------------------------------------------


def _reshaped(*shape: int, special_zero: bool) -> Callable[[Node], Node]:
    def lowered(x: Node) -> Node:
        turned_over = op.transpose(conv(x), vector(0, 1, 3, 2))
        return op.reshape(turned_over, vector(*shape), special_zero)

    return lowered


lowered_case("reshape_is_no_transpose", _reshaped(0, 0, -1, 7, special_zero=True))
lowered_case("spread_by_edge", lambda x: strided(x, spread(x, mode="edge")), 2)
lowered_case("spread_with_ones", lambda x: strided(x, spread(x, value=1.0)), 2)
lowered_case("spread_zeros_before", lambda x: strided(x, spread(x, before=1)), 2)
lowered_case(
    "spread_by_reflect",
    lambda x: conv(op.pad(x, vector(0, 0, 2, 2), vector(0, 0, 2, 2), "reflect"), pad=0),
)
lowered_case(
    "spread_by_symmetric",
    lambda x: conv(op.pad(x, vector(0, 0, 2, 2), vector(0, 0, 2, 2), "symmetric"), pad=0),
)


def _broadcast(mode: str) -> Callable[[Node], Node]:
    """Zeros of one channel too many."""

    def lowered(x: Node) -> Node:
        zeros = op.broadcast(
            op.constant(np.zeros((1, 4, 7, 1), np.float32)), vector(1, 1, 7, 1), broadcast_spec=mode
        )
        return op.concat(
            [
                op.strided_slice(
                    conv(x),
                    vector(0, 0, 0, 0),
                    vector(0, 0, 0, 6),
                    vector(1, 1, 1, 1),
                    [1] * 4,
                    [1, 1, 1, 0],
                ),
                zeros,
            ],
            3,
        )

    return lowered


lowered_case("broadcast_bidirectional", _broadcast("bidirectional"))


def _depth_to_space(mode: str) -> Callable[[Node], Node]:
    """Phases of a deconvolution with K = S = 2 behind a 1x1 convolution."""

    def lowered(x: Node) -> Node:
        phases = W22.transpose(2, 3, 1, 0).reshape(16, 2, 1, 1)  # blocks first
        return op.depth_to_space(
            op.convolution(x, op.constant(phases), [1, 1], [0, 0], [0, 0], [1, 1]), mode, 2
        )

    return lowered


W22 = np.ascontiguousarray(WEIGHTS[:, :, :2, :2])
lowered_case("depth_first", _depth_to_space("depth_first"), 2, w=W22)


def _enlarged(nearest_mode: str, scale: int = 2) -> Callable[[Node], Node]:
    """Zeros between elements by a resize and a mask."""

    def lowered(x: Node) -> Node:
        up = op.interpolate(
            x, vector(10, 10), "nearest", "sizes", [0] * 4, [0] * 4, "align_corners", nearest_mode,
            False, -0.75, vector(2, 3),
        )  # fmt: skip
        mask = np.zeros((1, 1, 10, 10), np.float32)
        mask[:, :, ::2, ::2] = 1
        return strided(x, op.multiply(up, op.constant(mask)))

    return lowered


for _mode in ("floor", "simple"):
    lowered_case(f"resize_{_mode}", _enlarged(_mode), 2)


def _batch_to_space(crop: int) -> Callable[[Node], Node]:
    """Zeros between elements by a batch of zeros, cropped at the wrong end."""

    def lowered(x: Node) -> Node:
        rows = op.concat([x, op.constant(np.zeros((3, 2, 5, 5), np.float32))], 0)
        y = op.batch_to_space(
            rows, vector(1, 1, 2, 2), vector(0, 0, crop, crop), vector(0, 0, 1 - crop, 1 - crop)
        )
        zero = op.constant(ZERO)
        y = op.pad(y, vector(0, 0, 2, 2), vector(0, 0, 2, 2), "constant", zero)
        return conv(y, pad=0)

    return lowered


lowered_case("batch_to_space_crops", _batch_to_space(1), 2)


def _scattered(row: list[int]) -> Callable[[Node], Node]:
    """Zeros between rows by ScatterUpdate; rows that are written twice keep the last."""

    def lowered(x: Node) -> Node:
        zeros = op.constant(np.zeros((1, 2, 10, 5), np.float32))
        y = op.scatter_update(zeros, vector(*row), x, op.constant(np.int64(2)))
        zeros = op.constant(np.zeros((1, 2, 10, 10), np.float32))
        y = op.scatter_update(zeros, vector(0, 2, 4, 6, 8), y, op.constant(np.int64(3)))
        return strided(x, y)

    return lowered


lowered_case("scatter_twice", _scattered([0, 2, 4, 6, 6]), 2)
lowered_case("scatter_another_order", _scattered([0, 4, 2, 6, 8]), 2)


def _compressed(type: str) -> Callable[[Node], Node]:
    """The filter goes through a narrow type on its way."""

    def lowered(x: Node) -> Node:
        filter = op.convert(op.convert(op.constant(turned(FINE)), type), "f32")
        return op.convolution(x, filter, [1, 1], [2, 2], [2, 2], [1, 1])

    return lowered


FINE = (WEIGHTS * 100 + 1).astype(np.float32)
for _type in ("bf16", "f16", "i8", "f8e4m3"):
    lowered_case(f"filter_through_{_type}", _compressed(_type), w=FINE)
