"""Random layers of every operation, irdeconv against a live OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from op_cases import Tensor, bf16, boolean, count, f16, f32, f64, i32, i64, u1, u8
from support.live_operations.explained import EXPLAINED, explanation
from support.live_operations.runtime import Answer
from support.live_operations.sample import Given, Sample, given
from support.live_operations.sweep import Table, sample_of, sweep, targets
from support.live_operations.verdict import Verdict, judge

pytestmark = pytest.mark.oracles
pytest.importorskip("openvino")
LEAST = 0.97


def test_a_sample_of_the_operations_agrees() -> None:
    """Every fifth operation of the newest opset; few samples, so one more may differ."""
    table = Table()
    for row in sweep([t for t in targets() if t.opset == 16][::5], range(1)):
        table.add(*row)
    assert table.rate >= LEAST - 0.05, table.found


@pytest.mark.slow
def test_all_operations_agree() -> None:
    table = Table()
    for row in sweep(targets(), range(2)):
        table.add(*row)
    assert table.rate >= LEAST, table.rows()


@pytest.mark.parametrize("title", [e.title for e in EXPLAINED])
def test_explanations_are_documented(title: str) -> None:
    page = Path(__file__).resolve().parent.parent / "docs/disagreements.md"
    assert f"| {title} |" in page.read_text("utf-8")


def test_samples_repeat() -> None:
    target = next(t for t in targets() if t.type == "Concat")
    assert str(sample_of(target, 3)) == str(sample_of(target, 3))
    assert str(sample_of(target, 3)) != str(sample_of(target, 4))


ADD = Sample("Add", "opset1", {}, (given(f32([1, 2])), given(f32([3, 4]))))
TWO = (("f32", ((2, 2),)),)


def ran(values: object, specs: object = TWO) -> Answer:
    return Answer("ran", specs, (values,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("live", "ours", "kind", "reason"),
    [
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values), "agree", ""),
        (ran(f32([4, 6]).values), ran(f32([4, 7]).values), "differ", "1 of 2 values; at [1] 7.0"),
        (ran(f32([4, 6]).values), ran(f32([4]).values), "differ", "shape [1], OpenVINO [2]"),
        (ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f16", None),)), "differ", "type f16"),
        (
            ran(f32([4, 6]).values),
            ran(f32([4, 6]).values, (("f32", ((3, -1),)),)),
            "differ",
            "inferred [3..-1], OpenVINO [2]",
        ),
        (Answer("refused", message="no"), ran(f32([4, 6]).values), "only irdeconv", "no"),
        (ran(f32([4, 6]).values), Answer("refused", message="E303"), "only OpenVINO", "E303"),
        (Answer("refused"), Answer("refused"), "both refuse", ""),
        (Answer("crashed"), Answer("refused"), "OpenVINO crashes", ""),
        (ran(f32([4, 6]).values), Answer("crashed", message="KeyError"), "differ", "KeyError"),
    ],
)  # fmt: skip
def test_verdicts(live: Answer, ours: Answer, kind: str, reason: str) -> None:
    verdict = judge(ADD, live, ours)
    assert verdict.kind == kind
    assert reason in verdict.reason


def test_an_open_size_that_openvino_knows_is_wider() -> None:
    verdict = judge(ADD, ran(f32([4, 6]).values), ran(f32([4, 6]).values, (("f32", None),)))
    assert (verdict.kind, verdict.wider) == ("agree", True)


def test_the_limit_is_that_of_the_narrowest_type() -> None:
    sample = Sample("PReLU", "opset1", {}, (given(f16([1.0])), given(f32([3.0]))))
    half = (("f32", ((1, 1),)),)
    assert judge(sample, ran(f32([1]).values, half), ran(f32([1.001]).values, half)).kind == "agree"
    whole = Sample("Abs", "opset1", {}, (given(i32([1])),))
    kinds = (("i32", ((1, 1),)),)
    assert judge(whole, ran(i32([1]).values, kinds), ran(i32([2]).values, kinds)).kind == "differ"


X, ROW, TWO_VALUES = count((2, 3), 1), f32([[1, 2, 3]]), f32([1, 2])
PADS = i64([1, 0])
IMAGE = count((1, 1, 4, 4), 1)
BOXES = "base_size=16 pre_nms_topn=4 post_nms_topn=1 nms_thresh=0.5 feat_stride=16 ratio=1 scale=1"
SCORES = (f32([[[[0.5]], [[0.5]]]]), f32(np.zeros((1, 4, 1, 1))), f32([16, 16, 1]))
POOL = 'kernel="2,2" strides="1,1" pads_begin="0,0" pads_end="0,0"'
ALONE = 'kernel="1,1" strides="1,1" pads_begin="1,0" pads_end="0,0"'
ADDS = "begin_mask=0,0 end_mask=0,0 new_axis_mask=1,0"
ROW_ALONE, TWICE, NO_KEYS = f32([1, 2, 3]), f32([1, 1, 2]), boolean([[False]])
SAME = f'{POOL} auto_pad="same_lower"'
DIFFERS = "output 0: 1 of 2 values; at [0] 1, OpenVINO 2"
SERIES, STATE, MATRIX = count((1, 4, 1), 1), f32([[[1]]]), f32([[[1]]])


def explained(
    op: str, attributes: str, *inputs: Tensor | Given, outputs: int = 1, reason: str = DIFFERS
) -> str:
    """Title of what explains that values of a layer differ; the inputs are open or as given."""
    kind, version = op.split("-")
    texts = dict(text.split("=") for text in attributes.replace('"', "").split())
    ports = tuple(g if isinstance(g, Given) else opened(g) for g in inputs)
    sample = Sample(kind, f"opset{version}", texts, ports, outputs)
    return explanation(Verdict("differ", sample, reason))


def opened(t: Tensor) -> Given:
    return Given(t, declared=(-1,) * t.values.ndim)


def constant(t: Tensor) -> Given:
    return given(t, constant=True)


@pytest.mark.parametrize(
    ("title", "fits", "misses"),
    [
        ("a bias of LRN", ("LRN-1", "bias=0.5", X, i64([1])), ("LRN-1", "bias=2", X, i64([1]))),
        ("LRN over", ("LRN-1", "bias=2", X, i64([0])), ("LRN-1", "bias=2", IMAGE, i64([1]))),
        (
            "filters of BinaryConvolution",
            ("BinaryConvolution-1", "", X, u1(count((1, 9, 1, 1)).values % 2)),
            ("BinaryConvolution-1", "", X, u1(count((1, 8, 1, 1)).values % 2)),
        ),
        (
            "random numbers",
            ("Multinomial-13", "convert_type=i32 with_replacement=true log_probs=false", ROW, PADS),
            ("Multinomial-13",
             "convert_type=i32 with_replacement=true log_probs=false op_seed=1", ROW, PADS),
        ),
        (
            "Multinomial that",
            ("Multinomial-13",
             "convert_type=i32 with_replacement=false log_probs=false op_seed=1", ROW, i64([4])),
            ("Multinomial-13",
             "convert_type=i32 with_replacement=false log_probs=false op_seed=1", ROW, i64([3])),
        ),
        ("edges", ("Bucketize-3", "", X, f32([2, 1])), ("Bucketize-3", "", X, TWO_VALUES)),
        (
            "indices",
            ("Gather-8", "", X, i32([3]), constant(i64(1))),
            ("Gather-8", "", X, i32([-3]), constant(i64(1))),
        ),
        (
            "auto_broadcast none",
            ("Add-1", "auto_broadcast=none", X, ROW),
            ("Add-1", "auto_broadcast=none", X, X),
        ),
        (
            "pdpd",
            ("Greater-1", "auto_broadcast=pdpd", X, TWO_VALUES),
            ("Add-1", "auto_broadcast=pdpd", X, TWO_VALUES),
        ),
        (
            "shifts",
            ("BitwiseLeftShift-15", "", i32([1, 2]), i32([32, 1])),
            ("BitwiseLeftShift-15", "", i32([1, 2]), i32([31, 1])),
        ),
        (
            "functions of 8-bit",
            ("Asin-1", "", u8([[[2]]])),
            ("Asin-1", "", u8([[[1]]])),
        ),
        (
            "sums of 8-bit",
            ("ReduceSum-1", "", u8([200, 56]), i64(0)),
            ("ReduceSum-1", "", u8([200, 55]), i64(0)),
        ),
        (
            "integers computed",
            ("Exp-1", "", i32([20])),
            ("Exp-1", "", i32([10])),
        ),
        (
            "8-bit integers that overflow",
            ("Subtract-1", "auto_broadcast=numpy", u8([1, 2]), u8([2, 2])),
            ("Subtract-1", "auto_broadcast=numpy", u8([2, 2]), u8([2, 2])),
        ),
        (
            "squared",
            ("SquaredDifference-1", "auto_broadcast=numpy", u8([1]), u8([2])),
            ("SquaredDifference-1", "auto_broadcast=numpy", i32([1]), i32([2])),
        ),
        (
            "quotients",
            ("Divide-1", "auto_broadcast=numpy", u8([3]), u8([2])),
            ("Divide-1", "auto_broadcast=numpy", u8([4]), u8([2])),
        ),
        (
            "integers computed",
            ("Multiply-1", "auto_broadcast=numpy", i32([5000]), i32([5001])),
            ("Multiply-1", "auto_broadcast=numpy", i32([500]), i32([5001])),
        ),
        (
            "infinities",
            ("Log-1", "", f64([0.0])),
            ("Log-1", "", f64([1.0])),
        ),
        (
            "maxima",
            ("ReduceMax-1", "", f32([-np.inf]), i64([0])),
            ("ReduceMax-1", "", f32([-np.inf, 1]), i64([0])),
        ),
        (
            "a SliceScatter",
            ("SliceScatter-15", "", X, X, *map(constant, (PADS, PADS)), PADS),
            ("SliceScatter-15", "", X, X, *map(constant, (PADS, PADS, PADS))),
        ),
        (
            "sequences",
            ("LSTMSequence-5", "direction=reverse", SERIES, STATE, STATE, i64([3]), MATRIX),
            ("LSTMSequence-5", "direction=reverse", SERIES, STATE, STATE, i64([4]), MATRIX),
        ),
        (
            "the inverse",
            ("Inverse-14", "adjoint=false", f32([[1, 2], [2, 4]])),
            ("Inverse-14", "adjoint=false", f32([[1, 2], [2, 5]])),
        ),
        (
            "a pad value",
            ("Pad-12", "pad_mode=constant", X, constant(PADS), constant(PADS), f16(7)),
            ("Pad-12", "pad_mode=constant", X, constant(PADS), PADS, f16(7)),
        ),
        (
            "MaxPool with places",
            ("MaxPool-14", SAME, IMAGE),
            ("MaxPool-14", SAME, given(IMAGE)),
        ),
        (
            "integers beyond",
            ("Convert-1", "destination_type=i64", f32([3e9])),
            ("Convert-1", "destination_type=i32", f32([3e9])),
        ),
        (
            "reals beyond",
            ("Convert-1", "destination_type=u8", f32([-1.0])),
            ("Convert-1", "destination_type=u8", given(f32([-1.0]))),
        ),
        (
            "a StridedSlice",
            ("StridedSlice-1", f"{ADDS} shrink_axis_mask=0,1", X, PADS, PADS),
            ("StridedSlice-1", f"{ADDS} shrink_axis_mask=0,1", ROW_ALONE, PADS, PADS),
        ),
        (
            "equal values",
            ("TopK-11", "axis=0 mode=max sort=index", TWICE, constant(i64(2))),
            ("TopK-11", "axis=0 mode=max sort=index", TWICE, constant(i64(1))),
        ),
        (
            "a Range of reals",
            ("Range-4", "output_type=i32", f32(0.5), constant(f32(4)), constant(f32(2))),
            ("Range-4", "output_type=i32", *map(constant, (f32(0.5), f32(4), f32(2)))),
        ),
        (
            "a Range beyond",
            ("Range-4", "output_type=u8", i32(250), i32(257), i32(3)),
            ("Range-4", "output_type=u8", i32(250), i32(256), i32(3)),
        ),
        (
            "a Range whose",
            ("Range-4", "output_type=i32", i32(5), i32(0), i32(1)),
            ("Range-4", "output_type=i32", i32(5), i32(0), i32(-1)),
        ),
        (
            "layers with an empty input",
            ("DFT-7", "", f32(np.zeros((0, 2))), i64([0]), i64([3])),
            ("DFT-7", "", f32(np.zeros((1, 2))), i64([0]), i64([3])),
        ),
        (
            "the least",
            ("ReduceMin-1", "", f32(np.zeros((0, 2))), constant(i64([0]))),
            ("ReduceMin-1", "", f32(np.zeros((0, 2))), constant(i64([1]))),
        ),
        (
            "an open Concat",
            ("Concat-1", "axis=0", f32([]), f32([])),
            ("Concat-1", "axis=0", f32([]), f32([1])),
        ),
        (
            "an open Reshape",
            ("Reshape-1", "special_zero=false", f32([]), i64([0, -1])),
            ("Reshape-1", "special_zero=true", f32([]), i64([0, -1])),
        ),
        (
            "NormalizeL2",
            ("NormalizeL2-1", "eps=1 eps_mode=add", X, i64([])),
            ("NormalizeL2-1", "eps=1 eps_mode=add", X, i64([1])),
        ),
        (
            "windows",
            ("AvgPool-1", f"{ALONE} exclude-pad=false", bf16(IMAGE.values)),
            ("AvgPool-1", f"{POOL} exclude-pad=false", bf16(IMAGE.values)),
        ),
    ],
)  # fmt: skip
def test_explanations_are_narrow(title: str, fits: tuple, misses: tuple) -> None:
    outputs = 2 if title.startswith("MaxPool") else 1
    assert explained(*fits, outputs=outputs).startswith(title)
    assert explained(*misses, outputs=outputs) == ""


@pytest.mark.parametrize(
    ("title", "reason", "fits", "misses"),
    [
        (
            "the largest of nothing",
            "output 0: inferred [0], OpenVINO [2]",
            ("TopK-11", "axis=0 mode=max sort=value", f32([]), constant(i64(2))),
            ("TopK-11", "axis=0 mode=max sort=value", f32([1]), constant(i64(2))),
        ),
        (
            "a real transform",
            "output 0: inferred [1,2], OpenVINO [0,2]",
            ("RDFT-9", "", f32([]), constant(i64([0]))),
            ("RDFT-9", "", f32([1]), constant(i64([0]))),
        ),
        (
            "CTCLoss",
            "output 0: 1 of 1 values; at [0] 0.0, OpenVINO inf",
            ("CTCLoss-4", "", f32([[[90, 0]]]), i32([1]), i32([[0]]), i32([1])),
            ("CTCLoss-4", "", f32([[[88, 0]]]), i32([1]), i32([[0]]), i32([1])),
        ),
        (
            "a boolean mask",
            "output 0: 1 of 2 values; at [0] nan, OpenVINO 2",
            ("ScaledDotProductAttention-13", "causal=false", *(f64([[[1]]]),) * 3, NO_KEYS),
            ("ScaledDotProductAttention-13", "causal=false", *(f32([[[1]]]),) * 3, NO_KEYS),
        ),
        (
            "scores of a Proposal",
            "output 1: 1 of 2 values; at [0] 0, OpenVINO 2",
            ("Proposal-4", f"{BOXES} post_nms_topn=2", *SCORES),
            ("Proposal-4", f"{BOXES} post_nms_topn=1", *SCORES),
        ),
        (
            "places of MaxPool",
            "output 1: 1 of 2 values; at [0] 0, OpenVINO 2",
            ("MaxPool-8", POOL, u8([[[[1, 0, 0], [1, 0, 0]]]])),
            ("MaxPool-8", POOL, u8([[[[1, 0, 1], [1, 0, 0]]]])),
        ),
    ],
)
def test_explanations_of_a_kind_of_value(
    title: str, reason: str, fits: tuple, misses: tuple
) -> None:
    assert explained(*fits, outputs=2, reason=reason).startswith(title)
    assert explained(*misses, outputs=2, reason=reason) == ""
    assert not explained(*fits, outputs=2).startswith(title)


@pytest.mark.parametrize(
    "reason",
    ["irdeconv fails: KeyError", "output 0: type i32, OpenVINO i64", "output 0: inferred 2"],
)
def test_other_differences_are_not_explained(reason: str) -> None:
    sample = Sample("LRN", "opset1", {"bias": "0.5"}, (given(X), given(i64([1]))))
    assert explanation(Verdict("differ", sample, reason)) == ""
