"""Convert the caller's model to a Graph: a file, its bytes, a model in memory.

Formats are detected by content: IR (`.xml`), ONNX, JSON dumps of oneDNN Graph, the text form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

from irdeconv.base import work
from irdeconv.base.errors import (
    ArgumentTypeError,
    Diagnostic,
    InputError,
    IrdeconvError,
    Spelling,
    UnsupportedError,
    UsageError,
    misused,
)
from irdeconv.base.extras import needed
from irdeconv.base.limits import Limits, current
from irdeconv.base.opening import first_bytes, read_file, too_large, unreadable
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.document import MemoryWeights, WeightsFile
from irdeconv.formats.importing import Imported
from irdeconv.formats.kinds import BEGIN, Format, kind_of
from irdeconv.formats.layers import unknown_operations
from irdeconv.formats.reading import Loaded, Reading, Weights, load
from irdeconv.formats.text import parse
from irdeconv.formats.xml_reader import legacy_version
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.constant import FileData
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, GraphError
from irdeconv.ir.spec import Shape
from irdeconv.ops.basic import Const, Opaque, is_indispensable
from irdeconv.ops.bodies import bodies_of, every_node
from irdeconv.rewrite.infer_specs import ShapeLike, input_shapes, naming_shapes
from irdeconv.rewrite.standardize import recognise

_BLANK = b" \t\r\n\xef\xbb\xbf"
SUFFIXES: dict[str, Format] = {".xml": "xml", ".onnx": "onnx", ".json": "json", ".ird": "ird"}
UNKNOWN = frozenset(["E206", "E207", "E214"])  # operations that irdeconv does not know
ACCEPTED = (
    "a path (.xml, .onnx, .json, .ird), the bytes of such a file, a Graph, what another function "
    "returned, an openvino.Model, an onnx.ModelProto"
)


class HoldsGraph(Protocol):
    """A function's result that has a `graph`: Lowered, Raised, Inspection, Plan, ..."""

    @property
    def graph(self) -> Graph:
        """The graph that is taken for the model."""


@runtime_checkable
class OpenVinoModel(Protocol):
    """An `openvino.Model`, with the methods in use."""

    def get_ordered_ops(self) -> Any:
        """Return the operations, producers first."""

    def get_friendly_name(self) -> str:
        """Return the model's name."""


@runtime_checkable
class OnnxModel(Protocol):
    """An `onnx.ModelProto`, with the members in use."""

    opset_import: Any
    graph: Any

    def SerializeToString(self) -> bytes:
        """Return the bytes of a `.onnx` file."""


ModelLike = str | PathLike[str] | bytes | Graph | HoldsGraph | OpenVinoModel | OnnxModel


@work.counted
def graph_of(
    model: ModelLike,
    weights: Weights | None = None,
    semantics: Semantics = "runtime",
    *,
    limits: Limits | None = None,
    shapes: Mapping[str, ShapeLike] | None = None,
    seed: int = 0,
    name: str = "<bytes>",
    recognised: bool = True,
) -> Graph:
    """Return the graph of a model of any kind; a Graph itself is returned as it is.

    `model` is an argument for `irdeconv.read`, a Graph, or an object with a `graph` (Lowered,
    Raised, Inspection, Plan, ...). `weights` is the `.bin` of an IR (False: the structure alone is
    read), or an .npz or "random" (with `seed`) of a dump. `shapes` makes open input shapes of ONNX
    models and dumps exact while they are imported. In an IR, patterns that are zero-insertions at
    these shapes are recognised unless `recognised` is false.

    Operations of an IR that irdeconv does not know stay as the file declares them. Raises
    InputError, UnsupportedError, InferenceError with all errors of the model, UsageError (also a
    TypeError) for an object that is no model and for arguments that do not apply to it.
    """
    how = Reading(
        weights=weights,
        semantics=semantics,
        limits=limits or current(),
        shapes=shapes or {},
        seed=seed,
        name=name,
    )
    here = recognised and not isinstance(held(model), Graph)
    declared = partial(_graph, model, replace(how, shapes={}), here)
    with how.limits.applied(), naming_shapes(how.shapes, declared):
        return _graph(model, how, here)


def _graph(model: ModelLike, how: Reading, recognised: bool) -> Graph:
    loaded = _loaded(model, how)
    # Unknown operations stay, if they are no deconvolutions; other errors leave no graph.
    known = {d.code for d in loaded.errors} <= UNKNOWN
    ops = [n.op for n in loaded.graph.nodes()] if loaded.graph and loaded.errors else []
    lost = any(isinstance(op, Opaque) and is_indispensable(op.type) for op in ops)
    if loaded.graph is None or lost or not known:
        raise loaded.error()
    if recognised:
        wanted: dict[int, Shape | None] = {}
        with suppress(UsageError):  # inference will report shapes that do not fit
            wanted = input_shapes(loaded.graph, how.shapes)
        recognise(loaded.graph, wanted)
    return loaded.graph


def diagnose(model: ModelLike, how: Reading) -> Loaded:
    """Return the graph of a model, or None, and all diagnostics; UsageError, UnsupportedError."""
    try:
        return _loaded(model, how)
    except UsageError:
        raise
    except IrdeconvError as e:
        if any(d.location is None for d in e.diagnostics):
            raise
        return Loaded(e.diagnostics)


def held(model: Any) -> Any:
    """Return the graph of an object that has one, else the object itself."""
    graph = getattr(model, "graph", None)
    return graph if isinstance(graph, Graph) else model


def _loaded(model: Any, how: Reading) -> Loaded:
    model = held(model)
    if isinstance(model, Graph):
        why = "a graph that has been read already cannot be read otherwise"
        how.refuse(("weights", "semantics", "limits"), why, "give them to read")
        if work.is_new():
            work.earn(_stored_bytes(model))
        return Loaded(graph=model)
    if isinstance(model, str | PathLike | bytes | bytearray | memoryview):
        return _of_file(model, how)
    if isinstance(model, OpenVinoModel):
        how.refuse(("weights",), "an openvino.Model holds its constants itself")
        return _of_openvino(model, how)
    if isinstance(model, OnnxModel):
        how.refuse(("weights",), "an ONNX model contains its own")
        return _of_import(model, how.name if how.name != "<bytes>" else "<onnx.ModelProto>", how)
    raise _no_model(model)


LAYER_BYTES = 300  # of a layer in an .xml


def _stored_bytes(graph: Graph) -> int:
    """Return about the bytes of the files of a graph: constants, each once, and layers."""
    sizes: dict[int, int | None] = {0: LAYER_BYTES * sum(1 for _ in every_node(graph))}
    for op in (n.op for n in graph.nodes("Const")):
        if isinstance(op, Const):
            source = op.data.source if isinstance(op.data, FileData) else None
            sizes[id(source or op.data)] = source.size if source else op.infer().nbytes
    return sum(size or 0 for size in sizes.values())


def _no_model(model: object) -> UsageError:
    kind = type(model)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    text = repr(model)
    shown = f": {text}" if len(text) <= 60 and text.isprintable() else ""
    message = f"expected a model, got {place}{kind.__qualname__}{shown}"
    return ArgumentTypeError(Diagnostic("E700", "error", message, hint=f"a model is {ACCEPTED}"))


def _of_file(model: str | PathLike[str] | bytes | bytearray | memoryview, how: Reading) -> Loaded:
    if not isinstance(model, str | PathLike):
        data = bytes(model)
        return _of_format(kind_of(data[:BEGIN], "").format or "xml", data, how.name, how)
    path = os.fspath(model)
    if not isinstance(path, str):
        raise _no_model(model)
    if (
        path.lstrip().startswith(("<", "graph "))
        and re.search(">|\n", path)
        and not os.path.lexists(path)
    ):
        raise misused("this is the text of a model, not its path", "give its bytes: text.encode()")
    suffix = SUFFIXES.get(Path(path).suffix)
    if suffix == "xml":
        return _of_format("xml", path, path, how)
    begin = _first_bytes(path)
    kind = kind_of(begin, path) if begin else None  # the IR reader reports the error
    found = kind and (kind.format or (None if kind.foreign else suffix))
    return _of_format(found or "xml", path, path, how)


def is_onnx(model: ModelLike) -> bool:
    """Whether a model is an ONNX model: a file by its content, else by its name."""
    if isinstance(model, bytes | bytearray | memoryview):
        return kind_of(bytes(model[:BEGIN]), "").format == "onnx"
    if isinstance(model, str | PathLike):
        path = os.fspath(model)
        suffix = SUFFIXES.get(Path(path).suffix)
        return suffix != "xml" and (kind_of(_first_bytes(path), path).format or suffix) == "onnx"
    return not isinstance(held(model), Graph) and isinstance(model, OnnxModel)


def _first_bytes(path: str) -> bytes:
    """Return the first bytes of a regular file; none if there is no such file."""
    with suppress(OSError, ValueError):
        return first_bytes(path, BEGIN)
    return b""


def looks_like_a_model(path: str | PathLike[str]) -> bool:
    """Whether a path has the suffix of a model, or its file begins like one."""
    text = os.fspath(path)
    return Path(text).suffix in SUFFIXES or kind_of(_first_bytes(text), text).format is not None


def _of_format(kind: Format, model: str | bytes, name: str, how: Reading) -> Loaded:
    if kind == "xml" and is_legacy(model):
        from irdeconv.formats.legacy import read_legacy_files

        # Inference overrides its shapes, as those of another IR.
        done = read_legacy_files(model, replace(how, shapes={}, name=name))
        return Loaded(done.diagnostics, graph=done.graph)
    if kind == "xml" and how.weights == "random" and not Path("random").exists():
        message = "random weights are for dumps of oneDNN Graph and IRs of version 2 to 7"
        raise misused(message, "leave them out: the .bin beside the .xml is read")
    if kind == "xml":
        return load(model, how.weights, semantics=how.semantics, limits=how.limits, name=name)
    if how.weights is False:
        raise misused("only an IR can be read without its weights", "read it with them")
    if kind == "ird":
        why = "the text form holds its constants, and says how each deconvolution is meant"
        how.refuse(("weights", "semantics"), why)
        return _of_text(model, name, how.limits)
    return _of_import(model, name, how)


def is_legacy(model: Any) -> bool:
    """Whether a path or bytes hold an IR of version 2 to 7, which is imported."""
    if isinstance(model, str | PathLike):
        return legacy_version(_first_bytes(os.fspath(model))) is not None
    return isinstance(model, bytes) and legacy_version(model[:BEGIN]) is not None


@work.gc_paused()
def import_model(path: str | PathLike[str] | bytes | Any, how: Reading | None = None) -> Imported:
    """Import an ONNX model or a JSON dump of oneDNN Graph as `irdeconv.convert` does.

    `path` may be the bytes themselves, or an onnx.ModelProto, then called as `how` says.
    """
    how = how or Reading()
    data: bytes | Any | None = None
    name = how.name
    if isinstance(path, str | PathLike):
        name = os.fspath(path)
        try:
            begin = first_bytes(name, 64)
        except (OSError, ValueError) as e:
            raise unreadable(name, e, location=Location(SourceFile(name, b""))) from None
    elif isinstance(path, bytes | OnnxModel):
        data, begin = path, path[:64] if isinstance(path, bytes) else b""
    else:
        raise _no_model(path)
    if begin.lstrip(_BLANK).startswith((b"{", b"[")):
        from irdeconv.formats.onednn_reader import read_onednn

        text = read_file(name, current().json_bytes) if data is None else data
        return read_onednn(name, text, how)
    _refuse_other_models(begin, name)
    onnx = not isinstance(path, str | PathLike | bytes) or kind_of(begin, name).format == "onnx"
    if how.weights is not None and onnx:
        hint = "leave --weights out; it is for IR and dumps"
        raise misused("an ONNX model contains its weights", hint)
    from irdeconv.formats.onnx_reader import read_onnx

    return read_onnx(name, data, how)


def _refuse_other_models(begin: bytes, name: str) -> None:
    """Raise UsageError for formats that need no conversion."""
    text = begin.lstrip(_BLANK)
    found = "an IR" if text.startswith((b"<?xml", b"<net")) else None
    if re.match(rb"(//[^\n]*\s+)*graph\s", text):
        found = "the text form of a graph"
    if found:
        message = f"{name} is {found}, which needs no conversion"
        hint = "every verb reads it; infer -o FILE.xml writes an IR of it"
        raise misused(message, hint if Spelling.options else "read reads it, with any shapes")


def converted(model: str | PathLike[str] | bytes | OnnxModel, how: Reading) -> Imported:
    """Import a model of another format: ONNX, a dump of oneDNN Graph, an IR of version 2 to 7."""
    if is_legacy(model):
        from irdeconv.formats.legacy import read_legacy_files

        old: Any = model
        return read_legacy_files(old, how)
    if isinstance(how.weights, bytes):
        raise misused(
            "bytes of weights are for an IR of version 2 to 7", "name a file, or leave them out"
        )
    return import_model(model, how)


def _of_text(model: str | bytes, name: str, limits: Limits) -> Loaded:
    data = model if isinstance(model, bytes) else read_file(model, limits.xml_bytes)
    if len(data) > limits.xml_bytes:
        raise too_large(name, len(data), limits.xml_bytes)
    try:
        graph = parse(data.decode("utf-8-sig"), file=name)
        for each in (graph, *(b.graph for n in every_node(graph) for b in bodies_of(n))):
            each.lint()
    except UnicodeDecodeError as e:
        message = f"the text form is UTF-8; byte {e.start} is not"
        place = Location(SourceFile(name, data))
        raise InputError(Diagnostic("E702", "error", message, place)) from None
    except GraphError as e:
        raise InputError(e.diagnostics) from None
    if not any(n.op.side_effect or n.op.type == "Result" for n in graph.nodes()):
        message, hint = "the model has no Result", "nothing is computed: end it in at least one"
        place = Location(SourceFile(name, data), fixed=(1, 1))
        raise InputError(Diagnostic("E209", "error", message, place, hint=hint))
    graph.info.file = graph.info.file or name
    return Loaded(unknown_operations(graph), graph=graph)


def _of_import(model: str | bytes | OnnxModel, name: str, how: Reading) -> Loaded:
    if not isinstance(how.weights, str | PathLike | None):
        raise misused("weights: those of a dump are an .npz, or random", "write them into a file")
    done: Imported = import_model(model, replace(how, name=name))
    done.graph.info.files = tuple(map(str, done.files))
    return Loaded(done.diagnostics, graph=done.graph)


def _of_openvino(model: OpenVinoModel, how: Reading) -> Loaded:
    """Read a model as OpenVINO writes it; constants stay in that file, which is mapped."""
    serialize = needed("an openvino.Model", "openvino", "serialize").serialize
    name = f"<openvino.Model {model.get_friendly_name()}>"
    with TemporaryDirectory(prefix="irdeconv-") as folder:
        xml, weights = Path(folder, "model.xml"), Path(folder, "model.bin")
        try:
            serialize(model, str(xml), str(weights))
        except RuntimeError as e:
            raise _refused("OpenVINO cannot write this model", e) from None
        # Windows removes no file that is mapped.
        held = MemoryWeights(weights.read_bytes()) if os.name == "nt" else WeightsFile(weights)
        return load(xml.read_bytes(), held, semantics=how.semantics, limits=how.limits, name=name)


def openvino_model(graph: Graph) -> Any:
    """Return an `openvino.Model` of an inferred graph of standard operations.

    Raises UnsupportedError if the package is missing or refuses the model, InputError if constants
    have no data (E120).
    """
    openvino = needed("an openvino.Model", "openvino", "Core")
    xml, weights = ir_bytes(graph)
    try:
        return openvino.Core().read_model(model=xml, weights=weights)
    except RuntimeError as e:
        raise _refused("OpenVINO does not read this model", e) from None


def _refused(message: str, error: RuntimeError) -> UnsupportedError:
    reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), "")
    return UnsupportedError(Diagnostic("E506", "error", f"{message}: {reason.strip()}"))
