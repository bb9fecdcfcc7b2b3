"""Measure how long a model takes: the network, each step with its kernel, other runtimes.

Inputs are given as for `run`. A table of steps shows the shortest time of each. Processor time says
what the work costs, wall time how long it took; the two differ on a machine that is busy.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_format,
    add_model,
    add_report,
    add_running,
    execution,
    real,
    whole,
)


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    add_running(parser, threads=1)
    _add_effort(parser)
    parser.add_argument(
        "--top", type=whole(1), default=20, metavar="N", help="steps to show (default: %(default)s)"
    )
    parser.add_argument(
        "--against",
        type=_names,
        metavar="LIST",
        default=(),
        help="also run openvino,onnxruntime in the same rounds, one thread each (ONNX Runtime "
        "needs an .onnx, or an IR that is a single deconvolution); FILE.json is what --save wrote",
    )
    parser.add_argument("--save", metavar="FILE.json", help="keep the report for --against")
    parser.add_argument(
        "--fail-above",
        type=real(0, 10_000),
        metavar="PERCENT",
        help="exit code 1 where the network surely takes that much longer than in --against "
        "FILE.json: the 95 %% interval of the ratio of medians lies above it",
    )
    add_report(parser, "the graph that was run, with the time of each layer", force=True)
    parser.add_argument(
        "--histogram", action="store_true", help="show how often a run took how long"
    )
    add_format(parser)


def _add_effort(parser: OptionParser) -> None:
    parser.add_argument(
        "--time",
        type=real(0, 86_400),
        default=2.5,
        metavar="SECONDS",
        help="how long each thing is measured (default: %(default)s)",
    )
    parser.add_argument(
        "--iterations",
        type=whole(1, 1_000_000),
        metavar="N",
        help="stop each measurement after N runs, if --time is not over before",
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, 100_000),
        default=5,
        metavar="N",
        help="how often the runtimes take turns (default: %(default)s)",
    )
    parser.add_argument(
        "--warm-up",
        type=whole(0, 1_000_000),
        default=1,
        metavar="N",
        help="runs before the first one that counts (default: %(default)s)",
    )
    parser.add_argument(
        "--requests",
        type=whole(1, 256),
        default=1,
        metavar="N",
        help="also run N plans at once, for throughput and latency (default: %(default)s)",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def run(args: argparse.Namespace, console: Console) -> int:
    """Measure and report; the exit code tells of times with --fail-above only."""
    import irdeconv as ird
    from irdeconv.cli.inputs import gather, input_files, specialize
    from irdeconv.cli.model import inferred, protect_report, read
    from irdeconv.cli.output import note_tuning, write_text
    from irdeconv.formats.atomic import write_file

    _check(args)
    protect_report(args, *input_files([*args.inputs, *args.values]))
    graph = inferred(read(args), args.shape)
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
    if console.wants_json:
        console.json("bench", content)
    else:
        shown = report.to_text(top=args.top, histogram=args.histogram, width=console.width)
        console.text(shown)
    limit = args.fail_above
    return int(limit is not None and any(b.slower_by(limit) for b in report.baselines))


def _effort(args: argparse.Namespace) -> dict[str, Any]:
    names = ("time", "iterations", "rounds", "warm_up", "requests")
    return {name: getattr(args, name) for name in names}


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot be measured, compared or saved, before anything is read."""
    from irdeconv.base.errors import misused
    from irdeconv.formats.atomic import require_writable
    from irdeconv.runtime.bench import require_measurable
    from irdeconv.runtime.bench_report import sorted_out
    from irdeconv.runtime.measure import Effort

    systems, saved = sorted_out(args.against)
    require_measurable(Effort(**_effort(args)), systems, args.threads)
    if args.fail_above is not None and not saved:
        raise misused("--fail-above needs a saved report: --against FILE.json")
    if args.save is not None:
        if not args.save.endswith(".json"):
            raise misused(f"--save {args.save} is no .json file", "--save FILE.json")
        require_writable(Path(args.save))
