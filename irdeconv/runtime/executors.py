"""Executors of fusion groups: a kernel writing into given memory, a view, or `evaluate`.

A (de)convolution has the kernel with the least estimated cost, or the fastest measured one. Only
`tune` measures: estimates choose the same kernel every time, measurements need not. Results are
kept in memory, and in a file if one is given.

Loops and branches have a program for each body, and one more for each new shape.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import FolderError, LimitError, misused
from irdeconv.base.json_form import Record
from irdeconv.base.memory import RunMemory
from irdeconv.base.opening import read_json, real
from irdeconv.formats.atomic import failures, write_file
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Bound, as_tuple, kept
from irdeconv.ir.spec import Array, Spec, is_static
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import (
    Candidate,
    ConvProblem,
    Epilogue,
    Fix,
    FixedKernel,
    Kernel,
    MovableKernel,
    NamedKernel,
    every_cut,
    worthwhile,
)
from irdeconv.kernels.copies import CopyKernel
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.jit import FILE_MODE, FOLDER_MODE, available, is_private, processor
from irdeconv.kernels.machine import blas_name
from irdeconv.kernels.numpy_calls import KeptCalls
from irdeconv.kernels.recorded_calls import FixedCall, Repeated
from irdeconv.kernels.threads import Team, Threads, arithmetic
from irdeconv.ops.bodies import Body, BodyOp
from irdeconv.ops.checks import ViewOp, of_exact_shapes, shape_of
from irdeconv.ops.movement import Reshape
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.runtime import fusion
from irdeconv.runtime.program import (
    VIEW,
    Always,
    Call,
    Memory,
    Program,
    Slots,
    Values,
    bind,
    guarded,
    memory_of,
    scatters,
    small_memory,
)
from irdeconv.runtime.whole_numbers import WholeSums

WORTH = 50_000.0  # ns: below this a measurement costs more than it brings
RIVAL = 2.0  # candidates whose estimate is at most this multiple of the least are measured
CLOSE = 1.3  # those whose first time is at most this multiple of the least are measured ...
REPEATS = 5  # ... so many times more
VIEWS_BEFORE = 4  # a reshaping, one before the other, among which one is sought that needs a copy

_MEASURED: dict[tuple[str, ConvProblem], str] = {}


@dataclass(frozen=True)
class KernelChoice:
    """The candidate that was taken and why."""

    candidate: Candidate
    why: str

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.candidate.name


@dataclass
class Tuner:
    """Chooses kernels. `path` is the file that keeps measurements between processes."""

    measure: bool = False
    path: Path | None = None
    _stored: dict[str, str] | None = field(default=None, repr=False)
    _listed: dict[tuple[Any, ...], list[Candidate]] = field(default_factory=dict, repr=False)

    def listed(self, kind: str, problem: ConvProblem) -> list[Candidate]:
        """Return the candidates for a problem; equal layers share one list."""
        key = kind, problem, available()
        if key not in self._listed:
            list_all = for_deconvolution if kind == "deconvolution" else for_convolution
            self._listed[key] = list_all(problem)
        return self._listed[key]

    def choose(
        self,
        kind: str,
        problem: ConvProblem,
        candidates: Sequence[Candidate],
        filter: Array | None,
        team: Threads,
    ) -> KernelChoice:
        """Return the best of the candidates, which are sorted by estimated cost."""
        candidates = worthwhile(candidates)
        first = candidates[0]
        rivals = {c.label: c for c in every_cut(candidates) if c.cost <= RIVAL * first.cost}
        if not self.measure or filter is None or first.cost < WORTH or len(rivals) < 2:
            return KernelChoice(first, f"estimated {first.cost / 1e3:.0f} us")
        known = _MEASURED.get((kind, problem)) or self._load().get(_key(kind, problem))
        if known in rivals:
            return KernelChoice(rivals[known], "measured before")
        times = _times(rivals, lambda c, runs: _time(c, problem, filter, team, runs))
        best = min(times, key=lambda label: times[label])
        _MEASURED[kind, problem] = best
        self._save(_key(kind, problem), best)
        said = f"measured {times[best] * 1e6:.0f} us, best of {len(rivals)}"
        return KernelChoice(rivals[best], said)

    def _load(self) -> dict[str, str]:
        if self._stored is None:
            self._stored = {}
            if self.path is not None and self.path.exists():
                self._stored = _measurements(self.path)
        return self._stored

    def _save(self, key: str, name: str) -> None:
        stored = self._load()
        stored[key] = name
        if self.path is None:
            return
        text = json.dumps(MeasuredKernels(stored).to_dict(), indent=1, sort_keys=True)
        with failures(self.path):
            self.path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        write_file(self.path, text.encode())
        with failures(self.path):
            self.path.chmod(FILE_MODE)  # a file that others may change is not read again


class MeasuredKernels(Record, document="kernels/1"):
    """Which kernel was the fastest."""

    # kernel and how it cuts the work, by layer, sizes, versions and processor
    kernels: dict[str, str]


def require_measurements(path: Path) -> None:
    """Raise UsageError for a file that holds something else than measurements, if there is one."""
    content = None
    if not path.exists():
        return
    with suppress(ValueError):
        content = read_json(path)
    if not isinstance(content, dict) or content.get("schema") != MeasuredKernels.json_schema:
        message = f'--tune "{path}" would overwrite a file that holds no measurements'
        raise misused(message, "name a new file, or one that --tune has written")


def _measurements(path: Path) -> dict[str, str]:
    """Return a file's measurements; none, with a warning, if damaged or open to other users."""
    try:
        whole = real(path)
        if not (is_private(whole) and is_private(whole.parent, last=False)):
            raise ValueError("others may change it")
        content = read_json(path)
        known = isinstance(content, dict) and content.get("schema") == MeasuredKernels.json_schema
        found = content.get("kernels") if known else None
        if not isinstance(found, dict):
            raise ValueError("it holds no measurements")
        return {str(k): str(v) for k, v in found.items()}
    except FolderError:  # nothing can be kept there either
        raise
    except (OSError, ValueError, LimitError) as e:
        text = f"{path} is not used, kernels are measured anew: {e}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return {}


def _key(kind: str, problem: ConvProblem) -> str:
    lists = (problem.shape, problem.outputs, problem.groups, problem.kernel, problem.strides)
    more = (
        problem.dilations,
        problem.begin,
        problem.sizes,
        problem.dtype,
        problem.levels is not None,
    )
    where = f"numpy {np.__version__}, {blas_name()} on {processor()}"
    return f"{kind} {where} {(*lists, *more)}"


def _times(
    rivals: Mapping[str, Candidate], timed: Callable[[Candidate, int], float]
) -> dict[str, float]:
    """Return the times of those that could be the fastest: after one run, the others are out."""
    tried = progress.each("tuning", rivals.items(), name=lambda pair: pair[1].name)
    once = {label: timed(c, 1) for label, c in tried}
    limit = CLOSE * min(once.values())
    close = [label for label, seconds in once.items() if seconds <= limit]
    if len(close) == 1:
        return {close[0]: once[close[0]]}
    again = progress.each("tuning", close, name=lambda label: rivals[label].name)
    return {label: timed(rivals[label], REPEATS) for label in again}


def _time(
    candidate: Candidate, problem: ConvProblem, filter: Array, team: Threads, runs: int
) -> float:
    """Return the least CPU time of some runs in seconds, after one that does not count."""
    x = np.ones(problem.shape, filter.dtype)
    out = np.empty(problem.out_shape, filter.dtype)

    def once() -> float:
        start = time.process_time()
        team.begin()
        kernel(x, out, None, team)
        return time.process_time() - start

    with team.lock, arithmetic():  # another program of the plan may be running
        kernel = candidate.prepare(filter)
        once()
        return min(once() for _ in range(runs))


Evaluator = Callable[..., Any]  # (*inputs) -> output or tuple of them


@dataclass(kw_only=True)
class Executor:
    """Base: executes a fusion group, with its inputs and outputs.

    `arguments` are the values that `bind` gets slots of. Outputs are written into given `memory`,
    if its shapes and types are there; `view_of` names the value whose memory they share. A
    `movable` executor is hardly slower if all memory is new in every run; `cost` is in ns. `kept`
    are the bytes that it keeps beside constants.
    """

    arguments: tuple[Value, ...]
    outputs: tuple[Value, ...]
    memory: tuple[Memory, ...] = ()
    view_of: Value | None = None
    kernel: str = ""
    why: str = ""
    scratch: int = 0
    kept: int = 0
    movable: bool = False
    cost: float | None = None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        """Return the call for given slots; `values` has the values that never change."""
        raise NotImplementedError


def choose_executor(
    graph: Graph,
    group: fusion.FusionGroup,
    constants: Mapping[Value, Array],
    tuner: Tuner,
    team: Threads,
    used: frozenset[int],
    dense: bool,
) -> Executor:
    """Choose the executor of a group of a fused plan.

    `used` are the ports that are read; `dense` says that the first one's reader is faster if the
    elements are contiguous in memory.
    """
    if isinstance(group, fusion.ConvolutionGroup):
        return _convolution(graph, group, constants, tuner, team)
    if isinstance(group, fusion.ChainGroup):
        plan = fusion.plan_chain(graph, group.nodes, constants)
        return _CallExecutor(
            arguments=plan.arguments,
            outputs=outputs_of(group.last),
            memory=memory_of(group.last),
            kernel=plan.name,
            function=plan,
        )
    node = group.last
    inputs = _inputs(graph, node, constants)
    bound = _bound(graph, node, inputs, used, dense)
    if bound is not None:
        return bound
    function = node.op.evaluator(used, inputs)
    exact = all(s.static for s in (*inputs, *(node.specs or ())))
    run = of_exact_shapes(function) if exact else function
    executor = evaluated(graph, node, run, aliases=False)
    if function != node.op.evaluate:  # behind the last one that is read it may give none
        executor = replace(executor, outputs=executor.outputs[: max(used, default=0) + 1])
    return replace(executor, memory=small_memory(node, len(executor.outputs)))


def _inputs(graph: Graph, node: Node, constants: Mapping[Value, Array]) -> list[Spec]:
    """Return the specs of inputs, with the values of constants."""
    return [
        replace(graph.spec(v), value=constants[v]) if v in constants else graph.spec(v)
        for v in graph.inputs_of(node.id)
    ]


def spread(
    graph: Graph, group: fusion.FusionGroup, constants: Mapping[Value, Array]
) -> Value | None:
    """Return the view whose elements a group reshapes by a copy; None if it needs none."""
    node = group.last
    if not isinstance(node.op, Reshape) or not group.inputs or not is_static(node.spec().shape):
        return None
    value = group.inputs[0]
    try:
        for _ in range(VIEWS_BEFORE):
            source = graph.node(value.node)
            inputs = _inputs(graph, source, constants) if isinstance(source.op, ViewOp) else []
            bound = bind(source.op, inputs, source.specs or ()) if inputs else None
            if bound is None or bound.view is None:
                break
            given = np.empty(shape_of(inputs[0]), np.bool_)  # never read
            seen = bound.view(given)
            if isinstance(seen, tuple):
                break
            seen.reshape(shape_of(node.spec()), copy=False)
            if not seen.flags.c_contiguous or seen.size != given.size:
                break
            value = graph.inputs_of(source.id)[0]  # the elements stay in order
    except (ValueError, MemoryError) as e:
        # Without memory for it, it does not run anyway.
        return value if isinstance(e, ValueError) else None
    return None


def evaluated(graph: Graph, node: Node, function: Evaluator, *, aliases: bool) -> Executor:
    """Execute one node by a function of arrays."""
    return _EvaluateExecutor(
        arguments=graph.inputs_of(node.id),
        outputs=outputs_of(node),
        kernel="evaluate",
        function=_keeping(function, node.specs or ()),
        aliases=aliases,
    )


def _keeping(function: Evaluator, specs: Sequence[Spec]) -> Evaluator:
    """Let a function keep no more of its outputs than types of less than a byte do."""
    if not any(s.dtype is not None and s.dtype.is_packed for s in specs):
        return function
    return lambda *arrays: kept(as_tuple(function(*arrays)), specs)


def limited(graph: Graph, node: Node, executor: Executor, run: RunMemory) -> Executor:
    """Add the checks that need a run: sizes that do not fit, outputs beyond the limit."""
    specs = (*graph.input_specs(node.id), *(node.specs or ()))
    if isinstance(executor, _EvaluateExecutor) and executor.view_of is None:
        executor.run = run
        if run.limit is not None or not all(s.static for s in specs):
            executor.function = guarded(graph, node, executor.function, run)
    return executor


def outputs_of(node: Node) -> tuple[Value, ...]:
    """Return the values of all outputs."""
    return tuple(Value(node.id, p) for p in range(max(node.outputs, 1)))


@dataclass(kw_only=True)
class _EvaluateExecutor(Executor):
    """`aliases` says that outputs may share memory with inputs."""

    function: Evaluator
    aliases: bool
    run: RunMemory = field(default_factory=RunMemory)

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        evaluate, run = self.function, self.run

        def copy(values: Values) -> None:
            found = as_tuple(evaluate(*[values[i] for i in ins]))
            for slot, array in zip(outs, found, strict=False):
                np.copyto(values[slot], array)

        def call(values: Values) -> None:
            arrays = [values[i] for i in ins]
            out = evaluate(*arrays)
            if not self.aliases:
                out = unshared(out, arrays)
            for slot, array in zip(outs, as_tuple(out), strict=False):
                values[slot] = array
                run.hold(array)

        return copy if self.memory else call


def unshared(out: Any, arrays: list[Any]) -> Any:
    """Copy outputs that may lie in an input's memory, which will be used for other values."""
    if isinstance(out, tuple):
        return tuple(unshared(o, arrays) for o in out)
    if any(np.may_share_memory(out, a) for a in arrays):
        return np.array(out)
    return out


def _bound(
    graph: Graph, node: Node, inputs: list[Spec], used: frozenset[int], dense: bool
) -> Executor | None:
    """Bind a node to its shapes; None if these are open or it must be evaluated."""
    arguments = graph.inputs_of(node.id)
    outputs = list(node.specs or ())
    if used == {0}:
        outputs = outputs[:1]
    bound = bind(node.op, inputs, outputs)
    if bound is None:
        return None
    if bound.view is not None and dense and scatters(bound.view, inputs):
        memory = memory_of(node, 1)
        bound = Bound(CopyKernel(bound.view, memory[0][0]))
    if bound.view is not None:
        return _EvaluateExecutor(
            arguments=arguments,
            outputs=outputs_of(node),
            view_of=arguments[0],
            kernel=VIEW,
            function=bound.view,
            aliases=True,
        )
    assert bound.call is not None
    return _CallExecutor(
        arguments=arguments,
        outputs=outputs_of(node)[:1],
        memory=memory_of(node, 1),
        kernel=node.type,
        function=bound.call,
    )


@dataclass(kw_only=True)
class _CallExecutor(Executor):
    function: Callable[..., None]

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        function, out = self.function, outs[0]
        arrays = [values[i] for i in (*ins, out)]
        if isinstance(function, FixedCall) and all(a is not None for a in arrays):
            fixed = function.fixed(*arrays[:-1], out=arrays[-1])
            if fixed is not None:
                return Always(fixed, team)

        def call(values: Values) -> None:
            team.begin()
            function(*[values[i] for i in ins], out=values[out], team=team)

        return call


@dataclass(kw_only=True)
class _ConvolutionExecutor(Executor):
    """`arguments`: data, the filter unless it is constant (no `places`), then the epilogue's."""

    prepared: Kernel | None
    candidate: Candidate
    layer: fusion.FusedConvolution
    finish: fusion.ChainPlan | None
    places: list[tuple[Array, Array]] | None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        data, out, finish = ins[0], outs[0], self.finish
        operands = ins[1:] if self.places is None else ins[2:]
        given = [values[i] for i in operands]
        # An operand of the epilogue that needs a copy in every run.
        apart = any(a is not None and not a.flags.c_contiguous for a in given)
        after = None
        if finish is not None and not apart and all(a is not None for a in (*given, values[out])):
            after = finish.after(given, values[out])
        epilogue = None if apart or after else self._epilogue(operands, values)
        fixed = None if apart else self._fixed(data, operands, out, values, after)
        if fixed is not None and not self.places:
            return Always(fixed, team)

        def call(values: Values) -> None:
            kernel = self.prepared
            if kernel is None or self.places:
                kernel = self._filled(values[ins[1]])
            team.begin()
            if fixed is not None and kernel is self.prepared:
                fixed(team)
                return
            kernel(values[data], values[out], epilogue and epilogue(values), team)
            if after is not None:
                after(team)
            if apart and finish is not None:  # the whole output, beside operands of any strides
                team.begin()
                arrays = [values[out], *[values[i] for i in operands]]
                finish(*arrays, out=values[out], team=team)

        return call

    def _filled(self, w: Array) -> Kernel:
        """Return the kernel with a computed filter, which is put into its arrays if possible."""
        if self.prepared is None or not np.isfinite(w).all():
            return self.candidate.prepare(self.layer.arrange(w))
        elements = np.zeros(w.size + 1, self.layer.problem.compute)
        elements[1:].reshape(w.shape)[...] = w
        for array, places in self.places or ():
            np.take(elements, places, out=array, mode="clip")  # faster than "raise"
        return self.prepared

    def _fixed(
        self,
        data: int,
        operands: Slots,
        out: int,
        values: Values,
        after: KeptCalls | Repeated | None,
    ) -> Callable[[Team], None] | None:
        """Return the call if all memory is fixed and the kernel makes use of that."""
        kernel = self.prepared
        moved = any(values[i] is None for i in (data, out, *operands))
        if moved or not isinstance(kernel, FixedKernel):
            return None
        finish: Fix = lambda tile, image, channels, positions: None  # noqa: E731
        if self.finish is not None and after is None:
            arrays = [values[i] for i in operands]
            if not self.finish.follows(arrays):
                return None
            finish = self.finish.epilogue(arrays).fixed
        work = kernel.fixed(values[data], values[out], finish)
        if work is None or after is None:
            return work

        def both(team: Team) -> None:
            work(team)
            after(team)

        return both

    def _epilogue(self, operands: Slots, values: Values) -> Callable[[Values], Epilogue | None]:
        finish = self.finish
        if finish is None:
            return lambda values: None
        arrays = [values[i] for i in operands]
        if all(a is not None for a in arrays) and finish.follows(arrays):
            bound = finish.epilogue(arrays)
            return lambda values: bound
        return lambda values: finish.epilogue([values[i] for i in operands])


def _movable(kernel: Kernel | None, finish: fusion.ChainPlan | None) -> bool:
    """Whether a kernel gains little or nothing by fixed memory."""
    if not isinstance(kernel, FixedKernel):
        return True
    return finish is None and isinstance(kernel, MovableKernel) and kernel.movable


def _listed(
    candidates: list[Candidate], group: fusion.ConvolutionGroup, computed: bool
) -> list[Candidate]:
    """Return the kernels for a group; `computed`: so is its filter."""
    whole = computed or any(isinstance(n.op, WholeSums) for n in group.finish)
    return [c for c in candidates if not (whole and c.transforms)]  # they round and take longer


def _convolution(
    graph: Graph,
    group: fusion.ConvolutionGroup,
    constants: Mapping[Value, Array],
    tuner: Tuner,
    team: Threads,
) -> Executor:
    layer, filter = group.layer, constants.get(group.layer.filter)
    weights = None if filter is None else np.asarray(layer.arrange(filter))
    kind = "deconvolution" if layer.deconvolution else "convolution"
    if weights is None and jit.available():
        jit.works()  # the kernel is prepared in every run, too late to choose another
    listed = _listed(tuner.listed(kind, layer.problem), group, weights is None)
    choice = tuner.choose(kind, layer.problem, listed, weights, team)
    core = Value(group.core.id)
    finish = fusion.plan_chain(graph, group.finish, constants, core) if group.finish else None
    arguments = [layer.data] if weights is not None else [layer.data, layer.filter]
    if finish is not None:
        arguments += finish.arguments
    prepared, places = None if weights is None else choice.candidate.prepare(weights), None
    if weights is None:
        shape = shape_of(graph.spec(layer.filter))
        prepared, places = choice.candidate.refillable(shape, layer.arrange, layer.problem.compute)
    chosen = prepared if isinstance(prepared, NamedKernel) else choice
    return _ConvolutionExecutor(
        arguments=tuple(arguments),
        outputs=outputs_of(group.last),
        memory=memory_of(group.last),
        kernel=f"{kind} {chosen.name}" + (f" + {finish.name}" if finish else ""),
        why=chosen.why,
        scratch=choice.candidate.scratch,
        kept=sum(a.nbytes + p.nbytes for a, p in places or ()),
        cost=choice.candidate.cost,
        movable=_movable(prepared, finish),
        prepared=prepared,
        candidate=choice.candidate,
        layer=layer,
        finish=finish,
        places=places,
    )


SHAPES = 4  # of a body's inputs that get a program of their own; others run node by node

# Compiles a graph; False: node by node, for any shapes.
Compile = Callable[[Graph, bool], Program]


def body_executor(
    graph: Graph, node: Node, op: BodyOp, compile: Compile, run: RunMemory
) -> Executor:
    """Return the executor of a loop or a branch."""
    return _EvaluateExecutor(
        arguments=graph.inputs_of(node.id),
        outputs=outputs_of(node),
        kernel="bodies",
        function=body_function(op, compile, run),
        aliases=False,
        run=run,
    )


def body_function(op: BodyOp, compile: Compile, run: RunMemory) -> Evaluator:
    """Return the function that runs compiled bodies of a loop or a branch."""
    runs = {body.tag: _Runner(body, compile) for body in op.bodies}
    return lambda *arrays: tuple(op.execute(arrays, lambda body: runs[body.tag], run))


class _Runner:
    """Executes a body once for each call."""

    def __init__(self, body: Body, compile: Compile) -> None:
        self._graph, self._compile = body.graph, compile
        self._parameters = [n.id for n in body.graph.parameters]
        self._results = [n.id for n in body.graph.results]
        self._programs: dict[Any, Program] = {}
        self._static = all(is_static(n.spec().shape) for n in body.graph.parameters)
        if self._static:
            self._program(())

    def __call__(self, given: Mapping[int, Array]) -> dict[int, Array]:
        arrays = [given[i] for i in self._parameters]
        shapes = () if self._static else tuple(a.shape for a in arrays)
        return dict(zip(self._results, self._program(shapes).compute(arrays), strict=True))

    def _program(self, shapes: tuple[tuple[int, ...], ...]) -> Program:
        """Return the program for these shapes; () if there is only one set of them."""
        key = shapes if shapes in self._programs or len(self._programs) < SHAPES else None
        if key not in self._programs:
            self._programs[key] = self._compiled(key)
        return self._programs[key]

    def _compiled(self, shapes: tuple[tuple[int, ...], ...] | None) -> Program:
        graph: Graph | None = self._graph
        if not self._static:
            graph = None if shapes is None else self._specialized(shapes)
        return self._compile(self._graph if graph is None else graph, graph is not None)

    def _specialized(self, shapes: tuple[tuple[int, ...], ...]) -> Graph | None:
        """Return the graph for exact shapes; None if they do not fit, which a run reports."""
        graph = self._graph.copy()
        given = {
            i: Spec(graph.node(i).spec().dtype, shape)
            for i, shape in zip(self._parameters, shapes, strict=True)
        }
        problems = infer_specs(graph, given=given)
        return None if any(d.severity == "error" for d in problems) else graph
