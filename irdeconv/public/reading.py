"""Read, check, infer, print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.base.errors import Collector, Diagnostic, InferenceError, UnsupportedError, UsageError
from irdeconv.base.limits import Limits, current
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats import text
from irdeconv.formats.models import (
    UNKNOWN,
    ModelLike,
    OnnxModel,
    converted,
    diagnose,
    graph_of,
    held,
    is_onnx,
)
from irdeconv.formats.onnx_container import load_file
from irdeconv.formats.onnx_types import check_nodes, set_shapes
from irdeconv.formats.reading import Loaded, Reading, Weights
from irdeconv.formats.text import ELIDED
from irdeconv.formats.text import parse as parse
from irdeconv.formats.xml_layer import layout_misfits
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, GraphError
from irdeconv.ops.basic import Parameter
from irdeconv.rewrite.infer_specs import (
    ShapeLike,
    body_misfits,
    infer_specs,
    input_shapes,
    naming_shapes,
    parse_shape_like,
    refused,
    require_specs,
    variable_misfits,
)
from irdeconv.rewrite.standardize import misfits, standardize
from irdeconv.rewrite.targets import Target, Violation, check_graph, load_target


@checked
def read(
    model: ModelLike,
    weights: Weights | None = None,
    semantics: Semantics = "runtime",
    *,
    limits: Limits | None = None,
    name: str = "<bytes>",
) -> Graph:
    """Read a model: an IR (v2 to v7, v10, v11) and its weights, ONNX, a oneDNN dump, the text form.

    `model` is a path, the bytes of a file (called `name` in diagnostics), an `openvino.Model` or an
    `onnx.ModelProto`. The content of a file decides its format. `weights` is the `.bin` of an IR,
    or its bytes; the default is the file beside the `.xml` with the same stem. Constants are
    memory-mapped, and read when their values are needed. `semantics` chooses the meaning of
    deconvolutions if OpenVINO's document and runtime differ.

    Raises InputError with every diagnostic, and FileAccessError for a file that cannot be read; a
    missing one is also a FileNotFoundError.

    >>> ird.read("ir_samples/openvino/group_deconv.xml")
    <Graph "group_deconv": 4 layers, 1 input x f32[2,6,4,5], 1 output deconv f32[2,4,9,13]>
    """
    return graph_of(model, weights, semantics, limits=limits, name=name)


@checked
@work.counted
def convert(
    model: str | PathLike[str] | bytes | OnnxModel,
    weights: str | PathLike[str] | bytes | None = None,
    *,
    shapes: Mapping[str, ShapeLike] | None = None,
    seed: int = 0,
    semantics: Semantics = "runtime",
) -> Graph:
    """Import an ONNX model (extra `onnx`), a JSON dump of oneDNN Graph, an IR v2 to v7, or bytes.

    `read` imports them as well; this function has the options that only such models need.
    Deconvolutions keep the meaning of their own format, tensors their names. `weights` is an .npz
    by tensor id or name for a dump, the `.bin` or its bytes for an old IR, or "random" (with
    `seed`) for both. `shapes` replaces declared shapes of inputs.

    Raises UnsupportedError with everything that is not covered, InputError for a bad file.

    >>> dump = '''{"graph": [{"id": 1, "name": "up", "kind": "ReLU", "attrs": {},
    ...   "inputs": [{"id": 0, "dtype": "f32", "shape": [1, 8]}],
    ...   "outputs": [{"id": 1, "dtype": "f32", "shape": [1, 8]}]}]}'''
    >>> g = ird.convert(dump.encode(), shapes={"t0": [4, 8]})
    >>> g.parameters[0].spec()
    Spec(f32[4,8])
    """
    how = Reading(weights=weights, shapes=shapes or {}, seed=seed, semantics=semantics)
    return converted(model, how).graph


@checked
@work.counted
def validate(
    model: ModelLike,
    weights: Weights | None = None,
    *,
    semantics: Semantics = "runtime",
    shapes: Mapping[str, ShapeLike] | None = None,
    target: str | PathLike[str] | Target | None = None,
    limits: Limits | None = None,
    name: str = "<bytes>",
) -> list[Diagnostic]:
    """Return every problem of a model, in file order; never raises for a bad file.

    An empty list means that the model is good. `model` is anything that `read` takes, or a Graph.
    `weights`, `semantics` and `limits` say how a file is read; with a Graph they are a UsageError.
    `shapes` are given as to `infer`; if they do not fit, that is one of the problems. With a
    `target`, a packaged target's name, a .toml file or a Target, each condition that a layer does
    not meet is a problem as well (E420).

    >>> for d in ird.validate("ir_samples/broken/wrong_channels.xml"):
    ...     print(d.severity, d.code, d.location.position, d.layer, d.hint, sep="; ")
    error; E302; (27, 3); deconv; the filter's first two axes multiply to the data's channel axis
    """
    reading = Reading(
        weights=weights,
        semantics=semantics,
        limits=limits or current(),
        shapes=shapes or {},
        name=name,
    )
    with reading.limits.applied():
        loaded_target = None if target is None else load_target(target)
        loaded = diagnose(model, reading)
        found = _problems(model, loaded, reading)
        understood = all(d.code in UNKNOWN for d in found if d.severity == "error")
        if loaded_target is not None and understood:
            found += _beyond_target(model, loaded, reading, loaded_target)
        declared = partial(graph_of, model, weights, semantics, limits=limits, name=name)
        found = refused(found, reading.shapes, lambda: infer(declared()))
        return _in_file_order(found)


@work.gc_paused()
def _problems(model: ModelLike, loaded: Loaded, reading: Reading) -> list[Diagnostic]:
    """Infer a model that was read; everything found."""
    found = list(loaded.diagnostics)
    if loaded.graph is None:
        return found
    graph = loaded.graph.copy() if loaded.graph is held(model) else loaded.graph
    try:
        graph.lint()
        wanted = input_shapes(graph, reading.shapes)
        declared = [] if is_onnx(model) else body_misfits(graph)
        problems = infer_specs(graph, wanted, remarks=True, known=found)
        problems += misfits(graph) if wanted else []
        if not any(d.severity == "error" for d in problems):
            problems += declared
        found += [*problems, *layout_misfits(graph), *variable_misfits(graph)]
    except (GraphError, UsageError) as e:
        found += e.diagnostics
    return found


def _beyond_target(
    model: ModelLike, loaded: Loaded, reading: Reading, target: Target
) -> list[Diagnostic]:
    """Return a diagnostic for each condition of a target that a layer does not meet."""
    violations: list[Violation] = []
    if is_onnx(model):
        source: Any = model
        file = load_file(source)
        set_shapes(file, {n: parse_shape_like(s) for n, s in reading.shapes.items()})
        name = reading.name if isinstance(model, bytes) else file.name
        violations = check_nodes(file.proto, target, location=Location(SourceFile(name, b"")))
    elif loaded.graph is not None:
        try:
            violations = check_graph(standardize(infer(loaded.graph, reading.shapes)), target)
        except (InferenceError, UnsupportedError) as e:
            return e.diagnostics
    problems = Collector(most=current().reports)
    graph = loaded.graph
    idle = graph is not None and not any(n.op.deconvolution for n in graph.nodes())
    idle_hint = "the model has no deconvolution for lower --target; change it or the target"
    hint = f"{idle_hint}, or lower the original" if idle else None
    for v in violations:
        message = f'{v.operation} "{v.layer}" does not run on {target.name}: {v.text}'
        problems.add("E420", message, location=v.location, layer=v.layer, hint=hint)
    problems.count_rest()
    return problems.diagnostics


def _in_file_order(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Sort by line and column; those without a place come first. Drop exact repetitions."""
    seen = {(d.code, str(d.location), d.message): d for d in reversed(found)}
    kept = [d for d in found if seen[d.code, str(d.location), d.message] is d]
    return sorted(kept, key=lambda d: (d.location and d.location.position) or (0, 0))


@checked
@work.counted
def infer(model: ModelLike, shapes: Mapping[str, ShapeLike] | None = None) -> Graph:
    """Return a copy of a model with the element types and shapes of every node.

    `shapes` gives inputs other shapes, by name: sequences of ints, None or "lo..hi", or a text such
    as "[1,3,?,?]".

    Raises UsageError if a shape names no input or contradicts it, InferenceError with everything
    that does not fit, and the errors of `read`.

    >>> g = ird.infer("ir_samples/openvino/dynamic.xml", {"x": [1, 2, 3, None]})
    >>> [(n.name, str(n.spec())) for n in g.nodes("ConvolutionBackpropData")]
    [('deconv', 'f32[1,3,6,?]')]
    """
    return reshaped(model, shapes)


def reshaped(
    model: ModelLike, shapes: Mapping[str, ShapeLike] | None = None, *, needed: bool = False
) -> Graph:
    """Return the graph of `infer`; with `needed` layers that no output needs may not fit."""
    read = graph_of(model, shapes=shapes)
    out = read.copy() if read is held(model) else read
    overrides = input_shapes(out, shapes or {})
    for node, shape in overrides.items():
        old = out.node(node).op
        assert isinstance(old, Parameter)
        out.replace_op(node, Parameter(shape, old.element_type))
    with naming_shapes(shapes or {}, partial(reshaped, model, needed=needed)):
        require_specs(out, needed=needed, compare=not overrides)
        if overrides and (wrong := misfits(out)):
            raise InferenceError(wrong)
    return out


@checked
def dump(
    model: ModelLike, *, elide: int | None = ELIDED, comments: Mapping[int, str] | None = None
) -> str:
    """Return a model in the text form, a line per layer; `parse` and `read` take it back.

    Every layer follows its inputs, otherwise in the order of the ids. Constants of up to 16
    elements are readable, larger ones are base64 of their `.bin` bytes. Of constants with more
    bytes than `elide` (64 KiB) only the size and a hash are printed; None prints all. `comments`
    maps ids of layers to lines that are printed above them.

    >>> print(ird.dump("ir_samples/openvino/dynamic.xml", elide=0).splitlines()[3][:88])
      %2 "deconv" = opset1.ConvolutionBackpropData(%0, %1) {strides = [2, 2], pads_begin = [
    """
    return text.dump(graph_of(model), elide=elide, comments=comments)
