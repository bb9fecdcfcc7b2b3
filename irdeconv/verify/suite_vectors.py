"""The arrays of a case, its ONNX model, and how far a device may be off.

Integers are so small that every sum is exact in the layer's element type: a correct device gives
the expected bits in any order of additions. Other data are computed in double precision, the terms
of every sum added in one defined order.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irdeconv.base.errors import Diagnostic, UnsupportedError
from irdeconv.base.extras import ExtraError, extra
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.spec import Array
from irdeconv.kernels.products import accumulate_in_order
from irdeconv.verify import judge
from irdeconv.verify.difference import Allowed
from irdeconv.verify.suite_cases import SuiteCase
from irdeconv.verify.suite_layer import SuiteLayer

Data = Literal["integers", "floats"]
LARGEST_INTEGER = 9  # of the integers
# 2^n is the largest integer up to which a type has them all.
_EXACT_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "i64": 63, "i32": 31, "i8": 7}
_CURVED = ("Tanh", "Sigmoid")  # activations that round


@dataclass(frozen=True)
class Vectors:
    """The arrays of a case by their names in the model.

    Where a result is `exact`, a device has to give the expected numbers themselves, in the output's
    element type; else they are f64, and `allowed` has a limit per element.
    """

    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    expected: Array
    allowed: Allowed
    exact: bool


def vectors(
    layer: SuiteLayer, name: str, data: Data, seed: int, spoil: str | None = None
) -> Vectors:
    """Make the arrays of a case; they depend on its name and the seed, on no other case."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    whole = data == "integers" or not layer.dtype.is_real
    top = _largest(layer) if whole else 0
    arrays = {
        port: np.array(layer.output_shape, np.int64)
        if port == "output_shape"
        else _random(rng, shape, layer.dtype, top)
        for port, shape in layer.port_shapes.items()
    }
    if spoil is not None:
        _spoil(arrays[spoil], rng)
    fed = ("x", "filter") if layer.filter == "input" else ("x",)
    inputs = {port: a for port, a in arrays.items() if port in fed}
    constants = {port: a for port, a in arrays.items() if port not in fed}
    exact = is_exact(layer, data)
    return Vectors(inputs, constants, *judged(layer, arrays, exact=exact), exact)


def judged(layer: SuiteLayer, arrays: Mapping[str, Array], *, exact: bool) -> tuple[Array, Allowed]:
    """Return what the arrays of all ports give, and how far a device may be off that."""
    op, values = layer.op, [arrays[port] for port in layer.port_shapes]
    with accumulate_in_order(not exact), np.errstate(all="ignore"):
        (made,) = judge.evaluate(op, values)
        if exact:
            bits = _EXACT_BITS[layer.element_type]
            made = made.astype(layer.dtype.container, copy=False)  # activations compute in f32
            return made, Allowed(0.0, f"exact: integers, every sum at most 2^{bits}")
        (wide,) = judge.precise(op, values, (made,))
        (allowed,) = judge.allowed(op, values, (made,))
    return wide, allowed


def is_exact(layer: SuiteLayer, data: Data) -> bool:
    """Whether the output is exact: integers that are small enough, and nothing that rounds."""
    whole = data == "integers" or not layer.dtype.is_real
    return whole and _room(layer) >= 1 and layer.activation not in _CURVED


def _room(layer: SuiteLayer) -> float:
    """Return the square of the largest integer of which all sums are exact."""
    inputs = layer.channels // layer.groups
    taps = (-(-e // s) for e, s in zip(layer.kernel, _strides(layer), strict=True))
    terms = inputs * math.prod(taps) + layer.bias  # a bias is at most the square, too
    return float(2.0 ** _EXACT_BITS[layer.element_type] / terms)


def _strides(layer: SuiteLayer) -> tuple[int, ...]:
    """Return by how much taps that meet in one output are apart: with dilations, S / gcd(S, D)."""
    rows = zip(layer.strides, layer.dilations, strict=True)
    return tuple(s // math.gcd(s, d) for s, d in rows)


def _largest(layer: SuiteLayer) -> int:
    return max(1, min(LARGEST_INTEGER, math.isqrt(max(int(_room(layer)), 1))))


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: ElementType, top: int
) -> Array:
    """Return integers -top..top without 0, or for 0 numbers around 0 of about size 1."""
    if top:
        values: Array = rng.integers(1, top + 1, shape) * rng.choice([-1, 1], shape)
    else:
        values = rng.standard_normal(shape)
    return values.astype(dtype.container)


def _spoil(array: Array, rng: np.random.Generator) -> None:
    """Put an infinity and a NaN at two places."""
    flat = array.reshape(-1)
    places = rng.choice(flat.size, 2, replace=False)
    flat[places[0]], flat[places[1]] = np.inf, np.nan


def is_raw(array: Array) -> bool:
    """Whether an array holds bytes of a type that .npy has no name for."""
    return array.dtype.kind == "V" and array.dtype.isbuiltin != 2


def is_number(array: Array, dtype: ElementType) -> bool:
    """Whether an array holds real numbers, also of a type of ours, or its raw bytes."""
    if not is_raw(array):
        return array.dtype.kind in "fiubV"
    return array.dtype.names is None and array.dtype.itemsize == dtype.container.itemsize


def loaded(array: Array, dtype: ElementType) -> Array:
    """Return a stored array, or one of raw bytes, in its element type."""
    if is_raw(array) and array.dtype.itemsize == dtype.container.itemsize:
        return array.view(dtype.container)
    return array.astype(dtype.container, copy=False)


def sizes(layer: SuiteLayer) -> dict[str, Any]:
    """Return the bytes of all arrays and the products of a run, without making anything."""
    shapes = [*layer.port_shapes.values(), layer.output]
    item = max(layer.dtype.container.itemsize, 4)
    elements = sum(math.prod(s) for s in shapes)
    products = layer.batch * math.prod(layer.size) * math.prod(layer.filter_shape)
    # Weights stand in the .bin and in an .npz; an output may have a bound beside it.
    return {"bytes": 2 * item * elements + 8 * math.prod(layer.output), "products": products}


_LISTS = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
_IR_VERSION = {1: 3, 11: 6, 22: 10}  # the one of the release that brought the operation set


def require_onnx() -> None:
    """Raise UnsupportedError where the package onnx is missing."""
    try:
        extra("onnx.helper")
    except ExtraError as e:
        message = f"writing .onnx needs the package onnx, which {e}"
        raise UnsupportedError(Diagnostic("E506", "error", message)) from e


def onnx_model(case: SuiteCase, made: Vectors) -> bytes:
    """Return the model: constants as initializers, the inputs and the output `y`."""
    helper = extra("onnx.helper")
    op: Any = case.layer.op
    opset = int(op.version.removeprefix("onnx_opset"))
    given = {name: list(getattr(op, name)) for name in _LISTS if getattr(op, name)}
    given |= {"group": op.group} | ({"auto_pad": op.auto_pad} if op.auto_pad != "NOTSET" else {})
    ports = [p for p in ("x", "filter", "bias") if p in made.inputs or p in made.constants]
    node = helper.make_node("ConvTranspose", ports, ["y"], name="deconv", **given)
    kind = helper.np_dtype_to_tensor_dtype(case.layer.dtype.container)

    def info(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    def tensor(name: str, array: Array) -> Any:
        return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)

    # Version 3 of the file format lists initializers among the inputs.
    inputs = [info(n, a.shape) for n, a in made.inputs.items()]
    if opset == 1:
        inputs += [info(n, a.shape) for n, a in made.constants.items()]
    graph = helper.make_graph(
        [node],
        case.name,
        inputs,
        [info("y", case.layer.output)],
        [tensor(n, a) for n, a in made.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = _IR_VERSION[opset]
    model.producer_name, model.producer_version = "irdeconv", ""
    return bytes(model.SerializeToString(deterministic=True))
