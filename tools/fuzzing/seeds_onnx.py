"""ONNX models to start from: one node of many kinds, a subgraph, external data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_X = np.ones((1, 4, 6, 6), np.float32)
_W = np.ones((4, 2, 3, 3), np.float32)
_I = np.array
_FLOATS = np.ones(4, np.float32)
_ZERO = np.uint8(0)
# Operation, shapes of inputs, constants, attributes.
_ROWS: tuple[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]], ...] = (
    ("ConvTranspose", (_X,), {"w": _W}, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (_X,), {"w": _W, "b": _FLOATS[:2]},
     {"output_shape": [12, 13], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("ConvTranspose", (_X,), {"w": _W},
     {"group": 2, "dilations": [2, 1], "output_padding": [1, 0], "strides": [2, 2]}),
    ("Conv", (_X,), {"w": np.ones((2, 4, 3, 3), np.float32)}, {"pads": [0, 1, 0, 1]}),
    ("Relu", (_X,), {}, {}),
    ("Add", (_X, _X[:, :, :1]), {}, {}),
    ("Clip", (_X,), {"lo": np.float32(0), "hi": np.float32(6)}, {}),
    ("Gemm", (_X[0, 0], _X[0, 0]), {"c": np.ones(6, np.float32)}, {"alpha": 0.5, "transB": 1}),
    ("MatMul", (_X, _X), {}, {}),
    ("BatchNormalization", (_X,), dict.fromkeys("abcd", _FLOATS), {"epsilon": 1e-3}),
    ("MaxPool", (_X,), {}, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", (_X,), {}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("GlobalAveragePool", (_X,), {}, {}),
    ("Reshape", (_X,), {"s": _I([0, -1])}, {}),
    ("Transpose", (_X,), {}, {"perm": [0, 2, 3, 1]}),
    ("Concat", (_X, _X), {}, {"axis": -3}),
    ("Split", (_X,), {"s": _I([4])}, {"axis": 1}),
    ("Slice", (_X,), {"b": _I([0, -1]), "e": _I([9, -9]), "a": _I([1, 2]), "s": _I([2, -1])}, {}),
    ("Gather", (_X,), {"i": _I([[0, -1]])}, {"axis": 1}),
    ("Pad", (_X,), {"p": _I([0, 0, 1, 1, 0, 0, 2, -1])}, {"mode": "constant"}),
    ("Resize", (_X,), {"roi": np.ones(0, np.float32), "s": _FLOATS * 2},
     {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    ("Upsample", (_X,), {"s": _FLOATS * 2}, {"mode": "nearest"}),
    ("Expand", (_X,), {"s": _I([2, 4, 6, 6])}, {}),
    ("Tile", (_X,), {"r": _I([1, 2, 1, 3])}, {}),
    ("Unsqueeze", (_X,), {"a": _I([0, -1])}, {}),
    ("Squeeze", (_X,), {"a": _I([0])}, {}),
    ("ReduceMean", (_X,), {}, {"axes": [1, -1], "keepdims": 0}),
    ("ReduceSum", (_X,), {"a": _I([2])}, {}),
    ("ArgMax", (_X,), {}, {"axis": 1}),
    ("TopK", (_X,), {"k": _I([3])}, {"axis": -1}),
    ("Softmax", (_X,), {}, {"axis": 1}),
    ("Cast", (_X,), {}, {"to": 7}),
    ("Shape", (_X,), {}, {"start": 1}),
    ("ConstantOfShape", (_I([2, 3]),), {}, {}),
    ("Range", (), {"a": np.int64(0), "b": np.int64(9), "c": np.int64(2)}, {}),
    ("Where", (_X > 0, _X, _X), {}, {}),
    ("OneHot", (_I([1, 2]),), {"d": np.int64(4), "v": _FLOATS[:2]}, {}),
    ("DepthToSpace", (_X,), {}, {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", (_X,), {}, {"blocksize": 2}),
    ("LSTM", (_X[0],), {"w": np.ones((1, 12, 6), np.float32), "r": np.ones((1, 12, 3), np.float32)},
     {"hidden_size": 3}),
    ("GRU", (_X[0],), {"w": np.ones((1, 9, 6), np.float32), "r": np.ones((1, 9, 3), np.float32)},
     {"hidden_size": 3, "direction": "reverse"}),
    ("QuantizeLinear", (_X,), {"s": np.float32(0.1), "z": _ZERO}, {}),
    ("DequantizeLinear", ((_X * 3).astype(np.uint8),), {"s": np.float32(0.1), "z": _ZERO}, {}),
    ("Einsum", (_X[0], _X[0]), {}, {"equation": "bij,bjk->bik"}),
    ("NonMaxSuppression", (np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32)),
     {"m": _I([2])}, {}),
    ("GridSample", (_X, np.ones((1, 2, 2, 2), np.float32)), {}, {}),
    ("RoiAlign", (_X, np.ones((1, 4), np.float32), _I([0])), {}, {}),
    ("ScatterND", (_X,), {"i": _I([[0]]), "u": _X}, {}),
    ("CumSum", (_X,), {"a": np.int64(1)}, {"exclusive": 1}),
    ("LayerNormalization", (_X,), {"s": np.ones(6, np.float32)}, {}),
    ("InstanceNormalization", (_X,), {"s": _FLOATS, "b": _FLOATS}, {}),
    ("LRN", (_X,), {}, {"size": 3}),
    ("Trilu", (_X,), {"k": np.int64(1)}, {}),
)  # fmt: skip


def models() -> Iterator[tuple[str, bytes]]:
    """Yield each row as a model, then those of several nodes."""
    from onnx import helper, numpy_helper

    from support.onnx_models import info, model, single

    for i, (kind, feeds, constants, attributes) in enumerate(_ROWS):
        given = {f"x{n}": array for n, array in enumerate(feeds)}
        opset = 9 if kind == "Upsample" else 17
        made = single(kind, given, constants, opset=opset, **attributes)
        yield f"onnx/{i}-{kind}", made.SerializeToString()
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "act"),
        helper.make_node("Identity", ["b"], ["y"], "last"),
    ]
    chain = model(nodes, [info("x", ("n", 4, "h", 6))], [info("y", [None] * 4)], {"w": _W})
    yield "onnx/chain", chain.SerializeToString()
    chain.graph.initializer[0].CopyFrom(numpy_helper.from_array(_W, "w"))
    tensor = chain.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(_W.nbytes))):
        tensor.external_data.add(key=key, value=value)
    yield "onnx/external", chain.SerializeToString()
    yield "onnx/if", _branches(helper, info, model)


def _branches(helper: Any, info: Any, model: Any) -> bytes:
    sides = {}
    for name, kind in (("then_branch", "Relu"), ("else_branch", "Neg")):
        node = helper.make_node(kind, ["x"], [f"{kind}_y"])
        sides[name] = helper.make_graph([node], name, [], [info(f"{kind}_y", (2, 3))])
    choice = helper.make_node("If", ["c"], ["y"], "if", **sides)
    ends = [info("x", (2, 3)), info("c", (), 9)]
    made: bytes = model([choice], ends, [info("y", (2, 3))]).SerializeToString()
    return made
