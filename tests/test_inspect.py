"""Inspection: numbers against hand-worked ones, every format, unfinished and hostile graphs."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.tables import scaled
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Opaque
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData, GroupConvolutionBackpropData
from support.layers import constant, parameter, result

HOSTILE = '"><script>alert(1)</script>\\" \n\x9b31m&amp;'


def net(size: Any = (6, 4), *, name: str = "net", opaque: bool = False) -> Graph:
    """Two deconvolutions that share a filter behind a Convert, the second one grouped."""
    g = Graph(Info(name))
    x = parameter(g, (2, 3, *size), np.float32, "x")
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
    i = ird.inspect(ird.infer(net()))
    up, grouped = i.deconvolutions
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
    g = Graph()
    x = parameter(g, (1, 2, 4), np.float32, "x")
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
    up = next(r for r in i.layers if r.deconvolution)
    assert (up.macs is not None) == known
    assert ("?" in str(i)) == (not known or opaque)
    assert (i.totals.unknown == 0) == (known and not opaque)
    json.dumps(i.to_dict(), allow_nan=False)
    assert i.to_dot()


def test_a_deconvolution_that_does_not_fit_says_why() -> None:
    g = Graph()
    x = parameter(g, (1, 5, 4), np.float32, "x")
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    result(g, Value(g.add(ConvolutionBackpropData(), [x, w], name="a").id))
    x_node = g.node(x.node)
    x_node.specs = (Spec(f32, (1, 5, 4)),)
    g.node(w.node).specs = (Spec(f32, (2, 2, 3)),)
    [d] = ird.inspect(g).deconvolutions
    assert d.problem == "data has 5 channels, the filter wants 2"


def test_before_and_after_lowering() -> None:
    g = ird.infer(net())
    low = ird.lower(g)
    i = ird.inspect(g, low)
    assert i.to_dict() == ird.inspect(g, low.graph).to_dict()
    assert i.lowered is not None
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
    g = Graph()
    x = parameter(g, (1, 2, 2**63 - 1), np.float32, "x")
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
