"""How far infinities and NaNs spread: predicted against measured, form by form."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.form_names import CONDITIONS
from irdeconv.ir.geometry import IntVector
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.rewrite import nonfinite
from irdeconv.rewrite.builder import GraphBuilder, replace_node
from irdeconv.rewrite.emit import pad_spatial
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.lower_deconv import canonicalize
from irdeconv.rewrite.nonfinite import DEFINITION, REACHES, footprint
from irdeconv.rewrite.site import DeconvolutionSite, site_of
from irdeconv.rewrite.targets import Target
from support.forms_grid import form_layer
from support.layers import Layer, build, constant, numbers, result
from targets import lacking

pytestmark = pytest.mark.thorough

# The example: a 3x3 filter of stride 2 on a 4x4 map, one bad tap.
SMALL = Layer(1, (4, 4), None, 1, 1, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))


def site(graph: Graph) -> DeconvolutionSite:
    """The numbers of the one deconvolution of a graph."""
    graph = ird.infer(graph)
    (node,) = graph.find("deconv")
    found = site_of(graph, canonicalize(graph, node))
    assert found is not None
    return found


def bad_values(rng: np.random.Generator, array: Any, count: int) -> Any:
    """Put infinities and NaNs at `count` random places; return where."""
    flat = array.reshape(-1)
    places = rng.choice(flat.size, min(count, flat.size), replace=False)
    flat[places] = rng.choice([np.inf, -np.inf, np.nan], places.size)
    return ~np.isfinite(array)


def with_pads_apart(graph: Graph) -> Graph:
    """Return a lowered graph whose convolutions multiply their pads as well, as runtimes may."""

    def build(op: Any, b: GraphBuilder, x: Value, w: Value) -> Value:
        zero = (0,) * len(op.strides)
        x = pad_spatial(b, x, IntVector(op.pads_begin), IntVector(op.pads_end))
        return b.add(replace(op, pads_begin=zero, pads_end=zero), x, w)

    out = graph.copy()
    for node in [n for n in out.nodes() if isinstance(n.op, ConvolutionBase)]:
        if any(node.op.pads_begin + node.op.pads_end):  # type: ignore[attr-defined]
            replace_node(out, node, build)
    return out


def measure(graph: Graph, feeds: Any, form: str) -> Any:
    """What is not finite of the lowered graph's output, or of the definition's.

    Pads of convolutions count as multiplied; a kernel that skips them spoils no other outputs.
    """
    if form == DEFINITION:
        return ~np.isfinite(ird.run(graph, feeds, form=None, exact=True)["y"])
    low = ird.lower(graph, form)
    assert [r.form for r in low.report] == [form]
    every, ours = (
        ~np.isfinite(ird.run(g, feeds, form=None, fuse=False)["y"])
        for g in (with_pads_apart(low.graph), low.graph)
    )
    assert not (ours & ~every).any()
    return every


def applicable(graph: Graph) -> list[str]:
    """The definition and the forms that take the layer; one without a condition must."""
    taken = {f: [r.form for r in ird.lower(graph, f).report] == [f] for f in FORMS}
    assert all(taken[name] or CONDITIONS[name] for name in FORMS)
    return [DEFINITION, *(f for f in FORMS if taken[f])]


@pytest.mark.parametrize("seed", range(60))
def test_bad_weights_spread_as_predicted(seed: int) -> None:
    rng = np.random.default_rng([55, seed])
    layer = form_layer(rng, budget=300)
    x = numbers(rng, layer.data_shape, np.float32)
    x[rng.random(x.shape) < 0.3] = 0  # zeros in the data are as bad as inserted ones
    w = numbers(rng, layer.filter_shape, np.float32)
    bad = bad_values(rng, w, int(rng.integers(1, 3)))
    graph, feeds = build(layer, x, w)
    for form in applicable(graph):
        want = footprint(REACHES[form], site(graph), bad if layer.groups else bad[None])
        got = measure(graph, feeds, form)
        assert np.array_equal(got, np.broadcast_to(want, got.shape)), (form, layer)


def one_bad_tap(value: float = np.nan) -> tuple[Graph, dict[str, Any]]:
    w = np.ones(SMALL.filter_shape, np.float32)
    w[0, 0, 1, 1] = value
    return build(SMALL, np.ones(SMALL.data_shape, np.float32), w)


def test_one_bad_tap_of_a_3x3() -> None:
    """By the definition 16 of 81 outputs, in zero-insertion all of them."""
    graph, feeds = one_bad_tap()
    low = ird.lower(graph)
    (record,) = low.report
    assert record.spread is not None
    assert record.spread.affected[DEFINITION] == record.spread.affected["phases"] == 16
    assert record.spread.affected["zero-insertion"] == 81
    assert int(measure(graph, feeds, "zero-insertion").sum()) == 81
    (warning,) = low.report.diagnostics
    assert (warning.code, warning.severity) == ("W401", "warning")
    assert "1 of 9 filter values are not finite" in warning.message
    assert "zero-insertion spoils 81 of 81 outputs, the definition 16" in warning.message
    assert "16 as phases" in warning.message
    assert record.to_dict()["spread"]["affected"]["phases"] == 16


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("target", ["generic", lacking("DepthToSpace")], ids=["generic", "lacking"])
def test_auto_avoids_what_spreads(value: float, target: str | Target) -> None:
    graph, feeds = one_bad_tap(value)
    low = ird.lower(graph, "auto", target)
    (record,) = low.report
    assert record.form in ("phases", "stacked")
    refused = {c.form: c.refused for c in record.costs}
    assert refused["zero-insertion"] == "spreads non-finite constants to 81 outputs instead of 16"
    assert int((~np.isfinite(ird.run(low.graph, feeds, form=None, fuse=False)["y"])).sum()) == 16


def test_auto_takes_what_spreads_where_nothing_else_is_left() -> None:
    target = lacking("DepthToSpace", "Transpose", "Concat")  # nothing interleaves
    (record,) = ird.lower(one_bad_tap()[0], "auto", target).report
    assert record.form == "zero-insertion"
    refused = {c.form: c.refused for c in record.costs if not c.chosen}
    for form in ("phases", "stacked"):
        assert "is not in the target's list of operations" in refused[form]


def test_a_finite_filter_gives_no_report() -> None:
    graph, _ = build(
        SMALL, np.ones(SMALL.data_shape, np.float32), np.ones(SMALL.filter_shape, np.float32)
    )
    for form in (*FORMS, "auto"):
        low = ird.lower(graph, form)
        assert [r.spread for r in low.report] == [None]
        assert low.report.diagnostics == ()


def test_bad_bias_spoils_its_channel_in_every_form() -> None:
    layer = replace(SMALL, m=3)
    x, w = np.ones(layer.data_shape, np.float32), np.ones(layer.filter_shape, np.float32)
    graph, feeds = build(layer, x, w)
    bias = constant(graph, np.array([0, np.inf, 1], np.float32).reshape(1, 3, 1, 1), "bias")
    (node,) = graph.find("deconv")
    (sink,) = graph.results
    node.tensor_names = ()
    graph.remove(sink.id)
    result(
        graph, Value(graph.add(REGISTRY["Add", "opset1"](), [Value(node.id), bias], name="b").id)
    )
    low = ird.lower(graph, "phases")
    (record,) = low.report
    assert record.spread is not None
    assert (record.spread.filter_bad, record.spread.bias_bad) == (0, 1)
    assert set(record.spread.affected.values()) == {81}
    assert "1 of 3 bias values are not finite" in low.report.diagnostics[0].message
    assert int((~np.isfinite(ird.run(low.graph, feeds, form=None, fuse=False)["y"])).sum()) == 81


def test_compressed_filters_and_unknown_sizes() -> None:
    w = np.ones(SMALL.filter_shape, np.float16)
    w[0, 0, 0, 0] = np.inf
    x = np.ones(SMALL.data_shape, np.float16)
    graph, _ = build(SMALL, x, w, data_shape=(None, 1, None, None))
    low = ird.lower(graph, "auto")
    (record,) = low.report
    assert record.spread is not None
    assert record.spread.assumed
    assert record.spread.affected[DEFINITION] == 32 * 32
    assert "stand in" in low.report.diagnostics[0].message


def sites() -> Iterator[DeconvolutionSite]:
    r = random.Random(5)
    for _ in range(60):
        kernel, stride, dilation = r.randint(1, 4), r.randint(1, 4), r.randint(1, 3)
        begin, end = r.randint(-3, 3), r.randint(-3, 3)
        yield DeconvolutionSite(
            batch=1, groups=1, c=1, m=2, size=(r.randint(1, 9), 5), kernel=(kernel, 2),
            strides=(stride, 2), dilations=(dilation, 1), begin=(begin, 0), end=(end, 1),
            itemsize=4, constant_filter=True,
        )  # fmt: skip


def test_outputs_that_are_alike_are_counted_once() -> None:
    fewer = 0
    for n, one in enumerate(sites()):
        filter = np.random.default_rng(n).random(one.filter_shape) < 0.3
        fewer += one.class_number(0) < one.output[0]
        for axis in range(2):
            places, counts = one.classes(axis)
            assert (len(places), counts.sum()) == (one.class_number(axis), one.output[axis])
        for reach in REACHES.values():
            assert nonfinite._count(reach, one, filter, None) == footprint(reach, one, filter).sum()
        wanted = sum(
            0 <= s * one.strides[0] + k * one.dilations[0] - one.begin[0] < one.output[0]
            for s in range(one.size[0])
            for k in range(one.kernel[0])
        )
        assert one._pairs(0) == wanted
    assert fewer > 10
