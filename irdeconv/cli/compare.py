"""Run two models on the same inputs and compare their outputs and the layers that both have.

Without a second model the first is compared with its own lowering. Exit code 1 where they differ.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    Parser,
    add_form,
    add_format,
    add_inputs,
    add_model,
    add_shapes,
)

if TYPE_CHECKING:
    from irdeconv.errors import Diagnostic
    from irdeconv.graph import Graph
    from irdeconv.spec import Array
    from irdeconv.verify.compare import Comparison


def configure(parser: Parser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="the second model's .xml")
    parser.add_argument("--other-weights", metavar="FILE", help="the second model's .bin")
    add_inputs(parser)
    add_shapes(parser)
    add_form(parser, none=False)
    parser.add_argument(
        "--tolerance",
        type=float,
        help="allowed difference relative to a tensor's largest value (default: what rounding "
        "explains)",
    )
    parser.add_argument("--all", action="store_true", help="list layers that agree, too")
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Compare; the exit code is 0 where everything agrees."""
    from irdeconv import api
    from irdeconv.cli.inputs import gather, specialize
    from irdeconv.cli.model import inferred, read, read_file, usage

    if args.tolerance is not None and not args.tolerance >= 0:
        raise usage("--tolerance is at least 0")
    graph = inferred(read(args), args.shape)
    inputs = gather(graph, args.inputs, args.seed, console)
    a = specialize(graph, inputs)
    feeds: dict[str, Array] | list[Array] = inputs
    if args.other is None:
        b = api.lower(a, form=args.form).graph
    else:
        b = read_file(args.other, args.other_weights, args.semantics)
        own = matched(b, inputs, args.other)
        b = specialize(api.infer(b), own, every=bool(args.shape))
        feeds = inputs if set(own) == set(inputs) else list(own.values())
    result = api.compare(a, b, feeds, tolerance=args.tolerance)
    if console.wants_json:
        names = {"a": args.file, "b": args.other or f"lowered ({args.form})"}
        found = [d.to_dict() for d in _diagnostics(result)]
        content = {**names, "seed": args.seed, **result.to_dict(), "diagnostics": found}
        console.json("compare", content)
    else:
        _text(result, console, everything=args.all)
    return 0 if result.passed else 1


def _diagnostics(result: Comparison) -> list[Diagnostic]:
    from irdeconv.errors import Diagnostic

    different = [t for t in result.tensors if not t.passed]
    out = [Diagnostic("E504", "error", str(t), layer=t.name) for t in different]
    missing = (Diagnostic("E504", "error", f'output "{n}" is missing') for n in result.missing)
    return [*out, *missing]


def matched(graph: Graph, inputs: dict[str, Array], file: str) -> dict[str, Array]:
    """Return the inputs by the second model's names: the same ones, else those in order."""
    from irdeconv.cli.model import usage

    if len(graph.inputs) != len(inputs):
        raise usage(f"{file} has {len(graph.inputs)} inputs, the first model has {len(inputs)}")
    if set(graph.inputs) == set(inputs):
        return {name: inputs[name] for name in graph.inputs}
    return dict(zip(graph.inputs, inputs.values(), strict=True))


def _text(result: Comparison, console: Console, *, everything: bool) -> None:
    *lines, verdict = str(result).split("\n")
    if everything:
        lines = [str(t) for t in result.tensors] + [x for x in lines if x.startswith("MISSING")]
    for line in lines:
        console.text((line, "" if line.startswith("ok") else "red"))
    console.text((verdict, "bold green" if result.passed else "bold red"))
