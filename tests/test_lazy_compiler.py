"""numba is imported when a compiled kernel is prepared, and not for what runs once and is small."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.jit import is_wanted, retried
from irdeconv.ops.activation import ReLU
from irdeconv.ops.convolution import Convolution
from irdeconv.run.plan import COMPILED_SAVES, LOADING, gains_by_compiling
from support.layers import constant, parameter, result
from support.networks import image, network

needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")
DEPTHWISE = ConvProblem((1, 8, 9, 9), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
PRELUDE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import irdeconv as ird
from support.networks import image, network
def loaded():
    return "numba" in sys.modules
"""


def fresh(code: str) -> None:
    """Run code in a process of its own, which has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@needs_numba
def test_kernels_are_listed_and_chosen_without_numba() -> None:
    fresh("""
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.candidate import ConvProblem
w = ConvProblem((1, 8, 9, 9), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
found = {c.name: c for c in for_convolution(w)}
assert "depthwise" in found
assert found["depthwise"].cost > 0
assert for_deconvolution(w)
assert not loaded()
found["depthwise"].prepare(np.ones((8, 1, 1, 3, 3), np.float32))
assert loaded()
""")


@needs_numba
def test_what_runs_once_and_is_small_does_without_numba(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    ird.write(network(), path)
    fresh(f"""
from irdeconv.cli.main import main
for form in (None, "zero-insertion", "phases", "stacked", "gemm"):
    ird.run(network(), image(), form)
ird.compare(network(), ird.lower(network()).graph, image())
assert main(["run", {str(path)!r}, "-q"]) == 0
assert not loaded()
assert main(["run", {str(path)!r}, "-q", "--tune"]) == 0
assert loaded()
""")


def test_a_plan_for_many_runs_takes_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def choosing(choose: Callable[[], Any]) -> Any:
        asked.append(is_wanted())
        return retried(choose)

    monkeypatch.setattr("irdeconv.run.plan.retried", choosing)
    ird.compile(network()).run(image())
    assert set(asked) == {True}
    asked.clear()
    ird.compile(network(), once=True).run(image())
    assert set(asked) == {False}


def test_a_run_is_the_same_whatever_was_loaded_before() -> None:
    first = ird.run(network(), image())
    ird.compile(network()).run(image())
    second = ird.run(network(), image())
    assert [a.tobytes() for a in first.values()] == [a.tobytes() for a in second.values()]


def wide(channels: int, size: int) -> Graph:
    """x -> Convolution of size 1 -> ReLU."""
    g = Graph()
    x = parameter(g, (1, channels, size, size), np.float32, "x")
    w = constant(g, np.ones((channels, channels, 1, 1), np.float32), "w")
    y = Value(g.add(Convolution(), [x, w], name="conv").id)
    result(g, Value(g.add(ReLU(), [y], name="relu").id))
    return ird.infer(g)


def test_large_networks_gain() -> None:
    assert not gains_by_compiling(ird.infer(network()))
    # 0.03 ns for each of c^2 s^2 products, 1 ns for each of c s^2 elements of x, conv, relu and y.
    for channels, size in ((512, 300), (512, 700)):
        nanoseconds = 0.03 * channels**2 * size**2 + 4 * channels * size**2
        expected = COMPILED_SAVES * nanoseconds > LOADING
        assert gains_by_compiling(wide(channels, size)) == expected
    assert expected


def test_unknown_sizes_gain_nothing() -> None:
    g = wide(512, 700)
    for node in g.nodes():
        node.specs = tuple(Spec(s.dtype, (DYNAMIC, *(s.shape or ())[1:])) for s in node.specs or ())
    assert not gains_by_compiling(g)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba is found, but importing it fails."""
    monkeypatch.setattr(jit, "installed", lambda: True)
    monkeypatch.setattr(jit, "_BROKEN", set())
    monkeypatch.setenv("IRDECONV_FAST", "1")
    monkeypatch.setitem(sys.modules, "numba", None)


@pytest.mark.usefixtures("broken")
def test_a_broken_numba_is_noticed_when_a_kernel_is_prepared() -> None:
    depthwise = next(c for c in for_convolution(DEPTHWISE) if c.name == "depthwise")
    with pytest.raises(jit.BrokenCompilerError):
        depthwise.prepare(np.ones((8, 1, 1, 3, 3), np.float32))
    assert not jit.available()
    assert "depthwise" not in [c.name for c in for_convolution(DEPTHWISE)]
    assert for_deconvolution(DEPTHWISE)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("fuse", [False, True])
def test_a_broken_numba_changes_no_result(fuse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    got = ird.compile(network(), None, fuse=fuse).run(image())
    monkeypatch.setenv("IRDECONV_FAST", "0")
    want = ird.compile(network(), None, fuse=fuse).run(image())
    assert [a.tobytes() for a in got.values()] == [a.tobytes() for a in want.values()]


@pytest.mark.usefixtures("broken")
def test_a_broken_numba_with_a_filter_that_is_an_input() -> None:
    g = Graph()
    x = parameter(g, (1, 8, 9, 9), np.float32, "x")
    w = parameter(g, (8, 1, 1, 3, 3), np.float32, "w")
    op = REGISTRY["GroupConvolution", "opset1"](pads_begin=(1, 1), pads_end=(1, 1))
    result(g, Value(g.add(op, [x, w], name="conv").id))
    ones = np.ones((1, 8, 9, 9), np.float32), np.ones((8, 1, 1, 3, 3), np.float32)
    for _ in range(2):
        (y,) = ird.compile(g, None).run(ones).values()
        assert y[0, 0, 0, 0] == 4
        assert y[0, 7, 4, 4] == 9


def test_a_copied_plan_still_runs_once() -> None:
    plan = ird.compile(network(), once=True)
    assert copy.copy(plan).settings.once
    assert not copy.copy(ird.compile(network())).settings.once
