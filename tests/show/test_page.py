"""The graph page: its data, details, overlays and values."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.show.drawn import difference
from irdeconv.show.layers import layers
from irdeconv.show.page import SCRIPTS, STYLES, json_text, packed
from irdeconv.show.page_details import (
    HEIGHTS,
    HISTOGRAM_BINS,
    LEVELS,
    PICTURE_BYTES,
    ArrayStatistics,
    Budget,
    Overlay,
    TensorValues,
    ValueCollector,
    array_statistics,
    constant_detail,
    details_of,
    encoded,
    memory,
    picture,
)
from irdeconv.show.systems import SYSTEMS
from shown import HEAD, data_of
from support.body_models import iterator
from support.layers import begun, constant, result, sequential
from support.memory import peak_of
from support.rows import each_row

# The graph page before a browser sees it: its parts, what changed, text that stays text.

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>&amp;\"'\\",
    "\u2028\u2029\u202e\x1b[31m\x00",
    "\ud800",
    "__proto__",
    "",
)


class Tags(HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def chain(names: tuple[str, ...]) -> Graph:
    g, y = begun((1, 2, 4), name=names[0])
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    for name in names[1:]:
        y = Value(g.add(ConvolutionBackpropData(strides=(2,)), [y, w], name=name).id)
    result(g, y)
    return ird.infer(g)


def test_names_stay_text() -> None:
    page = ird.graph_page(chain(HOSTILE)).to_html()
    found = Tags()
    found.feed(page)
    assert found.tags.count("script") == 2
    assert "img" not in found.tags
    names = [n["name"] for n in data_of(page)["graphs"][0]["nodes"]]
    assert [n for n in names if n in HOSTILE] == [n for n in HOSTILE if n != "\ud800"]
    assert "\ufffd" in names  # a lone surrogate has no UTF-8
    assert page.encode("utf-8")


def test_the_policy_has_the_hashes_of_style_and_script_and_nothing_else() -> None:
    page = ird.graph_page(HEAD).to_html()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert text
        digest = base64.b64encode(hashlib.sha256(text.group(1).encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy.group(1)
    assert policy.group(1).startswith("default-src 'none'; ")
    assert "unsafe" not in policy.group(1)


def test_no_inline_handlers_styles_or_addresses() -> None:
    found = Tags()
    found.feed(ird.graph_page(HEAD).to_html())
    keys = {k for k, _ in found.attributes}
    assert not {k for k in keys if k.startswith("on")} | keys & {"style", "src", "href", "action"}


def test_every_asset_is_used() -> None:
    names = {f.name for f in files("irdeconv.show").joinpath("assets").iterdir()}
    batch = {"batch.html", "batch.css", "batch.js"}
    assert names == {"page.html", "anatomy.css", *batch, *SCRIPTS, *STYLES}


def test_data_has_nothing_that_ends_a_script() -> None:
    text = json_text({"a": "</script><!--\u2028\u2029&"})
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == {"a": "</script><!--\u2028\u2029&"}


def test_what_is_said_again_is_written_once() -> None:
    scene = {
        "boxes": {"lines": [["A"], ["A"]], "x": [3, 3], "y": [7, 7]},
        "links": {"points": [[1, 2, 1, 9], [1, 2, 5, 5]], "node": [0, 1]},
    }
    one, two = {"id": 1, "name": "a", "type": "A"}, {"id": 2, "name": "b", "type": "A"}
    before = {"key": "before", "nodes": [one, two], "scene": {"scenes": [scene]}}
    after = {"key": "after", "nodes": [one, {**two, "name": "c"}], "scene": {"scenes": []}}
    data = packed({"graphs": [before, after]})
    assert data["shared"] == [["A", None, None], ["A"], [0, 7], [4, 3]]
    assert data["graphs"][1]["nodes"] == [1, {"id": 2, "name": "c", "op": 0}]
    assert data["graphs"][0]["scene"]["scenes"] == [
        {
            "boxes": {"lines": 1, "x": [3, 3], "y": 7},
            "links": {"x": [1, 1], "y": 2, "steps": [2, 3], "node": [0, 1]},
        }
    ]
    assert before["nodes"] == [one, two]  # what was given stays as it is


def test_what_lowering_changes() -> None:
    before = ird.infer(ird.read(HEAD))
    after, report = ird.lower(before, "stacked")
    found = difference(before, after)
    assert [g.title for g in found.groups] == [r.name for r in report]
    for group in found.groups:
        source, *filters = (before.node(i) for i in group.before)
        assert source.op.deconvolution
        assert found.before[source.id] == "rewritten"
        assert all(found.before[n.id] == "removed" for n in filters)
        kinds = [found.after[i] for i in group.after]
        assert kinds.count("rewritten") == 1
        assert after.node(group.after[kinds.index("rewritten")]).name == source.name
    stayed = {n.id for n in before.nodes()} - found.before.keys()
    assert stayed == {n.id for n in after.nodes()} - found.after.keys()


def test_two_files_are_compared_by_names(tmp_path: Any) -> None:
    ird.write(ird.lower(HEAD), tmp_path / "low.xml")
    page = ird.graph_page(HEAD, tmp_path / "low.xml")
    assert [c.title for c in page.changes] == ["up1", "up2"]
    assert all(c.before and len(c.after) > 1 for c in page.changes)


def test_layers_of_one_name_are_told_apart() -> None:
    g = chain(("x", "up", "up"))
    for node in g.nodes():
        node.location = ird.read(HEAD).node(node.id).location
    found = difference(g, ird.lower(g).graph)
    assert len(found.groups) == 2
    assert not set(found.groups[0].after) & set(found.groups[1].after)


def test_a_graph_that_stays_has_no_changes() -> None:
    g = ird.infer(ird.read(HEAD))
    found = difference(g, g.copy())
    assert (found.before, found.after, found.groups) == ({}, {}, [])


def test_an_empty_graph_has_a_page() -> None:
    assert data_of(ird.graph_page(Graph()).to_html())["graphs"][0]["nodes"] == []


def test_a_graph_that_was_just_built_has_shapes() -> None:
    page = ird.graph_page(sequential((1, 3, 4, 4), ("relu", ReLU())))
    assert "f32[1,3,4,4]" in page.to_html()


def test_inspect_writes_a_page(tmp_path: Any) -> None:
    target = tmp_path / "page.html"
    assert main(["inspect", HEAD, "--lower", "--format", "html", "-o", str(target)]) == 0
    data = data_of(target.read_text("utf-8"))
    assert [g["key"] for g in data["graphs"]] == ["before", "after"]
    assert [c["form"] for c in data["changes"]] == ["zero-insertion"] * 2


def test_lower_writes_a_page_with_the_certificates(tmp_path: Any) -> None:
    target = tmp_path / "page.html"
    assert main(["lower", HEAD, "--certify", "--report", str(target), "--form", "phases"]) == 0
    changes = data_of(target.read_text("utf-8"))["changes"]
    assert [c["form"] for c in changes] == ["phases"] * 2
    assert all(c["certificate"].startswith("proved up") for c in changes)


@pytest.mark.parametrize("report", [HEAD, "-", "out.json"])
def test_a_report_overwrites_nothing(report: str) -> None:
    assert main(["lower", HEAD, "--certify", "out.json", "--report", report]) == 2


# What the page says of single layers, before a browser shows it.


@pytest.fixture(scope="module")
def head() -> ird.Graph:
    return ird.infer(ird.read(HEAD))


def constant_row(values: object, dtype: object = np.float32) -> Const:
    array = np.array(values, dtype)
    data = ArrayData.of(array)
    return Const(data.dtype, array.shape, data)


def test_a_deconvolution_has_its_integers_and_costs(head: ird.Graph) -> None:
    up1 = details_of({"graph": head})[f"graph/{next(iter(head.find('up1'))).id}"]
    assert up1["axes"] == [[8, 4, 2, 1, 1, 1, 0]] * 2
    opened = ird.graph_page(ird.infer(ird.read("ir_samples/openvino/dynamic.xml")))
    assert opened.title == "dynamic.xml"
    (row,) = (d["axes"] for d in opened.details.values() if "axes" in d)
    assert row == [["3..9", 4, 2, 1, 1, 1, 0], ["?", 4, 2, 1, 1, 1, 0]]
    assert up1["overlap"][0].startswith("Even: 4 taps")
    forms = {row["form"]: row for row in up1["costs"]}
    assert forms["gemm"]["refused"] == "the kernel [4, 4] is not the stride [2, 2]"
    # N M C/g (O K), as docs/forms.md has it.
    assert forms["zero-insertion"]["macs"] == 16 * 8 * 16 * 16 * 4 * 4
    assert [row["form"] for row in up1["costs"] if row.get("chosen")] == ["stacked"]
    assert up1["explain"].startswith(f"up1: 1 of {len(SYSTEMS)} systems differ (TensorFlow VALID)")
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
    found = details_of({"graph": copy})[f"graph/{next(iter(graph.find('conv1'))).id}"]
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
    assert constant_detail(constant_row([1.5, -2, float("nan")]), Budget()) == {
        "values": "1.5, -2, nan"
    }
    assert constant_detail(constant_row(7, np.int64), Budget()) == {"values": "7"}
    assert constant_detail(constant_row(["a\n", "</script>"], object), Budget()) is not None


def test_a_larger_constant_is_summed_up() -> None:
    values = [0.0] * 30 + [1.0] * 10 + [float("inf"), float("nan")]
    found = constant_detail(constant_row(values), Budget())
    heights = found.pop("histogram")
    assert found == {"min": 0.0, "max": 1.0, "mean": 0.25, "zeros": 30, "odd": 2}
    assert len(heights) == HISTOGRAM_BINS
    assert (heights[0], heights[-1]) == ("z", HEIGHTS[-(-35 // 3)])
    assert set(heights[1:-1]) == {"0"}
    same = constant_detail(constant_row([3] * 20, np.int32), Budget())
    assert same == {"min": 3, "max": 3, "mean": 3.0}
    assert constant_detail(constant_row([float("nan")] * 20), Budget()) == {"odd": 20}


def test_what_is_too_large_is_not_read() -> None:
    budget = Budget(left=30)
    assert constant_detail(constant_row([1] * 20, np.int32), budget) is not None
    assert constant_detail(constant_row([1] * 20, np.int32), budget) is None
    assert constant_detail(constant_row([1] * 10, np.int32), budget) is not None


def test_the_numbers_are_json(head: ird.Graph) -> None:
    wide = constant_row(np.array([np.finfo(np.float64).max, -1e308] * 20), np.float64)
    json.dumps(constant_detail(wide, Budget()), allow_nan=False)
    json.dumps(details_of({"graph": head}), allow_nan=False)


# Numbers on the graph page: what the data say of each layer, and the ramp of their colours.


def test_memory_is_that_of_outputs_and_constants() -> None:
    g = ird.infer(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    found = {facts.type: memory(facts) for facts in layers(g)}
    # 1x1x3x3 in, a 3x3 filter, 1x1x5x5 out; all f32.
    assert found["Parameter"] == 4 * 9
    assert found["Const"] == 4 * 9
    assert found["ConvolutionBackpropData"] == 4 * 25 + 4 * 9
    assert found["Result"] == 0


def test_unknown_sizes_are_none() -> None:
    g = sequential((None, 4), ("y", ReLU()))
    (node,) = (n for n in ird.graph_page(ird.infer(g)).graphs[0].nodes if n["name"] == "y")
    assert node["memory"] is None


def test_macs_memory_and_parameters_are_always_there() -> None:
    data = ird.graph_page(HEAD).to_dict()
    assert [o["fact"] for o in data["overlays"]] == ["macs", "memory", "parameters"]
    for node in data["graphs"][0]["nodes"]:
        assert node.get("memory", 0) >= 0


def test_numbers_become_json() -> None:
    values = {
        "graph/1": math.inf,
        "graph/2": math.nan,
        "graph/3": 1 / 3,
        "graph/4": 7,
        "graph/5": None,
    }
    shown = Overlay(key="k", title="t", values=values).to_dict()
    assert list(shown["values"].values()) == ["Infinity", None, 0.3333, 7, None]
    assert shown.keys() == {"key", "title", "scale", "values"}


def oklab(colour: str) -> np.ndarray:
    """Return Oklab coordinates of #rrggbb, by the matrices of its definition over XYZ."""
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750]]
    xyz = np.array([*to_xyz, [0.0193339, 0.1191920, 0.9503041]]).dot(c)
    m1 = [[0.8189330, 0.3618667, -0.1288597], [0.0329845, 0.9293119, 0.0361456]]
    lms = np.cbrt(np.array([*m1, [0.0482003, 0.2643663, 0.6338517]]).dot(xyz))
    m2 = [[0.2104543, 0.7936178, -0.0040720], [1.9779985, -2.4285922, 0.4505937]]
    return np.array([*m2, [0.0259040, 0.7827718, -0.8086758]]).dot(lms)


@pytest.mark.parametrize(("theme", "sign"), [("light", -1), ("dark", 1)])
def test_the_ramp_is_even_and_its_lightness_alone_tells_the_order(theme: str, sign: int) -> None:
    text = files("irdeconv.show").joinpath("assets", "ramp.js").read_text("utf-8")
    line = re.search(rf"{theme}: \[(.*?)\]", text)
    assert line
    points = [oklab(c) for c in re.findall(r"#[0-9a-f]{6}", line.group(1))]
    lengths = [float(np.linalg.norm(b - a)) for a, b in pairwise(points)]
    assert max(lengths) / min(lengths) < 1.1
    assert min([sign * float(b[0] - a[0]) for a, b in pairwise(points)]) > 0.04


# Values of a run on the graph page: statistics by hand, pictures, and that they stay small.


def test_statistics_by_hand() -> None:
    seen = TensorValues.of(np.array([0.0, 1.0, 3.0, np.nan, np.inf, -np.inf], np.float32))
    assert (seen.low, seen.high, seen.mean) == (0.0, 3.0, pytest.approx(4 / 3))
    assert (seen.nan, seen.infinite, seen.zeros, seen.non_finite) == (1, 2, 1, 3)
    assert sum(seen.bins) == 3
    # 0 is in the first bin, 1 in that from 31/32 on, 3 in the last one.
    assert [i for i, n in enumerate(seen.bins) if n] == [0, 10, 31]


def test_histograms_agree_with_numpy() -> None:
    x = np.random.default_rng(5).standard_normal(1000)
    assert list(TensorValues.of(x).bins) == np.histogram(x, 32)[0].tolist()


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
        shown.values.sum(where=True), sum(x[0, 0, 0, a:b].mean() for a, b in pairwise(edges))
    )


def test_a_pixel_is_marked_where_anything_in_it_is_not_finite() -> None:
    x = np.ones((1, 1, 128, 128))
    x[0, 0, 5, 7] = np.inf
    shown = picture(x)
    assert shown is not None
    pixels = np.frombuffer(encoded(shown), np.uint8).reshape(64, 64)
    assert np.argwhere(pixels == 0).tolist() == [[2, 3]]


@each_row(
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
    assert (shown.kind, shown.axes, shown.values.shape) == (kind, axes, size)


def test_scalars_have_no_picture() -> None:
    assert picture(np.ones(())) is None


def test_many_pictures_stay_within_the_limit() -> None:
    g = sequential((1, 16, 64, 64), *((f"r{at}", ReLU()) for at in range(60)))
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


@each_row("pair", HARD)
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
    seen, peak = peak_of(lambda: TensorValues.of(x))
    assert peak < 3 << 20  # the numbers as float64 are 4.8 MB
    finite = x[np.isfinite(x)].astype(np.float64)
    assert (seen.low, seen.high) == (finite.min(), finite.max())
    assert seen.mean == pytest.approx(finite.mean(), rel=1e-9)
    assert (seen.nan, seen.infinite, sum(seen.bins)) == (1, 1, x.size - 2)
    assert list(seen.bins) == np.histogram(finite, 32)[0].tolist()
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
