"""What binding an operation to exact shapes gives, and the registry of binders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.op import Op
from irdeconv.spec import Spec


@dataclass(frozen=True)
class Bound:
    """An operation for exact shapes; one of the two is set.

    `call(*inputs, out=array, team=team)` writes into C-contiguous memory of the output's shape and
    type, which may hold anything and overlaps no input; inputs have any
    strides. `view(*inputs)` returns the output, or a tuple of several, as views of
    the first input; a copy where reshaping an input that is not contiguous needs one.
    """

    call: Callable[..., None] | None = None
    view: Callable[..., Any] | None = None


Binder = Callable[[Any, Sequence[Spec], Sequence[Spec]], Bound | None]
BINDERS: dict[type[Op], Binder] = {}
REAL = frozenset({"f32", "f64"})


def binder(*classes: type[Op]) -> Callable[[Binder], Binder]:
    """Register how operations are bound; a base class stands for those that derive from it."""

    def register(fn: Binder) -> Binder:
        for cls in classes:
            if cls in BINDERS:
                raise TypeError(f"{cls.__name__} has two binders")
            BINDERS[cls] = fn
        return fn

    return register


def shape_of(spec: Spec) -> tuple[int, ...]:
    """Return a shape that is known to be exact."""
    return tuple(int(d) for d in spec.shape or ())  # type: ignore[arg-type]


def is_real(*specs: Spec) -> bool:
    """Whether all are f32 or all are f64, so that nothing need be converted."""
    names = {str(s.dtype) for s in specs}
    return len(names) == 1 and names <= REAL
