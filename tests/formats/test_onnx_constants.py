"""Constants of an ONNX file that are computed: by long chains of nodes."""

from __future__ import annotations

from onnx import helper

import irdeconv as ird
from support.onnx_models import Layer, checked, types

UP = Layer(data=(1, 4, 5, 6), filter=(4, 3, 4, 4), attributes={"strides": [2, 2], "pads": [1] * 4})


def test_a_filter_behind_a_thousand_steps() -> None:
    made = UP.model()
    (node,) = (n for n in made.graph.node if n.op_type == "ConvTranspose")
    given, node.input[1] = node.input[1], "w1100"
    steps = [
        helper.make_node("Identity", [f"w{i}" if i else given], [f"w{i + 1}"]) for i in range(1100)
    ]
    nodes = [*steps, *made.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    data = made.SerializeToString()
    low, _ = ird.lower_onnx(data)
    assert ird.check_onnx(data, checked(low).SerializeToString()).passed
    assert "Identity" not in types(low)
    assert given not in {t.name for t in low.graph.initializer}
