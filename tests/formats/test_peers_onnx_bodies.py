"""Slices, branches, loops and scans of ONNX: imported and written for OpenVINO they compute what
ONNX Runtime does.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird
from support.onnx_models import agree, convert, info, model, real, runtime

pytestmark = pytest.mark.oracles

BOOL, I64 = TensorProto.BOOL, TensorProto.INT64


def node(type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(type, inputs.split(), outputs.split(), **attributes)


def body(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Any) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, tensors)


def loop_body(nodes: list[Any], shape: list[Any], *kept: str, **constants: Any) -> Any:
    """The body of a Loop whose state v becomes `next`; `on` says whether it goes on."""
    inputs = [info("i", [], I64), info("go", [], BOOL), info("v", shape)]
    outputs = [info("on", [], BOOL), info("next", shape), *(info(k, []) for k in kept)]
    return body(nodes, inputs, outputs, **constants)


def test_slices_whose_ends_are_reshaped(tmp_path: Path) -> None:
    """PyTorch writes 2^63 - 1 so, which no 32 bits hold; shapes may follow from it."""
    ends = {"last": 2**63 - 1, "first": -(2**63), "zero": 0, "one": 1, "two": 2, "back": -1}
    reshaped = [node("Reshape", f"{k} vector", f"{k}s") for k in ends]
    slices = [
        node("Slice", "x zeros lasts ones twos", "a"),
        node("Slice", "x backs firsts ones backs", "b"),
    ]
    constants = {k: np.array(v) for k, v in ends.items()} | {"vector": np.array([-1])}
    outputs = [info("a", None), info("b", None)]
    made = model([*reshaped, *slices], [info("x", [2, 5])], outputs, constants)
    agree(made, {"x": real(np.random.default_rng(5), 2, 5)}, tmp_path / "m.xml")


def test_branches(tmp_path: Path) -> None:
    """The condition has axes; both see values from outside; the shapes of their outputs differ."""
    rng = np.random.default_rng(1)
    then = body([node("Mul", "x w", "t")], [], [info("t", None)])
    other = body([node("Concat", "x x", "u", axis=0), node("Neg", "u", "e")], [], [info("e", None)])
    nodes = [
        node("ReduceSum", "x", "s", keepdims=1),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
        node("Relu", "y", "z"),
    ]
    constants = {"w": real(rng, 3), "zero": np.float32(0)}
    made = model(nodes, [info("x", [2, 3])], [info("z", None)], constants)
    x = np.abs(real(rng, 2, 3))
    for data in (x, -x):
        agree(made, {"x": data}, tmp_path / "m.xml")


def test_a_branch_that_does_not_fit(tmp_path: Path) -> None:
    """As in ONNX Runtime, only a run that chooses it fails, and deeper inside too."""
    rng = np.random.default_rng(3)
    wrong = body([node("MatMul", "x w", "e")], [], [info("e", None)])
    negated = body([node("Neg", "x", "n")], [], [info("n", None)])
    inner = node("If", "d", "o", then_branch=wrong, else_branch=negated)
    outer = body([inner, node("Relu", "o", "t")], [], [info("t", None)])
    ends = [info("x", ["n", "m"]), info("c", [], BOOL), info("d", [], BOOL)]
    choose = {"then_branch": outer, "else_branch": wrong}
    made = model([node("If", "c", "y", **choose)], ends, [info("y", None)], {"w": real(rng, 5, 3)})
    feeds = {"x": np.float32([[-1, 2, 3]]), "c": np.array(True), "d": np.array(False)}
    graph = convert(made, shapes={"x": (1, 3)})
    (found,), (wanted,) = ird.run(graph, feeds).values(), runtime(made, feeds)
    assert np.array_equal(found, wanted)
    for other in ({"c": np.array(False)}, {"d": np.array(True)}):
        with pytest.raises(ird.IrdeconvError, match="the branch does not fit"):
            ird.run(graph, feeds | other)
    with pytest.raises(ird.IrdeconvError, match="the branch does not fit"):
        ird.write(graph, tmp_path / "m.xml")
    for branch in made.graph.node[0].attribute:
        branch.g.CopyFrom(wrong)
    with pytest.raises(ird.InferenceError, match="E302"):
        convert(made, shapes={"x": (1, 3)})


def test_a_known_condition_leaves_one_branch() -> None:
    then = body([node("Relu", "x", "t")], [], [info("t", None)])
    other = body([node("Neg", "x", "e")], [], [info("e", None)])
    nodes = [
        node("Shape", "x", "s"),
        node("Size", "s", "r"),
        node("Equal", "r two", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]
    made = model(nodes, [info("x", ["n", 3])], [info("y", None)], {"two": np.array(2)})
    assert [n.type for n in convert(made).nodes()] == ["Parameter", "ReLU", "Result"]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_counted_loop(count: int, tmp_path: Path) -> None:
    """Powers of a matrix; each step is kept, and the number of the iteration is added."""
    rng = np.random.default_rng(2)
    steps = [
        node("MatMul", "v w", "m"),
        node("Cast", "i", "f", to=1),
        node("Add", "m f", "next"),
        node("Identity", "go", "on"),
        node("ReduceSum", "next", "kept", keepdims=0),
    ]
    made = model(
        [node("Loop", "count go0 x", "y ys", body=loop_body(steps, [2, 3], "kept"))],
        [info("x", [2, 3]), info("count", [], I64)],
        [info("y", None), info("ys", None)],
        {"w": real(rng, 3, 3), "go0": np.array(True)},
    )
    agree(made, {"x": real(rng, 2, 3), "count": np.array(count)}, tmp_path / "m.xml")


def test_loop_that_stops_by_itself(tmp_path: Path) -> None:
    """Doubled until the sum is large; what is kept is as long as it took; conditions have axes."""
    steps = [
        node("Add", "v v", "next"),
        node("ReduceSum", "next", "kept", keepdims=1),
        node("Less", "kept limit", "on"),
    ]
    inner = loop_body(steps, [2, 3], "kept", limit=np.float32(100))
    inner.input[1].CopyFrom(info("go", [1, 1], BOOL))
    inner.output[0].CopyFrom(info("on", [1, 1], BOOL))
    inner.output[2].CopyFrom(info("kept", [1, 1]))
    made = model(
        [node("Loop", "most go0 x", "y ys", body=inner)],
        [info("x", [2, 3])],
        [info("y", None), info("ys", None)],
        {"most": np.array(50), "go0": np.array([[True]])},
    )
    agree(made, {"x": np.ones((2, 3), np.float32)}, tmp_path / "m.xml")


def test_loop_that_grows(tmp_path: Path) -> None:
    """A state whose size changes in each iteration."""
    steps = [node("Concat", "v x", "next", axis=0), node("Identity", "go", "on")]
    nodes = [
        node("Loop", "three go0 x", "y", body=loop_body(steps, [None, 2])),
        node("Shape", "y", "size"),
        node("Reshape", "y flat", "z"),
    ]
    made = model(
        nodes,
        [info("x", [2, 2])],
        [info("z", None), info("size", None, I64)],
        {"three": np.array(3), "go0": np.array(True), "flat": np.array([-1])},
    )
    agree(made, {"x": np.array([[1, 2], [3, 4]], np.float32)}, tmp_path / "m.xml")


@pytest.mark.parametrize(("into", "out_of"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scan(into: int, out_of: int, tmp_path: Path) -> None:
    """Running sums along axis 1, forwards and backwards; the outputs are joined along axis 1.

    The runtime would fuse a product with a constant into the sum, and forget the state then.
    """
    rng = np.random.default_rng(3)
    inner = body(
        [node("Add", "s part", "next"), node("Mul", "next w", "kept")],
        [info("s", [2, 3]), info("part", [2, 3])],
        [info("next", [2, 3]), info("kept", [2, 3])],
    )
    attributes = {
        "num_scan_inputs": 1,
        "scan_input_axes": [1],
        "scan_output_axes": [1],
        "scan_input_directions": [into],
        "scan_output_directions": [out_of],
    }
    made = model(
        [node("Scan", "s0 x", "y ys", body=inner, **attributes)],
        [info("x", [2, 4, 3])],
        [info("y", None), info("ys", None)],
        {"s0": real(rng, 2, 3), "w": real(rng, 3)},
    )
    agree(made, {"x": real(rng, 2, 4, 3)}, tmp_path / "m.xml")


def test_loop_in_a_branch(tmp_path: Path) -> None:
    inner = loop_body([node("Add", "v w", "next"), node("Identity", "go", "on")], [2])
    then = body([node("Loop", "three go0 x", "t", body=inner)], [], [info("t", [2])])
    other = body([node("Neg", "x", "e")], [], [info("e", [2])])
    nodes = [
        node("Mul", "x two", "w"),
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]
    constants = {"three": np.array(3), "go0": np.array(True)}
    constants |= {"two": np.float32(2), "zero": np.float32(0)}
    made = model(nodes, [info("x", [2])], [info("y", None)], constants)
    for data in ([1, 2], [-1, -2]):
        agree(made, {"x": np.array(data, np.float32)}, tmp_path / "m.xml")


def test_what_is_wrong_inside_is_told() -> None:
    then = body([node("TfIdfVectorizer", "x", "t")], [], [info("t", None)])
    other = body([node("Neg", "x", "e")], [], [info("e", None)])
    made = model(
        [node("If", "c", "y", name="choice", then_branch=then, else_branch=other)],
        [info("x", [2]), info("c", [], BOOL)],
        [info("y", None)],
    )
    with pytest.raises(ird.UnsupportedError) as e:
        convert(made)
    (found,) = e.value.diagnostics
    assert found.layer == "choice"
    assert "in its body: TfIdfVectorizer" in found.message
