"""`lower`: rewrite deconvolutions as ordinary convolutions, and write the model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import irdeconv as ird
from irdeconv.base.errors import UnsupportedError, misused
from irdeconv.base.tables import number, scaled, table
from irdeconv.cli.certificates import finish_rewriting
from irdeconv.cli.checks import is_onnx
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import inferred, prove, read
from irdeconv.cli.options import lowering_options
from irdeconv.formats.importing import ONLY_EXACT
from irdeconv.rewrite.channel_folding import fused_lines
from irdeconv.rewrite.infer_specs import layer_count
from irdeconv.rewrite.records import LoweringReport
from irdeconv.rewrite.targets import load_target, target_names
from irdeconv.show.inspection import ratio
from irdeconv.verify.certificates import Certificates

_ONNX = "-o NAME.onnx lowers the ONNX file itself, regardless of its operations"


def stays_onnx(args: argparse.Namespace) -> bool:
    """Whether `lower` rewrites an ONNX file in its own format; UsageError for -o X.onnx of others.

    It does unless the graph is wanted: as an .xml, or as text.
    """
    if args.output and Path(args.output).suffix != ".onnx":
        return False
    option = "--fuse" if args.fuse else "--origins"
    if (args.fuse or args.origins) and args.output:
        message = f"-o {args.output}: {option} writes an IR, no ONNX model"
        raise misused(message, f"name it {Path(args.output).with_suffix('.xml')}")
    if args.file == "-":
        return bool(args.output)
    found = is_onnx(args.file)
    if args.output and not found:
        message = f"-o {args.output}: {args.file} is no ONNX model, so its lowering is none either"
        raise misused(message, f"name it {Path(args.output).with_suffix('.xml')}")
    return found and args.format != "ir" and not args.fuse


def run(args: argparse.Namespace, console: Console) -> int | Answer:
    """Lower, write, report; or list the targets."""
    if args.list_targets:
        rows = [(name, load_target(name).description) for name in target_names()]
        console.text(table(("target", "description"), rows, width=console.width))
        return 0
    if args.file is None:
        raise misused("lower needs FILE", "for example: irdeconv lower model.xml -o lowered.xml")
    if stays_onnx(args):
        from irdeconv.cli.lower_onnx import lower_file

        return lower_file(args, console, partial(_text, args=args, console=console))
    try:
        model = read(args)
    except UnsupportedError as e:
        if args.file != "-" and is_onnx(args.file):  # its file can be lowered all the same
            found = e.diagnostics
            e.diagnostics = [replace(d, hint=_ONNX) if d.hint == ONLY_EXACT else d for d in found]
        raise
    source = inferred(model, args.shape)
    low = ird.lower(source, args.form, args.target, **lowering_options(args))

    def page(made: Certificates) -> str:
        from irdeconv.show.page import graph_page

        proofs = made if args.certify else None
        return graph_page(source, low.graph, low.report, proofs).to_html()

    proof = partial(prove, args, source, raised=False)
    show = partial(_text, low.report, layer_count(low.graph), args=args, console=console)
    answer = finish_rewriting(args, low, console, prove=proof, show=show, page=page)
    return replace(answer, code=4) if any(r.form is None for r in low.report) else answer


def _text(report: LoweringReport, size: str, args: argparse.Namespace, console: Console) -> None:
    print_diagnostics(console, report.diagnostics)
    for line in fused_lines(report.fused) if args.fuse else ():
        console.text(line)
    if not len(report):
        named = f'no deconvolution has a name like "{args.only}"'
        none = named if args.only else "no deconvolutions"
        console.text(f"{args.file}: {none}, nothing to lower")
        return
    head = ("deconvolution", "type", "form", "direct MACs", "lowered MACs", "ratio", "becomes")
    rows = []
    for r in report:
        macs = number(r.macs_direct), number(r.macs_lowered) if r.form else ""
        becomes = ", ".join(r.nodes) if r.form else r.reason or ""
        times = ratio(r.macs_lowered, r.macs_direct)
        rows.append((r.name, r.type, r.form or "stays", *macs, times, becomes))
    console.text(table(head, rows, ("direct MACs", "lowered MACs", "ratio"), width=console.width))
    for r in report:
        if r.form and r.reason:
            console.text(f"{r.name}: {r.form} instead of {report.form}: {r.reason}")
    if args.explain_costs:
        console.text(f"\n{_costs(report, console.width)}\n")
    console.text(f"{args.file}: {report.verdict}; {size}")


def _costs(report: LoweringReport, width: int) -> str:
    """Return a table with a row per deconvolution and form."""
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
