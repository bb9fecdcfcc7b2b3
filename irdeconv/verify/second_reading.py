"""The files of a model for the second check: layers and equal values.

Nothing of irdeconv reads them here. The XML has been validated before; what is odd is not followed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
from lxml import etree

Array = np.ndarray[Any, np.dtype[Any]]
# Element types by their NumPy code; bf16 is widened by hand, other types are only compared.
CODES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "boolean": "?", "bf16": "<u2"}
CODES |= {f"{kind}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}
STATEFUL = ("RandomUniform", "Multinomial", "ReadValue", "Assign", "Loop", "TensorIterator", "If")


class Unfollowed(Exception):
    """The check does not follow this; the text has the reason."""


class SecondPort(NamedTuple):
    """Output `port` of the layer at a place."""

    layer: int
    port: int = 0


@dataclass(frozen=True)
class SecondLayer:
    """One layer; `array` are the elements of a constant, `rest` is what else it contains."""

    name: str
    type: str
    version: str
    attributes: Mapping[str, str]
    inputs: tuple[SecondPort, ...]
    names: tuple[frozenset[str], ...]
    array: Array | None = None
    rest: str = ""

    def __str__(self) -> str:
        return f'{self.type} "{self.name}"'

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute in lower case."""
        return self.attributes.get(name, default).strip().lower()

    def ints(self, name: str, count: int | None = None, default: int = 0) -> list[int]:
        """Return a list of integers; `count` times the default if the attribute is missing."""
        text = self.attributes.get(name, "").strip()
        try:
            values = [int(part) for part in text.split(",")] if text else [default] * (count or 0)
        except ValueError:
            raise Unfollowed(f"{self}: {name} is {text[:40]!r}, no list of integers") from None
        if count not in (None, len(values)) or any(abs(v) >= 1 << 31 for v in values):
            raise Unfollowed(f"{self}: {name} lists {text[:40]}")
        return values


@dataclass
class SecondModel:
    """The layers of an IR, each behind its inputs.

    `document` says what OpenVINO's deconvolutions mean, `shapes` replaces those of inputs.
    """

    xml: bytes
    weights: bytes
    document: bool = False
    shapes: Mapping[int, list[str]] = field(default_factory=dict)
    layers: list[SecondLayer] = field(init=False)

    def __post_init__(self) -> None:
        try:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
            self.layers = _layers(etree.fromstring(self.xml.lstrip(), parser), self.weights)
        except (etree.XMLSyntaxError, CycleError, LookupError, ValueError, TypeError) as e:
            raise Unfollowed(f"the file is not read: {type(e).__name__} {e}") from None

    def places(self, *types: str) -> list[int]:
        """Return the places of layers of these types."""
        return [i for i, y in enumerate(self.layers) if y.type in types]


def _layers(root: Any, weights: bytes) -> list[SecondLayer]:
    edges = {(e.get("to-layer"), e.get("to-port")): e for e in root.find("edges")}
    layers = {e.get("id"): e for e in root.find("layers")}
    ports = {i: [p.get("id") for p in e.iterfind("output/port")] for i, e in layers.items()}
    feeds = {
        i: [edges[i, p.get("id")] for p in e.iterfind("input/port")] for i, e in layers.items()
    }
    if len(layers) < len(root.find("layers")) or len(edges) < len(root.find("edges")):
        raise Unfollowed("two layers have one id, or two edges end at one port")
    order = TopologicalSorter({i: [f.get("from-layer") for f in row] for i, row in feeds.items()})
    done: dict[str, int] = {}
    made: list[SecondLayer] = []
    results = [i for i in layers if layers[i].get("type") == "Result"]  # their order counts
    ordered = [i for i in order.static_order() if i not in set(results)] + results
    for at in [i for i in layers if layers[i].get("type") == "Parameter"] + ordered:
        if at not in done:
            rows = [(f.get("from-layer"), f.get("from-port")) for f in feeds[at]]
            inputs = (SecondPort(done[i], ports[i].index(port)) for i, port in rows)
            done[at] = len(made)
            made.append(_layer(layers[at], tuple(inputs), weights))
    return made


def _layer(e: Any, inputs: tuple[SecondPort, ...], weights: bytes) -> SecondLayer:
    rest, array = "", None
    for child in e.iterchildren("*"):
        if child.tag not in ("data", "input", "output", "rt_info"):
            etree.strip_elements(child, "rt_info", with_tail=False)
            for inner in child.iter("data"):
                if "offset" in inner.attrib:
                    inner.set("offset", hashlib.sha256(_bytes(inner, weights)).hexdigest())
            rest += etree.tostring(child, method="c14n").decode()
    data = e.find("data")
    attributes = {} if data is None else dict(data.attrib)
    if e.get("type") == "Const":
        raw = _bytes(data, weights)
        rest += hashlib.sha256(raw).hexdigest()
        array = _array(raw, attributes["element_type"], attributes.get("shape", ""))
        attributes = {k: v for k, v in attributes.items() if k not in ("offset", "size")}
    ports = [p.get("names", "") for p in e.iterfind("output/port")] or [""]
    names = tuple(frozenset(p.split(",")) - {""} for p in ports)
    own = e.attrib["name"], e.attrib["type"], e.attrib["version"], attributes, inputs, names
    return SecondLayer(*own, array, rest)


def _bytes(data: Any, weights: bytes) -> bytes:
    begin, size = int(data.attrib["offset"]), int(data.attrib["size"])
    if not 0 <= begin <= begin + size <= len(weights):
        raise Unfollowed("a constant is not in the weights file")
    return weights[begin : begin + size]


def _array(raw: bytes, kind: str, text: str) -> Array | None:
    """Return the elements of a constant, None of a type that is only compared."""
    shape = [int(d) for d in text.split(",") if d.strip()]
    if kind in ("i4", "u4"):
        pairs = np.frombuffer(raw, "u1")
        halves = np.stack([pairs & 15, pairs >> 4], 1).reshape(-1)[: math.prod(shape)].astype("i1")
        return ((halves ^ 8) - 8 if kind == "i4" else halves).reshape(shape)
    if kind not in CODES:
        return None
    array = np.frombuffer(raw, CODES[kind], math.prod(shape)).reshape(shape)
    return array if kind != "bf16" else (array.astype("<u4") << 16).view("<f4")


class Numbering:
    """Numbers for the values of two models: layers alike with equal inputs have equal outputs."""

    def __init__(self, source: SecondModel, lowered: SecondModel) -> None:
        self.models = source, lowered
        self._table: dict[object, int] = {}
        self.of: tuple[dict[SecondPort, int], dict[SecondPort, int]] = ({}, {})
        for at in range(len(source.layers)):
            self.enter(0, at)
        self.known = frozenset(self.of[0].values())

    def enter(self, side: int, at: int) -> None:
        """Number a layer's outputs that have no number yet."""
        y, own = self.models[side].layers[at], self.of[side]
        place = self.models[side].places("Parameter").index(at) if y.type == "Parameter" else ""
        key = [y.type, y.version, sorted(y.attributes.items()), y.rest, place]
        key += [y.name if y.type in STATEFUL else "", *(own[p] for p in y.inputs)]
        for port in range(len(y.names)):
            number = self._table.setdefault((str(key), port), len(self._table))
            own.setdefault(SecondPort(at, port), number)
