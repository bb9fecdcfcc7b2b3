"""ONNX operations that become several: imported, lowered and written for OpenVINO they compute
what ONNX Runtime does.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper

import irdeconv as ird
from support.onnx_models import agree, convert, info, integers, model, real, single
from support.processors import fitting
from support.rows import parts

pytestmark = pytest.mark.oracles

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


@pytest.mark.parametrize("count", parts(1, (3, 8)))
@pytest.mark.parametrize("kind", GATES)
def test_recurrent_layers(kind: str, count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([61, GATES[kind]])
    for _ in range(count):
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


@pytest.mark.parametrize("count", parts(1, (2, 6)))
@pytest.mark.parametrize("kind", GATES)
def test_recurrent_layers_step_by_step(kind: str, count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([66, GATES[kind]])
    for _ in range(count):
        agree(*with_options(rng, kind), tmp_path / "m.xml")


@pytest.mark.parametrize("activation", ["Tanh", "Softsign"])
def test_a_state_of_another_batch(activation: str) -> None:
    """Refused, also step by step, where it would be broadcast."""
    rng = np.random.default_rng(68)
    how = {"inputs": ["x", "w", "r", "", "", "h"], "hidden_size": 3, "activations": [activation]}
    known = {"w": real(rng, 1, 3, 4), "r": real(rng, 1, 3, 3)}
    made = single("RNN", {"x": real(rng, 5, 1, 4), "h": real(rng, 1, 2, 3)}, known, **how)
    with pytest.raises(ird.InferenceError, match="E302"):
        convert(made)


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
    last = {"x": np.ascontiguousarray(np.moveaxis(x, 1, -1))}
    options = {"domain": MICROSOFT, "strides": [2, 1], "channels_last": 1}
    made = single("QLinearConv", last, constants, opset=13, **options)
    made.opset_import.add(domain=MICROSOFT, version=1)
    agree(made, last, tmp_path / "m.xml")
    window = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}
    made = single("NhwcMaxPool", last, domain=MICROSOFT, **window)
    made.opset_import.add(domain=MICROSOFT, version=1)
    agree(made, last, tmp_path / "m.xml")
    a = integers(rng, np.uint8, 5, 8)
    more = {**constants, "w": fitting(integers(rng, np.int8, 8, 4))}
    del more["b"]
    agree(single("QLinearMatMul", {"x": a}, more, opset=13), {"x": a}, tmp_path / "m.xml")


def test_a_softmax_on_a_grid_takes_the_whole_part_of_the_scale(tmp_path: Path) -> None:
    x = integers(np.random.default_rng(3), np.uint8, 4, 5)
    grids = {"xs": np.float32(0.02), "xz": np.uint8(9), "s": np.float32(1 / 254.9)}
    row = made(
        "QLinearSoftmax", {"x": x}, grids | {"z": np.uint8(0)}, opset=13, outputs={"y": "u1"}
    )
    agree(*row, tmp_path / "m.xml")


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
    attributes: dict[str, Any] = {"mode": str(rng.choice(["nearest", "linear", "cubic"]))}
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


# Operations of Microsoft and of ai.onnx.ml -------------------------------------------------------

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
LABELS = {"l": np.int64, "p": np.float32}


def made(
    type: str,
    feeds: dict[str, Any],
    constants: dict[str, Any] | None = None,
    *,
    outputs: dict[str, Any] | None = None,
    inputs: str = "",
    domain: str = MICROSOFT,
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    """A model of one node; `outputs` are names with types, `inputs` words; -, -- are left out."""
    names = [i.strip("-") for i in inputs.split()] or [*feeds, *(constants or {})]
    ends = {k.strip("-"): t for k, t in (outputs or {"y": np.float32}).items()}
    written = [k.strip("-") for k in outputs or ends]
    node = helper.make_node(type, names, written, name="n", domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype
    given = [info(k, v.shape, kind(v.dtype)) for k, v in feeds.items()]
    results = [info(k, None, kind(np.dtype(t))) for k, t in ends.items() if k]
    out = model([node], given, results, constants, opset=17)
    out.opset_import.extend(helper.make_opsetid(*d) for d in ((MICROSOFT, 1), (ML, 3)))
    return out, feeds


def plain_functions(rng: Rng) -> list[Any]:
    x, bias = real(rng, 2, 3, 4), real(rng, 4)
    return [
        made("Gelu", {"x": x}),
        made("BiasGelu", {"x": x}, {"b": bias}),
        made("FastGelu", {"x": x}),
        made("FastGelu", {"x": x}, {"b": bias}),
        made("QuickGelu", {"x": x}, alpha=1.3),
        made("QuickGelu", {"x": x}),
        made("ExpandDims", {"x": x}, {"a": np.array(-2, np.int32)}),
    ]


def fused(rng: Rng) -> list[Any]:
    x, w = real(rng, 2, 3, 5, 6), real(rng, 4, 3, 2, 3)
    z, b = real(rng, 2, 4, 4, 4), real(rng, 4)
    rows = [
        made("FusedConv", {"x": x}, {"w": w, "b": b}, activation="Relu"),
        made("FusedConv", {"x": x}, {"w": w, "b": b, "z": z}, activation="Relu"),
        made("FusedConv", {"x": x}, {"w": w}, activation="Tanh", strides=[2, 1]),
    ]
    for name, numbers in (("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4])):
        extra = {"activation": name, "activation_params": numbers}
        rows.append(made("FusedConv", {"x": x}, {"w": w, "b": b}, **extra))
    a, c = real(rng, 3, 4), real(rng, 3, 5)
    gemm = {"transA": 1, "alpha": 0.5, "beta": 2.0}
    rows.append(made("FusedGemm", {"a": a, "c": c}, {"d": real(rng, 5)}, activation="Relu", **gemm))
    return rows


def matrix_products(rng: Rng) -> list[Any]:
    a, b = real(rng, 2, 3, 4, 5), real(rng, 2, 3, 6, 5)
    rows = [made("FusedMatMul", {"a": a, "b": b}, transB=1, alpha=0.3)]
    left, right = real(rng, 4, 2, 3, 5), real(rng, 2, 3, 5, 6)
    rows.append(made("FusedMatMul", {"a": left, "b": right}, transBatchA=1))
    both = real(rng, 6, 2, 3, 5)
    flags = {"transBatchA": 1, "transBatchB": 1, "transB": 1}
    rows.append(made("FusedMatMul", {"a": left, "b": both}, **flags))
    wide = real(rng, 5, 2, 3, 4)
    rows.append(made("FusedMatMul", {"a": wide, "b": right}, transBatchA=1, transA=1))
    for zeros in (False, True):
        packed = rng.integers(0, 256, (6, 2, 8)).astype(np.uint8)
        constants = {"b": packed, "s": rng.uniform(0.1, 0.2, 12).astype(np.float32)}
        constants |= {"z": rng.integers(0, 256, 6).astype(np.uint8)} if zeros else {}
        sizes = {"K": 27 if zeros else 32, "N": 6, "bits": 4, "block_size": 16}
        rows.append(made("MatMulNBits", {"a": real(rng, 3, sizes["K"])}, constants, **sizes))
    return rows


def normalizations(rng: Rng) -> list[Any]:
    x, s = real(rng, 2, 3, 8), real(rng, 2, 3, 8)
    g, b, c = real(rng, 8), real(rng, 8), real(rng, 8)
    rows = [
        made("SkipLayerNormalization", {"x": x, "s": s}, {"g": g, "b": b}, epsilon=1e-5),
        made("SkipLayerNormalization", {"x": x, "s": s}, {"g": g, "b": b, "c": c}),
        made("SkipSimplifiedLayerNormalization", {"x": x, "s": s}, {"g": g}, epsilon=1e-5),
        made("SkipSimplifiedLayerNormalization", {"x": x, "s": s}, {"g": g, "c": c}),
        made("SimplifiedLayerNormalization", {"x": x}, {"g": g}, domain="", axis=-1),
    ]
    total = {"y": np.float32, "-": np.float32, "--": np.float32, "sum": np.float32}
    return [*rows, made("SkipLayerNormalization", {"x": x, "s": s}, {"g": g}, outputs=total)]


def attention(rng: Rng) -> list[Any]:
    x, w, c = real(rng, 2, 5, 6), real(rng, 6, 36), real(rng, 36)
    masks = {
        "m": (rng.random((2, 5)) > 0.3).astype(np.int32),
        "cube": (rng.random((2, 5, 5)) > 0.3).astype(np.int32),
        "ends": np.array([3, 5], np.int32),
        "none": np.zeros((2, 1), np.int32),
    }
    rows = [
        made("Attention", {"x": x, k: m}, {"w": w, "c": c}, inputs=f"x w c {k}", num_heads=3)
        for k, m in masks.items()
    ]
    sizes = {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 9], "scale": 0.3, "unidirectional": 1}
    rows.append(made("Attention", {"x": x}, {"w": w[:, :33]}, **sizes))
    sides = {"q": real(rng, 2, 5, 12), "k": real(rng, 2, 7, 12), "v": real(rng, 2, 7, 12)}
    rows.append(made("MultiHeadAttention", sides, num_heads=3))
    more = {"c": c, "bias": real(rng, 1, 3, 5, 7)}
    rows.append(made("MultiHeadAttention", sides, more, inputs="q k v c - bias", num_heads=3))
    ids = {"i": integers(rng, np.int32, 2, 5) % 9, "s": integers(rng, np.int32, 2, 5) % 2}
    tables = {"words": real(rng, 9, 6), "places": real(rng, 8, 6), "kinds": real(rng, 2, 6)}
    tables |= {"g": real(rng, 6), "b": real(rng, 6)}
    outs = {"y": np.float32, "count": np.int32, "sum": np.float32}
    every = "i s words places kinds g b"
    kind = "EmbedLayerNormalization"
    rows.append(made(kind, ids | {"m": masks["m"]}, tables, inputs=f"{every} m", outputs=outs))
    at, few = {"i": ids["i"], "at": ids["i"] % 8}, "i - words places - g b - at"
    del tables["kinds"]
    return [*rows, made(kind, at, tables, inputs=few, outputs={"y": np.float32, "-": np.int32})]


def grid(rng: Rng, name: str, kind: str = "u1") -> dict[str, Any]:
    scale = np.float32(rng.uniform(0.01, 0.05))
    return {f"{name}s": scale, f"{name}z": integers(rng, np.dtype(kind))[()]}


def quantised(rng: Rng) -> list[Any]:
    x = integers(rng, np.uint8, 1, 4, 6, 5)
    y = integers(rng, np.uint8, 1, 4, 6, 5)
    gx, gy, gz = grid(rng, "x"), grid(rng, "y"), grid(rng, "z")
    two = {"inputs": "x xs xz y ys yz zs zz", "outputs": {"o": np.uint8}}
    one = {"inputs": "x xs xz zs zz", "outputs": {"o": np.uint8}}
    every = {**gx, **gy, **gz}
    single = {**gx, **gz}
    window = {"kernel_shape": [3, 2], "strides": [2, 1]}
    joined = {"inputs": "zs zz x xs xz y ys yz", "outputs": {"o": np.uint8}}
    return [
        made("QLinearAdd", {"x": x, "y": y}, every, **two),
        made("QLinearMul", {"x": x, "y": y}, every, **two),
        made("QLinearSigmoid", {"x": x}, single, **one),
        made("QLinearLeakyRelu", {"x": x}, single, alpha=0.2, **one),
        made("QLinearAveragePool", {"x": x}, single, **window, **one),
        made("QLinearAveragePool", {"x": x}, single, channels_last=1, **window, **one),
        made("QLinearGlobalAveragePool", {"x": x}, single, **one),
        made("QLinearGlobalAveragePool", {"x": x}, single, channels_last=1, **one),
        made("QLinearSoftmax", {"x": x}, single, axis=-1, opset=13, **one),
        made("QLinearConcat", {"x": x, "y": y}, every, axis=1, **joined),
    ]


def dynamic(rng: Rng) -> list[Any]:
    a, b = real(rng, 3, 8), fitting(integers(rng, np.int8, 8, 5))
    s, z, bias = np.float32(0.02), np.int8(3), real(rng, 5)
    x = integers(rng, np.uint8, 3, 8)
    floats = {"b": b, "s": s, "t": np.float32(0.5), "p": np.uint8(7), "q": z, "c": bias}
    cells = []
    row = {"inputs": "x w r b - - - - ws wz rs rz", "outputs": dict.fromkeys("yhc", np.float32)}
    row |= {"hidden_size": 3, "direction": "bidirectional"}
    for kind, shape in ((np.int8, (2,)), (np.uint8, (2, 12))):
        known = {k: rng.uniform(0.005, 0.01, shape).astype(np.float32) for k in ("ws", "rs")}
        known |= dict.fromkeys(("wz", "rz"), np.full(shape, 0 if kind == np.int8 else 120, kind))
        known |= {k: integers(rng, np.dtype(kind), 2, m, 12) // 2 for k, m in (("w", 4), ("r", 3))}
        known |= {"b": real(rng, 2, 24)}
        cells.append(made("DynamicQuantizeLSTM", {"x": real(rng, 5, 2, 4)}, known, **row))
    return [
        *cells,
        made("DynamicQuantizeMatMul", {"a": a}, {"b": b, "s": s, "z": z, "c": bias}),
        made("MatMulIntegerToFloat", {"a": x}, floats),
    ]


def integer_gemms(rng: Rng) -> list[Any]:
    """Of scales for each column or for all, to integers or to real numbers."""
    a, b = integers(rng, np.uint8, 3, 5), fitting(integers(rng, np.int8, 5, 4))
    known = {"as": np.float32(0.02), "az": np.uint8(9)}
    one = {"b": b, "bs": np.float32(0.03), "bz": np.int8(0)}
    each = {"b": b.T.copy(), "bs": rng.uniform(0.01, 0.04, 4).astype(np.float32)}
    each |= {"bz": np.zeros(4, np.int8)}
    rest = {"c": rng.integers(-500, 500, 4, np.int32), "ys": np.float32(0.1), "yz": np.uint8(99)}
    inputs, ends = "a as az b bs bz c ys yz", {"outputs": {"o": np.uint8}}
    return [
        made("QGemm", {"a": a}, known | one, alpha=0.5),
        made("QGemm", {"a": a}, known | one | rest, inputs=inputs, **ends),
        made("QGemm", {"a": a}, known | each | rest, inputs=inputs, transB=1, **ends),
    ]


def linear_models(rng: Rng) -> list[Any]:
    x, norms = real(rng, 6, 4), ("MAX", "L1", "L2")
    rows = [made("Normalizer", {"x": x * (x > 0)}, domain=ML, norm=norm) for norm in norms]
    rows.append(made("Scaler", {"x": x}, domain=ML, offset=[0.5, 1, 0, 2], scale=[1.0, 2, 3, 4]))
    numbers = {"coefficients": real(rng, 12).tolist(), "intercepts": real(rng, 3).tolist()}
    rows.append(made("LinearRegressor", {"x": x}, domain=ML, targets=3, **numbers))
    two = {"coefficients": [0.5, 1, -1, 2], "intercepts": [0.1], "classlabels_ints": [4, 7]}
    for more in (numbers | {"classlabels_ints": [4, 7, 9]}, two):
        for post in ("NONE", "LOGISTIC", "SOFTMAX"):
            row = {"domain": ML, "outputs": LABELS, "post_transform": post, **more}
            rows.append(made("LinearClassifier", {"x": x}, **row))
    return rows


def support_vectors(rng: Rng) -> list[Any]:
    """Return regressors and classifiers of 2 to 5 classes, with and without probabilities."""
    rows, x = [], {"x": real(rng, 7, 3)}
    kernels = ("LINEAR", "POLY", "RBF", "SIGMOID")
    for at, kind in enumerate(kernels):
        row = {"domain": ML, "kernel_type": kind, "kernel_params": [0.3, 0.5, 2.0 + at % 2]}
        vectors = {"support_vectors": real(rng, 15).tolist(), "n_supports": 5, "rho": [0.1]}
        vectors |= {"coefficients": real(rng, 5).tolist(), "one_class": int(at == 3)}
        rows.append(made("SVMRegressor", x, **row, **vectors))
        counts = [3, 1, 2, 4, 2][: 2 + at]
        total, pairs = sum(counts), (2 + at) * (1 + at) // 2
        row |= {"outputs": LABELS, "classlabels_ints": [7, 3, 9, 4, 1][: 2 + at]}
        row |= {"vectors_per_class": counts, "support_vectors": real(rng, 3 * total).tolist()}
        row |= {"coefficients": real(rng, total * (1 + at)).tolist()}
        row |= {"rho": real(rng, pairs).tolist()}
        chances = {"prob_a": (-1 - rng.random(pairs)).tolist(), "prob_b": real(rng, pairs).tolist()}
        posts = ("NONE", "LOGISTIC", "SOFTMAX")
        rows += [made("SVMClassifier", x, **row, post_transform=post) for post in posts[: 4 - at]]
        if at < 2:
            rows.append(made("SVMClassifier", x, **row, **chances, post_transform=posts[at]))
    row = {"domain": ML, "kernel_params": [0.0, 0.0, 3.0]}
    linear = {"coefficients": real(rng, 3).tolist(), "rho": [0.2], "n_supports": 0}
    rows.append(made("SVMRegressor", x, **row, **linear))
    for count, low in ((2, -1), (2, 0), (3, -1)):
        numbers = {"coefficients": rng.uniform(low, 1, 3 * count).tolist(), "rho": [-0.1]}
        numbers |= {"classlabels_ints": [5, 8, 2][:count]}
        rows.append(made("SVMClassifier", x, outputs=LABELS, **row, **numbers))
    return rows


def trees(rng: Rng, *, every: bool = False) -> list[Any]:
    """Return a regressor of each mode, and with it one of six classifiers or every one."""
    rows, x = [], rng.integers(-3, 4, (9, 4)).astype(np.float32)
    x[:3, :2] = np.nan
    row: dict[str, Any] = {"domain": ML, "nodes_treeids": sorted([0, 1, 2] * 5)}
    row |= {"nodes_nodeids": [*range(5)] * 3, "nodes_featureids": rng.integers(0, 4, 15).tolist()}
    row |= {"nodes_truenodeids": [1, 0, 3, 0, 0] * 3, "nodes_falsenodeids": [2, 0, 4, 0, 0] * 3}
    row |= {"nodes_missing_value_tracks_true": [0, 0, 1, 0, 0] * 3}
    row |= {"nodes_values": rng.integers(-2, 3, 15).astype(float).tolist()}
    each, two = [0, 0, 0, 1, 1, 1, 2, 2, 2], {"class_ids": [0] * 9, "classlabels_int64s": [3, 5]}
    modes = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    more = (two, {"class_ids": each, "classlabels_int64s": [3, 5, 8]})
    kinds = list(product(((0, "NONE"), (-1, "NONE"), (-1, "LOGISTIC")), more))
    for number, mode in enumerate(modes):
        row |= {"nodes_modes": [mode, "LEAF", mode, "LEAF", "LEAF"] * 3}
        votes = {"target_treeids": each, "target_nodeids": [1, 3, 4] * 3, "n_targets": 3}
        votes |= {"target_ids": each, "target_weights": real(rng, 9).tolist()} | row
        rows.append(made("TreeEnsembleRegressor", {"x": x}, base_values=[1, 2.0, 3], **votes))
        for (low, post), classes in kinds if every else kinds[number : number + 1]:
            votes = {"class_treeids": each, "class_nodeids": [1, 3, 4] * 3, "post_transform": post}
            votes |= {"class_weights": rng.uniform(low, 1, 9).tolist(), "outputs": LABELS}
            rows.append(made("TreeEnsembleClassifier", {"x": x}, **row, **votes, **classes))
    return rows


def all_trees(rng: Rng) -> list[Any]:
    return trees(rng, every=True)


REAL = (
    plain_functions,
    fused,
    matrix_products,
    normalizations,
    attention,
    integer_gemms,
    linear_models,
    trees,
    support_vectors,
)


@pytest.mark.parametrize(
    "rows", [*REAL, quantised, dynamic, pytest.param(all_trees, marks=pytest.mark.slow)]
)
def test_against_the_runtime(rows: Callable[[Rng], list[Any]], tmp_path: Path) -> None:
    for row in rows(np.random.default_rng([71, len(rows.__name__)])):
        agree(*row, tmp_path / "m.xml", steps=int(rows is quantised))
