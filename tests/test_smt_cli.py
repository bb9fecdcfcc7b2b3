"""`check-certificate --smt`: answers, files, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from irdeconv.cli.main import main
from irdeconv.cli.second_proof import file_name
from irdeconv.verify.smt_solver import Discharge

SAMPLE = Path(__file__).resolve().parent.parent / "ir_samples/openvino/segmentation_head.xml"


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """A sample and what it is lowered to, as arguments of check-certificate."""
    lowered = tmp_path / "lowered.xml"
    assert main(["lower", str(SAMPLE), "-o", str(lowered), "--form", "phases", "--quiet"]) == 0
    return ["check-certificate", str(SAMPLE), str(lowered)]


def test_every_layer_is_proved_twice(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    folder = tmp_path / "formulas" / "smt"
    assert main([*pair, "--smt", "--smt-timeout", "30", "--smt-write", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "smt ok   up1: proved in" in out
    assert "smt: z3 proves 2 of 2 layers" in out
    assert "smt: wrote 2 of 2 formulas to" in out
    assert sorted(p.name for p in folder.iterdir()) == ["00_up1.smt2", "01_up2.smt2"]
    text = (folder / "00_up1.smt2").read_text("utf-8")
    assert text.startswith("; ")
    assert text.count("(check-sat)") == text.count("; step ")


def test_formulas_are_written_without_z3(
    pair: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main([*pair, "--smt-write", str(tmp_path / "smt")]) == 0
    assert len(list((tmp_path / "smt").iterdir())) == 2


def test_z3_that_is_missing(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main([*pair, "--smt"]) == 4
    err = capsys.readouterr().err
    assert "--smt needs the package z3-solver, which is not installed" in " ".join(err.split())
    assert "pip install 'irdeconv[smt]'" in err


def test_a_time_needs_a_question(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair, "--smt-timeout", "1"]) == 2
    assert "--smt-timeout is of --smt" in capsys.readouterr().err


def test_what_is_refuted_fails_and_is_told(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first checker proves what the solver refutes: one of them is wrong, and nothing holds."""
    answer = Discharge("refuted", {"o1": 3, "i1": 1}, "differs", "these taps have other weights")
    monkeypatch.setattr("irdeconv.verify.smt_report.prove", lambda *_: (answer, "text"))
    assert main([*pair, "--smt"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "smt FAIL up1: refuted: these taps have other weights (o1 = 3, i1 = 1)" in out
    assert main([*pair, "--smt", "--format", "json"]) == 1
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert content["passed"] is False
    assert content["smt"][0]["counterexample"] == {"o1": 3, "i1": 1}


def test_no_answer_is_no_failure(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Discharge("unknown", text="no answer within 1 s")
    monkeypatch.setattr("irdeconv.verify.smt_report.prove", lambda *_: (answer, ""))
    assert main([*pair, "--smt"]) == 0
    assert "smt: z3 proves 0 of 2 layers" in capsys.readouterr().out


def test_names_of_files() -> None:
    assert file_name(0, "up.0/deconv") == "00_up.0_deconv.smt2"
    assert file_name(12, "../..") == "12_layer.smt2"
    assert len(file_name(1, "x" * 500)) < 80
