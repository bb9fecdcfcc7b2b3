"""The verb `suite`: folders, files of one's own layers, results in every shape, reports."""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.base.opening import TomlReader
from irdeconv.verify.suite import LayersReader
from irdeconv.verify.suite_manifest import Suite
from support.commands import Patch, answer, command
from support.rows import tables

TABLES = tables(__file__)

EDGES = ("--set", "edges", "--only", "*-edge-kernel-1*")  # three cases


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "vectors"
    assert command("suite", "make", folder, *EDGES) == 0
    return folder


def results_of(folder: Path) -> dict[str, Any]:
    return {c.name: c.expected()[0] for c in Suite.open(folder).cases}


def test_make_tells_what_it_writes(tmp_path: Path) -> None:
    seen = answer("suite", "make", tmp_path / "s", *EDGES, "--form", "gemm")
    assert "openvino edges: 3 cases\nlowered: 1 as zero-insertion, 2 as gemm\n" in seen.out
    assert "3 cases, at most about" in seen.err
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert sorted(p.name for p in (tmp_path / "s/openvino-edge-kernel-1").iterdir()) == [
        *("constants.npz", "expected.npz", "inputs.npz", "lowered.bin", "lowered.xml"),
        *("model.bin", "model.xml"),
    ]
    assert ird.validate(tmp_path / "s/openvino-edge-kernel-1/lowered.xml") == []


@pytest.mark.parametrize("shape", ["npz", "npy", "archive", "folder of one array"])
def test_results_in_every_shape(place: Path, shape: str) -> None:
    arrays, target = results_of(place), place.parent / "results"
    if shape == "archive":
        target = place.parent / "results.npz"
        np.savez(target, **{f"{name}/y": a for name, a in arrays.items()})
    else:
        target.mkdir()
        for name, a in arrays.items():
            if shape == "npy":
                np.save(target / f"{name}.npy", a)
            else:
                np.savez(target / f"{name}.npz", **{"y" if shape == "npz" else "out0": a})
    assert answer("suite", "check", place, target).out == "3 of 3 cases passed\n"


def test_what_is_missing_or_no_array_is_told(place: Path) -> None:
    target = place.parent / "results"
    target.mkdir()
    (target / "openvino-edge-kernel-1.npz").write_bytes(b"nothing")
    np.savez(target / "openvino-edge-kernel-1-stride-1.npz", a=np.zeros(1), b=np.zeros(1))
    np.save(target / "other.npy", np.zeros(3))
    out = answer("suite", "check", place, target, code=1).out
    assert "BAD  openvino-edge-kernel-1\n" in out
    assert '2 arrays, none is named "y"' in " ".join(out.split())
    assert "MISSING openvino-edge-kernel-1-shifted\n     there is no result" in out
    assert "1 result without a case: other\n" in out
    assert out.endswith("0 of 3 cases passed, 1 missing, 2 unreadable\n")


def test_a_text_is_no_archive_of_results(place: Path, tmp_path: Path) -> None:
    (file := tmp_path / "results.npz").write_text("nothing to unpack")
    err = answer("suite", "check", place, file, code=2).err
    assert "one .npz with CASE/y for every case" in " ".join(err.split())


def test_one_bad_result_keeps_no_other_from_being_judged(place: Path, tmp_path: Path) -> None:
    """Headers that claim more than memory holds, records, odd sizes, members that are no .npy."""

    def header(shape: tuple[int, ...]) -> bytes:
        file = io.BytesIO()
        facts = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, facts)
        return file.getvalue()

    def member(array: Any) -> bytes:
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()

    first, *others = results_of(place).items()
    shape = first[1].shape
    bad = [header((1 << 45,)), header((-1, 4)), member(np.zeros(shape, "V3")), b"none"]
    bad.append(member(np.zeros(shape, [("a", "f4")])))
    for number, data in enumerate(bad):
        target = tmp_path / f"{number}.npz"
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr(f"{first[0]}/y{'' if data == b'none' else '.npy'}", data)
            for name, array in others:
                archive.writestr(f"{name}/y.npy", member(array))
        report = ird.check_suite(place, target)
        assert report.counts == {"passed": 2, "differs": 0, "missing": 0, "unreadable": 1}
        assert not report


def test_a_suite_without_cases_is_no_yes(place: Path) -> None:
    manifest = place / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text("utf-8")), "cases": []}))
    (place / "results").mkdir()
    assert answer("suite", "check", place, place / "results", code=1).out == "0 of 0 cases passed\n"


def test_reports_for_machines(place: Path) -> None:
    arrays = results_of(place)
    arrays["openvino-edge-kernel-1"][..., 0] += 1
    np.savez(place.parent / "results.npz", **arrays)
    check = ("suite", "check", place, place.parent / "results.npz", "--format")
    document = answer(*check, "json", code=1).json
    assert document["schema"] == "irdeconv/suite/1"
    assert document["counts"] == {"passed": 2, "differs": 1, "missing": 0, "unreadable": 0}
    (wrong,) = [c for c in document["cases"] if c["status"] == "differs"]
    assert wrong["difference"]["own"] == 1.0
    assert "strides 2" in wrong["features"]
    suite = ElementTree.fromstring(answer(*check, "junit", code=1).out)[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    (failure,) = suite.iter("failure")
    assert "off by 1 at" in (failure.text or "")


@pytest.mark.parametrize("name", ["kept", "kept.npz", "kept.safetensors"])
def test_run_judges_at_once_and_keeps_results(place: Path, name: str) -> None:
    kept = place.parent / name
    run = ("suite", "run", place, "--with", "irdeconv", "-o", kept)
    assert "3 of 3 cases passed" in answer(*run).out
    assert command("suite", "check", place, kept) == 0
    assert kept.is_dir() == (name == "kept")
    assert "--force replaces it" in answer(*run, code=2).err
    assert "ok   openvino-edge-kernel-1\n" in answer(*run, "--force", "--all").out


def test_list(place: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    planned = answer("suite", "list", *EDGES).out
    assert "openvino-edge-kernel-1\n  a kernel of size 1 between inserted zeros\n" in planned
    assert planned.endswith("3 cases\n")
    assert answer("suite", "list", place).out == planned
    lines = answer(
        "suite", "list", "--dialect", "all", "--set", "quick,full", "-q"
    ).out.splitlines()
    assert 60 < max(map(len, lines)) <= 70
    assert int(lines[-1].split()[0]) > 400


@pytest.mark.parametrize(("args", "code", "text"), TABLES["refusals"])
def test_refusals(place: Path, args: str, code: int, text: str, monkeypatch: Patch) -> None:
    monkeypatch.chdir(place.parent)
    before = sorted(p for p in place.parent.rglob("*"))
    assert text in answer("suite", *args.split(), code=code).err
    assert sorted(p for p in place.parent.rglob("*")) == before


def test_only_a_suite_is_replaced(place: Path) -> None:
    make = ("suite", "make", place, "--set", "edges", "--only", "*-edge-batch", "--force")
    assert command(*make) == 0
    assert sorted(p.name for p in place.iterdir()) == ["manifest.json", "openvino-edge-batch"]
    (place / "mine.txt").write_text("mine")
    assert "holds more than its suite: mine.txt" in answer(*make, code=2).err
    (place / "manifest.json").write_text("{}")
    assert "files that are no suite" in answer(*make, code=2).err


def test_a_failure_leaves_the_old_suite(place: Path, monkeypatch: Patch) -> None:
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}

    def fails(*args: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("irdeconv.verify.suite_writing.npz", fails)
    assert command("suite", "make", place, *EDGES, "--force") == 6
    monkeypatch.undo()
    replaced, calls = os.replace, []

    def half(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) == 7:
            raise OSError(13, "Permission denied")
        replaced(source, target)

    monkeypatch.setattr("irdeconv.verify.suite_writing.os.replace", half)
    assert command("suite", "make", place, *EDGES, "--force") == 6
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == before


def test_a_suite_that_was_changed_is_refused(place: Path) -> None:
    results = place.parent / "results.npz"
    np.savez(results, **results_of(place))
    path = place / "openvino-edge-kernel-1/expected.npz"
    path.write_bytes(path.read_bytes() + b"\0")
    err = answer("suite", "check", place, results, code=6).err
    assert "has changed since the suite was made" in err


def test_a_suite_without_bounds_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    ird.suite(folder, only=["openvino-edge-kernel-1"], data="floats")
    results, manifest = results_of(folder), folder / "manifest.json"
    path = folder / "openvino-edge-kernel-1/expected.npz"
    np.savez(path, y=np.load(path)["y"])
    document = json.loads(manifest.read_text("utf-8"))
    document["cases"][0]["files"]["expected.npz"] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(document))
    np.savez(tmp_path / "results.npz", **results)
    err = answer("suite", "check", folder, tmp_path / "results.npz", code=2).err
    assert 'has no numbers "y.bound"' in " ".join(err.split())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(schema="other"), '"schema" is not'),
        (lambda m: m.update(cases=3), '"cases" is no list'),
        (lambda m: m["cases"][0].update(name="../../etc"), "is no name of a folder"),
        (lambda m: m["cases"][0].update(name=m["cases"][1]["name"]), "stands there twice"),
        (lambda m: m["cases"][0]["layer"].pop("size"), "case number 0: TypeError"),
        (lambda m: m["cases"][0]["layer"].update(strides=["a", 2]), "case number 0"),
        (lambda m: m["cases"][0]["layer"].update(strides=[1]), "case number 0"),
        (lambda m: m["cases"][0]["layer"].update(dialect="tflite"), "case number 0"),
        (lambda m: m["cases"][0].pop("known"), "case number 0: KeyError"),
    ],
)
def test_a_broken_manifest_is_refused(place: Path, change: Any, text: str) -> None:
    path = place / "manifest.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document))
    assert text in answer("suite", "check", place, place, code=2).err


def test_layers_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "npu.toml"
    path.write_text(TABLES["layers"])
    seen = answer("suite", "make", tmp_path / "s", "--layers", path)
    assert "left out: tensorrt has no kernel 3, auto_pad valid\n" in seen.err
    cases = {c.name: c for c in Suite.open(tmp_path / "s").cases}
    assert [n for n in cases if "stem" in n] == ["openvino-stem", "tensorrt-stem"]
    stem = cases["openvino-stem"].layer
    assert (stem.size, stem.kernel, stem.strides) == ((5, 3), (4, 4), (2, 2))
    crossed = [c.layer for n, c in cases.items() if n.startswith("openvino-npu-")]
    pairs = {(a.kernel, a.strides[0]) for a in crossed}
    assert pairs == {(k, s) for k in ((1, 1), (3, 3), (2, 4)) for s in (1, 2)}
    assert {a.channels for a in crossed} == {4}
    assert command("suite", "run", tmp_path / "s", "--with", "irdeconv") == 0


def test_the_file_that_the_page_shows(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/suite.md").read_text("utf-8")
    start = text.index("# npu.toml\ndialects")
    (tmp_path / "npu.toml").write_text(text[start : text.index("```", start)])
    cases, skipped = LayersReader(tmp_path / "npu.toml").read([])
    assert {c.layer.axes for c in cases} == {1, 2}
    assert cases[-1].name == "onnx-stem"
    assert skipped == ["onnx has no strides 1, output_padding 1"]


def test_a_full_crossing(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text('strength = "all"\n[cross]\nkernel = [1, 2, 3]\nstrides = [1, 2]\n'
                    "output_padding = [0, 1]\n")  # fmt: skip
    cases, _ = LayersReader(path).read(["onnx"])
    kept = {(a.layer.kernel[0], a.layer.strides[0], a.layer.output_padding[0]) for a in cases}
    assert kept == {(k, s, p) for k in (1, 2, 3) for s in (1, 2) for p in (0, 1) if p < s}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        *TABLES["mistakes_in_a_file_have_lines"],
        ("[cross]\n" + "".join(f"k{i} = 1\n" for i in range(999)), "more like this one"),
        (f"[cross]\nkernel = {list(range(1, 300))}\n", "more than 200 values"),
    ],
)
def test_mistakes_in_a_file_have_lines(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        LayersReader(path).read(["openvino"])
    found = error.value.diagnostics
    lines = [d.location.position[0] if d.location else 0 for d in found]
    said = " ".join(
        f"a.toml:{at}: {d.message}; {d.hint}" for at, d in zip(lines, found, strict=True)
    )
    assert wanted in said, said


def test_sizes_of_a_file_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_text(
        "[cross]\nsize = [[4000, 4000]]\nkernel = [64]\nchannels = 512\noutputs = 512\n"
    )
    make = ("suite", "make", tmp_path / "s", "--layers", path)
    assert "1 case would take about" in answer(*make, code=5).err
    assert "products, more than" in answer(*make, "--max-size", "4T", code=5).err
    assert not (tmp_path / "s").exists()


def test_lines_of_keys() -> None:
    text = "a = 1\n[cross]\na = 2\n[[layer]]\nb = 1\n[[layer]]\nname = 3\n'b' = 2\n"
    reader, layer = TomlReader(text.encode(), "a.toml"), "[[layer]]"
    assert reader.position(("a",)) == (1, 1)
    assert reader.position(("[cross]", "a")) == (3, 1)
    assert reader.position((layer, layer, "b")) == (8, 2)
    assert reader.position((layer, layer, "c")) == (6, 1)
    assert reader.position(("c",)) == (1, 1)
