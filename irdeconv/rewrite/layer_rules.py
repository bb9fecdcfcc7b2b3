"""The rewritings of a convolution by the rules of legalising.py: all exact, one function each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.geometry import IntVector, extent
from irdeconv.ir.spec import DYNAMIC, Spec, is_static
from irdeconv.ops.core import permute, sizes
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Concat
from irdeconv.ops.slicing import Gather, StridedSlice
from irdeconv.rewrite.emit import (
    ONE,
    ConvolutionLayer,
    FormBuilder,
    Ints,
    Option,
    X,
    crop,
    exact_shape,
    filled,
    joined,
    needs,
    pad_by_concat,
    pad_spatial,
    reshaped,
)
from irdeconv.rewrite.target_conditions import Facts
from irdeconv.rewrite.targets import Tensors, WindowFacts, slicing

Layer = ConvolutionLayer[X]
AnyLayer = Any  # a convolution, or a deconvolution of legalising.py
JUDGED = 2048  # units of work for the verdict of a target on the numbers of a layer


def size_of(b: FormBuilder[X], x: X, axis: int) -> int:
    """Return the size of an axis; OpError if it is known only at run time."""
    shape = b.spec(x).shape
    size = None if shape is None else shape[axis]
    if not isinstance(size, int):
        raise OpError(f"the size of axis {axis} is known only at run time", code="E400")
    return size


def _shaped(b: FormBuilder[X], x: X, shape: Sequence[int]) -> X:
    return reshaped(b, x, IntVector(tuple(shape)))


def bias_of(b: FormBuilder[X], bias: X | None, axes: int) -> X | None:
    """Return a bias [1, M, 1, ...] for another number of spatial axes."""
    if bias is None:
        return None
    return reshaped(b, bias, ONE, sizes(b, bias, 1, 1), IntVector((1,) * axes))


def outside(b: FormBuilder[X], x: X, begin: Sequence[int], end: Sequence[int]) -> X:
    """Pad the spatial axes by a Pad or by Concats with zeros; negative amounts crop."""
    pads = IntVector(tuple(begin)), IntVector(tuple(end))
    if max(*begin, *end) <= 0 or not is_static(b.spec(x).shape):
        return pad_spatial(b, x, *pads)
    ways = (("Pad", pad_spatial), ("Concat", pad_by_concat))
    return b.choose([Option(op, partial(way, b, x, *pads), needs(op)) for op, way in ways])


def window(b: FormBuilder[X], x: X, axis: int, start: int, count: int, step: int = 1) -> X:
    """Return `count` elements of an axis of known size, `step` apart, from `start` on."""
    size, rank = size_of(b, x, axis), b.spec(x).rank or 0
    stop = start + (count - 1) * step + 1
    if step == 1:
        begin, end = [0] * rank, [0] * rank
        begin[axis], end[axis] = start, size - stop
        return crop(b, x, begin, end)
    mask = tuple(int(a != axis) for a in range(rank))
    given = ((start, 0), (stop, 0), (step, 1))
    rows = [[v if a == axis else d for a in range(rank)] for v, d in given]
    op = StridedSlice(begin_mask=mask, end_mask=mask)
    return b.add(op, x, *(joined(b, IntVector(tuple(r))) for r in rows))


@dataclass(frozen=True)
class LayerLimits:
    """A convolution or deconvolution in numbers, and the target that judges it."""

    b: Any  # Planner
    layer: AnyLayer
    groups: int
    outputs: int  # of a group
    inputs: int  # of a group
    kernel: Ints
    size: tuple[int | None, ...]

    @staticmethod
    def of(b: Any, layer: AnyLayer) -> LayerLimits | None:
        """Return the numbers of a layer, None if its filter's shape or its pads are unknown."""
        shape, size = b.spec(layer.w).shape, b.spec(layer.x).shape
        if not is_static(shape) or not layer.has_known_pads or size is None:
            return None
        known = tuple(n if isinstance(n, int) else None for n in size)
        groups, *sides = shape[:3]
        outputs, inputs = sides if layer.forward else reversed(sides)
        return LayerLimits(b, layer, groups, outputs, inputs, shape[3:], known)

    def blamed(self, **changes: Any) -> frozenset[str]:
        """Return the names in the conditions that the layer violates with other numbers."""
        found: frozenset[str] = self._judged("blamed", changes)
        return found

    def unmet(self, about: str = "", **changes: Any) -> int:
        """Return how many conditions (that name `about`) the layer violates with other numbers."""
        found: int = self._judged("unmet", changes, about)
        return found

    def _judged(self, how: str, changes: Mapping[str, Any], *about: str) -> Any:
        """Ask the target, unless a layer with the same numbers was judged before."""
        known = self.b.memo.judged
        key = (self._numbers, how, about, *changes.items())
        if key not in known:
            self.b.memo.draw(JUDGED)
            known[key] = getattr(self.b.target, how)(*self._facts(changes), *about)
        return known[key]

    @cached_property
    def _numbers(self) -> tuple[object, ...]:
        """All that conditions can be about."""
        layer, data = self.layer, self.b.spec(self.layer.x)
        own = (layer.forward, layer.strides, layer.dilations, *layer.known_pads())
        filter = (self.groups, self.outputs, self.inputs, self.kernel)
        return (*own, *filter, data.dtype, data.shape, layer.bias is None)

    def _facts(self, changes: Mapping[str, Any]) -> tuple[str, Facts]:
        layer, size = self.layer, self.b.spec(self.layer.x)
        begin, end, *more = changes.get("pads", layer.known_pads())
        groups = changes.get("groups", self.groups)
        window = WindowFacts(
            inputs=groups * changes.get("inputs", self.inputs),
            outputs=groups * changes.get("outputs", self.outputs),
            groups=groups,
            kernel=changes.get("kernel", self.kernel),
            strides=changes.get("strides", layer.strides),
            dilations=changes.get("dilations", layer.dilations),
            pads=(begin, end),
            output_padding=more[0] if more else (),
        )
        data = Spec(size.dtype, (*size.shape[:2], *changes.get("size", size.shape[2:])))
        bias = layer.bias is not None
        facts = window.facts(Tensors.of([data]), constant_filter=True, has_bias=bias)
        operation = "Convolution" if layer.forward else "ConvolutionBackpropData"
        return "Group" * (groups > 1) + operation, facts

    def crop_failures(self) -> list[str]:
        """Return the violated conditions of the Slice that negative pads become."""
        rows = enumerate(zip(*self.layer.known_pads(), strict=True), 2)
        steps = {a: 1 for a, pads in rows if min(pads) < 0}
        facts = slicing(Tensors.of([self.b.spec(self.layer.x)]), steps, (DYNAMIC,) * len(self.size))
        found: list[str] = self.b.target.failures("Slice", facts) if steps else []
        return found

    def blamed_if_dense(self) -> frozenset[str]:
        """Return the names in the conditions that the layer violates as one group."""
        outputs, inputs = self.groups * self.outputs, self.groups * self.inputs
        if self.groups == 1:
            return frozenset()
        return self.blamed(groups=1, outputs=outputs, inputs=inputs, pads=self.no_pads)

    @property
    def has_wrong_axes(self) -> bool:
        """Whether not even a kernel of one tap may have so many axes."""
        ones = (1,) * len(self.kernel)
        plain = {"kernel": ones, "strides": ones, "dilations": ones, "pads": self.no_pads}
        return bool(self.unmet("spatial_axes", inputs=1, outputs=1, groups=1, **plain))

    @property
    def no_pads(self) -> tuple[Ints, Ints]:
        """Pads of 0."""
        zero = (0,) * len(self.kernel)
        return zero, zero


def as_plane(b: FormBuilder[X], layer: AnyLayer, place: int) -> X:
    """1-D -> 2-D: (N, C, 1, W) with a kernel 1xK, or at place 1 (N, C, W, 1)."""

    def wide(values: Sequence[int], default: int) -> Ints:
        return (default, *values) if place == 0 else (*values, default)

    shape, (begin, end) = exact_shape(b, layer.w), layer.known_pads()
    n, c, w = (sizes(b, layer.x, a, 1) for a in range(3))
    flat: X = layer.padded(
        wide(begin, 0),
        wide(end, 0),
        x=reshaped(b, layer.x, n, c, *((ONE, w) if place == 0 else (w, ONE))),
        w=_shaped(b, layer.w, (*shape[:3], *wide(shape[3:], 1))),
        strides=wide(layer.strides, 1),
        dilations=wide(layer.dilations, 1),
        bias=bias_of(b, layer.bias, 2),
        stage=1,
    ).emit(b)
    return reshaped(b, flat, *(sizes(b, flat, a, 1) for a in (0, 1, 3 - place)))


def as_planes(b: FormBuilder[X], layer: Layer[X]) -> X:
    """3-D -> 2-D: the depth joins the batch, the taps along the depth become channels."""
    g, m, c, k, *kernel = exact_shape(b, layer.w)
    begin, end = layer.known_pads()
    batch, depth, height, width = (sizes(b, layer.x, a, 1) for a in (0, 2, 3, 4))
    stride, dilation = layer.strides[0], layer.dilations[0]
    x = reshaped(b, layer.x, batch, IntVector((g * c,)), depth, height * width)
    x = outside(b, x, (begin[0], 0), (end[0], 0))
    out = (size_of(b, x, 2) - extent(k, dilation)) // stride + 1
    copies = [window(b, x, 2, t * dilation, out, stride) for t in range(k)]
    if g > 1 and k > 1:  # the taps of a group stay beside it
        flat = (IntVector((c,)), IntVector((out,)), height * width)
        copies = [reshaped(b, y, batch * g, *flat) for y in copies]
    x = b.add(Concat(1), *copies) if k > 1 else copies[0]
    deep = IntVector((out,))
    x = reshaped(b, x, batch, IntVector((g * k * c,)), deep, height * width)
    x = permute(b, x, (0, 2, 1, 3))
    x = reshaped(b, x, batch * out, IntVector((g * k * c,)), height, width)
    y = ConvolutionLayer(
        x=x,
        w=_shaped(b, permute(b, layer.w, (0, 1, 3, 2, 4, 5)), (g, m, k * c, *kernel)),
        strides=layer.strides[1:],
        dilations=layer.dilations[1:],
        begin=IntVector(begin[1:]),
        end=IntVector(end[1:]),
        bias=bias_of(b, layer.bias, 2),
        stage=1,
    ).emit(b)
    outputs, high, wide = IntVector((g * m,)), sizes(b, y, 2, 1), sizes(b, y, 3, 1)
    y = permute(b, reshaped(b, y, batch, deep, outputs, high * wide), (0, 2, 1, 3))
    return reshaped(b, y, batch, outputs, deep, high, wide)


def dense(b: FormBuilder[X], layer: AnyLayer) -> X:
    """Groups -> one group with a block-diagonal filter."""
    made: X = replace(layer, w=block_diagonal(b, layer.w), stage=2).emit(b)
    return made


def block_diagonal(b: FormBuilder[X], w: X) -> X:
    """(g, A, B, *K) -> (1, g*A, g*B, *K), zero outside of the blocks of the groups.

    A row of one block and g blocks of zeros, repeated, has the blocks g+1 apart: on the diagonal.
    """
    g, rows, columns, *kernel = exact_shape(b, w)
    block = rows * columns * math.prod(kernel)
    flat = _shaped(b, w, (g, block))
    flat = pad_spatial(b, flat, IntVector((0,)), IntVector((g * block,)), 1)
    flat = crop(b, _shaped(b, flat, (g * (g + 1) * block,)), [0], [g * block])
    wide = _shaped(b, flat, (g, g, rows, columns, *kernel))
    order = (0, 2, 1, 3, *range(4, 4 + len(kernel)))
    return _shaped(b, permute(b, wide, order), (1, g * rows, g * columns, *kernel))


def group_by_group(b: FormBuilder[X], layer: AnyLayer) -> X:
    """Groups -> a layer for each, concatenated."""
    g, *sides = exact_shape(b, layer.w)[:3]
    m, c = sides if layer.forward else reversed(sides)

    def group(i: int) -> X:
        bias = None if layer.bias is None else window(b, layer.bias, 1, i * m, m)
        x, w = window(b, layer.x, 1, i * c, c), window(b, layer.w, 0, i, 1)
        made: X = replace(layer, x=x, w=w, bias=bias, stage=2).emit(b)
        return made

    key = object()
    return b.add(Concat(1), *(b.repeat(key, partial(group, i)) for i in range(g)))


def undilated(b: FormBuilder[X], layer: AnyLayer) -> X:
    """Dilation -> zeros between the taps of the filter."""
    w, ones = spread_taps(b, layer.w, layer.dilations), (1,) * len(layer.strides)
    made: X = replace(layer, w=w, dilations=ones, stage=3).emit(b)
    return made


def spread_taps(b: FormBuilder[X], w: X, dilations: Ints) -> X:
    """(g, A, B, *K) -> (g, A, B, *(D(K-1)+1)): zeros between the taps."""
    for a, d in enumerate(dilations, 3):
        shape = exact_shape(b, w)
        if d == 1 or shape[a] == 1:
            continue
        w = _shaped(b, w, (*shape[: a + 1], 1, *shape[a + 1 :]))
        w = padded_axis(b, w, a + 1, d - 1)
        w = _shaped(b, w, (*shape[:a], shape[a] * d, *shape[a + 1 :]))
        w = window(b, w, a, 0, d * (shape[a] - 1) + 1)
    return w


def padded_axis(b: FormBuilder[X], w: X, axis: int, end: int, begin: int = 0) -> X:
    """Pad one axis with zeros."""
    if not begin and not end:
        return w
    rank = b.spec(w).rank or 0
    lists = [IntVector(tuple(v * (a == axis) for a in range(rank))) for v in (begin, end)]
    return pad_spatial(b, w, lists[0], lists[1], 0)


def sliced_stride(b: FormBuilder[X], layer: Layer[X], strides: Ints) -> X:
    """A stride -> a divisor of it, and every n-th output."""
    y = replace(layer, strides=strides, stage=4).emit(b)
    for a, (want, have) in enumerate(zip(layer.strides, strides, strict=True), 2):
        step = want // have
        y = window(b, y, a, 0, (size_of(b, y, a) - 1) // step + 1, step) if step > 1 else y
    return y


def with_zeros(
    b: FormBuilder[X], layer: AnyLayer, front: Sequence[int], back: Sequence[int]
) -> AnyLayer:
    """Return a layer with zeros in front of its kernel and behind it; the pads grow as well."""
    w, ends = layer.w, []
    for axis, pair in enumerate(zip(back, front, strict=True), 3):
        w = padded_axis(b, w, axis, *pair)
    for pads, zeros in zip(layer.known_pads(), (front, back), strict=True):
        rows = zip(pads, layer.dilations, zeros, strict=True)
        ends.append(tuple(p + d * n for p, d, n in rows))
    return layer.padded(*ends, w=w)


def filled_kernel(
    b: FormBuilder[X], layer: AnyLayer, kernel: Ints, front: Ints = (), stage: int = 5
) -> X:
    """A kernel -> a larger one with `front` zeros in front, by default to make the pads alike."""
    have, pads = exact_shape(b, layer.w)[3:], layer.known_pads()
    rows = [(n - k, *row) for k, n, *row in zip(have, kernel, layer.dilations, *pads, strict=True)]
    front = front or tuple(min(max((q - p + d * n) // (2 * d), 0), n) for n, d, p, q in rows)
    back = [n - f for (n, *_), f in zip(rows, front, strict=True)]
    made: X = replace(with_zeros(b, layer, front, back), stage=stage).emit(b)
    return made


def part_sizes(k: int) -> list[int]:
    """Return sizes of parts of a kernel on an axis, the large ones first.

    These are the least sizes for every number of parts, and sizes that small limits allow.
    """
    balanced = {-(-k // p) for p in range(1, min(k, 600) + 1)}  # of 600 taps the first 24 differ
    return sorted({*balanced, *range(1, min(k, 9) + 1)}, reverse=True)[:24]


def wider_sizes(kernel: Ints, more: int) -> list[list[int]]:
    """Return sizes by axis, from that of the kernel: up to `more` taps, or another axis's size."""
    return [sorted(n for n in {*range(k, k + more + 1), *kernel} if n >= k) for k in kernel]


def divisors(stride: int) -> list[int]:
    """Return the divisors of a stride; without those that need two factors above 1,024."""
    low = [d for d in range(1, min(math.isqrt(stride), 1024) + 1) if stride % d == 0]
    return sorted({*low, *(stride // d for d in low)})


def kernel_parts(kernel: Ints, most: int) -> Iterator[Ints]:
    """Yield sizes of parts that cut a kernel into `most` parts at most, the large ones first."""
    for part in itertools.product(*map(part_sizes, kernel)):
        if math.prod(-(-k // n) for k, n in zip(kernel, part, strict=True)) <= most:
            yield part


def _split_kernel(
    b: FormBuilder[X], layer: Layer[X], part: Ints
) -> tuple[X, list[list[tuple[int, int]]], X]:
    """Return padded data, per axis each part's crops at begin and end, and the filter.

    The filter is (g, A, B, *(P n)): filled with zeros up to whole parts.
    """
    begin, end = map(list, layer.known_pads())
    kernel, w, crops = exact_shape(b, layer.w)[3:], layer.w, []
    for a, (k, n, d) in enumerate(zip(kernel, part, layer.dilations, strict=True)):
        parts = -(-k // n)
        w = padded_axis(b, w, 3 + a, parts * n - k)
        end[a] += (parts * n - k) * d
        crops.append([(i * n * d, (parts - 1 - i) * n * d) for i in range(parts)])
    return outside(b, layer.x, begin, end), crops, w


def _cropped(b: FormBuilder[X], x: X, amounts: Sequence[tuple[int, int]]) -> X:
    """Crop the spatial axes."""
    return crop(b, x, *([0, 0, *v] for v in zip(*amounts, strict=True)))


def kernel_as_channels(b: FormBuilder[X], layer: Layer[X], part: Ints) -> X:
    """A kernel -> parts: shifted copies of the data as channels of one convolution."""
    x, crops, w = _split_kernel(b, layer, part)
    counts = tuple(map(len, crops))
    g, m, c, *_ = exact_shape(b, w)
    copies = [_cropped(b, x, amounts) for amounts in itertools.product(*crops)]
    for i, copy in enumerate(copies if g > 1 else ()):  # each group's channels by themselves
        rest = [sizes(b, copy, a, 1) for a in range(2, b.spec(copy).rank or 0)]
        copies[i] = reshaped(b, copy, sizes(b, copy, 0, 1) * g, IntVector((c,)), *rest)
    x = b.add(Concat(1), *copies)
    total = math.prod(counts)
    if g > 1:
        space = (sizes(b, x, 2 + a, 1) for a in range(len(part)))
        x = reshaped(b, x, sizes(b, layer.x, 0, 1), IntVector((g * total * c,)), *space)
    w = _parts_first(b, w, part, counts, 2)
    w = _shaped(b, w, (g, m, total * c, *part))
    zero = (0,) * len(part)
    return layer.padded(zero, zero, x=x, w=w, stage=5).emit(b)


def _parts_first(b: FormBuilder[X], w: X, part: Ints, counts: Ints, axis: int) -> X:
    """(g, A, B, *(P n)) -> (g, A, *P, B, *n), or with *P in front of another axis than 2."""
    pairs = [v for p, k in zip(counts, part, strict=True) for v in (p, k)]
    numbers, sizes = range(3, 3 + len(pairs), 2), range(4, 4 + len(pairs), 2)
    order = (*range(axis), *numbers, *range(axis, 3), *sizes)
    return permute(b, _shaped(b, w, (*exact_shape(b, w)[:3], *pairs)), order)


def kernel_as_sum(b: FormBuilder[X], layer: Layer[X], part: Ints) -> X:
    """A kernel -> a sum of convolutions over shifted windows."""
    x, crops, w = _split_kernel(b, layer, part)
    zero, total = (0,) * len(part), list[X]()
    for i, amounts in enumerate(itertools.product(*crops)):
        taps = w
        for a, (start, _) in enumerate(amounts):
            taps = window(b, taps, 3 + a, start // layer.dilations[a], part[a])
        bias = layer.bias if i == 0 else None
        piece = layer.padded(zero, zero, x=_cropped(b, x, amounts), w=taps, bias=bias, stage=5)
        total.append(piece.emit(b))
    return reduce(lambda p, q: b.add(Add(), p, q), total)


def chunks(count: int, parts: int) -> list[tuple[int, int]]:
    """Return start and size of `parts` nearly equal chunks."""
    cuts = [count * i // parts for i in range(parts + 1)]
    return [(p, q - p) for p, q in itertools.pairwise(cuts)]


def inputs_split(b: FormBuilder[X], layer: Layer[X], parts: int) -> X:
    """Input channels -> a sum of convolutions of some of them each."""
    total = []
    for i, (start, count) in enumerate(chunks(exact_shape(b, layer.w)[2], parts)):
        x, w = window(b, layer.x, 1, start, count), window(b, layer.w, 2, start, count)
        bias = layer.bias if i == 0 else None
        total.append(replace(layer, x=x, w=w, bias=bias, stage=5).emit(b))
    return reduce(lambda p, q: b.add(Add(), p, q), total)


def outputs_split(b: FormBuilder[X], layer: Layer[X], parts: int) -> X:
    """Output channels -> convolutions of some of them each, concatenated."""
    pieces = []
    for start, count in chunks(exact_shape(b, layer.w)[1], parts):
        bias = None if layer.bias is None else window(b, layer.bias, 1, start, count)
        w = window(b, layer.w, 1, start, count)
        pieces.append(replace(layer, w=w, bias=bias, stage=5).emit(b))
    return b.add(Concat(1), *pieces)


def filled_channels(b: FormBuilder[X], layer: Layer[X], inputs: int, outputs: int) -> X:
    """Channels -> more of them: zeros in the data and the filter, a crop of the output."""
    x, w, bias = layer.x, layer.w, layer.bias
    rest = (0,) * len(layer.strides)
    if inputs:
        x = padded_axis(b, x, 1, inputs)
        w = padded_axis(b, w, 2, inputs)
    if outputs:
        w = padded_axis(b, w, 1, outputs)
        bias = None if bias is None else padded_axis(b, bias, 1, outputs)
    y = replace(layer, x=x, w=w, bias=bias, stage=6).emit(b)
    return crop(b, y, [0, 0, *rest], [0, outputs, *rest])


def equal_pads(b: FormBuilder[X], layer: Layer[X], pads: Ints) -> X:
    """Pads -> larger ones that are alike, and a crop of the output; for stride 1."""
    begin, end = layer.known_pads()
    if set(layer.strides) != {1}:
        raise OpError("the stride is not 1", code="E400")
    y = layer.padded(pads, pads, stage=7).emit(b)
    front = [0, 0, *(p - q for p, q in zip(pads, begin, strict=True))]
    return crop(b, y, front, [0, 0, *(p - q for p, q in zip(pads, end, strict=True))])


def even_kernel_pads(b: FormBuilder[X], layer: Layer[X]) -> X:
    """Pads -> equal ones, by zeros in the kernel on the side with the smaller pad."""
    begin, end = layer.known_pads()
    more = [abs(p - q) for p, q in zip(begin, end, strict=True)]
    if any(n % d for n, d in zip(more, layer.dilations, strict=True)):
        w = spread_taps(b, layer.w, layer.dilations)
        layer = replace(layer, w=w, dilations=(1,) * len(begin))
    rows = zip(exact_shape(b, layer.w)[3:], more, layer.dilations, strict=True)
    return filled_kernel(b, layer, tuple(k + n // d for k, n, d in rows), stage=7)


def uncropped(b: FormBuilder[X], layer: Layer[X]) -> X:
    """Negative pads -> zeros in the kernel that read the cropped elements."""
    rows = (zip(pads, layer.dilations, strict=True) for pads in layer.known_pads())
    made: X = with_zeros(b, layer, *([-(min(p, 0) // d) for p, d in row] for row in rows)).emit(b)
    return made


def pads_by_convolution(b: FormBuilder[X], layer: Layer[X], most: int) -> X:
    """Pads beyond a limit -> convolutions that copy the data and pad it."""
    begin, end = layer.known_pads()
    now = [tuple(min(p, most) for p in v) for v in (begin, end)]
    left = [tuple(max(p - most, 0) for p in v) for v in (begin, end)]
    ones = (1,) * len(begin)

    def padded(w: X) -> X:
        pads = IntVector(now[0]), IntVector(now[1])
        return ConvolutionLayer(layer.x, w, ones, ones, *pads, stage=7).emit(b)

    return layer.padded(left[0], left[1], x=copied(b, layer.x, padded)).emit(b)


def copied(b: FormBuilder[X], x: X, layer: Callable[[X], X]) -> X:
    """Return the copy that a layer makes of data, with a filter of one tap for each channel."""
    axes = (b.spec(x).rank or 2) - 2
    filter = b.const(filled(b, x, (size_of(b, x, 1), 1, 1, *(1,) * axes), 1))
    ways = (filter, block_diagonal(b, filter))
    return b.choose([Option("copy", partial(layer, w)) for w in ways])


def tiles(b: FormBuilder[X], layer: Layer[X], axis: int, parts: int) -> X:
    """A large map -> tiles along an axis that overlap, concatenated."""
    begin, end = layer.known_pads()
    x = outside(b, layer.x, begin, end)
    k, s, d = exact_shape(b, layer.w)[3 + axis], layer.strides[axis], layer.dilations[axis]
    outputs = (size_of(b, x, 2 + axis) - extent(k, d)) // s + 1
    if outputs < 2:
        raise OpError("there is nothing to be divided into tiles", code="E400")
    zero, pieces = (0,) * len(begin), []
    for start, count in chunks(outputs, min(parts, outputs)):
        piece = window(b, x, 2 + axis, start * s, s * (count - 1) + extent(k, d))
        pieces.append(layer.padded(zero, zero, x=piece, stage=7).emit(b))
    return b.add(Concat(2 + axis), *pieces)


def taken_taps(b: FormBuilder[X], w: X, axes: Sequence[Sequence[Ints]]) -> X:
    """(g, A, B, *K) -> (g, P A, B, *n): the taps of each part, K for a zero, parts first."""
    g, rows, columns = exact_shape(b, w)[:3]
    for a, taps in enumerate(axes):
        w = padded_axis(b, w, 3 + a, 1)
        index = np.array([t for row in taps for t in row], np.int64)
        w = b.add(Gather(), w, b.const(index), b.const(np.array(3 + a, np.int64)))
    counts, part = tuple(map(len, axes)), tuple(len(taps[0]) for taps in axes)
    w = _parts_first(b, w, part, counts, 1)
    return _shaped(b, w, (g, math.prod(counts) * rows, columns, *part))
