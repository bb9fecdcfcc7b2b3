"""Interpolate of operation sets 1, 4 and 11. The kernels' own tests have the modes in depth."""

from __future__ import annotations

from op_cases import Case, Tensor, case, f16, f32, i64, u8

X = f32([1, 2, 4], (1, 1, 1, 3))
SQUARE = f32([1, 2, 3, 4], (1, 1, 2, 2))
LAST = i64([3])
NO_PADS = 'pads_begin="0" pads_end="0"'


def row(*values: float) -> Tensor:
    return f32(values, (1, 1, 1, len(values)))


def sized(mode: str, size: int, y: Tensor, more: str = "", x: Tensor = X, **rest: object) -> Case:
    attributes = f'mode="{mode}" shape_calculation_mode="sizes" {more}'
    return case("Interpolate-11", attributes, [x, i64([size]), LAST], y, fixed=(2,), **rest)


def scaled(mode: str, scale: float, y: Tensor, more: str = "", x: Tensor = X) -> Case:
    attributes = f'mode="{mode}" shape_calculation_mode="scales" {more}'
    return case("Interpolate-11", attributes, [x, f32([scale]), LAST], y, fixed=(1, 2))


def via(rule: str) -> str:
    return f'coordinate_transformation_mode="{rule}"'


def first(mode: str, size: int, y: Tensor, more: str = "", x: Tensor = X, **rest: object) -> Case:
    attributes = f'axes="3" mode="{mode}" {NO_PADS} {more}'
    return case("Interpolate-1", attributes, [x, i64([size])], y, **rest)


CASES = [
    sized("nearest", 6, row(1, 1, 2, 2, 4, 4)),
    sized("nearest", 2, row(1, 2), via("asymmetric") + ' nearest_mode="round_prefer_floor"'),
    sized("nearest", 2, row(1, 4), via("asymmetric") + ' nearest_mode="simple"'),
    sized("nearest", 5, row(1, 2, 2, 4, 4), via("align_corners") + ' nearest_mode="ceil"'),
    sized("nearest", 5, row(1, 1, 2, 2, 4), via("align_corners") + ' nearest_mode="floor"'),
    sized(
        "nearest", 5, row(1, 2, 2, 4, 4), via("align_corners") + ' nearest_mode="round_prefer_ceil"'
    ),
    sized("nearest", 6, u8([7, 7, 9, 9, 8, 8], (1, 1, 1, 6)), x=u8([7, 9, 8], (1, 1, 1, 3))),
    sized("linear", 6, row(1, 1.25, 1.75, 2.5, 3.5, 4)),
    sized("linear_onnx", 6, row(1, 1.25, 1.75, 2.5, 3.5, 4)),
    sized("linear_onnx", 5, row(1, 1.5, 2, 3, 4), via("align_corners")),
    sized("linear_onnx", 1, row(1), via("pytorch_half_pixel")),
    sized("linear_onnx", 6, row(1, 1.5, 2, 3, 4, 4), via("asymmetric")),
    sized("linear_onnx", 6, row(1.25, 1.75, 2.5, 3.5, 4, 4), via("tf_half_pixel_for_nn")),
    sized(
        "linear",
        2,
        # Triangles 2 wide around 0.5 and 2.5: (3 3 1) / 7 and (1 3) / 4 of 1 2 4 8.
        row((3 * 1 + 3 * 2 + 4) / 7, (2 + 3 * 4 + 3 * 8) / 7),
        'antialias="true"',
        f32([1, 2, 4, 8], (1, 1, 1, 4)),
        defect="antialias in linear mode",
    ),
    # Half way with a = -0.75 the weights are (-3 19 19 -3) / 32; borders repeat.
    sized(
        "cubic",
        6,
        row(1, (-3 + 19 + 38 - 12) / 32, 2, (-3 + 38 + 76 - 12) / 32, 4, (-6 + 76 + 76 - 12) / 32),
        via("asymmetric"),
    ),
    sized(
        "cubic",
        6,
        # With a = -0.5: (-1 9 9 -1) / 16.
        row(1, (-1 + 9 + 18 - 4) / 16, 2, (-1 + 18 + 36 - 4) / 16, 4, (-2 + 36 + 36 - 4) / 16),
        via("asymmetric") + ' cube_coeff="-0.5"',
    ),
    sized("bilinear_pillow", 6, row(1, 1.25, 1.75, 2.5, 3.5, 4)),
    sized(
        "bilinear_pillow",
        2,
        row((3 * 1 + 3 * 2 + 4) / 7, (2 + 3 * 4 + 3 * 8) / 7),
        x=f32([1, 2, 4, 8], (1, 1, 1, 4)),
    ),
    sized("bicubic_pillow", 3, row(1, 2, 4), 'cube_coeff="-0.5"'),
    scaled("nearest", 2.0, row(1, 1, 2, 2, 4, 4)),
    # 3 * 1.7 = 5.1: five positions, placed by the scale and not by 5/3.
    scaled("linear_onnx", 1.7, row(1, 1 + 13 / 34, 1 + 33 / 34, 3 + 4 / 34, 4), via("half_pixel")),
    # 1.4999999 lacks less than the slack of 1e-6, 1.49999 lacks more.
    scaled("nearest", 1.4999999, row(*[5] * 9), x=f32([5] * 6, (1, 1, 1, 6))),
    scaled("nearest", 1.49999, row(*[5] * 8), x=f32([5] * 6, (1, 1, 1, 6))),
    sized("linear", 4, f16([1, 1.5, 2.5, 3], (1, 1, 1, 4)), x=f16([1, 3], (1, 1, 1, 2))),
    sized("nearest", 5, row(0, 1, 2, 4, 0), 'pads_begin="0,0,0,1" pads_end="0,0,0,1"'),
    first("nearest", 6, row(1, 1, 2, 2, 4, 4), 'align_corners="false"'),
    first("nearest", 2, row(1, 4), 'align_corners="false"'),
    first("nearest", 5, row(1, 1, 2, 2, 4)),
    first("linear", 5, row(1, 1.5, 2, 3, 4)),
    first("linear", 6, row(1, 1.25, 1.75, 2.5, 3.5, 4), 'align_corners="false"'),
    first(
        "cubic",
        6,
        row(1, (-3 + 19 + 38 - 12) / 32, 2, (-3 + 38 + 76 - 12) / 32, 4, (-6 + 76 + 76 - 12) / 32),
        'align_corners="false"',
    ),
]
