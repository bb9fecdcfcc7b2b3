"""Lowered files changed in one way each: the checker never says equal of what is not.

`python tools/mutate_lowered.py --count 20000 --jobs 2` judges many more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("seed", [12, 13])
def test_openvino_agrees_with_the_checker(seed: int) -> None:
    """250 mutants in processes of their own: of some the runtime dies."""
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--count", "250", "--core"]
    done = subprocess.run([*command, "--seed", str(seed)], capture_output=True, text=True)
    for truth in ("other values", "other interface", "invalid"):
        assert f"accepted, {truth}: 0\n" in done.stdout, done.stdout
    assert "crashed: 0\n" in done.stdout, done.stdout
