"""Progress: what a listener hears, and that nobody pays for it who does not listen."""

from __future__ import annotations

import threading

import pytest

from irdeconv import progress


class Notes:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.open: list[progress.Stage] = []

    def begin(self, stage: progress.Stage) -> None:
        self.heard.append(f"+{stage.what} {stage.done}/{stage.total}")
        self.open.append(stage)

    def end(self, stage: progress.Stage) -> None:
        self.heard.append(f"-{stage.what} {stage.done}/{stage.total} {stage.detail}".rstrip())
        assert self.open.pop() is stage


def test_stages_nest_and_count() -> None:
    notes = Notes()
    with progress.listening(notes), progress.stage("comparing", total=3) as step:
        step()
        with progress.stage("compiling") as compiled:
            compiled(5)
        step(2, "conv1")
    assert notes.heard == [
        "+comparing 0/3",
        "+compiling 0/None",
        "-compiling 5/None",
        "-comparing 3/3 conv1",
    ]


def test_a_listener_sees_the_count_while_the_work_goes_on() -> None:
    notes = Notes()
    with progress.listening(notes), progress.stage("reading", total=100) as step:
        step(40)
        assert (notes.open[0].done, notes.open[0].total) == (40, 100)


def test_an_exception_ends_its_stages() -> None:
    notes = Notes()
    with (
        pytest.raises(KeyboardInterrupt),
        progress.listening(notes),
        progress.stage("a"),
        progress.stage("b"),
    ):
        raise KeyboardInterrupt
    assert notes.heard == ["+a 0/None", "+b 0/None", "-b 0/None", "-a 0/None"]
    assert not notes.open


def test_without_a_listener_there_is_one_stage_for_all() -> None:
    assert not progress.heard()
    assert progress.stage("a", total=1) is progress.stage("b")
    with progress.stage("a", total=1) as step:
        step()
        step(2, "x")
    notes = Notes()
    with progress.listening(notes):
        assert progress.heard()
        with progress.listening(None), progress.stage("silent"):
            assert not progress.heard()
    assert notes.heard == []
    assert not progress.heard()


def test_other_threads_report_nothing() -> None:
    notes = Notes()

    def work() -> None:
        with progress.stage("in a thread"):
            pass

    with progress.listening(notes):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert notes.heard == []
