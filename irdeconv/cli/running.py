"""`run` and `bench`: run a model with NumPy; measure how long it and each of its steps take."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import misused
from irdeconv.base.json_form import NamedLayer, Record
from irdeconv.base.tables import table
from irdeconv.cli.checks import require_single
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, specialize
from irdeconv.cli.model import (
    ArrayFacts,
    inferred_model,
    note_tuning,
    save_arrays,
    statistics,
    write_text,
)
from irdeconv.cli.options import execution
from irdeconv.formats.arrays import npy
from irdeconv.formats.atomic import write_file
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Array
from irdeconv.runtime.bench import require_measurable, sorted_out
from irdeconv.runtime.measure import Effort
from irdeconv.runtime.program import Step
from irdeconv.runtime.selection import Selection, with_outputs


class RunStep(Record):
    """One step of the plan."""

    layers: list[NamedLayer]  # that it computes
    kernel: Annotated[str, str | None]  # that computes it
    why: Annotated[str, str | None]  # the reason for this kernel
    scratch: int  # bytes of scratch memory


class RowRange(TypedDict):
    """The rows that the outputs are of."""

    begin: int  # the first one
    end: int  # the first one behind them
    of: int  # number of rows in the file


class RunDocument(Record, document="run/1", keys="... saved? steps? rows? origin?"):
    """The outputs of a run."""

    file: str  # the model
    seed: int  # of random inputs
    outputs: dict[str, ArrayFacts]  # by name
    saved: list[str] | None = None  # files that were written
    steps: list[RunStep] | None = None  # the steps of the plan, with --trace
    rows: RowRange | None = None  # of the file, in a batch run --inputs
    # the same for results that are made alike: digest of the model, the options and irdeconv's
    # version, in a batch run --inputs
    origin: str | None = None


def run_run(args: argparse.Namespace, console: Console) -> int | Answer:
    """Run the model once."""
    from irdeconv.show.page import run_page
    from irdeconv.show.page_details import ValueCollector

    whole = inferred_model(args, needed=True)
    graph, names = chosen(whole, args)
    require_single(args.output, names, args.dump if args.dump_dir is None else ())
    items, limit = [*args.inputs, *args.values], args.max_memory
    fed = gather(whole, items, args.seed, console, limit=limit, fill=args.fill)
    inputs = {name: fed[name] for name in graph.inputs}
    ready = specialize(graph, inputs)
    plan = ird.compile(ready, exact=args.exact, once=True, **execution(args))
    dumped: dict[str, Array] = {}
    wanted = Selection(plan.graph).layers(args.dump, "--dump") if args.dump else set()
    traces = [_tracer(wanted, args.dump_dir, dumped)] if wanted else []
    seen = ValueCollector(plan.graph)
    if args.report is not None:
        traces.append(seen.trace)

    def trace(node: Node, arrays: tuple[Array, ...]) -> None:
        for one in traces:
            one(node, arrays)

    arrays = plan.run(inputs, trace if traces else None)
    note_tuning(args.tune, console)
    if args.report is not None:
        write_text(args.report, run_page(ready, seen).to_html(), console)
    outputs = dict(zip(names, arrays.values(), strict=True))
    if args.output:
        save_arrays(args.output, outputs | {f"dump/{k}": v for k, v in dumped.items()}, console)
    steps = plan.steps if args.trace else []
    if not console.wants_json:
        _log_steps(steps, console)
    facts = {name: statistics(array) for name, array in outputs.items()}
    if args.output == "-":
        return 0
    traced = [*map(_step_facts, steps)] if args.trace else None
    document = partial(RunDocument, args.file, args.seed, facts, steps=traced)
    return Answer(document, partial(_text, facts, outputs, console))


def chosen(graph: Graph, args: argparse.Namespace) -> tuple[Graph, Sequence[str]]:
    """Return the graph that computes the outputs of --outputs, and their names."""
    return (
        with_outputs(graph, args.outputs, "--outputs") if args.outputs else (graph, graph.outputs)
    )


def _tracer(
    wanted: set[int], folder: str | None, kept: dict[str, Array]
) -> Callable[[Node, tuple[Array, ...]], None]:
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def trace(node: Node, arrays: tuple[Array, ...]) -> None:
        if node.id not in wanted:
            return
        for port, array in enumerate(arrays):
            suffix = f".{port}" if len(arrays) > 1 else ""
            if folder is None:
                key = node.name + suffix
                # Buffers are reused, and names need not be unique.
                kept[key if key not in kept else f"{key}@{node.id}"] = np.array(array)
            else:
                safe = re.sub(r"[^A-Za-z0-9_.-]", "_", node.name)[:100]
                Path(folder, f"{node.id:05d}_{safe}{suffix}.npy").write_bytes(npy(array))

    return trace


def _step_facts(step: Step) -> RunStep:
    layers: list[NamedLayer] = [{"type": n.type, "name": n.name} for n in step.nodes]
    return RunStep(layers, step.kernel, step.why, step.scratch)


def _log_steps(steps: list[Step], console: Console) -> None:
    for index, step in enumerate(steps):
        layers = ", ".join(f'{n.type} "{n.name}"' for n in step.nodes)
        why = f" ({step.why})" if step.why else ""
        console.error(f"step {index}: {step.kernel}{why}: {layers}")  # asked for, so also with -q


def _text(facts: dict[str, ArrayFacts], outputs: dict[str, Array], console: Console) -> None:
    head = ("output", "type", "shape", "min", "max", "mean", "values")
    rows = []
    for name, f in facts.items():
        stats = ["" if v is None else f"{v:.6g}" for v in (f.min, f.max, f.mean)]
        few = outputs[name].reshape(-1)[:3].tolist()
        values = " ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in few)
        more = " ..." if outputs[name].size > len(few) else ""
        rows.append([name, f.element_type, str(f.shape), *stats, values + more])
    right = ("min", "max", "mean")
    console.text(table(head, rows, right, names=("output",), width=console.width))
    for name, f in facts.items():
        if f.non_finite:
            console.text((f"{name}: {f.non_finite} values are not finite", "yellow"))


def run_bench(args: argparse.Namespace, console: Console) -> Answer:
    """Measure and report; the exit code depends on times only with --fail-above."""
    names = ("time", "iterations", "rounds", "warm_up", "requests")
    effort = {name: getattr(args, name) for name in names}
    systems, saved = sorted_out(args.against)
    require_measurable(Effort(**effort), systems, args.threads)
    if args.fail_above is not None and not saved:
        raise misused("--fail-above needs a saved report: --against FILE.json")
    graph = inferred_model(args, needed=True)
    items = [*args.inputs, *args.values]
    inputs = gather(graph, items, args.seed, console, limit=args.max_memory, fill=args.fill)
    things = 2 + len(systems) + (args.requests > 1)
    console.log(f"preparing, then measuring for at most about {round(args.time * things, 1):g} s")
    alone = args.file == "-" or Path(args.file).suffix in (".json", ".ird")
    origin = {} if alone else {"source": args.file, "weights": args.weights}
    how = {**execution(args), **effort, **origin, "against": args.against}
    report = ird.bench(specialize(graph, inputs), inputs, **how)
    note_tuning(args.tune, console)
    document = replace(report, file=args.file, seed=args.seed)
    if args.save is not None:
        content = json.dumps(document.to_dict(), indent=1) + "\n"
        write_file(Path(args.save), content.encode("utf-8"))
        console.log(f"wrote {args.save}")
    if args.report is not None:
        write_text(args.report, ird.graph_page(report).to_html(), console)

    text = partial(report.to_text, top=args.top, histogram=args.histogram, width=console.width)
    limit = args.fail_above
    slower = limit is not None and any(b.slower_by(limit) for b in report.baselines)
    return Answer(lambda: document, lambda: console.text(text()), int(slower))
