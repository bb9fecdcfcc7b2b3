"""Chains of element-wise operations against the operations' own evaluators."""

import math
import random
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import irdeconv.ops
from irdeconv.ir import dtypes
from irdeconv.ir.op import REGISTRY, Op, Operand
from irdeconv.ir.spec import Array, Spec
from irdeconv.kernels import elementwise as rules
from irdeconv.kernels import elementwise_chain, jit
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.elementwise import Instruction, Rule
from irdeconv.kernels.elementwise_chain import Chain
from irdeconv.kernels.scratch import BlockSizes
from irdeconv.kernels.threads import Threads
from irdeconv.ops import activation, basic, elementwise, reduction
from irdeconv.runtime.fusion import chain_step
from support.rows import each_row

assert irdeconv.ops
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}
SPECIAL = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1.0, -3.0, 3.0, 20.0, -20.0, 80.0, -80.0]
BAD = [np.inf, -np.inf, np.nan, 3e4, -3e4]


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the compiled forms to test_chain_fast."""
    monkeypatch.setattr(jit, "available", lambda: False)


def data(shape: Sequence[int], dtype: str, seed: int = 0, bad: bool = True) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * rng.choice([0.01, 1, 8], shape)
    if bad:
        flat = x.reshape(-1)
        chosen = SPECIAL + BAD
        places = rng.permutation(flat.size)[: len(chosen)]
        flat[places] = chosen[: len(places)]
    return x.astype(TYPES[dtype])


def spec(array: Array, dtype: str, known: bool) -> Spec:
    return Spec(dtypes.ELEMENT_TYPES[dtype], array.shape, array if known else None)


def chain_of(op: Op, arrays: Sequence[Array], dtype: str, known: bool) -> tuple[Chain, list[Array]]:
    """Return the operation as a chain of one step, and the tensors it takes when it runs."""
    step = chain_step(op, [spec(a, dtype, known and i > 0) for i, a in enumerate(arrays)])
    assert step is not None
    given: list[Array] = []
    operands: list[Array | None] = []
    for i, a in enumerate(step.args):
        value = a if not isinstance(a, Operand) else arrays[a.number]
        if isinstance(a, Operand) and a.shape is not None:
            value = value.reshape(a.shape)
        assert not isinstance(value, Operand)
        constant = i > 0 and (known or not isinstance(a, Operand))
        if i > 0:
            operands.append(value if constant else None)
        if not constant:
            given.append(value)
    args = tuple(range(len(step.args)))
    return Chain.compile([Instruction(step.rule, args, step.params)], TYPES[dtype], operands), given


def assert_close(got: Array, want: Array, dtype: str, ulps: float, size: Array | None) -> None:
    """Compare within `ulps` roundings of the computing type, and of the element type if narrow."""
    assert got.dtype == want.dtype
    g, w = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(np.isnan(g), np.isnan(w))
    assert np.array_equal(np.isinf(g), np.isinf(w))
    ok = np.isfinite(w)
    scale = np.abs(w) if size is None else np.maximum(np.abs(w), np.abs(size))
    narrow = dtype in ("f16", "bf16")
    limit = ulps * EPSILON["f32" if narrow else dtype]
    if narrow and ulps:
        limit += EPSILON[dtype]  # values on two sides of a half are rounded apart
    tiny = {"f64": 1e-306, "f16": 6e-8}.get(dtype, 1e-36) if ulps else 0
    wrong = np.abs(g[ok] - w[ok]) > limit * scale[ok] + tiny
    assert not wrong.any(), (g[ok][wrong][:5], w[ok][wrong][:5])


BINARY = [c() for c in set(REGISTRY.values()) if issubclass(c, elementwise.Binary) and c.rule]
BINARY.sort(key=lambda op: op.type)
SHAPES = [(2, 5, 4, 7), (1, 5, 1, 1), (), (1,), (4, 1), (7,), (2, 1, 4, 7)]


@each_row("dtype", list(TYPES))
@each_row("known", [True, False])
@each_row("op", BINARY)
def test_binary(op: Op, known: bool, dtype: str) -> None:
    x = data((2, 5, 4, 7), dtype)
    for k, shape in enumerate(SHAPES):
        for y in (data(shape, dtype, k + 1), np.full(shape, 2, TYPES[dtype])):
            compiled, given = chain_of(op, [x, y], dtype, known)
            out = np.empty_like(x)
            with np.errstate(all="ignore"):
                compiled.run(given, out, Threads())
                want = op.evaluate(x, y)
            # A power of a constant exponent becomes products; narrow types round intermediate
            # results of the operation, here only the end.
            ulps = 2 if op.type == "Power" else 0
            if op.type in ("SquaredDifference", "FloorMod", "Mod") and dtype in ("f16", "bf16"):
                continue
            assert_close(out, want, dtype, ulps, None)


@each_row("dtype", list(TYPES))
@each_row("known", [True, False])
def test_prelu(known: bool, dtype: str) -> None:
    x = data((2, 6, 5, 9), dtype)
    slopes = [
        np.array([0.25]),
        np.array(0.25),
        np.linspace(0.01, 1, 6),
        np.linspace(1, 3, 6),
        np.linspace(-1, 2, 6),
        np.zeros(6),
        np.linspace(-1, 1, 9),
        np.linspace(0.1, 1, 45).reshape(5, 9),
    ]
    for slope in slopes:
        s = slope.astype(TYPES[dtype])
        compiled, given = chain_of(activation.PReLU(), [x, s], dtype, known)
        out = np.empty_like(x)
        with np.errstate(all="ignore"):
            compiled.run(given, out, Threads())
            assert_close(out, activation.PReLU().evaluate(x, s), dtype, 0, None)


@pytest.mark.parametrize("dtype", TYPES)
def test_constants_become_parameters(dtype: str) -> None:
    kind = TYPES[dtype]
    x = data((2, 6, 5, 9), dtype)
    c = np.random.default_rng(1).uniform(0.5, 2, (4, 6)).astype(kind)
    half, beta = np.array(0.5, kind), np.array(1.5, kind)
    low, high = np.array([[[[-2]]]], kind), np.arange(3, 9).reshape(1, 6, 1, 1).astype(kind)
    names = ("BatchNormInference", "opset1")
    rows: list[tuple[Op, list[Array], float, float]] = [
        (activation.HardSigmoid(), [x, half, beta], 1, 0),
        (activation.Selu(), [x, beta, half], 10, 0),
        (activation.Swish(), [x, beta], 2, 0),
        (elementwise.FakeQuantize(17), [x, low, high, low, high], 2, 8),
        (elementwise.FakeQuantize(256), [x, low, high, -high, -low], 2, 8),
        (reduction.BatchNormInference(1e-3), [x, *c], 4, 100),
        (REGISTRY[names](1e-3), [c[0], c[1], x, c[2], c[3]], 4, 100),
    ]
    for op, arrays, ulps, size in rows:
        main = next(i for i, a in enumerate(arrays) if a is x)
        step = chain_step(op, [spec(a, dtype, i != main) for i, a in enumerate(arrays)])
        assert step is not None
        assert [a for a in step.args if isinstance(a, Operand)] == [Operand(main)]
        constants = [a for a in step.args if not isinstance(a, Operand)]
        args = tuple(range(1 + len(constants)))
        compiled = Chain.compile([Instruction(step.rule, args, step.params)], kind, constants)
        out = np.empty_like(x)
        with np.errstate(all="ignore"):
            compiled.run([x], out, Threads())
            want = op.evaluate(*arrays)
        scale = np.abs(x.astype(np.float64)) * 4 + size
        assert_close(out, want, dtype, ulps, scale if size else None)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_error_function(dtype: str) -> None:
    """Against the C library's: exact at 0 and where it rounds to 1, near 0 and at both ends."""
    sizes = [np.logspace(-40, 0, 4001), np.linspace(0, 6.5, 20001), [0, np.inf]]
    positive = np.concatenate(sizes).astype(TYPES[dtype])
    x = np.concatenate([positive, -positive, [np.nan]]).astype(TYPES[dtype])
    chain, given = chain_of(elementwise.Erf(), [x], dtype, False)
    out = np.empty_like(x)
    chain.run(given, out, Threads())
    want = np.array([math.erf(v) for v in x.astype(np.float64)])
    assert np.array_equal(np.isnan(out), np.isnan(want))
    ok = np.isfinite(want)
    least = 1e-44 if dtype == "f32" else 1e-306  # below the least number
    assert np.all(np.abs(out - want)[ok] <= 4 * EPSILON[dtype] * np.abs(want[ok]) + least)
    assert np.array_equal(np.signbit(out[ok]), np.signbit(x[ok]))
    assert np.all(np.abs(out[ok]) <= 1)
    assert np.all(np.abs(out[np.abs(x) >= 6]) == 1)


def test_what_is_no_step() -> None:
    f32, i32, f64 = (dtypes.ELEMENT_TYPES[n] for n in ("f32", "i32", "f64"))
    one = np.ones(1, np.float32)
    x, known = Spec(f32, (1, 4, 2)), Spec(f32, (1,), one)
    assert chain_step(elementwise.Add(), [Spec(i32, (2,)), Spec(i32, (2,))]) is None
    assert chain_step(elementwise.Add(), [Spec(None, (2,)), Spec(None, (2,))]) is None
    assert chain_step(elementwise.Less(), [x, x]) is None
    assert chain_step(activation.Swish(), [x, Spec(f32, ())]) is None
    assert chain_step(activation.HardSigmoid(), [x, known, Spec(f32, ())]) is None
    assert chain_step(activation.PReLU(), [Spec(f32, None), known]) is None
    assert chain_step(basic.Convert(i32), [x]) is None
    assert chain_step(basic.Convert(f64), [x]) is None
    assert chain_step(elementwise.FakeQuantize(3), [x, known, known, known, known]) is None


def test_conversions_round_where_they_stand() -> None:
    x = data((4, 33), "f32")
    f16, f32 = dtypes.ELEMENT_TYPES["f16"], dtypes.ELEMENT_TYPES["f32"]
    down = chain_step(basic.Convert(f16), [Spec(f32, x.shape)])
    up = chain_step(basic.Convert(f32), [Spec(f16, x.shape)])
    assert down is not None
    assert up is not None
    steps = [
        Instruction(down.rule, (0,), down.params),
        Instruction(up.rule, (1,)),
        Instruction(np.add, (2, 0)),
    ]
    compiled, out = Chain.compile(steps, "float32"), np.empty_like(x)
    with np.errstate(all="ignore"):
        compiled.run([x], out, Threads())
        want = x.astype(np.float16).astype(np.float32) + x
    np.testing.assert_array_equal(out, want)
    into = np.empty(x.shape, np.float16)  # a chain may also end in another type
    with np.errstate(all="ignore"):
        Chain.compile([Instruction(np.square, (0,))], "float32").run([x], into, Threads())
        np.testing.assert_array_equal(into, np.square(x).astype(np.float16))


OF_TWO: list[Rule] = [np.add, np.subtract, np.multiply, rules.maximum, rules.minimum]
OF_TWO += [rules.prelu, rules.squared_difference]
OF_ONE: list[Rule] = [rules.relu, np.abs, rules.negative, rules.hswish, rules.hsigmoid]
OF_ONE += [rules.softsign, np.tanh, rules.sigmoid, np.square]


def random_steps(seed: int, operands: int) -> list[Instruction]:
    r = random.Random(seed)
    steps: list[Instruction] = []
    for k in range(r.randint(1, 7)):
        registers = range(operands + 1 + k)
        recent = r.choice([registers[-1], r.choice(registers)])
        if r.random() < 0.6:
            steps.append(Instruction(r.choice(OF_TWO), (recent, r.choice(registers))))
        else:
            steps.append(Instruction(r.choice(OF_ONE), (recent,)))
    return steps


def interpret(steps: Sequence[Instruction], registers: list[Array]) -> Array:
    """Run step by step on whole arrays: no memory is shared, nothing is tiled."""
    values = list(registers)
    for s in steps:
        one = Chain.compile(
            [Instruction(s.rule, tuple(range(len(s.args))), s.params)],
            values[0].dtype,
            [None] * (len(s.args) - 1),
        )
        shape = np.broadcast_shapes(*(values[i].shape for i in s.args))
        out = np.empty(shape, values[0].dtype)
        one.run([values[i] for i in s.args], out, Threads())
        values.append(out)
    return values[-1]


@pytest.mark.parametrize("tile", [1, 7, 64, 1 << 15])
@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "SIZES", BlockSizes(chain_elements=tile))
    elementwise_chain.tile_layout.cache_clear()
    shape = (2, 6, 5, 3)
    x = data(shape, "f32", seed)
    operands = [data(s, "f32", seed + k) for k, s in enumerate([(1, 6, 1, 1), shape, (5, 1), ()])]
    known = [a if k % 2 == seed % 2 else None for k, a in enumerate(operands)]
    steps = random_steps(seed, len(operands))
    compiled = Chain.compile(steps, "float32", known)
    rest = [a for a, k in zip(operands, known, strict=True) if k is None]
    with np.errstate(all="ignore"):
        want = np.broadcast_to(interpret(steps, [x, *operands]), shape)
        outs = []
        for threads in (1, 3):
            out = np.empty(shape, np.float32)
            compiled.run([x, *rest], out, Threads(threads))
            outs.append(out.tobytes())
        same = x.copy()
        compiled.run([same, *rest], same, Threads())
        outs.append(same.tobytes())
        odd = np.empty((*shape[:3], 8), np.float32)[..., 1:7:2]  # any strides
        odd[...] = x
        compiled.run([odd, *rest], odd, Threads())
        np.testing.assert_array_equal(out, want)
    assert set(outs) == {outs[0]}
    assert odd.tobytes() == outs[0]


@pytest.mark.parametrize("shape", [(1, 40, 1000), (1, 3, 1000), (3, 900, 4), (70, 500, 2)])
@pytest.mark.parametrize("threads", [1, 3])
def test_calls_that_are_kept(shape: tuple[int, ...], threads: int) -> None:
    """In one tile, in several that share registers, and column by column."""
    scale, x = data((shape[0], shape[1], 1), "f32"), data(shape, "f32")
    steps = [Instruction(np.tanh, (0,)), Instruction(np.multiply, (2, 1))]
    steps.append(Instruction(np.subtract, (3, 0)))
    chain, want = Chain.compile(steps, "float32", [scale]), np.tanh(x) * scale - x
    out, team = x.copy(), Threads(threads)
    work = chain.kept([out], out, out.size)
    assert work is not None
    assert chain.kept([out], out, out.size - 1) is None
    for _ in range(2):
        out[...] = x
        with team.lock:
            work(team.member())
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("seed", range(30))
def test_epilogues(seed: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    n, m, space = r.randint(1, 2), r.randint(1, 7), (r.randint(1, 5), r.randint(1, 6))
    shape = (n, m, *space)
    choices = [(1, m, 1, 1), (m, 1, 1), (), shape, (1, 1, *space), (n, 1, 1, 1), (space[1],)]
    chosen = r.sample(choices, r.randint(1, 3))
    operands = [data(s, dtype, seed + k, bad=False) for k, s in enumerate(chosen)]
    steps = random_steps(seed, len(operands))
    x = data(shape, dtype, seed)
    sizes = BlockSizes(chain_elements=r.choice([4, 1 << 15]))
    monkeypatch.setattr(blocking, "SIZES", sizes)
    known: list[Array | None] = [a if r.random() < 0.5 else None for a in operands]
    compiled = Chain.compile(steps, TYPES[dtype], known)
    given = {i: a for i, a in enumerate(operands, 1) if known[i - 1] is None}
    epilogue = compiled.bind(shape, given)
    want, got = np.empty_like(x), x.copy()
    flat = got.reshape(n, m, -1)
    width = flat.shape[2]
    rows, span = r.randint(1, m), r.randint(1, width)
    with np.errstate(all="ignore"):
        compiled.run([x, *given.values()], want, Threads())
        for i in range(n):
            for c in range(0, m, rows):
                for p in range(0, width, span):
                    at = slice(c, min(c + rows, m)), slice(p, min(p + span, width))
                    epilogue(flat[i, at[0], at[1]], i, at[0], at[1])
    assert got.tobytes() == want.tobytes()


def test_positional_is_what_needs_the_place() -> None:
    add = Chain.compile(
        [Instruction(np.add, (0, 1))], "float32", [np.ones((1, 4, 1, 1), np.float32)]
    )
    assert not add.bind((2, 4, 3, 3)).positional
    add = Chain.compile([Instruction(np.add, (0, 1))], "float32", [None])
    assert add.bind((2, 4, 3, 3), {1: np.ones((2, 4, 3, 3), np.float32)}).positional
    assert add.bind((2, 4, 3, 3), {1: np.ones((2, 1, 1, 1), np.float32)}).positional


def test_nothing_to_compute() -> None:
    x = np.empty((0, 3), np.float32)
    Chain.compile([Instruction(rules.relu, (0,))], "float32").run([x], x, Threads())
    x = np.full((2, 3), -1, np.float32)
    out = np.empty_like(x)
    Chain.compile([], "float32").run([x], out, Threads())
    assert (out == x).all()
