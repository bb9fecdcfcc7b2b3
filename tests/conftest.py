"""Options of all tests: the quick ones, expected outputs, runs in which a skip is a failure."""

import gc
import json
import math
import os
import random
import shutil
import sys
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from irdeconv.cli.console import Console
from irdeconv.kernels import panels
from irdeconv.kernels import scratch as blocking
from support.blocks import SMALL
from support.ir_text import write_small_net
from support.schemas import require_schema

# The workers of pytest-xdist share the cores; threads of BLAS below them only get into the way.
if os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Without bytecode, each of some hundred processes that tests start compiles the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
_MEMORY = "TMPDIR" not in os.environ and os.path.isdir("/dev/shm")
if _MEMORY and shutil.disk_usage("/dev/shm").free > 2**32:
    # To flush files and remove them takes a third of the time of the batch tests on a disk.
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = "/dev/shm"
OTHERS = {"slow", "thorough", "oracles", "browser"}  # marks of tests that are not quick
NO_SKIPS = bool(os.environ.get("IRDECONV_NO_SKIPS"))


def _guarded(product: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse products of matrices in the package that let NumPy warn.

    On some processors BLAS raises floating-point flags on memory beyond short rows: finite numbers
    then give "invalid value encountered in dot", on this machine or on another.
    """

    def guarded(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        if caller.startswith("irdeconv.") and np.geterr()["invalid"] != "ignore":
            raise AssertionError(f"{caller}: {product.__name__} outside np.errstate(all='ignore')")
        return product(*args, **kwargs)

    return guarded


for _name in ("matmul", "dot", "tensordot", "einsum"):
    setattr(np, _name, _guarded(getattr(np, _name)))

LONGEST_CHECKED = 200_000  # characters; the schema of a layer is the same in larger documents
_write_text = Console.raw


def _checked(console: Console, text: str) -> None:
    """Hold every JSON document that a test prints against its schema."""
    if text.startswith('{\n "schema": "irdeconv/') and len(text) < LONGEST_CHECKED:
        require_schema(json.loads(text))
    _write_text(console, text)


Console.raw = _checked  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="run the tests of expected outputs only, and rewrite these instead of comparing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow and quick; with --update keep those that have expected outputs."""
    _leave_to_slow(items)
    for item in items:
        if not {mark.name for mark in item.iter_markers()} & OTHERS:
            item.add_marker("quick")
    if config.getoption("--update"):
        others = [i for i in items if "update" not in getattr(i, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [i for i in items if "update" in getattr(i, "fixturenames", ())]


def pytest_collection_finish() -> None:
    """Keep the tests themselves out of collections of garbage, and make these rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)


def _leave_to_slow(items: list[pytest.Item]) -> None:
    """Of the rows of a test with the mark `sampled(N)`, leave all but N to `-m slow`."""
    rows: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marks = {mark.name: mark for mark in item.iter_markers()}
        mark = marks.get("sampled")
        if mark is not None and "slow" not in marks:
            rows.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    for (name, count), every in rows.items():
        kept = random.Random(name).sample(every, min(count, len(every)))
        for item in set(every) - set(kept):
            item.add_marker("slow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out comparisons with peers where these are not installed."""
    if find_spec("openvino") is None and item.get_closest_marker("oracles"):
        pytest.skip("the extra `oracles` is not installed")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every message stand on one line, so that tests find its words side by side."""
    monkeypatch.setenv("COLUMNS", "9999")


@pytest.fixture
def pipe(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as into a pipe: 80 columns, no colours, no times, wherever the tests are started."""
    monkeypatch.setattr("irdeconv.cli.running.WORTH_SAYING", math.inf)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether expected outputs are to be rewritten."""
    return bool(request.config.getoption("--update"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return _refuse_skip((yield))


def _refuse_skip(report: Any) -> Any:
    if NO_SKIPS and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but IRDECONV_NO_SKIPS is set: {report.longrepr}"
    return report


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split the work of every kernel into several blocks."""
    monkeypatch.setattr(blocking, "SIZES", SMALL)


@pytest.fixture(autouse=True)
def few_tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one tile of the micro-kernel but in full sweeps: each stride compiles it anew."""
    tiles = panels.own_tiles()
    some = tiles[2], tiles[1], tiles[-1]  # the first that has whole turns, of up to 6 rows
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(
            panels, "_best_of", lambda *size: next(t for t in some if t.rows % size[-1] == 0)
        )


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A file with a network of one small deconvolution."""
    return write_small_net(tmp_path)
