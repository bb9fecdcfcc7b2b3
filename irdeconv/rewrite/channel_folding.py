"""Fold batch normalization, scale and bias into the convolution or deconvolution beside them.

A chain of such layers is y = s x + t for each channel, with constants s and t. Behind a layer, s
multiplies the filter for each output channel, and t is a bias. In front of a layer, s multiplies
the filter for each input channel, and t becomes a bias if nothing is padded. Everything is computed
in double precision, and rounded once to the filter's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import ml_dtypes
import numpy as np

from irdeconv.base.errors import count
from irdeconv.base.json_form import Real, Record
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, ports
from irdeconv.ir.spec import Array
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.elementwise import Add, Binary, Divide, Multiply, Subtract
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.reduction import BatchNormInference, BatchNormInference1
from irdeconv.rewrite.builder import GraphBuilder, replace_node
from irdeconv.rewrite.compressed_filters import StoredFilter, constant_of, narrowed, stored

FOLDED = "/folded"  # ends the name of a layer that has lost its bias to an Add behind it
FOLDED_BYTES = 1 << 26  # of filters that a plan makes anew
DOUBLE_ROUNDING = 2.0**-50  # of the double precision in which one layer is folded
_LAYERS = (Convolution, GroupConvolution, MatMul, DialectDeconvolution)
_NORMS = (BatchNormInference, BatchNormInference1)
_TAKEN = (Add, Subtract, Multiply, Divide, *_NORMS)

Step = tuple[Any, Any]  # s and t of y = s x + t


class FusedLayer(Record):
    """The layers that a layer took in, or why one beside it stays.

    A result changes by at most `bound` times the sum of the magnitudes of its terms; products that
    are subnormal numbers of the filter's type count as 0.
    """

    name: str  # of the layer before
    type: str  # of its operation
    took: tuple[str, ...] = ()  # the layers that were folded into it
    result: str | None = None  # the layer that has the results now
    bound: Annotated[float | None, Real] = None  # on the relative change, by rounding
    reason: str | None = None  # why the layer beside it stays; null if it was folded


def fused_lines(rows: Sequence[FusedLayer]) -> list[str]:
    """Return a line about all layers that were folded, and one for each reason."""
    done = [r for r in rows if r.took]
    if not rows:
        return ["no scale or bias is beside a convolution, nothing to fuse"]
    took, bound = sum(len(r.took) for r in done), max((r.bound or 0 for r in done), default=0)
    text = f"{count(took, 'layer')} fused into {count(len(done), 'other')}: results change by at "
    text += f"most {bound:.1e} of the sum of their terms' magnitudes"
    return [*[text] * bool(done), *(f"{r.name}: not fused: {r.reason}" for r in rows if r.reason)]


class _NotFused(Exception):
    """A chain is not folded; the text says why."""


@dataclass
class _ScaleChain:
    """The layers on one side of a layer, from it outwards, with their steps in order."""

    nodes: list[Node]
    steps: list[Step]
    value: Value  # that the outermost layer in front reads, or the one behind computes
    reason: str | None = None  # why the next layer stays
    normal: bool = False  # whether no product may be subnormal; then no bound is computed

    @staticmethod
    def nothing(graph: Graph, layer: _FilterLayer) -> _ScaleChain:
        """Return a chain in front of a layer that has no layers."""
        return _ScaleChain([], [], graph.inputs_of(layer.node.id)[0])

    def composed(self, shift: Array, size: Array) -> tuple[Array, Array, Array]:
        """Return s and t of all steps behind a shift, and the sum of the magnitudes in t."""
        scale = np.ones(shift.shape)
        for s, t in self.steps:
            scale, shift, size = scale * s, shift * s + t, np.abs(s) * size + np.abs(t)
        return scale, shift, size


@dataclass(frozen=True)
class _FilterLayer:
    """A layer with its filter as (groups, .., *K), in which two axes are channels."""

    node: Node
    stored: StoredFilter
    filter: Array  # in double precision
    order: tuple[int, ...]  # of the stored filter's axes
    outer: int  # the axis of a group's output channels; its input channels are 3 - outer
    channel: int  # the output's channel axis

    @staticmethod
    def of(graph: Graph, node: Node) -> _FilterLayer | None:
        """Return a layer if its filter is a constant of floating-point numbers."""
        op = node.op
        if not isinstance(op, _LAYERS) or getattr(op, "activation", None):
            return None
        value, spec = graph.inputs_of(node.id)[1], node.spec()
        found, rank = stored(graph, value), spec.rank
        if found is None or rank is None or rank < 2 or graph.spec(value).dtype != spec.dtype:
            return None
        types = [found.dtype, *(step.node.spec().dtype for step in found.steps)]
        if any(t is None or not t.is_real for t in types):
            return None  # quantized, or integers
        w = found.filter()
        order, groups, outer, channel = tuple(range(w.ndim)), 1, 1, 1
        if isinstance(op, MatMul):
            outer, channel = 2 - op.transpose_b, rank - 1
            if w.ndim != 2:
                return None
        elif isinstance(op, DialectDeconvolution):
            groups, outer = op.group_count or 0, 2
            channel = rank - 1 if op.channels_last else 1
            order = op.filter_order(rank - 2) if groups else order
        elif isinstance(op, GroupConvolution):
            groups = 0  # the filter has an axis of groups
        w = w.transpose(order).astype(np.float64)
        if groups:
            w = w.reshape(groups, len(w) // groups, *w.shape[1:])
        return _FilterLayer(node, found, w, order, outer, channel)

    def channels(self, axis: int) -> int:
        return int(self.filter.shape[0] * self.filter.shape[axis])

    def along(self, vector: Array, axis: int) -> Array:
        """Return a vector of channels as it multiplies the filter."""
        shape = [self.filter.shape[0], *[1] * (self.filter.ndim - 1)]
        shape[axis] = self.filter.shape[axis]
        return vector.reshape(shape)

    def restored(self, values: Array) -> Array:
        """Return values of the filter's shape in the layout of the stored filter."""
        moved = values.reshape([self.stored.shape[a] for a in self.order])
        return np.ascontiguousarray(moved.transpose(np.argsort(self.order)))

    @property
    def bias_port(self) -> int | None:
        """The port of the bias, which may be missing; None if the operation has none."""
        names = ports(type(self.node.op)).names
        return names.index("bias") if "bias" in names else None


def fuse_channels(graph: Graph) -> tuple[FusedLayer, ...]:
    """Fold per-channel layers of an inferred graph into their neighbours, in place.

    A layer between two is folded into the first.
    """
    last = _last_names(graph)
    layers = (_FilterLayer.of(graph, node) for node in graph.topological() if node.id in graph)
    found = [_fused(graph, layer) for layer in layers if layer is not None]
    for origins, name in _last_names(graph).items():
        if last.get(origins, name) != name:  # what is left computes something else
            for node in graph.nodes():
                node.origins = (node.name,) if node.origins == origins else node.origins
    return tuple(row for row in found if row is not None)


def behind_folded(graph: Graph) -> Graph:
    """Return an inferred graph without the scales behind convolutions and matrix products.

    Their filters of f32 and f64 are multiplied if all of them together are not large, nothing else
    reads them, and no product is subnormal; other layers stay. It is the graph itself if there are
    none. New layers name those that they replace as their origins.
    """
    scaled = [n.id for n in graph.topological() if isinstance(n.op, _LAYERS) and _scaled(graph, n)]
    out, left = graph.copy() if scaled else graph, FOLDED_BYTES
    for at in scaled:
        left -= out.spec(out.inputs_of(at)[1]).nbytes or FOLDED_BYTES
        layer, first = _FilterLayer.of(out, out.node(at)) if left >= 0 else None, out.next_id
        before = None if layer is None else replace(_ScaleChain.nothing(out, layer), normal=True)
        row = None if layer is None else _fused(out, layer, before)
        names = (row.name, *row.took) if row is not None else ()
        for new in range(first, out.next_id):
            if new in out:
                out.node(new).origins = names
    return out


def _scaled(graph: Graph, node: Node) -> bool:
    """Whether a product or quotient is behind a layer, before anything that is not folded."""
    dtype, value = node.spec().dtype, Value(node.id)
    if dtype is None or dtype.name not in ("f32", "f64"):
        return False
    if len(graph.users(graph.inputs_of(node.id)[1])) > 1:
        return False
    while len(users := graph.users(value)) == 1:
        reader = graph.node(users[0][0])
        others = [v for v in graph.inputs_of(reader.id) if v != value]
        if not isinstance(reader.op, _TAKEN) or any(constant_of(graph, v) is None for v in others):
            return False
        if not isinstance(reader.op, Add | Subtract):
            return True
        value = Value(reader.id)
    return False


def _last_names(graph: Graph) -> dict[tuple[str, ...], str]:
    """Return the last layer of each rewriting, which has the result of its source."""
    return {n.origins: n.name for n in graph.topological() if n.origins}


def _fused(
    graph: Graph, layer: _FilterLayer, before: _ScaleChain | None = None
) -> FusedLayer | None:
    """Fold the layers around one, by default also those in front; None if there are none.

    `before` are those in front, if they are known.
    """
    name, kind = layer.node.name, layer.node.type
    before, behind = before or _in_front(graph, layer), _behind(graph, layer)
    reason = before.reason or behind.reason
    only_bias = len(behind.steps) == 1 and np.all(behind.steps[0][0] == 1)
    if before.steps or (behind.steps and not (only_bias and layer.bias_port is None)):
        try:
            with np.errstate(all="ignore"):
                bound = _fold(graph, layer, before, behind)
            took = tuple(n.name for n in (*before.nodes[::-1], *behind.nodes))
            return FusedLayer(name, kind, took, (behind.nodes or [layer.node])[-1].name, bound)
        except _NotFused as e:
            reason = str(e)
    if reason is None or name.endswith(FOLDED):
        return None
    return FusedLayer(name, kind, reason=reason)


def _behind(graph: Graph, layer: _FilterLayer) -> _ScaleChain:
    """Return the layers behind one, each the only reader of the one before."""
    chain = _ScaleChain([], [], Value(layer.node.id))
    while len(users := graph.users(chain.value)) == 1:
        reader = graph.node(users[0][0])
        try:
            steps = _steps(graph, reader, chain.value, layer.channel, layer.channels(layer.outer))
        except _NotFused as e:
            chain.reason = str(e)
            break
        if steps is None:
            break
        chain.nodes.append(reader)
        chain.steps += steps
        chain.value = Value(reader.id)
    return chain


def _in_front(graph: Graph, layer: _FilterLayer) -> _ScaleChain:
    """Return the layers in front of one, each read only by the next one."""
    op, axis, size = layer.node.op, layer.channel, layer.channels(3 - layer.outer)
    chain = _ScaleChain.nothing(graph, layer)
    if isinstance(op, MatMul):
        axis = (graph.spec(chain.value).rank or 0) - 1 - op.transpose_a
    while len(graph.users(chain.value)) == 1:
        node = graph.node(chain.value.node)
        data = [v for v in graph.inputs_of(node.id) if constant_of(graph, v) is None]
        try:
            steps = _steps(graph, node, data[0], axis, size) if len(data) == 1 else None
            if steps and any(np.any(t) for _, t in steps) and not _reads_no_pads(op):
                raise _NotFused(f"the bias of {node.name} does not reach padded zeros")
        except _NotFused as e:
            chain.reason = str(e)
            break
        if steps is None:
            break
        chain.nodes.append(node)
        chain.steps = steps + chain.steps
        chain.value = data[0]
    return chain


def _reads_no_pads(op: Op) -> bool:
    """Whether every tap of every output meets an element of the data."""
    if not isinstance(op, Convolution | GroupConvolution):
        return isinstance(op, MatMul)
    pads = (*op.pads_begin, *op.pads_end) if op.auto_pad == "explicit" else ()
    return op.auto_pad in ("explicit", "valid") and max(pads, default=0) <= 0


def _steps(graph: Graph, node: Node, data: Value, axis: int, size: int) -> list[Step] | None:
    """Return the effect of a layer on each of `size` channels; None if it is no such layer."""
    op, inputs = node.op, graph.inputs_of(node.id)
    if not isinstance(op, _TAKEN) or inputs.count(data) != 1:
        return None
    spec, at = node.spec(), inputs.index(data)
    own = graph.spec(data)
    if (spec.dtype, spec.rank) != (own.dtype, own.rank):
        return None
    if (own.shape or ())[axis : axis + 1] != (size,):  # open, or spread over the channels here
        return None
    given = [constant_of(graph, v) for v in inputs if v != data]
    vectors = [_per_channel(op, v, spec.rank or 0, axis, size) for v in given if v is not None]
    known = [v for v in vectors if v is not None]
    if len(known) < len(given):
        return None
    if not all(np.isfinite(v).all() for v in known):
        raise _NotFused(f"a constant of {node.name} is not finite")
    if isinstance(op, _NORMS):
        gamma, beta, mean, variance = known
        if not (variance + op.epsilon > 0).all():
            raise _NotFused(f"a variance of {node.name} is not positive")
        deviation = np.sqrt(variance + op.epsilon)
        return [(1.0, -mean), (gamma / deviation, beta)] if (axis, at) == (1, op.first) else None
    if isinstance(op, Divide):
        if at == 0 and not known[0].all():
            raise _NotFused(f"{node.name} divides by 0")
        return [(1 / known[0], 0.0)] if at == 0 else None
    if isinstance(op, Multiply):
        return [(known[0], 0.0)]
    minus = -1.0 if isinstance(op, Subtract) else 1.0
    return [(1.0, minus * known[0]) if at == 0 else (minus, known[0])]


def _per_channel(op: Op, values: Array, rank: int, axis: int, size: int) -> Array | None:
    """Return a constant as a vector of the channels; None if it differs along another axis."""
    if isinstance(op, Binary):
        shape = (1,) * (rank - values.ndim) + values.shape
        others = (n for a, n in enumerate(shape) if a != axis)
        if op.auto_broadcast != "numpy" or len(shape) > rank or any(n != 1 for n in others):
            return None
    if values.size not in (1, size):
        return None
    return np.broadcast_to(values.reshape(-1).astype(np.float64), (size,))


def _folded(
    layer: _FilterLayer, bias: Array, before: _ScaleChain, behind: _ScaleChain
) -> tuple[Array, Array, Array, Array]:
    """Return the filter, its factor, the bias, and the sum of the magnitudes in the bias."""
    w, outer, inner = layer.filter, layer.outer, 3 - layer.outer
    if not before.steps:
        scale, bias, sizes = behind.composed(bias, np.abs(bias))
        factor = layer.along(scale, outer)
        return w * factor, factor, bias, sizes
    nothing = np.zeros(layer.channels(inner))
    first, shift, size = before.composed(nothing, nothing)
    axes = (inner, *range(3, w.ndim))
    bias = bias + (w * layer.along(shift, inner)).sum(axes).reshape(-1)
    sizes = np.abs(bias) + (np.abs(w) * layer.along(size, inner)).sum(axes).reshape(-1)
    scale, bias, sizes = behind.composed(bias, sizes)
    factor = layer.along(first, inner) * layer.along(scale, outer)
    return w * factor, factor, bias, sizes


def _fold(graph: Graph, layer: _FilterLayer, before: _ScaleChain, behind: _ScaleChain) -> float:
    """Fold both chains and return the bound; raise _NotFused if the numbers do not allow it."""
    node, port = layer.node, layer.bias_port
    inputs, bias = [*graph.inputs_of(node.id)], np.zeros(layer.channels(layer.outer))
    inputs[0] = before.value
    if port is not None and len(inputs) > port:
        given = constant_of(graph, inputs.pop())
        if given is None or given.size not in (1, bias.size):
            raise _NotFused("its bias is not constant")
        bias = np.broadcast_to(given.reshape(-1).astype(np.float64), bias.shape)
    (filter, factor, bias, size), dtype = _folded(layer, bias, before, behind), node.spec().dtype
    assert dtype is not None
    kind = dtype.container
    rounded, added = filter.astype(kind), bias.astype(kind)
    if layer.stored.steps:  # the filter stays as it is stored, with one more factor
        rounded = layer.filter.astype(kind) * factor.astype(kind)
    bound = _bound(layer, before, (rounded, filter), (added, bias, size))

    def build(_: Op, b: GraphBuilder, *__: Value) -> Value:
        if np.any(factor != 1) and layer.stored.steps:
            wide = np.broadcast_to(factor.astype(kind), filter.shape)
            scale = b.const(narrowed(layer.restored(wide)), dtype)
            inputs[1] = b.keep(Multiply(), inputs[1], scale)
        elif np.any(factor != 1):
            inputs[1] = b.const(layer.restored(rounded), dtype)
        if port is not None and size.any():
            inputs.append(b.const(added, dtype))
        y = b.keep(node.op, *inputs)
        if port is not None or not size.any():
            return y
        inner = graph.node(y.node)
        inner.name = f"{graph.node(behind.value.node).name}{FOLDED}"
        inner.origins = (inner.name,)  # it computes the result of no layer
        shape = [1] * (node.spec().rank or 0)
        shape[layer.channel] = len(added)
        return b.keep(Add(), y, b.const(added.reshape(shape), dtype))

    replace_node(graph, graph.node(behind.value.node), build)
    _drop(graph, [n.id for n in (*behind.nodes[::-1], node, *before.nodes)])
    return bound + DOUBLE_ROUNDING * len((*before.nodes, *behind.nodes))


def _bound(
    layer: _FilterLayer,
    before: _ScaleChain,
    filters: tuple[Array, Array],
    biases: tuple[Array, Array, Array],
) -> float:
    """Return the bound on the effect of rounding: filters and biases rounded, and exact."""
    if before.normal:
        _require_normal(filters[0], layer.filter, biases[0])
        return 0.0
    return max(_error(*filters), _error(*biases))


def _require_normal(rounded: Array, filter: Array, bias: Array) -> None:
    """Raise _NotFused if a number of a filter has become subnormal or 0, or one is not finite."""
    tiny = ml_dtypes.finfo(rounded.dtype).tiny  # type: ignore[no-untyped-call]
    size = np.abs(rounded)
    finite = np.all(size < np.inf) and np.isfinite(bias).all()
    if not finite or not np.all((size >= tiny) | (filter == 0)):
        raise _NotFused("a weight would not be a normal number")


def _error(rounded: Array, exact: Array, size: Array | None = None) -> float:
    """Return the largest error relative to `size`, of numbers that are normal in their type."""
    if not np.isfinite(rounded.astype(np.float64)).all():
        raise _NotFused("a weight or bias would not be finite")
    size = np.abs(exact) if size is None else size
    off = np.abs(rounded.astype(np.float64) - exact)
    normal = size >= float(ml_dtypes.finfo(rounded.dtype).tiny)  # type: ignore[no-untyped-call]
    return float(np.max(np.divide(off, size, out=np.zeros_like(off), where=normal), initial=0))


def _drop(graph: Graph, todo: list[int]) -> None:
    """Remove nodes that nothing reads any more, and then their sources."""
    for at in todo:
        if at in graph and not graph.successors(at) and graph.node(at).type != "Parameter":
            todo += graph.producers(at)
            graph.remove(at)
