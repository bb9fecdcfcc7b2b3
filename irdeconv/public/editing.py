"""Cut pieces out, rename, simplify."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.base.errors import misused
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.formats.onnx_container import OnnxFile, stage_file
from irdeconv.formats.onnx_editing import keep_piece, outline, rename_parts, rewritten, to_edit
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.xml_writer import stage_ir
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.editing import Substitution, cut_out
from irdeconv.runtime.editing import rename as _rename
from irdeconv.runtime.peers import outlined
from irdeconv.runtime.simplify import MAX_GROWTH, Simplified
from irdeconv.runtime.simplify import simplify as _simplify


@checked
@work.counted
def extract(
    model: ModelLike,
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    *,
    add: str | Sequence[str] = (),
    path: str | PathLike[str] | None = None,
) -> Graph:
    """Return a piece of a model as a graph of its own, constants included.

    `from_` names the layers or tensors at which the piece begins; layers belong to it (default: the
    model's inputs). `to` names its outputs: tensors, or layers for all of their outputs (default:
    the model's outputs). `add` names further outputs. A name is that of a layer, or else of a
    tensor; `layer:NAME` and `tensor:NAME` say which. `NAME:PORT` is an output of a layer,
    `PORT:NAME` the tensor at one of its inputs.

    Any other tensor that the piece reads from outside becomes an input as well. New inputs have the
    inferred element types and shapes, and the names of the tensors.

    `path` is where the piece is written. An .onnx gets nodes of an ONNX model as they are, of any
    operation; the layers of the graph are these nodes.

    Raises UsageError for an unknown name (E503) and if there is nothing to cut out (E507),
    InferenceError if the layers of the piece do not fit together, and the errors of `read`.

    >>> model = "ir_samples/openvino/segmentation_head.xml"
    >>> part = ird.extract(model, from_="up1", to="up2")
    >>> part.inputs, part.outputs
    (['pool2', 'pool1'], ['up2'])
    """
    source = to_edit(model, path)
    graph = graph_of(model) if source is None else outlined(source)
    piece = cut_out(graph, _texts(from_), _texts(to), _texts(add)).graph
    write_edited(piece, path, source, lambda onnx: keep_piece(onnx, piece))
    return piece


@checked
def rename(
    model: ModelLike,
    names: Mapping[str, str] | None = None,
    *,
    pattern: tuple[str, str] | None = None,
    path: str | PathLike[str] | None = None,
) -> Graph:
    """Return a copy of a model with other names of layers and tensors.

    `names` maps old names to new ones; all renaming happens at once. An old name means both the
    layer and the tensor that have it, `layer:OLD` and `tensor:OLD` only one of them. Inputs and
    outputs are tensors. `pattern` is a regular expression and a replacement, applied to all other
    names as `re.sub` does. `path` is where the model is written. An .onnx gets the ONNX model with
    other names; the layers of the graph are its nodes.

    Raises UsageError for an unknown old name (E503), for new names that are empty or not unique
    (E508), and the errors of `read`.

    >>> model = ird.rename("ir_samples/openvino/segmentation_head.xml", {"image": "photo"})
    >>> model.inputs
    ['photo']
    """
    try:
        substitutions = [
            Substitution(re.compile(searched), replacement, True)
            for searched, replacement in ([pattern] if pattern else [])
        ]
        for one in substitutions:  # so that a wrong group is an error now
            re.compile(f"{one.pattern.pattern}|").sub(one.replacement, "")
    except (re.error, IndexError, TypeError, ValueError) as e:
        raise misused(f"pattern {pattern}: no regular expression and replacement: {e}") from None
    source = to_edit(model, path)
    graph = graph_of(model) if source is None else outline(source)
    done = _rename(graph, names, substitutions)
    write_edited(done.graph, path, source, lambda onnx: rename_parts(onnx, *done.new_names))
    return done.graph


@checked
@work.counted
def simplify(
    model: ModelLike,
    *,
    max_growth: int = MAX_GROWTH,
    decompress: bool = False,
    fuse: bool = False,
    path: str | PathLike[str] | None = None,
) -> Simplified:
    """Return the same model with fewer layers, and a report of the removed: `graph, report = ...`.

    Layers whose values depend only on constants or shapes are folded. Layers that change nothing,
    duplicates, and layers that no output needs are dropped. Inputs, outputs, their names and
    variables stay, and so do bodies of loops and branches. A folded constant may take `max_growth`
    bytes more than the constants that it replaces. Weights that are stored in fewer bits stay
    compressed unless `decompress` is set. Run node by node (`fuse=False`, `form=None`), both models
    give the same bits.

    `fuse` also folds batch normalization, scale and bias into convolutions, deconvolutions and
    matrix products. This rounds weights: `report.fused` has a bound for each layer. `path` is where
    the model is written. An .onnx gets the ONNX model, whose other nodes stay as they are.

    Raises InferenceError if the graph does not fit together, and the errors of `read`.

    >>> graph, report = ird.simplify("ir_samples/openvino/same_upper_output_shape.xml")
    >>> report.steps["dead"]
    0
    """
    source = to_edit(model, path)
    graph = imported(model, source)
    done = _simplify(graph, max_growth=max_growth, decompress=decompress, fuse=fuse)

    def edit(onnx: OnnxFile) -> list[Any]:
        return rewritten(onnx, graph, done.graph, max_growth, decompress=decompress)

    write_edited(done.graph, path, source, edit)
    return done


def imported(model: ModelLike, source: OnnxFile | None) -> Graph:
    """Return the graph of a model, inferred if it is an ONNX `source`."""
    return graph_of(model) if source is None else inferred(graph_of(loaded(source)))


def write_edited(
    graph: Graph,
    path: str | PathLike[str] | None,
    source: OnnxFile | None,
    edit: Callable[[OnnxFile], list[Any] | None],
) -> None:
    """Write a graph to `path`, if there is one; an ONNX `source` is edited in place and written."""
    if path is not None:
        with together() as files:
            stage_edited(source or graph, Path(path), files, edit(source) if source else None)


def stage_edited(
    model: Graph | OnnxFile,
    path: Path,
    files: Files,
    added: Sequence[Any] | None = None,
    *,
    force: bool = False,
) -> None:
    """Write a graph, or an edited ONNX model with its new tensors, into place with `files`."""
    if isinstance(model, Graph):
        stage_ir(standardize(model), path, files)
    else:
        stage_file(model, added or (), path, files, force=force)


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given
