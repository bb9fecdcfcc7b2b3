"""Pairs in which another layer differs: its version, an attribute, a constant, what it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1, opset8
from openvino import opset13 as op

from support.ir_edit import Ir
from support.pair_parts import (
    DATA,
    ROWS,
    WEIGHTS,
    Node,
    beside,
    conv,
    deconv,
    floats,
    model,
    named,
    parameter,
    twins,
    vector,
)

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
