"""Estimates of the work of an operation, in the units of `base.work`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from irdeconv.base.work import PER_INTERVAL, PER_TENSOR
from irdeconv.ir.certainty import MOVED
from irdeconv.ir.spec import Spec

# Modules of `ops` whose operations may look at every input element for every output element.
PRODUCTS = frozenset(
    "attention convolution detection_output detectron image matrix pooling recurrent regions "
    "signal sparse suppression".split()
)
TAPS = 64  # of Interpolate, for each element of input and output


def size_in_units(spec: Spec) -> int:
    """Return the units of a tensor: its bytes, more if it is known as intervals."""
    if spec.value is not None and spec.value.dtype == object:
        steps = zip(spec.value.strides, spec.value.shape, strict=True)
        return PER_INTERVAL * int(math.prod(n for step, n in steps if step))
    item: int = 8 if spec.dtype is None else spec.dtype.container.itemsize
    return (spec.size or 0) * item


def effort(op: Any, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> int:
    """Return the units that computing the outputs takes at most, about."""
    out = sum(map(size_in_units, outputs)) + PER_TENSOR * (len(inputs) + len(outputs))
    if op.type in MOVED:
        return out
    read = sum(map(size_in_units, inputs))
    if op.type == "Interpolate":
        return TAPS * (read + out)
    wide = type(op).__module__.rpartition(".")[2] in PRODUCTS or op.deconvolution
    if not wide and op.type != "LRN":
        return read + out
    macs = op.macs(tuple(inputs), tuple(outputs))
    sizes = (sum(s.size or 0 for s in specs) for specs in (inputs, outputs))
    return read + out + (macs or math.prod(sizes))
