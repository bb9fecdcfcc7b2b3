"""Reading back: the written spelling of ZeroInsertion becomes ZeroInsertion again.

The writer marks the last node of the spelling in its rt_info, which other readers ignore. The mark
is only a hint: the three nodes must also be what the writer makes of it, by shapes that follow from
the model's inputs. What ports declare says nothing, nor do the outputs of unknown operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from irdeconv.errors import Diagnostic, OpError
from irdeconv.graph import Graph, Node, Value
from irdeconv.op import Op
from irdeconv.ops import core
from irdeconv.ops.bodies import change_bodies, every_node
from irdeconv.ops.padding import PadBase
from irdeconv.ops.shape import Reshape, Unsqueeze
from irdeconv.ops.strided import StridedSlice
from irdeconv.passes.builder import GraphBuilder
from irdeconv.passes.emit import Style
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.rewrite import Skip, replace_node, sweep
from irdeconv.passes.spreading import spell_zero_insertion, spell_zero_insertion_as_before
from irdeconv.passes.stored import constant
from irdeconv.spec import DYNAMIC, Array, Shape, Spec, compatible, format_shape

MARK = "irdeconv_zero_insertion"
MOST_MOVEMENTS = 16  # of a spelling: Reshape, Pad and crops in turns, for up to eight axes
Spelling = Callable[[core.ZeroInsertion, GraphBuilder, Value], Value | Skip]
SPELLINGS: tuple[tuple[Spelling, Style], ...] = (
    (spell_zero_insertion, Style()),
    (spell_zero_insertion, Style(pads_in_pairs=False)),
    (spell_zero_insertion_as_before, Style()),
)
_MARKED = re.compile(
    rf'<attribute name="{MARK}" version="0" strides="(\d{{1,9}}(?:,\d{{1,9}}){{0,5}})"',
    re.ASCII,
)


def mark(strides: tuple[int, ...]) -> str:
    """Return the rt_info that marks a spelled zero-insertion."""
    text = ",".join(map(str, strides))
    return f'<rt_info><attribute name="{MARK}" version="0" strides="{text}" /></rt_info>'


def recognise(graph: Graph, shapes: Mapping[int, Shape | None] | None = None) -> int:
    """Replace marked spellings in place by ZeroInsertion and Pad; returns how many.

    `shapes` overrides those of Parameters by node id. A graph that does not fit together stays.
    """
    if not any(_marks(n) for n in every_node(graph)):
        return 0
    count = 0
    for given in (None, shapes) if shapes else (None,):
        problems = infer_specs(graph, given, believe=False)
        if not any(d.severity == "error" for d in problems):
            # What a file computes from sizes is spelled for the shapes that it states.
            count += _recognise_all(graph, computed=bool(shapes) and given is None)
        for node in graph.nodes():
            node.specs = None
    return count


def _marks(node: Node) -> re.Match[str] | None:
    return _MARKED.search(node.rt_info or "") if node.type == "Reshape" else None


def _recognise_all(graph: Graph, *, computed: bool) -> int:
    """Replace marked spellings of an inferred graph and its bodies; gives up all specs.

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

    A file that states the target of the Reshape as numbers computes nothing else where the model's
    inputs are given other shapes after it was read.
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
    before = _upstream(graph, reshape, source)
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
        node = graph.node(value.node)
        if not isinstance(node.op, Reshape | PadBase | Unsqueeze | StridedSlice):
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
        for i in reversed(builder.made):
            graph.remove(i)


def _same(graph: Graph, a: Value, b: Value, source: Value) -> bool:
    """Whether two values are computed alike from `source` and constants."""
    if source in (a, b):
        return a == b
    known = constant(graph, a), constant(graph, b)
    if known[0] is not None or known[1] is not None:
        return _same_array(*known)
    ops = graph.node(a.node).op, graph.node(b.node).op
    inputs = graph.inputs_of(a.node), graph.inputs_of(b.node)
    same = _equal(*ops) and len(inputs[0]) == len(inputs[1])
    return same and all(_same(graph, *pair, source) for pair in zip(*inputs, strict=True))


def _same_array(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def _equal(a: Op, b: Op) -> bool:
    """Whether two operations compute the same; the versions of Pad do if they pad by zeros."""
    if isinstance(a, PadBase) and isinstance(b, PadBase):
        return a.pad_mode == b.pad_mode
    return a == b


def _upstream(graph: Graph, reshape: Node, source: Value) -> set[int]:
    """Return the ids of the nodes between `source` and a spelling's end."""
    found, stack = {reshape.id}, [reshape.id]
    while stack:
        for v in graph.inputs_of(stack.pop()):
            if v.node not in found and v != source:
                found.add(v.node)
                stack.append(v.node)
    return found
