"""An `.xml` and a `.bin` that do not belong together are told; writers leave whole pairs."""

import gc
import hashlib
import os
import random
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import InputError
from irdeconv.cli.main import main
from irdeconv.formats import atomic
from irdeconv.formats.atomic import descriptor_of, write_file
from irdeconv.ir.graph import Graph
from irdeconv.ops.basic import Const
from irdeconv.ops.elementwise import Add
from support.layers import sequential

SAMPLES = Path(__file__).resolve().parents[2] / "ir_samples"


def model(value: float, size: int = 1000, ir_version: int = 11) -> Graph:
    """x + a constant: two models of different values differ in their weights only."""
    g = sequential((size,), ("sum", Add(), {"w": np.full(size, value, np.float32)}))
    g.info.ir_version = ir_version
    return ird.infer(g)


def value_of(path: Path) -> float:
    """Return the value of a model's constant, all elements of which are the same."""
    (node,) = ird.read(path).nodes(type="Const")
    assert isinstance(node.op, Const)
    (value,) = set(node.op.data.array().tolist())
    return float(value)


def codes(path: Path, weights: Path | bytes | None = None) -> list[tuple[str, str]]:
    return [(d.severity, d.code) for d in ird.validate(path, weights)]


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    path = tmp_path / "m.xml"
    ird.write(model(1), path)
    return path


@pytest.fixture
def mixed(pair: Path) -> Path:
    """The `.xml` of one model beside the weights of another one, of the same size."""
    ird.write(model(2), pair.with_name("n.xml"))
    os.replace(pair.with_name("n.bin"), pair.with_suffix(".bin"))
    return pair


def test_an_xml_carries_the_size_and_the_hash_of_its_weights(pair: Path) -> None:
    data = pair.with_suffix(".bin").read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    mark = f'<rt_info weights_size="{len(data)}" weights_sha256="{sha256}" />'
    assert pair.read_text().count(mark) == 1
    assert codes(pair) == []


def test_a_mixed_pair_is_an_error(mixed: Path) -> None:
    assert codes(mixed) == [("error", "E124")]
    with pytest.raises(InputError, match=r"its SHA-256 begins [0-9a-f]{16}, not [0-9a-f]{16}"):
        ird.read(mixed)


def test_weights_of_another_size_are_told_by_it(pair: Path) -> None:
    with pair.with_suffix(".bin").open("ab") as file:
        file.write(b"\0")
    (found,) = [d for d in ird.validate(pair) if d.code == "E124"]
    assert "it has 4001 bytes, not 4000" in found.message
    assert (found.location and str(found.location)).endswith(f"{pair.name}:49:11")


def test_weights_that_are_named_are_accepted_with_a_warning(mixed: Path) -> None:
    weights = mixed.with_suffix(".bin")
    assert codes(mixed, weights) == [("warning", "E124")]
    assert ird.read(mixed, weights=weights.read_bytes())
    assert main(["validate", str(mixed), "--weights", str(weights)]) == 0


def test_a_pair_written_anew_and_one_without_the_mark_are_whole(mixed: Path) -> None:
    ird.write(ird.read(mixed, mixed.with_suffix(".bin")), mixed.with_name("new.xml"))
    assert codes(mixed.with_name("new.xml")) == []
    mixed.write_text(re.sub(r' weights_\w+="\w+"', "", mixed.read_text()))
    assert codes(mixed) == []


@pytest.mark.parametrize(
    "mark", ['weights_size=""', 'weights_sha256="x&#10;y"', 'weights_size="4e3"']
)
def test_marks_that_say_nothing_are_none_of_the_weights(pair: Path, mark: str) -> None:
    pair.write_text(re.sub("<rt_info .*/>", f"<rt_info {mark}/>", pair.read_text()))
    assert codes(pair) == [("error", "E124")]


def test_structure_alone_needs_no_weights(mixed: Path) -> None:
    mixed.with_suffix(".bin").unlink()
    assert [c for _, c in codes(mixed)] == ["E120"]
    assert ird.read(mixed, weights=False)


@pytest.mark.parametrize("ir_version", [10, 11])
def test_rt_info_keeps_what_it_holds(tmp_path: Path, ir_version: int) -> None:
    g = model(1, ir_version=ir_version)
    g.info.rt_info = '<rt_info>\n\t\t<framework value="a"/>\n\t</rt_info>'
    ird.write(g, tmp_path / "m.xml")
    assert ird.read(tmp_path / "m.xml").info.rt_info == g.info.rt_info
    assert codes(tmp_path / "m.xml") == []


@pytest.mark.oracles
@pytest.mark.parametrize("ir_version", [10, 11])
def test_openvino_loads_the_mark_and_does_not_hand_it_on(tmp_path: Path, ir_version: int) -> None:
    openvino = pytest.importorskip("openvino")
    ird.write(model(1, ir_version=ir_version), tmp_path / "m.xml")
    loaded = openvino.Core().read_model(str(tmp_path / "m.xml"))
    openvino.save_model(loaded, str(tmp_path / "n.xml"), compress_to_fp16=True)
    assert "weights_sha256" not in (tmp_path / "n.xml").read_text()
    assert [c for s, c in codes(tmp_path / "n.xml") if s == "error"] == []


def test_threads_that_write_one_pair_never_mix_it(tmp_path: Path) -> None:
    path, models = tmp_path / "m.xml", {n: model(n) for n in (1, 2)}

    def write(n: int) -> None:
        for _ in range(20):
            ird.write(models[n], path)

    threads = [threading.Thread(target=write, args=(n,)) for n in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value_of(path) in models
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]


WRITER = """
import sys, irdeconv as ird
graph = ird.read(sys.argv[1])
print("ready", flush=True)
while True:
    ird.write(graph, sys.argv[2])
"""


def writer(source: Path, target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(source), str(target)]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert made.stdout.readline() == "ready\n"
    return made


def test_killed_writers_leave_a_pair_or_a_mix_that_is_told(tmp_path: Path) -> None:
    folder, sources = tmp_path / "out", [tmp_path / "a.xml", tmp_path / "b.xml"]
    folder.mkdir()
    for value, source in enumerate(sources):
        ird.write(model(value, 100_000), source)
    ird.write(model(0, 100_000), folder / "m.xml")
    both = [writer(s, folder / "m.xml") for s in sources]
    time.sleep(0.03)
    for one in both:
        one.kill()
        one.wait()
        assert one.stdout
        one.stdout.close()
    if codes(folder / "m.xml") != [("error", "E124")]:
        assert value_of(folder / "m.xml") in (0, 1)
    atomic._swept.clear()
    ird.write(model(0), folder / "m.xml")
    assert sorted(p.name for p in folder.iterdir()) == ["m.bin", "m.xml"]


@pytest.mark.slow
def test_writers_are_killed_at_any_moment(tmp_path: Path) -> None:
    """Each is forked with its model in memory; of 200 moments some fall between two renamings."""
    path, rng = tmp_path / "m.xml", random.Random(0)
    old, new = model(0, 500_000), model(1, 500_000)
    start = time.perf_counter()
    ird.write(old, path)
    takes = time.perf_counter() - start
    for _ in range(200):
        ird.write(old, path)
        child = os.fork()
        if child == 0:
            ird.write(new, path)
            os._exit(0)
        time.sleep(rng.uniform(0, 3 * takes))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if codes(path) != [("error", "E124")]:
            assert value_of(path) in (0, 1)
    atomic._swept.clear()
    ird.write(old, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_neither_memory_nor_descriptors_grow() -> None:
    sample, x = SAMPLES / "openvino/deconv_3x3_to_5x5.xml", np.ones((1, 1, 3, 3), np.float32)

    def usage() -> tuple[int, int]:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd"))

    before = (0, 0)
    for at in range(1000):
        ird.run(ird.lower(ird.read(sample)).graph, {"x": x})
        before = usage() if at == 100 else before
    memory, descriptors = np.subtract(usage(), before)
    assert memory < 8 << 20
    assert descriptors <= 0


def test_a_new_xml_appears_last_and_one_that_replaces_another_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[str] = []

    def replace(source: Path, target: Path) -> None:
        placed.append(target.name)
        source.rename(target)

    monkeypatch.setattr(os, "replace", replace)
    for value in (1, 2):
        ird.write(model(value), tmp_path / "m.xml")
    assert placed == ["m.bin", "m.xml", "m.xml", "m.bin"]


def test_only_what_nobody_holds_is_swept(tmp_path: Path) -> None:
    atomic._swept.clear()
    held, left, folder, others = (tmp_path / f".irdeconv-{c * 16}" for c in "abc1")
    held.write_bytes(b"")
    left.write_bytes(b"")
    (folder / "new").mkdir(parents=True)
    (tmp_path / ".irdeconv-notes").write_bytes(b"")
    os.symlink(tmp_path / "nowhere", others)
    with held.open("rb") as file:
        assert atomic.hold(file.fileno())
        write_file(tmp_path / "out", b"data")
        there = {p.name for p in tmp_path.iterdir()}
    assert there == {held.name, ".irdeconv-notes", others.name, "out"}


def test_a_file_keeps_its_permissions_and_a_link_its_file(tmp_path: Path) -> None:
    path, link, hard = (tmp_path / n for n in ("file", "link", "hard"))
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.link(path, hard)
    link.symlink_to(path)
    write_file(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert hard.read_bytes() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_new_files_have_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_descriptor_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "redirected"
    with target.open("wb") as file:
        file.write(b"before ")
        file.flush()
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        assert descriptor_of(tmp_path / "link") == file.fileno()
        write_file(tmp_path / "link", b"after")
        assert os.path.samestat(os.fstat(file.fileno()), target.stat())
    assert target.read_bytes() == b"before after"
    assert descriptor_of(Path("/dev/stdout")) == 1
    assert descriptor_of(target) is None


def test_standard_output_is_no_place_for_a_pair(pair: Path) -> None:
    command = [sys.executable, "-m", "irdeconv", "lower", str(pair), "-o", "/dev/stdout"]
    with pair.with_name("redirected").open("wb") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (2, 6), done.stderr
    assert os.path.islink("/dev/stdout")


@pytest.mark.parametrize("kind", ["folder", "fifo", "missing/m.xml"])
def test_what_is_no_file_stays_what_it_is(tmp_path: Path, kind: str) -> None:
    target = tmp_path / kind
    if kind == "folder":
        target.mkdir()
    elif kind == "fifo":
        target = tmp_path / "m.xml"
        os.mkfifo(target)
    with pytest.raises(ird.FileAccessError):
        ird.write(model(1), target)
    assert kind != "fifo" or stat.S_ISFIFO(target.lstat().st_mode)


def test_a_full_disk_leaves_the_old_pair(pair: Path) -> None:
    program = (
        "import resource, signal, sys, irdeconv as ird\n"
        "graph = ird.read(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "ird.write(graph, sys.argv[2])\n"
    )
    ird.write(model(2), pair.with_name("n.xml"))
    command = [sys.executable, "-c", program, str(pair.with_name("n.xml")), str(pair)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "m.bin cannot be written: File too large" in done.stderr or "E701" in done.stderr
    assert value_of(pair) == 1
    assert not [p for p in pair.parent.iterdir() if p.name.startswith(".")]
