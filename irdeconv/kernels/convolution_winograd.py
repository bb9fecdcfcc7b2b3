"""Winograd's minimal filtering for 3x3 with stride 1: fewer multiplications, more additions.

F(m, 3) computes m neighbouring outputs from m + 2 inputs with m + 2 products instead of 3m; in two
dimensions tiles of m x m outputs take (m+2)^2 products per channel instead of 9m^2. Products of all
channels are matrix products, one per position inside the tile; a depth axis adds to their inner
dimension. The transforms are additions of whole planes: inputs are split by row and column modulo
m first, so that neighbouring tiles are neighbours in memory and a tile's inputs are shifted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit, scratch
from irdeconv.kernels.candidate import ROUNDING, Candidate, ConvProblem, Epilogue, Kernel, deliver
from irdeconv.kernels.convolution import COLUMN, ROW, Blockwise, Conv3d, Work, as_conv3d
from irdeconv.kernels.convolution_rows import RowBlock, row_block
from irdeconv.kernels.products import multiply
from irdeconv.kernels.scratch import Space, pieces

PASSES_OF_MEMORY = 1.3  # times compiled tiles, which take the data in fewer passes
FAR_CACHE = 1 << 21  # elements; larger data comes from main memory every time

Planes = Sequence[Array] | Array
Transform = Callable[[Planes, Planes, Array, Array], None]

# The filter's transform G; those of the data are written out below.
FILTERS = {
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    4: np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
}


def _enter2(a: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 4 inputs for F(2, 3)."""
    np.subtract(a[0], a[2], out=out[0])
    np.add(a[1], a[2], out=out[1])
    np.subtract(a[2], a[1], out=out[2])
    np.subtract(a[1], a[3], out=out[3])


def _leave2(y: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 4 sums of F(2, 3) into 2 outputs."""
    np.add(y[0], y[1], out=out[0])
    np.add(out[0], y[2], out=out[0])
    np.subtract(y[1], y[2], out=out[1])
    np.subtract(out[1], y[3], out=out[1])


def _enter4(a: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 6 inputs for F(4, 3); common differences are computed once."""
    np.subtract(a[4], a[2], out=t)
    np.subtract(a[3], a[1], out=u)
    np.add(u, u, out=u)
    np.add(t, u, out=out[3])
    np.subtract(t, u, out=out[4])
    np.subtract(a[0], a[2], out=out[0])
    np.multiply(out[0], 4, out=out[0])
    np.add(out[0], t, out=out[0])
    np.subtract(a[5], a[3], out=out[5])
    np.subtract(out[5], u, out=out[5])
    np.subtract(out[5], u, out=out[5])
    np.multiply(a[2], 4, out=t)
    np.subtract(a[4], t, out=t)
    np.multiply(a[1], 4, out=u)
    np.subtract(a[3], u, out=u)
    np.add(t, u, out=out[1])
    np.subtract(t, u, out=out[2])


def _leave4(y: Planes, out: Planes, t: Array, u: Array) -> None:
    """Transform 6 sums of F(4, 3) into 4 outputs."""
    np.add(y[1], y[2], out=t)
    np.add(y[3], y[4], out=u)
    np.add(y[0], t, out=out[0])
    np.add(out[0], u, out=out[0])
    np.multiply(u, 4, out=u)
    np.add(t, u, out=out[2])
    np.subtract(y[1], y[2], out=t)
    np.subtract(y[3], y[4], out=u)
    np.add(u, u, out=u)
    np.add(t, u, out=out[1])
    np.multiply(u, 4, out=u)
    np.add(t, u, out=out[3])
    np.add(out[3], y[5], out=out[3])


TRANSFORMS: dict[int, tuple[Transform, Transform]] = {
    2: (_enter2, _leave2),
    4: (_enter4, _leave4),
}


def candidates(problem: ConvProblem) -> list[Candidate]:
    """Return the kernels of two tile sizes, if they apply."""
    conv = as_conv3d(problem)
    return [_candidate(conv, m) for m in (2, 4)] if applies(conv) else []


def _candidate(conv: Conv3d, m: int) -> Candidate:
    blocks = blocks_of(conv, m)

    def prepare(w: Array) -> Kernel:
        g = FILTERS[m]
        w = conv.filter(w)[0].astype(np.float64)  # [M, C, depth, 3, 3]
        u = np.einsum("ik,jl,mcdkl->ijmdc", g, g, w, optimize=True)
        u = u.reshape(len(g) ** 2, conv.outputs, -1)  # [(m+2)^2, M, depth*C]
        return WinogradConvolution(conv, blocks, m, np.ascontiguousarray(u, conv.compute))

    candidate = work_of(conv, m, blocks).candidate(f"winograd{m}", prepare)
    cost = candidate.cost * (ROUNDING if m == 4 else 1)  # F(4, 3) costs accuracy
    if jit.available():
        cost *= PASSES_OF_MEMORY
    return replace(candidate, cost=cost, transforms=True)


def work_of(conv: Conv3d, m: int, blocks: Sequence[RowBlock]) -> Work:
    """Count the transforms and the products of one position inside the tile each."""
    work, n, first = Work(conv), len(blocks), blocks[0]
    work.blocks = n
    pitch = -(-conv.sizes[COLUMN] // m) + 1
    tiles = -(-first.rows // m)
    channels = conv.channels * conv.axes[0].kernel
    work.multiply(conv.outputs, channels, tiles * pitch, n * (m + 2) ** 2)
    work.frame(first.frame.elements, n)
    work.convert(0, conv.outputs * first.rows * conv.sizes[COLUMN])
    plane = n * channels * (tiles + 1) * pitch
    work.copy(plane * m * m, pitch, True)
    enter, leave = (4, 4) if m == 2 else (17, 13)
    work.added += plane * enter * (m + m + 2)
    out = n * conv.outputs * tiles * pitch
    work.added += out * leave * (m + 2 + m)
    work.copy(out * m * m, pitch, True)
    area = (m + 2) ** 2
    filters = area * conv.outputs * channels
    work.scratch += filters
    work.cold += n * filters if filters > FAR_CACHE else 0
    work.scratch += (plane // n) * (m * m + m * (m + 2) + area + 2 * (m + 2))
    work.scratch += (out // n) * (area + m * (m + 2) + m * m + 2 * (m + 2))
    work.steps += n * (2 * m * m + 2 * enter + 2 * leave)
    return work


def applies(conv: Conv3d) -> bool:
    """Whether the convolution has 3x3 rows and columns without stride or dilation."""
    plane = all(a.kernel == 3 and a.stride == a.dilation == 1 for a in conv.axes[ROW:])
    floats = conv.compute.kind == "f"
    return floats and plane and conv.axes[0].stride == conv.axes[0].dilation == conv.groups == 1


def blocks_of(conv: Conv3d, m: int) -> list[RowBlock]:
    """Split each output depth into rows of tiles."""
    height, width = conv.sizes[ROW:]
    tiles = -(-height // m)
    channels = conv.channels * conv.axes[0].kernel + conv.outputs
    each = (m + 2) ** 2 * channels * (-(-width // m) + 1) * conv.itemsize
    rows = max(1, min(tiles, scratch.SIZES.winograd_bytes // each))
    rows = -(-tiles // -(-tiles // rows)) * m
    return [
        row_block(conv, n, slice(0, 1), d, h, rows, m)
        for n in pieces(conv.images, 1)
        for d in range(conv.sizes[0])
        for h in range(0, height, rows)
    ]


@dataclass(frozen=True)
class WinogradConvolution(Blockwise[RowBlock]):
    """F(m x m, 3 x 3), `m` being 2 or 4; `matrices` come from `transformed`."""

    m: int
    matrices: Array

    def _block(
        self, x: Array, out: Array, b: RowBlock, epilogue: Epilogue | None, space: Space
    ) -> None:
        conv, m = self.conv, self.m
        columns = conv.sizes[COLUMN]
        right, tiles, pitch = self._enter(b.frame.of(x, space)[0], space)
        sums = space.array(((m + 2) ** 2, conv.outputs, tiles * pitch), conv.compute)
        multiply(self.matrices, right[..., : tiles * pitch], out=sums)
        planes = self._leave(sums, space).reshape(m, m, conv.outputs, tiles, pitch)
        target = out[b.image, :, b.positions]
        total = target if conv.direct else space.array(target.shape, conv.compute)
        rows = total.reshape(conv.outputs, b.rows, columns)
        for r in range(min(m, b.rows)):
            for c in range(min(m, columns)):
                place = rows[:, r::m, c::m]
                place[...] = planes[c, r, :, : place.shape[1], : place.shape[2]]
        deliver(total, target, epilogue, b.image, b.channels, b.positions)

    def _enter(self, f: Array, space: Space) -> tuple[Array, int, int]:
        """Return a frame's transform `[(m+2)^2, depth*C, (tiles+1)*pitch]`, tiles and pitch."""
        m, dtype = self.m, self.conv.compute
        f = f.swapaxes(0, 1)
        rows, pitch = f.shape[2] // m, f.shape[3] // m
        channels = f.shape[0] * f.shape[1]
        size = channels * rows * pitch
        split = space.array((m, m, size + pitch + 1), dtype)
        for c in range(m):
            for r in range(m):
                part = split[c, r, :size].reshape(*f.shape[:2], rows, pitch)
                part[...] = f[:, :, r::m, c::m]
        split[..., size:] = 0
        turn = TRANSFORMS[m][0]
        run = size + pitch
        t, u = (space.array((m + 2, run), dtype) for _ in range(2))
        columns = space.array((m, m + 2, run), dtype)
        turn(
            [split[a % m, :, a // m : a // m + run] for a in range(m + 2)],
            [columns[:, j] for j in range(m + 2)],
            t[:m],
            u[:m],
        )
        done = space.array((m + 2, m + 2, size), dtype)
        shifts = [(a % m, a // m * pitch) for a in range(m + 2)]
        turn([columns[r, :, s : s + size] for r, s in shifts], done, t[:, :size], u[:, :size])
        return done.reshape((m + 2) ** 2, channels, rows * pitch), rows - 1, pitch

    def _leave(self, sums: Array, space: Space) -> Array:
        """Return the outputs `[column, row, M*tiles]` of the sums `[(m+2)^2, M, tiles]`."""
        m = self.m
        sums = sums.reshape(m + 2, m + 2, -1)
        size = sums.shape[2]
        turn = TRANSFORMS[m][1]
        t, u = (space.array((m + 2, size), sums.dtype) for _ in range(2))
        rows = space.array((m, m + 2, size), sums.dtype)
        turn(sums, rows, t, u)
        planes = space.array((m, m, size), sums.dtype)
        turn([rows[:, j] for j in range(m + 2)], planes, t[:m], u[:m])
        return planes
