"""Memory and work are counted before anything is allocated or multiplied."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

LIMIT = 1 << 20
SIZES = """graph 1 "g" {{
  %0 "n" = opset1.Parameter() {{shape = [{shape}], element_type = i64}}
  %1 "a" = opset1.Const() {{element_type = {type}, shape = [{ones}], data = [{a}]}}
  %2 "b" = opset1.Const() {{element_type = {type}, shape = [{ones}], data = [{b}]}}
  %3 "made" = {made}
  %4 "r" = opset1.Result(%3)
}}
"""
MADE = {
    "Broadcast": ('opset3.Broadcast(%1, %0) {mode = "numpy"}', "1", "1"),
    "Tile": ("opset1.Tile(%1, %0)", "1", "1"),
    "Range": ("opset4.Range(%1, %0, %2) {output_type = f32}", "", ""),
    "RandomUniform": ("opset8.RandomUniform(%0, %1, %2) {output_type = f32}", "1", ""),
}


def peak(function: Callable[[], Any]) -> int:
    """The memory that a call takes at most."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


SAMPLE = "ir_samples/openvino/group_deconv.xml"
X = np.zeros((2, 6, 4, 5), np.float32)


def test_work_is_limited() -> None:
    with ird.Limits(macs=10).applied(), pytest.raises(ird.LimitError, match="multiply-accumulates"):
        ird.run(SAMPLE, X)
    assert ird.run(SAMPLE, X)


ROWS = """graph 1 "g" {{
  %0 "x" = opset1.Parameter() {{shape = [{rows}, 4], element_type = f32}}
  %1 "each" = opset1.TensorIterator(%0)
    body {{inputs = [[0, 0, [0]]], outputs = [[3, 0, [0]]], edges = []}} {{
      %0 "row" = opset1.Parameter() {{shape = [1, 4], element_type = f32}}
      %1 "w" = opset1.Const() {{element_type = f32, shape = [4, 1], data = [1.0, 2.0, 3.0, 4.0]}}
      %2 "m" = opset1.MatMul(%0, %1)
      %3 "out" = opset1.Result(%2)
    }}
  %2 "y" = opset1.Result(%1)
}}
"""


@pytest.mark.parametrize("rows", ["5", "?"])
def test_bodies_count_as_often_as_they_run(rows: str) -> None:
    graph = ird.parse(ROWS.format(rows=rows))
    feeds = {"x": np.ones((5, 4), np.float32)}
    with ird.Limits(macs=20).applied():
        ird.run(graph, feeds)
    with ird.Limits(macs=19).applied(), pytest.raises(ird.LimitError, match="takes 20 multi"):
        ird.run(graph, feeds)


def test_memory_is_limited_by_the_limits_in_force() -> None:
    with ird.Limits(memory=100).applied(), pytest.raises(ird.LimitError, match="the limit is 100"):
        ird.run(SAMPLE, X)
    with ird.Limits(memory=100).applied():
        assert ird.run(SAMPLE, X, max_memory=2**30)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("kind", MADE)
def test_sizes_that_only_values_tell_are_limited(kind: str, fuse: bool) -> None:
    made, shape, ones = MADE[kind]
    text = SIZES.format(shape=shape, ones=ones, type="f32", made=made, a="0.0", b="1.0")
    plan = ird.compile(ird.parse(text), fuse=fuse, max_memory=LIMIT)
    feed = np.array([1000] if shape else 1000, np.int64)
    assert plan.run({"n": feed})["r"].shape == (1000,)

    def fail() -> None:
        with pytest.raises(ird.LimitError, match="the limit is 1,048,576"):
            plan.run({"n": feed * 1_000_000})

    assert peak(fail) < LIMIT


def test_constants_that_are_folded_are_counted_first() -> None:
    def fail() -> None:
        with pytest.raises(ird.LimitError, match="constants take"):
            ird.compile("tests/hostile/files/bc1e9.xml", max_memory=100 << 20)

    assert peak(fail) < LIMIT
