"""The outputs of a lowered layer's convolutions, block by block along the channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from irdeconv.spec import Array


@dataclass(frozen=True)
class ConvolutionBlock:
    """Output channels that one convolution makes, or zeros (`weights` None).

    `weights` [g, M/g, C/g, *T]; `channels` [g, C/g] are the data's channels they meet;
    `reading[a][q, t]` is the data's position on spatial axis a that output q reads through tap t,
    -1 for a zero.
    """

    node: int
    count: int
    weights: Array | None = None
    channels: Array | None = None
    reading: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Stack:
    """Blocks behind one another along the channels; `bias` has a value for each channel."""

    blocks: tuple[ConvolutionBlock, ...]
    bias: Array | None = None

    @cached_property
    def ends(self) -> Array:
        """The channel behind each block."""
        return np.cumsum([b.count for b in self.blocks])
