"""The scripts of tools/ work with the checkout in which they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.scripts import TOOLS

IMPORT = re.compile(r"^(?:import|from) (checkout|irdeconv|support)\b", re.MULTILINE)
SCRIPTS = [p for p in sorted(TOOLS.glob("*.py")) if "__main__" in p.read_text("utf-8")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_checkout_is_imported_first(path: Path) -> None:
    found = IMPORT.findall(path.read_text("utf-8"))
    assert found[:1] in ([], ["checkout"])


def test_another_installation_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "irdeconv").mkdir()
    (tmp_path / "irdeconv" / "__init__.py").write_text("raise RuntimeError('the other one')\n")
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
