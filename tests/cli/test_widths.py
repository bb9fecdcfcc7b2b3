"""What verbs print for models with long names fits a terminal of 80 columns."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.tables import columns
from irdeconv.cli.verbs import VERBS
from support.commands import Capture, Patch, command
from support.layers import constant, parameter, result
from support.raising_graphs import Net

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("pipe")]

NUMBERED = 8  # columns that a number in front of a name takes, or an indent
TRUE = f"{shlex.quote(sys.executable)} -c pass {{}}"
SCOPE = "__module.unet.decoder.up_blocks.{}.resnets.0"
MIDDLE = f"{SCOPE.format(1)}.conv_transpose/aten::_convolution/ConvolutionBackpropData"
LAST = f"{SCOPE.format(2)}.nonlinearity.with.a.long.scope/aten::relu_/ReLU"
ONE = f"--from '{MIDDLE}' --to '{LAST}'"
# Arguments with which each verb is run; a verb has to have some, or the reason why not.
ROWS: dict[str, list[str]] = {
    "validate": ["M"],
    "infer": ["M", "M --all"],
    "lower": [
        "M -o lowered.xml --certify", "M --form auto --explain-costs",
        "M --form stacked --target no-depth-to-space",
    ],
    "raise": ["lowered.xml -o raised.xml --certify"],
    "run": ["M", "M --trace", "M nothing=ones"],
    "bench": ["M --time 0.01 --requests 2 --histogram"],
    "inspect": ["M", "M --constants", "M --lower"],
    "explain": ["M", f"M '{MIDDLE}'"],
    "check-certificate": ["M lowered.xml", "M M"],
    "compare": ["M", "M --all --form phases", "M lowered.xml"],
    "batch": ["validate M --all", "lower M --jobs 0 --all"],
    "reduce": [f'M --check "{TRUE}" -o small.xml --max-checks 3'],
    "convert": ["M -o converted.xml"],
    "extract": [f"M {ONE} -o part.xml", f"M --to '{MIDDLE}x' -o part.xml"],
    "rename": [
        f"M 'layer:{MIDDLE}={MIDDLE}/renamed' -o renamed.xml",
        "M --pattern s/o/0/ -o renamed.xml",
    ],
    "simplify": ["M -o simple.xml"],
    "suite": ["list", "make suite --only 'openvino-edge-b*'"],
    "demo": ["--list", "--samples openvino/dynamic"],
    "doctor": [""],
    "codes": ["", "E302"],
    "completion": [],  # a script for a shell
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder as a converter writes it, M.xml, with open sizes; and lowered.xml."""
    net = Net()
    y = parameter(net.graph, (1, 8, None, None), np.float32, "unet_input_image")
    sizes = {"strides": (2, 2), "dilations": (1, 1), "output_padding": (0, 0)}
    for level in range(3):
        scope = SCOPE.format(level)
        w = np.full((8, 8, 4, 4), 0.01, np.float32)
        name = f"{scope}.conv_transpose/aten::_convolution/ConvolutionBackpropData"
        pads = {"pads_begin": (1, 1), "pads_end": (1, 1)}
        y = net.op("ConvolutionBackpropData", "opset1", y, w, name=name, **sizes, **pads)
        shift = constant(net.graph, np.zeros((1, 8, 1, 1), np.float32), f"{scope}.bias")
        y = net.op("Add", "opset1", y, shift, name=f"{scope}.conv_transpose/aten::_convolution/Add")
        name = f"{scope}.nonlinearity.with.a.long.scope/aten::relu_/ReLU"
        y = net.op("ReLU", "opset1", y, name=name)
    result(net.graph, y, "unet_with_a_name")
    made = tmp_path_factory.mktemp("widths")
    graph = ird.infer(net.graph)
    ird.write(graph, made / "M.xml")
    ird.write(ird.lower(graph).graph, made / "lowered.xml")
    return made


def too_wide(text: str) -> list[str]:
    """Lines beyond 80 columns; a single word may be, for names are not broken."""
    found = []
    for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).splitlines():
        longest = max(map(columns, line.split()), default=0)
        alone = longest > 80 - NUMBERED and columns(line.rstrip()) <= longest + NUMBERED
        if columns(line.rstrip()) > 80 and not alone:
            found.append(line)
    return found


def test_what_is_too_wide_is_seen() -> None:
    assert too_wide("\x1b[1;31m" + "a " * 40 + "\x1b[0m\nshort\n  12  " + "name/" * 30) == []
    assert too_wide("short\n" + "a " * 41) == ["a " * 41]


def test_every_verb_has_a_row() -> None:
    assert set(ROWS) == set(VERBS)


@pytest.mark.parametrize("verb", ROWS)
def test_every_line_fits(verb: str, folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.chdir(folder)
    assert command(verb, "--help") == 0
    for args in ROWS[verb]:
        args = re.sub(r"\bM\b(?!')", "M.xml", args)
        force = ["--force"] if " -o " in args or args.startswith("make") else []
        assert command(verb, *shlex.split(args), *force) in range(8), args
    shown = capsys.readouterr()
    assert too_wide(shown.out + shown.err) == []
    assert "Traceback" not in shown.out + shown.err
