"""The JSON of an inspection: a graph can be built from it that is the same but for values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import InferenceError
from irdeconv.formats.reading import load
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval, Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Opaque, Section
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.ordering import TopK
from op_cases import all_cases
from support import irbuild as ib
from support.layers import build as build_layer
from support.layers import constant, numbers, parameter, random_layer, result
from support.networks import network
from support.rebuilt import rebuilt, skeleton

SAMPLES = Path(__file__).parents[1] / "ir_samples"
FORMS = ("zero-insertion", "phases", "stacked", "gemm")


def same(graph: Graph) -> None:
    """Rebuild a graph from its JSON text and compare the two as text."""
    document = json.loads(ird.inspect(graph).to_json())
    assert ird.dump(skeleton(rebuilt(document))) == ird.dump(skeleton(graph))


@pytest.mark.parametrize(
    "path", sorted(SAMPLES.rglob("*.xml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_samples(path: Path) -> None:
    graph = load(path).graph
    assert graph is not None
    same(graph)
    try:
        same(ird.infer(graph))
    except InferenceError:
        assert path.parent.name == "broken"


@pytest.mark.parametrize("form", FORMS)
def test_networks_before_and_after_lowering(form: str) -> None:
    rng = np.random.default_rng(11)
    graphs = [network()]
    for _ in range(8):
        layer = random_layer(rng)
        x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
        graphs.append(build_layer(layer, x, w, shape_source="computed")[0])
    for graph in graphs:
        same(ird.infer(graph))
        same(ird.lower(graph, form).graph)


def test_every_operation() -> None:
    rows = all_cases()
    for name, row in rows.items():
        op, _ = row.build()
        graph = Graph(Info(name))
        inputs = []
        for n, tensor in enumerate(row.inputs):
            node = graph.add(
                REGISTRY["Parameter", "opset1"](tensor.spec.shape, tensor.dtype), name=f"{n}"
            )
            inputs.append(Value(node.id))
        node = graph.add(op, inputs, name="op")
        node.specs = tuple(t.spec for t in row.outputs)
        for port in range(len(row.outputs)):
            result(graph, Value(node.id, port), f"y{port}")
        same(graph)


@pytest.mark.parametrize(
    ("xml", "key"),
    [
        (ib.loop(), "bodies"),
        (ib.loop().replace("TensorIterator", "Mystery"), "sections"),
        (ib.state(), None),
    ],
    ids=["loop", "unknown", "state"],
)
def test_bodies_and_state(xml: str, key: str | None) -> None:
    graph = load(xml.encode(), b"\0\0\0\0").graph
    assert graph is not None
    same(graph)
    found = [{"bodies", "sections"} & set(r) for r in ird.inspect(graph).to_dict()["layers"]]
    assert [key] * (key is not None) == [k for keys in found for k in keys]


def test_what_attributes_do_not_spell() -> None:
    """Fields that the IR has no attribute for, open shapes, XML that only a file has."""
    g = Graph(Info("net", 10, rt_info="<rt_info/>", extra=(("k", "v"),)))
    x = parameter(g, (1, 2, None, None), np.float32, "x")
    g.node(x.node).specs = (Spec(f32, (1, 2, Interval(3, 9), Interval(0, None))),)
    w = constant(g, np.ones((2, 3, 3, 3), np.float32), "w")
    up = g.add(ConvolutionBackpropData(semantics="document"), [x, w], name="up")
    up.specs = (Spec(f32, None),)
    up.rt_info, up.port_rt_info = "<rt_info><a/></rt_info>", (("input", 1, "<rt_info/>"),)
    up.tensor_names, up.extra = (("a", "b"),), (("output_names", "z"),)
    top = TopK(axis=1, mode="max", sort="value", index_element_type=ELEMENT_TYPES["i64"])
    node = g.add(top, [Value(up.id), constant(g, np.int64(1), "k")], name="top")
    node.specs = (Spec(f32, None), Spec(None, (4,)))
    odd = Opaque("Odd", "v", (("k", 'v"'),), (Spec(f32, ()),), (Section("body", b"<b>\xff</b>"),))
    g.add(odd, [Value(node.id, 1)], name="odd")
    result(g, Value(node.id), "y")
    same(g)
    row = ird.inspect(g).to_dict()["layers"][2]
    assert row["fields"] == {"semantics": "document"}
    assert row["outputs"][0]["shape"] is None
    assert ird.inspect(g).to_dict()["layers"][0]["outputs"][0]["shape"] == [1, 2, "3..9", "?"]


def test_ends_are_in_order() -> None:
    g = Graph()
    for name in "bac":
        y = parameter(g, (2,), np.float32, name)
        result(g, Value(g.add(ReLU(), [y], name=f"{name}/relu").id), f"{name}/out")
    d = ird.inspect(g).to_dict()
    assert [i["name"] for i in d["inputs"]] == ["b", "a", "c"]
    assert [o["name"] for o in d["outputs"]] == ["b/out", "a/out", "c/out"]
    assert [o["id"] for o in d["outputs"]] == [n.id for n in g.results]


def test_places_and_declarations() -> None:
    xml = ib.net(
        [ib.parameter(0, "x"), ib.relu(1, "r"), ib.result(2, "y")], (0, 0, 1, 0), (1, 1, 2, 0)
    )
    xml = xml.replace(
        '<port id="1" precision="FP32"><dim>2</dim>', '<port id="1" precision="FP32"><dim>7</dim>'
    )
    graph = load(xml.encode(), b"").graph
    assert graph is not None
    relu = ird.inspect(ird.infer(graph)).to_dict()["layers"][1]
    assert relu["outputs"][0]["shape"] == [2, 3]
    assert relu["outputs"][0]["declared"] == {"element_type": "f32", "shape": [7, 3]}
    assert xml.splitlines()[relu["line"] - 1].startswith('<layer id="1" name="r"')


def test_a_layer_stands_on_a_line() -> None:
    text = ird.inspect(ird.infer(network()), ird.lower(network())).to_json()
    document = json.loads(text)
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    for layer in (*document["layers"], *document["lowered"]["layers"]):
        assert json.dumps(layer) in lines
