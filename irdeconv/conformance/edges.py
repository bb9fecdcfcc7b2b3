"""Layers at the limits: what implementations get wrong once pairs of attributes are right."""

from __future__ import annotations

from typing import Any, NamedTuple


class EdgeCase(NamedTuple):
    """A row by name, what it tests, and which array gets an infinity and a NaN, if any."""

    name: str
    tests: str
    row: dict[str, Any]
    spoil: str | None = None


def _edge(name: str, tests: str, spoil: str | None = None, **row: Any) -> EdgeCase:
    return EdgeCase(name, tests, row, spoil)


_SPREAD = (
    "; the definition multiplies no inserted zero, so more NaN than expected come of 0 * infinity"
)
EDGES = (
    _edge("kernel-below-stride", "outputs that no tap reaches are 0 (or the bias)", kernel=2,
          strides=3, bias=False),
    _edge("kernel-below-stride-bias", "outputs that no tap reaches hold the bias", kernel=2,
          strides=3, bias=True),
    _edge("kernel-1", "a kernel of size 1 between inserted zeros", kernel=1, strides=2),
    _edge("kernel-1-stride-1", "a kernel of size 1 at stride 1: a matrix product", kernel=1,
          strides=1, channels=5, outputs=4),
    _edge("kernel-1-shifted", "a kernel of size 1 at stride 1, moved by its pads while the size "
          "stays", kernel=1, strides=1, pads_begin=1, output_shape=(4, 5, 3)),
    _edge("size-1", "a single position", size=1, kernel=4, strides=2, pads_begin=1, pads_end=1),
    _edge("empty-batch", "no data at all: an output without elements", batch=0),
    _edge("empty-axis", "an axis without data still gives an output, which is 0", size=(0, 4, 3),
          kernel=4, strides=2),
    _edge("output-padding", "output_padding of stride - 1: rows at the end, not at the begin",
          kernel=3, strides=3, output_padding=2, pads_begin=1, pads_end=1),
    _edge("output-padding-alone", "output_padding beyond the last tap: rows of zeros", kernel=2,
          strides=3, output_padding=(2, 1, 2)),
    _edge("same-upper-odd", "which side gets the odd element under same_upper", kernel=5,
          strides=2, auto_pad="same_upper"),
    _edge("same-lower-odd", "which side gets the odd element under same_lower", kernel=5,
          strides=2, auto_pad="same_lower"),
    _edge("same-upper-shape", "same_upper with an output_shape and an odd total", kernel=4,
          strides=2, auto_pad="same_upper", output_shape="smaller"),
    _edge("same-lower-shape", "same_lower with an output_shape and an odd total", kernel=4,
          strides=2, auto_pad="same_lower", output_shape="smaller"),
    _edge("same-short-kernel", "same_upper where the kernel is shorter than the stride", kernel=1,
          strides=3, auto_pad="same_upper"),
    _edge("shape-above-scatter", "an output_shape above the scatter: zeros at the end", kernel=3,
          strides=3, output_shape="larger"),
    _edge("pads-beyond-kernel", "pads that cut off more than the kernel reaches", kernel=3,
          size=(7, 8, 6), pads_begin=6, pads_end=5),
    _edge("pads-at-one-end", "pads at the begin only", kernel=4, pads_begin=(2, 1, 3)),
    _edge("negative-pads", "negative pads: zeros around the scatter", pads_begin=(-2, 0, -1),
          pads_end=(-1, -3, 0)),
    _edge("groups-unequal", "groups of 2 inputs and 3 outputs, each a run of channels", groups=3,
          channels=6, outputs=9),
    _edge("groups-many", "16 groups", groups=16, channels=16, outputs=32),
    _edge("depthwise", "one channel per group", groups=8, channels=8, outputs=8),
    _edge("depthwise-multiplier", "one input and 3 outputs per group", groups=4, channels=4,
          outputs=12),
    _edge("one-channel", "one channel in, one out", channels=1, outputs=1),
    _edge("channels-odd", "channel counts that no vector width divides", channels=37, outputs=29,
          size=3),
    _edge("large-stride", "a stride of 16", kernel=3, strides=16, size=3),
    _edge("large-kernel", "a kernel of 17 over little data", axes=1, kernel=17, strides=4, size=3),
    _edge("large-dilation", "taps 9 apart", kernel=3, dilations=9, size=3),
    _edge("dilation-and-stride", "taps 3 apart at stride 2: they share no residue pattern",
          kernel=3, dilations=3, strides=2, pads_begin=2, pads_end=1),
    _edge("unlike-axes", "everything differs from axis to axis, in 3D", axes=3, kernel=(2, 3, 4),
          strides=(3, 1, 2), dilations=(1, 2, 1), pads_begin=(1, 0, 2), pads_end=(0, 2, 1),
          size=(3, 5, 4)),
    _edge("one-axis", "1D, as in audio", axes=1, kernel=16, strides=8, pads_begin=4, pads_end=4,
          size=9),
    _edge("filter-input", "a filter known only at run time", filter="input", groups=2, channels=4,
          outputs=6),
    _edge("batch", "several items", batch=3, size=3),
    _edge("i8", "data of 8 bits; sums stay below 2^7", element_type="i8", channels=4, outputs=4,
          kernel=2, strides=2),
    _edge("nonfinite-data", "an infinity and a NaN in the data" + _SPREAD, "x", size=(5, 6, 4)),
    _edge("nonfinite-filter", "an infinity and a NaN in the filter" + _SPREAD, "filter",
          size=(5, 6, 4)),
)  # fmt: skip
