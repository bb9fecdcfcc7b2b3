"""Files of others: what is no regular file is refused at once, whatever it is given for."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from irdeconv.base.errors import FileAccessError, LimitError
from irdeconv.base.opening import parse_json, parse_toml, read_file, shown
from irdeconv.cli.main import main

MODEL = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
OTHER = "ir_samples/onnx/default.xml"

# The suffix of the file that is none, and how it is given.
COMMANDS = {
    "validate": ("", "validate {}"),
    "infer": (".xml", "infer {}"),
    "inspect": (".ird", "inspect {}"),
    "onnx": (".onnx", "convert {} -o out.xml"),
    "dump": (".json", "convert {} -o out.xml"),
    "weights of a dump": (".npz", "convert DUMP --weights {} -o out.xml"),
    "lower": (".onnx", "lower {}"),
    "weights": (".bin", "validate MODEL --weights {}"),
    "array": (".npy", "run MODEL x=@{}"),
    "arrays": (".npz", "run MODEL {}"),
    "picture": (".png", "run MODEL x=@{}"),
    "saved arrays": (".npz", "compare MODEL {}"),
    "target": (".toml", "lower MODEL --target {}"),
    "certificate": (".json", "check-certificate MODEL OTHER --certificate {}"),
    "report": (".json", "bench MODEL --against {}"),
    "measurements": (".json", "run MODEL --tune={}"),
    "layers": (".toml", "suite make made --layers {}"),
    "demo": (".png", "demo --input {} -o made"),
}
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
    name: str,
    make: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("text", ["a", "a = " + "9" * 5000, "a = " + "[" * 50_000])
def test_toml_that_nobody_can_use(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_toml(text)


def test_values_in_messages() -> None:
    assert shown(1 << 100_000) == "a number of 100,001 bits"
    text = shown("a\n\x1b" + "b" * 500)
    assert (len(text), text[:9], text[-5:]) == (63, r"'a\n\x1bb", "bb...")
    assert shown([1, 2]) == "[1, 2]"


@pytest.mark.parametrize("value", [1, True, "x", [1], {"xml": "x"}, {"xml": None}, {"xml": [1]}])
def test_files_that_no_certificate_names(
    value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low, held = str(tmp_path / "low.xml"), tmp_path / "c.json"
    assert main(["lower", MODEL, "-o", low, "--certify", str(held)]) == 0
    held.write_text(json.dumps({**json.loads(held.read_text()), "lowered": value}))
    assert main(["check-certificate", MODEL, low, "--certificate", str(held)]) == 2
    assert "what it says of its files" in " ".join(capsys.readouterr().err.split())
