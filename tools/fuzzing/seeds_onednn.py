"""Dumps of oneDNN Graph to start from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.onednn_dumps import content, op, tensor


def _op(kind: str, shapes: list[tuple[int, ...]], first: int, **attributes: Any) -> dict[str, Any]:
    """One operation; the last shape is its output's."""
    ends = [tensor(first + i, s) for i, s in enumerate(shapes)]
    return op(kind, ends[:-1], ends[-1:], **attributes)


_LISTS = {"strides": [2, 2], "pads_begin": [1, 0], "pads_end": [1, 1], "dilations": [1, 1]}
_POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
_X = (2, 3, 4, 6)
_ROWS: tuple[tuple[str, list[tuple[int, ...]], dict[str, Any]], ...] = (
    ("ConvTranspose", [(1, 4, 4, 4), (4, 2, 3, 3), (1, 2, 7, 8)],
     {**_LISTS, "data_format": "NCX", "weights_format": "IOX", "groups": 1}),
    ("ConvTranspose", [(1, 4, 4, 4), (3, 3, 2, 2), (1, 7, 8, 4)],
     {**_LISTS, "data_format": "NXC", "weights_format": "XOI", "groups": 2,
      "output_padding": [0, 0], "auto_pad": "None"}),
    ("Convolution", [(2, 4, 6, 5), (6, 4, 3, 2), (6,), (2, 6, 3, 4)],
     {**_LISTS, "data_format": "NCX", "weights_format": "OIX", "groups": 1}),
    ("ReLU", [_X, _X], {}),
    ("Clamp", [_X, _X], {"min": -1.0, "max": 2.0}),
    ("SoftMax", [_X, _X], {"axis": -1}),
    ("StaticReshape", [_X, (2, 72)], {"shape": [0, -1], "special_zero": True}),
    ("StaticTranspose", [_X, (2, 6, 3, 4)], {"order": [0, -1, 1, 2]}),
    ("ReduceSum", [_X, (2, 1, 4, 1)], {"axes": [1, -1], "keep_dims": True}),
    ("MaxPool", [_X, (2, 3, 2, 3)], {**_POOL, "data_format": "NCX"}),
    ("AvgPool", [_X, (2, 3, 2, 3)], {**_POOL, "data_format": "NCX", "exclude_pad": True}),
    ("Add", [_X, (4, 1), _X], {"auto_broadcast": "numpy"}),
    ("BiasAdd", [_X, (3,), _X], {"data_format": "NCX"}),
    ("Concat", [_X, (2, 1, 4, 6), (2, 4, 4, 6)], {"axis": 1}),
    ("MatMul", [_X, (5, 6), (2, 3, 4, 5)], {"transpose_b": True}),
)  # fmt: skip


def dumps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one dump for each operation, and a chain of three."""
    for i, (kind, shapes, attributes) in enumerate(_ROWS):
        yield f"onednn/{i}-{kind}", content(_op(kind, shapes, 0, **attributes))
    up = _op(*_ROWS[0][:2], 0, **_ROWS[0][2])
    bias = _op("BiasAdd", [(1, 2, 7, 8), (2,), (1, 2, 7, 8)], 2, data_format="NCX")
    last = _op("ReLU", [(1, 2, 7, 8), (1, 2, 7, 8)], 4)
    bias["inputs"][1]["id"], bias["outputs"][0]["id"] = 9, 4
    yield "onednn/chain", content(up, bias, last, version="2.7.0")
