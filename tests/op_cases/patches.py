"""Col2Im, ExtractImagePatches; expected tensors are built window by window."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from op_cases import Case, case, count, f16, f32, i32, i64

Two = Sequence[int]


def windows(size: int, kernel: int, stride: int, dilation: int, pad: tuple[int, int]) -> range:
    """Where the windows of an axis begin, counted from the unpadded data."""
    last = size + pad[1] - (dilation * (kernel - 1) + 1)
    return range(-pad[0], last + 1, stride)


def columns_to_image(
    batch: int | None,
    channels: int,
    size: Two,
    kernel: Two,
    strides: Two = (1, 1),
    dilations: Two = (1, 1),
    begin: Two = (0, 0),
    end: Two = (0, 0),
    kind: Any = i64,
) -> Case:
    starts = [
        windows(size[a], kernel[a], strides[a], dilations[a], (begin[a], end[a])) for a in (0, 1)
    ]
    shape = (batch or 1, channels * kernel[0] * kernel[1], len(starts[0]) * len(starts[1]))
    x = count(shape, 1).values
    image = np.zeros((batch or 1, channels, *size))
    for n, c in np.ndindex(batch or 1, channels):
        for ky, kx in np.ndindex(*kernel):
            for column, (y, x0) in enumerate((y, x0) for y in starts[0] for x0 in starts[1]):
                at = y + ky * dilations[0], x0 + kx * dilations[1]
                if 0 <= at[0] < size[0] and 0 <= at[1] < size[1]:
                    image[n, c, at[0], at[1]] += x[n, (c * kernel[0] + ky) * kernel[1] + kx, column]
    pairs = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
    text = " ".join(f'{k}="{v[0]},{v[1]}"' for k, v in pairs.items())
    given, want = (x, image) if batch else (x[0], image[0])
    return case("Col2Im-15", text, [f32(given), kind(size), kind(kernel)], f32(want))


def patches(
    shape: Sequence[int], sizes: Two, strides: Two, rates: Two, auto_pad: str, kind: Any = f32
) -> Case:
    x = count(shape, 1).values
    starts = []
    for a in (0, 1):
        size, reach = shape[2 + a], rates[a] * (sizes[a] - 1) + 1
        number = -(-size // strides[a]) if auto_pad != "valid" else (size - reach) // strides[a] + 1
        total = max((number - 1) * strides[a] + reach - size, 0) if auto_pad != "valid" else 0
        first = total // 2 if auto_pad == "same_upper" else total - total // 2
        starts.append([n * strides[a] - first for n in range(number)])
    depth = sizes[0] * sizes[1] * shape[1]
    want = np.zeros((shape[0], depth, len(starts[0]), len(starts[1])))
    for n, c, ky, kx in np.ndindex(shape[0], shape[1], *sizes):
        for i, y in enumerate(starts[0]):
            for j, x0 in enumerate(starts[1]):
                at = y + ky * rates[0], x0 + kx * rates[1]
                if 0 <= at[0] < shape[2] and 0 <= at[1] < shape[3]:
                    channel = (ky * sizes[1] + kx) * shape[1] + c
                    want[n, channel, i, j] = x[n, c, at[0], at[1]]
    pairs = {"sizes": sizes, "strides": strides, "rates": rates}
    text = " ".join(f'{k}="{v[0]},{v[1]}"' for k, v in pairs.items())
    return case("ExtractImagePatches-3", f'{text} auto_pad="{auto_pad}"', [kind(x)], kind(want))


CASES = [
    columns_to_image(1, 1, (3, 4), (2, 2)),
    columns_to_image(None, 2, (3, 3), (1, 2), kind=i32),
    columns_to_image(2, 2, (5, 4), (3, 2), (2, 1), (1, 2), (1, 0), (1, 1)),
    columns_to_image(1, 1, (2, 3), (2, 3), (3, 2), (2, 1), (2, 1), (1, 2)),
    patches((1, 1, 3, 3), (2, 2), (1, 1), (1, 1), "valid"),
    patches((2, 3, 5, 6), (2, 3), (2, 1), (1, 2), "valid"),
    patches((1, 2, 4, 5), (3, 2), (2, 2), (1, 1), "same_upper"),
    patches((1, 2, 4, 5), (2, 2), (1, 3), (2, 1), "same_lower", f16),
    patches((1, 2, 5, 4), (2, 2), (2, 3), (2, 2), "same_upper", i32),
]
