"""The tasks of the Makefile, of .ci/run and of pre-commit do what CONTRIBUTING.md says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CHECKS = ("-m ruff check .", "-m ruff format --check .", "-m mypy")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def recipe(target: str) -> str:
    """Return the lines below a target of the Makefile."""
    (found,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", text("Makefile"), re.M)
    return str(found)


def test_every_task_is_told_and_exists() -> None:
    told = set(re.findall(r"`make ([a-z]+)", text("CONTRIBUTING.md") + text("README.md")))
    tasks = set(re.findall(r"^([a-z]+):.*## ", text("Makefile"), re.M))
    assert told >= {*"dev hooks quick check test slow golden pages docs bench ci".split()}
    assert sorted(told - tasks) == []


def test_the_checks_are_the_same_everywhere() -> None:
    for check in CHECKS:
        assert check in recipe("check")
        assert check in text(".ci/run")
    hooks = re.findall(r"entry: .venv/bin/python (-m .*)", text(".pre-commit-config.yaml"))
    wanted = ["-m ruff check", "-m ruff format", "-m mypy"]
    assert [" ".join(h.split()[:3]) for h in hooks] == wanted
    assert re.findall(r"repo: (\S+)", text(".pre-commit-config.yaml")) == ["local"]


def test_setting_up_installs_what_tests_and_checks_need() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (installed,) = re.findall(r"pip install --quiet -e '\.\[([\w,]+)\]'", recipe("$(READY)"))
    assert set(installed.split(",")) == {"test", "oracles", "browser", "dev", "docs"} <= set(extras)
    assert f"-e '.[{installed}]'" in text("CONTRIBUTING.md")
    assert any(r.startswith("pre-commit") for r in extras["dev"])


def test_an_sdist_has_what_contributors_need() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert sorted(i for i in included if not (ROOT / i).exists()) == []
    kit = {"CONTRIBUTING.md", "Makefile", ".pre-commit-config.yaml", "tests", "tools", ".ci"}
    assert kit <= set(included)
