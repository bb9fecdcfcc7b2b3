"""`infer`: infer all shapes and compare them with the declared ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Annotated, TypedDict

from irdeconv.base.errors import Diagnostic, count
from irdeconv.base.json_form import Record
from irdeconv.base.tables import table
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import ModelEnds, ends, inferred_model, print_ends, write_model
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Spec, compatible, merge_shapes
from irdeconv.ops.basic import Opaque
from irdeconv.rewrite.infer_specs import stale

STATES = ("same", "refined", "wider", "new", "declared", "unknown", "differs")


class InferredTensor(TypedDict):
    """One output of a layer."""

    id: int  # of the layer
    name: str  # of the layer
    type: str  # of its operation
    port: int  # of the output
    declared: str | None  # element type and shape as the file declares them
    inferred: Annotated[str, str | None]  # element type and shape as they follow
    status: str  # same, refined, wider, new, declared, unknown or differs


class InferDocument(Record, document="infer/1", keys="file no_weights *ends ..."):
    """All shapes, inferred and declared."""

    file: str  # the model
    no_weights: bool  # whether the weights file is missing
    ends: ModelEnds
    differs: int  # tensors whose declared shape is wrong
    tensors: list[InferredTensor]  # one for each output of each layer
    diagnostics: list[Diagnostic]  # warnings


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Infer and report."""
    graph = inferred_model(args)
    rows, warnings = list(report(graph)), stale(graph)
    if args.output:
        write_model(graph, args, console)

    def document() -> InferDocument:
        differs = sum(r["status"] == "differs" for r in rows)
        shapes = ends(graph)
        return InferDocument(args.file, args.no_weights, shapes, differs, rows, warnings)

    def text() -> None:
        _text(graph, rows, console, everything=args.all)
        print_diagnostics(console, warnings)
        if args.no_weights:
            console.text("structure alone: what depends on values of constants is open")

    return Answer(document, text)


def report(graph: Graph) -> Iterator[InferredTensor]:
    """Yield a row per output: declared and inferred spec, and how they relate."""
    for node in graph.nodes():
        if node.type == "Result":  # it passes on a tensor that has its row
            continue
        for port, spec in enumerate(node.specs or ()):
            declared = node.declared[port] if port < len(node.declared) else None
            status = _status(declared, spec)
            if isinstance(node.op, Opaque):  # only the file has its shapes
                status = "declared" if spec == declared else "unknown"
            yield {
                "id": node.id,
                "name": node.name,
                "type": node.type,
                "port": port,
                "declared": None if declared is None else str(declared.without_value()),
                "inferred": str(spec.without_value()),
                "status": status,
            }


def _status(declared: Spec | None, spec: Spec) -> str:
    if declared is None:
        return "new"
    if (declared.dtype, declared.shape) == (spec.dtype, spec.shape):
        return "same"
    types = declared.dtype is None or spec.dtype is None or declared.dtype == spec.dtype
    if not types or not compatible(declared.shape, spec.shape):
        return "differs"
    narrower = merge_shapes(declared.shape, spec.shape) == spec.shape
    return "refined" if narrower and (spec.dtype or not declared.dtype) else "wider"


def _declared(row: InferredTensor) -> str:
    """Return the file's declaration, as `same` if that is also inferred."""
    status = row["status"]
    return f"{row['declared']}: {status}" if status in ("refined", "wider", "differs") else status


def _text(graph: Graph, rows: list[InferredTensor], console: Console, *, everything: bool) -> None:
    shown = [r for r in rows if everything or r["type"] != "Const"]
    head = ("id", "name", "type", "inferred", "declared")
    cells = [(str(r["id"]), r["name"], r["type"], r["inferred"], _declared(r)) for r in shown]
    console.text(table(head, cells, ("id",), width=console.width))
    tally = {s: sum(r["status"] == s for r in rows) for s in STATES}
    print_ends(graph, console)
    states = ", ".join(f"{v} {k}" for k, v in tally.items() if v)
    console.text(f"{graph.info.name}: {count(len(rows), 'tensor')}: {states}")
