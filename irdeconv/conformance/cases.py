"""The cases of a suite: which layers, under which names, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from irdeconv.conformance.edges import EDGES
from irdeconv.conformance.grids import grid
from irdeconv.conformance.layer import DIALECTS, Refused, SuiteLayer
from irdeconv.conformance.networks import NETWORKS
from irdeconv.conformance.rows import layer_of
from irdeconv.constant import ArrayData
from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.errors import misused
from irdeconv.graph import Graph, Value
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.spec import Array
from irdeconv.suggest import did_you_mean

SETS = {
    "quick": "every value of every attribute once",
    "pairs": "every pair of values of two attributes",
    "edges": "layers at the limits",
    "networks": "a layer of each of 23 published networks",
}
FULL = ("pairs", "edges", "networks")


@dataclass(frozen=True, kw_only=True)
class SuiteCase:
    """A layer with a name that files may have; `spoil` names the array that gets an infinity."""

    name: str
    set: str
    tests: str
    layer: SuiteLayer
    spoil: str | None = None


def chosen_sets(names: Sequence[str]) -> list[str]:
    """Return the sets of some names, "full" being all but quick; UsageError."""
    out: list[str] = []
    for name in names:
        if name != "full" and name not in SETS:
            message = f'there is no set "{name}": {", ".join([*SETS, "full"])}'
            raise misused(message, did_you_mean(name, [*SETS, "full"]))
        out += FULL if name == "full" else (name,)
    return list(dict.fromkeys(out))


def chosen_dialects(names: Sequence[str]) -> list[str]:
    """Return the dialects of some names, "all" being all of them; UsageError."""
    out: list[str] = []
    for name in names:
        if name != "all" and name not in DIALECTS:
            message = f'there is no dialect "{name}": {", ".join([*DIALECTS, "all"])}'
            raise misused(message, did_you_mean(name, [*DIALECTS, "all"]))
        out += DIALECTS if name == "all" else (name,)
    return list(dict.fromkeys(out))


def packaged(
    dialects: Sequence[str], sets: Sequence[str], *, full_size: bool = False
) -> list[SuiteCase]:
    """Return the packaged cases of some dialects and sets."""
    makers: dict[str, Callable[[str], Iterable[SuiteCase]]] = {
        "quick": lambda d: _crossed(d, "quick", 1),
        "pairs": lambda d: _crossed(d, "pairs", 2),
        "edges": _edges,
        "networks": lambda d: _networks(d, full_size),
    }
    return [case for d in dialects for s in sets for case in makers[s](d)]


def selected(cases: Sequence[SuiteCase], patterns: Sequence[str]) -> list[SuiteCase]:
    """Return the cases whose name fits one of the patterns (`*`, `?`); all without a pattern."""
    found = [c for c in cases if not patterns or any(fnmatchcase(c.name, p) for p in patterns)]
    if not found:
        raise misused(f"no case is named like {', '.join(patterns)}", "suite list shows the names")
    return found


def _crossed(dialect: str, name: str, strength: int) -> Iterator[SuiteCase]:
    for number, row in enumerate(grid(dialect, strength).rows, 1):
        layer = layer_of(dialect, row, grow=True)
        tests = SETS[name]
        yield SuiteCase(name=f"{dialect}-{name}-{number:03}", set=name, tests=tests, layer=layer)


def _edges(dialect: str) -> Iterator[SuiteCase]:
    for edge in EDGES:
        row = dict(edge.row)
        if dialect == "tensorrt" and row.get("axes") == 1:
            continue
        try:
            layer = layer_of(dialect, row)
        except Refused:
            continue  # this dialect has no such layer
        name = f"{dialect}-edge-{edge.name}"
        yield SuiteCase(name=name, set="edges", tests=edge.tests, layer=layer, spoil=edge.spoil)


def _networks(dialect: str, full_size: bool) -> Iterator[SuiteCase]:
    for network in NETWORKS:
        row: dict[str, Any] = network.row(full_size=full_size)
        if dialect == "tensorrt" and row["output_padding"]:  # it has none, but a smaller end does
            row |= {"output_padding": 0, "pads_end": row["pads_end"] - row["output_padding"]}
        try:
            layer = layer_of(dialect, row)
        except Refused:
            continue
        size = "" if full_size else ", with few channels and elements"
        tests = f"{network.network}: K {network.kernel}, S {network.stride}, P {network.pad}{size}"
        yield SuiteCase(
            name=f"{dialect}-network-{network.slug}", set="networks", tests=tests, layer=layer
        )


def graph_of(case: SuiteCase, inputs: dict[str, Array], constants: dict[str, Array]) -> Graph:
    """Return the model of a case in its own dialect: the layer `deconv`, the output `y`."""
    graph = Graph()
    graph.info.name = case.name
    values = []
    for port in case.layer.port_shapes:
        dtype = ELEMENT_TYPES["i64"] if port == "output_shape" else case.layer.dtype
        if port in inputs:
            op: Any = Parameter(shape=inputs[port].shape, element_type=dtype)
        else:
            array = np.ascontiguousarray(constants[port])
            op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
        made = graph.add(op, name=port)
        made.tensor_names = ((port,),)
        values.append(Value(made.id))
    node = graph.add(case.layer.op, values, name="deconv")
    node.tensor_names = (("y",),)
    graph.add(Result(), [Value(node.id)], name="y/sink_port_0")
    return graph
