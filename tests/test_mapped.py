"""Files that change while they are mapped, and processes that fork while a plan runs."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import InputError
from irdeconv.formats.document import WeightsFile
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.elementwise import Add
from support.layers import constant, parameter, result

SIZE = 1 << 20


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x + 4 MiB of ones."""
    g = Graph()
    x = parameter(g, (SIZE,), np.float32, "x")
    w = constant(g, np.ones(SIZE, np.float32), "w")
    result(g, Value(g.add(Add(), [x, w], name="sum").id), "y")
    ird.write(ird.infer(g), tmp_path / "m.xml")
    return tmp_path / "m.xml"


def cut(model: Path, size: int = 5000) -> None:
    os.truncate(model.with_suffix(".bin"), size)


X = {"x": np.zeros(SIZE, np.float32)}


def test_weights_cut_off_before_a_run_are_told(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    cut(model)
    with pytest.raises(InputError, match="it had 4194304 bytes, and has 5000") as e:
        plan.run(X)
    assert [d.code for d in e.value.diagnostics] == ["E125"]


def test_weights_cut_off_and_grown_again_are_told(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    cut(model)
    cut(model, 4 * SIZE)
    with pytest.raises(InputError, match="something wrote to it"):
        plan.run(X)


def test_weights_cut_off_before_writing_leave_the_target(model: Path, tmp_path: Path) -> None:
    graph = ird.read(model)
    cut(model, 0)
    with pytest.raises(InputError, match=r"m\.bin was changed while it was in use"):
        ird.write(graph, tmp_path / "new.xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]


def test_weights_that_are_replaced_are_those_that_were_read(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    ird.write(ird.read(model), model)
    assert set(plan.run(X)["y"].tolist()) == {1.0}


def test_weights_cut_off_while_they_are_read(model: Path) -> None:
    weights = WeightsFile(model.with_suffix(".bin"))
    values = np.frombuffer(weights.read(0, 4 * SIZE), np.float32)
    cutting = threading.Thread(target=cut, args=(model,))
    cutting.start()
    sums = {float(values.sum()) for _ in range(50)}
    cutting.join()
    sums.add(float(values.sum()))
    assert max(sums) <= SIZE
    assert min(sums) >= 1250
    with pytest.raises(InputError, match="E125"):
        weights.require_intact()


@pytest.mark.skipif(sys.platform != "linux", reason="the number of SIGBUS")
def test_a_fault_of_another_mapping_ends_the_process_as_ever(model: Path) -> None:
    program = (
        "import mmap, os, sys\n"
        "from irdeconv.formats.document import WeightsFile\n"
        "held = WeightsFile(sys.argv[1])\n"
        "with open(sys.argv[2], 'w+b') as file:\n"
        "    file.truncate(100000)\n"
        "    other = mmap.mmap(file.fileno(), 0)\n"
        "    file.truncate(0)\n"
        "    other[50000]\n"
    )
    paths = str(model.with_suffix(".bin")), str(model.with_name("other"))
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, check=False)
    assert done.returncode == -signal.SIGBUS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_child_forked_while_a_plan_runs_runs_it_too(model: Path, threads: int) -> None:
    plan = ird.compile(ird.read(model), threads=threads)
    over, running = threading.Event(), threading.Event()

    def work() -> None:
        while not over.is_set():
            plan.run(X, trace=lambda *_: running.set())

    other = threading.Thread(target=work)
    other.start()
    try:
        for _ in range(4):
            running.clear()
            assert running.wait(60)
            assert waited(in_child(lambda: float(plan.run(X)["y"][7]) == 1.0)) == 0
    finally:
        over.set()
        other.join()


def test_a_child_forked_by_a_callback_goes_on_with_the_run(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    children: list[int] = []

    def trace(*_: object) -> None:
        children.append(os.fork())

    out = plan.run(X, trace=trace)
    if 0 in children:
        os._exit(0 if float(out["y"][7]) == 1.0 else 1)
    assert [waited(child) for child in children] == [0] * len(children)


def in_child(work: Callable[[], bool]) -> int:
    """Return the process that calls `work`; it ends with 0 where that is true."""
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    code = 2
    try:
        code = 0 if work() else 1
    finally:
        os._exit(code)


def waited(child: int) -> int:
    """Return the exit code of a child; one that hangs is killed by its own alarm."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
