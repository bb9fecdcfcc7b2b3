"""The packaged sample models: in the wheel, or beside the package in a source checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import irdeconv


def folder() -> Path | None:
    """Return the folder of the samples, None if the installation has none."""
    packaged = Path(str(files("irdeconv").joinpath("_samples")))
    checkout = Path(irdeconv.__file__).resolve().parent.parent / "ir_samples"
    return next((f for f in (packaged, checkout) if any(f.glob("**/*.xml"))), None)


def samples() -> dict[str, Path]:
    """Return the samples by name (the path without `.xml`), sorted."""
    root = folder()
    found = sorted(root.glob("**/*.xml")) if root is not None else []
    return {f.relative_to(root).with_suffix("").as_posix(): f for f in found if root is not None}
