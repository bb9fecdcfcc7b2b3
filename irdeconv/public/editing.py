"""Cut pieces out, rename, simplify."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from irdeconv.editing.extract import extract as _extract
from irdeconv.editing.rename import Substitution
from irdeconv.editing.rename import rename as _rename
from irdeconv.editing.simplify import MAX_GROWTH, Simplified
from irdeconv.editing.simplify import simplify as _simplify
from irdeconv.graph import Graph
from irdeconv.models import ModelLike, graph_of


def extract(
    model: ModelLike,
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    *,
    add: str | Sequence[str] = (),
) -> Graph:
    """Return a piece of a model as a graph of its own, constants included.

    `from_` names where it begins: in front of layers, or at tensors; without it at the model's
    inputs. `to` names where it ends: tensors, or all outputs of layers; without it at the model's
    outputs. `add` names outputs besides these. A text is a layer's name, or else a tensor's
    (`layer:NAME` and `tensor:NAME` say which); `NAME:PORT` is an output of a layer, `PORT:NAME`
    what it reads at an input. Any other tensor that the piece reads from outside becomes an input
    as well. New inputs have the inferred element types and shapes, and the tensor's names. Raises
    UsageError for a name that is none (E503) and where there is nothing to cut out (E507),
    InferenceError where the layers of the piece do not fit together, and what `read` raises.

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
    """Return a copy of a model in which layers and tensors have other names.

    `names` maps old names to new ones, all at the same time. An old name means the layer and the
    tensor that have it, `layer:OLD` and `tensor:OLD` one of them; inputs and outputs are tensors.
    `pattern` is a regular expression and a replacement, applied to all other names as `re.sub`
    does. Raises UsageError for an old name that nothing has (E503) and for new ones that are empty
    or would stand for two things (E508), and what `read` raises.

    >>> model = ird.rename("ir_samples/openvino/segmentation_head.xml", {"image": "photo"})
    >>> model.inputs
    ['photo']
    """
    substitutions = [Substitution(re.compile(pattern[0]), pattern[1], True)] if pattern else []
    return _rename(graph_of(model), names, substitutions).graph


def simplify(
    model: ModelLike, *, max_growth: int = MAX_GROWTH, decompress: bool = False
) -> Simplified:
    """Return a model in fewer layers that computes the same, and what went: `graph, report = ...`.

    What is computed of constants or follows from shapes is folded; layers that change nothing,
    duplicates, and what no result needs go. Inputs, outputs, their names and variables stay. A
    folded constant takes at most `max_growth` bytes more than what it is computed of; bodies of
    loops and branches stay as they are, and weights that
    are stored in fewer bits stay so unless `decompress` is set. Run node by node (`fuse=False`,
    `form=None`) both give the same bits. Raises InferenceError where the graph does not fit
    together, and what `read` raises.

    >>> graph, report = ird.simplify("ir_samples/openvino/same_upper_output_shape.xml")
    >>> report.steps["dead"]
    0
    """
    return _simplify(graph_of(model), max_growth=max_growth, decompress=decompress)


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given
