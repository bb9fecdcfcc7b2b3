"""A random grid of deconvolutions: definition, direct and lowered results are equal to the bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.layers import Layer, build, expected, numbers, random_layer
from support.rows import parts

pytestmark = pytest.mark.thorough

CHUNKS = 150
CASES = 40
DYNAMIC_CHUNKS = 30
DYNAMIC_CASES = 10
SEED = 20240607


def explain(layer: Layer, form: str | None, got: Any, want: Any) -> str:
    shapes = "" if got.shape == want.shape else f" shape {got.shape}, not {want.shape}"
    return f"form {form}:{shapes} {layer}\n{got.ravel()[:12]}\n{want.ravel()[:12]}"


def check(layer: Layer, got: Any, want: Any, form: str | None) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape, explain(layer, form, got, want)
    assert np.array_equal(got, want), explain(layer, form, got, want)


def run_case(rng: np.random.Generator) -> str:
    """Run one random layer three ways; return what became of it."""
    layer = random_layer(rng)
    dtype = rng.choice([np.int32, np.float32, np.float32, np.int64])
    x, w = numbers(rng, layer.data_shape, dtype), numbers(rng, layer.filter_shape, dtype)
    source = str(rng.choice(["const", "input", "computed"]))
    graph, feeds = build(
        layer,
        x,
        w,
        filter_input=bool(rng.random() < 0.35),
        shape_source=source,
        shape_type=rng.choice([np.int32, np.int64]),
    )
    if min(layer.output_size) < 0:
        with pytest.raises(ird.InferenceError, match=r"E306.*would have size -"):
            ird.infer(graph)
        return "negative"
    want = expected(layer, x, w)
    for form in (None, "zero-insertion"):
        check(layer, ird.run(graph, feeds, form=form, fuse=False)["y"], want, form)
    return source if layer.output_shape is not None else "none"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", parts(50, CHUNKS))
def test_definition_direct_and_lowered_agree(chunk: int) -> None:
    seen = [run_case(np.random.default_rng([SEED, chunk, k])) for k in range(CASES)]
    assert {"none", "const", "input", "computed"} <= set(seen)
    assert seen.count("negative") < CASES / 4


@pytest.mark.parametrize("step", parts(1, [5, 1]))
def test_the_grid_is_large_enough(step: int) -> None:
    """Of the layers at least 5,000 have a result, and every kind of rule occurs often."""
    layers = [
        random_layer(np.random.default_rng([SEED, chunk, k]))
        for chunk in range(0, CHUNKS, step)
        for k in range(CASES)
    ]
    legal = [la for la in layers if min(la.output_size) >= 0]
    assert len(legal) >= 5000 // step
    kinds = {(la.axes, la.auto_pad, la.output_shape is None, la.semantics) for la in legal}
    assert len(kinds) == 3 * 4 * 2 * 2
    assert {la.groups for la in legal} == {None, 1, 2, 3, 4}
    assert sum((la.groups or 1) > 1 and la.c != la.m for la in legal) > 500 // step
    assert (
        sum(any(o > s for o, s in zip(la.output_padding, la.strides, strict=True)) for la in legal)
        > 300 // step
    )
    assert sum(min(la.pads_begin + la.pads_end) < 0 for la in legal) > 1000 // step
    assert sum(len(set(la.strides)) == la.axes > 1 for la in legal) > 1000 // step


def with_sizes(layer: Layer, rng: np.random.Generator) -> Layer:
    """The layer at another batch and other spatial sizes, with its output_shape fitted to them."""
    size = tuple(int(v) for v in rng.integers(1, (9, 5, 3)[layer.axes - 1] + 1, layer.axes))
    other = replace(layer, batch=int(rng.integers(1, 4)), size=size)
    if layer.output_shape is None:
        return other
    tops = [other.full(a) + other.output_padding[a] + 2 for a in range(other.axes)]
    return replace(other, output_shape=tuple(int(rng.integers(0, t + 1)) for t in tops))


def run_dynamic(rng: np.random.Generator) -> int:
    """Lower a layer of unknown sizes once, run it at several; return the number of runs."""
    layer = random_layer(rng, budget=500)
    if min(layer.output_size) < 0:
        return 0
    dtype = rng.choice([np.int32, np.float32])
    x, w = numbers(rng, layer.data_shape, dtype), numbers(rng, layer.filter_shape, dtype)
    free = [int(rng.random() < 0.7) for _ in x.shape]
    free[1], free[2] = int(rng.random() < 0.3), 1
    declared = [None if f else d for f, d in zip(free, x.shape, strict=True)]
    source = str(rng.choice(["input", "computed"]))
    graph, _ = build(
        layer, x, w, filter_input=bool(rng.random() < 0.3), shape_source=source, data_shape=declared
    )
    plans = {form: ird.compile(graph, form=form, fuse=False) for form in (None, "zero-insertion")}
    runs = 0
    for _ in range(4):
        other = with_sizes(layer, rng)
        sizes = (other.batch, x.shape[1], *other.size)
        actual = tuple(s if f else d for s, f, d in zip(sizes, free, x.shape, strict=True))
        other = replace(other, batch=actual[0], size=actual[2:])
        x2 = numbers(rng, actual, dtype)
        _, feeds = build(other, x2, w, filter_input=True, shape_source=source)
        feeds = {name: feeds[name] for name in graph.inputs}
        if min(other.output_size) < 0:
            for plan in plans.values():
                with pytest.raises(ird.ExecutionError):
                    plan.run(feeds)
            continue
        want = expected(other, x2, w)
        for form, plan in plans.items():
            check(other, plan.run(feeds)["y"], want, form)
        runs += 1
    return runs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(12, DYNAMIC_CHUNKS))
def test_layers_of_unknown_size_run_at_any(chunk: int) -> None:
    rng = np.random.default_rng([SEED + 1, chunk])
    assert sum(run_dynamic(rng) for _ in range(DYNAMIC_CASES)) > DYNAMIC_CASES
