"""ONNX models that are small as files but stand for a lot: limits, and no quadratic work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import irdeconv as ird
from support.rows import each_row

onnx = pytest.importorskip("onnx")

from support import onnx_models  # noqa: E402
from support.onnx_models import info  # noqa: E402


def model(nodes: list[Any], outputs: tuple[str, ...] = ("y",), size: int = 1) -> bytes:
    """Return a model that reads x."""
    ends = [info("x", [size])], [info(o, [size]) for o in outputs]
    return bytes(onnx_models.model(nodes, *ends).SerializeToString())


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, outputs, **attributes)


@each_row(
    ("limits", "nodes", "says"),
    [
        (ird.Limits(ports=7), [node("Sum", ["x"] * 8, ["y"])], "8 inputs or outputs; the limit is"),
        (
            ird.Limits(ports=7),
            [node("Split", ["x"], ["y", *(f"z{i}" for i in range(7))], axis=0)],
            "8 inputs or outputs",
        ),
        (
            ird.Limits(attributes=2),
            [node("LeakyRelu", ["x"], ["y"], alpha=0.5, beta=1, gamma=2)],
            "3 attributes; the limit is 2",
        ),
        (
            ird.Limits(layers=2),
            [node("Relu", [a], [b]) for a, b in ("xa", "ab", "by")],
            "the model has 3 nodes; the limit is 2",
        ),
    ],
)
def test_nodes_beyond_a_limit(limits: ird.Limits, nodes: list[Any], says: str) -> None:
    with limits.applied(), pytest.raises(ird.LimitError, match=says) as caught:
        ird.read(model(nodes))
    assert [d.code for d in caught.value.diagnostics] == ["E601"]


def test_limits_count_what_functions_and_bodies_hold() -> None:
    body = onnx.helper.make_graph([node("Sum", ["x"] * 5, ["s"])], "b", [], [info("s", [1])])
    nodes = [
        node("Constant", [], ["c"], value=onnx.helper.make_tensor("c", 9, [], [1])),
        node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    with ird.Limits(ports=4).applied(), pytest.raises(ird.LimitError, match="5 inputs"):
        ird.read(model(nodes))


def test_a_node_without_an_operation() -> None:
    with pytest.raises(ird.InputError, match="names no operation"):
        ird.read(model([node("", ["x"], ["y"])]))


def test_errors_beyond_the_limit_end_the_reading() -> None:
    nodes = [node("Relu", [f"lost{i}"], [f"z{i}"]) for i in range(9)]
    with ird.Limits(errors=5).applied():
        found = ird.validate(model(nodes))
    assert [d.code for d in found] == ["E204"] * 6 + ["E601"]
    assert "more than 5 errors" in found[-1].message


def test_every_output_has_its_names() -> None:
    """Also where one node has many, or one tensor has many names."""
    names = [f"s{i}" for i in range(64)]
    same = [node("Identity", [a], [b]) for a, b in (("s3", "t3"), ("t3", "u3"), ("u3", "y"))]
    split = node("Split", ["x"], names, axis=0)
    graph = ird.read(model([split, *same], ("s0", "s63", "y"), size=64))
    made = next(graph.nodes("Split"))
    assert [n[0] for n in made.tensor_names] == names
    assert made.names_of(3)[:3] == ("s3", "t3", "u3")
    assert [graph.node(r.id).name for r in graph.results] == ["s0/result", "s63/result", "y/result"]


def test_lowering_tells_of_tensors_that_are_too_large(tmp_path: Path) -> None:
    shape = onnx.helper.make_tensor("w", 1, [1, 1, 2, 2], [1, 2, 3, 4])
    nodes = [
        node("Constant", [], ["w"], value=shape),
        node("ConvTranspose", ["x", "w"], ["y"], strides=[8, 8], dilations=[1, 1], pads=[9] * 4),
    ]
    made = onnx_models.model(nodes, [info("x", (1, 1, 9, 9))], [info("y", None)])
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    bytes_of = 72 * 72 * 4  # of the spread data before it is cropped
    with ird.Limits(tensor_bytes=bytes_of).applied():
        assert ird.lower(ird.read(path)).report.layers[0].form == "zero-insertion"
    with (
        ird.Limits(tensor_bytes=bytes_of - 1).applied(),
        pytest.raises(ird.LimitError, match="takes 20,736 bytes"),
    ):
        ird.lower(ird.read(path))
