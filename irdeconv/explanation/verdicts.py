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
            **crop_dict(self.crop),
            "instead": self.instead,
        }


def crop_dict(crop: Crop | None) -> dict[str, list[int | str] | None]:
    """Return begin, end and size as lists, None without a crop; unknown numbers are texts."""
    if crop is None:
        return dict.fromkeys(("begin", "end", "size"))
    return {name: numbers(values) for name, values in vars(crop).items()}


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
    found = [_axis(own, other, axis) for axis in range(len(own.size))]
    if own == other or all(
        kind == "same" or _same_pads(own, other, axis) for axis, (kind, _) in enumerate(found)
    ):
        return "same", "the same numbers"
    different = {kind for kind, _ in found if kind != "same"}
    if different == {"unknown"}:
        return "unknown", "depends on sizes that are not known"
    different -= {"unknown"}
    kind: Kind = different.pop() if len(different) == 1 else "size"
    if kind == "size" and own.size == other.size:
        kind = "shift"
    return kind, "; ".join(_words([words for _, words in found]))


def _same_pads(own: Crop, other: Crop, axis: int) -> bool:
    """Whether both pads are known and equal, so that the size does not matter."""
    pads = own.begin[axis], own.end[axis]
    known = all(isinstance(pad, int) for pad in pads)
    return known and pads == (other.begin[axis], other.end[axis])


def _axis(own: Crop, other: Crop, axis: int) -> tuple[Kind, str]:
    """Return how one axis differs, and its words."""
    shift = _less(other.begin[axis], own.begin[axis])
    longer = _less(other.size[axis], own.size[axis])
    kind: Kind = "same"
    if shift is None or longer is None:
        kind = "size" if longer or shift else "unknown"
    elif shift:
        kind = "size" if longer else "shift"
    elif longer:
        kind = "longer" if longer > 0 else "shorter"
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
    return kind, ", ".join(parts)


def _less(a: Dim, b: Dim) -> int | None:
    return a - b if isinstance(a, int) and isinstance(b, int) else None


def _words(of_axes: list[str]) -> list[str]:
    """Describe the axes that differ; those that differ alike in one go."""
    out = []
    for words in dict.fromkeys(filter(None, of_axes)):
        where = [str(axis) for axis, other in enumerate(of_axes) if other == words]
        every = len(where) == len(of_axes)
        named = "axes" if len(where) > 1 else "axis"
        out.append(words if every else f"{words} on {named} {' and '.join(where)}")
    return out
