"""The public names: there, exported, documented, with examples that hold."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np
import pytest

import irdeconv as ird

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = [n for n in ird.__all__ if inspect.isfunction(getattr(ird, n))]


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(ird.__file__).read_text("utf-8"))
    (block, _) = (n for n in tree.body if isinstance(n, ast.If))  # the other one is __getattr__
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert seen == {name: f"irdeconv.{home}" for name, home in ird._HOMES.items()}
    assert set(ird.__all__) - {"__version__"} == set(seen)
    assert all(getattr(ird, name) is not None for name in ird.__all__)


def test_completion_offers_the_public_names() -> None:
    assert dir(ird) == sorted(ird.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lowr'"):
        ird.lowr  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; import irdeconv; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {m for m in loaded if m.startswith("irdeconv")} == {"irdeconv"}
    assert "numpy" not in loaded


def named_types(hint: Any) -> Iterator[type]:
    """Every class that an annotation names, inside of unions, lists and calls, too."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    parts = typing.get_args(hint)
    if isinstance(hint, UnionType) or parts:
        for part in parts:
            yield from (
                t for p in (part if isinstance(part, list) else [part]) for t in named_types(p)
            )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_signature_names_is_public(name: str) -> None:
    hints = typing.get_type_hints(getattr(ird, name))
    types = {t for hint in hints.values() for t in named_types(hint)}
    ours = {t.__name__ for t in types if t.__module__.startswith("irdeconv")}
    assert hints
    assert ours <= set(ird.__all__)


@pytest.mark.parametrize("name", [n for n in ird.__all__ if n != "ModelLike"])
def test_public_names_are_documented(name: str) -> None:
    value = getattr(ird, name)
    if not isinstance(value, str):
        first = (inspect.getdoc(value) or "").splitlines()[0]
        assert len(first) > 20
        assert not first.startswith(f"{name}("), "the docstring that dataclass makes"


PEERS = {
    "to_openvino",
    "lower_onnx",
    "check_onnx",
    "map_blocks",
}  # their examples import large packages


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.oracles if n in PEERS else ()) for n in FUNCTIONS]
)
@pytest.mark.filterwarnings("default")
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "ir_samples", tmp_path / "ir_samples")
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(
        getattr(ird, name), name, globs={"ird": ird, "np": np, name: getattr(ird, name)}
    )
    assert example.examples, "no example in the docstring"
    told: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not result.failed, "".join(told)


def test_help_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["PAGER"] = "cat"
    help(ird.lower)
    text = capsys.readouterr().out
    assert "Return a copy without deconvolutions" in text
    assert "<" not in text.splitlines()[2], "a default that has no readable name"
