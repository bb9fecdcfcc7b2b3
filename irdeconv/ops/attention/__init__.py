"""Attention."""

from irdeconv.ops.attention import scaled_dot_product
