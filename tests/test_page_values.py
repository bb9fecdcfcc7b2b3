"""Values of a run on the graph page: statistics by hand, pictures, and that they stay small."""

from __future__ import annotations

import base64
import json
import tracemalloc
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const
from irdeconv.show.page_details import Budget, constant_detail
from irdeconv.show.page_values import (
    LEVELS,
    PICTURE_BYTES,
    ArrayStatistics,
    TensorValues,
    ValueCollector,
    array_statistics,
    encoded,
    picture,
)
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
    assert seen.to_dict()["shape"] == values.shape


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
    tensor = np.random.default_rng(2).standard_normal((1, 16, 64, 64))
    for node in g.nodes():
        seen.trace(node, (tensor,))
        kept = [t.picture.values for ts in seen.found.values() for t in ts if t.picture]
        assert sum(values.size for values in kept) <= PICTURE_BYTES
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
    found = TensorValues.of(np.array([0.0, 0.0], np.float32)).to_dict()
    assert (found["low"], found["high"], found["mean"], found["zeros"]) == (0.0, 0.0, 0.0, 2)
    assert not {"nan", "infinite"} & found.keys()


HARD = [
    np.array([-3.4e38, 3.4e38], np.float32),
    np.array([1e-45, 0], np.float32),
    np.array([5e-324, 0], np.float64),
    np.array([1e16, 1e16 + 2], np.float64),
    np.array([-np.finfo(np.float64).max, np.finfo(np.float64).max], np.float64),
    np.array([False, True]),
    np.array([-6e4, 6e4], np.float16),
    np.array([-1, 2], ml_dtypes.bfloat16),
    np.array([-8, 7], np.int8),  # of a packed constant
    np.array([0, 2**64 - 1], np.uint64),
]


@pytest.mark.parametrize("pair", HARD, ids=lambda p: f"{p.dtype}-{p[-1]}")
def test_histograms_of_any_range_and_type(pair: Any) -> None:
    """Of each number there are 20: those of a bin, and those of the last one with its end."""
    array = np.tile(pair, 20)
    seen = array_statistics(array, 24)
    low, high = sorted(float(v) for v in pair)
    assert (seen.low, seen.high, seen.bins) == (low, high, (20, *[0] * 22, 20))
    assert seen.mean == pytest.approx(low / 2 + high / 2, rel=1e-12)
    json.dumps(TensorValues.of(array.reshape(1, 2, 4, 5)).to_dict(), allow_nan=False)
    data = ArrayData.of(array, ELEMENT_TYPES["i4"] if array.dtype == np.int8 else None)
    told = constant_detail(Const(data.dtype, array.shape, data), Budget())
    if array.dtype != bool:  # the page has no histogram of these
        assert told is not None
        assert told["histogram"] == "z" + "0" * 22 + "z"
    json.dumps(told, allow_nan=False)


def test_integers_that_are_one_number_as_doubles_have_one_bin() -> None:
    seen = array_statistics(np.array([2**62, 2**62 + 1]), 24)
    assert (seen.low, seen.high, seen.bins) == (2.0**62, 2.0**62, (2,))


def test_what_has_no_numbers_has_no_statistics() -> None:
    for array in (np.array(["a", ""], object), np.array(["a"]), np.zeros((3, 0), np.float32)):
        assert array_statistics(array, 24) == ArrayStatistics()
    odd = array_statistics(np.array([np.nan, np.inf, -np.inf, np.nan, np.nan]), 24)
    assert odd == ArrayStatistics(nan=3, infinite=2)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_large_tensors_are_read_in_parts(order: str) -> None:
    """Statistics and pictures agree with those of the whole, in little memory."""
    x = np.random.default_rng(2).standard_normal((1, 3, 401, 503)).astype(np.float32)
    x[0, 1, 7, 9], x[0, 2, 0, 0] = np.nan, np.inf
    x = {"C": x, "F": np.asfortranarray(x), "strided": np.repeat(x, 2, 3)[..., ::2]}[order]
    tracemalloc.start()
    seen = TensorValues.of(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20  # the numbers as float64 are 4.8 MB
    finite = x[np.isfinite(x)].astype(np.float64)
    assert (seen.low, seen.high) == (finite.min(), finite.max())
    assert seen.mean == pytest.approx(finite.mean(), rel=1e-9)
    assert (seen.nan, seen.infinite, sum(seen.bins)) == (1, 1, x.size - 2)
    assert list(seen.bins) == np.histogram(finite, 32)[0].tolist()
    assert seen.picture is not None
    _, height, width = seen.picture.values.shape
    rows, columns = (np.arange(n + 1) * s // n for n, s in ((height, 401), (width, 503)))
    means = [
        [x[0, 0, a:b, c:d].mean(dtype=np.float64) for c, d in pairwise(columns)]
        for a, b in pairwise(rows)
    ]
    assert np.allclose(seen.picture.values[0], means)
    assert np.argwhere(np.isnan(seen.picture.values)).tolist() == [
        [1, *(int(np.searchsorted(e, n, "right")) - 1 for e, n in ((rows, 7), (columns, 9)))],
        [2, 0, 0],
    ]
