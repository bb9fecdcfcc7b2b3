"""Known mistakes, also of what a layer is set to, are named; what no mistake explains is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY, Op
from irdeconv.ops.channels import ShuffleChannels
from irdeconv.ops.elementwise import Add
from irdeconv.ops.movement import Pad1
from irdeconv.verify.comparison import filter_mistake, setting_mistake
from irdeconv.verify.difference import kind_of
from irdeconv.verify.judge import evaluate
from support.commands import answer
from support.layers import Layer, begun, build, constant, expected, numbers, result, sequential
from support.rows import each_row

RNG = np.random.default_rng(81)
X = (2 * RNG.standard_normal((2, 3, 7, 8))).astype(np.float32)


def op(kind: str, opset: int = 1, **attributes: Any) -> Op:
    return REGISTRY[kind, f"opset{opset}"](**attributes)


def pool(kind: str = "AvgPool", **changes: Any) -> Op:
    usual: dict[str, Any] = {"kernel": (3, 2), "strides": (2, 2), "pads_begin": (1, 0),
                             "pads_end": (1, 0), "rounding_type": "floor"}  # fmt: skip
    usual |= {"exclude_pad": True} if kind == "AvgPool" else {}
    return op(kind, **usual | changes)


def mvn(eps: float, mode: str = "inside_sqrt") -> Op:
    return op("MVN", 6, normalize_variance=True, eps=eps, eps_mode=mode)


SLOPE, AXES = np.float32(0.1), np.array([2, 3])
PARTS = [np.array(v, np.float32) for v in ([1, 2, 3], [0, 1, 2], [0.5, 0, 1], [1e-3, 2e-3, 1])]
SQUARE, WIDE = (RNG.standard_normal(s).astype(np.float32) for s in ((8, 8), (8, 5)))
SMALL = X * np.float32(0.03)


@each_row(("mine", "wrong", "inputs", "kind"), [
        (op("ReLU"), op("Sigmoid"), [X], "the activation is Sigmoid instead of ReLU"),
        (op("ReLU"), op("Clamp", min=0.0, max=6.0), [X * 5], "the activation is ReLU6 instead of"),
        (op("Gelu", 7), op("Gelu", 7, approximation_mode="TANH"), [X],
         "the activation is Gelu by Tanh instead of Gelu"),
        (op("HSwish", 4), op("Swish", 4), [X], "the activation is Swish instead of HSwish"),
        (op("Elu", alpha=1.0), op("Elu", alpha=0.5), [X], "alpha is 0.5 instead of 1"),
        (op("ReLU"), op("Elu", alpha=0.5), [X], "the activation is Elu of alpha 0.5 instead of"),
        (mvn(1e-3), mvn(1e-5), [SMALL, AXES], "epsilon is 1e-05 instead of 0.001"),
        (mvn(1e-3), mvn(1e-3, "outside_sqrt"), [SMALL, AXES],
         "epsilon is outside_sqrt instead of inside_sqrt"),
        (op("MVN", 2, eps=1e-3), op("MVN", 2, eps=1e-5), [SMALL], "epsilon is 1e-05 instead of"),
        (op("NormalizeL2", eps=0.01, eps_mode="add"), op("NormalizeL2", eps=0.1, eps_mode="add"),
         [SMALL, AXES], "epsilon is 0.1 instead of 0.01"),
        (op("BatchNormInference", 5, epsilon=1e-3), op("BatchNormInference", 5, epsilon=1e-5),
         [X, *PARTS], "epsilon is 1e-05 instead of 0.001"),
        (op("GroupNormalization", 12, num_groups=3, epsilon=1e-3),
         op("GroupNormalization", 12, num_groups=3, epsilon=0.0), [SMALL, *PARTS[:2]],
         "epsilon is 0 instead of 0.001"),
        (pool(), pool(exclude_pad=False), [X], "pads count in the averages"),
        (pool(exclude_pad=False), pool(), [X], "pads do not count in the averages"),
        (pool(kernel=(2, 3)), pool(kernel=(2, 3), rounding_type="ceil"), [X],
         "sizes are rounded by ceil instead of floor"),
        (pool("MaxPool", kernel=(2, 3)), pool("MaxPool", kernel=(2, 3), rounding_type="ceil"), [X],
         "sizes are rounded by ceil instead of floor"),
    ])  # fmt: skip
def test_settings(mine: Op, wrong: Op, inputs: list[Any], kind: str) -> None:
    b = evaluate(wrong, inputs)[0]
    assert (setting_mistake(mine, inputs, b, 1e-4) or "").startswith(kind)
    # Something else besides, in one place: nothing is explained.
    other = b.copy()
    other.reshape(-1)[3] += 0.01
    assert setting_mistake(mine, inputs, other, 1e-4) is None
    # Its own settings, off by more than rounding but not much.
    own = evaluate(mine, inputs)[0]
    assert setting_mistake(mine, inputs, own + np.float32(1e-4) * np.sign(own), 1e-4) is None


@pytest.mark.parametrize(
    ("slope", "other", "text"),
    [(SLOPE, np.float32(0.2), "alpha is 0.2 instead of 0.1"),
     (SLOPE, np.float32(0.0), "the activation is ReLU instead of PReLU"),
     (np.array([0.1, 0.2, 0.3], np.float32), np.float32(0.2), "alpha is 0.2 instead of its own"),
     (SLOPE, np.float32(1.0), "the activation (PReLU) is missing")],
)  # fmt: skip
def test_slopes(slope: Any, other: Any, text: str) -> None:
    (b,) = evaluate(op("PReLU"), [5 * X, other])
    assert setting_mistake(op("PReLU"), [5 * X, slope], b, 1e-4) == text


@pytest.mark.parametrize("w", [SQUARE, WIDE])
def test_transposed_weights(w: Any) -> None:
    mine = op("MatMul")
    turned = w.T if w is SQUARE else w.reshape(w.shape[::-1]).T
    b = X[0, 0] @ turned
    assert (setting_mistake(mine, [X[0, 0], w], b, 1e-4) or "").endswith("transposed")
    (own,) = evaluate(mine, [X[0, 0], w])
    assert setting_mistake(mine, [X[0, 0], w], own * 2, 1e-4) is None


def test_one_number_says_nothing() -> None:
    x = np.full((1, 3, 2, 2), -1.0, np.float32)
    (b,) = evaluate(op("PReLU"), [x, np.float32(0.5)])
    assert setting_mistake(op("PReLU"), [x, SLOPE], b, 1e-4) is None
    assert setting_mistake(op("ReLU"), [x[..., :1, :1]], b[..., :1, :1], 1e-4) is None


@pytest.mark.parametrize(
    ("a", "kind"),
    [(X, "a bias is missing"), (X[:1, :, :1, :1], None), (np.ones_like(X), None),
     (X[:, :, :1, :1], "a bias is missing")],
)  # fmt: skip
def test_a_bias_is_told_by_several_unlike_numbers(a: Any, kind: str | None) -> None:
    b = a - np.array([1, 2.5, -3], np.float32).reshape(1, 3, 1, 1)
    assert (kind_of(a, b, 1e-4) or "").startswith(kind or "") is True
    assert (kind is None) == (kind_of(a, b, 1e-4) is None)


def test_rounding_is_no_scale() -> None:
    assert kind_of(X, X * np.float32(1.00002), 1e-4) is None
    assert kind_of(X, X * 2, 1e-4) == "scaled by 2"


def two_layers(last: Op, *others: Any) -> Graph:
    first = "m", op("Multiply"), {"half": np.float32(0.5)}
    more = {f"c{i}": v for i, v in enumerate(others)}
    return ird.infer(sequential(X.shape, first, ("last", last, more)))


@pytest.mark.parametrize(
    ("mine", "wrong", "text"),
    [(two_layers(mvn(1e-2), AXES), two_layers(mvn(1e-6), AXES), "epsilon is 1e-06 instead of 0.01"),
     (two_layers(pool(kernel=(2, 3))), two_layers(pool(kernel=(2, 3), rounding_type="ceil")),
      "sizes are rounded by ceil instead of floor"),
     (two_layers(op("HSwish", 4)), two_layers(op("Mish", 4)), "the activation is Mish instead of")],
)  # fmt: skip
def test_compare_names_it(mine: Graph, wrong: Graph, text: str) -> None:
    first = ird.compare(mine, wrong, [X]).first_difference
    assert first.name == "last"
    assert (first.kind or "").startswith(text)


# Mistakes told by the differences alone.


A = np.random.default_rng(0).standard_normal((2, 6, 7, 8)).astype(np.float32)


def moved(dy: int, dx: int) -> np.ndarray:
    out = np.zeros_like(A)
    out[:, :, max(dy, 0) : 7 + min(dy, 0), max(dx, 0) : 8 + min(dx, 0)] = A[
        :, :, max(-dy, 0) : 7 - max(dy, 0), max(-dx, 0) : 8 - max(dx, 0)
    ]
    return out


def without_last(rows: int) -> np.ndarray:
    out = A.copy()
    out[..., 8 - rows :] = 0
    return out


@each_row(
    ("b", "kind"),
    [
        (moved(1, 0), "shifted by (1, 0)"),
        (moved(0, -1), "shifted by (0, -1)"),
        (moved(-2, 1), "shifted by (-2, 1)"),
        (A[:, :, ::-1], "mirrored along spatial axes (0)"),
        (A[:, :, ::-1, ::-1], "mirrored along spatial axes (0, 1)"),
        (A[:, [0, 3, 1, 4, 2, 5]], "channels of 2 groups interleaved"),
        (A[:, [0, 2, 4, 1, 3, 5]], "channels of 3 groups interleaved"),
        (A[:, [5, 0, 1, 2, 3, 4]], "channels permuted: (5, 0, 1, 2, 3, 4)"),
        (A - np.arange(6).reshape(1, 6, 1, 1), "a bias is missing: (0.0, 1.0, 2.0, 3.0)"),
        (without_last(2), "the last 2 rows of spatial axis 1 are zero"),
        (A * 3, "scaled by 3"),
        (A[:, :, :-1], "(-1, 0) rows more at the end"),
        (A[:, :, :, 1:], "(0, -1) rows more at the begin"),
    ],
)
def test_kinds(b: np.ndarray, kind: str) -> None:
    assert (kind_of(A, b.astype(np.float32), 1e-5) or "").startswith(kind)


@pytest.mark.parametrize(
    "b",
    [
        A[::-1],
        np.random.default_rng(1).standard_normal(A.shape),
        A[:, :5],
        A + A**2,
        A + np.copysign(1.5e-5, A),  # hardly more than allowed: no bias of 0 per channel
    ],
)
def test_what_no_mistake_explains(b: np.ndarray) -> None:
    assert kind_of(A, b.astype(np.float32), 1e-5) is None


LAYER = Layer(1, (4, 5), None, 3, 3, (3, 3), (2, 1), (1, 1), (1, 0), (0, 1), (0, 0))


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda w: np.flip(w, (2, 3)), "the kernel is flipped"),
        (lambda w: w.swapaxes(0, 1), "input and output channels are swapped"),
        (lambda w: w.swapaxes(2, 3), "kernel rows and columns are swapped"),
        (lambda w: w * 2, None),
    ],
)
def test_mistakes_of_the_filter(mistake, text) -> None:
    rng = np.random.default_rng(3)
    x, w = (numbers(rng, s, np.float32) for s in (LAYER.data_shape, LAYER.filter_shape))
    wrong = expected(LAYER, x, np.ascontiguousarray(mistake(w)))
    assert filter_mistake(lambda v: expected(LAYER, x, v[0]), w[None], wrong, 1e-5) == text


def test_compare_names_the_kind_and_the_first_layer() -> None:
    rng = np.random.default_rng(3)
    x, w = (numbers(rng, s, np.float32) for s in (LAYER.data_shape, LAYER.filter_shape))
    g, feeds = build(LAYER, x, w)
    moved_pads = Layer(**{**LAYER.__dict__, "pads_begin": (0, 0), "pads_end": (1, 1)})
    other, _ = build(moved_pads, x, w)
    report = ird.compare(g, ird.lower(other).graph, feeds)
    assert report.first_difference.name == "deconv"
    assert report.first_difference.kind == "shifted by (1, 0)"
    assert "shifted by (1, 0)" in str(report)
    assert report.to_dict()["tensors"][0]["kind"] == "shifted by (1, 0)"


def test_the_tensors_of_large_graphs_are_handed_over_one_by_one() -> None:
    """Memory follows the largest layer, not their sum; layers in another order are found."""
    steps = [(f"a{k}", Add(), {"one": np.float32(1)}) for k in range(40)]
    g = sequential((1, 8, 64, 64), *steps)
    data = np.zeros((1, 8, 64, 64), np.float32)
    report = ird.compare(g, g.copy(), [data])
    assert report.passed
    assert [t.name for t in report.tensors[:-1]] == [f"a{k}" for k in range(40)]


def test_an_error_in_one_run_ends_the_comparison() -> None:
    g, h = (sequential((None,), ("add", Add(), {"c": np.zeros(n, np.float32)})) for n in (2, 3))
    with pytest.raises(ird.ExecutionError):
        ird.compare(g, h, [np.zeros(2, np.float32)])
    with pytest.raises(ird.ExecutionError):
        ird.compare(h, g, [np.zeros(2, np.float32)])


# From the command line, with IRs that are wrong in one way each ---------------------------------

GROUPED = Layer(1, (4, 5), 2, 2, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1))


def model(layer: Layer, w: np.ndarray, *, bias: float = 1.0, wrong: str = "") -> Graph:
    """A deconvolution `deconv` and a bias `add`; `wrong` puts something around or instead of it."""
    g, x = begun(layer.data_shape)
    groups = layer.groups or 1
    if wrong == "input interleaved":
        x = Value(g.add(ShuffleChannels(axis=1, group=groups), [x], name="shuffle").id)
    inner = "deconv" if wrong in ("", "input interleaved") else "inner"
    y = Value(g.add(layer.op, [x, constant(g, w, "w")], name=inner).id)
    if wrong == "output interleaved":
        y = Value(g.add(ShuffleChannels(axis=1, group=groups), [y], name="deconv").id)
    if wrong == "padded":
        pads = [constant(g, np.array(p), f"p{p}") for p in ([0, 0, 0, 0], [0, 0, 1, 1])]
        y = Value(g.add(Pad1(pad_mode="constant"), [y, *pads], name="deconv").id)
    channels = groups * layer.m
    b = constant(g, bias * np.arange(1, channels + 1, dtype=np.float32)[:, None, None], "b")
    result(g, Value(g.add(Add(), [y, b], name="add").id))
    return g


def changed(**values: object) -> Layer:
    return Layer(**{**GROUPED.__dict__, **values})  # type: ignore[arg-type]


W = np.random.default_rng(5).standard_normal(GROUPED.filter_shape).astype(np.float32)


@pytest.mark.parametrize(
    ("layer", "w", "more", "kind"),
    [
        (changed(pads_begin=(0, 1), pads_end=(2, 1)), W, {}, "shifted by (1, 0)"),
        (GROUPED, W[..., ::-1, ::-1], {}, "the kernel is flipped"),
        (GROUPED, W[..., ::-1], {}, "flipped along spatial axes (1)"),
        (GROUPED, W.swapaxes(3, 4), {}, "rows and columns are swapped"),
        (GROUPED, W.swapaxes(1, 2), {}, "input and output channels are swapped"),
        (GROUPED, W[::-1], {}, "in reverse order"),
        (GROUPED, W, {"wrong": "input interleaved"}, "; input channels of 2 groups interleaved"),
        (GROUPED, W, {"wrong": "output interleaved"}, "; channels of 2 groups interleaved"),
        (GROUPED, W, {"bias": 0.0}, "a bias is missing"),
        (changed(output_padding=(0, 0)), W, {"wrong": "padded"}, "are zero (output_padding?)"),
    ],
)
def test_broken_models_are_named(
    layer: Layer, w: np.ndarray, more: dict, kind: str, tmp_path: Path
) -> None:
    a, b = tmp_path / "a.xml", tmp_path / "b.xml"
    ird.write(ird.infer(model(GROUPED, W)), a)
    ird.write(ird.infer(model(layer, np.ascontiguousarray(w), **more)), b)
    out = answer("compare", a, b, "-i", "x=randn", code=1).out
    first = next(line for line in out.splitlines() if line.startswith("DIFF"))
    name = "add" if "bias" in more else "deconv"
    assert first.startswith(f"DIFF {name} ")
    assert kind in first
    assert f"'{name}'" in out.splitlines()[-1]
    assert main(["compare", str(a), str(a), "-i", "x=randn"]) == 0


def test_channels_of_unlike_number_read_in_the_wrong_order() -> None:
    layer = Layer(1, (4, 5), None, 2, 3, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))
    w = np.random.default_rng(6).standard_normal(layer.filter_shape).astype(np.float32)
    x = np.random.default_rng(7).standard_normal(layer.data_shape).astype(np.float32)
    g, feeds = build(layer, x, w)
    misread, _ = build(layer, x, np.ascontiguousarray(w.reshape(3, 2, 3, 3).swapaxes(0, 1)))
    first = ird.compare(g, misread, feeds).first_difference
    assert first.kind == "input and output channels are swapped"
