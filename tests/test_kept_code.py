"""Compiled code that is kept: by the state of the sources, saved by one process at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from irdeconv.kernels import jit


def test_the_folders_used_longest_ago_are_removed(tmp_path: Path) -> None:
    for age, name in enumerate(("now", "a", "b", "c", "d")):
        (tmp_path / f"this-{name}").mkdir()
        os.utime(tmp_path / f"this-{name}", (1000 - age, 1000 - age))
    (tmp_path / "other-a").mkdir()
    jit._sweep(tmp_path, "this", tmp_path / "this-c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other-a", "this-a", "this-c", "this-now"]


def test_the_state_is_that_of_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("shared", "compiled"):
        (tmp_path / folder).mkdir()
    (tmp_path / "shared" / "jit.py").write_text("1")
    source = tmp_path / "compiled" / "vectors.py"
    source.write_text("2")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "shared" / "jit.py"))
    before = jit._state_of_sources()
    assert jit._state_of_sources() == before
    source.write_text("3")
    assert jit._state_of_sources() != before


def test_one_saves_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    inside, most, entered = 0, 0, threading.Barrier(3)

    def save() -> None:
        nonlocal inside, most
        entered.wait()
        for _ in range(50):
            with jit._alone_in(str(tmp_path)):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=save) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.skipif(not jit.installed(), reason="numba is not installed")
def test_code_is_saved_while_no_other_process_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(jit, "cache_folder", lambda: str(tmp_path))

    def twice(x):  # type: ignore[no-untyped-def]
        return x + x

    made = jit.compiled(twice)
    file, saved = made._cache._cache_file, []
    save = file.save

    def watched(*given: object) -> None:
        handle = os.open(made._cache.cache_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        saved.append(given)
        save(*given)

    file.save = watched
    assert (made(2), made(2.5)) == (4, 5.0)
    again = jit.compiled(twice)
    assert (again(2), again(2.5)) == (4, 5.0)
    assert (len(saved), sum(again.stats.cache_hits.values())) == (2, 2)


def test_a_folder_that_was_removed_meanwhile_is_no_error(tmp_path: Path) -> None:
    entered = []
    with jit._alone_in(str(tmp_path / "gone")):
        entered.append(True)
    assert entered
