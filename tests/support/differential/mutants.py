"""Mutants of IRs: the samples, single layers, old versions and random graphs, changed."""

from __future__ import annotations

import copy
import math
import random
from functools import cache
from typing import Any

import numpy as np
from fuzzing import mutate_xml
from fuzzing.seeds import irs
from lxml import etree

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.spec import Array, Spec, bounds, compatible
from irdeconv.verify.reduce_pieces import guess
from support.differential.graphs import random_graph
from support.differential.mild import mildly
from support.differential.trial import Model
from support.live_operations.mutate import cast, numbers

# Changes after which most files are models still.
SOFT = tuple(
    getattr(mutate_xml, name)
    for name in ("_attribute", "_edge", "_kind", "_values", "_values", "_undeclared", "_undeclared")
)
LARGEST = 1 << 18  # elements of an input or a layer: larger ones are not run


@cache
def roots() -> tuple[tuple[Any, bytes], ...]:
    found = ((etree.fromstring(s.files["m.xml"]), s.files["m.bin"]) for s in irs())
    return tuple((root, weights) for root, weights in found if _is_standard(root))


def _is_standard(root: Any) -> bool:
    """Whether OpenVINO reads it: not of version 2 to 7, without layers of other systems."""
    versions = [layer.get("version", "") for layer in root.iter("layer")]
    return all(v.startswith("opset") for v in versions)


def mutant(seed: int, number: int) -> Model | None:
    """Return a changed IR with inputs that suit it; None where it would take too much."""
    rng = random.Random(f"{seed}:{number}")
    given: dict[str, Array] = {}
    if rng.random() < 0.4:
        root, weights = rng.choice(roots())
    else:
        made = random_graph(seed, rng.randrange(1 << 30))
        if not made.graph.results:
            return None
        xml, weights = ir_bytes(ird.infer(made.graph))
        root, given = etree.fromstring(xml), made.feeds
    share = rng.random()
    change = mildly if share < 0.6 else _softly if share < 0.85 else mutate_xml.mutate_ir
    xml, weights = change(rng, root, weights)
    feeds = _feeds(xml, weights, given, np.random.default_rng(rng.randrange(1 << 30)))
    return None if feeds is None else Model(xml, weights, feeds)


def _softly(rng: random.Random, root: Any, weights: bytes) -> tuple[bytes, bytes]:
    made = mutate_xml.Mutant(rng, copy.deepcopy(root), weights)
    for _ in range(rng.choice((1, 1, 2))):
        try:
            rng.choice(SOFT)(made)
        except ValueError:  # a character that XML cannot hold
            continue
    return etree.tostring(made.root, encoding="utf-8"), made.weights


def _feeds(
    xml: bytes, weights: bytes, given: dict[str, Array], rng: np.random.Generator
) -> dict[str, Array] | None:
    """Return what the inputs are fed: as before where that fits, else small numbers."""
    try:
        graph = ird.infer(ird.read(xml, weights))
    except Exception:  # refused, or a bug: running it says which
        return {}
    sizes = [n.spec(p).size or 0 for n in graph.nodes() for p in range(max(n.outputs, 1))]
    if max(sizes, default=0) > LARGEST:
        return None
    specs = [node.spec() for node in graph.parameters]
    if any(math.prod(bounds(d)[0] for d in s.shape or ()) > LARGEST for s in specs):
        return None
    rows = zip(graph.inputs, specs, strict=True)
    return {name: _fed(spec, given.get(name), rng) for name, spec in rows}


def _fed(spec: Spec, before: Array | None, rng: np.random.Generator) -> Array:
    dtype = spec.dtype or ELEMENT_TYPES["f32"]
    if before is not None and compatible(spec.shape, before.shape):
        return before if before.dtype == dtype.container else cast(before, dtype).values
    if dtype.kind == "string":
        return guess(spec)
    shape = tuple(
        int(rng.integers(max(low, 1), min(max(low, 1) + 3, low + 4 if high is None else high + 1)))
        if low != high
        else low
        for low, high in map(bounds, spec.shape or ())
    )
    if dtype.is_real or rng.random() < 0.5:
        return numbers(rng, dtype, shape).values
    return np.zeros(shape, dtype.container)  # places and counts that are always there
