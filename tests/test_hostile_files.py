"""Hostile files: every command on them ends with the expected code, at the expected place."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hostile import ANSWER, FOLDER, HostileCase, hostile_cases, write_cases

CASES = hostile_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_answer(
    case: HostileCase, tmp_path: Path, capsys: pytest.CaptureFixture[str], update: bool
) -> None:
    found = case.answer(tmp_path, capsys)
    assert found[0] != 70
    if update:
        case.row.update(zip(ANSWER, found, strict=True))
        write_cases([c.row for c in CASES])
    assert found == case.expected


def test_every_file_has_an_answer() -> None:
    asked = {Path(c.row["file"]).stem for c in CASES if "file" in c.row}
    assert {p.stem for p in (FOLDER / "files").iterdir()} <= asked
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names)
