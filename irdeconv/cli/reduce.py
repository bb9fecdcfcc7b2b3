"""`reduce`: reduce a failing model to the few layers that reproduce the failure."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

import irdeconv as ird
from irdeconv.base.errors import Diagnostic, did_you_mean, misused
from irdeconv.base.json_form import Record
from irdeconv.base.tables import WIDTH, wrap
from irdeconv.cli.checks import RUNTIMES, protect, read_by, runtime_and_file
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather
from irdeconv.cli.lower_onnx import onnx_model
from irdeconv.cli.model import inferred, read, read_file
from irdeconv.cli.verbs import verb_record
from irdeconv.formats.atomic import together
from irdeconv.formats.kinds import SAVED
from irdeconv.formats.onnx_editing import to_edit
from irdeconv.formats.onnx_lowering import SUFFIX
from irdeconv.formats.text import dump
from irdeconv.ir.graph import Graph
from irdeconv.verify.reduce import ONNX_PEER, Reduced, Task, reduce_model
from irdeconv.verify.reduce_checks import filled, other_path, stage_variant
from irdeconv.verify.reduce_onnx import layers_of

LINES = 40  # of a text form that is printed
WORTH_SAYING = 10  # seconds


class ReduceDocument(Record, document="reduce/1", keys="file output command *done diagnostics"):
    """The small model."""

    file: str  # the model
    output: list[str]  # files that were written
    command: str  # the command that shows the failure
    done: Reduced
    diagnostics: list[Diagnostic]  # always empty


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Reduce and write; the exit code is 130 if the search was interrupted."""
    out = Path(args.output)
    _refuse_other(args.compare, out)
    _protect(args, out)
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
        lambda: _text(done, command, written, console),
        130 if done.stopped == "interrupted" else 0,
    )


def _with_other(task: Task, args: argparse.Namespace) -> Task:
    """Return the task with its second model, an ONNX model if the first one stays one."""
    second = to_edit(args.compare, args.output)
    if second is not None:
        return replace(task, compare=layers_of(second), models=(*task.models, second))
    other = read_file(args.compare, args.other_weights, args.semantics)
    return replace(task, compare=ird.infer(other))


def _refuse_other(other: str | None, out: Path) -> None:
    """Refuse a second side that cannot be cut."""
    if other == ONNX_PEER and out.suffix != SUFFIX:
        message = f"--compare {other}: ONNX Runtime reads only an .onnx"
        raise misused(message, f"-o {out.with_suffix(SUFFIX)} writes pieces of an ONNX model")
    if other in (None, *RUNTIMES):
        return
    if other.endswith((*SAVED, ".npy")):
        hint = "compare --reduce DIR cuts out the first layer that differs from saved arrays"
        raise misused(f"--compare {other}: saved arrays cannot be cut", hint)
    runtime, _ = runtime_and_file(other)
    if runtime is not None:
        hint = f"compare two models by their files, or one of them with {runtime}"
        raise misused(f"--compare {other}: {runtime} executes the same model", hint)
    meant = did_you_mean(other, RUNTIMES)
    if meant is not None and not Path(other).exists():
        raise misused(f'--compare {other}: there is no file "{other}"', meant)


def _protect(args: argparse.Namespace, out: Path) -> None:
    """Refuse outputs beside -o that cannot be written, or that are read."""
    sources = [*read_by(verb_record("reduce"), args)]
    if args.compare not in (None, *RUNTIMES):
        protect(str(other_path(out)), sources, force=args.force, model=out.suffix != SUFFIX)
    protect(str(out.with_suffix(".npz")), sources, force=args.force)


def _task(args: argparse.Namespace) -> Task:
    """Return the task; a second model, which is not read yet, is an empty graph."""
    names = ("check", "verb", "fails_with", "timeout", "tolerance", "max_checks")
    options = {name: getattr(args, name) for name in names}
    compare = args.compare if args.compare in (None, *RUNTIMES) else Graph()
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
    other = args.compare if args.compare in RUNTIMES else str(other_path(out))
    return shlex.join(["irdeconv", "compare", str(out), other, "-i", inputs])


def _text(done: Reduced, command: str, written: list[str], console: Console) -> None:
    """Write the result, the effort, and the model itself if it is small."""
    rows = {
        "layers": f"{done.before.layers:,} -> {done.after.layers:,}: "
        + ", ".join(f'{n.type} "{n.name}"' for n in done.layers),
        "constants": f"{done.before.constant_bytes:,} -> {done.after.constant_bytes:,} bytes",
        "found": done.found,
        "checks": _effort(done),
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


def _effort(done: Reduced) -> str:
    effort = f"{done.checks:,}"
    if done.seconds >= WORTH_SAYING:
        effort += f" in {done.seconds:.0f} s"
    if done.undecided:
        effort += f", {done.undecided:,} of them undecided"
    return effort
