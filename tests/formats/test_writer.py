"""Writing: standard operations, atomic files, the same graph when read again."""

import os
import re
import stat

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.reading import load
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Convert, Opaque
from irdeconv.ops.core import Deconvolution, ZeroInsertion
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.standardize import recognise
from support import irbuild as ib
from support.layers import (
    EMPTY_OUTPUT,
    Layer,
    begun,
    build,
    constant,
    numbers,
    parameter,
    random_layer,
    result,
    sequential,
)
from support.loading import structure
from support.rows import each_row

LAYER = Layer(2, (4, 5), 2, 2, 3, (3, 2), (2, 3), (1, 2), (1, 0), (0, 1), (0, 1))
ONES = {"w": np.ones((1, 1, 3, 3), np.float32)}


def sample(layer: Layer = LAYER, **options):
    rng = np.random.default_rng(5)
    x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    return build(layer, x, w, **options)


@each_row("lowered", [False, True])
def test_reading_again_gives_the_same_graph_and_numbers(tmp_path, lowered):
    g, feeds = sample()
    g = ird.lower(g).graph if lowered else ird.infer(g)
    ird.write(g, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    assert structure(again) == structure(g)
    assert [n.name for n in again.nodes(type="Parameter")] == ["x"]
    a, b = ird.run(g, feeds, form=None), ird.run(again, feeds, form=None)
    np.testing.assert_array_equal(next(iter(a.values())), next(iter(b.values())))
    assert ird.validate(tmp_path / "m.xml") == []


def test_the_files_hold_standard_operations_only(tmp_path):
    g, _ = sample()
    ird.write(ird.lower(g).graph, tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text()
    assert "BackpropData" not in text
    assert 'type="ZeroInsertion"' not in text
    assert 'version="irdeconv' not in text


def test_writing_twice_gives_the_same_bytes(tmp_path):
    g, _ = sample()
    ird.write(ird.lower(g).graph, tmp_path / "a.xml")
    ird.write(ird.read(tmp_path / "a.xml"), tmp_path / "b.xml")
    ird.write(ird.read(tmp_path / "b.xml"), tmp_path / "c.xml")
    assert (tmp_path / "b.xml").read_bytes() == (tmp_path / "c.xml").read_bytes()
    assert (tmp_path / "b.bin").read_bytes() == (tmp_path / "c.bin").read_bytes()


@each_row("seed", range(40))
def test_random_lowered_layers_survive_writing(tmp_path, seed):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng)
    if min(layer.output_size) < 1:
        layer = LAYER
    x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
    g, feeds = build(layer, x, w, filter_input=seed % 3 == 0)
    low = ird.lower(g).graph
    ird.write(low, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    assert len(list(again.nodes(type="ZeroInsertion"))) == len(
        list(low.nodes(type="ZeroInsertion"))
    )
    want, got = ird.run(g, feeds, form=None)["y"], ird.run(again, feeds, form=None)["y"]
    np.testing.assert_array_equal(got, want)


@each_row("seed", range(20))
def test_the_canonical_deconvolution_is_written(tmp_path, seed):
    rng = np.random.default_rng(seed)
    g, x = begun((2, 4, None, 5))
    groups = int(rng.choice([1, 2]))
    w = constant(g, numbers(rng, (groups, 4 // groups, 3, 2, 3), np.float32), "w")
    begin, end = (constant(g, rng.integers(-3, 3, 2), n) for n in ("b", "e"))
    op = Deconvolution((2, 1), (1, 2))
    result(g, Value(g.add(op, [x, w, begin, end], name="d").id))
    ird.write(g, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    data = numbers(rng, (2, 4, 4, 5), np.float32)
    np.testing.assert_array_equal(
        ird.run(again, [data], form=None)["y"], ird.run(g, [data], form=None)["y"]
    )


def test_document_semantics_are_written_as_numbers_that_the_runtime_computes(tmp_path):
    layer = Layer(
        1, (4, 5), None, 2, 3, (3, 4), (2, 3), (1, 1), (1, 1), (1, 1), (0, 0), "explicit", (8, 12),
        "document",
    )  # fmt: skip
    g, feeds = sample(layer)
    ird.write(g, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    want = ird.run(g, feeds, form=None)["y"]
    np.testing.assert_array_equal(ird.run(again, feeds, form=None)["y"], want)


def test_every_element_type_survives(tmp_path):
    g, arrays = Graph(), {}
    rng = np.random.default_rng(0)
    for name, t in ELEMENT_TYPES.items():
        if name == "string":
            array = np.array([["a", "", "é"], ["日本", "b\0c", " "]], object)
        elif name == "nf4":
            array = np.array([-1.0, 0.0, 1.0, 1.0], np.float32)
        elif t.kind == "bool":
            array = np.array([True, False, True])
        elif t.is_real:
            array = np.array([0.5, 1, 2, 4], np.float32).astype(t.container)
        else:
            top = 2 ** (t.bits - (t.kind == "int")) - 1
            low = -top - 1 if t.kind == "int" else 0
            array = rng.integers(low, min(top, 2**62), 11).astype(t.container)
        arrays[name] = array
        result(g, constant(g, array, name, name), f"out_{name}")
    ird.write(g, tmp_path / "m.xml")
    outs = ird.run(ird.read(tmp_path / "m.xml"), [])
    for (name, want), got in zip(arrays.items(), outs.values(), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert got.dtype == want.dtype


def test_identical_constants_are_stored_once(tmp_path):
    g = Graph()
    for k in range(3):
        result(g, constant(g, np.arange(100, dtype=np.float32), f"c{k}"), f"y{k}")
    result(g, constant(g, np.zeros((0, 3), np.float32), "empty"), "e")
    ird.write(g, tmp_path / "m.xml")
    assert (tmp_path / "m.bin").stat().st_size == 400 + 1
    assert ird.run(ird.read(tmp_path / "m.xml"), [])["e"].shape == (0, 3)


def test_compressed_weights_stay_compressed(tmp_path):
    rng = np.random.default_rng(0)
    g, x = begun((1, 4, 5, 5))
    half = constant(g, numbers(rng, (4, 3, 3, 3), ml_dtypes.bfloat16), "w")
    w = g.add(Convert(ELEMENT_TYPES["f32"]), [half], name="w/decompress")
    w.rt_info = '<rt_info><attribute name="decompression" version="0"/></rt_info>'
    node = g.add(ConvolutionBackpropData(strides=(2, 2)), [x, Value(w.id)], name="d")
    result(g, Value(node.id))
    low = ird.lower(g).graph
    weights = [n for n in low.nodes(type="Const") if n.spec().dtype == ELEMENT_TYPES["bf16"]]
    assert len(weights) == 1
    assert [n.rt_info for n in list(low.nodes(type="Convert"))] == [w.rt_info]
    ird.write(low, tmp_path / "m.xml")
    assert (tmp_path / "m.bin").stat().st_size < 4 * 4 * 3 * 9


def test_rt_info_of_ports_is_kept(tmp_path):
    g, _ = sample()
    layout = '<rt_info><attribute name="layout" version="0" layout="[N,C,H,W]"/></rt_info>'
    other = '<rt_info><attribute name="note" version="0"/></rt_info>'
    (deconv,) = g.nodes("GroupConvolutionBackpropData")
    g.parameters[0].port_rt_info = (("output", 0, layout),)
    deconv.port_rt_info = (("input", 1, other), ("output", 0, layout))
    ird.write(g, tmp_path / "m.xml")
    back = ird.read(tmp_path / "m.xml")
    (again,) = back.nodes("GroupConvolutionBackpropData")
    assert back.parameters[0].port_rt_info == (("output", 0, layout),)
    assert again.port_rt_info == deconv.port_rt_info
    # The inputs of a lowered layer are other tensors, its output is the same.
    (last,) = [n for n in ird.lower(g).graph.nodes() if n.name == "deconv"]
    assert last.port_rt_info == (("output", 0, layout),)


@pytest.mark.parametrize("count", [1, 12])
def test_reading_back_walks_the_graph_a_fixed_number_of_times(tmp_path, monkeypatch, count):
    g = Graph()
    for i in range(count):
        x = parameter(g, (1, 1, 4), np.float32, f"x{i}")
        w = constant(g, np.ones((1, 1, 3), np.float32), f"w{i}")
        node = g.add(ConvolutionBackpropData(strides=(2,)), [x, w], name=f"d{i}")
        result(g, Value(node.id), f"y{i}")
    ird.write(ird.lower(g).graph, tmp_path / "m.xml")
    loaded = load(tmp_path / "m.xml").graph
    walks, nodes = [], Graph.nodes
    monkeypatch.setattr(Graph, "nodes", lambda *a, **k: walks.append(1) or nodes(*a, **k))
    assert recognise(loaded) == count
    assert len(walks) == 6


@each_row("target", [[1, 1, 4, 17], [1, 4, 1, 16], [1, 1, 16, 4], [1, 2, 8, 4]])
def test_the_mark_of_a_zero_insertion_is_not_believed(tmp_path, target):
    g = sequential((1, 1, 2, 8), ("d", ConvolutionBackpropData(strides=(2, 2)), ONES))
    file, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    ird.write(ird.lower(g).graph, file)
    assert list(ird.read(file).nodes("ZeroInsertion"))
    was, now = (np.array(v, np.int64).tobytes() for v in ([1, 1, 4, 16], target))
    assert weights.read_bytes().count(was) == 1
    weights.write_bytes(weights.read_bytes().replace(was, now))
    assert not list(ird.read(file, weights).nodes("ZeroInsertion"))


def replace_constant(file, name, numbers):
    """Let a constant of a written model have other numbers, which join its weights."""
    weights = file.with_suffix(".bin")
    offset = weights.stat().st_size
    weights.write_bytes(weights.read_bytes() + np.array(numbers, np.int64).tobytes())
    head, found, tail = file.read_text().partition(f'name="{name}" type="Const"')
    assert found
    file.write_text(head + found + re.sub(r'offset="\d+"', f'offset="{offset}"', tail, count=1))


@each_row(
    ("changes", "same"),
    [
        ({"Const_9": [0, 1, 0, 1], "Const_10": [2]}, True),
        ({"Const_10": [1], "Const_11": [4]}, False),  # factors of height and width
        ({"Const_11": [1], "Const_13": [2]}, False),  # channels and width
        ({"Const_9": [0, 0, 0, 3], "Const_10": [1], "Const_11": [4]}, False),
        ({"Const_8": [0, 1, 0, 1], "Const_9": [0, 0, 0, 0]}, False),  # zeros in front
        ({"Const_8": [0, 0, 0, 1], "Const_9": [0, 1, 0, 0]}, False),
        ({"Const": [3], "Const_3": [2]}, False),  # height and width exchanged
        ({"Const_6": [2], "Const_5": [2]}, False),
    ],
)
def test_neither_where_sizes_are_open(tmp_path, changes, same):
    g = sequential((1, 1, None, None), ("d", ConvolutionBackpropData(strides=(2, 2)), ONES))
    file = tmp_path / "m.xml"
    ird.write(ird.lower(g).graph, file)
    for name, changed in changes.items():
        replace_constant(file, f"d/ZeroInsertion/{name}", changed)
    read = ird.read(file, file.with_suffix(".bin"))
    assert bool(list(read.nodes("ZeroInsertion"))) is same


def test_names_with_any_characters(tmp_path):
    g, x = begun((2,), name="a<b&\"c'd\n,e")
    g.node(x.node).tensor_names = (("t,1", 't"2'),)
    node = g.add(ReLU(), [x], name="ünï/日本")
    result(g, Value(node.id), "y, z")
    ird.write(g, tmp_path / "m.xml")
    again = ird.read(tmp_path / "m.xml")
    assert [n.name for n in again.nodes()][:2] == ["a<b&\"c'd\n,e", "ünï/日本"]
    assert next(again.nodes()).tensor_names == (("t,1", 't"2'),)
    assert again.outputs == ["y, z"]


def test_unknown_operations_are_written_as_they_were_declared(tmp_path):
    op = Opaque("Mystery", "opset9", declared=(Spec.of(np.zeros(2, np.float32)),))
    ird.write(sequential((2,), ("m", op)), tmp_path / "m.xml")
    assert 'type="Mystery" version="opset9"' in (tmp_path / "m.xml").read_text()


def test_a_zero_insertion_without_a_pad_is_written(tmp_path):
    ird.write(sequential((1, 1, None), ("z", ZeroInsertion((2,)))), tmp_path / "m.xml")
    assert 'type="ZeroInsertion"' not in (tmp_path / "m.xml").read_text()
    data = np.array([[[1, 2, 3]]], np.float32)
    (out,) = ird.run(ird.read(tmp_path / "m.xml"), [data], form=None).values()
    assert out.tolist() == [[[1, 0, 2, 0, 3]]]


class Odd(ReLU):
    """An operation that OpenVINO does not know and that nothing spells."""

    standard = False


def test_all_that_has_no_standard_spelling_is_refused_and_nothing_is_written(tmp_path):
    g, x = begun((2,))
    for name in ("one", "two"):
        x = Value(g.add(Odd(), [x], name=name).id)
    result(g, x)
    with pytest.raises(ird.UnsupportedError) as e:
        ird.write(g, tmp_path / "m.xml")
    assert [(d.code, d.layer) for d in e.value.diagnostics] == [("E402", "one"), ("E402", "two")]
    assert not list(tmp_path.iterdir())


STORED = ib.const(7, "held", (1, 3), 0, 12)
HELD = ib.loop().replace("<body>\n<layers>", f"<body>\n<layers>\n{STORED}")


@each_row(
    ("xml", "layer"),
    [(ib.chain(), "c"), (HELD, "held"), (HELD.replace('"TensorIterator"', '"Mystery"'), "ti")],
)
def test_a_model_without_its_weights_is_not_written(tmp_path, xml, layer):
    (tmp_path / "m.xml").write_text(xml)
    with pytest.raises(ird.InputError) as e:
        ird.write(ird.read(tmp_path / "m.xml", weights=False), tmp_path / "other.xml")
    (problem,) = e.value.diagnostics
    assert (problem.code, problem.layer) == ("E120", layer)
    assert problem.location is not None
    assert [p.name for p in tmp_path.iterdir()] == ["m.xml"]


@each_row("name", ["m.bin", "missing/folder/m.xml"])
def test_paths_that_cannot_be_written(tmp_path, name):
    g, _ = sample()
    with pytest.raises((ird.UsageError, ird.FileAccessError)):
        ird.write(g, tmp_path / name)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", [".", "..", "folder", "pipe", "beside.xml"])
def test_folders_and_devices_are_not_replaced(tmp_path, monkeypatch, name):
    for folder in ("work", "work/folder", "work/beside.bin"):
        (tmp_path / folder).mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "work" / "pipe")
    else:
        (tmp_path / "work" / "pipe").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ird.FileAccessError, match=r"not a regular file|Is a directory"):
        ird.write(sample()[0], name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    g, _ = sample()
    ird.write(g, tmp_path / "m.xml")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ird.FileAccessError, match="No space left"):
        ird.write(ird.lower(g).graph, tmp_path / "m.xml")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_overwriting_the_model_that_is_being_read(tmp_path):
    g, feeds = sample()
    ird.write(g, tmp_path / "m.xml")
    mapped = ird.read(tmp_path / "m.xml")
    ird.write(ird.lower(mapped).graph, tmp_path / "m.xml")
    want = ird.run(g, feeds, form=None)["y"]
    np.testing.assert_array_equal(ird.run(mapped, feeds, form=None)["y"], want)
    again = ird.run(ird.read(tmp_path / "m.xml"), feeds, form=None)["y"]
    np.testing.assert_array_equal(again, want)


def test_the_files_have_ordinary_permissions(tmp_path):
    g, _ = sample()
    ird.write(g, tmp_path / "m.xml")
    (tmp_path / "plain").touch()
    want = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    for name in ("m.xml", "m.bin"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == want


def test_a_crop_beyond_the_tensor_is_a_pad_and_a_slice(tmp_path):
    """One Pad for both corrupts the heap of OpenVINO's CPU plugin."""
    layer = Layer(
        1, (2, 5), None, 2, 3, (3, 2), (1, 2), (1, 1), (7, 0), (-8, 0), (0, 0)
    )  # fmt: skip
    g, feeds = sample(layer)
    low = ird.lower(g).graph
    ird.write(low, tmp_path / "m.xml")
    again = ird.infer(ird.read(tmp_path / "m.xml"))
    for graph in (low, again):
        (pad,), (crop,) = graph.nodes("Pad"), graph.nodes("StridedSlice")
        assert graph.inputs_of(crop.id)[0].node == pad.id
        begin, end = (graph.spec(v).known.tolist() for v in graph.inputs_of(pad.id)[1:])
        assert min(begin + end) == 0
        data = graph.spec(graph.inputs_of(pad.id)[0]).shape
        assert graph.spec(graph.inputs_of(crop.id)[1]).known[2] > data[2]
    want = ird.run(g, feeds, form=None)["y"]
    np.testing.assert_array_equal(ird.run(again, feeds, form=None)["y"], want)


@each_row("form", list(FORMS))
@each_row("layer", EMPTY_OUTPUT)
def test_an_empty_output_is_written_in_valid_operations(tmp_path, layer, form):
    g, feeds = sample(layer)
    ird.write(ird.lower(g, form).graph, tmp_path / "net.xml")
    assert [d for d in ird.validate(tmp_path / "net.xml") if d.severity == "error"] == []
    y = ird.run(ird.read(tmp_path / "net.xml"), feeds)["y"]
    assert 0 in layer.output_size
    assert y.shape == (layer.batch, layer.m * (layer.groups or 1), *layer.output_size)
