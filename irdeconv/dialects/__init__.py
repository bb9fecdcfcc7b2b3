"""Deconvolutions of other systems: attributes, checks and one `expand` each."""

from irdeconv.dialects import openvino

__all__ = ["openvino"]
