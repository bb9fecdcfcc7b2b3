"""`compare`: compare a model layer by layer with a second model, saved arrays or a runtime."""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import partial
from pathlib import Path

import irdeconv as ird
from irdeconv.base.errors import Diagnostic, UsageError, count, misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.base.json_form import Record
from irdeconv.cli.checks import is_onnx, read_by, runtime_and_file
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.inputs import gather, open_arrays, specialize
from irdeconv.cli.model import inferred_model, read_file
from irdeconv.cli.output import write_text
from irdeconv.cli.verbs import verb_record
from irdeconv.formats.kinds import SAVED
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.partner import Precision
from irdeconv.verify.reduce import NAMES, REPORT


class CompareDocument(Record, document="compare/1", keys="a b seed *result diagnostics"):
    """How far two runs are apart, layer by layer."""

    a: str  # the first model
    b: str  # the second model, runtime or file of arrays
    seed: int  # of random inputs
    result: Comparison
    diagnostics: list[Diagnostic]  # notes on the result


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Compare; the exit code is 0 if everything agrees."""
    if args.file.endswith(SAVED):
        return _answer(args, _compare_saved(args), console)
    if args.file == args.other == "-":
        raise misused("stdin holds one model; name a file for the other")
    _refuse_idle(args)
    if args.reduce is not None:
        read = {Path(s).resolve() for s in read_by(verb_record("compare"), args) if s}
        for name in NAMES:
            if Path(args.reduce, name).resolve() in read:
                message = f"--reduce {args.reduce} would overwrite the input {name}"
                raise misused(message, "name another folder")
    graph = inferred_model(args, needed=True)
    items = args.inputs or _saved_inputs(args.other, graph)
    inputs = gather(graph, items, args.seed, console, fill=args.fill)
    result = _compare(args, specialize(graph, inputs), inputs)
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
    given = [o.name for o in verb_record("compare").options if o.is_in(args)]
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

    text = partial(_text, result, console, everything=args.all)
    return Answer(document, text, 0 if result.passed else 1)


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse arguments that have no effect on the comparison."""
    if args.other is not None and args.other.endswith(".npy"):
        hint = "an array goes into an .npz, named like its layer"
        raise misused(f"{args.other} is neither a model nor an .npz", hint)
    idle = [f"--{name}" for name in ("form", "target") if getattr(args, name) is not None]
    if args.other is not None and idle:
        message = f"{' and '.join(idle)}: with OTHER nothing is lowered"
        hint = "leave OTHER out, or write the lowered model with lower -o and name it as OTHER"
        raise misused(message, hint)
    runtime, file = runtime_and_file(args.other or "")
    if args.peer_precision is not None and runtime != "openvino":
        raise misused("--peer-precision is of openvino", "name openvino as OTHER")
    if args.other_weights is not None and (not file or file.endswith(SAVED)):
        raise misused("--other-weights goes with the .xml of a second model")


def _compare(args: argparse.Namespace, a: Graph, inputs: dict[str, Array]) -> Comparison:
    other = args.other
    wanted = {"tolerance": dict(args.tolerance), "reduce": args.reduce}
    if other is None:
        b = ird.lower(a, args.form or FALLBACK, args.target).graph
        return ird.compare(a, b, inputs, **wanted)
    runtime, file = runtime_and_file(other)
    if runtime is not None:
        readable = args.file != "-" and not args.file.endswith((".json", ".ird"))
        if runtime == "onnxruntime":
            readable = readable and is_onnx(args.file)
        file = file or (args.file if readable else "")
        weights = args.weights if file == args.file else args.other_weights
        peer = f"{runtime}:{file}" if file else runtime
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


def _text(result: Comparison, console: Console, *, everything: bool) -> None:
    print_diagnostics(console, result.diagnostics)
    for line in result.lines(everything=everything):
        console.text((line, "" if line.startswith("ok") else "red"))
    console.text((result.verdict, "bold green" if result.passed else "bold red"))
