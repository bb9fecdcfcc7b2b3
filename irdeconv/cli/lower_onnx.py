"""Verbs on ONNX files, which stay ONNX files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from irdeconv.base.errors import IrdeconvError, count, misused
from irdeconv.cli.certificates import (
    proof_code,
    proved_document,
    read_certificates,
    show_certificates,
    write_proved,
)
from irdeconv.cli.checks import is_onnx, parse_shapes, protect
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import inferred_model, source_of
from irdeconv.cli.options import lowering_options
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.models import graph_of
from irdeconv.formats.onnx_container import OnnxFile, load_file, stage_file
from irdeconv.formats.onnx_lowering import SUFFIX, LoweredOnnx, lower_model, stage_onnx
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.records import LoweringReport, LoweringRequest
from irdeconv.verify.certificates import Certificates, CheckReport, Stamp
from irdeconv.verify.check import with_probe
from irdeconv.verify.onnx_check import certify_models, check_models, compare_models, probe_models
from irdeconv.verify.proving import stamp_of


def lower_file(
    args: argparse.Namespace, console: Console, show: Callable[[LoweringReport, str], None]
) -> Answer:
    """Lower, write, prove, report."""
    source = source_of(args.file)
    model = load_file(source)
    _protect(args, model)
    request = LoweringRequest.of(args.form, args.target, **lowering_options(args))
    shapes = _named(parse_shapes(args.shape), model)
    low = lower_model(model, request, shapes=shapes, semantics=args.semantics)
    made = _write(args, console, low, source)

    def text() -> None:
        show(low.report, count(len(model.proto.graph.node), "node"))
        show_certificates(made, console)

    code = 4 if any(r.form is None for r in low.report) else proof_code(made)
    return Answer(lambda: proved_document(args, low.report, made), text, code)


def onnx_model(args: argparse.Namespace, *, needed: bool = False) -> OnnxFile | None:
    """Load FILE, with the shapes of --shape, if -o names an .onnx or ONNX Runtime needs one.

    Raises UsageError for a model of another format.
    """
    if not needed and Path(args.output or "").suffix != SUFFIX:
        return None
    if args.file != "-" and not is_onnx(args.file):
        what = "ONNX Runtime does not read it" if needed else f"so {args.output} is none either"
        hint = None if needed else f"name it {Path(args.output).with_suffix('.xml')}"
        raise misused(f"{args.file} is no ONNX model, {what}", hint)
    model = load_file(source_of(args.file))
    _protect(args, model)
    shapes = _named(parse_shapes(getattr(args, "shape", ())), model)
    set_shapes(model, shapes)
    if shapes:
        del model.proto.graph.value_info[:]
    return model


def graph_to_edit(args: argparse.Namespace, model: OnnxFile | None) -> Graph:
    """Return the inferred graph of FILE, or of an ONNX model, which has its shapes already."""
    if model is None:
        return inferred_model(args)
    return inferred(graph_of(loaded(model), semantics=args.semantics))


def write_onnx(
    model: OnnxFile, added: Sequence[Any], args: argparse.Namespace, console: Console
) -> None:
    """Write an edited model to -o; `added` are its new tensors."""
    with together() as files:
        stage_file(model, added, Path(args.output), files, force=args.force)
    console.log(f"wrote {args.output}")


def _named(shapes: Mapping[str, Shape | None], model: OnnxFile) -> dict[str, Shape | None]:
    """Return shapes by input name; an unnamed shape belongs to a single input."""
    constants = {t.name for t in model.proto.graph.initializer}
    inputs = [i.name for i in model.proto.graph.input if i.name not in constants]
    if "" in shapes and len(inputs) != 1:
        raise misused(f"--shape needs a name: the model's inputs are {', '.join(inputs)}")
    return {name or inputs[0]: shape for name, shape in shapes.items()}


def _protect(args: argparse.Namespace, model: OnnxFile) -> None:
    """Refuse outputs that would overwrite files that the model refers to."""
    if args.weights is not None:
        raise misused("--weights: an ONNX model contains its own, or names their files")
    external = [*model.external_files()]
    if args.output:
        protect(args.output, external, force=False)
    if getattr(args, "certify", None):
        protect(args.certify, external, force=args.force, option="--certify")


def _write(
    args: argparse.Namespace, console: Console, low: LoweredOnnx, source: str | bytes
) -> Certificates:
    """Write the outputs, all of them or nothing; return the certificates."""
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
        set_shapes(original, _named(parse_shapes(args.shape), original))
        proof = compare_models(original, written, args.semantics)
        made = replace(certify_models(proof), source=stamps[0], lowered=stamps[1])
        if proof.problems:
            raise RuntimeError("; ".join(proof.problems))  # a bug, so nothing is written
        return with_probe(made, probe_models(proof)) if args.probe else made

    page = partial(_page, args, console, low, source)
    return write_proved(args, console, stage, prove, page)


def _page(
    args: argparse.Namespace,
    console: Console,
    low: LoweredOnnx,
    source: str | bytes,
    made: Certificates,
) -> str | None:
    """Return the page of both models, drawn as the graphs that their nodes become.

    If they become none, a warning says so, and the lowering is written without its page.
    """
    from irdeconv.show.page import graph_page

    try:
        before = inferred(graph_of(source, semantics=args.semantics))
        after = inferred(graph_of(low.model.proto))
    except IrdeconvError as e:
        print_diagnostics(console, (replace(d, severity="warning") for d in e.diagnostics))
        console.error(f"{args.report} is not written: the page cannot draw this model")
        return None
    certificates = made if args.certify else None
    return graph_page(before, after, low.report, certificates).to_html()


def stamp(file: str) -> Stamp | None:
    """Return a certificate's record of an ONNX file; None for stdin."""
    return None if file == "-" else stamp_of(Path(file), "onnx")


def check_files(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None]
) -> tuple[CheckReport, CheckReport | None]:
    """Return the verdicts of `check-certificate` on two ONNX files: the proof, the probe."""
    certificates = None if args.certificate is None else read_certificates(args.certificate)
    models = [load_file(source_of(f)) for f in (args.file, args.lowered)]
    for model in models:
        set_shapes(model, _named(shapes, model))
    proof = compare_models(models[0], models[1], args.semantics)
    probed = probe_models(proof, seed=args.seed) if args.probe else None
    stamps = stamp(args.file), stamp(args.lowered)
    return check_models(proof, certificates, stamps), probed
