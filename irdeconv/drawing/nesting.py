"""The scenes of groups: every group has one of its own, with ports for what crosses its border."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from irdeconv.drawing.compose import LayerBox, Wire, scene_of
from irdeconv.drawing.repeats import find_repeats
from irdeconv.drawing.scene import Change, Scene, TextLine
from irdeconv.drawing.scopes import LayerGroup, scopes
from irdeconv.drawing.text import measure, name_lines, one_line
from irdeconv.plural import count

UNGROUPED = 40  # boxes; a graph with fewer has no groups
TITLE_WIDTH = 18.6  # em: 30 characters
FACT_WIDTH = 22.3  # em of a smaller font
TYPES = 3  # that are named in the box of a group


def grouped(boxes: Sequence[LayerBox], wires: Sequence[Wire], title: str) -> list[Scene]:
    """Return the scenes of a graph with its groups closed, the whole first; none without groups."""
    if len(boxes) < UNGROUPED:
        return []
    arrows = list(dict.fromkeys((w.source, w.target) for w in wires if w.source != w.target))
    ends = {n for n, b in enumerate(boxes) if b.kind in ("input", "output")}
    root = scopes({n: "" if n in ends else b.name for n, b in enumerate(boxes)}, arrows)
    # Nothing is like an end of the model: it is in no block.
    signatures = {n: f"end {n}" if n in ends else b.signature for n, b in enumerate(boxes)}
    find_repeats(root, signatures, arrows, {n for n, b in enumerate(boxes) if b.weighty})
    root.title = title
    return _Nesting(root, boxes, wires).scenes() if root.groups() else []


class _Nesting:
    """Groups with numbers, and the way to every layer."""

    def __init__(self, root: LayerGroup, boxes: Sequence[LayerBox], wires: Sequence[Wire]) -> None:
        self._boxes = boxes
        self._groups: list[LayerGroup] = []
        self._way: dict[int, list[tuple[int, int]]] = {}  # (scene, number of the box there)
        self._number: dict[int, int] = {}
        self._enter(root)
        self._wires: list[list[Wire]] = [[] for _ in self._groups]
        self._ports: list[dict[tuple[bool, int, int], tuple[int, LayerBox]]] = [
            {} for _ in self._groups
        ]
        for wire in wires:
            self._lay(wire)

    def _enter(self, root: LayerGroup) -> None:
        """Number the groups, a group before those inside, and note where each layer is."""
        stack: list[tuple[LayerGroup, list[tuple[int, int]]]] = [(root, [])]
        while stack:
            group, way = stack.pop()
            scene = self._number[id(group)] = len(self._groups)
            self._groups.append(group)
            for n, member in enumerate(group.members):
                if isinstance(member, LayerGroup):
                    stack.append((member, [*way, (scene, n)]))
                else:
                    self._way[member] = [*way, (scene, n)]

    def _lay(self, wire: Wire) -> None:
        """Add a link to every scene that a value passes through."""
        source, target = self._way[wire.source], self._way[wire.target]
        shared = 0
        while source[shared] == target[shared]:
            shared += 1
        value = (wire.source, wire.output)
        leaving = self._through(source[shared:], (True, *value), wire)
        entering = self._through(target[shared:], (False, *value), wire)
        scene = source[shared][0]
        self._wires[scene].append(
            replace(
                wire,
                source=source[shared][1],
                target=target[shared][1],
                source_port=leaving,
                target_port=entering,
            )
        )

    def _through(
        self, way: Sequence[tuple[int, int]], key: tuple[bool, int, int], wire: Wire
    ) -> int:
        """Add the links between a layer and the ports of the groups around it.

        Return the port of the outermost group, -1 where the layer is in none of them.
        """
        port = -1
        for scene, number in reversed(way[1:]):
            before, port = port, self._port(scene, key, wire)
            ends = (number, port) if key[0] else (port, number)
            ports = (before, -1) if key[0] else (-1, before)
            self._wires[scene].append(
                Wire(*ends, wire.output, "" if key[0] else wire.label, wire.node, *ports)
            )
        return port

    def _port(self, scene: int, key: tuple[bool, int, int], wire: Wire) -> int:
        """Return the number of a port's box in a scene: those of ports follow the members."""
        ports = self._ports[scene]
        first = len(self._groups[scene].members)
        return ports.setdefault(key, (first + len(ports), LayerBox((), "", wire.node, "port")))[0]

    def scenes(self) -> list[Scene]:
        """Lay out every group."""
        out = []
        for group, ports, wires in zip(self._groups, self._ports, self._wires, strict=True):
            members = [
                self._boxes[m] if isinstance(m, int) else self._box(m) for m in group.members
            ]
            out.append(scene_of([*members, *(p for _, p in ports.values())], wires, group.title))
        return out

    def _box(self, group: LayerGroup) -> LayerBox:
        """Return the box of a closed group."""
        inside = [self._boxes[v] for v in group.layers()]
        title = _title(group, inside)
        first = f"{group.repeats} \u00d7 {title}" if group.repeats else title
        lines = [TextLine(t, "type") for t in name_lines(first, TITLE_WIDTH)]
        lines += [TextLine(one_line(t, FACT_WIDTH), "fact") for t in _contents(group, inside)]
        group.title = title
        return LayerBox(
            lines=tuple(lines),
            name=title,
            kind="repeat" if group.repeats else "group",
            change=_change(inside),
            scene=self._number[id(group)],
        )


def _contents(group: LayerGroup, inside: Sequence[LayerBox]) -> Iterator[str]:
    """Yield what is in a group: how many layers, of which types most."""
    layers = count(len(inside), "layer")
    yield f"{layers} in {group.repeats} equal blocks" if group.repeats else layers
    types = Counter(b.type for b in inside)
    most = sorted(types, key=lambda t: (-types[t], t))
    for some in range(min(TYPES, len(most)), 0, -1):
        text = ", ".join(f"{types[t]} {t}" for t in most[:some]) + ", ..." * (some < len(most))
        if some == 1 or measure(text) <= FACT_WIDTH:
            yield text
            break
    deconvolutions = sum(b.kind == "deconvolution" for b in inside)
    if deconvolutions:
        yield count(deconvolutions, "deconvolution")


def _title(group: LayerGroup, inside: Sequence[LayerBox]) -> str:
    """Return a group's scope, what the names inside begin with, or its first and last type."""
    if group.title:
        return group.title
    if group.repeats:
        block = group.members[0]
        if isinstance(block, LayerGroup) and not block.title:
            return f"{inside[0].type} ... {inside[len(inside) // group.repeats - 1].type}"
    common = _beginning(min(b.name for b in inside), max(b.name for b in inside))
    end = max(common.rfind(c) for c in "/.")
    return common[:end] if end > 0 else f"{inside[0].type} ... {inside[-1].type}"


def _beginning(a: str, b: str) -> str:
    """Return what two names begin with."""
    same = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return a[: next(same, min(len(a), len(b)))]


def _change(inside: Sequence[LayerBox]) -> Change:
    """Return what happened to all layers of a group; where that differs, it was rewritten."""
    changes = {b.change for b in inside}
    return changes.pop() if len(changes) == 1 else "rewritten"
