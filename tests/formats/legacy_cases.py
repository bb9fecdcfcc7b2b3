"""The legacy layers of legacy_cases.txt, with what they are fed and what comes out."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from legacy import Case

TYPES = {"int": np.int64, "int32": np.int32}


def number(text: str) -> float:
    """Return 3, -0.5, 1/3, log(3/4): any function of math."""
    if made := re.fullmatch(r"(-?)(\w+)\((.*)\)", text):
        value: float = getattr(math, made[2])(number(made[3]))
        return -value if made[1] else value
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def array(text: str) -> Any:
    words = text.removeprefix("const ").split()
    dtype = TYPES[words.pop(0)] if words and words[0] in TYPES else np.float32
    head = words.pop(0) if words and re.match(r"row|channels|scalar|.*:$", words[0]) else ""
    if words and words[-1].endswith("*"):
        values = np.array(number(words[0][:-1]))
    elif words and ".." in words[-1]:
        first, last = map(number, words[0].split(".."))
        values = np.arange(first, last + 1)
    else:
        values = np.array([number(w) for w in words])
    shapes = {"": (-1,), "row": (1, 1, 1, -1), "channels": (1, -1, 1, 1), "scalar": ()}
    shape = shapes[head] if head in shapes else tuple(map(int, head[:-1].split("x")))
    if not values.ndim:
        return np.full(tuple(map(abs, shape)), values, dtype)
    return values.astype(dtype).reshape(shape)


def case(name: str, layer: str, arrays: str) -> Case:
    blobs = {k: array(text) for k, text in re.findall(r" (\w+)\[([^]]*)\]", layer)}
    kind, *words = re.sub(r" \w+\[[^]]*\]", "", layer).split()
    said = dict(w.split("=", 1) for w in words)
    more: dict[str, Any] = {k[1:]: said.pop(k) for k in list(said) if k.startswith("@")}
    if "version" in more:
        more["version"] = int(more["version"])
    if "grouped" in more:
        more["grouped"] = more["grouped"] == "True"
    inputs, outputs = (side.split(" ; ") for side in arrays.split(" -> "))
    fixed = tuple(i for i, text in enumerate(inputs) if text.startswith("const "))
    return Case(
        name, kind, [*map(array, inputs)], [*map(array, outputs)], said, blobs, fixed, **more
    )


LINES = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
ROWS = [line.strip() for line in LINES if not line.startswith("#")]
CASES = [case(*ROWS[i : i + 3]) for i in range(0, len(ROWS), 3)]
