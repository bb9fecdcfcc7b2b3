"""Random deconvolutions for the tests of the lowering forms, and what each form makes of them."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import AUTO
from irdeconv.ir.graph import Graph, Value
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.lower_deconv import Lowered
from support.layers import (
    Layer,
    build,
    constant,
    expected,
    numbers,
    parameter,
    random_layer,
    result,
)

TARGETS = ["generic", "no-depth-to-space", "zero-insertion-hardware"]
ALL = (*FORMS, AUTO)
TYPES = (np.int32, np.int64, np.float32, np.float32)


def form_layer(rng: np.random.Generator, budget: int = 500) -> Layer:
    """A random layer with a result; a third of them in what single forms are sensitive to."""
    while True:
        layer = random_layer(rng, budget=budget)
        kind = rng.random()
        if kind < 0.15:  # the kernel is the stride: gemm applies
            layer = replace(layer, kernel=layer.strides, dilations=(1,) * layer.axes)
        elif kind < 0.3:  # stride and dilation share a factor: residues without taps
            both = tuple(int(v) for v in rng.choice([2, 4], layer.axes))
            layer = replace(layer, strides=both, dilations=(2,) * layer.axes)
        elif kind < 0.4:  # the same stride along all axes: DepthToSpace
            layer = replace(layer, strides=(int(rng.integers(2, 4)),) * layer.axes)
        if min(layer.output_size) >= 0 and layer.products <= 4 * budget:
            return layer


@dataclass
class Case:
    """One graph, its inputs and the outputs by the definition."""

    graph: Graph
    feeds: dict[str, Any]
    want: dict[str, Any]
    layers: list[Layer]


def single(rng: np.random.Generator) -> Case:
    """One layer; its filter and output_shape are constants, inputs or computed."""
    layer = form_layer(rng)
    dtype = rng.choice(TYPES)
    x, w = numbers(rng, layer.data_shape, dtype), numbers(rng, layer.filter_shape, dtype)
    free = rng.random() < 0.25
    declared = [None if free and a != 1 else d for a, d in enumerate(x.shape)]
    graph, feeds = build(
        layer,
        x,
        w,
        filter_input=bool(rng.random() < 0.3),
        shape_source=str(rng.choice(["const", "const", "input", "computed"])),
        data_shape=declared,
    )
    return Case(graph, feeds, {"y": expected(layer, x, w)}, [layer])


def shared(rng: np.random.Generator) -> Case:
    """Two unlike layers with one filter constant."""
    first = form_layer(rng, budget=250)
    rank = first.axes
    strides = tuple(int(v) for v in rng.integers(1, 4, rank))
    second = replace(first, strides=strides, pads_begin=(0,) * rank, pads_end=(0,) * rank)
    second = replace(second, output_shape=None, auto_pad="explicit")
    dtype = rng.choice(TYPES)
    x, w = numbers(rng, first.data_shape, dtype), numbers(rng, first.filter_shape, dtype)
    g = Graph()
    data, filter = parameter(g, x.shape, dtype, "x"), constant(g, w, "w")
    want = {}
    for name, layer in (("a", first), ("b", second)):
        more = []
        if layer.output_shape is not None:
            more = [constant(g, np.array(layer.output_shape, np.int64), f"{name}/size")]
        result(g, Value(g.add(layer.op, [data, filter, *more], name=name).id), f"y{name}")
        want[f"y{name}"] = expected(layer, x, w)
    return Case(g, {"x": x}, want, [first, second])


def check_case(rng: np.random.Generator, seen: Counter[str], *, prove: bool = False) -> int:
    """Run one random graph in all forms; return how many results were compared.

    With `prove` every lowered layer also gets a certificate, which is checked; `seen["proved"]` and
    `seen["for every size"]` count them.
    """
    case = shared(rng) if rng.random() < 0.15 else single(rng)
    graph = ird.infer(case.graph)
    runs = 0
    for form in ALL:
        target = str(rng.choice(TARGETS)) if form == AUTO else None
        low = lowered(graph, form, target, seen)
        got = ird.run(low.graph, case.feeds, form=None, fuse=False)
        for record in low.report:
            assert (record.reason is None) == (record.form == form) or form == AUTO
            seen[f"{form}: {record.form}"] += 1
        for name, want in case.want.items():
            assert got[name].dtype == want.dtype
            assert got[name].shape == want.shape, (form, target, case.layers)
            assert np.array_equal(got[name], want), (form, target, case.layers)
            runs += 1
        if prove:
            prove_layers(graph, low.graph, len(case.layers), seen)
    return runs


def lowered(graph: Graph, form: str, target: str | None, seen: Counter[str]) -> Lowered:
    """Lower a graph. If the target has no layer for it, that is said, and best effort writes it."""
    with suppress(ird.TargetError):
        low = ird.lower(graph, form, target)
        seen[f"{target}: met"] += target is not None
        return low
    with pytest.raises(ird.TargetError) as refusal:
        ird.lower(graph, form, target)
    assert {d.code for d in refusal.value.diagnostics if d.severity == "error"} == {"E421"}
    low = ird.lower(graph, form, target, best_effort=True)
    assert "W402" in {d.code for d in low.report.diagnostics}
    seen[f"{target}: refused"] += 1
    return low


def prove_layers(source: Graph, lowered: Graph, layers: int, seen: Counter[str]) -> None:
    """Make and check a certificate for each of the lowered layers."""
    made = ird.certify(source, lowered)
    report = ird.check_certificate(source, lowered, made)
    assert report.passed, str(report)
    assert len(made) == len(report.layers) == layers
    seen["proved"] += layers
    seen["for every size"] += sum((c.holds_for or "").startswith("every size") for c in made)
