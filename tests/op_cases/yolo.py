"""RegionYolo and ReorgYolo."""

import math
from typing import Any

import numpy as np

from op_cases import Case, case, count, f32

RAW = f32((np.arange(2 * 14 * 2 * 3) * 5 % 31 - 15) / 4, (2, 14, 2, 3))  # two regions of seven


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def region(values: list[float], *, softmax: bool) -> list[float]:
    """A region of x, y, width, height, confidence and two classes."""
    x, y, width, height, *rest = values
    powers = [math.exp(v) for v in rest[1:]]
    shares = [p / sum(powers) for p in powers] if softmax else [logistic(v) for v in rest[1:]]
    return [logistic(x), logistic(y), width, height, logistic(rest[0]), *shares]


def regions(attributes: str, shape: tuple[int, ...], *, softmax: bool) -> Case:
    cells: Any = RAW.values.reshape(2, 2, 7, 6)
    out = np.empty(cells.shape)
    for n, r, at in np.ndindex(2, 2, 6):
        out[n, r, :, at] = region(cells[n, r, :, at].tolist(), softmax=softmax)
    text = f'coords="4" classes="2" {attributes}'
    return case("RegionYolo-1", text, [RAW], f32(out, shape), tolerance=2.0**-21)


def reorganized(channels: int, height: int, width: int) -> list[int]:
    """Walk through the result of stride 2, element by element."""
    planes, found = channels // 4, []
    for n, k, y, x in np.ndindex(2, channels, height, width):
        part, plane = divmod(k, planes)
        row, column = 2 * y + part // 2, 2 * x + part % 2
        found.append(((n * planes + plane) * 2 * height + row) * 2 * width + column)
    return found


CASES = [
    regions('axis="1" end_axis="3" num="2" do_softmax="true"', (2, 84), softmax=True),
    regions('axis="1" end_axis="2" num="2" do_softmax="1" mask="0,1"', (2, 28, 3), softmax=True),
    regions('num="9" do_softmax="false" mask="3,4" anchors="1,2"', (2, 14, 2, 3), softmax=False),
    # One region of the first image: what is left of the channels stays, or goes.
    case(
        "RegionYolo-1",
        'coords="1" classes="1" axis="1" end_axis="3" num="1" do_softmax="true"',
        [f32([0, math.log(3), 5, 2, 7], (1, 5, 1, 1))],
        f32([0.5, logistic(0.75), 1, 2, 7], (1, 5)),
        tolerance=2.0**-20,
    ),
    case(
        "ReorgYolo-1", 'stride="2"', [count((2, 8, 2, 4))], f32(reorganized(8, 2, 4), (2, 32, 1, 2))
    ),
]
