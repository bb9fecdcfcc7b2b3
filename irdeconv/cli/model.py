"""Read models and input values for the verbs; write models, arrays and texts.

Also runs models in OpenVINO and ONNX Runtime, for verbs with a choice of runtime.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import (
    Diagnostic,
    IrdeconvError,
    LimitError,
    UnsupportedError,
    UsageError,
    count,
    did_you_mean,
    misused,
    some,
)
from irdeconv.base.json_form import Real, Record
from irdeconv.base.limits import current
from irdeconv.base.memory import memory_limit
from irdeconv.base.opening import missing, real
from irdeconv.cli import checks
from irdeconv.cli.checks import parse_shapes, protect
from irdeconv.cli.console import Console, discard
from irdeconv.formats.arrays import SavedArrays, naming_file, packed, read_npy
from irdeconv.formats.atomic import together, write_file
from irdeconv.formats.kinds import SAVED
from irdeconv.formats.models import graph_of, is_onnx
from irdeconv.formats.onnx_container import OnnxFile, load_file
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.onnx_types import set_shapes
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, Spec, bounds, filled, format_shape, is_static
from irdeconv.public.editing import stage_edited
from irdeconv.public.reading import reshaped
from irdeconv.rewrite import infer_specs
from irdeconv.runtime.feeds import GENERATORS, Binder, generate, generator
from irdeconv.verify.partner import DUMPED, tensors_by_name

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
    _note_shapes(graph, args)
    return graph


def _note_shapes(graph: Graph, args: argparse.Namespace) -> None:
    """Log each size of --shape that lies outside the range that the model declares."""
    if not getattr(args, "shape", None):
        return
    for name, shape in shapes_for(graph, args.shape).items():
        declared = getattr(graph.parameters[graph.inputs.index(name)].op, "shape", None)
        for axis, (own, asked) in enumerate(zip(declared or (), shape or (), strict=False)):
            low, high = bounds(own)
            if low != high and isinstance(asked, int) and not low <= asked <= (high or asked):
                limits = format_shape((own,))[1:-1]
                message = f"input {name}, axis {axis}: the model declares {limits}"
                Console(quiet=args.quiet).log(f"{message}, --shape sets {asked}")


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
    if args.file != "-" and needed and not is_onnx(args.file):
        message = f"{args.file} is no ONNX model, ONNX Runtime does not read it"
        raise misused(message, "name the .onnx that it was made of")
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


def gather(
    graph: Graph,
    items: Iterable[str],
    seed: int,
    console: Console,
    *,
    limit: int | None = None,
    without: Collection[str] = (),
    fill: int | None = None,
) -> dict[str, Array]:
    """Return the value of every input; inputs that no item names are random numbers.

    Those in `without` have values already, and may have any number of rows. `fill` is the size of
    the open dimensions of random inputs.

    Raises UsageError for unknown names, arrays that do not fit and open shapes, LimitError if the
    inputs alone take more than `limit` bytes.
    """
    specs = [filled_spec(node.spec(), fill) for node in graph.parameters]
    _require_room(specs, limit)
    found: dict[str, Array | str] = {}
    for item in items:
        for name, value in assignments(graph, item, found).items():
            if name in found:
                raise misused(f'input "{name}" is given twice', "leave one of them out")
            found[name] = value
    out = {}
    for index, (name, spec) in enumerate(zip(graph.inputs, specs, strict=True)):
        if name in without:
            continue
        value = found.get(name, "rand")
        if isinstance(value, str):
            sizes = "" if fill is None else f", {format_shape(spec.shape)}"
            out[name] = generate(value, spec, seed, index, name)
            console.log(f"input {name}: {value}, seed {seed}{sizes}")
        else:
            out[name] = typed(value, spec)
    if not without:
        _note_changes(out, Binder.of(graph).bind(out), console)
    return out


def filled_spec(spec: Spec, fill: int | None) -> Spec:
    """Return a spec whose open dimensions have the size of --fill."""
    if fill is None or spec.shape is None:
        return spec
    return Spec(spec.dtype, filled(spec.shape, [fill] * len(spec.shape)))


def _note_changes(values: dict[str, Array], bound: list[Array], console: Console) -> None:
    """Write a line for each input that is narrowed or has NaN."""
    for (name, value), used in zip(values.items(), bound, strict=True):
        if value.dtype.itemsize > used.dtype.itemsize:
            console.log(f"input {name}: {value.dtype} is narrowed to {used.dtype}")
        elif value.dtype.kind in "iu" and used.dtype.kind == "f":
            most = value.max(initial=0)
            console.log(f"input {name}: {value.dtype} becomes {used.dtype} unscaled, up to {most}")
        if used.dtype.kind == "f" and (unknown := int((used != used).sum())):
            console.log(f"input {name}: {unknown} of {used.size} values are NaN")


def _require_room(specs: Iterable[Spec], limit: int | None) -> None:
    """Raise LimitError (E602) before inputs are made that no run within the limit can take.

    Without one it is the machine's memory.
    """
    need = 0
    for spec in specs:
        if is_static(spec.shape) and spec.dtype is not None:
            need += math.prod(spec.shape) * spec.dtype.container.itemsize
    smaller = "give smaller shapes with --shape where they are open"
    for most, phrase, hint in (
        (memory_limit(limit), "the limit is", "allow more with --max-memory"),
        (_memory_there(), "the machine has", smaller),
    ):
        if most is not None and need > most:
            message = f"the inputs alone need {need:,} bytes, {phrase} {most:,}"
            raise LimitError(Diagnostic("E602", "error", message, hint=hint))


def _memory_there() -> int | None:
    """Return the bytes of the machine's memory, if they are available."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def specialize(graph: Graph, inputs: dict[str, Array], *, every: bool = False) -> Graph:
    """Return the graph inferred for the arrays' shapes if an input's shape is open.

    With `every` also if it is exact: the model is reshaped.
    """
    shapes = {
        name: inputs[name].shape
        for name, node in zip(graph.inputs, graph.parameters, strict=True)
        if every or not node.spec().static
    }
    return reshaped(graph, shapes, needed=True) if shapes else graph


def assignments(graph: Graph, item: str, found: dict[str, Array | str]) -> dict[str, Array | str]:
    """Return the inputs that an item of --input sets, each with an array or a kind of numbers."""
    known = input_names(graph)
    # Names may contain "=": the longest known name that fits wins.
    for alias in sorted(known, key=len, reverse=True):
        if item.startswith(f"{alias}="):
            name = known[alias]
            return {name: _value(item[len(alias) + 1 :], graph, name)}
    if generator(item):
        return {name: item for name in graph.inputs if name not in found}
    path = item.removeprefix("@")
    if path.endswith(SAVED):
        return _npz(path, graph, known, found)
    if not Path(path).exists():
        raise _no_value(item, path, graph)
    if path.endswith((".xml", ".onnx")):
        raise misused(f"{path} is a second model, not values", "irdeconv compare takes two models")
    free = [name for name in graph.inputs if name not in found]
    if not free:
        inputs = f"{count(len(graph.inputs), 'input')} ({', '.join(graph.inputs)})"
        message = f"{item}: every input has a value already; the model has {inputs}"
        raise misused(message, "leave it out")
    return {free[0]: _value("@" + path, graph, free[0])}


def _no_value(item: str, path: str, graph: Graph) -> IrdeconvError:
    """Return the error of a word that gives no input a value."""
    if item.endswith("]"):
        return misused(f'"{item}" is no value but a shape', f"write it as --shape '{item}'")
    if "=" in item:
        return unknown_input(item.split("=")[0], graph)
    if item in input_names(graph):
        message = f'the input "{item}" is given no value'
        return misused(message, f"for example: {item}=ones, {item}=@{item}.npy")
    if item.partition("@")[0] in input_names(graph):
        return misused(f'"{item}" is not NAME=VALUE', f"write {item.replace('@', '=@', 1)}")
    if item.startswith("@") or "/" in path or path.endswith((".npy", ".png", ".jpg", ".jpeg")):
        return missing(path)
    message = f'"{item}" is neither NAME=VALUE nor a file nor a kind of data'
    name, colon, value = item.partition(":")
    if colon and name in input_names(graph):
        raise misused(message, f"write {name}={value}")
    if item in checks.RUNTIMES:
        return misused(message, f"runtimes are a list: --against {','.join(checks.RUNTIMES)}")
    near = did_you_mean(item, [*GENERATORS, *input_names(graph)])
    return misused(message, near or f"kinds of data are {', '.join(GENERATORS)}")


def _value(text: str, graph: Graph, name: str) -> Array | str:
    if generator(text):
        return text
    if not text.strip("@"):
        raise misused(f'the input "{name}" is given no value', f"for example: {name}=@{name}.npy")
    if not text.startswith("@"):
        file = text if re.fullmatch(r"[\w./\\ -]*[^\W\d][\w./\\ -]*", text) else "x.npy"
        hint = did_you_mean(text, GENERATORS) or f"a file is written as {name}=@{file}"
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text):
            hint = f"a constant is written as '{name}=rand({text},{text})'"
        raise misused(f"{name}={text}: neither @FILE nor one of {', '.join(GENERATORS)}", hint)
    path = text[1:]
    if path.endswith(SAVED):
        with open_arrays(path) as arrays:
            if name in arrays or len(arrays) == 1:
                return arrays[name if name in arrays else next(iter(arrays))]
            raise misused(f'{path} has no array "{name}"', did_you_mean(name, arrays))
    if path.endswith(".npy"):
        with naming_file(path, ".npy"):
            return read_npy(path)
    return _image(path, graph.parameters[graph.inputs.index(name)].spec(), name)


@contextmanager
def open_arrays(path: str) -> Iterator[SavedArrays]:
    """Open a file of arrays for the time of a `with`; UsageError if it is none, or is damaged."""
    with naming_file(path, Path(path).suffix), SavedArrays(path) as arrays:
        yield arrays


def _npz(
    path: str, graph: Graph, known: dict[str, str], found: Collection[str]
) -> dict[str, Array | str]:
    """Return arrays by input: by name, or in order if np.savez numbered them.

    Arrays of other names are those of layers, or a mistake if an input is left without a value.
    """
    with open_arrays(path) as arrays:
        named: dict[str, Array | str] = {known[k]: arrays[k] for k in arrays if k in known}
        left = [name for name in graph.inputs if name not in named and name not in found]
        plain = all(re.fullmatch(r"arr_\d+", k) for k in arrays)
        if not named and plain and len(arrays) == len(graph.inputs):
            return dict(zip(graph.inputs, arrays.values(), strict=True))
        layers = tensors_by_name(graph)
        other = [k for k in arrays if k not in known and k.removeprefix(DUMPED) not in layers]
        if named and not (left and other):
            return named
        has = f"{count(len(arrays), 'array')} ({some(arrays)})"
    if not left:
        raise misused(f"{path} has {has}, and each input has a value already", "leave it out")
    names = "=..., ".join(left)
    message = f"{path} has {has}, none for the input{'s' * (len(left) > 1)} {', '.join(left)}"
    raise misused(message, f"name the arrays like the inputs: np.savez(file, {names}=...)")


def typed(array: Array, spec: Spec) -> Array:
    """Return the bytes of types that `.npy` files do not know (bfloat16, float8) as such values."""
    container = None if spec.dtype is None else spec.dtype.container
    if container is None or array.dtype.kind != "V" or array.dtype.itemsize != container.itemsize:
        return array
    return array.view(container)


def _image(path: str, spec: Spec, name: str) -> Array:
    """Return an image resized to the input; floats are 0..1, integers 0..255."""
    from irdeconv.cli import pictures

    if Path(path).is_dir():
        message = f'"{path}" is a folder, not a file with the values of input "{name}"'
        raise misused(message, f"name the file in it: {name}=@{path}/x.npy")
    shape = spec.shape
    if shape is None or len(shape) not in (3, 4):
        raise misused(f'input "{name}" is {spec}: an image needs [N,C,H,W] or [N,H,W,C]')
    *lead, a, b, c = shape
    first = a in (1, 3)
    channels, height, width = (a, b, c) if first else (c, a, b)
    if channels not in (1, 3):
        raise misused(f'input "{name}" is {spec}: an image has 1 or 3 channels')
    with pictures.opened(path, hint="np.save writes an array as .npy") as opened:
        picture = opened.convert("RGB" if channels == 3 else "L")
    both = zip((width, height), picture.size, strict=True)
    wide, tall = (d if isinstance(d, int) else p for d, p in both)
    pixels = np.asarray(picture.resize((wide, tall))).reshape(tall, wide, channels)
    values = pixels.transpose(2, 0, 1) if first else pixels
    if spec.dtype is not None and spec.dtype.is_real:
        values = values / np.float32(255)
    return values.reshape((1,) * len(lead) + values.shape)


def outputs_of(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that OpenVINO computes, in order; UnsupportedError (E506) if it cannot.

    Raises UsageError if the package is missing.
    """
    from irdeconv.runtime.peers import Source, peers

    with peers(["openvino"], Source(graph), inputs) as (openvino,):
        if openvino.run is None:
            message = f"OpenVINO does not run the model: {openvino.problem}"
            raise UnsupportedError(Diagnostic("E506", "error", message))
        return [array.copy() for array in openvino.run()]
