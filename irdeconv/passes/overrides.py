"""Shapes that a caller gives to the model's inputs, in place of the declared ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from irdeconv.errors import Collector, UsageError
from irdeconv.graph import Graph, Node
from irdeconv.ops.basic import Parameter
from irdeconv.spec import Dim, Shape, format_shape, parse_shape
from irdeconv.suggest import did_you_mean

ShapeLike = str | Sequence[Any] | None


def input_shapes(graph: Graph, shapes: Mapping[str, ShapeLike]) -> dict[int, Shape | None]:
    """Return the wanted shapes of inputs by node id.

    An input is named as when it is fed; the empty name is the only input. Raises UsageError with
    everything that does not fit.
    """
    problems, out = Collector(), {}
    names = graph.input_names()
    if len(graph.parameters) == 1:
        names = {"": graph.parameters[0], **names}
    for name, wanted in shapes.items():
        node = names.get(name)
        if node is None:
            message = f'the model has no input "{name}"; it has {", ".join(graph.inputs)}'
            hint = did_you_mean(name, names) if name else "name one of them"
            problems.add("E310", message, hint=hint)
            continue
        try:
            out[node.id] = _input_shape(name, node, wanted)
        except ValueError as e:
            problems.add("E310", str(e), layer=node.name)
    if problems.errors:
        raise UsageError(problems.diagnostics)
    return out


def _input_shape(name: str, node: Node, wanted: ShapeLike) -> Shape | None:
    """Return the wanted shape of an input; ValueError says why it does not fit.

    As with OpenVINO's reshape it may change a static shape; only a change of rank is surely a
    mistake.
    """
    try:
        shape = parse_shape_like(wanted)
    except ValueError as e:
        raise ValueError(f'shape of input "{name}": {e}') from e
    if not isinstance(node.op, Parameter):
        raise ValueError(f'input "{name}" is a Parameter of unknown version {node.op.version}')
    declared = node.op.infer().shape
    if declared is not None and shape is not None and len(shape) != len(declared):
        raise ValueError(
            f'input "{name}" has shape {format_shape(declared)}; {format_shape(shape)} does not '
            f"fit: ranks {len(declared)} and {len(shape)}"
        )
    return shape


def parse_shape_like(wanted: ShapeLike) -> Shape | None:
    """Return a shape from a text, or from ints, None and "lo..hi"; ValueError says what is wrong.

    None stands for an unknown rank.
    """
    if wanted is None or isinstance(wanted, str):
        return None if wanted is None else parse_shape(wanted)
    if not isinstance(wanted, Iterable):
        raise ValueError(f"{wanted!r} is not a list of dimensions")
    dims: list[Dim] = []
    for d in wanted:
        parsed = parse_shape("?" if d is None else str(d))
        if parsed is None or len(parsed) != 1:
            raise ValueError(f'"{d}" is not a dimension')
        dims.append(parsed[0])
    return tuple(dims)
