"""What can be said of options before anything is read or computed: names, numbers, places."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irdeconv.base.errors import Diagnostic, did_you_mean, misused, no_access

PEER = "openvino"  # what OTHER may be instead of a file
RANDOM = "random"  # what --weights may say of a oneDNN dump


def check_options(args: argparse.Namespace) -> None:
    """Refuse values of shared options that cannot be right; UsageError, FileAccessError.

    The verbs need not think of it: an option is checked where a verb has it.
    """
    options = {name: value for name, value in vars(args).items() if value is not None}
    require_given(options)
    if options.get("no_weights") and "weights" in options:
        raise misused("--no-weights and --weights exclude each other", "leave one out")
    if options.get("shape"):
        from irdeconv.cli.model import parse_shapes

        parse_shapes(options["shape"])
    if "form" in options and not (options["form"] == "none" and options["form_none"]):
        from irdeconv.base.form_names import require_form

        require_form(options["form"])
    if "target" in options:
        from irdeconv.rewrite.targets import load_target

        load_target(options["target"])
    if isinstance(options.get("tune"), str):
        _check_measurements(Path(options["tune"]))
    for name in ("dump_dir", "reduce"):
        if name in options:
            require_folder(Path(options[name]))
    for name in ("file", "lowered", "other"):
        if name in options:
            _check_model(options[name], options)
    for name in ("weights", "lowered_weights", "other_weights"):
        if options.get(name) not in (None, RANDOM):
            _check_weights(options[name])
    if "output" in options:
        require_suffix(options["output"], options.get("output_suffixes", ()))


def require_given(options: Mapping[str, Any]) -> None:
    """Refuse an empty text where a file or a name is meant: a variable of the shell is unset."""
    for name in ("file", "lowered", "other", "output", "weights", "target", "certify", "layer"):
        if options.get(name) == "":
            what = name.upper() if name in ("file", "lowered", "other", "layer") else f"--{name}"
            raise misused(f"{what} is empty", "is a variable of the shell unset?")


def _check_model(file: str, options: Mapping[str, Any]) -> None:
    """Refuse a model that is not there, or that is known to be something else."""
    from irdeconv.base.opening import missing, unreadable

    system, colon, rest = file.partition(":")
    if colon and system == PEER:
        file = rest
    if file in ("-", PEER) or file.endswith((".npz", ".npy")):
        return
    path = Path(file)
    if path.is_dir():
        reason = os.strerror(errno.EISDIR)
        raise unreadable(file, OSError(errno.EISDIR, reason))
    if not path.exists():
        others = (options.get(k) for k in ("values", "other", "layer"))
        words = [w for o in others for w in (o if isinstance(o, list) else [o]) if w]
        model = next((w for w in words if Path(w).is_file()), None)
        if model is not None and file == options.get("file"):
            message = f'there is no file "{file}": the model stands first'
            raise misused(message, f'write "{model}" before it')
        near = did_you_mean(file, [PEER]) if file != options.get("file") else None
        if near:
            raise misused(f'"{file}" is neither a file nor {PEER}', near)
        raise missing(file)
    if path.is_file():
        _check_kind(file)


def _check_kind(file: str) -> None:
    """Refuse a file that begins like something else than a model."""
    from irdeconv.base.errors import InputError
    from irdeconv.formats.kinds import kind_of

    kind = kind_of(_begin(file), file)
    if kind.foreign:
        message = f"{file} is {kind.name}, which irdeconv does not read"
        raise InputError(Diagnostic("E110", "error", message, hint=kind.mend))


# What a file is good for where it is a model, but not of the formats that a verb reads.
_OTHER_FORMATS = {
    "xml": "it is an IR already",
    "ird": "other verbs read it as it is; irdeconv simplify {} -o NAME.xml writes an IR",
}


def require_format(file: str, formats: Sequence[str]) -> None:
    """Refuse a file that is known to be of another format, or of none."""
    from irdeconv.base.errors import InputError
    from irdeconv.formats.kinds import BINARY, kind_of

    if file == "-" or not Path(file).is_file():
        return
    kind = kind_of(_begin(file), file)
    if kind.format not in formats and kind.name != BINARY:
        meant = " or ".join(f".{format}" for format in formats)
        message = f"{file} is {kind.name}; this verb reads {meant}"
        hint = _OTHER_FORMATS.get(str(kind.format), kind.mend).format(file)
        raise InputError(Diagnostic("E110", "error", message, hint=hint))


def _begin(file: str) -> bytes:
    from irdeconv.base.opening import first_bytes, unreadable
    from irdeconv.formats.kinds import BEGIN

    try:
        return first_bytes(file, BEGIN)
    except (OSError, ValueError) as e:
        raise unreadable(file, e) from None


def _check_weights(file: str) -> None:
    from irdeconv.base.opening import missing

    if file == "-":
        raise misused("--weights -: stdin cannot hold weights", "name the .bin file")
    if Path(file).is_dir():
        raise misused(f"--weights {file} is a folder", "name the .bin file in it")
    if not Path(file).exists():
        raise missing(file, "the weights file ")
    if file.endswith((".xml", ".onnx")):
        hint = "name its .bin; without --weights it is the one beside the .xml"
        raise misused(f"--weights {file} is a model, not its weights", hint)


def require_suffix(output: str, suffixes: Sequence[str]) -> None:
    """Refuse an output whose suffix is none of those that are meant, if some are."""
    path = Path(output)
    if not suffixes or output == "-" or output.endswith("/") or path.suffix in suffixes:
        return
    if path.exists() and not path.is_file():
        return  # a folder or a device: that is said of it
    what = "an IR is written as .xml, with its .bin beside it"
    if ".onnx" in suffixes:
        what += "; an ONNX model stays one as .onnx"
    elif suffixes != (".xml",):
        what = f"it is written as {' or '.join(suffixes)}"
    raise misused(f"-o {output}: {what}", f"name it {path.with_suffix(suffixes[0])}")


def _check_measurements(path: Path) -> None:
    """Refuse a file of --tune that cannot be written, or that holds something else."""
    from irdeconv.base.opening import read_json
    from irdeconv.formats.atomic import require_writable
    from irdeconv.runtime.choice import MEASUREMENTS_SCHEMA

    require_writable(_first_missing(path))
    if not path.exists():
        return
    try:
        content = read_json(path)
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("schema") != MEASUREMENTS_SCHEMA:
        message = f"--tune {path} would overwrite a file that holds no measurements"
        raise misused(message, "name a new file, or one that --tune has written")


def require_folder(path: Path) -> None:
    """Raise FileAccessError where `path` is no folder to write into and none can be made of it."""
    from irdeconv.formats.atomic import require_writable

    if not path.exists():
        require_writable(_first_missing(path))
    elif not path.is_dir():
        message = f"{path} cannot be written into: it is not a folder"
        found = Diagnostic("E701", "error", message, hint="name a folder, also a new one")
        raise no_access(found, errno.ENOTDIR, path)
    else:
        require_writable(path / "file")


def _first_missing(path: Path) -> Path:
    """Return the part of a path that would have to be made first, or the path itself."""
    while not path.parent.exists():
        path = path.parent
    return path
