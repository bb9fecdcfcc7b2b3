"""Random layers of every operation, irdeconv against a live OpenVINO."""

from __future__ import annotations

from pathlib import Path

import pytest

from op_cases import f16, f32, i32
from support.live_operations.explained import EXPLAINED
from support.live_operations.runtime import Answer
from support.live_operations.sample import Sample, given
from support.live_operations.sweep import Table, sample_of, sweep, targets
from support.live_operations.verdict import judge

pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")
LEAST = 0.97


def test_a_sample_of_the_operations_agrees() -> None:
    """Every fifth operation of the newest opset; few samples, so one more may differ."""
    table = Table()
    for row in sweep([t for t in targets() if t.opset == 16][::5], range(1)):
        table.add(*row)
    assert table.rate >= LEAST - 0.05, table.found


@pytest.mark.slow
def test_all_operations_agree() -> None:
    table = Table()
    for row in sweep(targets(), range(2)):
        table.add(*row)
    assert table.rate >= LEAST, table.rows()


@pytest.mark.parametrize("title", [e.title for e in EXPLAINED])
def test_explanations_are_documented(title: str) -> None:
    page = Path(__file__).resolve().parent.parent / "docs/disagreements.md"
    assert f"| {title} |" in page.read_text("utf-8")


def test_samples_repeat() -> None:
    target = next(t for t in targets() if t.type == "Concat")
    assert str(sample_of(target, 3)) == str(sample_of(target, 3))
    assert str(sample_of(target, 3)) != str(sample_of(target, 4))


ADD = Sample("Add", "opset1", {}, (given(f32([1, 2])), given(f32([3, 4]))))
TWO = (("f32", ((2, 2),)),)


def ran(values: object, specs: object = TWO) -> Answer:
    return Answer("ran", specs, (values,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("live", "ours", "kind", "reason"),
    [
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values), "agree", ""),
        (ran(f32([4, 6]).values), ran(f32([4, 7]).values), "differ", "1 of 2 values; at [1] 7.0"),
        (ran(f32([4, 6]).values), ran(f32([4]).values), "differ", "shape [1], OpenVINO [2]"),
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f16", None),)), "differ", "type f16"),
        (
            ran(f32([4, 6]).values),
            ran(f32([4, 6]).values, (("f32", ((3, -1),)),)),
            "differ",
            "inferred [3..-1], OpenVINO [2]",
        ),
        (Answer("refused", message="no"), ran(f32([4, 6]).values), "only irdeconv", "no"),
        (ran(f32([4, 6]).values), Answer("refused", message="E303"), "only OpenVINO", "E303"),
        (Answer("refused"), Answer("refused"), "both refuse", ""),
        (Answer("crashed"), Answer("refused"), "OpenVINO crashes", ""),
        (ran(f32([4, 6]).values), Answer("crashed", message="KeyError"), "differ", "KeyError"),
    ],
)  # fmt: skip
def test_verdicts(live: Answer, ours: Answer, kind: str, reason: str) -> None:
    verdict = judge(ADD, live, ours)
    assert verdict.kind == kind
    assert reason in verdict.reason


def test_an_open_size_that_openvino_knows_is_wider() -> None:
    verdict = judge(ADD, ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f32", None),)))
    assert (verdict.kind, verdict.wider) == ("agree", True)


def test_the_limit_is_that_of_the_narrowest_type() -> None:
    sample = Sample("PReLU", "opset1", {}, (given(f16([1.0])), given(f32([3.0]))))
    half = (("f32", ((1, 1),)),)
    assert judge(sample, ran(f32([1]).values, half), ran(f32([1.001]).values, half)).kind == "agree"
    whole = Sample("Abs", "opset1", {}, (given(i32([1])),))
    kinds = (("i32", ((1, 1),)),)
    assert judge(whole, ran(i32([1]).values, kinds), ran(i32([2]).values, kinds)).kind == "differ"
