"""How a unit is executed: by a kernel writing into given memory, as a view, or by `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.candidates import for_convolution, for_deconvolution
from irdeconv.kernels.shared.candidate import Candidate, Epilogue, Fix, Kernel
from irdeconv.kernels.shared.team import Team
from irdeconv.op import as_tuple
from irdeconv.runtime.bound import bind
from irdeconv.runtime.chains import ChainPlan, plan_chain
from irdeconv.runtime.choice import Tuner
from irdeconv.runtime.program import Call, Slots, Values
from irdeconv.runtime.surroundings import Layer
from irdeconv.runtime.units import ChainUnit, Unit, WindowUnit
from irdeconv.spec import Array, is_static

Shape = tuple[int, ...]


@dataclass
class Implementation:
    """Base: what a unit reads and writes, and what executes it.

    `arguments` are the values that `bind` gets slots of. `writes` says that the outputs are written
    into given memory, of `shapes` and `dtypes`. `view_of` names the value whose memory the outputs
    share.
    """

    arguments: tuple[Value, ...]
    outputs: tuple[Value, ...]
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[np.dtype[Any], ...] = ()
    writes: bool = False
    view_of: Value | None = None
    kernel: str = ""
    why: str = ""
    scratch: int = 0

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        """Return the call for given slots; `values` has what never changes."""
        raise NotImplementedError

    def call(self, *arrays: Array) -> Any:
        """Return the views of a view."""
        raise NotImplementedError


def implement(
    graph: Graph,
    unit: Unit,
    constants: Mapping[Value, Array],
    tuner: Tuner,
    team: Team,
    used: frozenset[int],
) -> Implementation:
    """Choose what executes a unit of a fused plan; `used` are the ports that are read."""
    if isinstance(unit, WindowUnit):
        return _windows(graph, unit, constants, tuner, team)
    if isinstance(unit, ChainUnit):
        plan = plan_chain(graph, unit.nodes, constants)
        spec = unit.last.spec()
        return _Chain(plan.arguments, _outputs(unit.last), *_memory(unit.last), writes=True,
                      kernel=plan.name, plan=plan, shape=spec.shape)  # fmt: skip
    node = unit.last
    bound = _bound(graph, node, constants, used)
    if bound is not None:
        return bound
    return _Evaluated(
        graph.inputs_of(node.id),
        _outputs(node),
        kernel="evaluate",
        function=node.op.evaluator(used),
        aliases=False,
    )


def stepwise(graph: Graph, unit: Unit) -> Implementation:
    """Execute one node by its own `evaluate`."""
    node = unit.last
    function = node.op.evaluate
    return _Evaluated(
        graph.inputs_of(node.id), _outputs(node), kernel="evaluate", function=function
    )


def _outputs(node: Node) -> tuple[Value, ...]:
    return tuple(Value(node.id, p) for p in range(max(node.outputs, 1)))


def _memory(node: Node) -> tuple[tuple[Shape, ...], tuple[np.dtype[Any], ...]]:
    shapes, dtypes = [], []
    for spec in node.specs or ():
        assert is_static(spec.shape)
        assert spec.dtype is not None
        shapes.append(spec.shape)
        dtypes.append(np.dtype(spec.dtype.container))
    return tuple(shapes), tuple(dtypes)


@dataclass
class _Evaluated(Implementation):
    """`aliases` says that outputs may share memory with inputs."""

    function: Callable[..., Any] | None = None
    aliases: bool = True

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        evaluate, first = self.function, outs[0]
        assert evaluate is not None
        single = len(outs) == 1

        def call(values: Values) -> None:
            arrays = [values[i] for i in ins]
            out = evaluate(*arrays)
            if not self.aliases:
                out = _unshared(out, arrays)
            if single and not isinstance(out, tuple):
                values[first] = out
                return
            for slot, array in zip(outs, as_tuple(out), strict=False):
                values[slot] = array

        return call


def _unshared(out: Any, arrays: list[Any]) -> Any:
    """Copy outputs that may lie in an input's memory, which will be used for other values."""
    if isinstance(out, tuple):
        return tuple(_unshared(o, arrays) for o in out)
    if any(np.may_share_memory(out, a) for a in arrays):
        return np.array(out)
    return out


def _bound(
    graph: Graph, node: Node, constants: Mapping[Value, Array], used: frozenset[int]
) -> Implementation | None:
    """Bind a node to its shapes; None where these are open or it has to be evaluated."""
    arguments = graph.inputs_of(node.id)
    inputs = [
        replace(graph.spec(v), value=constants[v]) if v in constants else graph.spec(v)
        for v in arguments
    ]
    outputs = list(node.specs or ())
    if used == {0}:
        outputs = outputs[:1]
    found = bind(node.op, inputs, outputs)
    if found is None:
        return None
    if found.view is not None:
        return _View(
            arguments,
            _outputs(node),
            view_of=arguments[0],
            kernel="view",
            function=found.view,
        )
    shapes, dtypes = _memory(node)
    return _Written(
        arguments,
        _outputs(node)[:1],
        shapes[:1],
        dtypes[:1],
        writes=True,
        kernel=node.type,
        function=found.call,
    )


@dataclass
class _View(Implementation):
    function: Callable[..., Any] | None = None

    def call(self, *arrays: Array) -> Any:
        """Return the views."""
        assert self.function is not None
        return self.function(*arrays)

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        function = self.call

        def call(values: Values) -> None:
            views = as_tuple(function(*[values[i] for i in ins]))
            for slot, view in zip(outs, views, strict=False):
                values[slot] = view

        return call


@dataclass
class _Written(Implementation):
    function: Callable[..., Any] | None = None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        function, out = self.function, outs[0]
        assert function is not None

        def call(values: Values) -> None:
            team.begin()
            function(*[values[i] for i in ins], out=values[out], team=team)

        return call


def _always(prepared: Callable[[Team], None], team: Team) -> Call:
    """Do the same with the same memory in every run."""

    def call(values: Values) -> None:
        team.begin()
        prepared(team)

    return call


@dataclass
class _Chain(Implementation):
    plan: ChainPlan | None = None
    shape: Any = None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        assert self.plan is not None
        run, out = self.plan.run, outs[0]
        arrays = [values[i] for i in ins]
        fixed = values[out] is not None and all(a is not None for a in arrays)
        if fixed and self.plan.views(arrays):
            return _always(self.plan.prepare(arrays, values[out]), team)

        def call(values: Values) -> None:
            team.begin()
            run([values[i] for i in ins], values[out], team)

        return call


@dataclass
class _Windows(Implementation):
    """`arguments` are the data, then the filter where it is not constant, then operands behind."""

    prepared: Kernel | None = None
    candidate: Candidate | None = None
    layer: Layer | None = None
    finish: ChainPlan | None = None

    def bind(self, ins: Slots, outs: Slots, team: Team, values: Values) -> Call:
        data, out = ins[0], outs[0]
        kernel = self.prepared
        operands = ins[1:] if kernel is not None else ins[2:]
        if self._strided(operands, values):
            return self._apart(ins, operands, out, team)
        epilogue = self._epilogue(operands, values)
        if kernel is None:
            return self._with_filter(ins[1], data, out, epilogue, team)
        fixed = self._fixed(data, operands, out, values)
        if fixed is not None:
            return _always(fixed, team)

        def call(values: Values) -> None:
            team.begin()
            kernel(values[data], values[out], epilogue(values), team)

        return call

    def _fixed(
        self, data: int, operands: Slots, out: int, values: Values
    ) -> Callable[[Team], None] | None:
        """Return the call where all memory stays where it is and the kernel makes use of that."""
        prepare = getattr(self.prepared, "fixed", None)
        if prepare is None or any(values[i] is None for i in (data, out, *operands)):
            return None
        finish: Fix = lambda tile, image, channels, positions: None  # noqa: E731
        if self.finish is not None:
            arrays = [values[i] for i in operands]
            if not self.finish.follows(arrays):
                return None
            finish = self.finish.epilogue(arrays).fixed
        found: Callable[[Team], None] | None = prepare(values[data], values[out], finish)
        return found

    def _strided(self, operands: Slots, values: Values) -> bool:
        """Whether an operand of the epilogue would have to be copied in every run."""
        return any(values[i] is not None and not values[i].flags.c_contiguous for i in operands)

    def _apart(self, ins: Slots, operands: Slots, out: int, team: Team) -> Call:
        """Finish the whole output behind the kernel, in which operands may have any strides."""
        data, finish, kernel = ins[0], self.finish, self.prepared
        candidate, layer = self.candidate, self.layer
        assert finish is not None
        assert candidate is not None
        assert layer is not None

        def call(values: Values) -> None:
            run = kernel or candidate.prepare(layer.arrange(values[ins[1]]))
            team.begin()
            run(values[data], values[out], None, team)
            team.begin()
            finish.run([values[out], *[values[i] for i in operands]], values[out], team)

        return call

    def _with_filter(
        self, filter: int, data: int, out: int, epilogue: Callable[[Values], Any], team: Team
    ) -> Call:
        candidate, layer = self.candidate, self.layer
        assert candidate is not None
        assert layer is not None

        def call(values: Values) -> None:
            kernel = candidate.prepare(layer.arrange(values[filter]))
            team.begin()
            kernel(values[data], values[out], epilogue(values), team)

        return call

    def _epilogue(self, operands: Slots, values: Values) -> Callable[[Values], Epilogue | None]:
        finish = self.finish
        if finish is None:
            return lambda values: None
        arrays = [values[i] for i in operands]
        if all(a is not None for a in arrays) and finish.follows(arrays):
            bound = finish.epilogue(arrays)
            return lambda values: bound
        return lambda values: finish.epilogue([values[i] for i in operands])


def _windows(
    graph: Graph, unit: WindowUnit, constants: Mapping[Value, Array], tuner: Tuner, team: Team
) -> Implementation:
    layer = unit.layer
    filter = constants.get(layer.filter)
    weights = None if filter is None else np.asarray(layer.arrange(filter))
    kind = "deconvolution" if layer.deconvolution else "convolution"
    list_all = for_deconvolution if layer.deconvolution else for_convolution
    choice = tuner.choose(kind, layer.windows, list_all(layer.windows), weights, team)
    finish = plan_chain(graph, unit.finish, constants, Value(unit.core.id)) if unit.finish else None
    arguments = [layer.data] if weights is not None else [layer.data, layer.filter]
    if finish is not None:
        arguments += finish.arguments
    prepared = None if weights is None else choice.candidate.prepare(weights)
    name = f"{kind} {getattr(prepared, 'name', choice.candidate.name)}"
    return _Windows(
        tuple(arguments),
        _outputs(unit.last),
        *_memory(unit.last),
        writes=True,
        kernel=name + (f" + {finish.name}" if finish else ""),
        why=getattr(prepared, "why", choice.why),
        scratch=choice.candidate.scratch,
        prepared=prepared,
        candidate=choice.candidate,
        layer=layer,
        finish=finish,
    )
