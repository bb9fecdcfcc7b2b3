"""Prove one lowered layer equal to its source layer for all data, weights and bias.

Nothing of the lowering, of irdeconv.geometry or of the kernels is used: the definition is written
once more in definition.py, and what the emitted nodes compute is found by walking them.

Sizes that are open: where every pad and crop is a constant, all nodes on the way and the definition
itself do not change with the size but at a bounded distance from both ends; in between both repeat
with period 1 of the input. So equality at every size up to the sum of all these distances, and one
more, is equality at every size. Where pads follow from sizes at run time, the proof holds for the
sizes that were walked, and says so.
"""

from __future__ import annotations

import math

import numpy as np

from irdeconv.graph import Graph
from irdeconv.spec import Array, is_static
from irdeconv.verify.proof.attributes import Ints
from irdeconv.verify.proof.definition import Unproved
from irdeconv.verify.proof.layer import LayerPlace, SourceLayer
from irdeconv.verify.proof.relation import Comparer, Expected
from irdeconv.verify.proof.sizes import ExactSizes, choices, repeats_from
from irdeconv.verify.proof.walk import Boundary, Walk

ROUNDED = ", up to the rounding of sums of filter elements"


def prove(layer: SourceLayer, graph: Graph, place: LayerPlace) -> str:
    """Prove a layer; returns for which sizes. Raises Unproved with the reason and sizes."""
    done: set[tuple[object, ...]] = set()
    margin = repeats_from(layer, graph, place)
    walked, rounded = 0, False
    for sizes in choices(layer, margin):
        expected = _expected(layer, sizes)
        if expected is None:
            continue
        try:
            view = Walk(graph, _boundary(layer, place, sizes)).view(place.output)
            if view.base is None:
                raise Unproved("no convolution was found")
            comparer = Comparer(expected, view, view.base, done)
            comparer.compare()
            rounded |= comparer.rounded
        except Unproved as e:
            raise Unproved(f"{e}{_at(layer, sizes)}") from None
        walked += 1
    if not walked:
        raise Unproved("no size was found for which the layer has an output")
    return _claim(layer, walked, margin) + (ROUNDED if rounded else "")


def _at(layer: SourceLayer, sizes: ExactSizes) -> str:
    open_sizes = not is_static(layer.data) or layer.computed_output
    return f" (data {list(sizes.data)})" if open_sizes else ""


def _claim(layer: SourceLayer, walked: int, margin: int | None) -> str:
    """Say for which sizes a layer is proved."""
    if is_static(layer.data) and is_static(layer.filter_shape) and not layer.computed_output:
        return f"the size {list(layer.data)}"
    if margin is not None:
        return f"every size (all {walked} up to where the pattern repeats were walked)"
    return (
        f"{walked} representative sizes only: pads or filter follow from sizes at run time, or the "
        "pattern repeats late"
    )


def _expected(layer: SourceLayer, sizes: ExactSizes) -> Expected | None:
    """Return the definition at exact sizes; None where the layer has no output at them."""
    d = layer.definition
    filter = layer.filter
    if filter is None:
        filter = _numbers(sizes.filter)
    canonical = d.canonical_filter(filter)
    wanted = sizes.output_shape or layer.output_shape
    windows = tuple(d.windows(sizes.data, canonical.shape, wanted))
    if min(o for _, o in windows) < 0:
        return None
    bias = layer.bias
    if layer.has_bias and bias is None:
        bias = _numbers((canonical.shape[0] * canonical.shape[2],))
    if sizes.data[d.data_axes[1]] != canonical.shape[0] * canonical.shape[1]:
        raise Unproved("data and filter of the source layer do not fit")
    return Expected(
        definition=d,
        shape=sizes.data,
        filter=canonical,
        windows=windows,
        bias=bias,
        numbered=layer.filter is None,
    )


def _numbers(shape: Ints) -> Array:
    """Return the numbers of elements, from 1 on."""
    return np.arange(1, math.prod(shape) + 1).reshape(shape)


def _boundary(layer: SourceLayer, place: LayerPlace, sizes: ExactSizes) -> Boundary:
    numbered = {}
    if layer.filter is None:
        if place.filter is None:
            raise Unproved("the filter is computed, but not found in the lowered graph")
        numbered["filter"] = (place.filter, _numbers(sizes.filter))
    if layer.has_bias and layer.bias is None:
        if place.bias is None:
            raise Unproved("the bias is computed, but not found in the lowered graph")
        count = layer.definition.canonical_shape(sizes.filter)
        numbered["bias"] = (place.bias, _numbers((count[0] * count[2],)))
    computed = None
    if sizes.output_shape is not None and place.output_shape is not None:
        computed = (place.output_shape, sizes.output_shape)
    return Boundary(
        data=place.data,
        shape=sizes.data,
        data_axes=layer.definition.data_axes,
        numbered=numbered,
        output_shape=computed,
    )
