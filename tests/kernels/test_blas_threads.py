"""Products of matrices, the threads of the BLAS, and scratch memory."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.kernels import machine, products
from irdeconv.kernels import scratch as blocking
from irdeconv.kernels.scratch import clear
from irdeconv.verify.comparison import compare_plan
from irdeconv.verify.partner import Partner
from support.commands import Patch

T = TypeVar("T")


class Library:
    """A BLAS whose number of threads is the process's; counts how often it is set."""

    def __init__(self, threads: int) -> None:
        self.threads, self.calls = threads, 0

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, count: int) -> None:
        self.threads, self.calls = count, self.calls + 1


class OwnNumbers(Library):
    """A BLAS with a number for each thread that sets one, as OpenBLAS 0.3.31."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.own = threading.local()

    def get_num_threads(self) -> int:
        return getattr(self.own, "threads", self.threads)

    def set_num_threads(self, count: int) -> None:
        super().set_num_threads(count)
        self.own.threads = count


def use(monkeypatch: Patch, library: Library) -> Library:
    monkeypatch.setattr(machine, "_libraries", lambda: [library])
    monkeypatch.setattr(machine, "_by_kind", cache(machine._by_kind.__wrapped__))
    machine._by_kind()
    library.calls = 0
    return library


@pytest.fixture
def library(monkeypatch: Patch) -> Library:
    return use(monkeypatch, Library(3))


def elsewhere(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as other:
        return other.submit(work).result()


def entered(enter: Callable[[], AbstractContextManager[None]]) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(enter())
    return stack


def test_it_stays_until_the_last_one_leaves_in_whatever_order(library: Library) -> None:
    first, second = entered(machine.one_blas_thread), entered(machine.one_blas_thread)
    first.close()
    assert library.threads == 1
    third = entered(machine.one_blas_thread)
    second.close()
    assert library.threads == 1
    third.close()
    assert (library.threads, library.calls) == (3, 2)


def test_what_others_set_is_what_it_goes_back_to(library: Library) -> None:
    with machine.one_blas_thread():
        pass
    library.threads = 2
    with machine.one_blas_thread():
        assert library.threads == 1
    assert library.threads == 2


def test_an_error_leaves_as_well(library: Library) -> None:
    with pytest.raises(KeyError), machine.one_blas_thread():
        raise KeyError
    assert library.threads == 3


def test_a_child_can_enter_though_another_thread_held_the_lock(library: Library) -> None:
    with machine._ONE._lock:
        machine._ONE.after_fork()  # as in a child that is forked now
        with machine.one_blas_thread():
            assert library.threads == 1
    assert library.threads == 3


@pytest.mark.parametrize("kind", [Library, OwnNumbers])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_finding_out_the_kind_changes_nothing(
    kind: type[Library], threads: int, monkeypatch: Patch
) -> None:
    made = use(monkeypatch, kind(threads))
    assert machine._by_kind() == (([made], []) if kind is OwnNumbers else ([], [made]))
    assert (made.get_num_threads(), elsewhere(made.get_num_threads)) == (threads, threads)


def test_each_thread_has_one_where_numbers_are_its_own(monkeypatch: Patch) -> None:
    made = use(monkeypatch, OwnNumbers(3))
    with ThreadPoolExecutor(1) as other:
        outer = entered(machine.one_blas_thread)
        inner = other.submit(entered, machine.one_blas_thread).result()
        outer.close()  # what others have set meanwhile changes nothing
        assert (made.get_num_threads(), other.submit(made.get_num_threads).result()) == (3, 1)
        again = entered(machine.one_blas_thread)
        other.submit(inner.close).result()
        assert made.get_num_threads() == 1
        again.close()
        assert made.get_num_threads() == 3


def test_threads_of_a_team_keep_one(monkeypatch: Patch) -> None:
    made = use(monkeypatch, OwnNumbers(3))
    with ThreadPoolExecutor(1, initializer=machine.use_one_blas_thread) as worker:
        assert worker.submit(made.get_num_threads).result() == 1
        made.set_num_threads(3)
        assert worker.submit(made.get_num_threads).result() == 1


def test_products_of_every_thread_are_on_one_whoever_was_first() -> None:
    def inside() -> list[int]:
        with machine.one_blas_thread():
            return [library.get_num_threads() for library in machine._libraries()]

    here = inside()
    assert here == [1] * len(here)
    assert elsewhere(inside) == here  # threadpoolctl leaves what other threads set to the first one


def test_both_sides_of_a_comparison_begin_with_one(monkeypatch: Patch) -> None:
    made = use(monkeypatch, OwnNumbers(3))
    seen: list[int] = []

    def start() -> Partner:
        seen.extend((made.get_num_threads(), elsewhere(made.get_num_threads)))
        raise KeyError

    text = """graph 1 "g" {
      %0 "x" = opset1.Parameter() {shape = [2], element_type = f32}
      %1 "y" = opset1.Result(%0)
    }"""
    plan = ird.compile(ird.infer(ird.parse(text)))
    with pytest.raises(KeyError):
        compare_plan(plan, start, {})
    assert (seen, made.get_num_threads()) == ([1, 1], 3)


# Products in the shapes in which OpenBLAS is fast.


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (7, 3, 130), (50, 9, 5), (33, 5, 70), (3, 40, 9), (40, 200, 90)]
)
@pytest.mark.parametrize("small", [1, 500, 20_000])
@pytest.mark.parametrize("in_place", [False, True])
@np.errstate(all="ignore")  # as the engine does
def test_products_in_tiles(
    m: int, k: int, n: int, small: int, in_place: bool, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(products, "multiplies_in_place", lambda: in_place)
    monkeypatch.setattr(blocking, "SIZES", replace(blocking.SIZES, small_macs=small))
    r = np.random.default_rng(0)
    a, b = (r.integers(-9, 10, s).astype(np.float32) for s in ((m, k), (k, n)))
    out = np.full((m, n + 3), np.nan, np.float32)
    products.multiply(a, b, out[:, :n])
    assert (out[:, :n] == a.astype(int) @ b.astype(int)).all()
    assert np.isnan(out[:, n:]).all()


def test_products_are_split_where_small_ones_are_not_packed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(products, "multiplies_in_place", lambda: True)
    for m, k, n in ((4096, 64, 1024), (8192, 1024, 16), (48, 256, 3600)):
        rows, columns = products.tile(m, k, n)
        assert 0 < rows * k * columns <= blocking.SIZES.small_macs
    assert products.tile(4096, 512, 256) == (0, 0)
    assert products.worth_copying(48, 1 << 14)
    assert not products.worth_copying(8, 1 << 14)
    assert not products.worth_copying(48, 2048)
    monkeypatch.setattr(products, "multiplies_in_place", lambda: False)
    assert products.tile(4096, 64, 1024) == products.tile(8192, 1024, 16) == (0, 0)
    assert not products.worth_copying(48, 1 << 14)


def test_rows_do_not_alias_in_the_cache() -> None:
    for columns in (1, 16, 128, 1000, 1024, 4096):
        assert products.pitch(columns, "float32") >= columns
        assert products.pitch(columns, "float32") * 4 % 512
        assert products.pitch(columns, "float64") * 8 % 512


# Scratch memory: what is filled with zeros.


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_clear_fills_only_what_it_is_given(dtype: str) -> None:
    whole = np.ones((3, 5, 12), dtype)
    clear(whole[1:, ::2, 2:9])
    clear(whole[:1, :1, ::3])
    want = np.ones((3, 5, 12), dtype)
    want[1:, ::2, 2:9] = 0
    want[:1, :1, ::3] = 0
    np.testing.assert_array_equal(whole, want)


def test_clear_of_nothing_and_of_a_scalar() -> None:
    clear(np.ones((3, 0), np.float32))
    scalar = np.ones((), np.float32)
    clear(scalar)
    assert scalar == 0
