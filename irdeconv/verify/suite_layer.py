"""Layers of a suite: in the terms that all dialects share, and as their dialect spells them.

A row has the values of attributes as files and grids spell them: a number for all spatial axes, or
a list of which the first `axes` values count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.base.errors import OpError
from irdeconv.base.opening import parse_toml
from irdeconv.ir.attributes import Ints
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, i64
from irdeconv.ir.op import REGISTRY, infer_op, ports
from irdeconv.ir.ports import declaration, fit
from irdeconv.ir.spec import Spec, is_static
from irdeconv.ops.dialect_base import Setting
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
