"""ONNX's own node tests, and ONNX Runtime and OpenVINO as peers of whole imported models."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

from onnx import helper, numpy_helper  # noqa: E402

from irdeconv.importers.onnx_node import RULES  # noqa: E402
from irdeconv.importers.onnx_reader import read_onnx  # noqa: E402
from support.onnx_models import convert, info, model, runtime, single  # noqa: E402

# Why node tests of covered operations are refused: a part of the message, and how many there are.
REASONS = (
    "saturate=0",
    "element type",
    "a conversion from",
    "is a sequence_type",
    "is a optional_type",
    "strings are not covered",
    "training_mode",
    "tf_crop_and_resize",
    "half_pixel_symmetric",
    "antialias=1",
    "exclude_outside=1",
    "keep_aspect_ratio_policy",
    "align_corners with scale",
    "pads that are no constant, of some axes only",
    "mode=wrap",
    "storage_order=1",
    "operation set 1 is not covered",
    "an extreme of no elements",
    "f16 and bf16 ranges",
)
NEW = "of the operation is not covered"  # versions that a newer onnx brings


def as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@cache
def node_tests() -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def frozen(test: Any) -> Any:
    """The model with every input but the first as a constant: what rules need to know."""
    made = onnx.ModelProto()
    made.CopyFrom(test.model)
    pairs = list(zip(made.graph.input, test.data_sets[0][0], strict=True))
    for item, value in pairs[1:]:
        array = np.asarray(as_array(value))
        made.graph.initializer.append(numpy_helper.from_array(array, item.name))
    return made


def imported(test: Any) -> ird.Graph:
    try:
        return read_onnx(test.name, test.model.SerializeToString()).graph
    except ird.UnsupportedError as e:
        if "is not a constant" not in str(e):
            raise
    return read_onnx(test.name, frozen(test).SerializeToString()).graph


def wide(x: Any) -> Any:
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


def check(test: Any, graph: ird.Graph) -> None:
    names = [i.name for i in test.model.graph.input]
    for feeds, expected in test.data_sets:
        given = {k: as_array(v) for k, v in zip(names, feeds, strict=True) if k in graph.inputs}
        got = ird.run(graph, given, form=None)
        assert list(got) == [o.name for o in test.model.graph.output]
        for mine, want in zip(got.values(), map(as_array, expected), strict=True):
            want = np.asarray(want)
            assert mine.shape == want.shape
            assert mine.dtype == want.dtype
            # Half precision rounds after every node; models of many nodes differ in their order.
            coarse = {"float16": 2**-9, "bfloat16": 2**-6}.get(want.dtype.name, 0)
            rtol = max(test.rtol, coarse if len(test.model.graph.node) > 5 else 0)
            np.testing.assert_allclose(wide(mine), wide(want), rtol=rtol, atol=test.atol)


def uncovered_types(test: Any) -> set[str]:
    return {
        n.op_type
        for n in test.model.graph.node
        if ("" if n.domain == "ai.onnx" else n.domain, n.op_type) not in RULES
    }


def reason(error: ird.UnsupportedError) -> str:
    text = str(error)
    return next((r for r in (*REASONS, NEW) if r in text), text)


def test_all_node_tests(capsys: pytest.CaptureFixture[str]) -> None:
    passed, refused, wrong = Counter[str](), Counter[str](), []
    types = Counter[str]()
    for test in node_tests():
        kinds = {n.op_type for n in test.model.graph.node}
        try:
            graph = imported(test)
        except ird.UnsupportedError as e:
            if missing := uncovered_types(test):
                types.update(missing)
                refused["operation types without a rule"] += 1
            else:
                refused[reason(e)] += 1
            continue
        try:
            check(test, graph)
        except (AssertionError, ird.IrdeconvError) as e:
            wrong.append((test.name, str(e)[:300]))
        else:
            passed.update(kinds)
            passed["all"] += 1
    with capsys.disabled():
        print(f"\nONNX {onnx.__version__} node tests: {len(node_tests())}; passed {passed['all']}")
        print(f"refused {sum(refused.values())}: {dict(refused.most_common())}")
        print(f"types without a rule: {dict(sorted(types.items()))}")
    assert wrong == []
    assert set(refused) <= {*REASONS, NEW, "operation types without a rule"}
    assert passed["all"] >= 1000


@pytest.mark.parametrize("kind", ["ConvTranspose", "Conv", "Pad"])
def test_nothing_of_the_core_is_refused(kind: str) -> None:
    tests = [t for t in node_tests() if {n.op_type for n in t.model.graph.node} == {kind}]
    assert len(tests) >= 5
    refused = []
    for test in tests:
        try:
            check(test, imported(test))
        except ird.UnsupportedError:
            refused.append(test.name)
    assert refused == (["test_wrap_pad"] if kind == "Pad" else [])


# Peers -------------------------------------------------------------------------------------------

CORE = ov.Core()


def openvino(graph: ird.Graph, feeds: dict[str, Any], path: Path) -> list[Any]:
    """OpenVINO's outputs of the IR that irdeconv writes."""
    ird.write(graph, path)
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = CORE.compile_model(CORE.read_model(path), "CPU", config)
    found = compiled(feeds)
    return [found[o] for o in compiled.outputs]


def agree(made: Any, feeds: dict[str, Any], folder: Path, rtol: float = 1e-5) -> None:
    """irdeconv, its lowered graph, OpenVINO and ONNX Runtime compute the same."""
    want = runtime(made, feeds)
    graph = convert(made)
    every = {
        "direct": list(ird.run(graph, feeds, form=None).values()),
        "lowered": list(ird.run(graph, feeds).values()),
        "openvino": openvino(graph, feeds, folder / "m.xml"),
    }
    for name, got in every.items():
        for mine, theirs in zip(got, want, strict=True):
            assert mine.shape == theirs.shape, name
            scale = float(np.abs(theirs).max(initial=1))
            np.testing.assert_allclose(mine, theirs, rtol, atol=rtol * scale, err_msg=name)


def random_deconvolution(rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    axes, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    c, m = groups * int(rng.integers(1, 4)), int(rng.integers(1, 4))
    size = rng.integers(1, 6, axes)
    kernel, strides = rng.integers(1, 4, axes), rng.integers(1, 4, axes)
    dilations = rng.integers(1, 3, axes)
    attributes: dict[str, Any] = {
        "strides": strides.tolist(),
        "dilations": dilations.tolist(),
        "group": groups,
    }
    full = strides * (size - 1) + dilations * (kernel - 1) + 1
    mode = rng.choice(["pads", "VALID", "SAME_UPPER", "SAME_LOWER", "shape"])
    if mode == "pads":
        pads = [int(rng.integers(0, f // 2 + 1)) if f > 2 else 0 for f in full]
        attributes["pads"] = [min(p, (f - 1) // 2) for p, f in zip(pads, full, strict=True)] * 2
        attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    elif mode == "shape":
        attributes["output_shape"] = [int(rng.integers(max(1, f - 3), f + 1)) for f in full]
    else:
        attributes["auto_pad"] = str(mode)
    x = rng.integers(-4, 5, (2, c, *size)).astype(np.float32)
    w = rng.integers(-4, 5, (c, m, *kernel)).astype(np.float32)
    constants = {"w": w}
    if rng.random() < 0.5:
        constants["b"] = rng.integers(-4, 5, groups * m).astype(np.float32)
    opset = int(rng.choice([7, 10, 11, 13, 21]))
    return single("ConvTranspose", {"x": x}, constants, opset=opset, **attributes), {"x": x}


@pytest.mark.parametrize("chunk", range(4))
def test_random_deconvolutions(chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([35, chunk])
    for _ in range(25):
        made, feeds = random_deconvolution(rng)
        agree(made, feeds, tmp_path, rtol=0)


def weights(rng: np.random.Generator, *shape: int) -> Any:
    fan = max(1, int(np.prod(shape[1:])))
    return (rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def node(type: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(type, inputs.split(), [output], name=f"{output}_node", **attributes)


def norm(rng: np.random.Generator, name: str, m: int) -> dict[str, Any]:
    out = {f"{name}_{k}": weights(rng, m) for k in ("scale", "bias", "mean")}
    return out | {f"{name}_var": rng.uniform(0.5, 1.5, m).astype(np.float32)}


def test_unet(tmp_path: Path) -> None:
    """Two levels down and up, with skips, batch norm, cropping and a softmax head."""
    rng = np.random.default_rng(3)
    c = {
        "w1": weights(rng, 8, 3, 3, 3),
        "w2": weights(rng, 16, 8, 3, 3),
        "b2": weights(rng, 16),
        "w3": weights(rng, 16, 8, 2, 2),
        "b3": weights(rng, 8),
        "w4": weights(rng, 8, 16, 3, 3),
        "w5": weights(rng, 4, 8, 1, 1),
        "starts": np.array([1, 1]),
        "ends": np.array([-1, 2**62]),
        "axes": np.array([2, 3]),
        **norm(rng, "n", 8),
    }
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w1", "c1", **same),
        node("BatchNormalization", "c1 n_scale n_bias n_mean n_var", "n1"),
        node("Relu", "n1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p1 w2 b2", "c2", **same),
        node("LeakyRelu", "c2", "r2", alpha=0.1),
        node("ConvTranspose", "r2 w3 b3", "u1", strides=[2, 2], kernel_shape=[2, 2]),
        node("Concat", "u1 r1", "cat", axis=1),
        node("Conv", "cat w4", "c4", **same),
        node("Relu", "c4", "r4"),
        node("Slice", "r4 starts ends axes", "crop"),
        node("Conv", "crop w5", "c5"),
        node("Softmax", "c5", "y", axis=1),
    ]
    made = model(nodes, [info("x", ["n", 3, 24, 32])], ["y"], c)
    x = rng.standard_normal((2, 3, 24, 32)).astype(np.float32)
    agree(made, {"x": x}, tmp_path)


def test_super_resolution(tmp_path: Path) -> None:
    """A learned upscale by DepthToSpace and ConvTranspose beside a linear one, open sizes."""
    rng = np.random.default_rng(4)
    c = {
        "w1": weights(rng, 16, 1, 5, 5),
        "b1": weights(rng, 16),
        "slope": rng.uniform(0, 0.5, (16, 1, 1)).astype(np.float32),
        "w2": weights(rng, 4, 16, 3, 3),
        "w3": weights(rng, 16, 1, 4, 4),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "low": np.array(0, np.float32),
        "high": np.array(1, np.float32),
        "third": np.array(3, np.float32),
    }
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    nodes = [
        node("Conv", "x w1 b1", "c1", auto_pad="SAME_UPPER"),
        node("PRelu", "c1 slope", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        node("DepthToSpace", "c2", "d", blocksize=2, mode="CRD"),
        node("ConvTranspose", "r1 w3", "t", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["x", "", "scales"], ["z"], name="z_node", **linear),
        node("Sum", "d t z", "s"),
        node("Div", "s third", "q"),
        node("Clip", "q low high", "y"),
    ]
    made = model(nodes, [info("x", [1, 1, "h", "w"])], ["y"], c)
    for size in ((7, 9), (16, 12)):
        x = rng.uniform(0, 1, (1, 1, *size)).astype(np.float32)
        agree(made, {"x": x}, tmp_path)
