"""Conditions of targets: operators, axes and sides, unknown values, mistakes, hostile texts."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from irdeconv.rewrite.target_conditions import (
    LONGEST_CONDITION,
    MOST_NESTED,
    OPERATIONS,
    Condition,
    ConditionError,
    Facts,
    names_of,
)
from support.rows import each_row

VALUES: dict[str, Any] = {"spatial_axes": 2, "inputs": 2048, "outputs": 8, "groups": 1, "rank": 4}
VALUES |= {"depthwise": False, "constant_filter": False, "type": "f16", "batch": None}
AXES: dict[str, Any] = {"kernel": (5, 64), "stride": (1, 2), "dilation": (1, 3)}
AXES |= {"pad_begin": (1, 2), "pad_end": (3, 0), "size": (7, None)}
LAYER = Facts(VALUES, AXES)


def rows(section: str) -> list[list[str]]:
    """Return the rows of a section of conditions.txt, in columns."""
    text = Path(__file__).with_name("conditions.txt").read_text("utf-8")
    (found,) = re.findall(rf"^\[{section}\]\n((?:.+\n)+)", text, re.MULTILINE)
    return [row.split(" -> ") for row in found.splitlines()]


def failure(text: str, facts: Facts = LAYER, operation: str = "Convolution") -> str | None:
    return Condition.parse(text, operation).failure(facts)


@each_row("text", lambda: [*(text for (text,) in rows("operators")), "  outputs\n == 8 "])
def test_every_operator(text: str) -> None:
    assert failure(text) is None
    opposite = failure(f"not ({text.strip()})")
    assert opposite is not None
    assert opposite.startswith(f"not ({' '.join(text.split())}): ")


@each_row("text, numbers", lambda: rows("numbers"))
def test_the_numbers_of_a_failure(text: str, numbers: str) -> None:
    assert failure(text) == f"{text}: {numbers}"


def test_the_example_of_the_format() -> None:
    facts = Facts({"inputs": 2048}, {"kernel": (5, 5)})
    text = "kernel_h * kernel_w * ceil(inputs / 16) <= 2048"
    assert failure(text, facts) == f"{text}: 5 * 5 * ceil(2048 / 16) = 3200"


def test_axes_that_a_layer_lacks() -> None:
    one = Facts({}, {"kernel": (7,), "pad_begin": (3,), "pad_end": (3,), "stride": (2,)})
    met = "kernel_h == kernel_d == 1", "pad_h == 0", "stride_h == 1", "kernel_w == 7", "pad_w == 3"
    assert [failure(t, one) for t in met] == [None] * len(met)
    assert failure("kernel < 7", one) == "kernel < 7: 7"  # there is only one axis
    assert failure("kernel == 1", Facts({}, {"kernel": ()})) is None


def test_names_for_each_part_and_axis() -> None:
    concat = Facts({"channels": (16, 20, 32), "axis": 1, "parts": 3}, {})
    assert failure("parts == 3", concat, "Concat") is None
    text = "channels % 16 == 0"
    assert failure(text, concat, "Concat") == f"{text}: 20 % 16 = 4 (part 1)"
    cut = Facts({"axis": (2, 3), "step": (1, 2)}, {"step": (1, 1, 1, 2)})
    assert failure("axis >= 2", cut, "Slice") is None
    assert failure("step_h == step_d == 1 and step_w == 2", cut, "Slice") is None
    assert failure("step == 1 or axis == 3", cut, "Slice") is None
    assert failure("step == 1", cut, "Slice") == "step == 1: 2 (part 1)"
    pad = Facts({}, {"amount_begin": (0, 0, 1, 1), "amount_end": (0, 0, -2, 40), "size": (8, 8)})
    assert failure("amount_begin >= 0", pad, "Pad") is None
    assert failure("amount < 32", pad, "Pad") == "amount < 32: 40 (axis w, end)"
    assert failure("amount_h >= 0", pad, "Pad") == "amount_h >= 0: -2 (end)"
    # Spatial sizes are aligned with the last amounts.
    assert failure("amount <= size", pad, "Pad") == "amount <= size: 40 and 8 (axis w, end)"
    assert failure("order in ((0, 1), (1, 0))", Facts({"order": (1, 0)}), "Transpose") is None
    assert failure("order == (0, 1)", Facts({"order": (1, 0)}), "Transpose")
    scale = Facts({}, {"scale": (2, Fraction(3, 2))})
    assert failure("scale == 2", scale, "Interpolate") == "scale == 2: 3/2 (axis w)"
    infinite = Facts({"value": float("-inf")}, {})
    assert failure("value == 0", infinite, "Pad") == "value == 0: -inf"
    assert failure("value - value == 0", infinite, "Pad")  # NaN
    text = "floor(value) == 0"
    assert failure(text, infinite, "Pad") == f"{text}: no number with value = -inf"


def test_values_that_are_known_only_at_run_time() -> None:
    assert failure("size <= 64") == "size <= 64: size is known only at run time (axis w)"
    assert failure("size_h <= 64") is None
    assert failure("size <= 64 or kernel == 64") is None
    assert failure("kernel == 5 or size <= 64")  # on w neither is known to hold
    assert failure("size <= 64 and kernel < 5") == (
        "size <= 64 and kernel < 5: size = 7, kernel = 5 (axis h)"
    )
    both = "batch + size_w == 2"
    assert failure(both) == f"{both}: batch and size_w are known only at run time"
    assert failure("not batch == 1") == "not batch == 1: batch is known only at run time"
    assert failure("multiplier == 1")  # no entry at all
    assert failure("output_padding == 0", LAYER, "ConvolutionBackpropData")
    assert failure("outputs < batch < 4") == "outputs < batch < 4: batch is known only at run time"
    assert failure("outputs < 3 < batch") == "outputs < 3 < batch: 8 and unknown"


@each_row("text, message, hint", lambda: [(*row, "")[:3] for row in rows("mistakes")])
def test_mistakes(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConditionError) as raised:
        Condition.parse(text, "Convolution")
    assert message in str(raised.value)
    assert (raised.value.hint or "").startswith(hint)


HOSTILE: list[Any] = [
    "__import__('os').system('true')",
    "kernel.__class__ == 1",
    "[k for k in kernel] == 1",
    "(lambda: kernel)() == 1",
    "f'{kernel}' == 'a'",
    "(kernel := 1) == 1",
    "kernel[0] == 1",
    "kernel if depthwise else stride",
    "9 ** 9 ** 9 == kernel",
    "1 << 999999999 == kernel",
    "'a' * 1000000000 == type",
    "kernel == 1 # comment\n__import__('os')",
    "kernel == 1; exit()",
    "\\x == 1",
    "kernel == '\\d'",
    "1in (1,) == kernel",
    "\0",
    "\ud800 == 1",
    "(" * (LONGEST_CONDITION // 2) + ")" * (LONGEST_CONDITION // 2),
    "-" * (LONGEST_CONDITION - 20) + "kernel == 1",
    "not " * (LONGEST_CONDITION // 5) + "depthwise",
    "kernel" + " + kernel" * (MOST_NESTED + 1) + " == 1",
    "kernel == " + "9" * (LONGEST_CONDITION - 10),
    "kernel == 1 or " * 100_000 + "kernel == 2",
]


@each_row("text", HOSTILE)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        Condition.parse(text, "Convolution")


def test_large_numbers_end() -> None:
    text = " * ".join(["inputs"] * 25) + f" * {2**63} % 5 == 1"
    huge = Facts({"inputs": 2**63})
    message = failure(text, huge)
    assert message is not None
    assert len(message) < 2000
    assert failure("inputs * inputs * inputs < 2", huge) == (
        "inputs * inputs * inputs < 2: 9223372036854775808 * 9223372036854775808 * "
        "9223372036854775808 = a number of 190 bits"
    )


def test_every_name_can_be_used() -> None:
    for operation in OPERATIONS:
        for text, name in names_of(operation).items():
            values = {
                "number": f"{text} == 1",
                "boolean": text,
                "string": f"{text} != '{(name.choices or ('',))[0]}'",
                "tuple of numbers": f"{text} == (0, 1)",
            }
            assert failure(values[name.type], Facts({}), operation)
            assert name.about
            if name.absent is not None:
                assert Condition.parse(f"{text}_h == {text}_w == {text}_d", operation)
