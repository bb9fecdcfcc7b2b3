"""The scripts of tools/ work with their checkout; tasks do what CONTRIBUTING.md says."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import irdeconv
from support.scripts import TOOLS, script

IMPORT = re.compile(r"^(?:import|from) (checkout|irdeconv|support)\b", re.MULTILINE)
SCRIPTS = [p for p in sorted(TOOLS.glob("*.py")) if "__main__" in p.read_text("utf-8")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_checkout_is_imported_first(path: Path) -> None:
    assert IMPORT.findall(path.read_text("utf-8"))[:1] in ([], ["checkout"])


def test_another_installation_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "irdeconv").mkdir()
    (tmp_path / "irdeconv" / "__init__.py").write_text("raise RuntimeError('the other one')\n")
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The tasks of the Makefile, of .ci/run and of pre-commit do what CONTRIBUTING.md says.


ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
OWN = [Requirement(r) for r in PROJECT["project"]["dependencies"]]
OF_EXTRAS = [Requirement(r) for name in EXTRAS.keys() - {"all"} for r in EXTRAS[name]]
REQUIRED = [*OWN, *OF_EXTRAS, *map(Requirement, PROJECT["build-system"]["requires"])]
CHECKS = ("-m ruff check .", "-m ruff format --check .", "-m mypy")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, "utf-8")
    return root


def recipe(target: str) -> str:
    """Return the lines below a target of the Makefile."""
    (found,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", text("Makefile"), re.M)
    return str(found)


def test_every_task_is_documented_and_exists() -> None:
    named = set(re.findall(r"`make ([a-z]+)", text("CONTRIBUTING.md") + text("README.md")))
    tasks = set(re.findall(r"^([a-z]+):.*## ", text("Makefile"), re.M))
    assert named >= {*"dev hooks quick check test slow golden pages docs bench ci".split()}
    assert sorted(named - tasks) == []


def test_the_checks_are_the_same_everywhere() -> None:
    for check in CHECKS:
        assert check in recipe("check")
        assert check in text(".ci/run")
    hooks = re.findall(r"entry: .venv/bin/python (-m .*)", text(".pre-commit-config.yaml"))
    wanted = ["-m ruff check", "-m ruff format", "-m mypy"]
    assert [" ".join(h.split()[:3]) for h in hooks] == wanted
    assert re.findall(r"repo: (\S+)", text(".pre-commit-config.yaml")) == ["local"]


def test_setting_up_installs_what_tests_and_checks_need() -> None:
    (installed,) = re.findall(r"pip install --quiet -e '\.\[([\w,]+)\]'", recipe("$(READY)"))
    assert set(installed.split(",")) == {"test", "oracles", "browser", "dev", "docs"} <= set(EXTRAS)
    assert f"-e '.[{installed}]'" in text("CONTRIBUTING.md")
    assert any(r.startswith("pre-commit") for r in EXTRAS["dev"])
    assert any(r.startswith("pytest-xdist") for r in EXTRAS["test"])


def test_an_sdist_has_what_contributors_need() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert sorted(i for i in included if not (ROOT / i).exists()) == []
    kit = {"CONTRIBUTING.md", "Makefile", ".pre-commit-config.yaml", "tests", "tools", ".ci"}
    assert kit <= set(included)


# tools/build_docs.py: links and anchors of HTML are checked; what a page would load is found.


build_docs = script("build_docs")


def test_links_and_anchors_that_lead_somewhere(tmp_path: Path) -> None:
    a = '<a href="b.html#here">b</a><a href="#top">top</a><p id="top"><a href="mailto:x@y">m</a>'
    b = '<h1 id="here"><a href="https://example.org/">elsewhere</a><a href="a.html">a</a>'
    assert build_docs.broken(tree(tmp_path, {"a.html": a, "b.html": b})) == []


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    a = '<a href="c.html"><a href="b.html#gone"><a href="#gone">'
    tree(tmp_path, {"a.html": a, "b.html": "<p>"})
    assert build_docs.broken(tmp_path) == ["a.html: c.html", "a.html: b.html#gone", "a.html: #gone"]


def test_what_a_browser_would_load_from_elsewhere_is_named(tmp_path: Path) -> None:
    fonts = "https://fonts.example/a.css"
    a = f'<link rel="stylesheet" href="{fonts}"><img src="//example.org/a.png">'
    loads = [f"a.html: loads {fonts}", "a.html: loads //example.org/a.png"]
    assert build_docs.broken(tree(tmp_path, {"a.html": a})) == loads


# tools/size.py counts, and holds sizes against ceilings.


size = script("size")
TEXT = '''"""Say what.

Two lines."""

import os  # code


def f():
    """One line."""
    # a comment
    return """not a
docstring"""
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    texts = {"irdeconv/a.py": "1\n" * 300, "irdeconv/ops/b.py": TEXT}
    return tree(tmp_path, texts | {"tests/t.py": "1\n" * 50, "tools/u.py": "1\n", ".ci/x": ""})


def test_rows_are_folders_and_the_files_beside_them(project: Path) -> None:
    assert size.folders(size.working_tree(project)) == {
        "irdeconv/*.py": (300, 300), "irdeconv/ops": (12, 4), "tests": (50, 50), "tools": (1, 1),
    }  # fmt: skip


def test_a_ceiling_is_held_and_lowered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert size.main(["--write", "--check"], project) == 0
    package = "package_lines = 315\ndata_lines = 0\npackage_files = 2\npackage_places = 2\n"
    tree(project, {".ci/ceilings.toml": f"{package}test_lines = 50\ntool_lines = 1\n"})
    for lines, code in ((303, 0), (304, 1), (297, 1), (301, 0)):
        tree(project, {"irdeconv/a.py": "1\n" * lines})
        assert size.main(["--check"], project) == code, capsys.readouterr().out
    tree(project, {"irdeconv/new/c.py": "", "tests/t.py": "1\n" * 49})
    assert size.main(["--check"], project) == 1
    out = capsys.readouterr().out
    assert "package_files is 3, above the ceiling of 2" in out
    assert "package_places is 3, above the ceiling of 2" in out
    assert "test_lines is 49: lower the ceiling of 50" in out


def test_the_ceilings_are_those_of_the_tool() -> None:
    held = tomllib.loads((TOOLS.parent / size.CEILINGS).read_text("utf-8"))
    assert held.keys() == size.measured(size.working_tree(TOOLS.parent), TOOLS.parent).keys()


# What tools/check_distribution.py finds in wheels and sdists, and what pyproject.toml promises.


check: Any = script("check_distribution")
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
    names = ("irdeconv/a.py", ".ci/run", *check.CLUTTER[:1], "irdeconv/.DS_Store", "other.txt")
    tree(tmp_path, {"pyproject.toml": text("pyproject.toml"), **dict.fromkeys(names, "")})
    assert check.sources(tmp_path) == [".ci/run", "irdeconv/a.py", "pyproject.toml"]


def test_classifiers_say_what_is_so() -> None:
    listed = PROJECT["project"]["classifiers"]
    versions = [c.split()[-1] for c in listed if re.search(r":: 3\.\d+$", c)]
    first = PROJECT["project"]["requires-python"].removeprefix(">=3.")
    assert versions == [f"3.{n}" for n in range(int(first), int(first) + len(versions))]
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in versions
    assert ("Typing :: Typed" in listed) == (ROOT / "irdeconv" / "py.typed").exists()
    assert not any(c.startswith("License ::") for c in listed)  # the license field says it
    assert (ROOT / PROJECT["project"]["license-files"][0]).exists()


def test_every_extra_is_explained() -> None:
    page = text("docs/install.md")
    table = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    (sentence,) = re.findall(r"The extras (.*?) are for changing irdeconv", page, re.S)
    assert table | set(re.findall(r"`(\w+)`", sentence)) == set(EXTRAS)
    (everything,) = EXTRAS["all"]  # what the table lists is for users
    (named,) = re.findall(r"^irdeconv\[([\w,]+)\]$", everything)
    assert set(named.split(",")) == table - {"all"}


def test_a_package_has_the_same_lowest_version_in_every_extra() -> None:
    bounds = {r.name: r for r in REQUIRED}
    assert [str(r) for r in REQUIRED if r != bounds[r.name]] == []
    assert [str(r) for r in REQUIRED if not re.search("[>=]=", str(r))] == []


# `make lock` writes .ci/lock.txt and the SBOM for this pyproject.toml and this version.


LOCK = text(".ci/lock.txt")
PINS = set(re.findall(r"^([\w.-]+)==(\S+)(?: ; .*)? \\\n    --hash=sha256:", LOCK, re.M))


def test_the_lock_satisfies_every_bound() -> None:
    assert len(PINS) == len(re.findall(r"^\w", LOCK, re.M))  # every line has a hash
    assert "--require-hashes" in text(".ci/run")
    assert "--require-hashes" in recipe("dist")
    for requirement in REQUIRED:
        versions = [v for name, v in PINS if name == canonicalize_name(requirement.name)]
        assert versions, f"{requirement}: make lock"
        assert all(map(requirement.specifier.contains, versions)), f"{requirement}: make lock"


def test_the_sbom_lists_dependencies_as_locked() -> None:
    bom = json.loads(text(".ci/irdeconv.cdx.json"))
    assert bom["metadata"]["component"]["version"] == irdeconv.__version__, "make lock"
    assert {(c["name"], c["version"]) for c in bom["components"]} <= PINS
    required = {c["name"] for c in bom["components"] if c["scope"] == "required"}
    assert {canonicalize_name(r.name) for r in OWN} <= required
    assert "://" not in LOCK + text(".ci/irdeconv.cdx.json")  # addresses differ between mirrors
