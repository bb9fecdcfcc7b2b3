"""What a convolution of a decomposition is computed with: its pads and its filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irdeconv.errors import OpError
from irdeconv.graph import Graph, Value
from irdeconv.op import as_tuple
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.passes.raising.size import Unreadable
from irdeconv.passes.raising.tensor import Signal
from irdeconv.passes.stored import constant
from irdeconv.spec import Array

LONGEST = 24  # nodes in front of or behind a convolution, or on the way to a constant


def pads_of(
    op: ConvolutionBase, spans: Sequence[int], producer: str, signals: Sequence[Signal]
) -> list[tuple[int, int]]:
    """Return the pads of a convolution; Unreadable where OpenVINO takes others.

    `spans` are D(K-1), `producer` is the type of the layer in front, `signals` are what it reads.
    """
    if op.auto_pad == "valid":
        return [(0, 0) for _ in spans]
    if op.auto_pad in ("same_upper", "same_lower"):
        if max(op.strides, default=1) > 1:
            raise Unreadable("the pads of a convolution with a stride follow from the size")
        # A ZeroInsertion is written with a Pad at its end.
        if producer in ("Pad", "ZeroInsertion") and None in [s.size.number for s in signals]:
            raise Unreadable("automatic pads behind a Pad of open sizes: OpenVINO forgets them")
        small = [n // 2 for n in spans]
        rows = [(h, n - h) for h, n in zip(small, spans, strict=True)]
        return rows if op.auto_pad == "same_upper" else [(q, p) for p, q in rows]
    zeros = (0,) * len(spans)
    pads = list(zip(op.pads_begin or zeros, op.pads_end or zeros, strict=True))
    if min(map(min, pads), default=0) < 0:
        raise Unreadable("the convolution has negative pads, which OpenVINO refuses")
    return pads


def is_finite(values: Array) -> bool:
    """Whether an array has neither infinities nor NaN."""
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return bool(np.isfinite(values.astype(np.float64)).all())


def folded(graph: Graph, value: Value, depth: int = 0) -> Array | None:
    """Return a value that is computed from constants alone, None for any other."""
    array = constant(graph, value)
    node = graph.node(value.node)
    inputs = graph.inputs_of(node.id)
    if array is not None or not inputs or depth > LONGEST or not node.op.pure:
        return array
    arrays = [folded(graph, v, depth + 1) for v in inputs]
    if any(a is None for a in arrays):
        return None
    try:
        made: Array = as_tuple(node.op.evaluate(*arrays))[value.port]
    except (OpError, ValueError, TypeError, IndexError):
        return None
    return made
