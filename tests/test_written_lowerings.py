"""Files of lowered models: read back as they were, of old operations; earlier files, too."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ops.core import ZeroInsertion
from irdeconv.rewrite.forms import FORMS
from support.layers import Layer, build, expected, numbers
from support.loading import structure

OLD = Path(__file__).parent / "golden" / "old_spelling"
OLD_LAYER = Layer(2, (2, 3), None, 2, 3, (3, 2), (2, 3), (1, 1), (1, 0), (0, 1), (0, 0))
LAYERS = (
    Layer(1, (4,), None, 2, 3, (3,), (2,), (1,), (1,), (0,), (0,)),
    Layer(2, (3, 4), 2, 2, 1, (3, 2), (2, 3), (1, 2), (1, 0), (0, 1), (0, 1)),
    Layer(1, (3, 2), None, 2, 1, (2, 2), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0)),
    Layer(1, (2, 3, 4), 2, 1, 2, (2, 3, 1), (2, 1, 3), (1, 1, 1), (1, 1, 0), (0, 0, 0), (0,) * 3),
)
OLDEST = 8  # what a lowering adds is of this operation set or an earlier one


def made(layer: Layer, kind: str) -> Graph:
    """A layer whose sizes are fixed or open, whose filter or output shape is an input."""
    rng = np.random.default_rng(6)
    x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    free = (None, layer.data_shape[1], *(None,) * layer.axes)
    options = {
        "fixed": {},
        "open": {"data_shape": free},
        "filter": {"filter_input": True},
        "size": {"data_shape": free, "shape_source": "input"},
    }
    if kind == "size":
        layer = Layer(**{**vars(layer), "output_shape": layer.output_size})
    return build(layer, x, w, **options[kind])[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["fixed", "open", "filter", "size"])
def test_a_lowered_model_is_read_back(tmp_path: Path, form: str, kind: str) -> None:
    for layer in LAYERS:
        low = ird.lower(made(layer, kind), form).graph
        ird.write(low, tmp_path / "m.xml")
        again = ird.read(tmp_path / "m.xml")
        ours, theirs = ([n.op for n in g.nodes("ZeroInsertion")] for g in (low, again))
        assert ours == theirs
        ird.write(again, tmp_path / "again.xml")
        third = ird.read(tmp_path / "again.xml")
        assert structure(ird.infer(third)) == structure(ird.infer(again))
        if kind != "size":  # pads that are computed are written in other operations
            assert structure(ird.infer(again)) == structure(low)
            for suffix in ("xml", "bin"):
                first, second = ((tmp_path / f"{n}.{suffix}").read_bytes() for n in ("m", "again"))
                assert first == second


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["fixed", "open", "filter", "size"])
def test_no_operation_is_newer_than_needed(tmp_path: Path, form: str, kind: str) -> None:
    for layer in LAYERS:
        graph = made(layer, kind)
        ird.write(ird.lower(graph, form).graph, tmp_path / "m.xml")
        xml = (tmp_path / "m.xml").read_text("utf-8")
        versions = dict.fromkeys(re.findall(r'type="(\w+)" version="opset(\d+)"', xml))
        assert {int(number) for _, number in versions} <= set(range(1, OLDEST + 1)), versions
        assert {t for t, _ in versions if "BackpropData" in t} == set()
        assert ("Pad", "12") not in versions


def test_newer_operations_of_the_model_stay(tmp_path: Path) -> None:
    """A Pad of opset12 beside the deconvolution is not touched."""
    source = (OLD / "fixed.xml").read_text("utf-8")
    assert 'type="Pad" version="opset12"' in source
    graph = ird.read(OLD / "fixed.xml")
    ird.write(ird.lower(graph).graph, tmp_path / "m.xml")
    assert 'type="Pad" version="opset12"' in (tmp_path / "m.xml").read_text("utf-8")


@pytest.mark.parametrize("name", ["fixed", "open"])
def test_the_spelling_of_former_versions_is_recognised(tmp_path: Path, name: str) -> None:
    """Earlier versions wrote Unsqueeze, a Pad of opset12 and a Reshape."""
    graph = ird.read(OLD / f"{name}.xml")
    (insertion,) = graph.nodes("ZeroInsertion")
    assert insertion.op == ZeroInsertion((2, 3), trailing=True)
    assert not {"Unsqueeze", "Reshape"} & {n.type for n in graph.nodes()}
    rng = np.random.default_rng(6)
    x, w = (numbers(rng, s, np.float32) for s in (OLD_LAYER.data_shape, OLD_LAYER.filter_shape))
    found = ird.run(graph, {"x": x}, form=None)["y"]
    np.testing.assert_array_equal(found, expected(OLD_LAYER, x, w), strict=True)
    ird.write(graph, tmp_path / "m.xml")
    xml = (tmp_path / "m.xml").read_text("utf-8")
    assert 'type="Unsqueeze"' not in xml
    ours, again = (g.nodes("ZeroInsertion") for g in (graph, ird.read(tmp_path / "m.xml")))
    assert [n.op for n in ours] == [n.op for n in again]
    raised = ird.raise_(ird.read(OLD / f"{name}.xml"))
    assert len(list(raised.graph.nodes("ConvolutionBackpropData"))) == 1


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("i8 3 5", "i8 3 4"),  # the new axes
        ("i8 0 0 0 1 0 2", "i8 0 1 0 1 0 1"),  # how many zeros follow
        ("i8 0 0 0 1 0 2", "i8 0 0 0 2 0 1"),
        ("i8 2 2 4 9", "i8 2 2 9 4"),  # the target of the Reshape
    ],
)
def test_the_mark_of_former_versions_is_not_believed(tmp_path: Path, was: str, now: str) -> None:
    for file in OLD.glob("fixed.*"):
        shutil.copy(file, tmp_path)
    weights = tmp_path / "fixed.bin"
    old, new = (np.array(text.split()[1:], np.int64).tobytes() for text in (was, now))
    assert weights.read_bytes().count(old) == 1
    weights.write_bytes(weights.read_bytes().replace(old, new))
    assert not list(ird.read(tmp_path / "fixed.xml", weights).nodes("ZeroInsertion"))
