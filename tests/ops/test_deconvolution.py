"""Deconvolutions against the definition, and what their attributes must be."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.op import parse_attributes
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData as Conv
from irdeconv.ops.dialect_openvino import GroupConvolutionBackpropData as GroupConv
from support.layers import Layer, build, graph_of, numbers
from support.rows import each_row

# OpenVINO's deconvolutions on numbers worked by hand, their windows and warnings.

I64 = np.int64


def run(op: Any, x: Any, w: Any, output_shape: Any = None, dtype: Any = np.float32) -> Any:
    """Run one layer directly and lowered; both give the same. Axes are added to x and w."""
    x, w = np.asarray(x, dtype), np.asarray(w, dtype)
    arrays = [x, w] + ([] if output_shape is None else [np.array(output_shape, I64)])
    graph, feeds = graph_of(op, *arrays)
    direct = ird.run(graph, feeds, form=None)["y"]
    lowered = ird.run(graph, feeds, form="zero-insertion")["y"]
    assert direct.dtype == lowered.dtype == x.dtype
    assert np.array_equal(direct, lowered)
    return direct


def run1d(op: Any, x: list[int], w: list[int], output_shape: Any = None) -> list[int]:
    """Run one channel of one-dimensional data."""
    return [int(v) for v in run(op, [[x]], [[w]], output_shape)[0, 0]]


ONE_D = [
    # op, data, filter, result
    pytest.param(Conv(), [1, 1], [1, 2, 3], [1, 3, 5, 3], id="stride 1 overlaps"),
    pytest.param(Conv(strides=(2,)), [1, 2, 3], [1, 10], [1, 10, 2, 20, 3, 30], id="stride 2"),
    pytest.param(Conv(strides=(3,)), [1, 2], [1, 10], [1, 10, 0, 2, 20], id="stride above kernel"),
    pytest.param(Conv(dilations=(2,)), [1, 2], [1, 10], [1, 2, 10, 20], id="dilation 2"),
    pytest.param(
        Conv(strides=(2,), dilations=(3,)), [1, 2], [1, 10], [1, 0, 2, 10, 0, 20], id="both"
    ),
    pytest.param(
        Conv(dilations=(2,), pads_begin=(1,), pads_end=(1,)), [1, 2], [1, 10], [2, 10], id="pads"
    ),
    pytest.param(
        Conv(dilations=(2,), pads_begin=(1,), pads_end=(0,)),
        [1, 2],
        [1, 10],
        [2, 10, 20],
        id="pads at the begin",
    ),
    pytest.param(
        Conv(dilations=(2,), pads_begin=(-1,), pads_end=(-2,)),
        [1, 2],
        [1, 10],
        [0, 1, 2, 10, 20, 0, 0],
        id="negative pads",
    ),
    pytest.param(
        Conv(dilations=(2,), output_padding=(2,)),
        [1, 2],
        [1, 10],
        [1, 2, 10, 20, 0, 0],
        id="output_padding above the stride",
    ),
    pytest.param(
        Conv(dilations=(2,), pads_end=(2,), output_padding=(1,)),
        [1, 2],
        [1, 10],
        [1, 2, 10],
        id="output_padding uncovers what pads_end cuts off",
    ),
    pytest.param(Conv(output_padding=(-1,)), [1, 1], [1, 2, 3], [1, 3, 5], id="negative is a crop"),
    pytest.param(
        Conv(pads_begin=(6,), pads_end=(-9,)), [1, 1], [1, 2], [0] * 6, id="beside it all"
    ),
]


@pytest.mark.parametrize(("op", "x", "w", "y"), ONE_D)
def test_one_dimension(op: Any, x: list[int], w: list[int], y: list[int]) -> None:
    assert run1d(op, x, w) == y


def test_two_dimensions_side_by_side() -> None:
    y = run(Conv(strides=(2, 2)), [[[[1, 2], [3, 4]]]], [[[[1, 10], [100, 1000]]]])
    assert y[0, 0].tolist() == [
        [1, 10, 2, 20],
        [100, 1000, 200, 2000],
        [3, 30, 4, 40],
        [300, 3000, 400, 4000],
    ]


def test_two_dimensions_overlapping() -> None:
    y = run(Conv(), [[[[1, 2], [3, 4]]]], [[[[1, 10], [100, 1000]]]])
    assert y[0, 0].tolist() == [[1, 12, 20], [103, 1234, 2040], [300, 3400, 4000]]


def test_two_dimensions_with_unequal_axes() -> None:
    op = Conv(
        strides=(1, 3), dilations=(2, 1), pads_begin=(1, 0), pads_end=(0, 2), output_padding=(0, 1)
    )
    # Scatter, 4 rows of 5 columns: 1 10 0 2 20 / 3 30 0 4 40 / 100 1000 0 200 2000 / 300 ...
    y = run(op, [[[[1, 2], [3, 4]]]], [[[[1, 10], [100, 1000]]]])
    assert y[0, 0].tolist() == [[3, 30, 0, 4], [100, 1000, 0, 200], [300, 3000, 0, 400]]


def test_ones_3x3_to_5x5() -> None:
    """The ConvTranspose example of the ONNX documentation."""
    x = np.arange(9).reshape(1, 1, 3, 3)
    y = run(Conv(), x, np.ones((1, 2, 3, 3)))
    want = [
        [0, 1, 3, 3, 2],
        [3, 8, 15, 12, 7],
        [9, 21, 36, 27, 15],
        [9, 20, 33, 24, 13],
        [6, 13, 21, 15, 8],
    ]
    assert y[0].tolist() == [want, want]


def test_stride_3_2_of_the_same() -> None:
    """The strided one of the same documentation: 3x3 -> 10x8 with output_shape."""
    x = np.arange(9).reshape(1, 1, 3, 3)
    y = run(Conv(strides=(3, 2), output_padding=(1, 1)), x, np.ones((1, 2, 3, 3)))
    assert y.shape == (1, 2, 10, 8)
    assert y[0, 1, 0].tolist() == [0, 0, 1, 1, 3, 2, 2, 0]
    assert y[0, 1, 5].tolist() == [3, 3, 7, 4, 9, 5, 5, 0]
    assert y[0, 1, 9].tolist() == [0] * 8


def test_three_dimensions() -> None:
    op = Conv(strides=(2, 1, 1), dilations=(1, 1, 2))
    x = np.array([1, 2]).reshape(1, 1, 2, 1, 1)
    y = run(op, x, np.array([1, 10]).reshape(1, 1, 1, 1, 2))
    assert y[0, 0, :, 0].tolist() == [[1, 0, 10], [0, 0, 0], [2, 0, 20]]


def test_input_channels_are_summed_and_output_channels_are_separate() -> None:
    y = run(Conv(), [[[1, 2], [3, 4]]], [[[1], [10]], [[100], [1000]]])
    assert y[0].tolist() == [[301, 402], [3010, 4020]]


def test_groups_are_contiguous_chunks() -> None:
    """g = 2, C/g = 2, M/g = 3: group 0 reads channels 0 and 1 and writes 0 to 2."""
    w = np.array([[[1, 2, 3], [10, 20, 30]], [[4, 5, 6], [40, 50, 60]]]).reshape(2, 2, 3, 1)
    y = run(GroupConv(), [[[1], [2], [3], [4]]], w)
    assert y[0, :, 0].tolist() == [21, 42, 63, 172, 215, 258]


def test_depthwise_with_two_outputs_per_channel() -> None:
    w = np.array([[[1, 10]], [[2, 20]], [[3, 30]]]).reshape(3, 1, 2, 1)
    y = run(GroupConv(), [[[1, 2], [3, 4], [5, 6]]], w)
    want = [[1, 2], [10, 20], [6, 8], [60, 80], [15, 18], [150, 180]]
    assert y[0].tolist() == want


def test_one_group_is_the_plain_form() -> None:
    rng = np.random.default_rng(1)
    x, w = numbers(rng, (2, 3, 4), np.float32), numbers(rng, (3, 2, 3), np.float32)
    assert np.array_equal(run(GroupConv(strides=(2,)), x, w[None]), run(Conv(strides=(2,)), x, w))


def test_224_to_447() -> None:
    """The shapes of the specification's first example."""
    layer = Layer(
        1, (224, 224), None, 20, 10, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0)
    )  # fmt: skip
    rng = np.random.default_rng(224)
    x = numbers(rng, layer.data_shape, np.float32, 3)
    w = numbers(rng, layer.filter_shape, np.float32, 3)
    graph, feeds = build(layer, x, w)
    (deconv,) = ird.infer(graph).find("deconv")
    assert str(deconv.spec()) == "f32[1,10,447,447]"
    direct = ird.run(graph, feeds, form=None)["y"]
    lowered = ird.run(graph, feeds, form="zero-insertion")["y"]
    assert direct.shape == (1, 10, 447, 447)
    assert np.array_equal(direct, lowered)
    # Even rows and columns meet one tap only: the middle one.
    assert np.array_equal(direct[0, :, ::2, ::2], np.einsum("cxy,cm->mxy", x[0], w[:, :, 1, 1]))


def test_the_specifications_other_examples() -> None:
    """output_padding: 2x2 -> 8x8; output_shape with valid: 224x224 -> 450x450."""
    graph, _ = graph_of(
        Conv(strides=(3, 3), output_padding=(2, 2)),
        np.zeros((1, 20, 2, 2), np.float32),
        np.zeros((20, 10, 3, 3), np.float32),
    )
    assert str(ird.infer(graph).find("deconv")[0].spec()) == "f32[1,10,8,8]"
    graph, _ = graph_of(
        Conv(pads_begin=(1, 1), pads_end=(1, 1), auto_pad="valid"),
        np.zeros((1, 20, 224, 224), np.float32),
        np.zeros((20, 10, 3, 3), np.float32),
        np.array([450, 450], I64),
    )
    assert str(ird.infer(graph).find("deconv")[0].spec()) == "f32[1,10,450,450]"


NUMERIC = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
NUMERIC += [np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8]


@each_row("dtype", NUMERIC)
def test_every_numeric_type(dtype: Any) -> None:
    y = run(Conv(strides=(2,)), [[[1, 2, 3]]], [[[1, 4, 2]]], dtype=dtype)
    assert y[0, 0].astype(int).tolist() == [1, 4, 4, 8, 7, 12, 6]


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 2, 3)])
def test_an_empty_batch_gives_an_empty_output(shape: tuple[int, ...]) -> None:
    y = run(Conv(strides=(2,)), np.ones(shape), np.ones((2, 1, 2)))
    assert y.shape == (shape[0], 1, 6)


# The table of rules: a kernel of size 1 at stride 1, so that the scatter is the data 1..7 itself
# and the output shows where the window begins.
DATA, TAP = [1, 2, 3, 4, 5, 6, 7], [1]
WINDOWS = [
    # auto_pad, pads_begin, output_padding, output_shape, runtime, document
    ("explicit", 1, 0, 3, [2, 3, 4], [3, 4, 5]),
    ("explicit", -2, 0, 4, [0, 0, 1, 2], [2, 3, 4, 5]),
    ("explicit", 2, 0, 3, [3, 4, 5], [3, 4, 5]),
    ("valid", 3, 0, 3, [1, 2, 3], [3, 4, 5]),
    ("valid", 0, 0, 6, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
    ("valid", 0, 0, 9, [1, 2, 3, 4, 5, 6, 7, 0, 0], [0, 1, 2, 3, 4, 5, 6, 7, 0]),
    ("same_upper", 3, 0, 4, [3, 4, 5, 6], [3, 4, 5, 6]),
    ("same_lower", 3, 0, 4, [2, 3, 4, 5], [2, 3, 4, 5]),
    ("same_upper", 0, 0, 3, [3, 4, 5], [3, 4, 5]),
    ("same_lower", 0, 0, 3, [3, 4, 5], [3, 4, 5]),
    ("same_upper", 0, 1, 5, [3, 4, 5, 6, 7], [3, 4, 5, 6, 7]),
    ("same_lower", 0, 2, 5, [3, 4, 5, 6, 7], [3, 4, 5, 6, 7]),
    ("same_upper", 0, 0, 10, [*DATA, 0, 0, 0], [0, *DATA, 0, 0]),
    ("same_lower", 0, 0, 10, [*DATA, 0, 0, 0], [0, 0, *DATA, 0]),
    ("same_upper", 3, 0, None, DATA, DATA),
    ("same_lower", 3, 1, None, [*DATA, 0], [*DATA, 0]),
    ("valid", 3, 1, None, [*DATA, 0], [*DATA, 0]),
]


@each_row("row", WINDOWS)
def test_windows_of_runtime_and_document(row: Any) -> None:
    auto_pad, begin, extra, size, runtime, document = row
    output_shape = None if size is None else [size]
    warned = {}
    for semantics, want in (("runtime", runtime), ("document", document)):
        op = Conv(
            pads_begin=(begin,),
            pads_end=(1 if size is not None else 0,),
            output_padding=(extra,),
            auto_pad=auto_pad,
            semantics=semantics,  # type: ignore[arg-type]
        )
        assert run1d(op, DATA, TAP, output_shape) == want
        arrays = [np.ones((1, 1, 7)), np.ones((1, 1, 1))]
        graph, _ = graph_of(op, *arrays, *([] if size is None else [np.array([size])]))
        warned[semantics] = [d for d in ird.validate(graph) if d.code == "W300"]
    # A warning stands exactly where the two give different numbers, and names the choice made.
    for semantics, found in warned.items():
        assert len(found) == (runtime != document)
        assert all(f"computes the {semantics}'s" in d.message for d in found)


def test_the_divergence_warning_shows_both_numbers() -> None:
    graph, _ = graph_of(
        Conv(pads_begin=(1, 0), pads_end=(0, 0)),
        np.ones((1, 1, 7, 6)),
        np.ones((1, 1, 1, 1)),
        np.array([3, 2]),
    )
    (d,) = [d for d in ird.validate(graph) if d.code == "W300"]
    assert "(1, 0)" in d.message
    assert "(2, 2)" in d.message
    assert d.layer == "deconv"


def warnings_of(op: Any, *arrays: Any) -> list[tuple[str, str]]:
    graph, _ = graph_of(op, *arrays)
    return [(d.code, d.message) for d in ird.validate(graph) if d.severity == "warning"]


X1, W1 = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3), np.float32)


def test_warnings() -> None:
    ((code, text),) = warnings_of(Conv(pads_end=(-2,)), X1, W1)
    assert (code, "pads_end has negative values" in text) == ("W303", True)
    ((code, text),) = warnings_of(GroupConv(), np.ones((1, 2, 3)), np.ones((1, 2, 1, 3)))
    assert (code, "one group" in text) == ("W303", True)


def test_unusual_but_fine_layers_have_no_warnings() -> None:
    assert warnings_of(Conv(output_padding=(7,)), X1, W1) == []
    assert warnings_of(Conv(pads_end=(-2,), auto_pad="valid"), X1, W1) == []
    assert warnings_of(GroupConv(), X1, W1[None]) == []


# What OpenVINO's deconvolutions refuse: shapes, element types, lists, attribute texts.


def f32(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


REJECTED = [
    # code, words of the message, operation, arrays
    ("E302", "data has 5 channels, the filter wants 4", Conv(), f32(1, 5, 3), f32(4, 2, 3)),
    (
        "E302",
        "data has 5 channels, the filter wants 6 = 2 groups x 3",
        GroupConv(),
        f32(1, 5, 3),
        f32(2, 3, 1, 3),
    ),
    ("E301", "data has rank 2", Conv(), f32(4, 3), f32(3, 2, 3)),
    ("E301", "data has rank 6", Conv(), f32(1, 1, 1, 1, 1, 1), f32(1, 1, 1, 1, 1, 1)),
    ("E301", "filter has rank 3; it must be 4, [C, M, *K]", Conv(), f32(1, 4, 3, 3), f32(4, 2, 3)),
    (
        "E301",
        "filter has rank 4; it must be 5, [G, C, M, *K]",
        GroupConv(),
        f32(1, 4, 3, 3),
        f32(4, 2, 3, 3),
    ),
    ("E302", "the kernel has size 0 on spatial axis 0", Conv(), f32(1, 1, 3), f32(1, 1, 0)),
    ("E303", "data is f32 and filter is f64", Conv(), f32(1, 1, 3), np.zeros((1, 1, 3))),
    (
        "E303",
        "data is boolean; it must be a number type",
        Conv(),
        np.zeros((1, 1, 3), bool),
        np.zeros((1, 1, 3), bool),
    ),
    ("E303", "output_shape is f32", Conv(), f32(1, 1, 3), f32(1, 1, 3), f32(1)),
    ("E304", "strides has 1 value for 2", Conv(strides=(2,)), f32(1, 1, 3, 3), f32(1, 1, 3, 3)),
    ("E304", "dilations has 3 values", Conv(dilations=(1, 1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "pads_begin has 2 values", Conv(pads_begin=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "pads_end has 2 values", Conv(pads_end=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E304", "output_padding has 2", Conv(output_padding=(1, 1)), f32(1, 1, 3), f32(1, 1, 3)),
    ("E305", "output_shape has shape", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.zeros(2, I64)),
    ("E305", "output_shape has shape", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.array(3)),
    ("E305", "size -2 on spatial axis 0", Conv(), f32(1, 1, 3), f32(1, 1, 3), np.array([-2])),
    ("E306", "would have size -1 on", Conv(pads_begin=(6,)), f32(1, 1, 3), f32(1, 1, 3)),
]


@each_row("row", REJECTED)
def test_rejections(row: Any) -> None:
    code, words, op, *arrays = row
    graph, feeds = graph_of(op, *arrays)
    with pytest.raises(ird.InferenceError) as raised:
        ird.infer(graph)
    (error,) = raised.value.diagnostics
    assert (error.code, error.severity, error.layer) == (code, "error", "deconv")
    assert words in error.message
    assert error.message.startswith(op.type)
    assert [d.code for d in ird.validate(graph) if d.severity == "error"] == [code]
    with pytest.raises(ird.InferenceError):
        ird.lower(graph)
    with pytest.raises(ird.InferenceError):
        ird.run(graph, feeds)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Conv(strides=(2, 0)), "strides is [2, 0]; each value must be positive"),
        (Conv(dilations=(-1, 1)), "dilations is [-1, 1]; each value must be positive"),
        (Conv(strides=(2, 2), pads_end=(0,)), "strides has 2 values, pads_end has 1"),
    ],
)
def test_attributes_are_checked_alone(op: Any, words: str) -> None:
    assert [p.message for p in op.problems()] == [words]


def test_a_negative_size_at_run_time_is_an_execution_error() -> None:
    layer = Layer(1, (3,), None, 1, 1, (3,), (1,), (1,), (0,), (0,), (0,), output_shape=(2,))
    graph, feeds = build(layer, f32(1, 1, 3), f32(1, 1, 3), shape_source="input")
    feeds["output_shape"] = np.array([-2], I64)
    for form in (None, "zero-insertion"):
        with pytest.raises(ird.ExecutionError, match="E500"):
            ird.run(graph, feeds, form=form)


def test_attributes_from_text() -> None:
    values, problems = parse_attributes(
        Conv, {"strides": "2,3", "auto_pad": "Same_Upper", "pads_begin": " 1, -1", "pads_end": ""}
    )
    assert values == {
        "strides": (2, 3),
        "auto_pad": "same_upper",
        "pads_begin": (1, -1),
        "pads_end": (),
    }
    assert [(p.code, "dilations" in p.message) for p in problems] == [("W101", True)]


@each_row(
    ("data", "code"),
    [
        ({"auto_pad": "notset"}, "E106"),
        ({"auto_pad": "same"}, "E106"),
        ({"strides": "2.7,2"}, "E106"),
        ({"strides": "2,,2"}, "E106"),
        ({"strides": "99999999999999999999"}, "E106"),
        ({"pad_begin": "1"}, "W100"),
        ({"semantics": "document"}, "W100"),
    ],
)
def test_bad_attribute_texts(data: dict[str, str], code: str) -> None:
    every = {"strides": "1", "pads_begin": "0", "pads_end": "0", "dilations": "1"}
    _, problems = parse_attributes(Conv, every | data)
    assert [p.code for p in problems] == [code]


SAME = 'did you mean "same_lower" or "same_upper"?'


@each_row(("word", "hint"), [("same", SAME), ("zzz", "write one of these")])
def test_a_hint_for_a_wrong_word(word: str, hint: str) -> None:
    _, problems = parse_attributes(Conv, {"auto_pad": word})
    assert [p.hint for p in problems if p.code == "E106"] == [hint]
