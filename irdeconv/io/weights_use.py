"""The weights file as a whole: missing, too short, or with bytes that no constant uses."""

from __future__ import annotations

from collections.abc import Iterator

from irdeconv.errors import Severity
from irdeconv.io.context import Context
from irdeconv.io.document import Document, XmlLayer
from irdeconv.io.kinds import BEGIN, kind_of
from irdeconv.plural import count
from irdeconv.source import Anchor

# Why there are no weights, beside that the file is missing.
LEFT_OUT = "the weights were left out"
UNREADABLE = "the weights file cannot be read"

# Gaps up to this many bytes are what writers leave for alignment.
_LARGEST_GAP = 63


def check_weights(document: Document, context: Context) -> None:
    """Report a weights file that is missing or too short, and bytes that no constant uses."""
    size = context.weights.size
    if size is None:
        _missing(document, context)
        return
    _outside(size, context)
    if context.unplaced:
        return
    end = max((stop for _, stop in context.used), default=0)
    if end < size:
        context.add(
            "W121",
            f"{size - end} of {size} bytes of the weights file follow the last constant, which "
            f"ends at {end}",
            Anchor("layers"),
            hint="the .bin may belong to another .xml",
        )
    for start, stop in _gaps(context.used):
        if stop - start > _LARGEST_GAP and stop <= size:
            context.add(
                "W121",
                f"bytes {start} to {stop} of the weights file are not used by any constant",
                Anchor("layers"),
            )


def _gaps(used: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out, end = [], 0
    for start, stop in sorted(used):
        if start > end:
            out.append((end, start))
        end = max(end, stop)
    return out


def _missing(document: Document, context: Context) -> None:
    """Report once what constants with bytes lack; a model without any needs no weights file."""
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


def _outside(size: int, context: Context) -> None:
    """Report once the constants that lie outside the weights file."""
    if not context.outside:
        return
    (layer, start, stop), *more = context.outside
    path = context.weights.path
    kind = kind_of(bytes(context.weights.read(0, min(size, BEGIN))), path)
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
    *,
    severity: Severity | None = None,
    hint: str | None = None,
) -> None:
    """Report what is wrong with the file; the place is that of the first layer that needs it."""
    anchor = layer.within(layer.data_sub if attribute else 0)
    context.out.add(
        code,
        message,
        severity=severity,
        location=context.place(anchor, attribute),
        layer=layer.name,
        hint=hint,
    )
