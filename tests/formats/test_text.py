"""The text form: what is printed is read back bit for bit, and errors point at their place."""

import re
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pytest

from irdeconv import InputError, dump, infer, lower, parse
from irdeconv.base.errors import OpError
from irdeconv.formats.document import MemoryWeights, NoWeights
from irdeconv.ir.constant import ArrayData, FileData
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32, i64
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import DYNAMIC, Interval, Spec
from irdeconv.ops.basic import Const, Opaque, Parameter, Section
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from support.layers import begun, constant, numbers, parameter, random_layer, sequential
from support.layers import build as build_layer
from support.rows import each_row, tables

TABLES = tables(__file__)

NAMES = ['quote "', "back\\slash", "new\nline", "tab\t", "ünï", "\u202e", "\x85", "", "%1", "// no"]


def again(g: Graph) -> Graph:
    """Print, parse, print: both texts must be equal, and every node stands behind its inputs."""
    text = dump(g)
    defined: set[str] = set()
    for line in text.splitlines()[1:-1]:
        node, inputs = re.match(r'  (%\d+) ".*?(?<!\\)" = [^(]*\(([^)]*)\)', line).groups()
        assert {i.split("#")[0] for i in inputs.split(", ") if i} <= defined
        defined.add(node)
    back = parse(text)
    assert dump(back) == text
    return back


def order(g: Graph) -> list[int]:
    """Return the ids in the order of the text."""
    return [int(i) for i in re.findall(r"^  %(\d+) ", dump(g), re.MULTILINE)]


def const_graph(op: Const) -> Graph:
    g = Graph()
    g.add(op, name="c", specs=(op.infer(),))
    return g


def test_names_with_any_characters() -> None:
    g = Graph(Info('a "model"\n', rt_info="<rt_info/>", file="f.xml", extra=(("k", "v"),)))
    for name in NAMES:
        node = g.add(Parameter((1,), f32), name=name)
        node.tensor_names = ((name, "other"),)
        xml = f"<rt_info>{escape(name)}</rt_info>"
        node.origins, node.rt_info, node.extra = (name,), xml, (("key", name),)
        node.port_rt_info = (("output", 0, xml),)
    back = again(g)
    assert back.info == g.info
    for a, b in zip(g.nodes(), back.nodes(), strict=True):
        assert (a.name, a.tensor_names, a.origins) == (b.name, b.tensor_names, b.origins)
        assert (a.rt_info, a.extra, a.port_rt_info) == (b.rt_info, b.extra, b.port_rt_info)


def test_ids_inputs_and_output_ports() -> None:
    g = Graph()
    x = g.add(Parameter((2, 4), f32), name="x", id=7)
    axis = g.add(Const(i64, (), ArrayData.of(np.array(1))), name="axis", id=3)
    split = g.add(REGISTRY["Split", "opset1"](num_splits=2), [Value(7), Value(3)], name="s", id=12)
    g.add(REGISTRY["Concat", "opset1"](axis=0), [Value(12, 1), Value(12, 0)], name="c")
    assert '%13 "c" = opset1.Concat(%12#1, %12)' in dump(g)
    back = again(infer(g))
    assert [n.id for n in back.nodes()] == [axis.id, x.id, split.id, 13]
    assert back.inputs_of(13) == (Value(12, 1), Value(12, 0))
    assert back.node(12).specs == infer(g).node(12).specs


def test_internal_attributes_and_every_kind_of_spec() -> None:
    g, x = begun((1, 3, None, 8))
    w = constant(g, np.ones((3, 2, 3, 3), np.float32), "w")
    node = g.add(ConvolutionBackpropData(strides=(2, 1), semantics="document"), [x, w], name="d")
    node.declared = (Spec(None, None),)
    node.declared_inputs = (Spec(f32, (1, Interval(2, 9), DYNAMIC, Interval(4, None))),)
    node.specs = (
        Spec(f32, (Interval(-5, 3), Interval(-4, None), 0)),
        Spec(i64, (2,), np.array([Interval(-(2**63), None), 3], object)),
        Spec(i64, (3,), np.array([1, 2, 3])),
        Spec(f32, (20,), np.arange(20, dtype=np.float32)),
    )
    back = again(g).node(node.id)
    assert back.op == node.op
    assert (back.declared, back.declared_inputs) == (node.declared, node.declared_inputs)
    assert [s.shape for s in back.specs or ()] == [s.shape for s in node.specs]
    assert list(back.spec(1).value) == list(node.spec(1).value)  # type: ignore[call-overload]
    assert np.array_equal(back.spec(3).value, node.spec(3).value)  # type: ignore[arg-type]


@each_row("shape", [(1,) * 65, (2**63, 1)])
def test_what_exceeds_limits_reads_back_for_inference_to_refuse(shape: tuple[int, ...]) -> None:
    g = Graph()
    parameter(g, shape, np.float32, "x")
    again(g)


def test_no_outputs_differs_from_not_inferred() -> None:
    g = Graph()
    g.add(Opaque("Sink", "inf"), name="a", specs=())  # which would be read as a number
    g.add(Opaque("inf", "opset1"), name="b")
    assert [n.specs for n in again(g).nodes()] == [(), None]
    assert [n.op.version for n in again(g).nodes()] == ["inf", "opset1"]


VALUES: list[tuple[str, Any]] = [
    ("f32", np.array([0.1, np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], np.float32)),
    ("f32", np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)),
    ("f64", np.array([0.1, 5e-324, -0.0, np.nan])),
    ("f16", np.array([65504, 6e-8, -0.0, np.inf], np.float16)),
    ("i64", np.array([2**63 - 1, -(2**63)])),
    ("u64", np.array([2**64 - 1], np.uint64)),
    ("boolean", np.array([[True], [False]])),
    ("u1", np.array([1, 0, 1], np.uint8)),
    ("i4", np.array([-8, 7, 0], np.int8)),
    ("u3", np.array([7, 0, 5], np.uint8)),
    ("string", np.array(["", 'a"\n', "ü"], object)),
    ("f32", np.zeros((0, 3), np.float32)),
    ("f32", np.float32(2.5)),
    ("f32", np.linspace(-1, 1, 100, dtype=np.float32).reshape(4, 25)),
    ("string", np.array([f"word {i}" for i in range(40)], object)),
]


@each_row(("name", "values"), VALUES)
def test_constants_are_bit_exact(name: str, values: Any) -> None:
    dtype, values = ELEMENT_TYPES[name], np.asarray(values)
    op = Const(dtype, values.shape, ArrayData.of(values, dtype))
    node = again(const_graph(op)).node(0)
    assert isinstance(node.op, Const)
    assert bytes(node.op.data.raw()) == bytes(op.data.raw())
    assert node.op.data.array().shape == values.shape
    assert node.spec().value.dtype == dtype.container


@each_row("name", ["bf16", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1"])
def test_every_small_float_is_bit_exact(name: str) -> None:
    dtype = ELEMENT_TYPES[name]
    count = 2 ** min(dtype.bits, 8)
    values = np.arange(count, dtype=np.uint8)
    wide = values.astype(np.uint16) * 257 if dtype.bits == 16 else values
    array = wide.view(dtype.container)
    for start in range(0, count, 13):
        part = array[start : start + 13]
        op = Const(dtype, part.shape, ArrayData.of(part, dtype))
        node = again(const_graph(op)).node(0)
        assert isinstance(node.op, Const)
        assert bytes(node.op.data.raw()) == op.data.raw()


def test_padding_bits_of_packed_constants_survive() -> None:
    raw = b"\xff"  # three u1 elements and five bits that mean nothing
    data = FileData(MemoryWeights(raw), 0, 1, ELEMENT_TYPES["u1"], (3,))
    node = again(const_graph(Const(ELEMENT_TYPES["u1"], (3,), data))).node(0)
    assert isinstance(node.op, Const)
    assert bytes(node.op.data.raw()) == raw


def test_missing_weights_stay_missing() -> None:
    data = FileData(NoWeights("lost.bin"), 64, 400, f32, (10, 10))
    node = again(const_graph(Const(f32, (10, 10), data))).node(0)
    assert isinstance(node.op, Const)
    assert not node.op.data.available
    assert 'missing("lost.bin", 64, 400)' in dump(const_graph(Const(f32, (10, 10), data)))


def test_opaque_operations_keep_everything() -> None:
    op = Opaque(
        "We ird-1",
        "com.custom.v1",
        (("k", 'v"'),),
        (Spec(f32, (1,)), Spec(i64, ())),
        (Section("some_body", "<some_body>ü</some_body>".encode()), Section("ü", "<ü/>".encode())),
        ArrayData.of(np.arange(99, dtype=np.uint8)),
        True,
    )
    g = Graph()
    g.add(op, name="loop")
    back = again(g).node(0).op
    assert isinstance(back, Opaque)
    assert (back.type, back.version, back.data, back.declared) == (
        op.type,
        op.version,
        op.data,
        op.declared,
    )
    assert (back.sections, back.stateful) == (op.sections, True)
    assert bytes(back.weights.raw()) == bytes(range(99))


def test_random_layers_before_and_after_lowering() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        layer = random_layer(rng)
        x = numbers(rng, layer.data_shape, np.float32)
        w = numbers(rng, layer.filter_shape, np.float32)
        g = infer(build_layer(layer, x, w, shape_source="const")[0])
        again(g)
        again(lower(g).graph)


def test_a_producer_of_higher_id_stands_in_front_of_its_first_user() -> None:
    g = Graph()
    g.add(Parameter((2,), f32), name="x", id=5)
    for ident, producer in ((9, 5), (7, 9), (4, 7), (6, 5), (8, 7)):
        g.add(REGISTRY["Abs", "opset1"](), [Value(producer)], name=f"n{ident}", id=ident)
    g.add(Parameter((2,), f32), name="last", id=1)
    assert order(again(g)) == [1, 5, 9, 7, 4, 6, 8]
    assert order(g.copy()) == order(g)


def test_layers_that_lowering_makes_stand_where_the_layer_stood() -> None:
    low = lower(parse(small())).graph
    ids = order(low)
    assert ids != sorted(ids)
    assert ids[0] == min(ids)
    assert ids[-1] == low.results[0].id  # read last, but with a lower id than what is new
    again(low)


def test_a_cycle_is_printed_as_well() -> None:
    g = Graph()
    g.add(Parameter((2,), f32), name="x")
    for ident in (1, 2):
        g.add(REGISTRY["Add", "opset1"](), [Value(0)], name=f"n{ident}")
    g.connect(Value(2), 1, 1)
    g.connect(Value(1), 2, 1)
    assert order(g) == [0, 2, 1]
    assert dump(parse(dump(g))) == dump(g)


@each_row(
    ("count", "options", "elided"),
    [
        (100, {"elide": 0}, True),
        (100, {"elide": 399}, True),
        (100, {"elide": 400}, False),
        (16, {"elide": 0}, False),  # few enough to be read
        (1 << 14, {}, False),
        ((1 << 14) + 1, {}, True),
        ((1 << 14) + 1, {"elide": None}, False),
    ],
)
def test_elided_constants_are_read_without_their_data(
    count: int, options: Any, elided: bool
) -> None:
    def text(last: int) -> str:
        values = np.arange(count, dtype=np.float32)
        values[-1] = last
        return dump(const_graph(Const(f32, (count,), ArrayData.of(values))), **options)

    assert (f"data = elided({4 * count}, " in text(1)) == elided
    assert text(1) == text(1) != text(2)
    if not elided:
        assert dump(parse(text(1)), **options) == text(1)
        return
    assert len(text(1)) < 300
    back = parse(text(1))
    assert dump(back) == text(1).replace("=data", "")
    (node,) = back.nodes()
    assert isinstance(node.op, Const)
    assert not node.op.data.available
    with pytest.raises(OpError, match="printed without its large constants"):
        node.op.data.array()


def small() -> str:
    up = ConvolutionBackpropData(strides=(2, 2))
    w = {"w": np.ones((3, 2, 3, 3), np.float32)}
    return dump(infer(sequential((1, 3, 4, 4), ("deconv", up, w))))


def test_comments_and_free_layout() -> None:
    text = small()
    loose = text.replace(" = ", "\n  =\n").replace("{\n", '{ // a comment % " { \n', 1)
    assert dump(parse(loose)) == text


def test_nodes_of_a_text_know_their_lines() -> None:
    node = parse(small(), file="net.irtext").find("deconv")[0]
    assert str(node.location) == "net.irtext:4:3"


BROKEN = [
    *TABLES["broken"],
    ("shape = [1, 3, 4, 4]", "shape = " + "[" * 500, "2:", "nested too deeply"),
    (" : f32[3,2,3,3]=data", " : " + "f32[" * 500, "3:", "nested too deeply"),
    (" : f32[3,2,3,3]=data", " : " + "f32[2]=" * 500, "3:", "nested too deeply"),
    ("shape = [1, 3, 4, 4]", "shape = [" + "9" * 5000 + "]", "2:", "more than 400 digits"),
]


# What a node without details may not be: %s stands for its fields.
@each_row(("fields", "message"), TABLES["broken_opaque"])
def test_nodes_without_details_are_checked(fields: str, message: str) -> None:
    text = 'graph 1 "m" {\n  %0 "a" = opaque opset1.Strange() {' + fields + "}\n}\n"
    with pytest.raises(InputError) as caught:
        parse(text)
    [d] = caught.value.diagnostics
    assert d.code == "E702"
    assert message in d.message
    assert (d.location.position or (0, 0)) >= (2, 35)


def test_what_an_operation_writes_itself_is_no_further_attribute() -> None:
    wanted = {"offset": "c", "element_type": "c", "shape": "x", "k": "x", "xml:lang": "x"}
    for name, node in wanted.items():
        g = Graph()
        parameter(g, (1,), np.float32, "x")
        constant(g, np.ones(3, np.float32), "c")
        g.find(node)[0].extra_data = ((name, "1"),)
        if name in ("k", "xml:lang"):
            again(g)
            continue
        with pytest.raises(InputError, match=f"the attribute {name} exists already"):
            parse(dump(g))


@each_row(("old", "new", "place", "message"), BROKEN)
def test_errors_have_line_and_column(old: str, new: str, place: str, message: str) -> None:
    text = small()
    assert old in text
    broken = new if not old else text.replace(old, new) if old != "}\n" else text + " x"
    with pytest.raises(InputError) as caught:
        parse(broken)
    [d] = caught.value.diagnostics
    assert (d.code, d.severity) == ("E702", "error")
    assert message in d.message
    assert str(d.location).startswith(f"<text>:{place}")
    assert d.location is not None
    assert d.location.position is not None
