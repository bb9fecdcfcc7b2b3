"""What the text form keeps for the `.xml` alone: it has to be what a file can hold there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lxml import etree

from irdeconv.text.lexer import Lexer

# Attributes that the writer gives <net> and <layer> itself.
_OWN = ("id", "name", "type", "version")


def check_xml(lex: Lexer, fields: Mapping[str, tuple[Any, int]]) -> None:
    """Fail at the first field of a model, a body or a node that an `.xml` cannot hold.

    The types of the values are right.
    """
    for name, (value, offset) in fields.items():
        if value is None:
            continue
        problem = None
        if name == "ir_version" and value not in (10, 11):
            problem = f"{value} is not 10 or 11"
        elif name == "rt_info":
            problem = _element(value)
        elif name == "port_rt_info":
            problem = next(filter(None, (_element(entry[-1]) for entry in value)), None)
        elif name in ("extra", "extra_data"):
            problem = _attributes([k for k, _ in value], _OWN if name == "extra" else ())
        if problem is not None:
            lex.fail(f'"{name}": {problem}'[:200], offset)


def _attributes(names: Sequence[str], own: Sequence[str]) -> str | None:
    for i, name in enumerate(names):
        if not _is_name(name):
            return f"{name!a} is no name of an attribute"
        if name in own or name in names[:i]:
            return f"the attribute {name} exists already"
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


def _element(xml: str) -> str | None:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(xml, parser)
    except (etree.XMLSyntaxError, ValueError) as e:
        return f"it is no XML element: {e}"
    if root.tag != "rt_info":
        return f"it is a <{root.tag}>, not an <rt_info>"
    return None if xml.lstrip().startswith("<rt_info") else "something stands before <rt_info>"
