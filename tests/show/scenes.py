"""What must hold for any scene, whoever laid it out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from irdeconv.show.layout import LABEL_ROOM
from irdeconv.show.scene import Box, Link, Point, Scene
from irdeconv.show.scenes import label_width

STEPS = 12  # in which an S is cut for a look at what it passes through


def problems(scene: Scene) -> list[str]:
    """Return everything that is wrong with the geometry of a scene."""
    out = [f"{b.title} is outside" for b in scene.boxes if not _inside(b, scene)]
    out += [
        f"{a.title} overlaps {b.title}"
        for a, b in combinations(scene.boxes, 2)
        if _overlap(a, b) and "port" not in (a.kind, b.kind)
    ]
    for link in scene.links:
        out += _link_problems(link, scene)
    labels = [_label(link) for link in scene.links if link.label]
    out += [f"{label.title} is outside" for label in labels if not _inside(label, scene)]
    out += [f"{a.title} overlaps {b.title}" for a, b in combinations(labels, 2) if _overlap(a, b)]
    out += [
        f"{label.title} covers {box.title}"
        for label in labels
        for box in scene.boxes
        if _overlap(label, box)
    ]
    return out


def _label(link: Link) -> Box:
    """Return the place of a link's label: behind its beginning."""
    x, y = link.points[0]
    title = f"label of {link.source} -> {link.target}"
    return Box(x + 4, y + 2, label_width(link.label), LABEL_ROOM - 3, (), "layer", title=title)


def _inside(box: Box, scene: Scene) -> bool:
    return (
        0 <= box.x <= box.x + box.width <= scene.width
        and 0 <= box.y <= box.y + box.height <= scene.height
    )


def _overlap(a: Box, b: Box) -> bool:
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


def _link_problems(link: Link, scene: Scene) -> Iterator[str]:
    source, target = scene.boxes[link.source], scene.boxes[link.target]
    name = f"link {link.source} -> {link.target}"
    (x0, y0), (x1, y1) = link.points[0], link.points[-1]
    if y0 not in (source.y, source.y + source.height) or not _beside(x0, source):
        yield f"{name} does not begin at its box"
    if y1 not in (target.y, target.y + target.height) or not _beside(x1, target):
        yield f"{name} does not end at its box"
    if len(link.points) < 4 or link.points[0][0] != link.points[1][0]:
        yield f"{name} does not leave its box vertically"
    if link.points[-2][0] != link.points[-1][0]:
        yield f"{name} does not enter its box vertically"
    for a, b in pairwise(link.points):
        hit = [n for n, box in enumerate(scene.boxes) if _hits(a, b, box)]
        if hit:
            yield f"{name} passes through {hit}"


def _beside(x: int, box: Box) -> bool:
    return box.x <= x <= box.x + box.width


def _hits(a: Point, b: Point, box: Box) -> bool:
    """Whether a step of a link is inside of a box."""
    if max(a[1], b[1]) <= box.y or min(a[1], b[1]) >= box.y + box.height:
        return False
    if max(a[0], b[0]) <= box.x or min(a[0], b[0]) >= box.x + box.width:
        return False
    if a[0] == b[0]:
        return True
    points = (_on_s(a, b, n / STEPS) for n in range(STEPS + 1))
    return any(box.x < x < box.x + box.width and box.y < y < box.y + box.height for x, y in points)


def _on_s(a: Point, b: Point, t: float) -> tuple[float, float]:
    """Return a point of the curve whose control points are above and below its ends."""
    middle = (a[1] + b[1]) / 2
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    xs, ys = (a[0], a[0], b[0], b[0]), (a[1], middle, middle, b[1])
    return (
        sum(w * x for w, x in zip(weights, xs, strict=True)),
        sum(w * y for w, y in zip(weights, ys, strict=True)),
    )
