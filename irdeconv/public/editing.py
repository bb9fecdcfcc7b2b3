"""Cut pieces out, rename, simplify."""

from __future__ import annotations

from collections.abc import Sequence

from irdeconv.editing import extract as _extract
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
    UsageError for a name that is none (E503) and where there is nothing to cut out (E507), and what
    `read` raises.

    >>> model = "ir_samples/openvino/segmentation_head.xml"
    >>> part = ird.extract(model, from_="up1", to="up2")
    >>> part.inputs, part.outputs
    (['pool2', 'pool1'], ['up2'])
    """
    return _extract(graph_of(model), _texts(from_), _texts(to), _texts(add))


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given
