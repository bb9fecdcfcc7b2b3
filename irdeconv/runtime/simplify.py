"""Simplify a graph: the same results from fewer layers.

Constant results become constants, duplicates one layer. Layers that change nothing are dropped, and
pairs that are one layer are joined.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.errors import OpError, count
from irdeconv.base.extras import plain
from irdeconv.base.hints import hinted
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, line
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, as_tuple, effort, infer_op, kept
from irdeconv.ir.spec import Array, Spec, ints, is_static
from irdeconv.ops import movement
from irdeconv.ops.basic import Const, Convert, ConvertLike, Opaque
from irdeconv.ops.channels import Split, VariadicSplit
from irdeconv.ops.elementwise import Add, Binary, Divide, Multiply, Subtract
from irdeconv.rewrite.builder import remove_dead, replace_node, unique_names
from irdeconv.rewrite.channel_folding import FusedLayer, fuse_channels
from irdeconv.rewrite.compressed_filters import constant, is_constant
from irdeconv.rewrite.infer_specs import infer_specs, inferred
from irdeconv.runtime.editing import feeds_result, give_names, may_stand_for


def merge_duplicates(graph: Graph) -> int:
    """Merge layers that have the same operation and inputs; return the number of removed ones.

    Constants are the same if their bytes are. Layers that a Result reads stay, so that outputs keep
    their names; operations known only by their declaration stay, as they may be random.
    """
    sizes = Counter(_size(n.op) for n in graph.nodes() if isinstance(n.op, Const))
    first: dict[Hashable, Node] = {}
    merged = 0
    for node in graph.topological():
        key = _key(graph, node, sizes)
        if key is None:
            continue
        other = first.setdefault(key, node)
        if other is node or feeds_result(graph, node):
            continue
        for port in range(node.outputs):
            give_names(graph, Value(node.id, port), Value(other.id, port))
            graph.replace_uses(Value(node.id, port), Value(other.id, port))
        graph.remove(node.id)
        merged += 1
    return merged


def _size(op: Const) -> Hashable:
    return op.element_type, op.shape


def _key(graph: Graph, node: Node, sizes: Counter[Hashable]) -> Hashable:
    """Return a key that only layers with equal outputs share; None for layers without one."""
    op = node.op
    if isinstance(op, Opaque) or not op.pure or node.type in ("Parameter", "Result"):
        return None
    if isinstance(op, Const):
        if sizes[_size(op)] < 2 or not op.data.available:
            return None
        return _size(op), hashlib.blake2b(memoryview(op.data.raw())).digest()
    try:
        hash(op)
    except TypeError:
        return None
    return op, graph.inputs_of(node.id)


_KEPT = ("FakeQuantize", "FakeConvert")  # how weights are quantized is said by these


def fold(graph: Graph, node: Node, growth: int, decompress: bool = False) -> bool:
    """Replace a node of an inferred graph by constants if that may be; whether it was.

    A constant may be at most `growth` bytes larger than those that it is computed of. With
    `decompress` the Convert of weights in fewer bits is folded as well.
    """
    if _is_fixed(node) or (_is_decompression(graph, node) and not decompress):
        return False
    values = _values(graph, node, growth)
    if values is None:
        return _move_in_front_of_convert(graph, node)
    for port, (array, spec) in enumerate(zip(values, node.specs or (), strict=True)):
        if graph.users(Value(node.id, port)):
            _replace(graph, node, port, array, spec)
    graph.remove(node.id)
    return True


def _is_fixed(node: Node) -> bool:
    op = node.op
    if isinstance(op, Const | Opaque) or not op.pure or node.type in ("Parameter", "Result"):
        return True
    if node.type in _KEPT or type(op).evaluate is Op.evaluate or not node.specs:
        return True
    return any(s.dtype is None or s.dtype.kind == "string" for s in node.specs)


def _is_decompression(graph: Graph, node: Node) -> bool:
    """Whether it brings weights from fewer bits, of few types, to floating-point numbers."""
    if not isinstance(node.op, Convert | ConvertLike):
        return False
    source = graph.spec(graph.inputs_of(node.id)[0]).dtype
    target = node.spec().dtype
    if source is None or target is None or not (source.is_real or source.is_integral):
        return False
    return target.is_real and source.bits < min(target.bits, 32)


def _values(graph: Graph, node: Node, growth: int) -> list[Array] | None:
    """Return the outputs if they are known and small enough; None otherwise."""
    inputs, specs = graph.inputs_of(node.id), node.specs or ()
    if _becomes_a_size(graph, node):
        return None
    known = [s.known for s in specs]
    exact = [k for k in known if k is not None]
    if len(exact) == len(specs) and not any(s.dtype is None or s.dtype.is_real for s in specs):
        return exact
    if not inputs or not all(is_constant(graph, v) for v in inputs):
        return None
    before = sum(graph.spec(v).nbytes or 0 for v in inputs if len(graph.users(v)) == 1)
    after = [s.nbytes for s in specs]
    if None in after or sum(n or 0 for n in after) > before + growth:
        return None
    if not work.room(effort(node.op, graph.input_specs(node.id), specs)):
        return None
    arrays = [graph.node(v.node).op.evaluate() for v in inputs]
    try:
        with np.errstate(all="ignore"), work.folding(), plain():
            return list(kept(as_tuple(node.op.fold(*arrays)), node.specs))
    except (OpError, ArithmeticError, ValueError, TypeError, IndexError, MemoryError):
        return None  # it fails when the model runs, which is not for a rewrite to say


def _becomes_a_size(graph: Graph, node: Node) -> bool:
    """Whether integers follow from a value that OpenVINO may not have (ir/certainty.py)."""
    todo, seen = [node.id], set[int]()
    while todo:
        at = todo.pop()
        unsure = [s for s in graph.node(at).specs or () if s.unsure]
        if any(s.dtype is not None and not s.dtype.is_real for s in unsure):
            return True
        if unsure and at not in seen:
            todo += graph.successors(at)
            seen.add(at)
    return False


def _replace(graph: Graph, node: Node, port: int, array: Array, spec: Spec) -> None:
    dtype = spec.dtype
    assert dtype is not None
    values = np.array(array, dtype.container, order="C", copy=None)
    op = Const(element_type=dtype, shape=values.shape, data=ArrayData.of(values, dtype))
    made = graph.add(
        op,
        name=node.output_key(port),
        location=node.location,
        origins=node.origins or (node.name,),
        specs=(Spec.of(values, dtype),),
    )
    made.tensor_names = node.tensor_names[port : port + 1]
    graph.replace_uses(Value(node.id, port), Value(made.id))


def _move_in_front_of_convert(graph: Graph, node: Node) -> bool:
    """Move a layer that only moves weights in front of their Convert; whether it did."""
    inputs = graph.inputs_of(node.id)
    if not node.op.moves or node.outputs != 1 or not inputs or not node.spec().static:
        return False
    convert = graph.node(inputs[0].node)
    if not isinstance(convert.op, Convert) or len(graph.users(inputs[0])) != 1:
        return False
    before = graph.inputs_of(convert.id)[0]
    if not all(is_constant(graph, v) for v in (before, *inputs[1:])):
        return False
    if (node.spec().size or 0) > (graph.spec(before).size or 0):
        return False
    return bool(replace_node(graph, node, lambda op, b, *values: b.add(op, *values)).made)


RESHAPERS = (movement.Reshape, movement.Squeeze1, movement.Squeeze, movement.Unsqueeze)
_TRIED = 1 << 20  # elements that a layer is tried on, to see whether it moves any


def passed_on(graph: Graph, node: Node) -> Value | None:
    """Return the input that a node of an inferred graph gives as it is, bit for bit."""
    op, inputs = node.op, graph.inputs_of(node.id)
    if isinstance(op, Opaque) or not op.pure or not inputs or node.outputs != 1:
        return None
    if isinstance(op, Add | Subtract | Multiply | Divide):
        return _not_changed_by(graph, node)
    for kinds, rule in _RULES:
        if isinstance(op, kinds):
            return inputs[0] if rule(graph, node) else None
    return inputs[0] if op.moves and _moves_nothing(graph, node) else None


def _of_one_type(graph: Graph, node: Node) -> bool:
    source = graph.spec(graph.inputs_of(node.id)[0]).dtype
    return source is not None and source == node.spec().dtype


def _of_one_shape(graph: Graph, node: Node) -> bool:
    shape = graph.spec(graph.inputs_of(node.id)[0]).shape
    return is_static(shape) and shape == node.spec().shape


def _is_single(graph: Graph, node: Node) -> bool:
    return len(graph.inputs_of(node.id)) == 1 or isinstance(node.op, Split | VariadicSplit)


def _pads_nothing(graph: Graph, node: Node) -> bool:
    pads = [ints(graph.spec(v)) for v in graph.inputs_of(node.id)[1:3]]
    return all(p is not None and not any(p) for p in pads)


def _repeats_nothing(graph: Graph, node: Node) -> bool:
    data, repeats = (graph.spec(v) for v in graph.inputs_of(node.id)[:2])
    times = ints(repeats)
    return times is not None and set(times) <= {1} and len(times) <= (data.rank or 0)


def _permutes_nothing(graph: Graph, node: Node) -> bool:
    order, spec = _order(graph, node), graph.spec(graph.inputs_of(node.id)[0])
    if order is None or spec.shape is None:
        return False
    moved = [i for i in order if spec.shape[i] != 1]
    return spec.shape == node.spec().shape and (
        moved == sorted(moved) if spec.static else list(order) == sorted(order)
    )


def _order(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Return a Transpose's order, counted from 0."""
    data, order = (graph.spec(v) for v in graph.inputs_of(node.id))
    known = ints(order)
    if known is None or data.rank is None:
        return None
    return tuple(i % data.rank for i in known) or tuple(reversed(range(data.rank)))


def _moves_nothing(graph: Graph, node: Node) -> bool:
    """Whether numbered elements come out in their places."""
    data, *others = graph.inputs_of(node.id)
    shape = graph.spec(data).shape
    arrays = [constant(graph, v) for v in others]
    if not _of_one_shape(graph, node) or any(a is None for a in arrays):
        return False
    assert is_static(shape)
    size = math.prod(shape)
    if size > _TRIED:
        return False
    numbered = np.arange(1, size + 1).reshape(shape)
    try:
        moved = as_tuple(node.op.evaluate(numbered, *arrays))[0]
    except (OpError, ValueError, TypeError, IndexError):
        return False
    return np.array_equal(moved, numbered)


_RULES: tuple[tuple[tuple[type[Op], ...], Callable[[Graph, Node], bool]], ...] = (
    ((Convert, ConvertLike), _of_one_type),
    (RESHAPERS, _of_one_shape),
    ((movement.Concat, Split, VariadicSplit), _is_single),
    ((movement.Pad1, movement.Pad12), _pads_nothing),
    ((movement.Tile,), _repeats_nothing),
    ((movement.Transpose,), _permutes_nothing),
    ((movement.Broadcast, movement.Broadcast1), _moves_nothing),
)


def _not_changed_by(graph: Graph, node: Node) -> Value | None:
    """Return the operand to which 0 is added, or that is multiplied by 1.

    Of floating-point numbers only -0 changes none when added: -0 + 0 is +0.
    """
    a, b = graph.inputs_of(node.id)
    commutes = isinstance(node.op, Add | Multiply)
    for operand, other in ((a, b), (b, a)) if commutes else ((a, b),):
        if graph.spec(other).size is None or not _keeps_shape(graph, node, operand, other):
            continue
        values = constant(graph, other)
        if values is not None and _is_neutral(node.op, values, graph.spec(other).dtype):
            return operand
    return None


def _keeps_shape(graph: Graph, node: Node, kept: Value, other: Value) -> bool:
    data, operand = graph.spec(kept), graph.spec(other)
    if data.static and data.shape == node.spec().shape:
        return True
    assert isinstance(node.op, Binary)
    ranks = data.rank is not None and (operand.rank or 0) <= data.rank
    return ranks and operand.size == 1 and node.op.auto_broadcast == "numpy"


def _is_neutral(op: Op, values: Array, dtype: ElementType | None) -> bool:
    if dtype is None or not values.size or values.size > _TRIED:
        return False
    if isinstance(op, Multiply | Divide):
        return bool(np.all(values == 1))
    if np.any(values != 0):
        return False
    if not dtype.is_real:
        return True
    return bool(np.all(np.signbit(values.astype(np.float64)) == isinstance(op, Add)))


def joined_with_producer(graph: Graph, node: Node) -> bool:
    """Join a node and its producer into one layer; whether it did."""
    inputs = graph.inputs_of(node.id)
    if not inputs or node.outputs != 1:
        return False
    producer = graph.node(inputs[0].node)
    if isinstance(node.op, RESHAPERS) and isinstance(producer.op, RESHAPERS):
        return _join_reshapes(graph, node, producer)
    if isinstance(node.op, movement.Transpose) and isinstance(producer.op, movement.Transpose):
        first, second = _order(graph, producer), _order(graph, node)
        if first is None or second is None:
            return False
        order = [first[i] for i in second]
        if order != sorted(order) and not _only_user(graph, producer):
            return False
        return _reads(graph, node, graph.inputs_of(producer.id)[0], movement.Transpose(), order)
    if not isinstance(node.op, Convert) or not isinstance(producer.op, Convert):
        return False
    # A conversion to a type that has every value of the one before it is left out.
    source, between = graph.inputs_of(producer.id)[0], producer.spec().dtype
    before = graph.spec(source).dtype
    if before is None or between is None or not _holds(between, before):
        return False
    graph.set_input(node.id, 0, source)
    return True


def _only_user(graph: Graph, producer: Node) -> bool:
    return len(graph.users(Value(producer.id))) == 1


def _join_reshapes(graph: Graph, node: Node, producer: Node) -> bool:
    source, shape = graph.inputs_of(producer.id)[0], node.spec().shape
    back = is_static(shape) and graph.spec(source).shape == shape
    if not (back or _only_user(graph, producer)):
        return False
    if isinstance(node.op, movement.Reshape):
        target = graph.spec(graph.inputs_of(node.id)[1])
        pattern = ints(target)
        copies = node.op.special_zero and 0 in (pattern or ())
        # Of open shapes the one in between may be more exact.
        joined = infer_op(node.op, (graph.spec(source), target)) if pattern and not copies else ()
        if joined and joined[0].shape == shape:
            graph.set_input(node.id, 0, source)
            return True
    if not is_static(shape):
        return False
    return _reads(graph, node, source, movement.Reshape(special_zero=False), shape)


def _reads(graph: Graph, node: Node, source: Value, op: Op, sizes: Sequence[int]) -> bool:
    """Replace a node by an operation that is applied to `source` and a constant vector."""
    replace_node(
        graph, node, lambda _, b, *__: b.keep(op, source, b.const(np.array(sizes, np.int64)))
    )
    return True


_DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}  # bits of the significand
_EXPONENT = {"f64": 11, "f32": 8, "f16": 5, "bf16": 8}


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """Whether a type contains every value of another one, so that conversion to it is exact."""
    if wide.name in _DIGITS and narrow.name in _DIGITS:
        names = wide.name, narrow.name
        return _DIGITS[names[0]] >= _DIGITS[names[1]] and _EXPONENT[names[0]] >= _EXPONENT[names[1]]
    if wide.name in ("f32", "f64") and narrow.is_integral:
        return narrow.bits < _DIGITS[wide.name]
    if wide.kind == "int" and narrow.is_integral:
        return wide.bits > narrow.bits or wide == narrow
    return wide.kind == narrow.kind == "uint" and wide.bits >= narrow.bits


MAX_GROWTH = 1 << 20  # bytes
_PASSES_AT_MOST = 20
STEPS = ("folded", "without effect", "joined", "fused", "duplicate", "dead")


class BeforeAfter(Record):
    """Before and after."""

    before: int  # in the model
    after: int  # in the simplified model


class SimplificationReport(Record, keys="types steps constant_bytes fused?"):
    """Layers by type before and after, how many each step took, bytes of constants.

    Steps: "folded" into constants, "without effect", "joined" with the layer in front, "fused" into
    a convolution, "duplicate", "dead" (no result needs it).
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    steps: Mapping[str, int]  # number of layers that each step changed
    bytes_before: int
    bytes_after: int
    fused: tuple[FusedLayer, ...] = ()  # layers with others beside them, with --fuse

    @property
    def types(self) -> dict[str, BeforeAfter]:
        """The layers by type."""
        kinds = sorted({*self.before, *self.after})
        return {k: BeforeAfter(self.before.get(k, 0), self.after.get(k, 0)) for k in kinds}

    @property
    def constant_bytes(self) -> BeforeAfter:
        """Bytes of constants."""
        return BeforeAfter(self.bytes_before, self.bytes_after)

    def __repr__(self) -> str:
        return line(self, None, str(self))

    def _repr_html_(self) -> str:
        rows = [(kind, n.before, n.after) for kind, n in self.types.items()]
        right = ("before", "after")
        return html_table(str(self), ("type", *right), rows, right)

    def __str__(self) -> str:
        layers = f"{sum(self.before.values())} layers became {sum(self.after.values())}"
        steps = ", ".join(f"{n} {step}" for step, n in self.steps.items() if n)
        return f"{layers}: {steps or 'nothing to take away'}"


@hinted
class Simplified(NamedTuple):
    """The simplified graph and the report: `graph, report = ...`."""

    graph: Graph
    report: SimplificationReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, str(self.report))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def simplify(
    graph: Graph, *, max_growth: int = MAX_GROWTH, decompress: bool = False, fuse: bool = False
) -> Simplified:
    """Return a simplified copy and a report, as `irdeconv.simplify` describes.

    The bits are those of running node by node: of a graph that fuses otherwise they may differ by
    rounding. Nothing follows from the shapes that a file declares for unknown operations.
    """
    work.take(work.NODE // 4 * len(graph), f"simplifying {count(len(graph), 'layer')}")
    out = inferred(graph)
    infer_specs(out, believe=False)
    before, bytes_before = _counts(out), _constant_bytes(out)
    steps = Counter(dead=remove_dead(out, set()))
    fused: list[FusedLayer] = []
    for _ in range(_PASSES_AT_MOST):
        if done := +_round(out, max_growth, decompress):
            infer_specs(out, believe=False)
        rows = fuse_channels(out) if fuse else ()
        fused = [*(r for r in fused if r.took), *rows]
        done += Counter(fused=sum(len(r.took) for r in rows))
        steps += done
        if not done:
            break
    infer_specs(out)
    out.lint()
    unique_names(out)
    report = SimplificationReport(
        before,
        _counts(out),
        {s: steps[s] for s in STEPS},
        bytes_before,
        _constant_bytes(out),
        tuple(fused),
    )
    return Simplified(out, report)


def _round(graph: Graph, growth: int, decompress: bool) -> Counter[str]:
    """Simplify every node once, then remove duplicates and dead ones."""
    done: Counter[str] = Counter()
    nodes = graph.topological()
    with progress.stage("simplifying", total=len(nodes)) as step:
        for node in nodes:
            step()
            if node.id not in graph:
                continue
            if fold(graph, node, growth, decompress):
                done["folded"] += 1
            elif _pass_on(graph, node):
                done["without effect"] += 1
            elif joined_with_producer(graph, node):
                done["joined"] += 1
    done["duplicate"] += merge_duplicates(graph)
    remove_dead(graph, set())  # inputs of removed layers
    return +done


def _pass_on(graph: Graph, node: Node) -> bool:
    value = passed_on(graph, node)
    if value is None or not may_stand_for(graph, node, value):
        return False
    if graph.spec(value).shape != node.spec().shape:
        return False  # of open shapes the layer says more
    give_names(graph, Value(node.id), value)
    graph.replace_uses(Value(node.id), value)
    graph.remove(node.id)
    return True


def _counts(graph: Graph) -> dict[str, int]:
    return dict(Counter(n.type for n in graph.nodes()))


def _constant_bytes(graph: Graph) -> int:
    sizes = [
        op.element_type.nbytes(n.spec().size or 0)
        for n in graph.nodes("Const")
        if isinstance(op := n.op, Const)
    ]
    return sum(sizes)
