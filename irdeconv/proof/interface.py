"""What a user sees of two models from outside: inputs, outputs and variables."""

from __future__ import annotations

import re

from irdeconv.proof.model import Layer, Model, Port

_OUTSIDE = {
    "input": "Parameter",
    "output": "Result",
    "read variable": "ReadValue",
    "written variable": "Assign",
}
_MADE_UP = "(Parameter|Result)_[0-9]+"


def interface(source: Model, lowered: Model) -> tuple[list[str], list[tuple[Port, Port, str]]]:
    """Return how inputs, outputs and variables differ, and the values that have to be equal."""
    problems: list[str] = []
    ends: list[tuple[Port, Port, str]] = []
    if source.rest != lowered.rest:
        problems.append(f"beside its layers it says {lowered.rest!r} instead of {source.rest!r}")
    sides = [(_outside(source, what), _outside(lowered, what)) for what in _OUTSIDE]
    for what, (first, second) in zip(_OUTSIDE, sides, strict=True):
        if len(first) != len(second):
            problems.append(f"{len(second)} {what}s instead of {len(first)}")
        names = [{n for y in side for port in y.names for n in port} for side in (first, second)]
        seen = [[_seen(y, names[0] & names[1]) for y in side] for side in (first, second)]
        for number, (a, b) in enumerate(zip(first, second, strict=False)):
            if seen[0][number] != seen[1][number]:
                problems.append(
                    f"{what} {number} is {seen[1][number]} instead of {seen[0][number]}"
                )
            if what.endswith("variable") and seen[1].count(seen[1][number]) > 1:
                problems.append(f"{what} {number} is {seen[1][number]}, as another one is")
            if what in ("output", "written variable"):
                ends += [(i, j, str(b)) for i, j in zip(a.inputs, b.inputs, strict=False)]
    return problems, ends


def _outside(model: Model, what: str) -> list[Layer]:
    """Return the inputs or outputs in their order, or the layers of variables by these."""
    if what in ("input", "output"):
        return [model.layers[i] for i in (model.parameters if what == "input" else model.results)]
    found = [y for y in model.layers if y.type == _OUTSIDE[what]]
    return sorted(found, key=lambda y: y.attributes.get("variable_id", ""))


def _seen(layer: Layer, known: set[str]) -> str:
    """Return what a user sees of an input, output or variable.

    Names like "Result_7", which OpenVINO makes up when it writes, are none unless both know them.
    """
    if layer.type in ("ReadValue", "Assign"):
        pairs = sorted(layer.attributes.items())
        return " ".join([layer.version, *(f"{key}={text!r}" for key, text in pairs)])
    names = [n for n in layer.names[0] if n in known or not re.fullmatch(_MADE_UP, n)]
    facts = [str(fact) for fact in layer.outputs]
    called = ", ".join(map(repr, names)) or "nothing"  # quoted, as names may be any text
    words = [*facts, f"called {called}", *layer.rest.split("\n")]
    return " ".join(filter(None, words))
