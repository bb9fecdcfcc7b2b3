"""The process of a pool (`batch_executors.py`): reads lines from a pipe and executes them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

_FORKED: list[bool] = []  # not empty in a copy of the process


def main() -> None:
    """Do items until the pipe is closed."""
    questions, answers = _pipes()
    _keep_from_forks(questions, answers)
    work = json.loads(questions.readline())
    os.chdir(work["folder"])
    module, _, name = work["call"].partition(":")
    call: Callable[[Any], Any] = getattr(import_module(module), name)
    _limit(work["memory"])
    lines: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read, args=(questions, lines), daemon=True).start()
    _say(answers, {})
    while True:
        _say(answers, call(json.loads(lines.get())))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes; other reads of stdin get nothing, other output is dropped."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    return questions, answers


def _keep_from_forks(*pipes: BinaryIO) -> None:
    """Take the pipes from a copy of this process that an item forks: it must not answer, too."""

    def take() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in pipes:
            os.dup2(null, pipe.fileno(), inheritable=False)
        _FORKED.append(True)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=take)


def _read(questions: BinaryIO, lines: SimpleQueue[bytes]) -> None:
    """Pass lines on; at the end of the pipe the parent is gone, and this process ends."""
    with suppress(OSError):
        for line in questions:
            lines.put(line)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that it has started
    os._exit(0)


def _say(answers: BinaryIO, content: Any) -> None:
    if _FORKED:
        os._exit(0)
    answers.write(json.dumps(content).encode() + b"\n")
    answers.flush()


def _limit(memory: int | None) -> None:
    """Limit the address space to the present one and `memory` bytes."""
    if memory is None:
        return
    import resource  # without it a batch refuses --memory

    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = taken + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
