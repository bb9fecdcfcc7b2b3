"""Limits that keep a hostile file from exhausting the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a file may contain; give higher values for files that you trust.

    `xml_bytes` is the size of the `.xml`. `layers` and `edges` count the whole file with its
    bodies. `depth` limits bodies in bodies (libxml2 itself stops at 256 nested elements). `reports`
    is the number of diagnostics of one code that are printed in full.
    """

    xml_bytes: int = 2 * 2**30
    layers: int = 1_000_000
    edges: int = 8_000_000
    depth: int = 32
    reports: int = 100
