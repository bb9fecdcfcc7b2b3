"""`check-certificate`: prove every rewritten layer of a lowered model equal to the original."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from irdeconv.base.errors import count, misused
from irdeconv.base.extras import needed
from irdeconv.cli.certificates import SOME_SIZES, CheckDocument, read_certificates
from irdeconv.cli.checks import is_onnx, parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import given
from irdeconv.formats.models import graph_of
from irdeconv.formats.text_values import format_dim
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.spec import Shape, is_static
from irdeconv.proof.reader import weights_beside
from irdeconv.verify.certificates import CheckReport
from irdeconv.verify.check import checked
from irdeconv.verify.check import probed as probe
from irdeconv.verify.proving import both_sides
from irdeconv.verify.second_reading import SecondAnswer, SecondModel, Unfollowed

WARNINGS = 5  # so many false declarations are shown


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Check; the exit code is 0 if everything is proved."""
    if args.file == args.lowered == "-":
        raise misused("stdin holds one model", "name a file for the other")
    if Path(args.file).resolve() == Path(args.lowered).resolve():
        message = f"{args.lowered} is the original itself, not a lowered model"
        raise misused(message, f"make one: irdeconv lower {args.file} -o lowered.xml")
    if args.second:
        needed("--second", "islpy", "Map")
    shapes = _shapes(args)
    if is_onnx(args.lowered) and (args.file == "-" or is_onnx(args.file)):
        from irdeconv.cli.lower_onnx import check_files

        report, probed = check_files(args, shapes)
    else:
        report, probed = _check_graphs(args, shapes)
    second = _second(args, shapes)
    differs = any(s.verdict == "differs" for s in second or ())
    code = 1 if differs else exit_code(report, probed)

    def text() -> None:
        print_diagnostics(console, report.warnings[:WARNINGS])  # of wrong declarations
        if more := len(report.warnings[WARNINGS:]):
            text = f"{count(more, 'more warning')}: irdeconv validate lists those of a file"
            console.error(text)
        _text(report, probed, console)
        for one in second or ():
            word = {"agrees": "ok  ", "differs": "FAIL"}.get(one.verdict, "    ")
            console.text((f"second {word} {one}", "red" if word == "FAIL" else ""))
        if not report.layers and not report.problems and not report.equal:
            console.text((_nothing(args, report), "red"))
        elif code == SOME_SIZES:
            console.text((_some_sizes(report), "yellow"))

    files = args.file, args.lowered
    return Answer(lambda: CheckDocument(*files, code == 0, report, probed, second), text, code)


def exit_code(report: CheckReport, probed: CheckReport | None) -> int:
    """Return 0 for every size, 7 for some or on assumptions, 1 for no.

    If a probe cannot decide, that is no difference.
    """
    if not report.equal or (probed is not None and probed.differs):
        return 1
    return 0 if report.passed else SOME_SIZES


def _shapes(args: argparse.Namespace) -> dict[str, Shape | None]:
    """Return --sizes and --shape by the name of the input; UsageError if they do not fit."""
    texts = []
    for text in args.sizes:
        name, equals, dims = text.rpartition("=")
        if "[" in text or (not equals and "," not in text):
            raise misused(f"--sizes {text} is not NAME=DIMS", "such as --sizes x=1,3,64,64")
        texts.append(f"{name}[{dims}]")
    asked = parse_shapes(texts)
    for name, shape in asked.items():
        if not is_static(shape):
            raise misused(f"--sizes {name}: sizes are exact", "--shape takes open ones: 'x[1,3,?]'")
    shapes = parse_shapes(args.shape)
    both = sorted(set(asked) & set(shapes))
    if both:
        raise misused(f'--sizes and --shape both name "{both[0]}"', "leave one out")
    return {**shapes, **asked}


def _check_graphs(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None]
) -> tuple[CheckReport, CheckReport | None]:
    certificates = None if args.certificate is None else read_certificates(args.certificate)
    sides = both_sides(
        given(args.file, args.weights, args.semantics),
        given(args.lowered, args.lowered_weights, args.semantics),
        shapes,
    )
    report = checked(*sides, certificates)
    return report, probe(*sides, seed=args.seed) if args.probe else None


def _nothing(args: argparse.Namespace, report: CheckReport) -> str:
    """Report that there was nothing to prove, which proves nothing, and the expected LOWERED."""
    why = f"{args.file} has no deconvolutions"
    if report.kept:
        why = f"{args.lowered} has the deconvolutions of {args.file} as they are"
    return f"FAIL nothing to prove: {why}; LOWERED is what lower -o writes"


def _some_sizes(report: CheckReport) -> str:
    few = next((r for r in report.layers if not r.every), None)
    if few is None:
        return "proved only if what is assumed is so, which the file alone says"
    which = f'"{few.layer}" is proved for some sizes only'
    return f"NOT proved for every size: {which}; --sizes NAME=DIMS asks for exact ones"


def _text(report: CheckReport, probed: CheckReport | None, console: Console) -> None:
    for line in str(report).split("\n"):
        console.text((line, "red" if line.startswith("FAIL") else ""))
    if probed is None:
        return
    for layer in probed.layers:
        word = "ok  " if layer.passed else "    " if layer.unclear else "FAIL"
        said = f"the same at {layer.proved}" if layer.passed else layer.reason
        console.text((f"probe {word} {layer.layer}: {said}", "red" if word == "FAIL" else ""))
    bound = probed.error_probability
    again = f"--seed {probed.seed} repeats it"
    if bound is None:
        console.text(f"probe: nothing was evaluated to the end; {again}")
        return
    console.text(
        f"probe: a layer that differs at these sizes passes with a probability of at most "
        f"{bound:.1e}; other sizes were not evaluated; {again}"
    )


def _second(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None]
) -> list[SecondAnswer] | None:
    """Return an answer for each rewritten layer and for the model, None without the option."""
    if not args.second:
        return None
    from irdeconv.verify.second_check import NOT_APPLICABLE, second_check  # imports isl

    document = args.semantics == "document"
    files = (args.file, args.weights), (args.lowered, args.lowered_weights)
    try:
        source, lowered = (_second_model(*file, document) for file in files)
        source.shapes = lowered.shapes = _by_place(source, shapes)
        return second_check(source, lowered)
    except Unfollowed as e:
        return [SecondAnswer("the model", NOT_APPLICABLE, str(e))]


def _second_model(file: str, weights: str | None, document: bool) -> SecondModel:
    """Return an IR as its files are, any other model as the IR that irdeconv writes for it."""
    one = given(file, weights)
    if one.is_ir:
        path = Path(weights) if weights else weights_beside(Path(file))
        held = path.read_bytes() if path.exists() else b""
        return SecondModel(Path(file).read_bytes(), held, document)
    graph = graph_of(one.model, one.weights, name=one.name, recognised=False)
    return SecondModel(*ir_bytes(graph), document)


def _by_place(model: SecondModel, shapes: Mapping[str, Shape | None]) -> dict[int, list[str]]:
    """Return the shapes of inputs by their number, as texts."""
    made = {}
    for number in model.places("Parameter"):
        y = model.layers[number]
        for name in {"", y.name, *y.names[0]} & {*shapes}:
            made[number] = [format_dim(d) for d in shapes[name] or ()]
    return made
