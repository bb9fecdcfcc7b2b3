"""The attributes that a proof reads of nodes; it imports no class of an operation."""

from __future__ import annotations

from typing import Protocol, cast

from irdeconv.dtypes import ElementType
from irdeconv.graph import Node
from irdeconv.spec import Array

Ints = tuple[int, ...]


class Elements(Protocol):
    """The elements of a constant; `available`: whether its file is there."""

    available: bool

    def array(self) -> Array:
        """Return them."""


class Attributes(Protocol):
    """What operations call their attributes; each has some of these, with these types."""

    version: str
    versions: tuple[str, ...]

    activation: str | None
    activation_params: tuple[float, ...]
    align_corners: bool
    auto_pad: str
    axes: Ints
    axis: int
    batch_dims: int
    begin_mask: Ints
    block_size: int
    coordinate_transformation_mode: str
    data: Elements
    data_format: str
    destination_type: ElementType
    dilation: Ints
    dilations: Ints
    element_type: ElementType
    ellipsis_mask: Ints
    end_mask: Ints
    filter_format: str | None
    group: int
    groups: int
    max: float
    min: float
    mode: str
    nearest_mode: str
    new_axis_mask: Ints
    num_groups: int
    output_padding: Ints
    output_shape: Ints
    pad_mode: str
    padding: Ints
    padding_mode: str
    pads: Ints
    pads_begin: Ints
    pads_end: Ints
    post_padding: Ints
    pre_padding: Ints
    semantics: str
    shape_calculation_mode: str
    shrink_axis_mask: Ints
    special_zero: bool
    stride: Ints
    strides: Ints
    trailing: bool
    weights_format: str | None


def attributes_of(node: Node) -> Attributes:
    """Return a node's attributes, of which its type says which there are."""
    return cast(Attributes, node.op)
