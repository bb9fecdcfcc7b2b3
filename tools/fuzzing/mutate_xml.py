"""Changes of an IR as what it is: attributes, dimensions, ports, edges, layers, bodies, weights."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from lxml import etree

from fuzzing.values import NAMES, integer, nudged, number

Element = Any
TYPES = (
    "f32 f16 bf16 f64 i64 i32 i16 i8 u64 u32 u16 u8 boolean i4 u4 u1 nf4 f8e4m3 string dynamic "
    "undefined F32 FP32 I64 x"
).split()
VERSIONS = ("opset1", "opset3", "opset5", "opset8", "opset13", "opset99", "opset", "extension", "")
MARK = "\ue000"  # stands for what lxml refuses to hold
RAW = (b"&#0;", b"&#x1b;[2J", b"\x1b", b"\0", b"&undefined;", b"\xff", b"<", b"&#xd800;", b"]]>")


class Mutant:
    """A document and its weights while they are changed."""

    def __init__(self, rng: random.Random, root: Element, weights: bytes) -> None:
        self.rng = rng
        self.root = root
        self.weights = weights
        self.elements = [e for e in root.iter() if isinstance(e.tag, str)]

    def any(self, *tags: str) -> Element | None:
        """Choose an element with one of the tags."""
        found = [e for e in self.elements if e.tag in tags] if tags else self.elements
        return self.rng.choice(found) if found else None

    def other_value(self, name: str) -> str:
        """Choose what an attribute of this name is elsewhere, or any attribute."""
        same = [e.get(name) for e in self.elements if e.get(name) is not None]
        every = [v for e in self.elements for v in e.attrib.values()]
        return self.rng.choice(same if same and self.rng.random() < 0.6 else every or [""])


def mutate_ir(rng: random.Random, root: Element, weights: bytes) -> tuple[bytes, bytes]:
    """Return the files of a changed copy."""
    made = Mutant(rng, copy.deepcopy(root), weights)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        way = rng.choices(_WAYS, _WEIGHTS)[0]
        try:
            way(made)
        except ValueError:  # a character that XML cannot hold
            continue
        made.elements = [e for e in made.root.iter() if isinstance(e.tag, str)]
    text = etree.tostring(made.root, encoding="utf-8")
    while MARK.encode() in text:
        text = text.replace(MARK.encode(), rng.choice(RAW), 1)
    return text[: 1 << 19], made.weights


def _attribute(m: Mutant) -> None:
    """Change the value of an attribute."""
    e = m.any("data", "layer", "port", "data", "data", "net", "edge", "blob", "input", "output")
    if e is None or not e.attrib:
        return
    name = m.rng.choice(list(e.attrib))
    old = e.get(name)
    way = m.rng.randrange(10)
    if way < 4:
        value = number(m.rng, old)
    elif way < 6:
        value = m.other_value(name)
    elif way < 7:
        value = m.rng.choice(NAMES)
    elif way < 8:
        value = m.rng.choice(TYPES)
    else:
        value = nudged(m.rng, old)
    e.set(name, value if m.rng.random() < 0.98 else old + MARK)


def _attribute_list(m: Mutant) -> None:
    """Remove, add or rename an attribute."""
    e = m.any("data", "layer", "port", "edge")
    if e is None:
        return
    names = list(e.attrib)
    way = m.rng.randrange(3)
    if way == 0 and names:
        del e.attrib[m.rng.choice(names)]
    elif way == 1 and names:
        name = m.rng.choice(names)
        e.set(name + m.rng.choice(("s", "_", "2")), e.attrib.pop(name))
    else:
        wanted = ("offset", "size", "axis", "names", "auto_pad", "element_type", "shape", "x", "id")
        e.set(m.rng.choice(wanted), number(m.rng))


def _namespace(m: Mutant) -> None:
    """Put an attribute or an element into a namespace, or declare one that nothing uses."""
    e = m.any("data", "layer", "port", "edge", "net", "dim")
    if e is None:
        return
    uri = m.rng.choice(("urn:x", "http://www.w3.org/XML/1998/namespace"))
    name = m.rng.choice(list(e.attrib) or ["lang"])
    way = m.rng.randrange(4)
    if way == 0:
        e.set(f"{{{uri}}}{etree.QName(name).localname}", m.other_value(name))
    elif way == 1:
        e.set(f"{{{uri}}}{m.rng.choice(('lang', 'space', 'id', 'base'))}", m.rng.choice(NAMES))
    elif e is not m.root:
        space = {None: uri} if way == 2 and uri == "urn:x" else {"u": "urn:x"}
        declared = etree.Element(e.tag, dict(e.attrib), nsmap=space)
        if None in space:
            declared.tag = "{urn:x}" + etree.QName(e).localname
        declared.text, declared[:] = e.text, copy.deepcopy(list(e))
        e.getparent().replace(e, declared)


def _dimension(m: Mutant) -> None:
    e = m.any("dim")
    if e is None:
        return
    way = m.rng.randrange(5)
    if way < 3:
        e.text = number(m.rng, e.text or "")
    elif way == 3:
        e.addnext(copy.deepcopy(e))
    else:
        e.getparent().remove(e)


def _edge(m: Mutant) -> None:
    e = m.any("edge")
    if e is None:
        return
    way = m.rng.randrange(6)
    if way == 0:
        e.getparent().remove(e)
    elif way == 1:
        e.addnext(copy.deepcopy(e))
    elif way == 2 and {"from-layer", "to-layer"} <= set(e.attrib):
        a, b = e.get("from-layer"), e.get("to-layer")
        e.set("from-layer", b)
        e.set("to-layer", m.rng.choice((a, b)))
    else:
        name = m.rng.choice(list(e.attrib) or ["from-layer"])
        other = m.any("edge")
        e.set(name, m.rng.choice((other.get(name, "0"), number(m.rng, e.get(name, "0")))))


def _layer(m: Mutant) -> None:
    """Drop, repeat, move or rename a layer, or make it another operation."""
    e = m.any("layer")
    if e is None:
        return
    way = m.rng.randrange(7)
    if way == 0:
        e.getparent().remove(e)
    elif way == 1:
        twin = copy.deepcopy(e)
        e.addnext(twin)
        if m.rng.random() < 0.7:
            twin.set("id", str(m.rng.randint(0, 99)))
    elif way == 2:
        other = m.any("layer")
        e.set("type", other.get("type", "Parameter"))
    elif way == 3:
        e.set("version", m.rng.choice(VERSIONS))
    elif way == 4:
        e.set("name", m.rng.choice((*NAMES, m.other_value("name"))))
    elif way == 5:
        e.set("id", m.other_value("id"))
    else:
        parent = e.getparent()
        parent.insert(m.rng.randrange(len(parent)), e)


@cache
def _kinds() -> list[str]:
    from irdeconv.ir.op import REGISTRY

    return sorted({kind for kind, _ in REGISTRY})


def _kind(m: Mutant) -> None:
    """Give a layer the type of any operation: what it has of ports and attributes stays."""
    e = m.any("layer")
    if e is not None:
        kind = m.rng.choice(_kinds())
        e.set("type", kind)
        e.set("version", m.rng.choice((*VERSIONS[:5], e.get("version", ""))))


def _port(m: Mutant) -> None:
    e = m.any("port")
    if e is None:
        return
    way = m.rng.randrange(5)
    if way == 0:
        e.getparent().remove(e)
    elif way == 1:
        twin = copy.deepcopy(e)
        if m.rng.random() < 0.7:
            twin.set("id", str(m.rng.randint(0, 9)))
        e.addnext(twin)
    elif way == 2:
        e.set("precision", m.rng.choice(TYPES).upper())
    elif way == 3:
        e.set("names", m.rng.choice((*NAMES, m.other_value("names"))))
    else:
        for dim in list(e):
            e.remove(dim)


def _element(m: Mutant) -> None:
    """Rename, drop, repeat, move or nest any element; put text, comments and others into it."""
    e, other = m.any(), m.any()
    if e is None or other is None or e is m.root:
        return
    way = m.rng.randrange(8)
    if way == 0:
        e.tag = m.rng.choice(("layer", "port", "data", "x", "net", "body", other.tag))
    elif way == 1:
        e.getparent().remove(e)
    elif way == 2:
        for _ in range(m.rng.choice((1, 2, 30))):
            e.addnext(copy.deepcopy(e))
    elif way == 3:
        other.append(copy.deepcopy(e))
    elif way == 4:
        e.text = m.rng.choice((*NAMES, "1", MARK))
    elif way == 5:
        e.append(m.rng.choice((etree.Comment("x"), etree.PI("php", "x"), etree.Element("x"))))
    elif way == 6:
        at = e
        for _ in range(m.rng.choice((3, 40, 300))):
            at = etree.SubElement(at, m.rng.choice((e.tag, "body")))
    else:
        e.tag = "{urn:x}" + e.tag.rpartition("}")[2]


def _nested(m: Mutant) -> None:
    """Put a layer's body, or the whole model, into a layer as its body."""
    e = m.any("layer")
    body = m.any("body", "then_body", "else_body", "net")
    if e is None or body is None:
        return
    inner = copy.deepcopy(body)
    inner.tag = m.rng.choice(("body", "then_body", "else_body"))
    e.append(inner)


def _constant(m: Mutant) -> None:
    """Change what a constant says of its bytes."""
    found = [e for e in m.elements if e.tag == "data" and e.get("offset") is not None]
    if not found:
        return
    e = m.rng.choice(found)
    name = m.rng.choice(("offset", "size", "element_type", "shape"))
    old = e.get(name, "")
    e.set(name, m.rng.choice(TYPES) if name == "element_type" else number(m.rng, old))


_STRUCTS = {
    "i64": "<q",
    "u64": "<Q",
    "i32": "<i",
    "u32": "<I",
    "i8": "<b",
    "f32": "<f",
    "f16": "<e",
}


def _values(m: Mutant) -> None:
    """Change numbers in the weights: elements of constants where that is known."""
    found = [e for e in m.elements if e.tag == "data" and e.get("offset", "").isdigit()]
    small = [e for e in found if e.get("element_type") in ("i64", "i32")]
    if not found or not m.weights:
        return
    e = m.rng.choice(small if small and m.rng.random() < 0.8 else found)
    form = _STRUCTS.get(e.get("element_type", ""), "<b")
    size, start = struct.calcsize(form), min(int(e.get("offset")), len(m.weights))
    length = int(e.get("size", "0")) if e.get("size", "0").isdigit() else 0
    at = start + size * m.rng.randrange(max(1, min(length, 1 << 20) // size))
    m.weights = _patched(m.rng, m.weights, at, form)


def _patched(rng: random.Random, data: bytes, at: int, form: str) -> bytes:
    size = struct.calcsize(form)
    if form in ("<f", "<e"):
        value: Any = rng.choice((float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1e4))
        packed = struct.pack(form, value)
    else:
        packed = (integer(rng) % (1 << 8 * size)).to_bytes(size, "little")
    return data[:at] + packed + data[at + size :]


def _weights(m: Mutant) -> None:
    """Shorten, lengthen or empty the weights."""
    at = m.rng.randrange(len(m.weights) + 1)
    m.weights = m.rng.choice((m.weights[:at], m.weights + b"\0" * 9, b"", m.weights[:at] * 2))


def _undeclared(m: Mutant) -> None:
    """Open all dimensions of a port, or take every declared size away."""
    ports = [e for e in m.elements if e.tag == "port"]
    if m.rng.random() < 0.5 and ports:
        ports = [m.rng.choice(ports)]
    for e in ports:
        for dim in e:
            dim.text = "-1"
    for e in m.elements:
        if e.tag == "data" and e.get("shape") and e.get("offset") is None and m.rng.random() < 0.5:
            sizes = e.get("shape").split(",")
            sizes[m.rng.randrange(len(sizes))] = m.rng.choice(("?", "0", "1..9", "2..", "-1"))
            e.set("shape", ",".join(sizes))


Way = Callable[[Mutant], None]
_TABLE: tuple[tuple[Way, int], ...] = (
    (_attribute, 24), (_attribute_list, 7), (_dimension, 8), (_edge, 9), (_layer, 10), (_kind, 6),
    (_port, 6), (_element, 5), (_nested, 1), (_constant, 5), (_values, 12), (_weights, 2),
    (_undeclared, 6), (_namespace, 2),
)  # fmt: skip
_WAYS = [way for way, _ in _TABLE]
_WEIGHTS = [weight for _, weight in _TABLE]
