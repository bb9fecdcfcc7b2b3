"""Scratch memory of kernels, and the sizes of blocks, for caches and for threads.

Results do not depend on the number of threads: sizes do only where that changes no sum, see
`shared_step` and `cut_for_threads`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from irdeconv.ir.spec import Array

T = TypeVar("T")

ALIGNMENT = 64  # bytes, a cache line
# Numbers of memory from which places are counted: a thread's own, that of all its team, and arrays
# that are arguments of each call.
SCRATCH, COMMON, GIVEN = 1, 2, 3


class CommonMemory:
    """Memory that the threads of a team share."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)

    def room(self, size: int) -> Array:
        """Return it with room for so many bytes; who has earlier memory keeps that."""
        if size > self.memory.nbytes:
            self.memory = allocate(size)
        return self.memory


class Space:
    """Scratch memory handed out in pieces, reclaimed at once, and kept: fresh pages cost more.

    `common` is shared with the other threads.
    """

    def __init__(self, common: CommonMemory | None = None) -> None:
        self.common = common or CommonMemory()
        self._buffer = np.empty(0, np.uint8)
        self.used = 0  # bytes that are handed out
        self.peak = 0
        self._made: WeakKeyDictionary[Any, tuple[int, Any, int]] = WeakKeyDictionary()

    def reset(self) -> None:
        """Reclaim everything; arrays handed out before must no longer be used."""
        if self.peak > self._buffer.nbytes:
            self._buffer = allocate(self.peak)
            self._made.clear()
        self.used = 0

    def release(self, used: int) -> None:
        """Reclaim all memory that was handed out since `used` bytes were."""
        self.used = used

    def array(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return uninitialised memory for an array."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        start = self.used
        self.used += -(-size // ALIGNMENT) * ALIGNMENT
        self.peak = max(self.peak, self.used)
        if start + size > self._buffer.nbytes:
            return np.empty(shape, kind)  # the next reset makes room
        piece: Array = self._buffer[start : start + size].view(kind).reshape(shape)
        return piece

    def again(self, owner: object, make: Callable[[], T]) -> T:
        """Return the result of `make`, or of its earlier call for `owner` with as much handed out.

        The result consists of scratch memory, which is then handed out as it was. It is kept for as
        long as the owner lives, which it must not refer to.
        """
        before, found = self.used, self._made.get(owner)
        if found is not None and found[0] == before:
            self.used = found[2]
            return found[1]  # type: ignore[no-any-return]
        made = make()
        if self.used <= self._buffer.nbytes:
            self._made[owner] = before, made, self.used
        return made


def allocate(size: int) -> Array:
    """Return that many bytes, aligned to a cache line, not yet touched."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


@dataclass(frozen=True)
class ScratchPlace:
    """An array in the caller's scratch memory, or in an array that is an argument of each call.

    `base` selects which one; `strides` are in bytes.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    base: int = SCRATCH

    @staticmethod
    def given(number: int, like: Array) -> ScratchPlace:
        """Return the whole of a contiguous array that is one of several arguments."""
        array = np.empty(like.shape, like.dtype)
        return ScratchPlace(0, array.shape, array.dtype, array.strides, GIVEN + number)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def end(self) -> int:
        """The place behind it; no stride is negative."""
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return self.offset + (0 if 0 in self.shape else reach + self.dtype.itemsize)

    def seen(self, view: Callable[[Array], Array]) -> ScratchPlace:
        """Return the result of `view` on the array, which is a view of it."""
        array = np.empty(self.shape, self.dtype)  # nothing is read
        part = view(array)
        offset = self.offset + address(part) - address(array)
        return ScratchPlace(offset, part.shape, part.dtype, part.strides, self.base)


def seen(array: Array | ScratchPlace, view: Callable[[Array], Array]) -> Array | ScratchPlace:
    """Return the result of `view` on an array, or on one that has a place."""
    return array.seen(view) if isinstance(array, ScratchPlace) else view(array)


def address(array: Array) -> int:
    """Return the address of an array's memory."""
    return int(array.__array_interface__["data"][0])


class ScratchPlan:
    """Hands out places in scratch memory as `Space` does memory."""

    def __init__(self, base: int = SCRATCH) -> None:
        self.base, self.used = base, 0

    def array(self, shape: Sequence[int], dtype: Any) -> ScratchPlace:
        """Return a place for an array."""
        like = np.empty(shape, dtype)
        place = ScratchPlace(self.used, like.shape, like.dtype, like.strides, self.base)
        self.used = -(-place.end // ALIGNMENT) * ALIGNMENT
        return place


def clear(out: Array) -> None:
    """Fill an array of numbers with zeros: as bytes, which NumPy does with wider stores."""
    if out.ndim and out.strides[-1] == out.itemsize and out.dtype.kind in "fiu":
        out.view(np.uint8)[...] = 0
    else:
        out[...] = 0


def contiguous(x: Array, dtype: np.dtype[Any], space: Space) -> Array:
    """Return `x` itself if it is C-contiguous and of that type, else a copy that is."""
    if x.flags.c_contiguous and x.dtype == dtype:
        return x
    copy = space.array(x.shape, dtype)
    copy[...] = x
    return copy


ITEMS = 4  # pieces of work, as many as are wanted for threads to share


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """The amount of work of a kernel at a time: bytes or multiply-adds by name, else elements.

    Kernels read `SIZES` whenever they cut their work. A test that wants many small blocks puts
    another record there.
    """

    epilogue_bytes: int = 1 << 18  # of a whole output that is finished
    finished_elements: int = 1 << 18  # of one whose tiles are no rows of memory, at most
    small_macs: int = 1_000_000  # of a product that OpenBLAS does not pack

    # Convolution
    im2col_bytes: int = 1 << 22  # of patches
    pointwise_bytes: int = 1 << 20  # of inputs and outputs
    least_columns: int = 256  # but never a narrower product than this, if possible
    shared_columns: int = 512  # of an image that threads share
    interleaved_bytes: int = 1 << 21  # of rows
    shifted_elements: int = 3 << 16  # of weights that are laid out like the output, at most
    depthwise_bytes: int = 1 << 19  # of outputs, for the epilogue to find them in the cache
    direct_bytes: int = 1 << 19  # of a block's reads and writes, to stay in the cache
    direct_macs: int = 1 << 22  # from which on threads share an image

    # Deconvolution
    terms_bytes: int = 3 << 20  # of terms
    terms_columns: int = 1024  # from which on a product gains nothing by more
    terms_macs: int = 1 << 26  # from which on two threads share the channels of a single block
    phases_bytes: int = 1 << 20  # of shifted copies
    phases_sums_bytes: int = 1 << 22  # of sums that are rounded to a narrower type
    phases_columns: int = 128  # of copies, at least
    residues_columns: int = 256  # of padded inputs, at least
    residues_bytes: int = 1 << 20  # of sums
    doubled_elements: int = 1 << 13  # that are worth being written with the zeros between
    wide_bytes: int = 1 << 21  # of outputs
    separable_bytes: int = 1 << 20  # of outputs
    evaluated_bytes: int = 1 << 22  # of inputs that are transformed tile by tile
    tile_products_bytes: int = 1 << 21  # of the products of tiles
    tile_columns: int = 256  # tiles, at least
    single_elements: int = 1 << 19  # of the filter

    # Others
    # Four registers of f32 fill half of a level 2 cache of 1 MiB.
    chain_elements: int = 1 << 15
    pooling_bytes: int = 1 << 18  # of planes
    row_elements: int = 1 << 17  # of rows that are reduced
    copied_elements: int = 1 << 18
    attention_elements: int = 1 << 18  # of scores


SIZES = BlockSizes()


_THREADS: ContextVar[int] = ContextVar("threads that will share the work", default=1)
SHARED_NS = 2500.0  # nanoseconds of work that another thread may take at once, at least


@contextmanager
def shared_by(threads: int) -> Iterator[None]:
    """Prepare kernels for so many threads: their compiled calls are cut into more pieces."""
    token = _THREADS.set(threads)
    try:
        yield
    finally:
        _THREADS.reset(token)


def shared_step(size: int, step: int, work: float, whole: int = 1, copies: int = 1) -> int:
    """Return the length of pieces of a range, at most `step`, that suits the threads.

    `work` is the nanoseconds of the range, which is cut `copies` times; only multiples of `whole`
    are returned, or `step`. Each thread gets two pieces. Where a range is cut must not change a
    result.
    """
    threads = _THREADS.get()
    if threads == 1:
        return step
    wanted = min(2 * threads, work / SHARED_NS) / copies
    finer = -(-size // max(1, int(wanted)))
    return min(step, -(-finer // whole) * whole)


def cut_for_threads(
    way: T,
    finer: Callable[[T, int], Iterable[T]],
    items: Callable[[T], int],
    cost: Callable[[T], float],
) -> T:
    """Return the way to cut work that takes the threads least: `way`, or one that is `finer`.

    `finer(way, n)` are ways of about n times as many items; `cost` counts nanoseconds of one
    thread. Where work is cut must not change a result.
    """
    threads = _THREADS.get()
    if threads == 1 or cost(way) < 2 * SHARED_NS:
        return way
    ways = [way, *(one for n in (threads, 2 * threads) for one in finer(way, n))]
    return min(ways, key=lambda one: cost(one) * -(-items(one) // threads) / items(one))


def pieces(size: int, step: int) -> list[slice]:
    """Split a range into pieces of `step`; the last may be smaller."""
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def shares(size: int, count: int) -> int:
    """Return the size of the pieces into which `size` is cut: about `count`, evenly many."""
    count = max(1, min(size, count))
    for wanted in range(count, count + 3):
        step = -(-size // wanted)
        made = -(-size // step)
        if made == 1 or made % 2 == 0:
            return step
    return -(-size // count)
