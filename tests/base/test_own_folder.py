"""What is kept between processes: in the user's own folder, private, damaged or not."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from irdeconv.kernels import jit
from irdeconv.kernels.jit import is_private, private_folder, processor, user_folder
from irdeconv.runtime.executors import MeasuredKernels, Tuner
from support.commands import Patch

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files here")


def test_the_place(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setattr(jit.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "irdeconv"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder() == tmp_path / ".cache" / "irdeconv"
    monkeypatch.setattr(jit.sys, "platform", "darwin")
    assert user_folder() == tmp_path / "Library/Caches/irdeconv"
    monkeypatch.setattr(jit.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert user_folder() == tmp_path / "irdeconv"


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("open_to", [0o720, 0o702, 0o777])
def test_what_others_may_write_is_not_used(open_to: int, tmp_path: Path) -> None:
    made = tmp_path / "a" / "b"
    assert private_folder(made)
    made.chmod(open_to)
    assert private_folder(made) is None
    made.chmod(0o700)
    made.parent.chmod(open_to)
    assert private_folder(made) is None
    made.parent.chmod(0o700)
    assert private_folder(made)


def test_what_is_not_the_users_is_not_used(tmp_path: Path, monkeypatch: Patch) -> None:
    assert private_folder(tmp_path / "a")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert private_folder(tmp_path / "a") is None
    assert not is_private(tmp_path)


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert private_folder(tmp_path / "file" / "a") is None


def _measurements(path: Path) -> dict[str, str]:
    return Tuner(measure=True, path=path)._load()


def test_measurements_of_others_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.write_text(json.dumps({"schema": MeasuredKernels.json_schema, "kernels": {"a": "b"}}))
    path.chmod(0o600)
    assert _measurements(path) == {"a": "b"}
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="others may change it"):
        assert _measurements(path) == {}


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", "[" * 100_000, '{"schema": 1}', "9" * 9999])
def test_damaged_measurements_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.warns(RuntimeWarning, match="measured anew"):
        assert _measurements(path) == {}


def test_the_processor_is_known() -> None:
    assert len(processor()) == 16


@pytest.mark.skipif(not jit.installed(), reason="numba is not installed")
def test_damaged_code_is_compiled_anew(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: str(tmp_path))

    def twice(x: float) -> float:
        return x + x

    assert jit.compiled_for("f8(f8)")(twice)(2.0) == 4.0
    kept = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert {p.suffix for p in kept} == {".nbi", ".nbc"}
    assert jit.compiled_for("f8(f8)")(twice).stats.cache_hits
    for path in kept:
        path.write_bytes(b"\x80\x05 no pickle")
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert jit.compiled_for("f8(f8)")(twice)(np.float64(3)) == 6.0


@pytest.mark.skipif(not jit.installed(), reason="numba is not installed")
def test_without_a_private_place_nothing_is_kept(tmp_path: Path, monkeypatch: Patch) -> None:
    from numba import config

    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    try:
        assert jit.cache_folder() is None
        assert jit.compiled_for("f8(f8)")(lambda x: x + 1)(1.0) == 2.0
        assert str(tmp_path / "cache") == config.CACHE_DIR
    finally:
        jit.cache_folder.cache_clear()
