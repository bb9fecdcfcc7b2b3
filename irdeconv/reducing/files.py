"""A variant as files: a model for each side, and what to feed it."""

from __future__ import annotations

from pathlib import Path

from irdeconv.io.arrays import npz
from irdeconv.io.atomic import Files, together
from irdeconv.io.xml_writer import stage_ir
from irdeconv.passes.standardize import standardize
from irdeconv.reducing.variant import Variant


def write_variant(variant: Variant, path: Path) -> None:
    """Write the files of `stage_variant`, all or none."""
    with together() as files:
        stage_variant(variant, path, files)


def stage_variant(variant: Variant, path: Path, files: Files) -> list[Path]:
    """Write `path` (.xml), its .bin, an .npz of the inputs, and the other side's model if any.

    Returns what will be there once `files` are put. Raises what `stage_ir` raises, and
    UnsupportedError for operations without a standard spelling.
    """
    paths = [path, other_path(path)][: len(variant.graphs)]
    for graph, target in zip(variant.graphs, paths, strict=True):
        stage_ir(standardize(graph), target, files)
    inputs = path.with_suffix(".npz")
    files.write(inputs, npz(variant.inputs))
    models = [p.with_suffix(suffix) for p in paths for suffix in (".xml", ".bin")]
    return [*models, inputs]


def other_path(path: Path) -> Path:
    """Return where the other side's model lies: small_other.xml beside small.xml."""
    return path.with_name(f"{path.stem}_other{path.suffix}")
