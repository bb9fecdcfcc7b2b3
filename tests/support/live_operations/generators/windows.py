"""Operations of windows and of resized axes: convolutions, pooling, interpolation, grids."""

from __future__ import annotations

import numpy as np

from op_cases import Tensor, i64
from support.live_operations.generators.tools import (
    Generator,
    Rng,
    Sample,
    flag,
    index,
    kind,
    numbers,
    pick,
    sample,
    text,
)

REAL = ("f32", "f32", "f32", "f16", "bf16")
AUTO = ("explicit", "explicit", "explicit", "same_upper", "same_lower", "valid")


def _ints(rng: Rng, count: int, low: int, high: int) -> list[int]:
    return [int(v) for v in rng.integers(low, high + 1, count)]


def convolution(rng: Rng, name: str, version: str) -> Sample:
    """All four; the data is as large as the dilated kernel at least."""
    n, dtype = int(rng.integers(1, 4)), kind(rng, *REAL)
    kernel, strides, dilations = _ints(rng, n, 1, 3), _ints(rng, n, 1, 3), _ints(rng, n, 1, 2)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    back = "Backprop" in name
    least = [1] * n if back else reach
    spatial = [r + int(rng.integers(0, 4)) for r in least]
    groups = int(rng.integers(2, 4)) if name.startswith("Group") else 1
    c, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    first = (groups,) if name.startswith("Group") else ()
    filter_shape = (*first, *((c, m) if back else (m, c)), *kernel)
    begin = [int(rng.integers(0, r)) for r in reach] if not back else [0] * n
    texts = {
        "strides": text(strides),
        "dilations": text(dilations),
        "pads_begin": text(begin),
        "pads_end": text(_ints(rng, n, 0, 1) if not back else [0] * n),
        "auto_pad": pick(rng, AUTO) if not back else "explicit",
        "output_padding": text([int(rng.integers(0, s)) for s in strides]),
    }
    data = numbers(rng, dtype, (int(rng.integers(1, 3)), groups * c, *spatial), 3)
    return sample(
        rng, name, version, texts, [data, numbers(rng, dtype, filter_shape, 3)],
        [1] if rng.random() < 0.6 else [],
    )  # fmt: skip


def pooling(rng: Rng, name: str, version: str) -> Sample:
    n, number = int(rng.integers(1, 4)), int(version[5:])
    kernel, strides = _ints(rng, n, 1, 3), _ints(rng, n, 1, 3)
    dilated = number >= (8 if name == "MaxPool" else 16)
    dilations = _ints(rng, n, 1, 2) if dilated else [1] * n
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    rounding = ("floor", "ceil", "ceil_torch") if number >= 14 else ("floor", "ceil")
    texts = {
        "kernel": text(kernel),
        "strides": text(strides),
        "dilations": text(dilations),
        "pads_begin": text([int(rng.integers(0, k)) for k in kernel]),
        "pads_end": text([int(rng.integers(0, k)) for k in kernel]),
        "rounding_type": pick(rng, rounding),
        "auto_pad": pick(rng, AUTO),
        "exclude-pad": flag(rng),
        "index_element_type": pick(rng, ("i32", "i64")),
        "axis": pick(rng, (0, 1, 2, -1)),
    }
    size = (
        int(rng.integers(1, 3)),
        int(rng.integers(1, 4)),
        *(r + int(rng.integers(0, 5)) for r in reach),
    )
    whole = int(np.prod(size))
    dtype = kind(rng, "f32", "f32", "f16")
    data = Tensor(dtype, rng.permutation(whole).reshape(size).astype(dtype.container))
    outputs = 2 if name == "MaxPool" and number >= 8 else 1
    return sample(rng, name, version, texts, [data], (), outputs)


def adaptive(rng: Rng, name: str, version: str) -> Sample:
    n = int(rng.integers(1, 4))
    size = (2, 3, *_ints(rng, n, 1, 6))
    target = _ints(rng, n, 1, 4)
    texts = {"index_element_type": pick(rng, ("i32", "i64"))}
    data = Tensor(
        kind(rng, "f32"), rng.permutation(int(np.prod(size))).reshape(size).astype(np.float32)
    )
    outputs = 2 if "Max" in name else 1
    return sample(rng, name, version, texts, [data, index(rng, target)], [1], outputs)


def interpolate(rng: Rng, name: str, version: str) -> Sample:
    """Versions 4 and 11 on the last one or two axes of images; version 1 with its own modes."""
    n, number, dtype = int(rng.integers(1, 3)), int(version[5:]), kind(rng, "f32", "f32", "f16")
    size = (int(rng.integers(1, 3)), int(rng.integers(1, 3)), *_ints(rng, 2, 1, 5))
    chosen = [3] if n == 1 else [2, 3]
    target = _ints(rng, n, 1, 7)
    image = numbers(rng, dtype, size)
    if number < 4:
        texts = {"axes": text(chosen), "mode": pick(rng, ("nearest", "linear")),
                 "align_corners": flag(rng), "antialias": "false",
                 "pads_begin": "0", "pads_end": "0"}  # fmt: skip
        return sample(rng, name, version, texts, [image, i64(target)], [1])
    by = pick(rng, ("sizes", "scales"))
    texts = {
        "mode": pick(rng, ("nearest", "linear", "linear_onnx", "cubic")),
        "shape_calculation_mode": by,
        "coordinate_transformation_mode": pick(
            rng,
            ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn",
             "align_corners"),
        ),
        "nearest_mode": pick(
            rng, ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
        ),
        "antialias": "false",
        "pads_begin": text([0] * 4),
        "pads_end": text([0] * 4),
        "cube_coeff": pick(rng, (-0.75, -0.5)),
    }  # fmt: skip
    floats = kind(rng, "f32")
    # Scales that are exact in binary: of others the two sides round places differently.
    scales = np.array([pick(rng, (0.5, 1, 1.5, 2, 0.75, 3)) for _ in chosen], np.float32)
    if number >= 11:
        which = i64(target) if by == "sizes" else Tensor(floats, scales)
        return sample(rng, name, version, texts, [image, which, i64(chosen)], [1, 2])
    if by == "sizes":
        scales = np.array([t / size[a] for t, a in zip(target, chosen, strict=True)], np.float32)
    inputs = [image, i64(target), Tensor(floats, scales), i64(chosen)]
    return sample(rng, name, version, texts, inputs, [1, 2, 3])


def grid_sample(rng: Rng, name: str, version: str) -> Sample:
    batch, dtype = int(rng.integers(1, 3)), kind(rng, "f32")
    data = numbers(rng, dtype, (batch, 2, *_ints(rng, 2, 1, 5)))
    places = rng.integers(-11, 12, (batch, *_ints(rng, 2, 1, 4), 2)) / 8
    texts = {
        "align_corners": flag(rng),
        "mode": pick(rng, ("bilinear", "bicubic", "nearest")),
        "padding_mode": pick(rng, ("zeros", "border", "reflection")),
    }
    grid = Tensor(dtype, places.astype(np.float32))
    return sample(rng, name, version, texts, [data, grid])


GENERATORS: dict[str, Generator] = {
    **dict.fromkeys(
        ("Convolution", "GroupConvolution", "ConvolutionBackpropData",
         "GroupConvolutionBackpropData"),
        convolution,
    ),
    "MaxPool": pooling,
    "AvgPool": pooling,
    "AdaptiveAvgPool": adaptive,
    "AdaptiveMaxPool": adaptive,
    "Interpolate": interpolate,
    "GridSample": grid_sample,
}  # fmt: skip
