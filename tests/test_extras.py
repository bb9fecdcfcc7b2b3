"""Extra packages that are missing or broken: a diagnostic with the cause in every place."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.extras import INSTALLED_BY, ExtraError, extra
from irdeconv.cli.main import main
from irdeconv.kernels import jit
from support.small_net import write_small_net

ROOT = Path(__file__).resolve().parent.parent
BROKEN = {  # what a package does when it is imported, and what is said of it
    "raise OSError('libx.so.1: cannot open shared object file')": "OSError: libx.so.1: cannot open",
    "raise RuntimeError('built for NumPy 1')": "RuntimeError: built for NumPy 1",
    "import sys; sys.gone": "AttributeError: module 'sys' has no attribute 'gone'",
    "import a_module_that_is_not_there": "ModuleNotFoundError: No module named 'a_module_that",
    "raise ValueError('x ' * 400)": "ValueError: x x x",
    "": "",  # a folder of that name, without anything in it
}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, code: str) -> None:
    """Put a package in front of all others."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(code)
    for name in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # so that it is gone again afterwards
    del sys.modules[package]
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = write_small_net(tmp_path)
    (tmp_path / "net.onnx").write_bytes(b"\x08\x09\x12\x00")
    return path


@pytest.mark.parametrize("code", BROKEN)
@pytest.mark.parametrize(
    ("package", "command", "exit_code", "message"),
    [
        ("openvino", ["compare", "net.xml", "openvino"], 4, "error[E520]: comparing with OpenVINO"),
        ("onnx", ["convert", "net.onnx", "-o", "out.xml"], 4, "error[E520]: reading ONNX models"),
        ("onnx", ["bench", "net.onnx"], 4, "error[E520]: reading ONNX models"),
    ],
)
def test_a_broken_package(
    net: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    package: str,
    command: list[str],
    exit_code: int,
    message: str,
) -> None:
    install(net.parent / "site", monkeypatch, package, code)
    monkeypatch.chdir(net.parent)
    assert main(command) == exit_code
    err = capsys.readouterr().err
    assert message in err
    assert f"is installed but cannot be used: {BROKEN[code]}" in err
    assert max(map(len, err.split("\n"))) < 400
    assert "bug" not in err


@pytest.mark.parametrize("package", ["onnx", "openvino"])
def test_a_missing_package(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)

    def nowhere(name: str, *args: object) -> None:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    finder = SimpleNamespace(find_spec=nowhere)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.chdir(net.parent)
    commands = {
        "onnx": ["convert", "net.onnx", "-o", "out.xml"],
        "openvino": ["compare", "net.xml", "openvino"],
    }
    assert main(commands[package]) == 4
    err = capsys.readouterr().err
    assert "is not installed" in err
    assert f"pip install 'irdeconv[{INSTALLED_BY[package]}]'" in err


def test_the_extras_that_messages_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for package, name in INSTALLED_BY.items():
        needed = project["optional-dependencies"][name]
        assert any(n.startswith({"z3": "z3-solver"}.get(package, package)) for n in needed)


def test_a_runtime_that_does_not_start(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "class Core:\n def __init__(self): raise RuntimeError('no plugins.xml')\n"
    code += "Model = PartialShape = opset8 = None\n"
    install(net.parent / "site", monkeypatch, "openvino", code)
    assert main(["compare", str(net), "openvino"]) == 4
    assert "error[E506]: OpenVINO does not start: no plugins.xml" in capsys.readouterr().err


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_peer_does_not_end_a_measurement(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    from irdeconv.run.machine import Ceilings

    found = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
    monkeypatch.setattr("irdeconv.run.bench.measure_ceilings", lambda clock: found)
    monkeypatch.setattr("irdeconv.run.peers.installed", lambda package: "1.0")
    install(net.parent / "site", monkeypatch, "openvino", code)
    given = ("--against", "openvino", "--rounds", "1", "--time", "0", "--format", "json")
    assert main(["bench", str(net), *given]) == 0
    (peer,) = json.loads(capsys.readouterr().out)["peers"]
    assert f"is installed but cannot be used: {BROKEN[code]}" in peer["problem"]


def test_the_doctor_tells_broken_extras(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path / "site", monkeypatch, "onnx", "raise OSError('libx.so.1')")
    monkeypatch.setattr("irdeconv.cli.doctor.version", lambda name: "1.0")
    for name in ("numba", "openvino", "onnxruntime", "z3"):
        monkeypatch.setitem(sys.modules, name, None if name == "numba" else sys)
    assert main(["doctor", "--format", "json"]) == 0  # extras are not required
    extras: dict[str, Any] = json.loads(capsys.readouterr().out)["extras"]
    assert extras["onnx"]["problem"] == "OSError: libx.so.1"
    assert extras["onnxruntime"]["problem"] is None
    assert main(["doctor"]) == 0
    assert "onnx          1.0: OSError: libx.so.1" in capsys.readouterr().out


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_compiler_is_no_compiler(
    net: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    install(net.parent / "site", monkeypatch, "numba", code)
    monkeypatch.setattr(jit, "_BROKEN", set())
    jit.installed.cache_clear()
    try:
        assert jit.installed()
        ird.compile(ird.read(net), None).run([np.ones((1, 3, 4, 4), np.float32)])
        assert not jit.works()
        assert not jit.available()
        assert main(["run", str(net), "-q"]) == 0
    finally:
        jit.installed.cache_clear()


def test_what_is_there_is_returned() -> None:
    assert extra("json", "dumps") is json
    with pytest.raises(ExtraError, match="has no attribute 'nothing'"):
        extra("json", "nothing")
    assert issubclass(ird.UnsupportedError, ird.IrdeconvError)
