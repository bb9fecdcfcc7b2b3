"""The support table: `irdeconv inspect --operations`, ird.operations, docs/operations.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.ir.op import LAST_OPSET, lookup
from irdeconv.ops import catalog
from op_cases import all_cases
from support.commands import command

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "ir_samples/openvino/group_deconv.xml"
ROWS = ird.operations().rows


def test_every_type_has_a_section_that_the_page_links_to() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    linked = dict(re.findall(r"^\| \[(\w+)\]\(operations/(\w+)\.md#\w+\)", page, re.M))
    assert set(linked) == {r.type for r in ROWS}
    for type, family in linked.items():
        text = (ROOT / f"docs/operations/{family}.md").read_text("utf-8")
        assert f"\n## {type}\n" in text


def test_every_operation_of_every_opset_is_listed_once() -> None:
    listed = sorted((r.type, n) for r in ROWS for n in r.opsets)
    known = sorted((t, n) for t in catalog.CATALOG for n in catalog.opsets(t) if n <= LAST_OPSET)
    assert listed == known


def test_what_is_executed_has_no_reason_and_the_rest_has_one() -> None:
    assert all((r.state == "executed") == (r.reason == "") for r in ROWS)


def test_element_types_are_those_that_rows_have() -> None:
    """Whatever a row of op_cases runs with is in the table."""
    words = dict.fromkeys(("f64", "f32", "f16"), "floating-point")
    words |= dict.fromkeys(("i64", "i32"), "integers")
    by_class = {lookup(r.type, f"opset{r.opsets[0]}"): r for r in ROWS}
    for case in all_cases().values():
        row = by_class.get(lookup(case.type, case.version))
        kinds = {t.dtype.name for t in case.inputs}
        if row is None or not row.element_types or not kinds & set(words):
            continue
        allowed = row.element_types.split(", ")
        spelled = {"any", *kinds, *(words[k] for k in kinds if k in words)}
        assert spelled & set(allowed), (row, case)


@pytest.mark.parametrize(
    ("type", "opset", "types"),
    [
        ("Abs", 1, "floating-point, integers"),
        ("BatchNormInference", 1, "floating-point"),
        ("BitwiseAnd", 13, "integers, boolean"),
        ("LogicalNot", 1, "boolean"),
        ("Reshape", 1, "any"),
        ("Parameter", 1, ""),
    ],
)
def test_element_types(type: str, opset: int, types: str) -> None:
    (row,) = (r for r in ROWS if r.type == type and opset in r.opsets)
    assert row.element_types == types


def test_optional_inputs_stand_in_brackets() -> None:
    (row,) = ird.operations("cumsum").rows
    assert row.inputs == "data, [axis]"
    assert ird.operations("Concat").rows[0].inputs == "..."


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("inspect", "--operations", "--only", "Gather*") == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("GatherN")]
    assert command("inspect", "--operations", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["operations"]) == len(ROWS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect",),
        ("inspect", "--operations", str(SAMPLE)),
        ("inspect", "--operations", "--lower"),
        ("inspect", "--operations", "--format", "html"),
        ("inspect", "--operations", "--only", "Nothing"),
    ],
)
def test_misuse_is_refused(arguments: tuple[str, ...]) -> None:
    assert command(*arguments) == 2


def test_an_unknown_type_is_refused_with_its_neighbour() -> None:
    with pytest.raises(UsageError, match="Gather"):
        ird.operations("Gathr")
