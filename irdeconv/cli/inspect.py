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
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from irdeconv.base.form_names import FALLBACK
from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_form,
    add_format,
    add_model,
    add_output,
    add_shapes,
    add_target_check,
)

if TYPE_CHECKING:
    from irdeconv.ir.graph import Graph
    from irdeconv.show.inspection import Inspection


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser, structure=True, optional=True)
    add_shapes(parser)
    parser.add_argument(
        "--lower", action="store_true", help="compare with the lowered graph, which dot and ir show"
    )
    add_form(parser, none=False)
    add_target_check(parser, "mark with ! the layers that this target cannot execute")
    parser.add_argument("--constants", action="store_true", help="list constants as well")
    parser.add_argument(
        "--only",
        metavar="TYPE|PATTERN",
        action="append",
        default=[],
        help="show only layers of this type, or whose name fits this pattern (*, ?, [a-z]); may be "
        "repeated",
    )
    parser.add_argument(
        "--sort",
        choices=("macs", "bytes", "params"),
        help="show the layers with most multiply-accumulates, bytes or parameters first",
    )
    parser.add_argument(
        "--operations",
        action="store_true",
        help="list what irdeconv executes, infers and keeps of OpenVINO's operations",
    )
    add_output(parser, "write the result here instead of stdout")
    add_format(parser, "dot", "html", "ir", "svg")


def run(args: argparse.Namespace, console: Console) -> int:
    """Inspect; a graph that does not fit together is shown as declared."""
    import irdeconv as ird
    from irdeconv.base.errors import misused
    from irdeconv.cli.model import protect, read
    from irdeconv.cli.output import check_text_file, write_text

    if args.operations:
        return _operations(args, console)
    if args.file is None:
        raise misused("inspect needs FILE", "for example: irdeconv inspect model.xml")
    if args.form is not None and not args.lower:
        raise misused("--form: without --lower nothing is lowered", "add --lower")
    if console.format in ("dot", "html", "ir", "svg") and (args.only or args.sort or args.target):
        option = "--only" if args.only else "--sort" if args.sort else "--target"
        raise misused(
            f"{option}: --format {console.format} shows the whole graph as it is",
            "text and json take it",
        )
    protect(args.output, (args.file, args.weights), force=args.force)
    check_text_file(args.output, console.format)
    with _uncollected():
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
    from irdeconv.base.errors import misused
    from irdeconv.base.tables import WIDTH
    from irdeconv.cli.output import check_text_file, write_text

    if args.file is not None or args.lower or args.sort or args.shape:
        raise misused("--operations is about no model", "leave out FILE, --lower, --sort, --shape")
    if console.format not in ("text", "json"):
        raise misused(
            f"--operations: there is no {console.format} of it", "text and json there are"
        )
    check_text_file(args.output, console.format)
    found = ird.operations(args.only)
    width = console.width if args.output in (None, "-") else WIDTH
    text = found.to_json() if console.format == "json" else found.to_text(width) + "\n"
    write_text(args.output, text, console)
    return 0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave garbage alone: of 20,000 layers' million objects nearly all stay.

    Looking for circles among them again and again takes a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
