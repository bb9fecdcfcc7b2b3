"""`irdeconv demo --samples`: the packaged models are taken through everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from irdeconv.cli.samples import samples
from irdeconv.ir.graph import Graph
from support.commands import answer, command
from support.fixtures import Capture, Patch
from support.ir_text import write_ir
from support.small_net import LAYER, W


@pytest.fixture
def folder(net: Path, monkeypatch: Patch) -> Path:
    """A folder of samples instead of the packaged ones: net and deep/other."""
    (net.parent / "samples" / "deep").mkdir(parents=True)
    for name in ("net", "deep/other"):
        write_ir(net.parent / "samples" / f"{name}.xml", LAYER, W)
    monkeypatch.setattr("irdeconv.cli.samples.folder", lambda: net.parent / "samples")
    return net.parent


def test_demo(folder: Path, capsys: Capture) -> None:
    captured = answer("demo", "--samples").out
    assert "ok   net: 1 deconvolution, " in captured
    assert "2 samples, form zero-insertion, seed 0: 2 of 2 as they should be" in captured
    assert "1 of 1 as they should be" in answer("demo", "--samples", "net").out
    assert command("demo", "--samples", "deep/other", "-i", "x=ones") == 0
    capsys.readouterr()
    assert command("demo", "--list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(samples())
    assert 'did you mean "net"?' in answer("demo", "--samples", "nett", code=2).err


def test_demo_json_and_kept_files(folder: Path) -> None:
    found = answer("demo", "--samples", "--format", "json", "-o", folder / "kept").json
    assert (found["schema"], found["passed"], found["seed"]) == ("irdeconv/demo-samples/1", True, 0)
    assert [s["name"] for s in found["samples"]] == ["deep/other", "net"]
    assert all(s["comparisons"]["read back"]["passed"] for s in found["samples"])
    kept = sorted(f.name for f in (folder / "kept").glob("*.xml"))
    assert kept == ["deep_other.lowered.xml", "net.lowered.xml"]


def test_demo_fails_where_anything_differs(folder: Path, monkeypatch: Patch) -> None:
    def write_doubled(graph: Graph, path: Path) -> None:
        write_ir(Path(path), LAYER, W * 2)

    monkeypatch.setattr("irdeconv.write", write_doubled)
    out = answer("demo", "--samples", "net", code=1).out
    assert "FAIL net" in out
    assert "read back differs first at deconv" in out


def test_demo_wants_broken_samples_refused(folder: Path) -> None:
    bad = folder / "samples" / "broken" / "bad.xml"
    bad.parent.mkdir()
    bad.write_text("<net")
    assert "ok   broken/bad: refused, 1 error" in answer("demo", "--samples", "broken/bad").out
    write_ir(bad, LAYER, W)
    assert "FAIL broken/bad: accepted" in answer("demo", "--samples", "broken/bad", code=1).out


def test_demo_closes_open_shapes(folder: Path) -> None:
    write_ir(folder / "samples" / "net.xml", LAYER, W, data_shape=[-1, 3, -1, 4])
    [sample] = answer("demo", "--samples", "net", "--format", "json").json["samples"]
    assert sample["inputs"] == {"x": [8, 3, 8, 4]}


def test_the_packaged_samples() -> None:
    assert "as they should be" in answer("demo", "--samples").out
