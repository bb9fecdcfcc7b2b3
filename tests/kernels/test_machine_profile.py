"""How fast a machine is: packaged profiles, calibrations and their file, costs made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.cli.main import main
from irdeconv.kernels import convolution as work
from irdeconv.kernels import (
    convolution_direct,
    deconvolution_col2im,
    deconvolution_winograd_cuts,
    jit,
    machine,
    products,
    residue_cuts,
)
from irdeconv.kernels import machine as calibrated
from irdeconv.kernels.candidate import ConvProblem, worthwhile
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.machine import FITTED, NUMBERS, PACKAGED, MachineProfile
from irdeconv.runtime import machine as calibration
from irdeconv.runtime.measure import Clock
from support.kernels import convolved, deconvolved, integers, run

INSTALLED = {"version": "1.0", "problem": None}
RECORDS = (
    products.PRODUCT,
    work.WORK,
    convolution_direct.DIRECT,
    residue_cuts.RESIDUES,
    deconvolution_col2im.TERMS,
    deconvolution_winograd_cuts.PASSES,
    deconvolution_winograd_cuts.TILED,
)
PROBLEMS = [
    ConvProblem((1, c, s, s), m, 1, (k, k), (d, d), (1, 1), (p, p), ((s - 1) * d + k - 2 * p,) * 2)
    for c, m, s in ((3, 8, 9), (64, 32, 40))
    for k, d, p in ((2, 2, 0), (3, 2, 1), (4, 2, 1), (5, 1, 2))
]


def another(**times: float) -> MachineProfile:
    return replace(FITTED, **{n: getattr(FITTED, n) * f for n, f in times.items()})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user who wants calibrations, and has none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(calibrated.IGNORED, "1")
    forget()
    yield calibrated.profile_path()
    forget()


def forget() -> None:
    calibrated.forget()
    machine.take(None)


def keep(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    forget()


def test_the_fitted_profile_changes_no_rate() -> None:
    with machine.using(FITTED):
        assert [machine.scaled(record) for record in RECORDS] == list(RECORDS)
        assert products.call_cost() == products.CALL


@pytest.mark.parametrize("number", NUMBERS)
def test_each_number_moves_the_rates_that_are_its_multiples(number: str) -> None:
    with machine.using(another(**{number: 3.0})):
        for record in RECORDS:
            of = {f: type(record).__dataclass_fields__[f].metadata for f in vars(record)}
            for name, value in vars(machine.scaled(record)).items():
                times = 3.0 if of[name].get(machine.NUMBER) == number else 1.0
                assert value == pytest.approx(times * getattr(record, name))
            back = machine.unscaled(machine.scaled(record))
            assert vars(back) == pytest.approx(vars(record))


def test_all_rates_but_ratios_are_multiples_of_a_number() -> None:
    for record in RECORDS:
        for name, told in type(record).__dataclass_fields__.items():
            known = told.metadata.get(machine.NUMBER)
            assert known in NUMBERS or (known is None and name == "product")


@pytest.mark.parametrize(
    ("core", "bits"),
    [("SkylakeX", 512), ("Haswell", 256), ("Zen", 256), ("Nehalem", 128), ("unknown", 256)],
)
def test_the_packaged_profile_is_chosen_by_openblas(
    core: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "blas_cores", lambda: frozenset({core}))
    assert machine.packaged_name() == f"vectors of {bits} bits"
    assert machine.packaged_name() in PACKAGED


def names(problem: ConvProblem) -> list[str]:
    return [c.name for c in for_deconvolution(problem)]


def test_the_same_profile_always_chooses_the_same_kernels() -> None:
    profiles = [*PACKAGED.values(), another(strided=4.0, call=0.3), another(product=6.0)]
    first = []
    for profile in profiles:
        with machine.using(profile):
            first.append([names(p) for p in PROBLEMS])
    for profile, want in reversed(list(zip(profiles, first, strict=True))):
        with machine.using(profile):
            assert [names(p) for p in PROBLEMS] == want
    assert len({str(f) for f in first}) > 2  # they do differ


@pytest.mark.parametrize("profile", [*PACKAGED.values(), another(strided=9.0), another(added=0.1)])
def test_results_hardly_depend_on_the_profile(profile: MachineProfile) -> None:
    with machine.using(profile):
        for problem in PROBLEMS[1:4]:
            x, w = integers(problem, top=4)
            out, want = np.empty(problem.out_shape, np.float32), deconvolved(problem, x, w)
            run(worthwhile(for_deconvolution(problem))[0], x, w, out)
            np.testing.assert_allclose(out, want, atol=1e-5 * np.abs(want).max())


def test_a_convolution_is_listed_by_the_profile_too() -> None:
    problem = ConvProblem((1, 64, 40, 40), 64, 1, (3, 3), (1, 1), (1, 1), (1, 1), (40, 40))
    with machine.using(another(call=100.0)):
        slow = [c.name for c in for_convolution(problem)]
    with machine.using(another(product=100.0)):
        assert [c.name for c in for_convolution(problem)] != slow


class Ticking:
    """Every look at the clock takes a microsecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


def test_a_calibration_measures_every_number() -> None:
    clock = Clock(wall=Ticking(), cpu=Ticking())
    found = vars(calibration.calibrate(clock, rounds=1, seconds=0.0))
    probes, usual = calibration.probes(), vars(PACKAGED[machine.packaged_name()])
    assert {n.split()[0] for n in probes} >= {"product", "copy", "far", "strided", "added", "call"}
    for name in set(probes) & set(NUMBERS):
        assert found[name] == pytest.approx(1e3 / probes[name][1], rel=1e-3)
        assert found[name] != usual[name]


def test_a_clock_that_stands_still_leaves_the_packaged_numbers() -> None:
    found = calibration.profile_of({"product a": 0.0, "copy": 0.0}, 0.0)
    assert found == PACKAGED[machine.packaged_name()]


def test_what_cannot_be_measured_stays_as_an_earlier_calibration_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without numba and a second processor: three numbers have no measurement."""
    earlier = another(sums=3.0, compiled=2.0, wake=5.0, strided=7.0)
    monkeypatch.setattr(calibration, "processors", lambda: 1)
    monkeypatch.setenv("IRDECONV_FAST", "0")
    clock = Clock(wall=Ticking(), cpu=Ticking())
    with machine.using(earlier):
        found = calibration.calibrate(clock, rounds=1, seconds=0.0)
    kept = ("sums", "compiled", "wake")
    assert [getattr(found, n) for n in kept] == [getattr(earlier, n) for n in kept]
    assert found.strided != earlier.strided


def test_what_differs_little_is_the_packaged_number() -> None:
    usual = PACKAGED[machine.packaged_name()]
    found = calibration.profile_of({"product": usual.product * 1.1, "copy": usual.copy * 1.5}, 0)
    assert found == replace(usual, copy=pytest.approx(usual.copy * 1.5, rel=1e-3))


def test_the_doctor_calibrates(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = another(strided=2.0)
    monkeypatch.setattr(calibration, "calibrate", lambda clock: made)
    assert main(["doctor", "--format", "json"]) == 0
    before = json.loads(capsys.readouterr().out)["profile"]
    assert before["source"] == "packaged"
    assert before["file"] == str(home)
    assert main(["doctor", "--calibrate", "--format", "json"]) == 0
    now = json.loads(capsys.readouterr().out)["profile"]
    assert now["source"] == "calibrated"
    assert now["nanoseconds"] == asdict(made)
    assert home.stat().st_mode & 0o777 == 0o600
    assert home.parent.stat().st_mode & 0o777 == 0o700
    assert machine.profile() == made
    forget()
    assert machine.profile() == made  # read from the file
    assert main(["doctor"]) == 0
    assert "calibrated" in capsys.readouterr().out
    assert main(["doctor", "--calibrate"]) == 0
    shown = {r.split()[0]: r.split()[1:3] for r in capsys.readouterr().out.splitlines()}
    usual = PACKAGED[machine.packaged_name()]
    assert shown["strided"] == [f"{made.strided:.4g}", f"{usual.strided:.4g}"]
    assert shown["wake"] == [f"{made.wake:,.0f}", f"{usual.wake:,.0f}"]
    monkeypatch.setenv(calibrated.IGNORED, "0")
    forget()
    assert machine.profile() == usual


def test_a_calibration_that_would_be_ignored_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(home, before := calibrated.profile_text(another(strided=2.0)))
    monkeypatch.setattr(calibration, "calibrate", lambda clock: FITTED)
    monkeypatch.setenv(calibrated.IGNORED, "0")
    forget()
    assert main(["doctor", "--calibrate"]) == 2
    assert "IRDECONV_CALIBRATED=0 is set" in capsys.readouterr().err
    assert home.read_text() == before


@pytest.mark.parametrize("two", [("--calibrate", "--warm"), ("--limits", "--calibrate")])
def test_the_doctor_does_one_thing_at_a_time(
    two: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *two]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_the_doctor_tells_that_numba_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("irdeconv.cli.doctor._package", lambda name, required=True: INSTALLED)
    for value, said in (("1", False), ("0", True)):
        monkeypatch.setenv("IRDECONV_FAST", value)
        assert main(["doctor"]) == 0
        rows = [r for r in capsys.readouterr().out.splitlines() if "switched off" in r]
        assert [r.split()[0] for r in rows] == ["numba"] * said


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files here")
def test_a_place_that_others_may_change_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibration, "calibrate", lambda clock: FITTED)
    keep(home, json.loads(calibrated.profile_text(FITTED)))
    home.parent.chmod(0o777)
    assert main(["doctor", "--calibrate"]) == 6
    assert "others may change it" in capsys.readouterr().err
    with pytest.warns(RuntimeWarning, match="others may change it"):
        assert machine.profile() == PACKAGED[machine.packaged_name()]
    home.parent.chmod(0o700)
    home.chmod(0o666)
    forget()
    with pytest.warns(RuntimeWarning, match="others may change it"):
        assert calibrated.calibrated().profile is None


def changed(**parts: Any) -> dict[str, Any]:
    return json.loads(calibrated.profile_text(FITTED)) | parts


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "Expecting value|recursion"),
        ("[]", "holds no profile"),
        (lambda: changed(schema="irdeconv/profile/2"), "holds no profile"),
        (lambda: changed(machine={"processor": "another"}), "another machine's"),
        (lambda: changed(nanoseconds={"product": 1.0}), "not the numbers"),
        (lambda: changed(nanoseconds=asdict(FITTED) | {"copy": -1.0}), "not possible"),
        (lambda: changed(nanoseconds=asdict(FITTED) | {"copy": "1"}), "not possible"),
        (lambda: changed(nanoseconds=asdict(FITTED) | {"copy": True}), "not possible"),
        (lambda: changed(nanoseconds=asdict(FITTED) | {"copy": float("nan")}), "not possible"),
        (lambda: changed(nanoseconds=asdict(FITTED) | {"copy": 10**400}), "not possible"),
    ],
)
def test_a_file_that_is_no_profile_is_told_and_ignored(
    home: Path, content: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(home, content() if callable(content) else content)
    with pytest.warns(RuntimeWarning, match=said):
        assert machine.profile() == PACKAGED[machine.packaged_name()]
    assert main(["doctor"]) == 0
    assert "is not used" in " ".join(capsys.readouterr().out.split())


def test_the_file_is_this_machines(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for change in ("processor", "blas_name"):
        with monkeypatch.context() as patch:
            patch.setattr(calibrated, change, lambda: "another")
            assert calibrated.profile_path() != home
    assert calibrated.profile_path() == home


def test_nobodys_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(calibrated, "user_folder", nobody)
    forget()
    assert machine.profile() == PACKAGED[machine.packaged_name()]
    assert main(["doctor", "--calibrate"]) == 6


def test_convolutions_by_the_definition_whatever_the_profile() -> None:
    problem = ConvProblem((1, 6, 11, 9), 4, 2, (3, 2), (2, 1), (1, 1), (1, 0), (6, 8))
    x, w = integers(problem, top=4, convolution=True)
    for profile in PACKAGED.values():
        with machine.using(profile):
            out = np.empty(problem.out_shape, np.float32)
            run(for_convolution(problem)[0], x, w, out)
        np.testing.assert_array_equal(out, convolved(problem, x, w))


@pytest.mark.skipif(not jit.available(), reason="needs numba")
@pytest.mark.parametrize("name", ["winograd-4x4", "direct"])
def test_compiled_loops_take_longer_with_vectors_of_fewer_elements(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else alike: what they do is counted in vectors of the processor."""
    problem = ConvProblem((1, 16, 64, 64), 16, 1, (4, 4), (2, 2), (1, 1), (1, 1), (128, 128))

    def cost(lanes: int) -> float:
        monkeypatch.setattr(jit, "lanes", lambda: lanes)
        return next(c.cost for c in for_deconvolution(problem) if c.name == name)

    assert cost(4) > 1.15 * cost(16)
