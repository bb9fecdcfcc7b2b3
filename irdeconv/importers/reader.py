"""What the readers of other formats share: a node as rules see it, and how one is imported."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.errors import IrdeconvError, OpError
from irdeconv.geometry import Semantics
from irdeconv.graph import Graph, Info, Value
from irdeconv.importers.builder import ImportBuilder, Refusal, source_node
from irdeconv.importers.imported import MISFITS, Imported, Report
from irdeconv.importers.safe_names import make_names_safe
from irdeconv.op import Op, parse_attributes
from irdeconv.source import Location
from irdeconv.spec import Shape


@dataclass(kw_only=True)
class SourceNode:
    """A node of another format: attributes, inputs (None: left out).

    `semantics` is the reading of deconvolutions. Attributes that no rule asks for are refused.
    """

    name: str
    attributes: dict[str, Any]
    inputs: tuple[Value | None, ...]
    semantics: Semantics = "runtime"
    asked: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def input(self, at: int) -> Value | None:
        """Return an optional input."""
        return self.inputs[at] if at < len(self.inputs) else None

    def __getitem__(self, at: int) -> Value:
        found = self.input(at)
        if found is None:
            raise Refusal(f"input {at} is missing")
        return found

    @property
    def given(self) -> tuple[Value, ...]:
        """All inputs, none of which may be left out."""
        return tuple(self[i] for i in range(len(self.inputs)))

    def refuse_rest(self) -> None:
        """Refuse attributes that no rule has asked for."""
        left = sorted(set(self.attributes) - self.asked)
        if left:
            raise Refusal(f"the attribute {', '.join(left)} is not covered")


def operation(cls: type[Op], attributes: Mapping[str, Any]) -> Op:
    """Return an operation by its attributes as XML spells them, lists and numbers being plain.

    Refuses attributes that it does not have, lacks or cannot read.
    """
    values, problems = parse_attributes(cls, {k: _spelled(v) for k, v in attributes.items()})
    for problem in problems:
        if problem.severity == "error" or problem.code == "W100":
            raise Refusal(problem.message)
    made: Op = cls(**values)
    return made


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(_spelled, value))
    return str(value)


def producers_first(waits: list[set[int]]) -> list[int]:
    """Return numbers behind those that they wait for, otherwise as they stand.

    What cannot come behind what it waits for, in a circle, is left out.
    """
    if all(w < at for at, ws in enumerate(waits) for w in ws):
        return list(range(len(waits)))
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for at, ws in enumerate(waits):
        for w in ws:
            readers[w].append(at)
    left = [len(ws) for ws in waits]
    ready = [at for at, count in enumerate(left) if not count]
    out = []
    while ready:
        at = heapq.heappop(ready)
        out.append(at)
        for r in readers[at]:
            left[r] -= 1
            if not left[r]:
                heapq.heappush(ready, r)
    return out


@dataclass
class ModelReader:
    """Builds the graph of one model; `shapes` are given for inputs by name."""

    location: Location
    shapes: dict[str, Shape | None]
    semantics: Semantics

    def start(self, name: str, format: str) -> Imported:
        """Return an empty graph with what it is made of."""
        self.out = Report(location=self.location)
        self.graph = Graph(Info(name=name, file=self.location.file))
        self.builder = ImportBuilder(self.graph, source_node("", self.location))
        return Imported(self.graph, format)

    def finish(self, done: Imported) -> Imported:
        """Raise everything that is wrong at once, or return the model."""
        if not self.graph.results and not self.out.errors:
            self.out.malformed("the model has no outputs, so nothing of it is computed", "E209")
        self.out.finish()
        self.builder.finish()
        make_names_safe(self.graph, self.out, self.location)
        done.diagnostics = self.out.diagnostics
        return done

    def attempt(
        self,
        name: str,
        title: str,
        build: Callable[[], None],
        builder: ImportBuilder | None = None,
    ) -> None:
        """Build the nodes of one layer; where that fails, record why and leave none of them."""
        builder = builder or self.builder
        builder.begin(name)
        try:
            # What is too large for a narrow type is infinite, here as where the model runs.
            with np.errstate(all="ignore"):
                build()
        except Refusal as e:
            self.out.uncovered(name, f"{title}: {e}")
        except OpError as e:
            self.out.problem(name, title, e.problem)
        except IrdeconvError:
            raise
        except MISFITS as e:
            message = f"{title}: its inputs do not fit: {e}"
            self.out.add("E300", message, location=self.location, layer=name)
        else:
            return
        builder.undo()
