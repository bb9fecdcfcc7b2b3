"""Comparing values on a grid: a step is allowed only where rounding may cause it."""

import zipfile
from pathlib import Path

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
from support.body_models import body, const, model, node, parameter, results
from support.commands import answer
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
    layer = helper.make_node(
        "DynamicQuantizeLSTM", inputs, ["y", "h", "c"], "L", "", "com.microsoft", **sizes
    )
    made = onnx_models.model([layer], [onnx_models.info("x", (6, 32, 4))], ["y", "h", "c"], known)
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


def rounding_loop(y: str = "", result: int = 4, part: int = 1, tail: str = results(3)) -> Graph:
    """A loop over 4 rows: the state %4 is the row plus the rounded state before."""
    inner = parameter(0, "row", "1,2") + parameter(1, "state", "1,2")
    inner += node(3, "opset5.Round", 1) + node(4, "opset1.Add", 0, 3) + y
    inner += results(4, result, first=20)
    text = parameter(0, "x", "4,2") + const(2, [[0.0, 0.0]])
    text += node(3, "opset1.TensorIterator", 0, 2)
    joined = f"[[21, 0, [0, 0, -1, {part}, {part}]], [20, 1]]"
    text += body(inner, "[[0, 0, [0, 0, -1, 1, 1]], [1, 1]]", joined, "[[20, 1]]")
    return ird.infer(ird.parse(model(text + tail)))


X = np.float32([[0.5, 0.3], [1.2, 2.1], [3.3, 0.4], [0.2, 1.1]])  # the first state is a tie
PADS = const(5, [0, 0], "i64") + const(7, [1, 0], "i64")
MOVED = {
    "before": const(5, [[0.5, 7.0]]) + node(6, "opset1.Concat", 3, 5, more="{axis = 0}"),
    "behind": const(5, [[1.0, 2.0]]) + node(6, "opset1.Concat", 5, 3, more="{axis = 0}"),
    "filled": PADS + node(6, "opset1.Pad", 3, 5, 7, more='{pad_mode = "constant"}'),
}


@pytest.mark.parametrize("tail", MOVED.values(), ids=MOVED)
@pytest.mark.parametrize(("error", "passed"), [(1e-7, True), (1e-3, False)])
def test_states_are_found_beside_constants(tail: str, error: float, passed: bool) -> None:
    """A state above the tie moves all that follow by a step."""
    graph = rounding_loop(tail=tail + results(6))
    (theirs,) = ird.run(graph, [X + np.float32(error) * (np.arange(8).reshape(4, 2) == 0)]).values()
    report = ird.compare(graph, {"n6": theirs}, [X])
    assert report.passed == passed, report
    assert report.tensors[0].max_abs == 1


@pytest.mark.parametrize(
    ("y", "part"),
    [
        (node(8, "opset1.Concat", 4, 4, more="{axis = 0}"), 2),
        (const(7, 0.5) + node(8, "opset1.Multiply", 4, 7), 1),
    ],
    ids=["twice", "half"],
)
def test_what_is_no_state_is_not_fed_back(y: str, part: int) -> None:
    graph = rounding_loop(y, 8, part)
    (theirs,) = ird.run(graph, [X]).values()
    theirs[1, 0] += 0.25
    (tensor,) = ird.compare(graph, {"n3": theirs}, [X]).tensors[:1]
    assert (tensor.passed, tensor.own_at) == (False, (1, 0))
    assert tensor.own == pytest.approx(0.25)


def test_states_are_found_behind_a_long_way() -> None:
    """Each of 64 layers reads the one before twice."""
    way = const(5, 0, "i64")
    for at in range(6, 134, 2):
        way += node(at, "opset1.Split", at - 1 if at > 6 else 3, 5, more="{num_splits = 2}")
        way += node(at + 1, "opset1.Concat", f"%{at}#0", f"%{at}#1", more="{axis = 0}")
    graph = rounding_loop(tail=way + results(133, first=200))
    (theirs,) = ird.run(graph, [X + np.float32(1e-7) * (np.arange(8).reshape(4, 2) == 0)]).values()
    report = ird.compare(graph, {"n133": theirs}, [X])
    assert report.passed, report
    assert report.tensors[0].max_abs == 1


def test_a_wrong_state_is_reported_where_it_is() -> None:
    graph = rounding_loop()
    (theirs,) = ird.run(graph, [X]).values()
    theirs[1, 0] += 3
    (tensor,) = ird.compare(graph, {"n3": theirs}, [X]).tensors[:1]
    assert (tensor.passed, round(tensor.own), tensor.own_at) == (False, 3, (1, 0))


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    model_file, file = tmp_path / "net.xml", tmp_path / "saved.npz"
    ird.write(rounding_loop(), model_file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("n3.npy", b"none")
    text = " ".join(answer("compare", model_file, file, code=6).err.split())
    assert f"{file}[n3] cannot be read: it is no .npy" in text
    assert "--dump all -o FILE.npz saves all layers" in text
