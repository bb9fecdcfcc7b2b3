"""Pages of what was measured: times, differences and values, on the graphs that they belong to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from irdeconv.base.errors import count, misused
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.records import LoweringReport
from irdeconv.runtime.bench_report import BenchReport
from irdeconv.runtime.measure import StepReport
from irdeconv.show.page import PageContent, graph_page
from irdeconv.show.page_details import Overlay
from irdeconv.show.page_values import PICTURE_BYTES, ValueCollector
from irdeconv.verify.certificates import Certificates
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.difference import TensorDifference
from irdeconv.verify.partner import layer_keys


def bench_page(report: BenchReport) -> PageContent:
    """Return the page of a measurement: the time of each layer on the graph that was executed.

    A step's time stands on all of the layers that it covers. A layer that was lowered has the time
    of all steps that it became. Raises UsageError for a report without graphs.
    """
    if report.source is None or report.executed is None:
        raise misused("the report does not know its graphs", "bench returns one that does")
    page, key = _sides(report.source, report.executed)
    covered = {f"{key}/{i}": step for step in report.steps for i in step.ids}
    times: dict[str, float | None] = {k: report.time(s.timing) for k, s in covered.items()}
    lines = {k: _step_lines(report, step, k) for k, step in covered.items()}
    for change in page.changes:
        steps = {s.index: s for k in change.after if (s := covered.get(k)) is not None}
        if steps and change.before:
            source = change.before[0]
            times[source] = sum(report.time(s.timing) for s in steps.values())
            lines[source] = [f"the time of {count(len(steps), 'step')} that it became"]
    clock = "processor" if report.clock == "cpu" else "wall"
    overlay = Overlay(key="time", title="time", unit="s", values=times, lines=lines, shown=True)
    notes = (*page.notes, f"Times are the shortest {clock} times of {report.network.runs} runs.")
    notes = (*notes, *_peer_notes(report))
    return replace(page, overlays=(overlay,), notes=notes, headline=_bench_headline(report))


def _sides(
    source: Graph,
    executed: Graph,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
) -> tuple[PageContent, str]:
    """Return a page and the key of what was executed: of one graph, of two where it was lowered."""
    if source is not executed and any(n.op.deconvolution for n in source.nodes()):
        page = graph_page(inferred(source), executed, report, certificates)
        if page.changes:
            return page, "after"
    return graph_page(executed), "graph"


def _step_lines(report: BenchReport, step: StepReport, key: str) -> list[str]:
    figures = report.figures(step)
    share = f"{100 * (figures['share'] or 0):.1f} % of all steps"
    lines = [f"{report.time(step.timing) * 1e3:.3f} ms, {share}"]
    why = f" ({step.why})" if step.why else ""
    lines.append(f"step {step.index}, kernel {step.kernel}{why}")
    speed, moved = figures["gflops"], figures["gbytes"]
    rates = [f"{speed:.3g} GF/s"] if speed is not None else []
    rates += [f"{moved:.3g} GB/s"] if moved is not None else []
    if rates:
        lines.append(", ".join(rates))
    if len(step.nodes) > 1:
        layers = ", ".join(f"{type} {name}" for type, name in step.nodes)
        lines.append(f"One step computes {count(len(step.nodes), 'layer')}: {layers}")
    return lines


def _bench_headline(report: BenchReport) -> str:
    own = f"{report.time(report.network) * 1e3:.3g} ms"
    others = [
        f"{p.name} {p.timing.cpu.minimum * 1e3:.3g} ms"
        for p in report.peers
        if p.timing is not None
    ]
    return ", ".join([own, *others])


def _peer_notes(report: BenchReport) -> Iterator[str]:
    for peer in report.peers:
        name = f"{peer.name} {peer.version}"
        if peer.timing is None:
            yield f"{name} cannot run it: {peer.problem}"
            continue
        ratio = "" if peer.ratio is None else f"; irdeconv takes {peer.ratio:.2f} times as long"
        gap = f"; outputs differ by {peer.difference:.1e}" if peer.difference else ""
        yield f"{name}: {peer.timing.cpu.minimum * 1e3:.3g} ms{ratio}{gap}"


def comparison_page(result: Comparison) -> PageContent:
    """Return the page of a comparison: how much of what is allowed each layer is off.

    With a second model both stand side by side. Raises UsageError for a comparison without graphs.
    """
    if result.graph is None:
        raise misused("the comparison does not know its graphs", "compare returns one that does")
    if result.other is None:
        page, keys = graph_page(result.graph), {}
    else:
        page = graph_page(result.graph, result.other, titles=("model", "other"))
        keys = _partners(result.graph, result.other)
    side = page.graphs[0].key
    records = _by_node(result, side, keys)
    first = result.first_difference
    start = None if first is None or first.node is None else f"{side}/{first.node}"
    marks = {k: "differs" for k, found in records.items() if not all(t.passed for t in found)}
    if start is not None:
        marks = {start: "the first layer that differs"} | {
            k: word for k, word in marks.items() if k != start
        }
    error = Overlay(
        key="error",
        title="error",
        values={k: max(_used(t) for t in found) for k, found in records.items()},
        lines={k: [_sentence(t) for t in found] for k, found in records.items()},
        marks=marks,
        first=start,
        shown=True,
    )
    apart = {k: max(_bad(t.max_abs) for t in found) for k, found in records.items()}
    difference = Overlay(key="difference", title="|a-b|", values=apart)
    meaning = "The error of a layer is relative to what rounding allows it: above 1 it differs."
    notes = (*page.notes, meaning, *map(str, result.diagnostics))
    notes = (*notes, *(f"Output {name} is missing on one side." for name in result.missing))
    return replace(page, overlays=(error, difference), notes=notes, headline=result.verdict)


def _partners(a: Graph, b: Graph) -> dict[int, int]:
    """Return which layers of the second graph were compared with those of the first."""
    theirs = {name: i for i, name in layer_keys(b).items()}
    pairs = {i: theirs[name] for i, name in layer_keys(a).items() if name in theirs}
    return pairs | {x.id: y.id for x, y in zip(a.results, b.results, strict=False)}


def _by_node(
    result: Comparison, side: str, partners: Mapping[int, int]
) -> dict[str, list[TensorDifference]]:
    """Return what was found of each layer, on both sides of the page."""
    found: dict[str, list[TensorDifference]] = defaultdict(list)
    for one in result.tensors:
        if one.node is None:
            continue
        found[f"{side}/{one.node}"].append(one)
        if one.node in partners:
            found[f"after/{partners[one.node]}"].append(one)
    return dict(found)


def _used(found: TensorDifference) -> float:
    """Return a layer's own difference relative to the allowed one: above 1 it differs."""
    if found.shape_a != found.shape_b:
        return math.inf
    if found.own == 0:
        return 0.0
    return _bad(found.own / found.tolerance if found.tolerance else math.inf)


def _bad(number: float) -> float:
    """Return a difference to compare with others: NaN is further off than any number."""
    return math.inf if math.isnan(number) else number


def _sentence(found: TensorDifference) -> str:
    return str(found)[5:]  # without the mark, which the page has as a sign


def run_page(
    source: Graph,
    values: ValueCollector,
    report: LoweringReport | None = None,
    certificates: Certificates | None = None,
) -> PageContent:
    """Return the page of a run: extremes, histograms and pictures of every tensor."""
    page, key = _sides(source, values.graph, report, certificates)
    largest: dict[str, float | None] = {}
    marks = {}
    for node, tensor in values.tensors(key):
        if tensor.non_finite:
            marks[node] = f"{count(tensor.non_finite, 'value')} not finite"
        if tensor.largest is not None:
            largest[node] = max(tensor.largest, largest.get(node) or 0)
    first = next(iter(marks), None)
    aliases = dict(_aliases(page, key, values))
    largest |= {k: largest[other] for k, other in aliases.items() if other in largest}
    overlay = Overlay(
        key="values", title="max |x|", values=largest, marks=marks, first=first, shown=True
    )
    level = values.level
    size = f"at most {level.channels} channels of {level.side} x {level.side} pixels"
    limit = f"{PICTURE_BYTES / 1e6:g} MB of them"
    notes = (*page.notes, f"Pictures show {size}; a page has at most {limit}.")
    bad = f", {count(len(marks), 'layer')} with values that are not finite" if marks else ""
    known = dict(values.to_dict(key)) | aliases
    return replace(
        page, overlays=(overlay,), values=known, notes=notes, headline=f"values of a run{bad}"
    )


def _aliases(page: PageContent, key: str, values: ValueCollector) -> Iterator[tuple[str, str]]:
    """Yield layers without values of their own, with the layer that computes their output."""
    for change in page.changes:
        last = [k for k in change.after if int(k.rpartition("/")[2]) in values.found]
        if last and change.before:
            yield change.before[0], last[-1]
    for node in values.graph.results:
        (source,) = values.graph.inputs_of(node.id)
        if source.node in values.found:
            yield f"{key}/{node.id}", f"{key}/{source.node}"
