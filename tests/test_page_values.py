"""Values of a run on the graph page: statistics by hand, pictures, and that they stay small."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.page.pictures import LEVELS, encoded, picture
from irdeconv.page.values import PICTURE_BYTES, TensorValues, ValueCollector
from support.layers import parameter, result


def test_statistics_by_hand() -> None:
    seen = TensorValues.of(np.array([0.0, 1.0, 3.0, np.nan, np.inf, -np.inf], np.float32))
    assert (seen.low, seen.high, seen.mean) == (0.0, 3.0, pytest.approx(4 / 3))
    assert (seen.nan, seen.infinite, seen.zeros, seen.non_finite) == (1, 2, 1, 3)
    assert sum(seen.bins) == 3
    # 0 is in the first bin, 1 in that from 31/32 on, 3 in the last one.
    assert [i for i, n in enumerate(seen.bins) if n] == [0, 10, 31]


def test_histograms_agree_with_numpy() -> None:
    x = np.random.default_rng(5).standard_normal(1000)
    seen = TensorValues.of(x)
    assert list(seen.bins) == np.histogram(x, 32)[0].tolist()


@pytest.mark.parametrize(
    "values",
    [np.full(5, 2.0), np.array([-1.7e308, 1.7e308]), np.zeros((2, 0)), np.array(["a"], object)],
)
def test_odd_tensors(values: Any) -> None:
    seen = TensorValues.of(values)
    assert sum(seen.bins) == (values.size if values.dtype != object else 0)
    assert seen.to_dict(LEVELS[0])["shape"] == values.shape


def test_nothing_finite() -> None:
    seen = TensorValues.of(np.full((1, 2, 4, 4), np.nan, np.float16))
    assert (seen.low, seen.bins, seen.nan) == (None, (), 32)
    assert seen.picture is not None
    assert set(encoded(seen.picture)) == {0}


def test_pixels_are_means_of_what_they_cover() -> None:
    x = np.arange(128.0 * 128).reshape(1, 1, 128, 128)
    shown = picture(x)
    assert shown is not None
    assert shown.values.shape == (1, 64, 64)
    assert np.allclose(shown.values[0], x[0, 0].reshape(64, 2, 64, 2).mean((1, 3)))
    pixels = encoded(shown)
    assert (pixels[0], pixels[-1]) == (1, 255)


def test_sizes_that_do_not_divide_cover_every_element_once() -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 1, 1001))
    shown = picture(x)
    assert shown is not None
    edges = np.arange(257) * 1001 // 256
    assert np.allclose(
        shown.values.sum(where=True),
        sum(x[0, 0, 0, a:b].mean() for a, b in pairwise(edges)),
    )


def test_a_pixel_is_marked_where_anything_in_it_is_not_finite() -> None:
    x = np.ones((1, 1, 128, 128))
    x[0, 0, 5, 7] = np.inf
    shown = picture(x)
    assert shown is not None
    pixels = np.frombuffer(encoded(shown), np.uint8).reshape(64, 64)
    assert np.argwhere(pixels == 0).tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("shape", "kind", "axes", "size"),
    [
        ((1, 3, 8, 10), "colour", "N,C,H,W", (3, 8, 10)),
        ((1, 8, 10, 3), "colour", "N,H,W,C", (3, 8, 10)),
        ((2, 40, 6, 5), "maps", "N,C,H,W", (16, 6, 5)),
        ((1, 2, 5, 6, 7), "maps", "N,C,D,H,W at D = 2", (2, 6, 7)),
        ((1, 1000, 1, 1), "lines", "N,C,1,1", (1, 1, 256)),
        ((1, 2, 500), "lines", "N,C,L", (2, 1, 256)),
        ((2, 7), "lines", "N,L", (2, 1, 7)),
        ((9,), "lines", "L", (1, 1, 9)),
    ],
)
def test_how_tensors_are_read(
    shape: tuple[int, ...], kind: str, axes: str, size: tuple[int, ...]
) -> None:
    shown = picture(np.random.default_rng(0).standard_normal(shape), colour=True)
    assert shown is not None
    assert (shown.kind, shown.axes, shown.values.shape) == (kind, axes, size)


def test_scalars_have_no_picture() -> None:
    assert picture(np.ones(())) is None


def test_many_pictures_stay_within_the_limit() -> None:
    g = Graph()
    y = parameter(g, (1, 16, 64, 64), np.float32, "x")
    for at in range(60):
        y = Value(g.add(ReLU(), [y], name=f"r{at}").id)
    result(g, y)
    seen = ValueCollector(ird.infer(g))
    tensor = TensorValues.of(np.random.default_rng(2).standard_normal((1, 16, 64, 64)))
    seen.found = {node.id: (tensor,) for node in g.nodes()}
    shown = [t["picture"] for ts in seen.to_dict("graph").values() for t in ts]
    assert 0 < sum(len(base64.b64decode(p["data"])) for p in shown) <= PICTURE_BYTES
    assert seen.level != LEVELS[0]


def test_a_run_knows_inputs_layers_and_what_is_not_finite() -> None:
    x = np.ones((1, 1, 3, 3), np.float32)
    x[0, 0, 1, 1] = np.nan
    page = ird.graph_page("ir_samples/openvino/deconv_3x3_to_5x5.xml", inputs=x)
    names = {n["id"]: n["type"] for n in page.graphs[0].nodes}
    seen = {names[int(k.rpartition("/")[2])]: v[0] for k, v in page.values.items()}
    assert seen.keys() == {"Parameter", "ConvolutionBackpropData", "Result"}
    assert seen["Parameter"]["nan"] == 1
    assert seen["ConvolutionBackpropData"]["nan"] == 9
    (overlay,) = page.overlays
    assert page.overlays[0].first == next(iter(overlay.marks))
    assert set(overlay.marks.values()) == {"1 value not finite", "9 values not finite"}


def test_a_run_of_a_lowered_model_has_forms_and_certificates() -> None:
    g = ird.infer(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    low = ird.lower(g, "stacked")
    x = np.ones((1, 1, 3, 3), np.float32)
    page = ird.graph_page(g, low, ird.certify(g, low), inputs=x)
    (change,) = page.changes
    assert change.form == "stacked"
    assert change.certificate is not None
    assert page.values


def test_an_extreme_of_zero_is_kept_and_counts_of_zero_are_not() -> None:
    found = TensorValues.of(np.array([0.0, 0.0], np.float32)).to_dict(LEVELS[0])
    assert (found["low"], found["high"], found["mean"], found["zeros"]) == (0.0, 0.0, 0.0, 2)
    assert not {"nan", "infinite"} & found.keys()
