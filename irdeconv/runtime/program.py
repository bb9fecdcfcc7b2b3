"""Programs: the steps of a plan for one set of input shapes, with their memory.

Slots are numbered values. Outputs of kernels are in one block of memory, the arena, in which values
that never live together overlap. It exists as long as the program. Outputs of the model are fresh
arrays and belong to the caller. Variables live from one run to the next.

Memory and work are counted before anything is allocated. `failure` returns the error of a layer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from irdeconv.base import errors, progress
from irdeconv.base.codes import CODES
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.memory import RunMemory
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Bound, ChainStep, Op, Operand, as_tuple
from irdeconv.ir.spec import Array, Spec, bounds, is_static
from irdeconv.kernels.elementwise import Instruction
from irdeconv.kernels.numpy_calls import KeptCalls
from irdeconv.kernels.recorded_calls import Phases, Repeated, SharedCalls, shared_calls
from irdeconv.kernels.scratch import ALIGNMENT
from irdeconv.kernels.threads import Team, Threads, arithmetic
from irdeconv.ops.basic import ReadingOp, VariableOp, unfit
from irdeconv.ops.bodies import bodies_of
from irdeconv.ops.checks import shape_of
from irdeconv.ops.control import LoopBase
from irdeconv.runtime.fusion import ChainOperands, chain_step

REMEMBERED = 64  # sets of inputs that a layer has been inferred for
LISTED = 64  # elements of an input whose values inference gets


def needed(graph: Graph, node: Node, arrays: Sequence[Array]) -> int:
    """Return the bytes of a node's outputs for these inputs; 0 if inference refuses them."""
    specs = node.specs or ()
    if any(s.nbytes is None for s in specs):
        try:
            specs = _inferred(graph, node, arrays)
        except errors.OpError:
            return 0  # running it reports the error
    return sum(s.nbytes or 0 for s in specs)


def guarded(
    graph: Graph, node: Node, function: Callable[..., Any], memory: RunMemory
) -> Callable[..., Any]:
    """Return a node's function with the checks that only a run can make.

    It refuses sizes that inference refuses, though NumPy may accept them, and outputs without room
    in the memory. Inputs like those of an earlier run are not inferred again.
    """
    known: dict[tuple[Any, ...], int] = {}

    def evaluate(*arrays: Array) -> Any:
        key = tuple(map(_facts, arrays))
        size = known.get(key)
        if size is None:
            if len(known) >= REMEMBERED:
                known.clear()
            specs = _inferred(graph, node, arrays)
            size = known[key] = sum(s.nbytes or 0 for s in specs)
        memory.require(size, "its output")
        return function(*arrays)

    return evaluate


def _facts(array: Array) -> tuple[Any, ...]:
    """Return the facts that inference uses: the shape, and the values of a short list."""
    return array.shape, array.tobytes() if _is_list(array) else None


def _is_list(array: Array) -> bool:
    return array.ndim < 2 and array.size <= LISTED and array.dtype != object


def _inferred(graph: Graph, node: Node, arrays: Sequence[Array]) -> tuple[Spec, ...]:
    """Infer a node for these inputs; OpError if they do not fit."""
    given = [
        Spec(known.dtype or Spec.of(array).dtype, array.shape, array if _is_list(array) else None)
        for known, array in zip(graph.input_specs(node.id), arrays, strict=True)
    ]
    try:
        specs: tuple[Spec, ...] = as_tuple(node.op.infer(*given))
    except (ArithmeticError, ValueError, TypeError, IndexError) as e:
        raise errors.OpError(f"its inputs do not fit: {e}") from e
    return specs


def require_macs(graph: Graph) -> None:
    """Raise LimitError if a run multiplies more often than the limit in force allows."""
    total, limit = _macs(graph), current().macs
    if total > limit:
        message = f"running takes {total:,} multiply-accumulates; the limit is {limit:,}"
        raise errors.LimitError(
            errors.Diagnostic("E602", "error", message, hint=raise_hint("macs"))
        )


def _macs(graph: Graph) -> int:
    """Return the multiply-accumulates, of bodies as often as they run; unknown sizes count none."""
    total = 0
    for node in graph.nodes():
        inputs = graph.input_specs(node.id)
        try:
            total += node.op.macs(inputs, node.specs or ()) or 0
            times = _times(node.op, inputs)
        except (IndexError, errors.OpError):
            continue
        total += times * sum(_macs(body.graph) for body in bodies_of(node))
    return total


def _times(op: Op, inputs: tuple[Spec, ...]) -> int:
    """Return how often the bodies of an operation run; 1 if that is unknown."""
    trips = op.trips(inputs) if isinstance(op, LoopBase) else 1
    return trips if isinstance(trips, int) else max(bounds(trips)[0], 1)


def failure(node: Node, arrays: Sequence[Any], error: Exception) -> errors.IrdeconvError:
    """Return the error of a layer that failed, with the arrays that it got."""
    if isinstance(error, StepError):
        last = error.innermost
        return failure(last.step.node, last.arrays, last.cause)
    if isinstance(error, errors.IrdeconvError) and not isinstance(error, errors.OpError):
        return error
    error = _inference_error(node, arrays, error)
    shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, arrays))
    hint, notes = None, [errors.Note(f"its inputs are {shapes or 'none'}")]
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError)
    if isinstance(error, errors.OpError):
        code, hint = error.problem.code, error.problem.hint
        memory = code == "E602"
        if not memory and code != "E300":
            notes.append(errors.Note(f"this is {code}: {CODES[code].title}"))
    diagnostic = errors.Diagnostic(
        code="E602" if memory else "E500",
        severity="error",
        message=f'{node.type} "{node.name}": {text}',
        location=node.location,
        layer=node.name,
        notes=tuple(notes),
        hint=hint,
    )
    return errors.LimitError(diagnostic) if memory else errors.ExecutionError(diagnostic)


def _inference_error(node: Node, arrays: Sequence[Any], error: Exception) -> Exception:
    """Return the error of inference for these very arrays, if it refuses them; else the error."""
    if isinstance(error, errors.OpError | MemoryError):
        return error
    try:
        node.op.infer(*(Spec(None, a.shape, Spec.of(a).value) for a in map(np.asarray, arrays)))
    except errors.OpError as refusal:
        return refusal
    except Exception:  # without element types it need not get through
        return error
    return error


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `size` bytes that is in use from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def layout(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return an offset for each buffer and the size of the whole.

    The largest buffers are placed first, each into the lowest gap that is free while it lives.
    """
    offsets = [0] * len(lifetimes)
    sizes = [_padded(one.size) for one in lifetimes]
    alive: dict[int, list[int]] = {}  # by step: the buffers placed so far
    total = 0
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i)):
        one = lifetimes[i]
        steps = range(one.first, one.last + 1)
        neighbours = {j for step in steps for j in alive.get(step, ())}
        offset = 0
        for j in sorted(neighbours, key=offsets.__getitem__):
            if offsets[j] - offset >= sizes[i]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
        total = max(total, offset + sizes[i])
        for step in steps:
            alive.setdefault(step, []).append(i)
    return offsets, total


def most_alive(lifetimes: Sequence[Lifetime]) -> int:
    """Return the largest sum of sizes of buffers in use at one step."""
    changes: dict[int, int] = {}
    for one in lifetimes:
        changes[one.first] = changes.get(one.first, 0) + _padded(one.size)
        changes[one.last + 1] = changes.get(one.last + 1, 0) - _padded(one.size)
    level = top = 0
    for step in sorted(changes):
        level += changes[step]
        top = max(top, level)
    return top


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


TAKEN_BYTES = 1 << 22  # inputs up to this size ...
COPIED_BYTES = 1 << 20  # ... and outputs up to this size are copied to fixed memory ...
MOVED_BYTES = 1 << 16  # ... up to this size if all their readers and writers are `movable`
Memory = tuple[tuple[int, ...], np.dtype[Any]]  # shape and type of an output


def memory_of(node: Node, outputs: int | None = None) -> tuple[Memory, ...]:
    """Return the memory of the first `outputs`, all of exact shapes; by default of all."""
    out = []
    for spec in (node.specs or ())[:outputs]:
        assert is_static(spec.shape)
        assert spec.dtype is not None
        out.append((spec.shape, np.dtype(spec.dtype.container)))
    return tuple(out)


def small_memory(node: Node, outputs: int) -> tuple[Memory, ...]:
    """Return the memory of the first `outputs`; none if they are too large to be copied."""
    specs = (node.specs or ())[:outputs]
    static = all(is_static(s.shape) and s.dtype is not None and s.nbytes for s in specs)
    if not static or sum(s.nbytes or 0 for s in specs) > COPIED_BYTES:
        return ()
    found = memory_of(node, outputs)
    return () if any(kind.hasobject for _, kind in found) else found


def scatters(view: Callable[..., Any], inputs: Sequence[Spec]) -> bool:
    """Whether a view of contiguous f32 is not contiguous; then a kernel copies it faster."""
    if str(inputs[0].dtype) != "f32":
        return False
    given = (np.empty(s.shape, np.float32) for s in inputs if is_static(s.shape))  # never read
    found = view(*given)
    return isinstance(found, np.ndarray) and not found.flags.c_contiguous


def bind(op: Op, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
    """Bind an operation to exact shapes and constants; None if only `evaluate` will do."""
    specs = (*inputs, *outputs)
    if not all(s.static and s.dtype is not None for s in specs) or any(s.size == 0 for s in specs):
        return None
    try:
        bound = op.bind(inputs, outputs)
    except (errors.OpError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # of constants that do not fit, which the run reports with the layer's name
    if bound is not None:
        return bound
    step = chain_step(op, inputs)
    return None if step is None else _alone(step, inputs, outputs[0])


def _alone(step: ChainStep, inputs: Sequence[Spec], output: Spec) -> Bound | None:
    """Bind a single element-wise operation."""
    first, values = step.args[0], [Value(number) for number in range(len(inputs))]
    known = {v: s.known for v, s in zip(values, inputs, strict=True)}
    operands = ChainOperands({v: np.asarray(a) for v, a in known.items() if a is not None})
    args = tuple(operands.refer(arg, values) for arg in step.args)
    kind = inputs[first.number].dtype if isinstance(first, Operand) else None
    if kind is None or not operands.values:
        return None
    plan = operands.compile([Instruction(step.rule, args, step.params)], kind, shape_of(output), "")

    def call(*arrays: Array, out: Array, team: Team) -> None:
        plan(*(arrays[v.node] for v in plan.arguments), out=out, team=team)

    return Bound(call)


@dataclass
class Variables:
    """Values by variable, `kept` from run to run; a body reads `now`, from its last iteration."""

    kept: dict[str, Array] = field(default_factory=dict)
    now: dict[str, Array] = field(default_factory=dict)
    assigned: dict[str, Array] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a run; a run that failed before has changed nothing."""
        self.now = dict(self.kept)
        self.assigned.clear()

    def go_on(self) -> None:
        """Let ReadValue see the assigned values."""
        self.now |= self.assigned
        self.assigned.clear()

    def end(self) -> None:
        """Keep the values that the run has assigned."""
        self.go_on()
        self.kept = self.now

    def function(
        self, graph: Graph, node: Node, op: VariableOp, memory: RunMemory
    ) -> Callable[..., Any]:
        """Return the function that evaluates a node that reads or assigns a variable."""
        name = op.variable_id
        if isinstance(op, ReadingOp):
            own = node.spec()

            def read(*init: Array) -> Any:
                held = self.now.get(name)
                return op.evaluate(*init) if held is None else _checked(name, own, held)

            return read
        readers = [n for n in graph.nodes("ReadValue") if variable(n) == name]
        spec = readers[0].spec() if readers else Spec(None, None)

        def assign(value: Array) -> Array:
            memory.require(value.nbytes, "its variable")
            self.assigned[name] = np.array(_checked(name, spec, value))
            memory.hold(self.assigned[name])
            return value

        return assign


def variable(node: Node) -> str | None:
    """Return the variable of a ReadValue or Assign; None for other layers."""
    return node.op.variable_id if isinstance(node.op, VariableOp) else None


def _checked(name: str, own: Spec, array: Array) -> Array:
    problem = unfit(own, array)
    if problem is not None:
        raise errors.OpError(
            f'"{name}": {problem}', code="E302", hint="reset() gives up all values"
        )
    return array


VIEW = "view"  # the kernel of a step that looks at its input in another way
COUNTS_REFERENCES = sys.implementation.name == "cpython"
Trace = Callable[[Node, tuple[Array, ...]], None]
Values = list[Any]
Call = Callable[[Values], None]
Slots = tuple[int, ...]
Around = Callable[["Step", Values], None]
T = TypeVar("T")


def _program_alone() -> int:
    """Return this interpreter's reference count of an object that one variable alone holds."""
    kept = object()
    return sys.getrefcount(kept)


UNSHARED = _program_alone()


@dataclass(frozen=True, slots=True)
class Step:
    """One call: the nodes it covers, which slots it reads and writes, which it is last to need.

    `kernel` is its name, `why` the reason for its choice, `scratch` bytes of memory besides
    tensors, `phases` those of `call` if all of it is compiled.
    """

    nodes: tuple[Node, ...]
    call: Call
    inputs: Slots
    outputs: Slots
    frees: Slots = ()
    kernel: str = ""
    why: str = ""
    scratch: int = 0
    phases: Phases = ()

    @property
    def node(self) -> Node:
        """The node whose outputs the step has."""
        return self.nodes[-1]


Watch = Callable[[Step, list[Array], tuple[Array, ...]], None]


@dataclass(frozen=True)
class Always:
    """A call that does the same with the same memory in every run; `phases` if compiled."""

    prepared: Callable[[Team], None]
    team: Team

    def __call__(self, values: Values) -> None:
        """Do it."""
        self.team.begin()
        self.prepared(self.team)

    @property
    def phases(self) -> Phases:
        """The phases of calls, see `SharedCalls`."""
        prepared = self.prepared
        return prepared.phases if isinstance(prepared, Repeated | SharedCalls) else ()


@dataclass(frozen=True)
class Fresh:
    """A slot that gets a new array in every run."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class Program:
    """Steps over slots. `values` holds fixed arrays: constants, buffers, views of these.

    Bytes: `arena` is the block of memory, `most_alive` the most of it that is in use at once,
    `evaluated` the memory that steps without a place in it allocate, as far as sizes are known.
    """

    steps: list[Step]
    values: Values
    parameters: list[int]
    results: list[tuple[str, int]]
    given: list[tuple[Node, Slots]]
    team: Threads
    graph: Graph  # the one that the steps' nodes belong to
    variables: Variables
    memory: RunMemory
    fresh: list[Fresh] = field(default_factory=list)
    arena: int = 0
    most_alive: int = 0
    evaluated: int = 0
    _kept: dict[int, Array] = field(default_factory=dict, repr=False)
    _joined: list[Step] = field(init=False, repr=False)
    _returned: list[tuple[str, int, bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._joined = joined(self.steps, self.team)
        own, self._returned = {one.slot for one in self.fresh}, []
        for name, slot in self.results:
            self._returned.append((name, slot, slot in own))
            own.discard(slot)  # a second output of the same value is a copy

    def run(
        self, arrays: Sequence[Array], trace: Trace | None = None, watch: Watch | None = None
    ) -> dict[str, Array]:
        """Execute; `trace` gets nodes and outputs, `watch` steps and arrays; StepError."""

        def steps(values: Values) -> None:
            if trace is None and watch is None:
                self._run(progress.each("running", self._joined, name=_label), values)
            else:
                self._traced(values, trace, watch)

        return self._execute(arrays, steps)

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Execute as a part of another program, which holds the lock; returns the outputs."""
        values = self._begin(arrays)
        self._run(self._joined, values)
        self.variables.go_on()
        return list(self._outputs(values).values())

    def observe(self, arrays: Sequence[Array], around: Around) -> dict[str, Array]:
        """Execute, every step by `around(step, values)`, which calls `step.call(values)`."""

        def steps(values: Values) -> None:
            for step in self.steps:
                with self.team.lock.callback():
                    around(step, values)
                for slot in step.frees:
                    values[slot] = None

        return self._execute(arrays, steps)

    def _execute(
        self, arrays: Sequence[Array], steps: Callable[[Values], None]
    ) -> dict[str, Array]:
        with self.team.lock, arithmetic():
            self.variables.begin()
            read = zip(self.parameters, arrays, strict=True)
            self.memory.lend(array for slot, array in read if self.values[slot] is None)
            try:
                values = _limited(self._begin, arrays)
                steps(values)
                return _limited(self._finish, values)
            finally:
                self.memory.give_back()

    def _begin(self, arrays: Sequence[Array]) -> Values:
        values = self.values.copy()
        for slot, array in zip(self.parameters, arrays, strict=True):
            if values[slot] is None:
                values[slot] = array
                self.memory.hold(array)
            else:
                np.copyto(values[slot], array)
        for one in self.fresh:
            values[one.slot] = self._fresh(one)
        return values

    def _fresh(self, one: Fresh) -> Array:
        """Return memory for an output: that of an earlier run, if it has no other references.

        Fresh memory costs a page fault per 4 KiB. Views and exported buffers count as references.
        """
        kept = self._kept.pop(one.slot, None)
        if kept is None or not COUNTS_REFERENCES or sys.getrefcount(kept) > UNSHARED:
            del kept
            self.memory.require(one.nbytes, "an output")
            kept = np.empty(one.shape, one.dtype)
        self.memory.hold(kept)
        self._kept[one.slot] = kept
        return kept

    def _run(self, steps: Iterable[Step], values: Values) -> None:
        step = None
        try:
            for step in steps:
                step.call(values)
                for slot in step.frees:
                    values[slot] = None
        except Exception as e:
            assert step is not None
            raise StepError(step, values, e) from e

    def _traced(self, values: Values, trace: Trace | None, watch: Watch | None) -> None:
        for node, slots in self.given if trace is not None else ():
            held = tuple(values[slot] for slot in slots if values[slot] is not None)
            if held and trace is not None:
                with self.team.lock.callback():
                    trace(node, held)
        for step in progress.each("running", self.steps, name=_label):
            try:
                step.call(values)
            except Exception as e:
                raise StepError(step, values, e) from e
            outputs = tuple(values[slot] for slot in step.outputs)
            with self.team.lock.callback():
                if trace is not None:
                    trace(step.node, outputs)
                if watch is not None:
                    watch(step, [values[slot] for slot in step.inputs], outputs)
            for slot in step.frees:
                values[slot] = None

    def _finish(self, values: Values) -> dict[str, Array]:
        """Return the outputs, which belong to the caller, and keep the variables."""
        out = self._outputs(values)
        self.variables.end()
        self.memory.release(out.values())
        return out

    def _outputs(self, values: Values) -> dict[str, Array]:
        found = {}
        for name, slot, own in self._returned:
            array = values[slot]
            if not own:
                self.memory.require(array.nbytes, f'output "{name}"')
                array = np.array(array, order="C", copy=True)
                self.memory.hold(array)
            found[name] = array
        return found


def _limited(function: Callable[[Any], T], argument: Any) -> T:
    """Call it; LimitError if there is no room for an array."""
    try:
        return function(argument)
    except errors.OpError as e:
        raise errors.LimitError(e.diagnostics) from None


def joined(steps: Sequence[Step], team: Threads) -> list[Step]:
    """Join consecutive compiled steps, also the pieces of a single one, and calls of NumPy."""
    out: list[Step] = []
    for kind, run in groupby(steps, _kind):
        some = list(run)
        if kind is None:
            out += some
            continue
        work: Any = None
        if kind is KeptCalls:
            work = KeptCalls(tuple(call for step in some for call in _prepared(step).calls))
        else:
            work = shared_calls((step.phases for step in some), team.threads)
        nodes = tuple(node for step in some for node in step.nodes)
        frees = tuple(slot for step in some for slot in step.frees)
        out.append(Step(nodes, Always(work, team.member()), (), some[-1].outputs, frees))
    return out


def _prepared(step: Step) -> Any:
    return step.call.prepared if isinstance(step.call, Always) else None


def _kind(step: Step) -> Any:
    """Return what consecutive steps must have in common to be joined; None if they are not."""
    if isinstance(_prepared(step), KeptCalls):
        return KeptCalls
    return SharedCalls if step.phases else None


def _label(step: Step) -> str:
    return step.node.name


class StepError(Exception):
    """A step failed: which one, the arrays that it read, and the reason."""

    def __init__(self, step: Step, values: Values, cause: Exception) -> None:
        super().__init__()
        self.step, self.cause = step, cause
        self.arrays = [values[i] for i in step.inputs]

    @property
    def innermost(self) -> StepError:
        """The step that failed itself, which may be one of a body."""
        return self.cause.innermost if isinstance(self.cause, StepError) else self
