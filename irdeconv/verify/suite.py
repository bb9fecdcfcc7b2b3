"""Conformance suites: the public functions that make, run and judge one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.base import progress
from irdeconv.base.arguments import checked
from irdeconv.base.errors import Diagnostic, IrdeconvError, UnsupportedError, did_you_mean, misused
from irdeconv.base.extras import ExtraError, extra
from irdeconv.base.limits import current
from irdeconv.formats.reading import load
from irdeconv.ir.spec import Array
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.standardize import recognise
from irdeconv.runtime.peers import last_line, onnx_session
from irdeconv.runtime.plan import build_plan
from irdeconv.verify import suite_manifest
from irdeconv.verify.suite_cases import SuiteCase, chosen_dialects, chosen_sets, packaged, selected
from irdeconv.verify.suite_file import read_layers
from irdeconv.verify.suite_manifest import Suite
from irdeconv.verify.suite_report import SuiteReport, check
from irdeconv.verify.suite_writing import MAX_SIZE, Data, Recipe, make, require_room

Run = Callable[[Path, dict[str, Array]], Array]


@checked
def run(
    suite: Suite, peer: str, *, lowered: bool = False
) -> tuple[dict[str, Array], dict[str, str]]:
    """Run all cases in `peer`; return the outputs by case, and why the other cases have none.

    With `lowered` their lowered models run. UsageError for an unknown peer and for models that the
    suite has not; UnsupportedError if the peer is not installed.
    """
    if peer not in PEERS:
        message = f'there is no peer "{peer}": {", ".join(PEERS)}'
        raise misused(message, did_you_mean(peer, PEERS))
    file = file_of(peer, lowered=lowered)
    if not any(case.has(file) for case in suite.cases):
        option = "--form" if file == suite_manifest.LOWERED else "--dialect onnx --onnx"
        raise misused(f"no case of the suite has a {file}", f"suite make {option} writes them")
    try:
        call = PEERS[peer]()
    except ExtraError as e:
        message = f"running in {peer} needs its package, which {e}"
        raise UnsupportedError(Diagnostic("E506", "error", message)) from e
    arrays, problems = dict[str, Array](), dict[str, str]()
    for case in progress.each(f"running {peer}", suite.cases, lambda case: case.name):
        if not case.has(file):
            problems[case.name] = f"it has no {file}"
            continue
        try:
            arrays[case.name] = call(case.path(file), case.inputs())
        except IrdeconvError as e:
            problems[case.name] = e.diagnostics[0].message
        except Exception as e:  # peers raise errors of many kinds
            problems[case.name] = f"{type(e).__name__}: {last_line(str(e))}"
    return arrays, problems


def file_of(peer: str, *, lowered: bool) -> str:
    """Return which model of a case a peer runs; UsageError for a lowered .onnx."""
    if peer != "onnxruntime":
        return suite_manifest.LOWERED if lowered else suite_manifest.MODEL
    if lowered:
        raise misused("onnxruntime runs model.onnx, of which there is no lowered one")
    return suite_manifest.ONNX


def _irdeconv(path: Path, inputs: dict[str, Array]) -> Array:
    loaded = load(path, None, semantics="runtime", limits=current())
    assert loaded.graph is not None
    recognise(loaded.graph)
    return next(iter(build_plan(inferred(loaded.graph)).run(inputs).values()))


def _openvino() -> Run:
    ov: Any = extra("openvino", "Core", "Tensor", "Type")
    core = ov.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def call(path: Path, inputs: dict[str, Array]) -> Array:
        compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
        ports = {p.node.friendly_name: p for p in compiled.inputs}
        feeds = {ports[n]: _tensor(ov, a) for n, a in inputs.items()}
        (port,) = compiled.outputs
        found = compiled(feeds)[port]
        kind = port.get_element_type().get_type_name()
        if kind == "bf16" and found.dtype == np.float16:  # the bits, under the wrong name
            found = found.view(ml_dtypes.bfloat16)
        return np.array(found)

    return call


def _tensor(ov: Any, array: Array) -> Any:
    """Return an array as OpenVINO takes it: bfloat16 by its bits."""
    if array.dtype != ml_dtypes.bfloat16:
        return ov.Tensor(np.ascontiguousarray(array))
    return ov.Tensor(np.ascontiguousarray(array).view(np.int16), array.shape, ov.Type.bf16)


def _onnxruntime() -> Run:
    extra("onnxruntime", "InferenceSession")  # one error without it, not one for each case
    return lambda path, inputs: np.asarray(onnx_session(str(path)).run(None, inputs)[0])


PEERS: Mapping[str, Callable[[], Run]] = {
    "irdeconv": lambda: _irdeconv,
    "openvino": _openvino,
    "onnxruntime": _onnxruntime,
}
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
    """Return the cases of a choice, and the layers of a file that the dialects do not have."""
    wanted = chosen_dialects(dialects or (DIALECT,))
    named = chosen_sets(sets or (() if layers is not None else (SET,)))
    cases = packaged(wanted, named, full_size=full_size)
    skipped: list[str] = []
    if layers is not None:
        own, skipped = read_layers(Path(layers), wanted)
        cases += own
    return selected(cases, only), skipped


@checked
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


@checked
def check_suite(folder: Place, results: Place | Mapping[str, Any]) -> SuiteReport:
    """Judge a device's results for a suite, with the bounds and names of mistakes of `compare`.

    `results`: a folder of CASE.npz or CASE.npy, one .npz with CASE/y, or arrays by case. The report
    has `passed`, `cases` with a status each, and the common features of cases that differ. Raises
    FileAccessError if the folder holds no suite, UsageError if a file of it has changed.

    >>> made = ird.suite("vectors", only=["openvino-edge-one-axis"])
    >>> turned = {case.name: case.expected()[0][..., ::-1] for case in made.cases}
    >>> report = ird.check_suite("vectors", turned)
    >>> report.passed, report.cases[0].difference.kind
    (False, 'mirrored along spatial axes (0)')
    """
    source = results if isinstance(results, Mapping) else Path(results)
    return check(Suite.open(Path(folder)), source)


@checked
def run_suite(folder: Place, peer: str, *, lowered: bool = False) -> dict[str, Array]:
    """Run a suite in "irdeconv", "openvino" or "onnxruntime" and return its outputs by case.

    With `lowered` the lowered models run. Cases that the peer refuses are left out. Raises
    UsageError for an unknown peer, UnsupportedError if it is not installed.

    >>> made = ird.suite("vectors", ["tensorrt"], only=["*-edge-depthwise"])
    >>> ird.check_suite("vectors", ird.run_suite("vectors", "irdeconv")).passed
    True
    """
    return run(Suite.open(Path(folder)), peer, lowered=lowered)[0]
