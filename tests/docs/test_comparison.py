"""docs/comparison.md says of irdeconv what is so; the other tools were measured once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

PAGE = (Path(__file__).resolve().parents[2] / "docs/comparison.md").read_text("utf-8")
# What is wrong with a ConvTranspose of x f32[1, 8, 6, 6] and a filter f32[8, 4, 3, 3].
MISTAKES: dict[str, dict[str, Any]] = {
    "filter for other channels": {"filter": (6, 4, 3, 3)},
    "channels not divisible by group": {"group": 3},
    "filter of another rank": {"filter": (8, 4, 3)},
    "kernel_shape unlike the filter": {"kernel_shape": [5, 5]},
    "too few pads": {"pads": [1, 1]},
    "too few strides": {"strides": [2]},
    "pads together with auto_pad": {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]},
    "an auto_pad that does not exist": {"auto_pad": "SAME"},
    "a dilation of 0": {"dilations": [0, 1]},
    "output_padding as large as the stride": {"output_padding": [1, 1]},
    "pads that leave nothing": {"pads": [4, 4, 4, 4]},
    "a bias of another length": {"bias": 7},
    "a filter of another type": {"dtype": np.float64},
    "an attribute with a typing error": {"stride": [2, 2]},
}


def faulty(
    filter: tuple[int, ...] = (8, 4, 3, 3), bias: int = 4, dtype: type = np.float32, **more: Any
) -> Any:
    """A model with one ConvTranspose; the sizes of its output are left open."""
    from onnx import helper

    from support.onnx_models import info, model

    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **more)
    constants = {"w": np.ones(filter, dtype), "b": np.ones(bias, np.float32)}
    ends = [info("x", (1, 8, 6, 6))], [info("y", ("n", "c", "h", "w"))]
    return model([node], *ends, constants, opset=13)


@pytest.mark.oracles
def test_the_mistakes_of_the_page_are_found() -> None:
    pytest.importorskip("onnx")
    assert not ird.validate(faulty())
    for title, mistake in MISTAKES.items():
        assert re.search(rf"^{re.escape(title)} .* found$", PAGE, re.M), title
        assert ird.validate(faulty(**mistake)), title
    assert f"found of {len(MISTAKES)}" in PAGE


def test_every_lowered_layer_of_the_page_is_right() -> None:
    lines = re.findall(r"^irdeconv, .*?  +(\d+)(.*)$", PAGE, re.M)
    totals = [int(n) for n in re.findall(r"^.* \((\d+)\) +right", PAGE, re.M)]
    assert [int(n) for n, _ in lines] == [n for n in totals for _ in range(len(lines) // 3)]
    assert all(not rest.strip() for _, rest in lines)
