"""Compile, run, measure; also over arrays of Dask."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from irdeconv.base.arguments import checked
from irdeconv.base.errors import ArgumentTypeError, Diagnostic, misused
from irdeconv.base.extras import needed
from irdeconv.base.form_names import FALLBACK
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, Spec, is_static
from irdeconv.kernels.products import accumulate_in_order
from irdeconv.kernels.threads import Threads, processors
from irdeconv.public.reading import infer
from irdeconv.rewrite.builder import remove_dead
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.lower_deconv import lower as _lower
from irdeconv.runtime.bench import BenchReport, require_measurable, sorted_out
from irdeconv.runtime.bench import bench as _bench
from irdeconv.runtime.executors import Tuner
from irdeconv.runtime.feeds import Binder, Feeds, random_inputs
from irdeconv.runtime.measure import Effort
from irdeconv.runtime.peers import Source, peers
from irdeconv.runtime.plan import (
    Outputs,
    Plan,
    Trace,
    batch_size,
    build_plan,
    require_whole,
    run_rows,
)
from irdeconv.runtime.schedule import Settings
from irdeconv.runtime.selection import with_outputs


@checked
def compile(
    model: ModelLike,
    form: str | None = FALLBACK,
    threads: int | None = None,
    *,
    exact: bool = False,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    max_memory: int | None = None,
    once: bool = False,
) -> Plan:
    """Return a plan that can be run many times; `form=None` executes the graph without lowering it.

    The plan executes several nodes in one step if that is faster; `fuse=False` executes node by
    node. `exact` does so too, and adds the terms of (de)convolutions in one fixed order: slower,
    and every form gives the same bits. `threads` is 1 or more (default: the number of processors);
    the results do not depend on it. `tune` measures kernels, and ways to cut their work, instead of
    estimating the time; a path keeps the measurements. `max_memory` is a limit in bytes; a plan
    that needs more is a LimitError. `once` says that the plan runs only one time: compiled kernels
    (the extra `fast`) are then taken only if they save more than loading them takes, half a second;
    `tune` overrules it. A plan may be run from several threads, which take turns, but not from a
    callback of its own run, nor from a thread that such a callback waits for (RuntimeError). Raises
    UnsupportedError with every operation that cannot be executed, and the errors of `lower`.

    >>> plan = ird.compile("ir_samples/openvino/deconv_3x3_to_5x5.xml")
    >>> for value in (0, 1):
    ...     print(plan.run(np.full((1, 1, 3, 3), value))["deconv"].sum())
    0.0
    81.0
    """
    ready = inferred(graph_of(model), needed=True)
    remove_dead(ready, set())  # what no output needs may not fit, or not be lowered
    with accumulate_in_order(exact):  # lowering computes constants
        ready = ready if form is None else _lower(ready, form).graph
    tuner = Tuner(bool(tune), Path(tune) if isinstance(tune, str | PathLike) else None)
    if threads is not None and threads < 1:
        raise misused(f"threads is {threads}", "it is 1 or more; None: one for each processor")
    team = Threads(processors() if threads is None else threads)
    settings = Settings(fuse, team, tuner, max_memory, once and not tuner.measure)
    return build_plan(ready, exact=exact, settings=settings)


@checked
def run(
    model: ModelLike,
    inputs: Feeds = (),
    form: str | None = FALLBACK,
    *,
    outputs: Sequence[str] | None = None,
    trace: Trace | None = None,
    exact: bool = False,
    fuse: bool = True,
    threads: int | None = None,
    max_memory: int | None = None,
) -> dict[str, Array]:
    """Execute a model once; returns the outputs by name in Result order.

    `inputs` maps names of inputs or their tensors to arrays, lists arrays in order, or is the array
    of a single input; `__array__` and `__dlpack__` make arrays of other objects. `outputs` names
    layers and tensors, also inner ones. Only these are returned. Layers that they do not need are
    not executed, and unneeded inputs not fed. `form=None` executes the graph without lowering it.
    `trace(node, arrays)` sees the outputs of every node; nodes are then executed one by one. It may
    run other plans, also of this graph. The other options are those of `compile`.

    Raises UsageError for inputs and names that do not fit, ExecutionError if a layer fails.

    >>> image = np.zeros((1, 3, 32, 32), np.float32)
    >>> out = ird.run("ir_samples/openvino/segmentation_head.xml", image, outputs=["up1"])
    >>> {name: array.shape for name, array in out.items()}
    {'up1': (1, 8, 16, 16)}
    """
    fuse = fuse and trace is None
    graph, names = graph_of(model), None
    if outputs is not None:
        whole = Binder.of(graph)
        graph, names = with_outputs(inferred(graph, needed=True), outputs)
        inputs = whole.part(inputs, {node.id for node in graph.parameters})
    plan = compile(graph, form, threads, exact=exact, fuse=fuse, max_memory=max_memory, once=True)
    arrays = plan.run(inputs, trace)
    return Outputs(zip(names or arrays, arrays.values(), strict=True))


@checked
def bench(
    model: ModelLike,
    inputs: Feeds = (),
    form: str | None = FALLBACK,
    threads: int | None = None,
    *,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    max_memory: int | None = None,
    time: float = 2.5,
    iterations: int | None = None,
    rounds: int = 5,
    warm_up: int = 1,
    requests: int = 1,
    against: Sequence[str | PathLike[str]] = (),
    source: str | PathLike[str] | None = None,
    weights: str | PathLike[str] | None = None,
) -> BenchReport:
    """Measure a compiled plan: the network, each step, its kernel, its rates, its memory.

    `inputs` are as for `run` (default: random numbers). Each thing runs for `time` seconds or
    `iterations` times, whichever ends first, after `warm_up` runs; all take turns in `rounds`. Then
    `requests` plans run at the same time. `against` names saved reports (.json, of `to_dict()`) and
    runtimes ("openvino", "onnxruntime") that run in the same rounds, all on one thread. They load
    `source`, by default the file of `model`. Other options are those of `compile`. Raises
    UsageError for unknown runtimes and for several threads, UnsupportedError for a missing one.

    >>> x = np.zeros((1, 1, 3, 3), np.float32)
    >>> report = ird.bench("ir_samples/openvino/deconv_3x3_to_5x5.xml", x, iterations=3)
    >>> report.steps[0].layer
    'deconv'
    """
    effort, graph = Effort(rounds, time, iterations, warm_up, requests), graph_of(model)
    systems, saved = sorted_out(against)
    threads, inputs = require_measurable(effort, systems, threads), _inputs(graph, inputs)
    how: dict[str, Any] = {"fuse": fuse, "tune": tune, "max_memory": max_memory}
    with peers(systems, _origin(model, graph, source, weights), inputs) as ready:
        plans = [compile(graph, form, threads, **how) for _ in range(requests)]
        report = _bench(plans, inputs, effort, form=form, peers=ready).beside(saved)
    return replace(report, source=graph, executed=plans[0].graph)


def _inputs(graph: Graph, inputs: Feeds) -> Feeds:
    none = isinstance(inputs, tuple | list | dict) and not inputs
    return random_inputs(inferred(graph)) if none else inputs


def _origin(
    model: ModelLike,
    graph: Graph,
    source: str | PathLike[str] | None,
    weights: str | PathLike[str] | None,
) -> Source:
    """Return the file for peers: `source`, else the model's own file if they know its kind."""
    if source is None and isinstance(model, str | PathLike):
        source = model if Path(model).suffix in (".xml", ".onnx") else None
    return Source(graph, *(None if p is None else Path(p) for p in (source, weights)))


PLANS = 4  # kept by each thread
_local = threading.local()
Facts = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]  # shape and element type by name


@checked
def map_blocks(
    model: ModelLike,
    inputs: Mapping[str, Any] | Any,
    form: str | None = FALLBACK,
    *,
    exact: bool = False,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    threads: int = 1,
    max_memory: int | None = None,
) -> dict[str, Any]:
    """Run a model lazily on arrays of Dask, a block of samples at a time; needs `distributed`.

    `inputs` maps names of inputs to arrays, or is the array of a single input. Arrays of Dask are
    cut along their first axis, the batch, and must agree in its chunks; other axes become one chunk
    each. Anything else is the same for every block. Returns arrays of Dask by the name of the
    output, in Result order; their shapes, chunks and element types are known without computing.

    A block is run by itself. If the model's batch is exact, a block is run in batches of that size,
    and each chunk must be a multiple of it. If it is open, a block is one batch. The plan, with the
    options of `compile`, is sent to each worker once. Raises UsageError for arrays that do not fit,
    for outputs whose shape depends on values, and the errors of `compile`.

    >>> import dask.array as da
    >>> images = da.zeros((8, 3, 32, 32), chunks=(2, -1, -1, -1), dtype=np.float32)
    >>> masks = ird.map_blocks("ir_samples/openvino/segmentation_head.xml", images)["mask"]
    >>> masks.shape, masks.chunks[0]
    ((8, 2, 32, 32), (2, 2, 2, 2))
    >>> masks[:1].compute().shape
    (1, 2, 32, 32)
    """
    needed("map_blocks", "dask.array", "Array")
    graph = inferred(graph_of(model))
    given, whole = _sorted_out(graph, inputs)
    given = _aligned(given)
    specs = _block_specs(graph, given, whole)
    how: dict[str, Any] = {"exact": exact, "fuse": fuse, "tune": tune, "max_memory": max_memory}
    return _lazily((whole, compile(graph, form, threads, **how)), given, specs)


def _block_specs(
    graph: Graph, given: Mapping[str, Any], whole: Mapping[str, Array]
) -> dict[int, Facts]:
    """Return shape and element type of the outputs for each number of rows that a block has."""
    shapes = {name: array.shape for name, array in given.items()}
    size = batch_size(Binder.of(graph), list(given), shapes)
    chunks = dict.fromkeys(next(iter(given.values())).chunks[0])
    for rows in chunks:
        require_whole(rows, size)
    return {rows: _outputs(graph, given, whole, rows, size) for rows in chunks}


def _sorted_out(graph: Graph, inputs: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the arrays of Dask, and those that all blocks share, by the usual names."""
    from dask.array import Array as DaskArray

    usual = dict(zip((n.id for n in graph.parameters), graph.inputs, strict=True))
    named = {usual[node]: value for node, value in Binder.of(graph).given(inputs).items()}
    missing = [name for name in graph.inputs if name not in named]
    if missing:
        raise misused(f'input "{missing[0]}" is missing', code="E501")
    given = {name: value for name, value in named.items() if isinstance(value, DaskArray)}
    if not given:
        message = "none of the inputs is an array of Dask"
        hint = "run takes other arrays; dask.array.from_array makes one of them"
        raise ArgumentTypeError(Diagnostic("E700", "error", message, hint=hint))
    return given, {n: np.asarray(v) for n, v in named.items() if n not in given}


def _aligned(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays with one chunk in every axis but the first, whose chunks must agree."""
    for name, array in given.items():
        if array.ndim == 0 or any(np.isnan(size) for size in array.shape):
            raise misused(f'input "{name}": its sizes are unknown, or it has no axis', code="E501")
    out = {n: a.rechunk(dict.fromkeys(range(1, a.ndim), -1)) for n, a in given.items()}
    chunks = {name: array.chunks[0] for name, array in out.items()}
    if len(set(chunks.values())) > 1:
        shown = ", ".join(f'"{n}" {c[:4]}{"..." * (len(c) > 4)}' for n, c in chunks.items())
        raise misused(
            f"the inputs have unlike chunks along the first axis: {shown}", "rechunk", code="E501"
        )
    return out


def _outputs(
    graph: Graph, given: Mapping[str, Any], whole: Mapping[str, Array], rows: int, size: int | None
) -> Facts:
    """Return shape and element type of the outputs for a block of `rows`."""
    at_once = rows if size is None else size
    shapes: dict[str, Shape] = {n: (at_once, *a.shape[1:]) for n, a in given.items()}
    shapes |= {name: array.shape for name, array in whole.items()}
    found = infer(graph, shapes=shapes)
    outputs = zip(found.outputs, found.results, strict=True)
    pieces = 1 if size is None else rows // size
    return {name: _times(name, node.spec(), pieces) for name, node in outputs}


def _times(name: str, spec: Spec, pieces: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if not is_static(spec.shape) or spec.dtype is None:
        raise misused(f'output "{name}" is {spec}: its shape depends on values', code="E501")
    if not spec.shape:
        raise misused(f'output "{name}" is a scalar, which blocks cannot be joined to', code="E501")
    shape = (spec.shape[0] * pieces, *spec.shape[1:])
    return shape, np.dtype(spec.dtype.container)


def _lazily(
    shipped: tuple[dict[str, Array], Plan], given: Mapping[str, Any], specs: Mapping[int, Facts]
) -> dict[str, Any]:
    """Return the outputs as arrays of Dask, a task for each block and one for each part of it."""
    import dask.array as da
    from dask.delayed import delayed

    token = uuid4().hex
    once = delayed(shipped, name=f"irdeconv-plan-{token}", pure=True, traverse=False)
    blocks = {name: a.to_delayed(optimize_graph=False).ravel() for name, a in given.items()}
    run = delayed(_run_block, pure=True)
    parts: dict[str, list[Any]] = {}
    for index, rows in enumerate(next(iter(given.values())).chunks[0]):
        arrays = [block[index] for block in blocks.values()]
        key = f"irdeconv-block-{token}-{index}"
        done = run(once, token, list(blocks), arrays, dask_key_name=key)
        for name, (shape, dtype) in specs[rows].items():
            parts.setdefault(name, []).append(da.from_delayed(done[name], shape, dtype))
    return {name: da.concatenate(found, axis=0) for name, found in parts.items()}


def _run_block(
    shipped: tuple[dict[str, Array], Plan], token: str, names: list[str], arrays: list[Array]
) -> dict[str, Array]:
    """Run a block; every thread of a worker has its own plan, as threads take turns at one plan."""
    whole, plan = shipped  # a tuple that begins with a callable is a task of Dask
    plans: OrderedDict[str, Plan] = _local.__dict__.setdefault("plans", OrderedDict())
    if token not in plans:
        plans[token] = copy.copy(plan)
        while len(plans) > PLANS:
            plans.popitem(last=False)
    feeds = dict(zip(names, arrays, strict=True))
    return run_rows(plans[token], {**whole, **feeds}, names)
