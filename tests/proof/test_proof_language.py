"""The operations of the proof's language: numbers worked by hand, symbols, and what is refused."""

import contextlib
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from irdeconv.proof.language import MOVES, evaluate, move, output_type
from irdeconv.proof.model import TypedArray, Unproved
from language_domains import counted, ints, layer, scalar
from support.rows import each_row


def reals(value: float, type: str = "f32") -> TypedArray:
    return TypedArray(np.array([value]), type)


PLACE = TypedArray(np.array([[2]]), "i64")
# An operation, its inputs, and the elements of its first output by hand.
BY_HAND: list[tuple[str, list[TypedArray], Any]] = [
    ("Pad-12", [counted((3,)), ints(1), ints(-1)], [0, 1, 2]),
    ("Slice-8", [counted((5,)), ints(3), ints(-9), ints(-2)], [4, 2]),
    ("Slice-8", [counted((3,)), ints(-9), ints(-99), ints(-1)], [1]),
    ("StridedSlice-1 begin_mask=0 end_mask=1", [counted((4,)), ints(1), ints(0), ints(2)], [2, 4]),
    ("Gather-8", [counted((2, 2)), scalar(-1), scalar(0)], [3, 4]),
    ("Gather-1", [counted((3,)), ints(2, 0), scalar(0)], [3, 1]),
    ("Concat-1 axis=-1", [counted((2, 1)), counted((2, 2))], [[1, 1, 2], [2, 3, 4]]),
    ("VariadicSplit-1", [counted((3,)), scalar(0), ints(-1, 1)], [1, 2]),
    ("Transpose-1", [counted((2, 3)), ints()], [[1, 4], [2, 5], [3, 6]]),
    ("Reshape-1 special_zero=true", [counted((2, 2)), ints(0, -1, 1)], [[[1], [2]], [[3], [4]]]),
    ("Squeeze-1", [counted((1, 2, 1))], [1, 2]),
    ("Unsqueeze-1", [counted((2,)), ints(-1)], [[1], [2]]),
    ("Broadcast-3 mode=explicit", [counted((2,)), ints(2, 2), ints(0)], [[1, 1], [2, 2]]),
    ("Broadcast-3 mode=bidirectional", [counted((2, 1)), ints(2)], [[1, 1], [2, 2]]),
    ("Tile-1", [counted((2,)), ints(2, 1)], [[1, 2], [1, 2]]),
    ("DepthToSpace-1 mode=blocks_first block_size=2", [counted((1, 2, 2))], [[[1, 3, 2, 4]]]),
    ("SpaceToDepth-1 mode=blocks_first block_size=2", [counted((1, 1, 4))], [[[1, 3], [2, 4]]]),
    ("BatchToSpace-2", [counted((2, 2)), ints(1, 2), ints(0, 1), ints(0, 0)], [[3, 2, 4]]),
    ("ShuffleChannels-3 group=2", [counted((1, 4))], [[1, 3, 2, 4]]),
    ("Reverse-1 mode=index", [counted((3,)), ints(0)], [3, 2, 1]),
    ("Roll-7", [counted((3,)), ints(1), ints(0)], [3, 1, 2]),
    (
        "ScatterNDUpdate-4",
        [counted((3,)), TypedArray(np.array([[2]]), "i64"), counted((1,))],
        [1, 2, 1],
    ),
    (
        "Interpolate-11 mode=nearest shape_calculation_mode=sizes",
        [counted((2,)), ints(4)],
        [1, 1, 2, 2],
    ),
    ("Divide-1", [ints(7, 8), ints(2)], [3, 4]),
    ("FloorMod-1", [ints(-7), ints(4)], [1]),
    ("ReduceProd-1", [ints(3, 4), ints(0)], 12),
    ("ShapeOf-3 output_type=i32", [counted((2, 3))], [2, 3]),
    ("Range-4 output_type=i64", [scalar(3), scalar(-2), scalar(-2)], [3, 1, -1]),
    ("Convert-1 destination_type=bf16", [reals(-3)], [-3]),
    ("Multiply-1", [reals(2**24 + 1, type="f64"), reals(3, type="f64")], [3 * (2**24 + 1)]),
    (
        "Convert-1 destination_type=i32",
        [TypedArray(np.array([-1.5, 2.5], np.float32), "f32")],
        [-1, 2],
    ),
]


@each_row(("head", "inputs", "want"), BY_HAND)
def test_by_hand(head: str, inputs: list[TypedArray], want: Any) -> None:
    got = evaluate(layer(head), inputs)[0]
    assert got.array.tolist() == want
    assert got.type == output_type(layer(head), [x.type for x in inputs])


@each_row(("head", "inputs", "want"), [row for row in BY_HAND if row[0].partition("-")[0] in MOVES])
def test_element_numbers_move_as_values_do(head: str, inputs: list[TypedArray], want: Any) -> None:
    made = layer(head)
    ports = MOVES[made.type]
    given = [x.array.astype(np.int64) if p in ports else x for p, x in enumerate(inputs)]
    moved = move(made, given)[0]
    assert np.where(moved < 0, 0, moved).tolist() == want


def test_symbols_pass_through_the_operations_on_vectors() -> None:
    n = Fraction(7)
    v = TypedArray(np.array([n, 3], object), "i64")
    got = {
        "Add": [9, 5],
        "Subtract": [5, 1],
        "Multiply": [14, 6],
        "Divide": [3, 1],
        "FloorMod": [1, 1],
        "Maximum": [7, 3],
        "Minimum": [2, 2],
    }
    for kind, want in got.items():
        assert evaluate(layer(f"{kind}-1"), [v, ints(2)])[0].array.tolist() == want
    taken = evaluate(layer("Gather-8"), [v, scalar(0), scalar(0)])[0].array
    assert taken.dtype == object
    assert taken.shape == ()
    assert taken.item() is n


@each_row(
    ("head", "inputs", "text"),
    [
        ("Pad-12 pad_mode=edge", [counted((3,)), ints(1), ints(1)], 'pad_mode="edge"'),
        ("Pad-12", [counted((3,)), ints(-4), ints(2)], "crops"),
        ("Pad-12", [counted((3,)), ints(2**30), ints(0)], "shape"),
        ("Pad-12", [counted((3,)), ints(2**31), ints(-(2**31))], "beyond 32 bits"),
        ("Pad-12 colour=red", [counted((3,)), ints(1), ints(0)], "colour"),
        ("Gather-8", [counted((3,)), ints(3), scalar(0)], "indices"),
        ("Gather-7", [counted((3,)), ints(-1), scalar(0)], "indices"),
        ("Concat-1 axis=0", [counted((3,)), ints(1)], "types"),
        ("Divide-1", [ints(-7), ints(2)], "negative"),
        ("Divide-1", [ints(7), ints(0)], "divides"),
        ("Multiply-1", [ints(2**20), ints(2**20)], "32 bits"),
        ("Exp-1", [counted((3,))], "no operation"),
        ("Slice-1", [counted((3,)), ints(0), ints(1), ints(1)], "no operation"),
        ("Convert-1 destination_type=u8", [ints(256)], "u8"),
        ("Convert-1 destination_type=f16", [reals(2049)], "f16 rounds"),
        ("Convert-1 destination_type=bf16", [reals(1 + 2**-8)], "bf16 rounds"),
        ("Multiply-1", [reals(2047, type="f16"), reals(3, type="f16")], "f16 rounds"),
        ("Subtract-1", [reals(2**25 + 1, type="f32"), reals(2**25)], "f32 rounds"),
        ("Tile-1", [counted((3,)), ints(2**30)], "shape"),
        ("Slice-8", [counted((3,)), ints(-1), ints(-9), ints(-(2**31))], "beyond 32 bits"),
        ("StridedSlice-1", [counted((3,)), ints(0), ints(9), ints(2**31)], "beyond 32 bits"),
        ("Roll-7", [counted((3,)), ints(2**31), ints(0)], "beyond 32 bits"),
        ("Range-4 output_type=i64", [scalar(4), scalar(1), scalar(2)], "away from its end"),
        ("Range-4 output_type=i64", [scalar(0), scalar(1), scalar(2**23)], "beyond 24 bits"),
    ],
)
def test_refused(head: str, inputs: list[TypedArray], text: str) -> None:
    with pytest.raises(Unproved, match=text):
        evaluate(layer(head), inputs)


ODD: list[Any] = [
    ints(),
    ints(-1, 2**63 - 1, -(2**63)),
    scalar(2**40),
    counted((0, 3)),
    TypedArray(np.array([[1, 2]]), "i64"),
    TypedArray(np.array([np.nan, np.inf], np.float32), "f32"),
    TypedArray(np.array([Fraction(1, 2), 3], object), "i64"),
    TypedArray(np.array(True), "boolean"),
    TypedArray(np.array([7], np.uint8), "u4"),
]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_odd_is_unproved_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    for head, inputs, _ in BY_HAND:
        for _ in range(6):
            given = [rng.choice(ODD) if rng.random() < 0.4 else x for x in inputs]
            given = given[: rng.randint(0, 5)] + [rng.choice(ODD)] * (rng.random() < 0.2)
            made = layer(head)
            for name in made.attributes:
                if rng.random() < 0.2:
                    odd = rng.choice(("", "-1", "99999", "1,,2", "x", "true", "9" * 30))
                    made = layer(head, **{name: odd})
            with contextlib.suppress(Unproved):
                evaluate(made, given)
            with contextlib.suppress(Unproved):
                ports, arrays = MOVES.get(made.type, ()), [x.array for x in given]
                numbers = [np.arange(a.size).reshape(a.shape) for a in arrays]
                move(made, [numbers[p] if p in ports else x for p, x in enumerate(given)])
