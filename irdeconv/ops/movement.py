"""Operations that move, repeat, pad or reshape whole tensors.

Concat, Transpose, Tile, Broadcast, Pad; ShapeOf, Reshape, Squeeze, Unsqueeze, and Range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import (
    OpError,
    Problem,
    attribute_error,
    size_error,
    value_error,
    values_of,
)
from irdeconv.base.limits import current
from irdeconv.ir.attributes import Ints
from irdeconv.ir.dtypes import ElementType, i64
from irdeconv.ir.op import JUMPS, MOVES, Bound, Op, attribute, op
from irdeconv.ir.ports import Fit, axis_of, exact, fit
from irdeconv.ir.spec import (
    DYNAMIC,
    UNKNOWN,
    Array,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    format_shape,
    ints,
    is_static,
    maximum,
    merge,
    non_negative,
    simplify,
)
from irdeconv.kernels import copies
from irdeconv.ops import checks


@op("Concat")
class Concat(Op):
    """Join tensors along `axis`: (..., A_i, ...) -> (..., sum of A_i, ...), one element type.

    All ranks and all other dimensions are equal.  [movement/Concat-1]
    """

    partial: ClassVar[bool] = True
    rounding = MOVES
    signature = "part+: any t -> t"
    axis: int = attribute(0, documented=True)

    def infer(self, *parts: Spec) -> Spec:
        dtype = fit(self, *parts).types.get("t")
        shape: Shape | None = None
        for i, p in enumerate(parts):
            if p.shape is not None and p.shape != shape:
                shape = p.shape if shape is None else self._join(shape, p.shape, i)
        if shape is None:
            return Spec(dtype, None)
        axis = axis_of(self.axis, len(shape), attribute="axis")
        total: Dim = 0
        for p in parts:
            total = total + (DYNAMIC if p.shape is None else p.shape[axis])
        out = Spec(dtype, (*shape[:axis], total, *shape[axis + 1 :]))
        return Spec(dtype, out.shape, self._partly_known(parts, out))

    def _join(self, a: Shape, b: Shape, port: int) -> Shape:
        if len(a) != len(b):
            text = f"part {port} has rank {len(b)}, the parts before it rank {len(a)}"
            raise OpError(text, code="E301", port=port)
        axis = axis_of(self.axis, len(a), attribute="axis")
        out = []
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            both = x if i == axis else merge(x, y)
            if both is None:
                text = f"part {port} is {format_shape(b)}; the parts before it have {x} "
                text += f"on axis {i}, and only axis {axis} may differ"
                raise size_error(port, text)
            out.append(both)
        return tuple(out)

    def _partly_known(self, parts: tuple[Spec, ...], out: Spec) -> Array | None:
        """Return an integer result of which some parts are known and others are not."""
        some = any(p.value is not None for p in parts) and any(p.value is None for p in parts)
        if not some or out.dtype is None or not out.dtype.is_integral:
            return None
        if out.size is None or out.size > current().value_elements:
            return None
        return self.evaluate(*(self._values(p, out) for p in parts))

    def _values(self, part: Spec, out: Spec) -> Array:
        """Return a part's values; the axes that it leaves open are those of the other parts."""
        if part.value is not None:
            return part.value
        assert is_static(out.shape)
        sizes: list[Any] = list(out.shape)
        sizes[self.axis] = (part.shape or ())[self.axis]
        return np.full(sizes, UNKNOWN, object)

    def evaluate(self, *parts: Array) -> Array:
        if any(p.dtype == object for p in parts):
            parts = tuple(p.astype(object) for p in parts)
        return np.concatenate(parts, self.axis)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound:
        at = axis_of(self.axis, len(checks.shape_of(outputs[0])))
        return Bound(copies.ConcatKernel.of([checks.shape_of(s)[at] for s in inputs], at))


@op("Transpose")
class Transpose(checks.ViewOp):
    """Permute axes: output axis i is input axis order[i]; an empty order reverses them.

    An order counts from the front only: the runtime refuses negative axes.  [movement/Transpose-1]
    """

    signature = "data: any t; order: integer [?] -> t [*O]"

    def complete(self, at: Fit, data: Spec, order: Spec) -> None:
        values = at.values("order")
        if data.shape is None:
            at.groups["O"] = (DYNAMIC,) * len(values) if values else None
            return
        rank = len(data.shape)
        if None is merge(count := at.count("order"), rank) is merge(count, 0):
            raise size_error(1, f"the order has {values_of(count)} for data of rank {rank}")
        at.groups["O"], chosen = (DYNAMIC,) * rank, exact(values)
        if chosen is not None:
            at.groups["O"] = tuple(data.shape[i] for i in _permutation(chosen, rank))

    def view(self, shape: Ints, order: Array) -> Callable[[Array], Array]:
        axes = _permutation(tuple(int(v) for v in order.reshape(-1)), len(shape))
        return lambda x: x.transpose(axes)


def _permutation(order: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the axes of an order; an empty one reverses them."""
    if order and min(order) < 0:
        message = f"the order {list(order)} has negative axes; count from 0 to {rank - 1}"
        raise OpError(message, code="E302", port=1)
    return checks.axes_of(order, rank, 1) if order else tuple(reversed(range(rank)))


class _Broadcast(Op):
    """Base of the two versions: modes numpy, pdpd, explicit, bidirectional."""

    partial: ClassVar[bool] = True
    rounding = MOVES
    signature = "data: any t; target_shape: integer [?] = *O; axes_mapping?: any -> t [*O]"
    mode: str = "numpy"

    @property
    def is_explicit(self) -> bool:
        """Whether `axes_mapping` maps the data's axes to the output's."""
        return self.mode in ("explicit", "none")

    def complete(self, at: Fit, data: Spec, *others: Spec) -> None:
        self._check_mapping(len(others) > 1)
        sizes = at.groups["O"]
        if sizes is None:
            return
        if self.mode == "bidirectional":
            text = f"data {format_shape(data.shape)} and target_shape {format_shape(sizes)}"
            at.groups["O"] = checks.joint_shape(data.shape, sizes, text, 1)
        elif data.shape is not None and not self.is_explicit:
            _check_into(data.shape, sizes, range(len(sizes) - len(data.shape), len(sizes)))
        elif data.shape is not None:
            fit(self, data, *others, signature="data: any; sizes: any; axes_mapping: integer [?]")
            self._check_axes(data.shape, sizes, at.values("axes_mapping"))

    def _check_mapping(self, given: bool) -> None:
        if given != (self.is_explicit):
            rule = "only" if given else "a third input, axes_mapping, with"
            text = f'mode="{self.mode}": axes_mapping is {"" if given else "not "}given; there is '
            text += f'{rule} mode="explicit"'
            raise OpError(text, code="E300", attribute="mode")

    def _check_axes(self, shape: Shape, target: Shape, axes: Sequence[Dim] | None) -> None:
        chosen = exact(axes)
        if axes is not None and len(axes) != len(shape):
            text = f"axes_mapping has {values_of(len(axes))} for data of rank {len(shape)}"
            raise size_error(2, text)
        if chosen is None:
            return
        for a in chosen:
            axis_of(a, len(target), port=2)
        if any(a < 0 for a in chosen) or list(chosen) != sorted(set(chosen)):
            raise value_error(2, f"axes_mapping {list(chosen)} must grow strictly from 0 on")
        _check_into(shape, target, chosen)

    def evaluate(
        self, data: Array, target_shape: Array, axes_mapping: Array | None = None
    ) -> Array:
        if target_shape.dtype == object:
            raise TypeError("Broadcast to a partly known shape")
        target = tuple(int(v) for v in target_shape)
        if self.mode == "bidirectional":
            target = np.broadcast_shapes(data.shape, target)
        placed = data.reshape(self._placed(data.shape, len(target), axes_mapping))
        return np.broadcast_to(placed, target).copy()

    def _placed(self, shape: tuple[int, ...], rank: int, axes: Array | None) -> tuple[int, ...]:
        """Return the data's shape with its axes in the order of an explicit mapping."""
        if not self.is_explicit or axes is None:
            return shape
        out = [1] * rank
        for axis, d in zip(axes, shape, strict=True):
            out[int(axis)] = d
        return tuple(out)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        axes = inputs[2].known if len(inputs) > 2 else None
        if self.is_explicit and axes is None:
            return None
        shape = checks.shape_of(outputs[0])
        size = self._placed(checks.shape_of(inputs[0]), len(shape), axes)
        return Bound(copies.CopyKernel(lambda x, *_: x.reshape(size), shape))


def _check_into(shape: Shape, target: Shape, axes: Sequence[int]) -> None:
    """Require that each dimension is 1 or that of the target's axis; E302."""
    if len(shape) > len(target):
        text = f"data {format_shape(shape)} has more axes than target_shape {format_shape(target)}"
        raise size_error(1, text)
    for d, axis in zip(shape, axes, strict=True):
        if merge(d, target[axis]) is None and merge(d, 1) is None:
            text = f"data {format_shape(shape)} does not broadcast to {format_shape(target)}: "
            text += f"dimension {d} must be 1 or {target[axis]} (axis {axis})"
            raise size_error(1, text)


@op("Broadcast", until=2)
class Broadcast1(_Broadcast):
    """Repeat data to `target_shape`; modes numpy, pdpd, explicit (or none).

    data: any type; target_shape, axes_mapping: integer vectors; explicit: data axis i runs along
    output axis axes_mapping[i], the other modes ignore a mapping.  [movement/Broadcast-1]
    """

    mode: Literal["numpy", "none", "pdpd", "explicit"] = "numpy"

    def _check_mapping(self, given: bool) -> None:
        # A mapping that the mode has no use for is ignored.
        super()._check_mapping(given and self.is_explicit)


@op("Broadcast", since=3)
class Broadcast(_Broadcast):
    """Repeat data to `target_shape`; modes numpy, explicit with `axes_mapping`, bidirectional.

    data: any type; target_shape, axes_mapping: integer vectors; bidirectional: the NumPy broadcast
    of both shapes.  [movement/Broadcast-3]
    """

    mode: Literal["numpy", "explicit", "bidirectional"] = "numpy"


@op("Tile")
class Tile(Op):
    """Repeat the data repeats[i] times along axis i; the shorter of both shapes is padded with 1s.

    data: any type; repeats: an integer vector, not negative.  [movement/Tile-1]
    """

    partial: ClassVar[bool] = True
    rounding = MOVES
    signature = "data: any t; repeats: integer [?] -> t [*O]"

    def complete(self, at: Fit, data: Spec, repeats: Spec) -> None:
        counts = at.values("repeats")
        if data.shape is None or counts is None:
            return
        rank = max(len(data.shape), len(counts))
        shape = (1,) * (rank - len(data.shape)) + data.shape
        times = (1,) * (rank - len(counts)) + counts
        at.groups["O"] = tuple(d * maximum(n, 0) for d, n in zip(shape, times, strict=True))

    def evaluate(self, data: Array, repeats: Array) -> Array:
        times = [max(int(n), 0) for n in repeats.reshape(-1)]
        if 0 in times:  # the axes in front of it are not repeated for nothing
            return np.empty(checks.inferred_shape(self, data, repeats), data.dtype)
        return np.tile(data, times)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        repeats = ints(inputs[1])
        if repeats is None:
            return None
        size = checks.shape_of(inputs[0])
        rank = max(len(size), len(repeats))
        size = (1,) * (rank - len(size)) + size
        inside, result = copies.tiled(size, (1,) * (rank - len(repeats)) + repeats)

        return Bound(lambda x, *_, out, team: np.copyto(out.reshape(result), x.reshape(inside)))


PadMode = Literal["constant", "edge", "reflect", "symmetric"]


def pad_indices(mode: PadMode, size: int, begin: int, end: int) -> Array:
    """Return the index of the axis element at each position of the padded axis."""
    at = np.arange(-begin, size + end)
    if mode == "edge":
        return np.clip(at, 0, size - 1)
    shift = 1 if mode == "symmetric" else 0  # symmetric repeats the border element
    at = np.where(at < 0, -at - shift, at)
    return np.where(at >= size, 2 * (size - 1) - at + shift, at)


@op("Pad", until=11)
class Pad1(Op):
    """Extend each axis by pads_begin and pads_end elements by the rule `pad_mode`.

    data: any type; pads: integer vectors, one value an axis; pad_value: a scalar of the data's
    type, 0 by default. Negative pads crop as from opset12 on, which the runtime accepts although
    the document does not.  [movement/Pad-1]
    """

    rounding = MOVES
    signature = (
        "data: any t; pads_begin: integer [?]; pads_end: integer [?]; pad_value?: t [] -> t [*O]"
    )
    pad_mode: PadMode = "constant"

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        for port, pads in enumerate(inputs[1:3], 1):
            values = ints(pads)
            if values is not None and any(v < 0 for v in values):
                text = f"pads {list(values)} are negative, which Pad allows from opset12 on"
                yield Problem("W301", text, port=port)

    def complete(self, at: Fit, data: Spec, *others: Spec) -> None:
        begin, end = at.values("pads_begin"), at.values("pads_end")
        lists = [v for v in (data.shape, begin, end) if v is not None]
        rank = len(lists[0]) if lists else 0
        for port, name, pads in ((1, "pads_begin", begin), (2, "pads_end", end)):
            if pads is not None and len(pads) != rank:
                raise size_error(port, f"{name} has {values_of(len(pads))} for data of rank {rank}")
        shape = (DYNAMIC,) * rank if data.shape is None else data.shape
        if begin is not None and end is not None:
            at.groups["O"] = tuple(map(self._dim, range(rank), shape, begin, end))
        elif lists:
            at.groups["O"] = (DYNAMIC,) * rank

    def _dim(self, axis: int, size: Dim, begin: Dim, end: Dim) -> Dim:
        for port, pad in ((1, begin), (2, end)):
            self._check(axis, size, pad, port)
        out = size + begin + end
        if not isinstance(out, Interval) and out < 0:
            text = f"axis {axis} of size {size} with pads {begin} and {end} would have size {out}"
            raise OpError(text, code="E306", port=1)
        return non_negative(out)

    def _check(self, axis: int, size: Dim, pad: Dim, port: int) -> None:
        """Require that the pads of a mirroring mode find an element to copy."""
        low, high = bounds(pad)[0], bounds(size)[1]
        if self.pad_mode == "constant" or low <= 0 or high is None:
            return
        limit = {"edge": None if high else 0, "reflect": high - 1, "symmetric": high}[self.pad_mode]
        if limit is not None and low > limit:
            text = f'pad {pad} of axis {axis}: pad_mode="{self.pad_mode}" '
            text += f"allows at most {limit} for size {size}"
            raise value_error(port, text)

    def evaluate(
        self, data: Array, pads_begin: Array, pads_end: Array, pad_value: Array | None = None
    ) -> Array:
        begin = tuple(int(v) for v in pads_begin.reshape(-1))
        end = tuple(int(v) for v in pads_end.reshape(-1))
        if self.pad_mode == "constant":
            return copies.padded(
                data, begin, end, 0 if pad_value is None else pad_value.reshape(())
            )
        for axis, (b, e) in enumerate(zip(begin, end, strict=True)):
            self._check(axis, data.shape[axis], b, 1)
            self._check(axis, data.shape[axis], e, 2)
            if b or e:
                data = data.take(pad_indices(self.pad_mode, data.shape[axis], b, e), axis)
        return data

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        begin, end = ints(inputs[1]), ints(inputs[2])
        if begin is None or end is None:
            return None
        if self.pad_mode != "constant":
            return self._bind_own(checks.shape_of(inputs[0]), begin, end)
        if not any(begin) and not any(end):
            return Bound(view=lambda x, *_: x)
        border = copies.Border.of(checks.shape_of(inputs[0]), begin, end)
        if not border.filled:
            return Bound(view=checks.indexed(border.source))

        value = inputs[3].known if len(inputs) > 3 else np.zeros((), np.float32)
        return Bound(copies.PadKernel(border, None if value is None else value.reshape(())))

    def _bind_own(
        self, shape: tuple[int, ...], begin: Sequence[int], end: Sequence[int]
    ) -> Bound | None:
        """Bind a padding that repeats the data's own elements, unless something is cropped."""
        if min(*begin, *end, 0) < 0:
            return None
        for axis, (size, *pads) in enumerate(zip(shape, begin, end, strict=True)):
            for port, count in enumerate(pads, 1):
                self._check(axis, size, count, port)
        rows = zip(shape, begin, end, strict=True)
        indices = [pad_indices(self.pad_mode, *row) for row in rows]
        return Bound(copies.OwnBorderKernel.of(shape, begin, indices))


@op("Pad", since=12)
class Pad12(Pad1):
    """Extend each axis by pads_begin and pads_end elements by `pad_mode`; negative pads crop.

    data: any type; pads: integer vectors, one value an axis; pad_value: a scalar of the data's
    type, 0 by default. All modes are windows on the endlessly extended data.  [movement/Pad-12]
    """

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        return iter(())


@op("ShapeOf", until=2)
class ShapeOf1(Op):
    """The shape as a vector: any tensor of rank r -> i64 [r].  [shape/ShapeOf-1]"""

    rounding = JUMPS
    output_type = i64

    def infer(self, data: Spec) -> Spec:
        dtype = self.output_type
        if dtype.name not in ("i32", "i64"):
            raise attribute_error("output_type", f"output_type is {dtype}; it must be i32 or i64")
        if data.shape is None:
            return Spec(dtype, (DYNAMIC,))
        values = np.empty(len(data.shape), object)
        values[:] = data.shape
        return Spec(dtype, values.shape, simplify(values, dtype))

    def evaluate(self, data: Array) -> Array:
        return np.array(data.shape, self.output_type.container)


@op("ShapeOf", since=3, until=17)
class ShapeOf(ShapeOf1):
    """The shape as a vector: any tensor of rank r -> `output_type` [r].  [shape/ShapeOf-3]"""

    output_type: ElementType = attribute(i64, required=True)


@op("Reshape")
class Reshape(checks.ViewOp):
    """Same elements in the shape that the second input gives; one -1 takes the remainder.

    With `special_zero` a 0 copies the dimension of the input at that place.  [shape/Reshape-1]
    """

    signature = "data: any t; shape: integer [?] -> t [*O]"
    special_zero: bool = False

    def complete(self, at: Fit, data: Spec, shape: Spec) -> None:
        pattern = at.values("shape")
        if pattern is not None:
            at.groups["O"] = self.target(data.shape, pattern)

    def view(self, shape: Ints, pattern: Array) -> checks.View:
        target = exact(self.target(shape, tuple(int(v) for v in pattern.reshape(-1))))
        assert target is not None
        return lambda x: x.reshape(target)

    def target(self, shape: Shape | None, pattern: tuple[Dim, ...]) -> Shape:
        """Return the output's shape, or bounds of it; E305 if the elements do not fit."""
        values = [v for v in pattern if not isinstance(v, Interval)]
        if values.count(-1) > 1 or min(values, default=0) < -1:
            text = f"the shape is {values}; at most one value may be -1 and none below it"
            raise value_error(1, text)
        out = [self._size(shape, i, v) for i, v in enumerate(pattern)]
        certain = not any(isinstance(v, Interval) and v.lo < 0 for v in pattern)
        if -1 in values and shape is not None and certain:
            out[pattern.index(-1)] = self._left_over(shape, pattern, out)
        if len(values) == len(pattern) and is_static(shape):
            self._check(shape, values, out)
        return tuple(out)

    def _size(self, shape: Shape | None, i: int, v: Dim) -> Dim:
        """Return the dimension that a value of the pattern names; that of a -1 is open."""
        if self.special_zero and v == 0 and shape is not None:
            if i < len(shape):
                return shape[i]
            text = f"value {i} of the shape is 0 (special_zero copies the dimension), but the data "
            raise value_error(1, f"{text}has rank {len(shape)}")
        # A 0 among the values of an interval would copy.
        return v if bounds(v)[0] >= int(self.special_zero) else DYNAMIC

    def _left_over(self, shape: Shape, pattern: tuple[Dim, ...], out: list[Dim]) -> Dim:
        """Divide the elements by the other dimensions; copied ones cancel, even unknown ones."""
        named = {i for i, v in enumerate(pattern) if not self.special_zero or v != 0}
        others = named - {pattern.index(-1)}
        size = math.prod(d for i, d in enumerate(shape) if i in named or i >= len(pattern))
        (slo, shi), (rlo, rhi) = bounds(size), bounds(math.prod(out[i] for i in others))
        if rhi == 0 and 0 not in shape:
            text = f"no dimension of {format_shape(shape)} is 0, which the -1 of {list(pattern)}"
            raise value_error(1, f"{text} beside a 0 needs")
        if rlo == 0:
            return 1 if rhi == 0 else DYNAMIC
        low = 0 if rhi is None else -(-slo // rhi)
        high = None if shi is None else shi // rlo
        if low == high:
            return low  # also beyond the largest dimension, which is refused later
        return DYNAMIC if high is not None and high < low else Interval.of(low, high)

    def _check(self, shape: Shape, pattern: list[int], out: list[Dim]) -> None:
        """Require that exact shapes have the same number of elements."""
        if not is_static(tuple(out)) or math.prod(out) != math.prod(shape):
            text = f"{format_shape(shape)} has {math.prod(shape)} elements, which do not fill "
            raise value_error(1, f"{text}{pattern}")


@op("Squeeze", until=14)
class Squeeze1(checks.ViewOp):
    """Remove the given axes of size 1 (all of them without `axes`).  [shape/Squeeze-1]"""

    signature = "data: any t; axes?: integer [*A:1] -> t [*O]"
    allow_axis_skip = False

    def complete(self, at: Fit, data: Spec, axes: Spec | None = None) -> None:
        skip, values = self.allow_axis_skip, at.values("axes")
        chosen = exact(values)
        if axes is None or values == ():
            at.groups["O"] = _squeeze_all(data.shape)
        elif data.shape is not None and chosen is None:
            if values is not None and not skip and len(values) <= len(data.shape):
                at.groups["O"] = (DYNAMIC,) * (len(data.shape) - len(values))
        elif data.shape is not None and chosen is not None:
            at.groups["O"] = _squeeze(data.shape, chosen, skip)

    def view(self, shape: Ints, axes: Array | None = None) -> checks.View:
        if axes is None or axes.size == 0:
            return _reshaping(_squeeze_all(shape))
        return _reshaping(_squeeze(shape, [int(a) for a in axes.reshape(-1)], self.allow_axis_skip))


def _reshaping(target: Shape | None) -> checks.View:
    """Reshape to a shape that follows from the data's own shape, so it is exact."""
    assert is_static(target)
    return lambda x: x.reshape(target)


def _squeeze_all(shape: Shape | None) -> Shape | None:
    if shape is None or any(isinstance(d, Interval) and d.lo <= 1 for d in shape):
        return None
    return tuple(d for d in shape if d != 1)


def _squeeze(shape: Shape, axes: Sequence[int], skip: bool) -> Shape | None:
    gone = {axis_of(a, len(shape), port=1) for a in axes}  # repeated axes are allowed
    for a in sorted(gone):
        low, high = bounds(shape[a])
        if low <= 1 and (high is None or high >= 1):
            if skip and low != high:
                return None
            continue
        if not skip:
            text = f"axis {a} has dimension {shape[a]}; only axes of 1 can be squeezed"
            raise value_error(1, text)
        gone.discard(a)
    return tuple(d for i, d in enumerate(shape) if i not in gone)


@op("Squeeze", since=15)
class Squeeze(Squeeze1):
    """Remove the given axes of size 1 (all of them without `axes`).

    With `allow_axis_skip` a given axis of another size stays.  [shape/Squeeze-15]
    """

    allow_axis_skip: bool = False


@op("Unsqueeze")
class Unsqueeze(checks.ViewOp):
    """Insert axes of size 1 at the given places of the output.  [shape/Unsqueeze-1]"""

    signature = "data: any t; axes: integer [*A:1] -> t [*O]"

    def complete(self, at: Fit, data: Spec, axes: Spec) -> None:
        places = at.values("axes")
        chosen = exact(places)
        if places == ():
            raise value_error(1, "axes is empty; one at least is needed")
        if data.shape is not None and chosen is not None:
            at.groups["O"] = _unsqueeze(data.shape, chosen)
        elif data.shape is not None and places is not None:
            at.groups["O"] = (DYNAMIC,) * (len(data.shape) + len(places))

    def view(self, shape: Ints, axes: Array) -> checks.View:
        return _reshaping(_unsqueeze(shape, [int(a) for a in axes.reshape(-1)]))


def _unsqueeze(shape: Shape, axes: Sequence[int]) -> Shape:
    rank = len(shape) + len(axes)
    new = checks.axes_of(axes, rank, 1)
    old = iter(shape)
    return tuple(1 if i in new else next(old) for i in range(rank))
