"""Optional packages, the compiler that is loaded late, the code that is kept."""

import copy
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.extras import INSTALLED_BY, ExtraError, extra, is_plain
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.jit import retried
from irdeconv.ops.activation import ReLU
from irdeconv.ops.convolution import Convolution
from irdeconv.runtime.plan import COMPILED_SAVES, LOADING, gains_by_compiling
from support.commands import Capture, Patch, answer
from support.ir_text import write_small_net
from support.layers import begun, constant, parameter, result
from support.networks import image, network

# Extra packages that are missing or broken: a diagnostic with the cause in every place.

ROOT = Path(__file__).resolve().parents[2]
BROKEN = {  # what a package does when it is imported, and what is said of it
    "raise OSError('libx.so.1: cannot open shared object file')": "OSError: libx.so.1: cannot open",
    "raise RuntimeError('built for NumPy 1')": "RuntimeError: built for NumPy 1",
    "import sys; sys.gone": "AttributeError: module 'sys' has no attribute 'gone'",
    "import a_module_that_is_not_there": "ModuleNotFoundError: No module named 'a_module_that",
    "raise ValueError('x ' * 400)": "ValueError: x x x",
    "": "",  # a folder of that name, without anything in it
}


def install(folder: Path, monkeypatch: Patch, package: str, code: str) -> None:
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
        ("onnx", ["suite", "make", "s", "--onnx"], 4, "error[E520]: writing .onnx"),
        ("onnx", ["bench", "net.onnx"], 4, "error[E520]: reading ONNX models"),
    ],
)
def test_a_broken_package(
    net: Path,
    monkeypatch: Patch,
    code: str,
    package: str,
    command: list[str],
    exit_code: int,
    message: str,
) -> None:
    install(net.parent / "site", monkeypatch, package, code)
    monkeypatch.chdir(net.parent)
    err = answer(*command, code=exit_code).err
    assert message in err
    assert f"is installed but cannot be used: {BROKEN[code]}" in err
    assert max(map(len, err.split("\n"))) < 400
    assert "bug" not in err


@pytest.mark.parametrize("package", ["onnx", "openvino"])
def test_a_missing_package(net: Path, monkeypatch: Patch, package: str) -> None:
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
    err = answer(*commands[package], code=4).err
    assert "is not installed" in err
    assert f"pip install 'irdeconv[{INSTALLED_BY[package]}]'" in err


def test_the_extras_that_messages_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for package, name in INSTALLED_BY.items():
        needed = project["optional-dependencies"][name]
        assert any(n.startswith(package) for n in needed)


def test_a_runtime_that_does_not_start(net: Path, monkeypatch: Patch, capsys: Capture) -> None:
    code = "class Core:\n def __init__(self): raise RuntimeError('no plugins.xml')\n"
    code += "Model = PartialShape = opset8 = None\n"
    install(net.parent / "site", monkeypatch, "openvino", code)
    assert main(["compare", str(net), "openvino"]) == 4
    assert "error[E506]: OpenVINO does not start: no plugins.xml" in capsys.readouterr().err


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_peer_does_not_end_a_measurement(net: Path, monkeypatch: Patch, code: str) -> None:
    from irdeconv.runtime.measure import Ceilings

    found = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
    monkeypatch.setattr("irdeconv.runtime.bench.measure_ceilings", lambda clock: found)
    monkeypatch.setattr("irdeconv.runtime.peers.installed", lambda package: "1.0")
    install(net.parent / "site", monkeypatch, "openvino", code)
    given = ("--against", "openvino", "--rounds", "1", "--time", "0", "--format", "json")
    (peer,) = answer("bench", net, *given).json["peers"]
    assert f"is installed but cannot be used: {BROKEN[code]}" in peer["problem"]


def test_the_doctor_tells_broken_extras(monkeypatch: Patch, tmp_path: Path) -> None:
    install(tmp_path / "site", monkeypatch, "onnx", "raise OSError('libx.so.1')")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.0")
    for name in ("numba", "openvino", "onnxruntime", "islpy"):
        monkeypatch.setitem(sys.modules, name, None if name == "numba" else sys)
    extras: dict[str, Any] = answer("doctor", "--format", "json").json["extras"]
    assert extras["onnx"]["problem"] == "OSError: libx.so.1"
    assert extras["onnxruntime"]["problem"] is None
    assert "onnx          1.0: OSError: libx.so.1" in answer("doctor").out


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_compiler_is_no_compiler(net: Path, monkeypatch: Patch, code: str) -> None:
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


# numba is imported when a compiled kernel is prepared, and not for what runs once and is small.

needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")
DEPTHWISE = ConvProblem((1, 8, 9, 9), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
PRELUDE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
import numpy as np
import irdeconv as ird
from support.networks import image, network
def loaded():
    return "numba" in sys.modules
"""


def fresh(code: str) -> None:
    """Run code in a process of its own, which has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@needs_numba
def test_kernels_are_chosen_and_small_networks_run_without_numba(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    ird.write(network(), path)
    fresh(f"""
from irdeconv.cli.main import main
for form in (None, "zero-insertion", "phases", "stacked", "gemm"):
    ird.run(network(), image(), form)
ird.compare(network(), ird.lower(network()).graph, image())
assert main(["run", {str(path)!r}, "-q"]) == 0
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.candidate import ConvProblem
w = ConvProblem((1, 8, 9, 9), 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
found = {{c.name: c for c in for_convolution(w)}}
assert "depthwise" in found
assert found["depthwise"].cost > 0
assert for_deconvolution(w)
assert not loaded()
found["depthwise"].prepare(np.ones((8, 1, 1, 3, 3), np.float32))
assert loaded()
""")


def test_a_plan_for_many_runs_takes_compiled_kernels(monkeypatch: Patch) -> None:
    asked: list[bool] = []

    def choosing(choose: Callable[[], Any]) -> Any:
        asked.append(not is_plain())
        return retried(choose)

    monkeypatch.setattr("irdeconv.runtime.plan.retried", choosing)
    ird.compile(network()).run(image())
    assert set(asked) == {True}
    asked.clear()
    ird.compile(network(), once=True).run(image())
    assert set(asked) == {False}


def test_a_run_is_the_same_whatever_was_loaded_before() -> None:
    first = ird.run(network(), image())
    ird.compile(network()).run(image())
    second = ird.run(network(), image())
    assert [a.tobytes() for a in first.values()] == [a.tobytes() for a in second.values()]


def wide(channels: int, size: int) -> Graph:
    """x -> Convolution of size 1 -> ReLU."""
    g, x = begun((1, channels, size, size))
    w = constant(g, np.ones((channels, channels, 1, 1), np.float32), "w")
    y = Value(g.add(Convolution(), [x, w], name="conv").id)
    result(g, Value(g.add(ReLU(), [y], name="relu").id))
    return ird.infer(g)


def test_large_networks_gain() -> None:
    assert not gains_by_compiling(ird.infer(network()))
    # 0.03 ns for each of c^2 s^2 products, 1 ns for each of c s^2 elements of x, conv, relu and y.
    for channels, size in ((512, 300), (512, 700)):
        nanoseconds = 0.03 * channels**2 * size**2 + 4 * channels * size**2
        expected = COMPILED_SAVES * nanoseconds > LOADING
        assert gains_by_compiling(wide(channels, size)) == expected
    assert expected


def test_unknown_sizes_gain_nothing() -> None:
    g = wide(512, 700)
    for node in g.nodes():
        node.specs = tuple(Spec(s.dtype, (DYNAMIC, *(s.shape or ())[1:])) for s in node.specs or ())
    assert not gains_by_compiling(g)


@pytest.fixture
def broken(monkeypatch: Patch) -> None:
    """numba is found, but importing it fails."""
    monkeypatch.setattr(jit, "installed", lambda: True)
    monkeypatch.setattr(jit, "_BROKEN", set())
    monkeypatch.setenv("IRDECONV_FAST", "1")
    monkeypatch.setitem(sys.modules, "numba", None)


@pytest.mark.usefixtures("broken")
def test_a_broken_numba_is_noticed_when_a_kernel_is_prepared() -> None:
    depthwise = next(c for c in for_convolution(DEPTHWISE) if c.name == "depthwise")
    with pytest.raises(jit.BrokenCompilerError):
        depthwise.prepare(np.ones((8, 1, 1, 3, 3), np.float32))
    assert not jit.available()
    assert "depthwise" not in [c.name for c in for_convolution(DEPTHWISE)]
    assert for_deconvolution(DEPTHWISE)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("fuse", [False, True])
def test_a_broken_numba_changes_no_result(fuse: bool, monkeypatch: Patch) -> None:
    got = ird.compile(network(), None, fuse=fuse).run(image())
    monkeypatch.setenv("IRDECONV_FAST", "0")
    want = ird.compile(network(), None, fuse=fuse).run(image())
    assert [a.tobytes() for a in got.values()] == [a.tobytes() for a in want.values()]


@pytest.mark.usefixtures("broken")
def test_a_broken_numba_with_a_filter_that_is_an_input() -> None:
    g, x = begun((1, 8, 9, 9))
    w = parameter(g, (8, 1, 1, 3, 3), np.float32, "w")
    op = REGISTRY["GroupConvolution", "opset1"](pads_begin=(1, 1), pads_end=(1, 1))
    result(g, Value(g.add(op, [x, w], name="conv").id))
    ones = np.ones((1, 8, 9, 9), np.float32), np.ones((8, 1, 1, 3, 3), np.float32)
    for _ in range(2):
        (y,) = ird.compile(g, None).run(ones).values()
        assert y[0, 0, 0, 0] == 4
        assert y[0, 7, 4, 4] == 9


def test_a_copied_plan_still_runs_once() -> None:
    assert copy.copy(ird.compile(network(), once=True)).settings.once
    assert not copy.copy(ird.compile(network())).settings.once


# Compiled code that is kept: by the state of the sources, saved by one process at a time.


def test_the_folders_used_longest_ago_are_removed(tmp_path: Path) -> None:
    for age, name in enumerate(("now", "a", "b", "c", "d")):
        (tmp_path / f"this-{name}").mkdir()
        os.utime(tmp_path / f"this-{name}", (1000 - age, 1000 - age))
    (tmp_path / "other-a").mkdir()
    jit._sweep(tmp_path, "this", tmp_path / "this-c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other-a", "this-a", "this-c", "this-now"]


def test_the_state_is_that_of_the_sources(monkeypatch: Patch, tmp_path: Path) -> None:
    folder = shutil.copytree(Path(jit.__file__).parent, tmp_path / "kernels")
    monkeypatch.setattr(jit, "__file__", str(folder / "jit.py"))
    source = folder / "compiled_vectors.py"
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
def test_code_is_saved_while_no_other_process_saves(tmp_path: Path, monkeypatch: Patch) -> None:
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
