"""Run two models on the same inputs and compare every layer and output; exit code 1 if they differ.

OTHER is one of these:

  a model            .xml, .onnx, .json or .ird
  saved.npz          saved arrays, as written by `run --form none --dump all -o saved.npz`
  openvino           the same model in OpenVINO's CPU plugin
  openvino:FILE.xml  another model there

Without OTHER, the model is compared with its own lowering.

Each layer is computed again from the other side's inputs, so an earlier error does not spread: "own
error" is that of the layer alone. "allowed" is how large it may be by rounding, with the rule: u is
the unit roundoff, gamma_n |W||x| bounds a sum of n terms, gamma~_n does if roundings of many terms
are independent. "carried" is what the other side may keep of f16 and bf16 values between layers
beyond the digits that it shows. Saved tensors may be sums in f16.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.base.errors import count
from irdeconv.base.form_names import FALLBACK
from irdeconv.cli.checks import PEER
from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_form,
    add_format,
    add_inputs,
    add_model,
    add_report,
    add_shapes,
    add_target,
    real,
)

if TYPE_CHECKING:
    from irdeconv.base.errors import Diagnostic
    from irdeconv.ir.graph import Graph
    from irdeconv.ir.spec import Array
    from irdeconv.verify.comparison import Comparison
    from irdeconv.verify.partner import Precision

REPORT = "report.json"


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="a model, .npz, openvino or openvino:FILE.xml"
    )
    parser.add_argument("--other-weights", metavar="FILE", help="the second model's .bin")
    add_inputs(parser)
    add_shapes(parser)
    add_form(parser, none=False)
    add_target(parser, costs=False)
    parser.add_argument(
        "--tolerance",
        type=real(0),
        help="allowed difference relative to a tensor's largest value (default: what rounding "
        "explains, layer by layer)",
    )
    parser.add_argument(
        "--peer-precision",
        choices=("f32", "bf16", "int8"),
        help="what OpenVINO may compute in: f32 (default), bf16, or int8: quantized "
        "layers as it executes them in use; the bounds grow with it",
    )
    parser.add_argument(
        "--reduce",
        metavar="DIR",
        help="write the first layer that differs here: both sides of it, its inputs and outputs, "
        "and report.json with the commands that show it",
    )
    add_report(parser, "both graphs, or the one, with the error of each layer", force=True)
    parser.add_argument("--all", action="store_true", help="list layers that agree as well")
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Compare; the exit code is 0 where everything agrees."""
    import irdeconv as ird
    from irdeconv.base.errors import misused
    from irdeconv.cli.inputs import gather, input_files, specialize
    from irdeconv.cli.model import inferred, protect_report, read
    from irdeconv.cli.output import write_text

    if args.file == args.other == "-":
        raise misused("stdin holds one model; name a file for the other")
    _refuse_idle(args)
    _protect(args)
    other = (args.other or "").removeprefix(f"{PEER}:")
    protect_report(args, other, args.other_weights, *input_files(args.inputs))
    graph = inferred(read(args), args.shape)
    inputs = gather(graph, args.inputs, args.seed, console)
    result = _compare(args, specialize(graph, inputs), inputs)
    if console.wants_json:
        lowered = f"lowered ({args.form or FALLBACK})"
        names = {"a": args.file, "b": args.other or lowered}
        found = [d.to_dict() for d in _diagnostics(result)]
        content = {**names, "seed": args.seed, **result.to_dict(), "diagnostics": found}
        console.json("compare", content)
    else:
        _text(result, console, everything=args.all)
    if args.report is not None:
        write_text(args.report, ird.graph_page(result).to_html(), console)
    if args.reduce is not None and result.first_difference is not None:
        console.log(f"wrote {Path(args.reduce, REPORT)} and the files that it names")
    return 0 if result.passed else 1


def _protect(args: argparse.Namespace) -> None:
    """Refuse a folder of --reduce whose files would replace what is read."""
    from irdeconv.base.errors import misused
    from irdeconv.cli.inputs import input_files
    from irdeconv.verify.reduce_around import NAMES

    if args.reduce is None:
        return
    arrays = input_files(args.inputs)
    sources = (args.file, args.weights, args.other, args.other_weights, *arrays)
    read = {Path(source).resolve() for source in sources if source}
    for name in NAMES:
        if Path(args.reduce, name).resolve() in read:
            message = f"--reduce {args.reduce} would overwrite the input {name}"
            raise misused(message, "name another folder")


def _refuse_idle(args: argparse.Namespace) -> None:
    """Refuse what says nothing about the comparison that is asked for."""
    from irdeconv.base.errors import misused

    if args.other is not None and args.other.endswith(".npy"):
        hint = "an array goes into an .npz, named like its layer"
        raise misused(f"{args.other} is neither a model nor an .npz", hint)
    options = {"--form": args.form, "--target": args.target}
    idle = [name for name, value in options.items() if value is not None]
    if args.other is not None and idle:
        message = f"{' and '.join(idle)}: with OTHER nothing is lowered"
        hint = "leave OTHER out, or write the lowered model with lower -o and name it as OTHER"
        raise misused(message, hint)
    model = args.other is not None and not args.other.endswith(".npz") and args.other != PEER
    if args.peer_precision is not None and (args.other or "").partition(":")[0] != PEER:
        raise misused("--peer-precision is of openvino", "name openvino as OTHER")
    if args.other_weights is not None and not model:
        raise misused("--other-weights goes with the .xml of a second model")


def _compare(args: argparse.Namespace, a: Graph, inputs: dict[str, Array]) -> Comparison:
    import irdeconv as ird
    from irdeconv.cli.inputs import specialize
    from irdeconv.cli.model import read_file

    other = args.other
    wanted = {"tolerance": args.tolerance, "reduce": args.reduce}
    if other is None:
        b = ird.lower(a, args.form or FALLBACK, args.target).graph
        return ird.compare(a, b, inputs, **wanted)
    system, _, file = other.partition(":")
    if system == PEER:
        readable = args.file != "-" and not args.file.endswith((".json", ".ird"))
        file = file or (args.file if readable else "")
        weights = args.weights if file == args.file else args.other_weights
        peer = f"{PEER}:{file}" if file else PEER
        precision: Precision = args.peer_precision or "f32"
        return ird.compare(a, peer, inputs, **wanted, weights=weights, peer_precision=precision)
    if other.endswith(".npz"):
        return ird.compare(a, other, inputs, **wanted)
    b = read_file(other, args.other_weights, args.semantics)
    renamed = matched(b, inputs, other)
    b = specialize(ird.infer(b), renamed, every=bool(args.shape))
    feeds = inputs if set(renamed) == set(inputs) else list(renamed.values())
    return ird.compare(a, b, feeds, **wanted)


def _diagnostics(result: Comparison) -> list[Diagnostic]:
    from irdeconv.base.errors import Diagnostic

    different = {str(t): t.name for t in result.tensors if not t.passed}
    out = [Diagnostic("E504", "error", text, layer=name) for text, name in different.items()]
    missing = (Diagnostic("E504", "error", f'output "{n}" is missing') for n in result.missing)
    return [*result.diagnostics, *out, *missing]


def matched(graph: Graph, inputs: dict[str, Array], file: str) -> dict[str, Array]:
    """Return the inputs by the second model's names: the same ones, else those in order."""
    from irdeconv.base.errors import misused

    if len(graph.inputs) != len(inputs):
        has = count(len(graph.inputs), "input")
        message = f"{file} has {has}, the first model has {len(inputs)}"
        raise misused(message, "extract cuts a piece of the same inputs out of a model")
    if set(graph.inputs) == set(inputs):
        return {name: inputs[name] for name in graph.inputs}
    return dict(zip(graph.inputs, inputs.values(), strict=True))


def _text(result: Comparison, console: Console, *, everything: bool) -> None:
    from irdeconv.cli.diagnostics import print_diagnostics

    print_diagnostics(console, result.diagnostics)
    for line in result.lines(everything=everything):
        console.text((line, "" if line.startswith("ok") else "red"))
    console.text((result.verdict, "bold green" if result.passed else "bold red"))
