"""Verbs that run models: `run`, `bench`, `compare`, `reduce`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import Diagnostic, UsageError, count, misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.base.json_form import NamedLayer, Record
from irdeconv.base.opening import real
from irdeconv.base.tables import WIDTH, table, wrap
from irdeconv.cli import checks
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import (
    ArrayFacts,
    gather,
    inferred,
    inferred_model,
    note_tuning,
    onnx_model,
    open_arrays,
    read,
    read_file,
    save_arrays,
    specialize,
    statistics,
    write_text,
)
from irdeconv.cli.options import RECORDS, execution
from irdeconv.formats.arrays import npy
from irdeconv.formats.atomic import together, write_file
from irdeconv.formats.kinds import SAVED
from irdeconv.formats.models import is_onnx
from irdeconv.formats.onnx_editing import to_edit
from irdeconv.formats.onnx_lowering import SUFFIX
from irdeconv.formats.text import dump
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.spec import Array
from irdeconv.public.showing import side_in
from irdeconv.runtime.bench import require_measurable, sorted_out
from irdeconv.runtime.measure import Effort
from irdeconv.runtime.program import Step
from irdeconv.runtime.selection import Selection, with_outputs
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.partner import Precision
from irdeconv.verify.reduce import NAMES, ONNX_PEER, REPORT, Reduced, Task, reduce_model
from irdeconv.verify.reduce_checks import filled, layers_of, other_path, stage_variant


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


def run_run(args: argparse.Namespace, console: Console) -> int | Answer:
    """Run the model once."""
    from irdeconv.show.page import run_page
    from irdeconv.show.page_details import ValueCollector

    whole = inferred_model(args, needed=True)
    graph, names = chosen(whole, args)
    checks.require_single(args.output, names, args.dump if args.dump_dir is None else ())
    items, limit = [*args.inputs, *args.values], args.max_memory
    fed = gather(whole, items, args.seed, console, limit=limit, fill=args.fill)
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
        save_arrays(args.output, outputs | {f"dump/{k}": v for k, v in dumped.items()}, console)
    steps = plan.steps if args.trace else []
    if not console.wants_json:
        _log_steps(steps, console)
    facts = {name: statistics(array) for name, array in outputs.items()}
    if args.output == "-":
        return 0
    traced = [*map(_step_facts, steps)] if args.trace else None
    document = partial(RunDocument, args.file, args.seed, facts, steps=traced)
    return Answer(document, partial(_text, facts, outputs, console))


def chosen(graph: Graph, args: argparse.Namespace) -> tuple[Graph, Sequence[str]]:
    """Return the graph that computes the outputs of --outputs, and their names."""
    return (
        with_outputs(graph, args.outputs, "--outputs") if args.outputs else (graph, graph.outputs)
    )


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
        stats = ["" if v is None else f"{v:.6g}" for v in (f.min, f.max, f.mean)]
        few = outputs[name].reshape(-1)[:3].tolist()
        values = " ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in few)
        more = " ..." if outputs[name].size > len(few) else ""
        rows.append([name, f.element_type, str(f.shape), *stats, values + more])
    right = ("min", "max", "mean")
    console.text(table(head, rows, right, names=("output",), width=console.width))
    for name, f in facts.items():
        if f.non_finite:
            console.text((f"{name}: {f.non_finite} values are not finite", "yellow"))


def run_bench(args: argparse.Namespace, console: Console) -> Answer:
    """Measure and report; the exit code depends on times only with --fail-above."""
    names = ("time", "iterations", "rounds", "warm_up", "requests")
    effort = {name: getattr(args, name) for name in names}
    systems, saved = sorted_out(args.against)
    require_measurable(Effort(**effort), systems, args.threads)
    if args.fail_above is not None and not saved:
        raise misused("--fail-above needs a saved report: --against FILE.json")
    graph = inferred_model(args, needed=True)
    items = [*args.inputs, *args.values]
    inputs = gather(graph, items, args.seed, console, limit=args.max_memory, fill=args.fill)
    things = 2 + len(systems) + (args.requests > 1)
    console.log(f"preparing, then measuring for at most about {round(args.time * things, 1):g} s")
    alone = args.file == "-" or Path(args.file).suffix in (".json", ".ird")
    origin = {} if alone else {"source": args.file, "weights": args.weights}
    how = {**execution(args), **effort, **origin, "against": args.against}
    report = ird.bench(specialize(graph, inputs), inputs, **how)
    note_tuning(args.tune, console)
    document = replace(report, file=args.file, seed=args.seed)
    if args.save is not None:
        content = json.dumps(document.to_dict(), indent=1) + "\n"
        write_file(Path(args.save), content.encode("utf-8"))
        console.log(f"wrote {args.save}")
    if args.report is not None:
        write_text(args.report, ird.graph_page(report).to_html(), console)

    text = partial(report.to_text, top=args.top, histogram=args.histogram, width=console.width)
    limit = args.fail_above
    slower = limit is not None and any(b.slower_by(limit) for b in report.baselines)
    return Answer(lambda: document, lambda: console.text(text()), int(slower))


class CompareDocument(Record, document="compare/1", keys="a b seed *result diagnostics"):
    """How far two runs are apart, layer by layer."""

    a: str  # the first model
    b: str  # the second model, runtime or file of arrays
    seed: int  # of random inputs
    result: Comparison
    diagnostics: list[Diagnostic]  # notes on the result


def run_compare(args: argparse.Namespace, console: Console) -> Answer:
    """Compare; the exit code is 0 if everything agrees."""
    if len(dict(args.tolerance)) < len(args.tolerance):
        raise misused("--tolerance is given twice for the same name", "leave one out")
    if args.file.endswith(SAVED):
        return _answer(args, _compare_saved(args), console)
    if args.file == args.other == "-":
        raise misused("stdin holds one model; name a file for the other")
    refuse_idle(args)
    if args.reduce is not None:
        read = {real(s) for s in checks.read_by(RECORDS["compare"], args) if s}
        for name in NAMES:
            if real(Path(args.reduce, name)) in read:
                message = f"--reduce {args.reduce} would overwrite the input {name}"
                raise misused(message, "name another folder")
    graph = inferred_model(args, needed=True)
    items = args.inputs or _saved_inputs(args.other, graph)
    inputs = gather(graph, items, args.seed, console, fill=args.fill)
    result = _compare(args, specialize(graph, inputs), inputs, console)
    if args.report is not None:
        write_text(args.report, ird.graph_page(result).to_html(), console)
    if args.reduce is not None and result.first_difference is not None:
        console.log(f"wrote {Path(args.reduce, REPORT)} and the files that it names")
    return _answer(args, result, console)


def _saved_inputs(other: str | None, graph: Graph) -> list[str]:
    """Return the saved arrays as the inputs if all inputs are among them."""
    if other is None or not other.endswith(SAVED):
        return []
    with suppress(UsageError), open_arrays(other) as arrays:  # which is an error later
        return [other] if set(graph.inputs) <= set(arrays) else []
    return []


def _compare_saved(args: argparse.Namespace) -> Comparison:
    """Compare two files of arrays."""
    if args.other is None or not args.other.endswith(SAVED):
        message = f"{args.file} holds arrays, not a model"
        raise misused(message, f"irdeconv compare MODEL {args.file}, or compare two .npz")
    given = [o.name for o in RECORDS["compare"].options if o.is_in(args)]
    idle = [n for n in given if n not in ("FILE", "OTHER", "--tolerance", "--all", "--format")]
    if idle:
        raise misused(f"{' and '.join(idle)}: no model runs to compare arrays", "leave it out")
    return ird.compare(args.file, args.other, tolerance=dict(args.tolerance))


def _answer(args: argparse.Namespace, result: Comparison, console: Console) -> Answer:
    def document() -> CompareDocument:
        other = args.other or f"lowered ({args.form or FALLBACK})"
        texts = {str(t): t.name for t in result.tensors if not t.passed}
        found = [Diagnostic("E504", "error", text, layer=name) for text, name in texts.items()]
        lost = [f'output "{name}" is missing' for name in result.missing]
        found += [Diagnostic("E504", "error", text) for text in lost]
        return CompareDocument(args.file, other, args.seed, result, [*result.diagnostics, *found])

    text = partial(_compared_text, result, console, everything=args.all)
    return Answer(document, text, 0 if result.passed else 1)


def refuse_idle(args: argparse.Namespace) -> None:
    """Refuse arguments that have no effect on the comparison."""
    if args.other is not None and args.other.endswith(".npy"):
        hint = "an array goes into an .npz, named like its layer"
        raise misused(f"{args.other} is neither a model nor an .npz", hint)
    idle = [f"--{name}" for name in ("form", "target") if getattr(args, name) is not None]
    if args.other is not None and idle:
        message = f"{' and '.join(idle)}: with OTHER nothing is lowered"
        hint = "leave OTHER out, or write the lowered model with lower -o and name it as OTHER"
        raise misused(message, hint)
    runtime, file = checks.runtime_and_file(args.other or "")
    if args.peer_precision is not None and runtime != "openvino":
        raise misused("--peer-precision is of openvino", "name openvino as OTHER")
    if args.other_weights is not None and (not file or file.endswith(SAVED)):
        hint = "name one as OTHER, or leave it out"
        raise misused("--other-weights goes with the .xml of a second model", hint)


def _compare(
    args: argparse.Namespace, a: Graph, inputs: dict[str, Array], console: Console
) -> Comparison:
    other = args.other
    wanted = {"tolerance": dict(args.tolerance), "reduce": args.reduce}
    if other is None:
        b, report = ird.lower(a, args.form or FALLBACK, args.target)
        if not len(report):
            console.log(f"{args.file} has no deconvolutions: it is compared with itself")
            console.log(f"irdeconv compare ORIGINAL {args.file} compares it with another model")
        return ird.compare(a, b, inputs, **wanted)
    runtime, file = checks.runtime_and_file(other)
    if runtime is not None:
        peer = other if file else side_in(runtime, args.file)
        weights = args.weights if file in ("", args.file) else args.other_weights
        precision: Precision = args.peer_precision or "f32"
        return ird.compare(a, peer, inputs, **wanted, weights=weights, peer_precision=precision)
    if other.endswith(SAVED):
        return ird.compare(a, other, inputs, **wanted)
    b = read_file(other, args.other_weights, args.semantics)
    renamed = matched(b, inputs, other)
    b = specialize(ird.infer(b), renamed, every=bool(args.shape))
    feeds = inputs if set(renamed) == set(inputs) else list(renamed.values())
    return ird.compare(a, b, feeds, **wanted)


def matched(graph: Graph, inputs: dict[str, Array], file: str) -> dict[str, Array]:
    """Return the inputs by the second model's names: the same ones, else those in order."""
    if len(graph.inputs) != len(inputs):
        has = count(len(graph.inputs), "input")
        message = f"{file} has {has}, the first model has {len(inputs)}"
        raise misused(message, "extract cuts a piece of the same inputs out of a model")
    if set(graph.inputs) == set(inputs):
        return {name: inputs[name] for name in graph.inputs}
    return dict(zip(graph.inputs, inputs.values(), strict=True))


def _compared_text(result: Comparison, console: Console, *, everything: bool) -> None:
    print_diagnostics(console, result.diagnostics)
    for line in result.lines(everything=everything):
        console.text((line, "" if line.startswith("ok") else "red"))
    console.text((result.verdict, "bold green" if result.passed else "bold red"))


LINES = 40  # of a text form that is printed
WORTH_SAYING = 10  # seconds


class ReduceDocument(Record, document="reduce/1", keys="file output command *done diagnostics"):
    """The small model."""

    file: str  # the model
    output: list[str]  # files that were written
    command: str  # the command that shows the failure
    done: Reduced
    diagnostics: list[Diagnostic]  # always empty


def run_reduce(args: argparse.Namespace, console: Console) -> Answer:
    """Reduce and write; the exit code is 130 if the search was interrupted."""
    out = Path(args.output)
    _refuse_other(args.file, args.compare, out)
    sources = [*checks.read_by(RECORDS["reduce"], args)]
    if args.compare not in (None, *checks.RUNTIMES):
        checks.protect(str(other_path(out)), sources, force=args.force, model=out.suffix != SUFFIX)
    checks.protect(str(out.with_suffix(".npz")), sources, force=args.force)
    if args.compare != ONNX_PEER:
        _task(args).require_sense()
    model = onnx_model(args)
    models = () if model is None else (model,)
    task = replace(_task(args), models=models, semantics=args.semantics)
    task.require_sense()
    graph = ird.infer(read(args)) if model is None else layers_of(model)
    whole = inferred(graph, args.shape) if model is None else graph
    inputs = gather(whole, args.inputs, args.seed, console, fill=args.fill)
    if isinstance(task.compare, Graph):
        task = _with_other(task, args)
    done = reduce_model(graph, inputs, task)
    with together() as files:
        written = [str(p) for p in stage_variant(done.piece, out, files)]
    console.log(f"wrote {', '.join(written)}")
    command = _command(args, out, in_one_piece=done.in_one_piece)
    return Answer(
        lambda: ReduceDocument(args.file, written, command, done, []),
        lambda: _reduced_text(done, command, written, console),
        130 if done.stopped == "interrupted" else 0,
    )


def _with_other(task: Task, args: argparse.Namespace) -> Task:
    """Return the task with its second model, an ONNX model if the first one stays one."""
    second = to_edit(args.compare, args.output)
    if second is not None:
        return replace(task, compare=layers_of(second), models=(*task.models, second))
    other = read_file(args.compare, args.other_weights, args.semantics)
    return replace(task, compare=ird.infer(other))


def _refuse_other(file: str, other: str | None, out: Path) -> None:
    """Refuse a second side that cannot be cut."""
    if other == ONNX_PEER and out.suffix != SUFFIX:
        message = f"--compare {other}: ONNX Runtime reads only an .onnx"
        pieces = f"-o {out.with_suffix(SUFFIX)} writes pieces of an ONNX model"
        raise misused(message, pieces if is_onnx(file) else "name the .onnx that it was made of")
    if other in (None, *checks.RUNTIMES):
        return
    if other.endswith((*SAVED, ".npy")):
        hint = "compare --reduce DIR cuts out the first layer that differs from saved arrays"
        raise misused(f"--compare {other}: saved arrays cannot be cut", hint)
    runtime, _ = checks.runtime_and_file(other)
    if runtime is not None:
        hint = f"compare two models by their files, or one of them with {runtime}"
        raise misused(f"--compare {other}: {runtime} executes the same model", hint)
    checks.require_other(other)


def _task(args: argparse.Namespace) -> Task:
    """Return the task; a second model, which is not read yet, is an empty graph."""
    names = ("check", "verb", "fails_with", "timeout", "tolerance", "max_checks")
    options = {name: getattr(args, name) for name in names}
    compare = args.compare if args.compare in (None, *checks.RUNTIMES) else Graph()
    file = Path(args.file) if args.file.endswith((".xml", Path(args.output).suffix)) else None
    return Task(compare=compare, seconds=args.time, file=file, **options)


def _command(args: argparse.Namespace, out: Path, *, in_one_piece: bool) -> str:
    """Return the command that shows the fault in the reduced model."""
    inputs = str(out.with_suffix(".npz"))
    if args.check is not None:
        return shlex.join(filled(shlex.split(args.check), out))
    if args.verb == "write":
        return shlex.join(["irdeconv", "lower", str(out), "-o", "written.xml"])
    if args.verb is not None:
        return shlex.join(["irdeconv", args.verb, str(out)])
    if in_one_piece:  # compare looks at layers one by one
        again = ["--compare", args.compare, "-i", inputs, "-o", f"smaller{out.suffix}"]
        return shlex.join(["irdeconv", "reduce", str(out), *again])
    other = args.compare if args.compare in checks.RUNTIMES else str(other_path(out))
    return shlex.join(["irdeconv", "compare", str(out), other, "-i", inputs])


def _reduced_text(done: Reduced, command: str, written: list[str], console: Console) -> None:
    """Write the result, the effort, and the model itself if it is small."""
    effort = f"{done.checks:,}"
    if done.seconds >= WORTH_SAYING:
        effort += f" in {done.seconds:.0f} s"
    if done.undecided:
        effort += f", {done.undecided:,} of them undecided"
    rows = {
        "layers": f"{done.before.layers:,} -> {done.after.layers:,}: "
        + ", ".join(f'{n.type} "{n.name}"' for n in done.layers),
        "constants": f"{done.before.constant_bytes:,} -> {done.after.constant_bytes:,} bytes",
        "found": done.found,
        "checks": effort,
    }
    if done.stopped is not None:
        rows["stopped"] = f"{done.stopped}; there may be a smaller one"
    for name, text in rows.items():
        console.text(f"{name:<10} {text}")
    console.text(_continued(command))
    # The text form, if it fits on a page.
    text = wrap(dump(done.graph, elide=None).rstrip(), indent=6) if done.piece.editable else ""
    lines = text.splitlines() or [" " * (WIDTH + 1)]
    if len(lines) <= LINES and max(map(len, lines)) <= WIDTH:
        console.text("the whole model, for a report (every verb reads it as a .ird file):")
        console.text(text)
    else:
        console.text(f"attach     {', '.join(written)}")


def _continued(command: str) -> str:
    """Return a command that may be pasted, broken between its words if it is long."""
    words = (shlex.quote(word).replace(" ", "\0") for word in shlex.split(command))
    lines = wrap(f"see it     {' '.join(words)}", WIDTH - 2, indent=15)
    return lines.replace("\n", " \\\n").replace("\0", " ")
