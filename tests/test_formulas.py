"""What an element-wise operation computes in a chain is what it computes alone.

Every operation of the registry that may be a step of a chain is run as one, by NumPy and compiled,
on special values, and judged by its own rule of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir import dtypes
from irdeconv.ir.op import MOVES, REGISTRY, Op, Operand
from irdeconv.ir.spec import Array, Spec
from irdeconv.kernels import jit
from irdeconv.kernels.elementwise import Instruction
from irdeconv.kernels.elementwise_chain import Chain
from irdeconv.kernels.threads import Threads
from irdeconv.ops.elementwise import Binary, Power
from irdeconv.run.fusion import chain_step
from irdeconv.verify.judge import allowed, evaluate, precise, worth_precision
from op_cases import Case, all_cases

assert irdeconv.ops
TYPES = ("f64", "f32", "f16", "bf16")
BINARY = {c for c in REGISTRY.values() if issubclass(c, Binary)}
ARITHMETIC = sorted((c for c in BINARY if c.rule is not None), key=lambda c: c.type)
STEPS = {c for c in REGISTRY.values() if c.chain_step is not Op.chain_step}
STEPS -= BINARY - set(ARITHMETIC)


def specials(dtype: str) -> list[float]:
    """Return values at the ends of a type and where formulas change."""
    info = np.finfo(np.float64) if dtype == "f64" else np.finfo(np.float32)
    largest = 65504.0 if dtype == "f16" else 3e38 if dtype != "f64" else float(info.max)
    tiny, least = float(info.tiny), float(info.smallest_subnormal)
    positive = [0.0, least, tiny, 1e-3, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 20.0, 80.0, 100.0, largest]
    return [*positive, *(-v for v in positive), np.inf, -np.inf, np.nan]


def typed(array: Array, dtype: str) -> Array:
    """Return floating-point arrays in a type, others as they are."""
    if not dtypes.of_numpy(array.dtype).is_real:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtypes.ELEMENT_TYPES[dtype].container)


def data_port(op: Op, arrays: Sequence[Array]) -> int | None:
    """Return the input that varies, the others being constants; None where it is no step."""
    for port in range(len(arrays)):
        step = chain_step(op, specs_of(arrays, {port}))
        if step is not None and isinstance(step.args[0], Operand) and step.args[0].number == port:
            return port
    return None


def specs_of(arrays: Sequence[Array], varying: set[int]) -> list[Spec]:
    return [
        Spec(dtypes.of_numpy(a.dtype), a.shape, None if i in varying else a)
        for i, a in enumerate(arrays)
    ]


def as_chain(op: Op, arrays: Sequence[Array], out: Array, varying: set[int]) -> Array:
    """Compute the operation as a chain of one step; `varying` are inputs that are no constants."""
    step = chain_step(op, specs_of(arrays, varying))
    assert step is not None
    operands: list[Array | None] = []
    given: list[Array] = []
    for arg in step.args:
        constant = not isinstance(arg, Operand) or arg.number not in varying
        value = arrays[arg.number] if isinstance(arg, Operand) else arg
        if isinstance(arg, Operand) and arg.shape is not None:
            value = value.reshape(arg.shape)
        operands.append(value if constant else None)
        if not constant:
            given.append(value)
    instruction = Instruction(step.rule, tuple(range(len(step.args))), step.params)
    Chain.compile([instruction], given[0].dtype, operands[1:]).run(given, out, Threads())
    return out


def filled(arrays: Sequence[Array], port: int, dtype: str) -> Iterator[list[Array]]:
    """Yield the inputs with the data replaced by special values, until all have had their turn."""
    values = specials(dtype)
    shape = arrays[port].shape if len(arrays) > 1 else (len(values),)
    count = max(1, math.prod(shape))
    for at in range(0, len(values), count):
        data = np.resize(np.array(values[at:] + values[:at]), shape)
        yield [typed(data if i == port else a, dtype) for i, a in enumerate(arrays)]


def assert_within(op: Op, arrays: Sequence[Array], got: Array) -> None:
    """Compare with `evaluate` by the operation's own rule."""
    outputs = evaluate(op, arrays)
    want = precise(op, arrays, outputs) if worth_precision(op, outputs) else outputs
    (bound,) = allowed(op, arrays, outputs)
    plain, result = (np.asarray(v).astype(np.float64) for v in (outputs[0], got))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(plain))
    with np.errstate(all="ignore"):
        apart = np.abs(result - want[0].astype(np.float64))
    same = (result == plain) | np.isnan(plain)
    wrong = ~same & ~(apart <= np.nan_to_num(bound.limit))
    assert not wrong.any(), (bound.rule, result[wrong], plain[wrong])


def rows() -> Iterator[tuple[str, Op, int, str, list[Array]]]:
    """Yield every row that is a step in a type: its name, operation, data port, type and inputs."""
    for name, row in all_cases().items():
        op = row.build()[0]
        for dtype in TYPES if type(op) in STEPS else ():
            arrays = [typed(t.values, dtype) for t in row.inputs]
            port = data_port(op, arrays)
            if port is not None:
                yield f"{name}-{dtype}", op, port, dtype, arrays


ROWS = {name: rest for name, *rest in rows()}


@pytest.mark.parametrize(("op", "port", "dtype", "arrays"), ROWS.values(), ids=ROWS)
def test_alone_and_in_a_chain(
    op: Op, port: int, dtype: str, arrays: list[Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    for available in {False, jit.available() and dtype == "f32"}:
        monkeypatch.setattr(jit, "available", lambda answer=available: answer)
        for inputs in filled(arrays, port, dtype):
            with np.errstate(all="ignore"):
                out = np.empty_like(evaluate(op, inputs)[0])
                assert_within(op, inputs, as_chain(op, inputs, out, {port}))
                data = inputs[port]
                if data.shape == out.shape and data.dtype == out.dtype:  # in place
                    before = [a.copy() for a in inputs]
                    assert_within(op, before, as_chain(op, inputs, data, {port}))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("cls", ARITHMETIC)
def test_two_tensors_and_constants(cls: type[Binary], dtype: str) -> None:
    op, values = cls(), typed(np.array(specials(dtype)), dtype)
    with np.errstate(all="ignore"):
        square = np.empty((values.size, values.size), values.dtype)
        pair = [values[:, None], values]
        assert_within(op, pair, as_chain(op, pair, square, {0, 1}))
        for constant in [*values, *typed(np.array([2.0, 3.0, -1.0]), dtype)]:
            if cls is Power and constant == 0.5:
                continue  # NumPy takes the root, in some types: a NaN of -inf
            inputs = [values, constant.reshape(1)]
            assert_within(op, inputs, as_chain(op, inputs, np.empty_like(values), {0}))


MOVING = {k: row for k, row in all_cases().items() if row.build()[0].moves}


@pytest.mark.parametrize("row", MOVING.values(), ids=MOVING)
def test_what_moves_elements_commutes_with_a_conversion(row: Case) -> None:
    """So rewriting may put it in front of the Convert of a compressed constant."""
    op, (data, *others) = row.build()[0], [t.values for t in row.inputs]
    assert op.rounding == MOVES
    coarse = np.resize(np.arange(1.0, 100.0).astype(np.float16), data.shape)
    try:
        (moved,) = evaluate(op, [coarse, *others])
    except OpError:
        return  # a row for inference alone
    (wanted,) = evaluate(op, [coarse.astype(np.float64), *others])
    assert moved.dtype == np.float16
    np.testing.assert_array_equal(moved.astype(np.float64), wanted)
    assert set(moved.reshape(-1)) <= {0.0, *coarse.reshape(-1)}


def test_every_step_is_tested() -> None:
    """A new operation has a row in op_cases with which it is a step."""
    assert {c for c in STEPS if c.type not in {op.type for op, *_ in ROWS.values()}} == set()


def test_arithmetic_is_a_step() -> None:
    for cls in BINARY:
        computes = cls.accepts in ("number", "real") and not cls.gives_boolean
        assert computes == (cls in ARITHMETIC)
