"""Data with empty axes, known when lowering or only at run time: one formula for I = 0 too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.graph import Graph
from irdeconv.ops import core
from irdeconv.passes.forms import FORMS
from irdeconv.spec import Interval
from irdeconv.verify.proof.check import certify
from support.layers import EMPTY_DATA, Layer, build, expected


def empty(layer: Layer, open_sizes: bool) -> tuple[Any, Any, Graph, dict[str, Any]]:
    """Return data, filter, graph and feeds; with `open_sizes` only the channels are declared."""
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    shape = (None, layer.data_shape[1], *(None,) * layer.axes) if open_sizes else None
    return x, w, *build(layer, x, w, data_shape=shape)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("open_sizes", [True, False])
@pytest.mark.parametrize("layer", EMPTY_DATA)
def test_every_form_gives_zeros(layer: Layer, open_sizes: bool, fuse: bool) -> None:
    """S(I-1) + D(K-1) + 1 also holds for I = 0: nothing is scattered, the output is zero."""
    x, w, g, feeds = empty(layer, open_sizes)
    assert expected(layer, x, w).shape[2:] == layer.output_size
    for form in (None, *FORMS):
        y = ird.run(g, feeds, form=form, fuse=fuse)["y"]
        assert y.shape == expected(layer, x, w).shape, form
        assert not y.any(), form


@pytest.mark.parametrize(
    ("shape", "trailing"),
    [
        ((1, 1, 4, 4), False),
        ((1, 1, None, 4), True),
        ((1, 1, 4, None), False),  # of stride 1
        ((None, 1, Interval(1, None), 4), False),
        ((1, 1, Interval(0, 7), Interval(1, 2)), True),
        ((1, 1, 0, 4), True),
    ],
)
def test_only_axes_that_may_be_empty_get_trailing_zeros(shape: Any, trailing: bool) -> None:
    layer = Layer(1, (4, 4), None, 1, 1, (3, 3), (2, 1), (1, 1), (1, 0), (0, 0), (0, 0))
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    low = ird.lower(build(layer, x, w, data_shape=shape)[0]).graph
    (insertion,), (pad,) = low.nodes("ZeroInsertion"), low.nodes("Pad")
    assert insertion.op == core.ZeroInsertion((2, 1), trailing)
    begin, end = (low.spec(v).known.tolist() for v in low.inputs_of(pad.id)[1:])
    assert begin == [0, 0, 1, 2]
    assert end == [0, 0, 2 - trailing, 2]


@pytest.mark.parametrize("open_sizes", [True, False])
@pytest.mark.parametrize("layer", EMPTY_DATA)
def test_trailing_zeros_survive_writing(tmp_path: Path, layer: Layer, open_sizes: bool) -> None:
    x, w, g, feeds = empty(layer, open_sizes)
    low = ird.lower(g).graph
    ird.write(low, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    ours, theirs = ([n.op for n in graph.nodes("ZeroInsertion")] for graph in (low, again))
    assert ours == theirs
    spelled = tmp_path / "spelled.xml"
    spelled.write_text((tmp_path / "m.xml").read_text().replace("irdeconv_zero_insertion", "other"))
    standard = ird.read(spelled, tmp_path / "m.bin")
    assert not list(standard.nodes("ZeroInsertion"))
    for graph in (again, standard):
        y = ird.run(graph, feeds, form=None)["y"]
        np.testing.assert_array_equal(y, expected(layer, x, w), strict=True)


@pytest.mark.parametrize("size", [(5,), (4, 3), (2, 3, 2)])
def test_open_sizes_that_are_not_empty_stay_one_fused_step(size: tuple[int, ...]) -> None:
    n = len(size)
    layer = Layer(1, size, None, 2, 3, (3,) * n, (2,) * n, (1,) * n, (1,) * n, (0,) * n, (0,) * n)
    x, w, g, feeds = empty(layer, open_sizes=True)
    plan = ird.compile(g, threads=1)
    np.testing.assert_array_equal(plan.run(feeds)["y"], expected(layer, x, w), strict=True)
    [step] = plan.program([x]).steps
    assert [node.type for node in step.nodes] == ["ZeroInsertion", "Pad", "Convolution"]


def test_trailing_zeros_are_raised_and_proved() -> None:
    layer = Layer(1, (4, 3), None, 2, 3, (3, 3), (2, 2), (1, 1), (1, 0), (0, 0), (0, 1))
    g = ird.infer(empty(layer, open_sizes=True)[2])
    low = ird.lower(g).graph
    (insertion,) = low.nodes("ZeroInsertion")
    assert insertion.op == core.ZeroInsertion((2, 2), trailing=True)
    (certificate,) = certify(g, low)
    assert (certificate.holds_for or "").startswith("every size")
    raised = ird.raise_(low).graph
    assert not list(raised.nodes("ZeroInsertion"))
