"""Arrays in an .npz, or in memory, as the second side of a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv.dtypes import ElementType
from irdeconv.errors import Diagnostic, UsageError
from irdeconv.graph import Graph, Node, Value
from irdeconv.io.array_headers import UnreadableArray
from irdeconv.io.saved_arrays import SavedArrays
from irdeconv.spec import Array
from irdeconv.verify.compare.lockstep import layer_keys, other_parts
from irdeconv.verify.compare.partner import Fetched, Partner

DUMPED = "dump/"  # how `run --dump` names layers beside the outputs
_KINDS = {"float": "f", "int": "iu", "uint": "iu", "bool": "b", "string": "OSUT"}  # of NumPy
_POSITION = re.compile(r"(?:arr_?|out(?:put)?_?(?:\d+_)?)(\d+)", re.IGNORECASE)


class SavedPartner(Partner):
    """Arrays by name: each is read when its layer is reached, and let go of after it.

    A name is that of a layer (its port after a dot, where it has several outputs), a tensor or an
    output, perhaps behind `dump/`. Where no output is named, arr_0, out0, out0_1, ... stand for
    outputs by their last number; arrays that are as many as the outputs stand for them in order.
    """

    narrow = True

    def __init__(self, graph: Graph, arrays: Mapping[str, Array], file: str) -> None:
        self._arrays, self._file = arrays, file
        self._problems: list[Diagnostic] = []
        names = _names(graph)
        # A dump holds a layer that is an output twice; the layer is the one behind `dump/`.
        plain = {n.removeprefix(DUMPED): n for n in sorted(arrays, key=_is_dumped)}
        keys = layer_keys(graph)
        unlike = other_parts(keys.values(), plain, complete=False)
        named = ((names[p], n) for p, n in plain.items() if p in names)
        self._layers = {v: n for v, n in named if keys.get(v.node) not in unlike}
        self._outputs = _outputs(graph, list(arrays), set(names))
        self._output_types = [graph.spec(graph.inputs_of(n.id)[0]).dtype for n in graph.results]
        used = {*self._layers.values(), *filter(None, self._outputs)}
        inputs = {n.name for n in graph.nodes() if n.type in ("Parameter", "Const")}
        known = {n for n in arrays if n in used or n.removeprefix(DUMPED) in inputs | unlike}
        self._warn_of_unknown([n for n in arrays if n not in known])
        if not self._layers and not any(self._outputs):
            message = f"{file}: no array is named like a layer, tensor or output of the model"
            raise UsageError(Diagnostic("E505", "error", message))

    @staticmethod
    def open(graph: Graph, path: Path) -> SavedPartner:
        """Open an .npz; UsageError where it is none, OSError where it cannot be read."""
        try:
            archive = SavedArrays(path)
        except UnreadableArray as e:
            raise _unreadable(str(path), e) from None
        try:
            return SavedPartner(graph, archive, str(path))
        except BaseException:
            archive.close()
            raise

    def fetch(self, node: Node) -> Fetched | None:
        """Read the layer's arrays."""
        ports = range(max(node.outputs, 1))
        found = [self._layers.get(Value(node.id, p)) for p in ports]
        if not any(found):
            return None
        arrays = (self._read(n, node.spec(p).dtype) if n else None for p, n in enumerate(found))
        return Fetched("array", tuple(arrays))

    def outputs(self) -> list[Array | None]:
        """Read the outputs; None for those that are not there."""
        pairs = zip(self._outputs, self._output_types, strict=True)
        return [None if n is None else self._read(n, dtype) for n, dtype in pairs]

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._arrays, SavedArrays):
            self._arrays.close()

    def warnings(self) -> list[Diagnostic]:
        """Return arrays that stand for nothing, and element types that are not the layer's."""
        return self._problems

    def _read(self, name: str, dtype: ElementType | None) -> Array:
        """Return an array as what it is meant to be, the tensor's element type being `dtype`."""
        try:
            array = np.asarray(self._arrays[name])
        except UnreadableArray as e:
            raise _unreadable(f"{self._file}[{name}]", e) from None
        if dtype is not None and _lost_its_type(array.dtype, dtype):
            return array.view(dtype.container)
        if array.dtype.kind not in "fiubOSUT" and array.dtype.isbuiltin != 2:
            why = f"elements of type {array.dtype} are neither real numbers nor texts"
            raise _unreadable(f"{self._file}[{name}]", why)
        if dtype is not None and array.dtype.kind not in (*_KINDS[dtype.kind], "V"):
            message = f'{self._file}: array "{name}" is {array.dtype}, the layer\'s output {dtype}'
            warning = Diagnostic("W501", "warning", message, layer=name)
            if warning not in self._problems:  # an output's array is read for its layer, too
                self._problems.append(warning)
        return array

    def _warn_of_unknown(self, names: Sequence[str]) -> None:
        if names:
            some = ", ".join(f'"{n}"' for n in names[:8]) + (", ..." if len(names) > 8 else "")
            message = f"{self._file}: no layer, tensor or output is named {some}"
            self._problems.append(Diagnostic("W500", "warning", message))


def _lost_its_type(found: np.dtype[Any], dtype: ElementType) -> bool:
    """Whether bytes are of an element type that .npy has no name for: bfloat16 and its like."""
    container = dtype.container
    plain = found.kind == "V" and found.fields is None and found.isbuiltin != 2
    return plain and container.isbuiltin == 2 and found.itemsize == container.itemsize


def _is_dumped(name: str) -> bool:
    return name.startswith(DUMPED)


def _names(graph: Graph) -> dict[str, Value]:
    """Return what every name stands for; tensors before layers, what is ambiguous is left out."""
    layers: dict[str, set[Value]] = {}
    tensors: dict[str, set[Value]] = {}
    for node in graph.nodes():
        if node.type in ("Const", "Result", "Parameter"):
            continue
        for port in range(max(node.outputs, 1)):
            value = Value(node.id, port)
            spelled = node.output_key(port)
            layers.setdefault(spelled, set()).add(value)
            if node.outputs > 1 and not port:
                layers.setdefault(node.name, set()).add(value)
            for name in node.names_of(port):
                tensors.setdefault(name, set()).add(value)
    found = layers | tensors
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def _outputs(graph: Graph, names: list[str], known: set[str]) -> list[str | None]:
    """Return the array of every output: by name, by number, in order."""
    named: list[str | None] = []
    for name, result in zip(graph.outputs, graph.results, strict=True):
        producer = graph.inputs_of(result.id)[0]
        node = graph.node(producer.node)
        layer = (node.name,) if node.outputs < 2 else ()
        candidates = (name, result.name, *node.names_of(producer.port), *layer)
        named.append(next((c for c in candidates if c in names), None))
    if any(named) or any(n.removeprefix(DUMPED) in known for n in names):
        return named
    if len(names) == len(named):
        return list(names)
    numbered: dict[int, str] = {}
    for n in names:
        match = _POSITION.fullmatch(n)
        if match:
            numbered.setdefault(int(match[1]), n)
    return [numbered.get(i) for i in range(len(named))]


def _unreadable(what: str, why: Any) -> UsageError:
    return UsageError(Diagnostic("E505", "error", f"{what}: not an .npz of plain arrays: {why}"))
