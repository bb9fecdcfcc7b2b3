"""Make the check that a caller describes, see the model fail it, and shrink the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irdeconv.errors import misused
from irdeconv.graph import Graph
from irdeconv.passes.lower_deconv import lower
from irdeconv.passes.standardize import standardize
from irdeconv.reducing.commands import (
    INPUTS,
    CallCheck,
    CommandCheck,
    VerbCheck,
    Wanted,
    parse_command,
)
from irdeconv.reducing.comparing import OpenVinoCheck, PairCheck, plan_of
from irdeconv.reducing.search import Check, Outcome
from irdeconv.reducing.shrink import Reduced, nothing_to_reduce, require_failure, shrink, variant_of
from irdeconv.reducing.variant import Variant
from irdeconv.runtime.feeds import Feeds
from irdeconv.spec import Array
from irdeconv.verify.compare.peer import openvino
from irdeconv.verify.raising.proved import raise_proved

TIMEOUT = 300.0  # seconds
NOT_RUN = (126, 127)  # exit codes
PEER = "openvino"
VERBS: Mapping[str, Callable[[Variant], Any]] = {
    "lower": lambda c: lower(c.graph),
    "raise": lambda c: raise_proved(c.graph),
    "run": lambda c: plan_of(c.graph, c.feeds).run(c.feeds),
    "write": lambda c: standardize(c.graph),
}


@dataclass(frozen=True)
class Task:
    """What `reduce` is asked for: one of `check`, `compare` and `verb`, and its limits.

    `check` is a command or a function, `compare` "openvino" or the second model, `verb` one of
    VERBS. `fails_with` and `timeout` (seconds) belong to a command, `tolerance` to a comparison.
    `file` is where a command finds the model as it was before it was read.
    """

    check: str | Callable[[Graph, dict[str, Array]], Any] | None = None
    compare: str | Graph | None = None
    verb: str | None = None
    fails_with: str | None = None
    timeout: float = TIMEOUT
    tolerance: float | None = None
    max_checks: int | None = None
    seconds: float | None = None
    file: Path | None = None
    clock: Callable[[], float] = time.monotonic

    def require_sense(self) -> None:
        """Raise UsageError where the task is none."""
        given = [n for n in ("check", "compare", "verb") if getattr(self, n) is not None]
        if len(given) != 1:
            what = f"not {' and '.join(given)} together" if given else "none is given"
            raise misused(f"reduce needs one of check, compare and verb; {what}")
        if isinstance(self.check, str):
            parse_command(self.check)
        elif self.fails_with is not None:
            raise misused("--fails-with goes with a --check that is a command")
        if self.tolerance is not None and self.compare is None:
            raise misused("--tolerance goes with --compare")
        if self.verb is not None and self.verb not in VERBS:
            raise misused(f'verb is "{self.verb}"; it is one of {", ".join(VERBS)}')
        if self.compare == PEER:
            openvino()
        elif isinstance(self.compare, str):
            raise misused(f'compare is "{self.compare}"; it is "{PEER}" or a model')

    def made_check(self) -> Check:
        """Return the check."""
        if isinstance(self.check, str):
            wanted = None if self.fails_with is None else Wanted(self.fails_with)
            return CommandCheck(parse_command(self.check), self.timeout, wanted)
        if self.check is not None:
            return CallCheck(self.check)
        if self.verb is not None:
            return VerbCheck(VERBS[self.verb])
        if isinstance(self.compare, Graph):
            return PairCheck(self.tolerance)
        return OpenVinoCheck(self.tolerance)


def reduce_model(graph: Graph, inputs: Feeds, task: Task) -> Reduced:
    """Shrink a model as long as the fault of a task shows in it.

    Raises UsageError for a task that makes no sense, NothingToReduceError where the model itself
    shows no fault, and what comparing or writing the model raises.
    """
    task.require_sense()
    graphs = [graph, task.compare] if isinstance(task.compare, Graph) else [graph]
    original, check = variant_of(graphs, inputs), task.made_check()
    outcome = _seen_to_fail(task, check, original)
    done = shrink(
        original,
        check,
        outcome,
        max_checks=task.max_checks,
        seconds=task.seconds,
        clock=task.clock,
    )
    return replace(done, in_one_piece=isinstance(check, OpenVinoCheck) and check.whole)


def _seen_to_fail(task: Task, check: Check, original: Variant) -> Outcome:
    if isinstance(check, OpenVinoCheck):
        if check.compare(original).passed:
            check.whole = True
        return require_failure(check, original, twice=False)
    if isinstance(check, PairCheck):
        check.compare(original)
    outcome = require_failure(
        check,
        original,
        twice=isinstance(check, CommandCheck | CallCheck),
        explain=lambda: _changed_by_writing(task, check, original),
    )
    if isinstance(check, CallCheck):
        check.seen = True
    if isinstance(check, CommandCheck) and check.wanted is None and check.last is not None:
        if check.last.code in NOT_RUN:
            message = f"a shell cannot run a command of the check: {outcome.said}"
            raise nothing_to_reduce(message, f"--fails-with {check.last.code} if it is the fault")
        check.wanted = Wanted.like(check.last)
    return outcome


def _changed_by_writing(task: Task, check: Check, original: Variant) -> str | None:
    """Say so where the file itself fails, and not what irdeconv writes of it."""
    if not isinstance(check, CommandCheck) or task.file is None:
        return None
    if any(INPUTS in w for w in check.words) or not check.run(task.file, original).fails:
        return None
    return f"{task.file} fails the check as it stands, but not as irdeconv writes it anew"
