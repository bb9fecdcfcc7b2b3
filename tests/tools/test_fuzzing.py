"""The fuzzer: numbered mutants that repeat, guards, faults that are told."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from fuzzing import formats, mutate  # noqa: E402

pytestmark = pytest.mark.thorough


def run(code: str) -> str:
    """Run Python beside the tools; audit hooks stay for a process."""
    start = f"import sys; sys.path[:0] = [{str(TOOLS)!r}, {str(TOOLS.parent / 'tests')!r}]\n"
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_seeds_of_every_format() -> None:
    pytest.importorskip("onnx")
    code = """
from fuzzing.cases import CYCLE, SHARES, make, place
from fuzzing.seeds import FORMATS, seeds
found = [s for f in FORMATS for s in seeds(f)]
assert len(found) > 400 and all(seeds(f) for f in FORMATS)
places = [place(n) for n in range(3 * CYCLE)]
assert len(set(places)) == len(places)
assert {f: sum(p[0] == f for p in places[:CYCLE]) for f in FORMATS} == SHARES
for f in FORMATS:
    a, b = make(f, 7, 1), make(f, 7, 1)
    assert a == b
    assert any(make(f, n, 1).files != make(f, n, 2).files for n in range(3))
"""
    run(code)


def test_the_guard_keeps_what_no_reader_does(tmp_path: Path) -> None:
    code = f"""
import os, pickle, socket, subprocess
from fuzzing.attempt import Guard
guard = Guard({str(tmp_path)!r})
def refused(call):
    guard.seen.clear()
    guard.on = True
    try:
        call()
    except PermissionError:
        return bool(guard.seen)
    finally:
        guard.on = False
assert refused(lambda: open("/etc/hostname"))
assert refused(lambda: open({str(TOOLS)!r} + "/x", "w"))
assert refused(lambda: os.remove("/etc/hostname-that-is-not-there"))
assert refused(lambda: subprocess.Popen(["true"]))
assert refused(lambda: socket.socket())
assert refused(lambda: pickle.loads(b"cos\\ngetcwd\\n."))
assert not refused(lambda: open({str(tmp_path / "x")!r}, "w").close())
assert not refused(lambda: open(os.__file__).close())
"""
    run(code)


def test_faults_are_told(tmp_path: Path) -> None:
    """A verb that fails, never ends, opens what it should not, or says what is no JSON."""
    code = f"""
from pathlib import Path
from fuzzing import attempt as fuzz
from fuzzing.attempt import Guard
from irdeconv.cli import main as command_line, options
folder = Path({str(tmp_path)!r})
guard = Guard(str(folder))
fuzz.SLOW, fuzz.NEVER_ENDS = 0.2, 0.5
def kinds(run, *args):
    verb = options.Verb("    --format WHAT  x")
    options.RECORDS["codes"] = verb
    command_line.function_of = lambda name: run
    return [f.kind for f in fuzz.faults(fuzz.attempt(("codes", *args), guard), folder)]
def endless(options, console):
    while True:
        pass
def said(text, code=0):
    return lambda options, console: console.raw(text) or code
assert kinds(lambda o, c: 1 // 0) == ["exception"]
assert kinds(endless) == ["endless"]
assert "guard" in kinds(lambda o, c: open("/etc/hostname"))
assert kinds(said("{{"), "--format", "json") == ["ill-formed"]
assert kinds(said("\\x1b[2J")) == ["unsafe character"]
assert kinds(said("", 1)) == ["silent"]
assert kinds(said("no", 99)) == ["code"]
assert kinds(said("fine")) == []
"""
    run(code)


def test_bytes_of_every_kind_are_changed() -> None:
    rng = random.Random(0)
    for data in (b"", b"x", b"abc 123", bytes(range(256))):
        assert len({mutate.mutate_bytes(rng, data) for _ in range(200)}) > 20
    assert all(isinstance(mutate.mutate_text(rng, "a = [1, 2]"), str) for _ in range(200))
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
    array = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + bytes(8)
    assert len({formats.mutate_npy(rng, array) for _ in range(200)}) > 50


def test_files_survive_reading_and_writing() -> None:
    data = b"\x08\x09\x12\x03abc\x3a\x04\x0a\x02\x08\x01\x25\0\0\0\0"
    fields = formats.read_wire(data)
    assert fields is not None
    assert formats.write_wire(fields) == data
    assert formats.read_wire(data[:-1]) is None
    rng = random.Random(0)
    assert len({formats.mutate_wire(rng, data) for _ in range(100)}) > 30
    for path in rng.sample(sorted((TOOLS.parent / "ir_samples").glob("*/*.xml")), 12):
        xml = path.read_bytes()
        again = formats.read_xml(formats.write_xml(formats.read_xml(xml)))
        assert again == formats.read_xml(xml)
        weights = path.with_suffix(".bin").read_bytes()
        assert len({formats.mutate_ir(rng, xml, weights) for _ in range(20)}) > 15


def test_every_place_of_a_tree_is_changed() -> None:
    """Each value becomes another one; pieces are dropped, repeated, moved, swapped and nested."""
    tree = {"is": "a", "at": {"x": "1", "y": "2"}, "in": [{"is": "b", "at": {"z": "3"}, "in": []}]}
    rng = random.Random(0)
    made = [repr(mutate.mutate_tree(rng, tree)) for _ in range(3000)]
    for text in ("'x': '1'", "'y': '2'", "'z': '3'", "'is': 'a'", "'is': 'b'", "'in': []"):
        assert any(text in m for m in made)
        assert any(text not in m for m in made)
    assert any(m.count("'b'") > 9 for m in made)
    for text in ("'x': '2', 'y': '1'", "'x': '2', 'y': '2'"):
        assert any(text in m for m in made)
