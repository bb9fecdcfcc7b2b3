"""Compile, run, measure."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from irdeconv.benchmark import BenchReport, require_measurable
from irdeconv.benchmark import bench as _bench
from irdeconv.benchmark.peers import Source, peers
from irdeconv.editing.outputs import with_outputs
from irdeconv.kernels.shared.exact import accumulate_in_order
from irdeconv.kernels.shared.team import Threads, processors
from irdeconv.models import ModelLike, graph_of
from irdeconv.passes.lower_deconv import inferred
from irdeconv.passes.lower_deconv import lower as _lower
from irdeconv.public.rewriting import DEFAULT_FORM
from irdeconv.runtime.choice import Tuner
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.runtime.plan import Plan, Trace, build_plan
from irdeconv.runtime.schedule import Settings
from irdeconv.spec import Array


def compile(
    model: ModelLike,
    form: str | None = DEFAULT_FORM,
    threads: int | None = None,
    *,
    exact: bool = False,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    max_memory: int | None = None,
    once: bool = False,
) -> Plan:
    """Return a plan that can be run repeatedly; `form=None` executes the graph as it stands.

    The plan executes several nodes at once where that is faster, a deconvolution's three nodes
    among them; `fuse=False` executes node by node. `exact` does so and adds the terms of
    convolutions and deconvolutions in one defined order: slower, and the same bits for every form.
    `threads` is 1 or more, by default the number of processors; the results do not depend on it.
    `tune` measures kernels instead of estimating their time; a path keeps the measurements.
    `max_memory` is a limit in bytes, LimitError where the plan needs more. `once` says that the
    plan runs a single time: compiled kernels (the extra `fast`) are taken only where they gain more
    than loading them takes, half a second; `tune` overrules it. A plan may be run from
    several threads, which take turns, but not from a callback of its own run, nor from a thread
    that such a callback waits for (RuntimeError). Raises UnsupportedError with every operation that
    cannot be executed, and what `lower` raises.

    >>> plan = ird.compile("ir_samples/openvino/deconv_3x3_to_5x5.xml")
    >>> for value in (0, 1):
    ...     print(plan.run(np.full((1, 1, 3, 3), value))["deconv"].sum())
    0.0
    81.0
    """
    graph = graph_of(model)
    with accumulate_in_order(exact):  # lowering computes constants
        ready = inferred(graph) if form is None else _lower(graph, form).graph
    tuner = Tuner(tune is not False, None if isinstance(tune, bool) else Path(tune))
    team = Threads(processors() if threads is None else threads)
    settings = Settings(fuse, team, tuner, max_memory, once and not tuner.measure)
    return build_plan(ready, exact=exact, settings=settings)


def run(
    model: ModelLike,
    inputs: Feeds = (),
    form: str | None = DEFAULT_FORM,
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
    of a single input; `__array__` and `__dlpack__` make arrays of others. `outputs` names layers
    and tensors, also inner ones: only these are returned, under these names, and what they do not
    need is neither executed nor fed. `form=None` executes the graph as it stands, otherwise it is
    lowered first. `trace(node, arrays)` sees every node's outputs, each node being executed by
    itself; it may run other plans, also of this graph. The rest is that of `compile`. Raises
    UsageError for inputs and names that do not fit, ExecutionError where a layer fails.

    >>> image = np.zeros((1, 3, 32, 32), np.float32)
    >>> out = ird.run("ir_samples/openvino/segmentation_head.xml", image, outputs=["up1"])
    >>> {name: array.shape for name, array in out.items()}
    {'up1': (1, 8, 16, 16)}
    """
    fuse = fuse and trace is None
    graph, names = graph_of(model), None
    if outputs is not None:
        whole = Binder.of(graph)
        graph, names = with_outputs(inferred(graph), outputs)
        inputs = whole.part(inputs, {node.id for node in graph.parameters})
    plan = compile(graph, form, threads, exact=exact, fuse=fuse, max_memory=max_memory, once=True)
    arrays = plan.run(inputs, trace)
    return dict(zip(names or arrays, arrays.values(), strict=True))


def bench(
    model: ModelLike,
    inputs: Feeds = (),
    form: str | None = DEFAULT_FORM,
    threads: int = 1,
    *,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    max_memory: int | None = None,
    rounds: int = 5,
    seconds: float = 0.5,
    against: Sequence[str] = (),
    source: str | PathLike[str] | None = None,
    weights: str | PathLike[str] | None = None,
) -> BenchReport:
    """Measure a compiled plan: the network, each step, its kernel, its rates, its memory.

    `inputs` are those of `run`. `rounds` rounds of about `seconds` each; the other options are
    those of `compile`. `against` names peers ("openvino", "onnxruntime") that run in the same
    rounds on one thread; they load `source`, by default the file that `model` names, where it is
    one that they can read. Raises UsageError for an unknown peer and for peers beside several
    threads, UnsupportedError for one that is not installed.

    >>> x = np.zeros((1, 1, 3, 3), np.float32)
    >>> report = ird.bench("ir_samples/openvino/deconv_3x3_to_5x5.xml", x, rounds=1, seconds=0.01)
    >>> [step.layer for step in report.steps], report.network.wall.minimum > 0
    (['deconv'], True)
    """
    require_measurable(rounds, seconds, against, threads)
    graph = graph_of(model)
    if source is None and isinstance(model, str | PathLike):
        source = model if Path(model).suffix in (".xml", ".onnx") else None
    origin = Source(graph, *(None if p is None else Path(p) for p in (source, weights)))
    with peers(against, origin, inputs) as ready:
        plan = compile(graph, form, threads, fuse=fuse, tune=tune, max_memory=max_memory)
        return _bench(plan, inputs, form=form, rounds=rounds, seconds=seconds, peers=ready)
