"""Run a graph in OpenVINO, for verbs that let the user choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irdeconv.graph import Graph
    from irdeconv.spec import Array


def outputs_of(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that OpenVINO computes, in order; UnsupportedError (E506) where it cannot.

    UsageError where the package is missing.
    """
    from irdeconv.benchmark.peers import Source, peers
    from irdeconv.errors import Diagnostic, UnsupportedError

    with peers(["openvino"], Source(graph), inputs) as (openvino,):
        if openvino.run is None:
            message = f"OpenVINO does not run the model: {openvino.problem}"
            raise UnsupportedError(Diagnostic("E506", "error", message))
        return [array.copy() for array in openvino.run()]
