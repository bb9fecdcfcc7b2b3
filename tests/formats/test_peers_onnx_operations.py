"""ONNX operations that become several: imported, lowered and written for OpenVINO they compute
what ONNX Runtime does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytestmark = pytest.mark.oracles

from onnx import helper, numpy_helper  # noqa: E402

from support.onnx_models import (  # noqa: E402
    agree,
    integers,
    real,
    single,
)
from support.processors import fitting  # noqa: E402

Rng = np.random.Generator
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = ("Sigmoid", "Tanh", "Relu")


# Recurrent layers --------------------------------------------------------------------------------


def recurrent(rng: Rng, kind: str) -> tuple[Any, dict[str, Any]]:
    """A random layer; ONNX Runtime has no layout 1."""
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    d, t, n, i, h = 1 + (direction == "bidirectional"), 4, 2, 3, int(rng.integers(2, 5))
    rows = GATES[kind] * h
    count = 3 if kind == "LSTM" else 2 if kind == "GRU" else 1
    attributes: dict[str, Any] = {"hidden_size": h, "direction": direction}
    if rng.random() < 0.5:
        attributes["activations"] = [str(a) for a in rng.choice(ACTIVATIONS, count * d)]
    if rng.random() < 0.4:
        attributes["clip"] = 0.4
    if kind == "GRU":
        attributes["linear_before_reset"] = int(rng.integers(0, 2))
    x = real(rng, t, n, i)
    constants = {"w": real(rng, d, rows, i), "r": real(rng, d, rows, h)}
    names = ["x", "w", "r"]
    states = ["h0", "c0"] if kind == "LSTM" else ["h0"]
    given = rng.random(3) < 0.6
    constants |= {"b": real(rng, d, 2 * rows)} if given[0] else {}
    constants |= {"lens": np.array([t, int(rng.integers(1, t + 1))], np.int32)} if given[1] else {}
    constants |= {s: real(rng, d, n, h) for s in states} if given[2] else {}
    names += [k if k in constants else "" for k in ("b", "lens", *states)]
    made = single(
        kind, {"x": x}, constants, inputs=names, outputs=1 + len(states), opset=14, **attributes
    )
    return made, {"x": x}


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_layers(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([61, GATES[kind]])
    for _ in range(8):
        agree(*recurrent(rng, kind), tmp_path / "m.xml")


# Activations that OpenVINO's sequences lack, with alpha and beta. In ONNX Runtime Softplus
# overflows above 88 and Elu is off in single elements of GRU.
STRANGE = {
    "LeakyRelu": ([0.2], []),
    "HardSigmoid": ([0.3], [0.4]),
    "Softsign": ([], []),
    "Affine": ([0.5], [0.1]),
    "ScaledTanh": ([0.8], [0.6]),
    "ThresholdedRelu": ([0.1], []),
}


def with_options(rng: Rng, kind: str) -> tuple[Any, dict[str, Any]]:
    """A random layer with peepholes, coupled gates or unusual activations."""
    made, feeds = recurrent(rng, kind)
    (layer,) = made.graph.node
    for tensor in made.graph.initializer:
        if tensor.name in ("w", "r"):  # small weights, so that nothing grows
            array = numpy_helper.to_array(tensor) * np.float32(0.3)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    kept = [a for a in layer.attribute if not a.name.startswith("activation")]
    sizes = {a.name: helper.get_attribute_value(a) for a in kept}
    d = 1 + (sizes["direction"] == b"bidirectional")
    names = [str(v) for v in rng.choice(list(STRANGE), d * (3 if kind == "LSTM" else 2))]
    names = names[:d] if kind == "RNN" else names
    alpha, beta = ([v for n in names for v in STRANGE[n][i]] for i in (0, 1))
    del layer.attribute[:]
    more = {"activations": names, "activation_alpha": alpha, "activation_beta": beta}
    if kind == "LSTM" and rng.random() < 0.5:
        more = {"input_forget": int(rng.integers(0, 2))}
        layer.input.append("p")
        peeps = real(rng, d, 3 * sizes["hidden_size"])
        made.graph.initializer.append(numpy_helper.from_array(peeps, "p"))
    layer.attribute.extend(kept)
    layer.attribute.extend(helper.make_attribute(k, v) for k, v in more.items() if v != [])
    return made, feeds


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_layers_step_by_step(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([66, GATES[kind]])
    for _ in range(6):
        agree(*with_options(rng, kind), tmp_path / "m.xml")


# Integers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
def test_products_of_integers(kinds: tuple[str, str], tmp_path: Path) -> None:
    rng = np.random.default_rng([62, *map(ord, "".join(kinds))])
    a, b = (np.dtype(k) for k in kinds)
    x, w = integers(rng, a, 2, 3, 600), fitting(integers(rng, b, 600, 5))
    zeros = {"p": integers(rng, a)[()], "q": integers(rng, b)[()]}
    made = single("MatMulInteger", {"x": x}, {"w": w, **zeros}, opset=13)
    agree(made, {"x": x}, tmp_path / "m.xml")
    image, filter = integers(rng, a, 1, 3, 6, 7), fitting(integers(rng, b, 4, 3, 3, 2))
    if kinds != ("i1", "i1"):  # ONNX Runtime has ConvInteger for u8 data
        made = single(
            "ConvInteger", {"x": image}, {"w": filter, **zeros}, opset=13, pads=[1, 0, 1, 2]
        )
        agree(made, {"x": image}, tmp_path / "m.xml")


@pytest.mark.parametrize("channels", [False, True])
def test_quantised_layers(channels: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng([63, channels])
    x, w = integers(rng, np.uint8, 1, 3, 6, 7), fitting(integers(rng, np.int8, 4, 3, 3, 2))
    size = (4,) if channels else ()
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": w,
        "ws": rng.uniform(0.005, 0.02, size).astype(np.float32),
        "wz": np.zeros(size, np.int8),
        "ys": np.float32(0.05),
        "yz": np.uint8(100),
        "b": rng.integers(-999, 999, 4).astype(np.int32),
    }
    made = single("QLinearConv", {"x": x}, constants, opset=13, strides=[2, 1])
    agree(made, {"x": x}, tmp_path / "m.xml")
    a = integers(rng, np.uint8, 5, 8)
    more = {**constants, "w": fitting(integers(rng, np.int8, 8, 4))}
    del more["b"]
    agree(single("QLinearMatMul", {"x": a}, more, opset=13), {"x": a}, tmp_path / "m.xml")


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_there_and_back(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng([64, len(shape), *map(ord, kind)])
    x = real(rng, 2, 3, 5)
    scale = rng.uniform(0.01, 0.03, shape).astype(np.float32)
    zero = integers(rng, np.dtype(kind), *shape)
    made = single("QuantizeLinear", {"x": x}, {"s": scale, "z": zero}, opset=21, axis=1)
    agree(made, {"x": x}, tmp_path / "m.xml")
    q = integers(rng, np.dtype(kind), 2, 3, 5)
    made = single("DequantizeLinear", {"x": q}, {"s": scale, "z": zero}, opset=21, axis=1)
    agree(made, {"x": q}, tmp_path / "m.xml")


# Resizing ----------------------------------------------------------------------------------------


def resizing(rng: Rng) -> tuple[Any, dict[str, Any]]:
    """A random Resize with an option that Interpolate lacks."""
    x = real(rng, 1, 2, int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    option = int(rng.integers(0, 4))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    attributes: dict[str, Any] = {"mode": mode}
    constants: dict[str, Any] = {}
    if option == 0:
        attributes |= {"mode": str(rng.choice(["linear", "cubic"])), "antialias": 1}
    elif option == 1:
        attributes |= {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    elif option == 2:
        policy = str(rng.choice(["not_larger", "not_smaller"]))
        attributes |= {"keep_aspect_ratio_policy": policy}
    else:
        crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
        attributes |= crop
        constants["roi"] = np.array([0, 0, -0.1, 0.2, 1, 1, 0.6, 1.3], np.float32)
        x = x[:, :, :2, :2]  # ONNX Runtime does not cut an axis whose size stays
    sizes = [1, 2, *map(int, rng.integers(3, 12, 2))]
    constants["sizes"] = np.array(sizes)
    names = ["x", "roi" if option == 3 else "", "", "sizes"]
    if option == 2:
        attributes["axes"], constants["sizes"] = [2, 3], np.array(sizes[2:])
    made = single("Resize", {"x": x}, constants, inputs=names, opset=18, **attributes)
    return made, {"x": x}


def test_resizing_beyond_interpolate(tmp_path: Path) -> None:
    rng = np.random.default_rng(65)
    for _ in range(24):
        agree(*resizing(rng), tmp_path / "m.xml")


# Signals, places, sums of products ---------------------------------------------------------------


def row(type: str, feeds: dict[str, Any], *rest: Any, **more: Any) -> tuple[Any, dict[str, Any]]:
    return single(type, feeds, *rest, **more), feeds


def signals(rng: Rng) -> list[Any]:
    x, z = real(rng, 2, 8, 1), real(rng, 2, 8, 2)
    at = {"n": np.array(6), "axis": np.array(1)}
    window, step = real(rng, 4), {"step": np.array(3)}
    framed = {**step, "w": window}
    return [
        row("DFT", {"x": x}, opset=17, axis=1),
        row("DFT", {"x": x}, opset=17, axis=1, onesided=1),
        row("DFT", {"x": z}, at, opset=20),
        row("DFT", {"x": z}, at, opset=20, inverse=1),
        row("STFT", {"x": x}, framed, opset=17, onesided=1),
        row("STFT", {"x": x}, framed, opset=17, onesided=0),
    ]


def places(rng: Rng) -> list[Any]:
    x, condition = real(rng, 3, 4), np.array([True, False, True])
    image, grid = real(rng, 1, 2, 5, 4), rng.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)
    boxes = np.sort(rng.uniform(0, 1, (1, 12, 4)).astype(np.float32), -1)
    scores = rng.uniform(0, 1, (1, 2, 12)).astype(np.float32)
    regions = {"r": np.array([[0, 0, 3, 4], [1, 0.5, 2.5, 3]], np.float32), "at": np.array([0, 0])}
    pooled: dict[str, Any] = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    limits = {"n": np.array(4), "iou": np.float32(0.3), "least": np.float32(0.2)}
    vector = rng.integers(0, 4, 9).astype(np.float32)
    return [
        row("Compress", {"x": x}, {"c": condition}, axis=0),
        row("Compress", {"x": x}, {"c": condition}),
        row("EyeLike", {"x": x}, k=1, dtype=6),
        row("Unique", {"x": vector}, outputs=4),
        row("RoiAlign", {"x": image}, regions, opset=16, **pooled),
        row("RoiAlign", {"x": image}, regions, opset=10, spatial_scale=0.5, **pooled),
        row("GridSample", {"x": image, "g": grid}, opset=20, padding_mode="border"),
        row("GridSample", {"x": image, "g": grid}, opset=16, align_corners=1),
        row("NonMaxSuppression", {"b": boxes, "s": scores}, limits),
        row("NonMaxSuppression", {"b": boxes, "s": scores}, {"n": np.array(3)}),
    ]


def sums(rng: Rng) -> list[Any]:
    a, b = real(rng, 2, 3, 4), real(rng, 2, 4, 5)
    image, offsets = real(rng, 1, 4, 5, 6), real(rng, 1, 12, 4, 4)
    mask = rng.uniform(0, 1, (1, 6, 4, 4)).astype(np.float32)
    filters = {"w": real(rng, 2, 4, 2, 3), "o": offsets, "b": real(rng, 2), "m": mask}
    pooled = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1]}
    return [
        row("Einsum", {"a": a, "b": b}, equation="bij, bjk -> bki"),
        row("Einsum", {"a": a}, equation="...j->..."),
        row("LRN", {"x": image}, size=3, bias=1.5, alpha=0.2, beta=0.6),
        row("LpPool", {"x": image}, p=3, **pooled),
        row("LpPool", {"x": image}, p=1, opset=18, ceil_mode=1, **pooled),
        row("GlobalLpPool", {"x": image}, p=2),
        row("DeformConv", {"x": image}, filters, opset=19),
        row("Det", {"x": real(rng, 2, 3, 3)}),
    ]


@pytest.mark.parametrize("rows", [signals, places, sums])
def test_rows(rows: Any, tmp_path: Path) -> None:
    for made, feeds in rows(np.random.default_rng(67)):
        agree(made, feeds, tmp_path / "m.xml")
