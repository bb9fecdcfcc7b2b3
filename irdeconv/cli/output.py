"""Write the file of -o: arrays, texts; whole files or none."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from irdeconv.base.errors import count, misused
from irdeconv.base.json_form import Real
from irdeconv.cli.console import Console, discard
from irdeconv.formats.arrays import packed
from irdeconv.formats.atomic import descriptor_of, write_file
from irdeconv.formats.kinds import SAVED
from irdeconv.ir.spec import Array

# The value of --format, by the suffix of -o.
TEXT_FORMATS = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
    ".ird": "ir",
}


def write_bytes(path: str, data: bytes) -> None:
    """Write a file atomically; `-` is stdout, for which a closed pipe is quiet."""
    if path == "-":
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            discard(sys.stdout)
        return
    write_file(Path(path), data)


def write_text(path: str | None, text: str, console: Console) -> None:
    """Write a text to a file, or to stdout without one."""
    if path is None or path == "-":
        console.raw(text)
    else:
        write_bytes(path, text.encode("utf-8", "backslashreplace"))
        console.log(f"wrote {path}")


def check_array_file(path: str | None) -> None:
    """Refuse a file for arrays whose suffix names no format; devices and pipes need none."""
    if path is None or path == "-" or path.endswith((*SAVED, ".npy")):
        return
    device = Path(path).exists() and not Path(path).is_file()
    if not device and descriptor_of(Path(path)) is None:
        raise misused(
            f"-o {path}: its suffix names no format for arrays", "write .npz, .safetensors or .npy"
        )


def check_text_file(path: str | None, format: str) -> None:
    """Refuse a file for a text whose suffix names another format, or a model."""
    suffix = Path(path or "").suffix.lower()
    wanted = TEXT_FORMATS.get(suffix, format)
    if wanted != format:
        raise misused(f"-o {path}: what is written is {format}", f"add --format {wanted}")
    if suffix in (".png", ".pdf"):
        hint = "write .svg and convert that, for example with rsvg-convert or a browser"
        raise misused(f"-o {path}: pictures are not drawn", hint)
    if suffix in (".xml", ".bin", ".onnx", ".npy", *SAVED):
        hint = "infer -o writes an IR; the table goes into a .txt"
        raise misused(f"-o {path}: what is written is {format}, no model", hint)


def check_single(path: str | None, outputs: Sequence[str], dumped: Sequence[str]) -> None:
    """Refuse an .npy file for anything but a single array."""
    if path is None or not path.endswith(".npy") or (len(outputs) == 1 and not dumped):
        return
    more = " beside the dumped layers" if dumped else ""
    number = f"the model has {count(len(outputs), 'output')}{more}"
    raise misused(f"-o {path}: .npy holds one array, {number}", "write .npz")


def save_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name as .npz (also to `-`), .safetensors, or a single one as .npy."""
    write_bytes(path, packed(path, arrays))


class ArrayFacts(TypedDict):
    """One output."""

    shape: list[int]  # of the array
    element_type: str  # NumPy's name
    non_finite: int  # elements that are infinite or NaN
    min: Annotated[float | None, Real]  # least finite element
    max: Annotated[float | None, Real]  # largest finite element
    mean: Annotated[float | None, Real]  # of the finite elements


def statistics(array: Array) -> ArrayFacts:
    """Return shape, element type, the number of non-finite elements and statistics of the others.

    Least, greatest and mean value are None if there are no finite numbers.
    """
    from irdeconv.show.page_values import array_statistics

    seen = array_statistics(array)
    return {
        "shape": list(array.shape),
        "element_type": str(array.dtype),
        "non_finite": seen.nan + seen.infinite,
        "min": seen.low,
        "max": seen.high,
        "mean": seen.mean,
    }


def note_tuning(path: str | None, console: Console) -> None:
    """Say that --tune has measured nothing if the file that it names was not made."""
    if path not in (None, "-") and not Path(path).exists():
        reason = "no layer has several kernels that are worth measuring"
        console.log(f"{path} is not written: {reason}")
