"""`lower`, `raise` and `check-certificate`: deconvolutions become convolutions, and back."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import irdeconv as ird
from irdeconv.base import work
from irdeconv.base.errors import IrdeconvError, count, misused
from irdeconv.base.extras import needed
from irdeconv.base.json_form import Record
from irdeconv.base.opening import real
from irdeconv.base.tables import number, ratio, scaled, table
from irdeconv.cli.checks import parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import (
    WrittenModel,
    given,
    graph_to_edit,
    inferred,
    onnx_model,
    onnx_shapes,
    protect_onnx,
    prove,
    read,
    source_of,
)
from irdeconv.cli.options import lowering_options
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.formats.onnx_container import OnnxFile, load_file, stage_file
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.formats.text import dump
from irdeconv.formats.text_values import format_dim
from irdeconv.formats.xml_writer import ir_bytes, note_origins, stage_ir
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape
from irdeconv.proof.reader import weights_beside
from irdeconv.rewrite import infer_specs
from irdeconv.rewrite.channel_folding import fused_lines
from irdeconv.rewrite.infer_specs import layer_count
from irdeconv.rewrite.lower_deconv import LoweringReport, LoweringRequest, layer_table
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import load_target, target_names
from irdeconv.verify.certificates import (
    Certificate,
    Certificates,
    CheckReport,
    ProbeSummary,
    Stamp,
    read_certificates,
)
from irdeconv.verify.check import compared, examined, judged, probed, with_probe
from irdeconv.verify.check import probed as probe
from irdeconv.verify.proving import Given, both_sides, stamp_of
from irdeconv.verify.raising import Raised, RaisingReport
from irdeconv.verify.second_reading import SecondAnswer, SecondModel, Unfollowed

if TYPE_CHECKING:
    from irdeconv.formats.onnx_lowering import LoweredOnnx


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
        if args.certify and not made.all:
            console.log("--certify: no deconvolution was rewritten, so nothing is proved")
        if not args.output and console.format == "text":
            console.log("no model is written; -o FILE writes it")

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
            made = work.fresh(prove)(written)
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

    files = args.file, args.lowered

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
        elif any(layer.reason for layer in report.layers) and "-" not in files:
            console.text(f"irdeconv compare {' '.join(map(quote, files))} compares their values")

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
        plain = re.sub(r"[=:]?\[([^\[\]]*)\]$", r"=\1", text)  # x[1,3] and x=[1,3], too
        name, equals, dims = plain.rpartition("=")
        if "[" in plain or (not equals and "," not in plain):
            raise misused(f"--sizes {text} is not NAME=DIMS", "such as --sizes x=1,3,64,64")
        if not re.fullmatch(r"[\d, ]*", dims):
            raise misused(f"--sizes {text}: sizes are exact", "--shape takes open ones: 'x[1,3,?]'")
        texts.append(f"{name}[{dims}]")
    asked = parse_shapes(texts, "--sizes")
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
    found = compared(*sides)
    made, report = examined(*sides, found)
    report = report if certificates is None else judged(made, certificates, report)
    return report, probe(*sides, seed=args.seed, found=found) if args.probe else None


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
    sides, found = (proof.source, proof.lowered), proof.found
    return report, probe(*sides, seed=args.seed, found=found) if args.probe else None


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
        made = {}  # shapes by the number of the input, as texts
        for place in source.places("Parameter"):
            y = source.layers[place]
            for name in {"", y.name, *y.names[0]} & {*shapes}:
                made[place] = [format_dim(d) for d in shapes[name] or ()]
        source.shapes = lowered.shapes = made
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


def run_lower(args: argparse.Namespace, console: Console) -> int | Answer:
    """Lower, write, report; or list the targets."""
    if args.list_targets:
        rows = [(name, load_target(name).description) for name in target_names()]
        console.text(table(("target", "description"), rows, width=console.width))
        return 0
    if args.file is None:
        raise misused("lower needs FILE", "for example: irdeconv lower model.xml -o lowered.xml")
    report, answer = (_lower_onnx if stays_onnx(args) else _lower)(args, console)
    return replace(answer, code=4) if any(r.form is None for r in report) else answer


def _lower(args: argparse.Namespace, console: Console) -> tuple[LoweringReport, Answer]:
    model = read(args)
    source = inferred(model, args.shape)
    low = ird.lower(source, args.form, args.target, **lowering_options(args))

    def page(made: Certificates | None) -> str:
        from irdeconv.show.page import graph_page

        return graph_page(source, low.graph, low.report, made).to_html()

    others = sum(bool(n.op.deconvolution) for n in low.graph.nodes()) if args.only else 0
    size = f"--only leaves {count(others, 'other')}; " if others else ""
    size += layer_count(low.graph)
    return low.report, finish_rewriting(
        args,
        low.report,
        console,
        stage=partial(_stage_ir, low.graph, args),
        prove=partial(prove, args, source, raised=False),
        show=partial(_lowered_text, low.report, size, args, console),
        page=page,
        graph=low.graph,
    )


def _stage_ir(rewritten: Graph, args: argparse.Namespace, files: Files) -> Given:
    """Write the IR of -o to a temporary place; return it as a side of a proof takes it."""
    if not args.output:
        return Given(rewritten)
    graph = standardize(rewritten)
    if getattr(args, "origins", False):
        note_origins(graph)
    xml, weights = stage_ir(graph, Path(args.output), files)
    return Given(str(xml), str(weights), staged=True)


def _lowered_text(
    report: LoweringReport, size: str, args: argparse.Namespace, console: Console
) -> None:
    print_diagnostics(console, report.diagnostics)
    for line in fused_lines(report.fused) if args.fuse else ():
        console.text(line)
    if not len(report):
        console.text(f"{args.file}: {report.verdict}")
        return
    console.text(table(*layer_table(report), width=console.width))
    for r in report:
        if r.form and r.reason:
            console.text(f"{r.name}: {r.form} instead of {report.form}: {r.reason}")
    if args.explain_costs:
        console.text(f"\n{_costs(report, console.width)}\n")
    console.text(f"{args.file}: {report.verdict}; {size}")


def _costs(report: LoweringReport, width: int) -> str:
    """Return a table with a row per deconvolution and form."""
    numbers = ("MACs", "wasted", "bytes", "scratch", "nodes", "score")
    rows, refusals = [], []
    for r in report:
        for c in r.costs:
            cells = ["?"] * len(numbers)
            if c.cost is not None:
                wasted = f"{100 * c.cost.wasted:.1f} %"
                sizes = (number(c.cost.bytes), number(c.cost.scratch), number(c.cost.nodes))
                score = "?" if c.score is None else scaled(round(c.score))
                cells = [number(c.cost.macs), wasted, *sizes, score]
            mark = "taken" if c.form == r.form else "refused" if c.refused else ""
            rows.append([r.name, c.form, *cells, mark])
            if c.refused:
                refusals.append(f"{r.name}: {c.form} refused: {c.refused}")
    assumed = any(c.assumed for r in report for c in r.costs)
    note = ["unknown sizes count as 1 (batch) and 32 (space)"] if assumed else []
    head = ("deconvolution", "form", *numbers, "")
    return "\n".join([table(head, rows, numbers, width=width), *refusals, *note])


def stays_onnx(args: argparse.Namespace) -> bool:
    """Whether `lower` rewrites an ONNX file in its own format.

    It does unless the graph is wanted: as an .xml, or as text.
    """
    if args.output and Path(args.output).suffix != ".onnx":
        return False
    option = "--fuse" if args.fuse else "--origins"
    if (args.fuse or args.origins) and args.output:
        message = f"-o {args.output}: {option} writes an IR, no ONNX model"
        raise misused(message, f"name it {Path(args.output).with_suffix('.xml')}")
    if args.file == "-":
        return bool(args.output)
    return is_onnx(args.file) and args.format != "ir" and not args.fuse


def run_raise(args: argparse.Namespace, console: Console) -> Answer:
    """Raise, write, report."""
    model = onnx_model(args)
    source = graph_to_edit(args, model)
    raised = ird.raise_(source, args.only or None)

    def stage(files: Files) -> Given:
        if model is None:
            return _stage_ir(raised.graph, args, files)
        from irdeconv.formats.onnx_editing import rewritten

        added = rewritten(model, source, raised.graph)
        back = stage_file(model, added, Path(args.output), files, force=args.force)
        return Given(graph_to_edit(args, back))

    return finish_rewriting(
        args,
        raised.report,
        console,
        stage=stage,
        prove=partial(prove, args, source, raised=True),
        show=partial(_raised_text, raised, args, console),
        graph=raised.graph,
    )


def _raised_text(raised: Raised, args: argparse.Namespace, console: Console) -> None:
    report = raised.report
    if not len(report):
        console.text(f"{args.file}: no decompositions, nothing to raise")
        return
    rows = []
    for r in report:
        if r.pattern:
            macs = number(r.macs_before), number(r.macs_raised)
            rows.append((r.name, r.pattern, r.type, *macs, ratio(r.macs_raised, r.macs_before)))
    if rows:
        head = ("layer", "pattern", "becomes", "MACs before", "raised MACs", "ratio")
        console.text(table(head, rows, head[3:], width=console.width))
    for r in report:
        if not r.pattern:
            console.text(f"{r.name}: {r.type} stays: {r.reason}")
        elif r.note:
            console.text(f"{r.name}: {r.note}")
    verdict = count(len(rows), "decomposition") + f" of {len(report)} raised"
    console.text(f"{args.file}: {verdict}; {layer_count(raised.graph)}")


def _lower_onnx(args: argparse.Namespace, console: Console) -> tuple[LoweringReport, Answer]:
    """Lower an ONNX file, which stays one."""
    from irdeconv.formats.onnx_lowering import lower_model, stage_onnx
    from irdeconv.verify.onnx_check import compare_models

    source = source_of(args.file)
    model = load_file(source)
    protect_onnx(args, model)
    request = LoweringRequest.of(args.form, args.target, **lowering_options(args))
    shapes = onnx_shapes(parse_shapes(args.shape), model)
    low = lower_model(model, request, shapes=shapes, semantics=args.semantics)
    stamps = [stamp(args.file), None]

    def stage(files: Files) -> OnnxFile:
        if not args.output:
            return low.model
        written = stage_onnx(low, Path(args.output), files, force=args.force)
        staged = next(f for f in files.opened if f.target == Path(args.output))
        stamps[1] = stamp_of(staged.name, "onnx")
        return written

    def prove(written: OnnxFile) -> Certificates:
        original = load_file(source)
        set_shapes(original, onnx_shapes(parse_shapes(args.shape), original))
        proof = compare_models(original, written, args.semantics)
        made = replace(proof.made, source=stamps[0], lowered=stamps[1])
        if proof.problems:
            raise RuntimeError("; ".join(proof.problems))  # a bug, so nothing is written
        sides, found = (proof.source, proof.lowered), proof.found
        return with_probe(made, probed(*sides, found=found)) if args.probe else made

    def show() -> None:
        _lowered_text(low.report, count(len(model.proto.graph.node), "node"), args, console)

    page = partial(_onnx_page, args, console, low, source)
    return low.report, finish_rewriting(
        args, low.report, console, stage=stage, prove=prove, show=show, page=page
    )


def _onnx_page(
    args: argparse.Namespace,
    console: Console,
    low: LoweredOnnx,
    source: str | bytes,
    made: Certificates | None,
) -> str | None:
    """Return the page of both models, drawn as the graphs that their nodes become.

    If they become none, a warning says so, and the lowering is written without its page.
    """
    from irdeconv.show.page import graph_page

    try:
        before = infer_specs.inferred(graph_of(source, semantics=args.semantics))
        after = infer_specs.inferred(graph_of(low.model.proto))
    except IrdeconvError as e:
        print_diagnostics(console, (replace(d, severity="warning") for d in e.diagnostics))
        console.error(f"{args.report} is not written: the page cannot draw this model")
        return None
    return graph_page(before, after, low.report, made).to_html()
