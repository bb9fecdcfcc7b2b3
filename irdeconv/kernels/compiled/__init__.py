"""Loops that numba compiles. Import its modules only where `jit.available()`.

The numbers here are what callers and loops agree on; they need no numba.
"""

LANES = 8  # elements of a vector; loops read and write that many around a row
ZIPPED = (2, 3, 4, 6, 8)  # strides whose residues are written in turns by vectors
TURNS = (1, 2, 3, 4)  # rows of a product whose elements may be written in turns
RUN = 64  # columns of tiles that are transformed together
# Activations of compiled chains, in the order of their codes.
CLAMP, PRELU, HSIGMOID, HSWISH, SIGMOID, SWISH, HARD_SIGMOID, NOTHING = range(8)
# Operations of compiled programs, in the order of their codes.
ADDED, SUBTRACTED, MULTIPLIED, DIVIDED, LARGER, SMALLER, CLIPPED, ROOT, MOVED = range(9)
ROW_PART = 1024  # elements of a row that go through a program together
SPLAT = 16  # elements of a vector, at most
