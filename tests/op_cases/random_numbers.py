"""RandomUniform and Multinomial: words of published test vectors, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_cases import Case, Tensor, bf16, case, f16, f32, f64, i32, i64

# Philox 4x32-10 with key 0 and counters 0 and 1: the first line is the authors' known answer.
PHILOX = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
# The Mersenne Twister seeded with 5489, as it is by default in C++.
TWISTER = [3499211612, 581869302, 3890346734, 3586334585, 545404204]


def uniform(kind: Any, low: Any, high: Any, wanted: Any, attributes: str = "", **more: Any) -> Case:
    shape: Tensor = more.pop("shape", None) or i64([len(wanted)])
    name = kind.args[0]
    text = f'output_type="{name}" {attributes}'
    return case(
        "RandomUniform-8", text, [shape, kind(low), kind(high)], kind(wanted), fixed=(0,), **more
    )


BITS = [(w & 0x7FFFFF) / 2**23 for w in PHILOX]
ZERO = "OpenVINO seeds with the time where both seeds are 0"
TORCH = 'alignment="pytorch" global_seed="5489"'
RANDOM = [
    uniform(f32, 0, 1, BITS, crash=ZERO),
    uniform(i32, -3, 1000, [w % 1003 - 3 for w in PHILOX], crash=ZERO),
    uniform(f32, 0, 1, [(w & 0xFFFFFF) / 2**24 for w in TWISTER], TORCH),
    uniform(f64, 0, 1, [(w & 0xFFFFFF) / 2**24 for w in TWISTER], TORCH),
    uniform(i32, 5, 1005, [w % 1000 + 5 for w in TWISTER], TORCH),
    uniform(i64, 5, 1005, [w % 1000 + 5 for w in TWISTER], TORCH),
    # What OpenVINO gives; there is no other source.
    uniform(
        f32,
        0,
        1,
        [0.02318633, 0.09948754, 0.5691265, 0.58422816, 0.46582305, 0.27705932],
        'global_seed="7" op_seed="11"',
        tolerance=2.0**-25,
    ),
    uniform(
        f32,
        2,
        100,
        [[4.2722597, 11.749779, 57.774395], [59.25436, 47.650658, 29.151814]],
        'global_seed="7" op_seed="11"',
        shape=i32([2, 3]),
        tolerance=2.0**-25,
    ),
    uniform(f16, 2, 100, [4.273, 11.75, 57.78, 59.25], 'global_seed="7" op_seed="11"'),
    uniform(bf16, 2, 100, [54.75, 3.53125, 28.75, 97.5], 'global_seed="7" op_seed="11"'),
    # The difference of the limits, 295, has 9 bits; OpenVINO makes it 296.
    uniform(bf16, 5, 300, [207, 232, 34, 288, 82, 248], 'global_seed="7" alignment="pytorch"'),
    uniform(i32, 2, 100, [77, 4, 73, 61, 37, 84, 90, 28], 'global_seed="7" op_seed="11"'),
    uniform(i32, 2, 100, np.zeros((2, 0)), 'op_seed="1"', shape=i64([2, 0])),
    uniform(
        i32,
        [2],
        [100],
        77,
        'global_seed="7" op_seed="11"',
        shape=i64([], (0,)),
        crash="OpenVINO leaves a scalar unwritten",
    ),
]


def draw(
    probs: Any, wanted: Any, attributes: str, kind: Any = i32, given: Any = f32, **more: Any
) -> Case:
    text = f'convert_type="{kind.args[0]}" {attributes}'
    count = i64([len(wanted[0])]) if kind is i32 else i64(len(wanted[0]))
    return case("Multinomial-13", text, [given(probs), count], kind(wanted), fixed=(1,), **more)


CHANCES = [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]
AGAIN = 'with_replacement="true" log_probs="false"'
ONCE = 'with_replacement="false" log_probs="false"'
SEEDS = 'global_seed="3" op_seed="5"'
# Sequences are what OpenVINO draws; a sure class and one of two are worked by hand.
MULTINOMIAL = [
    draw(CHANCES, [[1, 2, 2, 3, 0, 2], [0, 0, 0, 0, 3, 0]], f"{AGAIN} {SEEDS}"),
    draw(CHANCES, [[1, 2, 2, 3, 0, 2], [0, 0, 0, 0, 3, 0]], f"{AGAIN} {SEEDS}", kind=i64),
    draw(CHANCES, [[1, 2, 3, 0], [0, 2, 1, 3]], f"{ONCE} {SEEDS}"),
    draw(
        np.log(CHANCES),
        [[2, 3], [2, 0]],
        'with_replacement="false" log_probs="true" global_seed="1" op_seed="1"',
    ),
    draw([[0, 0, 2, 0]], [[2, 2, 2]], f"{AGAIN} {SEEDS}"),
    draw([[0, 3, 0], [0, 0, 1]], [[1], [2]], ONCE, given=f16),
    draw([[1.0]], [[0, 0]], AGAIN),
]
CASES = [*RANDOM, *MULTINOMIAL]
