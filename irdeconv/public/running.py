"""Compile, run, measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base.arguments import checked
from irdeconv.base.errors import misused
from irdeconv.base.form_names import FALLBACK
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.kernels.products import accumulate_in_order
from irdeconv.kernels.threads import Threads, processors
from irdeconv.rewrite.builder import remove_dead
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.lower_deconv import lower as _lower
from irdeconv.runtime.bench import BenchReport, require_measurable, sorted_out
from irdeconv.runtime.bench import bench as _bench
from irdeconv.runtime.executors import Tuner
from irdeconv.runtime.feeds import Binder, Feeds, random_inputs
from irdeconv.runtime.measure import Effort
from irdeconv.runtime.peers import Source, peers
from irdeconv.runtime.plan import Plan, Trace, build_plan
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
    tuner = Tuner(tune is not False, None if isinstance(tune, bool) else Path(tune))
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
    return dict(zip(names or arrays, arrays.values(), strict=True))


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
