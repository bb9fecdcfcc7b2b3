"""Steps of small networks: products, sums over letters, running sums, computed places, short rows.

Each is compared with NumPy, as calls of NumPy and, where numba is installed, as compiled calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.spec import Array
from irdeconv.kernels import copies, jit, products, recorded_calls, recurrent, scratch
from irdeconv.kernels.contractions import Contraction
from irdeconv.kernels.copies import CastKernel
from irdeconv.kernels.elementwise import sigmoid
from irdeconv.kernels.jit import ADDED, SUBTRACTED
from irdeconv.kernels.reductions import (
    FEW_TERMS,
    Attention,
    MatrixProduct,
    Mean,
    ReducedRows,
    RunningSum,
    Softmax,
)
from irdeconv.kernels.threads import Threads, arithmetic
from irdeconv.ops.basic import convert
from irdeconv.ops.indexing import stable_order
from support.commands import Patch

fast = pytest.mark.skipif(not jit.available(), reason="numba is not installed")
SIZES = {"b": 2, "n": 3, "d": 5, "e": 7, "i": 4, "p": 6, "h": 2, "w": 9}


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def results(
    kernel: Any, arrays: list[Array], shape: tuple[int, ...], dtype: Any = np.float32
) -> Iterator[Array]:
    """Yield what a kernel writes by NumPy, then what its compiled calls write, if it has some."""
    team = Threads(1)
    with team.lock, arithmetic():
        member, out = team.member(), np.full(shape, 7, dtype)
        member.begin()
        kernel(*arrays, out=out, team=member)
        yield out
        work = kernel.fixed(*arrays, out=(again := np.full(shape, 7, dtype)))
        if work is not None:
            work(member)
            yield again


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "equation",
    "bnd,bne->bnde bnd,bnd->bn bnd,bnde,bn->bne nipb,ipd->bnd bnd,bed->bne bdi,bie,bep->pbd "
    "bn,n->b b,d,e->ebd nbhwd,nde->bhwen bnd,dnb-> bn,bn->nb".split(),
)
def test_contraction(equation: str, known: bool) -> None:
    left, out = equation.split("->")
    terms = left.split(",")
    arrays = [numbers(*(SIZES[c] for c in term)) for term in terms]
    constants = (*(None for _ in terms[1:]), arrays[-1] if known else None)
    plan = Contraction.of(terms, out, [a.shape for a in arrays], constants)
    assert plan is not None
    wanted = np.einsum(equation, *(a.astype(np.float64) for a in arrays))
    found = list(results(plan, arrays, wanted.shape))
    assert len(found) == 2
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("terms", "out"), [(["bd", "be"], ""), (["bb", "b"], "b"), (["bd"], "db")])
def test_no_contraction(terms: list[str], out: str) -> None:
    shapes = [tuple(3 for _ in term) for term in terms]
    assert Contraction.of(terms, out, shapes, (None, None)) is None


@fast
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 9, 17])
@pytest.mark.parametrize("columns", [1, 3, 4, 9, 16, 17, 33, 70, 150, 260])
def test_products(rows: int, columns: int) -> None:
    for left, right, known in (
        ((rows, 5), (5, columns), True),
        ((2, rows, 5), (2, 5, columns), False),
        ((2, 3, rows, 5), (5, columns), False),
        ((2, 1, rows, 5), (2, 3, 5, columns), False),
    ):
        a, b = numbers(*left), numbers(*right)
        for turned in (False, True):
            given = np.ascontiguousarray(b.swapaxes(-1, -2)) if turned else b
            wanted = np.matmul(a.astype(np.float64), b)
            kernel = MatrixProduct((False, turned), given if known else None)
            for one in results(kernel, [a, given], wanted.shape):
                np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


@fast
@pytest.mark.parametrize("turned", [False, True])
def test_few_rows_by_a_large_known_matrix(turned: bool) -> None:
    a, b = numbers(3, 5, 256), numbers(*((600, 256) if turned else (256, 600)))
    kernel = MatrixProduct((False, turned), b)
    found = list(results(kernel, [a, b], (3, 5, 600)))
    work = kernel.fixed(a, b, out=np.empty((3, 5, 600), np.float32))
    assert isinstance(work, recorded_calls.SharedCalls)  # not the BLAS
    for one in found:
        np.testing.assert_allclose(one, a.astype(np.float64) @ (b.T if turned else b), 1e-4, 1e-4)


@fast
def test_a_row_reads_neighbours() -> None:
    """Columns that one row multiplies at once lie behind one another; matrices begin anew."""
    wide = 8 * jit.lanes()
    first, then = numbers(3, wide + 1), numbers(3, 5)
    panels = products.column_panels(first, then)
    assert panels.shape == (3, 3, wide)
    np.testing.assert_array_equal(panels[0], first[:, :wide])
    np.testing.assert_array_equal(panels[1:, :, 0], [first[:, wide], then[:, 0]])
    assert not panels[1, :, 1:].any()
    assert products.column_panels(then).shape == (1, 3, jit.lanes())


LATER = [np.tanh, np.tanh]
ACTIVATIONS = {"rnn": LATER[:1], "gru": [sigmoid, np.tanh], "lstm": [sigmoid, *LATER]}


@fast
@pytest.mark.parametrize("size", [1, 16, 17, 64, 100, 130])
@pytest.mark.parametrize(
    ("cell", "bias"), [("rnn", None), ("lstm", None), ("gru", None), ("gru", 0.5)]
)
@np.errstate(all="ignore")
def test_cells(cell: Any, bias: float | None, size: int) -> None:
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell]
    r, x = numbers(gates * size, size) / 9, numbers(2, 3, gates * size)
    states = (numbers(2, size),) * (2 if cell == "lstm" else 1)
    late = np.full((1, 1, size), 0 if bias is None else bias, np.float32)
    lengths, reset = np.array([3, 2]), None if bias is None else late
    calls = recurrent.NumPyCell(cell, ACTIVATIONS[cell], 0.0, r[None], reset)
    want = calls.scan(x[None], tuple(s[:, None] for s in states), lengths, True)
    loop = recurrent.CompiledScan(cell, 0.0, bias is not None, r)
    got = loop.scan(x.copy(), states, lengths, late[0, 0], reverse=True)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other[:, 0], atol=1e-5)


@fast
def test_shapes_share_a_packed_matrix() -> None:
    a, b = numbers(16, 256), numbers(256, 600)
    known = b.view()
    known.flags.writeable = False

    def packed(rows: int) -> list[int]:
        out = np.empty((rows, 600), np.float32)
        work = MatrixProduct((False, False), known).fixed(a[:rows], b, out=out)
        assert isinstance(work, recorded_calls.SharedCalls)
        kept.append(work)
        arrays = [k for phase in work.phases for piece in phase for k in piece.kept]
        return [id(k) for k in arrays if isinstance(k, np.ndarray) and k.size >= b.size]

    kept: list[recorded_calls.SharedCalls] = []
    first = packed(8)
    assert first
    assert packed(9) == first
    b[0, 0] += 1  # other elements at the same place
    assert packed(8) != first


@pytest.mark.parametrize("name", ["i32", "u8", "i8"])
def test_casts(name: str) -> None:
    whole = ELEMENT_TYPES[name].container
    ends = [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 300.7, -300.2, -1.5, 255.9, -0.0, 1e-40]
    x = np.concatenate([np.array(ends, np.float32), 1000 * numbers(77)])
    cut = np.trunc(x.astype(np.float64))
    inside = np.where((cut >= -(2.0**31)) & (cut < 2.0**31), cut, -(2.0**31))
    wanted = inside.astype(np.int64).astype(whole)
    np.testing.assert_array_equal(convert(x, ELEMENT_TYPES[name]), wanted)
    for cuts, source in ((True, x), (False, wanted)):
        target = wanted if cuts else wanted.astype(np.float32)
        for one in results(CastKernel(cuts), [source], target.shape, target.dtype):
            np.testing.assert_array_equal(one, target)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(2, 8, 5), (5,), (3, 1, 4), (100, 3), (3, 0, 2)])
def test_running_sums(shape: tuple[int, ...], exclusive: bool, reverse: bool) -> None:
    x = numbers(*shape)
    for axis in range(len(shape)):
        wanted = np.cumsum(np.flip(x, axis) if reverse else x, axis)
        if exclusive and shape[axis]:
            wanted = np.roll(wanted, 1, axis)
            wanted[(*(slice(None),) * axis, slice(0, 1))] = 0
        wanted = np.flip(wanted, axis) if reverse else wanted
        for one in results(RunningSum(axis, exclusive, reverse), [x], shape):
            np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("block", [(64, 4, 3), (5, 2, 100), (1, 16, 7), (4, 17, 3), (3, 5, 1)])
def test_means(block: tuple[int, int, int]) -> None:
    x = numbers(*block)
    for one in results(Mean(block, block[1]), [x], (block[0], block[2])):
        np.testing.assert_allclose(one, x.astype(np.float64).mean(1), rtol=1e-4, atol=1e-6)
    for one in results(Mean(block, 0), [x], (block[0], block[2])):
        np.testing.assert_allclose(one, np.linalg.norm(x.astype(np.float64), axis=1), rtol=2e-6)


@pytest.mark.parametrize("shape", [(2, 256), (3, 30, 256), (101, 256)])
def test_products_with_a_transposed_matrix(shape: tuple[int, ...], monkeypatch: Patch) -> None:
    """The bits of two orders of matrices differ, so both are held to the exact sums."""
    a, b = numbers(*shape), numbers(300, 256)
    for in_place in (False, True):
        monkeypatch.setattr(products, "multiplies_in_place", lambda given=in_place: given)
        for one in results(MatrixProduct((False, True)), [a, b], (*shape[:-1], 300)):
            np.testing.assert_allclose(one, a.astype(np.float64) @ b.T, rtol=1e-4, atol=1e-4)
        with arithmetic():
            sums = products.affine(a, b, b[:, 0])
        assert sums.flags.c_contiguous
        np.testing.assert_allclose(sums, a.astype(np.float64) @ b.T + b[:, 0], 1e-5, 1e-4)


@pytest.mark.parametrize("block", [(300, 3, 1), (5, 16, 7), (1, 1, 4), (2000, 4, 1), (7, 99, 1)])
@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum, np.multiply])
def test_few_terms(block: tuple[int, int, int], ufunc: np.ufunc) -> None:
    x = numbers(*block)
    x[0, 0, 0] = np.nan
    kernel = ReducedRows.of(block, ufunc)
    if block[1] > FEW_TERMS and ufunc is np.multiply:
        assert kernel is None
        return
    assert kernel is not None
    for one in results(kernel, [x], (block[0], block[2])):
        np.testing.assert_array_equal(one, ufunc.reduce(x, axis=1))
    assert ReducedRows.of((3, 17, 2), ufunc) is None


@pytest.mark.parametrize("apart", [0, 200])
@pytest.mark.parametrize("block", [(40, 6, 1), (40, 50, 1), (20, 5, 3), (2, 6, 1)])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_rows_near_and_far(block: tuple[int, int, int], apart: int, log: bool) -> None:
    x = numbers(*block) + np.float32(apart) * (np.arange(block[0]) % 2)[:, None, None]
    x = x.astype(np.float32)
    wide = x.astype(np.float64) - x.max(1, keepdims=True)
    wanted = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    for one in results(Softmax(block, log), [x], block):
        np.testing.assert_allclose(one, wanted if log else np.exp(wanted), 1e-5, 1e-6 * log)


@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize("scale", [1, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_small_attention(width: int, scale: int, causal: bool) -> None:
    q, k, v = numbers(1, 4, 9, 5) * np.float32(scale), numbers(2, 4, 6, 5), numbers(2, 4, 6, width)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / 5**0.5
    if causal:
        scores[..., np.arange(6) > np.arange(9)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    attention, out = Attention(causal=causal), np.empty(wanted.shape, np.float32)
    team = Threads(1)
    with team.lock, arithmetic():
        attention.run((q, k, v), None, None, out, team.member())
        np.testing.assert_allclose(out, wanted, 1e-4, 1e-4)
        kept = attention.fixed(q, k, v, again := np.empty_like(out))
        assert kept is not None or causal
        if kept is not None:
            kept(team.member())
            np.testing.assert_allclose(again, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("largest", [False, True])
def test_order_of_rows(largest: bool) -> None:
    """Signs of zeros, infinities and equal numbers; with a NaN in another way."""
    some = np.array([-np.inf, -2, -1e-42, -0.0, 0, 1e-42, 2, np.inf], np.float32)
    x = np.random.default_rng(0).choice(some, (50, 20))
    assert_array_equal = np.testing.assert_array_equal
    for rows in (x, np.where(x == 2, np.float32(np.nan), x)):
        wanted = stable_order(rows.astype(np.float64), largest=largest)
        assert_array_equal(stable_order(rows, largest=largest), wanted)
    first = [sorted(range(20), key=lambda k: (-r[k] if largest else r[k], k)) for r in x]
    assert_array_equal(stable_order(x, largest=largest), first)


@fast
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_write_rows_of_all_parts_that_are_joined(threads: int) -> None:
    """Parts that lie between each other share cache lines."""
    parts = [np.random.default_rng(k).random((1, 70, 300, k), np.float32) for k in (1, 2, 1)]
    out = np.empty((1, 70, 300, 4), np.float32)
    with scratch.shared_by(threads):
        work = copies.ConcatKernel.of((1, 2, 1), 3).fixed(*parts, out=out)
    assert len(work.pieces) == (1 if threads == 1 else 2 * threads)
    work(Threads(threads))
    np.testing.assert_array_equal(out, np.concatenate(parts, 3))


@fast
@pytest.mark.parametrize(("width", "pieces"), [(1000, 1), (20_000, 2)])
def test_only_long_copies_are_shared(width: int, pieces: int) -> None:
    parts, out = [numbers(1, width), numbers(2, width)], np.empty((3, width), np.float32)
    joined = copies.ConcatKernel.of((1, 2), 0).fixed(*parts, out=out)
    border = copies.Border.of((2, width), (1, 0), (0, 0))
    for work, result in (
        (joined, np.concatenate(parts)),
        (border.recorded(parts[1], out, 7), np.pad(parts[1], ((1, 0), (0, 0)), constant_values=7)),
    ):
        assert work is not None
        work(Threads(1))
        np.testing.assert_array_equal(out, result)
        assert len(work.pieces) == pieces


@fast
def test_short_rows() -> None:
    """Operands that broadcast along rows of a few elements."""
    a, b, out = numbers(20, 1, 3), numbers(1, 30, 3), np.empty((20, 30, 3), np.float32)
    code = recorded_calls.ProgramCode([(SUBTRACTED, (0, 1), 3), (ADDED, (3, 2), 3)], (), 0)
    work = recorded_calls.recorded_program(code, [a, b, np.float32([5])], out)
    copied = recorded_calls.recorded_copy(a, turned := np.empty((20, 30, 3), np.float32))
    assert work is not None
    assert copied is not None
    team = Threads(1)
    with team.lock:
        recorded_calls.Repeated((work, copied))(team.member())
    np.testing.assert_array_equal(out, a - b + 5)
    np.testing.assert_array_equal(turned, np.broadcast_to(a, turned.shape))


@fast
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_computed_places(kind: Any) -> None:
    rng, x, team = np.random.default_rng(1), numbers(3, 6, 4), Threads(1)
    at = rng.integers(-6, 6, (3, 9, 4)).astype(kind)
    out = np.empty(at.shape, np.float32)
    copies.TakeEach(1, lambda *_: np.zeros_like(out))(x, at, out=out, team=team)
    np.testing.assert_array_equal(out, np.take_along_axis(x, at.astype(np.int64) % 6, 1))
    at[1, 2, 3] = 6  # outside: the other function is asked
    copies.TakeEach(1, lambda *_: np.zeros_like(out))(x, at, out=out, team=team)
    assert not out.any()
    rows = np.ascontiguousarray(at[0, :, 0])
    want = np.where((rows >= 0)[None, :, None], x[:, rows % 6], 0)
    for some in (at[0, :, 0], rows):
        for one in results(copies.TakeRows(1, wraps=False), [x, some], want.shape):
            np.testing.assert_array_equal(one, want)


@fast
@pytest.mark.parametrize(
    ("way", "ufunc"), [(1, np.add), (2, np.multiply), (3, np.minimum), (4, np.maximum)]
)
def test_combined_places(way: int, ufunc: np.ufunc) -> None:
    x, updates = numbers(3, 6, 4), numbers(3, 9, 4)
    updates[0, 0, 0] = x[1, 1, 1] = np.nan
    at = np.random.default_rng(1).integers(-6, 6, updates.shape)
    wanted, out = x.copy(), np.empty_like(x)
    ufunc.at(wanted, (np.arange(3)[:, None, None], at, np.arange(4)), updates)
    copies.PutEach(1, way, lambda *_: x)(x, at, updates, out=out, team=Threads(1))
    np.testing.assert_array_equal(out, wanted)


@fast
@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("largest", [False, True])
def test_best_of_rows(count: int, largest: bool) -> None:
    x = np.random.default_rng(3).integers(0, 4, (5, 2, 9)).astype(np.float32)
    x[0, 0, 4] = x[0, 0, 6] = np.nan
    x[1, 1, 2] = np.inf
    key = np.where(np.isnan(x), np.inf, x) + np.isnan(x)
    key[np.isnan(x)], key[np.isposinf(x)] = 200, 100
    order = np.argsort(-key if largest else key, -1, kind="stable")[..., :count]
    values, places = copies.best_of_rows(x, count, largest=largest)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
