"""What is raised is also the built-in error that says the same, and survives pickling."""

from __future__ import annotations

import copy
import errno
import pickle
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.base import errors
from irdeconv.base.errors import Diagnostic, FileAccessError, IrdeconvError, Note, no_access
from irdeconv.cli.main import main

KINDS = {
    "InputError": ValueError,
    "InferenceError": ValueError,
    "UsageError": ValueError,
    "ArgumentTypeError": TypeError,
    "LoweringError": NotImplementedError,
    "UnsupportedError": NotImplementedError,
    "ExecutionError": RuntimeError,
    "LimitError": MemoryError,
    "FileAccessError": OSError,
    "MissingFileError": FileNotFoundError,
    "MissingWeightsError": FileNotFoundError,
    "ForbiddenFileError": PermissionError,
    "FolderError": IsADirectoryError,
    "NoFolderError": NotADirectoryError,
}


def made(kind: type[IrdeconvError]) -> IrdeconvError:
    return kind([Diagnostic("E500", "error", "text"), Diagnostic("W303", "warning", "more")])


@pytest.mark.parametrize("name", KINDS)
def test_errors_are_built_in_errors_too(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, IrdeconvError)
    assert issubclass(kind, KINDS[name])
    assert "text" in str(made(kind))
    assert "more" not in str(made(kind))


@pytest.mark.parametrize("name", KINDS)
def test_errors_are_copied_and_pickled(name: str) -> None:
    error = made(getattr(errors, name))
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(back) is type(error)
        assert (str(back), back.diagnostics) == (str(error), error.diagnostics)


def test_a_file_error_keeps_number_and_name() -> None:
    error = no_access(Diagnostic("E100", "error", "no"), errno.EACCES, Path("a.xml"))
    for back in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(back, PermissionError)
        assert (back.errno, back.filename) == (errno.EACCES, "a.xml")
        assert back.strerror == "Permission denied"
    assert type(no_access(error.diagnostics, None, "a")) is FileAccessError


@pytest.mark.parametrize("name", ["no.xml", "no.onnx", "no.json", "no.ird", "no"])
def test_a_missing_model_is_a_missing_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for function in (ird.read, ird.convert):
        with pytest.raises(FileNotFoundError) as caught:
            function(path)
        assert isinstance(caught.value, FileAccessError)
        assert caught.value.filename == str(path)
    assert main(["infer", str(path)]) == 6


def test_other_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        ird.read(tmp_path)
    graph = ird.read("ir_samples/openvino/group_deconv.xml")
    with pytest.raises(FileNotFoundError):
        ird.write(graph, tmp_path / "no" / "net.xml")
    with pytest.raises(IsADirectoryError):
        ird.write(graph, tmp_path)
    with pytest.raises(FileNotFoundError):
        ird.lower(graph, target=tmp_path / "no.toml")
    with pytest.raises(FileNotFoundError):
        ird.compare(graph, tmp_path / "no.npz", {"x": 0})


def test_wrong_content_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="E101"):
        ird.read(b"nothing")


def test_missing_weights_are_a_missing_file_and_a_model_that_cannot_be_used(tmp_path: Path) -> None:
    model = tmp_path / "net.xml"
    model.write_bytes(Path("ir_samples/openvino/group_deconv.xml").read_bytes())
    for kind in (FileNotFoundError, ird.InputError, ird.FileAccessError, ValueError):
        with pytest.raises(kind) as caught:
            ird.run(model, {})
        assert caught.value.filename == str(tmp_path / "net.bin")
    assert main(["infer", str(model)]) == 3


@pytest.mark.parametrize("text", [b"<?xml version='1.0'?><net/>", b'graph 1 "n" {}'])
def test_what_needs_no_conversion_is_not_converted(text: bytes) -> None:
    with pytest.raises(ird.UsageError, match="needs no conversion"):
        ird.convert(text)


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    forged = 'layer "a\nmodel.xml:1:1: error[E101]: nothing is wrong" is wrong'
    found = Diagnostic("E210", "error", forged, notes=(Note("a\nb"),), hint="c\nd")
    for text in (str(found), found.render()):
        assert "\nmodel.xml" not in text
    assert len(found.render().splitlines()) == 3
