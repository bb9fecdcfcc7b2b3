"""A written IR as lxml and bytes: what the tests that change files need to find their way."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

Element = Any
NUMPY: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16,
    "u8": np.uint8, "boolean": np.bool_,
}  # fmt: skip


def unmark(path: Path) -> None:
    """Take the mark of its weights out of a file, so that they may be changed."""
    text = path.read_text("utf-8")
    path.write_text(re.sub(r' weights_(size|sha256)="\w*"', "", text), "utf-8")


@dataclass
class Ir:
    """An XML tree and the bytes of its constants."""

    root: Element
    blob: bytearray

    @staticmethod
    def read(path: Path) -> Ir:
        """Read a file, without the mark of its weights, and the `.bin` beside it."""
        root = etree.fromstring(path.read_bytes())
        for info in root.findall("rt_info"):
            for mark in ("weights_size", "weights_sha256"):
                info.attrib.pop(mark, None)
        return Ir(root, bytearray(path.with_suffix(".bin").read_bytes()))

    def copy(self) -> Ir:
        return Ir(copy.deepcopy(self.root), bytearray(self.blob))

    def write(self, path: Path) -> None:
        path.write_bytes(etree.tostring(self.root, xml_declaration=True, encoding="UTF-8"))
        path.with_suffix(".bin").write_bytes(bytes(self.blob))

    def same(self, other: Ir) -> bool:
        return self.blob == other.blob and etree.tostring(self.root) == etree.tostring(other.root)

    @property
    def layers(self) -> list[Element]:
        """The layers of the model itself, not those of bodies."""
        return list(self.root.find("layers"))

    @property
    def edges(self) -> list[Element]:
        return list(self.root.find("edges"))

    def of_type(self, *types: str) -> list[Element]:
        return [layer for layer in self.layers if layer.get("type") in types]

    def not_of_type(self, *types: str) -> list[Element]:
        return [layer for layer in self.layers if layer.get("type") not in types]

    def layer(self, id: str) -> Element:
        return next(layer for layer in self.layers if layer.get("id") == id)

    def edges_to(self, layer: Element) -> list[Element]:
        """The edges into a layer, by port."""
        found = [e for e in self.edges if e.get("to-layer") == layer.get("id")]
        return sorted(found, key=lambda e: int(e.get("to-port")))

    def producer(self, layer: Element, port: int) -> Element | None:
        """The layer that an input comes from, counted from 0."""
        found = self.edges_to(layer)
        return self.layer(found[port].get("from-layer")) if port < len(found) else None

    def constants(self, *types: str) -> list[Element]:
        """The constants with elements, of some element types if they are named."""
        return [
            c
            for c in self.of_type("Const")
            if int(c.find("data").get("size")) > 0
            and c.find("data").get("element_type") in (types or NUMPY)
            and self.array(c).size
        ]

    def array(self, constant: Element) -> Any:
        """A constant's elements, a copy."""
        data = constant.find("data")
        text = data.get("shape")
        shape = [int(v) for v in text.split(",")] if text else []
        start, count = int(data.get("offset")), int(np.prod(shape))
        dtype = np.dtype(NUMPY[data.get("element_type")])
        return np.frombuffer(bytes(self.blob), dtype, count, start).reshape(shape).copy()

    def store(self, constant: Element, array: Any) -> None:
        """Give a constant other elements of the same type, behind all others."""
        array = np.ascontiguousarray(array)
        data = constant.find("data")
        data.set("offset", str(len(self.blob)))
        data.set("size", str(array.nbytes))
        data.set("shape", ",".join(map(str, array.shape)))
        self.blob += array.tobytes()
        dims = constant.find("output/port")
        for dim in list(dims.iter("dim")):
            dims.remove(dim)
        for size in array.shape:
            etree.SubElement(dims, "dim").text = str(size)

    def new_id(self) -> str:
        return str(max(int(layer.get("id")) for layer in self.layers) + 1)

    def add_layer(self, xml: str, before: Element | None = None) -> Element:
        """Add a layer, in front of another one or of all results."""
        layer = etree.fromstring(xml)
        layers = self.root.find("layers")
        first = self.of_type("Result") if before is None else [before]
        layers.insert(list(layers).index(first[0]) if first else len(layers), layer)
        return layer

    def add_edge(self, a: str, a_port: str, b: str, b_port: str) -> None:
        ends = {"from-layer": a, "from-port": a_port, "to-layer": b, "to-port": b_port}
        etree.SubElement(self.root.find("edges"), "edge", ends)

    def remove(self, layer: Element) -> None:
        """Remove a layer and the edges that touch it."""
        id = layer.get("id")
        for edge in self.edges:
            if id in (edge.get("from-layer"), edge.get("to-layer")):
                self.root.find("edges").remove(edge)
        self.root.find("layers").remove(layer)

    def has_cycle(self) -> bool:
        """Whether edges lead from a layer to itself."""
        left: dict[str, set[str]] = {layer.get("id"): set() for layer in self.layers}
        for edge in self.edges:
            if edge.get("to-layer") in left and edge.get("from-layer") in left:
                left[edge.get("to-layer")].add(edge.get("from-layer"))
        while True:
            free = {id for id, sources in left.items() if not sources & left.keys()}
            if not free:
                return bool(left)
            left = {id: sources for id, sources in left.items() if id not in free}

    def lists(self) -> Iterator[tuple[Element, str]]:
        """Every attribute that is a list of integers: (<data>, name)."""
        for layer in self.not_of_type("Const", "Parameter"):
            data = layer.find("data")
            for name, text in () if data is None else data.items():
                if text and all(part.strip().lstrip("-").isdigit() for part in text.split(",")):
                    yield data, name
