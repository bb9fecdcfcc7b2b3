"""Pooling of regions, bin by bin: each definition once more, for a single bin of one channel."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from op_cases import Case, case, f32, i32, i64

H, W = 5, 6
# Two images of four channels, all numbers distinct, not linear in any axis.
MAPS = f32(((np.arange(2 * 4 * H * W) * 37) % 241 - 120) / 8, (2, 4, H, W))
Region = tuple[float, ...]


def linear(plane: Any, y: float, x: float) -> float:
    """Interpolate between the four elements around a place inside."""
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, len(plane) - 1), min(left + 1, len(plane[0]) - 1)
    v, h = y - top, x - left
    above = (1 - h) * plane[top][left] + h * plane[top][right]
    below = (1 - h) * plane[bottom][left] + h * plane[bottom][right]
    return float((1 - v) * above + v * below)


def bordered(plane: Any, y: float, x: float) -> float:
    """Read an element beyond the border like the border, 0 farther away."""
    if not (-1 <= y <= H and -1 <= x <= W):
        return 0.0
    return linear(plane, min(max(y, 0), H - 1), min(max(x, 0), W - 1))


def places(begin: float, extent: float, bins: int, ratio: int, i: int) -> list[float]:
    step = extent / bins
    n = ratio or math.ceil(step)
    return [begin + i * step + (k + 0.5) * step / n for k in range(n)]


def aligned(
    mode: str,
    size: tuple[int, int],
    ratio: int,
    rois: Sequence[Region],
    images: Sequence[int],
    *,
    scale: float = 1.0,
    shift: str = "asymmetric",
    op: str = "ROIAlign-9",
    kind: Any = i64,
    **more: Any,
) -> Case:
    """Write a row of ROIAlign."""
    before = 0.5 if shift == "half_pixel" else 0.0
    after = 0.0 if shift == "asymmetric" else -0.5
    out = np.zeros((len(rois), 4, *size))
    for r, (roi, image) in enumerate(zip(rois, images, strict=True)):
        x0, y0, x1, y1 = ((v + before) * scale + after for v in roi)
        least = 1.0 if shift == "asymmetric" else -math.inf
        across, down = max(x1 - x0, least), max(y1 - y0, least)
        for c, i, j in itertools.product(range(4), *map(range, size)):
            ys, xs = places(y0, down, size[0], ratio, i), places(x0, across, size[1], ratio, j)
            read = [bordered(MAPS.values[image, c], y, x) for y in ys for x in xs]
            out[r, c, i, j] = max(0, *read) if mode == "max" else sum(read) / len(read)
    text = (
        f'pooled_h="{size[0]}" pooled_w="{size[1]}" sampling_ratio="{ratio}" '
        f'spatial_scale="{scale}" mode="{mode}"'
    )
    if shift != "asymmetric":
        text += f' aligned_mode="{shift}"'
    inputs = [MAPS, f32(rois), kind(images)]
    return case(op, text, inputs, f32(out), tolerance=2.0**-20, **more)


def turned(clockwise: bool) -> Case:
    """Write a row of ROIAlignRotated: a sample is a turned arrow from the centre."""
    rois = [(3, 2.5, 4, 2, 0.5), (6, 1, 3, 5, -2.0)]
    out = np.zeros((2, 4, 2, 3))
    for r, (cx, cy, w, h, angle) in enumerate(rois):
        turn = -angle if clockwise else angle
        for c, i, j in itertools.product(range(4), range(2), range(3)):
            ys, xs = places(-h / 4, h / 2, 2, 2, i), places(-w / 4, w / 2, 3, 2, j)
            for y, x in itertools.product(ys, xs):
                arrow = complex(x, y) * np.exp(-1j * turn)
                at = arrow + complex(cx / 2 - 0.5, cy / 2 - 0.5)
                out[r, c, i, j] += bordered(MAPS.values[r, c], at.imag, at.real) / 4
    text = 'pooled_h="2" pooled_w="3" sampling_ratio="2" spatial_scale="0.5"'
    text += f' clockwise_mode="{str(clockwise).lower()}"'
    inputs = [MAPS, f32(rois), i32([0, 1])]
    return case("ROIAlignRotated-15", text, inputs, f32(out), tolerance=2.0**-18)


def half_up(x: float) -> int:
    """Round a number that is not negative."""
    return math.floor(x + 0.5)


def largest(plane: Any, roi: Region, i: int, j: int) -> float:
    """ROIPooling's largest element of bin (i, j) of 2 x 3, at half the scale."""
    left, top, right, bottom = (half_up(v / 2) for v in roi)
    tall, wide = bottom - top + 1, right - left + 1
    rows = range(top + i * tall // 2, top + math.ceil((i + 1) * tall / 2))
    columns = range(left + j * wide // 3, left + math.ceil((j + 1) * wide / 3))
    inside = [(y, x) for y in rows for x in columns if 0 <= y < H and 0 <= x < W]
    return max((plane[y][x] for y, x in inside), default=0.0)


def point(plane: Any, roi: Region, i: int, j: int) -> float:
    """ROIPooling's point (i, j) of 2 x 3, from corner to corner."""
    left, top, right, bottom = roi
    y, x = (top + (bottom - top) * i) * (H - 1), (left + (right - left) * j / 2) * (W - 1)
    return linear(plane, y, x) if 0 <= y <= H - 1 and 0 <= x <= W - 1 else 0.0


Bin = Callable[[Any, Region, int, int], float]


def pooled(
    method: str, read: Bin, rois: Sequence[Region], images: Sequence[int], **more: Any
) -> Case:
    """Write a row of ROIPooling: 2 x 3 bins at half the scale."""
    out = np.zeros((len(rois), 4, 2, 3))
    for r in range([*images, -1].index(-1)):
        for c, i, j in itertools.product(range(4), range(2), range(3)):
            out[r, c, i, j] = read(MAPS.values[images[r], c], rois[r], i, j)
    table = f32([(n, *roi) for n, roi in zip(images, rois, strict=True)])
    text = f'pooled_h="2" pooled_w="3" spatial_scale="0.5" method="{method}"'
    op = more.pop("op", "ROIPooling-2")
    text = f"{text} {more.pop('text', '')}"
    return case(op, text, [MAPS, table], f32(out), tolerance=2.0**-20, **more)


def mean_bin(plane: Any, roi: Region, i: int, j: int) -> float:
    """PSROIPooling's mean of bin (i, j) of 2 x 2, at half the scale."""
    left, top = half_up(roi[0]) / 2, half_up(roi[1]) / 2
    wide, tall = half_up(roi[2] + 1) / 2 - left, half_up(roi[3] + 1) / 2 - top
    rows = range(math.floor(top + i * tall / 2), math.ceil(top + (i + 1) * tall / 2))
    columns = range(math.floor(left + j * wide / 2), math.ceil(left + (j + 1) * wide / 2))
    inside = [plane[y][x] for y in rows for x in columns if 0 <= y < H and 0 <= x < W]
    return sum(inside) / len(inside) if inside else 0.0


def mean_of_points(planes: Any, roi: Region, i: int, j: int) -> float:
    """PSROIPooling's mean over 1 x 4 spatial bins of point (i, j) of 2 x 2 in each."""
    total = 0.0
    for k, plane in enumerate(planes):
        left, top, right, bottom = (v / 2 for v in roi)
        wide = (right - left) / 4
        y = (top + (bottom - top) * i) * (H - 1)
        x = (left + (k + j) * wide) * (W - 1)
        if 0 <= y <= H - 1 and 0 <= x <= W - 1:
            total += linear(plane, y, x) / 4
    return total


def shifted(plane: Any, roi: Region, i: int, j: int, move: tuple[float, float]) -> float:
    """DeformablePSROIPooling's mean of 2 x 3 samples of bin (i, j) of 2 x 2."""
    left, top = half_up(roi[0]) / 2 - 0.5, half_up(roi[1]) / 2 - 0.5
    wide = (half_up(roi[2]) + 1) / 2 - 0.5 - left
    tall = (half_up(roi[3]) + 1) / 2 - 0.5 - top
    read = []
    for v, h in itertools.product(range(2), range(3)):
        y = top + (i + v / 2) * tall / 2 + move[1] * tall
        x = left + (j + h / 3) * wide / 2 + move[0] * wide
        if -0.5 <= y <= H - 0.5 and -0.5 <= x <= W - 0.5:
            read.append(linear(plane, min(max(y, 0), H - 1), min(max(x, 0), W - 1)))
    return sum(read) / len(read) if read else 0.0


def sensitive(text: str, op: str, read: Any, rois: Sequence[Region], *inputs: Any) -> Case:
    """Write a row of 2 x 2 bins; `read` takes image, region, channel of the result, bin."""
    channels = 2 if "bilinear_" in text else 1
    out = np.zeros((len(rois), channels, 2, 2))
    for r, roi in enumerate(rois):
        for c, i, j in itertools.product(range(channels), range(2), range(2)):
            out[r, c, i, j] = read(r, roi, c, i, j)
    table = f32([(r, *roi) for r, roi in enumerate(rois)])
    maps = WIDE if channels == 2 else MAPS
    text = f'output_dim="{channels}" group_size="2" spatial_scale="0.5" {text}'
    return case(op, text, [maps, table, *inputs], f32(out), tolerance=2.0**-20)


WIDE = f32(((np.arange(2 * 8 * H * W) * 53) % 479 - 200) / 16, (2, 8, H, W))
INNER: list[Region] = [(1, 0.5, 4.5, 3), (0.25, 1, 5.5, 4)]
OUTER: list[Region] = [(-3, -2, 4, 3), (3, 2, 9, 8), (8, 9, 12, 13)]
BOXES: list[Region] = [(1, 2, 7, 6.5), (4, 1, 11, 9)]
FRACTIONS: list[Region] = [(0.1, 0.2, 0.7, 0.9), (0, 0, 1, 1), (0.5, -0.1, 1.2, 0.6)]
# Two classes, so one for each channel of the result; parts of 3 x 3 for bins of 2 x 2.
MOVES = f32((np.arange(2 * 4 * 9) % 7 - 3) / 10, (2, 4, 3, 3))
BINS = 'spatial_bins_x="3" spatial_bins_y="2" mode="bilinear_deformable"'


def moved(r: int, roi: Region, c: int, i: int, j: int, by: float = 0.5) -> float:
    x, y = MOVES.values[r, 2 * c : 2 * c + 2, i * 3 // 2, j * 3 // 2] * by
    return shifted(WIDE.values[r, 4 * c + 2 * i + j], roi, i, j, (float(x), float(y)))


CASES = [
    aligned("avg", (2, 3), 2, INNER, [0, 1]),
    aligned("avg", (2, 3), 0, INNER, [1, 0], kind=i32, op="ROIAlign-3"),
    aligned("max", (1, 2), 3, OUTER, [0, 1, 0], op="ROIAlign-3"),
    aligned("avg", (2, 2), 0, OUTER, [1, 0, 1], scale=0.75),
    *(
        aligned(mode, (2, 2), ratio, INNER, [1, 1], scale=2.0, shift=shift)
        for mode, ratio in (("avg", 0), ("max", 2))
        for shift in ("half_pixel", "half_pixel_for_nn")
    ),
    turned(clockwise=False),
    turned(clockwise=True),
    pooled("max", largest, [*BOXES, (14, 2, 20, 4)], [0, 1, 0]),
    pooled("max", largest, [*BOXES, BOXES[0]], [1, 0, -1], op="ROIPooling-1"),
    pooled("max", largest, BOXES, [1, 0], text='output_size="2,3" output_roi="2,3"'),
    pooled("bilinear", point, FRACTIONS, [0, 1, 0]),
    sensitive(
        'mode="average"',
        "PSROIPooling-1",
        lambda r, roi, _, i, j: mean_bin(MAPS.values[r, 2 * i + j], roi, i, j),
        BOXES,
    ),
    sensitive(
        'mode="bilinear" spatial_bins_x="4" spatial_bins_y="1"',
        "PSROIPooling-1",
        lambda r, roi, _, i, j: mean_of_points(MAPS.values[r], roi, i, j),
        [(0.2, 0.4, 1.6, 1.8), (0.0, -0.5, 2.5, 1.0)],
    ),
    sensitive(
        BINS,
        "DeformablePSROIPooling-1",
        lambda r, roi, c, i, j: shifted(WIDE.values[r, 4 * c + 2 * i + j], roi, i, j, (0, 0)),
        BOXES,
    ),
    sensitive(
        f'{BINS} trans_std="0.5" part_size="3"', "DeformablePSROIPooling-1", moved, BOXES, MOVES
    ),
]
