"""Calls of NumPy as data: made at once, or kept for memory that stays where it is.

On few elements NumPy computes faster than Python finds the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.ir.spec import Array

FEW_ELEMENTS = 4096
NumPyCall = tuple[Callable[..., Any], Sequence[Any], Array]  # function, arguments, `out`
NumPyCalls = Generator[NumPyCall, None, Array]  # in turn; what it returns is the result


def make(calls: NumPyCalls) -> Array:
    """Make the calls; return their result."""
    while True:
        try:
            function, arguments, out = next(calls)
        except StopIteration as end:
            result: Array = end.value
            return result
        function(*arguments, out=out)


@dataclass(frozen=True)
class KeptCalls:
    """Calls in turn, as the work of a team."""

    calls: tuple[NumPyCall, ...]

    def __call__(self, team: Any) -> None:
        """Make them."""
        for function, arguments, out in self.calls:
            function(*arguments, out=out)


def kept(x: Array, calls: Iterable[NumPyCall], most: int = FEW_ELEMENTS) -> KeptCalls | None:
    """Return calls on few elements, such as those of `x`; None for more, and for no calls."""
    fixed = tuple(calls) if 0 < x.size <= most else ()
    return KeptCalls(fixed) if fixed else None
