"""Random deconvolutions of the systems other than OpenVINO, as graphs of one layer."""

from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from support.layers import constant, parameter, result

KINDS = ("onednn", "onnx", "nhwc", "tensorrt")


def weights(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Distinct values, none of them zero."""
    size = int(np.prod(shape))
    signs = rng.choice([-1, 1], size)
    return ((rng.permutation(size) + 1) * signs).reshape(shape).astype(dtype)


def _common(rng: np.random.Generator, axes: int) -> dict[str, Any]:
    def per_axis(lo: int, hi: int) -> tuple[int, ...]:
        return tuple(int(v) for v in rng.integers(lo, hi + 1, axes))

    strides = per_axis(1, 3)
    return {
        "size": per_axis(1, (7, 4, 3)[axes - 1]),
        "kernel": per_axis(1, 3),
        "strides": strides,
        "dilations": per_axis(1, 2),
        "begin": per_axis(0, 1),
        "end": per_axis(0, 1),
        "extra": tuple(int(rng.integers(0, s)) for s in strides),
        "groups": int(rng.integers(1, 4)),
        "c": int(rng.integers(1, 4)),
        "m": int(rng.integers(1, 4)),
        "batch": int(rng.integers(1, 3)),
    }


def _onednn(rng: np.random.Generator, p: dict[str, Any]) -> tuple[Any, Any, Any]:
    layout = str(rng.choice(["XIO", "OIX", "XOI", "IOX"]))
    last = rng.random() < 0.6
    op = REGISTRY["ConvTranspose", "onednn_graph_1"](
        strides=p["strides"],
        pads_begin=p["begin"],
        pads_end=p["end"],
        dilations=p["dilations"],
        auto_pad=str(rng.choice(["none", "same_upper", "same_lower", "valid"])),
        output_padding=p["extra"],
        groups=p["groups"],
        data_format="NXC" if last else "NCX",
        **{str(rng.choice(["filter_format", "weights_format"])): layout},
    )
    sizes = {"X": p["kernel"], "I": (p["groups"] * p["c"],), "O": (p["m"],)}
    return op, tuple(n for letter in layout for n in sizes[letter]), last


def _onnx(rng: np.random.Generator, p: dict[str, Any], nhwc: bool) -> tuple[Any, Any, Any]:
    auto_pad = str(rng.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    versions = ["com.ms.internal.nhwc_1", "com.ms.internal.nhwc_11"]
    if not nhwc:
        versions = ["onnx_opset1", "onnx_opset11", "onnx_opset22"]
    more: dict[str, Any] = {}
    if auto_pad == "NOTSET":
        more["pads"] = (*p["begin"], *p["end"])
    if rng.random() < 0.3:
        rows = zip(p["size"], p["strides"], p["kernel"], p["dilations"], strict=True)
        full = [(i - 1) * s + (k - 1) * d + 1 for i, s, k, d in rows]
        more["output_shape"] = tuple(max(1, f - int(rng.integers(0, 3))) for f in full)
    if nhwc and rng.random() < 0.7:
        given = {"Relu": (), "Tanh": (), "LeakyRelu": (0.1,), "Clip": (-1.0, 6.5)}
        given |= {"HardSigmoid": (0.2, 0.5), "Sigmoid": ()}
        name = str(rng.choice(list(given)))
        more |= {"activation": name, "activation_params": given[name]}
    op = REGISTRY["ConvTranspose", str(rng.choice(versions))](
        auto_pad=auto_pad,
        dilations=p["dilations"],
        group=p["groups"],
        output_padding=p["extra"],
        strides=p["strides"],
        semantics=str(rng.choice(["runtime", "document"])),
        **more,
    )
    return op, (p["groups"] * p["c"], p["m"], *p["kernel"]), nhwc


def _tensorrt(rng: np.random.Generator, p: dict[str, Any]) -> tuple[Any, Any, Any]:
    mode = str(rng.choice(["EXPLICIT_ROUND_DOWN", "SAME_UPPER", "kSAME_LOWER", "CAFFE_ROUND_UP"]))
    op = REGISTRY["Deconvolution", "tensorrt"](
        kernel_size=p["kernel"],
        num_output_maps=p["m"] * p["groups"],
        padding_mode=mode,
        pre_padding=p["begin"],
        post_padding=p["begin"] if mode.startswith("CAFFE") else p["end"],
        stride=p["strides"],
        dilation=p["dilations"],
        num_groups=p["groups"],
    )
    return op, (p["groups"] * p["c"], p["m"], *p["kernel"]), False


def random_dialect(
    rng: np.random.Generator, kind: str, *, dynamic: bool = False, computed: bool = False
) -> Graph:
    """A graph with one layer `deconv`; its batch and sizes open, or filter and bias inputs."""
    p = _common(rng, int(rng.choice([2, 3] if kind == "tensorrt" else [1, 2, 3])))
    make = {"onednn": _onednn, "tensorrt": _tensorrt}.get(kind)
    op, shape, last = make(rng, p) if make else _onnx(rng, p, kind == "nhwc")
    channels = p["groups"] * p["c"]
    spatial = tuple(None for _ in p["size"]) if dynamic else p["size"]
    batch = None if dynamic else p["batch"]
    data = (batch, *spatial, channels) if last else (batch, channels, *spatial)
    g = Graph()
    inputs = [parameter(g, data, np.float32, "x")]
    bias = weights(rng, (p["m"] * p["groups"],))
    if computed:
        inputs.append(parameter(g, shape, np.float32, "w"))
        inputs.append(parameter(g, bias.shape, np.float32, "b"))
    else:
        inputs.append(constant(g, weights(rng, shape), "w"))
        if rng.random() < 0.7:
            inputs.append(constant(g, bias, "b"))
    result(g, Value(g.add(op, inputs, name="deconv").id))
    return g


# A model with two deconvolutions, for tests of certificates.


def chain() -> Graph:
    """Two deconvolutions with a ReLU between, one filter for both."""
    g = Graph()
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2), pads_begin=(1, 0))
    w = constant(g, weights(np.random.default_rng(1), (3, 3, 3, 2)), "w")
    first = g.add(op, [parameter(g, (1, 3, 4, 5), np.float32, "x"), w], name="first")
    relu = g.add(REGISTRY["ReLU", "opset1"](), [Value(first.id)], name="relu")
    second = g.add(op, [Value(relu.id), w], name="up/ConvolutionBackpropData")
    result(g, Value(second.id))
    return ird.infer(g)
