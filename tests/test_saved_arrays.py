"""Arrays of others: headers are held against what is there, archives listed before unpacking."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from irdeconv.base.errors import LimitError
from irdeconv.base.limits import Limits
from irdeconv.formats import arrays as saved_arrays
from irdeconv.formats.arrays import SavedArrays, UnreadableArray, npy, npy_header, npz, read_npy

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_of_the_header(version: int, tmp_path: Path) -> None:
    found = _read(tmp_path, _npy(_header(shape="(2L, 3L)"), DATA.tobytes(), version))
    assert np.array_equal(found, DATA)


@pytest.mark.parametrize(
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


def test_what_unpacks_to_much_more(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
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
