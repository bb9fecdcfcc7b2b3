"""Attributes as text: the core's reader, the package's classes and OpenVINO agree."""

import re
from typing import Any

import numpy as np
import pytest

import irdeconv.ops.dialects  # fills the registry
from irdeconv.ir.attributes import attributes
from irdeconv.ir.op import REGISTRY
from irdeconv.proof import spelling
from support import irbuild as ib
from support.runtime_truth import core

assert irdeconv.ops.dialects
LABELS = {"integer": "integer", "integers": "integer", "number": "real", "numbers": "real"}
LABELS |= {"boolean": "boolean"}
NUMBERS = (
    *("1", " 1", "1 ", "\t1", "01", "-0", "-1", "+1", "1.", "1.0", "1.5", "0.1e1", "50e-1", "1e0"),
    *("1e", "1E2", ".5", "-.5", "+.5", ".", "-", "", "0x1", "1_0", "1a", "1 2", "1,", ",1", "1;2"),
    *("--1", "- 1", "\u0661", "\uff11", "\xa01", "nan", "-nan", "inf", "-inf", "+inf", "Inf"),
    *("infinity", "true", "1e400", "-1e400", "1e-5000", "1f", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "18446744073709551615", "0" * 30 + "7"),
)
WORDS = ("true", "True", "TRUE", "1", "false", "FALSE", "0", " true", "true ", "yes", "2", "1.0")


def test_the_package_has_the_same_kinds() -> None:
    for (kind, version), cls in REGISTRY.items():
        if re.fullmatch("opset[0-9]+", version):
            for name, a in attributes(cls).items():
                assert spelling.kind_of(kind, name) in (LABELS.get(a.kind.label, ""), "text")
                assert (a.kind.label in LABELS) or spelling.kind_of(kind, name) in ("", "text")


# One attribute of each kind, in which OpenVINO allows any value; the other attributes; two inputs.
LAYERS = {
    "integer": ("LRN", "size", 'alpha="1" beta="1" bias="1"', True),
    "real": ("Elu", "alpha", "", False),
    "boolean": ("MatMul", "transpose_b", 'transpose_a="false"', True),
}


def openvino_reads(kind: str, text: str) -> Any:
    """Return the value of an attribute, or None if OpenVINO refuses the layer."""
    type, name, others, two = LAYERS[kind]
    data = f'{name}="{text.replace(chr(9), "&#9;")}" {others}'
    inputs = [ib.port(0, (1, 1)), ib.port(1, (1,) * (1 + (kind != "integer")))][: 1 + two]
    layers = [
        ib.parameter(0, "x", (1, 1)),
        ib.parameter(1, "z", (1,), "i64") if kind == "integer" else ib.parameter(1, "z", (1, 1)),
        ib.layer(2, "y", type, data, inputs=inputs, outputs=[ib.port(2, (1, 1))]),
        ib.result(3, "r", (1, 1)),
    ]
    ends = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]
    xml = ib.net(layers, *(e for e in ends if two or e[0] != 1))
    openvino = pytest.importorskip("openvino")
    try:
        found = core().read_model(xml.encode(), openvino.Tensor(np.zeros(1, np.uint8)))
    except RuntimeError:
        return None
    (node,) = (n for n in found.get_ops() if n.get_friendly_name() == "y")
    return node.get_attributes()[name]


@pytest.mark.oracles
@pytest.mark.parametrize("kind", LAYERS)
def test_openvino_reads_what_the_reader_accepts(kind: str) -> None:
    """What the reader refuses OpenVINO refuses, or takes for something that begins alike."""
    read = {"integer": spelling.integer, "real": spelling.real, "boolean": spelling.boolean}[kind]
    accepted = 0
    for text in {*NUMBERS, *WORDS}:
        found = openvino_reads(kind, text)
        try:
            value = read(text)
        except ValueError:
            continue
        accepted += 1
        np.testing.assert_equal(found, value, text)
        np.testing.assert_equal(openvino_reads(kind, str(spelling.spelled(kind, text))), value)
    assert accepted >= 5


def test_one_spelling() -> None:
    same = ["1", " 1", "01", "1\t"], ["0.5", ".5", "+.5", "5e-1", "0.50"], ["1,2", " 1, 02"]
    for kind, texts in zip(("integer", "real", "integer"), same, strict=True):
        assert len({spelling.spelled(kind, text) for text in texts}) == 1
    assert spelling.spelled("single", "1e-12") == spelling.spelled("single", "9.99999996e-13")
    assert spelling.spelled("real", "1e-12") != spelling.spelled("real", "9.99999996e-13")
    assert {spelling.spelled("boolean", t) for t in ("TRUE", "1")} == {"true"}
    others = {"integer": "0.1e1", "real": "1e400", "boolean": " true"}
    assert not any(spelling.spelled(*pair) for pair in others.items())
