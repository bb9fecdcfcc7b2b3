"""The public functions: make a suite, run it in a runtime that is here, judge results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.conformance.cases import (
    SuiteCase,
    chosen_dialects,
    chosen_sets,
    packaged,
    selected,
)
from irdeconv.conformance.layers_file import read_layers
from irdeconv.conformance.manifest import Suite
from irdeconv.conformance.report import SuiteReport, check
from irdeconv.conformance.running import run
from irdeconv.conformance.vectors import Data
from irdeconv.conformance.writing import MAX_SIZE, Recipe, make, require_room
from irdeconv.spec import Array

Place = str | PathLike[str]
DIALECT, SET = "openvino", "full"


def gathered(
    dialects: Sequence[str] = (),
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    layers: Place | None = None,
    *,
    full_size: bool = False,
) -> tuple[list[SuiteCase], list[str]]:
    """Return the cases of a choice, and what of a file of layers the dialects do not have."""
    wanted = chosen_dialects(dialects or (DIALECT,))
    named = chosen_sets(sets or (() if layers is not None else (SET,)))
    cases = packaged(wanted, named, full_size=full_size)
    skipped: list[str] = []
    if layers is not None:
        found = read_layers(Path(layers), wanted)
        cases += found.cases
        skipped = found.skipped
    return selected(cases, only), skipped


def suite(
    folder: Place,
    dialects: Sequence[str] = (),
    sets: Sequence[str] = (),
    *,
    only: Sequence[str] = (),
    layers: Place | None = None,
    full_size: bool = False,
    data: Data = "integers",
    seed: int = 0,
    form: str | None = None,
    onnx: bool = False,
    max_size: int = MAX_SIZE,
    force: bool = False,
) -> Suite:
    """Write test vectors for devices and compilers into a folder; return its `folder` and `cases`.

    `dialects`: openvino (default), onednn, onnx, ort-nhwc, tensorrt, "all". `sets`: quick, pairs,
    edges, networks, or "full" (default: all but quick). `only` has patterns of names (`*`).
    `layers` is a TOML file with layers of your own. The same call always writes the same bytes.
    Each case is a folder: `model.xml`, `inputs.npz`, `constants.npz`, `expected.npz`; with `form`
    also `lowered.xml`, with `onnx` a `model.onnx` for cases of ONNX. `data` "integers" are so small
    that results are exact; "floats" come with a bound for every element. Networks have few channels
    and elements unless `full_size` is set. `max_size` is in bytes; `force` replaces a suite. Raises
    UsageError for unknown names and a folder in use, LimitError for too much.

    >>> made = ird.suite("vectors", only=["openvino-edge-kernel-1*"])
    >>> len(made.cases), made.cases[0].name
    (3, 'openvino-edge-kernel-1')
    """
    cases, _ = gathered(dialects, sets, only, layers, full_size=full_size)
    require_room(cases, max_size)
    recipe = Recipe(data=data, seed=seed, form=form, onnx=onnx)
    return make(Path(folder), cases, recipe, force=force)


def check_suite(folder: Place, results: Place | Mapping[str, Any]) -> SuiteReport:
    """Judge what a device made of a suite, with the bounds and names of mistakes of `compare`.

    `results`: a folder of CASE.npz or CASE.npy, one .npz with CASE/y, or arrays by case. The report
    has `passed`, `cases` with a status each, and tells what cases that differ have in common.
    Raises FileAccessError where the folder holds no suite, UsageError where a file of it has
    changed.

    >>> made = ird.suite("vectors", only=["openvino-edge-one-axis"])
    >>> turned = {case.name: case.expected()[0][..., ::-1] for case in made.cases}
    >>> report = ird.check_suite("vectors", turned)
    >>> report.passed, report.cases[0].difference.kind
    (False, 'mirrored along spatial axes (0)')
    """
    return check(
        Suite.open(Path(folder)), results if isinstance(results, Mapping) else Path(results)
    )


def run_suite(folder: Place, peer: str, *, lowered: bool = False) -> dict[str, Array]:
    """Run a suite in "irdeconv", "openvino" or "onnxruntime" and return its outputs by case.

    With `lowered` the lowered models run. Cases that the peer refuses are left out. Raises
    UsageError for an unknown peer, UnsupportedError where it is not installed.

    >>> made = ird.suite("vectors", ["tensorrt"], only=["*-edge-depthwise"])
    >>> ird.check_suite("vectors", ird.run_suite("vectors", "irdeconv")).passed
    True
    """
    return run(Suite.open(Path(folder)), peer, lowered=lowered).arrays
