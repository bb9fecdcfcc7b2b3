"""Rewrite every deconvolution as ordinary convolutions, and report what became of each.

-o writes the new model as .xml and .bin, in standard operations that OpenVINO reads. --format ir
prints it in its text form, and the report goes to stderr; `inspect --lower --format ir` prints
large constants as well. --certify proves each new layer equal to the deconvolution, from the
files that -o has written. --report writes a page that shows the graph before and after.

If the input is an ONNX model and -o names an .onnx, only the ConvTranspose nodes are replaced, by
standard operations of the model's operation set (7 or later). If -o names an .xml, the model is
converted to an IR first. An ONNX model that a page cannot draw is lowered and written without the
page that --report names; a warning says so, and the exit code stays the same.

With --target every new layer meets the conditions of a device, or nothing is written.

Exit code 4: a deconvolution could not be lowered. 1: a layer is not proved, or the target cannot
execute what a deconvolution would become. 7: a layer is proved for some sizes only, or under the
assumptions that are listed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from irdeconv.base import gc_pause
from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_form,
    add_lowering_options,
    add_model,
    add_report,
    add_rewriting,
    add_target,
    lowering_options,
)

if TYPE_CHECKING:
    from irdeconv.ir.graph import Graph
    from irdeconv.rewrite.records import Lowered, LoweringReport
    from irdeconv.verify.certificates import Certificates
    from irdeconv.verify.proving import Given


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser, optional=True)
    add_form(parser, none=False)
    add_target(parser)
    add_lowering_options(parser)
    parser.add_argument("--list-targets", action="store_true", help="list the packaged targets")
    add_rewriting(parser, "lowered", "rewritten", onnx=True)
    add_report(parser, "the graph before and after, with what became of each deconvolution")


def run(args: argparse.Namespace, console: Console) -> int:
    """Lower, write, report; or list the targets."""
    from irdeconv.base.errors import misused

    if args.list_targets:
        return _list_targets(console)
    if args.file is None:
        raise misused("lower needs FILE", "for example: irdeconv lower model.xml -o lowered.xml")
    return _lower(args, console)


def _lower(args: argparse.Namespace, console: Console) -> int:
    import irdeconv as ird
    from irdeconv.cli.certificates import finish_rewriting, refuse_probe
    from irdeconv.cli.lower_onnx import lower_file, stays_onnx
    from irdeconv.cli.model import (
        inferred,
        original,
        protect_proved,
        protect_report,
        read,
        shapes_for,
    )
    from irdeconv.rewrite.infer_specs import layer_count
    from irdeconv.verify.check import certified
    from irdeconv.verify.proving import both_sides

    refuse_probe(args)
    if stays_onnx(args):
        return lower_file(args, console, partial(_text, args=args, console=console))
    protect_proved(args, args.target)
    protect_report(args, args.target)
    with _onnx_instead(args):
        model = read(args)
    source = inferred(model, args.shape)
    low = ird.lower(source, args.form, args.target, **lowering_options(args))

    @gc_pause.paused()
    def prove(written: Given) -> Certificates:
        shapes = shapes_for(source, args.shape)
        sides = both_sides(original(args, source), written, shapes)
        return certified(*sides, probe=args.probe)

    def show(low: Lowered) -> None:
        _text(low.report, layer_count(low.graph), args=args, console=console)

    page = partial(_page, source, low, args)
    code = finish_rewriting("lower", args, low, console, prove=prove, show=show, page=page)
    return 4 if any(r.form is None for r in low.report) else code


def _list_targets(console: Console) -> int:
    """Print the names of the packaged targets with their descriptions."""
    from irdeconv.base.errors import misused
    from irdeconv.base.tables import table
    from irdeconv.rewrite.targets import load_target, target_names

    if console.wants_json:
        raise misused("--list-targets: there is no json of it", "leave out --format")
    rows = [(name, load_target(name).description) for name in target_names()]
    console.text(table(("target", "description"), rows, width=console.width))
    return 0


def _page(source: Graph, low: Lowered, args: argparse.Namespace, made: Certificates) -> str:
    from irdeconv.show.page import graph_page

    return graph_page(source, low.graph, low.report, made if args.certify else None).to_html()


@contextmanager
def _onnx_instead(args: argparse.Namespace) -> Iterator[None]:
    """Where an ONNX model cannot become an IR, say that its file can be lowered all the same."""
    from irdeconv.base.errors import UnsupportedError
    from irdeconv.cli.lower_onnx import is_onnx
    from irdeconv.formats.importing import ONLY_EXACT

    try:
        yield
    except UnsupportedError as e:
        if args.file == "-" or not is_onnx(args.file):
            raise
        hint = "-o NAME.onnx lowers the ONNX file itself, whatever operations it has"
        e.diagnostics = [
            replace(d, hint=hint) if d.hint == ONLY_EXACT else d for d in e.diagnostics
        ]
        raise


def _text(report: LoweringReport, size: str, args: argparse.Namespace, console: Console) -> None:
    from irdeconv.base.tables import number, table
    from irdeconv.cli.diagnostics import print_diagnostics
    from irdeconv.show.inspection import ratio

    print_diagnostics(console, report.diagnostics)
    if not len(report):
        console.text(f"{args.file}: no deconvolutions, nothing to lower")
        return
    head = ("deconvolution", "type", "form", "direct MACs", "lowered MACs", "ratio", "becomes")
    rows = [
        (
            r.name,
            r.type,
            r.form or "stays",
            number(r.macs_direct),
            number(r.macs_lowered) if r.form else "",
            ratio(r.macs_lowered, r.macs_direct),
            ", ".join(r.nodes) if r.form else r.reason or "",
        )
        for r in report
    ]
    console.text(table(head, rows, ("direct MACs", "lowered MACs", "ratio"), width=console.width))
    for r in report:
        if r.form and r.reason:
            console.text(f"{r.name}: {r.form} instead of {report.form}: {r.reason}")
    if args.explain_costs:
        console.text(f"\n{_costs(report, console.width)}\n")
    console.text(f"{args.file}: {report.verdict}; {size}")


def _costs(report: LoweringReport, width: int) -> str:
    """Return a table with a row per deconvolution and form."""
    from irdeconv.base.tables import number, scaled, table

    numbers = ("MACs", "wasted", "bytes", "scratch", "nodes", "score")
    rows, refusals = [], []
    for r in report:
        for c in r.costs:
            cells = ["?"] * len(numbers)
            if c.cost is not None:
                wasted = f"{100 * c.cost.wasted:.1f} %"
                sizes = (number(c.cost.bytes), number(c.cost.scratch), number(c.cost.nodes))
                score = "?" if c.score is None else scaled(round(c.score))
                cells = [number(c.cost.macs), wasted, *sizes, score]
            mark = "taken" if c.form == r.form else "refused" if c.refused else ""
            rows.append([r.name, c.form, *cells, mark])
            if c.refused:
                refusals.append(f"{r.name}: {c.form} refused: {c.refused}")
    assumed = any(c.assumed for r in report for c in r.costs)
    note = ["unknown sizes count as 1 (batch) and 32 (space)"] if assumed else []
    head = ("deconvolution", "form", *numbers, "")
    return "\n".join([table(head, rows, numbers, width=width), *refusals, *note])
