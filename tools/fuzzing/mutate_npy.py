"""Changes of saved arrays: headers of .npy files, members and directories of .npz archives."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile

from fuzzing.mutate_bytes import mutate_bytes
from fuzzing.values import integer

TYPES = (
    "<f4", ">f4", "|f4", "<f8", "<f2", "<i8", "<i4", "|u1", "|b1", "<U5", "|S7", "|O", "O",
    "<M8[s]", "<m8", "|V8", "<c16", "<V0", "|S0", "<U99999999", "f4,i4", "x", "", "<f3", "<i99",
    "bfloat16",
)  # fmt: skip
_SIZES = re.compile(r"'shape': \(([^)]*)\)")


def mutate_npy(rng: random.Random, data: bytes) -> bytes:
    """Change the header, what stands before it, or the numbers behind it."""
    if rng.random() < 0.15 or len(data) < 12:
        return mutate_bytes(rng, data)
    length = struct.unpack("<H", data[8:10])[0]
    header, rest = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    way = rng.randrange(9)
    if way < 3:
        header = _SIZES.sub(lambda _: f"'shape': {_shape(rng)}", header)
    elif way < 5:
        kind = rng.choice((*(repr(t) for t in TYPES), "[('a', '<f4'), ('b', '<i8')]", "None", "1"))
        header = re.sub(r"'descr': '[^']*'", f"'descr': {kind}", header)
    elif way == 5:
        header = _header(rng, header)
    elif way == 6:
        rest = rng.choice((b"", rest[: rng.randrange(len(rest) + 1)], rest + b"\0" * 5))
    else:
        header = header.replace("False", rng.choice(("True", "1", "None", "[]")))
    said = len(header) + (rng.choice((1, -1, 5000)) if way == 7 else 0)
    version = rng.choice((b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0")) if way == 8 else data[6:8]
    size = struct.pack("<H" if version == b"\1\0" else "<I", said % 65536)
    return data[:6] + version + size + header.encode("latin1", "replace") + rest


def _shape(rng: random.Random) -> str:
    sizes = [integer(rng) for _ in range(rng.choice((0, 1, 2, 3, 4, 40)))]
    text = repr(tuple(sizes))
    return rng.choice((text, text, text, "(1.5,)", "(True, 2)", "[2, 3]", "('a',)", "None", "6"))


def _header(rng: random.Random, header: str) -> str:
    return rng.choice(
        (
            header.replace("'", '"'), header[: rng.randrange(len(header) + 1)], "{}", "", "[]",
            "{" * 300, "(" * 5000 + "\n", header.replace("descr", "dscr"), header * 2,
            "{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,)}",
            header.replace("}", ", 'more': 1}"), "9" * 6000, "\0" * 100, header.replace(",", " "),
        )
    )  # fmt: skip


LARGE = 1 << 20  # bytes: packing them again takes too long for a mutant


def mutate_npz(rng: random.Random, whole: bytes, members: dict[str, bytes]) -> bytes:
    """Write an archive of changed members, or change its records."""
    made = list(members.items())
    if sum(map(len, members.values())) > LARGE:
        return rng.choice((mutate_bytes, _records, _records))(rng, whole)
    way = rng.randrange(8)
    if way < 3 and made:
        at = rng.randrange(len(made))
        made[at] = (made[at][0], mutate_npy(rng, made[at][1]))
    elif way == 3 and made:
        at = rng.randrange(len(made))
        names = ("", "y.npy", "../x.npy", "/x.npy", "x", "\u202ex.npy", "a" * 400, "x.npy", "x\n")
        made[at] = (rng.choice(names), made[at][1])
    elif way == 4:
        made = rng.choice((made[:-1], made * 2, [], made * 300))
    data = archive(made, rng.choice((0, 8, 8, 12, 14)))
    if way == 5:
        return mutate_bytes(rng, data)
    return _records(rng, data) if way > 5 else data


def archive(members: list[tuple[str, bytes]], method: int = 8) -> bytes:
    """Write a zip archive with names as given."""
    import warnings

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that come twice
        with zipfile.ZipFile(buffer, "w", method) as out:
            for name, data in members:
                out.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def _records(rng: random.Random, data: bytes) -> bytes:
    """Change a field of a record: method, flags, sums, sizes, lengths, offsets."""
    signatures = (b"PK\3\4", b"PK\1\2", b"PK\5\6")
    places = [m.start() for s in signatures for m in re.finditer(re.escape(s), data)]
    if not places:
        return data
    at = rng.choice(places) + 4 + 2 * rng.randrange(20)
    size = rng.choice((2, 4))
    value = rng.choice((0, 1, 8, 99, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(data), 14, 12))
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + data[at + size :]


def bomb(size: int) -> bytes:
    """Return an archive whose only member is an array of zeros that packs well."""
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}\n".encode()
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(size)
    return archive([("x.npy", data)])
