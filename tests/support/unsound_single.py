"""Pairs that hang on a single operation: integer width, rounding, masks, modes.

The lowered side pads by a computed vector. A wrong idea of the operation makes it 2, 2, which is
right; the runtime makes something else of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from openvino import opset1
from openvino import opset13 as op

from support.pair_parts import (
    DATA,
    WEIGHTS,
    Node,
    conv,
    deconv,
    model,
    named,
    parameter,
    spread,
    strided,
    turned,
    twins,
    vector,
)

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
