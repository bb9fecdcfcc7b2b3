"""`run`: run a model with NumPy."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

import irdeconv as ird
from irdeconv.base.json_form import NamedLayer, Record
from irdeconv.base.tables import table
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, specialize
from irdeconv.cli.model import inferred_model
from irdeconv.cli.options import execution
from irdeconv.cli.output import (
    ArrayFacts,
    check_single,
    note_tuning,
    save_arrays,
    statistics,
    write_text,
)
from irdeconv.formats.arrays import npy
from irdeconv.ir.graph import Node
from irdeconv.ir.spec import Array
from irdeconv.runtime.program import Step
from irdeconv.runtime.selection import Selection, with_outputs
from irdeconv.show.page import run_page
from irdeconv.show.page_values import ValueCollector


class RunStep(Record):
    """One step of the plan."""

    layers: list[NamedLayer]  # that it computes
    kernel: Annotated[str, str | None]  # that computes it
    why: Annotated[str, str | None]  # the reason for this kernel
    scratch: int  # bytes of scratch memory


class RowRange(TypedDict):
    """The rows that the outputs are of."""

    begin: int  # the first one
    end: int  # the first one behind them
    of: int  # number of rows in the file


class RunDocument(Record, document="run/1", keys="... saved? steps? rows? origin?"):
    """The outputs of a run."""

    file: str  # the model
    seed: int  # of random inputs
    outputs: dict[str, ArrayFacts]  # by name
    saved: list[str] | None = None  # files that were written
    steps: list[RunStep] | None = None  # the steps of the plan, with --trace
    rows: RowRange | None = None  # of the file, in a batch run --inputs
    # the same for results that are made alike: digest of the model, the options and irdeconv's
    # version, in a batch run --inputs
    origin: str | None = None


def run(args: argparse.Namespace, console: Console) -> int | Answer:
    """Run the model once."""
    items = [*args.inputs, *args.values]
    whole = inferred_model(args, needed=True)
    graph, names = whole, whole.outputs
    if args.outputs:
        graph, names = with_outputs(whole, args.outputs, "--outputs")
    check_single(args.output, names, args.dump if args.dump_dir is None else ())
    fed = gather(whole, items, args.seed, console, limit=args.max_memory, fill=args.fill)
    inputs = {name: fed[name] for name in graph.inputs}
    ready = specialize(graph, inputs)
    plan = ird.compile(ready, exact=args.exact, once=True, **execution(args))
    dumped: dict[str, Array] = {}
    wanted = Selection(plan.graph).layers(args.dump, "--dump") if args.dump else set()
    traces = [_tracer(wanted, args.dump_dir, dumped)] if wanted else []
    seen = ValueCollector(plan.graph)
    if args.report is not None:
        traces.append(seen.trace)

    def trace(node: Node, arrays: tuple[Array, ...]) -> None:
        for one in traces:
            one(node, arrays)

    arrays = plan.run(inputs, trace if traces else None)
    note_tuning(args.tune, console)
    if args.report is not None:
        write_text(args.report, run_page(ready, seen).to_html(), console)
    outputs = dict(zip(names, arrays.values(), strict=True))
    if args.output:
        save_arrays(args.output, {**outputs, **{f"dump/{k}": v for k, v in dumped.items()}})
        console.log(f"wrote {args.output}")
    steps = plan.steps if args.trace else []
    if not console.wants_json:
        _log_steps(steps, console)
    facts = {name: statistics(array) for name, array in outputs.items()}
    if args.output == "-":
        return 0
    traced = [_step_facts(s) for s in steps] if args.trace else None
    document = RunDocument(args.file, args.seed, facts, steps=traced)
    return Answer(lambda: document, lambda: _text(facts, outputs, console))


def _tracer(
    wanted: set[int], folder: str | None, kept: dict[str, Array]
) -> Callable[[Node, tuple[Array, ...]], None]:
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def trace(node: Node, arrays: tuple[Array, ...]) -> None:
        if node.id not in wanted:
            return
        for port, array in enumerate(arrays):
            suffix = f".{port}" if len(arrays) > 1 else ""
            if folder is None:
                key = node.name + suffix
                # Buffers are reused, and names need not be unique.
                kept[key if key not in kept else f"{key}@{node.id}"] = np.array(array)
            else:
                safe = re.sub(r"[^A-Za-z0-9_.-]", "_", node.name)[:100]
                Path(folder, f"{node.id:05d}_{safe}{suffix}.npy").write_bytes(npy(array))

    return trace


def _step_facts(step: Step) -> RunStep:
    layers: list[NamedLayer] = [{"type": n.type, "name": n.name} for n in step.nodes]
    return RunStep(layers, step.kernel, step.why, step.scratch)


def _log_steps(steps: list[Step], console: Console) -> None:
    for index, step in enumerate(steps):
        layers = ", ".join(f'{n.type} "{n.name}"' for n in step.nodes)
        why = f" ({step.why})" if step.why else ""
        console.error(f"step {index}: {step.kernel}{why}: {layers}")  # asked for, so also with -q


def _text(facts: dict[str, ArrayFacts], outputs: dict[str, Array], console: Console) -> None:
    head = ("output", "type", "shape", "min", "max", "mean", "values")
    rows = []
    for name, f in facts.items():
        stats = ["" if v is None else f"{v:.6g}" for v in (f["min"], f["max"], f["mean"])]
        few = outputs[name].reshape(-1)[:3].tolist()
        values = " ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in few)
        more = " ..." if outputs[name].size > len(few) else ""
        rows.append([name, f["element_type"], str(f["shape"]), *stats, values + more])
    right = ("min", "max", "mean")
    console.text(table(head, rows, right, names=("output",), width=console.width))
    for name, f in facts.items():
        if f["non_finite"]:
            console.text((f"{name}: {f['non_finite']} values are not finite", "yellow"))
