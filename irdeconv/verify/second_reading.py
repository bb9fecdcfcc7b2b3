"""The files of a model for the second check: layers and equal values.

Nothing of irdeconv reads them here. The XML has been validated before; odd parts are not followed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from lxml import etree

Array = np.ndarray[Any, np.dtype[Any]]
# Element types by their NumPy code; bf16 is widened by hand, other types are only compared.
CODES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "boolean": "?", "bf16": "<u2"}
CODES |= {f"{kind}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}
ENDS = "Parameter", "Result"
CONVOLUTION = "convolution"
# The types and versions of each system.
SYSTEMS = {
    CONVOLUTION: r"(Group)?Convolution opset\d+",
    "openvino": r"(Group)?ConvolutionBackpropData opset\d+",
    "onednn": "ConvTranspose onednn_.*",
    "onnx": r"ConvTranspose (onnx_|com\.ms\.internal\.nhwc).*",
    "tensorrt": "Deconvolution tensorrt.*",
}


class Unfollowed(Exception):
    """The check does not follow this; the text has the reason."""


@dataclass(frozen=True)
class SecondAnswer:
    """The second checker's answer for one deconvolution, or for the whole model."""

    layer: str  # the deconvolution's name, or "the model"
    verdict: Annotated[str, Literal["agrees", "differs", "does not apply"]]  # the answer
    text: str = ""  # the difference, or why it does not apply

    def __str__(self) -> str:
        return f"{self.layer}: {self.verdict}{self.text and ': '}{self.text}"


class SecondPort(NamedTuple):
    """Output `port` of the layer at a place."""

    layer: int
    port: int = 0


@dataclass(frozen=True)
class SecondLayer:
    """One layer; `array` are the elements of a constant, `rest` are its other contents."""

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

    @property
    def system(self) -> str:
        """The system of a convolution or deconvolution, nothing of another layer."""
        name = f"{self.type} {self.version}"
        return next((key for key, text in SYSTEMS.items() if re.fullmatch(text, name)), "")

    @property
    def is_deconvolution(self) -> bool:
        """Whether the layer is a deconvolution of a known dialect."""
        return self.system not in ("", CONVOLUTION)

    def require(self, holds: object, reason: str) -> None:
        """Raise Unfollowed with the reason if something does not hold."""
        if not holds:
            raise Unfollowed(f"{self}: {reason}")

    def text(self, names: str, default: str = "") -> str:
        """Return the first attribute of these names that is not blank, in lower case."""
        texts = (self.attributes.get(name, "").strip().lower() for name in names.split())
        return next(filter(None, texts), default)

    def ints(self, names: str, count: int | None = None, default: int = 0) -> list[int]:
        """Return a list of integers; `count` times the default if the attribute is missing."""
        text = self.text(names)
        values = [int(part) for part in text.split(",")] if text else [default] * (count or 0)
        fits = count in (None, len(values)) and all(abs(v) < 1 << 31 for v in values)
        self.require(fits, f"{names} lists {text[:40]}")
        return values


@dataclass
class SecondModel:
    """The layers of an IR: inputs first, results last, each behind its inputs.

    `document`: the document defines OpenVINO's deconvolutions; `shapes` replaces inputs' shapes.
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

    def places(self, kind: str) -> list[int]:
        """Return the places of layers of a type."""
        return [i for i, y in enumerate(self.layers) if y.type == kind]


def _layers(root: Any, weights: bytes) -> list[SecondLayer]:
    edges = {(e.get("to-layer"), e.get("to-port")): e for e in root.find("edges")}
    layers = {e.get("id"): e for e in root.find("layers")}
    ports = {i: [p.get("id") for p in e.iterfind("output/port")] for i, e in layers.items()}
    fed = ((i, e.iterfind("input/port")) for i, e in layers.items())
    feeds = {i: [edges[i, p.get("id")] for p in own] for i, own in fed}
    if len(layers) < len(root.find("layers")) or len(edges) < len(root.find("edges")):
        raise Unfollowed("two layers have one id, or two edges end at one port")
    order = TopologicalSorter({i: [f.get("from-layer") for f in row] for i, row in feeds.items()})
    # Results are matched by their places, not by names, so each has its number as its name.
    first, last = ([i for i in layers if layers[i].get("type") == t] for t in ENDS)
    for number, at in enumerate(last):
        layers[at].set("name", f"result {number}")
    between = [i for i in order.static_order() if layers[i].get("type") not in ENDS]
    done: dict[str, int] = {}
    made: list[SecondLayer] = []
    for at in first + between + last:
        rows = [(f.get("from-layer"), f.get("from-port")) for f in feeds[at]]
        inputs = tuple(SecondPort(done[i], ports[i].index(port)) for i, port in rows)
        done[at] = len(made)
        made.append(_layer(layers[at], inputs, weights))
    return made


def _layer(e: Any, inputs: tuple[SecondPort, ...], weights: bytes) -> SecondLayer:
    """Return a layer; a digest replaces the place of a constant, also within a body."""
    raw = b""
    for data in e.iter("data"):
        if "offset" in data.attrib:
            begin, size = int(data.attrib["offset"]), int(data.attrib["size"])
            if not 0 <= begin <= begin + size <= len(weights):
                raise Unfollowed("a constant is not in the weights file")
            raw = weights[begin : begin + size]
            data.set("offset", hashlib.sha256(raw).hexdigest())
    rest = ""
    for child in e.iterchildren("*"):
        if child.tag not in ("data", "input", "output", "rt_info"):
            etree.strip_elements(child, "rt_info", with_tail=False)
            rest += etree.tostring(child, method="c14n").decode()
    data = e.find("data")
    attributes = {} if data is None else dict(data.attrib)
    array = _array(raw, attributes) if e.get("type") == "Const" else None
    ports = [p.get("names", "") for p in e.iterfind("output/port")] or [""]
    names = tuple(frozenset(p.split(",")) - {""} for p in ports)
    own = e.attrib["name"], e.attrib["type"], e.attrib["version"], attributes, inputs, names
    return SecondLayer(*own, array, rest)


def _array(raw: bytes, attributes: Mapping[str, str]) -> Array | None:
    """Return the elements of a constant, None of a type that is only compared."""
    kind = attributes["element_type"]
    shape = [int(d) for d in attributes.get("shape", "").split(",") if d.strip()]
    if kind not in CODES:
        return None
    array = np.frombuffer(raw, CODES[kind], math.prod(shape)).reshape(shape)
    return array if kind != "bf16" else (array.astype("<u4") << 16).view("<f4")
