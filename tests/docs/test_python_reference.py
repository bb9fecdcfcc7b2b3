"""docs/python.md has every public name, as it is."""

from __future__ import annotations

from support.scripts import page_maker


def test_every_public_name_has_a_section() -> None:
    assert page_maker("python").missing() == set(), "names that no section of the tool has"
