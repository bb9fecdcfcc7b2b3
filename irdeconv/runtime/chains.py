"""From element-wise nodes to a chain that computes them tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irdeconv.graph import Graph, Node, Value
from irdeconv.kernels.elementwise.calls import Instruction
from irdeconv.kernels.elementwise.chain import Chain, ChainEpilogue
from irdeconv.kernels.shared.team import Team
from irdeconv.op import Op
from irdeconv.spec import Array, Spec, is_static
from irdeconv.traits import ChainStep, Operand

Key = tuple[Value, tuple[int, ...] | None]  # a value, and the shape it is seen in
_CHAINED = frozenset({"f64", "f32", "f16", "bf16"})  # element types that chains compute


def chain_step(op: Op, inputs: Sequence[Spec]) -> ChainStep | None:
    """Return the operation as a step; None where it is none, or not for these inputs.

    Every input that is an operand and the result are f64 all together, or f32, f16 or bf16.
    """
    if not inputs or any(s.dtype is None for s in inputs):
        return None
    step = op.chain_step(inputs)
    if step is None:
        return None
    names = {str(inputs[a.number].dtype) for a in step.args if isinstance(a, Operand)}
    return step if names <= _CHAINED and ("f64" not in names or names == {"f64"}) else None


def is_element_wise(op: Op, inputs: Sequence[Spec], out: Spec) -> bool:
    """Whether an operation can be a step of a chain that gives `out`."""
    if out.dtype is None or str(out.dtype) not in _CHAINED or not is_static(out.shape):
        return False
    return all(is_static(s.shape) for s in inputs) and chain_step(op, inputs) is not None


@dataclass(frozen=True)
class ChainPlan:
    """A compiled chain and the values it reads when it runs, in the order of its registers.

    The first register of an epilogue's chain is what it finishes, and no argument.
    """

    chain: Chain
    arguments: tuple[Value, ...]
    registers: tuple[int, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    out_shape: tuple[int, ...]
    name: str

    def run(self, arrays: Sequence[Array], out: Array, team: Team) -> None:
        """Compute `out` from one array per argument, behind what an epilogue would finish."""
        main = len(arrays) - len(self.shapes)
        self.chain.run([*arrays[:main], *self._seen(arrays[main:])], out, team)

    def fixed(self, arrays: Sequence[Array], out: Array) -> Callable[[Team], None]:
        """Return what `run` does with these arrays, to be done often."""
        main = len(arrays) - len(self.shapes)
        return self.chain.fixed([*arrays[:main], *self._seen(arrays[main:])], out)

    def views(self, arrays: Sequence[Array]) -> bool:
        """Whether the arrays need not be copied to be seen in their shapes."""
        seen = arrays[len(arrays) - len(self.shapes) :]
        return all(
            s is None or a.flags.c_contiguous for a, s in zip(seen, self.shapes, strict=True)
        )

    def follows(self, arrays: Sequence[Array]) -> bool:
        """Whether an epilogue sees what is written into the arrays later, having copied nothing."""
        whole = self.out_shape[2:]
        spaces = (a.shape[max(0, a.ndim - len(whole)) :] for a in self._seen(arrays))
        plain = all(math.prod(s) == 1 or s == whole for s in spaces)
        return plain and all(a.flags.c_contiguous for a in arrays)

    def epilogue(self, arrays: Sequence[Array]) -> ChainEpilogue:
        """Return an epilogue with one array per argument."""
        given = dict(zip(self.registers, self._seen(arrays), strict=True))
        return self.chain.bind(self.out_shape, given)

    def _seen(self, arrays: Sequence[Array]) -> list[Array]:
        pairs = zip(arrays, self.shapes, strict=True)
        return [a if s is None else a.reshape(s) for a, s in pairs]


def plan_chain(
    graph: Graph,
    nodes: Sequence[Node],
    constants: Mapping[Value, Array],
    main: Value | None = None,
) -> ChainPlan:
    """Compile element-wise nodes, producers first; `main` is what an epilogue finishes.

    Without `main` the first node's first input that is no constant takes its place.
    """
    operands = _Operands(constants, main)
    made: dict[Value, int] = {}  # values computed inside
    steps: list[Instruction] = []
    for node in nodes:
        inputs = graph.inputs_of(node.id)
        step = chain_step(node.op, graph.input_specs(node.id))
        assert step is not None
        args = []
        for a in step.args:
            inside = made.get(inputs[a.number]) if isinstance(a, Operand) else None
            args.append(operands.refer(a, inputs) if inside is None else inside)
        made[Value(node.id)] = -1 - len(steps)  # operands come first: their number is not known yet
        steps.append(Instruction(step.rule, tuple(args), step.params))
    return operands.compile(steps, nodes)


class _Operands:
    """Collects what a chain reads: the main tensor, values, constants."""

    def __init__(self, constants: Mapping[Value, Array], main: Value | None) -> None:
        self.constants = constants
        self.numbers: dict[Key, int] = {} if main is None else {(main, None): 0}
        self.values: dict[int, Key] = {}
        self.known: list[Array | None] = []  # operands 1..k

    def refer(self, argument: Operand | Array, inputs: Sequence[Value]) -> int:
        """Return the operand for an input or a constant array."""
        if not isinstance(argument, Operand):
            return self._constant(argument)
        value, shape = inputs[argument.number], argument.shape
        constant = self.constants.get(value)
        if constant is not None:
            return self._constant(constant if shape is None else constant.reshape(shape))
        key = value, shape
        if key not in self.numbers:
            if not self.numbers:
                self.numbers[key] = 0
                self.values[0] = key
            else:
                self.known.append(None)
                self.numbers[key] = len(self.known)
                self.values[len(self.known)] = key
        return self.numbers[key]

    def _constant(self, array: Array) -> int:
        self.known.append(np.asarray(array))
        return len(self.known)

    def compile(self, steps: Sequence[Instruction], nodes: Sequence[Node]) -> ChainPlan:
        """Return the chain for steps over these operands; step k is the argument -1 - k."""
        count = 1 + len(self.known)
        spec = nodes[-1].spec()
        assert spec.dtype is not None
        assert is_static(spec.shape)
        program = [
            replace(s, args=tuple(a if a >= 0 else count - 1 - a for a in s.args)) for s in steps
        ]
        registers = tuple(sorted(self.values))
        keys = [self.values[r] for r in registers]
        return ChainPlan(
            chain=Chain.compile(program, spec.dtype.container, self.known),
            arguments=tuple(value for value, _ in keys),
            registers=registers,
            shapes=tuple(shape for _, shape in keys),
            out_shape=spec.shape,
            name=", ".join(n.type for n in nodes),
        )
