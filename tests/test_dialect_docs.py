"""docs/dialects.md is true: its layers are read, its samples and numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import irdeconv as ird
import irdeconv.dialects
from irdeconv.op import REGISTRY, parse_attributes
from irdeconv.ops import core

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/dialects.md").read_text("utf-8")
LAYERS = re.findall(r"^```xml\n(.*?)^```$", TEXT, re.M | re.S)
SAMPLES = re.findall(r"`(ir_samples/[\w/]+\.xml)`", TEXT)
SIZES = ["447,447", "8,7", "10,8", "8,10", "5,5"]


def test_every_dialect_has_an_example() -> None:
    assert len(LAYERS) == len(SAMPLES) == len(SIZES)


@pytest.mark.parametrize(("xml", "sample", "size"), list(zip(LAYERS, SAMPLES, SIZES, strict=True)))
def test_an_example_is_its_sample(xml: str, sample: str, size: str) -> None:
    layer = ElementTree.fromstring(xml)
    data = layer.find("data")
    assert data is not None
    cls = REGISTRY[layer.attrib["type"], layer.attrib["version"]]
    values, problems = parse_attributes(cls, data.attrib)
    assert problems == []
    graph = ird.read(ROOT / sample)
    (node,) = [n for n in graph.nodes() if n.name == "deconv"]
    assert node.op == cls(**values)
    (explained,) = ird.explain(graph).layers
    assert explained.crop is not None
    assert ",".join(map(str, explained.crop.size)) == size


def test_every_version_is_named() -> None:
    versions = {v for (type, v) in REGISTRY if type in ("ConvTranspose", "Deconvolution")} - {
        core.VERSION
    }
    assert [v for v in versions if f"`{v}`" not in TEXT] == []


def test_its_commands_name_samples() -> None:
    commands = re.findall(r"^    irdeconv explain (\S+)", TEXT, re.M)
    assert len(commands) == 3
    assert [c for c in commands if not (ROOT / c).exists()] == []
