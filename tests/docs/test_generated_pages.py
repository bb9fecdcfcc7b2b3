"""The pages that tools/ generates are what the tools would write now."""

from pathlib import Path

import pytest

from support.scripts import page_maker

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAKERS = (
    "codes",
    "faults",
    "operations",
    "python",
    "schemas",
    pytest.param("targets", marks=pytest.mark.slow),  # 240 layers are lowered; .ci/run does it
    "verbs",
)  # test_forms_table.py looks at those of forms
WHOLE = ("codes", "operations", "targets", "verbs")  # folders in which all pages are generated


@pytest.mark.parametrize("name", MAKERS)
def test_pages_are_what_would_be_written(name: str) -> None:
    if name == "verbs":
        pytest.importorskip("onnx")  # the example of `convert`
    pages = page_maker(name).pages()
    stale = [str(p) for p, text in pages.items() if not p.exists() or p.read_text("utf-8") != text]
    assert stale == [], "make pages"
    if name in WHOLE:
        assert set((DOCS / name).rglob("*")) <= set(pages), "a page of something that is gone"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["ethos-u55", "rk3588"])
def test_the_page_of_a_device(name: str) -> None:
    page = DOCS / "targets" / f"{name}.md"
    assert page_maker("targets").page_of(name) == page.read_text("utf-8"), "make pages"


# docs/python.md has every public name, as it is.


def test_every_public_name_has_a_section() -> None:
    assert page_maker("python").missing() == set(), "names that no section of the tool has"
