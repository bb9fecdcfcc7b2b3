"""Reading IR texts in tests: diagnostics as (code, line, column)."""

from __future__ import annotations

import irbuild as ib

import irdeconv.dialects
import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.io.reading import Loaded, load

Found = list[tuple[str, int, int]]


def found(loaded: Loaded) -> Found:
    out = []
    for d in loaded.diagnostics:
        assert d.location is not None, d
        where = d.location.position or (0, 0)
        out.append((d.code, *where))
        assert d.render()
    return sorted(out)


def read(xml: str | bytes, weights: bytes | None = ib.CHAIN_BYTES) -> Loaded:
    return load(xml if isinstance(xml, bytes) else xml.encode(), weights, name="net.xml")


def codes(loaded: Loaded) -> list[str]:
    return sorted(d.code for d in loaded.diagnostics)
