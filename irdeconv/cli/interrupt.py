"""Ctrl-C and SIGTERM in the process of the command: no traceback, whenever they come.

The exit code is 130 or 143, 128 and the number of the signal.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType

EXIT_CODE = 130
GRACE = 1.0  # seconds to remove files; after that a second Ctrl-C exits at once


class Interruption:
    """Raises KeyboardInterrupt once, lets the work be tidied up, then leaves at once.

    If that exception is lost, because it was raised in a destructor, a callback of the importer or
    a C function that cannot fail, Python prints it and goes on; here it is raised again.
    """

    def __init__(self) -> None:
        self.since: float | None = None
        self.lost = False
        self.over = False
        self.code = EXIT_CODE

    def watch(self, numbers: Sequence[int]) -> None:
        """Take over signals."""
        if not numbers:
            return
        sys.unraisablehook = self.unraisable
        sys.excepthook = self.printed
        for number in numbers:
            signal.signal(number, self.handle)

    def printed(
        self, kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        """Print an exception, as C functions of NumPy do, but not a result of the interruption."""
        if self.since is None:
            sys.__excepthook__(kind, value, trace)

    def _again(self) -> None:
        time.sleep(0.01)
        _thread.interrupt_main()

    def finish(self) -> None:
        """Nothing is left to be tidied up: the next Ctrl-C ends the process.

        One that has come ends it now, because at its own end Python would wait for threads, and
        kill itself if the exception has passed through generated code.
        """
        self.over = True
        if self.since is not None:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(self.code)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Answer a signal."""
        now = time.monotonic()
        if self.since is None:
            self.code = 128 + number
        if self.over or (self.since is not None and now - self.since > GRACE):
            os._exit(self.code)
        if self.since is None or self.lost:
            self.since, self.lost = now, False
            raise KeyboardInterrupt

    def unraisable(self, problem: sys.UnraisableHookArgs) -> None:
        """Raise a lost KeyboardInterrupt again; print other problems as usual."""
        if problem.exc_type is KeyboardInterrupt:
            self.lost = True
            _thread.start_new_thread(self._again, ())  # here it would be lost as well
        else:
            sys.__unraisablehook__(problem)


PROCESS = Interruption()
