"""The inputs of `batch run --inputs`: files of arrays, whole or cut into rows."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from errno import EACCES
from typing import Any

import numpy as np

from irdeconv import __version__
from irdeconv.access import unreadable
from irdeconv.batches.items import BatchItem, Digests, found_files, name_of
from irdeconv.cli.batch_sources import sources
from irdeconv.cli.inputs import open_npz, told
from irdeconv.errors import misused
from irdeconv.extras import needed
from irdeconv.io.saved_arrays import npy_header, read_npy
from irdeconv.spec import Array

FILES, FOLDERS = (".npy", ".npz"), (".zarr",)
MOST_PARTS = 10_000_000
TELLING_NOTHING = ("--threads", "--max-memory", "--limit")  # options that change no output


def parts(args: argparse.Namespace, models: list[str]) -> list[BatchItem]:
    """Return an item for each file of --inputs, or for each --rows of it."""
    if len(models) != 1:
        message = f"--inputs: one model runs on them, PATH names {len(models)}"
        raise misused(message, "name a single model")
    if any(word.startswith("--dump=") for word in args.words):
        raise misused("--dump and --inputs exclude each other", "name inner layers by --outputs")
    own = [args.folder] if args.folder is not None else []
    files = found_files(args.inputs, FILES, FOLDERS, own)
    for path in files:
        if os.path.isdir(path) and not path.endswith(FOLDERS):
            raise unreadable(path, PermissionError(EACCES, os.strerror(EACCES)))
        if not path.endswith((*FILES, *FOLDERS)):
            names = ", ".join([*FILES, *FOLDERS])
            raise misused(f'--inputs: "{path}" holds no arrays', f"they are files of {names}")
    read = tuple(sources(models, args.words))
    origin = _origin(args.words, read)
    return [item for path in files for item in _of_file(args, models[0], path, read, origin)]


def _origin(words: list[str], read: tuple[str, ...]) -> str:
    """Return what two results have in common only if they were made alike, wherever that was."""
    digests = Digests()
    telling = [word for word in words if word.partition("=")[0] not in TELLING_NOTHING]
    text = json.dumps([__version__, telling, [digests.of(path) for path in read]])
    return hashlib.sha256(text.encode()).hexdigest()


def _of_file(
    args: argparse.Namespace, model: str, path: str, read: tuple[str, ...], origin: str
) -> Iterator[BatchItem]:
    rows = None if args.rows is None else _row_count(path)
    said = {"origin": origin, "of": rows}
    if rows is None:
        yield _part(args, model, path, None, read, said)
        return
    if rows // args.rows > MOST_PARTS:
        raise misused(f"--rows {args.rows} makes more than {MOST_PARTS:,} items", "take more rows")
    for begin in range(0, rows, args.rows):
        yield _part(args, model, path, (begin, min(begin + args.rows, rows)), read, said)


def _part(
    args: argparse.Namespace,
    model: str,
    path: str,
    rows: tuple[int, int] | None,
    read: tuple[str, ...],
    said: dict[str, Any],
) -> BatchItem:
    name = name_of(path, "" if rows is None else f"{rows[0]}_{rows[1]}")
    folder = None if args.folder is None else os.path.join(args.folder, name)
    payload = {"arrays": path, "part": rows, "model": model, "words": args.words, "folder": folder}
    payload |= said
    return BatchItem(name, path, payload, (*read, path), rows, depends=[model, *args.words])


def _row_count(path: str) -> int:
    """Return how many rows the arrays of a file have; their values are not read."""
    shapes = _shapes(path)
    found = {shape[0] for shape in shapes.values() if shape}
    if len(found) != 1 or not all(shapes.values()):
        listed = ", ".join(f"{name or 'array'} {list(s)}" for name, s in shapes.items()) or "none"
        message = f"{path} cannot be cut into rows; its arrays: {listed}"
        raise misused(message, "all of them need a first axis of one size")
    return int(found.pop())


def _shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's arrays; of files just the headers are read."""
    if path.endswith(".zarr"):
        return {name: array.shape for name, array in _zarr(path).items()}
    if path.endswith(".npz"):
        with open_npz(path) as arrays:
            return {name: arrays.header(name).shape for name in arrays}
    with told(path, ".npy"):
        return {"": npy_header(path).shape}


def read_rows(path: str, rows: tuple[int, int] | None) -> dict[str, Array]:
    """Return the arrays of a file by name ("" for the one of an .npy), or rows of them."""
    part = slice(None) if rows is None else slice(*rows)
    if path.endswith(".zarr"):
        return {name: np.array(array[part]) for name, array in _zarr(path).items()}
    if path.endswith(".npz"):
        with open_npz(path) as arrays:
            return {name: array[part].copy() for name, array in arrays.items()}
    with told(path, ".npy"):
        return {"": read_npy(path, rows)}


def _zarr(path: str) -> dict[str, Any]:
    """Return the arrays of a folder of zarr; none of Python objects, which zarr would unpickle."""
    zarr = needed("reading .zarr", "zarr", "open")
    try:
        found = zarr.open(path, mode="r")
        arrays = {"": found} if hasattr(found, "dtype") else dict(found.arrays())
    except Exception as e:  # whatever zarr says of what is no store of its
        raise misused(f"{path} cannot be read as zarr: {e}", "zarr.save writes one") from e
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            message = f'{path}: the array "{name}" holds no numbers'
            raise misused(message, "leave it out")
    return arrays
