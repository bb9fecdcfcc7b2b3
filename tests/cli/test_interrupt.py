"""Ctrl-C: 130 and no traceback, at any moment of a process; nothing half-written stays behind."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from irdeconv.cli import interrupt
from irdeconv.cli.interrupt import EXIT_CODE, Interruption
from irdeconv.cli.main import main
from support.ir_text import write_small_net

# Says when it begins to import the package.
START = """
import os, sys
try:
    os.write(1, b"!")
    from irdeconv.__main__ import main
except KeyboardInterrupt:
    os._exit(130)
sys.exit(main())
"""
COMMANDS = {
    "help": ["--help"],
    "validate": ["validate", "net.xml"],
    "lower": ["lower", "net.xml", "-o", "out.xml", "--certify", "proof.json", "-q"],
    "run": ["run", "net.xml", "-q"],
    "compare": ["compare", "net.xml"],
}


@pytest.mark.thorough
@pytest.mark.sampled(12)
@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize("delay", [0.003, 0.02, 0.05, 0.1, 0.25])
def test_a_process_that_is_interrupted(verb: str, delay: float, tmp_path: Path) -> None:
    ended_by(signal.SIGINT, verb, delay, tmp_path)


@pytest.mark.parametrize("delay", [0.003, 0.25])
def test_a_process_that_is_terminated(delay: float, tmp_path: Path) -> None:
    ended_by(signal.SIGTERM, "lower", delay, tmp_path)


def ended_by(number: signal.Signals, verb: str, delay: float, tmp_path: Path) -> None:
    write_small_net(tmp_path)
    given = set(tmp_path.iterdir())
    with subprocess.Popen(
        [sys.executable, "-c", START, *COMMANDS[verb]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=partial(signal.signal, number, signal.SIG_DFL),
    ) as running:
        assert running.stdout.read(1) == b"!"
        time.sleep(delay)
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    # It may have been done before, or nothing was left of it but Python itself.
    assert running.returncode in (128 + number, 0, -number)
    assert errors in (b"", b"input x: rand, seed 0\n")  # it may be told already
    made = {p.name for p in set(tmp_path.iterdir()) - given}
    assert made in (set(), {"out.xml", "out.bin"}, {"out.xml", "out.bin", "proof.json"})
    if delay < 0.01:
        assert running.returncode in (128 + number, -number)


@pytest.mark.parametrize("number", [1, 6])
def test_no_temporary_is_left(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruption comes while one is removed."""
    write_small_net(tmp_path)
    given, removed, unlink = set(tmp_path.iterdir()), [], Path.unlink

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        removed.append(path)
        if len(removed) == number:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", interrupted)
    assert main(["lower", str(tmp_path / "net.xml"), "-o", str(tmp_path / "out.xml"), "-q"]) == 130
    made = {p.name for p in set(tmp_path.iterdir()) - given}
    assert made in (set(), {"out.xml", "out.bin"})


class Gone(Exception):
    pass


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(time=100.0)
    stands_for_time = SimpleNamespace(monotonic=lambda: clock.time, sleep=lambda seconds: None)
    monkeypatch.setattr(interrupt, "time", stands_for_time)

    def leave(code: int) -> None:
        assert code == EXIT_CODE
        raise Gone

    monkeypatch.setattr(os, "_exit", leave)
    return clock


def interrupted() -> Interruption:
    process = Interruption()
    with pytest.raises(KeyboardInterrupt):
        process.handle(signal.SIGINT, None)
    return process


def test_the_first_is_raised_and_time_is_left_to_tidy_up(now: SimpleNamespace) -> None:
    process = interrupted()
    now.time += 0.9
    process.handle(signal.SIGINT, None)
    now.time += 0.2
    with pytest.raises(Gone):
        process.handle(signal.SIGINT, None)


def test_one_that_was_lost_is_raised_again(
    now: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    again: list[object] = []
    monkeypatch.setattr(
        interrupt._thread, "start_new_thread", lambda function, args: again.append(function)
    )
    process = interrupted()
    process.unraisable(SimpleNamespace(exc_type=KeyboardInterrupt))  # type: ignore[arg-type]
    assert again == [process._again]
    with pytest.raises(KeyboardInterrupt):
        process.handle(signal.SIGINT, None)
    assert capsys.readouterr().err == ""
    seen: list[object] = []
    monkeypatch.setattr(sys, "__unraisablehook__", seen.append)
    other = SimpleNamespace(exc_type=ValueError)
    process.unraisable(other)  # type: ignore[arg-type]
    assert seen == [other]
    assert len(again) == 1


def test_what_the_interruption_breaks_is_not_printed(
    now: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda *problem: seen.append(problem[0]))
    process = Interruption()
    process.printed(ValueError, ValueError(), None)
    with pytest.raises(KeyboardInterrupt):
        process.handle(signal.SIGINT, None)
    process.printed(ImportError, ImportError("failed to import"), None)
    assert seen == [ValueError]


def test_at_the_end_nothing_is_waited_for(now: SimpleNamespace) -> None:
    process = Interruption()
    process.finish()
    with pytest.raises(Gone):
        process.handle(signal.SIGINT, None)
    process = interrupted()
    with pytest.raises(Gone):
        process.finish()
