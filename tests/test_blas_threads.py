"""Products of matrices use one thread of the BLAS while any plan runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import pytest

from irdeconv.kernels.shared import blas


class Library:
    """A BLAS that counts how often its number of threads is set."""

    def __init__(self, threads: int) -> None:
        self.threads, self.calls = threads, 0

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, count: int) -> None:
        self.threads, self.calls = count, self.calls + 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library(3)
    monkeypatch.setattr(blas, "_libraries", lambda: [made])
    return made


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
