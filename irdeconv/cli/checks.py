"""What can be said of options before anything is read or computed: names, numbers, places."""

from __future__ import annotations

import argparse
import errno
import json
import os
from pathlib import Path

from irdeconv.errors import Diagnostic, misused, no_access

RANDOM = "random"  # what --weights may say of a oneDNN dump


def check_options(args: argparse.Namespace) -> None:
    """Refuse values of shared options that cannot be right; UsageError, FileAccessError.

    The verbs need not think of it: an option is checked where a verb has it.
    """
    options = {name: value for name, value in vars(args).items() if value is not None}
    if options.get("no_weights") and "weights" in options:
        raise misused("--no-weights and --weights exclude each other", "leave one out")
    for name in ("weights", "lowered_weights", "other_weights"):
        if options.get(name) not in (None, RANDOM) and not Path(options[name]).exists():
            reason = os.strerror(errno.ENOENT)
            message = f"cannot read the weights file {options[name]}: {reason}"
            raise no_access(Diagnostic("E100", "error", message), errno.ENOENT, options[name])
    if options.get("shape"):
        from irdeconv.cli.model import parse_shapes

        parse_shapes(options["shape"])
    if "form" in options and not (options["form"] == "none" and options["form_none"]):
        from irdeconv.passes.form_names import require_form

        require_form(options["form"])
    if "target" in options:
        from irdeconv.passes.profile import load_profile

        load_profile(options["target"])
    if isinstance(options.get("tune"), str):
        _check_measurements(Path(options["tune"]))
    if "dump_dir" in options:
        require_folder(Path(options["dump_dir"]))


def _check_measurements(path: Path) -> None:
    """Refuse a file of --tune that cannot be written, or that holds something else."""
    from irdeconv.io.atomic import require_writable
    from irdeconv.runtime.choice import MEASUREMENTS_SCHEMA

    require_writable(_first_missing(path))
    if not path.is_file():
        return
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("schema") != MEASUREMENTS_SCHEMA:
        raise misused(f"--tune {path} would overwrite a file that holds no measurements")


def require_folder(path: Path) -> None:
    """Raise FileAccessError where `path` is no folder to write into and none can be made of it."""
    from irdeconv.io.atomic import require_writable

    if not path.exists():
        require_writable(_first_missing(path))
    elif not path.is_dir():
        message = f"{path} cannot be written into: it is not a folder"
        raise no_access(Diagnostic("E701", "error", message), errno.ENOTDIR, path)
    else:
        require_writable(path / "file")


def _first_missing(path: Path) -> Path:
    """Return the part of a path that would have to be made first, or the path itself."""
    while not path.parent.exists():
        path = path.parent
    return path
