"""`raise`: turn decompositions of a deconvolution back into one deconvolution."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import irdeconv as ird
from irdeconv.base.errors import count
from irdeconv.base.tables import number, table
from irdeconv.cli.certificates import finish_rewriting
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.lower_onnx import graph_to_edit, onnx_model
from irdeconv.cli.model import prove
from irdeconv.formats.atomic import Files
from irdeconv.formats.onnx_container import OnnxFile, stage_file
from irdeconv.formats.onnx_editing import rewritten
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.infer_specs import layer_count
from irdeconv.show.inspection import ratio
from irdeconv.verify.proving import Given
from irdeconv.verify.raising import Raised


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Raise, write, report."""
    model = onnx_model(args)
    source = graph_to_edit(args, model)
    raised = ird.raise_(source, args.only or None)
    show = partial(_text, raised, args, console)
    proof = partial(prove, args, source, raised=True)
    stage = None if model is None else partial(_stage, model, source, raised.graph, args)
    return finish_rewriting(args, raised, console, prove=proof, show=show, stage=stage)


def _stage(
    model: OnnxFile, source: Graph, raised: Graph, args: argparse.Namespace, files: Files
) -> Given:
    added = rewritten(model, source, raised)
    back = stage_file(model, added, Path(args.output), files, force=args.force)
    return Given(graph_to_edit(args, back))


def _text(raised: Raised, args: argparse.Namespace, console: Console) -> None:
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
