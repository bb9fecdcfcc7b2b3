"""The closed list of operations that a rewritten region may use, as OpenVINO reads them.

`evaluate` computes concrete values, `move` sends element numbers the same way. What is not exactly
one of these operations, and what OpenVINO computes in two ways (folded or at run time) or not at
all, raises Unproved. Computed real numbers are held in float64, wider than their type: they may be
rounded on the way, so they never become integers again. Arrays of objects hold symbolic integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from irdeconv.proof.model import (
    BITS,
    FLOATS,
    MOVES,
    PACKED,
    RULES,
    Array,
    Call,
    Layer,
    Listed,
    TypedArray,
    Unproved,
    computed,
)
from irdeconv.proof.operations import COMPARE

# Attributes that OpenVINO reads, by the type of a layer; it does not look at others.
ATTRIBUTES = {
    name: {a.partition("=")[0] for row in rows.values() for a in row.attributes}
    for name, rows in RULES.items()
}
# OpenVINO bounds these wrongly where sizes are open, and then leaves them out or folds them.
_MISJUDGED = ("Abs", "Clamp", "FloorMod", "Minimum")
_RANKS = {"v": (1,), "s": (0,), "e": (0, 1)}


def listed_call(layer: Layer, given: Sequence[Any] | None = None) -> tuple[Call, Listed]:
    """Return a layer with its attributes, and its rule; `given` are its inputs, if known."""
    number = re.fullmatch("opset([1-9]|1[0-6])|irdeconv_1", layer.version)
    opset = int(number[1] or 0) if number else -1
    row = max((v for v in RULES.get(layer.type, ()) if v <= opset), default=-1)
    if row < 0 or (row == 0) != (opset == 0):
        raise Unproved(f"{layer} of {layer.version} is no operation of a rewritten layer")
    rule = RULES[layer.type][row]
    parts = [a.partition("=") for a in rule.attributes]
    said = {**{name: text for name, sep, text in parts if sep}, **layer.attributes}
    odd = sorted(said.keys() ^ {name for name, _, _ in parts})
    c = Call(layer, said, opset)
    c.need(not odd and not layer.rest, f"missing or not followed: {', '.join(odd) or 'its body'}")
    if given is not None:
        _check_inputs(c, rule.takes, given)
    return c, rule


def check_open(layer: Layer, types: Sequence[str]) -> None:
    """Check that OpenVINO computes a layer of integers as it is, also those of open sizes."""
    to_boolean = layer.type == "Convert" and layer.attributes.get("destination_type") == "boolean"
    if (layer.type in _MISJUDGED or to_boolean) and any(t in BITS for t in types):
        raise Unproved(f"{layer} is not followed where sizes are open")


def _check_inputs(c: Call, takes: Sequence[str], given: Sequence[Any]) -> None:
    """Check how many inputs there are, and that vectors are of rank 1, scalars of rank 0."""
    least = sum(letter.isalpha() for letter in takes)
    fits = least <= len(given) and (len(given) <= len(takes) or "*" in takes[0])
    c.need(fits, f"{len(given)} inputs instead of {', '.join(takes)}")
    for port, (letter, value) in enumerate(zip(takes, given, strict=False)):
        if isinstance(value, TypedArray) and letter[0] in _RANKS:
            rank = value.array.ndim
            c.need(rank in _RANKS[letter[0]], f"input {port} has rank {rank}")


def output_type(layer: Layer, types: Sequence[str]) -> str:
    """Return the element type of the outputs by those of the inputs; Unproved where they misfit."""
    (c, rule), kind, plain = listed_call(layer), layer.type, {*FLOATS, *BITS, "boolean"}
    shared = {t for p, t in enumerate(types) if p in rule.ports or (kind == "Pad" and p == 3)}
    known = {*plain, *PACKED} if kind == "Convert" else plain
    c.need({*types} <= known and len(shared) <= 1, f"inputs of the types {', '.join(types)}")
    if kind == "Convert":
        return c.word("destination_type", *plain)
    if kind in ("Range", "ShapeOf"):
        return c.word("output_type", "i32", "i64") if c.opset >= 3 else "i64"
    c.need(len(types) > (kind == "ConvertLike"), "inputs are missing")
    c.need(kind != "BatchToSpace" or len({*types[1:]}) == 1, f"vectors of the types {types[1:]}")
    c.need(kind != "Interpolate" or types[0] in (*FLOATS, "i64", "i32", "i8", "u8"), f"{types}")
    return types[1] if kind == "ConvertLike" else "boolean" if kind in COMPARE else shared.pop()


def evaluate(layer: Layer, inputs: Sequence[TypedArray]) -> list[TypedArray]:
    """Return the values of a layer's outputs; Unproved where they do not follow."""
    types, (c, rule) = [x.type for x in inputs], listed_call(layer, inputs)
    c = c._replace(types=types, type=output_type(layer, types))
    given = [x.array if p in rule.ports else x for p, x in enumerate(inputs)]
    return [TypedArray(x, c.type) for x in computed(c, rule.run, given)]


def move(layer: Layer, index: Sequence[Array], rest: Sequence[TypedArray]) -> list[Array]:
    """Return element numbers behind a movement, -1 for an inserted zero.

    `index` are those of the ports in MOVES, `rest` the values of the others; Unproved as above.
    """
    ports, numbers, others = MOVES.get(layer.type, ()), iter(index), iter(rest)
    inputs = [next(numbers if p in ports else others) for p in range(len(index) + len(rest))]
    c, rule = listed_call(layer, inputs)
    c.need(layer.type in MOVES, "it does not only move elements")
    return computed(c._replace(nothing=-1), rule.run, inputs)
