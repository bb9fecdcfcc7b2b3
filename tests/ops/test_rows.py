"""A test of many rows runs each of them, and fails with the names of those that fail."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from op_cases import f32, rows_of
from support.rows import each_row


def failing(number: int) -> None:
    assert number != 2, "it is two"
    with pytest.raises(ZeroDivisionError):
        1 / number


@pytest.mark.parametrize("rows", [{"a": 1, "b": 2, "c": 0}, lambda: {"a": 1, "b": 2, "c": 0}])
def test_every_row_that_fails_is_named(rows: dict[str, int] | Callable[[], dict[str, int]]) -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        each_row("number", rows)(failing)()
    message = str(caught.value)
    assert message.startswith("2 of 3 rows:\n[a] Failed: DID NOT RAISE")
    assert "[b] AssertionError: it is two" in message
    assert "[c]" not in message


def test_two_decorators_give_all_pairs(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    @each_row("a", [1, 2])
    @each_row(("b", "double"), [(3, 6), (4, 8)])
    def test(a: int, b: int, double: int, tmp_path: Path) -> None:
        assert double == 2 * b
        seen.append((a, b))

    assert list(signature(test).parameters) == ["tmp_path"]
    test(tmp_path=tmp_path)
    assert seen == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_no_rows_are_a_failure() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        each_row("number", [])(failing)()


TABLE = """# A comment.

A = [1, 2, 3, 4] as (2, 2)

Add-1|16 auto_broadcast=numpy text='a b' // f32 A // i64 count[2] - 1
  // f32 zeros[1] -> f32 [sqrt(4), exp(0)]
  tolerance: 2**-3
  fixed: 1, 2
"""


def test_a_table_of_operations() -> None:
    first, second = rows_of(TABLE)
    assert (first.op, second.op) == ("Add-1", "Add-16")
    assert first.attributes == 'auto_broadcast="numpy" text="a b"'
    assert [t.values.tolist() for t in first.inputs] == [[[1, 2], [3, 4]], [0, 1], [0]]
    assert [t.dtype.name for t in first.inputs] == ["f32", "i64", "f32"]
    assert first.outputs[0].values.tolist() == f32([2, 1]).values.tolist()
    assert (first.tolerance, first.fixed, first.defect) == (0.125, (1, 2), "")
