"""Time a model: the network, each step with its kernel and rates, other runtimes beside it.

Inputs are those of `run`. Times are least ones; on a machine that others use as well, processor
time says what the work costs and wall time how long it took.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_format,
    add_model,
    add_running,
    execution,
    real,
    whole,
)


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    add_running(parser, threads=1)
    parser.add_argument(
        "--rounds",
        type=whole(1, 100_000),
        default=5,
        metavar="N",
        help="rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=real(0, 3600),
        default=0.5,
        metavar="S",
        help="seconds of a round for each thing that is measured (default: %(default)s)",
    )
    parser.add_argument(
        "--top", type=whole(1), default=20, metavar="N", help="steps to show (default: %(default)s)"
    )
    parser.add_argument(
        "--against",
        type=_names,
        metavar="LIST",
        default=(),
        help="also run openvino,onnxruntime in the same rounds, one thread each; ONNX Runtime "
        "needs an .onnx, or an IR that is a single deconvolution",
    )
    add_format(parser)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def run(args: argparse.Namespace, console: Console) -> int:
    """Measure and report; the exit code says nothing about times."""
    from irdeconv import api
    from irdeconv.benchmark import require_measurable
    from irdeconv.cli.inputs import gather, specialize
    from irdeconv.cli.model import inferred, read

    require_measurable(args.rounds, args.seconds, args.against, args.threads)
    graph = inferred(read(args), args.shape)
    inputs = gather(graph, [*args.inputs, *args.values], args.seed, console, limit=args.max_memory)
    seconds = args.rounds * args.seconds * (2 + len(args.against))
    console.log(f"measuring for about {seconds:.0f} s")
    alone = args.file == "-" or Path(args.file).suffix in (".json", ".ird")
    report = api.bench(
        specialize(graph, inputs),
        inputs,
        **execution(args),
        rounds=args.rounds,
        seconds=args.seconds,
        against=args.against,
        source=None if alone else args.file,
        weights=None if alone else args.weights,
    )
    if console.wants_json:
        content = {"file": args.file, "seed": args.seed, **report.to_dict()}
        console.json("bench", content)
    else:
        console.text(report.to_text(top=args.top))
    return 0
