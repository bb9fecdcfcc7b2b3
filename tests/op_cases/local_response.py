"""LRN and GRN, element by element."""

import itertools
from typing import Any

import numpy as np

from op_cases import Case, case, f32, i64, unordered

SHAPE = (2, 7, 3, 4)


def lrn(
    axes: Any,
    size: int,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    bias: float = 2,
    shape: tuple[int, ...] = SHAPE,
    **more: Any,
) -> Case:
    x = unordered(shape) / 2
    out = np.zeros(shape)
    flat = [a % len(shape) for a in np.array(axes, int).reshape(-1)]
    spatial = list(range(2, len(shape)))
    if spatial and set(spatial) <= set(flat):
        flat = spatial
    reach = (size - 1) // 2
    for at in itertools.product(*map(range, shape)):
        window = [
            range(max(0, i - reach), min(n, i + reach + 1)) if axis in flat else [i]
            for axis, (i, n) in enumerate(zip(at, shape, strict=True))
        ]
        total = sum(x[place] ** 2 for place in itertools.product(*window))
        out[at] = x[at] / (bias + alpha / size ** len(flat) * total) ** beta
    text = f'alpha="{alpha}" beta="{beta}" bias="{bias}" size="{size}"'
    return case("LRN-1", text, [f32(x), i64(axes)], f32(out), tolerance=2.0**-20, **more)


FEW = "layers without a kernel"
X = unordered((2, 3, 4)) / 2
CASES = [
    lrn([1], 5),
    lrn([1], 4),
    lrn([2, 3], 3),
    lrn([3, 2], 2),
    lrn([1], 5, beta=0.75),
    lrn([1], 5, bias=1.5, defect="a bias of LRN that is no integer"),
    lrn([1], 3, alpha=0.001, beta=1.25, bias=2),
    lrn([2], 3, shape=(2, 3, 5)),
    lrn([1], 3, shape=(3, 7)),
    lrn([1], 60, shape=(2, 41, 1, 2)),  # running sums
    lrn([3, 4, 2], 3, shape=(1, 2, 3, 2, 3)),
    lrn([2], 3, defect=FEW),
    lrn([-3], 3, shape=(2, 3, 2, 2), defect=FEW),
    lrn([1, 2, 3], 3, shape=(1, 3, 3, 2)),
    lrn([1, 2], 3, shape=(2, 3, 5)),
    lrn([], 3, shape=(2, 3), crash="OpenVINO's process dies without axes"),
    case("GRN-1", 'bias="0.5"', [f32(X)], f32(X / np.sqrt(np.sum(X * X, 1, keepdims=True) + 0.5))),
]
