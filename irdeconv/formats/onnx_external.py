"""Loading ONNX models from files: limits, local functions, external data.

The message is checked against the limits before a graph is built. A model may name regular files in
its own folder or below it: no absolute path, no "..", no link that leads out. Offset and length of
a tensor must lie in the file and fit its shape. Local functions are inlined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from irdeconv.base.errors import Diagnostic, IrdeconvError, LimitError
from irdeconv.base.limits import Limits, current, raise_hint
from irdeconv.base.opening import open_file, read_file, shown, size_of
from irdeconv.base.source import Location
from irdeconv.formats.importing import malformed
from irdeconv.formats.onnx_node import onnx_module


def require_modest(model: Any, limits: Limits, location: Location) -> None:
    """Refuse more nodes, inputs, outputs or attributes than the limits allow, endless functions.

    Raises LimitError; InputError for functions that call themselves and nodes without operation.
    """
    count = 0
    for body in (model.graph, *model.functions):
        for node in _nodes(body):
            count += 1
            if not node.op_type:
                raise malformed(location, f"the node {shown(node.name)} names no operation")
            for found, limit in (
                (len(node.input), "ports"),
                (len(node.output), "ports"),
                (len(node.attribute), "attributes"),
            ):
                _require(found, limit, limits, location, f'{node.op_type} "{node.name}" has')
    _require(count, "layers", limits, location, "the model has")
    if model.functions:
        _require_finite(model, limits, location)


_WHAT = {"ports": "inputs or outputs", "attributes": "attributes", "layers": "nodes"}


def _require(found: int, limit: str, limits: Limits, location: Location, text: str) -> None:
    most = getattr(limits, limit)
    if found > most:
        message = f"{text} {found:,} {_WHAT[limit]}; the limit is {most:,}"
        raise LimitError(Diagnostic("E601", "error", message, location, hint=raise_hint(limit)))


def _require_finite(model: Any, limits: Limits, location: Location) -> None:
    """Refuse functions that call themselves, and those whose nodes in place of calls are too many.

    A few functions that each call the next one twice stand for more nodes than any memory holds.
    """
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
    counts: dict[Any, int] = {}
    for key in functions:
        _count(key, functions, counts, location)
    total = sum(counts.get(k, 0) for k in _calls(model.graph))
    most = limits.called_nodes
    if total > most:
        text = f"calls of its functions stand for {total:,} nodes; the limit is {most:,}"
        hint = raise_hint("called_nodes")
        raise LimitError(Diagnostic("E601", "error", text, location, hint=hint))


def _count(start: Any, functions: Any, counts: dict[Any, int], location: Location) -> None:
    """Fill in how many nodes a function becomes, and those that it calls; no recursion."""
    path: dict[Any, list[Any]] = {}
    waiting = [start]
    while waiting:
        key = waiting[-1]
        if key in counts:
            waiting.pop()
            continue
        if key in path:
            counts[key] = sum(counts.get(k, 1) for k in path.pop(key))
            waiting.pop()
            continue
        called = path[key] = list(_calls(functions[key]))
        for k in called:
            if k in path:
                raise malformed(location, f"the function {shown(key[1])} calls itself", code="E205")
        waiting += [k for k in dict.fromkeys(called) if k in functions and k not in counts]


def _calls(body: Any) -> Iterator[Any]:
    """Yield what each node of a body is."""
    return ((n.domain, n.op_type, getattr(n, "overload", "")) for n in _nodes(body))


def _nodes(body: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or function, those in bodies of its nodes included."""
    bodies = [body]
    while bodies:
        for node in bodies.pop().node:
            yield node
            for a in node.attribute:
                bodies += [*([a.g] if a.HasField("g") else ()), *a.graphs]


SHARING = 4  # how often tensors may take all bytes of the files together; most share nothing
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


def parse_model(data: bytes, location: Location) -> Any:
    """Return the ModelProto of bytes; InputError where they are none."""
    onnx, protobuf = onnx_module(), onnx_module("google.protobuf.message")
    try:
        model = onnx.ModelProto.FromString(data)
    except (protobuf.DecodeError, protobuf.Error, ValueError, RecursionError) as e:
        raise malformed(location, "not an ONNX model: its protobuf cannot be read") from e
    return checked(model, location)


def checked(model: Any, location: Location) -> Any:
    """Return a ModelProto that has nodes or outputs, and within the limits; InputError."""
    if not model.graph.node and not model.graph.output:
        raise malformed(location, "not an ONNX model: it has no nodes and no outputs")
    _require_text(model, location)
    require_modest(model, current(), location)
    return model


def _require_text(model: Any, location: Location) -> None:
    """Refuse names that are no UTF-8: the package protobuf gives them as bytes."""
    bad = next((name for name in _texts(model) if not isinstance(name, str)), None)
    if bad is not None:
        raise malformed(location, f"the name {shown(bad)} is no UTF-8")


def _texts(model: Any) -> Iterator[str | bytes]:
    """Yield the names of domains, graphs, functions, nodes, attributes and values."""
    yield from (s.domain for s in model.opset_import)
    for function in model.functions:
        yield function.domain
        yield from (s.domain for s in function.opset_import)
        yield from function.attribute
        yield from (a.name for a in function.attribute_proto)
    bodies: list[Any] = [model.graph, *model.functions]
    while bodies:
        body = bodies.pop()
        ends = [x for key in ("input", "output", "value_info") for x in getattr(body, key, ())]
        ends += getattr(body, "initializer", ())
        yield from (body.name, *(getattr(x, "name", x) for x in ends))
        for node in body.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            for a in node.attribute:
                yield a.name
                bodies += [*([a.g] if a.HasField("g") else ()), *a.graphs]


def is_external(tensor: Any) -> bool:
    """Whether the data of a tensor lies in another file."""
    return bool(tensor.data_location == tensor.EXTERNAL)


def external_entry(tensor: Any, key: str) -> str:
    """Return an entry of a tensor's external data ("location", "offset", "length"), else ""."""
    return next((str(e.value) for e in tensor.external_data if e.key == key), "")


def file_inside(folder: Path, name: str) -> Path:
    """Return the file that a tensor names; ValueError where it does not lie in the folder."""
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    rooted = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor
    if not name or "\0" in name or ".." in parts or rooted:
        raise ValueError(f"{shown(name)} is no name of a file in the model's folder")
    found = folder / name
    if not found.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{shown(name)} leads out of the model's folder")
    return found


def bytes_of(tensor: Any) -> int | None:
    """Return the bytes of a tensor's elements, None without a fixed size; ValueError."""
    if any(d < 0 for d in tensor.dims):
        raise ValueError(f"its shape is {shown(list(tensor.dims))}")
    types = onnx_module().TensorProto.DataType
    name = types.Name(tensor.data_type) if tensor.data_type in types.values() else ""
    small = re.fullmatch(r"U?INT([24])|FLOAT4E2M1", name)
    count: int = math.prod(tensor.dims)
    if small:
        return -(-count * int(small[1] or 4) // 8)
    if name in ("", "UNDEFINED", "STRING"):
        return None
    helper = onnx_module("onnx.helper")
    return count * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


@dataclass
class ExternalFiles:
    """The files that the tensors of a model name, in the order of their first use."""

    folder: Path
    sizes: dict[Path, int] = field(default_factory=dict)
    taken: int = 0

    def read(self, tensor: Any) -> bytes:
        """Return the data of a tensor in another file; OSError, ValueError."""
        path = file_inside(self.folder, external_entry(tensor, "location"))
        offset, length = place_of(tensor)
        with open_file(path) as file:
            size = self.sizes.setdefault(path, size_of(file))
            length = max(size - offset, 0) if length is None else length
            if offset + length > size:
                message = f"bytes {offset}..{offset + length} lie outside {path.name}"
                raise ValueError(f"{message}, which has {size}")
            need = bytes_of(tensor)
            if need is not None and need != length:
                shape = shown(list(tensor.dims))
                raise ValueError(f"{shape} takes {need} bytes, {length} are given")
            self.taken += length
            if self.taken > SHARING * sum(self.sizes.values()):
                raise ValueError(f"tensors share the same bytes more than {SHARING} times")
            file.seek(offset)
            return file.read(length)


def place_of(tensor: Any) -> tuple[int, int | None]:
    """Return offset and length of a tensor's data (None: all that follows); ValueError."""
    return _number(tensor, "offset") or 0, _number(tensor, "length")


def _number(tensor: Any, key: str) -> int | None:
    """Return a number of a tensor's external data; None where it says none."""
    text = external_entry(tensor, key)
    if not text:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"its {key} is {shown(text)}, not a whole number from 0 on")
    return int(text)


def load_external(model: Any, folder: Path, location: Location) -> tuple[Path, ...]:
    """Read all data in other files into the model; return the files. Raises InputError."""
    files = ExternalFiles(folder)
    for tensor in tensors_of(model):
        if not is_external(tensor):
            continue
        try:
            data = files.read(tensor)
        except IrdeconvError:
            raise
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else e
            name = external_entry(tensor, "location")
            message = f'external data of "{tensor.name}" in {shown(name)} cannot be read: {reason}'
            raise malformed(location, message) from None
        tensor.raw_data = data
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]
    return tuple(files.sizes)


def tensors_of(model: Any) -> Iterator[Any]:
    """Yield all tensors of a model: initializers and attributes, in bodies and functions, too."""
    bodies: list[Any] = [model.graph, *model.functions]
    while bodies:
        body = bodies.pop()
        yield from getattr(body, "initializer", ())
        for sparse in getattr(body, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for node in body.node:
            for a in node.attribute:
                yield from (*([a.t] if a.HasField("t") else ()), *a.tensors)
                one = [a.sparse_tensor] if a.HasField("sparse_tensor") else []
                for sparse in (*one, *a.sparse_tensors):
                    yield from (sparse.values, sparse.indices)
                bodies += [*([a.g] if a.HasField("g") else ()), *a.graphs]


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
