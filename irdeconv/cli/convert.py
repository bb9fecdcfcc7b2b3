"""`convert`: convert an ONNX model, a oneDNN Graph dump or an IR from before 2020 into an IR."""

from __future__ import annotations

import argparse

import irdeconv as ird
from irdeconv.base.errors import Diagnostic, InferenceError, count, misused
from irdeconv.base.json_form import Record
from irdeconv.base.tables import table
from irdeconv.cli.checks import parse_shapes, require_format
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import print_diagnostics
from irdeconv.cli.model import (
    ModelEnds,
    ends,
    print_ends,
    protect_referred,
    read_stdin,
    write_model,
)
from irdeconv.formats.importing import Imported
from irdeconv.formats.models import converted, is_legacy
from irdeconv.rewrite.infer_specs import layer_count


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


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Import, write, report."""
    source = read_stdin() if args.file == "-" else args.file
    shapes = parse_shapes(args.shape)
    if "" in shapes:
        raise misused("--shape needs the name of an input", "write it as 'x[1,3,224,224]'")
    if not is_legacy(source):
        require_format(args.file, ("onnx", "json"))
    done = converted(source, args.weights, shapes=shapes, seed=args.seed, semantics=args.semantics)
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
        lambda: _text(args.file, done, console),
    )


def _text(file: str, done: Imported, console: Console) -> None:
    print_diagnostics(console, done.diagnostics)
    rows = [(kind, str(number)) for kind, number in sorted(done.kinds.items())]
    console.text(table(("node type", "count"), rows, ("count",), width=console.width))
    print_ends(done.graph, console)
    nodes = count(sum(done.kinds.values()), "node")
    console.text(f"{file}: {done.format}: {nodes} became {layer_count(done.graph)}")
