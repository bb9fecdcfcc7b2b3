"""List layers with shapes, element types, parameters and multiply-accumulates.

Formats beside text and json: dot (Graphviz), html (a page), ir (the text form of the graph). With
--lower text, json and html compare before and after; dot and ir show the lowered graph.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_form,
    add_format,
    add_model,
    add_output,
    add_shapes,
)

if TYPE_CHECKING:
    from irdeconv.graph import Graph
    from irdeconv.inspection import Inspection


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser, structure=True)
    add_shapes(parser)
    parser.add_argument(
        "--lower", action="store_true", help="compare with the lowered graph, which dot and ir show"
    )
    add_form(parser, none=False)
    parser.add_argument("--constants", action="store_true", help="list constants as well")
    add_output(parser, "write the result here instead of stdout")
    add_format(parser, "dot", "html", "ir")


def run(args: argparse.Namespace, console: Console) -> int:
    """Inspect; a graph that does not fit together is shown as declared."""
    from irdeconv import api
    from irdeconv.cli.model import protect, read
    from irdeconv.cli.output import write_text
    from irdeconv.errors import misused

    if args.form is not None and not args.lower:
        raise misused("--form: without --lower nothing is lowered")
    protect(args.output, (args.file, args.weights), force=args.force)
    graph = _infer(read(args), args, console)
    lowered = api.lower(graph, args.form or api.DEFAULT_FORM).graph if args.lower else None
    inspection = api.inspect(graph, lowered)
    write_text(args.output, _render(inspection, args, console), console)
    return 0


def _infer(graph: Graph, args: argparse.Namespace, console: Console) -> Graph:
    from irdeconv.cli.diagnostics import print_diagnostics
    from irdeconv.cli.model import inferred
    from irdeconv.errors import InferenceError

    try:
        return inferred(graph, args.shape)
    except InferenceError as e:
        print_diagnostics(console, e.diagnostics)
        console.error("shapes are shown as declared")
        return graph


def _render(inspection: Inspection, args: argparse.Namespace, console: Console) -> str:
    from irdeconv.text import dump
    from irdeconv.wrapping import printable

    if console.format == "json":
        return json.dumps(inspection.to_dict(), indent=1) + "\n"
    if console.format == "html":
        return inspection.to_html()
    shown = inspection.lowered or inspection
    if console.format == "dot":
        return shown.to_dot()
    if console.format == "ir":
        return dump(shown.graph, elide=None if args.constants else 0)
    return printable(inspection.to_text(constants=args.constants)) + "\n"
