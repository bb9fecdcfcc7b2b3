"""The drawing of a graph: a box for each layer, with the constants that it reads in it.

Beside another graph: the layers that stayed, and the replacements of the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from irdeconv.base import work
from irdeconv.base.errors import count
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, ports
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import bodies_of
from irdeconv.show.layers import LayerFacts, layers, value
from irdeconv.show.scene import (
    Change,
    GraphDrawing,
    Kind,
    LayerBox,
    Panel,
    TextLine,
    Wire,
    draw,
    svg,
)
from irdeconv.show.text import name_lines, one_line, type_lines

BOX_WORK = 8192  # units of work for a layer
LINE_WIDTH = 18.6  # em: 30 characters
FACT_WIDTH = 22.3  # em of a smaller font
LARGEST_GROUPED = 5000  # layers; a notebook draws none of more
WEIGHTY = 64  # elements; more than axes and the like have
LARGEST_FLAT = 400  # boxes; a picture of more shows groups, a notebook none of more groups
CONSTANTS = 4  # that have a line each
LISTED_INPUTS = 8  # that are listed under the mouse

_PLACES = ("offset", "size")  # of a constant in its file: without effect on the layer


def drawing(
    graph: Graph,
    rows: Sequence[LayerFacts] | None = None,
    *,
    changes: Mapping[int, Change] | None = None,
    constants: bool = False,
) -> GraphDrawing:
    """Return the drawing of a graph; the numbers of its boxes are the ids of the layers.

    `rows` are its layers if they are known already, `changes` the changes that a rewrite made to
    layers. Constants stand in the boxes of their readers; with `constants` they have boxes.
    """
    shown = [r for r in (layers(graph) if rows is None else rows) if constants or not r.constant]
    # What is drawn anyway leaves less for the details.
    work.room(min(BOX_WORK * len(shown), work.left()), whole=True)
    place = {r.id: n for n, r in enumerate(shown)}
    kinds = changes or {}
    items = [_item(graph, r, kinds.get(r.id, "same"), folded=not constants) for r in shown]
    several = {r.id for r in shown if sum(bool(o.consumers) for o in r.outputs) > 1}
    wires = []
    for r in shown:
        for i in r.inputs:
            if i.producer in place:
                label = f"{i.port}: {i.text}" if i.producer in several else i.text
                wires.append(Wire(place[i.producer], place[r.id], i.port, label, i.producer))
    return draw(items, wires, graph.info.name)


def picture(
    graph: Graph,
    rows: Sequence[LayerFacts] | None = None,
    lowered: Graph | None = None,
    *,
    constants: bool = False,
    most: int | None = None,
) -> str | None:
    """Return a graph as SVG, beside it the lowered graph if there is one.

    Groups of a large graph are closed, and a line says so. Returns None if even then a side has
    more than `most` boxes, or if this check takes seconds.
    """
    if most is not None and max(len(graph), len(lowered or ())) > LARGEST_GROUPED:
        return None
    title, text = graph.info.name, _described(graph)
    found = Difference() if lowered is None else difference(graph, lowered)
    before = drawing(graph, rows, changes=found.before, constants=constants)
    panels = [_panel(graph, before, "" if lowered is None else "before")]
    if lowered is not None:
        after = drawing(lowered, changes=found.after, constants=constants)
        panels.append(_panel(lowered, after, "after lowering"))
        title = f"{title}, before and after lowering"
        text = f"Before: {text} After lowering: {_described(lowered)}"
    if most is not None and max(len(scene.boxes) for scene, _ in panels) > most:
        return None
    return svg(panels, title, text)


def _panel(graph: Graph, drawn: GraphDrawing, side: str) -> Panel:
    """Return the flat scene, or the one with closed groups if the flat one is too large."""
    heading = f"{graph.info.name}, {side}" if side else graph.info.name
    flat = drawn.scenes[drawn.flat]
    if not drawn.flat or len(flat.boxes) <= LARGEST_FLAT:
        return flat, [heading]
    groups = f"{count(len(flat.boxes), 'layer')} in groups; --format html opens them"
    return drawn.scenes[0], [heading, groups]


def _described(graph: Graph) -> str:
    """Return a sentence for who does not see the picture."""
    inputs, outputs = (", ".join(names) for names in (graph.inputs, graph.outputs))
    deconvolutions = sum(n.op.deconvolution for n in graph.nodes())
    ends = f"from {inputs or 'no input'} to {outputs or 'no output'}."
    among = f"{count(deconvolutions, 'deconvolution')} among them"
    return f"A graph of {count(len(graph), 'layer')}, {among}, {ends}"


def _item(graph: Graph, r: LayerFacts, change: Change, *, folded: bool) -> LayerBox:
    texts = [TextLine(t, "type") for t in type_lines(r.type, LINE_WIDTH)]
    texts += [TextLine(t, "name") for t in name_lines(r.name, LINE_WIDTH) if t]
    texts += [TextLine(one_line(t, FACT_WIDTH), "fact") for t in box_facts(graph, r, folded=folded)]
    attributes = " ".join(f"{k}={v}" for k, v in r.attributes.items() if k not in _PLACES)
    return LayerBox(
        lines=tuple(texts),
        name=r.name,
        title="\n".join(_title(graph, r)),
        node=r.id,
        kind=_kind(graph, r),
        change=change,
        type=r.type,
        signature=f"{r.type} {attributes} {len(r.inputs)}",
        weighty=r.parameters > WEIGHTY,
    )


def _title(graph: Graph, r: LayerFacts) -> Iterator[str]:
    """Yield the lines of a layer's tooltip: its name, its type, its inputs in order."""
    yield r.name
    yield f"{r.type} of {r.version}"
    op = graph.node(r.id).op
    for port, i in enumerate(r.inputs[:LISTED_INPUTS]):
        yield f"{_port(op, port)}: {i.name}{f' output {i.port}' if i.port else ''} {i.spec}"
    if len(r.inputs) > LISTED_INPUTS:
        yield f"and {count(len(r.inputs) - LISTED_INPUTS, 'input')} more"


def _kind(graph: Graph, r: LayerFacts) -> Kind:
    ends: dict[str, Kind] = {"Parameter": "input", "Result": "output"}
    if r.type in ends or r.deconvolution:
        return ends.get(r.type, "deconvolution")
    if r.constant:
        return "constant"
    return "body" if bodies_of(graph.node(r.id)) else "layer"


def box_facts(graph: Graph, r: LayerFacts, *, folded: bool) -> Iterator[str]:
    """Yield the other facts in a box: its window, constants, inputs that are one, bodies."""
    node = graph.node(r.id)
    yield from _window(r.attributes)
    held = [(port, i) for port, i in enumerate(r.inputs) if i.parameters is not None]
    if folded:
        few = CONSTANTS if len(held) > CONSTANTS + 1 else len(held)
        for port, i in held[:few]:
            known = value(i.spec)
            yield f"{_port(node.op, port)} {f'{known[:1]} {known[1:]}' if known else i.spec}"
        if few < len(held):
            yield f"and {count(len(held) - few, 'constant')} more"
    same: dict[tuple[int, int], list[int]] = {}
    for port, i in enumerate(r.inputs):
        if i.parameters is None:
            same.setdefault((i.producer, i.port), []).append(port)
    equal = (at for at in same.values() if len(at) > 1)
    yield from (" = ".join(_port(node.op, port) for port in at) for at in equal)
    for body in bodies_of(node):
        yield f"{body.tag} of {count(len(body.graph), 'layer')}"


def _window(attributes: Mapping[str, str]) -> Iterator[str]:
    """Yield the attributes of a window that have unusual values."""
    if attributes.get("kernel"):
        yield f"kernel {attributes['kernel']}"
    for key in ("strides", "dilations", "output_padding"):
        usual = {"", "0" if key == "output_padding" else "1"}
        if not usual.issuperset(attributes.get(key, "").split(",")):
            yield f"{key} {attributes[key]}"
    pads = [attributes.get(key, "") for key in ("pads_begin", "pads_end")]
    if not {"", "0"}.issuperset(",".join(pads).split(",")):
        yield f"pads {pads[0]}" if pads[0] == pads[1] else f"pads {pads[0]} / {pads[1]}"


def _port(op: Op, port: int) -> str:
    """Return an operation's name for an input."""
    return f"input {port}" if isinstance(op, Opaque) else ports(type(op)).name(port)


@dataclass
class Group:
    """One source layer and the layers on either side that belong to it, by id."""

    title: str
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)


@dataclass
class Difference:
    """The layers that differ, by id: their kinds, and the groups that they belong to."""

    before: dict[int, Change] = field(default_factory=dict)
    after: dict[int, Change] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)


def difference(before: Graph, after: Graph) -> Difference:
    """Compare two graphs, the second of which was made from the first.

    A source layer is "rewritten"; a layer that fed only such layers is "removed". A replacement is
    "added", or "rewritten" if other layers read it.
    """
    pairs = dict(_pairs(before, after))
    same = {a for a, b in pairs.items() if _alike(before.node(a), after.node(b))}
    left = {pairs[a] for a in same}
    out = Difference()
    out.before = {n.id: "removed" for n in before.nodes() if n.id not in same}
    out.after = {n.id: "added" for n in after.nodes() if n.id not in left}
    for a, b in pairs.items():
        if a not in same:
            out.before[a] = out.after[b] = "rewritten"
    _group(before, after, out)
    return out


def _pairs(before: Graph, after: Graph) -> Iterator[tuple[int, int]]:
    """Yield equal layers: same id and name (copies), else the same name (read again)."""
    every = {n.id: n.name for n in before.nodes()}
    taken = {i for i, name in every.items() if i in after and after.node(i).name == name}
    yield from ((i, i) for i in every if i in taken)
    named = {n.name: n.id for n in after.nodes() if n.id not in taken}
    for i, name in every.items():
        if i not in taken and name in named:
            yield i, named.pop(name)


def _alike(a: Node, b: Node) -> bool:
    """Whether a layer stayed as it was, with the contents of its bodies."""
    if a.op is b.op:
        return True
    if isinstance(a.op, Const) and isinstance(b.op, Const):
        return not b.origins and (a.op.shape, a.op.element_type) == (b.op.shape, b.op.element_type)
    bodies = zip(bodies_of(a), bodies_of(b), strict=False)
    alike = (a.type, a.op.to_attributes()) == (b.type, b.op.to_attributes())
    return alike and all(not difference(x.graph, y.graph).after for x, y in bodies)


def _group(before: Graph, after: Graph, out: Difference) -> None:
    """Sort the layers that differ into groups, one for each source layer."""
    made = _by_source(after, out)
    repeated = Counter(before.node(i).name for i in out.before)
    groups: dict[int, Group] = {}
    for i in sorted(out.before):
        source = before.node(i)
        ids = made.get(source.name, [])
        if repeated[source.name] > 1:  # layers of one name differ in their location
            ids = [j for j in ids if after.node(j).location is source.location]
        if ids and not bodies_of(source) and not isinstance(source.op, Const):
            out.before[i] = "rewritten"
            groups[i] = Group(source.name, [i], ids)
    _absorb(before, out, groups)
    out.groups = list({id(g): g for g in groups.values()}.values())
    for group in out.groups:
        inside = set(group.after)
        for j in group.after:
            if any(user not in inside for user in after.successors(j)):
                out.after[j] = "rewritten"


def _by_source(after: Graph, out: Difference) -> dict[str, list[int]]:
    """Return the new layers by the name of the layer that they were made from."""
    made: dict[str, list[int]] = defaultdict(list)
    for j in sorted(out.after):
        node = after.node(j)
        # A file does not keep the origins; new layers are called like "source/Convolution" there.
        for name in node.origins or dict.fromkeys((node.name, node.name.rpartition("/")[0])):
            made[name].append(j)
    return made


def _absorb(before: Graph, out: Difference, groups: dict[int, Group]) -> None:
    """Add a layer that fed a single rewritten layer, such as its filter, to that layer's group."""
    for node in reversed(before.reading_order()):
        if out.before.get(node.id) != "removed" or node.id in groups:
            continue
        users = {id(g): g for i in before.successors(node.id) if (g := groups.get(i))}
        if len(users) == 1:
            (group,) = users.values()
            group.before.append(node.id)
            groups[node.id] = group
