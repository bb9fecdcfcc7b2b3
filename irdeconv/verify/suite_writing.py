"""Write a suite: everything beside its place first, the manifest last of all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv import __version__
from irdeconv.base import progress
from irdeconv.base.errors import Diagnostic, LimitError, count, misused
from irdeconv.base.form_names import require_form
from irdeconv.base.tables import scaled
from irdeconv.formats.arrays import npz
from irdeconv.formats.atomic import failures, folder_beside, require_writable
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.lower_deconv import lower
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify import suite_manifest
from irdeconv.verify.suite_cases import SuiteCase, graph_of
from irdeconv.verify.suite_manifest import Suite, heading, is_suite
from irdeconv.verify.suite_report import known
from irdeconv.verify.suite_vectors import Data, Vectors, onnx_model, require_onnx, sizes, vectors

MAX_SIZE = 1 << 30  # bytes of a suite, unless more is allowed
MAX_PRODUCTS = 1 << 36  # of one case: minutes
MAX_CASES = 20_000
_LIST = re.compile(r"\[[\s\d,-]*\]")  # of numbers: on one line


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a suite is made: kind of data, seed, the lowering form of `lowered.xml`, .onnx too."""

    data: Data = "integers"
    seed: int = 0
    form: str | None = None
    onnx: bool = False


def require_room(cases: Sequence[SuiteCase], limit: int) -> int:
    """Return about how many bytes the cases take; LimitError where that is more than the limit."""
    found = [(sizes(case.layer), case.name) for case in cases]
    total: int = sum(size["bytes"] for size, _ in found)
    size, largest = max(found, key=lambda one: int(one[0]["products"]))
    products = size["products"]
    hint = "fewer cases: --set, --dialect, --only; a larger limit: --max-size 4G"
    if total > limit or len(cases) > MAX_CASES:
        message = (
            f"{count(len(cases), 'case')} would take about {scaled(total, 'B')}; "
            f"the limit is {scaled(limit, 'B')} and {MAX_CASES} cases"
        )
        raise LimitError(Diagnostic("E602", "error", message, hint=hint))
    if products > MAX_PRODUCTS:
        message = f"{largest} has {products:,} products, more than {MAX_PRODUCTS:,}"
        raise LimitError(Diagnostic("E602", "error", message, hint="fewer channels or elements"))
    return total


def require_place(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds something; with `force` a suite may be replaced."""
    if not folder.exists():
        require_writable(folder)
        return
    if not folder.is_dir():
        raise misused(f"{folder} is a file; a suite is a folder")
    require_writable(folder / suite_manifest.MANIFEST)
    held = sorted(p.name for p in folder.iterdir())
    if not held:
        return
    if not force or not is_suite(folder):
        what = "a suite" if is_suite(folder) else f"files that are no suite: {', '.join(held[:3])}"
        hint = "--force replaces it" if is_suite(folder) else "name another folder"
        raise misused(f"{folder} holds {what}", hint)
    foreign = [n for n in held if n not in _own(Suite.open(folder))]
    if foreign:
        message = f"{folder} holds more than its suite: {', '.join(foreign[:3])}"
        raise misused(message, "name another folder")


def _own(suite: Suite) -> set[str]:
    return {suite_manifest.MANIFEST, *(case.name for case in suite.cases)}


def make(folder: Path, cases: Sequence[SuiteCase], recipe: Recipe, *, force: bool = False) -> Suite:
    """Write a suite, all of it or nothing; UsageError for a folder that holds something."""
    if recipe.data not in ("integers", "floats"):
        raise misused(f'data is "{recipe.data}"; it is "integers" or "floats"')
    if recipe.form is not None:
        require_form(recipe.form)
    if recipe.onnx:
        require_onnx()
    require_place(folder, force=force)
    with _staged(folder) as stage:
        each = progress.each("making cases", cases, lambda case: case.name)
        entries = [_write(stage, case, recipe) for case in each]
        document = {
            "schema": suite_manifest.SCHEMA,
            "irdeconv": __version__,
            "data": recipe.data,
            "seed": recipe.seed,
            "form": recipe.form,
            "results": "NAME.npz or NAME.npy for each case, or one .npz with NAME/y for each",
            "cases": entries,
        }
        text = _LIST.sub(lambda m: " ".join(m[0].split()), json.dumps(document, indent=1)) + "\n"
        (stage / suite_manifest.MANIFEST).write_text(text, "utf-8")
    return Suite.open(folder)


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Yield an empty folder whose content takes its place in the end, or never."""
    parent = folder if folder.exists() else folder.parent
    with failures(folder), folder_beside(parent / folder.name) as stage:
        new, old = stage / "new", stage / "old"
        new.mkdir()
        old.mkdir()
        yield new
        if folder.exists():
            _replace(folder, new, old)
        else:
            os.replace(new, folder)


def _replace(folder: Path, new: Path, old: Path) -> None:
    """Put the new content into a folder that exists; where it cannot be, the old one returns."""
    own = _own(Suite.open(folder)) if is_suite(folder) else set()
    moved: list[tuple[Path, Path]] = []
    # The manifest goes first and comes last: a suite without one is none.
    there = sorted((folder / n for n in own), key=lambda p: p.name != suite_manifest.MANIFEST)
    here = sorted(new.iterdir(), key=lambda p: p.name == suite_manifest.MANIFEST)
    try:
        for source, target in [
            *((p, old / p.name) for p in there if p.exists()),
            *((p, folder / p.name) for p in here),
        ]:
            os.replace(source, target)
            moved.append((source, target))
    except OSError:
        for source, target in reversed(moved):
            os.replace(target, source)
        raise


def _write(stage: Path, case: SuiteCase, recipe: Recipe) -> dict[str, Any]:
    """Write the files of a case and return its entry in the manifest."""
    place = stage / case.name
    place.mkdir()
    made = vectors(case.layer, case.name, recipe.data, recipe.seed, case.spoil)
    graph = graph_of(case, dict(made.inputs), dict(made.constants))
    _write_ir(graph, place / suite_manifest.MODEL)
    entry = heading(case) | _arrays(case, made)
    if recipe.form is not None:
        lowered = lower(graph, recipe.form)
        _write_ir(lowered.graph, place / suite_manifest.LOWERED)
        (row,) = lowered.report.layers
        entry["lowered"] = {"form": row.form, "reason": row.reason}
    if recipe.onnx and case.layer.dialect == "onnx":
        (place / suite_manifest.ONNX).write_bytes(onnx_model(case, made))
    bound = {} if made.exact else {suite_manifest.BOUND: np.asarray(made.allowed.limit)}
    (place / suite_manifest.INPUTS).write_bytes(npz(made.inputs))
    if made.constants:
        (place / suite_manifest.CONSTANTS).write_bytes(npz(made.constants))
    (place / suite_manifest.EXPECTED).write_bytes(
        npz({suite_manifest.OUTPUT: made.expected, **bound})
    )
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(place.iterdir())}
    return entry | {"files": files, "known": known(case.layer, case.spoil, exact=made.exact)}


def _write_ir(graph: Graph, path: Path) -> None:
    """Write an IR in standard operations; what is staged needs no care of its own."""
    xml, weights = ir_bytes(standardize(graph))
    path.write_bytes(xml)
    path.with_suffix(".bin").write_bytes(weights)


def _arrays(case: SuiteCase, made: Vectors) -> dict[str, Any]:
    """Return what the manifest says of a case's arrays."""

    def facts(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {
                "shape": list(a.shape),
                "element_type": "i64" if name == "output_shape" else case.layer.element_type,
            }
            for name, a in arrays.items()
        }

    limit = np.asarray(made.allowed.limit)
    output = {
        "shape": list(made.expected.shape),
        "element_type": case.layer.element_type,
        "exact": made.exact,
        "rule": made.allowed.rule,
        "bound": float(limit.max(initial=0.0)),
    }
    return {
        "inputs": facts(made.inputs),
        "constants": facts(made.constants),
        "outputs": {suite_manifest.OUTPUT: output},
    }
