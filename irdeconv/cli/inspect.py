"""`inspect`: list layers, shapes, parameters and multiply-accumulates."""

from __future__ import annotations

import argparse

import irdeconv as ird
from irdeconv.base import gc_pause
from irdeconv.base.errors import InferenceError, misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.base.tables import WIDTH, printable
from irdeconv.cli.console import Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import inferred, read
from irdeconv.cli.output import write_text
from irdeconv.formats.text import dump
from irdeconv.show.inspection import Inspection


def run(args: argparse.Namespace, console: Console) -> int:
    """Inspect; a graph that does not fit together is shown as declared."""
    if args.operations:
        table = ird.operations(args.only)
        width = console.width if args.output in (None, "-") else WIDTH
        text = table.to_json() if console.format == "json" else table.to_text(width) + "\n"
        write_text(args.output, text, console)
        return 0
    if args.file is None:
        raise misused("inspect needs FILE", "for example: irdeconv inspect model.xml")
    with gc_pause.paused():
        graph = read(args)
        try:
            graph = inferred(graph, args.shape)
        except InferenceError as e:
            print_diagnostics(console, e.diagnostics)
            console.error("shapes are shown as declared")
        lowered = ird.lower(graph, args.form or FALLBACK) if args.lower else None
        if console.format == "html":
            text = ird.graph_page(graph, lowered).to_html()
        else:
            wanted = {"only": args.only, "sort": args.sort, "target": args.target}
            text = _render(ird.inspect(graph, lowered, **wanted), args, console)
        write_text(args.output, text, console)
    return 0


def _render(inspection: Inspection, args: argparse.Namespace, console: Console) -> str:
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
    how = {"constants": args.constants, "everything": args.all, "width": width}
    return printable(inspection.to_text(**how)) + "\n"
