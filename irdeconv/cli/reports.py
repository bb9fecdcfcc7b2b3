"""Verbs that report on a model: `validate`, `infer`, `convert`, `inspect`, `explain`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import irdeconv as ird
from irdeconv.base import work
from irdeconv.base.errors import Diagnostic, InferenceError, UsageError, count, misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.base.json_form import Record
from irdeconv.base.tables import WIDTH, printable, table, wrap
from irdeconv.cli.checks import parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import code_of, junit, parts, print_diagnostics, sarif
from irdeconv.cli.model import (
    STDIN,
    inferred,
    inferred_model,
    protect_referred,
    read,
    shapes_for,
    source_of,
    write_model,
    write_text,
)
from irdeconv.formats.importing import Imported
from irdeconv.formats.models import converted
from irdeconv.formats.reading import Reading
from irdeconv.formats.text import dump
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape, Spec, compatible, merge_shapes
from irdeconv.ops.basic import Opaque
from irdeconv.rewrite.infer_specs import layer_count, stale

if TYPE_CHECKING:
    from irdeconv.show.explanation import Explanation
    from irdeconv.show.inspection import Inspection


class ValidatedFile(Record):
    """The counts of one file."""

    file: str  # its name
    errors: int  # in this file
    warnings: int  # in this file


class ValidateDocument(Record, document="validate/1"):
    """The verdict on one or more files."""

    valid: bool  # whether there is no error; with --strict, no warning either
    errors: int  # in all files
    warnings: int  # in all files
    files: list[ValidatedFile]  # one for each file
    diagnostics: list[Diagnostic]  # in the order of files and lines


def run_validate(args: argparse.Namespace, console: Console) -> Answer:
    """Validate all files; the exit code is 1 if any has errors."""
    if args.weights and len(args.files) > 1:
        raise misused("--weights goes with a single file", "validate one model at a time")
    shapes = parse_shapes(args.shape)
    found = {file: _diagnostics(file, shapes, args) for file in dict.fromkeys(args.files)}
    diagnostics = [d for ds in found.values() for d in ds]
    refused = code_of(diagnostics)
    code = refused if refused in (5, 6) else 1

    def text() -> None:
        if console.format == "text":
            _validated_text(found, args, console)
        else:
            console.raw(sarif(diagnostics) if console.format == "sarif" else junit(found))

    def document() -> ValidateDocument:
        files = [ValidatedFile(file, *tally(ds)) for file, ds in found.items()]
        return ValidateDocument(good, *tally(diagnostics), files, diagnostics)

    good = valid(diagnostics, args.strict)
    return Answer(document, text, 0 if good else code)


def _diagnostics(
    file: str, shapes: dict[str, Shape | None], args: argparse.Namespace
) -> list[Diagnostic]:
    """Validate one file; UsageError if a shape does not fit the model."""
    weights: Any = False if args.no_weights else args.weights
    how = {"semantics": args.semantics, "target": args.target}
    found = ird.validate(source_of(file), weights, shapes=shapes, name=STDIN, **how)
    misfits = [d for d in found if d.code == "E310"]
    if misfits:
        raise UsageError(misfits)
    return found


def valid(diagnostics: list[Diagnostic], strict: bool) -> bool:
    """Whether there are no errors and, with `strict`, no warnings."""
    errors, warnings = tally(diagnostics)
    return not errors and not (strict and warnings)


def _validated_text(
    found: dict[str, list[Diagnostic]], args: argparse.Namespace, console: Console
) -> None:
    for file, diagnostics in found.items():
        for d in diagnostics:
            console.text(*parts(d, console.width))
        errors, warnings = tally(diagnostics)
        good = valid(diagnostics, args.strict)
        verdict = ("valid", "bold green") if good else ("invalid", "bold red")
        counts = f", {count(errors, 'error')}, {count(warnings, 'warning')}"
        counts += ", without weights" if args.no_weights else ""
        console.text(f"{STDIN if file == '-' else file}: ", verdict, counts)
    # On a terminal, suggest `irdeconv codes` for the first codes, errors before warnings.
    diagnostics = [d for ds in found.values() for d in ds]
    error_codes = [d.code for d in diagnostics if d.severity == "error"]
    codes = list(dict.fromkeys(error_codes or [d.code for d in diagnostics]))
    if codes and console.out.isatty():
        console.log(f"irdeconv codes {' '.join(codes[:3])} explains what this means, with examples")


def tally(diagnostics: list[Diagnostic]) -> tuple[int, int]:
    """Return the numbers of errors and warnings."""
    severities = [d.severity for d in diagnostics]
    return severities.count("error"), severities.count("warning")


class ModelEnds(Record):
    """The ends of a model."""

    inputs: dict[str, str]  # element type and shape by name
    outputs: dict[str, str]  # element type and shape by name


def ends(graph: Graph) -> ModelEnds:
    """Return the specs of the model's inputs and outputs by name."""
    sides = ((graph.inputs, graph.parameters), (graph.outputs, graph.results))
    specs = ({k: str(n.spec()) for k, n in zip(*side, strict=True)} for side in sides)
    return ModelEnds(*specs)


def print_ends(graph: Graph, console: Console) -> None:
    """Write a line for each input and output."""
    for side, specs in ends(graph).to_dict().items():
        for name, spec in specs.items():
            console.text(f"{side[:-1]} {name}: {spec}")


STATES = ("same", "refined", "wider", "new", "declared", "unknown", "differs")


class InferredTensor(Record):
    """One output of a layer."""

    id: int  # of the layer
    name: str  # of the layer
    type: str  # of its operation
    port: int  # of the output
    declared: str | None  # element type and shape as the file declares them
    inferred: Annotated[str, str | None]  # element type and shape as they follow
    status: str  # same, refined, wider, new, declared, unknown or differs


class InferDocument(Record, document="infer/1", keys="file no_weights *ends ..."):
    """All shapes, inferred and declared."""

    file: str  # the model
    no_weights: bool  # whether the weights file is missing
    ends: ModelEnds
    differs: int  # tensors whose declared shape is wrong
    tensors: list[InferredTensor]  # one for each output of each layer
    diagnostics: list[Diagnostic]  # warnings


def run_infer(args: argparse.Namespace, console: Console) -> Answer:
    """Infer and report."""
    graph = inferred_model(args)
    rows, warnings = list(inferred_rows(graph)), stale(graph)
    if args.output:
        write_model(graph, args, console)

    def document() -> InferDocument:
        differs = sum(r.status == "differs" for r in rows)
        shapes = ends(graph)
        return InferDocument(args.file, args.no_weights, shapes, differs, rows, warnings)

    def text() -> None:
        _inferred_text(graph, rows, console, everything=args.all)
        print_diagnostics(console, warnings)
        if args.no_weights:
            console.text("structure alone: what depends on values of constants is open")

    return Answer(document, text)


def inferred_rows(graph: Graph) -> Iterator[InferredTensor]:
    """Yield a row per output: declared and inferred spec, and how they relate."""
    for node in graph.nodes():
        if node.type == "Result":  # it passes on a tensor that has its row
            continue
        for port, spec in enumerate(node.specs or ()):
            declared = node.declared[port] if port < len(node.declared) else None
            status = _status(declared, spec)
            if isinstance(node.op, Opaque):  # only the file has its shapes
                status = "declared" if spec == declared else "unknown"
            before = None if declared is None else str(declared.without_value())
            after = str(spec.without_value())
            yield InferredTensor(node.id, node.name, node.type, port, before, after, status)


def _status(declared: Spec | None, spec: Spec) -> str:
    if declared is None:
        return "new"
    if (declared.dtype, declared.shape) == (spec.dtype, spec.shape):
        return "same"
    types = declared.dtype is None or spec.dtype is None or declared.dtype == spec.dtype
    if not types or not compatible(declared.shape, spec.shape):
        return "differs"
    narrower = merge_shapes(declared.shape, spec.shape) == spec.shape
    return "refined" if narrower and (spec.dtype or not declared.dtype) else "wider"


def _declared(row: InferredTensor) -> str:
    """Return the file's declaration, as `same` if that is also inferred."""
    differs = row.status in ("refined", "wider", "differs")
    return f"{row.declared}: {row.status}" if differs else row.status


def _inferred_text(
    graph: Graph, rows: list[InferredTensor], console: Console, *, everything: bool
) -> None:
    shown = [r for r in rows if everything or r.type != "Const"]
    head = ("id", "name", "type", "inferred", "declared")
    cells = [(str(r.id), r.name, r.type, r.inferred, _declared(r)) for r in shown]
    console.text(table(head, cells, ("id",), width=console.width))
    tally = {s: sum(r.status == s for r in rows) for s in STATES}
    print_ends(graph, console)
    tally["different"] = tally.pop("differs")
    states = ", ".join(f"{v} {k}" for k, v in tally.items() if v)
    console.text(f"{graph.info.name}: {count(len(rows), 'tensor')}: {states}")


class ConvertDocument(
    Record, document="convert/1", keys="file output format node_types layers diagnostics *ends"
):
    """The converted model."""

    file: str  # the source
    output: str  # the file that was written
    format: str  # of the source, with its version
    node_types: dict[str, int]  # how many nodes of each type the source has
    layers: int  # of the result
    diagnostics: list[Diagnostic]  # warnings
    ends: ModelEnds


def run_convert(args: argparse.Namespace, console: Console) -> Answer:
    """Import, write, report."""
    source = source_of(args.file)
    shapes = parse_shapes(args.shape)
    if "" in shapes:
        raise misused("--shape needs the name of an input", "write it as 'x[1,3,224,224]'")
    read = {"weights": args.weights, "seed": args.seed, "semantics": args.semantics}
    done = converted(source, Reading(shapes=shapes, name=STDIN, **read))
    protect_referred(args, done.files)
    found = [d for d in ird.validate(done.graph) if d.severity != "note"]
    if any(d.severity == "error" for d in found):
        raise InferenceError([*done.diagnostics, *found])
    done.diagnostics += found
    write_model(done.graph, args, console)
    kinds, layers = dict(sorted(done.kinds.items())), len(done.graph)
    facts = (done.format, kinds, layers, done.diagnostics, ends(done.graph))
    return Answer(
        lambda: ConvertDocument(args.file, args.output, *facts),
        lambda: _converted_text(args.file, done, console),
    )


def _converted_text(file: str, done: Imported, console: Console) -> None:
    print_diagnostics(console, done.diagnostics)
    rows = [(kind, str(number)) for kind, number in sorted(done.kinds.items())]
    console.text(table(("node type", "count"), rows, ("count",), width=console.width))
    print_ends(done.graph, console)
    nodes = count(sum(done.kinds.values()), "node")
    console.text(f"{file}: {done.format}: {nodes} became {layer_count(done.graph)}")


def run_inspect(args: argparse.Namespace, console: Console) -> int:
    """Inspect; a graph that does not fit together is shown as declared."""
    if args.operations:
        table = ird.operations(args.only)
        width = console.width if args.output in (None, "-") else WIDTH
        text = table.to_json() if console.format == "json" else table.to_text(width) + "\n"
        write_text(args.output, text, console)
        return 0
    if args.file is None:
        raise misused("inspect needs FILE", "for example: irdeconv inspect model.xml")
    with work.gc_paused():
        graph = read(args)
        try:
            graph = inferred(graph, args.shape)
        except InferenceError as e:
            print_diagnostics(console, e.diagnostics)
            console.error("shapes are shown as declared")
        lowered = ird.lower(graph, args.form or FALLBACK) if args.lower else None
        if console.format == "html":
            text = ird.graph_page(graph, lowered).to_html()
        else:
            wanted = {"only": args.only, "sort": args.sort, "target": args.target}
            text = _inspected(ird.inspect(graph, lowered, **wanted), args, console)
        write_text(args.output, text, console)
    return 0


def _inspected(inspection: Inspection, args: argparse.Namespace, console: Console) -> str:
    if console.format == "json":
        return inspection.to_json()
    if console.format == "svg":
        return inspection.to_svg(constants=args.constants)
    shown = inspection.lowered or inspection
    if console.format == "dot":
        return shown.to_dot(constants=args.constants)
    if console.format == "ir":
        elide = None if args.constants else 0
        return dump(shown.graph, elide=elide, comments=shown.comments())
    width = console.width if args.output in (None, "-") else WIDTH
    how = {"constants": args.constants, "everything": args.all, "width": width}
    return printable(inspection.to_text(**how)) + "\n"


def run_explain(args: argparse.Namespace, console: Console) -> int:
    """Explain."""
    graph = read(args)
    shapes = shapes_for(graph, args.shape)
    found = ird.explain(graph, args.layer, solve=args.solve, shapes=shapes)
    if args.output is None and console.format == "text":
        console.text(str(found))
    else:
        write_text(args.output, _explained(found, args, console), console)
    return 0 if found.accepted else 1


def _explained(found: Explanation, args: argparse.Namespace, console: Console) -> str:
    if console.format == "svg":
        return found.to_svg()
    if console.wants_json:
        return json.dumps(replace(found, file=args.file).to_dict(), indent=1) + "\n"
    return wrap(printable(str(found))) + "\n"
