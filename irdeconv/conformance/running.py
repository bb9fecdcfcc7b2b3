"""Run the cases of a suite in a runtime that is here, for results to try the suite with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv import progress
from irdeconv.conformance import manifest
from irdeconv.conformance.manifest import StoredCase, Suite
from irdeconv.errors import Diagnostic, IrdeconvError, UnsupportedError, misused
from irdeconv.extras import ExtraError, extra
from irdeconv.io.reading import load
from irdeconv.limits import current
from irdeconv.passes.infer_specs import inferred
from irdeconv.passes.recognise import recognise
from irdeconv.runtime.plan import build_plan
from irdeconv.spec import Array
from irdeconv.suggest import did_you_mean

Run = Callable[[Path, dict[str, Array]], Array]
PEERS = ("irdeconv", "openvino", "onnxruntime")


@dataclass(frozen=True)
class RanCases:
    """The outputs by case, and why the other cases have none."""

    arrays: dict[str, Array]
    problems: dict[str, str]


def run(suite: Suite, peer: str, *, lowered: bool = False) -> RanCases:
    """Run all cases in `peer`, with `lowered` their lowered models.

    UsageError for an unknown peer and for models that the suite has not; UnsupportedError where the
    peer is not installed.
    """
    if peer not in PEERS:
        message = f'there is no peer "{peer}": {", ".join(PEERS)}'
        raise misused(message, did_you_mean(peer, PEERS))
    file = file_of(peer, lowered=lowered)
    if not any(case.has(file) for case in suite.cases):
        option = "--form" if file == manifest.LOWERED else "--dialect onnx --onnx"
        raise misused(f"no case of the suite has a {file}", f"suite make {option} writes them")
    call, out = _runner(peer), RanCases({}, {})
    with progress.stage(f"running {peer}", total=len(suite.cases)) as step:
        for case in suite.cases:
            _one(case, file, call, out)
            step(detail=case.name)
    return out


def file_of(peer: str, *, lowered: bool) -> str:
    """Return which model of a case a peer runs; UsageError for a lowered .onnx."""
    if peer != "onnxruntime":
        return manifest.LOWERED if lowered else manifest.MODEL
    if lowered:
        raise misused("onnxruntime runs model.onnx, of which there is no lowered one")
    return manifest.ONNX


def _one(case: StoredCase, file: str, call: Run, out: RanCases) -> None:
    if not case.has(file):
        out.problems[case.name] = f"it has no {file}"
        return
    try:
        out.arrays[case.name] = call(case.path(file), case.inputs())
    except IrdeconvError as e:
        out.problems[case.name] = e.diagnostics[0].message
    except Exception as e:  # whatever a peer says about a model that it cannot run
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        out.problems[case.name] = f"{type(e).__name__}: {lines[-1] if lines else ''}"


def _runner(peer: str) -> Run:
    try:
        return {"irdeconv": _irdeconv, "openvino": _openvino, "onnxruntime": _onnxruntime}[peer]()
    except ExtraError as e:
        message = f"running in {peer} needs its package, which {e}"
        raise UnsupportedError(Diagnostic("E506", "error", message)) from e


def _irdeconv() -> Run:
    def call(path: Path, inputs: dict[str, Array]) -> Array:
        loaded = load(path, None, semantics="runtime", limits=current())
        assert loaded.graph is not None
        recognise(loaded.graph)
        return next(iter(build_plan(inferred(loaded.graph)).run(inputs).values()))

    return call


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
    bits = np.ascontiguousarray(array).view(np.int16)
    return ov.Tensor(bits, array.shape, ov.Type.bf16)


def _onnxruntime() -> Run:
    ort: Any = extra("onnxruntime", "InferenceSession")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4

    def call(path: Path, inputs: dict[str, Array]) -> Array:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, inputs)[0])

    return call
