"""What the page says of single layers, before a browser shows it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import bodies_of
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.show.page_details import HEIGHTS, HISTOGRAM_BINS, Budget, constant_detail, details_of
from support.body_models import iterator

HEAD = "ir_samples/openvino/segmentation_head.xml"


@pytest.fixture(scope="module")
def head() -> ird.Graph:
    return ird.infer(ird.read(HEAD))


def constant(values: object, dtype: object = np.float32) -> Const:
    array = np.array(values, dtype)
    data = ArrayData.of(array)
    return Const(data.dtype, array.shape, data)


def test_a_deconvolution_has_its_integers_and_costs(head: ird.Graph) -> None:
    told = details_of({"graph": head})
    up1 = told[f"graph/{next(iter(head.find('up1'))).id}"]
    assert up1["axes"] == [[8, 4, 2, 1, 1, 1, 0]] * 2
    assert up1["overlap"][0].startswith("Even: 4 taps")
    forms = {row["form"]: row for row in up1["costs"]}
    assert forms["gemm"]["refused"] == "the kernel [4, 4] is not the stride [2, 2]"
    # N M C/g (O K), as irdeconv/rewrite/cost.py derives it.
    assert forms["zero-insertion"]["macs"] == 16 * 8 * 16 * 16 * 4 * 4
    assert [row["form"] for row in up1["costs"] if row.get("chosen")] == ["stacked"]
    assert up1["explain"].startswith("up1: ConvolutionBackpropData (opset1), OpenVINO runtime")
    assert "first axis:" not in up1["explain"]  # it is drawn
    assert len(json.dumps(up1)) < 3000


def test_costs_come_from_the_report_where_it_has_them(head: ird.Graph) -> None:
    low = ird.lower(head, "auto", target="zero-insertion-hardware")
    page = ird.graph_page(head, low).to_dict()
    for layer in low.report:
        told = page["details"][f"before/{next(iter(head.find(layer.name))).id}"]
        assert [r["form"] for r in told["costs"] if r.get("chosen")] == [
            c.form for c in layer.costs if c.chosen
        ]


def test_layers_that_stay_are_told_once(head: ird.Graph) -> None:
    low = ird.lower(head, "phases")
    details = ird.graph_page(head, low.graph).to_dict()["details"]
    after = {int(k.split("/")[1]) for k in details if k.startswith("after/")}
    before = {int(k.split("/")[1]) for k in details if k.startswith("before/")}
    assert before
    assert not after & before


def test_defaults_are_those_of_the_operation(head: ird.Graph) -> None:
    defaults = details_of({"graph": head})["defaults"]
    assert defaults["ConvolutionBackpropData opset1"] == {"auto_pad": "explicit"}
    assert "Parameter opset1" not in defaults


def test_what_the_file_states_and_knows_of_a_layer() -> None:
    text = Path(HEAD).read_text("utf-8")
    layer = text.index('name="conv1" type="Convolution"')
    end = text.index("<input>", layer)
    info = '<rt_info><attribute name="fused_names" version="0" value="a &lt;b&gt;, c"/></rt_info>'
    text = text[:end] + info + text[end:]
    port = text.index("<output>", layer)
    text = text[:port] + text[port:].replace("<dim>32</dim>", "<dim>31</dim>", 1)
    graph = ird.read(text.encode(), weights=False)
    copy = graph.copy()
    infer_specs(copy)
    told = details_of({"graph": copy})
    found = told[f"graph/{next(iter(graph.find('conv1'))).id}"]
    assert found == {"declared": ["f32[1,8,31,32]"], "info": {"fused_names": "a <b>, c"}}


def test_long_words_in_quotes_end_quickly(head: ird.Graph) -> None:
    """Looked for from every letter of a word, fields would take minutes."""
    node = next(iter(head.find("conv1")))
    word = "x'" + "a" * 300_000
    node.rt_info = f'<rt_info><attribute name="n" version="0" value="{word}"/></rt_info>'
    assert "graph" in str(details_of({"graph": head}))


def test_layers_of_unknown_types_have_no_defaults() -> None:
    """Nor have those in bodies; nothing is known of the body of an unknown type."""
    spec = Spec.of(np.zeros((1, 2), np.float32)).without_value()
    odd = Opaque("Odd", "v", (("k", "1"),), (spec,), (Section("body", b"<body/>"),))
    text, _ = iterator("[0]", "[0]")
    g = ird.infer(ird.read(text.encode()))
    (node,) = g.nodes(type="TensorIterator")
    (body,) = bodies_of(node)
    body.graph.replace_op(2, odd)
    g.add(odd, [Value(0)], name="odd", specs=(spec,))
    told = details_of({"graph": g})
    assert not [kind for kind in told["defaults"] if kind.startswith("Odd")]
    page = ird.graph_page(g)
    layers = [n for graph in page.to_dict()["graphs"] for n in graph["nodes"]]
    assert [n["attributes"] for n in layers if n["type"] == "Odd"] == [{"k": "1"}] * 2
    assert "Odd" in page.to_html()


def test_a_small_constant_has_its_values() -> None:
    assert constant_detail(constant([1.5, -2, float("nan")]), Budget()) == {
        "values": "1.5, -2, nan"
    }
    assert constant_detail(constant(7, np.int64), Budget()) == {"values": "7"}
    assert constant_detail(constant(["a\n", "</script>"], object), Budget()) is not None


def test_a_larger_constant_is_summed_up() -> None:
    values = [0.0] * 30 + [1.0] * 10 + [float("inf"), float("nan")]
    found = constant_detail(constant(values), Budget())
    assert found is not None
    heights = found.pop("histogram")
    assert found == {"min": 0.0, "max": 1.0, "mean": 0.25, "zeros": 30, "odd": 2}
    assert len(heights) == HISTOGRAM_BINS
    assert (heights[0], heights[-1]) == ("z", HEIGHTS[-(-35 // 3)])
    assert set(heights[1:-1]) == {"0"}
    same = constant_detail(constant([3] * 20, np.int32), Budget())
    assert same == {"min": 3, "max": 3, "mean": 3.0}
    assert constant_detail(constant([float("nan")] * 20), Budget()) == {"odd": 20}


def test_what_is_too_large_is_not_read() -> None:
    budget = Budget(left=30)
    assert constant_detail(constant([1] * 20, np.int32), budget) is not None
    assert constant_detail(constant([1] * 20, np.int32), budget) is None
    assert constant_detail(constant([1] * 10, np.int32), budget) is not None


def test_the_numbers_are_json(head: ird.Graph) -> None:
    wide = constant(np.array([np.finfo(np.float64).max, -1e308] * 20), np.float64)
    json.dumps(constant_detail(wide, Budget()), allow_nan=False)
    json.dumps(details_of({"graph": head}), allow_nan=False)
