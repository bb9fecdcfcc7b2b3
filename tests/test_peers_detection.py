"""Equal scores in live OpenVINO: which boxes come first decides which are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.ir.op import as_tuple
from op_cases import Case, Tensor, f32, i64
from test_peers_ops import difference

pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")


def agrees(op: str, attributes: str, inputs: list[Tensor], kind: Any, folder: Path) -> None:
    """Compare what irdeconv computes with the live runtime."""
    row = Case(op, attributes, tuple(inputs), ())
    outs = as_tuple(row.build()[0].evaluate(*(t.values for t in inputs)))
    wanted = tuple((f32 if o.dtype == np.float32 else kind)(o) for o in outs)
    assert difference(Case(op, attributes, tuple(inputs), wanted), folder) == ""


def ties(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Return scores of which many are equal."""
    return f32(r.integers(0, r.choice([2, 5, 30]), shape) / 32 + 0.0625)


def boxes(r: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    low = r.integers(0, 30, (*shape, 2))
    return f32(np.concatenate([low, low + r.integers(2, 12, (*shape, 2))], -1))


@pytest.mark.parametrize("count", [7, 16, 17, 40, 300, 3000])
def test_top_regions(count: int, tmp_path: Path) -> None:
    r = np.random.default_rng(count)
    inputs = [boxes(r, (count,)), ties(r, (count,))]
    most = count if count % 2 else count // 2
    op = "ExperimentalDetectronTopKROIs-6"
    agrees(op, f'max_rois="{most}"', inputs, f32, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_proposals(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    info, anchors = f32([[40, 50, 1]]), boxes(r, (5, 6, 3))
    inputs = [info, anchors, f32(r.normal(0, 0.1, (1, 12, 5, 6))), ties(r, (1, 3, 5, 6))]
    before = r.choice([20, 89, 90])
    limits = f'nms_threshold="0.5" pre_nms_count="{before}" post_nms_count="30" min_size="3"'
    agrees("GenerateProposals-9", limits, inputs, i64, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_matrix_nms(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    inputs = [boxes(r, (2, 60)), ties(r, (2, 2, 60))]
    text = f'nms_top_k="{r.choice([-1, 20, 59])}" keep_top_k="40"'
    agrees("MatrixNms-8", text, inputs, i64, tmp_path)
