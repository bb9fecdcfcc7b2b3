"""Reads the two files of a model as OpenVINO would; refuses those that it might read otherwise."""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from irdeconv.proof.definition import CONVOLUTION_SAYS, CONVOLUTIONS, OPSET, last_changed
from irdeconv.proof.language import ATTRIBUTES, VECTORS
from irdeconv.proof.model import Array, Fact, Layer, Model, Port, Shape, TypedArray, Unproved, need
from irdeconv.proof.spelling import kind_of, spelled

Element = Any  # of lxml
Files = dict[str, tuple[str, int]]
_BODY_OF = {"port_map": "body", "back_edges": "body"}
_BODY_OF |= {f"{branch}_port_map": f"{branch}_body" for branch in ("then", "else")}
_BODIES = ("body", "then_body", "else_body")
_LOOPS = ("Loop", "TensorIterator", "If")
_WHOLE_AXIS = {"start": "0", "end": "-1", "stride": "1", "part_size": "1"}
_INSIDE = {"data", "input", "output", "rt_info", *_BODY_OF, *_BODIES}
_READ = {**ATTRIBUTES, **{t: {*CONVOLUTION_SAYS.split()} for t in CONVOLUTIONS}}
_COUNTS = {"Parameter": [[0, 1]], "Const": [[0, 1]], "Result": [[1, 0]], "Assign": [[1, 0], [1, 1]]}
_NATIVE = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "boolean": "?"}
_NATIVE |= {f"{kind}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}
# So many elements take so many bytes.
_BYTES = {name: (1, np.dtype(code).itemsize) for name, code in _NATIVE.items()}
_BYTES |= {"bf16": (1, 2), "f8e4m3": (1, 1), "f8e5m2": (1, 1), "f8e8m0": (1, 1), "u6": (4, 3)}
_BYTES |= {"i4": (2, 1), "u4": (2, 1), "nf4": (2, 1), "f4e2m1": (2, 1), "u3": (8, 3)}
_BYTES |= {"u2": (4, 1), "u1": (8, 1)}
# Element types as ports spell them.
_SPELLED: dict[str, str | None] = {t.upper(): t for t in _BYTES if not re.match("f..$|b.*n", t)}
_SPELLED |= {f"FP{bits}": f"f{bits}" for bits in (16, 32, 64)}
_SPELLED |= {"BOOL": "boolean", "BIN": "u1", "STRING": "string", "dynamic": None}


def weights_beside(xml: Path) -> Path:
    """Return the `.bin` of an `.xml`; of a link beside its target, unless both are links."""
    own = xml.with_suffix(".bin")
    if not xml.is_symlink() or own.is_symlink():
        return own
    return Path(os.path.realpath(xml)).with_suffix(".bin")


def read(xml: Path | str, bin: Path | str | None = None) -> Model:
    """Return a model; without `bin` its weights lie beside it. Raises Unproved."""
    try:
        held = {"xml": _contents(Path(xml))}
        data = held["xml"][: 1 << 28].lstrip()
        weights = weights_beside(Path(xml)) if bin is None else Path(bin)
        weights = weights if bin or weights.exists() else Path(xml).with_suffix(".bin")
        held |= {"bin": _contents(weights)} if bin or weights.exists() else {}
        blob = np.frombuffer(held["bin"], "u1") if "bin" in held else None
        files = {kind: (hashlib.sha256(b).hexdigest(), len(b)) for kind, b in held.items()}
        if re.search(rb"\0|\sxmlns|<!DOCTYPE|^[^>]*encoding\s*=\s*.(?!utf-8|ascii)", data, re.I):
            raise ValueError("it has a DOCTYPE or a namespace, or is not in UTF-8")
        # Without huge_tree lxml limits depth and texts; OpenVINO takes every file for UTF-8.
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
        root = etree.fromstring(data, parser)
    except (OSError, ValueError, MemoryError, etree.XMLSyntaxError) as e:
        raise Unproved(f"{xml}: {str(e) or 'not enough memory'}") from None
    version = _number(root, "version")
    need(root.tag == "net" and version in (10, 11), f"{xml}: it is no <net> of version 10 or 11")
    model = _LayerFile(root, blob, files).model
    layers = _named(list(model.layers), version == 10)
    said = [e for e in root.iterchildren("*") if e.tag not in ("layers", "edges", "rt_info")]
    said = [e for e in said if e.tag != "meta_data"] + root.findall("rt_info/runtime_options")
    if any("offset" in e.attrib for part in said for e in part.iter()):
        raise Unproved(f"<{said[0].tag}> refers to the weights file, which is not compared")
    rest = "\n".join([f"version {version}", *map(_canonical, said)])
    return replace(model, layers=tuple(layers), rest=rest)


def _contents(path: Path) -> bytes:
    """Read a regular file; nothing else is opened, as a pipe would never end.

    It is not mapped, as another process may cut it off: the bytes that are hashed are those read.
    """
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        data = file.read(status.st_size)
    if len(data) < status.st_size:
        raise OSError("it was cut off while it was read")
    return data


def _named(layers: list[Layer], old: bool) -> list[Layer]:
    """Give inputs and outputs the tensor names that OpenVINO gives them.

    A Result's own names are its tensor's, too; version 10 takes the names of layers instead. A
    model is refused if two tensors have one name, or if the names depend on the order.
    """
    names: dict[Port, set[str]] = {}
    named: dict[Port, bool] = {}  # whether the Results of a tensor have names of their own
    for i, y in enumerate(layers):
        if y.type in ("Parameter", "Result"):
            port = y.inputs[0] if y.inputs else Port(i)
            source, own = layers[port.layer], set(y.names[0]) if y.inputs and not old else set()
            tensor = names.setdefault(port, set(source.names[port.port]))
            if y.inputs and port in named and (old or named[port] != bool(own)):
                raise Unproved(f"{y} and another Result of {source} change each other's names")
            named.update({port: bool(own)} if y.inputs else {})
            if old:
                many = len(source.names) > 1 or "Split" in source.type
                tensor.add(f"{source.name}.{port.port}" if many else source.name)
            tensor |= own
            layers[i] = replace(y, names=(tuple(sorted(own or tensor)),))
    for port, tensor in names.items():
        if layers[port.layer].type == "Parameter":
            layers[port.layer] = replace(layers[port.layer], names=(tuple(sorted(tensor)),))
    borne = [name for tensor in names.values() for name in tensor]
    if len(set(borne)) < len(borne):
        raise Unproved("two inputs or outputs bear the same tensor name, so one is renamed")
    return layers


def _foreign(layer: Element, child: Element) -> bool:
    """Whether a child is of an extension's layer; it is compared as text, so it may lie nowhere."""
    own = not layer.get("version", "opset").startswith("opset")
    return own and not any("offset" in c.attrib for c in child.iter("*"))


def _canonical(element: Element) -> str:
    return repr([(e.tag, sorted(e.attrib.items()), e.text) for e in element.iter(etree.Element)])


def _inside(element: Element, tag: str, kind: str) -> list[Element]:
    """Return the elements, all of one kind, inside the only one that is called `tag`."""
    found = element.findall(tag)
    inside = [e for part in found for e in part.iterchildren("*")]
    if len(found) > 1 or any(e.tag != kind for e in inside):
        raise Unproved(f"{_label(element)}: two <{tag}>, or something in it that is no <{kind}>")
    return inside


def _label(e: Element) -> str:
    return f'{e.get("type")} "{e.get("name")}"' if e.tag == "layer" else f"<{e.tag}>"


def _number(e: Element, key: str) -> int:
    text = e.get(key, "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Unproved(f'{_label(e)}: {key}="{text[:40]}" is not a natural number')
    return int(text)


def _canonical_value(kind: str, version: str, name: str, text: str) -> str:
    """Return an attribute's value in one spelling, or as it is if OpenVINO may not read it so."""
    single = kind == "NormalizeL2" or (kind == "MVN" and version not in ("opset1", "opset2"))
    value = spelled("single" if single and name == "eps" else kind_of(kind, name), text)
    return text if value is None else value


def shape_of(text: str) -> Shape | None:
    """Return a partial shape as OpenVINO spells it, "1,?,2..5,..9"; None is any rank."""
    shape: list[int | tuple[int, int | None]] = []
    for part in text.split(",") if text.strip(" ") not in ("", "...") else ():
        found = re.fullmatch(r" *(?:([0-9]{1,18})|-1|\?|([0-9]{0,18})\.\.([0-9]{0,18})) *", part)
        size, low, high = (int(g) if g else None for g in found.groups()) if found else (-1, 0, 0)
        if size == -1 or (high is not None and high < (low or 0)):
            raise Unproved(f'the shape "{text[:80]}" is not understood')
        shape.append(size if size is not None else (low or 0, high))
    return None if text.strip(" ") == "..." else tuple(shape)


def _declared(port: Element, output: bool) -> Fact:
    """Return the declared type and shape of a port; OpenVINO reads no file with other spellings."""
    dims = tuple(d.text or "" for d in port.findall("dim"))
    return _fact(port.get("precision", "") if output else None, dims)


@lru_cache(maxsize=1024)  # most shapes of a file are declared many times
def _fact(precision: str | None, dims: tuple[str, ...]) -> Fact:
    kind = None if precision is None else _SPELLED.get(precision, "")
    if kind == "" or any(not re.fullmatch(r"-1|[0-9]{1,18}(\.\.[0-9]{1,18})?", d) for d in dims):
        raise Unproved(f'a port of type "{precision or ""}" and sizes {[*dims[:9]]} is not read')
    return Fact(kind, shape_of(",".join(dims)) if dims else None)


def _names(text: str) -> tuple[str, ...]:
    """Return tensor names, as the file escapes them."""
    return tuple(sorted(set(re.split(r"(?<!\\),", text)) - {""}))


class _LayerFile:
    """The layers of a model or body that its results need, each behind those that it reads."""

    def __init__(self, root: Element, blob: Array | None, files: Files) -> None:
        self._blob, self._files = blob, files
        self._elements = _inside(root, "layers", "layer")
        self._ids: dict[int, int] = {}
        self._facts: list[list[Fact]] = []
        self._ports = [self._enter(i, e) for i, e in enumerate(self._elements)]
        self._sources: list[list[Port | None]] = [[None] * len(p[0]) for p in self._ports]
        for edge in _inside(root, "edges", "edge"):
            self._connect(edge)
        self._places: dict[int, int] = {}  # of layers, by the number of their element
        layers: list[Layer] = []
        for index in self._order():
            layers.append(self._layer(self._elements[index], index))
            self._places[index] = len(self._places)
        _widen(layers)
        kinds = {"Parameter": "input", "Result": "output"}
        ends = [tuple(i for i, y in enumerate(layers) if y.type == kind) for kind in kinds]
        self.model = Model(tuple(layers), ends[0], ends[1], files=files)
        rows = zip(kinds.values(), ends, strict=True)
        self._ends = {at: f"{kind} {i}" for kind, places in rows for i, at in enumerate(places)}

    def _enter(self, index: int, e: Element) -> list[dict[int, int]]:
        """Note the layer's id; return the positions of its input and output ports by their ids."""
        odd = [c.tag for c in e.iterchildren("*") if c.tag not in _INSIDE and not _foreign(e, c)]
        odd += [k for k in ("id", "name", "type", "version") if k not in e.attrib]
        last = {"Parameter": "|opset17", "Const": "", "Result": ""}.get(e.get("type"))
        if last is not None and not re.fullmatch(OPSET + last, e.get("version", "")):
            odd.append(e.get("version"))
        if odd or self._ids.setdefault(_number(e, "id"), index) != index:
            raise Unproved(f"{_label(e)}: {odd or 'its id'} is unknown, missing or there twice")
        sides = [_inside(e, side, "port") for side in ("input", "output")]
        self._facts.append([[_declared(p, bool(i)) for p in sides[i]] for i in (0, 1)][1])
        ports = [{_number(p, "id"): i for i, p in enumerate(side)} for side in sides]
        counts = [len(p) for p in ports]
        if counts != [len(s) for s in sides] or counts not in _COUNTS.get(e.get("type"), [counts]):
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
        types = [e.get("type") for e in self._elements]
        starts = [i for i, t in enumerate(types) if t == "Parameter"]
        stack = (starts + [i for i, t in enumerate(types) if t in ("Result", "Assign")])[::-1]
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
        name, kind, version = (e.get(key) for key in ("name", "type", "version"))
        data, ports = e.find("data"), _inside(e, "output", "port")
        attributes = {} if data is None else dict(data.attrib)
        foreign = kind == "Constant" or (kind != "Const" and {"offset", "size"} <= {*attributes})
        if _inside(e, "data", "") or foreign:
            raise Unproved(f"{_label(e)}: it may read the weights file, which only Const does")
        if version.startswith("opset"):
            version = last_changed(kind, version)
            tidy = {k: _canonical_value(kind, version, k, v) for k, v in attributes.items()}
            # Of these lists OpenVINO takes none for an empty one.
            keys = [k for k, v in tidy.items() if v or not re.search("_mask$|^activations_", k)]
            known = _READ.get(kind) if re.fullmatch(OPSET, version) else None
            keys = [k for k in keys if known is None or k in known]  # it does not look at others
            attributes = {k: tidy[k] for k in keys}
        inputs = tuple(Port(self._places[s.layer], s.port) for s in self._sources[index] if s)
        outputs, elements, (rest, inner) = self._facts[index], None, self._bodies(e, index)
        names = tuple(_names(p.get("names", "")) for p in ports)
        if kind == "Const":
            if data is None:
                raise Unproved(f"{_label(e)}: it has no data")
            held = self._constant(e, attributes)
            elements, rest = (None, held) if isinstance(held, str) else (held, "")
        if kind in ("Parameter", "Const"):
            outputs = [Fact(attributes.get("element_type"), shape_of(attributes.get("shape", "")))]
            if outputs[0].type not in {*_BYTES, "string"}:
                raise Unproved(f"{_label(e)}: {outputs[0].type!r} is no element type")
        rest += "".join(_canonical(c) for c in e.iterchildren("*") if c.tag not in _INSIDE)
        if kind in ("Parameter", "Result"):
            info = [_canonical(a) for a in e.findall(".//rt_info/attribute")]
            rest = "\n".join(sorted(i for i in info if "'fused_names'" not in i))
            names = names or (_names(e.get("output_names", "")),)
        own = attributes, inputs, tuple(outputs), names
        return Layer(name, kind, version, *own, elements, rest, inner)

    def _constant(self, e: Element, attributes: dict[str, str]) -> TypedArray | str:
        """Return the elements, or a text for the bytes of types that are only compared."""
        data = e.find("data")
        offset, size = _number(data, "offset"), _number(data, "size")
        del attributes["offset"], attributes["size"]
        if data.get("shape", "").isspace():
            raise Unproved(f"{_label(e)}: the shape is blank, which OpenVINO does not read")
        kind, shape = attributes.get("element_type", ""), shape_of(attributes.get("shape", "?"))
        dims = [n for n in shape or () if isinstance(n, int)]
        group, width = (1, size) if kind == "string" else _BYTES.get(kind, (0, 0))
        count, end = math.prod(dims), offset + size
        if not group or shape is None or len(dims) < len(shape):
            raise Unproved(f"{_label(e)}: type {kind} or shape {shape} is not that of a constant")
        needed = size if kind == "string" else -(-count // group) * width
        if size < needed:  # OpenVINO reads no more than it needs
            raise Unproved(f"{_label(e)}: {size} bytes are not {count} elements of {kind}")
        if self._blob is None or end > len(self._blob) or not len(self._blob):
            raise Unproved(f"{_label(e)}: bytes {offset}..{end} are not in the weights file")
        raw = self._blob[offset : offset + needed]
        if kind == "boolean" and raw[:count].max(initial=0) > 1:
            kind = "none of 0 and 1"
        if kind in _NATIVE:
            array = raw[: count * width].view(_NATIVE[kind])
        elif kind == "bf16":
            array = (raw[: count * 2].view("<u2").astype("<u4") << 16).view("<f4")
        elif kind in ("u4", "i4"):
            array = np.stack([raw & 15, raw >> 4], 1).reshape(-1)[:count]
            array = array if kind == "u4" else (array ^ 8).astype("i1") - np.int8(8)
        else:
            return f"{kind} {hashlib.sha256(raw.data).hexdigest()}"
        try:
            return TypedArray(array.reshape(dims), kind)
        except ValueError as error:
            raise Unproved(f"{_label(e)}: {error}") from None

    def _bodies(self, e: Element, index: int) -> tuple[str, tuple[tuple[str, Model], ...]]:
        """Return the canonical text of port maps, and the bodies of a loop or branch.

        Those of other layers are text: without names, numbered by use.
        """
        tags = [c.tag for c in e.iterchildren("*") if c.tag in _BODY_OF or c.tag in _BODIES]
        ports = self._ports[index]
        if len({*tags}) < len(tags) or (tags and any(list(p) != sorted(p) for p in ports)):
            raise Unproved(f"{_label(e)}: two of {tags}, or ports that are not in order")
        known = e.get("type") in _LOOPS and re.fullmatch(OPSET, e.get("version", ""))
        found = sorted({*tags} & {*_BODIES})
        bodies = {tag: _LayerFile(e.find(tag), self._blob, self._files) for tag in found}
        lines = [f"{tag} {'' if known else described(bodies[tag].model)}" for tag in bodies]
        for tag in sorted(set(tags) - set(bodies)):
            body = bodies.get(_BODY_OF[tag])
            for entry in sorted(e.find(tag).iterchildren("*"), key=lambda entry: entry.tag):
                values = (_WHOLE_AXIS if "axis" in entry.attrib else {}) | dict(entry.attrib)
                if values.get("external_port_id", "-1") != "-1":
                    outer = ports[entry.tag == "output"].get(_number(entry, "external_port_id"))
                    values["external_port_id"] = str(outer)
                for key in {"internal_layer_id", "from-layer", "to-layer"} & {*values}:
                    values[key] = str(body._end(_number(entry, key))) if body else "None"
                if "None" in values.values():
                    raise Unproved(f"{_label(e)}: <{tag}> names a port or layer that is not there")
                lines.append(repr((tag, entry.tag, sorted(values.items()))))
        inner = tuple((tag, body.model) for tag, body in bodies.items() if known)
        return "\n".join(lines), inner

    def _end(self, ident: int) -> str | None:
        """Return the Parameter or Result with an id, by their order; None if there is none."""
        return self._ends.get(self._places.get(self._ids.get(ident, -1), -1))


def described(model: Model) -> str:
    """Return a text that two models share only if they compute the same."""
    rows = []
    for y in model.layers:
        inner = [(tag, described(body)) for tag, body in y.bodies]
        rows.append((signature(y), [*map(tuple, y.inputs)], inner))
    return repr(rows)


def _widen(layers: list[Layer]) -> None:
    """Make integer constants i64 if all their readers take any integer type there."""
    kept: set[int] = set()
    for y in layers:
        takes = VECTORS.get(y.type, ()) if re.fullmatch(OPSET, y.version) else ()
        kept |= {p.layer for port, p in enumerate(y.inputs) if port not in takes}
    for i, y in enumerate(layers):
        kind = y.elements.type if y.elements else ""
        if y.elements and i not in kept and re.fullmatch("[iu](8|16)|u(32|64)", kind):
            wide = y.elements.array.astype(np.int64)
            if kind[0] == "i" or wide.min(initial=0) >= 0:
                said, facts = {**y.attributes, "element_type": "i64"}, (Fact("i64", wide.shape),)
                held = TypedArray(wide, "i64")
                layers[i] = replace(y, attributes=said, outputs=facts, elements=held)


def signature(layer: Layer) -> tuple[object, ...]:
    """Return the function of a layer's inputs as a key, without its bodies; bytes by a hash."""
    data = None if layer.elements is None else np.ascontiguousarray(layer.elements.array).data
    hashes = [hashlib.sha256(part).hexdigest() for part in (data or b"", layer.rest.encode())]
    return (layer.type, layer.version, *sorted(layer.attributes.items()), data is None, *hashes)
