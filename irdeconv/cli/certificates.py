"""Certificates on the command line: shared code of `lower` and `raise`, and their file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from irdeconv.base.errors import misused
from irdeconv.base.json_form import Record
from irdeconv.base.limits import current
from irdeconv.base.opening import read_text
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.model import WrittenModel
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.text import dump
from irdeconv.formats.xml_writer import note_origins, stage_ir
from irdeconv.rewrite.records import Lowered, LoweringReport
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, ProbeSummary
from irdeconv.verify.proving import Given
from irdeconv.verify.raising import Raised, RaisingReport
from irdeconv.verify.second_reading import SecondAnswer


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
Written = TypeVar("Written")


def read_certificates(path: str) -> Certificates:
    """Read certificates as `lower --certify` writes them; UsageError if the file holds none."""
    try:
        return Certificates.from_json(read_text(path, current().json_bytes))
    except ValueError as e:
        hint = "irdeconv lower MODEL --certify FILE writes them"
        raise misused(f"{path} holds no certificates: {e}", hint) from e


def write_proved(
    args: argparse.Namespace,
    console: Console,
    stage: Callable[[Files], Written],
    prove: Callable[[Written], Certificates],
    page: Callable[[Certificates], str | None] | None = None,
) -> Certificates:
    """Write the files of -o, --certify and --report, all or none; return the certificates.

    `stage` writes the model to a temporary place and returns it as it is read back; `prove` makes
    the certificates of that, `page` the page, or None if it cannot.
    """
    made = Certificates(())
    with together() as files:
        written = stage(files)
        if args.certify:
            made = prove(written)
        if args.certify and args.certify != "-":
            files.write(Path(args.certify), made.to_json().encode("utf-8"))
        text = page(made) if page is not None and args.report else None
        if text is not None:
            files.write(Path(args.report), text.encode("utf-8"))
        targets = [one.target for one in files.opened]
    for path in targets:
        if path.suffix != ".bin":
            console.log(f"wrote {path}")
    return made


def finish_rewriting(
    args: argparse.Namespace,
    rewritten: Lowered | Raised,
    console: Console,
    *,
    prove: Callable[[Given], Certificates],
    show: Callable[[], None],
    page: Callable[[Certificates], str] | None = None,
    stage: Callable[[Files], Given] | None = None,
) -> Answer:
    """Write the outputs; answer with report, graph and certificates. `stage` writes an ONNX model.

    `prove` makes certificates of the model as it is read back, `show` writes the report, `page`
    makes the page of --report. The exit code is 0 if all layers are proved for every size, 7 for
    some sizes or under assumptions, 1 if one is not proved.
    """

    def stage_ir_files(files: Files) -> Given:
        if not args.output:
            return Given(rewritten.graph)
        graph = standardize(rewritten.graph)
        if getattr(args, "origins", False):
            note_origins(graph)
        xml, weights = stage_ir(graph, Path(args.output), files)
        return Given(str(xml), str(weights), staged=True)

    made = write_proved(args, console, stage or stage_ir_files, prove, page)

    def text() -> None:
        show()
        if console.format == "ir":
            console.raw(dump(rewritten.graph, elide=0))
        show_certificates(made, console)

    return Answer(lambda: proved_document(args, rewritten.report, made), text, proof_code(made))


def proved_document(
    args: argparse.Namespace, report: LoweringReport | RaisingReport, made: Certificates
) -> LowerDocument | RaiseDocument:
    """Return the JSON document of a rewriting and its certificates."""
    certified = Certified(made.all, made.probe) if args.certify else None
    if isinstance(report, LoweringReport):
        return LowerDocument(args.file, args.output, report, certified)
    return RaiseDocument(args.file, args.output, report, certified)


def show_certificates(made: Certificates, console: Console) -> None:
    """Write a paragraph for each certificate, and the remarks on all."""
    for text in (*map(str, made), *made.remarks):
        console.text(text)


def proof_code(made: Certificates) -> int:
    """Return the exit code of certificates."""
    differs = made.probe is not None and made.probe["differs"]
    if made.refused or differs or not all(c.proved for c in made):
        return 1
    return 0 if all(made) and not made.assumed else SOME_SIZES
