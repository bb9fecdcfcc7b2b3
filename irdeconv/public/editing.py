"""Cut pieces out, rename, simplify."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from irdeconv.base import work
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.ir.graph import Graph
from irdeconv.runtime.extract import extract as _extract
from irdeconv.runtime.rename import Substitution
from irdeconv.runtime.rename import rename as _rename
from irdeconv.runtime.simplify import MAX_GROWTH, Simplified
from irdeconv.runtime.simplify import simplify as _simplify


@work.counted
def extract(
    model: ModelLike,
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    *,
    add: str | Sequence[str] = (),
) -> Graph:
    """Return a piece of a model as a graph of its own, constants included.

    `from_` names the layers or tensors at which the piece begins; layers belong to it (default: the
    model's inputs). `to` names its outputs: tensors, or layers for all of their outputs (default:
    the model's outputs). `add` names further outputs. A name is that of a layer, or else of a
    tensor; `layer:NAME` and `tensor:NAME` say which. `NAME:PORT` is an output of a layer,
    `PORT:NAME` the tensor at one of its inputs.

    Any other tensor that the piece reads from outside becomes an input as well. New inputs have the
    inferred element types and shapes, and the names of the tensors.

    Raises UsageError for an unknown name (E503) and if there is nothing to cut out (E507),
    InferenceError if the layers of the piece do not fit together, and the errors of `read`.

    >>> model = "ir_samples/openvino/segmentation_head.xml"
    >>> part = ird.extract(model, from_="up1", to="up2")
    >>> part.inputs, part.outputs
    (['pool2', 'pool1'], ['up2'])
    """
    return _extract(graph_of(model), _texts(from_), _texts(to), _texts(add))


def rename(
    model: ModelLike,
    names: Mapping[str, str] | None = None,
    *,
    pattern: tuple[str, str] | None = None,
) -> Graph:
    """Return a copy of a model with other names of layers and tensors.

    `names` maps old names to new ones; all renaming happens at once. An old name means both the
    layer and the tensor that have it, `layer:OLD` and `tensor:OLD` only one of them. Inputs and
    outputs are tensors. `pattern` is a regular expression and a replacement, applied to all other
    names as `re.sub` does.

    Raises UsageError for an unknown old name (E503), for new names that are empty or not unique
    (E508), and the errors of `read`.

    >>> model = ird.rename("ir_samples/openvino/segmentation_head.xml", {"image": "photo"})
    >>> model.inputs
    ['photo']
    """
    substitutions = [Substitution(re.compile(pattern[0]), pattern[1], True)] if pattern else []
    return _rename(graph_of(model), names, substitutions).graph


@work.counted
def simplify(
    model: ModelLike, *, max_growth: int = MAX_GROWTH, decompress: bool = False, fuse: bool = False
) -> Simplified:
    """Return the same model with fewer layers, and a report of the removed: `graph, report = ...`.

    Layers whose values depend only on constants or shapes are folded. Layers that change nothing,
    duplicates, and layers that no output needs are dropped. Inputs, outputs, their names and
    variables stay, and so do bodies of loops and branches. A folded constant may take `max_growth`
    bytes more than the constants that it replaces. Weights that are stored in fewer bits stay
    compressed unless `decompress` is set. Run node by node (`fuse=False`, `form=None`), both models
    give the same bits.

    `fuse` also folds batch normalization, scale and bias into convolutions, deconvolutions and
    matrix products. This rounds weights: `report.fused` has a bound for each layer.

    Raises InferenceError if the graph does not fit together, and the errors of `read`.

    >>> graph, report = ird.simplify("ir_samples/openvino/same_upper_output_shape.xml")
    >>> report.steps["dead"]
    0
    """
    return _simplify(graph_of(model), max_growth=max_growth, decompress=decompress, fuse=fuse)


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given
