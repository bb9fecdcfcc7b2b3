"""The public functions; each CLI verb calls the one of its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial as partly
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import irdeconv.dialects
import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.benchmark import BenchReport, require_measurable
from irdeconv.benchmark import bench as _bench
from irdeconv.benchmark.peers import Source, peers
from irdeconv.errors import Diagnostic, InferenceError, UsageError
from irdeconv.explanation import Explanation
from irdeconv.explanation import explain as _explain
from irdeconv.geometry import Semantics
from irdeconv.graph import Graph, GraphError
from irdeconv.importers.convert import import_model
from irdeconv.inspection import Inspection
from irdeconv.inspection import inspect as _inspect
from irdeconv.inspection.select import Order
from irdeconv.io.atomic import Files
from irdeconv.io.limits import Limits
from irdeconv.io.xml_writer import stage_ir, write_ir
from irdeconv.kernels.shared.exact import accumulate_in_order
from irdeconv.kernels.shared.team import Threads, processors
from irdeconv.models import ModelLike, Reading, Weights, diagnose, graph_of
from irdeconv.ops.basic import Parameter
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.lower_deconv import inferred
from irdeconv.passes.lower_deconv import lower as _lower
from irdeconv.passes.overrides import ShapeLike, input_shapes, parse_shape_like
from irdeconv.passes.profile import Profile
from irdeconv.passes.raising import Raised, raise_deconvolutions
from irdeconv.passes.records import Lowered
from irdeconv.passes.standardize import standardize
from irdeconv.public.editing import extract as extract
from irdeconv.public.editing import rename as rename
from irdeconv.public.reducing import reduce as reduce
from irdeconv.runtime.choice import Tuner
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan, Trace, build_plan
from irdeconv.runtime.schedule import Settings
from irdeconv.spec import Array
from irdeconv.verify.compare.comparison import Comparison, compare_plan
from irdeconv.verify.compare.lockstep import PlanPartner
from irdeconv.verify.compare.partner import Partner
from irdeconv.verify.compare.peer import OpenVinoPartner, openvino
from irdeconv.verify.compare.saved import SavedPartner

DEFAULT_FORM = "zero-insertion"


def read(
    model: ModelLike,
    weights: Weights | None = None,
    semantics: Semantics = "runtime",
    *,
    limits: Limits | None = None,
    name: str = "<bytes>",
) -> Graph:
    """Read a model: an IR (v10 or v11) with its weights, ONNX, a oneDNN dump, the text form.

    `model` is a path, the bytes of a file (called `name` in diagnostics), an `openvino.Model` or
    an `onnx.ModelProto`; the content of a file says what it is. `weights` is the `.bin` of an IR or
    its bytes; by default the file beside the `.xml` with the same stem. Constants are memory-mapped
    and read when their values are needed. `semantics` says how deconvolutions whose document and
    runtime differ are meant. Raises InputError with every diagnostic found.
    """
    return graph_of(model, weights, semantics, limits=limits, name=name)


def convert(
    path: str | PathLike[str] | bytes,
    weights: str | PathLike[str] | None = None,
    *,
    shapes: Mapping[str, ShapeLike] | None = None,
    seed: int = 0,
    semantics: Semantics = "runtime",
) -> Graph:
    """Import an ONNX model (extra `onnx`) or a JSON dump of oneDNN Graph, or their bytes.

    Deconvolutions keep their own semantics, tensor names stay. `weights` of a dump: an .npz by
    tensor id or name, or "random" with `seed`. `shapes` replaces declared input shapes. Raises
    UnsupportedError with everything that is not covered, InputError for a bad file.
    """
    wanted = {name: parse_shape_like(s) for name, s in (shapes or {}).items()}
    return import_model(path, weights, shapes=wanted, seed=seed, semantics=semantics).graph


def validate(
    model: ModelLike,
    weights: Weights | None = None,
    *,
    semantics: Semantics = "runtime",
    shapes: Mapping[str, ShapeLike] | None = None,
    limits: Limits | None = None,
    name: str = "<bytes>",
) -> list[Diagnostic]:
    """Return every problem of a model, in file order; never raises for a bad file.

    `model` is anything that `read` takes, or a Graph. `weights`, `semantics` and `limits` say how a
    file is read: UsageError beside a Graph. `shapes` as for `infer`; those that do not fit are
    among the problems.
    """
    reading = Reading(
        weights=weights,
        semantics=semantics,
        limits=limits or Limits(),
        shapes=shapes or {},
        name=name,
    )
    loaded = diagnose(model, reading)
    if loaded.graph is None:
        return in_file_order(loaded.diagnostics)
    graph, found = loaded.graph.copy(), list(loaded.diagnostics)
    try:
        graph.lint()
        wanted = input_shapes(graph, shapes or {})
        problems = infer_specs(graph, wanted, remarks=True)
        # The shapes that a file declares are those of the inputs that it declares.
        found += [d for d in problems if not (wanted and d.code == "W202")]
    except (GraphError, UsageError) as e:
        found += e.diagnostics
    return in_file_order(found)


def in_file_order(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Sort by line and column; what has no place comes first. Exact repetitions are dropped."""
    seen = {(d.code, str(d.location), d.message): d for d in reversed(found)}
    kept = [d for d in found if seen[d.code, str(d.location), d.message] is d]

    def place(d: Diagnostic) -> tuple[int, int]:
        return (d.location.position if d.location else None) or (0, 0)

    return sorted(kept, key=place)


def infer(graph: Graph, shapes: Mapping[str, ShapeLike] | None = None) -> Graph:
    """Return a copy with the specs of every node filled in.

    `shapes` overrides input shapes by name: sequences of ints, None or "lo..hi", or the text form.
    Raises UsageError where an override names no input or contradicts it, InferenceError with
    everything that does not fit.
    """
    out = graph.copy()
    overrides = input_shapes(out, shapes or {})
    for node, shape in overrides.items():
        old = out.node(node).op
        assert isinstance(old, Parameter)
        out.replace_op(node, Parameter(shape, old.element_type))
    found = infer_specs(out)
    if any(d.severity == "error" for d in found):
        raise InferenceError(found)
    return out


def raise_(graph: Graph, only: Sequence[str] | None = None) -> Raised:
    """Return `Raised(graph, report)`: a copy in which decompositions are deconvolutions again.

    Patterns, of which `only` may name some: zero-insertion, phases, depth-to-space, resize. Filters
    must be constants. Raises UsageError for an unknown pattern, InferenceError where the graph does
    not fit together.
    """
    return raise_deconvolutions(graph, only)


def lower(
    graph: Graph,
    form: str = DEFAULT_FORM,
    target: str | PathLike[str] | Profile | None = None,
    *,
    explain_costs: bool = False,
) -> Lowered:
    """Return `Lowered(graph, report)`: a copy without deconvolutions, and what happened to each.

    Forms: zero-insertion, phases, stacked, gemm; where one does not apply, zero-insertion is taken
    and the report says why. With "auto" each deconvolution takes the cheapest form that `target`
    admits: a packaged profile's name (generic, no-depth-to-space, zero-insertion-hardware), a .toml
    file or a Profile. `explain_costs` reports the costs of all forms for other forms as well.
    Raises LoweringError with every deconvolution that cannot be lowered.
    """
    return _lower(graph, form, target, explain_costs=explain_costs)


def compile(
    graph: Graph,
    form: str | None = DEFAULT_FORM,
    threads: int | None = None,
    *,
    exact: bool = False,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    max_memory: int | None = None,
) -> Plan:
    """Return a plan that can be run repeatedly; `form=None` executes the graph as it stands.

    The plan executes several nodes at once where that is faster, a deconvolution's three nodes
    among them; `fuse=False` executes node by node. `exact` does so and adds the terms of
    convolutions and deconvolutions in one defined order: slower, and the same bits for every form.
    `threads` is 1 or more, by default the number of processors; the results do not depend on it.
    `tune` measures kernels instead of estimating their time; a path keeps the measurements.
    `max_memory` is a limit in bytes, LimitError where the plan needs more. A plan may be run from
    several threads, which take turns, but not from a callback of its own run, nor from a thread
    that such a callback waits for (RuntimeError). Raises UnsupportedError with every operation that
    cannot be executed, and what `lower` raises.
    """
    with accumulate_in_order(exact):  # lowering computes constants
        ready = inferred(graph) if form is None else _lower(graph, form).graph
    path = None if isinstance(tune, bool) else Path(tune)
    tuner = Tuner(measure=tune is not False, path=path)
    settings = Settings(
        fuse, Threads(processors() if threads is None else threads), tuner, max_memory
    )
    return build_plan(ready, exact=exact, settings=settings)


def run(
    graph: Graph,
    inputs: Feeds,
    form: str | None = DEFAULT_FORM,
    *,
    trace: Trace | None = None,
    exact: bool = False,
    fuse: bool = True,
    threads: int | None = None,
    max_memory: int | None = None,
) -> dict[str, Array]:
    """Execute a graph once; returns the outputs by name in Result order.

    `inputs` maps names to arrays or lists arrays in order. `form=None` executes the graph as it
    stands, otherwise it is lowered first. `trace(node, arrays)` sees every node's outputs, each
    node being executed by itself; it may run other plans, also of this graph. The other options are
    those of `compile`.
    """
    fuse = fuse and trace is None
    plan = compile(graph, form, threads, exact=exact, fuse=fuse, max_memory=max_memory)
    return plan.run(inputs, trace)


def bench(
    graph: Graph,
    inputs: Feeds,
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

    `rounds` rounds of about `seconds` each; the other options are those of `compile`. `against`
    names peers ("openvino", "onnxruntime") that run in the same rounds on one thread; they load
    `source`, the file that the graph was read or converted from, where it is given. Raises
    UsageError for a peer that is unknown or not installed, and for peers beside several threads.
    """
    require_measurable(rounds, seconds, against, threads)
    origin = Source(graph, *(None if p is None else Path(p) for p in (source, weights)))
    with peers(against, origin, inputs) as ready:
        plan = compile(graph, form, threads, fuse=fuse, tune=tune, max_memory=max_memory)
        return _bench(plan, inputs, form=form, rounds=rounds, seconds=seconds, peers=ready)


def write(graph: Graph, path: str | PathLike[str]) -> None:
    """Write `path` (.xml) and the `.bin` beside it, in standard operations, atomically.

    OpenVINO loads the result and computes the same. Raises UnsupportedError for operations without
    a standard spelling, InputError where constants have no data (E120), FileAccessError where the
    files cannot be written.
    """
    write_ir(_writable(graph), Path(path))


def stage(graph: Graph, path: str | PathLike[str], files: Files) -> tuple[Path, Path]:
    """Write as `write` does; the files take their places with all others of `files`.

    Returns where the `.xml` and the `.bin` stand until then. Raises what `write` raises.
    """
    return stage_ir(_writable(graph), Path(path), files)


def _writable(graph: Graph) -> Graph:
    return inferred(standardize(inferred(graph)))


def compare(
    a: Graph,
    b: Graph | Mapping[str, Any] | str | PathLike[str],
    inputs: Feeds,
    *,
    tolerance: float | None = None,
    weights: str | PathLike[str] | None = None,
) -> Comparison:
    """Run a graph as it stands and compare every layer with another side's, on the same inputs.

    `b` is a graph, arrays by name or an .npz of them, "openvino" for the same graph in OpenVINO, or
    "openvino:FILE.xml" for another model there (extra `oracles`; `weights` is its .bin). The report
    has `passed`, `first_difference` and a record per tensor. A layer may be off what it makes of
    b's own inputs by what rounding explains; `tolerance`, relative to a tensor's largest value,
    replaces that.
    Raises UsageError for arrays that are none of the model's, UnsupportedError without OpenVINO.
    """
    plan = compile(a, None, threads=1, fuse=False)
    with TemporaryDirectory(prefix="irdeconv-") as folder:
        if isinstance(b, Graph):
            other = compile(b, None, threads=1, fuse=False)
            start: Callable[[], Partner] = partly(PlanPartner, plan.graph, other, inputs)
        elif isinstance(b, Mapping):
            arrays = {name: np.asarray(v) for name, v in b.items()}
            start = partly(SavedPartner, plan.graph, arrays, "the arrays")
        else:
            start = partly(_stored, plan, b, inputs, weights, folder)
        return compare_plan(plan, start, inputs, tolerance)


def _stored(
    plan: Plan,
    b: str | PathLike[str],
    inputs: Feeds,
    weights: str | PathLike[str] | None,
    folder: str,
) -> Partner:
    """Return the partner that a text names; a model for OpenVINO is written to the folder."""
    system, colon, file = str(b).partition(":")
    if system == "openvino":
        openvino()  # before anything is written
        if not colon:
            file = str(Path(folder, "model.xml"))
            write(plan.graph, file)
        bound = zip(plan.graph.inputs, plan.binder.bind(inputs), strict=True)
        return OpenVinoPartner(plan, Path(file), dict(bound), Path(weights) if weights else None)
    return SavedPartner.open(plan.graph, Path(b))


def inspect(
    graph: Graph,
    lowered: Lowered | Graph | None = None,
    *,
    only: str | Sequence[str] = (),
    sort: Order | None = None,
) -> Inspection:
    """Return a printable table of the layers; `lowered` adds the deconvolutions after lowering.

    `only` shows layers of a type or whose name fits a pattern (`*`, `?`, `[a-z]`), `sort` ("macs",
    "bytes" or "params") the largest first. Raises UsageError where no layer fits.

    >>> import irdeconv as ird
    >>> text = '''graph 1 "net" {
    ...   %0 "x" = opset1.Parameter() {shape = [1, 3, 8, 8], element_type = f32}
    ...   %1 "half" = opset1.MaxPool(%0) {strides = [2, 2], kernel = [2, 2]}
    ...   %2 "y" = opset1.Result(%1)
    ... }'''
    >>> net = ird.inspect(ird.infer(ird.parse(text)), only="MaxPool")
    >>> [layer] = net.shown
    >>> layer.inputs[0].name, str(layer.outputs[0].spec)
    ('x', 'f32[1,3,4,4]')
    """
    other = lowered.graph if isinstance(lowered, Lowered) else lowered
    return _inspect(graph, other, only=[only] if isinstance(only, str) else only, sort=sort)


def explain(
    graph: Graph,
    layer: str | None = None,
    *,
    solve: int | Sequence[int] | None = None,
    shapes: Mapping[str, ShapeLike] | None = None,
) -> Explanation:
    """Return why deconvolutions give what they give, and what other systems would compute.

    `layer` is a name; without it all are explained where they are few. `solve` lists attributes
    that give this output size (one for all axes, or one per axis). A layer that its own system
    refuses is explained as well. Raises UsageError for a name that is no deconvolution.
    """
    return _explain(graph, layer, solve, input_shapes(graph, shapes or {}))
