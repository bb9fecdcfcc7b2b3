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
from irdeconv.cli.checks import protect, read_by
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather
from irdeconv.cli.model import inferred, read, read_file
from irdeconv.cli.verbs import verb_record
from irdeconv.formats.arrays import SAVED
from irdeconv.formats.atomic import together
from irdeconv.formats.text import dump
from irdeconv.ir.graph import Graph
from irdeconv.verify.reduce import PEER, Reduced, Task, reduce_model
from irdeconv.verify.reduce_checks import filled, other_path, stage_variant

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
    _refuse_other(args.compare)
    _protect(args, out)
    task = _task(args)
    task.require_sense()
    graph = read(args)
    inputs = gather(inferred(graph, args.shape), args.inputs, args.seed, console, fill=args.fill)
    if isinstance(task.compare, Graph):
        other = read_file(args.compare, args.other_weights, args.semantics)
        task = replace(task, compare=ird.infer(other))
    done = reduce_model(ird.infer(graph), inputs, task)
    with together() as files:
        written = [str(p) for p in stage_variant(done.piece, out, files)]
    console.log(f"wrote {', '.join(written)}")
    command = _command(args, out, in_one_piece=done.in_one_piece)
    return Answer(
        lambda: ReduceDocument(args.file, written, command, done, []),
        lambda: _text(done, command, written, console),
        130 if done.stopped == "interrupted" else 0,
    )


def _refuse_other(other: str | None) -> None:
    """Refuse a second side that cannot be cut."""
    if other is None or other == PEER:
        return
    if other.endswith((*SAVED, ".npy")):
        hint = "compare --reduce DIR cuts out the first layer that differs from saved arrays"
        raise misused(f"--compare {other}: saved arrays cannot be cut", hint)
    if other.startswith(f"{PEER}:"):
        hint = "compare two models by their files, or one of them with openvino"
        raise misused(f"--compare {other}: OpenVINO executes the same model", hint)
    if other.partition(":")[0] == "onnxruntime":
        hint = "extract -o PIECE.onnx cuts an ONNX model; compare PIECE.onnx onnxruntime runs it"
        raise misused(f"--compare {other}: reduce makes IRs, which ONNX Runtime cannot read", hint)
    meant = did_you_mean(other, [PEER])
    if meant is not None and not Path(other).exists():
        raise misused(f'--compare {other}: there is no file "{other}"', meant)


def _protect(args: argparse.Namespace, out: Path) -> None:
    """Refuse outputs beside -o that cannot be written, or that are read."""
    sources = [*read_by(verb_record("reduce"), args)]
    if args.compare not in (None, PEER):
        protect(str(other_path(out)), sources, force=args.force, model=True)
    protect(str(out.with_suffix(".npz")), sources, force=args.force)


def _task(args: argparse.Namespace) -> Task:
    """Return the task; a second model, which is not read yet, is an empty graph."""
    names = ("check", "verb", "fails_with", "timeout", "tolerance", "max_checks")
    options = {name: getattr(args, name) for name in names}
    compare = args.compare if args.compare in (None, PEER) else Graph()
    file = Path(args.file) if args.file.endswith(".xml") else None
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
        again = ["--compare", PEER, "-i", inputs, "-o", "smaller.xml"]
        return shlex.join(["irdeconv", "reduce", str(out), *again])
    other = PEER if args.compare == PEER else str(other_path(out))
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
    text = wrap(dump(done.graph, elide=None).rstrip(), indent=6)
    lines = text.splitlines()
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
