"""ONNX's own node tests, and ONNX Runtime and OpenVINO as peers of whole imported models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
ov = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

from onnx import helper  # noqa: E402

from support import onnx_models  # noqa: E402
from support.rows import each_row, parts  # noqa: E402
from support.scripts import script  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[2] / "ir_samples" / "onnx"
backend = script("run_onnx_backend")


@pytest.mark.parametrize("part", parts(1, 24))
def test_all_node_tests(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The first part has each operation at least once."""
    tests = backend.node_tests()
    chosen = {t.name: t for t in tests[part::24]}
    chosen |= {} if part else {t.name: t for t in {backend.kinds_of(t): t for t in tests}.values()}
    found = [backend.judge(t) for t in chosen.values()]
    by_state = {s: [o for o in found if o.state == s] for s in backend.STATES}
    with capsys.disabled():
        print(f"\nONNX {onnx.__version__}: { ({s: len(v) for s, v in by_state.items()}) }")
    assert [(o.name, o.reason) for o in by_state["wrong"]] == []
    assert all(o.reason for o in by_state["refused"])
    assert len(by_state["passed"]) >= 0.8 * len(found) > 50


def test_a_wrong_value_is_seen() -> None:
    (test,) = [t for t in backend.node_tests() if t.name == "test_abs"]
    false = [(feeds, [-want[0]]) for feeds, want in test.data_sets]
    assert backend.judge(test).state == "passed"
    assert backend.judge(replace(test, data_sets=false)).state == "wrong"


@each_row("kind", ["ConvTranspose", "Conv", "Pad"])
def test_nothing_of_the_core_is_refused(kind: str) -> None:
    tests = [t for t in backend.node_tests() if backend.kinds_of(t) == {kind}]
    assert len(tests) >= 5
    assert {backend.judge(t).state for t in tests} == {"passed"}
    for test in tests if kind == "ConvTranspose" else ():
        backend.check(test, ird.lower(backend.imported(test)).graph)


ONNX_CASES = {
    "default": "convtranspose",
    "1d": "convtranspose_1d",
    "3d": "convtranspose_3d",
    "output_shape": "convtranspose_output_shape",
    "output_padding": "convtranspose_pad",
    "kernel_shape": "convtranspose_kernel_shape",
    "pads": "convtranspose_pads",
    "dilations": "convtranspose_dilations",
    "autopad_same": "convtranspose_autopad_same",
    "group_2": "convtranspose_group_2",
}


def test_the_published_outputs_of_onnx() -> None:
    cases = {c.name.removeprefix("test_"): c for c in backend.node_tests()}
    assert {p.stem for p in SAMPLES.glob("*.xml")} == {*ONNX_CASES, "odd_total_version_1"}
    for sample, case in ONNX_CASES.items():
        ((inputs, (expected, *_)),) = cases[case].data_sets
        graph = ird.read(SAMPLES / f"{sample}.xml")
        filter = graph.node(1).op.data.array()  # type: ignore[attr-defined]
        assert np.array_equal(filter, inputs[1]), sample
        for form in (None, "zero-insertion"):
            (found,) = ird.run(graph, [inputs[0].astype(np.float32)], form=form).values()
            assert np.array_equal(found, expected), sample


# Peers -------------------------------------------------------------------------------------------


def agree(made: Any, feeds: dict[str, Any], folder: Path, rtol: float = 1e-5) -> None:
    """irdeconv, its lowered graph, OpenVINO and ONNX Runtime compute the same."""
    want = onnx_models.runtime(made, feeds)
    graph = onnx_models.convert(made)
    every = {
        "direct": list(ird.run(graph, feeds, form=None).values()),
        "lowered": list(ird.run(graph, feeds).values()),
        "openvino": onnx_models.openvino(graph, feeds, folder / "m.xml"),
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
    constants = {"w": rng.integers(-4, 5, (c, m, *kernel)).astype(np.float32)}
    if rng.random() < 0.5:
        constants["b"] = rng.integers(-4, 5, groups * m).astype(np.float32)
    opset = int(rng.choice([7, 10, 11, 13, 21]))
    return onnx_models.single("ConvTranspose", {"x": x}, constants, opset=opset, **attributes), {
        "x": x
    }


@pytest.mark.parametrize("chunk", parts(1, 4))
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
    made = onnx_models.model(nodes, [onnx_models.info("x", ["n", 3, 24, 32])], ["y"], c)
    agree(made, {"x": rng.standard_normal((2, 3, 24, 32)).astype(np.float32)}, tmp_path)


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
    made = onnx_models.model(nodes, [onnx_models.info("x", [1, 1, "h", "w"])], ["y"], c)
    for size in ((7, 9), (16, 12)):
        agree(made, {"x": rng.uniform(0, 1, (1, 1, *size)).astype(np.float32)}, tmp_path)
