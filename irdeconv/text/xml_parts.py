"""What the text form keeps for the `.xml` alone: it has to be what a file can hold there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lxml import etree

from irdeconv.io.context import integer
from irdeconv.ops.basic import Opaque, Section
from irdeconv.text.lexer import Lexer

# Attributes that the writer gives <net> and <layer> itself, and children of <layer>.
_OWN = ("id", "name", "type", "version")
_WRITTEN = ("data", "input", "output", "rt_info")


def check_xml(
    lex: Lexer, fields: Mapping[str, tuple[Any, int]], data: Collection[str] = ()
) -> None:
    """Fail at the first field of a model, a body or a node that an `.xml` cannot hold.

    The types of the values are right. `data` are the attributes that the node's operation writes.
    """
    for name, (value, offset) in fields.items():
        if value is None:
            continue
        problem = None
        if name == "ir_version" and value not in (10, 11):
            problem = f"{value} is not 10 or 11"
        elif name == "rt_info":
            problem = _element(value, "rt_info")
        elif name == "port_rt_info":
            problem = next(filter(None, (_element(e[-1], "rt_info") for e in value)), None)
        elif name in ("extra", "extra_data"):
            problem = _attributes([k for k, _ in value], _OWN if name == "extra" else data)
        _fail(lex, name, problem, offset)


def check_opaque(lex: Lexer, op: Opaque, fields: Mapping[str, tuple[Any, int]]) -> None:
    """Fail at the first field of an operation without details that an `.xml` cannot hold."""
    problem = _attributes([k for k, _ in op.data], ())
    _fail(lex, "data", problem, fields.get("data", (None, 0))[1])
    for section in op.sections:
        _fail(lex, "sections", _section(section, op), fields["sections"][1])


def _fail(lex: Lexer, name: str, problem: str | None, offset: int) -> None:
    if problem is not None:
        lex.fail(f'"{name}": {problem}'[:200], offset)


def _attributes(names: Sequence[str], own: Collection[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if not _is_name(name):
            return f"{name!a} is no name of an attribute"
        if name in own or name in seen:
            return f"the attribute {name} exists already"
        seen.add(name)
    return None


def _is_name(name: str) -> bool:
    """Whether an attribute can have this name; of prefixes there is only xml:."""
    if name.startswith("{") or name == "xmlns":
        return False
    try:
        etree.Element("e").set(name.removeprefix("xml:"), "")
    except ValueError:
        return False
    return True


def _section(section: Section, op: Opaque) -> str | None:
    if section.tag in _WRITTEN:
        return f"<{section.tag}> is written from the node itself"
    problem = _element(section.xml, section.tag)
    if problem is None and section.tag.endswith("body"):
        size = _bytes_of(op)
        problem = next(filter(None, (_outside(e, size) for e in _root(section.xml).iter())), None)
    return problem


def _bytes_of(op: Opaque) -> int | None:
    """Return how many bytes constants in the bodies may refer to; None where they are missing."""
    if op.weights is None:
        return 0
    return len(op.weights.raw()) if op.weights.available else None


def _outside(e: Any, size: int | None) -> str | None:
    """Return what is wrong with the place of a constant's bytes."""
    start, length = (integer(e.get(name)) for name in ("offset", "size"))
    if e.tag != "data" or start is None or length is None or size is None:
        return None
    if 0 <= start <= start + length <= size:
        return None
    return f"bytes {start}..{start + length} of a constant are not in the weights, {size} bytes"


def _element(xml: str | bytes, tag: str) -> str | None:
    """Return what is wrong with a text that has to be one element."""
    try:
        text = xml if isinstance(xml, str) else str(xml, "utf-8")
        root = _root(xml)
    except (etree.XMLSyntaxError, ValueError) as e:
        return f"it is no XML element: {e}"
    if root.tag != tag:
        return f"it is a <{root.tag}>, not an <{tag}>"
    if any(_spaces(root)):
        return "an IR has no XML namespaces"
    return None if text.lstrip().startswith(f"<{tag}") else f"something stands before <{tag}>"


def _root(xml: str | bytes) -> Any:
    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))


def _spaces(root: Any) -> Iterator[Any]:
    """Yield the declarations of namespaces."""
    yield from etree.iterwalk(root, events=("start-ns",))
