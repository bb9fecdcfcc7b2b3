"""`Const` layers: element type, shape, offset and size, checked against the weights file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from irdeconv.attributes import parse_int
from irdeconv.constant import FileData
from irdeconv.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.io.context import Context
from irdeconv.io.document import XmlLayer
from irdeconv.ops.basic import Const
from irdeconv.packing import decode
from irdeconv.suggest import did_you_mean

T = TypeVar("T")
_CONST_ATTRIBUTES = ("element_type", "shape", "offset", "size")


class ConstantReader:
    """Reads Const layers of one file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._layer: XmlLayer

    def read(self, layer: XmlLayer) -> Const | None:
        """Return the operation, or None after reporting what is wrong."""
        made = self._read(layer)
        if made is None:
            self._context.unplaced = True
        return made

    def _read(self, layer: XmlLayer) -> Const | None:
        self._layer = layer
        data = layer.data or {}
        if layer.data is None:
            self._add("E104", "it has no <data>: element type, shape, offset and size are missing")
            return None
        dtype = self._element_type(data)
        shape = self._shape(data)
        offset, size = self._number(data, "offset"), self._number(data, "size")
        self._context.unknown_attributes(
            data, _CONST_ATTRIBUTES, "Const", layer=layer, sub=layer.data_sub
        )
        if dtype is None or shape is None or offset is None or size is None:
            return None
        if not self._fits(dtype, shape, offset, size):
            return None
        source = FileData(self._context.weights, offset, size, dtype, shape)
        if dtype.kind == "string" and source.available and not self._strings(source):
            return None
        return Const(element_type=dtype, shape=shape, data=source)

    def _add(
        self, code: str, message: str, attribute: str | None = None, hint: str | None = None
    ) -> None:
        layer = self._layer
        self._context.add(
            code,
            message,
            attribute=attribute,
            layer=layer,
            sub=layer.data_sub,
            hint=hint,
        )

    def _parsed(self, data: dict[str, str], name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of an attribute; None after reporting that it is missing or wrong."""
        if name not in data:
            self._add("E105", f'the attribute "{name}" is missing')
            return None
        try:
            return parse(data[name])
        except ValueError as e:
            self._add("E106", f'{name}="{data[name]}": {e}', name)
            return None

    def _element_type(self, data: dict[str, str]) -> ElementType | None:
        text = self._parsed(data, "element_type", str)
        found = None if text is None else ELEMENT_TYPES.get(text.strip().lower())
        if text is not None and found is None:
            hint = did_you_mean(text, ELEMENT_TYPES)
            self._add("E212", f'"{text}" is not an element type', "element_type", hint)
        return found

    def _shape(self, data: dict[str, str]) -> tuple[int, ...] | None:
        shape = self._parsed(data, "shape", _parse_shape)
        if shape and min(shape) < 0:
            message = f'shape="{data["shape"]}" has the negative dimension {min(shape)}'
            self._add("E107", message, "shape")
            return None
        return shape

    def _number(self, data: dict[str, str], name: str) -> int | None:
        value = self._parsed(data, name, parse_int)
        if value is not None and value < 0:
            self._add("E107", f"{name} is negative: {value}", name)
            return None
        return value

    def _fits(self, dtype: ElementType, shape: tuple[int, ...], offset: int, size: int) -> bool:
        count = math.prod(shape)
        fine = True
        need = dtype.nbytes(count)
        # Writers give a zero-element constant one byte.
        if dtype.kind != "string" and size != need and not (count == 0 and size <= 1):
            self._add(
                "E122", f"{count} elements of {dtype} take {need} bytes, size is {size}", "size"
            )
            fine = False
        total = self._context.weights.size
        if total is not None and offset + size > total and size:
            self._context.outside.append((self._layer, offset, offset + size))
            fine = False
        self._context.used.append((offset, offset + size))
        return fine

    def _strings(self, source: FileData) -> bool:
        try:
            decode(source.raw(), source.dtype, source.shape)
        except ValueError as e:
            self._add("E123", str(e), "offset")
            return False
        return True


def _parse_shape(text: str) -> tuple[int, ...]:
    return tuple(parse_int(part) for part in text.split(",")) if text.strip() else ()
