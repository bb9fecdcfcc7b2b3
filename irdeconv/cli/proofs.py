"""Certificates on the command line: `check-certificate`; the end of `lower` and `raise`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from irdeconv.base.errors import count, misused
from irdeconv.base.extras import needed
from irdeconv.base.json_form import Record
from irdeconv.base.opening import real
from irdeconv.cli.checks import parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import WrittenModel, given, onnx_shapes, source_of
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.formats.onnx_container import load_file
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.formats.text import dump
from irdeconv.formats.text_values import format_dim
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape, is_static
from irdeconv.proof.reader import weights_beside
from irdeconv.rewrite.lower_deconv import LoweringReport
from irdeconv.verify.certificates import (
    Certificate,
    Certificates,
    CheckReport,
    ProbeSummary,
    Stamp,
    read_certificates,
)
from irdeconv.verify.check import checked
from irdeconv.verify.check import probed as probe
from irdeconv.verify.proving import both_sides, stamp_of
from irdeconv.verify.raising import RaisingReport
from irdeconv.verify.second_reading import SecondAnswer, SecondModel, Unfollowed


class Certified(Record):
    """The certificates of a rewriting."""

    certificates: tuple[Certificate, ...]  # one for each rewritten layer, with --certify
    # the evaluation at random points, with --probe
    probe: Annotated[Mapping[str, Any] | None, ProbeSummary | None]


class LowerDocument(WrittenModel, document="lower/1", keys="file output *report *certified?"):
    """The rewritten layers."""

    report: LoweringReport
    certified: Certified | None = None


class RaiseDocument(WrittenModel, document="raise/1", keys="file output *report *certified?"):
    """The deconvolutions that were found."""

    report: RaisingReport
    certified: Certified | None = None


class CheckDocument(Record, document="check-certificate/1"):
    """The verdict on a lowered model."""

    file: str  # the original model
    lowered: str  # the lowered model
    passed: bool  # whether everything is proved for every size, without assumptions
    proof: CheckReport  # the verdict of the proof
    probe: CheckReport | None  # the verdict of --probe; null without it
    # of --second, one for each rewritten deconvolution, and one for the model; null without it
    second: list[SecondAnswer] | None


SOME_SIZES = 7  # exit code: equal, but not for every size, or only under assumptions
WARNINGS = 5  # so many false declarations are shown


def finish_rewriting(
    args: argparse.Namespace,
    report: LoweringReport | RaisingReport,
    console: Console,
    *,
    stage: Callable[[Files], Any],
    prove: Callable[[Any], Certificates],
    show: Callable[[], None],
    page: Callable[[Certificates | None], str | None] | None = None,
    graph: Graph | None = None,
) -> Answer:
    """Write the outputs; answer with the report, the text form of `graph` and the certificates.

    `stage` writes the model to a temporary place and returns it as it is read back, `prove` makes
    certificates of that, `page` the page of --report, or None if it cannot; `show` writes the
    report. The exit code is 0 if all layers are proved for every size, 7 for some sizes or under
    assumptions, 1 if one is not proved.
    """
    made = _write_proved(args, console, stage, prove, page)

    def document() -> LowerDocument | RaiseDocument:
        certified = Certified(made.all, made.probe) if args.certify else None
        if isinstance(report, LoweringReport):
            return LowerDocument(args.file, args.output, report, certified)
        return RaiseDocument(args.file, args.output, report, certified)

    def text() -> None:
        show()
        if console.format == "ir" and graph is not None:
            console.raw(dump(graph, elide=0))
        for paragraph in (*map(str, made), *made.remarks):
            console.text(paragraph)

    return Answer(document, text, proof_code(made))


def _write_proved(
    args: argparse.Namespace,
    console: Console,
    stage: Callable[[Files], Any],
    prove: Callable[[Any], Certificates],
    page: Callable[[Certificates | None], str | None] | None,
) -> Certificates:
    """Write the files of -o, --certify and --report, all or none; return the certificates."""
    made = Certificates(())
    with together() as files:
        written = stage(files)
        if args.certify:
            made = prove(written)
        if args.certify and args.certify != "-":
            files.write(Path(args.certify), made.to_json().encode("utf-8"))
        proofs = made if args.certify else None
        text = page(proofs) if page is not None and args.report else None
        if text is not None:
            files.write(Path(args.report), text.encode("utf-8"))
        targets = [one.target for one in files.opened]
    for path in targets:
        if path.suffix != ".bin":
            console.log(f"wrote {path}")
    return made


def proof_code(made: Certificates) -> int:
    """Return the exit code of certificates."""
    differs = made.probe is not None and made.probe["differs"]
    if made.refused or differs or not all(c.proved for c in made):
        return 1
    return 0 if all(made) and not made.assumed else SOME_SIZES


def run_check_certificate(args: argparse.Namespace, console: Console) -> Answer:
    """Check; the exit code is 0 if everything is proved."""
    if args.file == args.lowered == "-":
        raise misused("stdin holds one model", "name a file for the other")
    if real(args.file) == real(args.lowered):
        message = f"{args.lowered} is the original itself, not a lowered model"
        raise misused(message, f"make one: irdeconv lower {args.file} -o lowered.xml")
    if args.second:
        needed("--second", "islpy", "Map")
    shapes = _shapes(args)
    onnx = is_onnx(args.lowered) and (args.file == "-" or is_onnx(args.file))
    report, probed = (_check_onnx if onnx else _check_graphs)(args, shapes)
    second = _second(args, shapes)
    differs = any(s.verdict == "differs" for s in second or ())
    code = 1 if differs else _exit_code(report, probed)

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


def _exit_code(report: CheckReport, probed: CheckReport | None) -> int:
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
    asked = parse_shapes(texts, "--sizes")
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


def stamp(file: str) -> Stamp | None:
    """Return a certificate's record of an ONNX file; None for stdin."""
    return None if file == "-" else stamp_of(Path(file), "onnx")


def _check_onnx(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None]
) -> tuple[CheckReport, CheckReport | None]:
    """Return the verdicts of `check-certificate` on two ONNX files: the proof, the probe."""
    from irdeconv.verify.onnx_check import check_models, compare_models

    certificates = None if args.certificate is None else read_certificates(args.certificate)
    models = [load_file(source_of(f)) for f in (args.file, args.lowered)]
    for model in models:
        set_shapes(model, onnx_shapes(shapes, model))
    proof = compare_models(models[0], models[1], args.semantics)
    stamps = stamp(args.file), stamp(args.lowered)
    report = check_models(proof, certificates, stamps)
    return report, probe(proof.source, proof.lowered, seed=args.seed) if args.probe else None


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
