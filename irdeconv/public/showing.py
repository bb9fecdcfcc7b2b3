"""Compare, inspect, draw, explain."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial as partly
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from irdeconv.base.arguments import checked
from irdeconv.base.errors import IrdeconvError, UsageError, misused
from irdeconv.formats.kinds import SAVED
from irdeconv.formats.models import ModelLike, graph_of, is_legacy, is_onnx, looks_like_a_model
from irdeconv.ir.graph import Graph
from irdeconv.public.reading import infer
from irdeconv.public.rewriting import write
from irdeconv.public.running import compile
from irdeconv.rewrite.infer_specs import ShapeLike, input_shapes
from irdeconv.rewrite.lower_deconv import Lowered
from irdeconv.rewrite.targets import Target, load_target
from irdeconv.runtime.bench import BenchReport
from irdeconv.runtime.feeds import Feeds, is_array
from irdeconv.runtime.peers import PEERS, require_side
from irdeconv.runtime.plan import Plan
from irdeconv.show.explanation import Explanation
from irdeconv.show.explanation import explain as _explain
from irdeconv.show.inspection import Inspection, Order
from irdeconv.show.inspection import inspect as _inspect
from irdeconv.show.page import PageContent, bench_page, comparison_page, run_page
from irdeconv.show.page import graph_page as _graph_page
from irdeconv.show.page_details import ValueCollector
from irdeconv.verify.certificates import Certificates
from irdeconv.verify.comparison import Comparison, Tolerance, compare_arrays, compare_plan
from irdeconv.verify.partner import Partner, PlanPartner, Precision, SavedPartner, saved_arrays
from irdeconv.verify.reduce import ONNX_PEER, PEER, find_around, write_around
from irdeconv.verify.runtimes import OnnxRuntimePartner, OpenVinoPartner, openvino


@checked
def compare(
    a: ModelLike | Mapping[str, Any],
    b: ModelLike | Mapping[str, Any],
    inputs: Feeds = (),
    *,
    tolerance: Tolerance = None,
    weights: str | PathLike[str] | None = None,
    reduce: str | PathLike[str] | None = None,
    peer_precision: Precision = "f32",
) -> Comparison:
    """Run a model and compare every layer with another side, on the same inputs.

    `b` is a model, arrays by name or an .npz of them, "openvino" (the same file or graph there),
    "openvino:FILE.xml" (another one, whose .bin is `weights`) or "onnxruntime:FILE.onnx", of which
    "onnxruntime" is enough if `a` is a file. OpenVINO computes every layer in f32, or in
    `peer_precision`: "bf16", or "int8" for quantized layers as in production. Each layer is
    computed again from b's own inputs, and may differ by rounding errors; `tolerance`, relative to
    a tensor's largest value, replaces their bound, of all tensors or of outputs and layers by name.
    If `a` holds arrays, too, those of the same name are compared. The report is true if everything
    agrees. `reduce` is a folder for the first layer that differs: both sides, its inputs, and a
    report.json with commands. Raises UsageError for arrays that belong to no tensor of the model.

    >>> g = ird.read("ir_samples/openvino/group_deconv.xml")
    >>> x = np.arange(240, dtype=np.float32).reshape(2, 6, 4, 5)
    >>> report = ird.compare(g, ird.lower(g), x)
    >>> report.passed, report.verdict
    (True, 'the same: 1 output, 1 layer compared')
    >>> ird.compare(g, {"deconv": np.zeros((2, 4, 9, 13), np.float32)}, x).first_difference.name
    'deconv'
    """
    if isinstance(a, Mapping) or _is_saved(a):
        return compare_arrays(_arrays(a), _arrays(b), tolerance)
    plan = compile(a, None, threads=1, fuse=False, once=True)
    b = side_in(b, a) if isinstance(b, str) and b in (PEER, ONNX_PEER) else b
    with TemporaryDirectory(prefix="irdeconv-") as folder:
        start, other = _second_side(plan, b, inputs, weights, folder, peer_precision)
        result = compare_plan(plan, start, inputs, tolerance)
        if reduce and (around := find_around(plan, start, inputs, result, other)):
            write_around(around, Path(reduce), PEER if str(b) == PEER else None)
        return replace(result, other=other)


def side_in(runtime: str, source: object) -> str:
    """Return a runtime as the second side, with the first one's file if the runtime reads it."""
    file = os.fspath(source) if isinstance(source, str | PathLike) else "-"
    other = file == "-" or file.endswith((".json", ".ird")) or is_legacy(file)
    reads = not other if runtime == PEER else is_onnx(file)
    return f"{runtime}:{file}" if reads else runtime


def _is_saved(side: object) -> bool:
    return isinstance(side, str | PathLike) and Path(side).suffix in SAVED


def _arrays(side: Any) -> dict[str, Any]:
    """Return the arrays of a mapping or an .npz; UsageError for anything else."""
    if isinstance(side, Mapping):
        return {name: np.asarray(v) for name, v in side.items()}
    if _is_saved(side):
        return saved_arrays(Path(side))
    raise misused("arrays are compared with arrays", "give the model first, then arrays")


def _second_side(
    plan: Plan,
    b: ModelLike | Mapping[str, Any],
    inputs: Feeds,
    weights: str | PathLike[str] | None,
    folder: str,
    computes: Precision,
) -> tuple[Callable[[], Partner], Graph | None]:
    """Return a function that starts the partner, and its graph if it is run here.

    A model for OpenVINO is written to the folder.
    """
    _require_name(b, plan.graph)
    if isinstance(b, Mapping):
        return partly(SavedPartner, plan.graph, _arrays(b), None), None
    system, colon, file = str(b).partition(":") if isinstance(b, str | PathLike) else ("", "", "")
    if isinstance(b, str) and system not in PEERS:
        require_side(b)
    if isinstance(b, str | PathLike) and system not in PEERS and not looks_like_a_model(b):
        return partly(SavedPartner.open, plan.graph, Path(b)), None
    if system not in PEERS:
        other = compile(b, None, threads=1, fuse=False, once=True)
        return partly(_other_model, plan, other, inputs), other.graph

    def peer() -> Partner:
        feeds = dict(zip(plan.graph.inputs, plan.binder.bind(inputs), strict=True))
        if system == "onnxruntime":
            if not file:
                hint = "onnxruntime:FILE.onnx names the .onnx that the model was made of"
                raise misused("ONNX Runtime reads only an .onnx", hint)
            return OnnxRuntimePartner(plan, Path(file), feeds)
        openvino()  # before anything is written
        path = Path(file) if colon else Path(folder, "model.xml")
        if not colon:
            write(plan.graph, path)
        return OpenVinoPartner(plan, path, feeds, Path(weights) if weights else None, computes)

    return peer, None


def _require_name(b: object, graph: Graph) -> None:
    """Raise UsageError for an array without a name."""
    if is_array(b) or (isinstance(b, list | tuple) and b and is_array(b[0])):
        name = next(iter(graph.outputs), "NAME")
        hint = f'give it by name, {{"{name}": array}}; the inputs are the third argument'
        raise misused("the second side is an array without a name", hint)


def _other_model(plan: Plan, other: Plan, inputs: Feeds) -> Partner:
    """Return a second model as the partner; it must accept the inputs of the first."""
    plan.binder.bind(inputs)  # errors of the first model come first
    try:
        other.binder.bind(inputs)
    except UsageError as e:
        hint = "compare two models that take the same inputs"
        raise UsageError(
            [replace(d, message=f"the other model: {d.message}", hint=hint) for d in e.diagnostics]
        ) from None
    return PlanPartner(plan.graph, other, inputs)


@checked
def inspect(
    model: ModelLike,
    lowered: ModelLike | None = None,
    *,
    only: str | Sequence[str] = (),
    sort: Order | None = None,
    target: str | PathLike[str] | Target | None = None,
) -> Inspection:
    """Return a table of the layers; `lowered` adds the deconvolutions after lowering.

    `only` shows layers of a type, or whose name fits a pattern (`*`, `?`, `[a-z]`). `sort` ("macs",
    "bytes" or "params") puts the largest first. Shapes are those of the graph: call `infer` first
    if the file declares none. `target`, as for `lower`, marks the layers that it cannot execute.

    Raises UsageError if no layer fits, and for an unknown target.

    >>> table = ird.inspect("ir_samples/openvino/segmentation_head.xml")
    >>> table.totals.layers, table.totals.parameters, table.totals.macs
    (19, 3592, 716800)
    >>> [(d.name, d.macs_direct) for d in table.deconvolutions]
    [('up1', 131072), ('up2', 36864)]
    >>> net = ird.inspect("ir_samples/openvino/segmentation_head.xml", only="MaxPool")
    >>> [(layer.name, str(layer.outputs[0].spec)) for layer in net.shown]
    [('pool1', 'f32[1,8,16,16]'), ('pool2', 'f32[1,16,8,8]')]
    """
    if isinstance(lowered, str) and not Path(lowered).suffix and not Path(lowered).exists():
        raise misused(f'there is no file "{lowered}"', f'write only="{lowered}" for layers')
    other = None if lowered is None else graph_of(lowered)
    patterns = [only] if isinstance(only, str) else only
    known = None if target is None else load_target(target)
    return _inspect(graph_of(model), other, only=patterns, sort=sort, target=known)


@checked
def graph_page(
    model: ModelLike | BenchReport | Comparison,
    lowered: ModelLike | None = None,
    certificates: Certificates | None = None,
    *,
    inputs: Feeds | None = None,
) -> PageContent:
    """Return a page that draws the graph; `to_html()` is one file for any browser, offline.

    `lowered` is the result of `lower`, or any model made of the first; the page shows both side by
    side and marks the changes. `certificates` adds the proof of each layer. With `inputs`, as for
    `run`, the last of these graphs is run without lowering it, and the page shows its values. For a
    report of `bench` or `compare` the page has the time or error of each layer.

    >>> low = ird.lower("ir_samples/openvino/segmentation_head.xml")
    >>> page = ird.graph_page("ir_samples/openvino/segmentation_head.xml", low)
    >>> [change.title for change in page.changes]
    ['up1', 'up2']
    >>> page.to_html().startswith("<!DOCTYPE html>")
    True
    >>> x = np.ones((1, 1, 3, 3), np.float32)
    >>> page = ird.graph_page("ir_samples/openvino/deconv_3x3_to_5x5.xml", inputs=x)
    >>> page.values["graph/2"][0]["high"]
    9.0
    """
    if isinstance(model, BenchReport | Comparison):
        if lowered is not None or certificates is not None or inputs is not None:
            raise misused("a report has its graphs and its run", "give graph_page the report alone")
        return bench_page(model) if isinstance(model, BenchReport) else comparison_page(model)
    graph = _with_shapes(graph_of(model))
    other = None if lowered is None else graph_of(lowered)
    report = lowered.report if isinstance(lowered, Lowered) else None
    if inputs is None:
        return _graph_page(graph, other, report, certificates)
    plan = compile(other or graph, None, fuse=False, once=True)
    seen = ValueCollector(plan.graph)
    plan.run(inputs, seen.trace)
    return run_page(graph, seen, report, certificates)


def _with_shapes(graph: Graph) -> Graph:
    """Return a graph, inferred if it states no shapes at all, as one that was just built."""
    if not any(node.specs or node.declared for node in graph.nodes()):
        with suppress(IrdeconvError):
            return infer(graph)
    return graph


@checked
def explain(
    model: ModelLike,
    layer: str | None = None,
    *,
    solve: int | Sequence[int] | None = None,
    shapes: Mapping[str, ShapeLike] | None = None,
) -> Explanation:
    """Explain the outputs of deconvolutions, with those that other systems would compute.

    `layer` is a name; without it, all are explained if there are only a few. `solve` lists
    attributes that give this output size (one for all axes, or one per axis). A layer that its own
    system refuses is explained as well.

    Raises UsageError for a name that is no deconvolution.

    >>> found = ird.explain("ir_samples/openvino/deconv_3x3_to_5x5.xml", "deconv")
    >>> print(str(found).splitlines()[2])
    deconv: ConvolutionBackpropData (opset1), OpenVINO runtime
    >>> found.accepted
    True
    """
    graph = graph_of(model, shapes=shapes)
    return _explain(graph, layer, solve, input_shapes(graph, shapes or {}))
