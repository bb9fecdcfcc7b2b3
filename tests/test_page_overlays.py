"""Numbers on the graph page: what the data say of each layer, and the ramp of their colours."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.show.layers import layers
from irdeconv.show.page_details import Overlay, memory
from support.layers import parameter, result

HEAD = "ir_samples/openvino/segmentation_head.xml"


def test_memory_is_that_of_outputs_and_constants() -> None:
    g = ird.infer(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    found = {facts.type: memory(facts) for facts in layers(g)}
    # 1x1x3x3 in, a 3x3 filter, 1x1x5x5 out; all f32.
    assert found["Parameter"] == 4 * 9
    assert found["Const"] == 4 * 9
    assert found["ConvolutionBackpropData"] == 4 * 25 + 4 * 9
    assert found["Result"] == 0


def test_unknown_sizes_are_none() -> None:
    g = Graph()
    y = Value(g.add(ReLU(), [parameter(g, (None, 4), np.float32, "x")], name="y").id)
    result(g, y)
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
    steps = [sign * float(b[0] - a[0]) for a, b in pairwise(points)]
    assert min(steps) > 0.04
