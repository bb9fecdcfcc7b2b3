"""ONNX files and their scopes: the graph, the bodies of nodes, functions.

A model is read without its external data, and written with it. The message is checked against the
limits before a graph is built. A model may name regular files in its own folder or below it: no
absolute path, no "..", no link that leads out. Offset and length of a tensor must lie in the file
and fit its shape.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from filecmp import cmp
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from os import PathLike
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from irdeconv.base import progress, work
from irdeconv.base.errors import ArgumentTypeError, Diagnostic, IrdeconvError, LimitError, misused
from irdeconv.base.limits import Limits, current, raise_hint
from irdeconv.base.opening import open_file, read_file, real, reason_of, shown, size_of
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.atomic import Files, failures
from irdeconv.formats.importing import malformed
from irdeconv.formats.kinds import BEGIN, kind_of
from irdeconv.formats.onnx_node import (
    STANDARD,
    bodies,
    in_order,
    initializers,
    onnx_module,
    opsets_of,
    overload,
    title_of,
)

CONSTANT_STEPS = frozenset(["Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze"])


@dataclass(frozen=True, eq=False)
class Scope:
    """A graph or a function's body, and the scope around it.

    `body` is a GraphProto or a FunctionProto, `opsets` the operation sets by domain, `title` its
    readable place ("" for the model's own graph). With `overridable` an initializer that is an
    input as well is only its default (IR version 4 and later).
    """

    body: Any
    opsets: Mapping[str, int]
    parent: Scope | None = None
    title: str = ""
    overridable: bool = False

    def inside(self, at: int) -> Iterator[Scope]:
        """Yield the scopes of the graphs that the node at a place holds."""
        node = self.body.node[at]
        for name, body in bodies(node):
            title = f'{name} of {node.op_type} "{title_of(node)}"'
            yield Scope(body, self.opsets, self, title)

    @property
    def is_function(self) -> bool:
        """Whether it is the body of a function, which has no initializers."""
        return not hasattr(self.body, "initializer")

    @property
    def outermost(self) -> Scope:
        """The model's graph or the function that the scope is in."""
        return self if self.parent is None else self.parent.outermost

    @cached_property
    def initializers(self) -> dict[str, Any]:
        """The scope's own initializers that are constants."""
        if self.is_function:
            return {}
        defaults = {i.name for i in self.body.input} if self.overridable else set()
        return {n: t for n, t in initializers(self.body).items() if n not in defaults}

    @cached_property
    def producers(self) -> dict[str, Any]:
        """The scope's own nodes by their outputs."""
        return {o: n for n in self.body.node for o in n.output if o}

    @cached_property
    def entries(self) -> frozenset[str]:
        """The names that come from outside: inputs, and initializers that may be replaced."""
        given = self.body.input
        return frozenset(given if self.is_function else (i.name for i in given))

    def owner(self, name: str) -> Scope | None:
        """Return the scope that gives a name its value; None if no scope does."""
        here = name in self.producers or name in self.initializers or name in self.entries
        return self if here else self.parent and self.parent.owner(name)

    def producer(self, name: str) -> Any:
        """Return the node that makes a name; None if there is none."""
        owner = self.owner(name)
        return None if owner is None else owner.producers.get(name)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The scope's own constants: initializers, and nodes that compute them of constants."""
        out = dict(self.initializers)
        for node in in_order(self.body.node):
            if self._is_fixed(node, out):
                out |= {o: node for o in node.output if o and o not in self.initializers}
        return out

    def _is_fixed(self, node: Any, own: Mapping[str, Any]) -> bool:
        """Whether the outputs of a node are constants, if the scope's `own` ones are known."""
        if node.domain not in STANDARD or node.op_type not in ("Constant", *CONSTANT_STEPS):
            return False
        if node.op_type == "Constant":
            return not any(a.ref_attr_name for a in node.attribute)
        owners = ((i, self.owner(i)) for i in node.input if i)
        return all(s and i in (own if s is self else s.constants) for i, s in owners)

    def is_constant(self, name: str) -> bool:
        """Whether a name is a constant; `constant` returns its initializers and nodes."""
        owner = self.owner(name)
        return owner is not None and name in owner.constants

    def constant(self, name: str) -> tuple[list[Any], list[Any]] | None:
        """Return the initializers and nodes, in order, that a constant comes from; else None."""
        if not self.is_constant(name):
            return None
        tensors: dict[int, Any] = {}
        nodes: dict[int, Any] = {}
        todo = [(self, name)]
        while todo:
            scope, at = todo.pop()
            owner = scope.owner(at)
            assert owner is not None
            found = owner.constants[at]
            if at in owner.initializers:
                tensors[id(found)] = found
            elif id(found) not in nodes:
                nodes[id(found)] = found
                todo += [(owner, i) for i in found.input if i]
        return list(tensors.values()), in_order([*nodes.values()][::-1])


def scopes(model: Any) -> Iterator[Scope]:
    """Yield every scope of a ModelProto, the outer ones first."""
    opsets = opsets_of(model.opset_import)
    yield from _within(Scope(model.graph, opsets, overridable=model.ir_version >= 4))
    for function in model.functions:
        known = opsets | opsets_of(function.opset_import)
        yield from _within(Scope(function, known, title=f'function "{function.name}"'))


def _within(scope: Scope) -> Iterator[Scope]:
    yield scope
    for at in range(len(scope.body.node)):
        for inner in scope.inside(at):
            yield from _within(inner)


def every_body(*outermost: Any) -> Iterator[Any]:
    """Yield graphs and functions and all graphs inside them; no recursion."""
    todo = list(outermost)
    while todo:
        body = todo.pop()
        yield body
        todo += (inner for node in body.node for _, inner in bodies(node))


def tensors_of(body: Any) -> Iterator[Any]:
    """Yield every TensorProto of a scope's own initializers and attributes."""
    if hasattr(body, "initializer"):
        yield from body.initializer
        for sparse in body.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for a in (a for node in body.node for a in node.attribute):
        yield from (*([a.t] if a.HasField("t") else ()), *a.tensors)
        one = [a.sparse_tensor] if a.HasField("sparse_tensor") else []
        for sparse in (*one, *a.sparse_tensors):
            yield from (sparse.values, sparse.indices)


def uses(outermost: Any) -> Counter[str]:
    """Return how often each name is read in a graph or function and all graphs inside it."""
    out: Counter[str] = Counter()
    for body in every_body(outermost):
        is_graph = hasattr(body, "initializer")
        out.update(o.name if is_graph else o for o in body.output)
        out.update(i for node in body.node for i in node.input if i)
        for note in body.quantization_annotation if is_graph else ():
            out.update(entry.value for entry in note.quant_parameter_tensor_names)
    return out


def names(outermost: Any) -> set[str]:
    """Return every name of a tensor or node in a graph or function and all graphs inside it."""
    out: set[str] = set()
    for body in every_body(outermost):
        if hasattr(body, "initializer"):
            groups = (body.input, body.output, body.initializer, body.value_info)
            out.update(v.name for group in groups for v in group)
            out.update(s.values.name for s in body.sparse_initializer)
        else:
            out.update((*body.input, *body.output))
        for node in body.node:
            out.update((node.name, *node.input, *node.output))
    return out


MESSAGE_LIMIT = 2**31 - 2**20  # bytes; a protobuf message holds less than 2 GiB
LARGE = 1024  # bytes from which on a tensor goes into another file, as the package onnx does


@dataclass
class OnnxFile:
    """A model: `proto` is its ModelProto, `folder` has the files of external data.

    Data in other files is read tensor by tensor, when it is asked for. `folder` is None for a model
    that came as bytes. `staged` has the temporary paths of files that are not in place yet.
    """

    proto: Any = field(repr=False)
    name: str
    folder: Path | None = None
    staged: Mapping[str, Path] = field(default_factory=dict)

    def tensor(self, tensor: Any) -> Any:
        """Return a TensorProto with its data inside; InputError if the data cannot be read."""
        if not is_external(tensor):
            return tensor
        out = type(tensor)()
        out.CopyFrom(tensor)
        self._fill(out, ExternalFiles(self.folder))
        return out

    def fill(self) -> tuple[Path, ...]:
        """Read all data in other files into the model; return the files. Raises InputError."""
        files = ExternalFiles(self.folder)
        bodies = every_body(self.proto.graph, *self.proto.functions)
        for tensor in filter(is_external, (t for body in bodies for t in tensors_of(body))):
            self._fill(tensor, files)
        return tuple(files.sizes)

    def _fill(self, tensor: Any, files: ExternalFiles) -> None:
        """Put the data of another file into the tensor that names it."""
        name = external_entry(tensor, "location")
        try:
            if name in self.staged:
                with open(self.staged[name], "rb") as file:
                    file.seek(int(external_entry(tensor, "offset") or 0))
                    data = file.read(int(external_entry(tensor, "length") or -1))
            else:
                data = files.read(tensor)
        except IrdeconvError:
            raise
        except (OSError, ValueError) as e:
            message = f'external data of "{tensor.name}" in {shown(name)} cannot be read: '
            hint = f"copy the whole {shown(name)} beside the model: the exporter wrote both"
            raise malformed(self.location, message + reason_of(e), hint) from None
        tensor.raw_data = data
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]

    def file_of(self, tensor: Any) -> Path | None:
        """Return the file of a tensor's data; None if it is inside the model."""
        if not is_external(tensor):
            return None
        name = external_entry(tensor, "location")
        try:
            return self.staged.get(name) or file_inside(self.folder or Path(), name)
        except ValueError as e:
            raise malformed(self.location, f'external data of "{tensor.name}": {e}') from None

    @property
    def location(self) -> Location:
        """The file as a place."""
        return Location(SourceFile(self.name, b""))

    def external(self) -> list[str]:
        """Return the files of external data, as tensors name them, in order."""
        found = (t for s in scopes(self.proto) for t in tensors_of(s.body) if is_external(t))
        return list(dict.fromkeys(v for t in found if (v := external_entry(t, "location"))))

    def external_files(self) -> list[Path]:
        """Return the files of external data; names that lead elsewhere are never opened."""
        out = []
        for name in self.external():
            with suppress(ValueError):
                out.append(file_inside(self.folder or Path(), name))
        return out


OnnxSource = str | PathLike[str] | bytes | Any  # or an onnx.ModelProto


def load_file(source: OnnxSource) -> OnnxFile:
    """Read a model without data of other files, or copy one; InputError, FileAccessError."""
    onnx = onnx_module("onnx", "ModelProto")
    if isinstance(source, onnx.ModelProto):
        copied = onnx.ModelProto()
        copied.CopyFrom(source)
        place = Location(SourceFile("<onnx.ModelProto>", b""))
        return OnnxFile(checked(copied, place), place.file)
    if not isinstance(source, str | PathLike | bytes):
        message = f"expected an ONNX model, got {type(source).__name__}"
        hint = "it is a path (.onnx), the bytes of such a file or an onnx.ModelProto"
        raise ArgumentTypeError(Diagnostic("E700", "error", message, hint=hint))
    name = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
    place = Location(SourceFile(name, b""))
    data = source if isinstance(source, bytes) else read_file(source, current().message_bytes)
    proto = parse_model(data, place)
    return OnnxFile(proto, name, None if isinstance(source, bytes) else Path(source).parent)


def stage_file(
    model: OnnxFile, added: Sequence[Any], target: Path, files: Files, *, force: bool = False
) -> OnnxFile:
    """Write a model with the files of its external data; they take their places with `files`.

    `added` are its new tensors: large ones go into a file of their own if the model has such
    files already, or would not fit into a message. Files of external data are copied into another
    folder; in the model's own folder they are shared. Returns the model as it is read back.
    Raises UsageError if a copy would replace another file, unless `force` allows it.
    """
    used, before = model.external(), len(files.opened)
    if used or model.proto.ByteSize() > MESSAGE_LIMIT:
        name = f"{target.name}.data"
        while name in used:
            name = f"{name}.new"
        _move_out([t for t in added if len(t.raw_data) >= LARGE], target.parent / name, files)
    _copy(model, used, target.parent, files, force=force)
    with failures(target):
        new = files.open(target)
        new.file.write(model.proto.SerializeToString())
        new.finish()
    back = load_file(new.name)
    others = files.opened[before:-1]
    staged = {one.target.relative_to(target.parent).as_posix(): one.name for one in others}
    return OnnxFile(back.proto, str(target), target.parent, staged)


def _move_out(tensors: Sequence[Any], target: Path, files: Files) -> None:
    """Put the data of tensors into one file, each at a multiple of 4096 bytes."""
    if not tensors:
        return
    with failures(target):
        new = files.open(target)
        for tensor in tensors:
            offset = -(-new.file.tell() // 4096) * 4096
            new.file.write(bytes(offset - new.file.tell()))
            new.file.write(tensor.raw_data)
            place = {"location": target.name, "offset": offset, "length": len(tensor.raw_data)}
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
        new.finish()


def _copy(model: OnnxFile, used: Sequence[str], folder: Path, files: Files, *, force: bool) -> None:
    """Copy files of external data into another folder than the model's own."""
    if model.folder is None or real(model.folder) == real(folder):
        return
    with progress.stage("copying external data", total=len(used)) as step:
        for name in used:
            try:
                source, target = file_inside(model.folder, name), folder / name
            except ValueError as e:
                raise malformed(model.location, f"external data: {e}") from None
            if not real(target).is_relative_to(real(folder)):
                raise malformed(model.location, f'external data "{name}" lies outside the folder')
            if not source.is_file() or (target.is_file() and cmp(source, target, shallow=False)):
                continue
            if target.exists() and not force:
                message = f"{target} would be overwritten by a copy of {source}"
                raise misused(message, "write the model into another folder; --force allows it")
            with failures(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                new = files.open(target)
                with open_file(source) as old:
                    shutil.copyfileobj(old, new.file, 1 << 20)
                new.finish()
            step(detail=name)


def require_modest(model: Any, limits: Limits, location: Location) -> None:
    """Refuse more nodes, inputs, outputs or attributes than the limits allow, endless functions.

    Raises LimitError; InputError for functions that call themselves and nodes without operation.
    """
    count = 0
    outermost = (model.graph, *model.functions)
    for node in (node for top in outermost for body in every_body(top) for node in body.node):
        count += 1
        if not node.op_type:
            raise malformed(location, f"the node {shown(node.name)} names no operation")
        what = f'{node.op_type} "{node.name}" has'
        _require(len(node.input), "ports", limits, location, what)
        _require(len(node.output), "ports", limits, location, what)
        _require(len(node.attribute), "attributes", limits, location, what)
    _require(count, "layers", limits, location, "the model has")
    if model.functions:
        _require_finite(model, limits, location)


_WHAT = {"ports": "inputs or outputs", "layers": "nodes", "called_nodes": "nodes"}


def _require(found: int, limit: str, limits: Limits, location: Location, text: str) -> None:
    most = getattr(limits, limit)
    if found > most:
        message = f"{text} {found:,} {_WHAT.get(limit, limit)}; the limit is {most:,}"
        raise LimitError(Diagnostic("E601", "error", message, location, hint=raise_hint(limit)))


def _require_finite(model: Any, limits: Limits, location: Location) -> None:
    """Refuse functions that call themselves, and those whose nodes in place of calls are too many.

    A few functions that each call the next one twice expand to more nodes than any memory holds.
    """
    called = {(f.domain, f.name, overload(f)): list(_calls(f)) for f in model.functions}
    own = {key: [k for k in keys if k in called] for key, keys in called.items()}
    counts: dict[Any, int] = {}
    try:
        for key in TopologicalSorter(own).static_order():
            counts[key] = sum(counts.get(k, 1) for k in called[key])
    except CycleError as e:
        name = next(key[1] for key in called if key in e.args[1])
        raise malformed(location, f"the function {shown(name)} calls itself", code="E205") from None
    total = sum(counts.get(k, 0) for k in _calls(model.graph))
    _require(total, "called_nodes", limits, location, "calls of its functions stand for")


def _calls(body: Any) -> Iterator[Any]:
    """Yield domain, type and overload of each node of a body."""
    nodes = (node for part in every_body(body) for node in part.node)
    return ((n.domain, n.op_type, overload(n)) for n in nodes)


SHARING = 4  # how often tensors may take all bytes of the files together; most share nothing
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


def parse_model(data: bytes, location: Location) -> Any:
    """Return the ModelProto of bytes; InputError if they are none."""
    onnx = onnx_module("onnx", "ModelProto")
    protobuf = onnx_module("google.protobuf.message")
    try:
        model = onnx.ModelProto.FromString(data)
    except (protobuf.DecodeError, protobuf.Error, ValueError, RecursionError) as e:
        kind = kind_of(data[:BEGIN], location.file)
        if not kind.foreign and kind.format in (None, "onnx"):
            raise malformed(location, "not an ONNX model: its protobuf cannot be read") from e
        readers = f"irdeconv.lower and irdeconv.check_certificate read {kind.name}"
        hint = readers if kind.format else kind.mend
        raise malformed(location, f"not an ONNX model but {kind.name}", hint) from e
    return checked(model, location)


def checked(model: Any, location: Location) -> Any:
    """Return a ModelProto that has nodes or outputs, and within the limits; InputError."""
    if not model.graph.node and not model.graph.output:
        raise malformed(location, "not an ONNX model: it has no nodes and no outputs")
    bad = next((name for name in _texts(model) if not isinstance(name, str)), None)
    if bad is not None:  # the package protobuf gives names that are no UTF-8 as bytes
        raise malformed(location, f"the name {shown(bad)} is no UTF-8")
    require_modest(model, current(), location)
    work.earn(model.ByteSize(), first=True)
    return model


def _texts(model: Any) -> Iterator[str | bytes]:
    """Yield the names of domains, graphs, functions, nodes, attributes and values."""
    yield from (s.domain for s in model.opset_import)
    for function in model.functions:
        yield function.domain
        yield from (s.domain for s in function.opset_import)
        yield from function.attribute
        yield from (a.name for a in function.attribute_proto)
    for body in every_body(model.graph, *model.functions):
        ends = [x for key in ("input", "output", "value_info") for x in getattr(body, key, ())]
        ends += getattr(body, "initializer", ())
        yield from (body.name, *(getattr(x, "name", x) for x in ends))
        for node in body.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (a.name for a in node.attribute)


def is_external(tensor: Any) -> bool:
    """Whether the data of a tensor lies in another file."""
    return bool(tensor.data_location == tensor.EXTERNAL)


def external_entry(tensor: Any, key: str) -> str:
    """Return an entry of a tensor's external data ("location", "offset", "length"), else ""."""
    return next((str(e.value) for e in tensor.external_data if e.key == key), "")


def file_inside(folder: Path, name: str) -> Path:
    """Return the file that a tensor names; ValueError if it does not lie in the folder."""
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    rooted = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor
    if not name or "\0" in name or ".." in parts or rooted:
        raise ValueError(f"{shown(name)} is no name of a file in the model's folder")
    found = folder / name
    if not real(found).is_relative_to(real(folder)):
        raise ValueError(f"{shown(name)} leads out of the model's folder")
    return found


# An entry of external data as protobuf writes it: the key "location", the length of the name.
_LOCATION = re.compile(rb"\n\x08location\x12([\x80-\xff]?)([\0-\x7f])", re.DOTALL)
_LONGEST_MATCH = 1 << 14  # bytes of a name, and more than those of a match


def external_files(path: Path) -> list[Path]:
    """Return the files in a model's folder that its tensors name, in order; OSError.

    The bytes are searched for the names, a piece at a time: the model may be larger than memory,
    and the package onnx may be missing. Reading the model reports wrong names.
    """
    found: dict[Path, None] = {}
    with open_file(path) as file:
        data = b""
        while piece := file.read(1 << 20):
            data = data[-2 * _LONGEST_MATCH :] + piece
            for match in _LOCATION.finditer(data):
                low, high = match.groups()
                size = (low[0] & 127) + 128 * high[0] if low else high[0]
                name = data[match.end() : match.end() + size]
                with suppress(OSError, ValueError):
                    if len(name) == size:  # else the next piece has the rest
                        found[file_inside(path.parent, name.decode("utf-8", "replace"))] = None
    return list(found)


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

    folder: Path | None
    sizes: dict[Path, int] = field(default_factory=dict)
    taken: int = 0

    def read(self, tensor: Any) -> bytes:
        """Return the data of a tensor in another file; OSError, ValueError."""
        if self.folder is None:
            raise ValueError("the model came without the folder of its external data")
        path = file_inside(self.folder, external_entry(tensor, "location"))
        offset, length = _number(tensor, "offset") or 0, _number(tensor, "length")
        with open_file(path) as file:
            size = size_of(file)
            if path not in self.sizes:
                self.sizes[path] = size
                work.earn(size, str(path))
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


def _number(tensor: Any, key: str) -> int | None:
    """Return a number of a tensor's external data; None if it is missing."""
    text = external_entry(tensor, key)
    if not text:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"its {key} is {shown(text)}, not a whole number from 0 on")
    return int(text)


def load(path: str, data: bytes | Any | None, location: Location) -> tuple[Any, tuple[Path, ...]]:
    """Return a ModelProto with all its data, and the files of its external data."""
    if data is None:
        file = load_file(path)
        return file.proto, file.fill()
    return (parse_model if isinstance(data, bytes) else checked)(data, location), ()
