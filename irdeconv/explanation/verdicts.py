"""What the systems would compute for the same attributes, and how it differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from irdeconv.dialects import READINGS
from irdeconv.dialects.setting import Setting
from irdeconv.dialects.system import Cannot, Crop, System
from irdeconv.errors import OpError
from irdeconv.explanation.frameworks import FRAMEWORKS
from irdeconv.explanation.systems import CANONICAL
from irdeconv.plural import count
from irdeconv.spec import Dim, Shape

Kind = Literal["same", "shift", "longer", "shorter", "size", "rejected", "inexpressible", "unknown"]
SYSTEMS: tuple[System, ...] = (*(r for r in READINGS if r.listed), *FRAMEWORKS)


@dataclass(frozen=True)
class Verdict:
    """One row: the window of a system and whether its numbers are those of the layer.

    `crop` is None where the system refuses the attributes or has none for them. `same` is None
    where it depends on sizes that are not known. `instead` are attributes with which the system
    computes the layer's numbers, None where the same attributes do or where there are none.
    """

    system: str
    title: str
    crop: Crop | None
    kind: Kind
    text: str
    instead: dict[str, str] | None = None

    @property
    def same(self) -> bool | None:
        """Whether the numbers are those of the layer."""
        return None if self.kind == "unknown" else self.kind == "same"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; unknown sizes are texts."""
        return {
            "system": self.system,
            "title": self.title,
            "same": self.same,
            "kind": self.kind,
            "text": self.text,
            **(crop_dict(self.crop) if self.crop else dict.fromkeys(("begin", "end", "size"))),
            "instead": self.instead,
        }


def crop_dict(crop: Crop) -> dict[str, list[int | str]]:
    """Return begin, end and size as lists; unknown numbers are texts."""
    return {name: numbers(getattr(crop, name)) for name in ("begin", "end", "size")}


def numbers(values: Shape) -> list[int | str]:
    """Return exact dimensions as integers and others as texts."""
    return [v if isinstance(v, int) else str(v) for v in values]


def find(key: str) -> System:
    """Return the system with this key."""
    return next(s for s in (*READINGS, *FRAMEWORKS, CANONICAL) if s.key == key)


def verdicts(s: Setting, own: Crop | None) -> list[Verdict]:
    """Return a row for every system; `own` is the layer's window, None where it is refused."""
    return [verdict(system, s, own) for system in SYSTEMS]


def verdict(system: System, s: Setting, own: Crop | None) -> Verdict:
    """Ask one system."""
    crop, kind, text = _ask(system, s, own)
    instead = None
    if own is not None and kind not in ("same", "unknown"):
        instead = _instead(system, s, own)
    return Verdict(
        system=system.key, title=system.title, crop=crop, kind=kind, text=text, instead=instead
    )


def _ask(system: System, s: Setting, own: Crop | None) -> tuple[Crop | None, Kind, str]:
    try:
        crop = system.crop(s)
    except Cannot as e:
        return None, "inexpressible", f"not expressible: {e}"
    except OpError as e:
        return None, "rejected", f"rejected: {e}"
    if own is None:
        return crop, "unknown", "accepted"
    return crop, *difference(own, crop)


def _instead(system: System, s: Setting, own: Crop) -> dict[str, str] | None:
    """Return attributes that give the layer's window in a system."""
    for way in system.ways(s, own):
        try:
            if difference(own, system.crop(way))[0] == "same":
                return system.spell(way)
        except (Cannot, OpError):
            continue
    return None


def difference(own: Crop, other: Crop) -> tuple[Kind, str]:
    """Return the kind of difference and its words; the numbers are the same where the window is."""
    found = [_axis(*row) for row in zip(own.begin, own.size, other.begin, other.size, strict=True)]
    if own == other:
        return "same", "the same numbers"
    if all(kind == "same" or known for kind, known in zip(found, _pads(own, other), strict=True)):
        return "same", "the same numbers"
    different = {kind for kind in found if kind != "same"}
    if different == {"unknown"}:
        return "unknown", "depends on sizes that are not known"
    different -= {"unknown"}
    kind: Kind = different.pop() if len(different) == 1 else "size"
    if kind == "size" and own.size == other.size:
        kind = "shift"
    return kind, "; ".join(_words(own, other, found))


def _pads(own: Crop, other: Crop) -> list[bool]:
    """Return where both pads are known and equal, so that the size does not matter."""
    rows = zip(own.begin, own.end, other.begin, other.end, strict=True)
    return [
        all(isinstance(v, int) for v in row) and (row[0], row[1]) == (row[2], row[3])
        for row in rows
    ]


def _axis(begin: Dim, size: Dim, other_begin: Dim, other_size: Dim) -> Kind:
    shift = _less(other_begin, begin)
    longer = _less(other_size, size)
    if shift is None or longer is None:
        return "size" if longer or shift else "unknown"
    if shift:
        return "size" if longer else "shift"
    return "same" if not longer else "longer" if longer > 0 else "shorter"


def _less(a: Dim, b: Dim) -> int | None:
    return a - b if isinstance(a, int) and isinstance(b, int) else None


def _words(own: Crop, other: Crop, kinds: list[Kind]) -> list[str]:
    """Describe the axes that differ; those that differ alike in one go."""
    axes: dict[str, list[str]] = {}
    for axis, kind in enumerate(kinds):
        words = _axis_words(own, other, axis, kind)
        if words:
            axes.setdefault(words, []).append(str(axis))
    out = []
    for words, where in axes.items():
        every = len(where) == len(kinds)
        named = "axes" if len(where) > 1 else "axis"
        out.append(words if every else f"{words} on {named} {' and '.join(where)}")
    return out


def _axis_words(own: Crop, other: Crop, axis: int, kind: Kind) -> str:
    shift = _less(other.begin[axis], own.begin[axis])
    longer = _less(other.size[axis], own.size[axis])
    parts = []
    if shift:
        what = "cuts off" if shift > 0 else "keeps"
        parts.append(f"shift by {abs(shift)} at the begin ({what} {abs(shift)} more)")
    if longer and shift:
        parts.append(f"size {other.size[axis]} instead of {own.size[axis]}")
    elif longer:
        parts.append(
            f"{count(abs(longer), 'row')} {'extra' if longer > 0 else 'missing'} at the end"
        )
    if kind == "unknown":
        parts.append("depends on sizes that are not known")
    return ", ".join(parts)
