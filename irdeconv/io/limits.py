"""Limits that keep a hostile file from exhausting the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a file may contain; raise single values for files that are trusted.

    `xml_bytes` bounds the `.xml`, `layers` and `edges` count all of a file with its bodies,
    `depth` bounds nested bodies (libxml2 itself stops at 256 elements), `reports` how many
    diagnostics of one code are given in full.
    """

    xml_bytes: int = 2 * 2**30
    layers: int = 1_000_000
    edges: int = 8_000_000
    depth: int = 32
    reports: int = 100
