"""Loops that numba compiles. Import its modules only if `jit.available()`.

This module has the constants that callers and loops share; it needs no numba.
"""

from collections.abc import Iterator

LANES = 8  # elements of a vector; loops read and write that many around a row
ZIPPED = (2, 3, 4, 6, 8)  # strides whose residues are written in turns by vectors
TURNS = (1, 2, 3, 4, 5, 6, 8)  # rows of a product whose elements may be written in turns
RUN = 64  # columns of tiles that are transformed together
# Activations of compiled chains, in the order of their codes.
CLAMP, PRELU, HSIGMOID, HSWISH, SIGMOID, SWISH, HARD_SIGMOID, ERF, GELU, MISH, NOTHING = range(11)
# Operations of compiled programs, in the order of their codes.
ADDED, SUBTRACTED, MULTIPLIED, DIVIDED, LARGER, SMALLER, CLIPPED, ROOT, MOVED = range(9)
NEAREST, TO_F16, TO_BF16, ABSOLUTE, FLOOR, CEILING, CUT, EXPONENTIAL, TANGENT = range(9, 18)
ROW_PART = 1024  # elements of a row that go through a program together
TILES = "tiles"  # prefix of the names of the micro-kernel's functions
SPLAT = 16  # elements of a vector, at most


def group_sizes(vectors: int) -> Iterator[int]:
    """Yield sizes of groups of vectors, the largest first; each is used as often as it fits.

    >>> list(group_sizes(6))
    [6, 3, 1]
    """
    while vectors > 1:
        yield vectors
        vectors //= 2
    yield 1


def groups(count: int, vectors: int) -> list[int]:
    """Return the sizes of the groups into which so many vectors are cut.

    >>> groups(8, 3)
    [3, 3, 1, 1]
    """
    found = []
    for size in group_sizes(vectors):
        found += [size] * (count // size)
        count %= size
    return found
