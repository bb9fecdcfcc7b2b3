"""Import a model of another format: which one it is, and who reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

from irdeconv.base import gc_pause
from irdeconv.base.errors import misused
from irdeconv.base.limits import current
from irdeconv.base.opening import first_bytes, read_file, unreadable
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.importing import Imported
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.spec import Shape

_SPACE = b" \t\r\n\xef\xbb\xbf"


@gc_pause.paused()
def import_model(
    path: str | PathLike[str] | bytes | Any,
    weights: str | PathLike[str] | None = None,
    *,
    shapes: Mapping[str, Shape | None] | None = None,
    seed: int = 0,
    semantics: Semantics = "runtime",
    name: str = "<stdin>",
) -> Imported:
    """Import an ONNX model or a JSON dump of oneDNN Graph; the content says which it is.

    `path` may be the bytes themselves, or an onnx.ModelProto, then called `name`. `weights` belong
    to a dump only (`.npz`, or "random" with `seed`). Raises UnsupportedError, InputError,
    InferenceError, UsageError, FileAccessError.
    """
    data: bytes | Any | None = None
    if isinstance(path, str | PathLike):
        name = os.fspath(path)
        begin = _begin(name)
    else:
        data, begin = path, path[:64] if isinstance(path, bytes) else b""
    if begin.lstrip(_SPACE).startswith((b"{", b"[")):
        from irdeconv.formats.onednn_reader import read_onednn

        text = read_file(name, current().json_bytes) if data is None else data
        return read_onednn(
            name, text, weights=weights, shapes=shapes, seed=seed, semantics=semantics
        )
    _refuse_other_models(begin, name)
    if weights is not None:
        raise misused("an ONNX model contains its weights; others are given for dumps and old IR")
    from irdeconv.formats.onnx_reader import read_onnx

    return read_onnx(name, data, shapes=shapes, semantics=semantics)


def _refuse_other_models(begin: bytes, name: str) -> None:
    """Raise UsageError for formats that need no conversion."""
    text = begin.lstrip(_SPACE)
    found = "an IR" if text.startswith((b"<?xml", b"<net")) else None
    if re.match(rb"(//[^\n]*\s+)*graph\s", text):
        found = "the text form of a graph"
    if found:
        message = f"{name} is {found}, which needs no conversion"
        raise misused(message, "every verb reads it; infer -o FILE.xml writes an IR of it")


def _begin(path: str) -> bytes:
    try:
        return first_bytes(path, 64)
    except (OSError, ValueError) as e:
        place = Location(SourceFile(path, b""))
        raise unreadable(path, e, location=place) from None
