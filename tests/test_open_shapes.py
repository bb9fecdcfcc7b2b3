"""Models of which little is declared: inference never says something wrong, and they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval, Spec, bounds
from irdeconv.ops.convolution import Convolution
from irdeconv.rewrite.forms import FORMS
from support.layers import constant, parameter, result
from support.open_shapes import LOOSER, contradictions, holds, opened, specs, undeclared

SAMPLES = sorted((Path(__file__).resolve().parent.parent / "ir_samples/openvino").glob("*.xml"))
each_sample = pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)


@each_sample
def test_without_declarations_the_declared_shapes_are_inferred(path: Path) -> None:
    graph = ird.read(path)
    found = specs(undeclared(graph))
    for node in graph.nodes():
        for port, want in enumerate(node.declared):
            got = found[node.name, port]
            assert got.dtype == want.dtype
            assert holds(want.shape, got.shape), node.name


@pytest.mark.parametrize("what", LOOSER)
@each_sample
def test_open_inputs_never_contradict_exact_ones(path: Path, what: str) -> None:
    graph = ird.read(path)
    assert list(contradictions(undeclared(graph), opened(graph, what))) == []


def feeds(graph: Graph, batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    return [
        rng.standard_normal((batch, *(n.spec().shape[1:]))).astype(n.spec().dtype.container)
        for n in graph.parameters
    ]


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem != "dynamic"], ids=lambda p: p.stem)
def test_open_models_compute_what_exact_ones_do(path: Path) -> None:
    graph = ird.read(path)
    data = feeds(graph, graph.parameters[0].spec().shape[0])
    want = ird.run(graph, data, None)
    for what in ("dims", "rank"):
        got = ird.run(opened(graph, what), data, None)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)


def make(g: Graph, kind: str, version: str, inputs: list[Value], **fields: Any) -> Value:
    return Value(g.add(REGISTRY[kind, version](**fields), inputs, name=kind).id)


def test_shapes_that_an_evaluator_would_not_notice_are_refused() -> None:
    """hidden_size is 3, the matrices have 2: every product of matrices fits."""
    g = Graph()
    names = {"x": (2, 4), "h": (2, 2), "w": (2, 4), "r": (2, 2), "b": (2,)}
    given = [parameter(g, (None,) * len(s), np.float32, n) for n, s in names.items()]
    result(g, make(g, "RNNCell", "opset3", given, hidden_size=3))
    data = [np.ones(s, np.float32) for s in names.values()]
    with pytest.raises(ird.ExecutionError, match=r'RNNCell "RNNCell".* has size 2; 3 is needed'):
        ird.run(g, data, None)


OPEN = """graph 1 "open" {
  %0 "x" = opset1.Parameter() {shape = [?, 2, SIZE], element_type = f32}
  %1 "w" = opset1.Parameter() {shape = [2, 3, 2], element_type = f32}
  %2 "up" = opset1.ConvolutionBackpropData(%0, %1)
    {strides = [2], pads_begin = [1], pads_end = [1], dilations = [1]}
  %3 "y" = opset1.Result(%2)
}"""


@pytest.mark.parametrize("size", ["?", "..3", "1..2"])
@pytest.mark.parametrize("form", FORMS)
def test_what_a_lowering_convolves_to_nothing_is_inferred(form: str, size: str) -> None:
    """One element gives 2(I - 1) + 2 - 2 = 0: inference may not say that there is an output."""
    graph = ird.infer(ird.parse(OPEN.replace("SIZE", size)))
    lowered = ird.infer(ird.lower(graph, form).graph)
    wrong = []

    def held(node: Node, outputs: Sequence[np.ndarray]) -> None:
        for port, array in enumerate(outputs):
            if not holds(node.spec(port).shape, array.shape):
                wrong.append(f"{node.name}: {node.spec(port)}, ran {array.shape}")

    for length in (1, 2):
        data = [np.ones((1, 2, length), np.float32), np.ones((2, 3, 2), np.float32)]
        (out,) = ird.run(lowered, data, None, trace=held).values()
        assert out.shape == (1, 3, 2 * length - 2)
    assert wrong == []


@pytest.mark.parametrize(("size", "want"), [((0, 3), (0, 1)), ((2, 5), (0, 3)), ((3, 5), (1, 3))])
def test_a_convolution_of_a_lowering_may_have_no_output(
    size: tuple[int, int], want: tuple[int, int]
) -> None:
    lists = (1,), (0,), (0,), (1,)
    data, filter = (Spec(ELEMENT_TYPES["f32"], s) for s in ((1, 2, Interval(*size)), (3, 2, 3)))
    made = Convolution(*lists, unrestricted=True).infer(data, filter).shape
    plain = Convolution(*lists).infer(data, filter).shape
    assert made is not None
    assert plain is not None
    assert bounds(made[2]) == want
    assert bounds(plain[2]) == (1, want[1])


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_sizes_that_depend_on_values(kept: int) -> None:
    """The places that are not 0, gathered: as many as there are, whatever stands behind them."""
    g = Graph()
    x = parameter(g, (None,), np.float32, "x")
    places = make(g, "NonZero", "opset3", [x])
    flat = make(g, "Squeeze", "opset1", [places, constant(g, np.array([0]), "first")])
    found = make(g, "Gather", "opset8", [x, flat, constant(g, np.array(0), "axis")])
    result(g, make(g, "Multiply", "opset1", [found, constant(g, np.float32([2]), "two")]))
    (spec,) = (n.specs[0] for n in ird.infer(g).results)
    assert spec.shape == (Interval(0, None),)
    data = np.array([0, 5, 0, 7, 9][: 1 + kept + (kept > 1)], np.float32)
    (out,) = ird.run(g, [data], None).values()
    np.testing.assert_array_equal(out, 2 * data[data != 0])


def test_a_plan_keeps_a_program_for_each_set_of_shapes() -> None:
    graph = opened(ird.read(SAMPLES[0]), "batch")
    plan = ird.compile(graph, None, threads=1)
    first = plan.program(feeds(ird.read(SAMPLES[0]), 1))
    other = plan.program(feeds(ird.read(SAMPLES[0]), 2))
    assert other is not first
    assert plan.program(feeds(ird.read(SAMPLES[0]), 1)) is first
