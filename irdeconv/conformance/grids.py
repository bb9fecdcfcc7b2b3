"""The packaged grids: values of every attribute of every dialect, crossed pairwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from irdeconv.conformance.covering import Covering, covering
from irdeconv.conformance.rows import OWN, base
from irdeconv.conformance.rules import allowed

_UNEVEN = {"kernel": (4, 2, 3), "strides": (2, 3, 1), "dilations": (1, 3, 2)}
_SHARED: dict[str, tuple[Any, ...]] = {
    "axes": (2, 1, 3),
    "batch": (1, 2),
    "groups": (1, 2, 6),
    "channels": (6, 12),
    "outputs": (6, 12),
    "kernel": (3, 1, 2, _UNEVEN["kernel"]),
    "strides": (2, 1, 3, _UNEVEN["strides"]),
    "dilations": (1, 2, _UNEVEN["dilations"]),
    "auto_pad": ("explicit", "same_upper", "same_lower", "valid"),
    "pads_begin": (0, 1, (1, 0, 2), 5),
    "pads_end": (0, 1, (0, 2, 1), 5),
    "output_padding": (0, 1, (1, 0, 1)),
    "output_shape": ("none", "full", "smaller", "larger"),
    "element_type": ("f32", "f16"),
    "filter": ("constant", "input"),
    "bias": (False, True),
}
_OF: dict[str, dict[str, tuple[Any, ...]]] = {
    "openvino": {
        "pads_begin": (0, 1, (1, 0, 2), 5, (-1, 0, -2)),
        "pads_end": (0, 1, (0, 2, 1), 5, (0, -2, -1)),
        "element_type": ("f32", "f16", "bf16", "i32"),
        "bias": (False,),
    },
    "onednn": {
        "pads_end": (0, 1, (0, 2, 1), 5, -1),
        "element_type": ("f32", "f16", "bf16"),
        "output_shape": ("none",),
    },
    "onnx": {"element_type": ("f32", "f16", "f64", "bf16")},
    "ort-nhwc": {"element_type": ("f32", "f16", "f64")},
    "tensorrt": {
        "axes": (2, 3),
        "auto_pad": ("explicit", "same_upper", "same_lower"),
        "output_padding": (0,),
        "output_shape": ("none",),
        "element_type": ("f32", "f16", "bf16"),
    },
}


def factors(dialect: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of every attribute that the grid crosses, the usual one first."""
    every = _SHARED | _OF[dialect] | OWN[dialect]
    return {name: values for name, values in every.items() if len(values) > 1}


def fixed(dialect: str) -> dict[str, Any]:
    """Return the attributes that have one value in the grid."""
    every = _SHARED | _OF[dialect] | OWN[dialect]
    return {name: values[0] for name, values in every.items() if len(values) == 1}


@cache
def grid(dialect: str, strength: int) -> Covering:
    """Return the rows in which every value (1) or every allowed pair of values (2) occurs."""
    return cover(dialect, factors(dialect), fixed(dialect), strength)


def cover(
    dialect: str,
    crossed: Mapping[str, Sequence[Any]],
    plain: Mapping[str, Any],
    strength: int,
) -> Covering:
    """Cross attributes of a dialect; `plain` are values that all rows have."""
    rest = {n: v for n, v in {**base(dialect), **plain}.items() if n not in crossed}
    found = covering(crossed, lambda row: allowed(dialect, {**rest, **row}), strength)
    return Covering([{**plain, **row} for row in found.rows], found.impossible)
