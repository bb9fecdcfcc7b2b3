"""Lowered files changed in one way each: the checker never says equal of what is not.

`python tools/mutate_lowered.py --count 20000 --jobs 2` judges many more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")

from support.sweeps import parts

pytestmark = pytest.mark.oracles

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize(("seed", "count"), parts(1, [(12, 120), (13, 500)]))
def test_openvino_agrees_with_the_checker(seed: int, count: int) -> None:
    """Mutants in processes of their own: of some the runtime dies."""
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--core"]
    numbers = ["--count", str(count), "--seed", str(seed)]
    done = subprocess.run([*command, *numbers], capture_output=True, text=True)
    for truth in ("other values", "other interface", "invalid"):
        assert f"accepted, {truth}: 0\n" in done.stdout, done.stdout
    assert "crashed: 0\n" in done.stdout, done.stdout
