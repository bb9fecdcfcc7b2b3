"""Text in boxes: it fits in every browser, breaks where names break, and obeys nothing."""

from __future__ import annotations

import pytest

from irdeconv.show.text import measure, name_lines, one_line, shown, type_lines

# The advances of "M" in em, as the files of the fonts have them.
MONOSPACE = {"DejaVu Sans Mono": 1233 / 2048, "Menlo": 1233 / 2048, "Consolas": 1126 / 2048}
NAMES = (
    "conv1",
    "__module.up.0/aten::_convolution/ConvolutionBackpropData",
    "F0::If_0_then_branch__Inline_0__/stft/padding/Reshape",
    "model/encoder/layer.0/attention/self/query/MatMul_1_with_a_long_name/Add",
    "a" * 100,
    "x/" + "b" * 80,
    "b" * 80 + "/x",
    "encoder/" * 50 + "end",
    "日本語" * 30,
    "e\u0301" * 60,
    "\U0001f600" * 40,
    "x" * 1_000_000,
    "",
    "/",
)


@pytest.mark.parametrize("font", MONOSPACE)
def test_no_monospace_font_is_wider(font: str) -> None:
    assert measure("M" * 100) >= 100 * MONOSPACE[font]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("width", [4.0, 10.0, 18.6])
def test_lines_of_a_name_fit_and_keep_its_end(name: str, width: float) -> None:
    lines = name_lines(name, width)
    assert 1 <= len(lines) <= 2
    assert all(measure(line) <= width + 1e-6 for line in [*lines, one_line(name, width)])
    assert lines[-1][-1:] == name[-1:]


def test_where_names_are_broken_and_cut() -> None:
    up = "__module.up.0/aten::_convolution/ConvolutionBackpropData"
    assert name_lines(up, 18.6) == ["__module.up.0/\u2026", "ConvolutionBackpropData"]
    assert name_lines("up/aten::_convolution/Add", 15.4) == ["up/aten::_convolution/", "Add"]
    assert name_lines("block1/conv_12", 5.6) == ["block1/", "conv_12"]
    assert one_line("encoder/layer.0/dense/MatMul", 12.4) == "encoder\u2026dense/MatMul"
    assert type_lines("GroupConvolutionBackpropData", 12) == ["GroupConvolution", "BackpropData"]
    assert type_lines("Convolution", 12) == ["Convolution"]


def test_characters_that_turn_or_end_lines_are_escaped() -> None:
    assert shown("a\u202eb\x1b[31m\n\u2028\ud800") == "a\\u202eb\\x1b[31m\\n\\u2028\\ud800"
