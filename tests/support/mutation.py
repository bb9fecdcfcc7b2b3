"""Mutants of lowered files: what the runtime says of each, and what the checker says."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from irdeconv.cli.main import main
from irdeconv.proof.__main__ import main as proof
from support import edit_kinds, edit_parts, edit_wiring
from support.edit_kinds import Edit
from support.ir_edit import Ir
from support.mutation_bases import Base, random_base
from support.runtime_truth import Compiled, RefusedError, same

EDITS: tuple[Edit, ...] = (*edit_kinds.KINDS, *edit_wiring.KINDS, *edit_parts.KINDS)
NUMBERS = ("file_bytes", "last_bit", "element", "elements_swapped", "shared")
PATIENCE = 10.0  # seconds for one answer
EQUAL, VALUES, INTERFACE, INVALID = "equal", "other values", "other interface", "invalid"
UNSEEN = "weights differ"  # but what is computed does not: they are too small
DEADLY = "deadly"  # the runtime dies of it
ACCEPTED, REFUSED, CRASHED = "accepted", "refused", "crashed"


@dataclass(frozen=True)
class Outcome:
    """One mutant: `truth` by the runtime, `verdict` of the checker, `reason` in its words."""

    kind: str
    text: str
    truth: str
    verdict: str
    reason: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the checker says equal of what is not, or says nothing."""
        return self.verdict == CRASHED or (self.verdict == ACCEPTED and self.truth != EQUAL)


def mutants(
    seed: int, number: int, count: int, first: int = 0, *, core: bool = False
) -> Iterator[Outcome]:
    """Judge `count` mutants of the random model `number`, from `first` on.

    Each comes twice: with what the checker says (the trusted core alone, if asked for), then also
    with what the runtime says, which some files kill.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = random_base(np.random.default_rng([seed, number]), folder)
        for i in range(first, count):
            rng = np.random.default_rng([seed, number, i])
            # A name of its own: the runtime maps files, and may still hold the last one.
            path = folder / f"mutant{i}.xml"
            kind, text = edited(base, rng, number * count + i, path)
            if core:  # what the original declares is so
                verdict, reason = core_answer(base.original, path, assuming=True)
            else:
                verdict, reason = answer(base.original, path)
            where = f"--seed {seed} {number}:{i} {text}; {base.text}"
            outcome = Outcome(kind, where, DEADLY, verdict, reason)
            yield outcome
            truth, weights = judged(base, path)
            if truth == EQUAL and verdict == REFUSED and kind in NUMBERS:
                pairs = [(base.compiled.weights.get(k, v), v) for k, v in weights.items()]
                truth = EQUAL if all(np.array_equal(*pair) for pair in pairs) else UNSEEN
            yield replace(outcome, truth=truth)


def edited(base: Base, rng: np.random.Generator, turn: int, path: Path) -> tuple[str, str]:
    """Write a mutant; kinds take turns, and one that finds nothing gives way to the next."""
    for step in range(len(EDITS)):
        edit = EDITS[(turn + step) % len(EDITS)]
        ir = base.ir.copy()
        text = edit(ir, rng)
        if text is not None and not ir.same(base.ir):
            ir.write(path)
            return edit.__name__, text
    raise AssertionError("every model can be edited")


def judged(base: Base, path: Path) -> tuple[str, dict[str, Any]]:
    """Return what the runtime says of a mutant beside the file it was made of, and its weights."""
    if Ir.read(path).has_cycle():  # of these the runtime dies
        return INVALID, {}
    try:
        mutant = Compiled(path)
    except RefusedError:
        return INVALID, {}
    if mutant.interface != base.compiled.interface:
        return INTERFACE, {}
    for feeds, wanted in zip(base.feeds, base.wanted, strict=True):
        try:
            if not same(mutant.run(feeds), wanted):
                return VALUES, {}
        except RefusedError:
            return VALUES, {}
    return EQUAL, mutant.weights


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


def without_numbers(text: str) -> str:
    """A message by which causes are counted."""
    text = re.sub(r"/\S+\.xml[:\d]*", "FILE", re.sub(r'"[^"]*"', '"..."', text))
    return re.sub(r"-?\d+", "#", text)
