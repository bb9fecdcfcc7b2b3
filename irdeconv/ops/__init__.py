"""Operations, one module per family; importing this package fills the registry."""

from irdeconv.ops import basic, convolution

__all__ = ["basic", "convolution"]
