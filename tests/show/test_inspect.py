"""What inspection says of a model, and the listing."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.tables import scaled
from irdeconv.formats.reading import load
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Opaque
from irdeconv.ops.channels import Split
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from irdeconv.ops.elementwise import Add
from irdeconv.show.layers import value
from large_graphs import shared_constant, wide
from support import irbuild as ib
from support.commands import answer
from support.layers import begun, constant, parameter, result, sequential
from support.networks import network
from support.rows import each_row

# Inspection: numbers against hand-worked ones, every format, unfinished and hostile graphs.

HOSTILE = '"><script>alert(1)</script>\\" \n\x9b31m&amp;'


def net(size: Any = (6, 4), *, name: str = "net", opaque: bool = False) -> Graph:
    """Two deconvolutions that share a filter behind a Convert, the second one grouped."""
    g, x = begun((2, 3, *size), info=Info(name))
    half = constant(g, np.ones((3, 4, 3, 2), np.float16), "half")
    w = Value(g.add(REGISTRY["Convert", "opset1"](destination_type=f32), [half], name="w").id)
    op = ConvolutionBackpropData(strides=(2, 2), pads_begin=(1, 0), pads_end=(1, 0))
    y = Value(g.add(op, [x, w], name=f"{name} up").id)
    v = constant(g, np.ones((2, 2, 5, 1, 1), np.float32), "v")
    y = Value(g.add(GroupConvolutionBackpropData(strides=(1, 1)), [y, v], name="grouped").id)
    if opaque:
        y = Value(g.add(Opaque("Magic", "custom"), [y], name="magic").id)
    result(g, y, "out")
    return g


def test_numbers_of_a_deconvolution() -> None:
    up, grouped = ird.inspect(ird.infer(net())).deconvolutions
    assert (up.channels_in, up.channels_out, up.groups) == ("3", "4", "1")
    assert (up.kernel, up.strides, up.dilations) == ("3,2", "2,2", "1,1")
    # Height 2*(6-1)+3-2 = 11, width 2*(4-1)+2 = 8.
    assert (up.pads_begin, up.pads_end, up.output) == ("1,0", "1,0", "2,4,11,8")
    assert up.macs_direct == 2 * (6 * 4) * 3 * 4 * (3 * 2)
    assert up.macs_zero_insertion == 2 * (11 * 8) * 3 * 4 * (3 * 2)
    assert (grouped.channels_in, grouped.channels_out, grouped.groups) == ("4", "10", "2")
    assert grouped.macs_direct == grouped.macs_zero_insertion == 2 * (11 * 8) * 2 * 2 * 5
    assert up.attributes["strides"] == "2,2"


def test_layers_and_totals() -> None:
    i = ird.inspect(ird.infer(net()))
    rows = {r.name: r for r in i.layers}
    up = rows["net up"]
    assert [(i.name, str(i.spec)) for i in up.inputs] == [
        ("x", "f32[2,3,6,4]"),
        ("w", "f32[3,4,3,2]"),
    ]
    [out] = up.outputs
    assert str(out.spec) == "f32[2,4,11,8]"
    assert [(c.name, c.port) for c in out.consumers] == [("grouped", 0)]
    # The weights behind the Convert belong to the deconvolution, in the bytes that are stored.
    assert (up.parameters, up.bytes, up.deconvolution) == (72, 144, True)
    assert (rows["w"].parameters, rows["w"].constant) == (0, True)
    assert (i.totals.parameters, i.totals.bytes) == (72 + 20, 144 + 80)
    assert i.totals.macs == sum(d.macs_direct or 0 for d in i.deconvolutions)
    assert [r.type for r in i.summary][:2] == [
        "GroupConvolutionBackpropData",
        "ConvolutionBackpropData",
    ]


def test_a_shared_constant_counts_once() -> None:
    g, x = begun((1, 2, 4))
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    a = Value(g.add(ConvolutionBackpropData(), [x, w], name="a").id)
    result(g, Value(g.add(ConvolutionBackpropData(), [a, w], name="b").id))
    i = ird.inspect(ird.infer(g))
    assert i.totals.parameters == 12
    assert [r.parameters for r in i.layers if r.deconvolution] == [12, 12]


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("size", [(6, 4), (None, 4)])
@pytest.mark.parametrize("inferred", [False, True])
def test_unknown_macs_are_question_marks(opaque: bool, size: Any, inferred: bool) -> None:
    g = net(size, opaque=opaque)
    i = ird.inspect(ird.infer(g) if inferred else g)
    known = inferred and None not in size
    assert (next(r for r in i.layers if r.deconvolution).macs is not None) == known
    assert ("?" in str(i)) == (not known or opaque)
    assert (i.totals.unknown == 0) == (known and not opaque)
    json.dumps(i.to_dict(), allow_nan=False)
    assert i.to_dot()


def test_a_deconvolution_that_does_not_fit_says_why() -> None:
    w = np.ones((2, 2, 3), np.float32)
    g = sequential((1, 5, 4), ("a", ConvolutionBackpropData(), {"w": w}))
    for node, shape in ((0, (1, 5, 4)), (1, w.shape)):
        g.node(node).specs = (Spec(f32, shape),)
    [d] = ird.inspect(g).deconvolutions
    assert d.problem == "data has 5 channels, the filter wants 2"


def test_before_and_after_lowering() -> None:
    g = ird.infer(net())
    low = ird.lower(g)
    i = ird.inspect(g, low)
    assert i.to_dict() == ird.inspect(g, low.graph).to_dict()
    assert i.lowered.totals.deconvolutions == 0
    assert i.lowered.totals.macs == sum(d.macs_zero_insertion or 0 for d in i.deconvolutions)
    text = str(i)
    assert re.search(r"lowering +before +after +ratio", text)
    assert "zero-insertion MACs" in text
    assert i.to_dict()["lowered"]["totals"]["deconvolutions"] == 0


def test_json_keys() -> None:
    d = ird.inspect(ird.infer(net())).to_dict()
    assert d["schema"] == "irdeconv/inspect/2"
    assert set(d) == set(
        "schema name ir_version file inputs outputs totals layers summary deconvolutions".split()
    )
    assert set(d["layers"][0]) >= {"id", "name", "type", "version", "inputs", "outputs", "macs"}
    assert set(d["deconvolutions"][0]) >= {"pads_begin", "output", "macs_zero_insertion"}


def test_text_hides_constants_unless_asked() -> None:
    i = ird.inspect(ird.infer(net()))
    assert " Const " not in str(i)
    assert " Const " in i.to_text(constants=True)
    assert "* ConvolutionBackpropData" in str(i)
    assert all(line == line.rstrip() for line in str(i).splitlines())


DOT_LINE = re.compile(r'  n\d+ (-> n\d+ )?\[[^"]*("(?:[^"\\]|\\.)*"[^"]*)*\];')


def test_dot_is_well_formed_for_any_name() -> None:
    i = ird.inspect(ird.infer(net(name=HOSTILE)))
    lines = i.to_dot().splitlines()
    assert lines[0].startswith("digraph ")
    assert lines[-1] == "}"
    body = [line for line in lines[1:-1] if re.match(r"  n\d", line)]
    assert all(DOT_LINE.fullmatch(line) for line in body)
    shown = [r for r in i.layers if not r.constant]
    links = sum(n.parameters is None for r in shown for n in r.inputs)
    assert len(body) == len(shown) + links == 4 + 3
    assert sum("filter f16" in line or "filter f32" in line for line in body) == 2
    whole = [t for t in i.to_dot(constants=True).splitlines() if re.match(r"  n\d", t)]
    assert len(whole) == len(i.layers) + sum(len(r.inputs) for r in i.layers)
    assert all(DOT_LINE.fullmatch(line) for line in whole)
    assert "\x9b" not in i.to_dot()
    assert 'label="f32[2,3,6,4]"' in i.to_dot()
    assert sum('fillcolor="#ffd9a8"' in line for line in lines) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1 k"),
        (1234567, "1.23 M"),
        (2 * 10**15, "2000 T"),
        (None, "?"),
    ],
)
def test_scaled(value: int | None, text: str) -> None:
    assert scaled(value) == text


def test_sizes_beyond_64_bits() -> None:
    g, x = begun((1, 2, 2**63 - 1))
    size = parameter(g, (1,), np.int64, "size")
    op = ConvolutionBackpropData(strides=(2,), pads_begin=(1,), pads_end=(1,), dilations=(1,))
    w = constant(g, np.ones((2, 3, 3), np.float32), "w")
    result(g, Value(g.add(op, [x, w, size], name="deconv").id))
    for node in g.parameters:
        node.declared = (node.op.infer(),)  # type: ignore[assignment]
    g.node(w.node).declared = (Spec(f32, (2, 3, 3)),)
    assert "sizes and pads reach" in str(ird.inspect(g).to_dict())


def test_an_empty_graph() -> None:
    i = ird.inspect(Graph())
    assert i.totals.layers == 0
    assert str(i)
    assert i.to_dot()


# The text of an inspection: what a row says, that it fits, and which rows are shown.


def block(text: str, name: str) -> list[str]:
    """Return the lines of the layer of this name, without their indent."""
    lines = text.splitlines()
    start = next(
        i for i, line in enumerate(lines) if re.fullmatch(rf" *\d+  {re.escape(name)}", line)
    )
    following = (
        i for i, line in enumerate(lines[start + 1 :], start + 1) if not line[:3].isspace()
    )
    return [line.strip() for line in lines[start : next(following, None)]]


def small() -> Graph:
    """x -> conv -> Split -> relu, whose input has a name with a space; one piece is unused."""
    g, x = begun((1, 3, 8, 8), name="my input", info=Info("small"))
    w = constant(g, np.ones((64, 3, 3, 3), np.float32), "w")
    op = Convolution(strides=(2, 2), pads_begin=(1, 1), pads_end=(0, 0), dilations=(1, 1))
    y = Value(g.add(op, [x, w], name="conv").id)
    split = g.add(Split(num_splits=2), [y, constant(g, np.int64(1), "axis")], name="split")
    split.tensor_names = (("split",), ("second",))
    half = Value(g.add(ReLU(), [Value(split.id, 1)], name="relu").id)
    bias = constant(g, np.float32([[0.5], [-1e9]] * 2).reshape(1, 1, 4, 1), "bias")
    result(g, Value(g.add(Add(), [half, bias], name="add").id), "y")
    return ird.infer(g)


def test_rows() -> None:
    text = ird.inspect(small()).to_text()
    assert block(text, "conv") == [
        "2  conv",
        # 4 x 4 outputs of 64 channels; floor((8 + 1 - 3) / 2) + 1 = 4
        "Convolution  1.73 k  6.91 kB  27.6 k  f32[1,64,4,4]",
        'from 0 "my input" [1,3,8,8], w f32[64,3,3,3] 1,728',
        "with strides=2,2 pads_begin=1,1",
    ]
    assert block(text, "split")[1:] == [
        "Split             1      8 B          f32[1,32,4,4]",
        "from 2 conv [1,64,4,4], axis i64[]=1",
        "to nothing",
        "output 1 f32[1,32,4,4] to 5 relu",
        "with num_splits=2",
        "tensor second",
    ]
    assert block(text, "relu")[2] == "from 4 split:1 [1,32,4,4]"
    assert "bias f32[1,1,4,1]=0.5,-1e+09,0.5,-1e+09" in text


def test_a_large_graph_shows_a_summary_and_the_dearest_layers() -> None:
    i = ird.inspect(ird.infer(wide(50)))
    text = str(i)
    assert re.search(r"\nthe 20 of \d+ layers with the most MACs and bytes\n", text)
    assert len(re.findall(r"^ *\d+  \w", text, re.M)) == 20
    assert len(re.findall(r"^ *\d+  \w", i.to_text(everything=True), re.M)) == len(i.layers)


def test_bodies_are_counted() -> None:
    graph = load(ib.loop().encode(), b"").graph
    assert graph is not None
    assert "body of 3 layers" in block(str(ird.inspect(graph)), "ti")


def test_constants_have_rows_where_they_are_asked_for() -> None:
    text = ird.inspect(small()).to_text(constants=True)
    assert block(text, "w")[1] == "Const        1.73 k  6.91 kB          f32[64,3,3,3]"
    assert "1 w f32[64,3,3,3] 1,728" in text
    assert "to 4 split:1" in " ".join(block(text, "axis")) or "split" not in block(text, "axis")
    only = ird.inspect(small(), only="Const").to_text()
    assert block(only, "w")[0] == "1  w"
    assert "conv" not in only.split("type    count")[0].replace("to 2 conv:1", "")


def test_origins_of_what_lowering_made() -> None:
    g = ird.infer(network())
    text = str(ird.inspect(ird.lower(g).graph))
    assert "made of up" in block(text, "up/ZeroInsertion")
    assert "made of up" not in block(text, "up")


@pytest.mark.parametrize(
    "name", ["n" * 200, "a/very/long/scope/" * 3 + "name", "ü" * 30, "名" * 25]
)
def test_lines_fit_and_names_are_whole(name: str) -> None:
    g, x = begun((1, 2, 64, 64), name=name, info=Info(name))
    ys = [Value(g.add(ReLU(), [x], name=f"{name}{i}").id) for i in range(4)]
    long = Opaque("Custom", "v1", (("k", "v " * 90),), (Spec(None, (1,) * 60),))
    result(g, Value(g.add(long, ys, name=f"{name}x").id), name)
    text = str(ird.inspect(g))
    assert text.count(name) >= 13
    for line in text.splitlines():
        longest = max(re.findall(r"\S+", line), key=len, default="")
        assert len(line) <= 80 or name in longest or longest.startswith("?[1,1")


@each_row("length", range(66, 80))
def test_a_name_that_just_fits_gives_up_its_indent(length: int) -> None:
    name = "n" * length
    g = sequential((1, 2), (name, ReLU()), ("z", ReLU()), output="r")
    details = [line for line in str(ird.inspect(g)).splitlines() if name in line][1:]
    assert details
    assert max(map(len, details)) <= 80


def test_many_readers_and_producers_are_counted() -> None:
    text = ird.inspect(ird.infer(wide(50))).to_text(everything=True)
    assert "7 relu_6, 8 relu_7, and 42 more" in " ".join(block(text, "x"))
    assert "and 18 more" in " ".join(block(text, "cat"))
    assert len(str(ird.inspect(ird.infer(shared_constant(50))).to_text(constants=True))) < 9000


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([0, 2, 3, 1]), "=0,2,3,1"),
        (np.array(0.1, np.float32), "=0.1"),
        (np.array([True, False]), "=True,False"),
        (np.arange(9), ""),
        (np.full(8, 2**60), ""),  # too wide
    ],
)
def test_values_of_small_constants(array: np.ndarray, text: str) -> None:
    assert value(Spec.of(array)) == text


def test_strings_and_open_values_are_not_shown() -> None:
    assert value(Spec.of(np.array([1]), keep=False)) == ""
    assert value(Spec(None, (1,))) == ""


def names(i: ird.inspection.Inspection) -> list[str]:  # type: ignore[name-defined]
    return [r.name for r in i.shown]


def test_only_types_and_patterns() -> None:
    g = ird.infer(network())
    assert names(ird.inspect(g, only="Convolution")) == ["conv1", "conv2"]
    assert names(ird.inspect(g, only=["relu?", "Split"])) == ["relu1", "relu2", "split"]
    assert names(ird.inspect(g, only="conv[2-9]")) == ["conv2"]
    assert names(ird.inspect(g, only=["up", "conv1", "Convolution"])) == ["conv1", "conv2", "up"]
    one = ird.inspect(g, only="up")
    assert [d.name for d in one.deconvolutions] == ["up"]
    assert [r.type for r in one.summary] == ["ConvolutionBackpropData"]
    assert one.totals == ird.inspect(g).totals
    assert "; shown: 1 layer" in " ".join(str(one).split())
    assert [r["name"] for r in one.to_dict()["layers"]] == ["up"]


def test_a_name_with_brackets_stands_for_itself() -> None:
    g = sequential((2,), ("a[0]", ReLU()), ("a0", ReLU()))
    assert names(ird.inspect(g, only="a[0]")) == ["a[0]", "a0"]


def test_only_finds_what_was_made_of_a_layer() -> None:
    g = ird.infer(network())
    i = ird.inspect(g, ird.lower(g), only="ConvolutionBackpropData")
    assert names(i) == ["up"]
    assert {r.name for r in i.lowered.shown} >= {"up/ZeroInsertion", "up/Pad", "up"}
    assert "conv1" not in {r.name for r in i.lowered.shown}
    made = ird.inspect(g, ird.lower(g), only="ZeroInsertion")
    assert names(made) == []
    assert [r["name"] for r in made.to_dict()["lowered"]["layers"]] == ["up/ZeroInsertion"]
    assert "; shown: 0 layers" in " ".join(str(made).split())


def test_sort() -> None:
    g = ird.infer(network())
    by_id = {r.name: r.id for r in ird.inspect(g).layers}
    for order, key in (("macs", "macs"), ("bytes", "bytes"), ("params", "parameters")):
        rows = ird.inspect(g, sort=order).shown  # type: ignore[arg-type]
        numbers = [getattr(r, key) for r in rows]
        assert numbers == sorted(numbers, reverse=True)
        assert len(rows) == len(by_id)
        for a, b in pairwise(rows):
            assert getattr(a, key) > getattr(b, key) or a.id < b.id
    assert names(ird.inspect(g, sort="macs", only="Convolution")) == ["conv2", "conv1"]
    with pytest.raises(ird.UsageError, match='sort is "mac"; it is macs or bytes or params'):
        ird.inspect(g, sort="mac")  # type: ignore[arg-type]


def test_unknown_numbers_are_last() -> None:
    w = {"w": np.ones((2, 2, 3), np.float32)}
    g = sequential((1, 2, None), ("conv", REGISTRY["Convolution", "opset1"](), w))
    assert names(ird.inspect(ird.infer(g), sort="macs"))[-1] == "conv"


def test_the_verb(tmp_path: Path) -> None:
    path = str(tmp_path / "net.xml")
    ird.write(network(), path)
    document = answer("inspect", path, "--only", "conv*", "--sort", "macs", "--format", "json").json
    assert [r["name"] for r in document["layers"]] == ["conv2", "conv1"]
    text = answer("inspect", path, "--format", "ir", "--constants").out
    assert f"  // from conv1, b1; to relu1; {path}:" in text
    assert [n.name for n in ird.parse(text).nodes()] == [n.name for n in ird.read(path).nodes()]
