"""What `check-certificate` and the trusted core say of two files."""

import contextlib
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from irdeconv.cli.main import main
from irdeconv.proof.__main__ import main as proof

PATIENCE = 10.0  # seconds for one answer
ACCEPTED, REFUSED, CRASHED = "accepted", "refused", "crashed"


def answer(original: Path, lowered: Path, *more: str) -> tuple[str, str]:
    """Return the verdict of `check-certificate` and the first line that says why."""
    return _verdict(lambda: main(["check-certificate", str(original), str(lowered), "-q", *more]))


def core_answer(original: Path, lowered: Path, *, assuming: bool = False) -> tuple[str, str]:
    """Return the verdict of the trusted core alone, and why.

    `assuming` accepts what holds if types and shapes are as the original declares.
    """

    def run() -> int:
        with mock.patch.object(sys, "argv", ["proof", str(original), str(lowered)]):
            return proof()

    return _verdict(run, "equal for every size, if what is assumed is so" if assuming else None)


def _verdict(run: Callable[[], int], also: str | None = None) -> tuple[str, str]:
    out, start = io.StringIO(), time.perf_counter()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = run()
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        return CRASHED, f"{type(e).__name__}: {e}"
    spent = time.perf_counter() - start
    lines = [s.strip() for s in out.getvalue().splitlines() if s.strip()]
    if code == 0 or (code == 3 and also in lines):
        return ACCEPTED, ""
    said = [s for s in lines if "FAIL" in s or "error" in s or "not proved" in s] or lines or [""]
    reason = f"exit {code}: {said[0]}"
    if code == 70 or code < 0 or spent > PATIENCE or "the proof itself failed" in reason:
        return CRASHED, f"{reason} ({spent:.1f} s)"
    return REFUSED, reason
