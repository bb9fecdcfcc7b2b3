"""Pairs of models that differ in one way that a checker may overlook; what asks for too much."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino")

from support.pair_truth import SAME, difference
from support.unsound_pairs import CAUSES, of


@pytest.mark.oracles
@pytest.mark.parametrize("cause", CAUSES)
def test_openvino_says_that_they_differ(cause: str, tmp_path: Path) -> None:
    assert len(of(cause)) > 4
    for pair in of(cause):
        folder = tmp_path / pair.name
        folder.mkdir()
        pair.write(folder)
        assert difference(pair, folder) != SAME, pair.name
