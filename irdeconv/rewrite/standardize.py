"""Spelling of irdeconv's own operations in standard ones, and its recognition in a file.

The written spelling of ZeroInsertion becomes ZeroInsertion again when it is read. The writer marks
the last node of the spelling in its rt_info, which other readers ignore. The mark is only a hint:
the three nodes must also equal the writer's spelling, by shapes that follow from the model's
inputs. Declared ports prove nothing, nor do the outputs of unknown operations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import Collector, Diagnostic, OpError, UnsupportedError
from irdeconv.base.limits import current
from irdeconv.ir import geometry
from irdeconv.ir.dtypes import i64
from irdeconv.ir.geometry import IntVector
from irdeconv.ir.graph import Graph, Node, Value, upstream
from irdeconv.ir.op import Builder, SugarOp
from irdeconv.ir.spec import DYNAMIC, Shape, Spec, compatible, format_shape, is_static
from irdeconv.ops import core
from irdeconv.ops.activation import ReLU
from irdeconv.ops.bodies import change_bodies, every_node
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import vector
from irdeconv.ops.dialect_openvino import BackpropData, backprop_data
from irdeconv.ops.elementwise import Maximum, Multiply, Subtract
from irdeconv.ops.movement import Pad1, Pad12, Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import StridedSlice
from irdeconv.rewrite.builder import (
    GraphBuilder,
    NodeBudget,
    expand,
    remove_dead,
    replace_node,
    sweep,
    unique_names,
)
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.emit import (
    AXIS_0,
    Skip,
    Style,
    X,
    pad_spatial,
    spell_zero_insertion,
    spell_zero_insertion_as_before,
)
from irdeconv.rewrite.infer_specs import fill_specs, infer_specs, inferred

MARK = "irdeconv_zero_insertion"
MOST_MOVEMENTS = 16  # of a spelling: Reshape, Pad and crops in turns, for up to eight axes
Spelling = Callable[[core.ZeroInsertion, GraphBuilder, Value], Value | Skip]
SPELLINGS: tuple[tuple[Spelling, Style], ...] = (
    (spell_zero_insertion, Style()),
    (spell_zero_insertion, Style(pads_in_pairs=False)),
    (spell_zero_insertion_as_before, Style()),
)
_MARKED = re.compile(
    rf'<attribute name="{MARK}" version="0" strides="(\d{{1,9}}(?:,\d{{1,9}}){{0,5}})"', re.ASCII
)


def recognise(graph: Graph, shapes: Mapping[int, Shape | None] | None = None) -> int:
    """Replace marked spellings in place by ZeroInsertion and Pad; return their number.

    `shapes` overrides those of Parameters by node id. A graph that does not fit together stays.
    """
    if not any(_marks(n) for n in every_node(graph)):
        return 0
    count = 0
    for given in (None, shapes) if shapes else (None,):
        problems = infer_specs(graph, given, believe=False)
        if not any(d.severity == "error" for d in problems):
            # A spelling that computes with sizes is one for the shapes that the file declares.
            count += _recognise_all(graph, computed=bool(shapes) and given is None)
        for node in graph.nodes():
            node.specs = None
    return count


def _marks(node: Node) -> re.Match[str] | None:
    return _MARKED.search(node.rt_info or "") if node.type == "Reshape" else None


def _recognise_all(graph: Graph, *, computed: bool) -> int:
    """Replace marked spellings of an inferred graph and its bodies; discard all specs.

    With `computed` only those whose target is computed.
    """
    count = 0

    def inside(body: Graph) -> Graph:
        nonlocal count
        out = body.copy()
        count += _recognise_all(out, computed=computed)
        return out

    change_bodies(graph, inside)
    nodes = list(graph.nodes())
    for node, found in [(n, m) for n in nodes if (m := _marks(n)) is not None]:
        strides = tuple(map(int, found[1].split(",")))
        insertion = core.ZeroInsertion(strides, trailing=True)
        target = constant(graph, graph.inputs_of(node.id)[1])
        if 0 in strides or (computed and target is not None and -1 not in target):
            continue
        count += _recognise(graph, node, insertion)
    before = {n.id for n in nodes}
    for node in graph.nodes():
        if node.id not in before and node.specs is not None:
            node.declared = tuple(s.without_value() for s in node.specs)
        node.specs = None
    return count


def misfits(graph: Graph) -> list[Diagnostic]:
    """Return an error (E300) for each recognised zero-insertion that the file fixes to other sizes.

    A file with the target of the Reshape as numbers cannot adapt if the model's inputs are given
    other shapes after it was read.
    """
    return [
        Diagnostic(
            "E300",
            "error",
            f'ZeroInsertion "{node.name}": the file spells it by a Reshape to '
            f"{format_shape(node.declared[0].shape)}, which does not fit the data "
            f"{graph.spec(graph.inputs_of(node.id)[0])}",
            node.location,
            layer=node.name,
            hint="lower the original at these shapes, or with open ones",
        )
        for node in graph.nodes("ZeroInsertion")
        if node.declared and not compatible(node.declared[0].shape, node.spec().shape)
    ]


def _recognise(graph: Graph, reshape: Node, insertion: core.ZeroInsertion) -> bool:
    """Replace a spelling of a trailing zero-insertion that ends in `reshape`."""
    source = _source(graph, reshape, insertion)
    if source is None:
        return False
    before = upstream(graph, [reshape.id], lambda v: v != source)
    fixed = constant(graph, graph.inputs_of(reshape.id)[1]) is not None
    reshape.rt_info = None
    made = replace_node(graph, reshape, lambda _, b, *__: b.add(insertion, source)).made
    if not fixed:  # the file computes the target: it suits other shapes of the inputs as well
        spread = graph.node(made[-1])
        spread.specs = tuple(Spec(s.dtype, (DYNAMIC,) * (s.rank or 0)) for s in spread.specs or ())
    sweep(graph, sorted(before))
    return True


def _source(graph: Graph, reshape: Node, insertion: core.ZeroInsertion) -> Value | None:
    """Return the data of a spelling that ends in `reshape`, None if it is no spelling of its mark.

    The spelling is built again behind each value in front, and compared node by node.
    """
    value, axes = Value(reshape.id), len(insertion.strides)
    for _ in range(MOST_MOVEMENTS):
        if not isinstance(graph.node(value.node).op, Reshape | Pad1 | Unsqueeze | StridedSlice):
            return None
        value = graph.inputs_of(value.node)[0]
        if graph.spec(value).rank != axes + 2:
            continue
        if any(_is_spelled(graph, reshape, insertion, value, *way) for way in SPELLINGS):
            return value
    return None


def _is_spelled(
    graph: Graph,
    reshape: Node,
    insertion: core.ZeroInsertion,
    source: Value,
    spell: Spelling,
    style: Style,
) -> bool:
    builder = GraphBuilder(graph, reshape, style=style)
    try:
        wanted = spell(insertion, builder, source)
        return isinstance(wanted, Value) and _same(graph, Value(reshape.id), wanted, source)
    except OpError:
        return False
    finally:
        builder.undo()


def _same(graph: Graph, a: Value, b: Value, source: Value) -> bool:
    """Whether two values are computed alike from `source` and constants."""
    if source in (a, b):
        return a == b
    x, y = constant(graph, a), constant(graph, b)
    if x is not None or y is not None:
        return x is not None and y is not None and np.array_equal(x, y)
    ops = graph.node(a.node).op, graph.node(b.node).op
    inputs = graph.inputs_of(a.node), graph.inputs_of(b.node)
    same = ops[0] == ops[1]
    if isinstance(ops[0], Pad1) and isinstance(ops[1], Pad1):
        same = ops[0].pad_mode == ops[1].pad_mode  # all versions compute the same with zeros
    same = same and len(inputs[0]) == len(inputs[1])
    return same and all(_same(graph, *pair, source) for pair in zip(*inputs, strict=True))


@work.gc_paused()
def standardize(graph: Graph) -> Graph:
    """Return an inferred copy of a graph in OpenVINO's operations that computes the same.

    Raises UnsupportedError with every operation that has no such spelling, InferenceError if the
    graph does not fit together.
    """
    out, problems = inferred(graph), Collector()
    _standardize_graph(out, problems)
    problems.require_none(UnsupportedError)
    fill_specs(out)
    return out


def _standardize_graph(out: Graph, problems: Collector) -> Graph:
    """Spell a graph in standard operations in place, and its bodies; returns it."""
    change_bodies(out, lambda body: _standardize_graph(body.copy(), problems))
    dead = {n.id for n in out.nodes()} - out.live()
    for node in out.topological():
        if node.id not in out or not _needs(node):
            continue
        try:
            _standardize(out, node)
        except OpError as e:
            text = f"{node.label} cannot be written in standard operations: {e}"
            problems.add_at(node, "E402", text)
    _split_pads(out, lambda node: bool(node.origins))
    for node in list(out.nodes("GroupConvolution")):
        if node.origins:
            _scale_by_output(out, node)
    remove_dead(out, dead)
    unique_names(out)
    return out


def _scale_by_output(graph: Graph, node: Node) -> None:
    """Repeat a scale [g, 1, ...] of a stored filter for each output channel of the groups.

    OpenVINO's int8 pipeline compiles no grouped convolution with several outputs and one scale a
    group (runtime_faults.py).
    """
    filter = graph.node(graph.inputs_of(node.id)[1].node)
    shape = filter.spec().shape
    if not isinstance(filter.op, Multiply) or not is_static(shape) or shape[1] == 1:
        return
    for port, value in enumerate(graph.inputs_of(filter.id)):
        scale = constant(graph, value)
        if scale is not None and scale.shape == (shape[0], *(1,) * (len(shape) - 1)):
            b = GraphBuilder(graph, node)
            wide = np.broadcast_to(scale, (*shape[:2], *scale.shape[2:]))
            graph.set_input(filter.id, port, b.const(wide, graph.spec(value).dtype))


def _needs(node: Node) -> bool:
    op = node.op
    if isinstance(op, BackpropData):
        return op.semantics == "document"
    if isinstance(op, ConvolutionBase) and op.unrestricted:
        return True
    return not op.standard


def _standardize(graph: Graph, node: Node) -> None:
    op = node.op
    if isinstance(op, core.ZeroInsertion):
        budget = NodeBudget(current().lowered_total)
        change = replace_node(graph, node, spell_zero_insertion, budget)
        if change.skipped:
            raise OpError(change.skipped)
        # The last Reshape is marked, so that reading recognises it.
        last = [n for n in map(graph.node, change.made) if isinstance(n.op, Reshape)][-1]
        strides = ",".join(map(str, op.strides))
        marked = f'<attribute name="{MARK}" version="0" strides="{strides}" />'
        last.rt_info = f"<rt_info>{marked}</rt_info>"
    elif isinstance(op, core.Deconvolution):
        replace_node(graph, node, _deconvolution)
    elif isinstance(op, ConvolutionBase):
        rank = graph.spec(graph.inputs_of(node.id)[0]).rank or 0
        if rank > 5:
            raise OpError(f"OpenVINO convolves 1 to 3 spatial axes, not {rank - 2}")
        replace_node(graph, node, _empty_convolution)
    elif isinstance(op, SugarOp):
        for made in map(graph.node, replace_node(graph, node, expand).made):
            if made.id in graph and _needs(made):
                _standardize(graph, made)
    else:
        raise OpError("no spelling is defined")


def with_split_pads(graph: Graph) -> Graph:
    """Return a copy in which no Pad crops and pads by computed amounts, as a file has them."""
    out = graph.copy()
    change_bodies(out, with_split_pads)
    _split_pads(out, lambda node: True)
    return out


def _split_pads(graph: Graph, chosen: Callable[[Node], bool]) -> None:
    """Split Pads that may crop and pad with zeros, by amounts computed at run time."""
    for node in filter(chosen, list(graph.nodes("Pad"))):
        data, *amounts = (graph.spec(v) for v in graph.inputs_of(node.id))
        computed = len(amounts) == 2 and any(s.known is None for s in amounts)
        known = data.rank is not None and all(s.dtype == i64 for s in amounts)
        zeros = isinstance(node.op, Pad12) and node.op.pad_mode == "constant"
        if zeros and computed and known:
            _split_pad(graph, node)


def _split_pad(graph: Graph, node: Node) -> None:
    """Pad first and crop afterwards: by amounts computed at run time.

    One Pad that crops more than the tensor has and pads at the other end corrupts the heap of
    OpenVINO's CPU plugin. If computed pads have a lower but no upper bound, OpenVINO infers that
    they never crop, and fails if they do; it follows no bounds through ReLU.
    """

    def build(op: Pad12, b: GraphBuilder, x: Value, begin: Value, end: Value, *_: Value) -> Value:
        zero = b.const(np.zeros(1, np.int64))
        padded = b.add(Pad1("constant"), x, *(b.add(Maximum(), v, zero) for v in (begin, end)))
        first = b.add(ReLU(), b.add(Subtract(), zero, begin))
        surplus = b.add(ReLU(), b.add(Subtract(), zero, end))
        last = b.add(Subtract(), b.add(ShapeOf(i64), padded), surplus)
        steps = b.const(np.ones(b.spec(x).rank or 0, np.int64))
        masks = ((0,) * (b.spec(x).rank or 0),) * 2
        return b.add(StridedSlice(*masks), padded, first, last, steps)

    replace_node(graph, node, build)


def _empty_convolution(op: ConvolutionBase, b: GraphBuilder, x: Value, w: Value) -> Value:
    """Spell a convolution in which no window fits: one that just fits, its only output cut off."""
    data, taps = (b.spec(x).shape or ())[2:], (b.spec(w).shape or ())[2 + op.grouped :]
    out = (op.output_shape(b.spec(x).shape, b.spec(w).shape) or ())[2:]
    lack, surplus = [0] * len(out), [0] * len(out)
    for axis, (o, i, k) in enumerate(zip(out, data, taps, strict=False)):  # a rank may be unknown
        if o == 0 and isinstance(i, int) and isinstance(k, int):
            own = op.pads_begin[axis] + op.pads_end[axis]
            lack[axis], surplus[axis] = geometry.extent(k, op.dilations[axis]) - i - own, -1
    none = IntVector((0,) * len(out))
    y = b.add(replace(op, unrestricted=False), pad_spatial(b, x, none, IntVector(tuple(lack))), w)
    return pad_spatial(b, y, none, IntVector(tuple(surplus)))


def _deconvolution(
    op: core.Deconvolution, b: Builder[X], x: X, w: X, pads_begin: X, pads_end: X
) -> X:
    """Spell the canonical deconvolution: pads that only cut off natively, others by a Pad."""
    axes = len(op.strides)
    begin, end = vector(b, pads_begin), vector(b, pads_end)
    native = [(0,) * axes, (0,) * axes]
    pads = [v.values for v in (begin, end) if isinstance(v, IntVector)]
    # With a negative pad beside it, cutting natively may leave less than nothing.
    if len(pads) == 2 and min(itertools.chain(*pads)) >= 0:
        native = pads
    zeros, groups = (0,) * axes, (b.spec(w).shape or (DYNAMIC,))[0]
    w = b.add(Squeeze1(), w, b.const(AXIS_0)) if groups == 1 else w
    lists = (op.strides, native[0], native[1], op.dilations)
    y = b.add(backprop_data(groups)(*lists, "explicit", zeros), x, w)
    zero = IntVector(zeros)
    front, back = map(IntVector, native)
    return pad_spatial(b, y, zero - (begin - front), zero - (end - back))
