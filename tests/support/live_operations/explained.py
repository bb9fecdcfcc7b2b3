"""Disagreements that stay, each with its reason; docs/disagreements.md lists the same titles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from irdeconv.dtypes import ELEMENT_TYPES
from support.live_operations.sample import Sample
from support.live_operations.verdict import Verdict

POOLS = ("AvgPool", "MaxPool")
# Integers of 8 bits in these: the plugin saturates or rounds, by the shapes being open or not.
NARROW = (
    "Add Subtract Multiply Divide SquaredDifference Power MatMul Convolution GroupConvolution "
    "ConvolutionBackpropData GroupConvolutionBackpropData"
).split()


@dataclass(frozen=True)
class Explanation:
    """A kind of disagreement: its title, and which verdicts it explains."""

    title: str
    fits: Callable[[Verdict], bool]


def types(s: Sample) -> set[str]:
    return {g.tensor.dtype.name for g in s.inputs}


def _has(s: Sample, test: Callable[[np.ndarray], np.ndarray], *names: str) -> bool:
    """Whether an input of one of these types (any without names) has such a value."""
    return any(
        bool(np.any(test(g.tensor.values.astype(np.float64))))
        for g in s.inputs
        if g.tensor.dtype.kind != "string" and (not names or g.tensor.dtype.name in names)
    )


def _integers(s: Sample, *bits: int) -> bool:
    return any(
        ELEMENT_TYPES[n].is_integral and ELEMENT_TYPES[n].bits in bits for n in types(s)
    )  # fmt: skip


def _refused(v: Verdict, *codes: str) -> bool:
    return v.kind == "only OpenVINO" and any(c in v.reason for c in codes)


def _packed(v: Verdict) -> bool:
    target = ELEMENT_TYPES.get(v.sample.attributes.get("destination_type", ""))
    return v.sample.type.startswith("Convert") and target is not None and target.is_packed


def _differs(v: Verdict, *names: str) -> bool:
    return v.kind == "differ" and (not names or v.sample.type in names)


EXPLAINED = (
    Explanation(
        "element types that the specification excludes", lambda v: _refused(v, "E303")
    ),
    Explanation(
        "sizes that contradict each other", lambda v: _refused(v, "E302", "cannot reshape")
    ),
    Explanation(
        "LRN over other axes", lambda v: _differs(v, "LRN")
    ),
    Explanation(
        "filters of BinaryConvolution that do not fill bytes",
        lambda v: _differs(v, "BinaryConvolution"),
    ),
    Explanation(
        "samples of unlikely or unsorted classes",
        lambda v: _differs(v, "Multinomial", "Bucketize", "SearchSorted"),
    ),
    Explanation(
        "nothing in an axis",
        lambda v: v.kind in ("differ", "only OpenVINO")
        and (
            any(0 in g.tensor.values.shape for g in v.sample.inputs)
            or (v.sample.type == "Broadcast" and _has(v.sample, lambda x: x == 0, "i64", "i32"))
        ),
    ),
    Explanation(
        "indices and labels out of range",
        lambda v: _refused(v, "out of bounds", "E305", "reach from", "is of image")
        or _differs(v, "Gather", "GatherElements", "GatherND"),
    ),
    Explanation(
        "attributes out of range or against the inputs", lambda v: _refused(v, "E210", "E304")
    ),
    Explanation(
        "auto_broadcast none with unequal shapes",
        lambda v: _differs(v) and v.sample.attributes.get("auto_broadcast") == "none",
    ),
    Explanation(
        "infinities and NaN of f64",
        lambda v: _differs(v)
        and "f64" in types(v.sample)
        and (any(t in v.reason for t in ("inf", "e+38")) or _has(v.sample, _lost, "f64")),
    ),
    Explanation(
        "maxima and minima of infinities",
        lambda v: _differs(v, "ReduceMax", "ReduceMin") and _has(v.sample, np.isinf),
    ),
    Explanation(
        "8-bit integers that overflow or are divided",
        lambda v: _differs(v, *NARROW) and _integers(v.sample, 8),
    ),
    Explanation(
        "functions of integers of open shapes",
        lambda v: _differs(v) and len(v.sample.inputs) == 1 and _integers(v.sample, 8, 16),
    ),
    Explanation(
        "integers beyond 32 bits",
        lambda v: _differs(v) and (_integers(v.sample, 64) or "u32" in types(v.sample))
        and ("2147483" in v.reason or _has(v.sample, lambda x: np.abs(x) >= 2**31)),
    ),
    Explanation(
        "integers computed in f32",
        lambda v: _differs(v, *NARROW) and _integers(v.sample, 16, 32, 64),
    ),
    Explanation(
        "a Range of reals as integers",
        lambda v: _differs(v, "Range") and bool({"f32", "f16"} & types(v.sample)),
    ),
    Explanation(
        "a Range whose step leads away",
        lambda v: _differs(v, "Range") and "shape [0], OpenVINO" in v.reason,
    ),
    Explanation(
        "a Tile of fewer repeats than axes",
        lambda v: _differs(v, "Tile")
        and v.sample.inputs[1].tensor.values.size < v.sample.inputs[0].tensor.values.ndim,
    ),
    Explanation(
        "sequence_lengths that are an input",
        lambda v: _differs(v, "RNNSequence", "GRUSequence", "LSTMSequence"),
    ),
    Explanation("the inverse of a singular matrix", lambda v: _differs(v, "Inverse")),
    Explanation(
        "places of Unique in 8 bits",
        lambda v: _differs(v, "Unique") and bool({"u8", "i8", "boolean"} & types(v.sample)),
    ),
    Explanation("packed results", _packed),
    Explanation(
        "a pad value in 16 bits that is no constant",
        lambda v: _differs(v, "Pad") and bool({"bf16", "f16"} & types(v.sample)),
    ),
    Explanation(
        "windows that see nothing but padding", lambda v: _differs(v, *POOLS)
        and (", OpenVINO nan" in v.reason or "-65504" in v.reason or "f32" not in types(v.sample)),
    ),
)  # fmt: skip


def _lost(values: np.ndarray) -> np.ndarray:
    return ~np.isfinite(values)


def explanation(verdict: Verdict) -> str:
    """The title of what explains a disagreement; empty where nothing does."""
    return next((e.title for e in EXPLAINED if e.fits(verdict)), "")
