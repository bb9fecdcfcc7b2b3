"""Arrays as the bytes of `.npy` and `.npz` files, without pickled objects."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import IO

import numpy as np

from irdeconv.spec import Array


def npz(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays by name as the bytes of an .npz; the same arrays give the same bytes."""
    # Not numpy.savez: a tensor may be called "file", which is its own parameter's name.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            data = npy(array)
            with archived(archive, name, len(data)) as file:
                file.write(data)
    return buffer.getvalue()


def archived(archive: zipfile.ZipFile, name: str, size: int) -> IO[bytes]:
    """Open a new array of an .npz for that many bytes; nothing in it tells when it was written.

    A lone surrogate in the name, which has no UTF-8, is written as its escape.
    """
    stored = name.encode("utf-8", "backslashreplace").decode()
    info = zipfile.ZipInfo(f"{stored}.npy", (1980, 1, 1, 0, 0, 0))
    info.file_size = size  # from 2 GiB on it needs another header
    return archive.open(info, "w")


def npy(array: Array) -> bytes:
    """Return an array as .npy bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, plain(array), allow_pickle=False)
    return buffer.getvalue()


def plain(array: Array) -> Array:
    """Return types that NumPy files do not know as float32 (exactly), strings as text."""
    if array.dtype == object:
        return array.astype(str)
    if array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.float32)
