"""Loading ONNX models: local functions inlined, external data read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irdeconv.importers.imported import malformed
from irdeconv.importers.onnx_external import (
    checked,
    load_external,
    parse_model,
)
from irdeconv.importers.onnx_tensors import onnx_module
from irdeconv.limits import current
from irdeconv.opening import read_file
from irdeconv.source import Location


def load(path: str, data: bytes | Any | None, location: Location) -> tuple[Any, tuple[Path, ...]]:
    """Return a ModelProto with local functions inlined, and the files of its external data."""
    onnx = onnx_module("onnx", "load", "checker")
    files: tuple[Path, ...] = ()
    if data is None:
        model = parse_model(read_file(path, current().message_bytes), location)
        files = load_external(model, Path(path).parent, location)
    elif isinstance(data, bytes):
        model = parse_model(data, location)
    else:
        model = checked(data, location)
    if model.functions:
        try:
            model = onnx_module("onnx.inliner").inline_local_functions(model)
        except (onnx.checker.ValidationError, ValueError, RuntimeError) as e:
            raise malformed(location, f"the ONNX model cannot be loaded: {e}") from None
    return model, files
