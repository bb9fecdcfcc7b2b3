"""An obligation as SMT-LIB 2, for all sizes and all positions.

What is shown: at every size, both outputs have the same shape, and for every position o of the
output and every position i of the data both sides multiply element i by the same weights and add
the same numbers. Along an axis a class of outputs (smt_classes.py) reads element i through some
taps of the source's filter and some emitted taps. Which ones together is a finite list, found by
looking at samples. The formula then says, step by step:

    sizes    the outputs have the same size on every axis
    defined  what the reading takes for granted: element counts of Reshape, no negative sizes
    reads    along one axis no other taps read the same element together than those listed
    differs  taps listed for each axis whose weights differ, compared as numbers here, never meet

Each step asks for a counterexample, so that `unsat` of all is the proof. Covered are positions,
taps, channels, sizes; weights, biases and parameters of activations are compared as numbers by this
module, element types and the width of integers are not looked at.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from irdeconv.proof.model import Obligation, Unproved
from irdeconv.verify.smt_classes import AxisReadings, EqualityProblem, OutputsOfClass, TapReading
from irdeconv.verify.smt_samples import Samples
from irdeconv.verify.smt_tables import WeightTable, constants, differ, total
from irdeconv.verify.smt_terms import SmtCondition, all_of

SIZES, DEFINED, READS, DIFFERS = "sizes", "defined", "reads", "differs"
MOST_COMBINATIONS = 1 << 16
Hits = tuple[bool, ...]


@dataclass
class Script:
    """The steps written so far; equal ones are written once."""

    lines: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    steps: int = 0

    def step(self, kind: str, what: str, body: Sequence[str]) -> None:
        """Write one question."""
        text = "\n".join(body)
        if text in self.seen:
            return
        self.seen.add(text)
        self.steps += 1
        title = textwrap.wrap(f"step {self.steps}, {kind}: {what}", 97)
        self.lines += ["", *(f"; {t}" for t in title), "(push 1)", *body, "(check-sat)", "(pop 1)"]


def obligation(ob: Obligation, rounding: float = 0.0, samples: Samples | None = None) -> str:
    """Return the obligation as SMT-LIB 2; `unsat` of every step is its proof.

    Weights may differ by `rounding`, relative to the larger one. `samples` are sizes and positions
    to look at in addition. Raises Unproved where a layer is not followed.
    """
    problem = EqualityProblem.of(ob)
    samples = samples or Samples()
    script = Script()
    must = [c for c in problem.sizes_differ if c.known is not True]
    if must:
        script.step(SIZES, "the output has the shape of the source layer's", [_not(must)])
    if not problem.empty:
        samples.prepare(problem)
        writer = _Writer(problem, samples, script, rounding)
        for each in problem.classes():
            writer.write(each)
    needed = [c for c in problem.space.required if c.known is not True]
    if needed:
        reasons = "; ".join(dict.fromkeys(problem.space.required[c] for c in needed))
        script.step(DEFINED, reasons, [_not(needed)])
    return "\n".join([*_header(problem), *script.lines, ""])


def _not(conditions: Sequence[SmtCondition]) -> str:
    return "(assert (not " + all_of(conditions).replace(" (", "\n  (") + "))"


def _header(problem: EqualityProblem) -> list[str]:
    ob, space = problem.obligation, problem.space
    source, lowered = ob.source.of(ob.wanted), ob.lowered.of(ob.output)
    text = (
        f"{lowered} of the lowered model computes what {source} of the source does. Each step "
        "asks for a counterexample; unsat of all steps is the proof. o, i: positions of output "
        "and data along an axis (0 is the batch, then spatial ones); src: a tap of the source's "
        "filter, low: an emitted tap; each holds where it reads element i for output o."
    )
    lines = [f"; {t}" for t in textwrap.wrap(text.replace("\n", " "), 97)]
    lines += [
        "(set-logic QF_LIA)",
        "(define-fun larger ((a Int) (b Int)) Int (ite (>= a b) a b))",
        "(define-fun smaller ((a Int) (b Int)) Int (ite (<= a b) a b))",
    ]
    for name in space.variables:
        lines += [f"; {_plain(space.comments[name])}", f"(declare-const {name} Int)"]
    lines += [f"(assert {c.text})" for c in space.bounds()]
    for n in space.named.values():
        lines += [f"; {_plain(n.layer)}", f"(define-fun {n.name} () Int {n.term.text})"]
    for c, why in space.assumed.items():
        lines += [f"; {_plain(why)}", f"(assert {c.text})"] if c.known is not True else []
    return lines


def _plain(text: str) -> str:
    """Return a text for a comment: one line."""
    return " ".join(text.split())[:90]


@dataclass
class _Writer:
    """Writes the steps of one class after the other."""

    problem: EqualityProblem
    samples: Samples
    script: Script
    rounding: float

    def write(self, each: OutputsOfClass) -> None:
        where = ", ".join(f"o{a.axis} = {a.position.text}" for a in each.axes if a.position.constant
                          or a.variable[0] == "q")  # fmt: skip
        where = f" where {where}" if where else ""
        sources = each.sources
        allowed = []
        for axis in each.axes:
            if not each.parts:
                break
            hits = self.samples.hits(axis)
            allowed.append(hits)
            if not hits:
                continue
            names = _names(axis, sources)
            body = [*_position(axis), *_element(axis), *_taps(axis, names)]
            body.append(_none_of(names, hits))
            what = f"axis {axis.axis}, which taps read the same element{_at(axis)}"
            self.script.step(READS, what, body)
        if each.parts:
            self._differing(each, allowed, where)
        if each.constants:
            self._constants(each, where)

    def _differing(self, each: OutputsOfClass, allowed: list[list[Hits]], where: str) -> None:
        """Write the step of combinations of taps with other weights, if there are any."""
        tables = [WeightTable.of(p, self.problem.filter) for p in each.parts]
        wrong = []
        for combination in _combinations([[h for h in hits if any(h)] for hits in allowed]):
            sums = []
            for at, table in enumerate(tables):
                taps = _chosen(each, combination, at)
                sums.append(None if taps is None else (table.port, table.sum(taps)))
            left = total([s for s in sums[: each.sources] if s is not None])
            right = total([s for s in sums[each.sources :] if s is not None])
            if differ(left, right, self.rounding):
                wrong.append(combination)
        if wrong:
            body = []
            for axis in each.axes:
                names = _names(axis, each.sources)
                body += [*_position(axis), *_element(axis), *_taps(axis, names)]
            every = [_names(a, each.sources) for a in each.axes]
            body.append(_one_of(every, wrong))
            self.script.step(DIFFERS, f"these taps have other weights{where}", body)

    def _constants(self, each: OutputsOfClass, where: str) -> None:
        """Write which biases are added together, and what of that differs."""
        values = constants(each.constants, self.problem.channels)
        allowed = []
        for axis in each.axes:
            hits = self.samples.active(axis)
            allowed.append(hits)
            if any(axis.constants) and hits:
                names = [f"add{axis.axis}_{j}" for j in range(len(axis.constants))]
                body = [*_position(axis), *_added(axis, names), _none_of(names, hits)]
                self.script.step(READS, f"axis {axis.axis}, which numbers are added{_at(axis)}",
                                 body)  # fmt: skip
        wrong = []
        for combination in _combinations(allowed):
            active = [all(h[j] for h in combination) for j in range(len(values))]
            at = each.source_constants
            left = total([v for v, on in zip(values[:at], active[:at], strict=True) if on])
            right = total([v for v, on in zip(values[at:], active[at:], strict=True) if on])
            if differ(left, right, self.rounding):
                wrong.append(combination)
        if wrong:
            body, every = [], []
            for axis in each.axes:
                every.append([f"add{axis.axis}_{j}" for j in range(len(axis.constants))])
                body += [*_position(axis), *_added(axis, every[-1])]
            body.append(_one_of(every, wrong))
            self.script.step(DIFFERS, f"other numbers are added{where}", body)


def _combinations(allowed: Sequence[Sequence[Hits]]) -> Iterator[tuple[Hits, ...]]:
    count = math.prod(map(len, allowed))
    if count > MOST_COMBINATIONS:
        raise Unproved(f"taps meet in {count} ways")
    return itertools.product(*allowed)


def _chosen(
    each: OutputsOfClass, combination: Sequence[Hits], at: int
) -> tuple[tuple[int, ...], ...] | None:
    """Return the taps by which a part reads the element, by axis; None if it does not."""
    out = []
    for axis, hits in zip(each.axes, combination, strict=True):
        first = sum(len(p) for p in axis.parts[:at])
        taps = tuple(t for t in range(len(axis.parts[at])) if hits[first + t])
        if not taps:
            return None
        out.append(taps)
    return tuple(out[1 : each.parts[at].weights.ndim - 1])


def _at(axis: AxisReadings) -> str:
    return f" for o{axis.axis} = {axis.position.text}" if axis.variable[0] == "q" else ""


def _names(axis: AxisReadings, sources: int) -> list[str]:
    """Return names of what every tap reads: src1_0 is tap 0 of axis 1."""
    out = []
    for at, part in enumerate(axis.parts):
        own = at if at < sources else at - sources
        count = sources if at < sources else len(axis.parts) - sources
        word = f"{'src' if at < sources else 'low'}{axis.axis}" + (f"_{own}" if count > 1 else "")
        out += [f"{word}_{t}" for t in range(len(part))]
    return out


def _position(axis: AxisReadings) -> list[str]:
    """Declare the output's position."""
    lines = [f"(declare-const {axis.variable} Int)", f"(assert (>= {axis.position.text} 0))"]
    return [*lines, f"(assert (< {axis.position.text} {axis.size.text}))"]


def _element(axis: AxisReadings) -> list[str]:
    """Declare the data's position."""
    i = f"i{axis.axis}"
    last = (axis.inputs - 1).text
    return [f"(declare-const {i} Int)", f"(assert (and (>= {i} 0) (<= {i} {last})))"]


def _taps(axis: AxisReadings, names: Sequence[str]) -> list[str]:
    i = f"i{axis.axis}"

    def text(tap: TapReading) -> str:
        return f"(and (= {i} {tap.place.text}) {all_of(tap.conditions)})"

    return [f"(define-fun {n} () Bool {text(t)})" for n, t in zip(names, axis.taps, strict=True)]


def _added(axis: AxisReadings, names: Sequence[str]) -> list[str]:
    rows = zip(names, axis.constants, strict=True)
    return [f"(define-fun {n} () Bool {all_of(c)})" for n, c in rows]


def _literals(names: Sequence[str], hits: Hits) -> str:
    texts = [n if h else f"(not {n})" for n, h in zip(names, hits, strict=True)]
    return texts[0] if len(texts) == 1 else f"(and {' '.join(texts)})"


def _any(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else "(or\n  " + "\n  ".join(texts) + ")"


def _none_of(names: Sequence[str], listed: Iterable[Hits]) -> str:
    return f"(assert (not {_any([_literals(names, h) for h in listed])}))"


def _one_of(names: Sequence[Sequence[str]], wrong: Sequence[Sequence[Hits]]) -> str:
    texts = []
    for combination in wrong:
        inner = " ".join(_literals(n, h) for n, h in zip(names, combination, strict=True) if n)
        texts.append(f"(and {inner})")
    return f"(assert {_any(texts)})"
