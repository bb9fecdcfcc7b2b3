"""`explain`: show how a deconvolution gets its size and values, and compare other systems."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import irdeconv as ird
from irdeconv.base.errors import misused
from irdeconv.base.tables import printable, wrap
from irdeconv.cli.console import Console
from irdeconv.cli.model import read, shapes_for
from irdeconv.cli.output import write_text
from irdeconv.proof.spelling import integer
from irdeconv.show.explanation import Explanation


def run(args: argparse.Namespace, console: Console) -> int:
    """Explain."""
    graph = read(args)
    shapes = shapes_for(graph, args.shape)
    try:
        sizes = None if args.solve is None else [integer(n) for n in args.solve.split(",")]
    except ValueError as e:
        hint = "one size for all axes, or one per axis: --solve 64,64"
        raise misused(f"--solve {args.solve}: {e}", hint) from None
    found = ird.explain(graph, args.layer, solve=sizes, shapes=shapes)
    if args.output is None and console.format == "text":
        console.text(str(found))
    else:
        write_text(args.output, _render(found, args, console), console)
    return 0 if found.accepted else 1


def _render(found: Explanation, args: argparse.Namespace, console: Console) -> str:
    if console.format == "svg":
        return found.to_svg()
    if console.wants_json:
        return json.dumps(replace(found, file=args.file).to_dict(), indent=1) + "\n"
    return wrap(printable(str(found))) + "\n"
