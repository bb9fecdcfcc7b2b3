"""What would give another output size: one wording for diagnostics and explanations."""

from __future__ import annotations

from irdeconv.geometry import IntVector, Vector, Window


def size_hint(size: int, wanted: int, *, extra: int, limit: int | None, pads: int) -> str:
    """Return how a size becomes the wanted one: `the output would be 31; output_padding=1 ...`.

    `extra` is the present output_padding, `limit` the first value that the system refuses (0: it
    has none, None: no limit), `pads` the sum of both pads.
    """
    lack = wanted - size
    ways = []
    if lack and extra + lack >= 0 and (limit is None or extra + lack < limit):
        ways.append(f"output_padding={extra + lack} gives {wanted}")
    elif lack > 0 and limit and extra < limit - 1:
        ways.append(f"output_padding={limit - 1} gives {size + limit - 1 - extra} at most")
    if 0 < lack <= pads:
        ways.append(f"pads that are {lack} less in total give {wanted}")
    elif lack < 0 and not ways:
        ways.append(f"pads that are {-lack} more in total give {wanted}")
    return "; ".join([f"the output would be {size}", *ways])


def empty_hint(full: Vector, window: Window) -> str | None:
    """Return what is cut off where nothing remains, on the axis that lacks most; None: unknown."""
    parts = (full, window.pads_begin, window.pads_end)
    rows = [v.values for v in parts if isinstance(v, IntVector)]
    if len(rows) < len(parts):
        return None
    left = [whole - begin - end for whole, begin, end in zip(*rows, strict=True)]
    axis = left.index(min(left))
    whole, begin, end = (row[axis] for row in rows)
    remedy = f"{whole - 1} in total leave 1" if whole > 0 else "the data is empty"
    return (
        f"on spatial axis {axis} the whole scatter has {whole} elements, of which {begin} + {end} "
        f"are cut off; {remedy}"
    )
