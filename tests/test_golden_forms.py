"""What each form emits for layers of every dialect: the files of tests/golden/forms.

A file begins with the text of a graph. A section of each form follows, begun by `--- name`: layers
that took another form, with the reason, and the text of the lowered graph unless all of them did.
`pytest --update` rewrites the sections.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.ir.op import REGISTRY, SugarOp
from irdeconv.rewrite.forms import FORMS

FILES = sorted((Path(__file__).parent / "golden" / "forms").glob("*.txt"))


def section(source: str, form: str) -> str:
    """Return what a form makes of a graph; nodes are numbered as they stand, without origins."""
    low = ird.lower(ird.infer(ird.parse(source)), form)
    others = [f"{r.name}: {r.form}, {r.reason}\n" for r in low.report if r.form != form]
    if len(others) == len(low.report):
        return "".join(others)
    text = re.sub(r" <origins = [^>]*>", "", ird.dump(low.graph))
    ids = {number: i for i, number in enumerate(re.findall(r"^  (%\d+)", text, re.M))}
    return "".join(others) + re.sub(r"%\d+", lambda m: f"%{ids[m[0]]}", text)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_what_each_form_emits(file: Path, update: bool) -> None:
    source = file.read_text("utf-8").split("--- ")[0]
    text = source + "".join(f"--- {form}\n{section(source, form)}" for form in FORMS)
    if update:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_every_dialect_is_there() -> None:
    texts = "".join(file.read_text("utf-8") for file in FILES)
    sugar = {cls for cls in REGISTRY.values() if issubclass(cls, SugarOp) and cls.deconvolution}
    shown = {cls for cls in sugar if re.search(rf"\b{cls.version}\"?\.{cls.type}\(", texts)}
    assert {(cls.__module__, cls.type) for cls in sugar} == {
        (cls.__module__, cls.type) for cls in shown
    }
