"""Blocks of rows of a convolution's output, and what their windows see, gathered by columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from irdeconv.kernels.convolution.conv3d import Conv3d
from irdeconv.kernels.convolution.frames import Frame, frame_of, overlapping
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import ITEMS, shares
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.windows import WindowAxis
from irdeconv.spec import Array


@dataclass(frozen=True)
class RowBlock:
    """`rows` rows of an output depth, for some images and groups.

    `channels` and `positions` are its place in the output `[N, M, positions]`, `frame` is what its
    windows see.
    """

    image: int
    images: int
    groups: slice
    count: int
    rows: int
    channels: slice
    positions: slice
    frame: Frame


def partition(conv: Conv3d, share: int, merge: bool) -> RowBlocks:
    """Split the output into blocks of `im2col_bytes`, of `least_columns` where it can be helped.

    `share` are the bytes per position of one group. Blocks of whole planes take more groups and,
    if `merge`, more images.
    """
    sizes = blocking.SIZES
    limit, least = sizes.im2col_bytes, sizes.least_columns
    depth, height, width = conv.sizes
    positions = max(limit // share, least)
    rows = max(1, min(height, positions // width))
    # Equal blocks: a narrow last one would be an inefficient product.
    some = max(-(-height // rows), min(ITEMS, height, height * width // sizes.shared_columns))
    rows = shares(height, some)
    groups = max(1, min(conv.groups, limit // (share * rows * width)))
    groups = shares(conv.groups, -(-conv.groups // groups))
    images = 1
    if merge and rows == height and depth == 1 and groups == conv.groups:
        room = max(1, min(conv.images, positions // (rows * width)))
        some = max(-(-conv.images // room), min(ITEMS, conv.images * rows * width // least))
        images = shares(conv.images, some)
    return RowBlocks(conv, images, groups, rows)


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of so many images, groups and rows, made when they are asked for.

    There may be thousands, and most candidates are only counted.
    """

    conv: Conv3d
    images: int
    groups: int
    rows: int

    @cached_property
    def _counts(self) -> tuple[int, int, int, int]:
        depth, height, _ = self.conv.sizes
        steps = (self.conv.images, self.images), (self.conv.groups, self.groups)
        images, groups, rows = (-(-size // step) for size, step in (*steps, (height, self.rows)))
        return images, groups, depth, rows

    def __len__(self) -> int:
        return math.prod(self._counts)

    def __iter__(self) -> Iterator[RowBlock]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> RowBlock:
        conv, (_, groups, depth, rows) = self.conv, self._counts
        rest, h = divmod(place, rows)
        rest, d = divmod(rest, depth)
        n, g = divmod(rest, groups)
        some = slice(n * self.images, min((n + 1) * self.images, conv.images))
        members = slice(g * self.groups, min((g + 1) * self.groups, conv.groups))
        return row_block(conv, some, members, d, h * self.rows, self.rows)


def row_block(
    conv: Conv3d, images: slice, groups: slice, d: int, h: int, rows: int, tile: int = 0
) -> RowBlock:
    """Describe up to `rows` rows from `h` on of the output depth `d`.

    With a `tile` size the frame has room for whole tiles and one more along rows and columns.
    """
    depth, row, column = conv.axes
    rows = min(rows, row.out - h)

    def seen(axis: WindowAxis, count: int) -> int:
        return tile * (-(-count // tile) + 1) if tile else axis.span(count)

    start = (d * row.out + h) * column.out
    box = (
        (d * depth.stride - depth.begin, depth.kernel, depth.dilation),
        (h * row.stride - row.begin, seen(row, rows), 1),
        (-column.begin, seen(column, column.out), 1),
    )
    return RowBlock(
        image=images.start,
        images=images.stop - images.start,
        groups=groups,
        count=groups.stop - groups.start,
        rows=rows,
        channels=slice(groups.start * conv.outputs, groups.stop * conv.outputs),
        positions=slice(start, start + rows * column.out),
        frame=frame_of(
            conv, images, slice(groups.start * conv.channels, groups.stop * conv.channels), box
        ),
    )


def gather_columns(
    f: Array, first: int, step: int, count: int, conv: Conv3d, space: Space
) -> Array:
    """Gather along the columns: rows `first + j*step` of a frame as `[n, c, d, column, j, *]`."""
    column = conv.axes[2]
    n, c, d, r, e = f.strides
    if column.kernel == column.stride == step == 1 and r == column.out * e:
        return f[:, :, :, None, first : first + count]
    rows = space.array((*f.shape[:3], column.kernel, count, column.out), conv.compute)
    steps = (n, c, d, e * column.dilation, r * step, e * column.stride)
    rows[...] = overlapping(f, rows.shape, steps, first)
    return rows
