"""Comparing values on a grid: a step is allowed only where rounding may cause it."""

import numpy as np
import pytest
from onnx import helper

import irdeconv as ird
from irdeconv.ir.dtypes import f32, u8
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import Clamp
from irdeconv.ops.basic import Convert
from irdeconv.ops.bodies import change_bodies
from irdeconv.ops.elementwise import Add, Divide, Multiply, Round
from support import onnx_models
from support.layers import constant, sequential
from support.rows import each_row


@each_row("at, step", [(at, step) for at in range(6) for step in (-2, -1, 1, 2)])
def test_a_step_of_quantization_is_one_only_at_a_border(at: int, step: int) -> None:
    scale = np.float32(0.3)
    graph = sequential(
        (6,),
        ("scaled", Divide(), {"scale": scale}),
        ("rounded", Round()),
        ("moved", Add(), {"zero": np.float32(128)}),
        ("cut", Clamp(0.0, 255.0)),
        ("quantized", Convert(u8)),
        ("wide", Convert(f32)),
        ("out", Multiply(), {"scale2": scale}),
    )
    x = scale * np.float32([2.5, 2.4, -3.5, 100.1, 0.001, -7.5])
    q = (128 + np.round(x / scale)).astype(np.uint8)
    q[at] = int(q[at]) + step
    y = q.astype(np.float32) * scale
    first = None if at in (0, 2, 5) and abs(step) == 1 else "quantized"
    assert ird.compare(graph, saved := {"quantized": q, "y": y}, [x]).first == first
    y[1] *= np.float32(1.000001)
    assert "y" in [t.name for t in ird.compare(graph, saved, [x]).outputs if not t.passed]


def quantized_lstm(rng: np.random.Generator) -> Graph:
    """A DynamicQuantizeLSTM of 6 steps, 32 sequences and 16 units, in both directions."""
    known = {k: rng.integers(-90, 90, (2, n, 64)).astype(np.int8) for k, n in (("w", 4), ("r", 16))}
    known |= {k: np.full(2, 0.01, np.float32) for k in ("ws", "rs")}
    known |= {k: np.zeros(2, np.int8) for k in ("wz", "rz")}
    inputs = ["x", "w", "r", *[""] * 5, "ws", "wz", "rs", "rz"]
    sizes = {"hidden_size": 16, "direction": "bidirectional"}
    node = helper.make_node(
        "DynamicQuantizeLSTM", inputs, ["y", "h", "c"], "L", "", "com.microsoft", **sizes
    )
    made = onnx_models.model([node], [onnx_models.info("x", (6, 32, 4))], ["y", "h", "c"], known)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return onnx_models.convert(made)


@pytest.mark.parametrize(("error", "passed"), [(1e-5, True), (1e-3, False)])
def test_a_loop_goes_on_with_the_states_of_the_other_side(error: float, passed: bool) -> None:
    """Errors within rounding move some states by a step of the grid, and so all that follows."""
    rng = np.random.default_rng(0)
    graph, x = quantized_lstm(rng), rng.random((6, 32, 4), np.float32)

    def worse(body: Graph) -> Graph:
        made, state = body.copy(), Value(list(body.nodes("Multiply"))[-1].id)
        factor = constant(made, np.float32(1 + error), "factor")
        scaled = made.add(Multiply(), [state, factor], name="scaled").id
        made.replace_uses(state, Value(scaled))
        made.set_input(scaled, 0, state)
        return made

    other = graph.copy()
    change_bodies(other, worse)
    report = ird.compare(graph, ird.run(ird.infer(other), [x]), [x])
    assert report.passed == passed, report
    assert report.tensors[0].max_abs > 1e-4
