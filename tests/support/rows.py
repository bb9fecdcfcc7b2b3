"""Tests of many rows.

Of small ones one test runs them all and names each one that fails: pytest takes some milliseconds
for a test of its own, more than most rows take. Of long sweeps some parts run by default.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

SHOWN = 1500  # characters of one failure
Test = Callable[..., None]
Rows = Iterable[Any] | Mapping[str, Any]


def tables(test: str) -> dict[str, Any]:
    """Return the rows without Python in the TOML file beside a test; its arrays become tuples."""
    read: dict[str, Any] = tomllib.loads(Path(test).with_suffix(".toml").read_text("utf-8"))
    return {name: _fixed(rows) for name, rows in read.items()}


def _fixed(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_fixed, value))
    return {k: _fixed(v) for k, v in value.items()} if isinstance(value, dict) else value


def each_row(names: str | Sequence[str], rows: Rows | Callable[[], Rows]) -> Callable[[Test], Test]:
    """Give a test every row, as `parametrize` would, but within one test.

    The keys of a mapping are the names of its rows. A function that makes the rows is called when
    the test runs. The rows share the fixtures, also those of one function. A second decorator of
    the kind gives all pairs of rows.
    """
    wanted = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            table = _named(rows() if callable(rows) else rows)
            assert table, "no rows"
            failed = []
            for name, row in table:
                values = row if len(wanted) > 1 else (row,)
                try:
                    test(**dict(zip(wanted, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as e:
                    failed.append(f"[{name}] {type(e).__name__}: {e}"[:SHOWN])
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(table)} rows:", *failed]))

        run.__dict__.update(vars(test))  # the marks
        signature = inspect.signature(test)
        others = [p for n, p in signature.parameters.items() if n not in wanted]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(run, attribute, getattr(test, attribute))
        return run

    return decorate


def _named(rows: Rows) -> list[tuple[str, Any]]:
    if isinstance(rows, Mapping):
        return list(rows.items())
    return [(f"{row}"[:120], row) for row in rows]


def parts(usual: int, every: int | Iterable[Any]) -> list[Any]:
    """Return all parts, or their numbers; from `usual` on they run only with `-m slow`."""
    values = list(range(every) if isinstance(every, int) else every)
    return values[:usual] + [pytest.param(v, marks=pytest.mark.slow) for v in values[usual:]]
