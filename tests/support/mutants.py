"""Changes of layers in graphs. Each mutant of a lowered layer differs from it, by construction.

The layers have distinct weights without zeros, several channels on both sides and data that every
tap reaches, so that every change below moves, drops or adds a product.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.basic import Const, Convert
from irdeconv.ops.movement import Reshape, Transpose
from support.layers import constant

Mutant = tuple[str, Graph]


def array_of(g: Graph, value: Value) -> Any:
    """The array of a constant, also of a compressed one behind its Convert; else None."""
    op = g.node(value.node).op
    if isinstance(op, Convert):
        compressed = array_of(g, g.inputs_of(value.node)[0])
        return None if compressed is None else op.evaluate(compressed)
    return op.data.array() if isinstance(op, Const) else None


def with_input(g: Graph, node: Node, port: int, array: Any) -> Graph:
    """A copy in which a node has another constant at a port."""
    out = g.copy()
    out.set_input(node.id, port, constant(out, np.asarray(array, order="C"), "mutated"))
    return out


def with_op(g: Graph, node: Node, **changes: Any) -> Graph:
    """A copy in which a node has other attributes."""
    out = g.copy()
    out.replace_op(node.id, replace(node.op, **changes))
    return out


def bypassed(g: Graph, node: Node, *, renamed: bool = True) -> Graph:
    """A copy in which a node's users take its first input, which takes over the name."""
    out = g.copy()
    value = out.inputs_of(node.id)[0]
    out.replace_uses(Value(node.id), value)
    out.remove(node.id)
    kept = out.node(value.node)
    kept.tensor_names = node.tensor_names if renamed else node.tensor_names or kept.tensor_names
    kept.name = node.name if renamed else kept.name
    return out


def exchanged(g: Graph, node: Node, a: int, b: int) -> Graph | None:
    """A copy in which a node's inputs at two ports are exchanged; None where they are one."""
    inputs = g.inputs_of(node.id)
    if inputs[a] == inputs[b]:
        return None
    out = g.copy()
    out.set_input(node.id, a, inputs[b])
    out.set_input(node.id, b, inputs[a])
    return out


def pads(g: Graph) -> Iterator[Mutant]:
    """Each pad 1 more or less on either side and axis; the window shifted by 1; no pad at all."""
    for node in g.nodes("Pad"):
        both = [array_of(g, v) for v in g.inputs_of(node.id)[1:3]]
        if any(ends is None for ends in both):
            continue
        rank = both[0].size
        for axis in range(2, rank):
            unit = np.eye(rank, dtype=np.int64)[axis]
            for step in (1, -1):
                for port in (0, 1):
                    text = f"pad {port} axis {axis} {step:+}"
                    yield text, with_input(g, node, 1 + port, both[port] + step * unit)
                shifted = with_input(g, node, 1, both[0] + step * unit)
                moved = with_input(shifted, shifted.node(node.id), 2, both[1] - step * unit)
                yield f"pad shifted axis {axis} {step:+}", moved
        yield "pad dropped", bypassed(g, node)


def convolutions(g: Graph) -> list[Node]:
    return [n for n in g.nodes() if n.type in ("Convolution", "GroupConvolution")]


def filters(g: Graph) -> Iterator[Mutant]:
    """Missing flips, swapped channels, wrong groups, single weights, dilations."""
    for node in convolutions(g)[:3]:
        w = array_of(g, g.inputs_of(node.id)[1])
        if w is None:
            continue
        spatial = len(node.op.strides)  # type: ignore[attr-defined]
        for text, changed in weight_changes(w, spatial, grouped=node.type != "Convolution"):
            yield text, with_input(g, node, 1, changed)
        dilations = node.op.dilations  # type: ignore[attr-defined]
        for a, d in enumerate(dilations):
            if w.shape[a - spatial] > 1:
                other = tuple(v + (i == a) for i, v in enumerate(dilations))
                yield f"dilation axis {a} {d}+1", with_op(g, node, dilations=other)


def weight_changes(w: Any, spatial: int, *, grouped: bool) -> Iterator[tuple[str, Any]]:
    """A filter [g, M/g, C/g, *K] or [M, C, *K] changed in one way each."""
    for axis in range(w.ndim - spatial, w.ndim):
        if w.shape[axis] > 1 and not np.array_equal(w, np.flip(w, axis)):
            yield f"flip missing axis {axis}", np.flip(w, axis)
            yield f"filter rolled axis {axis}", np.roll(w, 1, axis)
    m, c = w.ndim - spatial - 2, w.ndim - spatial - 1
    if w.shape[m] == w.shape[c] > 1:
        yield "channel axes swapped", w.swapaxes(m, c)
    elif min(w.shape[m], w.shape[c]) > 1:
        yield "channel axes regrouped", w.swapaxes(m, c).reshape(w.shape)
    if w.shape[c] > 1:
        yield "input channels rolled", np.roll(w, 1, c)
    if w.shape[m] > 1:
        yield "output channels rolled", np.roll(w, 1, m)
    if grouped:
        yield "groups rolled", np.roll(w, 1, 0)
        yield "groups regrouped", w.swapaxes(0, 1).reshape(w.shape)
    places = np.argwhere(w != 0)
    for at in (places[0], places[len(places) // 2], places[-1]):
        for text, value in (("changed", 0.5), ("zero", -w[tuple(at)])):
            changed = w.copy()
            changed[tuple(at)] += value
            yield f"weight {at.tolist()} {text}", changed
    zeros = np.argwhere(w == 0)
    if len(zeros):
        changed = w.copy()
        changed[tuple(zeros[0])] = 1
        yield f"weight {zeros[0].tolist()} no longer zero", changed


def insertions(g: Graph) -> Iterator[Mutant]:
    """Another stride of zero-insertion on each axis, none at all."""
    for node in g.nodes("ZeroInsertion"):
        strides = node.op.strides  # type: ignore[attr-defined]
        for a in range(len(strides)):
            for step in (1, -1):
                other = tuple(max(s + step * (i == a), 1) for i, s in enumerate(strides))
                if other != strides:
                    yield f"insertion stride axis {a} {step:+}", with_op(g, node, strides=other)
        if len(set(strides)) > 1:
            yield "insertion strides rolled", with_op(g, node, strides=strides[1:] + strides[:1])
        if max(strides) > 1:
            other = not node.op.trailing  # type: ignore[attr-defined]
            yield "insertion with other trailing zeros", with_op(g, node, trailing=other)
        yield "insertion dropped", bypassed(g, node)


def interleavings(g: Graph) -> Iterator[Mutant]:
    """Phases swapped or rolled, another mode of DepthToSpace, another order of Transpose."""
    for node in g.nodes("Concat"):
        inputs = g.inputs_of(node.id)
        for i in range(len(inputs) - 1):
            if (out := exchanged(g, node, i, i + 1)) is not None:
                yield f"phases {i} and {i + 1} swapped", out
        out = g.copy()
        out.set_input(node.id, 0, inputs[1])
        yield "phase 1 twice", out
    for node in g.nodes("DepthToSpace"):
        modes = ["blocks_first", "depth_first"]
        modes.remove(node.op.mode)  # type: ignore[attr-defined]
        yield "DepthToSpace mode", with_op(g, node, mode=modes[0])
    for node in g.nodes("Transpose"):
        order = array_of(g, g.inputs_of(node.id)[1])
        shape = g.spec(g.inputs_of(node.id)[0]).shape
        for i in range(1, order.size) if order is not None and shape is not None else ():
            for j in range(i + 1, order.size):
                if shape[order[i]] != 1 and shape[order[j]] != 1:
                    changed = order.copy()
                    changed[[i, j]] = changed[[j, i]]
                    yield f"Transpose order {i},{j}", with_input(g, node, 1, changed)


def tails(g: Graph) -> Iterator[Mutant]:
    """Bias dropped, doubled, rolled or changed; activation dropped or with other parameters."""
    for node in g.nodes("Add"):
        bias = array_of(g, g.inputs_of(node.id)[1])
        yield "bias dropped", bypassed(g, node)
        if bias is None:
            continue
        axis = int(np.argmax(bias.shape))
        yield "bias rolled", with_input(g, node, 1, np.roll(bias, 1, axis))
        yield (
            "bias changed",
            with_input(g, node, 1, bias + np.eye(bias.size)[0].reshape(bias.shape)),
        )
    for node in g.nodes():
        if node.type in ("ReLU", "Tanh", "PReLU", "HardSigmoid", "Clamp"):
            yield "activation dropped", bypassed(g, node)
        if node.type in ("PReLU", "HardSigmoid"):
            old = array_of(g, g.inputs_of(node.id)[1])
            if old is not None:
                yield "activation parameter", with_input(g, node, 1, np.full_like(old, 0.75))
        if node.type == "Clamp":
            yield "activation bound", with_op(g, node, max=7.0)


def shuffled(g: Graph) -> Iterator[Mutant]:
    """Output channels interleaved over the groups instead of one group behind the other."""
    for node in convolutions(g):
        shape, spec = g.spec(Value(node.id)).shape, g.spec(g.inputs_of(node.id)[1]).shape
        known = all(isinstance(n, int) for s in (shape, spec) for n in s or (None,))
        if node.type != "GroupConvolution" or not known or spec[1] == 1:
            continue
        groups, outputs = spec[:2]
        out = g.copy()
        users = out.users(Value(node.id))
        rest = shape[2:]
        wide = constant(out, np.array((shape[0], groups, outputs, *rest)), "wide")
        order = constant(out, np.array((0, 2, 1, *range(3, 3 + len(rest)))), "order")
        back = constant(out, np.array(shape), "back")
        y = Value(out.add(Reshape(special_zero=False), [Value(node.id), wide], name="s/a").id)
        y = Value(out.add(Transpose(), [y, order], name="s/b").id)
        last = out.add(Reshape(special_zero=False), [y, back], name="s/c")
        for user, port in users:
            out.set_input(user, port, Value(last.id))
        old, new = out.node(node.id), out.node(last.id)
        if old.tensor_names or old.name == "deconv":
            new.name, new.tensor_names = old.name, old.tensor_names
            old.name, old.tensor_names = "conv", ()
        yield "groups interleaved", out


KINDS: tuple[Callable[[Graph], Iterator[Mutant]], ...] = (
    pads, filters, insertions, interleavings, tails, shuffled,
)  # fmt: skip


def mutants(g: Graph) -> Iterator[Mutant]:
    """Every mutant of a lowered graph."""
    for kind in KINDS:
        for text, graph in kind(g):
            yield f"{kind.__name__}: {text}", graph
