"""Plans: graphs compiled once and run often.

A plan over many samples runs as many rows of the first axis at a time as its model takes.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import ExecutionError, UnknownKeyError, count, did_you_mean, misused
from irdeconv.base.extras import is_plain, plain
from irdeconv.base.hints import UnknownAttributeError, hinted
from irdeconv.base.markup import html_table, line
from irdeconv.base.memory import RunMemory, memory_limit
from irdeconv.base.opening import shown
from irdeconv.formats.document import NoWeights, sources_of
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, is_static
from irdeconv.kernels.jit import retried
from irdeconv.kernels.machine import one_blas_thread, renew_in_children
from irdeconv.kernels.products import accumulate_in_order, in_order
from irdeconv.kernels.threads import Threads
from irdeconv.ops.basic import Parameter
from irdeconv.rewrite.infer_specs import infer_specs, refused
from irdeconv.runtime.executors import Tuner, require_measurements
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.runtime.program import Around, Program, StepError, Variables, failure
from irdeconv.runtime.program import Step as Step
from irdeconv.runtime.program import Trace as Trace
from irdeconv.runtime.program import Watch as Watch
from irdeconv.runtime.schedule import Settings, compiled, fold, nanoseconds

COMPILED_SAVES = 0.3  # of a run's time, by compiled kernels; much more for few networks
LOADING = 0.5e9  # to import numba and to load compiled code from the disk


def gains_by_compiling(graph: Graph) -> bool:
    """Whether compiled kernels are estimated to save more in one run than their loading takes.

    Unknown sizes count nothing. The answer depends on the inferred graph alone, not on the state of
    the process, so that a run gives the same bits every time.
    """
    return COMPILED_SAVES * nanoseconds(graph) > LOADING


class Outputs(dict[str, Array]):
    """The outputs of a run by name."""

    def __missing__(self, name: object) -> Array:
        first = f'outputs are by name: ["{next(iter(self), "")}"]'
        hint = did_you_mean(name, self) if isinstance(name, str) else None
        raise misused(f"there is no output {shown(name)}", hint or first, kind=UnknownKeyError)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            whole = "" if name in self else f".{name}"
            key = next(iter(self), "") if whole else name
            raise UnknownAttributeError(self, name, lambda: f'write outputs["{key}"]{whole}')


PROGRAMS = 4  # kept for different input shapes


@hinted
@dataclass(repr=False)
class Plan:
    """An executable graph; `run` may be called any number of times, from several threads.

    A run reads variables (ReadValue) as the last one assigned them (Assign), until `reset`. A fused
    plan executes several nodes at once, and keeps its memory from run to run. If input shapes are
    open, it has one program for each set of shapes. An `exact` plan adds the terms of
    (de)convolutions in the order of kernels/products.py, node by node. `static` says that the input
    shapes are exact. The arrays that `run` returns belong to the caller.
    """

    graph: Graph
    binder: Binder
    settings: Settings
    exact: bool = False
    static: bool = True
    _programs: OrderedDict[Any, Program] = field(default_factory=OrderedDict, repr=False)
    _lock: RLock = field(default_factory=RLock, repr=False)
    _sources: list[NoWeights] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._sources = sources_of(self.graph)
        renew_in_children(self)

    def after_fork(self) -> None:
        """In a child process, free a lock whose owner was a thread of the parent."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()

    def __repr__(self) -> str:
        threads = self.settings.team.threads
        facts = repr(self.graph)[1:-1].partition('": ')[2].split(", ")[1:]
        facts = [count(len(self.steps), "step"), *facts, count(threads, "thread")]
        return line(self, self.graph.info.name, *facts, *["exact"] * self.exact)

    def __reduce__(self) -> tuple[Any, ...]:
        # An unpickled or copied plan gets new memory, threads and locks.
        own = self.settings
        tuner = Tuner(measure=own.tuner.measure, path=own.tuner.path)
        facts = (own.fuse, own.team.threads, tuner, own.max_memory, own.once)
        return _again, (self.graph.copy(), self.exact, facts)

    def _repr_html_(self) -> str:
        rows = [
            (
                at,
                step.node.name,
                ", ".join(n.type for n in step.nodes),
                ", ".join(str(step.node.spec(port)) for port in range(step.node.outputs)),
                step.kernel,
                step.why,
            )
            for at, step in enumerate(self.steps)
        ]
        head = ("step", "layer", "types", "outputs", "kernel", "why")
        return html_table(repr(self)[1:-1], head, rows)

    def run(
        self, inputs: Feeds, trace: Trace | None = None, *, watch: Watch | None = None
    ) -> dict[str, Array]:
        """Execute; returns the outputs by name in Result order.

        `inputs` as for `Binder.bind`. With a `trace` or a `watch` every node is executed by
        itself, a loop or branch being one; `trace` is called with it and its outputs, `watch` with
        its step, inputs and outputs; neither may run this plan, whose memory is in use, nor wait
        for another thread that does (RuntimeError, there after some seconds). Raises UsageError for
        inputs that do not fit, ExecutionError if a layer fails, LimitError if memory or the
        iterations of a loop do not suffice, InputError if a weights file was changed meanwhile.
        """
        if not (trace is None or callable(trace)):
            raise misused("trace is no function", "several inputs are one list: run([a, b])")
        arrays = self.binder.bind(inputs)
        seen = trace is not None or watch is not None
        program = self.stepwise() if seen else self._program(arrays)
        try:
            with self._kernels(program.graph):
                out = program.run(arrays, trace, watch)
        except StepError as e:
            raise failure(e.step.node, e.arrays, e) from e.innermost.cause
        for source in self._sources:
            source.require_intact()
        return Outputs(out)

    def reset(self) -> None:
        """Clear all variables: the next run begins as the first one did."""
        with self.settings.team.lock:
            self.settings.variables.kept = {}

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the variables' values, by variable_id; those that were never assigned lack."""
        return {name: array.copy() for name, array in self.settings.variables.kept.items()}

    def observe(self, inputs: Feeds, around: Around) -> dict[str, Array]:
        """Execute as `run` does, every step by `around(step, values)`.

        It calls `step.call(values)`, whose exceptions are not translated, and must not run this
        plan (RuntimeError).
        """
        arrays = self.binder.bind(inputs)
        program = self._program(arrays)
        with self._kernels(program.graph):
            return program.observe(arrays, around)

    @property
    def steps(self) -> list[Step]:
        """The steps that the last run executed; if shapes are exact, those of the next one."""
        if not self._programs:
            return self.stepwise().steps if not self._fused else self._static().steps
        return next(reversed(self._programs.values())).steps

    @property
    def _fused(self) -> bool:
        return self.settings.fuse and not self.exact

    def stepwise(self) -> Program:
        """Return the program that executes node by node, for any shapes."""
        return self._kept("stepwise", lambda: self._build(self.graph, fuse=False))

    def program(self, inputs: Feeds) -> Program:
        """Return the program that `run` would execute for these inputs."""
        return self._program(self.binder.bind(inputs))

    def _program(self, arrays: Sequence[Array]) -> Program:
        if not self._fused:
            return self.stepwise()
        if self.static:
            return self._static()
        shapes = tuple(a.shape for a in arrays)
        return self._kept(shapes, lambda: self._specialized(shapes))

    def _static(self) -> Program:
        return self._kept("static", lambda: self._build(self.graph, fuse=True))

    def _kept(self, key: Any, build: Any) -> Program:
        program: Program | None = self._programs.get(key)
        if program is not None and len(self._programs) == 1:  # there is nothing to put in order
            return program
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = build()
            self._programs.move_to_end(key)
            while len(self._programs) > PROGRAMS:
                self._programs.popitem(last=False)
            return program

    def _specialized(self, shapes: Sequence[tuple[int, ...]]) -> Program:
        graph = self.graph.copy()
        for node, shape in zip(graph.parameters, shapes, strict=True):
            if not isinstance(node.op, Parameter):
                return self.stepwise()  # an input of unknown version: its type may be open
            graph.replace_op(node.id, Parameter(shape, node.op.element_type))
        # Evaluators rely on the checks of inference: some would compute something else. Data
        # without elements pass: a form may convolve them to nothing, which inference refuses.
        unfit = [d for d in infer_specs(graph, needed=True) if d.severity == "error"]
        if unfit and all(math.prod(shape) for shape in shapes):
            given = dict(zip(graph.inputs, shapes, strict=True))
            raise ExecutionError(refused(unfit, given, lambda: graph))
        return self._build(graph, fuse=True)

    def _build(self, graph: Graph, *, fuse: bool) -> Program:
        def build() -> Program:
            memory = RunMemory(self.settings.max_memory)
            return compiled(graph, replace(self.settings, fuse=fuse, memory=memory))

        with self._kernels(graph), work.gc_paused():
            return retried(build)

    def _kernels(self, graph: Graph) -> AbstractContextManager[object]:
        """Choose and run kernels as the settings say."""
        alone = is_plain() or (self.settings.once and not gains_by_compiling(graph))
        if self.exact == in_order() and alone == is_plain():  # most runs; the rest takes longer
            return one_blas_thread()
        stack = ExitStack()
        stack.enter_context(one_blas_thread())
        stack.enter_context(accumulate_in_order(self.exact))
        stack.enter_context(plain(alone))
        return stack


def build_plan(graph: Graph, *, exact: bool = False, settings: Settings | None = None) -> Plan:
    """Compile an inferred graph; UnsupportedError lists every operation that cannot be executed.

    `exact` sums (de)convolutions in the order of kernels/products.py: slower, and the same bits for
    every lowering form.
    """
    static = all(is_static(s.shape) for n in graph.parameters for s in n.specs or ())
    own = settings or Settings()
    if own.tuner.path is not None and own.tuner.path.suffix != ".json":  # perhaps a model
        raise misused(
            f'tune "{own.tuner.path}" is no .json file', "measurements are kept in a .json file"
        )
    if own.tuner.path is not None and own.tuner.measure:
        require_measurements(own.tuner.path)
    own = replace(own, variables=Variables(), max_memory=memory_limit(own.max_memory))
    plan = Plan(graph, Binder.of(graph), own, exact, static)
    if not plan._fused:
        plan.stepwise()
    elif static:
        plan._static()
    else:
        # Report unsupported operations now.
        fold(graph, replace(own, memory=RunMemory(own.max_memory)))
    return plan


def _again(graph: Graph, exact: bool, facts: tuple[bool, int, Tuner, int | None, bool]) -> Plan:
    fuse, threads, tuner, max_memory, once = facts
    settings = Settings(fuse, Threads(threads), tuner, max_memory, once)
    return build_plan(graph, exact=exact, settings=settings)


def batch_size(binder: Binder, names: Collection[str], shapes: Mapping[str, Shape]) -> int | None:
    """Return the size of the first axis of inputs that are cut; None if it is open.

    `shapes` are those of the inputs in `names`, which must have equally many rows. Raises
    UsageError (E501) if an input has no rows, or if inputs differ.
    """
    sizes, rows = {}, {}
    for name in names:
        spec = binder.names[name].spec()
        if not shapes[name] or (spec.shape is not None and not spec.shape):
            raise misused(
                f'input "{name}" has no first axis along which it could be cut', code="E501"
            )
        rows[name] = shapes[name][0]
        if spec.shape is not None and isinstance(spec.shape[0], int):
            sizes[name] = spec.shape[0]
    for what, found in (("model takes", sizes), ("arrays have", rows)):
        if len(set(found.values())) > 1:
            each = ", ".join(f'{n} of "{name}"' for name, n in found.items())
            raise misused(f"the {what} unlike numbers of rows: {each}", code="E501")
    return next(iter(sizes.values()), None)


def require_whole(rows: int, size: int | None) -> None:
    """Raise UsageError (E501) if rows are no multiple of `size`, the model's batch."""
    if size is not None and (size == 0 or rows % size):
        message = f"{count(rows, 'row')} cannot be cut into batches of {size}"
        raise misused(
            message, f"take a multiple of {size}, or a model whose batch is open", code="E501"
        )


def run_rows(plan: Plan, feeds: Mapping[str, Array], cut: Collection[str]) -> dict[str, Array]:
    """Run a plan on the rows of inputs in `cut`, batch by batch from one state; join outputs."""
    size = batch_size(plan.binder, cut, {name: feeds[name].shape for name in cut})
    rows = len(feeds[next(iter(cut))]) if cut else 0
    require_whole(rows, size)
    step, found = size or max(rows, 1), []
    for begin in range(0, max(rows, 1), step):
        part: dict[str, Any] = {n: feeds[n][begin : begin + step] for n in cut}
        plan.reset()
        found.append(plan.run({**feeds, **part}))
    if len(found) == 1:
        return found[0]
    for name, array in found[0].items():
        if array.ndim == 0:
            raise misused(f'output "{name}" is a scalar, which cannot be joined', code="E501")
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}
