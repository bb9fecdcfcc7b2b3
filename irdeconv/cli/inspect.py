"""List layers: shapes, parameters, multiply-accumulates, where data come from and go to.

A constant stands in the row of its reader: name, shape, number of elements or a few values. Readers
of an output are named unless they are just the next layer. `*` marks deconvolutions.

Formats beside text and json: dot (Graphviz), html (a page that draws the graph, for a browser), ir
(the text form of the graph), svg (a picture of the graph). With --lower text, json, html and svg
compare before and after; dot and ir show the lowered graph. dot and svg write constants into the
layers that read them, or as layers with --constants.

--operations needs no model: it lists OpenVINO's operations and what irdeconv does with each, as
text or json; --only chooses types.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irdeconv.base import gc_pause
from irdeconv.cli.console import Console
from irdeconv.cli.verbs import HEAD, Verb
from irdeconv.rewrite.form_names import FALLBACK

if TYPE_CHECKING:
    from irdeconv.ir.graph import Graph
    from irdeconv.show.inspection import Inspection


VERB = Verb(
    """
    + OPTIONAL_FILE
    + WEIGHTS
    + NO_WEIGHTS
    + SEMANTICS
    + SHAPE
    --lower  compare with the lowered graph, which dot and ir show
    = @needs --lower @why nothing is lowered without it
    + FORM
    = @excludes --format=dot|html|ir|svg @why it shows the whole graph
    --target NAME|FILE.toml  mark with ! the layers that this target cannot execute: a packaged
        target (irdeconv lower --list-targets), or a file of your own @reads file
    =
    --constants  list constants as well
    = @excludes --format=dot|html|ir|svg @why it shows the whole graph
    --only TYPE|PATTERN ...  show only layers of this type, or whose name fits this pattern (*, ?,
        [a-z]); may be repeated
    --sort macs|bytes|params  show the layers with most multiply-accumulates, bytes or parameters
        first
    =
    --operations  list what irdeconv executes, infers and keeps of OpenVINO's operations
        @excludes FILE --lower --sort --shape --format=dot|html|ir|svg
    -o --output FILE  write the result here instead of stdout @writes text
    + FORCE
    --format text|json|dot|html|ir|svg  how the result is written (default: %(default)s)
        @default text
    """,
    example=f"irdeconv inspect {HEAD} --only 'up*'",
    guide="inspect",
)


def run(args: argparse.Namespace, console: Console) -> int:
    """Inspect; a graph that does not fit together is shown as declared."""
    import irdeconv as ird
    from irdeconv.base.errors import misused
    from irdeconv.cli.model import read
    from irdeconv.cli.output import write_text

    if args.operations:
        return _operations(args, console)
    if args.file is None:
        raise misused("inspect needs FILE", "for example: irdeconv inspect model.xml")
    with gc_pause.paused():
        graph = _infer(read(args), args, console)
        lowered = ird.lower(graph, args.form or FALLBACK) if args.lower else None
        if console.format == "html":
            text = ird.graph_page(graph, lowered).to_html()
        else:
            inspection = ird.inspect(
                graph, lowered, only=args.only, sort=args.sort, target=args.target
            )
            text = _render(inspection, args, console)
        write_text(args.output, text, console)
    return 0


def _operations(args: argparse.Namespace, console: Console) -> int:
    """Print the support table."""
    import irdeconv as ird
    from irdeconv.base.tables import WIDTH
    from irdeconv.cli.output import write_text

    found = ird.operations(args.only)
    width = console.width if args.output in (None, "-") else WIDTH
    text = found.to_json() if console.format == "json" else found.to_text(width) + "\n"
    write_text(args.output, text, console)
    return 0


def _infer(graph: Graph, args: argparse.Namespace, console: Console) -> Graph:
    from irdeconv.base.errors import InferenceError
    from irdeconv.cli.diagnostics import print_diagnostics
    from irdeconv.cli.model import inferred

    try:
        return inferred(graph, args.shape)
    except InferenceError as e:
        print_diagnostics(console, e.diagnostics)
        console.error("shapes are shown as declared")
        return graph


def _render(inspection: Inspection, args: argparse.Namespace, console: Console) -> str:
    from irdeconv.base.tables import WIDTH, printable
    from irdeconv.formats.text import dump

    if console.format == "json":
        return inspection.to_json()
    if console.format == "svg":
        return inspection.to_svg(constants=args.constants)
    shown = inspection.lowered or inspection
    if console.format == "dot":
        return shown.to_dot(constants=args.constants)
    if console.format == "ir":
        elide = None if args.constants else 0
        return dump(shown.graph, elide=elide, comments=shown.comments())
    width = console.width if args.output in (None, "-") else WIDTH
    return printable(inspection.to_text(constants=args.constants, width=width)) + "\n"
