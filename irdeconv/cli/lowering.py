"""`lower` and `raise`: deconvolutions become ordinary convolutions, and the other way round."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, UnsupportedError, count, misused
from irdeconv.base.tables import number, scaled, table
from irdeconv.cli.checks import parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import (
    graph_to_edit,
    inferred,
    onnx_model,
    onnx_shapes,
    protect_onnx,
    prove,
    read,
    source_of,
)
from irdeconv.cli.options import lowering_options
from irdeconv.cli.proofs import finish_rewriting, stamp
from irdeconv.formats.atomic import Files
from irdeconv.formats.importing import ONLY_EXACT
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.formats.onnx_container import OnnxFile, load_file, stage_file
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.formats.xml_writer import note_origins, stage_ir
from irdeconv.ir.graph import Graph
from irdeconv.rewrite import infer_specs
from irdeconv.rewrite.channel_folding import fused_lines
from irdeconv.rewrite.infer_specs import layer_count
from irdeconv.rewrite.lower_deconv import LoweringReport, LoweringRequest
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import load_target, target_names
from irdeconv.show.inspection import ratio
from irdeconv.verify.certificates import Certificates
from irdeconv.verify.check import probed, with_probe
from irdeconv.verify.proving import Given, stamp_of
from irdeconv.verify.raising import Raised

if TYPE_CHECKING:
    from irdeconv.formats.onnx_lowering import LoweredOnnx

_ONNX = "-o NAME.onnx lowers the ONNX file itself, regardless of its operations"


def run_lower(args: argparse.Namespace, console: Console) -> int | Answer:
    """Lower, write, report; or list the targets."""
    if args.list_targets:
        rows = [(name, load_target(name).description) for name in target_names()]
        console.text(table(("target", "description"), rows, width=console.width))
        return 0
    if args.file is None:
        raise misused("lower needs FILE", "for example: irdeconv lower model.xml -o lowered.xml")
    report, answer = (_lower_onnx if stays_onnx(args) else _lower)(args, console)
    return replace(answer, code=4) if any(r.form is None for r in report) else answer


def _lower(args: argparse.Namespace, console: Console) -> tuple[LoweringReport, Answer]:
    try:
        model = read(args)
    except UnsupportedError as e:
        if args.file != "-" and is_onnx(args.file):  # its file can be lowered all the same
            found = e.diagnostics
            e.diagnostics = [replace(d, hint=_ONNX) if d.hint == ONLY_EXACT else d for d in found]
        raise
    source = inferred(model, args.shape)
    low = ird.lower(source, args.form, args.target, **lowering_options(args))

    def page(made: Certificates | None) -> str:
        from irdeconv.show.page import graph_page

        return graph_page(source, low.graph, low.report, made).to_html()

    return low.report, finish_rewriting(
        args,
        low.report,
        console,
        stage=partial(_stage_ir, low.graph, args),
        prove=partial(prove, args, source, raised=False),
        show=partial(_text, low.report, layer_count(low.graph), args, console),
        page=page,
        graph=low.graph,
    )


def _stage_ir(rewritten: Graph, args: argparse.Namespace, files: Files) -> Given:
    """Write the IR of -o to a temporary place; return it as a side of a proof takes it."""
    if not args.output:
        return Given(rewritten)
    graph = standardize(rewritten)
    if getattr(args, "origins", False):
        note_origins(graph)
    xml, weights = stage_ir(graph, Path(args.output), files)
    return Given(str(xml), str(weights), staged=True)


def _text(report: LoweringReport, size: str, args: argparse.Namespace, console: Console) -> None:
    print_diagnostics(console, report.diagnostics)
    for line in fused_lines(report.fused) if args.fuse else ():
        console.text(line)
    if not len(report):
        console.text(f"{args.file}: {report.verdict}")
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


def run_raise(args: argparse.Namespace, console: Console) -> Answer:
    """Raise, write, report."""
    model = onnx_model(args)
    source = graph_to_edit(args, model)
    raised = ird.raise_(source, args.only or None)

    def stage(files: Files) -> Given:
        if model is None:
            return _stage_ir(raised.graph, args, files)
        from irdeconv.formats.onnx_editing import rewritten

        added = rewritten(model, source, raised.graph)
        back = stage_file(model, added, Path(args.output), files, force=args.force)
        return Given(graph_to_edit(args, back))

    return finish_rewriting(
        args,
        raised.report,
        console,
        stage=stage,
        prove=partial(prove, args, source, raised=True),
        show=partial(_raised_text, raised, args, console),
        graph=raised.graph,
    )


def _raised_text(raised: Raised, args: argparse.Namespace, console: Console) -> None:
    report = raised.report
    if not len(report):
        console.text(f"{args.file}: no decompositions, nothing to raise")
        return
    rows = []
    for r in report:
        if r.pattern:
            macs = number(r.macs_before), number(r.macs_raised)
            rows.append((r.name, r.pattern, r.type, *macs, ratio(r.macs_raised, r.macs_before)))
    if rows:
        head = ("layer", "pattern", "becomes", "MACs before", "raised MACs", "ratio")
        console.text(table(head, rows, head[3:], width=console.width))
    for r in report:
        if not r.pattern:
            console.text(f"{r.name}: {r.type} stays: {r.reason}")
        elif r.note:
            console.text(f"{r.name}: {r.note}")
    verdict = count(len(rows), "decomposition") + f" of {len(report)} raised"
    console.text(f"{args.file}: {verdict}; {layer_count(raised.graph)}")


def _lower_onnx(args: argparse.Namespace, console: Console) -> tuple[LoweringReport, Answer]:
    """Lower an ONNX file, which stays one."""
    from irdeconv.formats.onnx_lowering import lower_model, stage_onnx
    from irdeconv.verify.onnx_check import compare_models

    source = source_of(args.file)
    model = load_file(source)
    protect_onnx(args, model)
    request = LoweringRequest.of(args.form, args.target, **lowering_options(args))
    shapes = onnx_shapes(parse_shapes(args.shape), model)
    low = lower_model(model, request, shapes=shapes, semantics=args.semantics)
    stamps = [stamp(args.file), None]

    def stage(files: Files) -> OnnxFile:
        if not args.output:
            return low.model
        written = stage_onnx(low, Path(args.output), files, force=args.force)
        staged = next(f for f in files.opened if f.target == Path(args.output))
        stamps[1] = stamp_of(staged.name, "onnx")
        return written

    def prove(written: OnnxFile) -> Certificates:
        original = load_file(source)
        set_shapes(original, onnx_shapes(parse_shapes(args.shape), original))
        proof = compare_models(original, written, args.semantics)
        made = replace(proof.made, source=stamps[0], lowered=stamps[1])
        if proof.problems:
            raise RuntimeError("; ".join(proof.problems))  # a bug, so nothing is written
        return with_probe(made, probed(proof.source, proof.lowered)) if args.probe else made

    def show() -> None:
        _text(low.report, count(len(model.proto.graph.node), "node"), args, console)

    page = partial(_page, args, console, low, source)
    return low.report, finish_rewriting(
        args, low.report, console, stage=stage, prove=prove, show=show, page=page
    )


def _page(
    args: argparse.Namespace,
    console: Console,
    low: LoweredOnnx,
    source: str | bytes,
    made: Certificates | None,
) -> str | None:
    """Return the page of both models, drawn as the graphs that their nodes become.

    If they become none, a warning says so, and the lowering is written without its page.
    """
    from irdeconv.show.page import graph_page

    try:
        before = infer_specs.inferred(graph_of(source, semantics=args.semantics))
        after = infer_specs.inferred(graph_of(low.model.proto))
    except IrdeconvError as e:
        print_diagnostics(console, (replace(d, severity="warning") for d in e.diagnostics))
        console.error(f"{args.report} is not written: the page cannot draw this model")
        return None
    return graph_page(before, after, low.report, made).to_html()
