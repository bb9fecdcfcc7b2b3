"""Mistakes of compilers and converters that can be planted in the layers of any graph."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.elementwise import Abs, Tanh
from irdeconv.ops.reduction import ReduceMean, ReduceSum
from irdeconv.verify.reduce_pieces import is_valid
from support.mutants import array_of, bypassed, exchanged, with_input, with_op

Plant = Callable[[Graph, Node], Graph | None]  # a broken copy; None where it does not apply
Change = Callable[[Any], Any]


def of_input(types: str, port: int, change: Change) -> Plant:
    """A constant that layers of some types read, changed; a type may be named by its begin."""
    names = tuple(types.split())
    return lambda g, n: changed(g, n, port, change) if n.type.startswith(names) else None


def changed(g: Graph, node: Node, port: int, change: Change) -> Graph | None:
    """A copy with another constant at a port; None without one, or if it stays the same."""
    inputs = g.inputs_of(node.id)
    old = array_of(g, inputs[port]) if port < len(inputs) else None
    if old is None:
        return None
    new = np.asarray(change(old)).astype(old.dtype)
    same = new.shape == old.shape and np.array_equal(new, old)
    return None if same else with_input(g, node, port, new)


def of_filter(change: Callable[[Any, Node], Any]) -> Plant:
    """The filter of a convolution or deconvolution, changed."""
    return lambda g, n: changed(g, n, 1, lambda w: change(w, n)) if is_conv(n) else None


def of_data(type: str, change: Change) -> Plant:
    """What is added to computed reals, or what they are multiplied with, changed."""

    def plant(g: Graph, n: Node) -> Graph | None:
        first = g.inputs_of(n.id)[0] if n.type == type else None
        dtype = g.spec(first).dtype if first and array_of(g, first) is None else None
        return changed(g, n, 1, change) if dtype is not None and dtype.is_real else None

    return plant


def of_attribute(name: str, other: Callable[[Any, Node, Graph], Any], *more: str) -> Plant:
    """Another value of an attribute, where `other` has one; `more` are epsilons to make larger."""

    def plant(g: Graph, n: Node) -> Graph | None:
        value = other(getattr(n.op, name), n, g) if hasattr(n.op, name) else None
        if value is None:
            return None
        return with_op(g, n, **{name: value}, **{m: max(getattr(n.op, m), 0.01) for m in more})

    return plant


def either(*values: str) -> Callable[[Any, Node, Graph], Any]:
    """The other one of two values."""
    other = dict(zip(values, values[::-1], strict=True))
    return lambda value, node, graph: other.get(value)


def is_conv(node: Node) -> bool:
    return "Convolution" in node.type


def is_strided(node: Node) -> bool:
    return is_conv(node) and max(getattr(node.op, "strides", ()) or (1,)) > 1


def kernel_axes(node: Node, w: Any) -> tuple[int, ...]:
    return tuple(range(3 if node.type.startswith("Group") else 2, w.ndim))


def first_swapped(w: Any, axis: int, block: int = 1) -> Any:
    """The first two places of an axis, or its first two blocks, swapped."""
    order = np.arange(w.shape[axis]).reshape(-1, block)
    order[:2] = order[:2][::-1]
    return np.take(w, order.reshape(-1), axis)


def rolled(a: Any) -> Any:
    """Rolled by one along its longest axis."""
    return np.roll(a, 1, int(np.argmax(a.shape))) if a.ndim else a


def transposed(w: Any, node: Node) -> Any:
    """Height and width of a square kernel swapped."""
    a, b, *_ = (*kernel_axes(node, w), 0, 0)
    return np.swapaxes(w, a, b) if b and w.shape[a] == w.shape[b] else w


def channels(output: bool) -> Callable[[Any, Node], Any]:
    """The first two channels swapped (RGB and BGR)."""
    return lambda w, n: first_swapped(
        w, n.type.startswith("Group") + (output == ("Backprop" in n.type))
    )


def coarse(w: Any, node: Node) -> Any:
    """Rounded to 4 bits of mantissa."""
    mantissa, exponent = np.frexp(w.astype(np.float64))
    return np.ldexp(np.round(mantissa * 16) / 16, exponent)


def next_axis(axis: int, node: Node, g: Graph) -> int | None:
    rank = g.spec(g.inputs_of(node.id)[0]).rank or 0
    return (axis + 1) % rank if node.type.lower().endswith("softmax") and rank > 1 else None


def other_fill(mode: str, node: Node, g: Graph) -> str | None:
    filled = mode == "constant" and len(g.inputs_of(node.id)) > 4
    return None if filled else {"edge": "constant"}.get(mode, "edge")


def other_groups(group: int, node: Node, g: Graph) -> int | None:
    size = (g.spec(g.inputs_of(node.id)[0]).shape or (0, 0))[1]
    return size // group if node.type == "ShuffleChannels" and isinstance(size, int) else None


def lower_bound(high: float, node: Node, g: Graph) -> float | None:
    low = getattr(node.op, "min", None)
    return None if low is None else float(low + (high - low) / 4)


def epsilon(g: Graph, node: Node) -> Graph | None:
    """A thousand times the epsilon, at least 0.01."""
    names = [n for n in ("eps", "epsilon") if hasattr(node.op, n)][:1]
    larger = {n: max(getattr(node.op, n) * 1000, 0.01) for n in names}
    return with_op(g, node, **larger) if names else None


def dilation(g: Graph, node: Node) -> Graph | None:
    """Dilations ignored, the pads made to fit."""
    op: Any = node.op
    w = array_of(g, g.inputs_of(node.id)[1]) if is_conv(node) else None
    if w is None or not op.dilations or max(op.dilations) == 1 or op.auto_pad != "explicit":
        return None
    sizes = [w.shape[a] for a in kernel_axes(node, w)]
    less = [(d - 1) * (k - 1) for d, k in zip(op.dilations, sizes, strict=True)]
    if "Backprop" in node.type or any(n % 2 for n in less):
        return None
    begin = tuple(p - n // 2 for p, n in zip(op.pads_begin, less, strict=True))
    end = tuple(p - n // 2 for p, n in zip(op.pads_end, less, strict=True))
    return with_op(g, node, dilations=(1,) * len(less), pads_begin=begin, pads_end=end)


def later(axes: slice, applies: Callable[[Node], bool]) -> Plant:
    """A window that begins one element later on some axes, and ends one later."""

    def plant(g: Graph, node: Node) -> Graph | None:
        op: Any = node.op
        if not applies(node) or op.auto_pad != "explicit" or not op.pads_begin:
            return None
        by = np.zeros(len(op.pads_begin), int)
        by[axes] = 1
        begin, end = (tuple(map(int, p)) for p in (op.pads_begin - by, op.pads_end + by))
        return with_op(g, node, pads_begin=begin, pads_end=end) if min(begin) >= 0 else None

    return plant


def dropped(g: Graph, node: Node) -> Graph | None:
    """An activation left out."""
    if node.type not in ("ReLU", "PReLU", "Clamp", "HSwish", "Tanh", "Sigmoid", "Elu"):
        return None
    before = g.node(g.inputs_of(node.id)[0].node)
    return None if before.type in ("Parameter", "Const") else bypassed(g, node, renamed=False)


def becomes(others: dict[str, Callable[[Any], Any]]) -> Plant:
    """Another operation with the same inputs."""

    def plant(g: Graph, node: Node) -> Graph | None:
        out = g.copy()
        if node.type in others:
            out.replace_op(node.id, others[node.type](node.op))
        return out if node.type in others else None

    return plant


def swapped_inputs(types: str) -> Plant:
    """The first two inputs exchanged."""
    return lambda g, n: exchanged(g, n, 0, 1) if n.type in types.split() else None


def pad_side(g: Graph, node: Node) -> Graph | None:
    """Pads at the begin and at the end swapped."""
    ends = [array_of(g, v) for v in g.inputs_of(node.id)[1:3]] if node.type == "Pad" else [0, 0]
    return None if np.array_equal(*ends) else exchanged(g, node, 1, 2)


def split_order(g: Graph, node: Node) -> Graph | None:
    """The first two outputs of a Split swapped."""
    users = [(u, port) for port in (0, 1) for u in g.users(Value(node.id, port))]
    out = g.copy()
    for (user, at), port in users:
        out.set_input(user, at, Value(node.id, 1 - port))
    return out if users and node.type in ("Split", "VariadicSplit") else None


def corners(mode: str, node: Node, g: Graph) -> str:
    return "asymmetric" if mode == "half_pixel" else "half_pixel"


def interpolated(g: Graph, node: Node) -> Graph | None:
    """Corners aligned where they are not, or the other way round; rounded up for nearest."""
    out = of_attribute("coordinate_transformation_mode", corners)(g, node)
    nearest = out is not None and getattr(node.op, "mode", "") == "nearest"
    return with_op(out, out.node(node.id), nearest_mode="ceil") if out and nearest else out


def slice_start(g: Graph, node: Node) -> Graph | None:
    """A slice that begins and ends one element earlier."""

    def earlier(a: Any) -> Any:
        return np.where((a > 0) & (a < 2**31 - 1), a - 1, a)

    begun = of_input("StridedSlice Slice", 1, lambda a: np.where(a > 0, a - 1, a))(g, node)
    return begun and (changed(begun, begun.node(node.id), 2, earlier) or begun)


def gates(g: Graph, node: Node) -> Graph | None:
    """The first two gates of a recurrent cell swapped."""
    size = int(getattr(node.op, "hidden_size", 0))
    ports = [p for p, v in enumerate(g.inputs_of(node.id)) if np.ndim(array_of(g, v)) >= 2]
    if not size or not ports:
        return None
    port = ports[-2] if len(ports) > 2 else ports[0]
    return changed(g, node, port, lambda w: first_swapped(w, w.ndim - 2, size))


def either_of(*plants: Plant) -> Plant:
    """The first of some faults that applies."""
    return lambda g, n: next((made for p in plants if (made := p(g, n)) is not None), None)


WINDOWED = ("MaxPool", "AvgPool")
PLANTS: dict[str, Plant] = {
    "pads_shifted": later(slice(-1, None), lambda n: is_conv(n) or n.type in WINDOWED),
    "stride_start": later(slice(None), is_strided),
    "auto_pad": of_attribute("auto_pad", either("same_upper", "same_lower")),
    "dilation": dilation,
    "kernel_flipped": of_filter(lambda w, n: np.flip(w, kernel_axes(n, w))),
    "kernel_transposed": of_filter(transposed),
    "input_channels": of_filter(channels(False)),
    "output_channels": of_filter(channels(True)),
    "group_order": of_filter(lambda w, n: np.flip(w, 0) if n.type.startswith("Group") else w),
    "low_precision": of_filter(coarse),
    "bias_missing": of_data("Add", np.zeros_like),
    "bias_order": of_data("Add", rolled),
    "scale_order": of_data("Multiply", rolled),
    "layer_dropped": dropped,
    "activation": becomes(
        {"ReLU": lambda op: Abs(), "Sigmoid": lambda op: Tanh(), "Tanh": lambda op: Sigmoid(),
         "HSwish": lambda op: ReLU()}
    ),
    "slope": either_of(
        of_input("PReLU", 1, rolled), of_input("PReLU HardSigmoid", 1, lambda a: 2 * a)
    ),
    "clamp": of_attribute("max", lower_bound),
    "epsilon": epsilon,
    "eps_mode": either_of(
        of_attribute("eps_mode", either("inside_sqrt", "outside_sqrt"), "eps"),
        of_attribute("eps_mode", either("add", "max"), "eps"),
    ),
    "softmax_axis": of_attribute("axis", next_axis),
    "concat_order": swapped_inputs("Concat"),
    "operand_order": swapped_inputs("Subtract Divide"),
    "split_order": split_order,
    "transposed_axes": of_input("Transpose", 1, lambda order: [*order[:-2], *order[:-3:-1]]),
    "interpolate_mode": interpolated,
    "exclude_pad": of_attribute("exclude_pad", lambda value, n, g: not value),
    "rounding_type": of_attribute("rounding_type", either("floor", "ceil")),
    "slice_start": slice_start,
    "reduce_kind": becomes(
        dict.fromkeys(
            ("ReduceMax", "ReduceSum", "ReduceL2"), lambda op: ReduceMean(keep_dims=op.keep_dims)
        )
        | {"ReduceMean": lambda op: ReduceSum(keep_dims=op.keep_dims)}
    ),
    "reduce_axes": of_input("Reduce", 1, lambda a: a[-1:] if a.ndim and a.size > 1 else a - 1),
    "pad_mode": of_attribute("pad_mode", other_fill),
    "pad_side": pad_side,
    "gather_index": of_input("Gather", 1, lambda i: np.where(i > 0, i - 1, i + 1)),
    "shuffle_groups": of_attribute("group", other_groups),
    "depth_mode": of_attribute("mode", either("blocks_first", "depth_first")),
    "matmul_transposed": of_input("MatMul", 1, lambda w: first_swapped(w, w.ndim - 1)),
    "recurrent_gates": gates,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A mistake in one layer."""

    kind: str
    layer: str
    type: str

    def planted(self, graph: Graph) -> Graph | None:
        """A broken copy; None where the graph has no such layer or does not fit then."""
        found = [n for n in graph.find(self.layer) if n.type == self.type]
        made = broken(graph, found[0], self.kind) if len(found) == 1 else None
        return made if made is not None and is_valid(made) else None


def broken(g: Graph, node: Node, kind: str) -> Graph | None:
    try:
        return PLANTS[kind](g, node)
    except (IndexError, ValueError):
        return None


def faults(g: Graph) -> Iterator[Fault]:
    """Every fault that applies to a layer; some do not fit together once they are planted."""
    for node in g.nodes():
        for kind in PLANTS if node.type not in ("Const", "Parameter", "Result") else ():
            if broken(g, node, kind) is not None:
                yield Fault(kind, node.name, node.type)
