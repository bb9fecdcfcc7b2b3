"""The verdict on a device's results: a line per case, common causes, JSON, JUnit.

A result is judged by its bound. Known mistakes and known differences of peers explain failures;
docs/disagreements.md has the reasons.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.errors import Judged, count
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, html_title, line
from irdeconv.base.tables import wrap
from irdeconv.ir.spec import Array
from irdeconv.ops.dialect_template import placed
from irdeconv.verify import judge as rounding
from irdeconv.verify import suite_manifest
from irdeconv.verify.comparison import gives, with_filter_mistake
from irdeconv.verify.difference import Allowed, TensorDifference, difference
from irdeconv.verify.suite_layer import SuiteLayer


@np.errstate(all="ignore")
def judge(case: suite_manifest.StoredCase, theirs: Array) -> TensorDifference:
    """Compare a result, its axes N, C, *spatial; `kind` names a mistake that explains it."""
    layer, (expected, allowed) = case.layer, case.expected()
    theirs = suite_manifest.loaded(theirs, layer.dtype) if suite_manifest.is_raw(theirs) else theirs
    names = (case.name, layer.element_type, str(theirs.dtype))
    wanted = expected.astype(layer.dtype.container)
    seen = difference(names, wanted, theirs, allowed, expected, output=True)
    if seen.passed or theirs.dtype.kind in "OSUT":
        return seen
    a, b, want, limit = (_first(layer, y) for y in (wanted, theirs, expected, allowed.limit))
    kind = difference(names, a, b, replace(allowed, limit=limit), want).kind
    if kind is None:
        kind = next(_kinds(case, replace(seen, kind=None), (expected, theirs), allowed), None)
    return replace(seen, kind=kind)


def _first(layer: SuiteLayer, y: Any) -> Array:
    """Return an output as N, C, *spatial."""
    y = np.asarray(y)
    return np.moveaxis(y, -1, 1) if layer.op.channels_last and y.ndim > 2 else y


def _kinds(
    case: suite_manifest.StoredCase,
    seen: TensorDifference,
    both: tuple[Array, Array],
    allowed: Allowed,
) -> Iterator[str]:
    """Yield the mistakes that explain a result, the likeliest first; `both`: expected, theirs."""
    layer, arrays = case.layer, case.arrays()
    expected, theirs = (y.astype(np.float64) for y in both)

    def explains(layer: SuiteLayer, **changed: Array) -> bool:
        """Whether a layer with these arrays, computed in double precision, has the result."""
        values = [{**arrays, **changed}[port] for port in layer.port_shapes]
        wide = rounding.floats(values, lambda v: v.astype(np.float64))
        return gives(rounding.evaluate(layer.op, wide)[0], theirs, allowed.slack)

    if theirs.shape == expected.shape:
        if "bias" in arrays and explains(layer, bias=0 * arrays["bias"]):
            yield "the bias is missing"
        values = [arrays[port] for port in layer.port_shapes]
        found = with_filter_mistake(seen, layer.op, values, both[1], allowed).kind
        if found is not None:
            yield found
        if layer.activation != "none" and explains(replace(layer, activation="none")):
            yield f"the activation {layer.activation.split()[0]} is missing"
    if gives(np.moveaxis(expected, 1, -1), theirs, allowed.slack):
        yield "channels are last instead of first"
    if gives(np.moveaxis(expected, -1, 1), theirs, allowed.slack):
        yield "channels are first instead of last"
    if theirs.shape == expected.shape:
        number = int((np.isnan(theirs) & np.isfinite(expected)).sum())
        if number:
            yield f"NaN at {number} outputs that no NaN or infinity reaches (0 * infinity)"


MOST_CAUSES = 3  # causes that are printed
_SIZES = ("size ", "batch ", "channels ", "outputs ")  # features that are rarely the cause
FEWEST_FAILURES = 2  # failures that can have something in common


class Cause(Record):
    """Common features of failing cases."""

    features: tuple[str, ...]  # that all these cases have
    failed: int  # number of cases that fail
    passed: int  # number of cases with these features that pass

    def __str__(self) -> str:
        features = " and ".join(self.features)
        rest = f"; so have {self.passed} that pass" if self.passed else "; no case that passes has"
        return f"all {self.failed} have {features}{rest}"


def causes(failed: Sequence[Sequence[str]], passed: Sequence[Sequence[str]]) -> list[Cause]:
    """Return features that all failures and fewest passing cases have, the rarest of them first.

    Both are the features of every case. Two features at a time count if both together say more than
    each by itself.
    """
    if len(failed) < FEWEST_FAILURES or not passed:
        return []
    common = [f for f in failed[0] if all(f in other for other in failed)]
    good = [set(features) for features in passed]
    having = {f: sum(f in features for features in good) for f in common}
    telling = [f for f in common if having[f] < len(good)]
    found = [Cause((f,), len(failed), having[f]) for f in telling]
    least = min((c.passed for c in found), default=len(good))
    if least:
        for pair in itertools.combinations(telling, 2):
            both = sum(features.issuperset(pair) for features in good)
            if both < least:
                found.append(Cause(pair, len(failed), both))
    found.sort(
        key=lambda c: (c.passed, len(c.features), sum(f.startswith(_SIZES) for f in c.features))
    )
    best = found[0].passed if found else 0
    # Features of which most cases pass are no cause; one that says less than the best is no news.
    most = min(len(failed), 2 * best)
    return [c for c in found if c.passed * len(c.features) ** 2 <= most][:MOST_CAUSES]


class Circumstances(NamedTuple):
    """A layer, which of its arrays holds an infinity and a NaN, and whether results are exact."""

    layer: SuiteLayer
    spoiled: str | None
    exact: bool


class Defect(NamedTuple):
    """A peer's mistake with a file of a case, and its condition."""

    peer: str
    file: str
    text: str
    applies: Callable[[Circumstances], bool]


def _pointwise(c: Circumstances) -> bool:
    if set(c.layer.kernel) | set(c.layer.strides) != {1}:
        return False
    crop = placed(c.layer.op, c.layer.specs)
    return crop is not None and any(crop.begin) and crop.size == c.layer.size


def _single_3d(c: Circumstances) -> bool:
    layer = c.layer
    single = layer.axes == 3 and layer.groups == layer.channels == layer.outputs == 1
    return single and layer.dilations[0] != layer.dilations[1]


def _negative_pads(c: Circumstances) -> bool:
    layer = c.layer
    if layer.dialect != "openvino" or layer.auto_pad != "explicit":
        return False  # other dialects are written without
    # Beside an output_shape the end follows from the size.
    return min(layer.pads_begin) < 0 or (layer.output_shape is None and min(layer.pads_end) < 0)


_OV, _MODEL, _LOWERED = "openvino", "model.xml", "lowered.xml"
_ORT, _ONNX = "onnxruntime", "model.onnx"
_SPREADS = "it multiplies zeros by infinities where the definition multiplies nothing"
DEFECTS: tuple[Defect, ...] = (
    Defect(_OV, _MODEL, "a kernel of size 1 at stride 1 ignores pads where the output has the "
           "data's size", _pointwise),
    Defect(_OV, _LOWERED, "a 3D Convolution with C = M = 1 and unlike dilations on the first two "
           "axes is garbage", _single_3d),
    Defect(_OV, _MODEL, "negative pads do not compile", _negative_pads),
    Defect(_OV, _MODEL, "an axis without data gives another size", lambda c: 0 in c.layer.size),
    Defect(_OV, _LOWERED, "what its Pad makes of no data is not written",
           lambda c: 0 in c.layer.size),
    *(Defect(_OV, file, "f64 is computed in f32",
             lambda c: c.layer.element_type == "f64" and not c.exact)
      for file in (_MODEL, _LOWERED)),
    Defect(_OV, _LOWERED, "without VNNI, sums of i8 are not exact",
           lambda c: c.layer.element_type == "i8"),
    Defect(_OV, _MODEL, _SPREADS, lambda c: c.spoiled == "filter"),
    Defect("any", _LOWERED, _SPREADS, lambda c: c.spoiled is not None),
    Defect(_ORT, _ONNX, "no implementation of f64 and bf16 on the CPU",
           lambda c: c.layer.element_type in ("f64", "bf16")),
    Defect(_ORT, _ONNX, "it does not load f16 of operation set 1",
           lambda c: (c.layer.version, c.layer.element_type) == ("onnx_opset1", "f16")),
)  # fmt: skip


def known(layer: SuiteLayer, spoiled: str | None, *, exact: bool) -> list[dict[str, str]]:
    """Return the known defects of peers on a layer, as the manifest has them."""
    here = Circumstances(layer, spoiled, exact)
    return [{"peer": d.peer, "file": d.file, "text": d.text} for d in DEFECTS if d.applies(here)]


PASSED, DIFFERS, MISSING, UNREADABLE = "passed", "differs", "missing", "unreadable"


class CaseReport(Record, kw_only=True, repr=False):
    """A case with its result."""

    name: str  # of the case
    status: Annotated[str, Literal["passed", "differs", "missing", "unreadable"]]  # the verdict
    set: str  # the set of cases that it belongs to
    dialect: str  # of the layer
    features: tuple[str, ...]  # of the layer, in which causes are sought
    known: tuple[str, ...] = ()  # known defects of peers on this layer
    problem: str | None = None  # why it was not compared
    difference: TensorDifference | None = None  # from the expected numbers, if it was compared

    def __repr__(self) -> str:
        return line(self, self.name, self.status, *self.reasons())

    @property
    def passed(self) -> bool:
        """Whether the result is there and within its bound."""
        return self.status == PASSED

    def lines(self) -> list[str]:
        """Return a few lines of at most 80 characters, names apart."""
        marks = {PASSED: "ok", DIFFERS: "DIFF", MISSING: "MISSING", UNREADABLE: "BAD"}
        out = [f"{marks[self.status]:<4} {self.name}", *(f"     {r}" for r in self.reasons())]
        if not self.passed:
            out += [f"     known of {text}" for text in self.known]
        return [part for text in out for part in wrap(text, indent=5).split("\n")]

    def reasons(self) -> list[str]:
        """Return why it has not passed."""
        out = [] if self.problem is None else [self.problem]
        if self.difference is not None and not self.passed:
            out += numbers(self.difference)
        return out


def _general(kind: str | None) -> str | None:
    """Return a mistake without its numbers, for those that are alike."""
    return None if kind is None else re.sub(r"\(\d[^)]*\)|\d+", "...", kind)


def numbers(d: TensorDifference) -> Iterator[str]:
    """Yield the difference and its size, then the mistake that explains it."""
    if d.shape_a != d.shape_b:
        yield f"shape {list(d.shape_b)}, expected {list(d.shape_a)}"
    else:
        place = "" if d.own_at is None else f" at {list(d.own_at)}"
        yield f"off by {d.own:.6g}{place}, allowed {d.tolerance:.3g}"
        yield d.rule
    if d.kind:
        yield d.kind


_KEYS = "passed counts kinds causes=shared causes_by_kind unknown cases"


class SuiteReport(Record, Judged, keys=_KEYS, kw_only=True, repr=False):
    """All cases in the suite's order."""

    cases: tuple[CaseReport, ...]  # in order
    unknown: tuple[str, ...] = ()  # results without a case

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        failed = [c for c in self.cases if not c.passed]
        if not failed:
            return html_title(self.verdict)
        rows = [(c.name, c.status, "; ".join(c.reasons())) for c in failed]
        return html_table(self.verdict, ("case", "status", "reason"), rows)

    @property
    def passed(self) -> bool:
        """Whether every case has a result within its bound."""
        return bool(self.cases) and all(c.passed for c in self.cases)

    @property
    def counts(self) -> dict[str, int]:
        """How many cases have each status."""
        found = Counter(c.status for c in self.cases)
        return {status: found[status] for status in (PASSED, DIFFERS, MISSING, UNREADABLE)}

    @property
    def kinds(self) -> dict[str, int]:
        """How many differences each known mistake explains, the commonest first."""
        differing = (c.difference for c in self.cases if c.difference and not c.passed)
        found = Counter(_general(d.kind) for d in differing)
        return {kind: number for kind, number in found.most_common() if kind is not None}

    def causes(self, kind: str | None = None) -> list[Cause]:
        """Return the common features of all cases that differ, or of those with one mistake."""
        failed = [c for c in self.cases if c.status == DIFFERS]
        if kind is not None:
            failed = [c for c in failed if c.difference and _general(c.difference.kind) == kind]
        return causes([c.features for c in failed], [c.features for c in self.cases if c.passed])

    @property
    def verdict(self) -> str:
        """One line."""
        counts = self.counts
        words = {DIFFERS: "differ", MISSING: "missing", UNREADABLE: "unreadable"}
        parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
        return ", ".join([f"{counts[PASSED]} of {count(len(self.cases), 'case')} passed", *parts])

    def lines(self, *, everything: bool = False) -> list[str]:
        """Return the lines of every case that has not passed, or of every case."""
        shown = [c for c in self.cases if everything or not c.passed]
        return [text for c in shown for text in c.lines()]

    def summary(self) -> list[str]:
        """Return the common features of failures, and results that no case asks for."""
        out = [f"{cause}" for cause in self.causes()]
        for kind, number in self.kinds.items():
            shared = [] if out or number == 1 else [f"     {c}" for c in self.causes(kind)]
            out += [f"{count(number, 'case')}: {kind}", *shared]
        if self.unknown:
            some = ", ".join(self.unknown[:3]) + (", ..." if len(self.unknown) > 3 else "")
            out.append(f"{count(len(self.unknown), 'result')} without a case: {some}")
        return [part for text in out for part in wrap(text, indent=5).split("\n")]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.summary(), self.verdict])

    @property
    def shared(self) -> list[Cause]:
        """The common features of all cases that differ."""
        return self.causes()

    @property
    def causes_by_kind(self) -> dict[str, list[Cause]]:
        """The common features of the cases that each known mistake explains."""
        return {kind: self.causes(kind) for kind in self.kinds}


def check(
    suite: suite_manifest.Suite,
    source: str | Path | Mapping[str, Any],
    problems: Mapping[str, str] | None = None,
    blame: tuple[str, str] | None = None,
) -> SuiteReport:
    """Judge results; FileAccessError and UsageError if they, or the suite, cannot be read.

    `problems` says why there is no result. `blame` is a peer and the file of each case that it ran:
    then only its known defects are reported.
    """
    with suite_manifest.open_results(source) as results:
        cases = progress.each("judging results", suite.cases, lambda case: case.name)
        reports = [_judged(case, results, problems or {}, blame) for case in cases]
    unknown = sorted(results.keys() - {case.name for case in suite.cases})
    return SuiteReport(cases=tuple(reports), unknown=tuple(unknown))


@work.fresh
def _judged(
    case: suite_manifest.StoredCase,
    results: Mapping[str, suite_manifest.Read],
    problems: Mapping[str, str],
    blame: tuple[str, str] | None,
) -> CaseReport:
    status, found, problem = PASSED, None, None
    try:
        theirs = results[case.name]() if case.name in results else None
        if theirs is None:
            status, problem = MISSING, problems.get(case.name, "there is no result")
        elif not suite_manifest.is_number(theirs, case.layer.dtype):
            raise suite_manifest.UnreadableResult(
                f"elements of type {theirs.dtype} are no real numbers"
            )
        else:
            found = judge(case, theirs)
            status = PASSED if found.passed else DIFFERS
    except suite_manifest.UnreadableResult as e:
        status, problem = UNREADABLE, str(e)
    return CaseReport(
        name=case.name,
        status=status,
        set=str(case.facts["set"]),
        dialect=case.layer.dialect,
        features=tuple(case.features),
        known=tuple(_known(case, blame)),
        difference=found,
        problem=problem,
    )


def _known(case: suite_manifest.StoredCase, blame: tuple[str, str] | None) -> Iterator[str]:
    """Yield the known defects: all of them, or those of a peer with one of the files."""
    for k in case.known:
        if blame is None:
            yield f"{k['peer']} ({k['file']}): {k['text']}"
        elif k["peer"] in (blame[0], "any") and k["file"] == blame[1]:
            yield f"{blame[0]}: {k['text']}"
