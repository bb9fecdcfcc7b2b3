"""Changes of bytes, without any idea of what they mean."""

from __future__ import annotations

import random

WORDS = (
    b"\0", b"\xff", b"\x80", b"\n", b'"', b"<", b">", b"&", b"/", b"{", b"}", b"[", b"]", b"(",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"<!DOCTYPE n>", b"<!--", b"]]>",
    b"&x;", b"&#0;", b"&#x1b;", b"\x1b[2J", b"\xff" * 4, b"\0" * 4, b"\xff" * 8, b"\x7f" * 4,
    b"9" * 30, b"-", b"e999",
)  # fmt: skip
LONGEST = 1 << 18  # bytes of a mutant


def mutate_bytes(rng: random.Random, data: bytes, times: int | None = None) -> bytes:
    """Flip, set, cut, insert, repeat, move or swap pieces, some times."""
    for _ in range(times or rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(_WAYS)(rng, data)[:LONGEST]
    return data


def _piece(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    longest = rng.choice((1, 2, 4, 16, 64, 400))
    return start, min(len(data), start + rng.randint(0, longest))


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _set(rng: random.Random, data: bytes) -> bytes:
    start, _ = _piece(rng, data)
    word = rng.choice(WORDS)
    return data[:start] + word + data[start + len(word) :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    start, _ = _piece(rng, data)
    return data[:start] + rng.choice(WORDS) + data[start:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: _piece(rng, data)[0]]


def _remove(rng: random.Random, data: bytes) -> bytes:
    start, end = _piece(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = _piece(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 20, 300)) + data[end:]


def _splice(rng: random.Random, data: bytes) -> bytes:
    start, end = _piece(rng, data)
    to, over = _piece(rng, data)
    return data[:to] + data[start:end] + data[over if rng.random() < 0.5 else to :]


def _swap(rng: random.Random, data: bytes) -> bytes:
    a, b, c, d = sorted([*_piece(rng, data), *_piece(rng, data)])
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _digits(rng: random.Random, data: bytes) -> bytes:
    places = [i for i, b in enumerate(data) if 48 <= b <= 57]
    if not places:
        return _flip(rng, data)
    at = rng.choice(places)
    return data[:at] + rng.choice((b"0", b"9", b"-1", b"99999999999", b"")) + data[at + 1 :]


_WAYS = (_flip, _flip, _set, _insert, _truncate, _remove, _repeat, _splice, _swap, _digits, _digits)
