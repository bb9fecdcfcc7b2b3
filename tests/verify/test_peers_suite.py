"""Suites in running systems: they pass, but for the defects that the manifest tells."""

from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.verify.suite import file_of, run
from irdeconv.verify.suite_manifest import Suite
from irdeconv.verify.suite_report import DEFECTS, SuiteReport, check
from support.rows import parts

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.oracles


def judged(suite: Suite, peer: str, *, lowered: bool = False) -> SuiteReport:
    ran = run(suite, peer, lowered=lowered)
    return check(suite, *ran, (peer, file_of(peer, lowered=lowered)))


def explained(report: SuiteReport) -> None:
    """What fails is told in the manifest, and what is told there does fail."""
    wrong = {c.name for c in report.cases if not c.passed}
    known = {c.name for c in report.cases if c.known}
    assert wrong - known == set(), report
    # Memory that is not written may hold what is expected. Some processors compute better.
    some = {c.name for c in report.cases if any(": without " in text for text in c.known)}
    some |= {n for n in known if "empty" in n or "nonfinite" in n}
    assert known - wrong <= some


def made(folder: Path, form: str | None = None) -> Suite:
    only = ["openvino-*", "onnx-*", "*-quick-*", "*-pairs-0?0"]
    sets = ["quick", "pairs", "edges"]
    return ird.suite(folder, ["all"], sets, only=only, form=form, onnx=True)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return made(tmp_path_factory.mktemp("suites") / "all")


@pytest.mark.parametrize("share", parts(1, ["a few", "all", "all lowered"]))
def test_openvino_passes(vectors: Suite, share: str, tmp_path: Path) -> None:
    """A few of the cases have each defect at least once."""
    few, lowered = share == "a few", "lowered" in share
    vectors = made(tmp_path / "lowered", "zero-insertion") if lowered else vectors
    defects = {k["text"]: c for c in vectors.cases for k in c.known if k["peer"] == "openvino"}
    cases = {c.name: c for c in (*vectors.cases[:: 16 if few else 1], *defects.values())}
    some = Suite(vectors.folder, vectors.facts, tuple(cases.values()))
    report = judged(some, "openvino", lowered=lowered)
    explained(report)
    assert report.counts["passed"] > (8 if few else 150)


def test_onnx_runtime_passes(vectors: Suite) -> None:
    onnx_cases = [c for c in vectors.cases if c.layer.dialect == "onnx"]
    report = judged(Suite(vectors.folder, vectors.facts, tuple(onnx_cases)), "onnxruntime")
    explained(report)
    assert report.counts["passed"] > 40


def test_onnx_models_are_valid(vectors: Suite) -> None:
    for case in vectors.cases:
        if case.has("model.onnx"):
            onnx.checker.check_model(onnx.load(case.path("model.onnx")))


def test_floats_pass_within_their_bounds(tmp_path: Path) -> None:
    suite = ird.suite(
        tmp_path / "floats", ["onnx", "onednn"], ["quick", "networks"], data="floats", onnx=True,
        only=["*-quick-*", "onnx-*"],
    )  # fmt: skip
    explained(judged(suite, "openvino"))
    onnx_cases = tuple(c for c in suite.cases if c.layer.dialect == "onnx")
    explained(judged(Suite(suite.folder, suite.facts, onnx_cases), "onnxruntime"))


def test_every_listed_defect_is_met(vectors: Suite) -> None:
    """A defect that no case shows would be an untested claim; two need cases of their own."""
    told = {(k["peer"], k["text"]) for case in vectors.cases for k in case.known}
    unmet = {d.text for d in DEFECTS if (d.peer, d.text) not in told}
    assert unmet <= {d.text for d in DEFECTS if "3D" in d.text or "f64 is" in d.text}
