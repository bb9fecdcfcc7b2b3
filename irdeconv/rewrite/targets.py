"""Targets: the operations of a device and their costs, from a TOML file (docs/targets.md).

Every key may be absent. Without `max_rank`, `types` or `[operations]` nothing is limited by it;
with `[operations]` a layer runs only if its operation is listed and meets each condition.

Conditions are about the facts of a layer, from specs and plain numbers. `check_graph` holds each
layer of a graph against the target's list.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from irdeconv.base.errors import did_you_mean, misused, question
from irdeconv.base.form_names import CONDITIONS, require_form
from irdeconv.base.hints import constructor, hinted
from irdeconv.base.limits import current
from irdeconv.base.opening import TomlReader, read_file, shown
from irdeconv.base.source import Location
from irdeconv.ir import geometry
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.graph import Value as GraphValue
from irdeconv.ir.op import Op, ports
from irdeconv.ir.spec import DYNAMIC, Dim, Shape, Spec, ints, is_static
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.channels import DepthToSpace, Split, VariadicSplit
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import Setting
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Add
from irdeconv.ops.image import Resizing
from irdeconv.ops.movement import Concat, Pad1, Pad12, Transpose
from irdeconv.ops.slicing import Slice, StridedSlice
from irdeconv.rewrite.target_conditions import (
    ALIASES,
    OPERATIONS,
    Condition,
    ConditionError,
    Facts,
    Number,
    Value,
)

DEFAULT_TARGET = "generic"
HIGHEST_MAX_RANK, MOST_CONDITIONS, HIGHEST_WEIGHT = 64, 100, 1e30
HIGHEST_ALIGNMENT = 2**31 - 1


@dataclass(frozen=True)
class ScoreWeights:
    """The weight of each cost's unit in the score; only the ratios of the first four matter.

    `mac` per multiply-accumulate, `byte` per byte read or written, `scratch` per byte of the
    largest set of intermediates alive at once, `node` per operation. `channel_alignment`: channels
    of a group are rounded up to a multiple of it when products are counted.
    `skips_inserted_zeros`: products with inserted zeros take no time, and inserting them takes
    neither time nor memory.
    """

    mac: float = 1.0
    byte: float = 2.5
    scratch: float = 0.0
    node: float = 60000.0
    channel_alignment: int = 1
    skips_inserted_zeros: bool = False


@hinted
@constructor
@dataclass(frozen=True)
class Target:
    """A device: its operations with their conditions, and the costs of work there.

    `operations` None: every operation, without conditions. `max_rank` limits the axes of each
    tensor that is not constant, `types` the element types. `wide_sums`: an Add is exact on the
    32-bit sums of int8 convolutions.
    """

    name: str = "unlimited"
    description: str = ""
    source: str = ""
    max_rank: int | None = None
    types: tuple[str, ...] | None = None
    wide_sums: bool = False
    operations: Mapping[str, tuple[Condition, ...]] | None = None
    cost: ScoreWeights = field(default_factory=ScoreWeights)

    def __post_init__(self) -> None:
        if self.operations is None and not self.description and self.name in target_names():
            message = f'Target("{self.name}") has no conditions but the name of a packaged target'
            raise misused(message, f'write target="{self.name}"')

    def has(self, operation: str) -> bool:
        """Whether the target has an operation at all."""
        return self.operations is None or operation in self.operations

    def failures(self, operation: str, facts: Facts) -> list[str]:
        """Return a text for each reason why a layer cannot run on the target; [] if it can.

        The texts have the numbers in them: `max_rank = 4: 5 axes`, `kernel <= 11: 64 (axis h)`.
        """
        out = []
        listed = () if self.operations is None else self.operations.get(operation)
        if listed is None:
            out.append(f"{operation} is not in the target's list of operations")
        rank, dtype = facts.values.get("rank"), facts.values.get("type")
        if self.max_rank is not None and not (isinstance(rank, int) and rank <= self.max_rank):
            axes = "the rank is known only at run time" if rank is None else f"{rank} axes"
            out.append(f"max_rank = {self.max_rank}: {axes}")
        if self.types is not None and dtype not in self.types:
            out.append(f"types: {'known only at run time' if dtype is None else dtype}")
        return out + [text for c in listed or () if (text := c.failure(facts))]

    def refuses_data(self, batch: int, dtype: str) -> bool:
        """Whether no convolution takes the batch or the type, which rules of 2-D layers keep."""
        facts = Facts({"batch": batch, "type": dtype})
        return self.operations is not None and all(
            any(c.names <= facts.values.keys() and not c.holds(facts) for c in conditions)
            for operation, conditions in self.operations.items()
            if "Convolution" in operation
        )

    def blamed(self, operation: str, facts: Facts) -> frozenset[str]:
        """Return the names in violated conditions, and the operation itself if it is missing."""
        listed, rank = (self.operations or {}).get(operation, ()), facts.values.get("rank")
        fits = self.max_rank is None or (isinstance(rank, int) and rank <= self.max_rank)
        names = (c.names for c in listed if not c.holds(facts))
        missing = () if self.has(operation) else (operation,)
        return frozenset().union(*names, missing, () if fits else ("max_rank",))

    def unmet(self, operation: str, facts: Facts, about: str = "") -> int:
        """Return the number of violated conditions of an operation; `about` is a name in them."""
        if not self.has(operation):
            return 0 if about else 1
        listed = (self.operations or {}).get(operation, ())
        rows = (c for c in listed if not about or about in c.names)
        return sum(not c.holds(facts) for c in rows)


def target_names() -> list[str]:
    """Return the names of the packaged targets."""
    folder = files("irdeconv.rewrite") / "profiles"
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name[-5:] == ".toml")


def require_form_for(form: str, target: object) -> None:
    """Raise UsageError for an unknown form, or if form and target change places."""
    for text, what, others in ((form, "target", target_names()), (target, "form", CONDITIONS)):
        if isinstance(text, str) and text in others:
            hint = f'lower(model, {what}="{text}") lowers for it'
            raise misused(f'"{text}" is a {what}', hint)
    require_form(form)


def load_target(target: str | PathLike[str] | Target | None = None) -> Target:
    """Return the target of a name or of a path that ends in .toml; the default one for None.

    Raises UsageError for an unknown name or a file with mistakes (all of them are listed),
    FileAccessError if the file cannot be read, LimitError if it is too large.
    """
    if isinstance(target, Target):
        return target
    text = fspath(DEFAULT_TARGET if target is None else target)
    if text.endswith(".toml"):
        return parse_target(read_file(text, current().toml_bytes), Path(text).stem, text)
    names = target_names()
    if text not in names:
        near = question(n for n in names if text and text in n) or did_you_mean(text, names)
        known = "irdeconv lower --list-targets lists them; or name a .toml file of your own"
        raise misused(f'there is no target "{text}"', near or known)
    packaged = files("irdeconv.rewrite") / "profiles" / f"{text}.toml"
    return parse_target(packaged.read_bytes(), text)


def parse_target(text: str | bytes, name: str, file: str | None = None) -> Target:
    """Parse a target file; UsageError lists all of its mistakes with line and column."""
    reader = _TargetReader(text, file or name)
    table = reader.content
    operations, cost = table.pop("operations", None), table.pop("cost", {})
    values = reader.checked(Target, table)
    weights = reader.checked(ScoreWeights, reader.table(cost, "cost"), "cost")
    listed = None
    if operations is not None:
        listed = reader.operations(reader.table(operations, "operations"))
    reader.require_none()
    return Target(name=name, **values, operations=listed, cost=ScoreWeights(**weights))


class _TargetReader(TomlReader):
    """Checks the tables of a file and gathers the mistakes."""

    def table(self, value: Any, key: str) -> dict[str, Any]:
        """Return a table; an empty one for something else."""
        if isinstance(value, dict):
            return value
        self.problem(f"{key} is a table: [{key}]", (key,))
        return {}

    def checked(
        self, record: type[Target | ScoreWeights], table: dict[str, Any], section: str = ""
    ) -> dict[str, Any]:
        """Return the keys that fit the fields of a class."""
        own = ("name", "operations", "cost")
        kinds = {f.name: str(f.type) for f in dataclasses.fields(record) if f.name not in own}
        known = [*kinds] if section else [*kinds, "operations", "cost"]
        good: dict[str, Any] = {}
        for key, value in table.items():
            words = (f"[{section}]", key) if section else (key,)
            place = f"[{section}] " if section else ""
            if key not in kinds:
                hint = f"there are {', '.join(known)}"
                self.problem(f"{place}unknown key {shown(key)}", words, hint, known)
            elif key == "types":
                good[key] = self._types(value)
            elif wanted := _mismatch(kinds[key], value):
                self.problem(f"{place}{key} is {wanted}, not {shown(value)}", words)
            else:
                good[key] = value
        return good

    def _types(self, value: Any) -> tuple[str, ...]:
        """Return the element types of a list of names."""
        if not isinstance(value, list):
            self.problem(f"types is a list of element types, not {shown(value)}", ("types",))
            return ()
        for wrong in [v for v in value if not (isinstance(v, str) and v in ELEMENT_TYPES)]:
            hint, words = f"there are {', '.join(ELEMENT_TYPES)}", ("types", str(wrong))
            self.problem(f"unknown element type {shown(wrong)}", words, hint, ELEMENT_TYPES)
        return tuple(map(str, value))

    def operations(self, table: dict[str, Any]) -> dict[str, tuple[Condition, ...]]:
        out = {}
        for name, texts in table.items():
            words = ("[operations]", name)
            if name not in OPERATIONS:
                other = ALIASES.get(name)
                hint = f"write {other}" if other else "docs/operations.md lists the operations"
                known = () if other else OPERATIONS
                self.problem(f"unknown operation {shown(name)}", words, hint, known)
            elif not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
                self.problem(f"{name} is a list of conditions, not {shown(texts)}", words)
            elif len(texts) > MOST_CONDITIONS:
                message = f"{name} has {len(texts):,} conditions; there may be {MOST_CONDITIONS}"
                self.problem(message, words)
            else:
                out[name] = tuple(self._conditions(name, texts))
        return out

    def _conditions(self, operation: str, texts: list[str]) -> list[Condition]:
        out = []
        for text in texts:
            try:
                out.append(Condition.parse(text, operation))
            except ConditionError as e:
                message = f"condition {shown(text)} of {operation}: {e}"
                self.problem(message, ("[operations]", operation, text), e.hint)
        return out


def _mismatch(kind: str, value: Any) -> str | None:
    """Return a value's expected kind; None if it fits the annotation of a field."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "str":
        return None if isinstance(value, str) else "a string"
    if kind == "bool":
        return None if isinstance(value, bool) else "true or false"
    if kind == "float":
        fits = (whole or isinstance(value, float)) and 0 <= value <= HIGHEST_WEIGHT
        return None if fits else f"a number from 0 to {HIGHEST_WEIGHT:g}"
    most = HIGHEST_MAX_RANK if "None" in kind else HIGHEST_ALIGNMENT
    return None if whole and 1 <= value <= most else f"an integer from 1 to {most}"


Sizes = Sequence[int | None]
Values = Mapping[str, Value | None]
Axes = Mapping[str, Sequence[Value | None]]


@dataclass(frozen=True)
class Tensors:
    """The data of a layer, and all of its inputs and outputs that are not constant."""

    data: Spec
    varying: tuple[Spec, ...]

    @staticmethod
    def of(varying: Sequence[Spec]) -> Tensors:
        """Return the tensors of a layer; the first one that is not constant is its data."""
        return Tensors(varying[0] if varying else Spec(None, None), tuple(varying))

    def facts(self, values: Values | None = None, axes: Axes | None = None) -> Facts:
        """Return the facts that all operations have, and further ones."""
        shape = self.data.shape
        known = [s.rank for s in self.varying if s.rank is not None]
        common = {
            "rank": max(known, default=0) if len(known) == len(self.varying) else None,
            "batch": self.size(0),
            "channels": self.size(1),
            "type": None if self.data.dtype is None else self.data.dtype.name,
        }
        spatial: Axes = {} if shape is None else {"size": tuple(map(exact, shape[2:]))}
        return Facts({**common, **(values or {})}, {**spatial, **(axes or {})})

    def size(self, axis: int) -> int | None:
        """Return the size of an axis of the data; 1 for an axis that it lacks."""
        shape = self.data.shape
        if shape is None:
            return None
        return exact(shape[axis]) if axis < len(shape) else 1


@dataclass(frozen=True, kw_only=True)
class WindowFacts:
    """A convolution or a deconvolution in numbers; lists have an entry per spatial axis."""

    inputs: int | None = None
    outputs: int | None = None
    groups: int | None = None
    kernel: Sizes = (None,)
    strides: Sizes = (None,)
    dilations: Sizes = (None,)
    pads: tuple[Sizes, Sizes] = ((None,), (None,))
    output_padding: Sizes = ()

    def facts(self, tensors: Tensors, *, constant_filter: bool, has_bias: bool) -> Facts:
        """Return the facts of the layer."""
        groups, inputs, outputs = self.groups, self.inputs, self.outputs
        known = groups is not None and inputs is not None
        values: dict[str, Value | None] = {
            "spatial_axes": None if self is _UNKNOWN else len(self.kernel),
            "inputs": inputs,
            "outputs": outputs,
            "groups": groups,
            "depthwise": (groups == inputs and groups != 1) if known else None,
            "multiplier": outputs // groups if groups and outputs is not None else None,
            "constant_filter": constant_filter,
            "has_bias": has_bias,
        }
        axes = {
            "kernel": self.kernel,
            "stride": self.strides,
            "dilation": self.dilations,
            "pad_begin": self.pads[0],
            "pad_end": self.pads[1],
            "output_padding": self.output_padding or (0,) * len(self.kernel),
        }
        return tensors.facts(values, axes)


_UNKNOWN = WindowFacts(output_padding=(None,))


def convolution(
    data: Spec,
    channels: tuple[int | None, int | None, int | None],
    kernel: Sizes,
    lists: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    auto_pad: str,
) -> WindowFacts:
    """Return a convolution.

    `channels` are inputs, outputs and groups, `lists` strides, dilations, pads_begin and pads_end;
    `auto_pad` is spelled as in OpenVINO.
    """
    axes = len(kernel)
    rows = zip(lists, (1, 1, 0, 0), strict=True)
    strides, dilations, *explicit = (tuple(values) or (usual,) * axes for values, usual in rows)
    sizes = [exact(d) for d in (data.shape or ())[2:]] or [None] * axes
    known = [n for n in (*sizes, *kernel) if n is not None]
    pads: tuple[Sizes, Sizes] = ((None,) * axes, (None,) * axes)
    if auto_pad in ("explicit", "valid") or len(known) == 2 * axes:
        pads = geometry.pads(
            auto_pad,
            known[:axes] or (0,) * axes,
            known[axes:],
            strides,
            dilations,
            (explicit[0], explicit[1]),
        )
    inputs, outputs, groups = channels
    return WindowFacts(
        inputs=inputs,
        outputs=outputs,
        groups=groups,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
    )


def deconvolution(
    op: DialectDeconvolution, inputs: Sequence[Spec], output: Spec
) -> tuple[str, WindowFacts]:
    """Return OpenVINO's name of a deconvolution, and the layer.

    Pads that follow from auto_pad or output_shape are resolved; elements of the output beyond the
    scatter count as output_padding.
    """
    s = op.setting(*inputs)
    if s is None:  # not even its number of axes is known
        return _name(op.group_count), _UNKNOWN
    lists: tuple[Sizes, Sizes, Sizes] = (s.pads_begin, s.pads_end, s.output_padding)
    if s.auto_pad != "explicit" or s.output_shape is not None:
        lists = _resolved(op, s, inputs, output)
    layer = WindowFacts(
        inputs=exact(s.channels),
        outputs=exact(s.outputs),
        groups=s.groups,
        kernel=tuple(map(exact, s.kernel)),
        strides=s.strides,
        dilations=s.dilations,
        pads=lists[:2],
        output_padding=lists[2],
    )
    return _name(None if op.group_count is None else s.groups), layer


def _name(groups: int | None) -> str:
    return "ConvolutionBackpropData" if groups == 1 else "GroupConvolutionBackpropData"


def _resolved(
    op: DialectDeconvolution, s: Setting, inputs: Sequence[Spec], output: Spec
) -> tuple[Sizes, Sizes, Sizes]:
    """Return pads_begin, pads_end and output_padding of a layer whose pads are automatic."""
    begin: Sizes = op.begins(*inputs) or (None,) * s.axes
    shape = output.shape or (None,) * (s.axes + 2)
    sizes = shape[1:-1] if op.channels_last else shape[2:]
    beyond = [
        None if full is None or b is None or o is None else o + b - full
        for full, b, o in zip(map(exact, s.full), begin, map(exact, sizes), strict=True)
    ]
    end = tuple(None if n is None else max(-n, 0) for n in beyond)
    return begin, end, tuple(None if n is None else max(n, 0) for n in beyond)


def padding(
    mode: str, begin: Sizes | None, end: Sizes | None, value: Number | None, tensors: Tensors
) -> tuple[Values, Axes]:
    """Return the facts of a Pad: the amounts in front of and behind each axis of the tensor."""
    unknown = (None,) * (tensors.data.rank or 1)
    amounts = {"amount_begin": begin or unknown, "amount_end": end or unknown}
    return {"mode": mode, "value": value}, amounts


def number(value: float) -> Number:
    """Return an exact number; infinities and NaN as they are."""
    if not math.isfinite(value):
        return value
    found = Fraction(value)
    return found.numerator if found.denominator == 1 else found


def slicing(tensors: Tensors, steps: Mapping[int, int | None] | None, sizes: Shape | None) -> Facts:
    """Return the facts of a Slice from the steps of the axes that it names.

    An axis of which it takes everything is not sliced; `sizes` are those of the result's axes
    before any is removed.
    """
    shape = tensors.data.shape
    if steps is None or shape is None or sizes is None:
        return tensors.facts({"axis": None, "step": None})
    whole = {a for a, d in enumerate(shape) if exact(d) is not None and d == sizes[a]}
    sliced = {a: s for a, s in sorted(steps.items()) if not (a in whole and s == 1)}
    every = tuple(sliced.get(a, 1) for a in range(len(shape)))
    # A step that is known only at run time stays None in the tuple.
    values: dict[str, Value | None] = {"axis": tuple(sliced), "step": tuple(sliced.values())}
    return tensors.facts(values, {"step": every})


def joining(tensors: Tensors, axis: int, parts: Sequence[Spec]) -> Facts:
    """Return the facts of a Concat."""
    rank = tensors.data.rank
    at = None if axis < 0 and rank is None else axis % rank if rank else axis
    channels = tuple(Tensors(p, ()).size(1) for p in parts)
    return tensors.facts({"axis": at, "parts": len(parts), "channels": channels})


def resizing(tensors: Tensors, output: Spec, mode: str) -> Facts:
    """Return the facts of an Interpolate."""
    scales: list[Value | None] = []
    for before, after in zip(
        (tensors.data.shape or ())[2:], (output.shape or ())[2:], strict=False
    ):
        a, b = exact(before), exact(after)
        scale = Fraction(b, a) if a and b is not None else None
        scales.append(scale.numerator if scale and scale.denominator == 1 else scale)
    return tensors.facts({"mode": mode}, {"scale": scales} if scales else {})


def product(a: int | None, b: int | None) -> int | None:
    """Return a * b; None if one is known only at run time."""
    return None if a is None or b is None else a * b


def exact(size: Dim | None) -> int | None:
    """Return a size; None if it is known only at run time."""
    return size if isinstance(size, int) else None


def operation_of(op: Op) -> str:
    """Return the name of an operation in a target's file."""
    return ALIASES.get(op.type, op.type)


def facts_of(
    op: Op,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    constants: Sequence[bool],
    has_bias: bool = False,
) -> tuple[str, Facts]:
    """Return an operation's name and its facts for conditions.

    With `has_bias` a constant per channel is added behind it.
    """
    varying = [s for s, constant in zip(inputs, constants, strict=True) if not constant]
    tensors = Tensors.of((*varying, *outputs))
    output = outputs[0] if outputs else Spec(None, None)
    name = operation_of(op)
    if isinstance(op, ConvolutionBase | DialectDeconvolution):
        if isinstance(op, ConvolutionBase):
            layer = _windows(op, *inputs)
        else:
            name, layer = deconvolution(op, inputs, output)
            has_bias = has_bias or "bias" in ports(type(op)).names[: len(inputs)]
        return name, layer.facts(tensors, constant_filter=constants[1], has_bias=has_bias)
    if isinstance(op, Concat):
        return name, joining(tensors, op.axis, inputs)
    if isinstance(op, Resizing):
        return name, resizing(tensors, output, op.mode)
    if isinstance(op, Slice | StridedSlice):
        return name, slicing(tensors, *_steps(op, inputs, output))
    return name, tensors.facts(*_particulars(op, inputs, tensors))


def _windows(op: ConvolutionBase, data: Spec, filter: Spec) -> WindowFacts:
    """Return a convolution; the filter is [M, C, *K] or [g, M/g, C/g, *K]."""
    shape = filter.shape
    axes = (data.rank or len(shape or (0, 0)) - op.grouped) - 2
    sizes = [exact(d) for d in shape or (DYNAMIC,) * (axes + 2 + op.grouped)]
    groups = sizes[0] if op.grouped else 1
    m, c = sizes[op.grouped : op.grouped + 2]
    lists = (op.strides, op.dilations, op.pads_begin, op.pads_end)
    channels = (product(groups, c), product(groups, m), groups)
    return convolution(data, channels, sizes[op.grouped + 2 :], lists, op.auto_pad)


def _particulars(op: Op, inputs: Sequence[Spec], tensors: Tensors) -> tuple[Values, Axes]:
    if isinstance(op, Pad1 | Pad12):
        value: Number | None = 0
        if len(inputs) > 3:
            known = inputs[3].known
            value = None if known is None else number(float(known.reshape(-1)[0]))
        return padding(op.pad_mode, ints(inputs[1]), ints(inputs[2]), value, tensors)
    if isinstance(op, Transpose):
        order, rank = ints(inputs[1]), tensors.data.rank
        reverse = None if rank is None else tuple(range(rank))[::-1]
        return {"order": order if order or order is None else reverse}, {}
    if isinstance(op, DepthToSpace):
        return {"block": op.block_size, "mode": op.mode}, {}
    if isinstance(op, Split | VariadicSplit):
        axis, rank = ints(inputs[1]), inputs[0].rank
        return {"axis": axis[0] % rank if axis and rank else None}, {}
    return {}, {}


def _steps(
    op: Slice | StridedSlice, inputs: Sequence[Spec], output: Spec
) -> tuple[dict[int, int | None] | None, Shape | None]:
    """Return the step of each axis that a Slice names, and the sizes behind it."""
    rank, lists = inputs[0].rank, [ints(s) for s in inputs[1:]]
    if rank is None or output.shape is None:
        return None, None
    if isinstance(op, StridedSlice):
        return _strided(op, rank, lists, output.shape)
    steps, axes = lists[2], lists[3] if len(lists) > 3 else tuple(range(len(lists[2] or ())))
    if axes is None:
        return None, None
    at = [a % rank for a in axes]
    return dict(zip(at, steps or (None,) * len(at), strict=True)), output.shape


def _strided(
    op: StridedSlice, rank: int, lists: Sequence[tuple[int, ...] | None], output: Shape
) -> tuple[dict[int, int | None] | None, Shape | None]:
    begin, end = lists[:2]
    steps = lists[2] if len(lists) > 2 else (1,) * len(begin or ())
    if begin is None or end is None or steps is None:
        return None, None
    named: dict[int, int | None] = {}
    sizes, behind = [], iter(output)
    for p in op.parts(rank, begin, end, steps):
        size = 1 if p.axis is not None and p.shrink else next(behind)
        if p.axis is not None:
            if not (p.begin is None and p.end is None and p.step == 1):
                named[p.axis] = p.step
            sizes.append(size)
    return named, tuple(sizes)


NOT_EXECUTED = ("Parameter", "Result", "Const", "Constant", "Identity")
CONVOLVING = (ConvolutionBase, DialectDeconvolution)


@dataclass(frozen=True)
class Violation:
    """A layer that the target cannot run, and the condition that it does not meet."""

    layer: str
    operation: str
    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return f'{self.operation} "{self.layer}": {self.text}'


def check_graph(
    graph: Graph, target: Target, only: Callable[[Node], bool] = lambda node: True
) -> list[Violation]:
    """Return the conditions of a target that layers of an inferred graph do not meet.

    `only` chooses the layers. All others, constants and layers that depend on constants alone are
    not checked. Bodies of Loop, If and TensorIterator are.
    """
    out = []
    for top, node, name, facts in executed(graph, only):
        title = node.name if top is node else f'{node.name} (in {top.type} "{top.name}")'
        out += [Violation(title, name, t, node.location) for t in target.failures(name, facts)]
    return out


def executed(
    graph: Graph, only: Callable[[Node], bool] = lambda node: True, given: Collection[int] = ()
) -> Iterator[tuple[Node, Node, str, Facts]]:
    """Yield the layers that a device executes: node, name of the operation, facts.

    The first node is the layer of the graph: of a layer in a body the operation around it. `given`
    are Parameters of a body that are constant.
    """
    constant = set(given)
    for node in graph.topological():
        read = [v.node for v in graph.inputs_of(node.id)]
        if node.type == "Const" or (read and node.op.pure and constant.issuperset(read)):
            constant.add(node.id)
            continue
        for body in bodies_of(node):
            carried = body.carried()
            fixed = [i for i in body.inputs if i.port is not None and read[i.port] in constant]
            same = [i.parameter for i in fixed if i.parameter not in carried]
            for _, inner, name, facts in executed(body.graph, only, same):
                yield node, inner, name, facts
        if node.type not in NOT_EXECUTED and only(node) and not _is_bias(graph, node):
            outputs = [node.spec(port) for port in range(node.outputs)]
            known = node.op, graph.input_specs(node.id), outputs, [i in constant for i in read]
            biased = isinstance(node.op, CONVOLVING) and _bias(graph, node) is not None
            yield node, node, *facts_of(*known, biased)


def _bias(graph: Graph, node: Node) -> Node | None:
    """Return the Add of a constant per channel that is the only reader of a convolution."""
    users = graph.users(GraphValue(node.id))
    add = graph.node(users[0][0]) if len(users) == 1 else None
    if add is None or not isinstance(add.op, Add):
        return None
    other = graph.node(graph.inputs_of(add.id)[1 - users[0][1]].node)
    shape, rank = other.spec().shape, node.spec().rank
    per_channel = (
        other.type == "Const"
        and is_static(shape)
        and rank is not None
        and len(shape) <= rank
        and all(d == 1 for a, d in enumerate(shape, rank - len(shape)) if a != 1)
    )
    return add if per_channel else None


def _is_bias(graph: Graph, node: Node) -> bool:
    """Whether a node is the Add of a convolution's bias, which counts with the convolution."""
    if not isinstance(node.op, Add):
        return False
    sources = (graph.node(v.node) for v in graph.inputs_of(node.id))
    return any(isinstance(s.op, CONVOLVING) and _bias(graph, s) is node for s in sources)
