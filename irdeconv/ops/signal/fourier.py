"""DFT, IDFT, RDFT and IRDFT. Complex numbers are pairs, the last axis of size 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from irdeconv.errors import OpError
from irdeconv.limits import current, raise_hint
from irdeconv.op import Op, op
from irdeconv.ops.checks import UNKNOWN, axes_of, elements, exact, want_rank, want_type, widened
from irdeconv.spec import DYNAMIC, Array, Dim, Interval, Shape, Spec, merge, non_negative


def paired(x: Array) -> Array:
    """Return pairs [..., 2] as complex numbers [...], double ones where the pairs are."""
    real = np.float64 if x.dtype == np.float64 else np.float32
    kind = np.complex128 if real == np.float64 else np.complex64
    flat = np.ascontiguousarray(x, real)
    return flat.view(kind)[..., 0]


def pairs(z: Array, dtype: np.dtype[Any]) -> Array:
    """Return complex numbers [...] as pairs [..., 2]."""
    out = np.stack([z.real, z.imag], -1)
    return out.astype(dtype, copy=False)


def require_length(size: int, name: str, port: int) -> None:
    """Raise OpError E306 for an axis that comes from a wrong size."""
    limit = current().axis_elements
    if size > limit:
        text, hint = f"{name} has {size}, above {limit}", raise_hint("axis_elements")
        raise OpError(text, code="E306", port=port, hint=hint)


class _Fourier(Op):
    """Base: data, axes, and the sizes to which those axes are cut or filled up with zeros first."""

    complex_input: ClassVar[int] = 1  # the last axis of the data holds pairs
    transform: ClassVar[Callable[..., Any]]

    def infer(self, data: Spec, axes: Spec, signal_size: Spec | None = None) -> Spec:
        want_type(data, "real", 0, "data")
        want_rank(data.shape, 1 + self.complex_input, None, 0, "data")
        want_rank(axes.shape, 1, 1, 1, "axes")
        chosen = elements(axes, 1, "axes")
        sizes = None if signal_size is None else elements(signal_size, 2, "signal_size")
        if signal_size is not None:
            want_rank(signal_size.shape, 1, 1, 2, "signal_size")
        if chosen is not None and sizes is not None and len(chosen) != len(sizes):
            text = f"signal_size has {len(sizes)} values for {len(chosen)} axes"
            raise OpError(text, code="E302", port=2)
        if data.shape is None:
            return Spec(data.dtype, None)
        shape = self._complex_shape(data.shape)
        given = signal_size is not None
        places = exact(chosen)
        if places is None:
            return Spec(data.dtype, self._pairs((DYNAMIC,) * len(shape)))
        places = axes_of(places, len(shape), 1)
        new = (UNKNOWN,) * len(places) if given and sizes is None else sizes
        return Spec(data.dtype, self._pairs(self._resized(shape, places, new)))

    def _complex_shape(self, shape: Shape) -> Shape:
        """Return the shape of the numbers that are transformed."""
        if not self.complex_input:
            return shape
        if merge(shape[-1], 2) is None:
            text = f"the last axis of data has {shape[-1]} elements; it must have 2 (re, im)"
            raise OpError(text, code="E302", port=0)
        return shape[:-1]

    def _pairs(self, shape: Shape) -> Shape:
        """Return the shape of the output for a shape of complex numbers."""
        return (*shape, 2)

    def _resized(self, shape: Shape, axes: tuple[int, ...], sizes: Shape | None) -> Shape:
        out = list(shape)
        for i, axis in enumerate(axes):
            size = -1 if sizes is None else sizes[i]
            out[axis] = self._size(shape[axis], size, last=i == len(axes) - 1)
        return tuple(out)

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        """Return the length of a transformed axis; a `size` of -1 keeps it."""
        if isinstance(size, Interval):
            return size if size.lo >= 0 else DYNAMIC
        if size < -1 or size == 0:
            text = f"signal_size has {size}; it must be positive, or -1 for the whole axis"
            raise OpError(text, code="E305", port=2)
        require_length(size, "signal_size", 2)
        return length if size == -1 else size

    def evaluate(self, data: Array, axes: Array, signal_size: Array | None = None) -> Array:
        x = paired(data) if self.complex_input else widened(data)
        places = axes_of(axes.tolist(), x.ndim, 1)
        spec = self.infer(*map(_known, (data, axes)), *self._more(signal_size))
        assert spec.shape is not None
        if 0 in data.shape or 0 in spec.shape:
            return np.zeros(tuple(map(int, spec.shape)), data.dtype)  # type: ignore[arg-type]
        sizes = self._lengths(x.shape, places, signal_size)
        with np.errstate(all="ignore"):
            return self.computed(x, sizes, places).astype(data.dtype, copy=False)

    def _more(self, signal_size: Array | None) -> list[Spec]:
        return [] if signal_size is None else [_known(signal_size)]

    def _lengths(
        self, shape: tuple[int, ...], axes: Sequence[int], signal_size: Array | None
    ) -> list[int]:
        """Return how long each axis is that is transformed."""
        sizes = [-1] * len(axes) if signal_size is None else signal_size.tolist()
        return [shape[a] if s == -1 else s for a, s in zip(axes, sizes, strict=True)]

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        """Return the transform, pairs or real numbers."""
        return pairs(type(self).transform(x, sizes, axes) if axes else x, x.real.dtype)


def _known(x: Array) -> Spec:
    return Spec.of(x)


@op("DFT", since=7)
class DFT(_Fourier):
    """Discrete Fourier transform along `axes`: data [*I, 2] -> [*O, 2], floating-point pairs.

    sum over n of x[n] exp(-2 pi i n k / N). A negative axis counts from the axis before the pairs.
    `signal_size` has a length for each axis, to which the data is cut or filled up with zeros; -1
    keeps it.  [signals/DFT-7]
    """

    transform = np.fft.fftn


@op("IDFT", since=7)
class IDFT(_Fourier):
    """Inverse DFT along `axes`: data [*I, 2] -> [*O, 2], 1/N sum of x[k] exp(2 pi i n k / N).

    Axes and `signal_size` as for DFT.  [signals/IDFT-7]
    """

    transform = np.fft.ifftn


@op("RDFT", since=9)
class RDFT(_Fourier):
    """DFT of real data along `axes`: [*I] -> [*O, 2]; the last of `axes` keeps N / 2 + 1 values.

    The others follow by symmetry. Axes count from all of the data's. `signal_size` cuts or fills up
    with zeros (the runtime computes neither longer signals nor a size of -1).  [signals/RDFT-9]
    """

    complex_input: ClassVar[int] = 0

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        n = super()._size(length, size, last=last)
        return n // 2 + 1 if last else n

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        if not axes:
            return pairs(x.astype(np.result_type(x, np.complex64)), x.dtype)
        return pairs(np.fft.rfftn(x, sizes, axes), x.dtype)


@op("IRDFT", since=9)
class IRDFT(_Fourier):
    """Inverse of RDFT: data [*I, 2] -> real [*O]; the last of `axes` grows to 2 (I - 1).

    What the pairs of that axis leave out is taken to be symmetric. `signal_size` gives other
    lengths, of results; missing pairs are zeros (where the runtime reads behind its data).
    [signals/IRDFT-9]
    """

    def _pairs(self, shape: Shape) -> Shape:
        return shape

    def _size(self, length: Dim, size: Dim, *, last: bool) -> Dim:
        if last and size == -1:
            return non_negative((length - 1) * 2)
        if last and isinstance(size, Interval) and size.lo < 0:
            return DYNAMIC
        return super()._size(length, size, last=last)

    def _lengths(
        self, shape: tuple[int, ...], axes: Sequence[int], signal_size: Array | None
    ) -> list[int]:
        sizes = super()._lengths(shape, axes, signal_size)
        if sizes and (signal_size is None or signal_size[-1] == -1):
            sizes[-1] = 2 * (shape[axes[-1]] - 1)
        return sizes

    def computed(self, x: Array, sizes: list[int], axes: tuple[int, ...]) -> Array:
        return np.asarray(np.fft.irfftn(x, sizes, axes) if axes else x.real)
