"""A process that does items one after the other, seen from the process that gives it items.

Both talk in lines of JSON over two pipes of their own: nothing is pickled, a process that dies
spoils nothing of others, and unlike a `multiprocessing.Process` it may be started by the workers of
Dask, which are daemons. It ends when the pipe to it is closed, so it outlives nobody.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Lock, Timer
from typing import Any

from irdeconv.batches.rows import Row, crashed, timed_out
from irdeconv.errors import misused

BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from irdeconv.batches.child_main import main; main()"
)


@dataclass(frozen=True)
class Errand:
    """What a process is started for.

    `call` names the function ("module:function") that takes payloads; `memory` bytes and `timeout`
    seconds limit each item, `folder` is where relative paths begin.
    """

    call: str
    folder: str
    memory: int | None = None
    timeout: float | None = None


class Child:
    """A process for items; it is started when the first one comes, and again after each death."""

    def __init__(self, work: Errand) -> None:
        self.work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._closed = False

    def run(self, payload: dict[str, Any]) -> Row:
        """Return what became of an item; UsageError where no process can be started."""
        process = self._process or self._started()
        late: list[bool] = []

        def stop() -> None:
            late.append(True)
            process.kill()

        timer = Timer(self.work.timeout or 0, stop)
        timer.daemon = True
        if self.work.timeout is not None:
            timer.start()
        answer = _asked(process, payload)
        timer.cancel()
        if answer is not None:
            if answer.pop("last", False):  # its memory is in no state to go on with
                self._drop()
            return answer
        code = self._drop()
        return timed_out(self.work.timeout or 0) if late else crashed(code)

    def close(self) -> None:
        """End the process, whatever it does."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()
            self._drop()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise InterruptedError("the batch is over")
            process = self._process = subprocess.Popen(  # noqa: S603 - this Python, fixed words
                [sys.executable, "-P", "-c", BEGIN, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that the user has started
            )
        if _asked(process, asdict(self.work)) is None:
            code = self._drop()
            hint = "allow more with --memory" if self.work.memory else "irdeconv doctor may tell"
            raise misused(f"a process for items does not start (exit code {code})", hint)
        return process

    def _drop(self) -> int | None:
        """Forget the process, which is dead or has nothing to do; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return process.wait()


def _asked(process: subprocess.Popen[bytes], content: dict[str, Any]) -> dict[str, Any] | None:
    """Send a line and wait for the answer; None where the process dies instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(content).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except (OSError, ValueError):  # the pipe is broken, or closed by `close`
        return None
    if not line.endswith(b"\n"):
        return None
    answer: dict[str, Any] = json.loads(line)
    return answer
