"""The `<pre-process>` of a model: a mean is subtracted from its input image."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import f16, f32
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.grammar import Channel, PreProcess
from irdeconv.importers.legacy.layer import BlobSource, decompressed, precision_of
from irdeconv.ops.basic import Const
from irdeconv.ops.elementwise import Subtract
from irdeconv.ops.movement import Concat


def preprocess(b: ImportBuilder, x: Value, found: PreProcess, source: BlobSource) -> Value:
    """Subtract the mean values, or the mean images, of all channels of an NCHW image."""
    shape = b.static(x, "the image")
    channels = sorted(found.channels, key=lambda c: c.id)
    in_order = [c.id for c in channels] == list(range(len(channels)))
    if len(shape) != 4 or len(channels) != shape[1] or not in_order:
        ids = ", ".join(str(c.id) for c in channels) or "none"
        raise Refusal(f"<pre-process> has the channels {ids}; the input is {list(shape)}")
    if any(c.scale is not None and float(c.scale) != 1 for c in channels):
        raise Refusal("<pre-process> has a scale, which the devices understood differently")
    if all(c.image is not None for c in channels):
        planes = [_plane(b, c, shape[2:], found, source) for c in channels]
        return b.add(Subtract(), x, b.add(Concat(axis=1), *planes))
    if all(c.mean is not None for c in channels):
        means = np.array([float(c.mean or 0) for c in channels], np.float32)
        return b.add(Subtract(), x, b.const(means.reshape(1, -1, 1, 1)))
    if any(c.mean is not None or c.image is not None for c in channels):
        raise Refusal("<pre-process> has a mean for some channels only")
    return x


def _plane(
    b: ImportBuilder, channel: Channel, size: tuple[int, ...], found: PreProcess, source: BlobSource
) -> Value:
    blob = channel.image
    assert blob is not None
    dtype = precision_of(found.precision or "FP32")
    shape = (1, 1, *size)
    if blob.size != dtype.nbytes(size[0] * size[1]):
        raise Refusal(f"a mean image has {blob.size} bytes; it is {list(size)} of {dtype}")
    data = source.data(blob, dtype, shape, (channel.id,))
    made = b.keep(Const(element_type=dtype, shape=shape, data=data))
    return decompressed(b, made) if dtype == f16 else b.convert(made, f32)
