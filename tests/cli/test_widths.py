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
from support.scripts import tool

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("pipe")]

reading = tool("fuzzing.cases").reading
NUMBERED = 8  # columns that a number in front of a name takes, or an indent
TRUE = f"{shlex.quote(sys.executable)} -c pass {{}}"
SCOPE = "__module.unet.decoder.up_blocks.{}.resnets.0"
MIDDLE = f"{SCOPE.format(1)}.conv_transpose/aten::_convolution/ConvolutionBackpropData"
LAST = f"{SCOPE.format(2)}.nonlinearity.with.a.long.scope/aten::relu_/ReLU"
ONE = f"--from '{MIDDLE}' --to '{LAST}'"
# Commands of every verb: those that read any model, with one option, and these.
ROWS = [
    *(c.format(m="M", o="out", f="auto") for w in (0, 1) for c in reading(writes=w)),
    "lower M -o lowered.xml --certify", "lower M --form auto --explain-costs",
    "lower M --form stacked --target no-depth-to-space",
    "raise lowered.xml -o raised.xml --certify", "run M nothing=ones",
    "bench M --time 0.01 --requests 2 --histogram", f"explain M '{MIDDLE}'",
    "check-certificate M lowered.xml", "check-certificate M M", "compare M --all --form phases",
    "compare M lowered.xml", "batch validate M --all", "batch lower M --jobs 0 --all",
    f'reduce M --check "{TRUE}" -o small.xml --max-checks 3', f"extract M {ONE} -o part.xml",
    f"extract M --to '{MIDDLE}x' -o part.xml",
    f"rename M 'layer:{MIDDLE}={MIDDLE}/renamed' -o renamed.xml", "suite list",
    "suite make suite --only 'openvino-edge-b*'", "demo --list", "demo --samples openvino/dynamic",
    "doctor", "codes", "codes E302",
]  # fmt: skip
DOCUMENTS = ("--format", "--print-python")  # which no terminal has to fit


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


@pytest.mark.parametrize("verb", VERBS)
def test_every_line_fits(verb: str, folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.chdir(folder)
    assert command(verb, "--help") == 0
    rows = [row for row in ROWS if row.split()[0] == verb]
    assert rows or verb == "completion"  # a script for a shell
    for row in rows:
        if any(option in row for option in DOCUMENTS):
            continue
        args = shlex.split(re.sub(r"\bM\b(?!')", "M.xml", row))
        force = ["--force"] if " -o " in row or " make " in row else []
        assert command(*args, *force) in range(8), row
    shown = capsys.readouterr()
    assert too_wide(shown.out + shown.err) == []
    assert "Traceback" not in shown.out + shown.err
