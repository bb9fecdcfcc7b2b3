"""Layers that see only while they run that sizes or values do not fit: what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.spec import Spec
from irdeconv.ops.reduction import ReduceSum
from irdeconv.run.plan import build_plan
from op_cases import Tensor, count, f32, i64, u1
from support.live_operations.ours import build
from support.live_operations.sample import Given, Sample, given

X, EMPTY = count((3, 2), 1), f32(np.zeros((0, 2)))
AXIS, TWO = i64(0), i64([1, 0])
NOTHING, PLACES = f32(np.zeros((1, 1, 0, 3))), f32(np.zeros((1, 2, 2, 2)))
SAMPLE = "align_corners=true mode=bilinear padding_mode="
PADS = "strides=1,1 dilations=1,1 mode=xnor-popcount pad_value=0.0 pads_begin=0,-1 pads_end=-1,0"


def run(op: str, attributes: str, *tensors: Tensor) -> Any:
    """Run a layer whose inputs are open in every axis; bits are a constant."""
    kind, version = op.split("-")
    ports = tuple(
        given(t) if t.dtype.name == "u1" else Given(t, declared=(-1,) * t.values.ndim)
        for t in tensors
    )
    texts = dict(text.split("=") for text in attributes.split())
    sample = Sample(kind, f"opset{version}", texts, ports)
    (out,) = ird.run(ird.infer(build(sample)), sample.feeds, form=None).values()
    return out


@pytest.mark.parametrize(
    ("op", "attributes", "tensors", "text"),
    [
        ("GatherElements-6", "axis=0", (X, i64([[3, 0]])), "index 3 is outside axis 0 of size 3"),
        ("GatherElements-6", "axis=0", (EMPTY, i64([[0, 0]])), "of size 0 (it has no element)"),
        ("GatherND-8", "", (X, i64([[0, 2]])), "index 2 is outside axis 1 of size 2 (-2 to 1"),
        ("GatherND-5", "", (X, i64([[-4]])), "index -4 is outside axis 0 of size 3 (-3 to 2"),
        ("ScatterUpdate-3", "", (X, i64([3]), f32([[1, 2]]), AXIS), "index 3 is outside axis 0"),
        ("ScatterUpdate-3", "", (X, i64([1]), f32([1, 2]), AXIS), "updates are [2]; data and"),
        ("ScatterNDUpdate-4", "", (X, i64([[3]]), f32([[1, 2]])), "index 3 is outside axis 0"),
        ("ScatterNDUpdate-4", "", (X, i64([[1]]), f32([1, 2])), "indices want [1,2]"),
        ("ScatterNDUpdate-4", "", (X, i64([[0, 0, 0]]), f32([1])), "indices name 3 axes of data"),
        ("ScatterElementsUpdate-12", "", (X, i64([[-5]]), f32([[1]]), AXIS), "index -5 is outside"),
        ("ScatterElementsUpdate-12", "", (X, i64([[0]]), f32([[1, 2]]), AXIS), "updates are [1,2]"),
        (
            "ScatterElementsUpdate-12",
            "",
            (X, i64([[0, 0, 0]]), f32([[1, 2, 3]]), AXIS),
            "indices [1,3] are longer than data [3,2] on axis 1; only axis 0 may be",
        ),
        ("GridSample-9", f"{SAMPLE}border", (NOTHING, PLACES), "the image has 0 x 3 elements"),
        ("Selu-1", "", (X, f32([]), f32([1])), "alpha has 0 values; it must have one"),
        ("PReLU-1", "", (f32(1), f32([])), "slope [0] does not fit data []"),
        ("Broadcast-3", "mode=numpy", (X, TWO), "dimension 3 must be 1 or 1 (axis 0)"),
        ("Multiply-1", "auto_broadcast=numpy", (X, EMPTY), "dimensions 3 and 0 do not broadcast"),
        ("Multiply-1", "auto_broadcast=none", (X, f32([[1, 2]])), "do not fit auto_broadcast"),
        (
            "LSTMCell-4",
            "hidden_size=4",
            tuple(f32(np.zeros(s)) for s in ((2, 4), (2, 3), (2, 3), (12, 4), (12, 3), (12,))),
            "axis 1 of initial_hidden_state has size 3; 4 is needed",
        ),
        (
            "GroupConvolution-1",
            "strides=2 pads_begin=0 pads_end=0 dilations=1",
            (f32(np.zeros((1, 4, 3))), f32(np.zeros((4, 4, 1, 5)))),
            "the dilated kernel has size 5 on spatial axis 0, but the padded data only 3",
        ),
        (
            "Convolution-1",
            "strides=1 pads_begin=1 pads_end=0 dilations=2",
            (f32(np.zeros((1, 2, 1))), f32(np.zeros((3, 2, 2)))),
            "the dilated kernel has size 3 on spatial axis 0, but the padded data only 2",
        ),
    ],
)
def test_numbers_are_told(op: str, attributes: str, tensors: tuple[Tensor, ...], text: str) -> None:
    with pytest.raises(ird.ExecutionError) as raised:
        run(op, attributes, *tensors)
    (found,) = raised.value.diagnostics
    assert text in found.message
    assert found.layer == "layer"
    assert "E30" in found.code + str(found.notes)


def test_sizes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What inference has seen, or what is exact, it need not see again."""
    seen: list[tuple[Any, ...]] = []
    infer = ReduceSum.infer

    def counted(self: ReduceSum, *inputs: Spec) -> Any:
        seen.append(tuple(s.shape for s in inputs))
        return infer(self, *inputs)

    monkeypatch.setattr(ReduceSum, "infer", counted)
    for declared, looks in ((-1, 2), (3, 0)):
        ports = (Given(f32([1, 2, 3]), declared=(declared,)), given(AXIS, constant=True))
        plan = build_plan(ird.infer(build(Sample("ReduceSum", "opset1", {}, ports))), exact=True)
        seen.clear()
        for size in (3, 3, 2, 3) if looks else (3, 3):
            plan.run([np.ones(size, np.float32)])
        assert len(seen) == looks


def test_indices_that_name_no_axis_take_or_replace_everything() -> None:
    nowhere = i64(np.zeros((2, 0)))
    np.testing.assert_array_equal(run("GatherND-8", "", X, nowhere), np.stack([X.values] * 2))
    updates = f32(np.stack([X.values, X.values + 1]))
    np.testing.assert_array_equal(run("ScatterNDUpdate-4", "", X, nowhere, updates), X.values + 1)


def test_nothing_is_taken_from_nothing() -> None:
    assert run("GatherElements-6", "axis=0", EMPTY, i64(np.zeros((0, 2)))).shape == (0, 2)
    zeros = run("GridSample-9", f"{SAMPLE}zeros", NOTHING, PLACES)
    np.testing.assert_array_equal(zeros, np.zeros((1, 1, 2, 2)))


def test_negative_pads_of_bits_crop() -> None:
    data = count((1, 8, 3, 3))
    bits = u1(count((1, 8, 2, 2)).values % 2)
    whole = run("BinaryConvolution-1", PADS, data, bits)
    cropped = f32(data.values[:, :, :-1, 1:])
    plain = PADS.replace("-1", "0")
    np.testing.assert_array_equal(whole, run("BinaryConvolution-1", plain, cropped, bits))


def test_bounds_below_an_unsigned_type_leave_its_lowest() -> None:
    data = Tensor(ird.dtypes.ELEMENT_TYPES["u32"], np.array([0, 7], np.uint32))
    np.testing.assert_array_equal(run("Clamp-1", "min=-1.5 max=-1.0", data), [0, 0])


def test_attention_without_features_weighs_all_keys_alike() -> None:
    empty, value = f32(np.zeros((1, 2, 0))), f32([[[2], [4]]])
    out = run("ScaledDotProductAttention-13", "causal=false", empty, empty, value)
    np.testing.assert_array_equal(out, [[[3], [3]]])


def test_a_sink_has_to_fit_the_scores() -> None:
    q, mask, sink = count((1, 2, 2), 1), f32(0), f32(np.zeros((1, 3, 1)))
    with pytest.raises(ird.IrdeconvError, match=r"sink \[1,3,1\] does not broadcast to \[1,2,1\]"):
        run("ScaledDotProductAttention-13", "causal=false", q, q, q, mask, f32(1), sink)
