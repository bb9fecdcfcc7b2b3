"""Random ONNX nodes: imported, run, and written for OpenVINO they compute what ONNX Runtime does.

Each of the three is off the result in double precision by what rounding explains, which is derived
node by node (`irdeconv.compare`). What irdeconv refuses to import is counted by reason; nothing may
differ.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

from irdeconv.formats.models import import_model  # noqa: E402
from support.onnx_models import (  # noqa: E402
    openvino,
    runtime,
    single,
)
from support.rows import parts  # noqa: E402

Case = tuple[Any, dict[str, Any]]
Rng = np.random.Generator
EMPTY = np.zeros(0, np.float32)
CEILING = 1e-4  # no derived bound is above this, of 1 or of the value


def numbers(rng: Rng, *shape: int) -> Any:
    return rng.integers(-9, 10, shape).astype(np.float32)


def real(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def some_shape(rng: Rng, least: int = 1) -> tuple[int, ...]:
    return tuple(int(d) for d in rng.integers(least, 5, int(rng.integers(2, 5))))


def one_of(rng: Rng, *values: Any) -> Any:
    return values[int(rng.integers(0, len(values)))]


def ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def pads(rng: Rng, kernel: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    mode = one_of(rng, "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode == "pads":
        return attributes | {"pads": [int(rng.integers(0, k)) for k in (*kernel, *kernel)]}
    return attributes | {"auto_pad": mode}


def conv(rng: Rng) -> Case:
    axes, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kernel = rng.integers(1, 4, axes)
    attributes = {"strides": ints(rng.integers(1, 4, axes)), "group": groups}
    x = numbers(rng, 2, 2 * groups, *ints(rng.integers(3, 9, axes)))
    w = numbers(rng, 3 * groups, 2, *ints(kernel))
    made = pads(rng, kernel, attributes)
    if "auto_pad" not in made:
        made["dilations"] = ints(rng.integers(1, 3, axes))
    constants = {"w": w, "b": numbers(rng, 3 * groups)}
    return single("Conv", {"x": x}, constants, opset=one_of(rng, 7, 11, 20), **made), {"x": x}


def pool(rng: Rng) -> Case:
    axes = int(rng.integers(1, 4))
    kind, opset = one_of(rng, "MaxPool", "AveragePool"), one_of(rng, 8, 10, 11, 19, 22)
    kernel = rng.integers(1, 4, axes)
    attributes = {"kernel_shape": ints(kernel), "strides": ints(rng.integers(1, 4, axes))}
    if opset >= 10:
        attributes["ceil_mode"] = int(rng.integers(0, 2))
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(rng.integers(0, 2))
    if opset >= (10 if kind == "MaxPool" else 19) and rng.random() < 0.4:
        attributes["dilations"] = ints(rng.integers(1, 3, axes))
    x = numbers(rng, 1, 2, *ints(rng.integers(3, 9, axes)))
    outputs = 2 if kind == "MaxPool" and rng.random() < 0.3 else 1
    made = pads(rng, kernel, attributes)
    return single(kind, {"x": x}, opset=opset, outputs=outputs, **made), {"x": x}


def pad(rng: Rng) -> Case:
    x = numbers(rng, *ints(rng.integers(2, 6, int(rng.integers(1, 4)))))
    given = {"p": rng.integers(-1, 3, 2 * x.ndim)}
    mode = one_of(rng, "constant", "edge", "reflect")
    return single("Pad", {"x": x}, given, mode=mode, opset=one_of(rng, 11, 13, 18)), {"x": x}


def resize(rng: Rng) -> Case:
    rules = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    mode = one_of(rng, "nearest", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": one_of(rng, *rules)}
    if mode == "nearest":
        ways = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = one_of(rng, *ways)
    x = real(rng, 1, 2, *ints(rng.integers(2, 7, 2)))
    opset = one_of(rng, 11, 13, 18, 19)
    if rng.random() < 0.5:
        factors = rng.choice([0.5, 0.6, 0.75, 1, 1.5, 2, 2.5, 3], 2)
        given = {"roi": EMPTY, "scales": np.array([1, 1, *factors], np.float32)}
    else:
        sizes = np.array([1, 2, *rng.integers(1, 14, 2)])
        given = {"roi": EMPTY, "scales": EMPTY, "sizes": sizes}
    return single("Resize", {"x": x}, given, opset=opset, **attributes), {"x": x}


def old_resize(rng: Rng) -> Case:
    kind, opset = one_of(rng, ("Upsample", 9), ("Resize", 10))
    factors = rng.choice([1, 1.5, 2, 3] if opset == 9 else [0.5, 0.6, 0.75, 1.5, 2, 2.5], 2)
    x = real(rng, 1, 2, *ints(rng.integers(2, 7, 2)))
    given = {"scales": np.array([1, 1, *factors], np.float32)}
    mode = one_of(rng, "nearest", "linear")
    return single(kind, {"x": x}, given, mode=mode, opset=opset), {"x": x}


def along_axis(rng: Rng) -> Case:
    x = real(rng, *some_shape(rng))
    kind = one_of(rng, "Softmax", "LogSoftmax", "Hardmax", "Flatten")
    axis = int(rng.integers(-x.ndim, x.ndim))
    return single(kind, {"x": x}, axis=axis, opset=one_of(rng, 11, 13)), {"x": x}


def slices(rng: Rng) -> Case:
    x = real(rng, *some_shape(rng, 2))
    count = int(rng.integers(1, x.ndim + 1))
    step = rng.choice([-2, -1, 1, 2, 3], count)
    given = {
        "starts": np.where(step > 0, 0, 5),
        "ends": np.where(step > 0, rng.integers(1, 9, count), -9),
        "axes": rng.permutation(x.ndim)[:count],
        "steps": step,
    }
    return single("Slice", {"x": x}, given), {"x": x}


def prelu(rng: Rng) -> Case:
    x = real(rng, *some_shape(rng))
    rank = int(rng.integers(0, x.ndim + 1))
    shape = [d if rng.random() < 0.6 else 1 for d in x.shape[x.ndim - rank :]]
    return single("PRelu", {"x": x}, {"slope": real(rng, *shape)}, opset=16), {"x": x}


def reduction(rng: Rng) -> Case:
    names = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
    x = np.abs(real(rng, *some_shape(rng))) + np.float32(0.1)
    axes = ints(rng.permutation(x.ndim)[: int(rng.integers(1, x.ndim + 1))])
    keep = int(rng.integers(0, 2))
    kind = f"Reduce{one_of(rng, *names)}"
    return single(kind, {"x": x}, axes=axes, keepdims=keep, opset=11), {"x": x}


def integers(rng: Rng) -> Case:
    shape = some_shape(rng)
    feeds = {"a": rng.integers(-20, 20, shape), "b": rng.choice([-3, -2, 2, 5, 7], shape)}
    kind = one_of(rng, "Div", "Mod", "Max", "Min", "Pow")
    if kind == "Pow":
        feeds["b"] = np.abs(feeds["b"])
        feeds = {k: v.astype(np.float32) for k, v in feeds.items()}
        return single("Pow", feeds), feeds
    more = {"fmod": int(rng.integers(0, 2))} if kind == "Mod" else {}
    return single(kind, feeds, **more), feeds


def ordering(rng: Rng) -> Case:
    x = numbers(rng, *some_shape(rng))
    axis = int(rng.integers(0, x.ndim))
    if rng.random() < 0.5:
        flags = {"keepdims": int(rng.integers(0, 2)), "select_last_index": int(rng.integers(0, 2))}
        return single(one_of(rng, "ArgMax", "ArgMin"), {"x": x}, axis=axis, **flags), {"x": x}
    k = {"k": np.array([int(rng.integers(1, x.shape[axis] + 1))])}
    largest = int(rng.integers(0, 2))
    return single("TopK", {"x": x}, k, axis=axis, largest=largest, outputs=2), {"x": x}


def gemm(rng: Rng) -> Case:
    swap = ints(rng.integers(0, 2, 2))
    a = real(rng, *((3, 5) if swap[0] else (5, 3)))
    w = real(rng, *((4, 3) if swap[1] else (3, 4)))
    c = real(rng, *one_of(rng, (5, 4), (4,), (1, 4), (5, 1), (1, 1), ()))
    attributes = {"transA": swap[0], "transB": swap[1], "alpha": 0.5, "beta": one_of(rng, 1.0, 2.0)}
    return single("Gemm", {"a": a}, {"w": w, "c": c}, **attributes), {"a": a}


def scatter(rng: Rng) -> Case:
    x, kind = real(rng, 2, 4, 4, 6), one_of(rng, "ScatterND", "ScatterElements", "GatherElements")
    if kind == "GatherElements":
        given = {"i": rng.integers(-4, 4, x.shape)}
        return single(kind, {"x": x}, given, axis=one_of(rng, 1, 2)), {"x": x}
    mode = one_of(rng, "none", "add", "mul", "max", "min")
    if kind == "ScatterND":
        given = {"i": np.array([[0, -1], [1, 2]]), "u": real(rng, 2, 4, 6)}
        return single(kind, {"x": x}, given, reduction=mode, opset=18), {"x": x}
    places = np.argsort(rng.random(x.shape), axis=2)[:, :, :2]
    given = {"i": places, "u": real(rng, *places.shape)}
    return single(kind, {"x": x}, given, axis=2, reduction=mode, opset=18), {"x": x}


def normalization(rng: Rng) -> Case:
    x = real(rng, 2, 4, 3, 5)
    kind = one_of(rng, "BatchNormalization", "InstanceNormalization", "GroupNormalization")
    given = {"scale": real(rng, 4), "bias": real(rng, 4)}
    if kind == "BatchNormalization":
        given |= {"mean": real(rng, 4), "var": np.square(real(rng, 4)) + np.float32(0.1)}
        return single(kind, {"x": x}, given, opset=one_of(rng, 7, 9, 14, 15)), {"x": x}
    more = {"num_groups": 2} if kind == "GroupNormalization" else {}
    return single(kind, {"x": x}, given, opset=21, **more), {"x": x}


MAKERS: tuple[Callable[[Rng], Case], ...] = (
    conv, pool, pad, resize, old_resize, along_axis, slices, prelu, reduction, integers, ordering,
    gemm, scatter, normalization,
)  # fmt: skip


def agree(graph: ird.Graph, arrays: list[Any], feeds: dict[str, Any]) -> None:
    """Require the outputs to be what the graph computes, up to the rounding of its nodes."""
    report = ird.compare(graph, dict(zip(graph.outputs, arrays, strict=True)), feeds)
    assert report.passed, str(report)
    assert len(report.outputs) == len(arrays)
    for tensor, array in zip(report.outputs, arrays, strict=True):
        if tensor.own_at is not None:
            assert tensor.tolerance <= CEILING * (1 + abs(array[tensor.own_at])), str(tensor)


def check(made: Any, feeds: dict[str, Any], path: Path) -> str:
    """Compare one model; return how it ended."""
    try:
        want = runtime(made, feeds)
    except Exception:  # ONNX Runtime has no narrower class for what it refuses
        return "the peer refuses"
    try:
        done = import_model(made.SerializeToString())
    except (ird.UnsupportedError, ird.InferenceError) as e:
        return e.diagnostics[0].code
    if done.diagnostics:
        return done.diagnostics[0].code
    graph = done.graph
    agree(graph, want, feeds)
    for got in (list(ird.run(graph, feeds, form=None).values()), openvino(graph, feeds, path)):
        for mine, theirs in zip(got, want, strict=True):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        agree(graph, got, feeds)
    return "agrees"


def test_the_bound_is_that_of_the_node() -> None:
    """Off by what was once allowed, a product of matrices is refused, at whatever element."""
    made, feeds = gemm(np.random.default_rng(36))
    graph = import_model(made.SerializeToString()).graph
    (want,) = runtime(made, feeds)
    agree(graph, [want], feeds)
    for place in np.ndindex(want.shape):
        wrong = want.copy()
        wrong[place] += CEILING / 10 * (1 + abs(want[place]))
        with pytest.raises(AssertionError, match="DIFF"):
            agree(graph, [wrong], feeds)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chunk", parts(1, 3))
@pytest.mark.parametrize("maker", MAKERS, ids=lambda m: m.__name__)
def test_random_nodes(maker: Callable[[Rng], Case], chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([36, MAKERS.index(maker), chunk])
    seen = Counter(check(*maker(rng), tmp_path / "m.xml") for _ in range(14))
    assert seen["agrees"] >= 5, seen
