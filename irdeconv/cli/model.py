"""Read models for the verbs, with the shapes of --shape; write models, arrays and texts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from irdeconv.base import work
from irdeconv.base.errors import UnsupportedError, UsageError, count, did_you_mean, misused
from irdeconv.base.json_form import Real, Record
from irdeconv.base.limits import current
from irdeconv.base.opening import real
from irdeconv.cli import checks
from irdeconv.cli.checks import parse_shapes, protect
from irdeconv.cli.console import Console, discard
from irdeconv.formats.arrays import packed
from irdeconv.formats.atomic import together, write_file
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.formats.onnx_container import OnnxFile, load_file
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, filled, format_shape, is_static
from irdeconv.public.editing import stage_edited
from irdeconv.public.reading import reshaped
from irdeconv.rewrite import infer_specs

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
    if output and not args.force and checks.written(output) & {real(f) for f in files}:
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


def read_file(file: str, weights: str | None = None, semantics: Semantics = "runtime") -> Graph:
    """Read one model; `-` is stdin."""
    return graph_of(source_of(file), weights, semantics, name=STDIN)


def given(file: str, weights: str | None, semantics: Semantics = "runtime") -> Given:
    """Return a file as a side of a proof takes it; `-` is stdin."""
    from irdeconv.verify.proving import Given

    return Given(source_of(file), weights, semantics, STDIN)


@work.gc_paused()
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


def onnx_model(args: argparse.Namespace, *, needed: bool = False) -> OnnxFile | None:
    """Load FILE, with the shapes of --shape, if -o names an .onnx or ONNX Runtime needs one.

    Raises UsageError for a model of another format.
    """
    if not needed and Path(args.output or "").suffix != ".onnx":
        return None
    if args.file != "-" and not is_onnx(args.file):
        what = "ONNX Runtime does not read it" if needed else f"so {args.output} is none either"
        name = Path(args.output or "").with_suffix(".xml")
        hint = "name the .onnx that it was made of" if needed else f"name it {name}"
        raise misused(f"{args.file} is no ONNX model, {what}", hint)
    model = load_file(source_of(args.file))
    protect_onnx(args, model)
    shapes = onnx_shapes(parse_shapes(getattr(args, "shape", ())), model)
    set_shapes(model, shapes)
    if shapes:
        del model.proto.graph.value_info[:]
    return model


def graph_to_edit(args: argparse.Namespace, model: OnnxFile | None) -> Graph:
    """Return the inferred graph of FILE, or of an ONNX model, which has its shapes already."""
    if model is None:
        return inferred_model(args)
    return infer_specs.inferred(graph_of(loaded(model), semantics=args.semantics, name=args.file))


def onnx_shapes(shapes: Mapping[str, Shape | None], model: OnnxFile) -> dict[str, Shape | None]:
    """Return shapes by input name; an unnamed shape belongs to a single input."""
    constants = {t.name for t in model.proto.graph.initializer}
    inputs = [i.name for i in model.proto.graph.input if i.name not in constants]
    if "" in shapes and len(inputs) != 1:
        raise misused(f"--shape needs a name: the model's inputs are {', '.join(inputs)}")
    return {name or inputs[0]: shape for name, shape in shapes.items()}


def protect_onnx(args: argparse.Namespace, model: OnnxFile) -> None:
    """Refuse outputs that would overwrite files that the model refers to."""
    if args.weights is not None:
        raise misused("--weights: an ONNX model contains its own, or names their files")
    external = [*model.external_files()]
    if args.output:
        protect(args.output, external, force=False)
    if getattr(args, "certify", None):
        protect(args.certify, external, force=args.force, option="--certify")


def write_model(
    model: Graph | OnnxFile, args: argparse.Namespace, console: Console, added: Sequence[Any] = ()
) -> None:
    """Write the model to -o; `added` are the new tensors of an edited ONNX model."""
    with together() as files:
        stage_edited(model, Path(args.output), files, added, force=args.force)
    console.log(f"wrote {args.output}")


def write_text(path: str | None, text: str, console: Console) -> None:
    """Write a text to a file, or to stdout without one."""
    if path is None or path == "-":
        console.raw(text)
    else:
        write_file(Path(path), text.encode("utf-8", "backslashreplace"))
        console.log(f"wrote {path}")


def save_arrays(path: str, arrays: Mapping[str, Array], console: Console) -> None:
    """Write arrays by name as .npz, .safetensors, or a single one as .npy.

    `-` is stdout, which takes an .npz, and for which a closed pipe is quiet.
    """
    data = packed(path, arrays)
    if path != "-":
        write_file(Path(path), data)
    else:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            discard(sys.stdout)
    console.log(f"wrote {path}")


class ArrayFacts(Record):
    """One output."""

    shape: list[int]  # of the array
    element_type: str  # NumPy's name
    non_finite: int  # elements that are infinite or NaN
    min: Annotated[float | None, Real]  # least finite element
    max: Annotated[float | None, Real]  # largest finite element
    mean: Annotated[float | None, Real]  # of the finite elements


def statistics(array: Array) -> ArrayFacts:
    """Return shape, element type, the number of non-finite elements and statistics of the others.

    Least, greatest and mean value are None if there are no finite numbers.
    """
    from irdeconv.show.page_details import array_statistics

    seen = array_statistics(array)
    shape, kind, odd = [*array.shape], str(array.dtype), seen.nan + seen.infinite
    return ArrayFacts(shape, kind, odd, seen.low, seen.high, seen.mean)


def note_tuning(path: str | None, console: Console) -> None:
    """Say that --tune has measured nothing if the file that it names was not made."""
    if path not in (None, "-") and not Path(path).exists():
        reason = "no layer has several kernels that are worth measuring"
        console.log(f"{path} is not written: {reason}")
