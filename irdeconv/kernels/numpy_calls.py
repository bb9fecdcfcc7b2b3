"""Calls of NumPy as data: made at once, or kept for memory that stays where it is.

On few elements NumPy computes faster than Python finds the arrays. The output is the last argument,
without its name: a keyword takes as long as a thousand additions. `dot` takes half of that less
than `matmul`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irdeconv.ir.spec import Array

FEW_ELEMENTS = 1 << 14
NumPyCall = tuple[Callable[..., Any], Sequence[Any], Array]  # function, arguments, `out`
Prepared = Callable[[Any], None]  # work for a team
NumPyCalls = Generator[NumPyCall, None, Array]  # in turn; what it returns is the result


def larger(a: Array, b: Array, out: Array) -> None:
    """Write the maximum; NumPy wants the keyword."""
    np.maximum(a, b, out=out)


def smaller(a: Array, b: Array, out: Array) -> None:
    """Write the minimum; NumPy wants the keyword."""
    np.minimum(a, b, out=out)


# Of (x, axis, None, out, keepdims); the stubs want the keyword.
add_along: Any = np.add.reduce
largest_along: Any = np.maximum.reduce


def moved(x: Array, out: Array) -> None:
    """Copy; `np.positive` takes four times as long."""
    np.copyto(out, x)


def cast(x: Array, out: Array) -> None:
    """Copy into any element type."""
    np.copyto(out, x, casting="unsafe")


POSITIONAL: dict[Any, Callable[..., None]] = {np.maximum: larger, np.minimum: smaller}


def make(calls: NumPyCalls) -> Array:
    """Make the calls; return their result."""
    while True:
        try:
            function, arguments, out = next(calls)
        except StopIteration as end:
            result: Array = end.value
            return result
        function(*arguments, out)


def written(calls: Iterable[NumPyCall]) -> list[Callable[[], Any]]:
    """Return the calls, to be made later."""
    return [partial(function, *arguments, out) for function, arguments, out in calls]


@dataclass(frozen=True)
class KeptCalls:
    """Calls in turn, as the work of a team: functions with all their arguments."""

    calls: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]

    def __call__(self, team: Any) -> None:
        """Make them."""
        for function, arguments in self.calls:
            function(*arguments)


def kept(x: Array, calls: Iterable[NumPyCall], most: int = FEW_ELEMENTS) -> KeptCalls | None:
    """Return calls on few elements, such as those of `x`; None for more, and for no calls."""
    fixed = tuple(calls) if 0 < x.size <= most else ()
    return KeptCalls(tuple(_direct(*call) for call in fixed)) if fixed else None


def _direct(
    function: Callable[..., Any], arguments: Sequence[Any], out: Array
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if function is np.matmul:
        a, b = arguments
        function, *rest = product_call(a, b, out)
        return function, tuple(rest)
    return function, (*arguments, out)


def product_call(a: Array, b: Array, out: Array) -> tuple[Callable[..., Any], Array, Array, Array]:
    """Return a product of two matrices, or stacks of them, as a function and its arguments."""
    while a.ndim == b.ndim == out.ndim > 2 and len(a) == len(b) == 1:
        a, b, out = a[0], b[0], out[0]
    if b.ndim <= 2 < a.ndim and a.flags.c_contiguous and out.flags.c_contiguous:
        a, out = a.reshape(-1, a.shape[-1]), out.reshape(-1, *b.shape[1:])
    flat = a.ndim == 2 and b.ndim <= 2 and out.flags.c_contiguous
    if flat and a.dtype == b.dtype == out.dtype and a.dtype.char in "fd" and _lies(a) and _lies(b):
        return np.dot, a, b, out
    return np.matmul, a, b, out


def _lies(x: Array) -> bool:
    """Whether the BLAS reads it in place."""
    return x.itemsize in x.strides
