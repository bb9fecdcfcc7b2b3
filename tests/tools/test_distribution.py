"""What tools/check_distribution.py finds in wheels and sdists, and what pyproject.toml promises."""

from __future__ import annotations

import io
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.scripts import TOOLS, script

check: Any = script("check_distribution")
ROOT = TOOLS.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAMES = ["irdeconv/__init__.py", "irdeconv/py.typed", "ir_samples/one.xml", "README.md"]
INFO = "irdeconv-1.dist-info/"
PACKED = {
    "irdeconv/__init__.py": b"",
    "irdeconv/py.typed": b"",
    "irdeconv/_samples/one.xml": b"<net/>",
    **{INFO + n: b"" for n in check.OF_WHEEL - {"RECORD"}},
}


def wheel(folder: Path, files: dict[str, bytes], mode: int = 0o644, year: int = 2020) -> Path:
    path = folder / "irdeconv-1-py3-none-any.whl"
    rows = [f"{n},{check.record_hash(d)},{len(d)}" for n, d in PACKED.items()]
    with zipfile.ZipFile(path, "w") as z:
        for name, data in {**files, f"{INFO}RECORD": "\n".join(rows).encode()}.items():
            entry = zipfile.ZipInfo(name, (year if "py.typed" in name else 2020, 2, 2, 0, 0, 0))
            entry.external_attr = mode << 16
            z.writestr(entry, data)
    return path


def sdist(folder: Path, names: list[str], uid: int = 0) -> Path:
    path = folder / "irdeconv-1.tar.gz"
    with tarfile.open(path, "w:gz") as t:
        for name in names:
            member = tarfile.TarInfo(f"irdeconv-1/{name}")
            member.uid = uid
            t.addfile(member, io.BytesIO(b""))
    return path


def test_a_right_wheel_has_no_problem(tmp_path: Path) -> None:
    assert list(check.wheel_problems(wheel(tmp_path, PACKED), NAMES)) == []


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        ({"irdeconv/py.typed": None}, {}, "irdeconv/py.typed is missing"),
        ({"irdeconv/_samples/one.xml": None}, {}, "irdeconv/_samples/one.xml is missing"),
        ({f"{INFO}licenses/LICENSE": None}, {}, f"{INFO}licenses/LICENSE is missing"),
        ({"tests/ir/test_spec.py": b""}, {}, "tests/ir/test_spec.py does not belong there"),
        ({"irdeconv/ir/graph.py~": b""}, {}, "irdeconv/ir/graph.py~ does not belong there"),
        ({"irdeconv/__init__.py": b"0"}, {}, "RECORD has another hash of irdeconv/__init__.py"),
        ({}, {"mode": 0o600}, "has mode 600"),
        ({}, {"year": 2026}, "files of several dates"),
    ],
)
def test_what_is_wrong_with_a_wheel_is_told(
    files: dict[str, bytes | None], options: dict[str, int], problem: str, tmp_path: Path
) -> None:
    packed = {n: d for n, d in {**PACKED, **files}.items() if d is not None}
    found = list(check.wheel_problems(wheel(tmp_path, packed, **options), NAMES))
    assert any(problem in f for f in found), found


def test_what_is_wrong_with_an_sdist_is_told(tmp_path: Path) -> None:
    right = [*NAMES, "PKG-INFO"]
    assert list(check.sdist_problems(sdist(tmp_path, right), NAMES)) == []
    (lacking,) = check.sdist_problems(sdist(tmp_path, right[1:]), NAMES)
    assert lacking == "irdeconv-1.tar.gz: irdeconv-1/irdeconv/__init__.py is missing"
    (more,) = check.sdist_problems(sdist(tmp_path, [*right, "secret.key"]), NAMES)
    assert more == "irdeconv-1.tar.gz: irdeconv-1/secret.key does not belong there"
    owned = list(check.sdist_problems(sdist(tmp_path, right, uid=1000), NAMES))
    assert owned[0] == "irdeconv-1.tar.gz: irdeconv-1/irdeconv/__init__.py names its owner"


def test_builds_that_differ_are_told(tmp_path: Path) -> None:
    for folder, data in (("a", b"1"), ("b", b"2")):
        (tmp_path / folder).mkdir()
        wheel(tmp_path / folder, {**PACKED, "irdeconv/__init__.py": data})
    (found,) = check.differences(tmp_path / "a", tmp_path / "b")
    assert found == "irdeconv-1-py3-none-any.whl: two builds differ: irdeconv/__init__.py"


def test_without_git_what_is_hidden_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    for name in ("irdeconv/a.py", ".ci/run", *check.CLUTTER[:1], "irdeconv/.DS_Store", "other.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert check.sources(tmp_path) == [".ci/run", "irdeconv/a.py", "pyproject.toml"]


def test_classifiers_say_what_is_so() -> None:
    listed = PROJECT["classifiers"]
    versions = [c.split()[-1] for c in listed if re.search(r":: 3\.\d+$", c)]
    first = PROJECT["requires-python"].removeprefix(">=3.")
    assert versions == [f"3.{n}" for n in range(int(first), int(first) + len(versions))]
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in versions
    assert ("Typing :: Typed" in listed) == (ROOT / "irdeconv" / "py.typed").exists()
    assert not any(c.startswith("License ::") for c in listed)  # the license field says it
    assert (ROOT / PROJECT["license-files"][0]).exists()


def test_every_extra_is_explained() -> None:
    extras = PROJECT["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    table = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    (sentence,) = re.findall(r"The extras (.*?) are for changing irdeconv", page, re.S)
    assert table | set(re.findall(r"`(\w+)`", sentence)) == set(extras)
    (everything,) = extras["all"]  # what the table lists is for users
    (named,) = re.findall(r"^irdeconv\[([\w,]+)\]$", everything)
    assert set(named.split(",")) == table - {"all"}


def test_a_package_has_the_same_lowest_version_in_every_extra() -> None:
    extras = {k: v for k, v in PROJECT["optional-dependencies"].items() if k != "all"}
    listed = [r for rows in extras.values() for r in rows]
    bounds: dict[str, set[str]] = {}
    for requirement in [*listed, *PROJECT["dependencies"]]:
        bounds.setdefault(re.split(r"[<>=;! ]", requirement)[0], set()).add(requirement)
    assert {name: b for name, b in bounds.items() if len(b) > 1} == {}
    assert [r for b in bounds.values() for r in b if ">=" not in r and "==" not in r] == []
