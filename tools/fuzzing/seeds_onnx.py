"""ONNX models to start from: node tests of ONNX, one for each operation, and two chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LARGEST = 6_000  # bytes of a model
OFTEN = {"ConvTranspose": 8, "Conv": 4}  # so many tests of an operation; 1 of others


def models() -> Iterator[tuple[str, bytes]]:
    """Yield models with constants for all inputs but the first, then a chain."""
    from run_onnx_backend import frozen, node_tests

    found: dict[str, list[tuple[int, str, bytes]]] = {}
    for test in node_tests():
        try:
            data = frozen(test).SerializeToString()
        except (NotImplementedError, ValueError):  # a sequence, or a type that NumPy has not
            data = test.model.SerializeToString()
        kinds = {n.op_type for n in test.model.graph.node}
        if len(data) < LARGEST and len(kinds) == 1:
            said = sum(len(n.attribute) for n in test.model.graph.node)
            found.setdefault(min(kinds), []).append((-said, test.name, data))
    for kind, tests in sorted(found.items()):
        for _, name, data in sorted(tests)[: OFTEN.get(kind, 1)]:
            yield f"onnx/{name}", data
    yield from _chain()


def _chain() -> Iterator[tuple[str, bytes]]:
    """Yield three nodes with open sizes, and with a filter in another file."""
    from onnx import helper

    from support.onnx_models import info, model

    w = np.ones((4, 2, 3, 3), np.float32)
    nodes: list[Any] = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "act"),
        helper.make_node("Identity", ["b"], ["y"], "last"),
    ]
    chain = model(nodes, [info("x", ("n", 4, "h", 6))], [info("y", [None] * 4)], {"w": w})
    yield "onnx/chain", chain.SerializeToString()
    tensor = chain.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(w.nbytes))):
        tensor.external_data.add(key=key, value=value)
    yield "onnx/external", chain.SerializeToString()
