"""Data with empty axes, known when lowering or only at run time: one formula for I = 0 too."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Interval, bounds
from irdeconv.ops import core
from irdeconv.ops.movement import Pad1
from irdeconv.rewrite.forms import FORMS
from support.layers import EMPTY_DATA, Layer, build, expected, numbers
from support.rows import each_row
from support.runtime_truth import outputs


def empty(layer: Layer, open_sizes: bool) -> tuple[Any, Any, Graph, dict[str, Any]]:
    """Return data, filter, graph and feeds; with `open_sizes` only the channels are declared."""
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    shape = (None, layer.data_shape[1], *(None,) * layer.axes) if open_sizes else None
    return x, w, *build(layer, x, w, data_shape=shape)


@each_row("fuse", [True, False])
@each_row("open_sizes", [True, False])
@each_row("layer", EMPTY_DATA)
def test_every_form_gives_zeros(layer: Layer, open_sizes: bool, fuse: bool) -> None:
    """S(I-1) + D(K-1) + 1 also holds for I = 0: nothing is scattered, the output is zero."""
    x, w, g, feeds = empty(layer, open_sizes)
    assert expected(layer, x, w).shape[2:] == layer.output_size
    for form in (None, *FORMS):
        y = ird.run(g, feeds, form=form, fuse=fuse)["y"]
        assert y.shape == expected(layer, x, w).shape, form
        assert not y.any(), form


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 4, 4),
        (1, 1, None, 4),
        (1, 1, 4, None),
        (None, 1, Interval(1, None), 4),
        (1, 1, Interval(0, 7), Interval(1, 2)),
        (1, 1, 0, 4),
    ],
)
def test_zeros_follow_every_element(shape: Any) -> None:
    """S*I elements, also of none; the Pad behind them adds S-1 zeros less at the end."""
    layer = Layer(1, (4, 4), None, 1, 1, (3, 3), (2, 1), (1, 1), (1, 0), (0, 0), (0, 0))
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    low = ird.lower(build(layer, x, w, data_shape=shape)[0]).graph
    (insertion,), (pad,) = low.nodes("ZeroInsertion"), low.nodes("Pad")
    assert insertion.op == core.ZeroInsertion((2, 1), trailing=True)
    assert isinstance(pad.op, Pad1)
    begin, end = (low.spec(v).known.tolist() for v in low.inputs_of(pad.id)[1:])
    assert begin == [0, 0, 1, 2]
    assert end == [0, 0, 1, 2]


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
    (certificate,) = ird.certify(g, low)
    assert (certificate.holds_for or "").startswith("every size")
    assert not list(ird.raise_(low).graph.nodes("ZeroInsertion"))


# Kernel and stride are equal; one end of the output is cut off, at the other one zeros join. At
# I = 0 the first has no output, the others have nothing but the zeros that joined.
CUT_AND_PADDED = (
    Layer(1, (4,), None, 2, 3, (2,), (2,), (1,), (1,), (0,), (1,)),
    Layer(1, (4,), 2, 2, 1, (4,), (4,), (1,), (1,), (-3,), (0,)),
    Layer(2, (4,), None, 1, 2, (2,), (2,), (1,), (-5,), (3,), (0,)),
    Layer(1, (4, 3), None, 2, 3, (3, 2), (3, 2), (1, 1), (7, -2), (-9, 1), (0, 0)),
)


def sizes_of(layer: Layer) -> Iterator[tuple[Layer, Any, Any]]:
    """Yield a layer with 0 to 3 elements on its first axis, its data and its filter."""
    for n in range(4):
        rng = np.random.default_rng(31)
        sized = replace(layer, size=(n, *layer.size[1:]))
        w, x = (numbers(rng, s, np.float32) for s in (sized.filter_shape, sized.data_shape))
        yield sized, x, w


def cut_and_padded(layer: Layer, folder: Path) -> tuple[Path, Path]:
    """Write a layer with open sizes, and what gemm makes of it."""
    *_, (_, x, w) = sizes_of(layer)
    shape = (None, layer.data_shape[1], *(None,) * layer.axes)
    g = build(layer, x, w, data_shape=shape)[0]
    low = ird.lower(g, "gemm")
    assert [r.form for r in low.report] == ["gemm"]
    paths = folder / "a.xml", folder / "b.xml"
    ird.write(g, paths[0])
    ird.write(low.graph, paths[1])
    return paths


@pytest.mark.parametrize("layer", CUT_AND_PADDED)
def test_gemm_cuts_off_no_more_than_there_is(tmp_path: Path, layer: Layer) -> None:
    report = ird.check_certificate(*cut_and_padded(layer, tmp_path))
    assert report.passed, report
    lowered = ird.read(tmp_path / "b.xml")
    graph = ird.infer(lowered)
    (crop,) = graph.nodes("StridedSlice")
    rows = zip(*(graph.spec(v).known for v in graph.inputs_of(crop.id)[1:3]), strict=True)
    data, *_ = graph.input_specs(crop.id)
    for n, (begin, end) in zip(data.shape or (), rows, strict=True):
        assert bounds(n)[0] >= begin - end >= 0
    for sized, x, w in sizes_of(layer):
        found = ird.run(lowered, {"x": x}, form=None)["y"]
        np.testing.assert_array_equal(found, expected(sized, x, w), strict=True)


@pytest.mark.oracles
@pytest.mark.parametrize("layer", CUT_AND_PADDED)
def test_openvino_computes_what_gemm_cuts_and_pads(tmp_path: Path, layer: Layer) -> None:
    path = cut_and_padded(layer, tmp_path)[1]
    for sized, x, w in sizes_of(layer):
        (found,), wanted = outputs(path, [x]), expected(sized, x, w)
        assert found.shape == wanted.shape
        if x.size:  # of an empty tensor its Pad leaves the zeros unwritten
            np.testing.assert_array_equal(found, wanted)
