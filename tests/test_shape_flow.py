"""Shape arithmetic of dynamic models: partly known values flow from ShapeOf to their users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irdeconv.ir.dtypes import f32, i64
from irdeconv.ir.op import Op, SpecBuilder, as_tuple, infer_op
from irdeconv.ir.spec import DYNAMIC, Interval, Spec, bounds
from irdeconv.ops.channels import Split
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import (
    Add,
    Divide,
    Equal,
    Floor,
    FloorMod,
    Maximum,
    Minimum,
    Multiply,
    Select,
    Subtract,
)
from irdeconv.ops.movement import Broadcast, Concat, Transpose
from irdeconv.ops.padding import Pad12
from irdeconv.ops.reduction import ReduceProd
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze, Unsqueeze
from irdeconv.ops.slicing import Gather, Slice, StridedSlice

b = SpecBuilder()
IMAGE = Spec(f32, (Interval(1, 4), 3, Interval(10, 20), DYNAMIC))


def ints(*values: int) -> Spec:
    return Spec.of(np.array(values, np.int64))


def scalar(value: int) -> Spec:
    return Spec.of(np.array(value, np.int64))


def values(spec: Spec) -> list[Any]:
    assert spec.value is not None
    return [
        v if isinstance(v, Interval) else v.item() if hasattr(v, "item") else v
        for v in spec.value.flat
    ]


def size(at: int) -> Spec:
    """Return dimension `at` of the image as a vector of one."""
    return b.add(Gather(), b.add(ShapeOf(), IMAGE), ints(at), scalar(0))


def test_shape_of() -> None:
    assert values(b.add(ShapeOf(), IMAGE)) == [Interval(1, 4), 3, Interval(10, 20), DYNAMIC]
    assert b.add(ShapeOf(), Spec(f32, None)) == Spec(i64, (DYNAMIC,))


@pytest.mark.parametrize(
    ("op", "operand", "want"),
    [
        (Add(), 3, Interval(13, 23)),
        (Subtract(), 3, Interval(7, 17)),
        (Multiply(), 2, Interval(20, 40)),
        (Divide(), 4, Interval(2, 5)),
        (FloorMod(), 4, Interval(0, 3)),
        (Maximum(), 15, Interval(15, 20)),
        (Maximum(), 25, 25),
        (Minimum(), 15, Interval(10, 15)),
        (Minimum(), 5, 5),
    ],
)
def test_integer_arithmetic(op: Op, operand: int, want: Any) -> None:
    assert values(b.add(op, size(2), ints(operand))) == [want]


def test_scaling_through_floating_point() -> None:
    """Resize by a real factor: Convert, Multiply, Floor, Convert."""
    real = b.add(Convert(f32), b.add(Concat(0), size(1), size(2)))
    scaled = b.add(Multiply(), real, Spec.of(np.array([1.5, 1.5], np.float32)))
    back = b.add(Convert(i64), b.add(Floor(), scaled))
    assert values(back) == [4, Interval(15, 30)]


def test_exact_floats_round_as_the_tensor_does() -> None:
    """100 * 0.29 is 28.999999165 in exact arithmetic but 29 in float32."""
    shape = b.add(ShapeOf(), Spec(f32, (100, DYNAMIC)))
    factor = Spec.of(np.array([0.29, 0.29], np.float32))
    scaled = b.add(Multiply(), b.add(Convert(f32), shape), factor)
    whole = values(b.add(Convert(i64), scaled))[0]
    assert whole == int(np.float32(100) * np.float32(0.29))


def test_reshape_takes_computed_sizes() -> None:
    target = b.add(Concat(0), size(0), ints(-1))
    out = b.add(Reshape(), IMAGE, target)
    assert out.shape is not None
    assert out.shape[0] == Interval(1, 4)
    static = Spec(f32, (Interval(1, 4), 3, 10, 20))
    batch = b.add(Gather(), b.add(ShapeOf(), static), ints(0), scalar(0))
    out = b.add(Reshape(), static, b.add(Concat(0), batch, ints(600)))
    assert out.shape == (Interval(1, 4), 600)


def test_copied_dimensions_cancel() -> None:
    data = Spec(f32, (DYNAMIC, 3, 4))
    assert b.add(Reshape(True), data, ints(0, -1)).shape == (DYNAMIC, 12)
    assert b.add(Reshape(True), data, ints(0, 0, 2, -1)).shape == (DYNAMIC, 3, 2, 2)


def test_slices_and_scalars() -> None:
    shape = b.add(ShapeOf(), IMAGE)
    assert values(b.add(Slice(), shape, ints(2), ints(9), ints(1))) == [Interval(10, 20), DYNAMIC]
    picked = b.add(StridedSlice(shrink_axis_mask=(1,)), shape, ints(1), ints(2))
    assert (picked.shape, values(picked)) == ((), [3])
    assert values(b.add(Squeeze(), size(2), ints(0))) == [Interval(10, 20)]
    assert b.add(Unsqueeze(), picked, scalar(0)).shape == (1,)
    parts = as_tuple(infer_op(Split(2), (shape, scalar(0))))
    assert values(parts[1]) == [Interval(10, 20), DYNAMIC]
    assert values(
        b.add(ReduceProd(), b.add(Slice(), shape, ints(0), ints(3), ints(1)), ints(0))
    ) == [Interval(30, 240)]


def test_select_by_a_certain_comparison() -> None:
    """Frameworks replace -1 in a target shape; a size is never -1."""
    certain = b.add(Equal(), size(3), ints(-1))
    assert values(certain) == [False]
    assert values(b.add(Select(), certain, ints(1), size(3))) == [DYNAMIC]
    assert b.add(Equal(), size(3), ints(5)).value is None


def test_computed_pads_and_targets() -> None:
    missing = b.add(Subtract(), ints(32), size(2))
    pads = b.add(Concat(0), ints(0, 0), missing, ints(0))
    out = b.add(Pad12(), IMAGE, ints(0, 0, 0, 0), pads)
    assert out.shape is not None
    assert bounds(out.shape[2]) == (22, 42)
    wide = b.add(Broadcast(), Spec(f32, (1, 1)), b.add(Concat(0), size(2), ints(7)))
    assert wide.shape == (Interval(10, 20), 7)
    turned = b.add(Transpose(), IMAGE, b.add(Concat(0), ints(0, 2), ints(3, 1)))
    assert turned.shape == (Interval(1, 4), Interval(10, 20), DYNAMIC, 3)


def test_an_unknown_part_leaves_the_others_known() -> None:
    unknown = Spec(i64, (1,))
    joined = b.add(Concat(0), size(1), unknown)
    assert values(joined)[0] == 3
    out = b.add(Reshape(), Spec(f32, (6, 5)), joined)
    assert out.shape == (3, DYNAMIC)
    assert b.add(Pad12(), Spec(f32, (6,)), unknown, ints(2)).shape == (DYNAMIC,)


def test_an_unknown_part_is_as_wide_as_the_others() -> None:
    known = Spec(i64, (1, 2), np.array([[3, 4]]))
    joined = b.add(Concat(0), known, Spec(i64, (2, DYNAMIC)))
    assert joined.shape == (3, 2)
    assert values(joined)[:2] == [3, 4]


@pytest.mark.parametrize("step", [-3, -1, 1, 2])
@pytest.mark.parametrize("start", [-6, -2, 0, 1, 5])
@pytest.mark.parametrize("stop", [-7, -1, 0, 3, 8, 2**63 - 1])
def test_slice_bounds_hold_every_size_and_are_reached(start: int, stop: int, step: int) -> None:
    for low, high in ((0, 4), (2, 9), (3, None)):
        data = Spec(f32, (Interval(low, high),))
        out = b.add(Slice(), data, ints(start), ints(stop), ints(step))
        assert out.shape is not None
        lo, hi = bounds(out.shape[0])
        # Backwards a start in front of the axis is clamped to it, unlike Python's.
        found = [
            len(range(*slice(max(start, -n) if step < 0 else start, stop, step).indices(n)))
            for n in range(low, (high or 60) + 1)
        ]
        assert lo == min(found)
        if high is not None:
            assert hi == max(found)
        else:
            assert hi is None or hi == max(found)
            assert (hi is None) == (found[-1] > found[-12])
