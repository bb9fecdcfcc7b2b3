"""Saved reports of `bench`: ratios with intervals, what differs of the machine, exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.runtime.bench import Interval95, Ratio, SavedReport, against
from irdeconv.runtime.machine import Ceilings

MODEL = str(Path(__file__).resolve().parents[2] / "ir_samples/openvino/segmentation_head.xml")
QUICK = ("--iterations", "3", "--rounds", "1", "--time", "0")


@pytest.fixture(autouse=True)
def ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
    monkeypatch.setattr("irdeconv.runtime.bench.measure_ceilings", lambda clock: found)


@pytest.fixture
def saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "before.json"
    assert main(["bench", MODEL, *QUICK, "--save", str(path)]) == 0
    capsys.readouterr()
    return path


def scaled(path: Path, target: Path, factor: float, **facts: Any) -> Path:
    """A report whose times are `factor` times as long, each known to 1 %."""
    document = json.loads(path.read_text("utf-8"))
    timings = [document["network"], *(s["timing"] for s in document["steps"])]
    for quantiles in (t[clock] for t in timings for clock in ("cpu", "wall")):
        median = factor * quantiles["median"]
        quantiles |= {"median": median, "low": 0.99 * median, "high": 1.01 * median}
    document["conditions"] |= facts
    target.write_text(json.dumps(document))
    return target


def test_a_ratio_by_hand() -> None:
    found = Ratio.of(Interval95(2.0, 1.0, 4.0), Interval95(6.0, 3.0, 12.0))
    assert found is not None
    assert (found.ratio, found.verdict) == (3.0, "slower")
    wide = math.exp(math.log(2) * math.sqrt(2))  # both medians are known up to a factor of 2
    assert found.low == pytest.approx(3 / wide)
    assert found.high == pytest.approx(3 * wide)
    sure = Interval95(2.0, 2.0, 2.0)
    assert Ratio.of(sure, Interval95(1.0, 1.0, 1.0)) == Ratio(2.0, 1.0, 0.5, 0.5, 0.5)
    same = Ratio.of(Interval95(2.0, 1.9, 2.1), Interval95(2.1, 2.0, 2.2))
    assert same is not None
    assert same.verdict == "same"
    assert Ratio.of(Interval95(0.0, 0.0, 0.0), sure) is None


def test_reports_beside_each_other(saved: Path, tmp_path: Path) -> None:
    report = ird.bench(MODEL, [_image()], iterations=3, rounds=1)
    now = SavedReport("now", report.to_dict())
    tight = tmp_path / "now.json"
    tight.write_text(json.dumps(dict(now.content)))
    same = against(SavedReport.read(tight), now.content)
    assert same.network is not None
    assert (same.network.ratio, same.unlike) == (1.0, ())
    assert [name for name, _ in same.steps] == [s.layer for s in report.slowest]
    half = against(SavedReport.read(scaled(tight, tmp_path / "half.json", 0.25)), now.content)
    assert half.network is not None
    assert half.network.ratio == pytest.approx(4)
    other = scaled(tight, tmp_path / "other.json", 1.0, cpu="another", cores=64)
    unlike = against(SavedReport.read(other), now.content).unlike
    assert [u.split(":")[0] for u in unlike] == ["cpu", "cores"]
    assert unlike[0].startswith("cpu: another then, ")


def _image() -> Any:
    import numpy as np

    return np.ones((1, 3, 32, 32), np.float32)


@pytest.mark.parametrize(("width", "whole"), [(60, False), (80, False), (300, True)])
def test_the_report_is_as_wide_as_the_terminal(
    width: int,
    whole: bool,
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where there is room, a step takes one line."""
    monkeypatch.setenv("COLUMNS", str(width))
    given = ("--against", str(saved), "--requests", "2")
    assert main(["bench", MODEL, *QUICK, *given]) == 0
    rows = [row for row in capsys.readouterr().out.splitlines() if str(saved) not in row]
    assert max(map(len, rows)) <= width
    (head,) = [row for row in rows if row.startswith("step ")]
    assert head.endswith(" why") == whole


def test_the_verb_saves_and_compares(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    document = json.loads(saved.read_text("utf-8"))
    assert document["schema"] == "irdeconv/bench/1"
    assert document["file"] == MODEL
    long = scaled(saved, tmp_path / "long.json", 1e6, cpu="Z80")
    short = scaled(saved, tmp_path / "short.json", 1e-6)
    both = ("--against", f"{long},{short}")
    assert main(["bench", MODEL, *QUICK, *both, "--histogram"]) == 0
    text = capsys.readouterr().out
    assert f"against {long} of " in text.replace("\n    ", " ")
    assert "faster" in text
    assert "slower" in text
    assert "not the same: cpu: Z80 then, " in text
    names = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, names)) <= 80
    assert main(["bench", MODEL, *QUICK, "--against", str(long), "--fail-above", "5"]) == 0
    assert main(["bench", MODEL, *QUICK, "--against", str(short), "--fail-above", "5"]) == 1
    capsys.readouterr()
    assert main(["bench", MODEL, *QUICK, *both, "--requests", "2", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [b["network"]["verdict"] for b in document["baselines"]] == ["faster", "slower"]
    assert document["parallel"]["requests"] == 2
    assert document["parallel"]["runs"] >= 2


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ("--fail-above 5", 2, "--fail-above needs a saved report"),
        ("--against nothing.json", 6, "cannot read nothing.json"),
        ("--against empty.json", 2, "empty.json: not JSON"),
        ("--against other.json", 2, "no report of bench"),
        ("--against old.json", 2, "no report of bench: KeyError: 'low'"),
        ("--save report.txt", 2, "must end in .json"),
        ("--save nowhere/report.json", 6, "nowhere/report.json cannot be written"),
        ("--iterations 0", 2, "is not a number from 1"),
        ("--requests 0", 2, "is not a number from 1"),
        ("--against openvion", 2, "openvion"),
    ],
)
def test_refusals(
    saved: Path, args: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(saved.parent)
    Path("empty.json").write_text("")
    Path("other.json").write_text("[1]")
    old = json.loads(saved.read_text("utf-8"))
    del old["network"]["cpu"]["low"]
    Path("old.json").write_text(json.dumps(old))
    assert main(["bench", MODEL, *QUICK, *args.split()]) == code
    assert text in capsys.readouterr().err
