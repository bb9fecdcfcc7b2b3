"""From a graph to a program: fold constants, fuse nodes, bind kernels, plan the memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import Collector, Diagnostic, LimitError, OpError, UnsupportedError
from irdeconv.base.extras import plain
from irdeconv.base.memory import ALLOW, RunMemory
from irdeconv.formats.layers import lacks_data, no_data
from irdeconv.ir.constant import ArrayData, ConstantData
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, as_tuple, kept
from irdeconv.ir.spec import Array, is_static
from irdeconv.kernels.machine import one_blas_thread
from irdeconv.kernels.products import in_order
from irdeconv.kernels.scratch import allocate, shared_by
from irdeconv.kernels.threads import NEVER_SHARED, Threads
from irdeconv.ops.basic import Const, Convert, VariableOp, macs
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.ops.checks import ViewOp
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.ops.core import Deconvolution
from irdeconv.ops.elementwise import Multiply, Subtract
from irdeconv.ops.generation import Identity
from irdeconv.ops.matrix import MatMul
from irdeconv.rewrite.channel_folding import behind_folded
from irdeconv.rewrite.infer_specs import rounded_shapes
from irdeconv.rewrite.lower_deconv import canonicalized
from irdeconv.runtime import program
from irdeconv.runtime.executors import (
    Executor,
    Tuner,
    body_executor,
    body_function,
    choose_executor,
    evaluated,
    limited,
    outputs_of,
    spread,
)
from irdeconv.runtime.fusion import FusionGroup, GroupFinder, dense_inputs, has_narrow, widened
from irdeconv.runtime.program import failure, needed, require_macs
from irdeconv.runtime.whole_numbers import with_whole_numbers

PROMISED_BYTES = 1 << 18  # above this size a constant may be made when it is asked for
_FILTER_BLOCK = 1 << 16  # elements that are looked at while a cache holds them
REREAD_BYTES = 1 << 26  # of large constants, until the pages of mapped files are given back


class Constants(Mapping[Value, Array]):
    """Arrays of values that are known before a run.

    Large ones that are made quickly (read, moved, decompressed) are made when they are asked for,
    and again if there is no reference left: most are packed for a kernel, one at a time.
    """

    def __init__(self) -> None:
        self._held: dict[Value, Array] = {}
        self._makers: dict[Value, Callable[[], Array]] = {}
        self._made: dict[Value, weakref.ref[Array]] = {}
        self._files: list[ConstantData] = []
        self._read = 0
        self.nbytes = 0

    def hold(self, value: Value, array: Array) -> None:
        """Add an array."""
        self._held[value] = array
        self.nbytes += array.nbytes

    def promise(self, value: Value, nbytes: int, make: Callable[[], Array]) -> None:
        """Add a function that makes the array when it is asked for."""
        self._makers[value] = make
        self.nbytes += nbytes

    def watch(self, data: ConstantData) -> None:
        """Give back the pages of that constant's mapped file now and then."""
        self._files.append(data)

    def release(self) -> None:
        """Give back the pages of mapped files; those still in use are read again."""
        self._read = 0
        for data in self._files:
            data.release()

    def __getitem__(self, value: Value) -> Array:
        held = self._held.get(value)
        if held is not None:
            return held
        made = self._made.get(value)
        array = None if made is None else made()
        if array is None:
            if self._read > REREAD_BYTES:
                self.release()
            array = self._makers[value]()
            self._read += array.nbytes
            self._made[value] = weakref.ref(array)
        return array

    def __contains__(self, value: object) -> bool:
        return value in self._held or value in self._makers

    def change(self, value: Value, function: Callable[[Array], Array]) -> None:
        """Let a value be what a function makes of it."""
        make = self._makers.get(value)
        if make is None:
            self._held[value] = function(self._held[value])
        else:
            self._makers[value] = lambda: function(make())

    def __iter__(self) -> Iterator[Value]:
        yield from self._held
        yield from self._makers

    def __len__(self) -> int:
        return len(self._held) + len(self._makers)


@dataclass(frozen=True)
class Folded:
    """The nodes that are left to execute, and the values that are known before."""

    order: list[Node] = field(default_factory=list)
    constants: Constants = field(default_factory=Constants)
    given: list[Node] = field(default_factory=list)


def fold(graph: Graph, settings: Settings | None = None) -> Folded:
    """Evaluate nodes of constants alone; IrdeconvError if one fails or needs too much memory."""
    settings, order, live = settings or Settings(), graph.topological(), graph.live()
    _require_executable(graph)
    folded = Folded()
    for node in progress.each("folding constants", order):
        if node.type == "Result" or (node.id not in live and node.type != "Parameter"):
            continue
        inputs = graph.inputs_of(node.id)
        if node.type == "Parameter":
            folded.given.append(node)
        elif all(v in folded.constants for v in inputs) and node.op.pure:
            before = folded.constants.nbytes
            _add(graph, folded.constants, node, settings)
            settings.memory.fixed += folded.constants.nbytes - before
            folded.given.append(node)
        elif node.specs and node.op.pure and all(s.known is not None for s in node.specs):
            # Inference knows all values, as for ShapeOf of an exact shape.
            for port, spec in enumerate(node.specs):
                if spec.known is not None:
                    folded.constants.hold(Value(node.id, port), spec.known)
        else:
            folded.order.append(node)
    return folded


def _add(graph: Graph, constants: Constants, node: Node, settings: Settings) -> None:
    """Add the outputs of a node whose inputs are constants."""
    inputs, memory = graph.inputs_of(node.id), settings.memory
    if _is_promised(node):
        _require(graph, node, [], memory)

        def make() -> Array:
            return _folded(node, [constants[v] for v in inputs])[0]

        constants.promise(Value(node.id), node.spec().nbytes or 0, make)
        if isinstance(node.op, Const):
            constants.watch(node.op.data)
        return
    arrays, function, fixed = [constants[v] for v in inputs], node.op.fold, memory.fixed
    _require(graph, node, arrays, memory)
    try:
        if isinstance(node.op, BodyOp):
            function = body_function(node.op, lambda body, _: _body(body, settings), memory)
        out = _folded(node, arrays, function)
    except Exception as e:
        raise failure(node, arrays, e) from e
    memory.fixed = fixed  # without the constants of its bodies
    for port, array in enumerate(out):
        constants.hold(Value(node.id, port), array)


def _require(graph: Graph, node: Node, arrays: list[Array], memory: RunMemory) -> None:
    """Raise LimitError (E602) before a constant is computed that the memory has no room for."""
    try:
        if memory.limit is not None:
            memory.require(needed(graph, node, arrays), "a constant")
    except OpError as e:
        raise failure(node, arrays, e) from e


def _is_promised(node: Node) -> bool:
    """Whether a constant is large and made in a few passes over its elements, without failing."""
    op, size = node.op, node.spec().nbytes if node.specs and len(node.specs) == 1 else None
    if size is None or size <= PROMISED_BYTES or node.spec().known is not None:
        return False
    if isinstance(op, Const):
        return not isinstance(op.data, ArrayData)
    return op.moves or isinstance(op, Convert | Multiply | Subtract)


def _folded(
    node: Node, arrays: list[Array], function: Callable[..., Any] | None = None
) -> tuple[Array, ...]:
    """Return a node's constant outputs, to the bit as inference has them (in order)."""
    known = [s.known for s in node.specs or ()]
    if known and not in_order() and all(v is not None for v in known):
        return tuple(v for v in known if v is not None)
    with np.errstate(all="ignore"), plain():
        return kept(as_tuple((function or node.op.fold)(*arrays)), node.specs)


def _needed(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that something needs, producers first, those of bodies in front of theirs."""
    live = graph.live()
    for node in graph.topological():
        if node.id in live:
            for body in bodies_of(node):
                yield from _needed(body.graph)
            yield node


def _require_executable(graph: Graph) -> None:
    order, found = list(_needed(graph)), Collector()
    for node in order:
        op = node.op
        runs = type(op).evaluate is not Op.evaluate or node.type == "Parameter"
        if not runs:
            text = f'irdeconv cannot execute {node.type} ({op.version}), layer "{node.name}"'
            found.add_at(node, "E502", text)
    lacking = [n for n in order if lacks_data(n.op)]
    if lacking:
        found.diagnostics.append(no_data(lacking, "has no data"))
    found.require_none(UnsupportedError)
    for node in rounded_shapes(graph):
        text = "its shape would follow from constants that other runtimes compute differently"
        found.add_at(node, "E305", f"{node.label}: {text}")
    found.require_none(UnsupportedError)


@dataclass(frozen=True)
class Settings:
    """How a plan executes: `max_memory` in bytes, None for no limit, of each program's `memory`.

    A plan that runs `once` takes compiled kernels only if they gain more than loading takes.
    `variables` are those of one plan.
    """

    fuse: bool = True
    team: Threads = field(default_factory=Threads)
    tuner: Tuner = field(default_factory=Tuner)
    max_memory: int | None = None
    once: bool = False
    variables: program.Variables = field(default_factory=program.Variables)
    memory: RunMemory = field(default_factory=RunMemory)


# Nanoseconds on one thread, with NumPy alone, measured on networks of all kinds.
MAC = 0.03  # of a (de)convolution or product of matrices
ELEMENT = 1.0  # of an output of any layer
SEEN_PART = 4  # times the elements that a reader sees are copied to make them contiguous, at most


def nanoseconds(graph: Graph, nodes: Iterable[Node] | None = None) -> float:
    """Estimate the time of all or some nodes in a run; unknown sizes count nothing."""
    total = 0.0
    for node in graph.nodes() if nodes is None else nodes:
        outputs = node.specs or ()
        total += sum(nanoseconds(body.graph) for body in bodies_of(node))
        total += MAC * (macs(node.op, graph.input_specs(node.id), outputs) or 0)
        if node.type != "Const":
            total += ELEMENT * sum(s.size or 0 for s in outputs)
    return total


def _without_identities(graph: Graph) -> Graph:
    """Return the graph without layers that give what they read, the graph itself without any.

    Those that name an output stay.
    """
    named = {v.node for r in graph.results for v in graph.inputs_of(r.id)}
    layers = (n.id for n in graph.topological() if isinstance(n.op, Identity))
    found = [n for n in layers if n not in named]
    out = graph.copy() if found else graph
    for node in found:
        out.replace_uses(Value(node), out.inputs_of(node)[0])
        out.remove(node)
    return out


def _flush_filters(graph: Graph, folded: Folded) -> None:
    """Let subnormal numbers of constant filters be 0 where only products read them.

    Processors take up to 100 times as long for such products, and training leaves such numbers.
    The bounds of sums count them as 0, see `verify.judge`.
    """
    layers = (n for n in folded.order if isinstance(n.op, ConvolutionBase | MatMul | Deconvolution))
    filters = {(n.id, 1): graph.inputs_of(n.id)[1] for n in layers}
    for value in {*filters.values()} & folded.constants.keys():
        if all(user in filters for user in graph.users(value)):
            folded.constants.change(value, _flushed)


def _flushed(w: Array) -> Array:
    """Return an array of f32 with 0 for subnormal numbers, itself if it has none."""
    if w.dtype != np.float32:
        return w
    flat, tiny = w.reshape(-1), np.finfo(np.float32).tiny
    blocks = (np.abs(flat[i : i + _FILTER_BLOCK]) for i in range(0, flat.size, _FILTER_BLOCK))
    found = any(((b < tiny) & (b > 0)).any() for b in blocks)
    return np.where(np.abs(w) < tiny, np.float32(0), w) if found else w


def compiled(graph: Graph, settings: Settings) -> program.Program:
    """Return the program of an inferred graph; raises as `fold` does.

    Also raises LimitError if its memory or its work is above the limit.
    """
    ready = canonicalized(behind_folded(_without_identities(graph))) if settings.fuse else graph
    folded, fixed = fold(ready, settings), settings.memory.fixed
    if settings.fuse:
        given = ready
        if has_narrow(ready):
            ready = widened(ready, GroupFinder(ready, folded.order, folded.constants).find())
        else:
            ready = with_whole_numbers(ready, folded.order, folded.constants)
        if ready is not given:
            settings.memory.fixed = fixed - folded.constants.nbytes
            folded = fold(ready, settings)
        _flush_filters(ready, folded)
    require_macs(ready)
    # Filters are transformed, on one thread: a BLAS's own would keep a processor busy for a while
    # after that, when those of the plan want it.
    exact = all(s.static for node in folded.order for s in node.specs or ())
    if exact and nanoseconds(ready, folded.order) < 1e9 * NEVER_SHARED:
        settings = replace(settings, team=settings.team.single())
    with np.errstate(all="ignore"), one_blas_thread(), shared_by(settings.team.threads):
        return _Scheduler(ready, folded, settings).build()


def _body(body: Graph, settings: Settings, fuse: bool = False) -> program.Program:
    """Compile a body; measuring would want a lock that is held while the plan runs."""
    return compiled(body, replace(settings, fuse=fuse and settings.fuse, tuner=Tuner()))


@dataclass
class _Buffer:
    """Memory of one or more values: views of a value share its buffer."""

    size: int
    first: int
    last: int
    in_arena: bool


class _Scheduler:
    """Builds one program."""

    def __init__(self, graph: Graph, folded: Folded, settings: Settings) -> None:
        self.graph, self.folded, self.settings = graph, folded, settings
        self.slot_of: dict[Value, int] = {}
        self.values: list[Any] = []
        self.buffers: dict[Value, _Buffer] = {}
        self.results = [
            (name, graph.inputs_of(r.id)[0])
            for name, r in zip(graph.outputs, graph.results, strict=True)
        ]
        self.fresh: dict[Value, program.Fresh] = {}
        self.inputs = {Value(n.id) for n in graph.parameters}
        self.read = {v for n in folded.order for v in graph.inputs_of(n.id)}
        self.read |= {v for _, v in self.results}
        self.dense: set[Value] = set()

    def build(self) -> program.Program:
        groups = self._groups()
        self.dense = {v for g in groups for v in dense_inputs(g)}
        constants = self.folded.constants
        views = (spread(self.graph, g, constants) for g in groups)
        self.dense |= {v for v in views if v is not None}
        for group in reversed(groups):  # what such a view sees, unless that is a small part of it
            node, given = group.last, group.inputs[:1]
            if isinstance(node.op, ViewOp) and not self.dense.isdisjoint(outputs_of(node)):
                most = SEEN_PART * sum(s.size or 0 for s in node.specs or ())
                self.dense |= {v for v in given if (self.graph.spec(v).size or 0) <= most}
        executors = [
            self._executor(g)
            for g in progress.each("preparing", groups, name=lambda g: g.last.name)
        ]
        self._number(groups, executors)
        self._place(groups, executors)
        arena, alive = self._allocate(executors)
        self.folded.constants.release()
        steps = [
            step
            for group, executor in zip(groups, executors, strict=True)
            if (step := self._step(group, executor)) is not None
        ]
        return program.Program(
            steps=self._with_frees(steps),
            values=self.values,
            parameters=[self.slot_of[Value(n.id)] for n in self.graph.parameters],
            results=[(name, self.slot_of[v]) for name, v in self.results],
            given=[(n, self._outputs(n)) for n in self.folded.given],
            team=self.settings.team,
            graph=self.graph,
            variables=self.settings.variables,
            memory=self.settings.memory,
            fresh=list(self.fresh.values()),
            arena=arena,
            most_alive=alive,
            evaluated=program.most_alive(self._evaluated()),
        )

    def _groups(self) -> list[FusionGroup]:
        if self.settings.fuse:
            return GroupFinder(self.graph, self.folded.order, self.folded.constants).find()
        constants = self.folded.constants
        return [
            FusionGroup((n,), tuple(v for v in self.graph.inputs_of(n.id) if v not in constants))
            for n in self.folded.order
        ]

    def _executor(self, group: FusionGroup) -> Executor:
        op = group.last.op
        if isinstance(op, BodyOp):
            return body_executor(self.graph, group.last, op, self._compile, self.settings.memory)
        if isinstance(op, VariableOp):
            variables, memory = self.settings.variables, self.settings.memory
            function = variables.function(self.graph, group.last, op, memory)
            return evaluated(self.graph, group.last, function, aliases=False)
        return limited(self.graph, group.last, self._plain(group), self.settings.memory)

    def _plain(self, group: FusionGroup) -> Executor:
        if not self.settings.fuse:
            return evaluated(self.graph, group.last, group.last.op.evaluate, aliases=True)
        return choose_executor(
            graph=self.graph,
            group=group,
            constants=self.folded.constants,
            tuner=self.settings.tuner,
            team=self.settings.team,
            used=frozenset(v.port for v in outputs_of(group.last) if v in self.read),
            dense=Value(group.last.id) in self.dense,
        )

    def _compile(self, body: Graph, fuse: bool) -> program.Program:
        return _body(body, self.settings, fuse)

    def _number(self, groups: list[FusionGroup], executors: list[Executor]) -> None:
        """Give every value that a step reads or writes a slot, and store the constants.

        In a plan without fusion all constants have one.
        """
        given = self.graph.parameters if self.settings.fuse else self.folded.given
        found = [v for node in given for v in outputs_of(node)]
        for group, executor in zip(groups, executors, strict=True):
            found += (*executor.arguments, *outputs_of(group.last))
        found += (v for _, v in self.results)
        self.slot_of = {value: slot for slot, value in enumerate(dict.fromkeys(found))}
        self.values = [self.folded.constants.get(value) for value in self.slot_of]
        for constant in self.values:
            if constant is not None:
                self.settings.memory.hold(constant, counted=False)

    def _outputs(self, node: Node) -> program.Slots:
        return tuple(self.slot_of[v] for v in outputs_of(node) if v in self.slot_of)

    def _place(self, groups: list[FusionGroup], executors: list[Executor]) -> None:
        """Place all arrays: model outputs are fresh, views share, the rest is in the arena."""
        still = {v for e in executors if not e.movable for v in (*e.arguments, *e.outputs)}
        large = {v for _, v in self.results if not self._is_small(v, still)}
        for node in self.graph.parameters if self.settings.fuse else ():
            if self._is_small(value := Value(node.id), still) and value in self.slot_of:
                self.buffers[value] = _Buffer(self.graph.spec(value).nbytes or 0, 0, 0, True)
        for k, (group, executor) in enumerate(zip(groups, executors, strict=True)):
            for value in group.inputs:
                if value in self.buffers:
                    self.buffers[value].last = k
            if executor.view_of is not None:
                shared = self.buffers.get(executor.view_of)
                for value in executor.outputs if shared is not None else ():
                    self.buffers[value] = shared  # type: ignore[assignment]
            elif executor.memory:
                for value, (shape, dtype) in zip(executor.outputs, executor.memory, strict=True):
                    if value in large:
                        self.fresh[value] = program.Fresh(self.slot_of[value], shape, dtype)
                    size = math.prod(shape) * dtype.itemsize
                    self.buffers[value] = _Buffer(size, k, k, value not in large)
            else:  # known sizes of all arrays that `evaluate` will allocate, read or not
                for value in executor.outputs:
                    known = self.graph.spec(value).nbytes
                    if known is not None:
                        self.buffers[value] = _Buffer(known, k, k, False)
        for value in {v for _, v in self.results} & self.buffers.keys():
            self.buffers[value].last = len(groups)

    def _is_small(self, value: Value, still: Container[Value]) -> bool:
        """Whether an input or output is small enough to be copied; `still` are better not moved."""
        spec = self.graph.spec(value)
        nbytes = spec.nbytes if spec.dtype is not None and spec.dtype.kind != "string" else None
        copied = program.TAKEN_BYTES if value in self.inputs else program.COPIED_BYTES
        limit = copied if value in still else program.MOVED_BYTES
        return self.settings.fuse and nbytes is not None and 0 < nbytes <= limit

    def _allocate(self, executors: list[Executor]) -> tuple[int, int]:
        """Lay out the arena and set the slots whose arrays never change."""
        buffers = list({id(b): b for b in self.buffers.values() if b.in_arena}.values())
        lifetimes = [program.Lifetime(b.size, b.first, b.last) for b in buffers]
        offsets, total = program.layout(lifetimes)
        self.settings.memory.fixed += sum(e.kept for e in executors)
        self._check_memory(total, max((e.scratch for e in executors), default=0))
        memory = allocate(total)
        self.settings.memory.hold(memory)
        at = {id(b): offset for b, offset in zip(buffers, offsets, strict=True)}
        for outputs, places in self._placed(executors):
            for value, (shape, dtype) in zip(outputs, places, strict=False):
                buffer = self.buffers.get(value)
                if buffer is not None and buffer.in_arena:
                    start = at[id(buffer)]
                    piece = memory[start : start + buffer.size]
                    self.values[self.slot_of[value]] = piece.view(dtype).reshape(shape)
        return total, program.most_alive(lifetimes)

    def _placed(
        self, executors: list[Executor]
    ) -> Iterator[tuple[tuple[Value, ...], tuple[program.Memory, ...]]]:
        """Yield values with the shapes and types of their memory: inputs, then outputs."""
        for node in self.graph.parameters:
            spec = self.graph.spec(Value(node.id))
            if Value(node.id) in self.buffers and is_static(spec.shape) and spec.dtype is not None:
                yield (Value(node.id),), ((spec.shape, np.dtype(spec.dtype.container)),)
        for executor in executors:
            yield executor.outputs, executor.memory

    def _check_memory(self, arena: int, scratch: int) -> None:
        memory = self.settings.memory
        end = max((b.last for b in self.buffers.values()), default=0)
        left = [self.graph.spec(v).nbytes or 0 for _, v in self.results if v not in self.fresh]
        copies = program.Lifetime(sum(left), end, end)
        arena += program.most_alive([*self._evaluated(), copies])
        given = (self.graph.spec(v).nbytes or 0 for v in self.inputs if v not in self.buffers)
        tensors = arena + sum(given) + memory.arrays
        outputs = sum(f.nbytes for f in self.fresh.values())
        memory.scratch = max(memory.scratch, scratch * self.settings.team.threads)
        need = tensors + outputs + memory.fixed + memory.scratch
        if memory.limit is not None and need > memory.limit:
            message = (
                f"running needs {need:,} bytes (tensors {tensors:,}, outputs {outputs:,}, "
                f"constants {memory.fixed:,}, scratch {memory.scratch:,}), "
                f"the limit is {memory.limit:,}"
            )
            raise LimitError(Diagnostic("E602", "error", message, hint=ALLOW))

    def _evaluated(self) -> list[program.Lifetime]:
        """Return the values that `evaluate` allocates in every run."""
        found = {id(b): b for v, b in self.buffers.items() if v not in self.fresh}
        return [program.Lifetime(b.size, b.first, b.last) for b in found.values() if not b.in_arena]

    def _step(self, group: FusionGroup, executor: Executor) -> program.Step | None:
        """Bind a group; None for a view of memory that never changes, which is made here."""
        ins = tuple(self.slot_of[v] for v in executor.arguments)
        outs = tuple(self.slot_of[v] for v in executor.outputs)
        call = executor.bind(ins, outs, self.settings.team.member(), self.values)
        source = executor.view_of and self.values[self.slot_of[executor.view_of]]
        if source is not None:
            values = self.values.copy()
            call(values)
            if all(np.may_share_memory(values[slot], source) for slot in outs):
                self.values = values
                return None
        return program.Step(
            nodes=group.nodes,
            call=call,
            inputs=ins,
            outputs=outs,
            kernel=executor.kernel,
            why=executor.why,
            scratch=executor.scratch,
            phases=call.phases if isinstance(call, program.Always) else (),
        )

    def _with_frees(self, steps: list[program.Step]) -> list[program.Step]:
        """Free each array without fixed memory after its last use."""
        last: dict[int, int] = {}
        for k, step in enumerate(steps):
            for slot in (*step.inputs, *step.outputs):
                last[slot] = k
        kept = {self.slot_of[v] for _, v in self.results}
        frees: dict[int, list[int]] = {}
        for slot, k in last.items():
            if self.values[slot] is None and slot not in kept:
                frees.setdefault(k, []).append(slot)
        return [replace(s, frees=tuple(frees.get(k, ()))) for k, s in enumerate(steps)]
