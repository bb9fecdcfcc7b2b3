"""How every operation turns the index of its output into those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from irdeconv.proof.model import Array, Layer, Port, Unproved
from irdeconv.verify import smt_sizes
from irdeconv.verify.smt_arrays import axis_of, list_of, text_of
from irdeconv.verify.smt_meaning import DECONVOLUTIONS
from irdeconv.verify.smt_reading import (
    POSITION,
    BackwardWalk,
    Component,
    ConstantPart,
    ElementReading,
    MergedAxes,
    Rule,
    fixed,
)
from irdeconv.verify.smt_regroup import groups, regrouped
from irdeconv.verify.smt_terms import (
    SizeTerm,
    SmtCondition,
    at_least,
    divisor,
    equal,
    term,
    variable,
    within,
)

MOST_WEIGHTS = 1 << 25


def _first(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    w.read(layer.inputs[0], r)


def _convert(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    raise Unproved(f"{layer} of data is not followed")


def _add(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    rank = len(w.side.dims(port))
    for i, p in enumerate(layer.inputs):
        inner = replace(w.broadcast(p, r, rank), added=True)
        if i == 1 and layer.type == "Subtract":
            inner = inner.scaled(np.full(r.rows.size, -1))
        w.read(p, inner)


def _multiply(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    rank = len(w.side.dims(port))
    known = [p for p in layer.inputs if w.side.is_constant(p)]
    if len(known) != 1 or (layer.type == "Divide" and known != [layer.inputs[1]]):
        raise Unproved(f"{layer} does not scale by a constant")
    (other,) = (p for p in layer.inputs if p != known[0])
    by = w.side.elements(known[0]).array
    scale = w.broadcast(known[0], r, rank)
    shape = np.broadcast_shapes(*(np.shape(fixed(c)) for c in scale.index), r.rows.shape) \
        if scale.index else r.rows.shape  # fmt: skip
    chosen = by[tuple(np.broadcast_to(fixed(c), shape) for c in scale.index)]
    if layer.type == "Divide":
        inverse = np.where(chosen != 0, 1 / np.where(chosen == 0, 1, chosen), 0)
        if not np.array_equal(inverse * chosen, np.ones_like(inverse)):
            raise Unproved(f"{layer}: a quotient is rounded")
        chosen = inverse
    w.read(other, w.broadcast(other, r, rank).scaled(np.broadcast_to(chosen, shape)))


def _function(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    if r.conditions or r.added or r.factor is not None or r.weights is not None:
        raise Unproved(f"{layer} is not the last that is computed")
    if layer.type == "Clamp":
        parameters = [float(layer.attributes[n]) for n in ("min", "max")]
    else:
        arrays = [w.side.elements(p).array.reshape(-1) for p in layer.inputs[1:]]
        if any(a.size != 1 for a in arrays):
            raise Unproved(f"{layer} has parameters per channel")
        parameters = [float(a[0]) for a in arrays]
    w.read(layer.inputs[0], replace(r, functions=(*r.functions, (layer.type, tuple(parameters)))))


def _transpose(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    order = smt_sizes.order_of(w.side, layer, len(r.index))
    w.read(layer.inputs[0], r.at(*(r.index[order.index(a)] for a in range(len(order)))))


def _unsqueeze(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    new = smt_sizes.new_axes(w.side, layer, len(w.side.dims(layer.inputs[0])))
    w.read(layer.inputs[0], r.at(*(c for a, c in enumerate(r.index) if a not in new)))


def _squeeze(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    dims, left = w.side.dims(layer.inputs[0]), list(r.index)
    for axis in sorted(smt_sizes.lost_axes(w.side, layer, dims)):
        left.insert(axis, term(0))
    w.read(layer.inputs[0], r.at(*left))


def _pad(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    dims = w.side.dims(layer.inputs[0])
    index: list[Component] = []
    conditions: list[SmtCondition] = []
    kept = np.ones(r.rows.size, bool)
    for c, size, b, e in zip(r.index, dims, *smt_sizes.pads_of(w.side, layer), strict=True):
        if isinstance(c, MergedAxes):
            if b == 0 and e == 0:
                index.append(c)
                continue
            c = c.flat()
        if isinstance(c, np.ndarray):
            first, count = b.known, size.known
            if first is None or count is None:
                raise Unproved(f"{layer} pads channels by what is not known")
            c = c - first
            inside = (c >= 0) & (c < count)
            if c.ndim > 1 and not inside.all():
                raise Unproved(f"{layer} pads input channels")
            kept &= inside.reshape(r.rows.size, -1).all(1)
        else:
            c = c - b
            conditions += [at_least(c, 0)] if b.known is None or b.known > 0 else []
            conditions += [at_least(size - 1, c)] if e.known is None or e.known > 0 else []
        index.append(c)
    w.read(layer.inputs[0], r.at(*index, conditions=conditions).of_rows(kept))
    if not kept.all():
        rest = r.of_rows(~kept)
        w.constants.append(ConstantPart(rest, np.zeros(rest.rows.size, np.int64)))


def _concat(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    axis = axis_of(layer, list_of(layer, "axis", 1)[0], len(r.index))
    c, first = r.index[axis], term(0)
    if isinstance(c, SizeTerm):
        axes = {m[1] for m in map(POSITION.fullmatch, c.variables) if m}
        if len(axes) > 1 or any(a.kind == "mod" for a in c.parts):
            fixed(c)  # a class of outputs for each part
    for p in layer.inputs:
        size = w.side.dims(p)[axis]
        index = list(r.index)
        if isinstance(c, np.ndarray):
            low, count = first.known, size.known
            if low is None or count is None:
                raise Unproved(f"{layer} joins channels of open number")
            inside = (c >= low) & (c < low + count)
            index[axis] = np.clip(c - low, 0, max(count - 1, 0))
            if inside.any():
                chosen = r.at(*index)
                if c.ndim > 1:
                    w.read(p, chosen.scaled(inside.astype(np.int64)))
                else:
                    w.read(p, chosen.of_rows(inside))
        else:
            index[axis] = c - first
            conditions = (at_least(c, first), at_least(first + size - 1, c))
            if not any(v.known is False for v in conditions):
                w.read(p, r.at(*index, conditions=conditions))
        first = first + size


def _slice(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    index, dims = list(r.index), w.side.dims(layer.inputs[0])
    for axis, first, step, size in smt_sizes.slices_of(w.side, layer):
        c = index[axis]
        if first == 0 and step == 1 and size == dims[axis]:
            continue
        if isinstance(c, MergedAxes):
            c = c.flat()
        if isinstance(c, np.ndarray):
            index[axis] = c * step + np.int64(fixed(first))
        else:
            index[axis] = c * step + first
    w.read(layer.inputs[0], r.at(*index))


def _split(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    index = list(r.index)
    axis, first, _ = smt_sizes.part_of(w.side, port, layer)
    c = index[axis]
    index[axis] = c + np.int64(fixed(first)) if isinstance(c, np.ndarray) else c + first
    w.read(layer.inputs[0], r.at(*index))


def _gather(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    dims = w.side.dims(layer.inputs[0])
    axis = axis_of(layer, w.side.ints(layer.inputs[2])[0], len(dims))
    taken = w.side.elements(layer.inputs[1]).array
    size = dims[axis].known
    if taken.ndim > 1 or size is None or list_of(layer, "batch_dims", 1) != [0]:
        raise Unproved(f"{layer} is not followed")
    at = np.array(w.side.ints(layer.inputs[1]), np.int64)
    at = np.where(at < 0, at + size, at)
    if taken.ndim == 0:
        index = [*r.index[:axis], term(at[0]), *r.index[axis:]]
    else:
        index = list(r.index)
        c, steps = index[axis], np.unique(np.diff(at))
        if isinstance(c, np.ndarray) or c.known is not None:
            found = at[fixed(c)]
            index[axis] = found if isinstance(c, np.ndarray) else term(found)
        elif steps.size == 1:
            index[axis] = c * int(steps[0]) + int(at[0])
        else:
            raise Unproved(f"{layer} takes elements in no even steps")
    w.read(layer.inputs[0], r.at(*index))


def _broadcast(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    if text_of(layer, "mode", "numpy") not in ("numpy", "bidirectional"):
        raise Unproved(f"{layer} has a mode that is not followed")
    w.read(layer.inputs[0], w.broadcast(layer.inputs[0], r, len(r.index)))


def _tile(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    dims = w.side.dims(layer.inputs[0])
    index = r.index[len(r.index) - len(dims) :]
    out = w.side.dims(port)[len(r.index) - len(dims) :]
    rows = zip(index, dims, out, strict=True)
    w.read(layer.inputs[0], r.at(*(c if d == o else c % divisor(d) for c, d, o in rows)))


def _depth_to_space(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    (block,) = list_of(layer, "block_size", 1, 1)
    channels, digits = fixed(r.index[1]), term(0)
    count = fixed(w.side.dims(port)[1])
    for c in r.index[2:]:
        digits = digits * block + np.asarray(fixed(c % block)).item()
    at = fixed(digits)
    if text_of(layer, "mode", "") == "blocks_first":
        channel = at * count + channels
    elif text_of(layer, "mode", "") == "depth_first":
        channel = channels * block ** (len(r.index) - 2) + at
    else:
        raise Unproved(f"{layer} has a mode that is not followed")
    whole = channel if isinstance(channel, np.ndarray) else term(channel)
    w.read(layer.inputs[0], r.at(r.index[0], whole, *(c // block for c in r.index[2:])))


def _zero_insertion(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    strides = list_of(layer, "strides", len(r.index) - 2, 1)
    index, conditions = list(r.index[:2]), []
    for c, s in zip(r.index[2:], strides, strict=True):
        index.append(c // s)
        conditions.append(equal(term(0) if s == 1 else _whole(c) % s, 0))
    w.read(layer.inputs[0], r.at(*index, conditions=conditions))


def _whole(c: SizeTerm | Array) -> SizeTerm:
    if isinstance(c, np.ndarray):
        raise Unproved("channels are spread")
    return c


def _convolution(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    if r.weights is not None:
        raise Unproved(f"{layer}: two convolutions on one another")
    found = w.side.elements(layer.inputs[1])
    filter = found.array[None] if layer.type == "Convolution" else found.array
    _, each, inputs, *kernel = filter.shape
    rows = np.broadcast_to(np.asarray(fixed(r.index[1])), r.rows.shape)
    index: list[Component] = [r.index[0], (rows // each * inputs)[:, None] + np.arange(inputs)]
    conditions: list[SmtCondition] = []
    data = w.side.dims(layer.inputs[0])[2:]
    axes = smt_sizes.convolution_windows(layer, data, kernel)
    for a, (c, size, (s, d, b, e)) in enumerate(zip(r.index[2:], data, axes, strict=True)):
        at = _whole(c) * s + variable(f"t{a + 1}", 0, kernel[a] - 1) * d - b
        index.append(at)
        conditions += within(at, size) if b != 0 or e != 0 else ()
    inner = r.at(*index, conditions=conditions)
    weights = filter[rows // each, rows % each]
    w.read(layer.inputs[0], _weighted(inner, weights, found.of))


def _weighted(r: ElementReading, weights: Array, numbered: Port | None) -> ElementReading:
    if weights.size > MOST_WEIGHTS:
        raise Unproved(f"{weights.size} weights are too many")
    factor = r.factor
    r = replace(r, weights=weights, numbered=numbered, factor=None)
    return r if factor is None else r.scaled(factor)


def _deconvolution(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    """Read by definition: output o takes input s and tap k where s*S + k*D = o + begin."""
    found, (_, _, each, *kernel), axes = smt_sizes.deconvolution_windows(w.side, layer)
    for name in found.functions():
        if r.conditions or r.added or r.factor is not None:
            raise Unproved(f"{layer}: its activation is not the last that is computed")
        r = replace(r, functions=(*r.functions, name))
    given = w.side.elements(layer.inputs[1])
    filter = found.filter(given.array)
    _, channel, *spatial = found.layout
    rows = np.broadcast_to(np.asarray(fixed(r.index[channel])), r.rows.shape)
    data = w.side.dims(layer.inputs[0])
    index = list(r.index)
    index[channel] = (rows // each * filter.shape[1])[:, None] + np.arange(filter.shape[1])
    conditions: list[SmtCondition] = []
    for a, (axis, (begin, _)) in enumerate(zip(spatial, axes, strict=True)):
        tap = variable(f"t{a + 1}", 0, kernel[a] - 1)
        reach = _whole(index[axis]) + begin - tap * found.dilations[a]
        index[axis] = reach // found.strides[a]
        conditions.append(equal(reach % found.strides[a], 0))
        conditions += within(index[axis], data[axis])
    inner = _weighted(r.at(*index, conditions=conditions), filter[rows // each, :, rows % each],
                      given.of)  # fmt: skip
    w.read(layer.inputs[0], inner)
    if found.bias is not None and len(layer.inputs) > found.bias:
        bias = w.side.elements(layer.inputs[found.bias])
        shared = replace(r, numbered=bias.of)
        w.constants.append(ConstantPart(shared, bias.array.reshape(-1)[rows]))


def _reshape(w: BackwardWalk, port: Port, layer: Layer, r: ElementReading) -> None:
    source, target = w.side.dims(layer.inputs[0]), w.side.dims(port)
    if any(d == 0 for d in source):
        w.constants.append(ConstantPart(r, np.zeros(r.rows.size, np.int64)))
        return
    index: list[Component] = []
    at = 0
    for here, there in groups(w.side, layer, source, target):
        index += regrouped(r.index[at : at + len(there)], there, here)
        at += len(there)
    w.read(layer.inputs[0], r.at(*index))


RULES: Mapping[str, Rule] = {
    "Add": _add,
    "Subtract": _add,
    "Multiply": _multiply,
    "Divide": _multiply,
    "Convert": _convert,
    "Identity": _first,
    **dict.fromkeys(["ReLU", "Tanh", "Sigmoid", "PReLU", "Clamp", "HardSigmoid"], _function),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Pad": _pad,
    "Concat": _concat,
    "Slice": _slice,
    "StridedSlice": _slice,
    **dict.fromkeys(["Split", "VariadicSplit"], _split),
    "Gather": _gather,
    "Broadcast": _broadcast,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "ZeroInsertion": _zero_insertion,
    **dict.fromkeys(["Convolution", "GroupConvolution"], _convolution),
    **dict.fromkeys(DECONVOLUTIONS, _deconvolution),
}
