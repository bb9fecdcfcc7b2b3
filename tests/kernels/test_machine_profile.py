"""How fast a machine is: its vectors, costs scaled to it, measured kernels."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.cli.main import main
from irdeconv.kernels import convolution as work
from irdeconv.kernels import (
    convolution_direct,
    convolution_rows,
    deconvolution_col2im,
    deconvolution_phases,
    eager,
    jit,
    machine,
    products,
    residue_cuts,
    winograd_tilings,
)
from irdeconv.kernels.candidate import (
    Candidate,
    ConvProblem,
    best_of,
    every_cut,
    shared,
    worthwhile,
)
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.machine import PRODUCTS
from irdeconv.kernels.panels import own_tiles, step_name
from irdeconv.kernels.threads import Threads
from irdeconv.runtime import executors
from irdeconv.runtime.executors import CLOSE, REPEATS, RIVAL, WORTH, Tuner
from support.commands import Capture, Patch, answer
from support.ir_text import write_small_net
from support.kernels import convolved, deconvolved, integers, products_taking, run

INSTALLED = {"version": "1.0", "problem": None}
RECORDS = (
    products.PRODUCT,
    work.WORK,
    convolution_direct.DIRECT,
    residue_cuts.RESIDUES,
    deconvolution_col2im.TERMS,
    winograd_tilings.PASSES,
    winograd_tilings.TILED,
    convolution_rows.BANDED,
)
TIMES = (*PRODUCTS.values(), 0.05, 30.0)  # of matrix products
PROBLEMS = [
    ConvProblem((1, c, s, s), m, 1, (k, k), (d, d), (1, 1), (p, p), ((s - 1) * d + k - 2 * p,) * 2)
    for c, m, s in ((3, 8, 9), (64, 32, 40))
    for k, d, p in ((2, 2, 0), (3, 2, 1), (4, 2, 1), (5, 1, 2))
]


def test_products_alone_depend_on_the_vectors() -> None:
    for record in RECORDS:
        with products_taking(1.0):
            assert machine.scaled(record) == record
        with products_taking(3.0):
            scaled = vars(machine.scaled(record))
        changed = {n: v / getattr(record, n) for n, v in scaled.items() if v != getattr(record, n)}
        names = {"tiled", "packed", "macs"} & set(vars(record))
        assert changed == pytest.approx(dict.fromkeys(names, 3.0))


def test_separable_windows_depend_on_the_time_of_products() -> None:
    problem = ConvProblem((1, 8, 20, 20), 8, 8, (4, 4), (2, 2), (1, 1), (1, 1), (40, 40))
    costs = []
    for factor in (1.0, 3.0):
        with products_taking(factor):
            costs.append(deconvolution_phases._cost(problem))
    assert costs[0] < costs[1] < 3 * costs[0]


@pytest.mark.parametrize(
    ("core", "bits"),
    [("SkylakeX", 512), ("Haswell", 256), ("Zen", 256), ("Nehalem", 128), ("unknown", 256)],
)
def test_the_core_of_openblas_gives_the_bits_of_vectors(
    core: str, bits: int, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(machine, "blas_cores", lambda: frozenset({core}))
    assert machine.vector_bits() == bits
    assert bits in PRODUCTS


def names(problem: ConvProblem) -> list[str]:
    return [c.name for c in for_deconvolution(problem)]


def test_the_same_vectors_always_choose_the_same_kernels() -> None:
    first = []
    for times in TIMES:
        with products_taking(times):
            first.append([names(p) for p in PROBLEMS])
    for times, want in reversed(list(zip(TIMES, first, strict=True))):
        with products_taking(times):
            assert [names(p) for p in PROBLEMS] == want
    assert len({str(f) for f in first}) > 2  # they do differ


@pytest.mark.sampled(1)
@pytest.mark.parametrize("times", TIMES)
def test_results_hardly_depend_on_the_vectors(times: float) -> None:
    with products_taking(times):
        for problem in PROBLEMS[1:4]:
            x, w = integers(problem, top=4)
            out, want = np.empty(problem.out_shape, np.float32), deconvolved(problem, x, w)
            run(worthwhile(for_deconvolution(problem))[0], x, w, out)
            np.testing.assert_allclose(out, want, atol=1e-5 * np.abs(want).max())


def test_a_convolution_is_listed_by_the_vectors_too() -> None:
    problem = ConvProblem((1, 64, 40, 40), 64, 1, (3, 3), (1, 1), (1, 1), (1, 1), (40, 40))
    with products_taking(0.01):
        slow = [c.name for c in for_convolution(problem)]
    with products_taking(100.0):
        assert [c.name for c in for_convolution(problem)] != slow


def test_the_doctor_tells_that_numba_is_switched_off(monkeypatch: Patch) -> None:
    monkeypatch.setattr("irdeconv.cli.about._package", lambda name, required=True: INSTALLED)
    for value, said in (("1", False), ("0", True)):
        monkeypatch.setenv("IRDECONV_FAST", value)
        rows = [r for r in answer("doctor").out.splitlines() if "switched off" in r]
        assert [r.split()[0] for r in rows] == ["numba"] * said


@pytest.mark.slow
def test_convolutions_by_the_definition_for_all_vectors() -> None:
    problem = ConvProblem((1, 6, 11, 9), 4, 2, (3, 2), (2, 1), (1, 1), (1, 0), (6, 8))
    x, w = integers(problem, top=4, convolution=True)
    for times in PRODUCTS.values():
        with products_taking(times):
            out = np.empty(problem.out_shape, np.float32)
            run(for_convolution(problem)[0], x, w, out)
        np.testing.assert_array_equal(out, convolved(problem, x, w))


@pytest.mark.skipif(not jit.available(), reason="needs numba")
@pytest.mark.parametrize("name", ["winograd-4x4", "direct"])
def test_compiled_loops_take_longer_with_vectors_of_fewer_elements(
    name: str, monkeypatch: Patch
) -> None:
    """Everything else alike: what they do is counted in vectors of the processor."""
    problem = ConvProblem((1, 16, 64, 64), 16, 1, (4, 4), (2, 2), (1, 1), (1, 1), (128, 128))

    def cost(lanes: int) -> float:
        monkeypatch.setattr(jit, "lanes", lambda: lanes)
        return next(c.cost for c in for_deconvolution(problem) if c.name == name)

    assert cost(4) > 1.15 * cost(16)


# --tune: all ways to cut the work that may be the fastest are measured, and found again.


LAYER = ConvProblem((1, 2, 9), 3, 1, (3,), (1,), (1,), (1,), (9,))
FILTER = np.ones((1, 3, 2, 3), np.float32)
COST = 2 * WORTH


def way(name: str, cost: float, items: int = 1) -> Candidate:
    return Candidate(name, cost, 0, lambda w: lambda x, out, epilogue, team: None, items)


class Watch:
    """Takes times from a table; counts runs by what was measured."""

    def __init__(self, monkeypatch: Patch, **seconds: float) -> None:
        self.seconds, self.runs = seconds, dict[str, int]()
        monkeypatch.setattr(executors, "_time", self.time)
        monkeypatch.setattr(executors, "_MEASURED", {})

    def time(self, candidate: Candidate, *more: Any) -> float:
        key = f"{candidate.name}{candidate.items}"
        self.runs[key] = self.runs.get(key, 0) + more[-1]
        return self.seconds[key]


def choose(tuner: Tuner, candidates: list[Candidate]) -> Candidate:
    return tuner.choose("convolution", LAYER, candidates, FILTER, Threads()).candidate


def candidates() -> list[Candidate]:
    cuts = [way("a", COST), way("a", 1.5 * COST, 2), way("a", 2 * RIVAL * COST, 4)]
    return [best_of(cuts[0], cuts), way("b", 1.2 * COST), way("c", 2 * RIVAL * COST)]


def test_a_cut_wins_and_is_found_again(monkeypatch: Patch, tmp_path: Path) -> None:
    watch = Watch(monkeypatch, a1=3.0, a2=1.0, b1=1.1)
    path = tmp_path / "folder" / "kernels.json"
    mask = os.umask(0o002)  # a file that the group may change would not be read again
    try:
        assert choose(Tuner(True, path), candidates()).items == 2
    finally:
        os.umask(mask)
    # Those beyond twice the least estimate are not measured, the slow one only once.
    assert watch.runs == {"a1": 1, "a2": 1 + REPEATS, "b1": 1 + REPEATS}
    watch.runs.clear()
    assert choose(Tuner(True), candidates()).items == 2  # from memory
    monkeypatch.setattr(executors, "_MEASURED", {})
    assert choose(Tuner(True, path), candidates()).items == 2  # from the file
    assert not watch.runs
    monkeypatch.setattr(executors, "_MEASURED", {})
    monkeypatch.setattr(executors, "processor", lambda: "another")
    assert choose(Tuner(True, path), candidates()).items == 2
    assert watch.runs


def test_a_single_fast_one_is_measured_once(monkeypatch: Patch) -> None:
    watch = Watch(monkeypatch, a1=1.0, a2=1.1 * CLOSE, b1=1.2 * CLOSE)
    assert choose(Tuner(True), candidates()).items == 1
    assert watch.runs == {"a1": 1, "a2": 1, "b1": 1}


def test_what_is_gone_is_measured_anew(monkeypatch: Patch, tmp_path: Path) -> None:
    watch = Watch(monkeypatch, a1=3.0, a2=1.0, b1=2.0)
    path = tmp_path / "kernels.json"
    choose(Tuner(True, path), candidates())
    monkeypatch.setattr(executors, "_MEASURED", {})
    a, b, c = candidates()
    watch.runs.clear()
    assert choose(Tuner(True, path), [replace(a, cuts=()), b, c]).name == "b"
    assert set(watch.runs) == {"a1", "b1"}


def test_without_measuring_cuts_change_nothing() -> None:
    assert choose(Tuner(), candidates()).items == 1


def test_the_best_cut_knows_the_others() -> None:
    best = shared(iter([way("a", COST, n) for n in (1, 2, 4)]))
    assert best.items == 4
    assert [c.items for c in best.cuts] == [1, 2]
    assert [c.items for c in every_cut([best, way("a", COST, 2)])] == [4, 2]
    doubled = best.changed(lambda c: replace(c, cost=2 * c.cost))
    assert {c.cost for c in (doubled, *doubled.cuts)} == {2 * COST}


def test_cuts_that_threads_cannot_share_are_left_out() -> None:
    cuts = [way("a", COST, n) for n in (1, 2, 4, 8, 16)]
    assert [c.items for c in every_cut([best_of(cuts[3], cuts)])] == [8, 4, 16]
    assert [c.items for c in every_cut([best_of(cuts[1], cuts)])] == [2, 4, 8, 16]
    assert [c.items for c in every_cut([best_of(cuts[0], cuts)])] == [1, 2, 4, 8, 16]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_cut_computes_the_definition(dtype: str) -> None:
    strided = ConvProblem((2, 6, 7, 9), 4, 2, (3, 4), (2, 2), (1, 1), (1, 1), (13, 18), dtype)
    plain = ConvProblem((2, 6, 9, 8), 4, 2, (3, 3), (1, 1), (1, 1), (1, 1), (9, 8), dtype)
    deep = ConvProblem((1, 40, 12, 12), 40, 1, (2, 2), (2, 2), (1, 1), (0, 0), (24, 24), dtype)
    for problem in (strided, plain, deep):
        x, w = integers(problem, top=3)
        want = deconvolved(problem, x, w)
        for cut in every_cut(for_deconvolution(problem)):
            require_near(cut, problem, x, w, want)
    point = replace(deep, kernel=(1, 1), strides=(1, 1), sizes=(12, 12))
    x, w = integers(point, top=3, convolution=True)
    want = convolved(point, x, w)
    for cut in every_cut(for_convolution(point)):
        require_near(cut, point, x, w, want)


def require_near(cut: Candidate, problem: ConvProblem, x: Any, w: Any, want: Any) -> None:
    out = np.empty(problem.out_shape, problem.dtype)
    run(cut, x, w, out)
    assert np.abs(out - want).max() <= 2e-2, cut.label


# doctor --warm: what it compiles, for whom, and where that is kept.


needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")


@needs_numba
def test_the_layers_have_all_compiled_kernels() -> None:
    listed = {c.name for layer in eager.CONVOLUTIONS for c in for_convolution(layer)}
    assert listed >= {"direct", "depthwise"}
    listed = {c.name for layer in eager.DECONVOLUTIONS for c in for_deconvolution(layer)}
    assert "direct" in listed
    assert any(name.startswith("winograd") for name in listed)


@needs_numba
def test_a_model_is_compiled(tmp_path: Path) -> None:
    path = str(write_small_net(tmp_path))
    found = answer("doctor", "--warm", path, path, "--format", "json").json["warm"]
    assert found["models"] == [path, path]
    assert found["folder"] == jit.cache_folder()
    assert "what these models take" in answer("doctor", "--warm", path, "-q").out


@needs_numba
def test_all_kernels_are_compiled(monkeypatch: Patch, capsys: Capture) -> None:
    done: list[str] = []
    monkeypatch.setattr(
        "irdeconv.kernels.compiled_records.compile_all", lambda more: done.append("calls")
    )
    monkeypatch.setattr(
        eager, "_try_kernel", lambda layer, candidate, shape: done.append(candidate.name)
    )
    assert main(["doctor", "--warm"]) == 0
    assert {"calls", "direct", "depthwise"} <= set(done)
    assert "what kernels need" in capsys.readouterr().out


@needs_numba
def test_the_layers_run() -> None:
    for layer in (eager.CONVOLUTIONS[0], eager.CONVOLUTIONS[-1]):
        shape = layer.groups, layer.group_outputs, layer.group_inputs, *layer.kernel
        for candidate in for_convolution(layer):
            eager._try_kernel(layer, candidate, shape)
    layer = eager.DECONVOLUTIONS[0]
    shape = layer.groups, layer.group_inputs, layer.group_outputs, *layer.kernel
    for candidate in for_deconvolution(layer):
        eager._try_kernel(layer, candidate, shape)


@needs_numba
def test_calls_are_compiled_for_this_processor(monkeypatch: Patch) -> None:
    from irdeconv.kernels import compiled_records as steps

    done: list[str] = []
    monkeypatch.setattr(steps, "_address", done.append)
    monkeypatch.setattr(eager, "CONVOLUTIONS", ())
    monkeypatch.setattr(eager, "DECONVOLUTIONS", ())
    eager.compile_kernels()
    taken = {n for n in done if n.startswith("tiles")}
    assert taken == {step_name(tile) for tile in own_tiles()}
    assert {"depthwise", "copy"} <= set(done)


def test_without_a_compiler(monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "numba", None)
        assert "E520" in answer("doctor", "--warm", code=4).err
    if jit.available():
        monkeypatch.setenv("IRDECONV_FAST", "0")
        assert "IRDECONV_FAST=0" in answer("doctor", "--warm", code=2).err
