"""Formats as trees that `mutate.py` changes, and back to bytes that need not be well formed.

An element of XML is {"is": tag, "at": attributes, "text": ..., "in": children}; a field of a
protocol buffer {"is": number, "kind": ..., "lie": ..., "in": value or fields}. Whatever a change
has put somewhere is written in some way: bytes as they are, other things as text.
"""

from __future__ import annotations

import ast
import copy
import io
import json
import random
import re
import struct
import warnings
import zipfile
from functools import cache
from html import escape
from typing import Any

from lxml import etree

from fuzzing.mutate import LONGEST, NAMES, TYPES, integer, mutate_bytes, mutate_text, mutate_tree


def raw(value: Any) -> bytes:
    """Return a value as bytes."""
    text = value if isinstance(value, bytes | str) else str(value)
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


# XML ---------------------------------------------------------------------------------------------


@cache
def read_xml(data: bytes) -> Any:
    """Return the tree of a document."""

    def tree(e: Any) -> Any:
        inner = [tree(c) for c in e if isinstance(c.tag, str)]
        return {"is": e.tag, "at": dict(e.attrib), "text": (e.text or "").strip(), "in": inner}

    return tree(etree.fromstring(data, etree.XMLParser(resolve_entities=False)))


def write_xml(e: Any) -> bytes:
    """Write an element; characters that XML cannot hold stand there as they are."""
    out: list[bytes] = []
    todo = [e]
    while todo:
        e = todo.pop()
        if isinstance(e, list):
            todo += e[::-1]
        elif not isinstance(e, dict) or "is" not in e:
            out.append(e if isinstance(e, bytes) else escape(str(e)).encode("utf-8", "replace"))
        else:
            tag = raw(e["is"])
            out.append(b"<" + tag + _attributes(e.get("at")) + b">")
            todo += [b"</" + tag + b">\n", e.get("in", ""), e.get("text", "")]
    return b"".join(out)


def _attributes(held: Any) -> bytes:
    pairs = held.items() if isinstance(held, dict) else ()
    texts = ((raw(k), v if isinstance(v, bytes) else raw(escape(str(v)))) for k, v in pairs)
    return b"".join(b" " + name + b'="' + text + b'"' for name, text in texts)


@cache
def _kinds() -> tuple[str, ...]:
    from irdeconv.ir.op import REGISTRY

    return tuple(sorted({kind for kind, _ in REGISTRY}))


def words_of(kind: str) -> tuple[str, ...]:
    """Return what an attribute of an IR may hold."""
    name = kind.rpartition(".")[2]
    if name == "type":
        return _kinds()
    return tuple(TYPES) if name in ("version", "precision") or name.endswith("_type") else ()


def mutate_ir(
    rng: random.Random, xml: bytes, weights: bytes, times: int | None = None
) -> tuple[bytes, bytes]:
    """Change a model, or the numbers of its constants, or both."""
    tree, way = copy.deepcopy(read_xml(xml)), rng.random()
    for mark in ("weights_size", "weights_sha256") if times or rng.random() < 0.9 else ():
        for e in elements(tree, "rt_info"):
            e["at"].pop(mark, None)
    if way < 0.88:
        tree = mutate_tree(rng, tree, words_of, times)
    if way > 0.96:
        at = rng.randrange(len(weights) + 1)
        weights = rng.choice((weights[:at], weights + b"\0" * 9, b"", weights[:at] * 2))
    elif way > 0.8:
        weights = _constant(rng, tree, weights)
    if rng.random() < 0.08:
        tree = _opened(rng, tree) if rng.random() < 0.7 else _namespaced(rng, tree)
    return write_xml(tree)[: 2 * LONGEST], weights


def elements(tree: Any, tag: str) -> list[Any]:
    """Return the elements of a tag, also those of bodies."""
    found, todo = [], [tree]
    while todo:
        e = todo.pop()
        if isinstance(e, dict) and isinstance(e.get("at"), dict):
            found += [e] if e.get("is") == tag else []
            todo += e["in"] if isinstance(e.get("in"), list) else []
    return found


_STRUCTS = {
    "i64": "<q",
    "u64": "<Q",
    "i32": "<i",
    "u32": "<I",
    "i8": "<b",
    "f32": "<f",
    "f16": "<e",
}


def _constant(rng: random.Random, tree: Any, weights: bytes) -> bytes:
    """Change an element of a constant, of one of integers if there is any."""
    found = [e["at"] for e in elements(tree, "data") if str(e["at"].get("offset")).isdecimal()]
    whole = [a for a in found if a.get("element_type") in ("i64", "i32")]
    if not found or not weights:
        return weights
    a = rng.choice(whole if whole and rng.random() < 0.8 else found)
    form = _STRUCTS.get(str(a.get("element_type")), "<b")
    size, length = struct.calcsize(form), str(a.get("size", "0"))
    count = min(int(length[:18]) if length.isdecimal() else 0, LONGEST) // size
    at = min(int(a["offset"]), len(weights)) + size * rng.randrange(max(1, count))
    if form in ("<f", "<e"):
        some = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1e4)
        made = struct.pack(form, rng.choice(some))
    else:
        made = (integer(rng) % (1 << 8 * size)).to_bytes(size, "little")
    return weights[:at] + made + weights[at + size :]


def _opened(rng: random.Random, tree: Any) -> Any:
    """Open all dimensions of a port, or every declared size."""
    ports = elements(tree, "port")
    for port in [rng.choice(ports)] if ports and rng.random() < 0.5 else ports:
        for dim in port["in"] if isinstance(port.get("in"), list) else ():
            if isinstance(dim, dict):
                dim["text"] = "-1"
    for e in elements(tree, "data"):
        if e["at"].get("shape") and "offset" not in e["at"] and rng.random() < 0.5:
            sizes = str(e["at"]["shape"]).split(",")
            sizes[rng.randrange(len(sizes))] = rng.choice(("?", "0", "1..9", "2..", "-1"))
            e["at"]["shape"] = ",".join(sizes)
    return tree


def _namespaced(rng: random.Random, tree: Any) -> Any:
    """Put an attribute or an element into a namespace, or declare one that nothing uses."""
    tag = rng.choice(("data", "layer", "port", "edge", "net", "dim"))
    e = rng.choice(elements(tree, tag) or [{"is": tag, "at": {}}])
    names = {
        "xmlns": "urn:x", "xmlns:u": "urn:x", "xml:lang": rng.choice(NAMES), "xml:id": "x",
        "xml:space": "x",
    }  # fmt: skip
    name = rng.choice(list(names))
    e["at"][name] = names[name]
    if name == "xmlns:u" and rng.random() < 0.5:
        e["at"][f"u:{rng.choice(list(e['at'])).replace(':', '')}"] = "1"
    elif name == "xmlns:u":
        e["is"] = f"u:{e['is']}"
    return tree


# Protocol buffers --------------------------------------------------------------------------------

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_wire(data: bytes, depth: int = 0) -> list[dict[str, Any]] | None:
    """Return the fields of a message, with no schema; None where the bytes are none."""
    out, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind, inner = key >> 3, key & 7, None
        if at < 0 or not 0 < number < 400 or kind not in (VARINT, FIXED64, BYTES, FIXED32):
            return None
        if kind == VARINT:
            inner, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == BYTES else (8 if kind == FIXED64 else 4, at)
            inner = data[at : at + size] if at >= 0 else b""
            at += size if at >= 0 else 0
            if kind == BYTES and 1 < size < 1 << 16 and depth < 8:
                inner = read_wire(inner, depth + 1) or inner
        if at < 0 or at > len(data):
            return None
        out.append({"is": number, "kind": kind, "lie": 0, "in": inner})
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while 0 <= at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7
    return 0, -1


def _number(value: Any) -> bytes:
    value, out = (value if isinstance(value, int) else 1) % (1 << 64), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def write_wire(fields: Any, depth: int = 0) -> bytes:
    """Write fields; `lie` is by how much a length is wrong, in thousands beyond 9."""
    if not isinstance(fields, list) or depth > 200:
        return fields if isinstance(fields, bytes) else raw(fields)
    out = []
    for f in fields:
        if not isinstance(f, dict) or "is" not in f:
            out.append(write_wire(f, depth + 1))
            continue
        kind, inner = f.get("kind", BYTES), f.get("in", b"")
        number = f["is"] if isinstance(f["is"], int) else 1
        if isinstance(inner, list | str | float) or kind not in (VARINT, FIXED64, FIXED32):
            inner = struct.pack("<q", inner % (1 << 63)) if isinstance(inner, int) else inner
            data, lie = write_wire(inner, depth + 1), f.get("lie", 0)
            length = _number(len(data) + (lie if isinstance(lie, int) else 1))
            out.append(_number(number << 3 | BYTES) + length + data)
        elif isinstance(inner, int):
            out.append(_number(number << 3 | VARINT) + _number(inner))
        else:
            out.append(_number(number << 3 | int(kind)) + raw(inner))
    return b"".join(out)


def mutate_wire(rng: random.Random, data: bytes) -> bytes:
    """Change a few fields."""
    return write_wire(mutate_tree(rng, _wire(data)))[:LONGEST]


@cache
def _wire(data: bytes) -> Any:
    return read_wire(data)


# Saved arrays ------------------------------------------------------------------------------------

DTYPES = (
    "<f4", ">f4", "|f4", "<f8", "<f2", "<i8", "<i4", "|u1", "|b1", "<U5", "|S7", "|O", "O",
    "<M8[s]", "<m8", "|V8", "<c16", "<V0", "|S0", "<U99999999", "f4,i4", "x", "", "<f3", "<i99",
    "bfloat16",
)  # fmt: skip
HEADERS = (
    "{}", "", "[]", "{" * 300, "(" * 5000 + "\n", "9" * 6000, "\0" * 100,
    "{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,)}",
    "{'descr': [('a', '<f4'), ('b', '<i8')], 'fortran_order': False, 'shape': (2,)}",
)  # fmt: skip


def mutate_npy(rng: random.Random, data: bytes) -> bytes:
    """Change the header, what stands before it, or the numbers behind it."""
    if rng.random() < 0.15 or len(data) < 12:
        return mutate_bytes(rng, data)
    length = struct.unpack("<H", data[8:10])[0]
    header, rest = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    way, version = rng.random(), data[6:8]
    if way < 0.6:
        tree = ast.literal_eval(header)
        tree["shape"] = list(tree["shape"])
        tree = mutate_tree(rng, tree, lambda k: DTYPES if k == ".descr" else ())
        if isinstance(tree, dict) and isinstance(tree.get("shape"), list):
            tree["shape"] = tuple(tree["shape"])
        header = repr(tree) + "\n"
    elif way < 0.75:
        header = rng.choice((mutate_text(rng, header), rng.choice(HEADERS), header * 2))
    elif way < 0.85:
        rest = rng.choice((b"", rest[: rng.randrange(len(rest) + 1)], rest + b"\0" * 5))
    else:
        version = rng.choice((b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"))
    size = (len(header) + rng.choice((0, 0, 0, 0, 1, -1, 5000))) % 65536
    said = struct.pack("<H" if version == b"\1\0" else "<I", size)
    return data[:6] + version + said + header.encode("latin1", "replace") + rest


def mutate_npz(rng: random.Random, whole: bytes) -> bytes:
    """Write an archive of changed members, or change its records or its bytes."""
    members = _members(whole)
    if sum(map(len, members.values())) > 1 << 20:  # packing again takes too long
        return rng.choice((mutate_bytes, _records, _records))(rng, whole)
    made, way = [[name, data] for name, data in members.items()], rng.randrange(8)
    if way < 3 and made:
        member = rng.choice(made)
        member[1] = mutate_npy(rng, member[1])
    elif way == 3 and made:
        names = ("", "y.npy", "../x.npy", "/x.npy", "x", "\u202ex.npy", "a" * 400, "x.npy", "x\n")
        rng.choice(made)[0] = rng.choice(names)
    elif way == 4:
        made = rng.choice((made[:-1], made * 2, [], made * 300))
    data = archive(made, rng.choice((0, 8, 8, 12, 14)))
    return (mutate_bytes if way == 5 else _records)(rng, data) if way >= 5 else data


@cache
def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as held:
        return {name: held.read(name) for name in held.namelist()}


def archive(members: Any, method: int = 8) -> bytes:
    """Write a zip archive with names as given."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that come twice
        with zipfile.ZipFile(buffer, "w", method) as out:
            for name, data in members:
                out.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def _records(rng: random.Random, data: bytes) -> bytes:
    """Change a field of a record: method, flags, sums, sizes, lengths, offsets."""
    found = [m.start() for m in re.finditer(rb"PK(?:\x03\x04|\x01\x02|\x05\x06)", data)]
    if not found:
        return data
    at, size = rng.choice(found) + 4 + 2 * rng.randrange(20), rng.choice((2, 4))
    value = rng.choice((0, 1, 8, 99, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(data), 14, 12))
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + data[at + size :]


# All of them -------------------------------------------------------------------------------------


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """Change a few places of a document, or tokens of its text."""
    if rng.random() < 0.15:
        return _text(rng, data)
    tree = mutate_tree(rng, json.loads(data))
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5, default=lambda b: b.decode("latin1"))
    return raw(text)


def _text(rng: random.Random, data: bytes) -> bytes:
    return raw(mutate_text(rng, data.decode()))


MUTATE: dict[str, Any] = {
    "onnx": mutate_wire,
    "onednn": mutate_json,
    "certificate": mutate_json,
    "npy": mutate_npy,
    "npz": mutate_npz,
    "toml": _text,
    "text": _text,
    "bin": mutate_bytes,
}
BLIND = 0.2  # the share of mutants whose bytes are changed, without a look at what they mean


def mutate(rng: random.Random, format: str, main: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files of which `main`, and perhaps its weights, have changed."""
    data = files[main]
    if format != "bin" and rng.random() < BLIND:
        return {**files, main: mutate_bytes(rng, data)}
    if format in ("ir", "lowered"):
        weights = main.replace(".xml", ".bin")
        xml, blob = mutate_ir(rng, data, files[weights])
        return {**files, main: xml, weights: blob}
    main = "m.bin" if format == "bin" else main
    return {**files, main: MUTATE[format](rng, files[main])}
