"""`simplify`: fold constants, and drop layers that change nothing or that no output needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import irdeconv as ird
from irdeconv.base.errors import count
from irdeconv.base.json_form import Real, Record
from irdeconv.base.tables import number, scaled, table
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, outputs_of, specialize
from irdeconv.cli.lower_onnx import graph_to_edit, onnx_model, write_onnx
from irdeconv.cli.model import WrittenModel, write_model
from irdeconv.formats.onnx_container import OnnxFile
from irdeconv.formats.onnx_editing import rewritten
from irdeconv.formats.onnx_lowering import SUFFIX
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.channel_folding import fused_lines
from irdeconv.runtime.peers import difference, onnx_outputs
from irdeconv.runtime.simplify import SimplificationReport, simplify

# Of an output's largest value: the effect that other fusions may have in OpenVINO.
_FUSED_OTHERWISE = 1e-4


class OutputCheck(Record, keys="with=system ..."):
    """The outputs of both models."""

    system: str  # irdeconv, openvino or onnxruntime
    passed: bool  # whether they agree
    same_bits: bool  # whether they are the same bits
    difference: Real  # the largest, relative to the largest value of the output


class SimplifyDocument(WrittenModel, document="simplify/1", keys="file output check *report"):
    """The layers before and after."""

    check: OutputCheck | None  # of the outputs, with --check
    report: SimplificationReport


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Simplify, check, write, report."""
    needed = args.check == "onnxruntime"
    model = onnx_model(args, needed=needed)
    original = deepcopy(model) if needed else None
    graph = graph_to_edit(args, model)
    options = {"decompress": args.decompress, "fuse": args.fuse}
    simple, report = simplify(graph, max_growth=args.max_growth, **options)
    if model is not None:
        size = len(model.proto.graph.node)
        added = rewritten(model, graph, simple, args.max_growth, decompress=args.decompress)
        console.log(f"{count(size, 'node')} became {len(model.proto.graph.node)}")
    checked = _check(graph, simple, args, console, (original, model)) if args.check else None
    passed = checked is None or checked.passed
    written = args.output if passed else None
    if written and model is not None and written.endswith(SUFFIX):
        write_onnx(model, added, args, console)
    elif written:
        write_model(simple, args, console)

    def text() -> None:
        _text(args.file, report, console)
        for line in fused_lines(report.fused) if args.fuse else ():
            console.text(line)
        if checked is not None:
            console.text(_verdict(checked))

    document = partial(SimplifyDocument, args.file, written, checked, report)
    return Answer(document, text, 0 if passed else 1)


def _check(
    before: Graph,
    after: Graph,
    args: argparse.Namespace,
    console: Console,
    models: Sequence[OnnxFile | None],
) -> OutputCheck:
    """Run both on the same inputs; return the outcome. `models` are those of ONNX Runtime."""
    inputs = gather(before, args.inputs, args.seed, console, fill=args.fill)
    graphs = [specialize(graph, inputs) for graph in (before, after)]
    if args.check == "openvino":
        own, other = (outputs_of(graph, inputs) for graph in graphs)
    elif args.check == "onnxruntime":
        own, other = (onnx_outputs(model, inputs) for model in models if model is not None)
    else:
        # Not `run`, which chooses kernels by the size of the graph.
        plans = (ird.compile(graph, None, fuse=False) for graph in graphs)
        own, other = (list(plan.run(inputs).values()) for plan in plans)
    gap = difference(other, own)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(own, other, strict=True))
    passed = same or (args.check != "irdeconv" and gap <= _FUSED_OTHERWISE)
    if args.fuse and not passed:  # weights are rounded: each layer has its bound
        passed = args.check == "irdeconv" and ird.compare(graphs[0], graphs[1], inputs).passed
    return OutputCheck(args.check, passed, same, gap)


def _verdict(checked: OutputCheck) -> str:
    names = {"openvino": "OpenVINO", "onnxruntime": "ONNX Runtime"}
    system = names.get(checked.system, checked.system)
    if checked.same_bits:
        return f"{system} computes the same bits before and after"
    gap = f"{checked.difference:.2g} of an output's largest value"
    if checked.passed:
        return f"{system} computes the same before and after, within {gap}"
    return f"{system} computes something else afterwards: off by {gap}; nothing is written"


def _text(file: str, report: SimplificationReport, console: Console) -> None:
    before, after = report.before, report.after
    changed = {kind: n for kind, n in report.types.items() if n.before != n.after}
    rows = [(kind, number(n.before), number(n.after)) for kind, n in changed.items()]
    if rows:
        rows.append(("all layers", number(sum(before.values())), number(sum(after.values()))))
        head = ("type", "before", "after")
        console.text(table(head, rows, ("before", "after"), width=console.width))
    steps = ", ".join(f"{n} {step}" for step, n in report.steps.items() if n)
    kept, had = sum(after.values()), count(sum(before.values()), "layer")
    sizes = f"constants {scaled(report.bytes_before, 'B')} -> {scaled(report.bytes_after, 'B')}"
    if steps:
        console.text(f"{file}: {had} became {kept} ({steps}); {sizes}")
    else:
        console.text(f"{file}: {had}, nothing to take away")
