"""What operations share that bind themselves to exact shapes (see `Op.bind`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from irdeconv.op import Op
from irdeconv.spec import Array, Spec
from irdeconv.traits import MOVES, Bound

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


class ViewOp(Op):
    """Base of operations whose outputs are views of the first input."""

    partial: ClassVar[bool] = True
    rounding = MOVES

    def view(self, shape: tuple[int, ...], *others: Any) -> Callable[[Array], Any]:
        """Return what makes the views of data of that shape; `others` are the inputs behind it."""
        raise NotImplementedError

    def evaluate(self, data: Array, *others: Array) -> Any:
        return self.view(data.shape, *others)(data)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        others = known(inputs[1:])
        if others is None:
            return None
        view = self.view(shape_of(inputs[0]), *others)
        return Bound(view=lambda x, *_: view(x))


def indexed(index: tuple[Any, ...]) -> Callable[..., Array]:
    """Return what makes the view of the first input's elements at an index."""
    full = (*index, ...)  # of a vector, too, one element is a view
    return lambda x, *_: x[full]


def by_rows(block: tuple[int, int, int], kernel: Callable[..., None]) -> Bound:
    """Return a call of a kernel `(x, out, team)` on data and result seen as `[outer, n, inner]`."""
    return Bound(lambda x, *_, out, team: kernel(x.reshape(block), out.reshape(block), team))
