"""Changes of a protocol buffer by its wire format: ONNX models, with no schema."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

from fuzzing.values import NAMES, integer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass
class Field:
    """A field: its number, wire type and content; `parts` where its bytes are a message."""

    number: int
    kind: int
    value: int = 0
    data: bytes = b""
    parts: list[Field] | None = None
    lie: int = field(default=0)  # by how much its length is wrong

    def copy(self) -> Field:
        """Return an independent copy."""
        parts = None if self.parts is None else [p.copy() for p in self.parts]
        return Field(self.number, self.kind, self.value, self.data, parts, self.lie)


def parse(data: bytes, depth: int = 0) -> list[Field] | None:
    """Read fields; None where the bytes are no message."""
    out, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if at < 0 or not 0 < number < 400:
            return None
        if kind == VARINT:
            value, at = _varint(data, at)
            out.append(Field(number, kind, value))
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
            out.append(Field(number, kind, data=data[at : at + size]))
            at += size
        elif kind == BYTES:
            length, at = _varint(data, at)
            content = data[at : at + length] if at >= 0 else b""
            inner = parse(content, depth + 1) if 1 < length < 1 << 16 and depth < 8 else None
            out.append(Field(number, kind, data=content, parts=inner))
            at += length
        else:
            return None
        if at < 0 or at > len(data):
            return None
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


def _number(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def render(fields: list[Field]) -> bytes:
    """Write fields."""
    out = []
    for f in fields:
        head = _number(f.number << 3 | f.kind)
        if f.kind == VARINT:
            out.append(head + _number(f.value))
        elif f.kind == BYTES:
            data = f.data if f.parts is None else render(f.parts)
            out.append(head + _number(len(data) + f.lie) + data)
        else:
            out.append(head + f.data)
    return b"".join(out)


def mutate_wire(rng: random.Random, fields: list[Field]) -> bytes:
    """Change a few fields of a copy and write it."""
    made = [f.copy() for f in fields]
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = _places(made)
        if places:
            rng.choice(_WAYS)(rng, *rng.choice(places), places)
    return render(made)[: 1 << 18]


Place = tuple[list[Field], int]


def _places(fields: list[Field]) -> list[Place]:
    out, todo = [], [fields]
    while todo:
        at = todo.pop()
        out += [(at, i) for i in range(len(at))]
        todo += [f.parts for f in at if f.parts]
    return out


def _value(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    f = at[i]
    if f.kind == VARINT:
        f.value = rng.choice((f.value + 1, f.value - 1, integer(rng), rng.randint(0, 25)))
    elif f.kind == BYTES:
        f.data, f.parts = _bytes(rng, f, places), None
    else:
        size = len(f.data)
        special = struct.pack("<f" if size == 4 else "<d", rng.choice((float("nan"), 1e30, -1.0)))
        f.data = rng.choice((special, rng.randbytes(size)))


def _bytes(rng: random.Random, f: Field, places: list[Place]) -> bytes:
    old = f.data if f.parts is None else render(f.parts)
    way = rng.randrange(6)
    if way == 0:
        return rng.choice(NAMES).encode("utf-8", "surrogatepass")
    if way == 1:
        return old[: rng.randrange(len(old) + 1)]
    if way == 2:
        return old + rng.choice((b"\0", b"x", b"\xff", old))
    if way == 3 and len(old) >= 8:
        start = rng.randrange(len(old) // 8) * 8
        return old[:start] + struct.pack("<q", integer(rng) >> 2) + old[start + 8 :]
    others = [p[0][p[1]].data for p in places if p[0][p[1]].kind == BYTES]
    same = [b for b in others if 0 < len(b) < 40]
    return rng.choice(same if same else [b""])


def _drop(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    del at[i]


def _twice(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    at[i:i] = [at[i].copy() for _ in range(rng.choice((1, 1, 2, 50)))]


def _swap(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    j = rng.randrange(len(at))
    at[i], at[j] = at[j], at[i]


def _renumber(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    at[i].number = rng.choice((at[i].number + 1, max(1, at[i].number - 1), rng.randint(1, 25)))


def _retype(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    f = at[i]
    if f.kind == BYTES:
        at[i] = Field(f.number, VARINT, rng.randint(0, 9))
    else:
        at[i] = Field(f.number, BYTES, data=rng.choice((b"", b"x", b"\1\2\3")))


def _lie(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    if at[i].kind == BYTES:
        at[i].lie = rng.choice((1, -1, 1000, 1 << 31, 1 << 40))


def _move(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    where, j = rng.choice(places)
    if len(render([at[i]])) < 4000:
        moved = at[i].copy()
        if rng.random() < 0.7:
            moved.number = where[j].number
        where.insert(j, moved)


def _nest(rng: random.Random, at: list[Field], i: int, places: list[Place]) -> None:
    f = at[i]
    for _ in range(rng.choice((1, 3, 90, 120))):
        f = Field(f.number, BYTES, parts=[f])
    at[i] = f


_WAYS = (_value, _value, _value, _value, _value, _drop, _twice, _swap, _renumber, _retype, _lie,
         _move, _nest)  # fmt: skip
