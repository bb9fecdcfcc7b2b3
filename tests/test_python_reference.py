"""docs/python.md has every public name, as it is."""

from __future__ import annotations

from support.scripts import script


def test_the_page_is_current() -> None:
    tool = script("make_python_reference")
    assert tool.missing() == set(), "names that no section of the tool has"
    assert tool.TARGET.read_text() == tool.page(), "run tools/make_python_reference.py"
