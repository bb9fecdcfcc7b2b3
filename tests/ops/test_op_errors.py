"""What operations refuse, and what they say of it."""

from __future__ import annotations

import numpy as np
import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, lookup
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.recurrent import RNNSequence
from op_cases import Tensor, boolean, case, count, f32, i32, i64, u8
from refusals import Row, check_attribute, check_refusal, row, spec

# What operations say about inputs and attributes that do not fit: code, port, numbers.

assert irdeconv.ops


def deconvolution(pads: list[Tensor | str], code: str, port: int, *says: str) -> Row:
    inputs = ["f32[1,2,5,5]", "f32[1,2,3,3,3]", *pads]
    return row("Deconvolution-irdeconv_1", "strides=1,1 dilations=1,1", inputs, code, port, *says)


A = count((3, 4))
SEQUENCE = ["f32[2,5]", "f32[2,1,3]", "f32[2,1,3]", "i32[2]", *["f32[1,12,3]"] * 2, "f32[1,12]"]
CELL = ["f32[2,4]", "f32[2,3]", "f32[?,4]", "f32[9,3]", "f32[9]"]
STFT, ISTFT = "transpose_frames=false", "center=false normalized=false"
LRN = "alpha=1 beta=1 bias=1 size=3"
ONCE = "convert_type=i32 with_replacement=false log_probs=false"
SDPA, DEFORMABLE = "ScaledDotProductAttention-13", "DeformableConvolution-8"
ROWS = [
    row("Add-1", "", ["f32[2]", "i32[2]"], "E303", 1, "f32", "i32"),
    row("Add-1", "", ["boolean[2]", "boolean[2]"], "E303", 0, "boolean", "number"),
    row("Add-1", "", ["f32[2,3]", "f32[2,4]"], "E302", 1, "[2,3]", "[2,4]", "3 and 4"),
    row("Add-1", "auto_broadcast=none", ["f32[2,1]", "f32[2,4]"], "E302", 1, "none"),
    row("Add-1", "auto_broadcast=pdpd", ["f32[3]", "f32[2,3]"], "E302", 1, "rank 2", "rank 1"),
    row("Add-1", "auto_broadcast=pdpd", ["f32[2,1]", "f32[2,3]"], "E302", 1, "pdpd"),
    row("LogicalAnd-1", "", ["f32[2]", "f32[2]"], "E303", 0, "boolean"),
    row("Select-1", "", ["f32[2]", "f32[2]", "f32[2]"], "E303", 0, "cond"),
    row("Select-1", "", ["boolean[2]", "f32[2]", "i32[2]"], "E303", 2, "f32", "i32"),
    row("Convert-1", "destination_type=f32", ["string[2]"], "E303", 0, "string"),
    row("Sigmoid-1", "", ["boolean[2]"], "E303", 0, "boolean"),
    row("Mish-4", "", ["i32[2]"], "E303", 0, "i32", "floating-point"),
    row("Swish-4", "", ["f32[2]", "f32[1]"], "E301", 1, "rank 1"),
    row("PReLU-1", "", ["f32[1,3,4]", "f32[5]"], "E302", 1, "[5]", "[1,3,4]"),
    row("SoftMax-8", "axis=2", ["f32[1,3]"], "E304", "axis", "axis 2", "rank 2"),
    row("FakeQuantize-1", "levels=2", ["f32[3]", "f32[2]", *["f32[]"] * 3], "E302", 1, "[3]"),
    row("Concat-1", "axis=0", ["f32[1,2]", "f32[1,3]"], "E302", 1, "[1,3]", "axis 1"),
    row("Concat-1", "axis=0", ["f32[1,2]", "f32[2]"], "E301", 1, "rank 1", "rank 2"),
    row("Concat-1", "axis=2", ["f32[1,2]", "f32[1,2]"], "E304", "axis", "axis 2"),
    row("Concat-1", "axis=0", ["f32[1]", "i32[1]"], "E303", 1, "f32", "i32"),
    row("ShapeOf-3", "output_type=f32", ["f32[2]"], "E304", "output_type", "f32"),
    row("Reshape-1", "", ["f32[2,3]", i64([4])], "E305", 1, "6 elements", "[4]"),
    row("Reshape-1", "", ["f32[2,3]", i64([-1, -1])], "E305", 1, "at most one"),
    row("Reshape-1", "", ["f32[2,3]", i64([-2])], "E305", 1, "[-2]"),
    row("Reshape-1", "special_zero=true", ["f32[6]", i64([6, 0])], "E305", 1, "rank 1"),
    row("Reshape-1", "", ["f32[2,3]", f32([6])], "E303", 1, "f32"),
    row("Squeeze-1", "", ["f32[2,3]", i64([0])], "E305", 1, "dimension 2"),
    row("Squeeze-1", "", ["f32[2,3]", i64([5])], "E305", 1, "axis 5"),
    row("Unsqueeze-1", "", ["f32[2]", i64([1, 1])], "E305", 1, "twice"),
    row("Transpose-1", "", ["f32[2,3]", i64([0])], "E302", 1, "1 values", "rank 2"),
    row("Transpose-1", "", ["f32[2,3]", i64([0, 0])], "E305", 1, "twice"),
    row("Transpose-1", "", ["f32[2,3]", i64([0, -1])], "E302", 1, "[0, -1]", "negative"),
    row("Broadcast-3", "", ["f32[2]", i64([3])], "E302", 1, "[2]", "[3]"),
    row("Broadcast-3", "", ["f32[2,2]", i64([2])], "E302", 1, "more axes"),
    row("Broadcast-3", "mode=bidirectional", ["f32[2]", i64([3])], "E302", 1, "2 and 3"),
    row("Broadcast-3", "mode=explicit", ["f32[2]", i64([2])], "E300", "mode", "axes_mapping"),
    row(
        "Broadcast-3", "mode=explicit", ["f32[2,3]", i64([3, 2]), i64([1, 0])], "E305", 2, "[1, 0]"
    ),
    row("Broadcast-3", "", ["f32[1]", i64([-2])], "E305", 1, "-2"),
    row("Pad-12", "", ["f32[2,3]", i64([1]), i64([1, 1])], "E302", 1, "1 values", "rank 2"),
    row("Pad-12", "", ["f32[2]", i64([-3]), i64([0])], "E306", 1, "size 2", "-1"),
    row("Pad-12", "pad_mode=reflect", ["f32[2]", i64([2]), i64([0])], "E305", 1, "at most 1"),
    row("Pad-12", "pad_mode=symmetric", ["f32[2]", i64([0]), i64([3])], "E305", 2, "at most 2"),
    row("Pad-12", "", ["f32[2]", i64([0]), i64([0]), "i32[]"], "E303", 3, "f32", "i32"),
    row("DepthToSpace-1", "block_size=2", ["f32[1,6,2,2]"], "E302", "block_size", "6", "4"),
    row("SpaceToDepth-1", "block_size=2", ["f32[1,1,2,3]"], "E302", "block_size", "3", "2"),
    row("ShuffleChannels-1", "group=4", ["f32[1,6]"], "E302", "group", "6", "4"),
    row("Split-1", "num_splits=2", ["f32[3]", i64(0)], "E302", "num_splits", "3", "2"),
    row("Split-1", "num_splits=2", ["f32[4]", i64(1)], "E305", 1, "axis 1"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([3, 2])], "E305", 2, "5", "4"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([1, 2])], "E305", 2, "3", "4"),
    row("VariadicSplit-1", "", ["f32[4]", i64(0), i64([-1, -1])], "E305", 2, "at most one"),
    row("Gather-8", "", ["f32[2]", f32([0]), i64(0)], "E303", 1, "f32"),
    row("Gather-8", "", ["f32[2]", i64([0]), i64(1)], "E305", 2, "axis 1"),
    row("Gather-8", "batch_dims=2", ["f32[2,2]", i64([0]), i64(0)], "E304", "batch_dims", "2"),
    row("Gather-8", "batch_dims=1", ["f32[2,3]", i64([0]), i64(0)], "E304", "batch_dims", "axis 0"),
    row("Gather-8", "batch_dims=1", ["f32[2,3]", "i64[3,1]", i64(1)], "E302", 1, "[2,3]"),
    row("Slice-8", "", [A, i64([0]), i64([1]), i64([0])], "E305", 3, "step"),
    row(
        "Slice-8", "", [A, i64([0]), i64([1, 2]), i64([1])], "E302", 2, "start has 1", "stop has 2"
    ),
    row("Slice-8", "", [A, *[i64([1, 1])] * 3, i64([0, -2])], "E305", 4, "twice"),
    row("Slice-8", "", [A, i64(0), i64([1]), i64([1])], "E301", 1, "rank 0"),
    row("StridedSlice-1", "", [A, i64([0]), i64([1]), i64([0])], "E305", 3, "step"),
    row("StridedSlice-1", "", [A, *[i64([0] * 3)] * 2], "E302", 1, "3 axes", "rank 2"),
    row("StridedSlice-1", "shrink_axis_mask=1", [A, i64([3]), i64([4])], "E305", 1, "begin 3"),
    row("StridedSlice-1", "ellipsis_mask=1,1", [A, *[i64([0, 0])] * 2], "E304", "ellipsis_mask"),
    row("Range-4", "output_type=f32", [f32(0), f32(1), f32(0)], "E305", 2, "step is 0"),
    row("ReduceSum-1", "", ["f32[2]", i64([1])], "E305", 1, "axis 1", "rank 1"),
    row("ReduceSum-1", "", ["f32[2]", "i64[1,1]"], "E301", 1, "rank 2"),
    row("ReduceLogicalOr-1", "", ["f32[2]", i64([0])], "E303", 0, "boolean"),
    row("MatMul-1", "", ["f32[2,3]", "f32[4,5]"], "E302", 1, "3 columns", "4"),
    row("MatMul-1", "", ["f32[2,2,3]", "f32[3,3,5]"], "E302", 1, "2 and 3"),
    row("MatMul-1", "", ["f32[]", "f32[3]"], "E301", 0, "rank 0"),
    row("NormalizeL2-1", "eps=1 eps_mode=add", ["f32[2]", i64([2])], "E305", 1, "axis 2"),
    row("BatchNormInference-5", "epsilon=0", ["f32[1,3]", *["f32[2]"] * 4], "E302", 1, "2", "3"),
    row("Reverse-1", "mode=mask", ["f32[2]", boolean([1, 1])], "E302", 1, "2 values"),
    row("Tile-1", "", ["f32[2]", "f32[1]"], "E303", 1, "f32"),
    row("Einsum-7", "equation=ij,jk", ["f32[2,3]", "f32[4,5]"], "E302", 1, '"j"', "3 and 4"),
    row("Einsum-7", "equation=ij", ["f32[2]"], "E301", 0, "rank 1"),
    row("Einsum-7", "equation=ij,jk", ["f32[2,3]"], "E304", "equation", "2 inputs"),
    row("GridSample-9", "", ["f32[1,1,2,2]", "f32[1,2,2,3]"], "E302", 1, "3 elements"),
    row("GridSample-9", "", ["f32[1,1,2,2]", "f32[2,2,2,2]"], "E302", 1, "batch"),
    row("Eye-9", "output_type=f32", [i64(2), i64(-1), i64(0)], "E305", 1, "-1"),
    row("DFT-7", "", ["f32[3,4,3]", i64([0])], "E302", 0, "3 elements", "(re, im)"),
    row("DFT-7", "", ["f32[3,4,2]", i64([2])], "E305", 1, "axis 2", "rank 2"),
    row("RDFT-9", "", ["f32[3,4]", i64([1, -1])], "E305", 1, "twice"),
    row("IDFT-7", "", ["f32[3,2]", i64([0]), i64([0])], "E305", 2, "0", "positive"),
    row("IRDFT-9", "", ["f32[3,2]", i64([0]), i64([2**40])], "E306", 2, "above"),
    row("DFT-7", "", ["f32[3,4,2]", i64([0]), i64([2, 3])], "E302", 2, "2 values for 1"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[4]", i64(10), i64(1)], "E305", 2, "10", "9"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[5]", i64(4), i64(1)], "E302", 1, "5 values", "4"),
    row("STFT-15", STFT, ["f32[1,9]", "f32[4]", i64(4), i64(0)], "E305", 3, "0", "positive"),
    row("ISTFT-16", ISTFT, ["f32[4,2,2]", "f32[4]", i64(4), i64(1)], "E302", 0, "4", "3"),
    row("Inverse-14", "", ["f32[2,3,4]"], "E302", 0, "[2,3,4]", "square"),
    row("FakeConvert-13", "", ["f32[2,3]", "f32[2]"], "E302", 1, "[2]"),
    row("FakeConvert-13", "", ["f32[3]", "f32[2,3]"], "E302", 1, "[2,3]", "[3]"),
    row("FakeConvert-13", "", ["f32[2,3]", "f32[2,1]", "f32[1]"], "E302", 2, "[1]", "[2,1]"),
    row("LRN-1", LRN, ["f32[1,3]", i64([2])], "E305", 1, "axis 2", "rank 2"),
    row("GRN-1", "bias=1", ["f32[1,2,3,4,5]"], "E301", 0, "rank 5"),
    row("AdaptiveAvgPool-8", "", ["f32[1,2,5,5]", i64([2])], "E302", 1, "1 values", "2"),
    row("AdaptiveMaxPool-8", "", ["f32[1,2,5]", i64([-2])], "E305", 1, "-2"),
    row("AdaptiveMaxPool-8", "", ["f32[1,2,0]", i64([2])], "E302", 0, "[1,2,0]"),
    row("RandomUniform-8", "output_type=f32", [i64([2]), f32(1), f32(1)], "E305", 2, "1.0"),
    row("RandomUniform-8", "output_type=f32", [i64([2]), i32(0), i32(1)], "E303", 1, "i32"),
    row("RandomUniform-8", "output_type=f32", [i64([-2]), f32(0), f32(1)], "E305", 0, "-2"),
    row("RandomUniform-8", "output_type=f32", [i64([2**40]), f32(0), f32(1)], "E306", 0, "more"),
    row("Multinomial-13", ONCE, ["f32[1,3]", i64([4])], "E305", 1, "4", "3 classes"),
    row("Multinomial-13", ONCE, ["f32[3]", i64([1])], "E301", 0, "rank 1"),
    row(SDPA, "causal=false", ["f32[1,5,4]", "f32[1,6,3]", "f32[1,6,4]"], "E302", 1, "3 columns"),
    row(SDPA, "causal=false", ["f32[2,5,4]", "f32[3,6,4]", "f32[1,6,4]"], "E302", 1, "2 and 3"),
    row(SDPA, "causal=false", ["f32[1,5,4]", "f32[1,6,4]", "f32[1,7,4]"], "E302", 2, "7 keys"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[5]"], "E301", 3, "rank 1"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[5,4]"], "E302", 3, "4 keys"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f16[5,5]"], "E303", 3, "f16", "f32"),
    row(SDPA, "causal=false", [*["f32[1,5,4]"] * 3, "f32[]", "f32[2]"], "E302", 4, "2 values"),
    row("BinaryConvolution-1", "", ["f32[1,8,5,5]", "f32[2,8,3,3]"], "E303", 1, "f32", "u1"),
    row("BinaryConvolution-1", "", ["f32[1,8,5,5]", "u1[2,4,3,3]"], "E302", 1, "8", "4"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,8,4,4]", "f32[3,4,2,2]"], "E302", 2, "2", "4"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,6,4,4]", "f32[3,2,2,2]"], "E302", 1, "6", "8"),
    row(DEFORMABLE, "", ["f32[1,2,5,5]", "f32[1,8,3,4]", "f32[3,2,2,2]"], "E302", 1, "3", "4"),
    row(DEFORMABLE, "group=2", ["f32[1,3,5,5]", *["f32[?,?,?,?]"] * 2], "E302", "group", "3"),
    row("RNNCell-3", "hidden_size=3", CELL, "E302", 3, "size 9", "3 is needed"),
    row("GRUCell-3", "hidden_size=3 linear_before_reset=true", CELL, "E302", 4, "9", "12"),
    row("LSTMSequence-5", "hidden_size=3", SEQUENCE, "E301", 0, "rank 2"),
    deconvolution([i64([0]), i64([0, 0])], "E305", 2, "pads_begin", "[1]", "[2]"),
    deconvolution([i64([0, 0]), i64([0, 0, 0])], "E305", 3, "pads_end", "[3]", "[2]"),
    deconvolution([i64([[0, 0]]), i64([0, 0])], "E305", 2, "pads_begin", "[1,2]"),
    deconvolution(["i64[3]", "i64[2]"], "E305", 2, "pads_begin", "[3]", "[2]"),
    deconvolution([i64([0, 0]), f32([0, 0])], "E303", 3, "pads_end", "f32"),
]


CHECKS = [
    ("Split-1", {"num_splits": "0"}, "num_splits"),
    ("FakeQuantize-1", {"levels": "1"}, "levels"),
    ("DepthToSpace-1", {"block_size": "0"}, "block_size"),
    ("ShuffleChannels-1", {"group": "0"}, "group"),
    ("Einsum-7", {"equation": "i1->i"}, "equation"),
    ("Einsum-7", {"equation": "ij->ik"}, "equation"),
    ("Einsum-7", {"equation": "ij->ii"}, "equation"),
    ("GRUCell-3", {"hidden_size": "0"}, "hidden_size"),
    ("LSTMCell-4", {"hidden_size": "1", "activations": "tanh"}, "activations"),
    ("LRN-1", {"alpha": "1", "beta": "1", "bias": "1", "size": "0"}, "size"),
    ("AdaptiveMaxPool-8", {"index_element_type": "u8"}, "index_element_type"),
    ("RandomUniform-8", {"output_type": "u8"}, "output_type"),
    ("RandomUniform-8", {"output_type": "f32", "op_seed": "-1"}, "op_seed"),
    ("DeformableConvolution-8", {"group": "0"}, "group"),
    ("DeformableConvolution-1", {"deformable_group": "0"}, "deformable_group"),
    ("RNNCell-4", {"hidden_size": "1", "activations": "sin"}, "activations"),
    ("BatchNormInference-5", {"epsilon": "-1"}, "epsilon"),
]


def test_negative_pads_before_opset12_are_remarked() -> None:
    cls = lookup("Pad", "opset1")
    assert cls is not None
    specs = [spec(s) for s in ("f32[3]", i64([-1]), i64([0]))]
    (found,) = cls().remarks(*specs)
    assert (found.code, found.port) == ("W301", 1)


def test_document_divides_integers_down() -> None:
    cls = lookup("Divide", "opset1")
    assert cls is not None
    a, b = np.array([-7, 7, 6]), np.array([2, -2, -3])
    document = cls(semantics="document")  # type: ignore[call-arg]
    assert list(document.evaluate(a, b)) == [-4, -4, -2]
    towards_zero = cls(m_pythondiv=False, semantics="document")  # type: ignore[call-arg]
    assert list(towards_zero.evaluate(a, b)) == [-3, -3, -2]
    assert list(cls().evaluate(a, b)) == [-3, -3, -2]


def test_packed_integers_keep_their_low_bits() -> None:
    for name, want in (
        ("u4", [1, 13, 15]),
        ("i4", [1, -3, -1]),
        ("u1", [1, 1, 1]),
        ("u2", [1, 1, 3]),
    ):
        cls = lookup("Convert", "opset1")
        assert cls is not None
        op = cls(destination_type=ELEMENT_TYPES[name])  # type: ignore[call-arg]
        assert op.evaluate(np.array([17, -3, 15])).tolist() == want  # type: ignore[union-attr]


def test_real_to_integer_beyond_the_range() -> None:
    cls = lookup("Convert", "opset1")
    assert cls is not None
    x = f32([float("nan"), 1e30, -1e30]).values
    assert cls(destination_type=ELEMENT_TYPES["i64"]).evaluate(x).tolist() == [  # type: ignore
        0,
        2**63 - 1,
        -(2**63),
    ]
    big = cls(destination_type=ELEMENT_TYPES["u64"])  # type: ignore[call-arg]
    assert big.evaluate(f32([2.0**63, -1]).values).tolist() == [  # type: ignore[union-attr]
        2**63,
        2**64 - 1,
    ]


@pytest.mark.parametrize(
    ("op", "given", "name"),
    [
        ("NonZero-3", {"output_type": "u8"}, "output_type"),
        ("SoftMax-1", {"axis": "-1"}, "axis"),
        ("StridedSlice-1", {"shrink_axis_mask": "0,2"}, "shrink_axis_mask"),
        ("TopK-11", {"sort": "none", "stable": "true"}, "stable"),
    ],
)
def test_attributes_that_openvino_refuses(op: str, given: dict[str, str], name: str) -> None:
    check_attribute(op, given, name)


def test_unknown_ranks_follow_from_list_lengths() -> None:
    unknown = Spec(ELEMENT_TYPES["f32"], None)
    for op, inputs, want in (
        ("Transpose", [unknown, spec("i64[3]")], (DYNAMIC,) * 3),
        ("Pad", [unknown, spec("i64[2]"), spec("i64[2]")], (DYNAMIC,) * 2),
        ("Reshape", [unknown, i64([4, -1]).spec], (4, DYNAMIC)),
        ("Broadcast", [unknown, i32([4, 2]).spec], (4, 2)),
    ):
        cls = lookup(op, "opset12")
        assert cls is not None
        (out,) = infer_op(cls(), tuple(inputs))
        assert out.shape == want


def test_channels_that_are_open_are_checked_when_running() -> None:
    x = np.ones((1, 2, 4), np.float32)
    for op, shape in ((Convolution(), (3, 1, 2)), (GroupConvolution(), (3, 1, 1, 2))):
        with pytest.raises(OpError, match="data has 2 channels"):
            op.evaluate(x, np.ones(shape, np.float32))


# What the operations of detectors say about inputs and attributes that do not fit.

SENSITIVE = "mode=average output_dim=1 group_size=2 spatial_scale=1"
ROI_POOLING = "pooled_h=1 pooled_w=2 spatial_scale=1"
BINS = "output_dim=2 group_size=2 spatial_scale=1"
ANCHORS = "base_size=8 pre_nms_topn=9 post_nms_topn=9 ratio=1 scale=1,2"
SHIFTED = ["f32[1,8,2,2]", "f32[3]"]
DETECTED = ["f32[1,16]", "f32[1,12]"]  # boxes and scores of three classes of four priors
BOXES, A4 = ["f32[1,6,4]", "f32[1,1,6]"], count((1, 3, 4))
ROTATED = ["f32[1,6,5]", "f32[1,1,6]", "i64[]", "f32[]", "f32[0]"]
REGIONS = ["f32[2,3,1,4]", "f32[1,4,2,3]", "f32[?,1,2,3]"]
LIMITS = "min_size=1 nms_threshold=0.5 pre_nms_count=6 post_nms_count=3"
DETECTRON = "ExperimentalDetectron"
SINGLE = ["f32[3]", "f32[5,4]", "f32[4,2,3]", "f32[1,2,3]"]
GRID = ["f32[2,4]", "f32[1,9,2,3]", "f32[1,3,8,6]"]
OUTPUT = "num_classes=2 max_detections_per_image=3 deltas_weights=1,1,1,1"
RESULTS = ["f32[3,4]", "f32[3,6]", "f32[3,2]", "f32[1,3]"]
DETECTION_ROWS = [
    row("NonMaxSuppression-9", "", ["f32[1,6,5]", "f32[1,1,6]"], "E302", 0, "5 numbers"),
    row("NonMaxSuppression-9", "", ["f32[1,6,4]", "f32[1,1,5]"], "E302", 1, "1 x 5", "1 x 6"),
    row("PriorBox-8", "min_size=4", [i64([2, 3, 4]), i64([8, 9])], "E302", 0, "3 values"),
    row("PriorBoxClustered-1", "", [i64([2, -3]), i64([8, 9])], "E305", 0, "-3"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,2,21]"], "E302", 2, "21", "5"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,1,20]"], "E302", 2, "2, boxes"),
    row("DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[1,2,15]"], "E302", 0, "16", "12"),
    row(
        "DetectionOutput-8", "keep_top_k=1", [*DETECTED, "f32[2,2,20]"], "E302", 2, "2", "1 images"
    ),
    row("NonMaxSuppression-3", "", [*BOXES, "i64[1]"], "E301", 2, "rank 1", "must be 0"),
    row("NMSRotated-13", "", [*BOXES, "i64[]", *["f32[]"] * 2], "E302", 0, "4 numbers", "5"),
    row("MatrixNms-8", "", ["f32[2,6,4]", "f16[2,1,6]"], "E303", 1, "f32", "f16"),
    row("MulticlassNms-9", "", ["f32[2,6,4]", "f32[3,6]", "i64[1]"], "E302", 1, "3 x 6", "2 x 6"),
    row(
        "MulticlassNms-9", "", [A4, count((1, 3)), i64([2, 2])], "E305", 2, "[2, 2]", "add up to 3"
    ),
    row("MulticlassNms-9", "", [A4, count((1, 3)), i64([-1, 2])], "E305", 2, "[-1, 2]"),
    row("GenerateProposals-9", LIMITS, ["f32[1,5]", *REGIONS], "E302", 0, "5 numbers", "3 or 4"),
    row("GenerateProposals-9", LIMITS, ["f32[2,3]", *REGIONS], "E302", 2, "size 1", "2 is needed"),
    row(f"{DETECTRON}GenerateProposalsSingleImage-6", LIMITS, SINGLE, "E302", 1, "5 anchors", "6"),
    row(f"{DETECTRON}PriorGridGenerator-6", "h=3", GRID, "E304", "h", "h is 3", "has 2"),
    row(f"{DETECTRON}TopKROIs-6", "max_rois=1", ["f32[3,4]", "f32[4]"], "E302", 1, "size 4", "3"),
    row(f"{DETECTRON}DetectionOutput-6", OUTPUT, RESULTS, "E302", 1, "size 6", "8 is needed"),
    row(
        f"{DETECTRON}ROIFeatureExtractor-6",
        "output_size=1 sampling_ratio=0 pyramid_scales=4",
        ["f32[3,4]", "f32[1,2,4,4]", "f32[1,2,2,2]"],
        "E304",
        "pyramid_scales",
        "1 numbers",
        "2 levels",
    ),
    row(
        f"{DETECTRON}ROIFeatureExtractor-6",
        "output_size=1 sampling_ratio=0 pyramid_scales=1",
        [f32([[0, 0, 3e7, 1]]), count((1, 2, 4, 4))],
        "E305",
        0,
        "30000000.0 x 1.0 elements",
    ),
    row("Proposal-4", ANCHORS, ["f32[1,6,2,2]", *SHIFTED], "E302", 0, "6 channels", "4"),
    row("Proposal-4", ANCHORS, ["f32[1,4,3,2]", *SHIFTED], "E302", 1, "axis 2", "3", "2"),
    row("Proposal-4", ANCHORS, ["f32[1,4,2,2]", SHIFTED[0], "f32[5]"], "E302", 2, "5 numbers"),
    row("ROIAlign-9", "", ["f32[1,2,5,5]", "f32[3,5]", "i64[3]"], "E302", 1, "5 numbers", "4"),
    row("ROIAlign-9", "", ["f32[1,2,5,5]", "f32[3,4]", "i64[2]"], "E302", 2, "3 regions", "2"),
    row("ROIAlignRotated-15", "", ["f32[1,2,5,5]", "f16[3,5]", "i64[3]"], "E303", 1, "f16"),
    row("NMSRotated-13", "", ROTATED, "E302", 4, "score_threshold has 0 values"),
    row("ROIPooling-2", ROI_POOLING, ["f32[1,2,5,5]", "f32[3,4]"], "E302", 1, "4 numbers", "5"),
    row("PSROIPooling-1", SENSITIVE, ["f32[1,5,5,5]", "f32[3,5]"], "E302", 0, "5 channels", "4"),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,6,1,1]"], "E302", 2),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,2,1,2]"], "E302", 2),
    row("DeformablePSROIPooling-1", BINS, ["f32[1,8,5,5]", "f32[3,5]", "f32[3,5,1,1]"], "E302", 2),
    row("RegionYolo-1", "coords=4 classes=2 mask=0,1", ["f32[1,12,2,2]"], "E302", 0, "12", "14"),
    row("ReorgYolo-1", "stride=2", ["f32[1,4,2,3]"], "E302", 0, "size 3", "2"),
    row("ReorgYolo-1", "stride=2", ["f32[1,3,2,2]"], "E302", 0, "3 channels", "4"),
    row("NV12toRGB-8", "", ["u8[1,4,4,1]"], "E302", 0, "4 rows", "3"),
    row("NV12toRGB-8", "", ["i32[1,6,4,1]"], "E303", 0, "i32"),
    row("NV12toRGB-8", "", ["u8[1,4,4,1]", "u8[1,2,3,2]"], "E302", 1, "axis 2", "3"),
    row("I420toBGR-8", "", ["u8[1,4,5,1]", *["u8[1,2,2,1]"] * 2], "E302", 1, "half of 5"),
    row("I420toBGR-8", "", ["u8[1,4,4,1]", "u8[1,2,2,1]"], "E208", 1, "2 planes"),
]


COUNTS, POOLED = {"pre_nms_count": "9", "post_nms_count": "9"}, {"output_size": "2"}
RESULT = dict(pair.split("=") for pair in OUTPUT.split())
DETECTION_CHECKS = [
    ("PriorBox-8", {"min_size": "4", "variance": "1,2"}, "variance"),
    ("PriorBox-8", {"min_size": "0"}, "min_size"),
    ("PriorBox-8", {"fixed_size": "4"}, None),
    ("PriorBox-8", {"fixed_size": "4", "density": "9223372036854775807"}, None),
    ("PriorBox-8", {"fixed_size": "4", "density": "inf"}, "density"),
    ("PriorBox-8", {"fixed_size": "1e308", "density": "1"}, "fixed_size"),
    ("PriorBox-8", {"min_size": "4", "max_size": "5,6"}, None),
    ("PriorBoxClustered-1", {"width": "4", "height": "5,6"}, "height"),
    ("DetectionOutput-8", {"keep_top_k": "-2", "normalized": "1"}, "keep_top_k"),
    ("ROIAlign-9", {"sampling_ratio": "-1"}, "sampling_ratio"),
    ("ROIPooling-2", {"output_roi": "2", "spatial_scale": "1", "pooled_w": "1"}, "output_roi"),
    ("ROIPooling-2", {"output_roi": "2,2"}, "spatial_scale"),
    (
        "DeformablePSROIPooling-1",
        {"output_dim": "1", "spatial_scale": "1", "spatial_bins_y": "4611686018427387904"},
        "spatial_bins_y",
    ),
    (
        "DeformablePSROIPooling-1",
        {"output_dim": "1", "spatial_scale": "1", "spatial_bins_x": "0"},
        "spatial_bins_x",
    ),
    ("RegionYolo-1", {"num": "1"}, "coords"),
    ("ReorgYolo-1", {"stride": "0"}, "stride"),
    ("DetectionOutput-8", {"keep_top_k": "", "normalized": "1"}, "keep_top_k"),
    ("DetectionOutput-8", {"keep_top_k": "1", "input_width": "0"}, "input_width"),
    ("MatrixNms-8", {"keep_top_k": "-2"}, "keep_top_k"),
    ("MatrixNms-8", {"output_type": "u8"}, "output_type"),
    ("MulticlassNms-9", {"nms_eta": "1.5"}, "nms_eta"),
    ("GenerateProposals-9", {"pre_nms_count": "9"}, "post_nms_count"),
    ("GenerateProposals-9", {"post_nms_count": "9"}, "pre_nms_count"),
    ("GenerateProposals-9", {**COUNTS, "nms_eta": "0.5"}, "nms_eta"),
    (f"{DETECTRON}DetectionOutput-6", {**RESULT, "post_nms_count": "-2"}, "post_nms_count"),
    (f"{DETECTRON}DetectionOutput-6", {**RESULT, "deltas_weights": "1,1"}, "deltas_weights"),
    (f"{DETECTRON}PriorGridGenerator-6", {"stride_x": "-1"}, "stride_x"),
    (f"{DETECTRON}TopKROIs-6", {"max_rois": "-1"}, "max_rois"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {"sampling_ratio": "2"}, "output_size"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {**POOLED, "sampling_ratio": "-1"}, "sampling_ratio"),
    (f"{DETECTRON}ROIFeatureExtractor-6", {**POOLED, "pyramid_scales": "0"}, "pyramid_scales"),
]


@pytest.mark.parametrize(("op", "given", "name"), [*CHECKS, *DETECTION_CHECKS])
def test_attribute_check(op: str, given: dict[str, str], name: str | None) -> None:
    check_attribute(op, given, name)


# What operations that move, look up and search say about inputs that do not fit.

TABLE = count((3, 2))
BLOCK = [i64([1, 4]), i64([0, 0])]
PATCH = "sizes=2,2 strides=1,1 rates=1,1 auto_pad=valid"
SPARSE = [i64([4, 3]), i64([[5, 0]])]
BESIDE = [i64([4, 3]), i64([[1, 3]])]
LIST_ROWS = [
    row("BatchToSpace-2", "", ["f32[6,2]", *BLOCK, i64([0, 0])], "E302", None, "6", "4"),
    row("BatchToSpace-2", "", ["f32[4,2]", *BLOCK, i64([0, 9])], "E302", 2, "9", "axis 1"),
    row("BatchToSpace-2", "", ["f32[4,2,1]", *BLOCK, i64([0, 0])], "E302", 1, "2 values", "3"),
    row("BatchToSpace-2", "", ["f32[4]", "i64[1]", "i64[1]", "i64[1]"], "E301", 0, "rank 1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([0, 2])], "E302", None, "7", "4"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([1, 2])], "E305", 3, "batch", "1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", i64([1, 0]), *BLOCK[1:] * 2], "E305", 1, "0", "axis 1"),
    row("SpaceToBatch-2", "", ["f32[1,5]", *BLOCK, i64([0, -2])], "E305", 3, "-2", "axis 1"),
    row("ReverseSequence-1", "", ["f32[2,3]", i64([1, 4])], "E305", 1, "4", "0 to 3"),
    row("ReverseSequence-1", "", ["f32[2,3]", "i64[3]"], "E302", 1, "3 lengths", "2"),
    row("ReverseSequence-1", "seq_axis=2", ["f32[2,3]", "i64[2]"], "E304", "seq_axis", "axis 2"),
    row("Roll-7", "", ["f32[2,3]", i64([1, 2]), i64([0])], "E302", 1, "2 values", "1 axes"),
    row("Roll-7", "", ["f32[2,3]", i64([1]), i64([2])], "E305", 2, "axis 2", "rank 2"),
    row("Bucketize-3", "", ["f32[2]", "f32[2,2]"], "E301", 1, "rank 2"),
    row("SearchSorted-15", "", ["f32[2,4]", "f32[3,4]"], "E302", 1, "[3,4]", "[2,4]"),
    row("SearchSorted-15", "", ["f32[2,4]", "f32[4]"], "E301", 1, "rank 1", "2"),
    row("SearchSorted-15", "", ["f32[4]", "i32[4]"], "E303", 1, "f32", "i32"),
    row("SliceScatter-15", "", ["f32[4]", "f32[3]", *[i64([1])] * 3], "E302", 1, "[3]", "[0]"),
    row("SliceScatter-15", "", ["f32[4]", "f32[0]", i64([1]), i64([2]), i64([0])], "E305", 4, "0"),
    row("SliceScatter-15", "", ["f32[4]", "i32[0]", *[i64([1])] * 3], "E303", 1, "f32", "i32"),
    row("Col2Im-15", "", ["f32[4,5]", i64([3, 3]), i64([2, 2])], "E302", 0, "5 columns", "4"),
    row("Col2Im-15", "", ["f32[5,4]", i64([3, 3]), i64([2, 2])], "E302", None, "5", "4"),
    row("Col2Im-15", "", ["f32[4,4]", i64([1, 3]), i64([2, 2])], "E302", 2, "window of 2"),
    row("Col2Im-15", "", ["f32[4,4]", i64([3]), i64([2, 2])], "E302", 1, "1 values"),
    row("ExtractImagePatches-3", PATCH, ["f32[1,2,3]"], "E301", 0, "rank 3"),
    row("EmbeddingBagOffsetsSum-3", "", ["f32[4,2]", "f32[3]", "i64[2]"], "E303", 1, "f32"),
    row(
        "EmbeddingBagOffsetsSum-3",
        "",
        ["f32[4,2]", "i64[3]", "i64[2]", "i64[]", "f32[2]"],
        "E302",
        4,
        "[2]",
        "[3]",
    ),
    row(
        "EmbeddingBagPacked-15",
        "reduction=mean",
        ["f32[4,2]", "i64[3,1]", "f32[3,1]"],
        "E300",
        2,
        "sum",
    ),
    row("EmbeddingBagPackedSum-3", "", ["f32[4,2]", "i64[3]"], "E301", 1, "rank 1"),
    row("EmbeddingBagPackedSum-3", "", [TABLE, i64([[0, 3]])], "E305", 1, "3", "0 to 2"),
    row("EmbeddingBagOffsetsSum-3", "", [TABLE, i64([0, 1]), i64([1, 0])], "E305", 2, "[1, 0]"),
    row("EmbeddingSegmentsSum-3", "", [TABLE, i64([0]), i64([2]), i64(2)], "E305", 2, "2", "2 seg"),
    row("EmbeddingSegmentsSum-3", "", [TABLE, i64([0, 1]), i64([1, 0]), i64(2)], "E305", 2, "fall"),
    row("EmbeddingSegmentsSum-3", "", ["f32[4]", "i64[2]", "i64[3]", i64(2)], "E302", 2, "3", "2"),
    row("SegmentMax-16", "", ["f32[4]", "i64[3]"], "E302", 1, "3", "4 rows"),
    row("SegmentMax-16", "", ["f32[4]", "i64[4]", i64(-1)], "E305", 2, "-1"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *SPARSE, "i32[]"], "E303", 3, "f32", "i32"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *SPARSE, "f32[]"], "E305", 2, "row 5", "4"),
    row("SparseFillEmptyRows-16", "", ["f32[2]", *SPARSE, "f32[]"], "E302", 2, "1", "2 values"),
    row("SparseFillEmptyRows-16", "", ["f32[1]", *BESIDE, "f32[]"], "E305", 2, "column 3", "3"),
    row("ConvertPromoteTypes-14", "", ["i8[2]", "u8[2]"], "E303", 1, "i8", "u8"),
    row("ConvertPromoteTypes-14", "", ["f32[2]", "string[2]"], "E303", 1, "string"),
    row("BitwiseLeftShift-15", "", ["boolean[2]", "boolean[2]"], "E303", 0, "boolean"),
    row("StringTensorUnpack-15", "", ["f32[2]"], "E303", 0, "f32"),
    row("StringTensorPack-15", "", ["i32[2]", "i32[3]", "u8[?]"], "E302", 1, "[2]", "[3]"),
    row("StringTensorPack-15", "", [i32([0]), i32([3]), u8([97, 98])], "E305", 1, "3", "2 bytes"),
]


ALL = [*ROWS, *DETECTION_ROWS, *LIST_ROWS]


@pytest.mark.parametrize("r", ALL, ids=[f"{i}-{r.op}" for i, r in enumerate(ALL)])
def test_refusal(r: Row) -> None:
    check_refusal(r)


def test_updates_of_a_slice_that_only_the_run_knows() -> None:
    op, _ = case("SliceScatter-15", "", [f32([1, 2, 3])], f32([1])).build()
    ends = [i64([n]).values for n in (0, 2, 1)]
    with pytest.raises(OpError, match=r"updates are \[1\]; the slice is \[2\]") as e:
        op.evaluate(f32([1, 2, 3]).values, f32([9]).values, *ends)
    assert (e.value.problem.code, e.value.problem.port) == ("E302", 1)


@pytest.mark.parametrize(
    ("kind", "attributes", "inputs", "words"),
    [
        ("SegmentMax-16", "", [f32([1]), i32([0, 1])], "2 segment_ids for 1 rows"),
        ("Pad-12", 'pad_mode="symmetric"', [f32([1]), i64([2]), i64([0])], "at most 1 for size 1"),
        ("GatherElements-6", 'axis="1"', [f32([[1, 2]] * 3), i32([[0]])], "differ on axis 0"),
        (
            "Gather-8",
            'batch_dims="1"',
            [f32([[1, 2]] * 3), i32([[0]]), i64(1)],
            "batch dimension 0",
        ),
    ],
)
def test_sizes_that_only_the_run_knows(
    kind: str, attributes: str, inputs: list[Tensor], words: str
) -> None:
    op, _ = case(kind, attributes, inputs, inputs[0]).build()
    with pytest.raises(OpError, match=words) as e:
        op.evaluate(*(t.values for t in inputs))
    code = "E305" if kind.startswith("Pad") else "E302"
    assert (e.value.problem.code, e.value.problem.port) == (code, 1)


@pytest.mark.parametrize("length", [-1, 3])
def test_lengths_of_sequences(length: int) -> None:
    inputs = [np.zeros(s, np.float32) for s in ((1, 2, 1), (1, 1, 1))]
    weights = [np.zeros(s, np.float32) for s in ((1, 1, 1), (1, 1, 1), (1, 1))]
    arrays = [*inputs, np.array([length]), *weights]
    op = RNNSequence(hidden_size=1)
    known = [Spec.of(a) for a in arrays]
    for attempt in (lambda: op.evaluate(*arrays), lambda: op.infer(*known)):
        with pytest.raises(OpError, match=f"sequence_lengths has {length} at 0") as e:
            attempt()
        assert (e.value.problem.code, e.value.problem.port) == ("E305", 2)
