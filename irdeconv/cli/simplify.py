"""`simplify`: fold constants, and drop layers that change nothing or that no output needs."""

from __future__ import annotations

import argparse
from typing import Any

import irdeconv as ird
from irdeconv.base.errors import count
from irdeconv.base.tables import number, scaled, table
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, outputs_of, specialize
from irdeconv.cli.model import inferred_model, write_model
from irdeconv.ir.graph import Graph
from irdeconv.runtime.peers import difference
from irdeconv.runtime.simplify import SimplificationReport, simplify

# Of an output's largest value: the effect that other fusions may have in OpenVINO.
_FUSED_OTHERWISE = 1e-4


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Simplify, check, write, report."""
    graph = inferred_model(args)
    simple, report = simplify(graph, max_growth=args.max_growth, decompress=args.decompress)
    checked = _check(graph, simple, args, console) if args.check else None
    passed = checked is None or checked["passed"]
    written = args.output if passed else None
    if written:
        write_model(simple, args, console)

    def text() -> None:
        _text(args.file, report, console)
        if checked is not None:
            console.text(_verdict(checked))

    ends = {"file": args.file, "output": written, "check": checked}
    return Answer(lambda: {**ends, **report.to_dict()}, text, 0 if passed else 1)


def _check(
    before: Graph, after: Graph, args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Run both on the same inputs; return the outcome."""
    inputs = gather(before, args.inputs, args.seed, console)
    graphs = [specialize(graph, inputs) for graph in (before, after)]
    if args.check == "openvino":
        own, other = (outputs_of(graph, inputs) for graph in graphs)
    else:
        # Not `run`, which chooses kernels by the size of the graph.
        plans = (ird.compile(graph, None, fuse=False) for graph in graphs)
        own, other = (list(plan.run(inputs).values()) for plan in plans)
    gap = difference(other, own)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(own, other, strict=True))
    passed = same or (args.check == "openvino" and gap <= _FUSED_OTHERWISE)
    return {"with": args.check, "passed": passed, "same_bits": same, "difference": gap}


def _verdict(checked: dict[str, Any]) -> str:
    system = {"irdeconv": "irdeconv", "openvino": "OpenVINO"}[checked["with"]]
    if checked["same_bits"]:
        return f"{system} computes the same bits before and after"
    gap = f"{checked['difference']:.2g} of an output's largest value"
    if checked["passed"]:
        return f"{system} computes the same before and after, within {gap}"
    return f"{system} computes something else afterwards: off by {gap}; nothing is written"


def _text(file: str, report: SimplificationReport, console: Console) -> None:
    before, after = report.before, report.after
    rows = [
        (kind, number(before.get(kind, 0)), number(after.get(kind, 0)))
        for kind in sorted({*before, *after})
        if before.get(kind, 0) != after.get(kind, 0)
    ]
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
