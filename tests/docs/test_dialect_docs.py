"""docs/dialects.md is true: its layers are read, its samples and numbers are those of the code."""

import re
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import irdeconv as ird
import irdeconv.ops.dialects
from irdeconv.ir import geometry
from irdeconv.ir.geometry import IntVector, WindowTerms
from irdeconv.ir.op import REGISTRY, parse_attributes
from irdeconv.ops import core
from support.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/dialects.md").read_text("utf-8")
LAYERS = re.findall(r"^```xml\n(.*?)^```$", TEXT, re.M | re.S)
SAMPLES = re.findall(r"`(ir_samples/[\w/]+\.xml)`", TEXT)
SIZES = ["447,447", "8,7", "10,8", "8,10", "5,5"]


def test_every_dialect_has_an_example() -> None:
    assert len(LAYERS) == len(SAMPLES) == len(SIZES)


@each_row(("xml", "sample", "size"), list(zip(LAYERS, SAMPLES, SIZES, strict=True)))
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


SYSTEMS = {
    "OpenVINO": geometry.openvino,
    "oneDNN Graph": geometry.onednn,
    "ONNX": geometry.onnx,
    "TensorRT": geometry.tensorrt,
}


def rows() -> list[tuple[str, str, bool, str, str, str]]:
    """Return the table of rules: system, mode, with output_shape or not, O, T, pb."""
    table = TEXT.split("| system | rule | O | T | pb |\n|---|---|---|---|---|\n")[1].split("\n\n")[
        0
    ]
    found = []
    for line in table.splitlines():
        system, rule, size, total, begin = (cell.strip() for cell in line.split("|")[1:-1])
        modes = re.findall(r"`(\w+)`", rule)
        found += [(system, m, "output_shape" in rule, size, total, begin) for m in modes]
    return found


def numbers(row: tuple[str, str, bool, str, str, str], **given: int) -> tuple[int, int]:
    """Return what the formulas of a row say: O and pb."""
    _, _, _, size, total, begin = row
    scope: dict[str, int] = {**given}
    for name, text in (("T", total), ("O", size)) if "T" in size else (("O", size), ("T", total)):
        scope[name] = eval(text or "0", {"max": max, "min": min}, scope)
    halves = {"smaller half": scope["T"] // 2, "larger half": scope["T"] - scope["T"] // 2}
    return scope["O"], halves[begin] if begin in halves else eval(begin, {}, scope)


@each_row("row", rows())
def test_the_formulas_are_those_of_the_code(row: tuple[str, str, bool, str, str, str]) -> None:
    system, mode, shaped = row[:3]
    for i, k, s, d, op, pad, o in product(
        (1, 4), (1, 3, 4), (1, 3), (1, 2), (0, 1), (0, 2), (3, 9)
    ):
        op = 0 if system == "TensorRT" else op
        dk = d * (k - 1) + 1
        given = {"I": i, "S": s, "DK": dk, "FULL": s * (i - 1) + dk, "op": op}
        given |= {"pads_begin": pad, "pads_end": 1, "output_shape": o}
        size, begin = numbers(row, **given)
        axis = {name: IntVector((v,)) for name, v in (("size", i), ("kernel", k))}
        terms = WindowTerms(
            **axis,
            strides=IntVector((s,)),
            dilations=IntVector((d,)),
            pads_begin=IntVector((pad,)),
            pads_end=IntVector((1,)),
            output_padding=IntVector((op,)),
            output_shape=IntVector((o,)) if shaped else None,
        )
        window = SYSTEMS[system](mode, terms)
        assert window.pads_begin == IntVector((begin,))
        assert terms.full() - window.pads_begin - window.pads_end == IntVector((size,))


def test_every_rule_has_a_row() -> None:
    found = {(system, mode, shaped) for system, mode, shaped, *_ in rows()}
    assert len(found) == len(rows()) == 23
