"""Reading IR files from wherever they come."""

import json
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import onnx
import pytest
from lxml import etree
from onnx import helper

import irdeconv as ird
import irdeconv.ops
import irdeconv.ops.dialects
from irdeconv.base.errors import OpError
from irdeconv.base.source import Anchor, Location, SourceFile
from irdeconv.cli.main import main
from irdeconv.formats.document import MemoryWeights, NoWeights, WeightsFile
from irdeconv.formats.kinds import kind_of
from irdeconv.formats.models import graph_of
from irdeconv.formats.reading import load
from irdeconv.formats.xml_layer import split_names
from irdeconv.formats.xml_writer import quoted
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import TYPES
from irdeconv.ir.spec import DYNAMIC, Interval, Spec
from irdeconv.ops.basic import Const, Opaque, Parameter
from irdeconv.ops.catalog import CATALOG, opsets, spelling
from support import irbuild as ib
from support.commands import answer
from support.onednn_dumps import content, op, tensor
from support.onnx_models import info, model
from support.rows import each_row

# What a well-formed IR becomes: nodes, names, specs, constants, order, sections.


def read_ir(xml: str, weights: bytes | None = ib.CHAIN_BYTES) -> Graph:
    loaded = load(xml.encode(), weights, name="net.xml")
    assert loaded.errors == []
    loaded.graph.lint()
    return loaded.graph


@each_row("version", [10, 11])
def test_chain(version: int) -> None:
    graph = read_ir(ib.chain(version=version))
    assert [(n.id, n.name, n.type) for n in graph.nodes()] == [
        (0, "x", "Parameter"),
        (1, "r", "ReLU"),
        (2, "c", "Const"),
        (3, "a", "Add"),
        (4, "y", "Result"),
    ]
    assert graph.inputs_of(3) == (Value(1, 0), Value(2, 0))
    assert (graph.info.name, graph.info.ir_version) == ("m", version)
    assert graph.info.file == "net.xml"
    assert graph.node(3).declared == (Spec(ELEMENT_TYPES["f32"], (2, 3)),)
    assert len(graph.node(3).declared_inputs) == 2
    assert str(graph.node(1).location) == "net.xml:7:1"


@each_row("lead", ["\n", " \r\n\t", "\ufeff\n"])
def test_blanks_in_front_of_the_declaration(lead: str) -> None:
    """XML forbids them, OpenVINO reads such a file; places are those of the file as it is."""
    xml = f"{lead}<?xml version='1.0'\nencoding='x'?>\n{ib.chain()}"
    loaded = load(xml.encode(), ib.CHAIN_BYTES, name="net.xml")
    assert [d.code for d in loaded.diagnostics] == ["W103"]
    assert str(loaded.graph.node(1).location) == "net.xml:10:1"
    assert load(f"x{xml}".encode(), ib.CHAIN_BYTES, name="net.xml").errors[0].code == "E101"


def test_files(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "m.xml").write_text(ib.chain())
    (tmp_path / "m.bin").write_bytes(values.tobytes())
    (tmp_path / "other.bin").write_bytes((values + 1).tobytes())
    for weights, expected in ((None, values), (tmp_path / "other.bin", values + 1)):
        loaded = load(str(tmp_path / "m.xml"), weights)
        assert loaded.diagnostics == []
        constant = loaded.graph.node(2).op
        assert isinstance(constant, Const)
        got = constant.evaluate()
        np.testing.assert_array_equal(got, expected)
        assert not got.flags.writeable
        assert not got.flags.owndata


def test_constants_start_anywhere() -> None:
    raw = b"\7" + np.arange(6, dtype=np.float32).tobytes()
    graph = read_ir(ib.chain().replace('offset="0"', 'offset="1"'), raw)
    got = graph.node(2).op.evaluate()
    assert got.tolist() == [[0, 1, 2], [3, 4, 5]]  # type: ignore[union-attr]


@each_row("size", [0, 1])
def test_empty_constants(size: int) -> None:
    xml = ib.net([ib.const(0, "c", (0, 3), 0, size), ib.result(1, "y", (0, 3))], (0, 0, 1, 0))
    assert read_ir(xml, bytes(size)).node(0).op.evaluate().shape == (0, 3)  # type: ignore[union-attr]


def test_order_is_that_of_the_file() -> None:
    layers = [
        ib.result(5, "rb"),
        ib.parameter(2, "pb"),
        ib.add(3, "sum"),
        ib.parameter(0, "pa"),
        ib.result(4, "ra"),
        ib.relu(1000000, "relu"),
    ]
    ends = [(0, 0, 3, 0), (2, 0, 3, 1), (3, 2, 1000000, 0), (3, 2, 5, 0), (1000000, 1, 4, 0)]
    for wires in (ends, ends[::-1]):
        graph = read_ir(ib.net(layers, *wires), b"")
        assert graph.inputs == ["pb", "pa"]
        assert [n.name for n in graph.results] == ["rb", "ra"]
        assert [graph.node(v.node).name for v in graph.inputs_of(2)] == ["pa", "pb"]


def test_edges_first_comments_and_odd_port_ids() -> None:
    xml = ib.chain().replace('from-layer="1" from-port="1"', 'from-layer="1" from-port="77"')
    xml = xml.replace('<output><port id="1"', '<output><!-- out --><port id="77"')
    xml = xml.replace("<layers>", "<!-- a --><layers><?pi x?>")
    start, rest = xml.split("<edges>")
    edges, end = rest.split("</edges>")
    head, layers = start.split("<!-- a -->")
    graph = read_ir(f"{head}<edges>{edges}</edges>{layers}{end}")
    assert graph.inputs_of(3) == (Value(1, 0), Value(2, 0))


def test_names_and_what_is_kept() -> None:
    xml = ib.chain().replace('<port id="0" precision', r'<port id="0" names="a\,b,c" precision', 1)
    xml = xml.replace('"Result" version="opset1"', '"Result" version="opset1" output_names="o"')
    note = '<rt_info><attribute name="decompression" version="0"/></rt_info>'
    xml = xml.replace("<input>", f"{note}<input>", 1)
    xml = xml.replace("</net>", '<rt_info><info name="x" value="1"/></rt_info></net>')
    graph = read_ir(xml)
    assert graph.node(0).tensor_names == (("a,b", "c"),)
    assert graph.node(1).tensor_names == ((),)
    assert graph.node(1).rt_info == note
    assert graph.node(4).extra == (("output_names", "o"),)
    assert graph.info.rt_info == '<rt_info><info name="x" value="1"/></rt_info>'


@each_row(
    ("text", "expected"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (r"a\,b", ("a,b",)),
        (r"a\,b,c\,d,e", ("a,b", "c,d", "e")),
        (r"a\b,c", (r"a\b", "c")),
        (",a,,b,", ("a", "b")),
    ],
)
def test_split_names(text: str, expected: tuple[str, ...]) -> None:
    assert split_names(text) == expected


def test_version_10_names_its_ends() -> None:
    axis = ib.const(3, "axis", (), 0, 8, "i64")
    halves = [ib.port(2, (1, 3)), ib.port(3, (1, 3))]
    inputs = [ib.port(0, (2, 3)), ib.port(1, (), "I64")]
    split = ib.layer(2, "s", "Split", 'num_splits="2"', inputs=inputs, outputs=halves)
    layers = [ib.parameter(0, "x"), ib.relu(1, "r"), split, axis]
    layers += [ib.result(4, "a"), ib.result(5, "b", (1, 3))]
    ends = [(0, 0, 1, 0), (1, 1, 2, 0), (3, 0, 2, 1), (1, 1, 4, 0), (2, 3, 5, 0)]
    graph = read_ir(ib.net(layers, *ends, version=10), bytes(8))
    assert graph.outputs == ["r", "s.1"]
    assert graph.node(2).tensor_names == ((), ("s.1",))
    assert read_ir(ib.net(layers, *ends, version=11), bytes(8)).outputs == ["a", "b"]


def test_dynamic_shapes() -> None:
    xml = ib.chain().replace('<data shape="2,3"', '<data shape="?,3..9"')
    xml = xml.replace("<dim>2</dim><dim>3</dim>", "<dim>-1</dim><dim>-1</dim>", 1)
    graph = read_ir(xml)
    op = graph.node(0).op
    assert isinstance(op, Parameter)
    assert op.shape == (DYNAMIC, Interval(3, 9))
    assert graph.node(0).declared[0].shape == (DYNAMIC, DYNAMIC)
    xml = ib.chain().replace('<data shape="2,3"', '<data shape="..."')
    xml = xml.replace("<dim>2</dim><dim>3</dim>", "", 1)
    graph = read_ir(xml)
    assert graph.node(0).op.shape is None  # type: ignore[attr-defined]
    assert graph.node(0).declared[0].shape is None


def test_semantics_reach_the_operations() -> None:
    data = 'strides="2" pads_begin="0" pads_end="0" dilations="1"'
    ports = {"inputs": [ib.port(0), ib.port(1)], "outputs": [ib.port(2)]}
    deconv = ib.layer(2, "d", "ConvolutionBackpropData", data, **ports)
    layers = [ib.parameter(0, "x", (1, 2, 3)), ib.parameter(1, "w", (2, 3, 3)), deconv]
    xml = ib.net([*layers, ib.result(3, "y")], (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0))
    for semantics in ("runtime", "document"):
        loaded = load(xml.encode(), b"", semantics=semantics)  # type: ignore[arg-type]
        assert loaded.diagnostics == []
        assert loaded.graph.node(2).op.semantics == semantics  # type: ignore[attr-defined]


def test_operations_without_details() -> None:
    kind = next(k for k in CATALOG if k not in TYPES and opsets(k) == [17])
    xml = ib.chain().replace(
        'type="ReLU" version="opset1">', f'type="{kind}" version="opset17"><data a="1" b="2"/>'
    )
    loaded = load(xml.encode(), ib.CHAIN_BYTES)
    assert [d.code for d in loaded.diagnostics] == ["W204"]
    op = loaded.graph.node(1).op
    assert isinstance(op, Opaque)
    assert (op.type, op.version, op.data) == (kind, "opset17", (("a", "1"), ("b", "2")))
    assert op.declared == (Spec(ELEMENT_TYPES["f32"], (2, 3)),)


def test_bodies_of_unknown_operations_are_kept_for_writing() -> None:
    loaded = load(ib.loop().replace('"TensorIterator"', '"Mystery"').encode(), b"\0\0\0\0")
    op = loaded.graph.node(1).op
    sections = op.sections  # type: ignore[attr-defined]
    assert [s.tag for s in sections] == ["port_map", "back_edges", "body"]
    assert b'internal_layer_id="0"' in sections[0].xml
    assert sections[2].xml.startswith(b"<body>")
    assert sections[2].xml.endswith(b"</body>")
    assert op.weights.raw() == b"\0\0\0\0"  # type: ignore[attr-defined]


def test_assign_is_alive() -> None:
    loaded = load(ib.state().encode(), b"")
    assert {d.code for d in loaded.diagnostics} <= {"W204"}
    assert loaded.graph.live() == {0, 1, 2, 3}


def test_port_rt_info_is_accepted() -> None:
    info = '<rt_info><attribute name="layout" version="0" layout="[N,C]"/></rt_info>'
    graph = read_ir(ib.chain().replace("<dim>3</dim></port>", f"<dim>3</dim>{info}</port>", 1))
    assert graph.node(0).declared[0].shape == (2, 3)
    assert graph.node(0).port_rt_info == (("output", 0, info),)


def test_a_long_chain() -> None:
    count = 3000
    layers = [ib.parameter(0, "x"), *(ib.relu(i, f"r{i}") for i in range(1, count))]
    ends = [(i, min(i, 1), i + 1, 0) for i in range(count)]
    graph = read_ir(ib.net([*layers, ib.result(count, "y")], *ends), b"")
    assert len(graph) == count + 1


# Weights ---------------------------------------------------------------------------------------


def test_weights_file(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    assert WeightsFile(path).size is None
    path.write_bytes(b"")
    assert WeightsFile(path).size == 0
    path.write_bytes(b"abcdef")
    weights = WeightsFile(path)
    assert bytes(weights.read(2, 3)) == b"cde"
    for offset, size in ((4, 3), (-1, 2), (7, 0), (2, -1)):
        with pytest.raises(OpError, match="lie outside"):
            weights.read(offset, size)
    with pytest.raises(OSError, match="directory"):
        WeightsFile(tmp_path)


def test_other_weights() -> None:
    assert bytes(MemoryWeights(b"abc").read(1, 2)) == b"bc"
    assert NoWeights("m.bin").size is None
    with pytest.raises(OpError, match=r"m\.bin is missing"):
        NoWeights("m.bin").read(0, 1)


# Catalog ---------------------------------------------------------------------------------------


def test_catalog() -> None:
    assert opsets("Gelu") == list(range(2, 17))
    assert opsets("relu") == list(range(1, 17))
    assert spelling("RELU") == "ReLU"
    assert opsets("FooBar") == []


def test_registered_operations_are_in_the_catalog() -> None:
    for kind, classes in TYPES.items():
        for cls in classes:
            numbers = {int(v[5:]) for v in cls.versions if v.startswith("opset")}
            if cls.standard and numbers:
                assert numbers & set(opsets(kind)), (kind, cls.versions)


def test_an_opset_may_leave_an_operation_out() -> None:
    xml = ib.chain().replace('"ReLU" version="opset1"', '"ShuffleChannels" version="opset2"')
    (found,) = load(xml.encode(), ib.CHAIN_BYTES).diagnostics
    assert (found.code, found.hint) == ("E207", "it is in opset1, opset3 to opset16")


def test_attributes_of_xml_itself_are_kept(tmp_path: Path) -> None:
    xml = ib.chain()
    for start in ("<net ", '<layer id="1" ', "<data ", "<edge ", "<port "):
        xml = xml.replace(start, f'{start}xml:lang="en" ')
    ird.write(ird.read(xml.encode(), ib.CHAIN_BYTES), tmp_path / "m.xml")
    written = (tmp_path / "m.xml").read_text()
    kept = re.findall('<(net|layer|data)[^>]* xml:lang="en"', written)
    assert kept == ["net", "data", "layer"]
    again = ird.read(tmp_path / "m.xml")
    assert ird.dump(ird.parse(ird.dump(again))) == ird.dump(again)


def test_unknown_elements_among_many_layers_are_each_told_once_in_their_places() -> None:
    """Layers are removed from memory in groups while the file is read."""
    port = '<port id="0" precision="FP32"><dim>3</dim></port>'
    lines = ["<net version='11'><layers>"]
    edges: list[str] = []
    for i in range(300):
        if i in (0, 1, 62, 63, 64, 65, 66, 130, 299):
            lines += ["<leyer/>"] * (1 + i % 2)
        lines.append(
            f'<layer id="{i}" name="r{i}" type="ReLU" version="opset1">'
            f"<input>{port}</input><output>{port.replace('0', '1', 1)}</output></layer>"
            if i
            else '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="3" '
            f'element_type="f32"/><output>{port.replace("0", "1", 1)}</output></layer>'
        )
        edges.append(f'<edge from-layer="{i}" from-port="1" to-layer="{i + 1}" to-port="0"/>')
    lines.append(f'<layer id="300" name="y" type="Result" version="opset1"><input>{port}</input>')
    lines += ["</layer>", "<leyer/>", "</layers><edges>", *edges, "<egde/>", "</edges></net>"]
    wanted = [i + 1 for i, text in enumerate(lines) if text in ("<egde/>", "<leyer/>")]
    loaded = load("\n".join(lines).encode(), b"", name="net.xml")
    places = [d.location.position for d in loaded.diagnostics if d.location]
    assert {d.code for d in loaded.diagnostics} == {"W102"}
    assert sorted(places) == [(line, 1) for line in wanted]
    assert loaded.graph is not None
    assert len(loaded.graph) == 301


@each_row("marks", ["", '"', "'", "\"'", "<&>", "\n\r\t", "<\"&'>\n"])
def test_attributes_are_quoted_as_the_standard_library_does(marks: str) -> None:
    text = f"a{marks}b&amp;{marks}" if marks else "a b.c/0"
    assert quoted(text) == quoteattr(text)
    assert etree.fromstring(f"<a b={quoted(text)}/>").get("b") == text


# Places: anchors to lines and columns, attributes, carets.

TEXT = """<?xml version="1.0"?>
<net name="m" version="11">
  <layers><!-- a comment -->
    <layer id="0" name="é" type="A"><data x="1" y="2"/><output><port id="0"><dim>5</dim></port>\
</output></layer>
    <layer id="1"
           name="b">
      <data
        strides="1,1"/>
      <body><layers><layer id="7"/></layers></body>
    </layer><layer id="2"/>
  </layers>
  <edges>
    <edge from-layer="0"/>
  </edges>
</net>
"""

PLACES = [
    (Anchor(), (2, 1)),
    (Anchor("layers"), (3, 3)),
    (Anchor("layers", 0), (4, 5)),
    (Anchor("layers", 0, 1), (4, 37)),
    (Anchor("layers", 0, 3), (4, 64)),
    (Anchor("layers", 0, 4), (4, 77)),
    (Anchor("layers", 1), (5, 5)),
    (Anchor("layers", 1, 1), (7, 7)),
    (Anchor("layers", 1, 4), (9, 21)),
    (Anchor("layers", 2), (10, 13)),
    (Anchor("edges", 0), (13, 5)),
    (Anchor("layers", 3), None),
    (Anchor("layers", 2, 1), None),
    (Anchor("other"), None),
]


@each_row(("anchor", "expected"), PLACES)
@each_row("encoding", ["utf-8", "utf-16"])
def test_elements(anchor: Anchor, expected: tuple[int, int] | None, encoding: str) -> None:
    found = SourceFile("net.xml", TEXT.encode(encoding)).position(anchor)
    if encoding == "utf-16" and expected is not None:
        assert found.line == expected[0]
    else:
        assert (found and (found.line, found.column)) == expected


ATTRIBUTES = [
    (Anchor("layers", 0), "name", (4, 19)),
    (Anchor("layers", 0), "y", (4, 49)),  # of the layer's <data>
    (Anchor("layers", 0, 1), "y", (4, 49)),
    (Anchor("layers", 1), "name", (6, 12)),
    (Anchor("layers", 1), "strides", (8, 9)),
    (Anchor("layers", 1, 1), "strides", (8, 9)),
    (Anchor("layers", 1), "nothing", (5, 5)),
    (Anchor("edges", 0), "from-layer", (13, 11)),
    (Anchor(), "version", (2, 15)),
]


@each_row(("anchor", "name", "expected"), ATTRIBUTES)
def test_attributes(anchor: Anchor, name: str, expected: tuple[int, int]) -> None:
    source = SourceFile("net.xml", TEXT.encode())
    assert Location(source, anchor).at(name).position == expected


def test_many_items_and_fragments() -> None:
    row = '<layer id="1">\n<data/><output><port id="0"/></output></layer>\n'
    source = SourceFile("n", f"<net><layers>\n{row * 200}</layers></net>".encode())
    for item in (0, 199, 3, 120):
        where = source.position(Anchor("layers", item, 3))
        assert (where.line, where.column) == (2 * item + 3, 16)
        assert source.data[where.offset :].startswith(b"<port")


def test_positions_stop_where_the_file_is_malformed() -> None:
    source = SourceFile("n", b"<net>\n<layers>\n<layer/>\n<layer")
    assert source.position(Anchor("layers", 0)) is not None
    assert source.position(Anchor("layers", 1)) is None


def test_snippet() -> None:
    source = SourceFile("net.xml", b'<net>\n\t<layers>\n<layer id="1"/>\n</layers>\n</net>\n')
    assert Location(source, Anchor("layers", 0), "id").snippet() == [
        '   3 | <layer id="1"/>',
        "     |        ^",
    ]
    assert Location(source, Anchor("layers")).snippet()[1].endswith("|  ^")
    assert Location(source, fixed=(99, 1)).snippet() == []
    assert str(Location(source, Anchor("layers"))) == "net.xml:2:2"


def test_snippet_of_a_long_line() -> None:
    source = SourceFile("n", b"<net><layers>" + b" " * 500 + b'<layer id="1"/></layers></net>')
    text, caret = Location(source, Anchor("layers", 0)).snippet()
    assert text[caret.index("^")] == "<"
    assert len(text) < 120


# Functions and verbs read a model in every form.


HEAD = Path("ir_samples/openvino/segmentation_head.xml")
WEIGHTS = np.random.default_rng(3).standard_normal((2, 3, 2, 2)).astype(np.float32)
LISTS = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
ENDS = [tensor(i, s) for i, s in enumerate(((1, 2, 3, 3), (2, 3, 2, 2), (1, 3, 6, 6)))]
FORMATS = {"data_format": "NCX", "weights_format": "IOX"}
DUMP = content(op("ConvTranspose", ENDS[:2], ENDS[2:], **LISTS, **FORMATS))


def deconv(shape: Any = (1, 2, 3, 3)) -> Any:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="deconv", strides=[2, 2])
    return model([node], [info("x", shape)], ["y"], {"w": WEIGHTS})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One deconvolution in every format."""
    paths = {kind: tmp_path / f"net.{kind}" for kind in ("xml", "onnx", "json", "ird")}
    onnx.save(deconv(), paths["onnx"])
    graph = ird.infer(ird.read(paths["onnx"]))
    ird.write(graph, paths["xml"])
    paths["ird"].write_text(ird.dump(graph), "utf-8")
    paths["json"].write_text(json.dumps(DUMP), "utf-8")
    return paths


def output(graph: Any) -> Any:
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    feeds = [x, WEIGHTS] if len(graph.inputs) == 2 else [x]
    (y,) = ird.run(graph, feeds).values()
    return y


def test_what_holds_a_graph_gives_it() -> None:
    g = ird.infer(ird.read(HEAD))
    low, raised, table = ird.lower(g), ird.raise_(g), ird.inspect(g)
    plan = ird.compile(g)
    assert graph_of(g) is g
    assert all(graph_of(m) is m.graph for m in (low, raised, table, plan))


@pytest.mark.parametrize("kind", ["xml", "onnx", "json", "ird"])
def test_files_and_bytes_of_each_format(files: dict[str, Path], kind: str) -> None:
    path = files[kind]
    data = path.read_bytes()
    assert kind_of(data[:256], "").format == kind
    expected = output(graph_of(files["xml"]))
    weights = path.with_suffix(".bin").read_bytes() if kind == "xml" else None
    nameless = path.rename(path.with_suffix(".model"))
    if kind == "xml":
        path.with_suffix(".bin").rename(path.with_name("net.model.bin"))
        weights_file = path.with_name("net.model.bin")
        graphs = [graph_of(nameless, weights_file), graph_of(data, weights)]
    else:
        graphs = [graph_of(nameless), graph_of(str(nameless)), graph_of(bytearray(data))]
    for graph in graphs:
        np.testing.assert_allclose(output(graph), expected, rtol=1e-6, atol=1e-6)


def test_models_in_memory() -> None:
    proto = deconv()
    before = proto.SerializeToString(deterministic=True)
    y = output(graph_of(proto))
    assert proto.SerializeToString(deterministic=True) == before
    np.testing.assert_array_equal(y, output(graph_of(before)))


@pytest.mark.oracles
def test_an_openvino_model_is_read_without_a_file_of_the_callers() -> None:
    model = pytest.importorskip("openvino").Core().read_model(str(HEAD))
    graph, expected = graph_of(model), graph_of(HEAD)
    x = {"image": np.full(expected.parameters[0].spec().shape, 0.5, np.float32)}
    for a, b in zip(ird.run(graph, x).values(), ird.run(expected, x).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(ird.UsageError, match="weights: an openvino"):
        graph_of(model, "x.bin")


def test_shapes_reach_the_importer() -> None:
    open_model = deconv(("n", 2, "h", "w"))
    for shapes in ({"x": (1, 2, 3, 3)}, {"": "1,2,3,3"}):
        assert graph_of(open_model, shapes=shapes).parameters[0].spec().shape == (1, 2, 3, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (7, "expected a model, got int: 7"),
        (None, "expected a model, got NoneType"),
        ({"x": 1}, "expected a model, got dict"),
        (np.zeros(3), "expected a model, got numpy.ndarray"),
        (Path, "expected a model, got type"),
    ],
)
def test_what_is_no_model_is_named(wrong: Any, message: str) -> None:
    with pytest.raises(ird.UsageError, match=message) as caught:
        graph_of(wrong)
    assert "openvino.Model" in str(caught.value)


def test_arguments_that_a_model_does_not_have(files: dict[str, Path]) -> None:
    graph = ird.read(files["xml"])
    for given, options, message in (
        (graph, {"weights": "a.bin"}, "weights: a graph that has been read"),
        (graph, {"semantics": "document"}, "semantics: a graph that has been read"),
        (files["ird"], {"weights": "a.bin"}, "weights: the text form holds"),
        (files["onnx"], {"weights": "a.bin"}, "an ONNX model contains its"),
        (deconv(), {"weights": "a.bin"}, "an ONNX model contains its"),
    ):
        with pytest.raises(ird.UsageError, match=message):
            graph_of(given, **options)


@pytest.mark.parametrize("kind", ["onnx", "json", "ird"])
def test_validate_reports_what_importers_find(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"bad.{kind}"
    path.write_bytes({"onnx": b"\x08\x09\x3a", "json": b'{"graph": ', "ird": b"graph 2"}[kind])
    (found,) = ird.validate(path)
    assert found.severity == "error"
    assert found.location.file == str(path)


def test_a_text_with_a_cycle_is_refused() -> None:
    text = """graph 1 "n" {
      %0 "a" = opset1.ReLU(%1)
      %1 "b" = opset1.ReLU(%0)
    }"""
    with pytest.raises(ird.InputError, match="cycle"):
        graph_of(text.encode())


def test_a_text_is_not_utf8() -> None:
    with pytest.raises(ird.InputError, match="byte 9 is not"):
        graph_of(b'graph 1 "\xff" {}')


@pytest.mark.parametrize("kind", ["xml", "onnx", "json", "ird"])
@pytest.mark.parametrize(
    "verb", ["validate", "infer", "lower", "raise", "inspect", "explain", "run", "compare"]
)
def test_verbs_take_every_format(files: dict[str, Path], verb: str, kind: str) -> None:
    answer(verb, files[kind])


def test_shape_of_an_open_onnx_input(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    onnx.save(deconv(("n", 2, "h", "w")), path)
    assert "f32[1,3,6,6]" in answer("infer", path, "--shape", "1,2,3,3").out


def test_an_output_does_not_overwrite_external_data(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    external = {"save_as_external_data": True, "location": "net.bin", "size_threshold": 0}
    onnx.save(deconv(), path, **external)
    err = answer("lower", path, "-o", tmp_path / "net.xml", code=2).err
    assert "would overwrite a file that" in err
    assert main(["lower", str(path), "-o", str(tmp_path / "low.xml")]) == 0


def test_constants_that_a_text_left_out_are_named_once(tmp_path: Path) -> None:
    graph = graph_of(ird.dump(HEAD, elide=0).encode())
    with pytest.raises(ird.UnsupportedError, match="and 4 more layers as well") as caught:
        ird.run(graph, np.zeros((1, 3, 32, 32)))
    (found,) = caught.value.diagnostics
    assert found.code == "E120"
    assert "elide=None" in str(found.hint)
    with pytest.raises(ird.InputError, match="was printed without its large constants"):
        ird.write(graph, tmp_path / "net.xml")
    assert ird.infer(graph).results[0].spec().shape == (1, 2, 32, 32)
