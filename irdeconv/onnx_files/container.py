"""An ONNX model's file: read without the data that lies in other files, written with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from filecmp import cmp
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv import progress
from irdeconv.errors import misused
from irdeconv.importers.imported import malformed
from irdeconv.importers.onnx_external import (
    ExternalFiles,
    checked,
    external_entry,
    file_inside,
    is_external,
    parse_model,
)
from irdeconv.importers.onnx_tensors import onnx_module
from irdeconv.io.atomic import Files, failures
from irdeconv.limits import current
from irdeconv.onnx_files.scopes import scopes, tensors_of
from irdeconv.opening import open_file, read_file
from irdeconv.source import Location, SourceFile

MESSAGE_LIMIT = 2**31 - 2**20  # bytes; a protobuf message holds less than 2 GiB
LARGE = 1024  # bytes from which on a tensor goes into another file, as the package onnx does


@dataclass
class OnnxFile:
    """A model: `proto` is its ModelProto, `folder` where the files of external data lie.

    Data in other files is read tensor by tensor, when it is asked for. `folder` is None for a model
    that came as bytes. `staged` has those of the files that do not stand in their places yet.
    """

    proto: Any = field(repr=False)
    name: str
    folder: Path | None = None
    staged: Mapping[str, Path] = field(default_factory=dict)

    def tensor(self, tensor: Any) -> Any:
        """Return a TensorProto with its data inside; InputError where the file has none of it."""
        if not is_external(tensor):
            return tensor
        out = type(tensor)()
        out.CopyFrom(tensor)
        try:
            self._load(out)
        except (OSError, ValueError) as e:
            message = f'external data of "{tensor.name}" cannot be read: {e}'
            raise malformed(self.location, message) from None
        out.data_location = out.DEFAULT
        del out.external_data[:]
        return out

    def _load(self, tensor: Any) -> None:
        """Read the data of a tensor in another file into it."""
        staged = self.staged.get(external_entry(tensor, "location"))
        if staged is not None:
            with open(staged, "rb") as file:
                file.seek(int(external_entry(tensor, "offset") or 0))
                tensor.raw_data = file.read(int(external_entry(tensor, "length") or -1))
            return
        if self.folder is None:
            raise ValueError("the model came without the folder of its external data")
        tensor.raw_data = ExternalFiles(self.folder).read(tensor)

    def file_of(self, tensor: Any) -> Path | None:
        """Return the file that a tensor's data lies in; None inside the model."""
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
    """Read a model from a file, its bytes or a copy of a ModelProto, not what lies in other files.

    Raises InputError where it is no ONNX model, FileAccessError where it cannot be read.
    """
    onnx = onnx_module()
    if isinstance(source, onnx.ModelProto):
        copied = onnx.ModelProto()
        copied.CopyFrom(source)
        place = Location(SourceFile("<onnx.ModelProto>", b""))
        return OnnxFile(checked(copied, place), place.file)
    name = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
    place = Location(SourceFile(name, b""))
    data = source if isinstance(source, bytes) else read_file(source, current().message_bytes)
    proto = parse_model(data, place)
    return OnnxFile(proto, name, None if isinstance(source, bytes) else Path(source).parent)


def stage_file(
    model: OnnxFile, added: Sequence[Any], target: Path, files: Files, *, force: bool = False
) -> OnnxFile:
    """Write a model with the files of its external data; they take their places with `files`.

    `added` are its new tensors: large ones go into a file of their own where the model has such
    files already, or would not fit into a message. Files of external data are copied into another
    folder; in the model's own folder they are shared. Returns the model as it is read back.
    Raises UsageError where a copy would replace another file, unless `force` allows it.
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
    if model.folder is None or model.folder.resolve() == folder.resolve():
        return
    with progress.stage("copying external data", total=len(used)) as step:
        for name in used:
            try:
                source, target = file_inside(model.folder, name), folder / name
            except ValueError as e:
                raise malformed(model.location, f"external data: {e}") from None
            if not target.resolve().is_relative_to(folder.resolve()):
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
