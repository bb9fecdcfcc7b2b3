"""Lowering ONNX models of old operation sets: what has no spelling there stays, with the reason."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

import irdeconv as ird
from support.onnx_models import Layer, checked, types
from support.rows import each_row

PLAIN = {"strides": [2, 2], "pads": [1] * 4}
SIZED = {"strides": [2, 2], "output_shape": [10, 13]}


def layer(opset: int, **attributes: list[int]) -> bytes:
    open_axes = (2,) if "output_shape" in attributes else ()
    made = Layer(
        data=(1, 4, 5, 6), filter=(4, 3, 4, 4), opset=opset, open=open_axes, attributes=attributes
    )
    data: bytes = made.model().SerializeToString()
    return data


@each_row("opset", [7, 9, 10])
def test_an_old_set_in_which_all_can_be_said(opset: int) -> None:
    low, report = ird.lower_onnx(layer(opset, **PLAIN))
    assert [r.reason for r in report] == [None]
    assert types(checked(low)) == ["Reshape", "Pad", "Reshape", "Conv", "Neg"]
    assert ird.check_onnx(layer(opset, **PLAIN), low.SerializeToString()).passed


@each_row(
    ("opset", "attributes", "reason"),
    [
        (1, PLAIN, "the nodes of a lowering need operation set 7; the model has 1"),
        (6, PLAIN, "the nodes of a lowering need operation set 7; the model has 6"),
        (10, SIZED, "pads that follow from sizes need operation set 11; the model has 10"),
    ],
)
def test_a_set_that_is_too_old(opset: int, attributes: dict[str, list[int]], reason: str) -> None:
    low, (row,) = ird.lower_onnx(layer(opset, **attributes))
    assert row.form is None
    assert row.reason == reason
    assert types(low) == ["ConvTranspose", "Neg"]
