"""Whether a plan that runs a single time gains by compiled kernels."""

from __future__ import annotations

from irdeconv.errors import OpError
from irdeconv.graph import Graph
from irdeconv.ops.bodies import bodies_of

# Nanoseconds on one thread, with NumPy alone, measured on networks of all kinds.
MAC = 0.03  # of a (de)convolution or product of matrices
ELEMENT = 1.0  # of an output of any layer
COMPILED_SAVES = 0.3  # the part of it that compiled kernels save; much more for few networks
LOADING = 0.5e9  # to import numba and to load compiled code from the disk


def gains_by_compiling(graph: Graph) -> bool:
    """Whether one run of an inferred graph is estimated to save what loading takes.

    Unknown sizes count nothing. The answer depends on the graph alone, not on what the process has
    loaded before, so that a run gives the same bits every time.
    """
    return COMPILED_SAVES * _nanoseconds(graph) > LOADING


def _nanoseconds(graph: Graph) -> float:
    total = 0.0
    for node in graph.nodes():
        outputs = node.specs or ()
        try:
            macs = node.op.macs(graph.input_specs(node.id), outputs)
        except (IndexError, OpError):
            macs = None
        total += sum(_nanoseconds(body.graph) for body in bodies_of(node))
        total += MAC * (macs or 0)
        if node.type != "Const":
            total += ELEMENT * sum(s.size or 0 for s in outputs)
    return total
