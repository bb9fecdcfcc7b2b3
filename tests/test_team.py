"""Threads that share a kernel's work: which work they share, and whose memory they use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irdeconv.kernels import team as teams
from irdeconv.kernels.team import Alone, Space, Team


@pytest.mark.parametrize(
    ("alone", "shared", "want"),
    [
        (1.0, 2.0, [True, False, True, False, False, False, False, True, False]),
        (2.0, 1.0, [True, False, True, False, True, True, True, False, True]),
        (teams.SHORT / 2, 1.0, [True, *[False] * 8]),
    ],
)
def test_a_kernel_takes_the_faster_way_and_looks_again(
    alone: float, shared: float, want: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = [0.0], []

    def work(_: Team, __: Any, ___: Any, threads: int) -> None:
        seen.append(threads > 1)
        clock[0] += shared if threads > 1 else alone

    monkeypatch.setattr(teams, "AGAIN", 8)
    monkeypatch.setattr(teams, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(Team, "_work", work)
    member = Team(2).member()
    for _ in want:
        member.begin()
        member.each(range(2), lambda *_: None)
    assert seen == want


def test_calls_of_a_kernel_are_told_apart_by_their_order() -> None:
    member = Team(2).member()
    seen = []
    for _ in range(3):
        member.begin()
        for size in (5, 1, 0, 3):
            member.each(range(size), lambda i, _: seen.append(i))
    assert len(member._times) == 2  # type: ignore[attr-defined]
    assert sorted(seen) == sorted(3 * [*range(5), 0, *range(3)])


def test_one_thread_has_nothing_to_learn() -> None:
    team = Team(1)
    assert team.member() is team


def test_members_share_threads_and_memory() -> None:
    team = Team(2)
    one, other = team.member(), team.member()
    assert one.lock is other.lock is team.lock
    assert one.space is team.space
    spaces: set[int] = set()
    for member in (one, other, one):
        member.begin()
        member.each(range(8), lambda _, space: spaces.add(id(space)))
    assert len(spaces) <= 2
    with pytest.raises(ValueError, match="no"):
        one.each([1, 2], lambda *_: (_ for _ in ()).throw(ValueError("no")))


def test_a_kernel_inside_an_item_keeps_to_its_memory() -> None:
    """What an item had before, a kernel that runs inside does not overwrite."""
    team = Team(3)
    results: dict[int, bool] = {}

    def item(i: int, space: Space) -> None:
        mine = space.array((100,), np.int64)
        mine[...] = i
        inner = Alone(space)
        own = inner.space.array((50,), np.int64)
        own[...] = -i

        def work(k: int, inside: Space) -> None:
            inside.array((200,), np.int64)[...] = k

        inner.each(range(5), work)
        results[i] = bool((mine == i).all() and (own == -i).all())

    for _ in range(3):  # memory is handed out from one piece from the second time on
        team.each(range(6), item)
    assert results == dict.fromkeys(range(6), True)
