"""OpenVINO computes the same numbers, natively and from the IR that irdeconv writes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.rewrite.forms import FORMS
from support.ir_text import write_ir
from support.layers import EMPTY_DATA, EMPTY_OUTPUT, Layer, build, expected, numbers, random_layer
from support.rows import each_row, parts
from support.runtime_truth import compiled, core, lowered_defect, outputs, outputs_of_each

ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

CHUNKS, CASES = 16, 22


def native_defect(layer: Layer) -> str | None:
    """Why the plugin cannot compute a deconvolution, or None."""
    if layer.groups == 1 and (layer.c, layer.m) != (1, 1):
        return "GroupConvolutionBackpropData with g = 1 does not compile unless C = M = 1"
    pointwise = set(layer.kernel) == set(layer.strides) == {1} and layer.output_size == layer.size
    if pointwise and any(begin for begin, _ in layer.window()):
        return "a kernel of size 1 at stride 1 ignores pads where the output has the data's size"
    return None


def crops_beyond(layer: Layer) -> bool:
    """Whether the lowered Pad would crop more than its tensor has, and so is written as two."""
    for axis, (begin, size) in enumerate(layer.window()):
        spread = layer.strides[axis] * (layer.size[axis] - 1) + 1
        reach = layer.dilations[axis] * (layer.kernel[axis] - 1)
        end = layer.full(axis) - begin - size
        if begin - reach > spread or end - reach > spread:
            return True
    return False


def peer_layer(rng: np.random.Generator) -> Layer:
    """A random layer that the plugin accepts: no negative pads, no empty output."""
    while True:
        layer = random_layer(rng)
        if native_defect(layer) and rng.random() < 0.9:
            layer = replace(layer, groups=None)
        layer = replace(
            layer,
            pads_begin=tuple(map(abs, layer.pads_begin)),
            pads_end=tuple(map(abs, layer.pads_end)),
            semantics="runtime",
        )
        if min(layer.output_size) > 0:
            return layer


Written = tuple[Path, Any, Any, Layer]  # a model, its input and output


def written(rng: np.random.Generator, folder: Path) -> list[Written]:
    """Write a layer and its lowered form; return those that the plugin computes rightly."""
    folder.mkdir()
    layer = peer_layer(rng)
    x = numbers(rng, layer.data_shape, np.float32)
    w = numbers(rng, layer.filter_shape, np.float32)
    source, target = folder / "source.xml", folder / "lowered.xml"
    write_ir(source, layer, w)
    graph = ird.read(source)
    direct = ird.run(graph, {"x": x}, form=None, fuse=False)["y"]
    assert np.array_equal(direct, expected(layer, x, w)), layer
    check_round_trip(graph, folder)
    low = ird.lower(graph).graph
    assert np.array_equal(ird.run(low, {"x": x}, form=None, fuse=False)["y"], direct), layer

    ird.write(low, target)
    assert "BackpropData" not in target.read_text("utf-8")
    again = ird.read(target)
    if not crops_beyond(layer):
        assert summary(again) == summary(low)
    assert np.array_equal(ird.run(again, {"x": x}, form=None, fuse=False)["y"], direct), layer
    defects = (source, native_defect(layer)), (target, lowered_defect(layer))
    return [(path, x, direct, layer) for path, defect in defects if defect is None]


def check_round_trip(graph: ird.Graph, folder: Path) -> None:
    """Writing and reading gives the same graph, ids and places included."""
    ird.write(graph, folder / "copy.xml")
    again = ird.read(folder / "copy.xml")
    again.info.file = graph.info.file
    assert ird.dump(again) == ird.dump(graph)


def summary(graph: ird.Graph) -> dict[str, Any]:
    """What a graph says, by node name: operation, attributes, specs, inputs; constants by value."""
    graph = ird.infer(graph)

    def source(value: Any) -> Any:
        node = graph.node(value.node)
        if node.type == "Const":
            return str(node.spec()), bytes(node.op.data.raw())  # type: ignore[attr-defined]
        return node.name, value.port

    nodes = [n for n in graph.nodes() if n.type != "Const"]
    assert len({n.name for n in graph.nodes()}) == len(graph), "names are unique"
    return {
        n.name: (
            n.type,
            n.op.to_attributes(),
            [str(s) for s in n.specs or ()],
            [source(v) for v in graph.inputs_of(n.id)],
        )
        for n in nodes
    }


@pytest.mark.parametrize("chunk", parts(1, CHUNKS))
def test_openvino_computes_the_same(chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([31, chunk])
    made = [written(rng, tmp_path / str(case)) for case in range(CASES)]
    # Known defects of the peer are left out; they must stay rare.
    assert [len(files) for files in made].count(2) >= CASES - 3
    every = [file for files in made for file in files]
    found = outputs_of_each([(path, [x]) for path, x, *_ in every])
    for (path, _, want, layer), (got,) in zip(every, found, strict=True):
        assert np.array_equal(got, want), (path.stem, layer)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", parts(4, 8))
@pytest.mark.parametrize("shape_input", [False, True], ids=["sizes", "output_shape"])
def test_layers_of_unknown_size(chunk: int, shape_input: bool, tmp_path: Path) -> None:
    """Lowered once with dynamic sizes (or output_shape fed at run time), run at several.

    With output_shape known only at run time the plugin's own deconvolution corrupts the memory or
    ignores pads in about one of ten layers; only the lowered form is compared there.
    """
    rng = np.random.default_rng([32, chunk, shape_input])
    assert sum(check_dynamic(rng, tmp_path, shape_input) for _ in range(4)) >= 8


@pytest.mark.parametrize("size", [1, 4, 9, 20])
def test_the_size_of_another_input(size: int, tmp_path: Path) -> None:
    """Data of known size, cropped or padded to the size of an open input.

    OpenVINO infers from the bounds of ShapeOf that a Pad of computed pads never crops.
    """
    three = ((2,), (3,), (1,), (1,), (0,), (0,))  # kernel, strides, ...: FULL is 8
    layer = Layer(1, (3,), None, 2, 3, *three, output_shape=(size,))
    rng = np.random.default_rng(33)
    x = numbers(rng, layer.data_shape, np.float32)
    w = numbers(rng, layer.filter_shape, np.float32)
    graph, feeds = build(layer, x, w, shape_source="computed")
    ird.write(ird.lower(graph).graph, tmp_path / "net.xml")
    made = compiled(tmp_path / "net.xml")
    y = made([feeds[p.node.friendly_name] for p in made.inputs])[0]
    assert np.array_equal(y, expected(layer, x, w))


def check_dynamic(rng: np.random.Generator, folder: Path, shape_input: bool) -> int:
    """Compare one dynamic layer at three sizes; return how many were comparable."""
    layer = peer_layer(rng)
    while native_defect(layer) or (layer.output_shape is None) == shape_input:
        layer = peer_layer(rng)
    w = numbers(rng, layer.filter_shape, np.float32)
    declared = [-1, layer.data_shape[1], *[-1] * layer.axes]
    source, written = folder / "source.xml", folder / "lowered.xml"
    write_ir(source, layer, w, data_shape=declared, shape_input=shape_input)
    low = ird.lower(ird.read(source)).graph
    ird.write(low, written)
    assert "BackpropData" not in written.read_text("utf-8")
    native = None if shape_input else compiled(source)
    lowered = compiled(written)
    plan = ird.compile(low, form=None, fuse=False)
    compared = 0
    for _ in range(3):
        other = resized(layer, rng)
        if min(other.output_size) < 1 or native_defect(other) or lowered_defect(other):
            continue
        x = numbers(rng, other.data_shape, np.float32)
        feeds = {"x": x}
        if shape_input:
            feeds["output_shape"] = np.array(other.output_shape, np.int64)
        y = plan.run(feeds)["y"]
        assert np.array_equal(y, expected(other, x, w)), other
        assert native is None or np.array_equal(native(feeds)[0], y), other
        assert np.array_equal(lowered(feeds)[0], y), other
        compared += 1
    return compared


def resized(layer: Layer, rng: np.random.Generator) -> Layer:
    """The layer at another batch and size, with an output_shape near the scatter's."""
    size = tuple(int(v) for v in rng.integers(2, 7, layer.axes))
    other = replace(layer, batch=int(rng.integers(1, 4)), size=size)
    if layer.output_shape is None:
        return other
    near = [other.full(a) + int(rng.integers(-2, 2)) for a in range(other.axes)]
    return replace(other, output_shape=tuple(max(n, 1) for n in near))


@each_row("form", list(FORMS))
@each_row("layer", EMPTY_OUTPUT)
def test_an_empty_output(tmp_path: Path, layer: Layer, form: str) -> None:
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    graph, feeds = build(layer, x, w)
    ird.write(ird.lower(graph, form).graph, tmp_path / "net.xml")
    (y,) = outputs(tmp_path / "net.xml", list(feeds.values()))
    assert y.shape == expected(layer, x, w).shape


@each_row("form", list(FORMS))
@each_row("open_sizes", [True, False])
@each_row("layer", EMPTY_DATA)
def test_the_size_that_empty_data_gives(
    tmp_path: Path, layer: Layer, open_sizes: bool, form: str
) -> None:
    """Sizes only: OpenVINO leaves unwritten what its Pad makes of nothing."""
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    shape = (None, layer.data_shape[1], *(None,) * layer.axes) if open_sizes else None
    graph, _ = build(layer, x, w, data_shape=shape)
    low = ird.lower(graph, form)
    ird.write(low.graph, tmp_path / "net.xml")
    model = core().read_model(tmp_path / "net.xml")
    if open_sizes and low.report.layers[0].form == "gemm":
        with pytest.raises(RuntimeError, match=r"data shape after padding \(dim: 0\)"):
            model.reshape(list(x.shape))  # its Convolution refuses data without positions
        return
    model.reshape(list(x.shape))
    assert tuple(model.output(0).shape) == expected(layer, x, w).shape


def test_the_layout_of_an_input_stays(tmp_path: Path) -> None:
    layer = Layer(1, (3, 4), None, 2, 2, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))
    x, w = (np.ones(s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    graph, _ = build(layer, x, w)
    info = '<attribute name="layout" version="0" layout="[N,C,H,W]"/>'
    graph.parameters[0].port_rt_info = (("output", 0, f"<rt_info>{info}</rt_info>"),)
    ird.write(ird.lower(graph).graph, tmp_path / "net.xml")
    assert str(core().read_model(tmp_path / "net.xml").parameters[0].layout) == "[N,C,H,W]"
