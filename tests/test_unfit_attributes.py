"""Attributes that no file can have: a program or the text form has made them."""

from __future__ import annotations

from pathlib import Path

import pytest

import irdeconv as ird
from support.hostile import FOLDER

UNFIT = [
    ("text_no_levels.ird", "E210", "levels is 0"),
    ("text_parameter_of_body.ird", "E213", "above 9223372036854775807"),
]


@pytest.mark.parametrize(("name", "code", "words"), UNFIT)
def test_attributes_that_no_reader_takes_are_neither_inferred_nor_written(
    name: str, code: str, words: str, tmp_path: Path
) -> None:
    g = ird.parse((FOLDER / "files" / name).read_text())
    for act in (lambda: ird.infer(g), lambda: ird.write(g, tmp_path / "out.xml")):
        with pytest.raises(ird.IrdeconvError) as caught:
            act()
        found = [d for d in caught.value.diagnostics if d.severity == "error"]
        assert [d.code for d in found] == [code]
        assert words in found[0].message
    assert list(tmp_path.iterdir()) == []
