"""A mistake in one layer of a file gives one diagnostic, at that layer."""

from pathlib import Path

import pytest

import irdeconv as ird
from support.rows import each_row

MODEL = Path("ir_samples/openvino/segmentation_head.xml")
MISSPELT = '"pads_end" is missing, which the specification requires; OpenVINO takes 0'
CONCAT = 'Concat "joined" does not fit: part 1 is [1,8,16,16]; the parts before it have'


def only(old: str, new: str, layer: str = "") -> ird.Diagnostic:
    """Return the one diagnostic of the model with an edited text in this layer or behind it."""
    text = MODEL.read_text()
    at = text.index(old, text.index(f'name="{layer}"') if layer else 0)
    edited = text[:at] + new + text[at + len(old) :]
    (found,) = ird.validate(edited.encode(), MODEL.with_suffix(".bin"))
    return found


@each_row("layer, old, new, code, message, hint", [
    ("", 'shape="1,3,32,32"', 'shape="1,3,64,64"', "W202",
     "output 0 is declared [1,3,32,32], but it is [1,3,64,64]", 'shape="1,3,32,32" would give'),
    ("conv1", 'pads_end="1,1"', 'pads_end="0,0"', "E302",
     "output 0 is declared [1,8,32,32], but it is [1,8,31,31]", 'pads_begin="2,2" or pads_end='),
    ("joined", 'axis="1"', 'axis="2"', "E302",
     "output 0 is declared [1,16,16,16], but it is [1,8,32,16]", 'axis="1" would give'),
    ("up1", "pads_end=", "pad_end=", "E302", MISSPELT, 'did you mean "pads_end"?'),
    ("up1", 'strides="2,2" ', "", "E302", '"strides" is missing', 'strides="2,2" would give'),
    ("up1", 'pads_end="1,1"', 'pads_end="-1,-1"', "E302", "negative", 'pads_end="1,1" would give'),
    ("up1", 'pads_end="1,1"', 'pads_end="17,17"', "E302", "is empty", 'pads_end="1,1" would give'),
    ("up1/filter", 'shape="16,8,4,4"', 'shape="8,16,4,4"', "E302",
     "output 0 is declared [16,8,4,4], but it is [8,16,4,4]", 'shape="16,8,4,4" would give'),
    ("conv1", 'auto_pad="explicit"', 'auto_pad="valid"', "E302", "[1,8,30,30]", "explicit"),
    ("joined", "axis=", "axes=", "E302", '"axis" is missing', 'did you mean "axis"?'),
    ("up1/filter", "offset=", "ofset=", "E105", 'is missing; there is "ofset"', 'write "offset"'),
    ("up2", 'output_padding="0,0"', 'output_padding="1,1"', "W202", "output 0", 'padding="0,0"'),
    ("conv2", "<dim>16</dim>", "<dim>17</dim>", "W202", "input 0 is declared [1,8,17,",
     "OpenVINO ignores"),
    ("", 'element_type="f32"', 'element_type="f16"', "E303", "declared FP32", "fit the declared"),
])  # fmt: skip
def test_one_cause(layer: str, old: str, new: str, code: str, message: str, hint: str) -> None:
    found = only(old, new, layer)
    assert (found.code, found.layer) == (code, layer or "image")
    assert message in found.message
    assert hint in str(found.hint)


def test_notes_count_what_follows() -> None:
    notes = [n.message for n in only('shape="1,3,32,32"', 'shape="1,3,64,64"').notes]
    assert notes == ["12 layers behind it differ, too"]
    found = only('strides="2,2" ', "", "up1")
    assert f"{CONCAT} 9 on axis 2" in found.notes[1].message
    assert found.notes[0].message == "output 0 is declared [1,8,16,16], but it is [1,8,9,9]"


def test_two_causes_are_two() -> None:
    text = MODEL.read_text().replace('output_padding="0,0"', 'output_padding="1,1"')
    text = text.replace('shape="1,3,32,32"', 'shape="1,3,64,64"')
    found = ird.validate(text.encode(), MODEL.with_suffix(".bin"))
    assert [(d.code, d.layer) for d in found] == [("W202", "image"), ("W202", "up2")]


def test_other_shapes_are_no_mistake_of_the_file() -> None:
    text = MODEL.read_text().replace('pads_end="1,1"', 'pads_end="0,0"', 1)
    graph = ird.read(text.encode(), MODEL.with_suffix(".bin"))
    with pytest.raises(ird.InferenceError, match='Convolution "conv1": output 0 is declared'):
        ird.infer(graph)
    with pytest.raises(ird.InferenceError, match='Concat "joined": part 1'):
        ird.infer(graph, {"image": [1, 3, 16, 16]})


def test_a_wrong_edge_leaves_one_layer_unused() -> None:
    old, new = 'from-layer="10" from-port="2" to', 'from-layer="4" from-port="1" to'
    found = ird.validate(MODEL.read_text().replace(old, new).encode(), MODEL.with_suffix(".bin"))
    unused = [d for d in found if d.code == "W201"]
    assert [d.layer for d in unused] == ["up1"]
    assert "nor 5 layers before it" in unused[0].message
