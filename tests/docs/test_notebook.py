"""The notebook of ir_samples/ runs from the first cell to the last, and shows what it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path("ir_samples/deconvolution.ipynb")


@pytest.fixture(scope="module")
def cells() -> dict[str, dict[str, Any]]:
    """What the code cells show, by their last line."""
    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    ).execute()
    shown = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source:
            results = [o.data for o in cell.outputs if o.output_type == "execute_result"]
            printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
            shown[cell.source.splitlines()[-1]] = results[0] if results else {"printed": printed}
    return shown


def test_the_file_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_pictures(cells: dict[str, dict[str, Any]]) -> None:
    for last in ("graph", 'ird.explain(network, "up2")'):
        assert cells[last]["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize(
    ("last", "word"),
    [
        ('ird.lower(network, "auto").report', "DepthToSpace"),
        ("ird.check_certificate(network, stacked)", "2 of 2 rewritten layers equal"),
        ("ird.compare(network, stacked, image)", "12 layers compared"),
        ("ird.compile(stacked)", "head"),
    ],
)
def test_reports_are_tables(cells: dict[str, dict[str, Any]], last: str, word: str) -> None:
    assert word in cells[last]["text/html"]


def test_texts(cells: dict[str, dict[str, Any]]) -> None:
    assert "GroupConvolutionBackpropData" in cells["print(ird.inspect(graph))"]["printed"]
    assert cells["ird.validate(network)"]["text/plain"] == "[]"
    for last in ("by_definition", "by_convolution"):
        assert cells[last]["text/plain"] == "array([20, 50, 40, 90, 60])"
