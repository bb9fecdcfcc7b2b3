"""List the other files that an ONNX file names for its data, without reading its tensors.

The file is walked as protobuf: fields without such a name are skipped, however large. So it costs
little, takes no memory, and needs no package.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from irdeconv.base.opening import open_file, size_of
from irdeconv.formats.onnx_container import file_inside

# The messages of onnx.proto that lead to a tensor's external data, by the numbers of their fields.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": dict.fromkeys((5, 10), "tensor")
    | dict.fromkeys((6, 11), "graph")
    | dict.fromkeys((22, 23), "sparse"),
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
    "entry": {1: "key", 2: "value"},
}
_FIXED = {1: 8, 5: 4}  # bytes of fields, by their wire type
_VARINT, _LENGTH = 0, 2
MOST_FIELDS = 2_000_000  # a second or two; real models have some 100,000
MOST_NAME = 4096  # bytes


def external_files(path: Path) -> list[Path]:
    """Return the files in a model's folder that its tensors name, in the order of first use.

    The walk ends at the first bytes that are no ONNX; reading the file reports the error. OSError.
    """
    with open_file(path) as file:
        names = _locations(file, size_of(file))
    found = []
    for name in names:
        try:
            found.append(file_inside(path.parent, name))
        except (OSError, ValueError):  # reading refuses it
            continue
    return found


def _locations(file: BinaryIO, size: int) -> list[str]:
    """Return the values of entries with the key "location", each once."""
    names: dict[str, None] = {}
    entry: dict[str, bytes] = {}
    inside = [("model", size)]
    for _ in range(MOST_FIELDS):
        while len(inside) > 1 and file.tell() >= inside[-1][1]:
            if inside.pop()[0] == "entry":
                if entry.get("key") == b"location":
                    names[entry.get("value", b"").decode("utf-8", "replace")] = None
                entry = {}
        kind, end = inside[-1]
        tag, length = _field(file)
        start = file.tell()
        if tag is None or start + length > end:
            break
        into = _FIELDS[kind].get(tag >> 3) if tag & 7 == _LENGTH else None
        if into in ("key", "value"):
            entry[into] = file.read(min(length, MOST_NAME))
        if into in _FIELDS:
            inside.append((into, start + length))
        else:
            file.seek(start + length)
    return list(names)


def _field(file: BinaryIO) -> tuple[int | None, int]:
    """Return the tag of a field and how many bytes follow; no tag if there is no field."""
    tag = _varint(file)
    kind = -1 if tag is None else tag & 7
    if kind == _VARINT:
        return (tag, 0) if _varint(file) is not None else (None, 0)
    if kind == _LENGTH:
        length = _varint(file)
        return (tag, length) if length is not None else (None, 0)
    return (tag, _FIXED[kind]) if kind in _FIXED else (None, 0)


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    return None
