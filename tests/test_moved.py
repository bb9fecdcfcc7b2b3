"""Constants that are moved without being copied: what they hold, what is written, in how little."""

from __future__ import annotations

import hashlib
import os
import pickle
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irdeconv as ird
from irdeconv.base.errors import InputError
from irdeconv.formats.xml_writer import Blobs
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.lazy_filter import NO_ELEMENT, MovedData
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Const
from irdeconv.ops.convert import Convert
from irdeconv.ops.elementwise import Multiply
from irdeconv.rewrite import compressed_filters as moving
from support.layers import Layer, constant, parameter, result

FORMS = ["zero-insertion", "phases", "stacked", "gemm"]


def split(draw: Any, n: int) -> list[int]:
    """Return divisors whose product is n."""
    out = [draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))]
    return [*out, n // out[0]]


def turn(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    order = draw(st.permutations(range(data.ndim)))
    return data.transpose(order), moved.transposed(order)


def take(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    axis = draw(st.integers(0, data.ndim - 1))
    index = np.array(draw(st.lists(st.integers(-1, data.shape[axis] - 1), min_size=1, max_size=5)))
    zeros = np.zeros([1 if a == axis else n for a, n in enumerate(data.shape)], data.dtype)
    assert NO_ELEMENT == -1
    return np.concatenate([data, zeros], axis).take(index, axis), moved.taken(axis, index)


def reshape(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    shape: list[int] = []
    for n in data.shape:
        shape += split(draw, n) if draw(st.booleans()) else [n]
    if len(shape) > 1 and draw(st.booleans()):
        at = draw(st.integers(0, len(shape) - 2))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    return data.reshape(shape), moved.reshaped(shape)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_movements_are_those_of_numpy(data: Any) -> None:
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    values = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = MovedData.of(ArrayData.of(values), f32, shape)
    for step in draw(st.lists(st.sampled_from([turn, take, reshape]), max_size=6)):
        want, next = step(draw, values, moved)
        if next is not None:  # else it would be copied
            values, moved = want, next
    assert moved.shape == values.shape
    np.testing.assert_array_equal(moved.array(), values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("irdeconv.ir.lazy_filter.PART_BYTES", draw(st.integers(4, 200)))
        assert b"".join(moved.pieces()) == values.tobytes()


@pytest.mark.parametrize("rows", [(6,), (1, 6)])
def test_what_is_broadcast_is_moved_narrow(rows: tuple[int, ...]) -> None:
    values = np.arange(6, dtype=np.float32).reshape(rows)
    moved = MovedData.broadcast(values, f32, (4, 6)).transposed((1, 0)).reshaped((3, 2, 4))
    assert moved is not None
    np.testing.assert_array_equal(moved.narrowed(), values.reshape(3, 2, 1))


def stored_layer(folder: Path, layer: Layer, kind: str) -> Path:
    """Write a deconvolution whose filter is f32, or f16 or i8 behind a Convert and a scale."""
    rng = np.random.default_rng(3)
    g = Graph()
    x = parameter(g, layer.data_shape, np.float32, "x")
    container = {"f32": np.float32, "f16": np.float16, "i8": np.int8}[kind]
    w = constant(g, rng.integers(-9, 9, layer.filter_shape).astype(container), "w")
    if kind != "f32":
        w = Value(g.add(Convert(f32), [w], name="w/f32").id)
    if kind == "i8":
        scaled = [1 if a in (0, layer.axes) else n for a, n in enumerate(layer.filter_shape)]
        scale = constant(g, np.exp2(rng.integers(-3, 3, scaled)).astype(np.float32), "s")
        w = Value(g.add(Multiply(), [w, scale], name="w/scaled").id)
    result(g, Value(g.add(layer.op, [x, w], name="up").id), "y")
    ird.write(ird.infer(g), folder / f"{kind}.xml")
    return folder / f"{kind}.xml"


WINDOW: dict[str, Any] = {"pads_begin": (1, 0), "pads_end": (0, 1), "output_padding": (0, 0)}
LAYERS = [
    Layer(1, (3, 4), None, 3, 2, (3, 4), (2, 3), (1, 2), **WINDOW),
    Layer(2, (4, 3), 2, 3, 5, (4, 4), (2, 2), (1, 1), **WINDOW),
    Layer(1, (3, 4), 3, 2, 5, (2, 3), (2, 3), (1, 1), **WINDOW),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
@pytest.mark.parametrize("layer", LAYERS)
def test_moved_filters_are_written_as_copied_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Layer, kind: str, form: str
) -> None:
    path = stored_layer(tmp_path, layer, kind)
    copied = ird.lower(path, form).graph
    monkeypatch.setattr(moving, "SMALL_BYTES", -1)
    moved = ird.lower(path, form).graph
    constants = [n.op for n in moved.nodes("Const")]
    assert any(isinstance(c, Const) and isinstance(c.data, MovedData) for c in constants)
    for name, graph in (("copied", copied), ("moved", moved)):
        ird.write(graph, tmp_path / f"{name}.xml")
    for suffix in (".xml", ".bin"):
        assert (tmp_path / f"moved{suffix}").read_bytes() == (
            tmp_path / f"copied{suffix}"
        ).read_bytes()


LARGE = Layer(1, (2, 2), None, 1024, 512, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
SAME = Layer(1, (2, 2), None, 1024, 512, (4, 4), (4, 4), (1, 1), (0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("form", [*FORMS, "auto"])
@pytest.mark.parametrize("kind", ["f32", "i8"])
def test_lowering_and_writing_need_a_part_of_the_weights(
    tmp_path: Path, kind: str, form: str
) -> None:
    path = stored_layer(tmp_path, SAME if form == "gemm" else LARGE, kind)
    ird.write(ird.lower(path, form).graph, tmp_path / "first.xml")  # imports
    tracemalloc.start()
    try:
        ird.write(ird.lower(path, form).graph, tmp_path / "low.xml")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "low.bin").stat().st_size >= path.with_suffix(".bin").stat().st_size
    assert peak < 28 << 20  # the filter has 32 MiB as f32, what stacked makes of it 72


def test_a_file_cut_off_after_lowering_is_told(tmp_path: Path) -> None:
    path = stored_layer(tmp_path, SAME, "f32")
    graph = ird.lower(path, "gemm").graph
    os.truncate(path.with_suffix(".bin"), 5000)
    with pytest.raises(InputError, match="was changed while it was in use"):
        ird.write(graph, tmp_path / "low.xml")
    assert not (tmp_path / "low.xml").exists()


def test_a_moved_constant_is_pickled_by_what_it_is_made_of() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = MovedData.of(ArrayData.of(values), f32, (3, 4)).transposed((1, 0))
    np.testing.assert_array_equal(moved.array(), values.T)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moved)).array(), values.T)


def test_blobs_that_are_alike_are_stored_once() -> None:
    file = BytesIO()
    blobs = Blobs(file)
    pieces = [b"abc", b"de", b"f"]
    places = [blobs.add(p) for p in (pieces, [b"x"], [b"abcdef"], pieces, [b"ab", b"cdef"], [])]
    assert places == [(0, 6), (6, 1), (0, 6), (0, 6), (0, 6), (7, 1)]
    assert file.getvalue() == b"abcdefx\0"
    assert blobs.hash.hexdigest() == hashlib.sha256(b"abcdefx\0").hexdigest()
