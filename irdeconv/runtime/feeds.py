"""Model inputs: from what the caller passes to checked arrays in Parameter order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.errors import Collector, UsageError
from irdeconv.graph import Graph, Node
from irdeconv.op import as_tuple
from irdeconv.spec import Array, Interval, Shape, format_shape
from irdeconv.suggest import did_you_mean

Feeds = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Binder:
    """The inputs of a graph, found once so that running does not search for them.

    `names` has every spelling under which a Parameter may be fed, `inputs` the usual one of each.
    """

    parameters: tuple[Node, ...]
    names: Mapping[str, Node]
    inputs: tuple[str, ...]

    @staticmethod
    def of(graph: Graph) -> Binder:
        """Return the binder of a graph."""
        return Binder(tuple(graph.parameters), graph.input_names(), tuple(graph.inputs))

    def bind(self, feeds: Feeds) -> list[Array]:
        """Return one array per Parameter, in order; UsageError with everything that does not fit.

        A mapping names inputs by a tensor name or the layer's name, a sequence is positional.
        Arrays are converted to the Parameter's element type only where no value changes.
        """
        found = Collector()
        by_name = isinstance(feeds, Mapping)
        given = self._by_name(feeds, found) if by_name else self._by_position(feeds, found)
        out = [_fit(n, given[n.id], found) for n in self.parameters if n.id in given]
        if found.errors:
            raise UsageError(found.diagnostics)
        return out

    def _by_position(self, feeds: Any, found: Collector) -> dict[int, Any]:
        values, count = list(feeds), len(self.parameters)
        if len(values) != count:
            names = ", ".join(n.name for n in self.parameters)
            found.add("E501", f"{len(values)} inputs given, the model has {count}: {names}")
        return {n.id: v for n, v in zip(self.parameters, values, strict=False)}

    def _by_name(self, feeds: Any, found: Collector) -> dict[int, Any]:
        given: dict[int, Any] = {}
        for name, value in feeds.items():
            node = self.names.get(name)
            if node is None:
                found.add(
                    "E501",
                    f'the model has no input "{name}"; it has {", ".join(self.inputs)}',
                    hint=did_you_mean(name, self.names),
                )
            else:
                given[node.id] = value
        for node in self.parameters:
            if node.id not in given and not found.errors:
                found.add("E501", f'input "{node.name}" {node.spec()} is missing', layer=node.name)
        return given


def _fit(node: Node, value: Any, found: Collector) -> Array:
    spec = as_tuple(node.op.infer())[0]
    array = np.asarray(value)
    if spec.dtype is not None:
        converted = _convert(array, spec.dtype)
        if converted is None:
            found.add(
                "E501",
                f'input "{node.name}" is {spec.dtype}, but an array of {array.dtype} was '
                "given, and converting it would change values",
                layer=node.name,
                hint=f"round it as you want it: array.astype({spec.dtype.container})",
            )
            return array
        array = converted
    if not fits(array.shape, spec.shape):
        found.add(
            "E501",
            f'input "{node.name}" has shape {format_shape(spec.shape)}, but an array of '
            f"shape {format_shape(array.shape)} was given",
            layer=node.name,
            hint=_refit(node.name, array.shape, spec.shape),
        )
    return array


def _refit(name: str, given: tuple[int, ...], shape: Shape | None) -> str:
    """Return what helps with an array of another shape."""
    if shape is not None and len(given) == len(shape):
        wanted = format_shape(given)
        return f"reshape the model: --shape '{name}{wanted}', infer(graph, {{'{name}': {wanted}}})"
    if shape is not None and len(given) == len(shape) - 1:
        return "array[None] adds an axis in front, for the batch"
    return "transpose or reshape the array"


def _convert(array: Array, dtype: ElementType) -> Array | None:
    target = dtype.container
    if array.dtype == target:
        return array
    if dtype.kind == "string":
        return array.astype(object) if array.dtype.kind in "UST" else None
    if array.dtype.kind not in "biuf" and array.dtype.isbuiltin != 2:  # 2: those of ml_dtypes
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(target)
        if dtype.is_real and array.dtype.kind == "f":
            # Rounding between floating-point types is expected, overflow is not.
            same = np.array_equal(np.isinf(converted), np.isinf(array))
        else:
            same = np.array_equal(converted.astype(np.float64), array.astype(np.float64))
    return converted if same else None


def fits(actual: tuple[int, ...], shape: Shape | None) -> bool:
    """Whether an array's shape is one of those that a (dynamic) shape stands for."""
    if shape is None:
        return True
    if len(actual) != len(shape):
        return False
    return all(
        (d.lo <= a and (d.hi is None or a <= d.hi)) if isinstance(d, Interval) else a == d
        for a, d in zip(actual, shape, strict=True)
    )
