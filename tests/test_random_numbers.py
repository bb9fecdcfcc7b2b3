"""Random numbers in graphs, and their bits against exact arithmetic and live OpenVINO."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph
from irdeconv.ir.op import infer_op
from irdeconv.ir.spec import Spec
from irdeconv.kernels import (
    random_numbers,
)
from irdeconv.kernels import (
    random_numbers as numbers,
)
from irdeconv.kernels import (
    random_numbers as philox,
)
from irdeconv.ops.elementwise import Add
from irdeconv.ops.generation import RandomUniform
from support.plan_graphs import Builder

SHAPE = (2, 3)


def uniform(seed: int) -> RandomUniform:
    return RandomUniform(ELEMENT_TYPES["f32"], global_seed=seed)


def noisy(seed: int = 7) -> Graph:
    """x plus the same random numbers twice, all of their inputs being constants."""
    b = Builder()
    x = b.input(SHAPE)
    given = np.array(SHAPE), np.float32(-1), np.float32(1)
    first, second = (b.add(uniform(seed), *given) for _ in range(2))
    return b.done(b.add(Add(), b.add(Add(), x, first), second))


def drawn(graph: Graph) -> int:
    return sum(n.type == "RandomUniform" for n in graph.nodes())


def test_nothing_is_folded_or_joined() -> None:
    graph = ird.infer(noisy())
    assert drawn(graph) == 2
    assert drawn(ird.simplify(graph).graph) == 2
    (out,) = infer_op(uniform(7), (Spec.of(np.array(SHAPE)), *map(Spec.of, scalars(-1, 1))))
    assert (out.shape, out.value) == (SHAPE, None)


def scalars(*values: float, kind: Any = np.float32) -> list[Any]:
    return [np.array(v, kind) for v in values]


@pytest.mark.parametrize("seed", [0, 7])
def test_runs_of_a_plan_repeat(seed: int) -> None:
    plan = ird.compile(noisy(seed))
    feeds = {"x": np.zeros(SHAPE, np.float32)}
    (first,), (second,) = plan.run(feeds).values(), plan.run(feeds).values()
    assert np.array_equal(first, second)
    assert np.array_equal(first, 2 * uniform(seed).evaluate(np.array(SHAPE), *scalars(-1, 1)))


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = philox.words(3, 1 << 40, 100)
    monkeypatch.setattr(philox, "GROUPS_AT_ONCE", 7)
    assert np.array_equal(philox.words(3, 1 << 40, 100), whole)
    limits = np.float32(-3.7), np.float32(1000.3)
    numbers_of_all = numbers.uniform(400, *limits, (3, 1 << 40), torch=False)
    monkeypatch.setattr(numbers, "CONVERTED_AT_ONCE", 9)
    assert np.array_equal(numbers.uniform(400, *limits, (3, 1 << 40), torch=False), numbers_of_all)


def test_the_sequence_of_two_seeds_is_that_of_cpp() -> None:
    # std::seed_seq{3, 5} and std::mt19937, as OpenVINO's Multinomial shows them among 4096 classes.
    words = random_numbers.words_of_sequence((3, 5), 8).astype(np.uint64)
    assert (words * 4096 >> 32).tolist() == [788, 1254, 2170, 2615, 244, 2303, 1941, 948]


def test_sums_are_rounded_once() -> None:
    r = np.random.default_rng(0)
    products = np.ldexp(r.integers(-(2**46), 2**46, 4000).astype(float), r.integers(-60, 10, 4000))
    for low in (1.0, -3.7, 2.0**-20, 16777217.0):
        found = numbers.rounded_sum(products, low)
        for product, got in zip(products.tolist(), found.tolist(), strict=True):
            exact = Fraction(product) + Fraction(low)
            apart = abs(Fraction(got) - exact)
            for side in (-np.inf, np.inf):
                other = float(np.nextafter(np.float32(got), np.float32(side)))
                assert apart <= abs(Fraction(other) - exact)


LIMITS = [
    ("f32", 2, 100),
    ("f32", -3.7, 1000.3),
    ("f32", 0, 1),
    ("i32", -(2**31), 5),
    ("i64", 2, 99),
]


@pytest.mark.oracles
@pytest.mark.parametrize(("name", "low", "high"), LIMITS)
@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
def test_openvino_draws_the_same_bits(name: str, low: float, high: float, alignment: Any) -> None:
    ov = pytest.importorskip("openvino")
    ops = ov.opset16
    seeds = 2**40 + 3, 2**35 + 1
    size = np.array([2999])
    limits = scalars(low, high, kind=ELEMENT_TYPES[name].container)
    given = [ops.constant(v) for v in (size, *limits)]
    y = ops.random_uniform(*given, name, *seeds, alignment)
    compiled = ov.Core().compile_model(
        ov.Model([y], []), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    theirs = compiled([])[0]
    ours = RandomUniform(ELEMENT_TYPES[name], *seeds, alignment).evaluate(size, *limits)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.oracles
def test_numbers_from_the_time_are_not_compared() -> None:
    pytest.importorskip("openvino")
    report = ird.compare(noisy(0), "openvino", [np.zeros(SHAPE, np.float32)])
    assert report.passed, report
    rules = {t.type_a: t.rule for t in report.tensors}
    assert rules["RandomUniform"] == "drawn anew in every run"
