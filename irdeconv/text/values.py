"""Values in the text form: strings, dimensions, specs, arrays. Arrays are bit-exact.

A value is written as readable numbers only where reading them back gives the same bytes; anything
else (large arrays, NaN payloads, padding bits) is the base64 of the `.bin` encoding.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from irdeconv.constant import ArrayData, ConstantData, FileData
from irdeconv.dtypes import ElementType
from irdeconv.io.lacking import ELIDED
from irdeconv.io.weights import NoWeights
from irdeconv.packing import encode
from irdeconv.spec import Array, Dim, Interval, Shape, Spec, is_static
from irdeconv.wrapping import escaped_json

READABLE_ELEMENTS = 16  # elements; larger arrays are base64

# JSON leaves these as they are; a terminal or an editor would not show them.


class ElidedWeights(NoWeights):
    """Stands for a constant that was left out when a text was printed; `digest` is its hash."""

    def __init__(self, digest: str) -> None:
        super().__init__("(left out of the text form)", ELIDED)
        self.digest = digest

    def __reduce__(self) -> tuple[Any, ...]:
        return ElidedWeights, (self.digest,)


def quote(text: str) -> str:
    """Return a JSON string without control, invisible or direction-changing characters."""
    shown = json.dumps(text, ensure_ascii=False)
    return escaped_json(shown)


def format_bytes(raw: bytes | memoryview) -> str:
    """Return `b"<base64>"`."""
    return f'b"{base64.b64encode(raw).decode()}"'


def format_dim(dim: Dim) -> str:
    """Return `3`, `?`, `..9`, `3..`, `-5..9`; other than `str(dim)` it loses nothing."""
    if not isinstance(dim, Interval):
        return str(int(dim))
    if dim.lo == 0 and dim.hi is None:
        return "?"
    return f"{dim.lo or ''}..{'' if dim.hi is None else dim.hi}"


def format_shape(shape: Shape | None) -> str:
    """Return `[1,3,?]`, or `[...]` for an unknown rank."""
    return "[...]" if shape is None else f"[{','.join(map(format_dim, shape))}]"


def format_spec(spec: Spec, constant: Array | None = None) -> str:
    """Return `f32[1,3]`, with `=[...]` where its value is known (`=data`: the constant's own)."""
    text = f"{spec.dtype or '?'}{format_shape(spec.shape)}"
    if spec.value is None or spec.dtype is None or spec.shape != spec.value.shape:
        return text
    value = format_array(spec.value, spec.dtype)
    if constant is not None and value == format_array(constant, spec.dtype):
        return f"{text}=data"
    return f"{text}={value}"


def format_array(values: Array, dtype: ElementType) -> str:
    """Return a flat list of readable elements, or base64."""
    if values.dtype == object and dtype.kind != "string":
        return f"[{', '.join(format_dim(v) for v in values.reshape(-1))}]"
    return readable(values, dtype, encode(values, dtype)) or format_bytes(encode(values, dtype))


def readable(values: Array, dtype: ElementType, raw: bytes | memoryview) -> str | None:
    """Return the elements as text where that reads back to `raw`, else None."""
    if values.size > READABLE_ELEMENTS:
        return None
    if dtype.kind == "string" and not all(isinstance(v, str) for v in values.reshape(-1)):
        return None
    texts = [_element(v, dtype) for v in values.reshape(-1)]
    with np.errstate(all="ignore"):
        again = to_array(_items(values, texts, dtype), dtype, values.shape)
    return f"[{', '.join(texts)}]" if encode(again, dtype) == bytes(raw) else None


def _items(values: Array, texts: Sequence[str], dtype: ElementType) -> list[Any]:
    """Return what the texts of the elements are read as."""
    if dtype.kind == "string":
        return list(values.reshape(-1))
    if dtype.is_real:
        return [float(t) for t in texts]
    return [v == "true" for v in texts] if dtype.kind == "bool" else [int(t) for t in texts]


def _element(value: Any, dtype: ElementType) -> str:
    if dtype.kind == "string":
        return quote(value)
    if dtype.kind == "bool":
        return "true" if value else "false"
    if not dtype.is_real:
        return str(int(value))
    text = str(value)
    # Some types print -0 and 1; without a point the parser would take them for integers.
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def to_array(items: Sequence[Any], dtype: ElementType, shape: tuple[int, ...]) -> Array:
    """Return parsed elements as an array; ValueError where they do not fit."""
    kinds: dict[str, tuple[type, ...]] = {"string": (str,), "bool": (bool,), "float": (float, int)}
    for item in items:
        allowed = kinds.get(dtype.kind, (int,))
        if not isinstance(item, allowed) or (isinstance(item, bool) and dtype.kind != "bool"):
            raise ValueError(f"{item!r} is not a value of {dtype}")
    try:
        if not dtype.is_real:
            return np.array(items, dtype.container).reshape(shape)
        with np.errstate(all="ignore"):
            wide = np.array(items, np.float64).astype(dtype.container)
        return wide.reshape(shape)
    except OverflowError:
        raise ValueError(f"a value does not fit {dtype}") from None


def to_dims(items: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """Return dimensions, some of them intervals, as a partly known value."""
    if not all(isinstance(v, (int, Interval)) and not isinstance(v, bool) for v in items):
        raise ValueError("a partly known value holds dimensions alone")
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def format_data(
    data: ConstantData, dtype: ElementType, shape: Shape | None, elide: int | None
) -> str:
    """Return a constant's data: elements, base64, elided, or where the missing bytes should be.

    More bytes than `elide` are elided, but for elements that are few enough to be read.
    """
    if not data.available:
        assert isinstance(data, FileData)
        if isinstance(data.source, ElidedWeights):
            return _elided(data.size, data.source.digest)
        return f"missing({quote(data.source.path)}, {data.offset}, {data.size})"
    raw = data.raw()
    count = is_static(shape) and int(np.prod(shape, dtype=np.int64))
    text = None
    if is_static(shape) and count <= READABLE_ELEMENTS:
        values = data.values if isinstance(data, ArrayData) else data.array()
        text = readable(values, dtype, raw)
    if text is not None:
        return text
    if elide is None or len(raw) <= elide:
        return format_bytes(raw)
    return _elided(len(raw), hashlib.blake2b(raw, digest_size=8).hexdigest())


def _elided(size: int, digest: str) -> str:
    return f"elided({size}, {quote(digest)})"
