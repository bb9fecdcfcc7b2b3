"""Layers of a suite in the terms that all dialects share, as their dialect spells them; its cases.

A row has the values of attributes as files and grids spell them: a number for all spatial axes, or
a list of which the first `axes` values count.

Packaged grids cross the values of every attribute of every dialect, so that every pair of values
that may occur together does (covering arrays). Others are layers at the limits, and one
deconvolution of each of several published networks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import OpError, did_you_mean, misused, other_pattern
from irdeconv.base.opening import parse_toml
from irdeconv.ir.attributes import Ints
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, infer_op, ports
from irdeconv.ir.ports import declaration, fit
from irdeconv.ir.spec import Array, Spec, is_static
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.ops.core import Setting
from irdeconv.ops.dialect_template import Cannot, DialectDeconvolution, DialectSystem
from irdeconv.ops.dialects import READINGS

_CLASSES = [c for c in REGISTRY.values() if issubclass(c, DialectDeconvolution) and c.dialect]
_OF = {c.dialect: c for c in _CLASSES}
# The readings that the dialects follow, by the names that commands know.
DIALECTS = {c.dialect: r for r in READINGS for c in _OF.values() if r.key == c.keys[0]}
NUMBERS = "f16|bf16|f64|i32|i64"  # in suites, of a dialect that computes all

LISTS = ("size", "kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding")
_SET = (*LISTS, "groups", "channels", "outputs", "dtype", "auto_pad", "output_shape")


class Refused(Exception):
    """The dialect has no such layer; the text says why, `count` of how many attributes."""

    def __init__(self, text: str, count: int = 1) -> None:
        super().__init__(text)
        self.count = count


@dataclass(frozen=True, kw_only=True)
class SuiteLayer:
    """One deconvolution; lists have a value per spatial axis, channels count all groups.

    `output_shape` None: the layer has none. `filter` is "constant" or "input". `extras` are
    attributes that only the dialect has, by name; `version` its operation set, "" the usual one.
    """

    dialect: str
    size: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints
    auto_pad: str = "explicit"
    output_shape: Ints | None = None
    batch: int = 1
    groups: int = 1
    channels: int = 2
    outputs: int = 3
    element_type: str = "f32"
    bias: bool = False
    filter: str = "constant"
    version: str = ""
    activation: str = "none"
    extras: Mapping[str, str] = field(default_factory=dict)

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.size)

    @property
    def dtype(self) -> ElementType:
        """The element type of data, filter, bias and output."""
        return ELEMENT_TYPES[self.element_type]

    @property
    def extent(self) -> Ints:
        """D(K-1) + 1 on every axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def full(self) -> Ints:
        """S(I-1) + D(K-1) + 1 on every axis, the size of the uncropped scatter."""
        rows = zip(self.size, self.strides, self.extent, strict=True)
        return tuple(s * (i - 1) + e for i, s, e in rows)

    @property
    def system(self) -> DialectSystem:
        """The reading that the dialect follows."""
        return DIALECTS[self.dialect]

    @cached_property
    def op(self) -> DialectDeconvolution:
        """The operation of the dialect; Refused if it has none for this layer."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _SET}
        try:
            op, _ = self.system.make(Setting(system=self.system.key, **given))
        except Cannot as e:
            raise Refused(str(e)) from None
        assert isinstance(op, DialectDeconvolution)
        return self._with_own(op)

    def _with_own(self, op: DialectDeconvolution) -> DialectDeconvolution:
        """Add the dialect's own attributes, and pads that an auto_pad makes it ignore."""
        own: dict[str, Any] = dict(self.extras)
        known = {f.name for f in fields(op)}
        if self.auto_pad != "explicit" and op.window_attributes[0] in own:
            raise Refused(f"auto_pad sets the {op.window_attributes[0]}")
        if self.activation != "none":
            name, *parameters = self.activation.split()
            own |= {"activation": name, "activation_params": tuple(map(float, parameters))}
        given = any(self.pads_begin) + any(self.pads_end)
        if self.auto_pad != "explicit" and given:
            if "pads" in known:
                raise Refused(f"pads cannot be given together with auto_pad={self.auto_pad}", given)
            pair = op.window_attributes[1:3]
            own |= dict(zip(pair, (self.pads_begin, self.pads_end), strict=True))
        unknown = sorted(set(own) - known)
        if unknown:
            raise Refused(f"{self.dialect} has no {', '.join(unknown)}")
        if self.bias and "bias" not in ports(type(op)).names:
            raise Refused(f"{op.system}'s deconvolutions have no bias")
        if not self.version:
            return replace(op, **own)
        cls: Any = REGISTRY.get((op.type, self.version))
        if cls is None or cls.version.split("_")[0] != op.version.split("_")[0]:
            raise Refused(f"{self.dialect} has no operation set {self.version}")
        return cls(**({n: getattr(op, n) for n in known} | own))  # type: ignore[no-any-return]

    @property
    def data_shape(self) -> Ints:
        """The shape of the data in the dialect's layout."""
        if self.op.channels_last:
            return (self.batch, *self.size, self.channels)
        return (self.batch, self.channels, *self.size)

    @property
    def filter_shape(self) -> Ints:
        """The shape of the filter in the dialect's layout."""
        inputs, outputs = self.channels // self.groups, self.outputs // self.groups
        if self.op.group_count is None:
            return (self.groups, inputs, outputs, *self.kernel)
        order = self.op.filter_order(self.axes)
        sizes = dict(zip(order, (self.channels, outputs, *self.kernel), strict=True))
        return tuple(sizes[axis] for axis in range(len(order)))

    @property
    def port_shapes(self) -> dict[str, Ints]:
        """The shapes of all inputs by their names in the model."""
        shapes = {"x": self.data_shape, "filter": self.filter_shape}
        if self.bias:
            shapes["bias"] = (self.outputs,)
        if self.output_shape is not None and "output_shape" in ports(type(self.op)).names:
            shapes["output_shape"] = (self.axes,)
        return shapes

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The types and shapes of all inputs, with the numbers of an output_shape."""
        shapes = dict(self.port_shapes)
        wanted = shapes.pop("output_shape", None)
        specs = [Spec(self.dtype, shape) for shape in shapes.values()]
        if wanted is not None:
            specs.append(Spec(i64, wanted, np.array(self.output_shape, np.int64)))
        return tuple(specs)

    @property
    def output(self) -> Ints:
        """The output's shape in the dialect's layout; Refused if the layer is none."""
        problem = next((p for p in self.op.problems() if p.severity == "error"), None)
        if problem is not None:
            raise Refused(problem.message)
        try:
            (out,) = infer_op(self.op, self.specs)
        except OpError as e:
            raise Refused(str(e)) from None
        assert is_static(out.shape)
        return out.shape

    @property
    def meets_scatter(self) -> bool:
        """Whether the output begins within the scatter; beyond, it is all zeros."""
        begins = self.op.begins(*self.specs)
        return begins is None or all(b < n for b, n in zip(begins, self.full, strict=True))

    def refusal(self) -> str | None:
        """Return why the dialect has no such layer, None if it has."""
        if min(self.groups, self.channels, self.outputs) < 1:
            return "groups, channels and outputs are at least 1"
        if self.channels % self.groups or self.outputs % self.groups:
            counts = f"{self.channels} channels and {self.outputs} outputs"
            return f"{self.groups} groups do not divide {counts}"
        try:
            _ = self.output
        except Refused as e:
            return str(e)
        return None


RELATIVE = ("none", "full", "smaller", "larger")  # of output_shape, beside numbers


def per_axis(value: int | Ints, axes: int) -> Ints:
    """Return a value for every spatial axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value[:axes])


def frozen(value: Any) -> Any:
    """Return a value of a TOML file with tuples for its lists."""
    if isinstance(value, dict):
        return {key: frozen(v) for key, v in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


TABLES = frozen(parse_toml((files("irdeconv.verify") / "suite_tables.toml").read_text("utf-8")))
BASE: dict[str, Any] = TABLES["base"]  # the default values of a row
# Attributes that only some dialects have, their values, the usual one first.
OWN: dict[str, dict[str, tuple[str, ...]]] = {d: {} for d in DIALECTS} | TABLES["own"]
_GROWTH = 64  # by how much data may grow until the output has products


def _types(dialect: str) -> tuple[str, ...]:
    kinds = (declaration(c.signature).inputs[0].kind for c in _CLASSES if c.dialect == dialect)
    return tuple(dict.fromkeys(("f32", *"|".join(kinds).replace("number", NUMBERS).split("|"))))


TYPES = {dialect: _types(dialect) for dialect in DIALECTS}


def base(dialect: str) -> dict[str, Any]:
    """Return the usual value of every attribute of a dialect."""
    return BASE | {name: values[0] for name, values in OWN[dialect].items()}


def layer_of(dialect: str, row: Mapping[str, Any], *, grow: bool = False) -> SuiteLayer:
    """Return the layer of a row, or Refused; `grow` enlarges data until outputs have products."""
    for _ in range(_GROWTH if grow else 1):
        layer = _read(dialect, row)
        refusal = layer.refusal()
        if refusal is None and min(layer.output) > 0 and layer.meets_scatter:
            return layer
        row = {**row, "size": tuple(n + 1 for n in layer.size)}
    if refusal is not None:
        raise Refused(refusal)
    return layer


def misfit(dialect: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return why a dialect has no layer of a row in any size, () if it has.

    The smaller the first two numbers are, the less is wrong.
    """
    try:
        layer = _read(dialect, row)
        if layer.channels % layer.groups or layer.outputs % layer.groups:
            return 4, 0
        if (layer.auto_pad, layer.output_shape is not None) not in layer.system.modes:
            return 3, 1, "mode"
        problems = [p for p in layer.op.problems() if p.severity == "error"]
        if problems:
            return 2, len(problems)
        fit(layer.op, *layer.specs)
        layer.op.validate(layer.specs, layer.axes)
    except Refused as e:
        return 3, e.count, str(e)
    except OpError as e:
        return 1, 0, e.problem.code, e.problem.attribute or ""
    return ()


def _read(dialect: str, row: Mapping[str, Any]) -> SuiteLayer:
    """Return the layer of a row, which may be one that is refused."""
    view = {**base(dialect), **row}
    axes = view["axes"]
    for name in LISTS:
        if not isinstance(view[name], int) and len(view[name]) < axes:
            raise Refused(f"{name} has {len(view[name])} values for {axes} spatial axes")
    lists: dict[str, Any] = {name: per_axis(view[name], axes) for name in LISTS}
    plain = ("batch", "groups", "channels", "outputs", "auto_pad", "element_type", "filter")
    extras = {n: view[n] for n in OWN[dialect] if n not in ("version", "activation")}
    mode = _OF[dialect].window_attributes[0]
    if mode in extras and extras[mode] == OWN[dialect][mode][0]:
        del extras[mode]  # that which auto_pad has chosen
    layer = SuiteLayer(
        dialect=dialect,
        **lists,
        **{name: view[name] for name in plain},
        bias=bool(view["bias"]),
        version=view.get("version", ""),
        activation=view.get("activation", "none"),
        extras=extras,
    )
    return replace(layer, output_shape=_output_shape(view["output_shape"], layer))


def _output_shape(wanted: str | int | Ints, layer: SuiteLayer) -> Ints | None:
    """Return an output_shape as numbers: given ones, or the scatter and a little more or less."""
    if wanted == "none":
        return None
    if isinstance(wanted, str):
        assert wanted in RELATIVE
        more = {"full": 0, "smaller": -3, "larger": 1}[wanted]
        return tuple(max(full + more, 1) for full in layer.full)
    return per_axis(wanted, layer.axes)


def label(value: Any) -> str:
    """Return a value as people read it: `3,1,2`, `none`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) if len(set(value)) != 1 else str(value[0])
    return str(value)


def terms(layer: SuiteLayer) -> dict[str, str]:
    """Return a layer's attributes in the terms that all dialects share, and its own ones."""
    shape, own = layer.output_shape, OWN[layer.dialect]
    before = ("dialect", "axes", "batch", "groups", "channels", "outputs", *LISTS, "auto_pad")
    names = (*before, "output_shape", "element_type", "filter", "bias")
    out: dict[str, Any] = {name: getattr(layer, name) for name in names}
    out["output_shape"] = "none" if shape is None else ",".join(map(str, shape))
    out |= {name: layer.extras.get(name, values[0]) for name, values in own.items()}
    out |= {n: getattr(layer, n) for n in ("version", "activation") if n in own}
    return {name: label(value) for name, value in out.items()}


def traits(layer: SuiteLayer) -> list[str]:
    """Return a layer's traits beyond single values: the conditions of mistakes."""
    begin, end = layer.pads_begin, layer.pads_end
    explicit = layer.auto_pad == "explicit"
    rows = list(zip(layer.extent, layer.strides, strict=True))
    facts = {
        "a stride above 1": max(layer.strides) > 1,
        "a dilation above 1": max(layer.dilations) > 1,
        "a kernel of size 1": min(layer.kernel) == 1,
        "an even kernel": any(k % 2 == 0 for k in layer.kernel),
        "a kernel shorter than the stride": any(e < s for e, s in rows),
        "a kernel that the stride does not divide": any(e % s for e, s in rows),
        "unlike axes": any(
            len(set(getattr(layer, n))) > 1 for n in ("kernel", "strides", "dilations")
        ),
        "several groups": layer.groups > 1,
        "several groups with C/g != M/g": layer.groups > 1 and layer.channels != layer.outputs,
        "one channel per group": layer.groups > 1 and layer.channels == layer.groups,
        "pads": explicit and any((*begin, *end)),
        "unlike pads at begin and end": explicit and begin != end,
        "negative pads": explicit and min((*begin, *end)) < 0,
        "pads beyond the kernel": explicit
        and any(p >= e for p, (e, _) in zip((*begin, *end), [*rows, *rows], strict=True)),
        "output_padding": any(layer.output_padding),
        "an output_shape": layer.output_shape is not None,
        "auto_pad same": layer.auto_pad.startswith("same"),
        "a batch above 1": layer.batch > 1,
        "no data": 0 in (layer.batch, *layer.size),
    }
    return [name for name, holds in facts.items() if holds]


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

CROSSED = 6_144  # units of work for a row that is tried
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
        for key, wanted in filter(lambda row: row[0] in self.open, list(self.open.items())):
            self.tries = TRIES
            chosen = self._complete(dict(wanted))
            if chosen is None:
                del self.open[key]
                found.impossible.append(self._row(dict(wanted)))
                continue
            for target in itertools.combinations(chosen.items(), self.strength):
                self.open.pop(frozenset(target), None)
            found.rows.append(self._row(chosen))
        return found

    def _row(self, chosen: Mapping[str, int]) -> Row:
        return {n: values[chosen[n]] for n, values in self.factors.items() if n in chosen}

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
            hint = did_you_mean(name, meanings) or f"there are {', '.join(meanings)}"
            raise misused(f'there is no {kind} "{name}"', hint)
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
        hint = other_pattern(patterns, (case.name for case in cases))
        message = f"no case is named like {', '.join(patterns)}"
        raise misused(message, hint or "suite list shows the names")
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
