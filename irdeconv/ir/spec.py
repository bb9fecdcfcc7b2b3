"""Facts of a tensor before running: element type, shape, perhaps its value.

A dimension is a Python int (exact) or an `Interval`. A shape is a tuple of dimensions, or None for
an unknown rank. All arithmetic is in Python integers, so nothing overflows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from irdeconv.base.hints import hinted_calls, hinted_names
from irdeconv.base.limits import LARGEST_INT, current
from irdeconv.ir.dtypes import ElementType, of_numpy

Array = NDArray[Any]
Arrays = tuple[Array, ...]
_LOWEST = -LARGEST_INT - 1


@hinted_names
@dataclass(frozen=True, slots=True)
class Interval:
    """The integers lo..hi; hi None is unbounded. `Interval.of` turns a single value into an int."""

    lo: int = 0
    hi: int | None = None
    json_text: ClassVar[bool] = True

    @staticmethod
    def of(lo: int, hi: int | None) -> Dim:
        """Return the dimension lo..hi: an int if only one value is left.

        Bounds that do not fit 64 bits are open ones, so that numbers do not grow without end. Of a
        lower one 2**63 is left: nothing fits any more.
        """
        if lo < _LOWEST or lo > LARGEST_INT:
            lo = _LOWEST if lo < 0 else LARGEST_INT + 1
        if hi is not None and (hi > LARGEST_INT or hi < _LOWEST):
            hi = None if hi > 0 else _LOWEST
        return lo if lo == hi else Interval(lo, hi)

    def __add__(self, other: Dim) -> Dim:
        lo, hi = bounds(other)
        return Interval.of(self.lo + lo, None if self.hi is None or hi is None else self.hi + hi)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        lo, hi = bounds(other)
        # Without an upper bound of `other` the difference has no lower one: -2**63 is used.
        low = _LOWEST if hi is None else self.lo - hi
        return Interval.of(low, None if self.hi is None else self.hi - lo)

    def __rsub__(self, other: Dim) -> Dim:
        lo, hi = bounds(other)
        low = _LOWEST if self.hi is None else lo - self.hi
        return Interval.of(low, None if hi is None else hi - self.lo)

    def __mul__(self, other: Dim) -> Dim:
        lo, hi = bounds(other)
        if self.lo >= 0 and lo >= 0:
            top = None if self.hi is None or hi is None else self.hi * hi
            return Interval.of(self.lo * lo, 0 if 0 in (self.hi, hi) else top)
        if self.hi is None or hi is None:
            return Interval(_LOWEST, None)
        corners = [a * b for a in (self.lo, self.hi) for b in (lo, hi)]
        return Interval.of(min(corners), max(corners))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        lo, hi = bounds(other)
        if lo <= 0:
            return Interval(_LOWEST, None)
        low = self.lo // lo if self.lo < 0 else (0 if hi is None else self.lo // hi)
        if self.hi is None:
            return Interval(low, None)
        if self.hi >= 0:
            return Interval.of(low, self.hi // lo)
        return Interval.of(low, -1 if hi is None else self.hi // hi)

    def __rfloordiv__(self, other: int) -> Dim:
        return Interval(other, other) // self

    def __mod__(self, other: Dim) -> Dim:
        hi = bounds(other)[1]
        return Interval(0, None if hi is None else max(hi - 1, 0))

    def __neg__(self) -> Dim:
        return 0 - self

    def __str__(self) -> str:
        if self.hi is None:
            return "?" if self.lo <= 0 else f"{self.lo}.."
        return f"{self.lo}..{self.hi}" if self.lo > 0 else f"..{self.hi}"


SHOWN = 8  # elements of a value in a repr
Dim = int | Interval
Shape = tuple[Dim, ...]
DYNAMIC = Interval(0, None)
UNKNOWN = Interval(-(2**63), None)  # any integer, in contrast to DYNAMIC, any size


def bounds(dim: Dim) -> tuple[int, int | None]:
    """Return (lowest, highest); highest None is unbounded."""
    return (dim.lo, dim.hi) if isinstance(dim, Interval) else (int(dim), int(dim))


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the interval of max(a, b)."""
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    return Interval.of(max(alo, blo), None if ahi is None or bhi is None else max(ahi, bhi))


def non_negative(dim: Dim) -> Dim:
    """Cut an interval at 0, as sizes are not negative; an exact dim is returned as it is."""
    if not isinstance(dim, Interval):
        return dim
    return Interval.of(max(dim.lo, 0), None if dim.hi is None else max(dim.hi, 0))


def merge(a: Dim, b: Dim) -> Dim | None:
    """Return the dims that both allow, or None if they exclude each other."""
    if a == b:
        return a
    (alo, ahi), (blo, bhi) = bounds(a), bounds(b)
    lo = max(alo, blo)
    hi = ahi if bhi is None else bhi if ahi is None else min(ahi, bhi)
    return None if hi is not None and lo > hi else Interval.of(lo, hi)


def merge_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the shape that both allow (None: unknown rank); ValueError if there is none."""
    if a is None or b is None or a == b:
        return b if a is None else a
    if len(a) != len(b):
        raise ValueError(f"ranks {len(a)} and {len(b)}")
    out = []
    for x, y in zip(a, b, strict=True):
        m = merge(x, y)
        if m is None:
            raise ValueError(f"dimensions {x} and {y}")
        out.append(m)
    return tuple(out)


def compatible(a: Shape | None, b: Shape | None) -> bool:
    """Whether some shape fits both."""
    if a is None or b is None or a == b:
        return True
    return len(a) == len(b) and all(merge(x, y) is not None for x, y in zip(a, b, strict=True))


def is_static(shape: Shape | None) -> TypeGuard[tuple[int, ...]]:
    """Whether rank and every dimension are exact."""
    return shape is not None and Interval not in map(type, shape)


def broadcast(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the NumPy broadcast of two shapes; ValueError if there is none."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    out: list[Dim] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        out.append(_broadcast_dim(x, y))
    return tuple(out)


def broadcasts_into(a: Shape, b: Shape) -> bool:
    """Whether a shape may broadcast to another one without widening it."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    fits = all(merge(x, y) is not None or merge(x, 1) is not None for x, y in pairs)
    return fits and len(a) <= len(b)


def _broadcast_dim(x: Dim, y: Dim) -> Dim:
    # Sizes are equal, or one of them is 1: the result is the other one, which may be 0.
    if x == y:
        return x
    cases = [merge(x, y), *(b for a, b in ((x, y), (y, x)) if merge(a, 1) is not None)]
    found = [bounds(c) for c in cases if c is not None]
    if not found:
        raise ValueError(f"dimensions {x} and {y} do not broadcast")
    highs = [hi for _, hi in found]
    low = min(lo for lo, _ in found)
    return Interval.of(low, None if None in highs else max(h or 0 for h in highs))


def format_shape(shape: Iterable[Dim] | None) -> str:
    """Return `[1,3,?,4..9]`, or `[...]` for an unknown rank."""
    return "[...]" if shape is None else f"[{','.join(str(d) for d in shape)}]"


def example_shape(shape: Shape | None) -> str:
    """Return exact dimensions that a shape admits; open ones are 1 (the batch) and about 64."""
    if shape is None:
        return "[1,3,64,64]"
    usual = [1 if len(shape) > 1 else 64, *[64] * (len(shape) - 1)]
    return format_shape(filled(shape, usual))


def filled(shape: Shape, sizes: Iterable[int]) -> tuple[int, ...]:
    """Return a shape whose open dimensions have these sizes, or the nearest that they allow."""
    pairs = zip(map(bounds, shape), sizes, strict=False)
    return tuple(max(low, n if high is None else min(n, high)) for (low, high), n in pairs)


_DIM = re.compile(r"(?P<exact>\d+)$|(?P<lo>\d*)\.\.(?P<hi>\d*)$")


def parse_dim(text: str) -> Dim:
    """Parse `3`, `?`, `-1`, `3..9`, `..9`, `3..`; a ValueError names the mistake."""
    text = text.strip()
    if text in ("?", "-1"):
        return DYNAMIC
    m = _DIM.match(text) if text.isascii() else None
    if m is None or len(text) > 44:
        raise ValueError(f'"{text}" is not a dimension: use 3, ?, -1, 3..9, ..9 or 3..')
    lo = int(m["exact"] or m["lo"] or 0)
    hi = int(m["hi"]) if m["hi"] else None
    if max(lo, hi or 0) > LARGEST_INT:
        text = f"{max(lo, hi or 0)} is above {LARGEST_INT}"
        raise ValueError(f"{text}, the largest number of 64 bits")
    if m["exact"] is not None:
        return lo
    if hi is not None and lo > hi:
        raise ValueError(f'"{text}" is an empty range: {lo} is above {hi}')
    return Interval.of(lo, hi)


def parse_shape(text: str) -> Shape | None:
    """Parse the text of a Parameter's `shape`: `1,3,?,16..512`, `...` (any rank), `` (scalar)."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].strip()
    if text == "...":
        return None
    return tuple(parse_dim(part) for part in text.split(",")) if text else ()


@hinted_calls
@hinted_names
@dataclass(frozen=True, repr=False)
class Spec:
    """Element type, shape and, if it follows from the graph, the value of a tensor.

    `dtype` None is unknown. `value` is the array; with dtype object it is partly known and holds
    dimensions (ints and Intervals). `value.shape` is then the exact shape. `unsure`: OpenVINO may
    have another value (ir/certainty.py), so no shape follows from it.
    """

    dtype: ElementType | None
    shape: Shape | None
    value: Array | None = None
    unsure: bool = False

    @staticmethod
    def of(array: Array, dtype: ElementType | None = None, *, keep: bool = True) -> Spec:
        """Return the spec of an array; its value is kept up to `Limits.value_elements` elements."""
        small = keep and array.size <= current().value_elements
        return Spec(dtype or of_numpy(array.dtype), array.shape, array if small else None)

    @property
    def rank(self) -> int | None:
        """Number of axes; None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """Whether the shape is exact."""
        return is_static(self.shape)

    @property
    def known(self) -> Array | None:
        """The value if all of it is known."""
        if self.value is None or self.value.dtype != object:
            return self.value
        return self.value if self.dtype is not None and self.dtype.kind == "string" else None

    @property
    def size(self) -> int | None:
        """Number of elements; None if unknown."""
        return math.prod(self.shape) if is_static(self.shape) else None

    @property
    def nbytes(self) -> int | None:
        """Bytes in memory; None if unknown."""
        size = self.size
        return None if size is None or self.dtype is None else size * self.dtype.container.itemsize

    @property
    def extent(self) -> int | None:
        """The bytes by which NumPy decides if it can hold an array: axes of size 0 do not count."""
        if not is_static(self.shape):
            return None
        item = 1 if self.dtype is None else self.dtype.container.itemsize
        return math.prod(max(d, 1) for d in self.shape) * item

    def agrees(self, other: Spec) -> bool:
        """Whether one tensor can have both element types and both shapes."""
        return len({self.dtype, other.dtype} - {None}) < 2 and compatible(self.shape, other.shape)

    def without_value(self) -> Spec:
        """Return the same spec without its value."""
        return self if self.value is None else replace(self, value=None, unsure=False)

    def believed(self) -> Spec:
        """Return the same spec as if OpenVINO had this value as well."""
        return replace(self, unsure=False) if self.unsure else self

    def certain(self) -> Spec:
        """Return the same spec, without its value if OpenVINO may have another one."""
        return self.without_value() if self.unsure else self

    def __str__(self) -> str:
        return f"{self.dtype or '?'}{format_shape(self.shape)}"

    def __repr__(self) -> str:
        value = "" if self.value is None else f" = {self._values()}"
        return f"Spec({self}{value})"

    def _values(self) -> str:
        assert self.value is not None
        shown = ", ".join(map(str, self.value.reshape(-1)[:SHOWN]))
        return f"[{shown}{', ...' if self.value.size > SHOWN else ''}]"


def is_small(spec: Spec) -> bool:
    """Whether inference may compute with the values of a tensor, by its sizes."""
    limits, size, extent = current(), spec.size, spec.extent
    if size is None or extent is None or size > limits.value_elements:
        return False
    return extent <= LARGEST_INT and len(spec.shape or ()) <= limits.rank


def distinct(values: Array) -> Array:
    """Return the elements that a broadcast view repeats once: its axes of step 0 get size 1."""
    steps = zip(values.strides, values.shape, strict=True)
    return values[(*(slice(1) if not step and n else slice(None) for step, n in steps), ...)]


def simplify(values: Array, dtype: ElementType) -> Array:
    """Return an object array of dims as a plain array of `dtype` if every dim is exact.

    Numbers that do not fit 64 bits count as unknown: a runtime has other ones.
    """
    if values.dtype != object or dtype.kind == "string":
        return values
    shape, values = values.shape, distinct(values)
    wide = [
        i for i, v in enumerate(values.flat) if type(v) is int and not _LOWEST <= v <= LARGEST_INT
    ]
    if wide:
        values = values.copy()
        values.flat[wide] = Interval(_LOWEST, None)
    if not any(isinstance(v, Interval) for v in values.flat):
        return np.broadcast_to(values.astype(dtype.container), shape)
    first = values.flat[0]
    if all(v is first for v in values.flat):
        values = values[(slice(1),) * values.ndim]
    return np.broadcast_to(values, shape)


def ints(spec: Spec) -> tuple[int, ...] | None:
    """Return a known integer value, flattened, as Python ints; None if it is not known."""
    value = spec.known
    return None if value is None else tuple(map(int, value.reshape(-1).tolist()))


def value_dims(spec: Spec) -> tuple[Dim, ...] | None:
    """Return values as dims, UNKNOWN if not known; None: even their number is unknown."""
    if spec.value is not None:
        return dims(spec)
    count = None if spec.shape is None else spec.size
    return None if count is None or count > current().value_elements else (UNKNOWN,) * count


def dims(spec: Spec) -> Shape | None:
    """Return a known or partly known integer vector as dimensions; None if nothing is known."""
    if spec.value is None:
        if spec.shape is not None and len(spec.shape) == 1 and isinstance(spec.shape[0], int):
            few = spec.shape[0] <= current().value_elements
            return (DYNAMIC,) * spec.shape[0] if few else None
        return None
    return tuple(v if isinstance(v, Interval) else int(v) for v in spec.value.reshape(-1).tolist())
