"""Operations, one module per family; importing this package fills the registry."""

from irdeconv.ops import (
    basic,
    convert,
    convolution,
    elementwise,
    movement,
    padding,
    pooling,
    shape,
    slicing,
)

__all__ = [
    "basic",
    "convert",
    "convolution",
    "elementwise",
    "movement",
    "padding",
    "pooling",
    "shape",
    "slicing",
]
