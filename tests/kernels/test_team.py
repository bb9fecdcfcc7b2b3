"""Threads that share a kernel's work: which work they share, and whose memory they use."""

import os
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import threads as teams
from irdeconv.kernels.scratch import Space, shares
from irdeconv.kernels.threads import Threads, Turn
from support.rows import each_row


@pytest.mark.parametrize(
    ("alone", "shared", "want"),
    [
        (1e-3, 2e-3, "SSSSaaaSSa"),
        (1e-3, 5e-4, "SSSSaaSaaS"),
        (teams.NEVER_SHARED / 2, 1e-3, "SSSSaaaaaa"),
        (1.5 * teams.ALWAYS_SHARED, 1.0, "SSSSaaSaaS"),
    ],
)
def test_a_kernel_takes_the_faster_way_and_looks_again(
    alone: float, shared: float, want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = [0.0], []

    def work(_: Threads, __: Any, ___: Any, threads: int) -> None:
        seen.append("S" if threads > 1 else "a")
        clock[0] += shared if threads > 1 else alone

    monkeypatch.setattr(teams, "AGAIN", 8)
    monkeypatch.setattr(teams, "SOON", 8)
    monkeypatch.setattr(teams, "RUNS_TRIED", 2)
    monkeypatch.setattr(teams, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(Threads, "run", work)
    member = Threads(2).member()
    for _ in want:
        member.begin()
        member.each(range(2), lambda *_: None)
    assert "".join(seen) == want


def test_calls_of_a_kernel_are_told_apart_by_their_order() -> None:
    member = Threads(2).member()
    seen = []
    for _ in range(3):
        member.begin()
        for size in (5, 1, 0, 3):
            member.each(range(size), lambda i, _: seen.append(i))
    assert len(member._times) == 2  # type: ignore[attr-defined]
    assert sorted(seen) == sorted(3 * [*range(5), 0, *range(3)])


def test_one_thread_has_nothing_to_learn() -> None:
    team = Threads(1)
    assert team.member() is team


def test_members_share_threads_and_memory() -> None:
    team = Threads(2)
    one, other = team.member(), team.member()
    assert one.space is other.space is team.space
    spaces: set[int] = set()
    for member in (one, other):
        meeting = threading.Barrier(2, timeout=10)

        def work(_: int, space: Space, meeting: Any = meeting) -> None:
            meeting.wait()  # for the other thread
            spaces.add(id(space))

        member.begin()
        member.each(range(2), work)
    assert len(spaces) == 2
    with pytest.raises(ValueError, match="no"):
        one.each([1, 2], lambda *_: (_ for _ in ()).throw(ValueError("no")))


def test_the_caller_does_not_wait_for_threads_that_have_something_else_to_do() -> None:
    """As after a fork, where they do not exist, or where they wake up late."""
    team, release, seen = Threads(2), threading.Event(), []
    assert team._pool is not None
    team._pool.submit(release.wait, 60)
    array = np.zeros(3)
    before = sys.getrefcount(array)
    try:
        team.each(range(5), lambda i, _, array=array: seen.append(i))  # type: ignore[misc]
        assert seen == list(range(5))
        assert sys.getrefcount(array) == before  # what waits in the queue keeps nothing
        assert not release.is_set()
    finally:
        release.set()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors cannot be chosen")
@pytest.mark.parametrize("count", [2, 3])
def test_threads_wake_up_on_other_processors_and_may_then_use_all(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, seen = set(range(6)), list[tuple[int, set[int]]]()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(os, "sched_setaffinity", lambda t, some: seen.append((t, set(some))))
    monkeypatch.setattr(teams, "_processor", lambda: lambda: 4)
    team, meeting = Threads(count), threading.Barrier(count, timeout=10)
    team.each(range(count), lambda *_: meeting.wait())  # threads begin
    seen.clear()
    team.each(range(count), lambda *_: meeting.wait())
    hints = dict(seen[: count - 1])
    assert len(hints) == count - 1
    assert sorted(p for some in hints.values() for p in some) == [0, 1, 2, 3, 5]
    assert seen[count - 1 :] == [(0, allowed)] * (count - 1)


def test_an_interrupt_waits_for_the_other_thread() -> None:
    team, caller = Threads(2), threading.get_ident()
    begun, ended = threading.Event(), []

    def work(item: int, _: Space) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        for _i in range(50):
            time.sleep(0.002)
        ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        team.each(range(2), work)
    assert len(ended) == 1


def test_waiting_itself_may_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, times = teams.wait, iter([KeyboardInterrupt, None])

    def interrupted(futures: Any) -> Any:
        error = next(times)
        if error is not None:
            raise error
        return wait(futures)

    monkeypatch.setattr(teams, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Threads(2).each(range(4), lambda *_: None)
    assert next(times, "all") == "all"


@each_row("size", [1, 2, 3, 5, 8, 9, 17, 64, 129])
@each_row("pieces", [1, 2, 3, 4, 7])
def test_pieces_are_as_many_as_wanted_and_even_where_that_is_near(size: int, pieces: int) -> None:
    def found(count: int) -> int:
        return -(-size // -(-size // count))

    got = -(-size // shares(size, pieces))
    some = [found(k) for k in range(min(size, pieces), min(size, pieces) + 3)]
    assert got in some
    assert got == 1 or got % 2 == 0 or (got == some[0] and all(n % 2 for n in some))


@pytest.mark.parametrize(
    ("callbacks", "refused"), [("abc", False), ("a a a", False), ("aa", True), ("  bb", True)]
)
def test_who_waits_is_refused_where_one_callback_does_not_return(callbacks, refused):
    """Each letter is the callback that is running when the lock is not to be had."""
    turn, running = Turn(), iter(callbacks)

    class Held:
        def acquire(self, timeout):
            letter = next(running, None)
            turn._callback = (letter or "").strip() or None
            return letter is None

        def release(self):
            pass

    turn._lock = Held()
    if refused:
        with (
            pytest.raises(RuntimeError, match=r"not returned for 2 s.*compile a second plan"),
            turn,
        ):
            pass
    else:
        with turn:
            assert next(running, None) is None
