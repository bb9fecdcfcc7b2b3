"""What changed between two graphs: which layers stayed, and what became of the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from irdeconv.ir.graph import Graph, Node
from irdeconv.ops.basic import Const
from irdeconv.ops.bodies import bodies_of
from irdeconv.show.scene import Change


@dataclass
class Group:
    """One source layer with what belongs to it on either side, by id."""

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
    """Compare two graphs, of which the second was made of the first.

    A source layer is "rewritten", what fed nothing but such layers is "removed". What stands in its
    place is "added", and "rewritten" where other layers read it.
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
    taken: set[int] = set()
    others = []
    for node in before.nodes():
        if node.id in after and after.node(node.id).name == node.name:
            taken.add(node.id)
            yield node.id, node.id
        else:
            others.append(node)
    named = {n.name: n.id for n in after.nodes() if n.id not in taken}
    for node in others:
        found = named.pop(node.name, None)
        if found is not None:
            yield node.id, found


def _alike(a: Node, b: Node) -> bool:
    """Whether a layer stayed as it was, what its bodies hold included."""
    if a.op is b.op:
        return True
    if isinstance(a.op, Const) and isinstance(b.op, Const):
        return not b.origins and (a.op.shape, a.op.element_type) == (b.op.shape, b.op.element_type)
    if (a.type, a.op.to_attributes()) != (b.type, b.op.to_attributes()):
        return False
    bodies = zip(bodies_of(a), bodies_of(b), strict=False)
    return all(not difference(x.graph, y.graph).after for x, y in bodies)


def _group(before: Graph, after: Graph, out: Difference) -> None:
    """Sort what differs into groups, one for each source layer."""
    made = _by_source(after, out)
    repeated = Counter(before.node(i).name for i in out.before)
    groups: dict[int, Group] = {}
    for i in sorted(out.before):
        source = before.node(i)
        ids = made.get(source.name, [])
        if repeated[source.name] > 1:  # the place tells layers of one name apart
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
    """Return what is new by the name of the layer that it was made of."""
    made: dict[str, list[int]] = defaultdict(list)
    for j in sorted(out.after):
        node = after.node(j)
        # A file does not keep the origins; new layers are called like "source/Convolution" there.
        for name in node.origins or dict.fromkeys((node.name, node.name.rpartition("/")[0])):
            made[name].append(j)
    return made


def _absorb(before: Graph, out: Difference, groups: dict[int, Group]) -> None:
    """Let what fed a single rewritten layer, such as its filter, belong to that layer's group."""
    for node in reversed(before.reading_order()):
        if out.before.get(node.id) != "removed" or node.id in groups:
            continue
        users = {id(g): g for i in before.successors(node.id) if (g := groups.get(i))}
        if len(users) == 1:
            (group,) = users.values()
            group.before.append(node.id)
            groups[node.id] = group
