"""docs/forms.md is true: its numbers follow from theory, its rows are what the script prints."""

import math
from pathlib import Path

import pytest

from irdeconv.base.form_names import CONDITIONS
from irdeconv.rewrite.forms import FORMS
from support.public_layers import PUBLISHED, Published, macs_by_theory
from support.rows import each_row
from support.scripts import page_maker

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "docs/forms.md").read_text("utf-8").splitlines()
CELLS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES]
# What is computed anew here; the script computes all.
QUICK_MACS = 50_000_000
QUICK_FILTER = 200_000
QUICK_RESIDUES = 64
FORMS_TABLE = page_maker("forms")


def rows(network: str) -> list[list[str]]:
    """The cells of a network's rows in the table of forms."""
    return [r[1:] for r in CELLS if r[0] == network and len(r) == len(FORMS_TABLE.COLUMNS)]


def is_quick(published: Published) -> bool:
    size = math.prod(published.layer.filter_shape)
    return (
        published.layer.products <= QUICK_MACS
        and size <= QUICK_FILTER
        and math.prod(published.layer.strides) <= QUICK_RESIDUES
    )


@each_row("published", PUBLISHED)
def test_every_row_is_theory_and_everything_is_proved(published: Published) -> None:
    theory = macs_by_theory(published.layer)
    assert theory["direct"] == published.layer.products
    table = rows(published.network)
    assert [r[0] for r in table] == list(FORMS)
    for form, by_theory, by_cost, counted, *_, proof, probe, equal in table:
        if by_theory.startswith("does not apply: "):
            assert CONDITIONS[form]
            assert form != "gemm" or published.kernel != published.stride
            continue
        assert by_theory == by_cost == counted == f"{theory[form]:,}"
        assert (proof, probe, equal) == ("proved", "equal", "yes")


def test_networks_and_kinds_are_many() -> None:
    layers = [p.layer for p in PUBLISHED]
    assert len({p.network for p in PUBLISHED}) == len(PUBLISHED) >= 20
    assert {la.axes for la in layers} == {1, 2, 3}
    assert sum(p.kernel == p.stride for p in PUBLISHED) >= 5
    assert sum(p.groups > 1 for p in PUBLISHED) >= 3


@pytest.mark.sampled(10)
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda p: p.network)
def test_layers_and_choices_are_those_of_the_code(published: Published) -> None:
    for row in (FORMS_TABLE.layer_row(published), FORMS_TABLE.choice_row(published)):
        assert list(row) in CELLS


QUICK = [p for p in PUBLISHED if is_quick(p)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("published", QUICK, ids=lambda p: p.network)
def test_quick_rows_are_printed_again(published: Published) -> None:
    printed = list(FORMS_TABLE.form_rows(published))
    assert len(printed) == len(FORMS)
    assert [row for row in printed if row not in CELLS] == []


def test_there_are_quick_rows() -> None:
    assert len(QUICK) >= 5
