"""Products of matrices use one thread of the BLAS while any plan runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import TypeVar

import pytest

import irdeconv as ird
from irdeconv.kernels import blas
from irdeconv.verify.comparison import compare_plan
from irdeconv.verify.partner import Partner

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


def use(monkeypatch: pytest.MonkeyPatch, library: Library) -> Library:
    monkeypatch.setattr(blas, "_libraries", lambda: [library])
    monkeypatch.setattr(blas, "_by_kind", cache(blas._by_kind.__wrapped__))
    blas._by_kind()
    library.calls = 0
    return library


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return use(monkeypatch, Library(3))


def elsewhere(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as other:
        return other.submit(work).result()


def entered(enter: Callable[[], AbstractContextManager[None]]) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(enter())
    return stack


def test_it_stays_until_the_last_one_leaves_in_whatever_order(library: Library) -> None:
    first, second = entered(blas.one_blas_thread), entered(blas.one_blas_thread)
    first.close()
    assert library.threads == 1
    third = entered(blas.one_blas_thread)
    second.close()
    assert library.threads == 1
    third.close()
    assert (library.threads, library.calls) == (3, 2)


def test_what_others_set_is_what_it_goes_back_to(library: Library) -> None:
    with blas.one_blas_thread():
        pass
    library.threads = 2
    with blas.one_blas_thread():
        assert library.threads == 1
    assert library.threads == 2


def test_an_error_leaves_as_well(library: Library) -> None:
    with pytest.raises(KeyError), blas.one_blas_thread():
        raise KeyError
    assert library.threads == 3


def test_a_child_can_enter_though_another_thread_held_the_lock(library: Library) -> None:
    with blas._ONE._lock:
        blas._ONE.after_fork()  # as in a child that is forked now
        with blas.one_blas_thread():
            assert library.threads == 1
    assert library.threads == 3


@pytest.mark.parametrize("kind", [Library, OwnNumbers])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_finding_out_the_kind_changes_nothing(
    kind: type[Library], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = use(monkeypatch, kind(threads))
    assert blas._by_kind() == (([made], []) if kind is OwnNumbers else ([], [made]))
    assert (made.get_num_threads(), elsewhere(made.get_num_threads)) == (threads, threads)


def test_each_thread_has_one_where_numbers_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, OwnNumbers(3))
    with ThreadPoolExecutor(1) as other:
        outer = entered(blas.one_blas_thread)
        inner = other.submit(entered, blas.one_blas_thread).result()
        outer.close()  # what others have set meanwhile changes nothing
        assert (made.get_num_threads(), other.submit(made.get_num_threads).result()) == (3, 1)
        again = entered(blas.one_blas_thread)
        other.submit(inner.close).result()
        assert made.get_num_threads() == 1
        again.close()
        assert made.get_num_threads() == 3


def test_threads_of_a_team_keep_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = use(monkeypatch, OwnNumbers(3))
    with ThreadPoolExecutor(1, initializer=blas.use_one_blas_thread) as worker:
        assert worker.submit(made.get_num_threads).result() == 1
        made.set_num_threads(3)
        assert worker.submit(made.get_num_threads).result() == 1


def test_products_of_every_thread_are_on_one_whoever_was_first() -> None:
    def inside() -> list[int]:
        with blas.one_blas_thread():
            return [library.get_num_threads() for library in blas._libraries()]

    here = inside()
    assert here == [1] * len(here)
    assert elsewhere(inside) == here  # threadpoolctl leaves what other threads set to the first one


def test_both_sides_of_a_comparison_begin_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
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
