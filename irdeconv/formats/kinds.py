"""The kind of a file, detected by its first bytes: a model for irdeconv, or something else."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

BEGIN = 4096  # bytes that are examined
SAFETENSORS = ".safetensors"
SAVED = (".npz", SAFETENSORS)  # suffixes of files of several arrays


Format = Literal["xml", "onnx", "json", "ird"]


class Kind(NamedTuple):
    """A file's kind, and how to get a model from it; `format` is the suffix of readable ones."""

    name: str
    mend: str
    format: Format | None = None

    @property
    def foreign(self) -> bool:
        """Whether it is known to be no model that irdeconv reads."""
        return self.format is None and self.name not in _UNCERTAIN


_EXPORT = "export the model to ONNX or OpenVINO IR where it was made"
_KERAS = "export it with Keras: model.export('model.onnx', format='onnx')"
_OF_CODE = "load it into the network's own code, and export that: torch.onnx.export"
_UNPACK = "unpack it and name the model in it"
_NOT_MODEL = "name the model's .xml"
_AS_INPUT = "give it as an input: irdeconv run MODEL x=@{}"
_PYTORCH = Kind("a PyTorch file", "export it: torch.onnx.export")
_IR = Kind("an OpenVINO IR", "call it .xml", "xml")
_ONNX = Kind("an ONNX model", "call it .onnx", "onnx")
_JSON = Kind("JSON", "call it .json if it is a dump of oneDNN Graph", "json")
_TEXT_FORM = Kind("the text form of a graph", "call it .ird", "ird")
_BINARY = Kind("binary data", _NOT_MODEL)
_PLAIN = Kind("plain text", _NOT_MODEL)
_EMPTY = Kind("an empty file", "copy or export it again: nothing was written into it")
_UTF = "save it as UTF-8: iconv -f {} -t UTF-8 (and drop encoding= in its first line)"
_SIGNATURES = (
    (b"\x1f\x8b", Kind("compressed by gzip", "unpack it: gunzip -k {}")),
    (b"BZh", Kind("compressed by bzip2", "unpack it: bunzip2 -k {}")),
    (b"\xfd7zXZ\0", Kind("compressed by xz", "unpack it: unxz -k {}")),
    (b"\x28\xb5\x2f\xfd", Kind("compressed by zstd", "unpack it: unzstd {}")),
    (b"\x04\x22\x4d\x18", Kind("compressed by lz4", "unpack it: unlz4 {}")),
    (b"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", _UNPACK)),
    (b"version https://git-lfs", Kind("a git-lfs pointer", "fetch the file itself: git lfs pull")),
    (b"\x7fELF", Kind("a program or library (ELF)", _NOT_MODEL)),
    (b"MZ", Kind("a program or library of Windows", _NOT_MODEL)),
    (b"\xcf\xfa\xed\xfe", Kind("a program or library of macOS", _NOT_MODEL)),
    (b"\x93NUMPY", Kind("a NumPy array (.npy)", _AS_INPUT)),
    (b"\x89HDF", Kind("HDF5, as Keras writes it", _KERAS)),
    (b"\x89PNG", Kind("a PNG image", _AS_INPUT)),
    (b"\xff\xd8\xff", Kind("a JPEG image", _AS_INPUT)),
    (b"%PDF", Kind("a PDF", _NOT_MODEL)),
    (b"GGUF", Kind("a GGUF file: weights without a graph", _OF_CODE)),
    (b"\xff\xfe\0\0", Kind("UTF-32 text", _UTF.format("UTF-32"))),
    (b"\0\0\xfe\xff", Kind("UTF-32 text", _UTF.format("UTF-32"))),
    (b"\xff\xfe", Kind("UTF-16 text", _UTF.format("UTF-16"))),
    (b"\xfe\xff", Kind("UTF-16 text", _UTF.format("UTF-16"))),
    (b"<\0\0\0", Kind("UTF-32 text", _UTF.format("UTF-32LE"))),
    (b"\0\0\0<", Kind("UTF-32 text", _UTF.format("UTF-32BE"))),
    (b"<\0", Kind("UTF-16 text", _UTF.format("UTF-16LE"))),
    (b"\0<", Kind("UTF-16 text", _UTF.format("UTF-16BE"))),
)
BINARY = _BINARY.name
ARRAYS = ("a NumPy array (.npy)", "an archive of NumPy arrays (.npz)")  # no weights begin like them
# The first three kinds are uncertain; the last may be an IR's.
_UNCERTAIN = (_PLAIN.name, _BINARY.name, _EMPTY.name, "UTF-16 text")
# Contents of archives, by the names of their first entries.
_ZIPS = (
    (
        rb"\.npy",
        Kind("an archive of NumPy arrays (.npz)", "give it as inputs: irdeconv run MODEL {}"),
    ),
    (rb"/data\.pkl|/version|/byteorder", _PYTORCH),
    (rb"config\.json|metadata\.json", Kind("a Keras model", _KERAS)),
)
# An ONNX model begins with its ir_version, then producer, graph or operation sets.
_ONNX_BEGIN = re.compile(rb"\x08[\x01-\x3f][\x12\x1a\x22\x28\x2a\x32\x3a\x42\x72]", re.DOTALL)
_OF_SOURCE = "nothing turns it back: name the .onnx or .xml that it was compiled of"
_SHARED = {"EXPORT": _EXPORT, "CODE": _OF_CODE, "SOURCE": _OF_SOURCE}
_TABLE = (Path(__file__).parent / "other_kinds.txt").read_text("utf-8").strip().split("\n")
_SUFFIXES = {  # lines of suffixes, a name and a remedy
    suffix: kind
    for suffixes, name, mend in (line.split(" | ") for line in _TABLE)
    for kind in [Kind(name, _SHARED.get(mend, mend))]
    for suffix in suffixes.split()
}
_WEIGHTS = (".bin", ".data")
_JSONS = (
    (
        rb'"schema":\s*"irdeconv/',
        Kind("a result of irdeconv", "name a model; certificates go with --certificate"),
    ),
    (rb'\{\s*"cells":', Kind("a notebook", _NOT_MODEL)),
    (rb'\{\s*"nodes":\s*\[\s*\{\s*"op"', Kind("an MXNet model", _EXPORT)),
    (rb'"itemInfoEntries":', Kind("the manifest of a Core ML model", _EXPORT)),
    (rb'"(modelTopology|weightsManifest)":', Kind("a TensorFlow.js model", _EXPORT)),
    (
        rb'"(model_type|architectures|weight_map)":',
        Kind("the settings of a network, without its graph", _OF_CODE),
    ),
)


def kind_of(begin: bytes, path: str) -> Kind:
    """Return a file's kind by its first `BEGIN` bytes; without a signature its suffix helps."""
    kind = _by_content(begin, PurePath(path).suffix.lower())
    stem = PurePath(path).with_suffix("") if kind is _SUFFIXES[".bin"] else ""
    for model in (f"{stem}.xml", f"{stem}.onnx", str(stem)) if stem else ():
        if model.endswith((".xml", ".onnx")) and os.path.isfile(model):
            return kind._replace(mend=f"name the model: {model}")
    if stem and os.path.isfile(f"{stem}.param"):
        return _SUFFIXES[".param"]
    return kind._replace(mend=kind.mend.replace("{}", path))


def _by_content(begin: bytes, suffix: str) -> Kind:
    if not begin:
        return _EMPTY
    if suffix == ".blob":
        return _SUFFIXES[suffix]
    if begin.startswith(b"PK\3\4"):
        found = (kind for names, kind in _ZIPS if re.search(names, begin))
        return next(found, _SUFFIXES.get(suffix) or Kind("a zip archive", _UNPACK))
    if begin[8:10] == b'{"':
        return _SUFFIXES[".safetensors"]
    if begin[257:262] == b"ustar":
        return Kind("a tar archive", _UNPACK)
    if begin[4:8] == b"TFL3":
        return Kind("a TensorFlow Lite model", "convert it: ovc {}, or tf2onnx --tflite")
    if re.match(rb"\x80[\2-\5]", begin):
        return Kind("a Python pickle, as PyTorch wrote it", "export it: torch.onnx.export")
    for mark, kind in _SIGNATURES:
        if begin.startswith(mark):
            return kind
    return _by_text(begin.removeprefix(b"\xef\xbb\xbf").lstrip(), begin, suffix)


def _by_text(text: bytes, begin: bytes, suffix: str) -> Kind:
    if re.match(rb"<(!doctype )?html", text, re.I):
        return Kind("a web page", "download the file itself; the link led to a page about it")
    if text.startswith(b"<"):
        return _IR
    if text.startswith(b"{") or (suffix == ".json" and text.startswith(b"[")):
        return next((kind for mark, kind in _JSONS if re.search(mark, begin)), _JSON)
    if suffix == ".ird" or re.match(rb"(//[^\n]*\s+)*graph\s", text):
        return _TEXT_FORM
    if suffix in _SUFFIXES and suffix not in _WEIGHTS:
        return _SUFFIXES[suffix]
    if _ONNX_BEGIN.match(begin) and suffix not in _WEIGHTS:
        return _ONNX
    if re.search(rb"[\0-\x08\x0e-\x1f]", begin):
        return _SUFFIXES[".bin"] if suffix in _WEIGHTS else _BINARY
    return _PLAIN if begin.strip() else _EMPTY
