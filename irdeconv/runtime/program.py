"""A program: the steps of a plan for one set of input shapes, with its memory.

Slots are numbered values. What the kernels write lies in one block of memory (arena.py) for as long
as the program lives; outputs of the model are fresh arrays, the caller's own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from irdeconv import progress
from irdeconv.graph import Graph, Node
from irdeconv.kernels.compiled.recorded import Recorded, Repeated
from irdeconv.kernels.shared.team import Team, Threads, arithmetic
from irdeconv.runtime.variables import Variables
from irdeconv.spec import Array

VIEW = "view"  # the kernel of a step that looks at its input in another way
COUNTS_REFERENCES = sys.implementation.name == "cpython"
Trace = Callable[[Node, tuple[Array, ...]], None]
Values = list[Any]
Call = Callable[[Values], None]
Slots = tuple[int, ...]
Around = Callable[["Step", Values], None]


def _alone() -> int:
    """Return how many references this interpreter counts to what one variable alone holds."""
    kept = object()
    return sys.getrefcount(kept)


UNSHARED = _alone()


@dataclass(frozen=True, slots=True)
class Step:
    """One call: the nodes it covers, which slots it reads and writes, which it is last to need.

    `kernel` names what executes it, `why` the reason, `scratch` bytes of memory besides tensors,
    `recorded` what `call` does where all of it is compiled; `short` tells that no thread is worth
    waking up for it.
    """

    nodes: tuple[Node, ...]
    call: Call
    inputs: Slots
    outputs: Slots
    frees: Slots = ()
    kernel: str = ""
    why: str = ""
    scratch: int = 0
    recorded: Recorded | None = None
    short: bool = False

    @property
    def node(self) -> Node:
        """The node whose outputs the step has."""
        return self.nodes[-1]


Watch = Callable[[Step, list[Array], tuple[Array, ...]], None]


@dataclass(frozen=True)
class Always:
    """A call that does the same with the same memory in every run.

    `recorded` is what it does where all of that is compiled.
    """

    prepared: Callable[[Team], None]
    team: Team

    def __call__(self, values: Values) -> None:
        """Do it."""
        self.team.begin()
        self.prepared(self.team)

    @property
    def recorded(self) -> Recorded | None:
        """The calls."""
        return self.prepared.recorded if isinstance(self.prepared, Repeated) else None


@dataclass(frozen=True)
class Fresh:
    """A slot that gets a new array in every run."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class Program:
    """Steps over slots. `values` holds what never changes: constants, buffers, views of these.

    Bytes: `arena` is the block of memory, `most_alive` what of it is in use at once at most,
    `evaluated` what steps without a place in it allocate, as far as sizes are known.
    """

    steps: list[Step]
    values: Values
    parameters: list[int]
    results: list[tuple[str, int]]
    given: list[tuple[Node, Slots]]
    team: Threads
    graph: Graph  # the one that the steps' nodes belong to
    variables: Variables
    fresh: list[Fresh] = field(default_factory=list)
    arena: int = 0
    most_alive: int = 0
    evaluated: int = 0
    _kept: dict[int, Array] = field(default_factory=dict, repr=False)
    _joined: list[Step] = field(init=False, repr=False)
    _returned: list[tuple[str, int, bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._joined = joined(self.steps, self.team)
        own, self._returned = {one.slot for one in self.fresh}, []
        for name, slot in self.results:
            self._returned.append((name, slot, slot in own))
            own.discard(slot)  # a second output of the same value is a copy

    def run(
        self, arrays: Sequence[Array], trace: Trace | None = None, watch: Watch | None = None
    ) -> dict[str, Array]:
        """Execute with one array per parameter; StepError where a step fails.

        `trace` is called with each step's last node and its outputs, `watch` with the step, its
        inputs and its outputs.
        """
        with self.team.lock, arithmetic():
            self.variables.begin()
            values = self._begin(arrays)
            if trace is None and watch is None:
                self._run(values)
            else:
                self._traced(values, trace, watch)
            self.variables.end()
            return self._outputs(values)

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Execute as a part of another program, which holds the lock; returns the outputs."""
        values = self._begin(arrays)
        for step in self._joined:
            try:
                step.call(values)
            except Exception as e:
                raise StepError(step, values, e) from e
            for slot in step.frees:
                values[slot] = None
        self.variables.go_on()
        return list(self._outputs(values).values())

    def observe(self, arrays: Sequence[Array], around: Around) -> dict[str, Array]:
        """Execute, every step by `around(step, values)`, which calls `step.call(values)`."""
        with self.team.lock, arithmetic():
            self.variables.begin()
            values = self._begin(arrays)
            for step in self.steps:
                with self.team.lock.callback():
                    around(step, values)
                for slot in step.frees:
                    values[slot] = None
            self.variables.end()
            return self._outputs(values)

    def _begin(self, arrays: Sequence[Array]) -> Values:
        values = self.values.copy()
        for slot, array in zip(self.parameters, arrays, strict=True):
            if values[slot] is None:
                values[slot] = array
            else:
                np.copyto(values[slot], array)
        for one in self.fresh:
            values[one.slot] = self._fresh(one)
        return values

    def _fresh(self, one: Fresh) -> Array:
        """Return memory for an output: that of an earlier run which nobody refers to any more.

        Fresh memory costs a page fault per 4 KiB. Views and exported buffers count as references.
        """
        kept = self._kept.pop(one.slot, None)
        if kept is None or not COUNTS_REFERENCES or sys.getrefcount(kept) > UNSHARED:
            kept = np.empty(one.shape, one.dtype)
        self._kept[one.slot] = kept
        return kept

    def _run(self, values: Values) -> None:
        step = None
        try:
            for step in progress.each("running", self._joined, name=_label):
                step.call(values)
                for slot in step.frees:
                    values[slot] = None
        except Exception as e:
            assert step is not None
            raise StepError(step, values, e) from e

    def _traced(self, values: Values, trace: Trace | None, watch: Watch | None) -> None:
        for node, slots in self.given if trace is not None else ():
            held = tuple(values[slot] for slot in slots if values[slot] is not None)
            if held and trace is not None:
                with self.team.lock.callback():
                    trace(node, held)
        for step in progress.each("running", self.steps, name=_label):
            try:
                step.call(values)
            except Exception as e:
                raise StepError(step, values, e) from e
            outputs = tuple(values[slot] for slot in step.outputs)
            with self.team.lock.callback():
                if trace is not None:
                    trace(step.node, outputs)
                if watch is not None:
                    watch(step, [values[slot] for slot in step.inputs], outputs)
            for slot in step.frees:
                values[slot] = None

    def _outputs(self, values: Values) -> dict[str, Array]:
        return {
            name: values[slot] if own else np.array(values[slot], order="C", copy=True)
            for name, slot, own in self._returned
        }


def joined(steps: Sequence[Step], team: Threads) -> list[Step]:
    """Return the steps with those as one that follow each other and are compiled.

    So are the pieces of a single step. Threads share what a single step does, so with several of
    them only short steps are joined.
    """
    found: list[Step] = []

    def joins(step: Step) -> bool:
        return step.recorded is not None and (team.threads == 1 or step.short)

    for together, run in groupby(steps, joins):
        some = list(run)
        if not together:
            found += some
            continue
        work = Repeated((Recorded.joined([s.recorded for s in some if s.recorded]),))
        nodes = tuple(node for step in some for node in step.nodes)
        frees = tuple(slot for step in some for slot in step.frees)
        found.append(Step(nodes, Always(work, team), (), some[-1].outputs, frees))
    return found


def _label(step: Step) -> str:
    return step.node.name


class StepError(Exception):
    """A step failed: which one, the arrays that it read, and the reason."""

    def __init__(self, step: Step, values: Values, cause: Exception) -> None:
        super().__init__()
        self.step, self.cause = step, cause
        self.arrays = [values[i] for i in step.inputs]

    @property
    def innermost(self) -> StepError:
        """The step that failed itself, which may be one of a body."""
        return self.cause.innermost if isinstance(self.cause, StepError) else self
