"""The attribute `auto_broadcast`: which shapes fit, and where their axes stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from irdeconv.errors import OpError
from irdeconv.spec import Array, Dim, Shape, broadcast, format_shape, merge, merge_shapes

AutoBroadcast = Literal["numpy", "none", "pdpd"]
D = TypeVar("D", bound=Dim)


def broadcast_shapes(a: Shape | None, b: Shape | None, rule: str, port: int = 1) -> Shape | None:
    """Return the shape of an element-wise result under an `auto_broadcast` rule; E302."""
    try:
        if rule == "none":
            return merge_shapes(a, b)
        return _into(a, b) if rule == "pdpd" else broadcast(a, b)
    except ValueError as e:
        raise OpError(
            f"shapes {format_shape(a)} and {format_shape(b)} do not fit "
            f'auto_broadcast="{rule}": {e}',
            code="E302",
            port=port,
        ) from None


def _into(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return `a`, into which `b` broadcasts along its first axes."""
    if a is None or b is None:
        return a
    if len(b) > len(a):
        raise ValueError(f"rank {len(b)} is above rank {len(a)}")
    for x, y in zip(a, leading(b), strict=False):
        if merge(x, y) is None and merge(y, 1) is None:
            raise ValueError(f"dimension {y} does not broadcast to {x}")
    return a


def leading(shape: tuple[D, ...]) -> tuple[D, ...]:
    """Return a shape without the ones at its end."""
    kept = len(shape)
    while kept and shape[kept - 1] == 1:
        kept -= 1
    return shape[:kept]


def aligned_shape(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the shape in `rank` axes of which `pdpd` takes the first ones.

    The specification lets an attribute `axis` say where they begin; the runtime reads none and
    begins at 0.
    """
    first = leading(tuple(shape))
    return first + (1,) * (rank - len(first))


def aligned(array: Array, rank: int, rule: str) -> Array:
    """Return the array so that NumPy broadcasts it as the rule says."""
    if rule != "pdpd" or array.ndim > rank:
        return array
    return array.reshape(aligned_shape(array.shape, rank))
