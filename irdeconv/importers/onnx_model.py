"""Loading ONNX models: local functions inlined, external data read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irdeconv.errors import UnsupportedError
from irdeconv.importers.imported import malformed
from irdeconv.importers.onnx_tensors import onnx_module
from irdeconv.source import Location


def load(path: str, data: bytes | Any | None, location: Location) -> tuple[Any, tuple[Path, ...]]:
    """Return a ModelProto with local functions inlined, and the files of its external data."""
    onnx = onnx_module("onnx", "load", "checker")
    protobuf = onnx_module("google.protobuf.message")
    try:
        if data is None:
            model = onnx.load(path, load_external_data=False)
            files = _external(model, Path(path).parent)
            onnx_module("onnx.external_data_helper").load_external_data_for_model(
                model, str(Path(path).parent)
            )
        elif isinstance(data, bytes):
            model, files = onnx.load_model_from_string(data), ()
        else:
            model, files = data, ()
        if model.functions:
            model = onnx_module("onnx.inliner").inline_local_functions(model)
    except (protobuf.DecodeError, protobuf.Error) as e:
        raise malformed(location, "not an ONNX model: its protobuf cannot be read") from e
    except FileNotFoundError as e:
        if str(e.filename or path) == path:
            raise
        raise malformed(location, f"external data is missing: {e.filename}") from None
    except UnsupportedError:
        raise
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as e:
        raise malformed(location, f"the ONNX model cannot be loaded: {e}") from None
    if not model.graph.node and not model.graph.output:
        raise malformed(location, "not an ONNX model: it has no nodes and no outputs")
    return model, files


def _external(model: Any, folder: Path) -> tuple[Path, ...]:
    """Return the files that initializers name."""
    entries = (e for t in model.graph.initializer for e in t.external_data)
    return tuple({folder / e.value for e in entries if e.key == "location"})
