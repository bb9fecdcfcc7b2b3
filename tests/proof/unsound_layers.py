"""Pairs that differ in layers, and in numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1, opset8
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
    parameter,
    size,
    twins,
    vector,
)
from support.ir_edit import Ir

# Pairs in which another layer differs: its version, an attribute, a constant, what it reads.

ATTRIBUTES = "versions and attributes"


def attribute(type: str, name: str, value: str) -> Callable[[Ir], None]:
    """An edit: the first layer of a type has another attribute."""

    def edit(ir: Ir) -> None:
        ir.of_type(type)[0].find("data").set(name, value)

    return edit


def version(type: str, value: str) -> Callable[[Ir], None]:
    def edit(ir: Ir) -> None:
        ir.of_type(type)[0].set("version", value)

    return edit


IMAGE = (1, 2, 4, 4)
DEPTHS = (1, 2, 3, 3)


def _resized(low: bool, s: Node) -> Node:
    return op.interpolate(
        s,
        vector(7, 7),
        "nearest",
        "sizes",
        [0] * 4,
        [0] * 4,
        "half_pixel",
        "ceil" if low else "floor",
        False,
        -0.75,
        vector(2, 3),
    )


def _old_resized(low: bool, s: Node) -> Node:
    attributes = {"axes": [2, 3], "mode": "linear", "align_corners": low}
    return opset1.interpolate(s, vector(7, 7), attributes)


beside(
    ATTRIBUTES,
    "mvn_eps",
    lambda low, s: op.mvn(s, vector(1), True, 0.5, "inside_sqrt"),
    attribute("MVN", "eps_mode", "outside_sqrt"),
)
beside(ATTRIBUTES, "mvn_variance", lambda low, s: op.mvn(s, vector(1), not low, 0.5, "inside_sqrt"))
beside(
    ATTRIBUTES,
    "topk_order",
    lambda low, s: op.topk(
        s, op.constant(np.int64(2)), 1, "max", "index" if low else "value"
    ).output(0),
)
beside(
    ATTRIBUTES,
    "topk_minimum",
    lambda low, s: op.topk(s, op.constant(np.int64(2)), 1, "min" if low else "max", "value").output(
        0
    ),
)
beside(ATTRIBUTES, "interpolate_11_nearest_mode", _resized, shape=IMAGE)
beside(ATTRIBUTES, "interpolate_1_align_corners", _old_resized, shape=IMAGE)
beside(
    ATTRIBUTES,
    "softmax_axis",
    lambda low, s: opset8.softmax(s, 1),
    attribute("SoftMax", "axis", "0"),
)
beside(
    ATTRIBUTES,
    "cumsum_exclusive",
    lambda low, s: op.cum_sum(s, op.constant(np.int64(1))),
    attribute("CumSum", "exclusive", "true"),
)
beside(
    ATTRIBUTES,
    "gelu_approximation",
    lambda low, s: op.gelu(op.subtract(s, floats(4)), "tanh" if low else "erf"),
)
beside(
    ATTRIBUTES,
    "random_seed",
    lambda low, s: op.add(
        s,
        op.random_uniform(
            vector(1),
            op.constant(np.float32(0)),
            op.constant(np.float32(1)),
            "f32",
            7,
            8 if low else 9,
        ),
    ),
)
beside(
    ATTRIBUTES,
    "pooling_rounding",
    lambda low, s: op.avg_pool(s, [2, 2], [0, 0], [1, 1], [3, 3], not low, "floor"),
    shape=IMAGE,
)
beside(
    ATTRIBUTES,
    "depth_to_space_mode",
    lambda low, s: op.depth_to_space(s, "depth_first" if low else "blocks_first", 2),
    shape=(1, 8, 2, 2),
)
beside(
    ATTRIBUTES, "bucketize_bound", lambda low, s: op.bucketize(s, floats(1, 3, 5), "i64", not low)
)
beside(
    ATTRIBUTES,
    "grid_sample_mode",
    lambda low, s: op.grid_sample(
        s,
        op.constant(np.linspace(-1, 1, 18).reshape(1, 3, 3, 2).astype(np.float32)),
        {"align_corners": low},
    ),
    shape=IMAGE,
)
beside(ATTRIBUTES, "version_of_no_set", lambda low, s: op.relu(s), version("ReLU", "extension"))


# Constants and orders elsewhere ------------------------------------------------------------------

ELSEWHERE = "constants and orders elsewhere"


def _added(right: Any, wrong: Any) -> Callable[[bool, Node], Node]:
    return lambda low, s: op.add(s, op.constant(np.array(wrong if low else right, np.float32)))


beside(
    ELSEWHERE,
    "one_element",
    _added(
        np.arange(12).reshape(ROWS), np.where(np.arange(12) == 7, 8, np.arange(12)).reshape(ROWS)
    ),
)
beside(
    ELSEWHERE,
    "transposed",
    _added(np.arange(9).reshape(3, 3)[:, None, :2], np.arange(9).reshape(3, 3).T[:, None, :2]),
    shape=(4, 2),
)
beside(ELSEWHERE, "not_a_number", _added([1, 2, 3], [1, 2, np.nan]))
beside(
    ELSEWHERE,
    "inputs_of_subtract",
    lambda low, s: op.subtract(*[s, floats(1, 2, 3)][:: -1 if low else 1]),
)
beside(
    ELSEWHERE,
    "axis_of_gather",
    lambda low, s: op.gather(s, vector(1), op.constant(np.int64(1 if low else 0))),
)
beside(
    ELSEWHERE,
    "split_outputs",
    lambda low, s: op.split(s, op.constant(np.int64(0)), 2).output(1 if low else 0),
)
beside(
    ELSEWHERE, "concat_order", lambda low, s: op.concat([s, op.negative(s)][:: -1 if low else 1], 0)
)


def _exchanged_outputs(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    wide = WEIGHTS + 1
    if not low:
        a, b = deconv(x), named(deconv(x, wide), "deconv2")
    else:
        b, a = named(conv(x), "deconv2"), named(conv(x, wide), "deconv")
    return model({"y": a, "z": b}, [x])


twins(ELSEWHERE, "two_deconvolutions_exchanged", _exchanged_outputs, DATA)


def _reads_another(low: bool) -> ov.Model:
    x, s = parameter("x", DATA), parameter("s", DATA)
    return model({"y": named(conv(s), "deconv") if low else deconv(x), "t": op.add(x, s)}, [x, s])


def _behind_another(low: bool) -> ov.Model:
    x = parameter("x", DATA)
    a, b = op.relu(x), op.add(x, op.constant(np.float32(-3)))
    return model({"y": named(conv(b), "deconv") if low else deconv(a), "t": op.subtract(a, b)}, [x])


twins(ELSEWHERE, "reads_another_input", _reads_another, DATA, DATA)
twins(ELSEWHERE, "reads_another_layer", _behind_another, DATA)


# Pairs whose numbers differ: weights, groups, channels, batches, bias, activation.

WEIGHT = "weights"


def weights(name: str, right: Any, change: Callable[[Any], None], *shape: int) -> None:
    """Add a pair whose lowered filter was changed in place."""

    def make(low: bool) -> Any:
        w = right.astype(np.float32)
        x = parameter("x", shape or DATA)
        if low:
            change(w)
        return model({"y": named(conv(x, w), "deconv") if low else deconv(x, w)}, [x])

    twins(WEIGHT, name, make, shape or DATA)


def put(value: float, *at: int) -> Callable[[Any], None]:
    def change(w: Any) -> None:
        w[at] = value

    return change


def last_place(w: Any) -> None:
    w[0, 2, 0, 0] = np.nextafter(w[0, 2, 0, 0], np.float32(np.inf))


def rows_exchanged(w: Any) -> None:
    """Two filters of nearly the same numbers."""
    w[:, [1, 2]] = w[:, [2, 1]]


def flipped(w: Any) -> None:
    w[...] = w[:, :, ::-1, ::-1]


def transposed(w: Any) -> None:
    w[...] = w.swapaxes(2, 3)


def rounded(w: Any) -> None:
    w[...] = w.astype(np.float16)


ALIKE = WEIGHTS.copy()
ALIKE[:, 2] = ALIKE[:, 1]
ALIKE[1, 2, 2, 2] += 1
WIDE = np.ones((512, 3, 1, 1)) * (1 + np.arange(3)).reshape(1, 3, 1, 1)
SINGLE = np.array([3, 0, 5, 7]).reshape(1, 4, 1, 1)
TALL = np.tile(np.arange(1, 10).reshape(1, 1, 3, 3), (2, 300, 1, 1))
weights("not_a_number", WEIGHTS, put(np.nan, 0, 1, 2, 0))
weights("infinite", WEIGHTS, put(np.inf, 1, 3, 0, 0))
weights("minus_infinite", WEIGHTS, put(-np.inf, 0, 0, 0, 0))
weights("one_of_512_channels", WIDE, put(2, 500, 0, 0, 0), 1, 512, 2, 2)
weights("one_of_300_outputs", TALL, put(4, 1, 287, 0, 1), 1, 2, 3, 3)
weights("rows_exchanged", ALIKE, rows_exchanged)
weights("last_place", SINGLE, last_place, 1, 1, 3, 3)
weights("tiny", SINGLE, put(1e-30, 0, 1, 0, 0), 1, 1, 3, 3)
weights("sign", WEIGHTS, put(-float(WEIGHTS[1, 1, 1, 1]), 1, 1, 1, 1))
weights("not_flipped", WEIGHTS, flipped)
weights("transposed_taps", WEIGHTS, transposed)
weights("rounded_to_f16", WEIGHTS * 500 + 1, rounded)

ORDER = "groups, channels, batch, bias, activation"
Change = Callable[[Node, Node], Node]  # of data and the right result


def after(
    name: str, right: Change, wrong: Change, shape: Any = DATA, at: tuple[int, ...] = DATA
) -> None:
    """Add a pair with something behind the deconvolution that differs."""

    def make(low: bool) -> Any:
        x = parameter("x", shape)
        y = conv(x) if low else deconv(x)
        y = named(y, "deconv")
        last = (wrong if low else right)(x, y)
        return model({"y": last}, [x])

    twins(ORDER, name, make, at)


def nothing(x: Node, y: Node) -> Node:
    return named(op.multiply(y, op.constant(np.float32(1))), "same")


def taken(axis: int, order: Any) -> Change:
    return lambda x, y: named(op.gather(y, vector(*order), op.constant(np.int64(axis))), "same")


def bias(*values: float, shape: tuple[int, ...] = (1, 4, 1, 1)) -> Change:
    return lambda x, y: named(
        op.add(y, op.constant(np.array(values, np.float32).reshape(shape))), "biased"
    )


def activated(function: Callable[[Node], Node]) -> Change:
    return lambda x, y: named(function(y), "activated")


def by_batch(x: Node, y: Node) -> Node:
    """Batch entries in another order where there are several."""
    last = op.subtract(size(x, 0), vector(1))
    indices = op.range(
        op.squeeze(last, vector(0)), op.constant(np.int64(-1)), op.constant(np.int64(-1)), "i64"
    )
    return named(op.gather(y, indices, op.constant(np.int64(0))), "same")


def large_channels(x: Node, y: Node) -> Node:
    """Output channels in another order where the data are high."""
    more = op.maximum(vector(0), op.minimum(vector(1), op.subtract(size(x, 2), vector(100))))
    first = concat(more, op.subtract(vector(1), more), vector(2, 3))
    return named(op.gather(y, first, op.constant(np.int64(1))), "same")


after("channels_exchanged", taken(1, range(4)), taken(1, [0, 2, 1, 3]))
after("channels_above_100", nothing, large_channels, "1,2,?,4", (1, 2, 101, 4))
after("batch_backwards", nothing, by_batch, "?,2,3,3", (2, 2, 3, 3))
after("rows_backwards", nothing, taken(2, range(6, -1, -1)))
after("another_bias", bias(1, 2, 3, 4), bias(1, 2, 3, 5))
after("bias_exchanged", bias(1, 2, 3, 4), bias(2, 1, 3, 4))
after("bias_per_column", bias(*[1] * 7, shape=(1, 1, 1, 7)), bias(*range(7), shape=(1, 1, 1, 7)))
after("bias_per_position", bias(0, 0, 0, 0), bias(*[0] * 48, 1, shape=(1, 1, 7, 7)))
after("bias_subtracted", bias(1, 2, 3, 4), bias(-1, -2, -3, -4))
after(
    "leaky_slope",
    activated(lambda y: op.prelu(y, op.constant(np.float32([0.25])))),
    activated(lambda y: op.prelu(y, op.constant(np.float32([0.5])))),
)
after(
    "clamp_bound",
    activated(lambda y: op.clamp(y, 0.0, 6.0)),
    activated(lambda y: op.clamp(y, 0.0, 7.0)),
)
after("elu_alpha", activated(lambda y: op.elu(y, 1.0)), activated(lambda y: op.elu(y, 2.0)))
after("no_activation", activated(op.relu), nothing)
after("another_activation", activated(op.relu), activated(op.absolute))
after(
    "hard_sigmoid",
    activated(
        lambda y: op.hard_sigmoid(y, op.constant(np.float32(2**-14)), op.constant(np.float32(0.5)))
    ),
    activated(
        lambda y: op.hard_sigmoid(y, op.constant(np.float32(2**-15)), op.constant(np.float32(0.5)))
    ),
)


def grouped(name: str, change: Callable[[Any], Any], rows: list[int] | None = None) -> None:
    """Add a pair of two groups whose filter or channels are in another order."""

    def make(low: bool) -> Any:
        x = parameter("x", (2, 4, 4, 4))
        w = np.arange(1, 109).reshape(2, 2, 3, 3, 3).astype(np.float32)
        if not low:
            y = group_deconv(x, w)
            return model({"y": named(y, "deconv")}, [x])
        filter = np.ascontiguousarray(change(np.flip(w, (3, 4)).transpose(0, 2, 1, 3, 4)))
        y = x if rows is None else op.gather(x, vector(*rows), op.constant(np.int64(1)))
        y = op.group_convolution(y, op.constant(filter), [1, 1], [2, 2], [2, 2], [1, 1])
        return model({"y": named(y, "deconv")}, [x])

    twins(ORDER, name, make, (2, 4, 4, 4))


grouped("groups_exchanged_filter", lambda w: w[::-1])
grouped("groups_regrouped", lambda w: w.transpose(1, 0, 2, 3, 4).reshape(w.shape))
grouped("inputs_of_groups", lambda w: w, [0, 2, 1, 3])
grouped("data_of_groups", lambda w: w, [2, 3, 0, 1])
grouped("group_used_twice", lambda w: np.stack([w[0], w[0]]))
