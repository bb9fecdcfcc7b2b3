"""Compiled chains; where numba is not installed the same expectations hold for NumPy's."""

import os

import ml_dtypes
import numpy as np
import pytest

from irdeconv.ir.spec import Array
from irdeconv.kernels import elementwise, jit
from irdeconv.kernels.elementwise import Instruction, Rule
from irdeconv.kernels.elementwise_chain import Chain
from irdeconv.kernels.threads import Threads
from test_chain import assert_close, data

# Activation, its parameters, roundings (of f32) by which the compiled polynomial may differ.
COMPILED = [
    (elementwise.relu, (), 0),
    (elementwise.clamp, (-1.5, 2.25), 0),
    (elementwise.hsigmoid, (), 1),
    (elementwise.hswish, (), 1),
    (elementwise.sigmoid, (), 4),
    (elementwise.swish, (1.0,), 4),
    (elementwise.swish, (2.0,), 4),  # a power of two: the product is exact
    (elementwise.prelu, (), 0),
]


@pytest.mark.parametrize(
    ("rule", "params", "ulps"), COMPILED, ids=lambda v: getattr(v, "__name__", str(v))
)
def test_compiled_activations(rule: Rule, params: tuple[float, ...], ulps: float) -> None:
    """Compiled where numba is there, else the same by NumPy: bias and activation, or one alone."""
    x = data((2, 6, 5, 41), "f32")
    bias = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 6, 1, 1)
    slope = np.linspace(-1, 2, 6, dtype=np.float32).reshape(6, 1, 1)
    more: list[Array | None] = [slope] if rule is elementwise.prelu else []
    tail = (2,) if more else ()
    after = [Instruction(np.add, (0, 1)), Instruction(rule, (2 + len(more), *tail), params)]
    alone = [Instruction(rule, (0, *(t - 1 for t in tail)), params)]
    for steps, operands in ((after, [bias, *more]), (alone, more)):
        fast, slow = (Chain.compile(steps, d, operands) for d in ("float32", "float64"))
        assert fast.fused is not None or not jit.available()
        want = np.empty(x.shape, np.float64)
        with np.errstate(all="ignore"):
            # The sum is rounded before the function: by f32 first.
            first = x + bias if steps is after else x
            only = Chain.compile(alone, "float64", more)
            only.run([first.astype(np.float64)], want, Threads())
            assert slow.fused is None
            outs = []
            for threads in (1, 3):
                out = np.empty_like(x)
                fast.run([x], out, Threads(threads))
                outs.append(out)
            tile = x.copy()
            epilogue = fast.bind(x.shape)
            for i in range(2):
                for rows in (slice(0, 2), slice(2, 6)):
                    epilogue(tile.reshape(2, 6, -1)[i, rows], i, rows, slice(0, 205))
        assert outs[0].tobytes() == outs[1].tobytes()
        for got in (outs[0], tile):
            assert_close(got.astype(np.float64), want, "f32", ulps + 1, None)


def test_constants_that_vary_along_other_axes_are_not_compiled() -> None:
    """A vector of as many values as there are channels runs along the last axis all the same."""
    x = data((2, 6, 6), "f32", bad=False)
    row = np.linspace(-1, 1, 6, dtype=np.float32)
    steps = [Instruction(np.add, (0, 1)), Instruction(elementwise.relu, (2,))]
    for bias in (row, row.reshape(6, 1), row.reshape(1, 6, 1), row[:2].reshape(2, 1, 1)):
        epilogue = Chain.compile(steps, "float32", [bias]).bind(x.shape)
        tile = x.copy()
        for i in range(2):
            epilogue(tile[i], i, slice(0, 6), slice(0, 6))
        np.testing.assert_array_equal(tile, np.maximum(x + bias, 0))


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "installed", lambda: True)
    assert jit.available() == (os.environ.get("IRDECONV_FAST") != "0")
    monkeypatch.setenv("IRDECONV_FAST", "0")
    assert not jit.available()


@pytest.mark.parametrize("activation", [None, elementwise.relu, elementwise.hswish])
@pytest.mark.parametrize("behind", [False, True])
def test_residuals(activation: Rule | None, behind: bool) -> None:
    """A tensor is added before or behind the activation, on tiles with gaps between their rows."""
    x = data((2, 6, 5, 41), "f32", bad=False)
    more = data((2, 6, 5, 41), "f32", bad=False)[::-1].copy()
    bias = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 6, 1, 1)
    chosen = [activation] if activation else []
    chosen.insert(len(chosen) if behind else 0, np.add)
    steps, value = [Instruction(np.add, (0, 1))], 3
    for rule in chosen:
        steps.append(Instruction(rule, (2, value) if rule is np.add else (value,)))
        value += 1
    fast, slow = (Chain.compile(steps, d, [bias, None]) for d in ("float32", "float64"))
    assert fast.fused is not None or not jit.available()
    want = np.empty(x.shape, np.float64)
    slow.run([x.astype(np.float64), more.astype(np.float64)], want, Threads())
    epilogue, tile = fast.bind(x.shape, {2: more}), x.copy()
    for i in range(2):
        for rows in (slice(0, 2), slice(2, 6)):
            for at in (slice(0, 100), slice(100, 205)):
                epilogue(tile.reshape(2, 6, -1)[i, rows, at], i, rows, at)
    # Three roundings of sums of numbers below their sizes, and those of the activation.
    size = np.abs(x) + np.abs(bias) + np.abs(more)
    factor = size + 3 if activation is elementwise.hswish else 1
    assert np.all(np.abs(tile - want) <= 8 * np.finfo(np.float32).eps * (size + 1) * factor)


ENDINGS = {
    "f16": (elementwise.narrow, (), (np.dtype(np.float16),)),
    "bf16": (elementwise.narrow, (), (np.dtype(ml_dtypes.bfloat16),)),
    "levels": (elementwise.fake_quantize, (-1.5, 2.5, 0.0, 0.015, -1.25), (256,)),
    "levels from 0 on": (elementwise.fake_quantize, (0.0, 2.5, 0.0, 0.015, 0.0), (256,)),
    "levels above 0": (elementwise.fake_quantize, (0.5, 2.5, 0.0, 0.25, 0.5), (16,)),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("active", [False, True])
def test_endings(ending: str, by_channel: bool, active: bool) -> None:
    """Rounding or quantizing after a bias and an activation: the bits of NumPy's own casts."""
    rule, numbers, params = ENDINGS[ending]
    x = data((2, 3, 5, 41), "f32")
    channel = np.arange(3).reshape(1, 3, 1, 1) / 8 * by_channel
    known = [np.asarray(v + i * channel, np.float32) for i, v in enumerate((0.25, *numbers))]
    if numbers:
        known[3] = known[2] - known[1]
    program = [Instruction(np.add, (0, 1))]
    program += [Instruction(elementwise.relu, (2 + len(numbers),))] * active
    last = 1 + len(numbers) + len(program)
    program.append(Instruction(rule, (last, *range(2, 2 + len(numbers))), params))
    chain = Chain.compile(program, "float32", known)
    assert chain.fused is not None or not jit.available()
    with np.errstate(all="ignore"):
        want = x + known[0]
        want = np.where(want < 0, np.float32(0), want) if active else want
        if numbers:
            low, high, scale, level, first = known[1:]
            steps = np.float32(params[0] - 1)
            step = np.rint((np.clip(want, low, high) - low) / scale * steps)
            want = step * level + first
        else:
            want = want.astype(params[0]).astype(np.float32)
        for run in (lambda out: chain.fixed([x], out), lambda out: chain.prepare([x], out)):
            out = np.empty_like(x)
            run(out)(Threads(2))
            np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_numbers(dtype: type) -> None:
    """Every number of the type, the middle between neighbours, and what lies beside it."""
    words = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        edge = np.sort(words[np.isfinite(words)].astype(np.float64))
    middle = ((edge[1:] + edge[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(s * np.inf)) for s in (-1, 1)]
    drawn = np.random.default_rng(1).integers(0, 1 << 32, 10_000, dtype=np.uint32)
    every = [words.astype(np.float32), middle, *beside, drawn.view(np.float32)]
    every += [np.array([65519.99, 65520, -65520, -(2.0**-25), 1e-42], np.float32)]
    chain = Chain.compile([Instruction(elementwise.narrow, (0,), (np.dtype(dtype),))], "float32")
    with np.errstate(all="ignore"):
        x = np.concatenate(every)
        want, out = x.astype(dtype).astype(np.float32), np.empty_like(x)
        for run in (chain.fixed([x], out), chain.prepare([x], out)):
            run(Threads())
            np.testing.assert_array_equal(out, want)
            some = ~np.isnan(want)
            assert np.array_equal(np.signbit(out[some]), np.signbit(want[some]))
