"""`bench`: measure how long a model and each of its steps take, also in other runtimes."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import irdeconv as ird
from irdeconv.base.errors import misused
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, specialize
from irdeconv.cli.model import inferred_model
from irdeconv.cli.options import execution
from irdeconv.cli.output import note_tuning, write_text
from irdeconv.formats.atomic import write_file
from irdeconv.runtime.bench import require_measurable, sorted_out
from irdeconv.runtime.measure import Effort


def run(args: argparse.Namespace, console: Console) -> Answer:
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
