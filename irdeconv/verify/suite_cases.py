"""The cases of a suite: layers, names, order.

Packaged grids cross the values of every attribute of every dialect, so that every pair of values
that may occur together does (covering arrays). Others are layers at the limits, and one
deconvolution of each of several published networks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import did_you_mean, misused
from irdeconv.ir.attributes import Ints
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.verify.suite_layer import (
    DIALECTS,
    OWN,
    TABLES,
    TYPES,
    Refused,
    SuiteLayer,
    layer_of,
    misfit,
)


class EdgeCase(NamedTuple):
    """A row by name, its purpose, and the array that gets an infinity and a NaN, if any."""

    name: str
    tests: str
    row: dict[str, Any]
    spoil: str | None = None


EDGES = tuple(EdgeCase(*row) for row in TABLES["edges"])
_SMALL = {1: 12, 2: 6, 3: 4}  # elements of an axis, by the number of axes
_FEW_CHANNELS = 4  # of a group


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network: `inputs` N, C, *I, `outputs` M, the same K, S, P on all axes."""

    network: str
    inputs: Ints
    outputs: int
    kernel: int
    stride: int
    pad: int = 0
    output_padding: int = 0
    groups: int = 1

    @property
    def slug(self) -> str:
        """The network's name as part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.network.lower()).strip("-")

    def row(self, *, full_size: bool) -> dict[str, Any]:
        """Return the layer; unless at full size with few channels and elements."""
        batch, channels, *size = self.inputs
        groups, outputs = self.groups, self.outputs
        if not full_size:
            batch, groups = min(batch, 2), min(groups, 3)
            size = [min(n, _SMALL[len(size)]) for n in size]
            channels = groups * min(channels // self.groups, _FEW_CHANNELS)
            outputs = groups * min(outputs // self.groups, _FEW_CHANNELS)
        return {
            "axes": len(size),
            "batch": batch,
            "size": tuple(size),
            "groups": groups,
            "channels": channels,
            "outputs": outputs,
            "kernel": self.kernel,
            "strides": self.stride,
            "pads_begin": self.pad,
            "pads_end": self.pad,
            "output_padding": self.output_padding,
        }


NETWORKS = tuple(NetworkLayer(*row) for row in TABLES["networks"])


Row = dict[str, Any]
Allows = Callable[[Mapping[str, Any]], bool]
"""Whether a row may be, of which some factors may have no value yet: False is final."""

CROSSED = 4096  # units of work for a row that is tried
TRIES = 3000  # partial rows that are looked at to complete one
_Choice = tuple[str, int]  # a factor and the position of its value


@dataclass(frozen=True)
class Covering:
    """The rows, and the combinations of values for which no row was found."""

    rows: list[Row]
    impossible: list[Row]


def covering(factors: Mapping[str, Sequence[Any]], allows: Allows, strength: int = 2) -> Covering:
    """Return rows with every allowed combination of `strength` values, greedily."""
    return _Greedy(factors, allows, strength).run()


@dataclass
class _Greedy:
    factors: Mapping[str, Sequence[Any]]
    allows: Allows
    strength: int
    open: dict[frozenset[_Choice], tuple[_Choice, ...]] = field(default_factory=dict)
    tries: int = 0

    def run(self) -> Covering:
        for names in itertools.combinations(self.factors, self.strength):
            for places in itertools.product(*(range(len(self.factors[n])) for n in names)):
                choices = tuple(zip(names, places, strict=True))
                self.open[frozenset(choices)] = choices
        found = Covering([], [])
        while self.open:
            key, wanted = next(iter(self.open.items()))
            self.tries = TRIES
            chosen = self._complete(dict(wanted))
            if chosen is None:
                del self.open[key]
                found.impossible.append(self._row(dict(wanted)))
                continue
            for target in itertools.combinations(chosen.items(), self.strength):
                self.open.pop(frozenset(target), None)
            row = self._row(chosen)
            found.rows.append({name: row[name] for name in self.factors})
        return found

    def _row(self, chosen: Mapping[str, int]) -> Row:
        return {name: self.factors[name][place] for name, place in chosen.items()}

    def _complete(self, chosen: dict[str, int]) -> dict[str, int] | None:
        """Choose the other values, those first that cover most; None if there is no way."""
        self.tries -= 1
        if self.tries < 0 or not self.allows(self._row(chosen)):
            return None
        name = next((n for n in self.factors if n not in chosen), None)
        if name is None:
            return chosen
        places = range(len(self.factors[name]))
        work.take(CROSSED // 16 * len(places) * len(chosen), "crossing so many values")
        for place in sorted(places, key=lambda p: -self._gain(chosen, (name, p))):
            found = self._complete({**chosen, name: place})
            if found is not None:
                return found
        return None

    def _gain(self, chosen: Mapping[str, int], new: _Choice) -> int:
        others = itertools.combinations(chosen.items(), self.strength - 1)
        return sum(frozenset((new, *rest)) in self.open for rest in others)


# There are no other values of these.
CHOSEN = {n: TABLES["grid"][n] for n in ("auto_pad", "filter", "bias")}


def factors(dialect: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of every attribute that the grid crosses, the usual one first."""
    return {name: values for name, values in _possible(dialect).items() if len(values) > 1}


def fixed(dialect: str) -> dict[str, Any]:
    """Return the attributes that have one value in the grid."""
    return {name: values[0] for name, values in _possible(dialect).items() if len(values) == 1}


@cache
def _possible(dialect: str) -> dict[str, tuple[Any, ...]]:
    """Return the values that some layer of the dialect has, with at most one other unusual one."""
    every = TABLES["grid"] | {"element_type": TYPES[dialect]} | OWN[dialect]
    every |= TABLES["grid_of"].get(dialect, {})
    usual = {name: values[0] for name, values in every.items()}
    others = [{}, *({name: v} for name, values in every.items() for v in values)]
    return {
        name: tuple(
            v for v in values if any(not misfit(dialect, {**usual, **o, name: v}) for o in others)
        )
        for name, values in every.items()
    }


@cache
def grid(dialect: str, strength: int) -> Covering:
    """Return the rows in which every value (1) or every allowed pair of values (2) occurs."""
    return cover(dialect, factors(dialect), fixed(dialect), strength)


def cover(
    dialect: str,
    values: Mapping[str, Sequence[Any]],
    plain: Mapping[str, Any],
    strength: int | None,
) -> Covering:
    """Cross attributes of a dialect, all with all without a strength; all rows have `plain`."""

    @cache
    def wrong(*row: Any) -> tuple[Any, ...]:
        work.take(CROSSED, "crossing so many values")
        return misfit(dialect, {**plain, **dict(zip(values, row, strict=True))})

    def allows(row: Mapping[str, Any]) -> bool:
        """Whether the class accepts a row, with some values of the factors that it has not.

        These begin as the usual ones. One after another takes the value that leaves least wrong.
        """
        full = {name: row.get(name, some[0]) for name, some in values.items()}
        missing = {name: some for name, some in values.items() if name not in row}
        while why := wrong(*full.values()):
            tried = [(n, {**full, n: value}) for n, some in missing.items() for value in some]
            found = [(wrong(*other.values()), n, other) for n, other in tried]
            better = [one for one in found if one[0] != why and one[0][:2] <= why[:2]]
            if not better:
                return False
            _, name, full = min(better, key=lambda one: one[0])
            del missing[name]
        return True

    most = len(values)
    found = covering(values, allows, most if strength is None else min(strength, max(most, 1)))
    impossible = [] if strength is None else found.impossible
    return Covering([{**plain, **row} for row in found.rows], impossible)


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
    return _chosen("set", names, {name: (name,) for name in SETS} | {"full": FULL})


def chosen_dialects(names: Sequence[str]) -> list[str]:
    """Return the dialects of some names, "all" being all of them; UsageError."""
    return _chosen("dialect", names, {name: (name,) for name in DIALECTS} | {"all": (*DIALECTS,)})


def _chosen(kind: str, names: Sequence[str], meanings: Mapping[str, tuple[str, ...]]) -> list[str]:
    for name in names:
        if name not in meanings:
            message = f'there is no {kind} "{name}": {", ".join(meanings)}'
            raise misused(message, did_you_mean(name, meanings))
    return list(dict.fromkeys(member for name in names for member in meanings[name]))


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


def _first(dialect: str, *rows: Row) -> SuiteLayer | None:
    """Return the layer of the first row that the dialect has, None if it has none."""
    for row in rows:
        with suppress(Refused):
            return layer_of(dialect, row)
    return None


def _edges(dialect: str) -> Iterator[SuiteCase]:
    for edge in EDGES:
        layer = _first(dialect, edge.row)
        if layer is None:
            continue
        name = f"{dialect}-edge-{edge.name}"
        yield SuiteCase(name=name, set="edges", tests=edge.tests, layer=layer, spoil=edge.spoil)


def _networks(dialect: str, full_size: bool) -> Iterator[SuiteCase]:
    for network in NETWORKS:
        row = network.row(full_size=full_size)
        # Without output_padding, a smaller pad at the end does the same.
        smaller = {"output_padding": 0, "pads_end": row["pads_end"] - row["output_padding"]}
        layer = _first(dialect, row, row | smaller)
        if layer is None:
            continue
        size = "" if full_size else ", with few channels and elements"
        tests = f"{network.network}: K {network.kernel}, S {network.stride}, P {network.pad}{size}"
        name = f"{dialect}-network-{network.slug}"
        yield SuiteCase(name=name, set="networks", tests=tests, layer=layer)


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
