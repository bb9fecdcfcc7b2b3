"""What is compared of a layer that is kept as its file has it: version, children, bodies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from irdeconv.graph import Node


def kept_parts(node: Node) -> list[object]:
    """Return the version and children of an unknown layer, in a form to be compared; else nothing.

    Constants of bodies are compared by their bytes, wherever these lie in the weights file.
    """
    op: Any = node.op
    sections = getattr(op, "sections", None)
    if sections is None:
        return []
    return [op.version, *(_section(s.tag, s.xml, op.weights) for s in sections)]


def _section(tag: str, xml: bytes, weights: Any) -> tuple[str, bytes]:
    if not tag.endswith("body"):
        return tag, xml.strip()
    try:
        # A section of a document that was read before, by the parser that refuses a DOCTYPE.
        root = ElementTree.fromstring(xml)  # noqa: S314
        for data in _stored(root):
            data.set("offset", _digest(data, weights))
        text = ElementTree.tostring(root, encoding="unicode")
        return tag, ElementTree.canonicalize(text, strip_text=True).encode()
    except (ElementTree.ParseError, ValueError):
        return tag, xml.strip()


def _stored(body: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield the `<data>` of every constant in a body, nested ones as well."""
    return (d for d in body.iter("data") if "offset" in d.attrib and "size" in d.attrib)


def _digest(data: ElementTree.Element, weights: Any) -> str:
    if weights is None or not weights.available:
        return data.attrib["offset"]
    texts = data.attrib["offset"], data.attrib["size"]
    if not all(re.fullmatch("[0-9]{1,19}", text) for text in texts):
        raise ValueError("these are no numbers of bytes")
    offset, size = map(int, texts)
    if offset + size > weights.size:
        raise ValueError("these bytes are not in the weights file")
    return hashlib.blake2b(memoryview(weights.raw())[offset : offset + size]).hexdigest()


def kept_text(node: Node) -> str:
    """Return the children of an unknown layer as text."""
    return repr(kept_parts(node)[1:]) if kept_parts(node) else ""
