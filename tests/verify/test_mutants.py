"""Lowered files changed in one way each: the checker never says equal of what is not.

`python tools/mutate_lowered.py --count 20000 --jobs 2` judges many more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")

from support.scripts import script
from support.sweeps import parts

pytestmark = pytest.mark.oracles

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("numbers", parts(1, ["--count 120 --seed 12", "--count 500 --seed 13"]))
def test_openvino_agrees_with_the_checker(numbers: str) -> None:
    """Mutants in processes of their own: of some the runtime dies."""
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--core", *numbers.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    for truth in ("other values", "other interface", "invalid"):
        assert f"accepted, {truth}: 0\n" in done.stdout, done.stdout
    assert "crashed: 0\n" in done.stdout, done.stdout


def test_too_many_refusals_fail() -> None:
    """More than 2 % of the equal ones, but for those that stay refused."""
    tool = script("mutate_lowered")

    def equal(kind: str, text: str, verdict: str) -> object:
        return tool.Outcome(kind, f"--seed 0 0:0 {text}", tool.EQUAL, verdict)

    found = [equal("layers", "pads", tool.ACCEPTED)] * 98
    meant = [equal("values", "", tool.REFUSED), equal("wires", "Abs before y", tool.REFUSED)]
    refused = equal("layers", "pads", tool.REFUSED)
    assert tool.report([*found, *meant, refused]) == 0
    assert tool.report([*found, *meant, *[refused] * 3]) == 1
