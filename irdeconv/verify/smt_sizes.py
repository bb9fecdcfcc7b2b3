"""The sizes of what an operation returns, as terms over those of the source's values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from irdeconv.proof.model import Layer, Port, Unproved
from irdeconv.verify.smt_arrays import axis_of, flag_of, list_of, text_of
from irdeconv.verify.smt_meaning import DECONVOLUTIONS, Meaning, meaning, windows
from irdeconv.verify.smt_side import Dims, ReadSide
from irdeconv.verify.smt_terms import SizeTerm, SmtCondition, at_least, equal, larger, smaller, term

RESHAPING = ("new_axis", "shrink_axis", "ellipsis")  # masks of StridedSlice


def _first(side: ReadSide, port: Port, layer: Layer) -> Dims:
    return side.dims(layer.inputs[0])


def _const(side: ReadSide, port: Port, layer: Layer) -> Dims:
    return tuple(map(term, side.elements(port).array.shape))


def _elementwise(side: ReadSide, port: Port, layer: Layer) -> Dims:
    if text_of(layer, "auto_broadcast", "numpy") != "numpy":
        raise Unproved(f"{layer} has an auto_broadcast that is not followed")
    shapes = [side.dims(p) for p in layer.inputs]
    rank = max(map(len, shapes))
    padded = [(term(1),) * (rank - len(s)) + s for s in shapes]
    out = tuple(next((d for d in axis if d != 1), axis[0]) for axis in zip(*padded, strict=True))
    for shape in padded:
        for d, whole in zip(shape, out, strict=True):
            if d != 1:
                side.demand(equal(d, whole), f"sizes that {layer} combines are equal")
    return out


def _transpose(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = side.dims(layer.inputs[0])
    return tuple(dims[a] for a in order_of(side, layer, len(dims)))


def order_of(side: ReadSide, layer: Layer, rank: int) -> list[int]:
    """Return the order of a Transpose."""
    order = [axis_of(layer, a, rank) for a in side.ints(layer.inputs[1])]
    order = order or list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise Unproved(f"{layer}: the order {order} of rank {rank}")
    return order


def _pad(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = side.dims(layer.inputs[0])
    begin, end = pads_of(side, layer)
    return tuple(d + b + e for d, b, e in zip(dims, begin, end, strict=True))


def pads_of(side: ReadSide, layer: Layer) -> tuple[list[SizeTerm], list[SizeTerm]]:
    """Return the pads of a Pad that pads with zeros."""
    if text_of(layer, "pad_mode", "constant") != "constant":
        raise Unproved(f"{layer} does not pad with a constant")
    for port in layer.inputs[3:]:
        if side.elements(port).array.any():
            raise Unproved(f"{layer} pads with something else than zeros")
    return side.vector(layer.inputs[1]), side.vector(layer.inputs[2])


def _reshape(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims, target = side.dims(layer.inputs[0]), side.vector(layer.inputs[1])
    special = flag_of(layer, "special_zero", "false")
    if special:
        target = [dims[i] if d == 0 else d for i, d in enumerate(target)]
    if term(-1) in target:
        rest = [d for d in target if d != -1]
        target = [_remaining(layer, dims, rest) if d == -1 else d for d in target]
    elif special and any(d.known is None and (d.bounds[0] or 0) < 1 for d in target):
        raise Unproved(f"{layer}: special_zero where a size may be 0")
    return tuple(target)


def _remaining(layer: Layer, dims: Sequence[SizeTerm], rest: Sequence[SizeTerm]) -> SizeTerm:
    """Return the size of -1: the factors that are left."""
    opened = [d for d in dims if d.known is None]
    known, by = math.prod(d.known for d in dims if d.known is not None), 1
    for d in rest:
        if d in opened:
            opened.remove(d)
        elif d.known:
            by *= d.known
        else:
            raise Unproved(f"{layer}: the size of -1 does not follow")
    shared = math.gcd(known, by)
    known, by = known // shared, by // shared
    for i, d in enumerate(opened):
        shared = math.gcd(by, d.constant, *d.parts.values())
        opened[i], by = d // shared, by // shared
    if by != 1:
        raise Unproved(f"{layer}: the size of -1 does not follow")
    return math.prod(opened, start=term(known))


def _unsqueeze(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = list(side.dims(layer.inputs[0]))
    for axis in new_axes(side, layer, len(dims)):
        dims.insert(axis, term(1))
    return tuple(dims)


def new_axes(side: ReadSide, layer: Layer, rank: int) -> list[int]:
    """Return the axes that Unsqueeze puts in, ascending."""
    axes = side.ints(layer.inputs[1])
    return sorted(axis_of(layer, a, rank + len(axes)) for a in axes)


def _squeeze(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = side.dims(layer.inputs[0])
    gone = lost_axes(side, layer, dims)
    return tuple(d for a, d in enumerate(dims) if a not in gone)


def lost_axes(side: ReadSide, layer: Layer, dims: Dims) -> list[int]:
    """Return the axes that Squeeze takes away; they must have the size 1."""
    if len(layer.inputs) < 2:
        if any(d.known is None for d in dims):
            raise Unproved(f"{layer} names no axes, and sizes are open")
        return [a for a, d in enumerate(dims) if d == 1]
    axes = [axis_of(layer, a, len(dims)) for a in side.ints(layer.inputs[1])]
    if any(dims[a] != 1 for a in axes):
        raise Unproved(f"{layer} squeezes an axis that is not 1")
    return axes


def _concat(side: ReadSide, port: Port, layer: Layer) -> Dims:
    shapes = [side.dims(p) for p in layer.inputs]
    axis = axis_of(layer, list_of(layer, "axis", 1)[0], len(shapes[0]))
    out = list(shapes[0])
    for other in shapes[1:]:
        for a, (d, first) in enumerate(zip(other, out, strict=True)):
            if a != axis:
                side.demand(equal(d, first), f"sizes of what {layer} joins are equal")
    out[axis] = sum((s[axis] for s in shapes[1:]), shapes[0][axis])
    return tuple(out)


def _slice(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = list(side.dims(layer.inputs[0]))
    for axis, _, _, size in slices_of(side, layer):
        dims[axis] = size
    return tuple(dims)


def slices_of(side: ReadSide, layer: Layer) -> list[tuple[int, SizeTerm, int, SizeTerm]]:
    """Return axis, first element, step and size of what a Slice or StridedSlice takes."""
    dims = side.dims(layer.inputs[0])
    start, stop = (list(side.vector(p)) for p in layer.inputs[1:3])
    step = side.ints(layer.inputs[3]) if len(layer.inputs) > 3 else [1] * len(start)
    axes = side.ints(layer.inputs[4]) if len(layer.inputs) > 4 else list(range(len(start)))
    if layer.type == "StridedSlice":
        if min(step) < 1 or any(any(list_of(layer, f"{n}_mask")) for n in RESHAPING):
            raise Unproved(f"{layer}: it adds, removes or reverses axes")
        masks = [list_of(layer, f"{n}_mask", len(start)) for n in ("begin", "end")]
        start = [term(0) if m else v for v, m in zip(start, masks[0], strict=True)]
        stop = [d if m else v for v, d, m in zip(stop, dims, masks[1], strict=False)]
    out = []
    for a, first, last, by in zip(axes, start, stop, step, strict=True):
        axis = axis_of(layer, a, len(dims))
        out.append((axis, *taken(side, layer, dims[axis], first, last, by)))
    return out


def taken(
    side: ReadSide, layer: Layer, size: SizeTerm, start: SizeTerm, stop: SizeTerm, step: int
) -> tuple[SizeTerm, int, SizeTerm]:
    """Return the first element, the step and the size of a slice of an axis."""
    if step == 0:
        raise Unproved(f"{layer}: a step of 0")
    low, high = (term(0), size) if step > 0 else (term(-1), size - 1)
    first = _clamped(side, layer, size, start, low, high)
    if step < 0 and start.known is not None and start.known < 0:
        first = larger(start + size, 0)  # backwards a start before the axis is its 0
    last = _clamped(side, layer, size, stop, low, high)
    span = last - first if step > 0 else first - last
    return first, step, larger(span + (abs(step) - 1), 0) // abs(step)


def _clamped(
    side: ReadSide, layer: Layer, size: SizeTerm, bound: SizeTerm, low: SizeTerm, high: SizeTerm
) -> SizeTerm:
    least, most = bound.bounds
    if most is not None and most < 0:
        bound = bound + size
    elif least is None or least < 0:
        if side.is_source:
            raise Unproved(f"{layer}: a bound that may count from both ends")
        side.demand(SmtCondition(bound), f"a bound of {layer} does not count from the end")
    return smaller(larger(bound, low), high)


def _gather(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = side.dims(layer.inputs[0])
    axis = axis_of(layer, side.ints(layer.inputs[2])[0], len(dims))
    return (*dims[:axis], *side.dims(layer.inputs[1]), *dims[axis + 1 :])


def _broadcast(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims, target = side.dims(layer.inputs[0]), side.vector(layer.inputs[1])
    rank = max(len(dims), len(target))
    given, wanted = ([term(1)] * (rank - len(s)) + list(s) for s in (dims, target))
    both = text_of(layer, "mode", "numpy") == "bidirectional"
    for d, whole in zip(given, wanted, strict=True):
        if d != 1 and not (both and whole == 1):
            side.demand(equal(d, whole), f"sizes that {layer} combines are equal")
    return tuple(d if both and w == 1 else w for d, w in zip(given, wanted, strict=True))


def _tile(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims, repeats = list(side.dims(layer.inputs[0])), side.vector(layer.inputs[1])
    rank = max(len(dims), len(repeats))
    rows = [[term(1)] * (rank - len(s)) + s for s in (dims, repeats)]
    return tuple(d * r for d, r in zip(*rows, strict=True))


def _depth_to_space(side: ReadSide, port: Port, layer: Layer) -> Dims:
    n, c, *spatial = side.dims(layer.inputs[0])
    (block,) = list_of(layer, "block_size", 1, 1)
    side.demand(equal(c % block ** len(spatial), 0), f"channels of {layer} are whole blocks")
    return (n, c // block ** len(spatial), *(d * block for d in spatial))


def _zero_insertion(side: ReadSide, port: Port, layer: Layer) -> Dims:
    n, c, *spatial = side.dims(layer.inputs[0])
    strides = list_of(layer, "strides", len(spatial), 1)
    if flag_of(layer, "trailing", "false"):
        return (n, c, *(d * s for d, s in zip(spatial, strides, strict=True)))
    return (n, c, *(larger((d - 1) * s + 1, 0) for d, s in zip(spatial, strides, strict=True)))


def _split(side: ReadSide, port: Port, layer: Layer) -> Dims:
    dims = list(side.dims(layer.inputs[0]))
    axis, _, size = part_of(side, port, layer)
    dims[axis] = size
    return tuple(dims)


def part_of(side: ReadSide, port: Port, layer: Layer) -> tuple[int, SizeTerm, SizeTerm]:
    """Return the axis, the first element and the size of what an output of Split takes."""
    dims = side.dims(layer.inputs[0])
    axis = axis_of(layer, side.ints(layer.inputs[1])[0], len(dims))
    if layer.type == "Split":
        (count,) = list_of(layer, "num_splits", 1)
        size = dims[axis] // count
        side.demand(equal(size * count, dims[axis]), f"{layer} divides without rest")
        return axis, size * port.port, size
    lengths = side.vector(layer.inputs[2])
    if term(-1) not in lengths:
        whole = sum(lengths, term(0))
        side.demand(equal(whole, dims[axis]), f"the lengths of {layer} make up the axis")
    if term(-1) in lengths:
        at = lengths.index(term(-1))
        lengths[at] = dims[axis] - (sum(lengths, term(0)) + 1)
    return axis, sum(lengths[: port.port], term(0)), lengths[port.port]


def _convolution(side: ReadSide, port: Port, layer: Layer) -> Dims:
    data = side.dims(layer.inputs[0])
    filter = shape_of_filter(side, layer)
    kernel = filter[2:] if layer.type == "Convolution" else filter[3:]
    rows = zip(data[2:], convolution_windows(layer, data[2:], kernel), kernel, strict=True)
    spatial = [(size + b + e - (d * (k - 1) + 1)) // s + 1 for size, (s, d, b, e), k in rows]
    groups, inputs = (1, filter[1]) if layer.type == "Convolution" else (filter[0], filter[2])
    text = f"channels of data and filter of {layer} are equal"
    side.demand(equal(data[1], groups * inputs), text)
    channels = filter[0] if layer.type == "Convolution" else filter[0] * filter[1]
    return (data[0], term(channels), *spatial)


def shape_of_filter(side: ReadSide, layer: Layer) -> list[int]:
    """Return the shape of a filter, which must be known."""
    return list(side.elements(layer.inputs[1]).array.shape)


def convolution_windows(
    layer: Layer, sizes: Sequence[SizeTerm], kernel: Sequence[int]
) -> list[tuple[int, int, SizeTerm, SizeTerm]]:
    """Return stride, dilation, pads at both ends of every axis of a convolution."""
    n = len(sizes)
    strides, dilations = list_of(layer, "strides", n, 1), list_of(layer, "dilations", n, 1)
    begin, end = list_of(layer, "pads_begin", n), list_of(layer, "pads_end", n)
    mode = text_of(layer, "auto_pad", "explicit")
    if min(*strides, *dilations) < 1 or len(kernel) != n:
        raise Unproved(f"{layer}: strides, dilations or filter do not fit")
    out = []
    for a in range(n):
        b, e = (term(p[a] if mode == "explicit" else 0) for p in (begin, end))
        if mode.startswith("same"):
            s = strides[a]
            wanted = (sizes[a] + (s - 1)) // s
            total = larger((wanted - 1) * s + dilations[a] * (kernel[a] - 1) + 1 - sizes[a], 0)
            b = total // 2 if mode == "same_upper" else (total + 1) // 2
            e = total - b
        elif mode not in ("explicit", "valid"):
            raise Unproved(f"{layer}: auto_pad is {mode!r}")
        out.append((strides[a], dilations[a], b, e))
    return out


def _deconvolution(side: ReadSide, port: Port, layer: Layer) -> Dims:
    data = side.dims(layer.inputs[0])
    found, filter, axes = deconvolution_windows(side, layer)
    channels = data[found.layout[1]]
    text = f"channels of data and filter of {layer} are equal"
    side.demand(equal(channels, filter[0] * filter[1]), text)
    out = [data[0]] * len(data)
    out[found.layout[1]] = term(filter[0] * filter[2])
    for a, (_, size) in zip(found.layout[2:], axes, strict=True):
        side.demand(at_least(size, found.least), f"sizes of {layer} are at least {found.least}")
        out[a] = size
    for a, beyond in enumerate(found.beyond or ()):
        full = (data[found.layout[2 + a]] - 1) * found.strides[a]
        full = full + found.dilations[a] * (filter[3 + a] - 1) + 1
        text = f"{layer} is asked for no more than {beyond} outputs beyond the scatter"
        side.demand(at_least(full + beyond, axes[a][1]), text)
    return tuple(out)


def deconvolution_windows(
    side: ReadSide, layer: Layer
) -> tuple[Meaning, tuple[int, ...], list[tuple[SizeTerm, SizeTerm]]]:
    """Return what a deconvolution means, its canonical filter's shape, begin and O of each axis."""
    data = side.dims(layer.inputs[0])
    found = meaning(layer, len(data))
    filter = found.filter(side.elements(layer.inputs[1]).array).shape
    sizes = [data[a] for a in found.layout[2:]]
    if found.pads:
        begin, end = (side.vector(p) for p in layer.inputs[2:4])
        rows = zip(sizes, filter[3:], found.strides, found.dilations, begin, end, strict=True)
        out = [(b, (i - 1) * s + d * (k - 1) + 1 - b - e) for i, k, s, d, b, e in rows]
        return found, filter, out
    wanted = None
    if found.output_shape is not None:
        wanted = side.vector(layer.inputs[found.output_shape])
    axes = windows(found, sizes, filter[3:], wanted)
    name = side.space.name
    return found, filter, [(name(b, f"begin of axis {a} of {layer}"), size)
                           for a, (b, size) in enumerate(axes)]  # fmt: skip


RULES: Mapping[str, Callable[[ReadSide, Port, Layer], Dims]] = {
    **dict.fromkeys(["Const"], _const),
    **dict.fromkeys(["Add", "Subtract", "Multiply", "Divide"], _elementwise),
    **dict.fromkeys(
        ["ReLU", "Tanh", "Sigmoid", "PReLU", "Clamp", "HardSigmoid", "Convert", "Identity"], _first
    ),
    **dict.fromkeys(["Split", "VariadicSplit"], _split),
    **dict.fromkeys(["Convolution", "GroupConvolution"], _convolution),
    **dict.fromkeys(DECONVOLUTIONS, _deconvolution),
    "Transpose": _transpose,
    "Pad": _pad,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Slice": _slice,
    "StridedSlice": _slice,
    "Gather": _gather,
    "Broadcast": _broadcast,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "ZeroInsertion": _zero_insertion,
}  # fmt: skip
