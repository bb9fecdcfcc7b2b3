"""One operation of a oneDNN Graph dump as rules see it, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from irdeconv.dtypes import ElementType
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.reader import SourceNode


@dataclass(kw_only=True)
class DumpNode(SourceNode):
    """An operation: its kind; `target` is the element type of its output.

    `modern` says that the dump was written by oneDNN 3 or later.
    """

    kind: str
    modern: bool
    target: ElementType

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute; without a default it is required."""
        self.asked.add(name)
        found = self.attributes.get(name, default)
        if found is None:
            raise Refusal(f"the attribute {name} is missing")
        values = found if isinstance(found, list) else [found]
        if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
            raise Refusal(f"{name} holds a number of more than 64 bits")
        return found

    def ints(
        self, name: str, axes: int | None = None, default: int | None = None
    ) -> tuple[int, ...]:
        """Return a list of integers, `axes` of them; the library pads lists with zeros."""
        if default is not None and axes is not None and name not in self:
            return (default,) * axes
        values = self.get(name)
        found = tuple(int(v) for v in (values if isinstance(values, list) else [values]))
        if axes is not None and len(found) > axes and not any(found[axes:]):
            found = found[:axes]
        if axes is not None and len(found) != axes:
            raise Refusal(f"{name} has {len(found)} values for {axes} spatial axes")
        return found

    def word(self, name: str, default: str, allowed: str) -> str:
        """Return one of the allowed words, in lower case as they are compared."""
        text = str(self.get(name, default))
        for choice in allowed.split():
            if choice.lower() == text.lower():
                return choice
        raise Refusal(f'{name}="{text}" is not covered')


_NUMBERS: dict[str, tuple[type, ...]] = {"s64": (int,), "f32": (int, float), "string": (str,)}


def wrong_value(attribute: dict[str, Any]) -> Any:
    """Return what is not of the type that an attribute of a dump states; None where all is."""
    stated = str(attribute.get("type", ""))
    types = _NUMBERS.get(stated.removesuffix("[]"))
    if types is None:
        return None
    value = attribute["value"]
    values = value if stated.endswith("[]") and isinstance(value, list) else [value]
    return next((v for v in values if not _is(v, types)), None)


def _is(value: Any, types: tuple[type, ...]) -> bool:
    if type(value) is int and int in types:
        return -(2**63) <= value < 2**63
    return type(value) in types and value == value  # no NaN


Rule = Callable[[DumpNode, ImportBuilder], Value]
RULES: dict[str, Rule] = {}


def rule(kinds: str) -> Callable[[Rule], Rule]:
    """Register a rule for operation kinds, a list of words."""

    def register(fn: Rule) -> Rule:
        for kind in kinds.split():
            RULES[kind] = fn
        return fn

    return register
