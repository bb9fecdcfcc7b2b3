"""Measure how long a model takes: the network, each step with its kernel, other runtimes.

Inputs are given as for `run`. A table of steps shows the shortest time of each. Processor time says
what the work costs, wall time how long it took; the two differ on a machine that is busy.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from irdeconv.cli.console import Answer, Console
from irdeconv.cli.options import execution
from irdeconv.cli.verbs import HEAD, Verb

VERB = Verb(
    """
    + MODEL
    + VALUES
    --threads N  threads that share the work (default: 1); results do not depend on it
        @whole 1 1024 @default 1
    + EXECUTION
    --time SECONDS  how long each thing is measured (default: %(default)s) @real 0 86400
        @default 2.5
    --iterations N  stop each measurement after N runs, if --time is not over before
        @whole 1 1000000
    --rounds N  how often the runtimes take turns (default: %(default)s) @whole 1 100000 @default 5
    --warm-up N  runs before the first one that counts (default: %(default)s) @whole 0 1000000
        @default 1
    --requests N  also run N plans at once, for throughput and latency (default: %(default)s)
        @whole 1 256 @default 1
    --top N  steps to show (default: %(default)s) @whole 1 @default 20
    --against LIST  also run openvino,onnxruntime in the same rounds, one thread each (ONNX Runtime
        needs an .onnx, or an IR that is a single deconvolution); FILE.json is what --save wrote
        @list @default
    --save FILE.json  keep the report for --against @writes file .json
    --fail-above PERCENT  exit code 1 where the network surely takes that much longer than in
        --against FILE.json: the 95 %% interval of the ratio of medians lies above it @real 0 10000
    --report FILE.html  write a page for a browser here that draws the graph that was run, with the
        time of each layer @writes page
    + FORCE_REPORT
    --histogram  show how often a run took how long
    + FORMAT
    """,
    no="a layer failed while running; with `--fail-above`: the model has become slower",
    example=f"irdeconv bench {HEAD}",
    guide="performance",
    differs=True,
)


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Measure and report; the exit code depends on times only with --fail-above."""
    import irdeconv as ird
    from irdeconv.cli.inputs import gather, specialize
    from irdeconv.cli.model import inferred_model
    from irdeconv.cli.output import note_tuning, write_text
    from irdeconv.formats.atomic import write_file

    _check(args)
    graph = inferred_model(args)
    inputs = gather(graph, [*args.inputs, *args.values], args.seed, console, limit=args.max_memory)
    peers = sum(not name.endswith(".json") for name in args.against)
    things = 2 + peers + (args.requests > 1)
    console.log(f"preparing, then measuring for at most about {round(args.time * things, 1):g} s")
    alone = args.file == "-" or Path(args.file).suffix in (".json", ".ird")
    report = ird.bench(
        specialize(graph, inputs),
        inputs,
        **execution(args),
        **_effort(args),
        against=args.against,
        source=None if alone else args.file,
        weights=None if alone else args.weights,
    )
    note_tuning(args.tune, console)
    content = {"file": args.file, "seed": args.seed, **report.to_dict()}
    if args.save is not None:
        write_file(Path(args.save), (json.dumps(content, indent=1) + "\n").encode("utf-8"))
        console.log(f"wrote {args.save}")
    if args.report is not None:
        write_text(args.report, ird.graph_page(report).to_html(), console)

    def text() -> None:
        shown = report.to_text(top=args.top, histogram=args.histogram, width=console.width)
        console.text(shown)

    limit = args.fail_above
    slower = limit is not None and any(b.slower_by(limit) for b in report.baselines)
    return Answer(lambda: content, text, int(slower))


def _effort(args: argparse.Namespace) -> dict[str, Any]:
    names = ("time", "iterations", "rounds", "warm_up", "requests")
    return {name: getattr(args, name) for name in names}


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot be measured or compared, before anything is read."""
    from irdeconv.base.errors import misused
    from irdeconv.runtime.bench import require_measurable
    from irdeconv.runtime.bench_report import sorted_out
    from irdeconv.runtime.measure import Effort

    systems, saved = sorted_out(args.against)
    require_measurable(Effort(**_effort(args)), systems, args.threads)
    if args.fail_above is not None and not saved:
        raise misused("--fail-above needs a saved report: --against FILE.json")
