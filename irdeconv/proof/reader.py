"""Reads the two files of a model, as OpenVINO would; what it might read otherwise is refused."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from irdeconv.proof.model import Array, Fact, Layer, Model, Port, Shape, TypedArray, Unproved

Element = Any  # of lxml
_BODY_OF = {"port_map": "body", "back_edges": "body",
            "then_port_map": "then_body", "else_port_map": "else_body"}  # fmt: skip
_INSIDE = {"data", "input", "output", "rt_info", *_BODY_OF, *_BODY_OF.values()}
_PORTS = {"Parameter": [0, 1], "Const": [0, 1], "Result": [1, 0]}
# So many elements take so many bytes; those of _NATIVE are NumPy's.
_NATIVE = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "boolean": "?"}
_NATIVE |= {f"{k}{8 * n}": f"<{k}{n}" for k in "iu" for n in (1, 2, 4, 8)}
_BYTES = {name: (1, np.dtype(code).itemsize) for name, code in _NATIVE.items()}
_BYTES |= {"bf16": (1, 2), "f8e4m3": (1, 1), "f8e5m2": (1, 1), "f8e8m0": (1, 1), "i4": (2, 1),
           "u4": (2, 1), "nf4": (2, 1), "f4e2m1": (2, 1), "u6": (4, 3), "u3": (8, 3),
           "u2": (4, 1), "u1": (8, 1)}  # fmt: skip


def read(xml: Path | str, bin: Path | str | None = None) -> Model:
    """Return a model; without `bin` its weights lie beside it. Raises Unproved."""
    try:
        data = bytes(_contents(Path(xml))[: 1 << 28])
        weights = Path(xml).with_suffix(".bin") if bin is None else Path(bin)
        blob = np.frombuffer(_contents(weights), "u1") if bin or weights.exists() else None
        if re.search(rb"\0|<!DOCTYPE|^[^>]*encoding\s*=\s*.(?!utf-8|ascii)", data, re.I):
            raise ValueError("it has a DOCTYPE, or is not in UTF-8")
        # Without huge_tree lxml limits depth and texts; OpenVINO takes every file for UTF-8.
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
        root = etree.fromstring(data.lstrip(), parser)
    except (OSError, ValueError, etree.XMLSyntaxError) as e:
        raise Unproved(f"{xml}: {e}") from None
    version = _number(root, "version")
    if root.tag != "net" or version not in (10, 11):
        raise Unproved(f"{xml}: it is no <net> of version 10 or 11")
    layers = _LayerFile(root, blob, version).layers
    ends = [[i for i, y in enumerate(layers) if y.type == t] for t in ("Parameter", "Result")]
    return Model(tuple(layers), tuple(ends[0]), tuple(ends[1]), _rest(root))


def _contents(path: Path) -> Any:
    """Map a regular file; nothing else is opened, as a pipe would never end."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(fd, "rb"):
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ) if status.st_size else b""


def _rest(root: Element) -> str:
    """Return what the model says beside its layers that could change what is computed."""
    said = [e for e in _children(root) if e.tag not in ("layers", "edges", "rt_info", "meta_data")]
    said += root.findall("rt_info/runtime_options")
    if any("offset" in e.attrib for part in said for e in part.iter()):
        raise Unproved(f"<{said[0].tag}> refers to the weights file, which is not compared")
    return "\n".join([f"version {_number(root, 'version')}", *map(_canonical, said)])


def _canonical(element: Element) -> str:
    return repr([(e.tag, sorted(e.attrib.items()), e.text) for e in element.iter(etree.Element)])


def _children(element: Element, tag: str | None = None) -> list[Element]:
    """Return the elements inside, or those inside the only one that is called `tag`."""
    inside = [e for e in element if isinstance(e.tag, str)]
    if tag is None:
        return inside
    found = [e for e in inside if e.tag == tag]
    if len(found) > 1:
        raise Unproved(f"{_label(element)}: <{tag}> stands there {len(found)} times")
    return _children(found[0]) if found else []


def _label(e: Element) -> str:
    return f'{e.get("type")} "{e.get("name")}"' if e.tag == "layer" else f"<{e.tag}>"


def _number(e: Element, key: str) -> int:
    text = e.get(key, "")
    if not re.fullmatch("[0-9]{1,18}", text):
        raise Unproved(f'{_label(e)}: {key}="{text[:40]}" is not a natural number')
    return int(text)


def _tidy(key: str, text: str) -> str:
    """Spell a value as OpenVINO does: "1, 2" is "1,2", "6.0" is "6", `eps` is a float32."""
    if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,20})?(e-?[0-9]{1,2})?", text) and set(text) & {*".e"}:
        return f"{float(np.float32(text)) if key == 'eps' else float(text):.17g}"
    return text.replace(", ", ",") if re.fullmatch(r"[-\w., ]*", text) else text


def shape_of(text: str) -> Shape | None:
    """Return a partial shape as OpenVINO spells it, "1,?,2..5,..9"; None is any rank."""
    shape: list[int | tuple[int, int | None]] = []
    for part in text.split(",") if text.strip() not in ("", "...") else ():
        found = re.fullmatch(r" *(?:([0-9]{1,18})|-1|\?|([0-9]{0,18})\.\.([0-9]{0,18})) *", part)
        size, low, high = (int(g) if g else None for g in found.groups()) if found else (-1, 0, 0)
        if size == -1 or (high is not None and high < (low or 0)):
            raise Unproved(f'the shape "{text[:80]}" is not understood')
        shape.append(size if size is not None else (low or 0, high))
    return None if text.strip() == "..." else tuple(shape)


def _declared(port: Element) -> Fact:
    kind = port.get("precision", "").lower().replace("fp", "f").replace("bool", "boolean")
    try:
        dims = ",".join(d.text or "" for d in port.findall("dim"))
        return Fact(kind if kind in _BYTES else None, shape_of(dims) if dims else None)
    except Unproved:
        return Fact(None, None)


def _names(text: str | None) -> set[str]:
    """Return tensor names, as the file escapes them."""
    return set(re.split(r"(?<!\\),", text or "")) - {""}


def _decode(raw: Array, kind: str) -> Array:
    """Return elements of a type that NumPy lacks, where language.py computes with them."""
    if kind == "bf16":
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    if kind == "f8e5m2":
        return (raw.astype("<u2") << 8).view("<f2").astype("<f4")
    if kind == "f8e4m3":
        value = ((raw & 128).astype("<u2") << 8 | (raw & 127).astype("<u2") << 7).view("<f2")
        return np.where(raw & 127 == 127, np.float32("nan"), value.astype("<f4") * np.float32(256))
    if kind in ("u4", "i4"):
        both = np.stack([raw & 15, raw >> 4], 1).reshape(-1)
        return both if kind == "u4" else (both ^ 8).astype("i1") - np.int8(8)
    return raw


class _LayerFile:
    """The layers of a model or body that its results need, each behind those that it reads."""

    def __init__(self, root: Element, blob: Array | None, version: int) -> None:
        self._blob, self._version = blob, version
        self._elements = _children(root, "layers")
        self._ids: dict[int, int] = {}
        self._ports = [self._enter(i, e) for i, e in enumerate(self._elements)]
        self._sources: list[list[Port | None]] = [[None] * len(p[0]) for p in self._ports]
        for edge in _children(root, "edges"):
            self._connect(edge)
        self.layers: list[Layer] = []
        self.places: dict[int, int] = {}  # of layers, by the number of their element
        for index in self._order():
            self.layers.append(self._layer(self._elements[index], index))
            self.places[index] = len(self.places)

    def _enter(self, index: int, e: Element) -> list[dict[int, int]]:
        """Note the layer's id; return the positions of its input and output ports by their ids."""
        odd = [c.tag for c in _children(e) if c.tag not in _INSIDE]
        odd += [k for k in ("id", "name", "type", "version") if k not in e.attrib]
        if odd or self._ids.setdefault(_number(e, "id"), index) != index:
            raise Unproved(f"{_label(e)}: {odd or 'its id'} is unknown, missing or there twice")
        sides = [_children(e, side) for side in ("input", "output")]
        ports = [{_number(p, "id"): i for i, p in enumerate(side)} for side in sides]
        counts = [len(p) for p in ports]
        if counts != [len(s) for s in sides] or _PORTS.get(e.get("type"), counts) != counts:
            raise Unproved(f"{_label(e)}: two ports have one id, or it cannot have {counts} ports")
        return ports

    def _connect(self, edge: Element) -> None:
        a, b, c, d = (_number(edge, f"{s}-{t}") for s in ("from", "to") for t in ("layer", "port"))
        source, target = self._ids.get(a), self._ids.get(c)
        output = None if source is None else self._ports[source][1].get(b)
        port = None if target is None else self._ports[target][0].get(d)
        if source is None or target is None or output is None or port is None:
            raise Unproved(f"the edge {a}:{b} -> {c}:{d} begins or ends nowhere")
        if self._sources[target][port] is not None:
            raise Unproved(f"{_label(self._elements[target])}: two edges end at port {d}")
        self._sources[target][port] = Port(source, output)

    def _order(self) -> list[int]:
        """Return Parameters, then all that a Result or Assign needs, each behind its inputs."""
        of = [[i for i, e in enumerate(self._elements) if e.get("type") in types]
              for types in (("Parameter",), ("Result", "Assign"))]  # fmt: skip
        stack = (of[0] + of[1])[::-1]
        order: dict[int, None] = {}
        above: set[int] = set()
        while stack:
            at = stack.pop()
            if at < 0:  # all that it reads is done
                order[~at] = None
            elif at not in order:
                above.add(at)
                stack.append(~at)
                for source in reversed(self._sources[at]):
                    if source is None or (source.layer in above and source.layer not in order):
                        raise Unproved(f"{_label(self._elements[at])}: no input, or its own output")
                    stack.append(source.layer)
        return list(order)

    def _layer(self, e: Element, index: int) -> Layer:
        kind, data, ports = e.get("type"), e.find("data"), _children(e, "output")
        if _children(e, "data"):
            raise Unproved(f"{_label(e)}: <data> has elements inside")
        attributes = {} if data is None else dict(data.attrib)
        if kind not in ("Assign", "ReadValue") and e.get("version").startswith("opset"):
            tidy = {k: _tidy(k, v) for k, v in attributes.items()}
            # Of these lists OpenVINO takes none for an empty one.
            keys = [k for k, v in tidy.items() if v or not re.search("_mask$|^activations_", k)]
            attributes = {k: tidy[k] for k in keys}
        inputs = tuple(Port(self.places[s.layer], s.port) for s in self._sources[index] if s)
        outputs = [_declared(p) for p in ports]
        names = [_names(p.get("names")) for p in ports]
        elements, rest = None, self._bodies(e, index)
        if kind == "Const":
            elements = self._constant(e, attributes)
        if kind in ("Parameter", "Const"):
            outputs = [Fact(attributes.get("element_type"), shape_of(attributes.get("shape", "")))]
        if kind in ("Parameter", "Result"):
            info = [_canonical(a) for a in e.findall(".//rt_info/attribute")]
            rest = "\n".join(sorted(i for i in info if "'fused_names'" not in i))
            names = [names[0] if names else self._result_names(e, inputs)]
            names[0] |= {e.get("name")} if self._version == 10 and ports else set()
        name, version = e.get("name"), e.get("version")
        spelled = tuple(tuple(sorted(n)) for n in names)
        return Layer(
            name, kind, version, attributes, inputs, tuple(outputs), spelled, elements, rest
        )

    def _result_names(self, e: Element, inputs: tuple[Port, ...]) -> set[str]:
        """Return what OpenVINO calls an output of the model."""
        if not inputs:
            return set()
        source, port = self.layers[inputs[0].layer], inputs[0].port
        names = set(source.names[port])
        if self._version == 10:
            return names | {source.name + (f".{port}" if len(source.names) > 1 else "")}
        return _names(e.get("output_names")) or names

    def _constant(self, e: Element, attributes: dict[str, str]) -> TypedArray:
        offset, size = _number(e.find("data"), "offset"), _number(e.find("data"), "size")
        del attributes["offset"], attributes["size"]
        kind, shape = attributes.get("element_type", ""), shape_of(attributes.get("shape", "?"))
        dims = [n for n in shape or () if isinstance(n, int)]
        group, width = (1, size) if kind == "string" else _BYTES.get(kind, (0, 0))
        count, end = math.prod(dims), offset + size
        if not group or shape is None or len(dims) < len(shape):
            raise Unproved(f"{_label(e)}: type {kind} or shape {shape} is not that of a constant")
        # Of a constant without elements OpenVINO writes one byte.
        if size != -(-count // group) * width and kind != "string" and (count or size > 1):
            raise Unproved(f"{_label(e)}: {size} bytes are not {count} elements of {kind}")
        if self._blob is None or end > len(self._blob):
            raise Unproved(f"{_label(e)}: bytes {offset}..{end} are not in the weights file")
        raw = self._blob[offset:end]
        if kind == "string" or (kind == "boolean" and raw[:count].max(initial=0) > 1):
            return TypedArray(raw, kind)
        array = raw[: count * width].view(_NATIVE[kind]) if kind in _NATIVE else _decode(raw, kind)
        try:
            return TypedArray(array[:count].reshape(dims) if array is not raw else raw, kind)
        except ValueError as error:
            raise Unproved(f"{_label(e)}: {error}") from None

    def _bodies(self, e: Element, index: int) -> str:
        """Return the canonical text of bodies and port maps: without names, numbered by use."""
        found = [c for c in _children(e) if c.tag in _BODY_OF or c.tag in _BODY_OF.values()]
        ports, label = self._ports[index], _label(e)
        if len({c.tag for c in found}) < len(found) or (
            found and any(list(p) != sorted(p) for p in ports)
        ):
            raise Unproved(
                f"{label}: two bodies or maps are called alike, or its ports are not in order"
            )
        graphs = {
            c.tag: _LayerFile(c, self._blob, self._version) for c in found if c.tag not in _BODY_OF
        }
        lines = [f"{tag} {graph.text()}" for tag, graph in sorted(graphs.items())]
        for part in sorted((c for c in found if c.tag in _BODY_OF), key=lambda c: str(c.tag)):
            graph = graphs.get(_BODY_OF[part.tag])
            for entry in _children(part):
                values = dict(entry.attrib)
                side = ports[entry.tag == "output"]
                if values.get("external_port_id", "-1") != "-1":
                    values["external_port_id"] = str(side.get(_number(entry, "external_port_id")))
                for key in ("internal_layer_id", "from-layer", "to-layer"):
                    if key in values and graph is not None:
                        values[key] = str(graph.places.get(graph._ids.get(_number(entry, key), -1)))
                if graph is None or "None" in values.values():
                    raise Unproved(f"{label}: <{part.tag}> names what is not there")
                lines.append(repr((part.tag, entry.tag, sorted(values.items()))))
        return "\n".join(lines)

    def text(self) -> str:
        """Return a text that two graphs share only if they compute the same."""
        return repr(
            [
                (
                    y.type,
                    y.version,
                    sorted(y.attributes.items()),
                    [tuple(p) for p in y.inputs],
                    y.elements and digest(y.elements),
                    hashlib.sha256(y.rest.encode()).hexdigest(),
                )
                for y in self.layers
            ]
        )


def digest(elements: TypedArray) -> str:
    """Return what stands for the bytes of a constant."""
    return hashlib.sha256(np.ascontiguousarray(elements.array).data).hexdigest()
