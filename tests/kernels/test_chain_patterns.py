"""Spelled-out activations: which are recognised, and that their values are those of the formula."""

import numpy as np
import pytest

from irdeconv.kernels import elementwise as steps
from irdeconv.kernels import jit
from irdeconv.kernels.chain_patterns import recognized
from irdeconv.kernels.elementwise import Instruction, Rule
from irdeconv.kernels.elementwise_chain import Chain
from irdeconv.kernels.threads import Threads

# Register 0 is x, then the constants in order, then the results.
Spelled = tuple[list[float], list[tuple[Rule, tuple[int, ...], tuple[float, ...]]]]
ADD, MUL, DIV = np.add, np.multiply, np.divide
SPELLED: dict[str, Spelled] = {
    "swish": ([], [(steps.sigmoid, (0,), ()), (MUL, (1, 0), ())]),
    "hswish": (
        [3, 6],
        [(ADD, (0, 1), ()), (steps.clamp, (3,), (0, 6)), (MUL, (0, 4), ()), (DIV, (5, 2), ())],
    ),
    "hswish by a product": (
        [3, 0.1666667],
        [(ADD, (1, 0), ()), (steps.clamp, (3,), (0, 6)), (MUL, (4, 2), ()), (MUL, (0, 5), ())],
    ),
    "hswish of HardSigmoid": (
        [],
        [(steps.hard_sigmoid, (0,), (0.16666667, 0.5)), (MUL, (0, 1), ())],
    ),
    "hswish of HSigmoid": ([], [(steps.hsigmoid, (0,), ()), (MUL, (1, 0), ())]),
    "gelu_erf": (
        [1.4142135, 1, 0.5],
        [
            *((DIV, (0, 1), ()), (steps.erf, (4,), ()), (ADD, (5, 2), ())),
            *((MUL, (0, 6), ()), (MUL, (7, 3), ())),
        ],
    ),
    "gelu_erf halved first": (
        [0.70710678, 1, 0.5],
        [
            *((MUL, (0, 3), ()), (MUL, (0, 1), ()), (steps.erf, (5,), ())),
            *((ADD, (2, 6), ()), (MUL, (4, 7), ())),
        ],
    ),
}
OTHER: dict[str, Spelled] = {
    "swish of another": ([2], [(ADD, (0, 1), ()), (steps.sigmoid, (2,), ()), (MUL, (3, 0), ())]),
    "a sixth": (
        [3, 5],
        [(ADD, (0, 1), ()), (steps.clamp, (3,), (0, 6)), (MUL, (0, 4), ()), (DIV, (5, 2), ())],
    ),
    "three": (
        [2, 6],
        [(ADD, (0, 1), ()), (steps.clamp, (3,), (0, 6)), (MUL, (0, 4), ()), (DIV, (5, 2), ())],
    ),
    "a square": ([], [(MUL, (0, 0), ()), (MUL, (1, 1), ()), (MUL, (2, 2), ())]),
}


def program(spelled: Spelled) -> tuple[list[Instruction], list[np.ndarray]]:
    numbers, rows = spelled
    known = [np.float32([n]) for n in numbers]
    return [Instruction(rule, args, params) for rule, args, params in rows], known


@pytest.mark.parametrize("name", SPELLED)
def test_one_activation_is_left(name: str) -> None:
    instructions, known = program(SPELLED[name])
    (one,) = recognized(instructions, known)
    assert (one.rule.__name__, one.args) == (name.split()[0], (0,))
    # The same with the values still read by a later instruction.
    end = len(known) + len(instructions)
    more = recognized([*instructions, Instruction(MUL, (end, end - 1))], known)
    assert [m.rule for m in more].count(one.rule) == 1
    assert more[-1].rule is MUL
    assert recognized([*instructions, Instruction(ADD, (end, 0))], known)[0] == one


@pytest.mark.parametrize("name", OTHER)
def test_other_formulas_stay(name: str) -> None:
    instructions, known = program(OTHER[name])
    assert recognized(instructions, known) == instructions


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", SPELLED)
def test_values(name: str, scaled: bool) -> None:
    """Also with a product and a sum behind, which the compiled form computes as well."""
    instructions, known = program(SPELLED[name])
    x = np.concatenate([np.linspace(-9, 9, 700), [-0.0, np.inf, np.nan]]).astype(np.float32)
    x = np.resize(x, (2, 3, 703))
    if scaled:
        shift = len(known)
        known += [np.float32([3]), np.arange(3, dtype=np.float32).reshape(3, 1)]
        rows = [
            Instruction(one.rule, tuple(a + 2 * (a > shift) for a in one.args), one.params)
            for one in instructions
        ]
        end = len(known) + len(rows)
        instructions = [*rows, Instruction(MUL, (end, shift + 1))]
        instructions.append(Instruction(ADD, (end + 1, shift + 2)))
    wide = Chain.compile(instructions, "float64", [k.astype(np.float64) for k in known])
    fast = Chain.compile(instructions, "float32", known)
    assert fast.fused is not None or not jit.available()
    want, out = np.empty(x.shape), np.empty_like(x)
    with np.errstate(all="ignore"):
        wide.run([x.astype(np.float64)], want, Threads())
        fast.fixed([x], out)(Threads())
    np.testing.assert_allclose(out, want, rtol=2e-6, atol=2e-6)
