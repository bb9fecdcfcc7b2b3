"""ONNX's DFT and STFT. Complex numbers are pairs, the last axis of size 2."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule, wrap
from irdeconv.ops.elementwise import Multiply
from irdeconv.ops.padding import Pad12
from irdeconv.ops.shape import Squeeze1, Unsqueeze
from irdeconv.ops.signal.fourier import DFT, IDFT, IRDFT, RDFT
from irdeconv.ops.signal.frames import STFT
from irdeconv.ops.slicing import Gather, Slice


def _is_complex(b: ImportBuilder, x: Value) -> bool:
    parts = b.shape(x, 1)[-1]
    if parts not in (1, 2):
        raise Refusal(f"the last axis has {parts} elements, neither real numbers nor pairs")
    return parts == 2


def _paired(b: ImportBuilder, x: Value) -> Value:
    """Return real numbers [..., 1] as pairs."""
    if _is_complex(b, x):
        return x
    rank = b.rank(x)
    none = b.ints(*(0,) * rank)
    return b.add(Pad12("constant"), x, none, b.ints(*(0,) * (rank - 1), 1), b.like(0, x))


@rule("DFT", "17 20")
def dft(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The transform along one axis; `onesided` has the first half of what real numbers give."""
    x, rank = n[0], b.rank(n[0])
    if n.version < 20:
        axis = n.axis(b, x, default=1)
    else:
        given = n.known(b, 2, "axis")
        axis = wrap(-2 if given is None else int(given.item()), rank)
    length = () if n.input(1) is None else (b.convert(b.reshape(n[1], (1,)), i64),)
    one, inverse = bool(n.integer("onesided", 0)), bool(n.integer("inverse", 0))
    at = b.ints(axis)
    if inverse and one:
        return b.add(Unsqueeze(), b.add(IRDFT(), _paired(b, x), at, *length), b.ints(-1))
    if inverse:
        return b.add(IDFT(), _paired(b, x), at, *length)
    if one and not _is_complex(b, x):
        return b.add(RDFT(), b.add(Squeeze1(), x, b.ints(-1)), at, *length)
    y = b.add(DFT(), _paired(b, x), at, *length)
    return _first_half(b, y, axis) if one else y


def _first_half(b: ImportBuilder, y: Value, axis: int) -> Value:
    size = b.shape(y, 1)[axis]
    if not isinstance(size, int):
        raise Refusal(f"onesided=1 of axis {axis} of open size")
    return b.add(Slice(), y, b.ints(0), b.ints(size // 2 + 1), b.ints(1), b.ints(axis))


@rule("STFT", "17")
def stft(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Transforms of frames of a signal [B, L, 1 or 2], each times a window."""
    x, step, window = n[0], b.as_scalar(n[1]), n.input(2)
    if n.input(3) is not None:
        size = int(b.need(b.as_scalar(n[3]), "frame_length"))
    else:
        found = b.shape(n[2], 1)[0]
        if not isinstance(found, int):
            raise Refusal("a window of open size")
        size = found
    if not 1 <= size <= 1 << 24:
        raise Refusal(f"frame_length is {size}")
    if window is None:
        window = b.const(np.ones(size, b.dtype(x).container), b.dtype(x))
    one = bool(n.integer("onesided", 1))
    if one and not _is_complex(b, x):
        signal = b.add(Squeeze1(), x, b.ints(-1))
        return b.add(STFT(transpose_frames=False), signal, window, b.scalar(size), step)
    framed = _frames(b, x, size, int(b.need(step, "frame_step")))
    windowed = b.add(Multiply(), framed, b.reshape(window, (-1, 1)))
    y = b.add(DFT(), _paired(b, windowed), b.ints(2))
    return _first_half(b, y, 2) if one else y


def _frames(b: ImportBuilder, x: Value, size: int, step: int) -> Value:
    """Return the frames [B, count, size, 1 or 2]."""
    length = b.shape(x, 2)[1]
    if not isinstance(length, int) or step < 1 or length < size:
        raise Refusal(f"frames of {size} every {step} of {length} elements")
    b.room(size * ((length - size) // step + 1))
    starts = np.arange((length - size) // step + 1) * step
    return b.add(Gather(), x, b.const(starts[:, None] + np.arange(size)), b.scalar(1))
