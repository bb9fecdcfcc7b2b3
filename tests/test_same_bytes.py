"""What is written has the same bytes for every hash seed, number of threads and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import irdeconv

ROOT = Path(irdeconv.__file__).parents[1]
HEAD = ROOT / "ir_samples" / "openvino" / "segmentation_head.xml"
SCRIPT = """
import sys
from irdeconv.cli.main import main
model, threads = sys.argv[1:]
for verb in (
    ["lower", model, "-o", "low.xml", "--certify", "low.json", "--report", "low.html"],
    ["inspect", model, "--format", "json", "-o", "model.json"],
    ["inspect", model, "--format", "svg", "-o", "model.svg"],
    ["run", model, "--seed", "3", "--threads", threads, "-o", "outputs.npz"],
):
    assert main(verb) == 0, verb
"""


@pytest.mark.thorough
def test_same_bytes(tmp_path: Path) -> None:
    """Three processes with other hash seeds and numbers of threads write the same files."""
    written = []
    for seed, threads in (("0", "1"), ("1", "2"), ("4242", "1")):
        place = tmp_path / seed
        place.mkdir()
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT, str(HEAD), threads]
        subprocess.run(command, cwd=place, env=env, check=True, capture_output=True, timeout=300)
        written.append({p.name: p.read_bytes() for p in sorted(place.iterdir())})
    assert set(written[0]) >= {"low.xml", "low.bin", "low.json", "low.html", "outputs.npz"}
    assert written[0] == written[1] == written[2]
