"""The weights file as a whole: missing, or with bytes that no constant uses."""

from __future__ import annotations

from irdeconv.io.context import Context
from irdeconv.io.document import Document, XmlLayer
from irdeconv.source import Anchor

# Gaps up to this many bytes are what writers leave for alignment.
_LARGEST_GAP = 63


def check_weights(document: Document, context: Context) -> None:
    """Report a missing weights file, and bytes of it that no constant uses."""
    size = context.weights.size
    if size is None:
        _missing(document, context)
        return
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
    """Warn at the first constant that has bytes; a model without any needs no weights file."""
    if not any(stop > start for start, stop in context.used):
        return
    layer = _first_constant(document)
    context.add(
        "W120",
        f"the weights file {context.weights.path} is missing; values of constants are unknown",
        layer=layer,
        hint="shapes are checked as far as they do not depend on values",
    )


def _first_constant(document: Document) -> XmlLayer | None:
    for layer in document.layers:
        if layer.type == "Const":
            return layer
        for body in layer.bodies:
            found = _first_constant(body.document)
            if found is not None:
                return found
    return None
