"""Mutants of IRs: the samples, single layers, old versions and random graphs, changed."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import numpy as np
from fuzzing import mutate_xml
from fuzzing.seeds import irs
from lxml import etree

import irdeconv as ird
from irdeconv.errors import IrdeconvError
from irdeconv.io.xml_writer import ir_bytes
from irdeconv.reducing.shrink import guessed_feeds
from support.differential.graphs import random_graph
from support.differential.trial import Model

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
    if rng.random() < 0.5:
        root, weights = rng.choice(roots())
    else:
        graph = random_graph(seed, rng.randrange(1 << 30)).graph
        if not graph.results:
            return None
        xml, weights = ir_bytes(ird.infer(graph))
        root = etree.fromstring(xml)
    if rng.random() < 0.3:
        xml, weights = mutate_xml.mutate_ir(rng, root, weights)
    else:
        xml, weights = _softly(rng, root, weights)
    feeds = _feeds(xml, weights, number)
    return None if feeds is None else Model(xml, weights, feeds)


def _softly(rng: random.Random, root: Any, weights: bytes) -> tuple[bytes, bytes]:
    made = mutate_xml.Mutant(rng, copy.deepcopy(root), weights)
    for _ in range(rng.choice((1, 1, 2))):
        try:
            rng.choice(SOFT)(made)
        except ValueError:  # a character that XML cannot hold
            continue
    return etree.tostring(made.root, encoding="utf-8"), made.weights


def _feeds(xml: bytes, weights: bytes, number: int) -> dict[str, np.ndarray] | None:
    try:
        graph = ird.infer(ird.read(xml, weights))
        sizes = [n.spec(p).size or 0 for n in graph.nodes() for p in range(max(n.outputs, 1))]
        if max(sizes, default=0) > LARGEST:
            return None
        return guessed_feeds(graph, number)
    except IrdeconvError:
        return {}
