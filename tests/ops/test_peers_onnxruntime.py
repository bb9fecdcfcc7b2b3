"""ONNX Runtime computes the same numbers and rejects the same layers of ConvTranspose 1, 11, 22."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.dialect_layers import INEXACT, NHWC, ONNX, DialectLayer, build, data, problems
from support.dialect_random import Spoil, changed, ints, one, random_layer
from support.layers import Ints
from support.rows import parts

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.oracles

CHUNKS, CASES = 24, 112
NHWC_CHUNKS, NHWC_CASES = 6, 56
F32 = onnx.TensorProto.FLOAT
NUMBERS = {"onnx_opset1": 7, "onnx_opset11": 11, "onnx_opset22": 22, NHWC[0]: 7, NHWC[1]: 11}
SKIPPED = ("semantics", "activation", "activation_params")


def attributes(layer: DialectLayer) -> dict[str, Any]:
    return {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in layer.attributes.items()
        if k not in SKIPPED
    }


def model(layer: DialectLayer, *, declared: bool, transposed: bool) -> bytes:
    """A model of one layer, if `transposed` between two Transposes.

    Without `declared` it says nothing of the inputs' shapes.
    """
    h, axes = onnx.helper, layer.axes
    names = ["x", "w", "b"][: len(layer.shapes)]
    shapes = [list(s) for s in layer.shapes]
    nodes, first = [], "x"
    if transposed:
        first, order = "x0", [0, axes + 1, *range(1, axes + 1)]
        nodes.append(h.make_node("Transpose", ["x"], ["x0"], perm=order))
    elif layer.version in NHWC:
        shapes[0] = [shapes[0][0], shapes[0][-1], *shapes[0][1:-1]]
    nodes.append(h.make_node("ConvTranspose", [first, *names[1:]], ["y0"], **attributes(layer)))
    made, last = activation(layer, "y0")
    nodes += made
    if transposed:
        nodes.append(h.make_node("Transpose", [last], ["y"], perm=[0, *range(2, axes + 2), 1]))
    else:
        nodes[-1].output[0] = "y"
    inputs = [
        h.make_tensor_value_info(n, F32, s if declared else None)
        for n, s in zip(names, shapes, strict=True)
    ]
    graph = h.make_graph(nodes, "one", inputs, [h.make_tensor_value_info("y", F32, None)])
    opset = h.make_opsetid("", NUMBERS[layer.version])
    text: bytes = h.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    return text


def small_output_shape(layer: DialectLayer) -> bool:
    """output_shape asks for less than the data has: ONNX infers an output of fewer axes then.

    A Transpose behind such a layer is refused, so it is done outside of the model.
    """
    wanted = layer.get("output_shape", ())[-layer.axes :]
    return any(o < i for o, i in zip(wanted, layer.size, strict=False))


def activation(layer: DialectLayer, name: str) -> tuple[list[Any], str]:
    """The activation's node in the operation set of the layer's version."""
    kind, given = layer.get("activation"), layer.get("activation_params", ())
    if kind is None:
        return [], name
    more: dict[str, float] = {}
    if kind == "LeakyRelu":
        more = {"alpha": given[0]}
    elif kind == "HardSigmoid":
        more = dict(zip(("alpha", "beta"), given, strict=True))
    if kind == "Clip" and NUMBERS[layer.version] >= 11:
        bounds = [
            onnx.helper.make_node("Constant", [], [n], value_float=v)
            for n, v in zip(("low", "high"), given, strict=True)
        ]
        return [*bounds, onnx.helper.make_node(kind, [name, "low", "high"], ["a"])], "a"
    if kind == "Clip":
        more = dict(zip(("min", "max"), given, strict=True))
    return [onnx.helper.make_node(kind, [name], ["a"], **more)], "a"


def run_ort(layer: DialectLayer, arrays: list[Any], declared: bool = True) -> Any:
    """The result, or the reason where ONNX Runtime refuses to load or to run the model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    transposed = layer.version in NHWC and declared and not small_output_shape(layer)
    outside = layer.version in NHWC and not transposed
    feeds = dict(zip("xwb", arrays, strict=False))
    if outside:
        feeds["x"] = np.moveaxis(feeds["x"], -1, 1)
    try:
        text = model(layer, declared=declared, transposed=transposed)
        session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        y = session.run(None, feeds)[0]
    except Exception as e:  # its exceptions have no common base but Exception
        if not type(e).__module__.startswith("onnxruntime"):
            raise
        return str(e)
    return np.moveaxis(y, 1, -1) if outside else y


def _full(layer: DialectLayer) -> Ints:
    return tuple(layer.full(a) for a in range(layer.axes))


# Each changes attributes or shapes of a legal layer.
SPOILS: dict[str, Spoil] = {
    "stride 0": lambda r, la: {"strides": one(r, la.strides, 0)},
    "dilation 0": lambda r, la: {"dilations": one(r, la.dilations, 0)},
    "stride -1": lambda r, la: {"strides": one(r, la.strides, -1)},
    "list length": lambda r, la: {
        str(r.choice(["strides", "dilations", "kernel_shape", "output_padding"])): (1,)
        * (la.axes + 1)
    },
    "pads length": lambda r, la: {"auto_pad": "NOTSET", "pads": (1,) * (2 * la.axes - 1)},
    "negative pads": lambda r, la: {
        "auto_pad": "NOTSET",
        "pads": one(r, (1,) * (2 * la.axes), -1),
    },
    "pads besides auto_pad": lambda r, la: {
        "pads": ints(r, 2 * la.axes, 0, 1),
        "auto_pad": str(r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])),
    },
    "output_padding is stride": lambda r, la: {"output_padding": la.strides},
    "output_padding below dilation": lambda r, la: {
        "dilations": tuple(s + 1 for s in la.strides),
        "output_padding": la.strides,
    },
    "negative output_padding": lambda r, la: {"output_padding": one(r, (0,) * la.axes, -1)},
    "large output_shape": lambda r, la: {
        "output_shape": tuple(
            f + int(r.integers(0, s + 2)) for f, s in zip(_full(la), la.strides, strict=True)
        )
    },
    "output_shape 0": lambda r, la: {"output_shape": one(r, _full(la), 0)},
    "output_shape -1": lambda r, la: {"output_shape": one(r, _full(la), -1)},
    "output_shape length": lambda r, la: {"output_shape": (*_full(la), 1)},
    "long output_shape": lambda r, la: {"output_shape": (*ints(r, 2, 0, 4), *_full(la))},
    "kernel_shape": lambda r, la: {"kernel_shape": one(r, la.kernel, int(r.integers(0, 5)))},
    "group": lambda r, la: {"group": int(r.integers(-1, 7))},
    "auto_pad in lower case": lambda r, la: {"auto_pad": la.get("auto_pad").lower(), "pads": ()},
    "unknown auto_pad": lambda r, la: {"auto_pad": "SAME", "pads": ()},
    "bias size": lambda r, la: {"bias": int(r.choice([-1, 1]))},
    "channels": lambda r, la: {"surplus": int(r.integers(1, 3))},
    "filter rank": lambda r, la: {"ranks": 1},
    "empty kernel": lambda r, la: {"kernel": one(r, la.kernel, 0), "attributes": {"group": 1}},
    "empty batch": lambda r, la: {"batch": 0},
    "large pads": lambda r, la: {
        "auto_pad": "NOTSET",
        "pads": ints(r, 2 * la.axes, 0, 8),
    },
}


def long_output_shape(layer: DialectLayer) -> bool:
    """output_shape names batch and channels too.

    ONNX Runtime's kernels, of every version, take the last n values; they are never reached where
    the model declares the filter's shape, because ONNX's shape inference wants n values. irdeconv
    accepts them in version 1 and in the channels-last operations, where they were in use.
    """
    return len(layer.get("output_shape", ())) == layer.axes + 2 and layer.version not in ONNX[1:]


def check_case(rng: np.random.Generator, version: str, kind: str) -> str:
    """Compare one layer; return what became of it."""
    layer = random_layer(rng, version, semantics="runtime")
    if kind:
        layer = changed(layer, SPOILS[kind](rng, layer))
    arrays = data(layer, rng, np.float32)
    refused = problems(layer)
    want = run_ort(layer, arrays)
    if long_output_shape(layer) and not refused:
        assert "output_shape has incorrect size" in want, layer
        want = run_ort(layer, arrays, declared=False)
    if isinstance(want, str):
        assert refused, (kind, layer, want)
        return "rejected"
    assert not refused, (kind, layer, refused)
    graph, feeds = build(layer, arrays)
    for form in (None, "zero-insertion"):
        got = ird.run(graph, feeds, form=form, fuse=False)["y"]
        assert got.shape == want.shape, (form, kind, layer)
        if layer.get("activation") in INEXACT:
            assert np.allclose(got, want, rtol=0, atol=1e-6), (form, kind, layer)
        else:
            assert np.array_equal(got, want), (form, kind, layer)
    return "same"


KINDS = [*SPOILS, *[""] * (len(SPOILS) + len(SPOILS) // 4)]


@pytest.mark.parametrize("chunk", parts(len(ONNX), CHUNKS))
def test_onnxruntime_computes_and_rejects_the_same(chunk: int) -> None:
    version = ONNX[chunk % len(ONNX)]
    seen = Counter(
        check_case(np.random.default_rng([41, chunk, k]), version, KINDS[k % len(KINDS)])
        for k in range(CASES)
    )
    assert seen["same"] > 0.4 * CASES, seen
    assert seen["rejected"] > 0.25 * CASES, seen


@pytest.mark.parametrize("chunk", parts(len(NHWC), NHWC_CHUNKS))
def test_channels_last_is_transposed_onnxruntime(chunk: int) -> None:
    version = NHWC[chunk % len(NHWC)]
    seen = Counter(
        check_case(np.random.default_rng([42, chunk, k]), version, KINDS[k % len(KINDS)])
        for k in range(NHWC_CASES)
    )
    assert seen["same"] > 0.4 * NHWC_CASES, seen
    assert seen["rejected"] > 0.25 * NHWC_CASES, seen


@pytest.mark.parametrize("version", ONNX)
def test_four_spatial_axes(version: str) -> None:
    """OpenVINO has none, ONNX Runtime and irdeconv compute them."""
    for k in range(6):
        rng = np.random.default_rng([43, k])
        layer = random_layer(rng, version, semantics="runtime")
        layer = replace(
            layer,
            size=(2, 1, 3, 2),
            kernel=(1, 2, 2, 3),
            attributes={"group": layer.groups, "strides": (2, 1, 3, 2), "pads": (0, 0, 1, 1) * 2},
        )
        arrays = data(layer, rng, np.float32)
        graph, feeds = build(layer, arrays)
        want = run_ort(layer, arrays)
        for form in (None, "zero-insertion"):
            assert np.array_equal(ird.run(graph, feeds, form=form, fuse=False)["y"], want), (
                form,
                layer,
            )
