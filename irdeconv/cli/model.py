"""Read models for the verbs: files or stdin, shapes from --shape, protected inputs of -o."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import irdeconv as ird
from irdeconv.base import gc_pause
from irdeconv.base.errors import UnsupportedError, UsageError, count, did_you_mean, misused
from irdeconv.base.json_form import Record
from irdeconv.base.limits import current
from irdeconv.cli.checks import parse_shapes, written
from irdeconv.cli.console import Console
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape, filled, format_shape, is_static
from irdeconv.public.reading import reshaped

if TYPE_CHECKING:
    from irdeconv.verify.certificates import Certificates
    from irdeconv.verify.proving import Given

STDIN = "<stdin>"


class WrittenModel(Record):
    """A document about a model, and the file that was made of it."""

    file: str  # the model
    output: str | None  # the file that was written


def read(args: argparse.Namespace) -> Graph:
    """Read the model that FILE, --weights, --semantics and, for dumps, --seed name.

    Models of other formats are imported with the shapes of --shape. --fill adds those of open
    inputs to --shape if inputs have no arrays, or an importer needs exact sizes. Refuses a -o
    that would overwrite the data that an .onnx keeps in other files.
    """
    source, fill = source_of(args.file), getattr(args, "fill", None)
    left_out = getattr(args, "no_weights", False)
    how: dict[str, Any] = {"weights": False if left_out else args.weights, "name": STDIN}
    how |= {"semantics": args.semantics, "seed": getattr(args, "seed", 0)}
    try:
        graph = graph_of(source, **how, shapes=parse_shapes(getattr(args, "shape", ())))
    except UnsupportedError:  # perhaps for want of exact sizes
        if fill is None or not is_onnx(source):
            raise
        from irdeconv.formats.onnx_container import load_file
        from irdeconv.formats.onnx_editing import outline

        args.shape = _filled_shapes(outline(load_file(source)), args)
        graph = graph_of(source, **how, shapes=parse_shapes(args.shape))
    if fill is not None and "inputs" not in args:  # else `gather` prefers the sizes of arrays
        args.shape = _filled_shapes(graph, args)
    protect_referred(args, graph.info.files)
    return graph


def _filled_shapes(graph: Graph, args: argparse.Namespace) -> list[str]:
    """Return the texts of --shape, and of all open inputs with the size of --fill."""
    named = shapes_for(graph, args.shape)
    own = {n: p.spec().shape for n, p in zip(graph.inputs, graph.parameters, strict=True)}
    shapes = {k: s for k, s in {**own, **named}.items() if k in named or not is_static(s)}
    exact = {k: s and filled(s, [args.fill] * len(s)) for k, s in shapes.items()}
    return [f"{k}:{format_shape(s)}" for k, s in exact.items() if s is not None]


def protect_referred(args: argparse.Namespace, files: Iterable[str | Path]) -> None:
    """Refuse a -o that would overwrite a file that the model refers to."""
    output = getattr(args, "output", None)
    if output and not args.force and written(output) & {Path(f).resolve() for f in files}:
        message = f"-o {output} would overwrite a file that {args.file} refers to"
        raise misused(message, "--force allows it")


def read_stdin() -> bytes:
    """Return the contents of stdin, up to a byte more than the limit `xml_bytes`.

    It is read in pieces: inside of one large read Python would not look at a Ctrl-C.
    """
    stream = cast(BufferedReader, sys.stdin.buffer)
    limit, data = current().xml_bytes + 1, bytearray()
    while len(data) < limit and (piece := stream.read1(min(limit - len(data), 1 << 20))):
        data += piece
    return bytes(data)


def read_file(
    file: str,
    weights: str | Literal[False] | None = None,
    semantics: Semantics = "runtime",
    *,
    shapes: Mapping[str, Shape | None] | None = None,
    seed: int = 0,
) -> Graph:
    """Read one model; `-` is stdin."""
    return graph_of(source_of(file), weights, semantics, shapes=shapes, seed=seed, name=STDIN)


def given(file: str, weights: str | None, semantics: Semantics = "runtime", seed: int = 0) -> Given:
    """Return a file as a side of a proof takes it; `-` is stdin."""
    from irdeconv.verify.proving import Given

    return Given(source_of(file), weights, semantics, STDIN, seed)


@gc_pause.paused()
def prove(args: argparse.Namespace, source: Graph, written: Given, *, raised: bool) -> Certificates:
    """Return the certificates of a model that was lowered or raised, as it is read back.

    The model of FILE is the file if it is an IR, else its graph.
    """
    from irdeconv.verify.check import certified
    from irdeconv.verify.proving import Given, both_sides

    is_ir = args.file != "-" and Path(args.file).suffix == ".xml"
    original = given(args.file, args.weights, args.semantics) if is_ir else Given(source)
    sides = original, written
    shapes = shapes_for(source, args.shape)
    return certified(*both_sides(*(sides[::-1] if raised else sides), shapes), probe=args.probe)


def source_of(file: str) -> str | bytes:
    """Return a path, or the bytes of stdin."""
    return read_stdin() if file == "-" else file


def input_names(graph: Graph) -> dict[str, str]:
    """Return every name that an input answers to, with the input's own name."""
    names = dict(zip((n.id for n in graph.parameters), graph.inputs, strict=True))
    return {alias: names[node.id] for alias, node in graph.input_names().items()}


def unknown_input(name: str, graph: Graph) -> UsageError:
    """Return the error of a name that no input has."""
    names = ", ".join(f'"{n}"' for n in graph.inputs) or "none"
    hint = did_you_mean(name, input_names(graph)) or f"it has {names}"
    return misused(f'the model has no input "{name}"', hint)


def shapes_for(graph: Graph, texts: Iterable[str]) -> dict[str, Shape | None]:
    """Return --shape by input name; an unnamed shape belongs to a single input."""
    known = input_names(graph)
    out: dict[str, Shape | None] = {}
    for name, shape in parse_shapes(texts).items():
        if not name and len(graph.inputs) != 1:
            message = f"--shape needs a name: the model has {count(len(graph.inputs), 'input')}"
            names = " or ".join(f"--shape '{name}[...]'" for name in graph.inputs[:2])
            raise misused(message, names or "leave it out")
        target = known.get(name) if name else graph.inputs[0]
        if target is None:
            raise unknown_input(name, graph)
        out[target] = shape
    return out


def inferred(graph: Graph, texts: Iterable[str], *, needed: bool = False) -> Graph:
    """Infer a graph with the shapes of --shape."""
    return reshaped(graph, shapes_for(graph, texts) or None, needed=needed)


def inferred_model(args: argparse.Namespace, *, needed: bool = False) -> Graph:
    """Read the model of the arguments, and infer it with the shapes of --shape."""
    return inferred(read(args), args.shape, needed=needed)


def write_model(graph: Graph, args: argparse.Namespace, console: Console) -> None:
    """Write the model to -o."""
    ird.write(graph, args.output)
    console.log(f"wrote {args.output}")


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
