"""The canonical deconvolution and zero-insertion, and the common parts of all deconvolutions.

Axis letters: N batch, C input channels, M output channels, I input size, O output size, K kernel,
g groups; `*` means one to three spatial axes.

How the pads of a layer come about: the rule in words, its total, the split of an odd element.

Vectors of graph values, so that the rules of geometry.py also run on sizes known at run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_error, size_error, value_error
from irdeconv.base.json_form import Record
from irdeconv.ir.attributes import Ints, PositiveAxisInts
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.geometry import IntVector, Vector, Window, WindowTerms, empty_hint, filled
from irdeconv.ir.op import MOVES, SUM, Builder, Op, X, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import (
    DYNAMIC,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    dims,
    format_shape,
    ints,
    is_static,
    maximum,
    merge,
    non_negative,
)
from irdeconv.kernels import candidate
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.eager import deconvolution
from irdeconv.ops.elementwise import Add, Divide, Maximum, Multiply, Subtract
from irdeconv.ops.movement import Concat, Reshape, ShapeOf, Transpose, Unsqueeze
from irdeconv.ops.slicing import Gather

VERSION = "irdeconv_1"


class _Strided(Op):
    """Base: data has as many spatial axes as there are strides."""

    strides: Ints

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        axes = len(self.strides)
        return self.signature.replace("*I:1..", f"*I:{axes}..{axes}")


@op("ZeroInsertion", VERSION, standard=False)
class ZeroInsertion(_Strided):
    """Put S-1 zeros between neighbours: (N, C, *I) -> (N, C, *(S(I-1)+1)), any element type.

    `strides` has one S >= 1 per spatial axis. An empty axis stays empty. With `trailing` S-1 zeros
    follow the last element as well: (N, C, *(S*I)), a size that is linear down to I = 0.
    """

    rounding = MOVES
    signature = "data: any t [N, C, *I:1..] -> t [N, C, *O]"
    strides: PositiveAxisInts
    trailing: bool = False

    def complete_from(self, at: Fit, shape: Shape, *others: Spec) -> None:
        rows = zip(shape[2:], self.strides, strict=True)
        at.groups["O"] = tuple(d * s if self.trailing else _spread(d, s) for d, s in rows)

    def evaluate(self, data: Array) -> Array:
        return candidate.zero_insert(data, self.strides, self.trailing)


def _spread(size: Dim, stride: int) -> Dim:
    if isinstance(size, int):
        return stride * (size - 1) + 1 if size else 0
    return non_negative((size - 1) * stride + 1)


@op("Deconvolution", VERSION, standard=False)
class Deconvolution(_Strided):
    """The canonical deconvolution: every attribute resolved, no auto_pad, no bias.

    data (N, C, *I), filter (g, C/g, M/g, *K), pads_begin and pads_end (n,) of an integer type, n
    spatial axes -> (N, M, *O) with O = S(I-1) + D(K-1) + 1 - pads_begin - pads_end. Pads of either
    sign: y[o] = full[o + pads_begin], zero outside the scatter. Output channels are contiguous
    chunks per group. data and filter share an element type.
    """

    deconvolution: ClassVar[bool] = True
    rounding = SUM
    signature = (
        "data: any t [N, C, *I:1..]; filter: any [G, D, M, *K:I]; pads_begin: integer; "
        "pads_end: integer -> t [N, O, *P]"
    )
    strides: PositiveAxisInts
    dilations: PositiveAxisInts

    def complete(self, at: Fit, data: Spec, filter: Spec, *pads: Spec) -> None:
        n = len(self.strides)
        names = enumerate(zip(pads, ("pads_begin", "pads_end"), strict=True), 2)
        begin, end = (_pads(spec, n, name, port) for port, (spec, name) in names)
        sizes, kernel = at.groups.get("I"), at.groups.get("K")
        at["O"], at.groups["P"] = at["G"] * at["M"], (DYNAMIC,) * n
        if sizes is None or kernel is None or begin is None or end is None:
            return
        at.groups["P"] = tuple(map(non_negative, self._sizes(sizes, kernel, begin, end)))

    def _sizes(self, data: Shape, kernel: Shape, begin: Shape, end: Shape) -> Shape:
        """Return the spatial sizes of the output; E306 if one is negative."""
        rows = zip(data, self.strides, kernel, self.dilations, begin, end, strict=True)
        sizes = tuple((i - 1) * s + (k - 1) * d + 1 - p - q for i, s, k, d, p, q in rows)
        check_output(sizes, 0)
        return sizes

    def evaluate(self, data: Array, filter: Array, pads_begin: Array, pads_end: Array) -> Array:
        begin, end = (tuple(map(int, pads)) for pads in (pads_begin, pads_end))
        sizes = self._sizes(data.shape[2:], filter.shape[3:], begin, end)
        assert is_static(sizes)
        problem = self.problem(data.shape, filter.shape, begin, sizes, data.dtype.name)
        return deconvolution(np.asarray(data), filter, problem)

    def problem(
        self, data: Ints, filter: Ints, begin: Ints, sizes: Ints, dtype: str
    ) -> ConvProblem:
        """Return the layer at exact shapes of data and filter, pads_begin and output sizes."""
        return ConvProblem(
            shape=data,
            outputs=filter[0] * filter[2],
            groups=filter[0],
            kernel=filter[3:],
            strides=self.strides,
            dilations=self.dilations,
            begin=begin,
            sizes=sizes,
            dtype=dtype,
        )

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * C * M/g * prod(K) * prod(I)."""
        return scatter_macs(inputs[0], inputs[1])


def scatter_macs(data: Spec, grouped_filter: Spec) -> int | None:
    """Return N * prod(I) * elements of the filter: every input element meets M/g * prod(K) taps."""
    if not is_static(data.shape) or grouped_filter.size is None:
        return None
    return data.shape[0] * math.prod(data.shape[2:]) * grouped_filter.size


def _pads(spec: Spec, axes: int, name: str, port: int) -> Shape | None:
    """Return pads that are known; a pad of unknown value may be anything, so it bounds no size."""
    if spec.shape is not None and (len(spec.shape) != 1 or merge(spec.shape[0], axes) is None):
        text = f"{name} has shape {format_shape(spec.shape)}, {axes} spatial axes want [{axes}]"
        raise value_error(port, text)
    return None if spec.value is None else dims(spec)


def check_output(sizes: Sequence[Dim], least: int = 1, hint: str | None = None) -> None:
    """Require an output of at least that size on every axis; E306."""
    for axis, size in enumerate(sizes):
        top = size.hi if isinstance(size, Interval) else size
        if top is not None and top < least:
            text = f"the output would have size {size} on spatial axis {axis}"
            raise OpError(text, code="E306", hint=hint)


_Operator = Callable[["GraphVector", Any], "GraphVector"]


def _operators(op: Op) -> tuple[_Operator, _Operator]:
    """Return an operation as an operator of a vector on the left, and of one on the right."""
    return lambda v, other: v._apply(op, v, other), lambda v, other: v._apply(op, other, v)


@dataclass(frozen=True)
class GraphVector:
    """An i64 vector that a builder computes; arithmetic adds operations."""

    b: Builder[Any]
    x: Any
    non_negative: bool = False

    def _apply(self, op: Op, left: Any, right: Any) -> GraphVector:
        return GraphVector(self.b, self.b.add(op, self._lift(left), self._lift(right)))

    def _lift(self, value: Any) -> Any:
        if isinstance(value, GraphVector):
            return value.x
        return self.b.const(_array(value.values if isinstance(value, IntVector) else (value,)))

    __add__, __radd__ = _operators(Add())
    __sub__, __rsub__ = _operators(Subtract())
    __mul__, __rmul__ = _operators(Multiply())

    def half(self) -> GraphVector:
        """Return floor(v / 2) on every axis.

        OpenVINO's integer Divide rounds towards zero, so a vector that may be negative is the
        difference of two that are not. (OpenVINO bounds FloorMod wrongly if sizes are open.)
        """
        if self.non_negative:
            return self._apply(Divide(), self, 2)
        over = self.clamp()
        under = replace(over - self + 1, non_negative=True)
        return over.half() - under.half()

    def clamp(self) -> GraphVector:
        """Return max(v, 0) on every axis."""
        return replace(self._apply(Maximum(), self, 0), non_negative=True)


def sizes(b: Builder[Any], x: Any, first: int, axes: int) -> Vector:
    """Return the sizes of `axes` axes of a tensor from axis `first` on."""
    shape = b.spec(x).shape
    part = None if shape is None else shape[first : first + axes]
    if is_static(part):
        return IntVector(part)
    indices = b.const(np.arange(first, first + axes, dtype=np.int64))
    shape_of = b.add(ShapeOf(i64), x)
    return GraphVector(b, b.add(Gather(), shape_of, indices, b.const(np.array(0, np.int64))))


def _array(values: tuple[int, ...]) -> Array:
    """Return numbers as i64; E306 if one has more than 64 bits."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise OpError(f"its sizes and pads reach {max(map(abs, values))}", code="E306") from None


def vector(b: Builder[Any], x: Any) -> Vector:
    """Return an integer vector of the graph: its numbers if they are known."""
    known = ints(b.spec(x))
    return GraphVector(b, x) if known is None else IntVector(known)


def materialize(b: Builder[Any], v: Vector) -> Any:
    """Return a vector as an i64 value of the graph."""
    if isinstance(v, GraphVector):
        return v.x
    assert isinstance(v, IntVector)
    return b.const(_array(v.values))


PADS = ("pads_begin", "pads_end", "output_padding")
PER_AXIS = ("strides", "dilations", *PADS)


@dataclass(frozen=True, kw_only=True)
class CommonTerms:
    """Attributes in common terms: lists over the spatial axes, `auto_pad` as OpenVINO spells it."""

    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output_padding: Ints = ()
    auto_pad: str = "explicit"
    output_shape: Shape | None = None

    @property
    def lists(self) -> dict[str, Ints]:
        """The lists over the spatial axes, by name."""
        return {name: getattr(self, name) for name in PER_AXIS}

    def filled(self, axes: int) -> CommonTerms:
        """Return the terms with the default on every axis for each absent list."""
        rows = ((name, values, int(name not in PADS)) for name, values in self.lists.items())
        lists: dict[str, Any] = {name: filled(values, axes, usual) for name, values, usual in rows}
        return replace(self, **lists)


@dataclass(frozen=True, kw_only=True)
class Setting(CommonTerms):
    """One layer: its terms and sizes.

    `size` and `kernel` are spatial. `groups` is 1 if it is unknown. `system` is the key of the
    layer's system.
    """

    system: str
    size: Shape
    kernel: Shape
    groups: int = 1
    channels: Dim = DYNAMIC
    outputs: Dim = DYNAMIC
    dtype: ElementType | None = None

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def extent(self) -> Shape:
        """DK on every axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def full(self) -> Shape:
        """FULL, the size of the uncropped scatter, on every axis."""
        rows = zip(self.size, self.strides, self.extent, strict=True)
        return tuple((i - 1) * s + dk for i, s, dk in rows)

    @property
    def same(self) -> bool:
        """Whether auto_pad is same_upper or same_lower."""
        return self.auto_pad.startswith("same")

    @property
    def explicit_pads(self) -> tuple[Ints, Ints]:
        """The pads; zeros if auto_pad replaces them."""
        zero = (0,) * self.axes
        return (self.pads_begin, self.pads_end) if self.auto_pad == "explicit" else (zero, zero)

    @property
    def explicit_lists(self) -> dict[str, Any]:
        """The lists over the spatial axes; pads are zeros if auto_pad replaces them."""
        return self.lists | dict(zip(PADS[:2], self.explicit_pads, strict=True))

    @property
    def short(self) -> list[int]:
        """The axes on which the dilated kernel is shorter than the stride."""
        rows = enumerate(zip(self.extent, self.strides, strict=True))
        return [axis for axis, (dk, s) in rows if isinstance(dk, int) and dk < s]

    def on_axis(self, axis: int, axes: int) -> Setting:
        """Return the setting in which all of `axes` axes are this one."""

        def only(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return (values[axis],) * axes

        lists: dict[str, Any] = {name: only(values) for name, values in self.lists.items()}
        return replace(
            self,
            **lists,
            size=only(self.size),
            kernel=only(self.kernel),
            output_shape=None if self.output_shape is None else only(self.output_shape),
        )

    # The inputs of a layer with these sizes; one channel per group if unknown.

    @property
    def group_outputs(self) -> int:
        """M/g."""
        outputs = self.outputs if isinstance(self.outputs, int) else self.groups
        return max(outputs // self.groups, 1)

    def data_spec(self, *, channels_last: bool = False) -> Spec:
        """Return data (1, C, *I) or (1, *I, C)."""
        channels = self.channels if isinstance(self.channels, int) else self.groups
        shape = (1, *self.size, channels) if channels_last else (1, channels, *self.size)
        return Spec(self.dtype, shape)

    def filter_spec(self, *, grouped: bool = False) -> Spec:
        """Return a filter (C, M/g, *K) or (g, C/g, M/g, *K)."""
        channels = self.channels if isinstance(self.channels, int) else self.groups
        lead = (self.groups, channels // self.groups) if grouped else (channels,)
        return Spec(self.dtype, (*lead, self.group_outputs, *self.kernel))


def part(shape: Shape | None, start: int, count: int) -> Shape:
    """Return `count` dimensions from `start`, unknown ones if the rank is unknown or too low."""
    known = () if shape is None else shape[start : start + count]
    return known + (DYNAMIC,) * (count - len(known))


def shape_input(output_shape: Shape) -> Spec:
    """Return the spec of an output_shape input with these values."""
    value = np.empty(len(output_shape), object)
    value[:] = output_shape
    if is_static(output_shape):
        value = value.astype(np.int64)
    return Spec(i64, (len(output_shape),), value)


def shape_text(values: Shape) -> str:
    """Return `5,5`."""
    return ",".join(map(str, values))


def check_not_negative(name: str, values: Ints, system: str) -> None:
    """Require values of at least 0; E304."""
    for axis, v in enumerate(values):
        if v < 0:
            text = f"{name} is {v} at position {axis}; {system} takes no negative value"
            raise attribute_error(name, text)


def check_kernel(name: str, said: Sequence[int], kernel: Sequence[Dim]) -> None:
    """Require at least 1 on every axis, which the attribute of that name repeats; E302, E304."""
    for axis, k in enumerate(kernel):
        if isinstance(k, int) and k < 1:
            raise size_error(1, f"the kernel has size {k} on spatial axis {axis}")
    if said and any(merge(a, b) is None for a, b in zip(said, kernel, strict=False)):
        text = f"{name} is {list(said)}, the filter's kernel {format_shape(tuple(kernel))}"
        raise attribute_error(name, text)


def check_output_shape(shape: Spec | None, axes: int) -> None:
    """Require one value from 0 on per spatial axis; E305."""
    if shape is None or shape.shape is None:
        return
    if len(shape.shape) != 1 or merge(shape.shape[0], axes) is None:
        text = f"output_shape has shape {format_shape(shape.shape)}; it needs one value for "
        text += f"each of the {axes} spatial axes"
        raise value_error(2, text)
    for axis, size in enumerate(dims(shape) or ()):
        if isinstance(size, int) and size < 0:
            raise value_error(2, f"output_shape asks for size {size} on spatial axis {axis}")


def large_padding(s: Setting, words: str) -> Iterator[Problem]:
    """Yield a warning if output_padding is not below the stride."""
    if any(p >= stride for p, stride in zip(s.output_padding, s.strides, strict=True)):
        text = f"output_padding {list(s.output_padding)} is not below the strides "
        text += f"{list(s.strides)}: {words}"
        yield Problem("W301", text, attribute="output_padding")


def permute(b: Builder[X], x: X, order: Sequence[int]) -> X:
    """Transpose; a no-op if the order is the present one."""
    if list(order) == sorted(order):
        return x
    return b.add(Transpose(), x, b.const(np.array(order, np.int64)))


def split_groups(b: Builder[Any], w: Any, groups: int, axes: int) -> Any:
    """(C, M/g, *K) -> (g, C/g, M/g, *K)."""
    if groups == 1:
        return b.add(Unsqueeze(), w, b.const(np.array([0], np.int64)))
    shape = b.spec(w).shape
    if is_static(shape):
        target = b.const(np.array((groups, shape[0] // groups, *shape[1:]), np.int64))
    else:
        rest = np.arange(1, axes + 2, dtype=np.int64)
        tail = b.add(
            Gather(), b.add(ShapeOf(i64), w), b.const(rest), b.const(np.array(0, np.int64))
        )
        target = b.add(Concat(0), b.const(np.array([groups, -1], np.int64)), tail)
    return b.add(Reshape(special_zero=False), w, target)


def add_bias(b: Builder[Any], y: Any, bias: Any, axes: int) -> Any:
    """Add one value per channel to (N, M, *O)."""
    if bias is None:
        return y
    new_axes = np.array((0, *range(2, axes + 2)), np.int64)
    out = b.add(Add(), y, b.add(Unsqueeze(), bias, b.const(new_axes)))
    # A bias whose rank is unknown would leave nothing of the shape.
    return b.refine(out, b.spec(y).without_value()) if b.spec(bias).shape is None else out


def deconvolve(b: Builder[Any], x: Any, w: Any, t: WindowTerms, window: Window, least: int) -> Any:
    """Add the canonical deconvolution of channels-first data and a grouped filter.

    Sizes below `least` are refused with a hint that names the crop; E306.
    """
    op = Deconvolution(t.strides.values, t.dilations.values)
    pads = materialize(b, window.pads_begin), materialize(b, window.pads_end)
    try:
        y = b.add(op, x, w, *pads)
    except OpError as e:
        if e.problem.code != "E306":
            raise
        raise OpError(str(e), code="E306", hint=_cut(t, window)) from e
    if least:
        check_output((b.spec(y).shape or ())[2:], hint=_cut(t, window))
    return y


def _cut(t: WindowTerms, window: Window) -> str | None:
    if not isinstance(t.size, IntVector) or not isinstance(t.kernel, IntVector):
        return None
    return empty_hint(t.full(), window)


@dataclass(frozen=True)
class PadsTotal:
    """The sum of both pads on one axis: its formula, the same with numbers, its value."""

    formula: str  # the sum of pads with names: DK, S, FULL, I, O, op
    numbers: str  # the same formula with the numbers of the layer
    value: Dim  # its result


class PadsRule(Record, keys="text totals odd"):
    """The rule that gives the pads. `larger_begin` is None if nothing is split."""

    text: str  # the rule in words
    totals: tuple[PadsTotal, ...] = ()  # by axis, the sums that it splits into begin and end
    larger_begin: bool | None = None

    def split(self, axis: int) -> str:
        """Return how the total of an axis is divided."""
        if self.larger_begin is None:
            return ""
        total = self.totals[axis].value
        if total == 0:
            return "nothing to split"
        if isinstance(total, int) and total % 2 == 0:
            return "half at each side"
        side = "begin" if self.larger_begin else "end"
        if isinstance(total, int):
            return f"odd, the larger half at the {side}"
        return f"the larger half at the {side} where it is odd"

    @property
    def odd(self) -> str | None:
        """The side with the larger half, begin or end; null if no sum is split."""
        return None if self.larger_begin is None else "begin" if self.larger_begin else "end"


def as_given(s: Setting) -> PadsRule:
    """Return the rule of explicit pads, or of none."""
    if s.auto_pad == "valid":
        return PadsRule("auto_pad is valid: pads are 0, given ones are ignored")
    return PadsRule("as given")


def from_extent(s: Setting, attribute: str) -> PadsRule:
    """Return the rule by which same_* splits max(DK - S, 0), the smaller half first for upper."""
    if not s.same:
        return as_given(s)
    rows, rule = zip(s.extent, s.strides, strict=True), "max(DK - S, 0)"
    totals = tuple(PadsTotal(rule, f"max({d} - {n}, 0)", maximum(d - n, 0)) for d, n in rows)
    text = f"{attribute} {s.auto_pad}: given pads are ignored"
    return PadsRule(text, totals, s.auto_pad == "same_lower")


def from_output(s: Setting, *, clamp: bool) -> tuple[PadsTotal, ...]:
    """Return the totals that follow from output_shape; `clamp` makes a negative one 0."""
    assert s.output_shape is not None
    totals = []
    for full, extra, size in zip(s.full, s.output_padding, s.output_shape, strict=True):
        value = full + extra - size
        formula, numbers = "FULL + op - O", f"{full} + {extra} - {size}"
        if clamp:
            formula, numbers = f"max({formula}, 0)", f"max({numbers}, 0)"
            value = maximum(value, 0)
        totals.append(PadsTotal(formula, numbers, value))
    return tuple(totals)
