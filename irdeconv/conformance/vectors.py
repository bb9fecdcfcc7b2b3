"""The numbers of a case: data, what they give by the definition, and how far a device may be off.

Integers are chosen so small that every sum is exact in the layer's element type; a correct device
then gives the expected bits in whatever order it adds. Elsewhere the expected output is computed in
double precision, the terms of every sum added in one defined order.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irdeconv.conformance.layer import SuiteLayer
from irdeconv.dtypes import ElementType
from irdeconv.kernels.shared.exact import accumulate_in_order
from irdeconv.spec import Array
from irdeconv.verify.compare import rounding
from irdeconv.verify.compare.difference import Allowed

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
        (made,) = rounding.evaluate(op, values)
        if exact:
            bits = _EXACT_BITS[layer.element_type]
            made = made.astype(layer.dtype.container, copy=False)  # activations compute in f32
            return made, Allowed(0.0, f"exact: integers, every sum at most 2^{bits}")
        (wide,) = rounding.precise(op, values, (made,))
        (allowed,) = rounding.allowed(op, values, (made,))
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


def is_number(array: Array, dtype: ElementType) -> bool:
    """Whether an array of another kind holds numbers: of a type of ours, or its raw bytes."""
    if array.dtype.kind != "V" or array.dtype.isbuiltin == 2:
        return array.dtype.kind == "V"
    return array.dtype.names is None and array.dtype.itemsize == dtype.container.itemsize


def loaded(array: Array, dtype: ElementType) -> Array:
    """Return a stored array, or one of raw bytes, in its element type."""
    raw = array.dtype.kind == "V" and array.dtype.isbuiltin != 2
    if raw and array.dtype.itemsize == dtype.container.itemsize:
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
