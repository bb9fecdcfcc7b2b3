"""Zero-extended frames that compiled code fills, in guarded memory."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import jit
from test_deconvolution_compiled import Guarded

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not jit.available(), reason="needs numba"),
    pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does"),
]


def frame_of(x: Any, shape: tuple[int, ...], axes: Any) -> Any:
    """Return `[C, *phases, *rest]` by the definition: position h*S + p - begin, or zero."""
    out = np.zeros((len(x), *shape), np.float32)
    for at in np.ndindex(*shape):
        rows = zip(at, at[3:], axes, strict=False)
        place = [rest * stride + phase - begin for phase, rest, (stride, begin) in rows]
        if all(0 <= i < n for i, n in zip(place, x.shape[1:], strict=True)):
            out[(slice(None), *at)] = x[(slice(None), *place)]
    return out


@pytest.mark.parametrize("seed", range(120))
def test_a_frame_holds_the_planes_and_zeros_around_them(seed: int) -> None:
    r = random.Random(seed)
    width = r.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 19, 23, 31, 32, 33, 40])
    sizes = r.choice([1, 1, 2]), r.randint(1, 4), width
    strides = (1, 1, 1) if seed % 2 else (r.choice([1, 2]), r.choice([1, 2]), r.choice([1, 2, 3]))
    axes = tuple((s, r.choice([0, 0, 1, 2, -1, 20])) for s in strides)
    rest = [-(-(n + b) // s) + r.randint(0, 2) for n, (s, b) in zip(sizes, axes, strict=True)]
    shape = *strides, *(max(1, n) for n in rest)
    channels, first = r.randint(1, 3), r.choice([0, 0, 5])
    size, room = int(np.prod(shape)), jit.lanes()
    for behind in (False, True):
        space = Guarded(behind)
        x = space.array((channels, *sizes), np.float32)
        x[...] = np.arange(1, x.size + 1).reshape(x.shape)
        frames = space.array((channels, first + size + room), np.float32)
        _fill(x, frames, first, shape, axes)
        found = frames[:, first : first + size].reshape(channels, *shape)
        np.testing.assert_array_equal(found, frame_of(x, shape, axes))
        assert np.isnan(frames[:, :first]).all()


def _fill(x: Any, frames: Any, first: int, shape: Any, axes: Any) -> None:
    from irdeconv.kernels import compiled_convolution as convolution

    convolution.fill_all(x, frames, first, shape, axes)
