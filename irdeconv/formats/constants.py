"""Constants, names, and the weights file: missing, too short, or with bytes that no constant uses.

The text form leaves out the data of some constants. ReadValue and Assign share variables by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from irdeconv.base.errors import Diagnostic, Note, Severity, count, did_you_mean
from irdeconv.base.source import Anchor
from irdeconv.formats.document import Context, Document, XmlLayer
from irdeconv.formats.kinds import ARRAYS, BEGIN, kind_of
from irdeconv.formats.xml_layer import split_names
from irdeconv.ir.constant import FileData, decode
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Node
from irdeconv.ops.basic import Const, Opaque
from irdeconv.proof.spelling import integer

T = TypeVar("T")
_CONST_ATTRIBUTES = ("element_type", "shape", "offset", "size")


class ConstantReader:
    """Reads Const layers of one file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._layer: XmlLayer

    def read(self, layer: XmlLayer) -> Const | None:
        """Return the operation, or None after reporting its errors."""
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
        if dtype.kind == "string" and source.available:
            try:
                decode(source.raw(), dtype, shape)
            except ValueError as e:
                self._add("E123", str(e), "offset")
                return None
        return Const(element_type=dtype, shape=shape, data=source)

    def _add(self, code: str, message: str, attribute: str | None = None, **more: Any) -> None:
        sub = self._layer.data_sub
        self._context.add(code, message, attribute=attribute, layer=self._layer, sub=sub, **more)

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
            self._add("E212", f'"{text}" is not an element type', "element_type", hint=hint)
        return found

    def _shape(self, data: dict[str, str]) -> tuple[int, ...] | None:
        shape = self._parsed(
            data, "shape", lambda t: tuple(map(integer, t.split(","))) if t.strip() else ()
        )
        if shape and min(shape) < 0:
            message = f'shape="{data["shape"]}" has the negative dimension {min(shape)}'
            self._add("E107", message, "shape")
            return None
        return shape

    def _number(self, data: dict[str, str], name: str) -> int | None:
        value = self._parsed(data, name, partial(integer, end=2**64))
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
            message = f"{count} elements of {dtype} take {need} bytes, size is {size}"
            self._add("E122", message, "size")
            fine = False
        total = self._context.weights.size
        if total is not None and offset + size > total and size:
            self._context.outside.append((self._layer, offset, offset + size))
            fine = False
        self._context.used.append((offset, offset + size))
        return fine


def check_names(document: Document, context: Context) -> None:
    """Report repeated names of layers and tensors, and repeated or unpaired variables."""
    _layer_names(document, context)
    _tensor_names(document, context)
    _variables(document, context)


def _layer_names(document: Document, context: Context) -> None:
    first: dict[str, XmlLayer] = {}
    for layer in document.layers:
        if layer.name is None:
            continue
        other = first.setdefault(layer.name, layer)
        if other is not layer:
            text = f"the name is already that of {other.label}"
            notes = context.stands(other, "name")
            context.add("W200", text, attribute="name", layer=layer, notes=[notes])


def _tensor_names(document: Document, context: Context) -> None:
    first: dict[str, tuple[XmlLayer, int]] = {}
    for layer in document.layers:
        for port in layer.outputs:
            if not port.names:
                continue
            for name in set(split_names(port.names)):
                other = first.setdefault(name, (layer, port.sub))
                if other != (layer, port.sub):
                    text = f'the tensor name "{name}" is already that of an output of '
                    notes = [context.stands(other[0], "names", sub=other[1])]
                    where: dict[str, Any] = {"attribute": "names", "layer": layer, "sub": port.sub}
                    context.add("W206", text + other[0].label, **where, notes=notes)


def _variables(document: Document, context: Context) -> None:
    def report(layer: XmlLayer, message: str, severity: Severity = "error") -> None:
        context.add(
            "E215", message, attribute="variable_id", layer=layer, sub=layer.data_sub,
            severity=severity,
        )  # fmt: skip

    read: dict[str, XmlLayer] = {}
    assigned: dict[str, XmlLayer] = {}
    for layer in document.layers:
        if layer.type not in ("ReadValue", "Assign") or layer.data is None:
            continue
        variable = layer.data.get("variable_id")
        if variable is None:
            context.add("E105", 'the attribute "variable_id" is missing', layer=layer)
            continue
        other = (assigned if layer.type == "Assign" else read).setdefault(variable, layer)
        if other is not layer:
            report(layer, f'the variable "{variable}" is already that of {other.label}')
    for variable, layer in assigned.items():
        if variable not in read:
            report(layer, f'no ReadValue reads the variable "{variable}"')
    for variable, layer in read.items():
        if variable not in assigned:
            message = f'no Assign sets the variable "{variable}": it keeps its first value'
            report(layer, message, "warning")


# Why there are no weights, beside that the file is missing.
LEFT_OUT = "the weights were left out"
UNREADABLE = "the weights file cannot be read"

# Writers leave gaps of up to this many bytes for alignment.
_LARGEST_GAP = 63


def check_weights(document: Document, context: Context) -> None:
    """Report a weights file that is missing or too short, and bytes that no constant uses."""
    size = context.weights.size
    if size is None:
        _missing(document, context)
        return
    if _misplaced(document, size, context) or context.unplaced:
        return
    end = max((stop for _, stop in context.used), default=0)
    if end < size:
        text = f"{size - end} of {size} bytes of the weights file follow the last constant, which "
        hint = "the .bin may belong to another .xml"
        context.add("W121", f"{text}ends at {end}", Anchor("layers"), hint=hint)
    end = 0
    for start, stop in sorted(context.used):
        if start - end > _LARGEST_GAP and start <= size:
            text = f"bytes {end} to {start} of the weights file are not used by any constant"
            context.add("W121", text, Anchor("layers"))
        end = max(end, stop)


def _missing(document: Document, context: Context) -> None:
    """Report once that constants with bytes lack weights; a model without any needs no file."""
    reason = context.weights.reason
    if not any(stop > start for start, stop in context.used) or reason == UNREADABLE:
        return
    first, *more = _constants(document)
    if reason == LEFT_OUT:
        message = f"{LEFT_OUT}: what depends on values of constants is open"
        _add(context, "W120", message, first, severity="note")
    else:
        need = f"and {count(len(more), 'more constant')} need it" if more else "needs it"
        _add(context, "E120", f'{reason}; Const "{first.name}" {need}', first)


def _misplaced(document: Document, size: int, context: Context) -> bool:
    """Report once the constants outside the weights file; whether it holds arrays instead."""
    path = context.weights.path
    kind = kind_of(bytes(context.weights.read(0, min(size, BEGIN))), path)
    used = [(layer, 0, 0) for layer in _constants(document)] if kind.name in ARRAYS else []
    if not context.outside and not used:
        return False
    (layer, start, stop), *more = context.outside or used
    if not size:
        message, hint = f"{path} is empty", kind.mend
    elif (kind.foreign or kind.format) and kind.name != "a weights file":
        message, hint = f"{path} is {kind.name}, not weights", kind.mend
    else:
        need = f'Const "{layer.name}" lies at {start} to {stop}'
        if more:
            need += f", {count(len(more), 'more constant')} outside it, too"
        message = f"{path} has {count(size, 'byte')}: {need}"
        hint = f"{path} is cut off or belongs to another .xml"
    _add(context, "E121", message, layer, "offset" if start >= size else "size", hint=hint)
    return bool(used)


def _constants(document: Document) -> Iterator[XmlLayer]:
    for layer in document.layers:
        if layer.type == "Const":
            yield layer
        for body in layer.bodies:
            yield from _constants(body.document)


def _add(
    context: Context,
    code: str,
    message: str,
    layer: XmlLayer,
    attribute: str | None = None,
    **more: Any,
) -> None:
    """Report an error of the weights file, at the place of the first layer that needs it."""
    place = context.place(layer.within(layer.data_sub if attribute else 0), attribute)
    context.out.add(code, message, location=place, layer=layer.name, **more)


ELIDED = "the text form was printed without its large constants"
MEND = "name the .bin with --weights"
_MENDS = {ELIDED: "dump(graph, elide=None) and inspect --constants --format ir keep them"}
_NAMED = 20  # names in a note


def lacks_data(op: object) -> bool:
    """Whether an operation is a constant whose bytes are not there."""
    return isinstance(op, Const) and not op.data.available


def no_data(nodes: Sequence[Node], what: str) -> Diagnostic:
    """Return the one error (E120) of all layers that lack data; `what` follows the first one."""
    first, *more = nodes
    data: Any = first.op.data if isinstance(first.op, Const) else None
    data = first.op.weights if isinstance(first.op, Opaque) else data
    reason = getattr(data.source if isinstance(data, FileData) else None, "reason", None)
    reason = reason if isinstance(reason, str) else "its weights file is missing"
    others = f", and {count(len(more), 'more layer')} as well" if more else ""
    names = ", ".join(f'"{n.name}"' for n in more[:_NAMED])
    cut = ", ..." if len(more) > _NAMED else ""
    return Diagnostic(
        "E120",
        "error",
        f'{first.type} "{first.name}" {what}{others}: {reason}',
        first.location,
        first.name,
        notes=(Note(f"the others are {names}{cut}"),) if more else (),
        hint=_MENDS.get(reason, MEND),
    )
