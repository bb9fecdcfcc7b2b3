"""What operations share that bind themselves to exact shapes (see `Op.bind`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from irdeconv.spec import Array, Spec
from irdeconv.traits import Bound

_COMPUTED = frozenset({"f32", "f64"})


def shape_of(spec: Spec) -> tuple[int, ...]:
    """Return a shape that is known to be exact."""
    return tuple(int(d) for d in spec.shape or ())  # type: ignore[arg-type]


def is_computed(*specs: Spec) -> bool:
    """Whether all are f32 or all are f64, so that nothing need be converted."""
    names = {str(s.dtype) for s in specs}
    return len(names) == 1 and names <= _COMPUTED


def known(specs: Sequence[Spec]) -> list[Array] | None:
    """Return the values of inputs that are all constants."""
    values = [s.known for s in specs]
    return None if any(v is None for v in values) else [v for v in values if v is not None]


def indexed(index: tuple[Any, ...]) -> Bound:
    """Return a view of the elements at an index."""
    full = (*index, ...)  # of a vector, too, one element is a view
    return Bound(view=lambda x, *_: x[full])


def by_rows(block: tuple[int, int, int], kernel: Callable[..., None], **more: Any) -> Bound:
    """Return a call of a reduction of data into a result, seen as `[outer, n, inner]`."""
    return Bound(
        lambda x, *_, out, team: kernel(x.reshape(block), out.reshape(block), team, **more)
    )
