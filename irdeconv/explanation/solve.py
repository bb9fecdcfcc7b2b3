"""Which attributes of a system give a wanted output size."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from irdeconv.attributes import Ints
from irdeconv.dialects.setting import Setting
from irdeconv.dialects.system import Cannot, Crop, System
from irdeconv.errors import OpError
from irdeconv.explanation.verdicts import crop_dict
from irdeconv.spec import is_static

MOST_SHOWN = 12
SEARCHED = 400  # pads and output_padding tried per axis and mode


@dataclass(frozen=True)
class Solution:
    """Attributes, and where the output then lies in the scatter."""

    attributes: dict[str, str]
    crop: Crop

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"attributes": self.attributes, **crop_dict(self.crop)}


@dataclass(frozen=True)
class Solutions:
    """The smallest solutions, how many more were found, and whether the search was cut short."""

    wanted: Ints
    found: tuple[Solution, ...]
    more: int
    complete: bool
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = [s.to_dict() for s in self.found]
        return vars(self) | {"wanted": list(self.wanted), "found": found}


@dataclass(frozen=True, order=True)
class AxisPads:
    """Pads and output_padding of one axis, ordered by how much they change."""

    cost: int
    begin: int
    end: int
    extra: int


def solve(system: System, s: Setting, wanted: Ints, *, shown: int = MOST_SHOWN) -> Solutions:
    """Search pads, output_padding, auto_pad and output_shape that give the wanted sizes.

    Pads below DK and output_padding below max(S, D) are tried on every axis by asking the system,
    the smallest first; of these the first few of every axis are combined.
    """
    if not is_static(s.size) or not is_static(s.kernel):
        return Solutions(wanted, (), 0, True, "the sizes of data and filter are not all known")
    ranked: list[tuple[int, int, int, Setting]] = []
    count, complete = 0, True
    for rank, (auto_pad, shape) in enumerate(system.modes):
        base = replace(s, auto_pad=auto_pad, output_shape=wanted if shape else None)
        axes = [_choices(system, base, axis, wanted[axis]) for axis in range(s.axes)]
        count += math.prod(len(c) for c, _ in axes)
        complete &= all(whole for _, whole in axes)
        for choices in itertools.product(*(c[:shown] for c, _ in axes)):
            cost, unlike = sum(c.cost for c in choices), len(set(choices))
            ranked.append((cost, unlike, rank, _padded(base, choices)))
    ranked.sort(key=lambda row: row[:3])
    found = [Solution(system.spell(way), system.crop(way)) for *_, way in ranked[:shown]]
    return Solutions(wanted, tuple(found), max(count - len(found), 0), complete)


def _padded(base: Setting, choices: Sequence[AxisPads]) -> Setting:
    """Return the setting with a choice on every axis."""
    return replace(
        base,
        pads_begin=tuple(c.begin for c in choices),
        pads_end=tuple(c.end for c in choices),
        output_padding=tuple(c.extra for c in choices),
    )


def _choices(system: System, base: Setting, axis: int, wanted: int) -> tuple[list[AxisPads], bool]:
    """Return what gives the wanted size on one axis, and whether everything was tried.

    All axes are made alike, so that each is judged apart from the others.
    """
    alike = base.on_axis(axis, base.axes)
    tried = list(itertools.islice(_candidates(alike, wanted), SEARCHED + 1))
    found = []
    for choice in tried[:SEARCHED]:
        try:
            if system.crop(_padded(alike, [choice] * base.axes)).size[0] == wanted:
                found.append(choice)
        except (Cannot, OpError):
            continue
    return found, len(tried) <= SEARCHED


def _candidates(alike: Setting, wanted: int) -> Iterator[AxisPads]:
    """Yield in order pads and output_padding that may fit, where pads are not explicit the latter.

    There may be as many as numbers; only so many as are searched, and one more, are sure to come.
    """
    full, extent = alike.full[0], alike.extent[0]
    assert isinstance(full, int)
    assert isinstance(extent, int)
    extras = max(alike.strides[0], alike.dilations[0])
    if alike.auto_pad != "explicit" or alike.output_shape is not None:
        most = 1 if alike.output_shape is not None else min(extras, SEARCHED + 1)
        yield from (AxisPads(extra, 0, 0, extra) for extra in range(most))
        return
    least = max(wanted - full, 0)
    tried = range(least, min(extras, least + SEARCHED + 1))
    yield from heapq.merge(*(_pads(full + extra - wanted, extent, extra) for extra in tried))


def _pads(total: int, extent: int, extra: int) -> Iterator[AxisPads]:
    """Yield in order the pairs of pads below `extent` that add up to `total`."""
    for begin in range(total // 2, max(total - extent + 1, 0) - 1, -1):
        end = total - begin
        # A pair of equal pads with output_padding is as good as one unequal pad.
        cost = total + extra + 2 * (end - begin)
        yield AxisPads(cost, begin, end, extra)
        if begin != end:
            yield AxisPads(cost, end, begin, extra)
