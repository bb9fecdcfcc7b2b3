"""Arrays and weights in files: saved, mapped, missing; what opens files."""

import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import FileAccessError, InputError, LimitError, UsageError
from irdeconv.base.limits import Limits
from irdeconv.base.opening import parse_json, parse_toml, read_file, shown
from irdeconv.cli.main import main
from irdeconv.formats import arrays as saved_arrays
from irdeconv.formats.arrays import (
    TENSOR_TYPES,
    SavedArrays,
    UnreadableArray,
    npy,
    npy_header,
    npz,
    packed,
    read_npy,
)
from irdeconv.formats.document import WeightsFile
from irdeconv.ops.elementwise import Add
from support.commands import Capture, Patch, answer, command
from support.ir_text import LAYER, W, write_ir
from support.layers import sequential
from support.rows import each_row, tables

TABLES = tables(__file__)

# Arrays of others: headers are held against what is there, archives listed before unpacking.

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def _npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("utf-8" if version == 3 else "latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def _header(descr: str = "'<f4'", shape: str = "(2, 3)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


def _read(tmp_path: Path, content: bytes) -> np.ndarray:
    file = tmp_path / "x.npy"
    file.write_bytes(content)
    return read_npy(file)


@each_row(
    "array",
    [
        DATA,
        np.asfortranarray(DATA),
        np.array(3.5),
        np.zeros((0, 7)),
        np.array(["a", "bc"]),
        np.array([True]),
        DATA.astype(">f2"),
        np.zeros((2, 3), "V2"),
    ],
)
def test_reads_what_numpy_writes(array: np.ndarray, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, array)
    found = read_npy(file)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    np.savez_compressed(tmp_path / "x.npz", a=array, b=array)
    with SavedArrays(tmp_path / "x.npz") as arrays:
        assert list(arrays) == ["a", "b"]
        assert arrays["b"].tobytes() == array.tobytes()


def test_rows_of_an_array(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    data = np.arange(60).reshape(5, 4, 3)
    for array in (data, np.asfortranarray(data), data[:0]):
        np.save(file, array)
        for rows in ((0, 5), (1, 3), (4, 9), (3, 3)):
            assert np.array_equal(read_npy(file, rows), array[slice(*rows)])
    assert npy_header(file).shape == (0, 4, 3)
    with SavedArrays(npz({"a": data})) as arrays:
        assert arrays.header("a").shape == (5, 4, 3)


@each_row("version", [1, 2, 3])
def test_versions_of_the_header(version: int, tmp_path: Path) -> None:
    found = _read(tmp_path, _npy(_header(shape="(2L, 3L)"), DATA.tobytes(), version))
    assert np.array_equal(found, DATA)


@each_row(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"PK\3\4", "no .npy"),
        (b"\x93NUMPY\x09\x00" + bytes(20), "no version 9.0"),
        (b"\x93NUMPY\x01\x00\xff", "cut off"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "limit is 65,536"),
        (_npy("{"), "no Python literal"),
        (_npy("(" * 5000), "no Python literal"),
        (_npy("-" * 60_000 + "1"), "no Python literal"),
        (_npy("__import__('os').system('true')"), "no Python literal"),
        (_npy("{'shape': (2, 3)}"), "descr, fortran_order and shape"),
        (_npy(_header(order="1")), "fortran_order"),
        (_npy(_header(descr="'|O'")), "Python objects"),
        (_npy(_header(descr="[('a', '<f4')]")), "records"),
        (_npy(_header(descr="'f4,f4'")), "no element type"),
        (_npy(_header(descr="'|V0'")), "no plain numbers"),
        (_npy(_header(descr="'<f9'")), "no element type"),
        (_npy(_header(descr="'\x1b[2J'")), r"'\\x1b\[2J'"),
        (_npy(_header(descr="'\\x1b[2J'")), "no Python literal"),
        (_npy(_header(shape="[2, 3]")), "its shape"),
        (_npy(_header(shape="(2, -3)")), "its shape"),
        (_npy(_header(shape="(True,)")), "its shape"),
        (_npy(_header(shape="(2.0,)")), "its shape"),
        (_npy(_header(shape=f"({10**4000},)")), "can be counted"),
        (_npy(_header(shape=f"(0, {2**70})")), "can be counted"),
        (_npy(_header(shape=f"({'1,' * 65})")), "65 axes"),
        (_npy(_header(shape="(1000000000000,)"), DATA.tobytes()), "4,000,000,000,000 bytes, 24"),
        (_npy(_header(), DATA.tobytes()[:-1]), "24 bytes, 23"),
    ],
)
def test_damaged_arrays(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableArray, match=says):
        _read(tmp_path, content)


def test_arrays_that_nobody_asks_for_stay_packed() -> None:
    data = bytearray(npz({"a": DATA, "b": DATA}))
    at = bytes(data).index(DATA.tobytes())
    data[at] ^= 1  # the checksum of "a" is wrong from now on
    with SavedArrays(bytes(data)) as arrays:
        assert np.array_equal(arrays["b"], DATA)
        with pytest.raises(UnreadableArray, match="CRC"):
            arrays["a"]


def _zip(*members: tuple[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packed) as made:
        for name, content in members:
            with warnings.catch_warnings(action="ignore"):  # a name may stand there twice
                made.writestr(name, content)
    return out.getvalue()


def test_what_unpacks_to_much_more(monkeypatch: Patch) -> None:
    packed = _zip(("a.npy", npy(np.zeros(1 << 20))))
    with SavedArrays(packed) as arrays:
        assert arrays["a"].shape == (1 << 20,)
    monkeypatch.setattr(saved_arrays, "ANY_PACKING", 1 << 20)
    with SavedArrays(packed) as arrays, pytest.raises(LimitError, match="200 times"):
        arrays["a"]


def test_limits_of_archives() -> None:
    packed = npz({f"{i:099}": DATA for i in range(20)})
    few = npz({"a": DATA, "b": DATA})
    with Limits(members=1).applied(), pytest.raises(LimitError, match="2 members; the limit is 1"):
        SavedArrays(few)
    with Limits(members=19).applied(), pytest.raises(LimitError, match="list of its members"):
        SavedArrays(packed)
    with (
        SavedArrays(few) as arrays,
        Limits(array_bytes=10).applied(),
        pytest.raises(LimitError, match="24 bytes; the limit is 10"),
    ):
        arrays["a"]


@each_row(
    "packed",
    [
        b"",
        b"PK\5\6",
        b"no zip at all" * 100,
        npz({"a": DATA})[:-30],
        _zip(("a.npy", npy(DATA)), ("a.npy", npy(DATA))),
        _zip(("a.npy", npy(DATA)), ("a", npy(DATA))),
    ],
)
def test_no_archives(packed: bytes) -> None:
    with pytest.raises(UnreadableArray):
        SavedArrays(packed)


@each_row("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_numpy_packs_is_unpacked(packed: int) -> None:
    made = _zip(("a.npy", npy(DATA)), packed=packed)
    with SavedArrays(made) as arrays, pytest.raises(UnreadableArray, match="NumPy never writes"):
        arrays["a"]


def test_a_place_in_front_of_the_file() -> None:
    data = bytearray(npz({"a": DATA}))
    at = data.rfind(b"PK\1\2")
    data[at + 42 : at + 46] = b"\xf0\xff\xff\x7f"  # where the member begins
    with pytest.raises(UnreadableArray), SavedArrays(bytes(data)) as arrays:
        arrays["a"]


def test_every_damage_is_told() -> None:
    """Any byte of an archive may be any other: an array comes of it, or UnreadableArray."""
    packed = _zip(("a.npy", npy(DATA)), ("b.npy", npy(DATA.astype(np.int8))))
    rng = np.random.default_rng(3)
    for at in rng.integers(0, len(packed), 500):
        damaged = bytearray(packed)
        damaged[at] = rng.integers(256)
        try:
            with SavedArrays(bytes(damaged)) as arrays:
                for name in arrays:
                    assert arrays[name].nbytes <= 1 << 20
        except (UnreadableArray, LimitError):
            pass


# Files that change while they are mapped, and processes that fork while a plan runs.

SIZE = 1 << 20


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x + 4 MiB of ones."""
    g = sequential((SIZE,), ("sum", Add(), {"w": np.ones(SIZE, np.float32)}))
    ird.write(ird.infer(g), tmp_path / "m.xml")
    return tmp_path / "m.xml"


def cut(model: Path, size: int = 5000) -> None:
    os.truncate(model.with_suffix(".bin"), size)


X = {"x": np.zeros(SIZE, np.float32)}


def test_weights_cut_off_before_a_run_are_told(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    cut(model)
    with pytest.raises(InputError, match="it had 4194304 bytes, and has 5000") as e:
        plan.run(X)
    assert [d.code for d in e.value.diagnostics] == ["E125"]


def test_weights_cut_off_and_grown_again_are_told(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    cut(model)
    cut(model, 4 * SIZE)
    with pytest.raises(InputError, match="something wrote to it"):
        plan.run(X)


def test_weights_cut_off_before_writing_leave_the_target(model: Path, tmp_path: Path) -> None:
    graph = ird.read(model)
    cut(model, 0)
    with pytest.raises(InputError, match=r"m\.bin was changed while it was in use"):
        ird.write(graph, tmp_path / "new.xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]


def test_weights_that_are_replaced_are_those_that_were_read(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    ird.write(ird.read(model), model)
    assert set(plan.run(X)["y"].tolist()) == {1.0}


def test_weights_cut_off_while_they_are_read(model: Path) -> None:
    weights = WeightsFile(model.with_suffix(".bin"))
    values = np.frombuffer(weights.read(0, 4 * SIZE), np.float32)
    cutting = threading.Thread(target=cut, args=(model,))
    cutting.start()
    sums = {float(values.sum()) for _ in range(50)}
    cutting.join()
    sums.add(float(values.sum()))
    assert max(sums) <= SIZE
    assert min(sums) >= 1250
    with pytest.raises(InputError, match="E125"):
        weights.require_intact()


@pytest.mark.skipif(sys.platform != "linux", reason="the number of SIGBUS")
def test_a_fault_of_another_mapping_ends_the_process_as_ever(model: Path) -> None:
    program = (
        "import mmap, os, sys\n"
        "from irdeconv.formats.document import WeightsFile\n"
        "held = WeightsFile(sys.argv[1])\n"
        "with open(sys.argv[2], 'w+b') as file:\n"
        "    file.truncate(100000)\n"
        "    other = mmap.mmap(file.fileno(), 0)\n"
        "    file.truncate(0)\n"
        "    other[50000]\n"
    )
    paths = str(model.with_suffix(".bin")), str(model.with_name("other"))
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, check=False)
    assert done.returncode == -signal.SIGBUS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_child_forked_while_a_plan_runs_runs_it_too(model: Path, threads: int) -> None:
    plan = ird.compile(ird.read(model), threads=threads)
    over, running = threading.Event(), threading.Event()

    def work() -> None:
        while not over.is_set():
            plan.run(X, trace=lambda *_: running.set())

    other = threading.Thread(target=work)
    other.start()
    try:
        for _ in range(4):
            running.clear()
            assert running.wait(60)
            assert waited(in_child(lambda: float(plan.run(X)["y"][7]) == 1.0)) == 0
    finally:
        over.set()
        other.join()


def test_a_child_forked_by_a_callback_goes_on_with_the_run(model: Path) -> None:
    plan = ird.compile(ird.read(model))
    children: list[int] = []

    def trace(*_: object) -> None:
        children.append(os.fork())

    out = plan.run(X, trace=trace)
    if 0 in children:
        os._exit(0 if float(out["y"][7]) == 1.0 else 1)
    assert [waited(child) for child in children] == [0] * len(children)


def in_child(work: Callable[[], bool]) -> int:
    """Return the process that calls `work`; it ends with 0 where that is true."""
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    code = 2
    try:
        code = 0 if work() else 1
    finally:
        os._exit(code)


def waited(child: int) -> int:
    """Return the exit code of a child; one that hangs is killed by its own alarm."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


# Weights that are missing, and those that are left out, on the command line.


def test_missing_weights_are_an_unreadable_model(net: Path) -> None:
    net.with_suffix(".bin").unlink()
    assert command("validate", net) == 1
    for verb in ("run", "infer", "lower", "inspect", "explain"):
        err = answer(verb, net, code=3).err
        assert (err.count("error"), f"{net.with_suffix('.bin')} is missing" in err) == (1, True)


def test_a_shape_that_only_values_confirm_is_wider(tmp_path: Path) -> None:
    layer = replace(LAYER, output_shape=(7, 7), pads_begin=(0, 0), pads_end=(0, 0))
    write_ir(tmp_path / "net.xml", layer, W)
    for more, status in ([], "same"), (["--no-weights"], "wider"):
        found = answer("infer", tmp_path / "net.xml", "--format", "json", *more).json
        tensors = {t["name"]: t for t in found["tensors"]}
        assert tensors["deconv"]["status"] == status


def test_no_weights_is_the_structure_alone(net: Path) -> None:
    net.with_suffix(".bin").unlink()
    out = answer("validate", net, "--no-weights").out
    assert out.endswith("valid, 0 errors, 0 warnings, without weights\n")
    assert "structure alone" in answer("infer", net, "--no-weights").out
    assert command("inspect", net, "--no-weights") == 0
    assert command("explain", net, "--no-weights") == 0


# Files of others: what is no regular file is refused at once, whatever it is given for.

MODEL = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
OTHER = "ir_samples/onnx/default.xml"

# The suffix of the file that is none, and how it is given.
COMMANDS = TABLES["commands"]
DUMP = {"id": 0, "kind": "ReLU", "inputs": [], "outputs": [], "attrs": {}}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("make", [_fifo, _device, _socket])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_only_regular_files_are_read(
    name: str, make: Callable[[Path], None], tmp_path: Path, monkeypatch: Patch, capfd: Capture
) -> None:
    suffix, text = COMMANDS[name]
    model, other = (Path(name).resolve() for name in (MODEL, OTHER))
    monkeypatch.chdir(tmp_path)
    bad = f"it{suffix}"
    make(Path(bad))
    Path("dump.json").write_text(json.dumps({"graph": [DUMP]}))
    words = {"MODEL": str(model), "OTHER": str(other), "DUMP": "dump.json", "{}": bad}
    args = [re.sub("MODEL|OTHER|DUMP|{}", lambda m: words[m.group()], w) for w in text.split()]
    before = sorted(Path().rglob("*"))
    code = main(args)
    said = " ".join("".join(capfd.readouterr()).split())
    assert code in (2, 3, 6), said
    assert "bug" not in said
    assert "not a regular file" in said, said
    assert sorted(Path().rglob("*")) == before


def test_the_limit_comes_before_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as made:
        made.truncate(1 << 40)
    with pytest.raises(LimitError, match=r"1,099,511,627,776 bytes; the limit is 100") as e:
        read_file(file, 100)
    assert [d.code for d in e.value.diagnostics] == ["E600"]
    with pytest.raises(FileAccessError):
        read_file("a\0b", 100)


@each_row(
    "text",
    ["", "nul", "[" * 100_000, '{"a": 1, "a": 2}', "9" * 5000, '{"a": ' * 50_000, "\ufeff\ufeff1"],
)
def test_json_that_nobody_can_use(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text.encode())


def test_json_is_unicode() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        parse_json(b'"\xff"')
    assert parse_json(b'\xef\xbb\xbf{"a": [1]}') == {"a": [1]}


TENSOR = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def tensors(header: object, data: bytes = DATA.tobytes()) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(tensors({"__metadata__": {"format": "pt"}, "x": TENSOR}))
    with SavedArrays(path) as arrays:
        assert [*arrays] == ["x"]
        assert np.array_equal(arrays["x"], DATA)
    many = {f"{k}é": np.arange(5).astype(t).reshape(5, 1) for k, t in TENSOR_TYPES.items()}
    many |= {"none": np.zeros((0, 3), np.int8), "one": np.array(7), "turned": DATA.T}
    path.write_bytes(packed(str(path), many))
    with SavedArrays(path) as arrays:
        assert [*arrays] == [*many]
        for name, array in many.items():
            assert arrays[name].dtype == array.dtype == arrays.header(name).dtype
            assert arrays[name].tobytes() == array.tobytes()
    for name in ("text", "__metadata__"):
        with pytest.raises(UsageError, match="cannot hold the array"):
            packed("x.safetensors", {name: np.array(["a"]) if name == "text" else DATA})


@each_row(
    "content",
    [
        b"",
        b"\x10",
        struct.pack("<Q", 1 << 62),
        tensors(b"{"),
        tensors(b"[1]"),
        tensors(b'{"x": {}, "x": {}}'),
        tensors({"x": TENSOR}, DATA.tobytes()[:-1]),
        tensors({"x": TENSOR}, DATA.tobytes() + b"!"),
        tensors({}, b"!"),
        tensors({"x": TENSOR, "y": TENSOR}),
        tensors({"x": {**TENSOR, "data_offsets": [1, 25]}}, bytes(25)),
        *(
            tensors({"x": {**TENSOR, **change}})
            for change in (
                {"dtype": "F33"},
                {"dtype": ["F32"]},
                {"shape": [2, -3]},
                {"shape": [1 << 40, 1 << 40]},
                {"shape": [2.0, 3]},
                {"shape": 6},
                {"data_offsets": [0]},
                {"data_offsets": [24, 0]},
                {"data_offsets": [-24, 0]},
                {"data_offsets": [False, 24]},
                {"data_offsets": "ab"},
            )
        ),
        tensors({"x": 1}),
        tensors({"x": None}),
    ],
)
def test_safetensors_that_are_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(UnreadableArray):
        SavedArrays(path)
    assert answer("run", MODEL, f"x=@{path}", code=6).out == ""


def test_safetensors_that_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(tensors({"x": TENSOR}, DATA.tobytes()[:-1]))
    with pytest.raises(UnreadableArray, match="it is cut off"):
        SavedArrays(path)


def test_safetensors_wherever_npz_is(tmp_path: Path) -> None:
    x, y, again = (tmp_path / f"{name}.safetensors" for name in ("x", "y", "z"))
    x.write_bytes(packed(str(x), {"x": np.ones((1, 1, 3, 3), np.float32)}))
    answer("run", MODEL, x, "--limit", "members=0", code=5)
    answer("run", MODEL, x, "-o", y, "--dump", "all", "--form", "none")
    answer("run", MODEL, f"x=@{x}", "-o", again, "--form", "none")
    assert answer("compare", MODEL, y, "-i", x).words.count("ok ") == 1
    assert "the same: 1 output" in answer("compare", again, again).words
    batch = ("batch", "run", MODEL, "--inputs", x, "--rows", 1, "--jobs", 0, "-o", tmp_path / "o")
    answer(*batch)
    piece = ("extract", MODEL, "--from", "deconv", "-o", tmp_path / "p.xml", "--inputs-from", x)
    answer(*piece, "--save-inputs", tmp_path / "p.safetensors")
    with SavedArrays(tmp_path / "p.safetensors") as arrays:
        assert arrays["x"].shape == (1, 1, 3, 3)


@each_row("text", ["a", "a = " + "9" * 5000, "a = " + "[" * 50_000])
def test_toml_that_nobody_can_use(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_toml(text)


def test_values_in_messages() -> None:
    assert shown(1 << 100_000) == "a number of 100,001 bits"
    text = shown("a\n\x1b" + "b" * 500)
    assert (len(text), text[:9], text[-5:]) == (63, r"'a\n\x1bb", "bb...")
    assert shown([1, 2]) == "[1, 2]"


@each_row("value", [1, True, "x", [1], {"xml": "x"}, {"xml": None}, {"xml": [1]}])
def test_files_that_no_certificate_names(value: object, tmp_path: Path, capsys: Capture) -> None:
    low, held = str(tmp_path / "low.xml"), tmp_path / "c.json"
    assert main(["lower", MODEL, "-o", low, "--certify", str(held)]) == 0
    held.write_text(json.dumps({**json.loads(held.read_text()), "lowered": value}))
    assert main(["check-certificate", MODEL, low, "--certificate", str(held)]) == 2
    assert "what it says of its files" in " ".join(capsys.readouterr().err.split())
