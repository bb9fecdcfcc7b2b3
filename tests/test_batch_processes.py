"""The pool of processes of a batch: whatever an item does to its process, the others go on."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from irdeconv.base.errors import UsageError
from irdeconv.cli.batch_executors import Child, Errand, InProcess, Processes
from support import batch_calls

CALL = "support.batch_calls:call"


def errand(**limits: Any) -> Errand:
    return Errand(CALL, os.getcwd(), **limits)


def done(executor: Processes | InProcess, hows: Sequence[str]) -> list[str]:
    """What became of items, in their order."""
    with closing(executor.results([{"how": how} for how in hows])) as results:
        rows = dict(results)
    return [f"{rows[i]['status']} {rows[i]['summary']}" for i in range(len(hows))]


def test_whatever_an_item_does_the_others_go_on() -> None:
    hows = ["well", "crash", "well", "hang", "exit", "print", "well", "nonsense"]
    assert done(Processes(errand(timeout=1.0), 2), hows) == [
        "yes well",
        "crashed the process of this item was ended by signal 9",
        "yes well",
        "timed out not finished after 1 s",
        "crashed the process of this item ended with exit code 3",
        "yes print",
        "yes well",
        "crashed the process of this item was ended by signal 9",
    ]


def test_in_this_process() -> None:
    assert done(InProcess(batch_calls.call), ["well", "well"]) == ["yes well"] * 2


def test_a_process_is_used_again_until_it_dies() -> None:
    child = Child(errand())
    try:
        first, second = (child.run({"how": "who"})["summary"] for _ in range(2))
        assert first == second != f"who in {os.getpid()}"
        child.run({"how": "exit"})
        assert child.run({"how": "who"})["summary"] != first
    finally:
        child.close()


@pytest.mark.skipif("not sys.platform.startswith('linux')", reason="limits of memory need Linux")
def test_memory_is_limited_beyond_that_of_an_idle_process() -> None:
    child = Child(errand(memory=200 * 2**20))
    try:
        assert child.run({"how": "memory", "bytes": 100 * 2**20})["summary"] == "memory"
        before = child.run({"how": "who"})["summary"]
        assert child.run({"how": "memory", "bytes": 300 * 2**20})["summary"] == "refused"
        assert child.run({"how": "who"})["summary"] != before, "it had no memory to go on with"
    finally:
        child.close()


@pytest.mark.skipif("not hasattr(__import__('os'), 'fork')", reason="it forks")
def test_copies_of_a_process_neither_answer_nor_stay() -> None:
    hows = ["fork", "well", "who", "orphan", "well"]
    rows = done(Processes(errand(), 1), hows)
    assert rows[:2] == ["yes fork", "yes well"]
    assert rows[3:] == ["crashed the process of this item ended with exit code 5", "yes well"]


def test_a_process_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not start"):
        Child(Errand("support.nothing:call", str(tmp_path))).run({})


@pytest.mark.skipif(
    "sys.platform == 'win32'", reason="it ends workers with signals, as POSIX has them"
)
def test_who_stops_asking_leaves_no_process_behind(tmp_path: Path) -> None:
    payloads = [{"how": "mark", "folder": str(tmp_path), "name": str(i)} for i in range(3)]
    payloads += [{"how": "hang"}] * 2
    results = Processes(errand(), 2).results(payloads)
    next(results)
    results.close()
    (pid, *_) = {int(p.name.split("-")[1]) for p in tmp_path.iterdir()}
    for _ in range(100):
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            time.sleep(0.05)
            continue
        return
    raise AssertionError("the process is still there")
