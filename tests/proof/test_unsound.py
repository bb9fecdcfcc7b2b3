"""Pairs of models that differ in one way that a checker may overlook; what asks for too much."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")

import irdeconv as ird
import unsound_resources
from pair_texts import Pair, kinds
from pair_truth import SAME, difference
from support.processors import LACKS_AVX512
from support.rows import parts
from support.second import AGREES, second_of_files
from support.verdicts import ACCEPTED, REFUSED, answer, core_answer
from unsound_resources import CASES

SAMPLES = Path(__file__).resolve().parents[2] / "ir_samples"
HEAVY = (
    "deep",
    "deep_backwards",
    "many_edges",
    "wide_concat",
    "doubling",
    "doubling_additions",
    "long_list",
)
# The second checker compares what regions mean. OpenVINO folds the bounds of an interval otherwise,
# has no such layer, or a rounded bias decides what stands behind.
OUTSIDE = {("folded", "longer_minimum")}
OUTSIDE |= {("ports and versions", f"deconvolution_of_{name}") for name in ("onnx", "onednn")}
# The plugin's fault stride-of-one-output needs AVX-512; without it both models compute the same.
ALIKE = {"step_in_one_column"} if LACKS_AVX512 else set[str]()
MEMORY, SECONDS = 2 << 30, 30


PAIRS: dict[str, list[Pair]] = {}
for _pairs in kinds("differ").values():
    PAIRS.setdefault(_pairs[0].cause, []).extend(_pairs)


@pytest.mark.oracles
@pytest.mark.parametrize("step", parts(1, (24, 1)))
@pytest.mark.parametrize("cause", PAIRS)
def test_openvino_says_that_they_differ(cause: str, step: int, tmp_path: Path) -> None:
    assert len(PAIRS[cause]) > 4
    for pair in PAIRS[cause][::step]:
        found = difference(pair, pair.write(tmp_path))
        assert (found == SAME) == (pair.name in ALIKE), pair.name


@pytest.mark.thorough
@pytest.mark.parametrize("step", parts(1, (9, 1)))
@pytest.mark.parametrize("cause", PAIRS)
def test_none_is_called_equal(cause: str, step: int, tmp_path: Path) -> None:
    """At some sizes two of them are, which exit code 3 says; the second checker sees a third."""
    for number, pair in enumerate(PAIRS[cause]):
        files = pair.write(tmp_path)
        verdict, reason = core_answer(*files)
        code = "exit 3:" if pair.expect == "equal at these sizes" else "exit 1:"
        assert verdict == REFUSED, (pair.name, reason)
        assert reason.startswith(code), (pair.name, reason)
        if number % step == 0 and (cause, pair.name) not in OUTSIDE:
            assert second_of_files(*files)[0] != AGREES, pair.name


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--probe",)], ids=["proof", "probe"])
@pytest.mark.parametrize("cause", PAIRS)
def test_none_passes_the_command(cause: str, more: tuple[str, ...], tmp_path: Path) -> None:
    for pair in PAIRS[cause]:
        verdict, reason = answer(*pair.write(tmp_path), *more)
        assert verdict == REFUSED, (pair.name, reason)


@pytest.mark.thorough
@pytest.mark.parametrize("cause", parts(2, PAIRS))
def test_the_core_alone(cause: str, tmp_path: Path) -> None:
    """The first pair of each cause, through `python -m irdeconv.proof`."""
    PAIRS[cause][0].write(tmp_path)
    done = alone(tmp_path)
    assert done.returncode in (1, 3), done.stdout + done.stderr
    assert not done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("name", [n for n in CASES if n not in HEAVY])
def test_files_that_ask_for_too_much(name: str, tmp_path: Path) -> None:
    unsound_resources.write(CASES[name], tmp_path)
    verdict, reason = core_answer(tmp_path / "original.xml", tmp_path / "lowered.xml")
    assert verdict == REFUSED, reason


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_large_files_take_little(name: str, tmp_path: Path) -> None:
    unsound_resources.write(CASES[name], tmp_path)
    done = alone(tmp_path)
    assert done.returncode in (1, 3), done.stdout[:300] + done.stderr[-300:]
    assert "MemoryError" not in done.stdout


def alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check with the core in a process of little memory and time."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    command = [sys.executable, "-m", "irdeconv.proof"]
    files = [str(folder / f"{n}.xml") for n in ("original", "lowered")]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *files], capture_output=True, text=True, preexec_fn=limit, env=environment
    )


def test_a_slice_with_one_mask_of_two_is_refused(tmp_path: Path) -> None:
    """OpenVINO does not load it; with no bounds that matter, it would compute the same."""
    source = ird.read(SAMPLES / "openvino/group_deconv.xml")
    ird.write(source, tmp_path / "original.xml")
    ird.write(ird.lower(source, "stacked").graph, tmp_path / "lowered.xml")
    assert core_answer(tmp_path / "original.xml", tmp_path / "lowered.xml")[0] == ACCEPTED
    text = (tmp_path / "lowered.xml").read_text("utf-8")
    (tmp_path / "lowered.xml").write_text(text.replace('begin_mask="1,1,1,1" ', ""), "utf-8")
    verdict, reason = core_answer(tmp_path / "original.xml", tmp_path / "lowered.xml")
    assert verdict == REFUSED
    assert "StridedSlice" in reason
