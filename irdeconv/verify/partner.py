"""The second side of a comparison: another graph, saved arrays, OpenVINO.

A graph's plan runs in a thread and hands over one tensor at a time, so memory holds two runs and
the compared tensors.

Of a branch a partner has only the outputs: errors are followed through the layers inside.
"""

from __future__ import annotations

import itertools
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Literal

import numpy as np

from irdeconv.base.codes import CODES
from irdeconv.base.errors import Diagnostic, UsageError, did_you_mean, first_names, misused
from irdeconv.base.extras import plain
from irdeconv.formats.arrays import SavedArrays, naming_file
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array, Arrays
from irdeconv.ops.bodies import Body, BodyOp, Run, run_plainly
from irdeconv.ops.control import TensorIterator
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan

Precision = Literal["f32", "bf16", "int8"]


@dataclass(frozen=True)
class Fetched:
    """A partner's layer: its type there, and its outputs (None: not that one)."""

    type: str
    arrays: tuple[Array | None, ...]


class Partner(ABC):
    """The second side of a comparison, asked layer by layer in the first graph's order.

    Between layers of narrow types (f16, bf16) a partner that is `wide` may go on with the numbers
    that it has before it rounds them for the caller. One that is `narrow` may also add up in
    f16. The inputs of a layer may first be rounded to the precision that the partner `computes` in.
    One that `fakes_quantizing` executes a QuantizeLinear as FakeQuantize.
    """

    wide = True
    narrow = False
    computes: Precision = "f32"
    fakes_quantizing = False

    @abstractmethod
    def fetch(self, node: Node) -> Fetched | None:
        """Return the outputs of the layer that matches a node of the first graph."""

    @abstractmethod
    def outputs(self) -> list[Array | None]:
        """Return the model outputs in order; called once, after the last layer."""

    def close(self) -> None:  # noqa: B027 -- some hold nothing
        """Let go of everything; also called if a comparison fails."""

    def warnings(self) -> list[Diagnostic]:
        """Return warnings about the partner itself."""
        return []


def layer_keys(graph: Graph) -> dict[int, str]:
    """Return unique names for matching by node id; a rewriting's last node has its source's."""
    keys = {}
    last: dict[tuple[str, ...], int] = {}
    for node in graph.topological():
        if node.type not in ("Const", "Parameter", "Result"):
            keys[node.id] = node.name
            if node.origins:
                last[node.origins] = node.id
    keys |= {i: origins[0] for origins, i in last.items()}
    count = Counter(keys.values())
    return {i: key for i, key in keys.items() if count[key] == 1}


def other_parts(keys: Iterable[str], names: Iterable[str], *, complete: bool = True) -> set[str]:
    """Return the names by which no layer may be matched, since they mean something else.

    `keys` are the layers of one side in its order, `names` the other side's, `complete` if these
    are all that it has. The meaning of `X/Pad` follows from the way the layer X was taken apart, so
    a layer before X that is named like a part of it is matched if both have the same parts.
    """
    place = {key: i for i, key in enumerate(keys)}
    theirs = _parts(names, place)
    out = set()
    for owner, owned in _parts(place, place).items():
        before = {p for p in owned if place[p] < place[owner]}
        others = {p for p in theirs.get(owner, ()) if p not in place or p in before}
        if others - before or (complete and before - others):
            out |= before
    return out


def _parts(names: Iterable[str], owners: Collection[str]) -> dict[str, set[str]]:
    """Return the names below each owner, or below another of the names: `X/Pad` by `X`."""
    names = set(names)
    out: dict[str, set[str]] = {}
    for name in names:
        owner = name.rpartition("/")[0]
        while owner and owner not in owners and owner not in names:
            owner = owner.rpartition("/")[0]
        if owner:
            out.setdefault(owner, set()).add(name)
    return out


def matched(a: Graph, b: Graph) -> dict[int, int]:
    """Return the node in `b` of every layer of `a` that both have."""
    keys_a, keys_b = layer_keys(a), layer_keys(b)
    unlike = other_parts(keys_a.values(), keys_b.values())
    theirs = {key: i for i, key in keys_b.items() if key not in unlike}
    return {i: theirs[key] for i, key in keys_a.items() if key in theirs}


class _Stopped(Exception):
    """The comparison has ended before the run."""


class PlanPartner(Partner):
    """Another graph, executed with NumPy in a thread that waits until each layer is taken."""

    wide = False

    def __init__(self, first: Graph, plan: Plan, inputs: Feeds) -> None:
        steps = {step.node.id for step in plan.steps}  # without the results of folding
        self._twins = {a: b for a, b in matched(first, plan.graph).items() if b in steps}
        self._queue: Queue[tuple[int, Fetched] | dict[str, Array] | BaseException] = Queue(1)
        self._waiting: dict[int, Fetched] = {}
        self._outputs: dict[str, Array] | BaseException | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._work, args=(plan, inputs), daemon=True)
        self._thread.start()

    def fetch(self, node: Node) -> Fetched | None:
        """Wait for the layer of the same name; None if the run ends without it."""
        twin = self._twins.get(node.id)
        while twin is not None and twin not in self._waiting and self._outputs is None:
            self._take()
        self._results()
        return None if twin is None else self._waiting.pop(twin, None)

    def outputs(self) -> list[Array | None]:
        """Wait for the end of the run."""
        while self._outputs is None:
            self._take()
            self._waiting.clear()
        return list((self._results() or {}).values())

    def _results(self) -> dict[str, Array] | None:
        """Return the outputs, None before the end of the run; raise the error that ended it."""
        if isinstance(self._outputs, BaseException):
            raise self._outputs
        return self._outputs

    def close(self) -> None:
        """Stop the run."""
        self._stopped = True
        while self._thread.is_alive():
            with suppress(Empty):  # it may wait for room
                self._queue.get_nowait()
            self._thread.join(0.01)

    def _take(self) -> None:
        """Take a layer, the outputs at the end of the run, or the error that ended it."""
        found = self._queue.get()
        if isinstance(found, tuple):
            self._waiting[found[0]] = found[1]
        else:
            self._outputs = found

    def _work(self, plan: Plan, inputs: Feeds) -> None:
        offered = set(self._twins.values())

        def trace(node: Node, arrays: tuple[Array, ...]) -> None:
            if self._stopped:
                raise _Stopped
            if node.id in offered and arrays:
                self._queue.put((node.id, Fetched(node.type, arrays)))

        try:
            self._queue.put(plan.run(inputs, trace))
        except BaseException as e:  # raised again in the caller's thread
            self._queue.put(e)


Error = Array | float | None


@dataclass(frozen=True)
class Followed:
    """The partner's value of a tensor, or the graph's result from the partner's last values.

    `error` bounds how far it may be off the partner's, `terms` counts the roundings since the
    partner's last value. `all_terms` and `sound` look back to the inputs: the roundings on the
    longest way, and whether all layers on the way passed.
    """

    value: Array
    error: Error = 0.0
    terms: int = 0
    all_terms: int = 0
    sound: bool = True


# Follows a layer that the partner does not have.
Bridge = Callable[[Op, tuple[Followed, ...]], Sequence[Followed]]


def followed_outputs(
    op: BodyOp, inputs: Sequence[Followed], bridge: Bridge
) -> tuple[Followed, ...]:
    """Execute an If, of which a partner has only the outputs; return these.

    Errors of loops are not followed: those of many iterations would allow anything.
    """
    made: list[tuple[Body, dict[int, Followed]]] = []

    def run(body: Body) -> Run:
        def once(given: Mapping[int, Array]) -> dict[int, Array]:
            made.append((body, _followed_results(body, given, inputs, bridge)))
            return {i: f.value for i, f in made[-1][1].items()}

        return once

    values = op.execute([f.value for f in inputs], run)
    body, found = made[-1]
    outputs = zip(body.by_port(), values, strict=True)
    return tuple(replace(found[output.result], value=value) for output, value in outputs)


def _followed_results(
    body: Body, given: Mapping[int, Array], inputs: Sequence[Followed], bridge: Bridge
) -> dict[int, Followed]:
    graph, values = body.graph, dict[Value, Followed]()
    for entry in body.inputs:
        source = Followed(given[entry.parameter])
        if entry.port is not None:
            source = replace(inputs[entry.port], value=given[entry.parameter])
        values[Value(entry.parameter)] = source
    live = graph.live()
    for node in graph.topological():
        if node.id in live and node.type != "Parameter":
            found = bridge(node.op, tuple(values[v] for v in graph.inputs_of(node.id)))
            values |= {Value(node.id, port): f for port, f in enumerate(found)}
    return {n.id: values[Value(n.id)] for n in graph.results}


def rounds_states(op: Op) -> bool:
    """Whether an operation is a loop that rounds its state to a grid, as quantized LSTMs do."""
    return isinstance(op, TensorIterator) and any(
        n.type == "Round" for n in op.bodies[0].graph.nodes()
    )


@plain()
@np.errstate(all="ignore")
def fed_back(op: Op, inputs: Sequence[Array], theirs: Array) -> Arrays | None:
    """Execute a loop; the states that it joins in its first output are the parts of `theirs`.

    None if it joins something else.
    """
    assert isinstance(op, TensorIterator)
    body, number = op.bodies[0], itertools.count(-1)
    graph, joint = body.graph, body.by_port()[0]
    y = graph.inputs_of(joint.result)[0]
    of_state = {y}
    if graph.node(y.node).type in ("Unsqueeze", "Reshape"):
        of_state.add(graph.inputs_of(y.node)[0])
    fed = [p for p, r in body.carried().items() if graph.inputs_of(r)[0] in of_state]
    slicing = joint.slicing
    if not fed or slicing is None:
        return None
    parts = np.moveaxis(theirs, slicing.axis, 0)

    def run(body: Body) -> Run:
        once = run_plainly(body)

        def step(given: Mapping[int, Array]) -> Mapping[int, Array]:
            before = next(number)
            if before >= 0:
                state = parts[slicing.at(before, len(parts))]
                fits = (p for p in fed if given[p].size == state.size)
                given = {**given, **{p: state.reshape(given[p].shape) for p in fits}}
            return once(given)

        return step

    return op.execute(inputs, run)


DUMPED = "dump/"  # how `run --dump` names layers beside the outputs
_KINDS = {"float": "f", "int": "iu", "uint": "iu", "bool": "b", "string": "OSUT"}  # of NumPy
_POSITION = re.compile(r"(?:arr_?|out(?:put)?_?(?:\d+_)?)(\d+)", re.IGNORECASE)


class SavedPartner(Partner):
    """Arrays by name: each is read when its layer is reached, and let go of after it.

    A name is that of a layer (its port after a dot, if it has several outputs), a tensor or an
    output, perhaps behind `dump/`. If no output is named, arr_0, out0, out0_1, ... are outputs by
    their last number; as many arrays of a file as the outputs are matched with them in order.
    """

    narrow = True

    def __init__(self, graph: Graph, arrays: Mapping[str, Array], file: str | None) -> None:
        self._arrays, self._file = arrays, file or "the arrays"
        self._problems: list[Diagnostic] = []
        names = tensors_by_name(graph)
        # A dump holds a layer that is an output twice; the layer is the one behind `dump/`.
        dumped_last = sorted(arrays, key=lambda n: n.startswith(DUMPED))
        plain = {n.removeprefix(DUMPED): n for n in dumped_last}
        keys = layer_keys(graph)
        unlike = other_parts(keys.values(), plain, complete=False)
        named = ((names[p], n) for p, n in plain.items() if p in names)
        self._layers = {v: n for v, n in named if keys.get(v.node) not in unlike}
        given = {n.name for n in graph.parameters}  # inputs of the run are no outputs
        ends = [n for n in arrays if n not in given or n in graph.outputs]
        self._outputs = _outputs(graph, ends, set(names), in_order=file is not None)
        self._output_types = [graph.spec(graph.inputs_of(n.id)[0]).dtype for n in graph.results]
        used = {*self._layers.values(), *filter(None, self._outputs)}
        inputs = {n.name for n in graph.nodes() if n.type in ("Parameter", "Const")}
        known = {n for n in arrays if n in used or n.removeprefix(DUMPED) in inputs | unlike}
        if unknown := [n for n in arrays if n not in known]:
            some = ", ".join(f'"{n}"' for n in unknown[:8]) + (", ..." if unknown[8:] else "")
            message = f"{self._file}: no layer, tensor or output is named {some}"
            self._problems.append(Diagnostic("W500", "warning", message))
        if not self._layers and not any(self._outputs):
            message = f"{self._file}: no array is named like a layer, tensor or output of the model"
            every = [*graph.outputs, *names]
            near = next(filter(None, (did_you_mean(n, every) for n in arrays)), None)
            outputs = f"the outputs are {first_names(graph.outputs)}"
            hint = near or (None if file else outputs)
            raise UsageError(Diagnostic("E505", "error", message, hint=hint))

    @staticmethod
    def open(graph: Graph, path: Path) -> SavedPartner:
        """Open an .npz; UsageError for another kind of file, FileAccessError for a damaged one."""
        with _reading(str(path)):
            archive = SavedArrays(path)
        try:
            return SavedPartner(graph, archive, str(path))
        except BaseException:
            archive.close()
            raise

    def fetch(self, node: Node) -> Fetched | None:
        """Read the layer's arrays."""
        found = [self._layers.get(Value(node.id, p)) for p in range(max(node.outputs, 1))]
        if not any(found):
            return None
        arrays = (self._read(n, node.spec(p).dtype) if n else None for p, n in enumerate(found))
        return Fetched("array", tuple(arrays))

    def outputs(self) -> list[Array | None]:
        """Read the outputs; None for those that are not there."""
        pairs = zip(self._outputs, self._output_types, strict=True)
        return [None if n is None else self._read(n, dtype) for n, dtype in pairs]

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._arrays, SavedArrays):
            self._arrays.close()

    def warnings(self) -> list[Diagnostic]:
        """Warn of arrays without a match, and of element types that are not the layer's."""
        return self._problems

    def _read(self, name: str, dtype: ElementType | None) -> Array:
        """Return an array in its intended type, the tensor's element type being `dtype`."""
        with _reading(self._file, f"[{name}]"):
            array = np.asarray(self._arrays[name])
        if dtype is not None and _lost_its_type(array.dtype, dtype):
            return array.view(dtype.container)
        if array.dtype.kind not in "fiubOSUT" and array.dtype.isbuiltin != 2:
            why = f"elements of type {array.dtype} are neither real numbers nor texts"
            raise misused(f"{self._file}[{name}]: {why}", code="E505")
        if dtype is not None and array.dtype.kind not in (*_KINDS[dtype.kind], "V"):
            message = f'{self._file}: array "{name}" is {array.dtype}, the layer\'s output {dtype}'
            warning = Diagnostic("W501", "warning", message, layer=name)
            if warning not in self._problems:  # an output's array is read for its layer, too
                self._problems.append(warning)
        return array


def saved_arrays(path: Path) -> dict[str, Array]:
    """Return all arrays of an .npz; UsageError, FileAccessError as `SavedPartner.open`."""
    with _reading(str(path)), SavedArrays(path) as arrays:
        return dict(arrays)


def _reading(file: str, array: str = "") -> AbstractContextManager[None]:
    return naming_file(file, Path(file).suffix, array, CODES["E505"].hint)


def _lost_its_type(found: np.dtype[Any], dtype: ElementType) -> bool:
    """Whether bytes are of an element type that .npy has no name for: bfloat16 and its like."""
    container = dtype.container
    plain = found.kind == "V" and found.fields is None and found.isbuiltin != 2
    return plain and container.isbuiltin == 2 and found.itemsize == container.itemsize


def tensors_by_name(graph: Graph) -> dict[str, Value]:
    """Return the value of every name; tensors before layers, ambiguous names are left out."""
    layers: dict[str, set[Value]] = {}
    tensors: dict[str, set[Value]] = {}
    for node in graph.nodes():
        if node.type in ("Const", "Result", "Parameter"):
            continue
        for port in range(max(node.outputs, 1)):
            value = Value(node.id, port)
            for name in (node.output_key(port), *[node.name] * (port == 0)):
                layers.setdefault(name, set()).add(value)
            for name in node.names_of(port):
                tensors.setdefault(name, set()).add(value)
    found = layers | tensors
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def _outputs(
    graph: Graph, names: list[str], known: set[str], *, in_order: bool
) -> list[str | None]:
    """Return the array of every output: by name, in order, by number."""
    named: list[str | None] = []
    for name, result in zip(graph.outputs, graph.results, strict=True):
        producer = graph.inputs_of(result.id)[0]
        node = graph.node(producer.node)
        layer = (node.name,) if node.outputs < 2 else ()
        candidates = (name, result.name, *node.names_of(producer.port), *layer)
        named.append(next((c for c in candidates if c in names), None))
    if any(named) or any(n.removeprefix(DUMPED) in known for n in names):
        return named
    if in_order and len(names) == len(named):
        return list(names)
    # Of several arrays of one number the first one counts.
    numbered = {int(m[1]): m[0] for m in map(_POSITION.fullmatch, reversed(names)) if m}
    return [numbered.get(i) for i in range(len(named))]
