"""GridSample: every combination of mode, padding and alignment, point by point."""

import itertools
import math

from op_cases import Case, case, count, f32

H, W = 3, 4
IMAGE = count((2, 2, H, W), 1)
# (x, y) inside, at the edges, between elements and far outside; no place halfway between two.
PLACES = [(-1, -1), (0.1, -0.3), (0.7, 0.95), (1.3, -1.45), (-2.9, 4.1), (0.45, 1)]


def reflect(i: int, size: int, *, align: bool) -> int:
    """Walk towards the inside, mirror by mirror."""
    low, high = (0, 2 * (size - 1)) if align else (-1, 2 * size - 1)
    while not 0 <= i < size:
        i = low - i if i < 0 else high - i
    return i


def pixel(plane: object, y: int, x: int, padding: str, *, align: bool) -> float:
    if padding == "reflection":
        y, x = reflect(y, H, align=align), reflect(x, W, align=align)
    if padding == "border":
        y, x = min(max(y, 0), H - 1), min(max(x, 0), W - 1)
    inside = 0 <= y < H and 0 <= x < W
    return float(plane[y, x]) if inside else 0.0  # type: ignore[index]


def kernel(mode: str, distance: float) -> float:
    """Weight of an element by its distance."""
    d, a = abs(distance), -0.75
    if mode == "bilinear":
        return max(0.0, 1 - d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def value(plane: object, place: tuple[float, float], mode: str, padding: str, align: bool) -> float:
    x, y = (
        (v + 1) / 2 * (size - 1) if align else (v + 1) / 2 * size - 0.5
        for v, size in zip(place, (W, H), strict=True)
    )
    if mode == "nearest":
        return pixel(plane, round(y), round(x), padding, align=align)
    rows = range(math.floor(y) - 1, math.floor(y) + 3)
    columns = range(math.floor(x) - 1, math.floor(x) + 3)
    return sum(
        kernel(mode, y - r) * kernel(mode, x - c) * pixel(plane, r, c, padding, align=align)
        for r in rows
        for c in columns
    )


def row(mode: str, padding: str, align: bool) -> Case:
    grids = [PLACES, PLACES[::-1]]
    wanted = [
        [[value(plane, p, mode, padding, align) for p in grid] for plane in planes]
        for planes, grid in zip(IMAGE.values, grids, strict=True)
    ]
    text = f'mode="{mode}" padding_mode="{padding}" align_corners="{str(align).lower()}"'
    grid = f32(grids, (2, 3, 2, 2))
    # Up to 16 products of weights that are polynomials of a place rounded to f32.
    return case("GridSample-9", text, [IMAGE, grid], f32(wanted, (2, 2, 3, 2)), tolerance=2.0**-17)


MODES, PADDINGS = ("bilinear", "bicubic", "nearest"), ("zeros", "border", "reflection")
CASES = [row(*choice) for choice in itertools.product(MODES, PADDINGS, (False, True))]
