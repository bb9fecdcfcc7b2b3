"""Workers of Dask that do not answer: stopped, swapped out, cut off.

The scheduler waits for minutes before it gives up a worker, and asks all of them together: one that
is mute keeps the answers of the others. Here each is asked by itself, for a bounded time, and what
a mute one has to do goes to others meanwhile. When it wakes up, nobody waits for its results.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

ANSWER_TIME = 30.0  # seconds in which a scheduler has to answer
ASKED_TIME = 10.0  # seconds in which a worker has to answer a question, which takes it no time
ASKED_AT_ONCE = 50  # workers; each takes a connection
LOOK_EVERY = 5.0  # seconds between two looks at the signs of life
MUTE_LOOKS = 6  # looks without one; a number, as time also goes by while all this is stopped
Say = Callable[[str], None]


def asked(client: Any, function: Callable[..., Any], *args: object) -> dict[str, Any]:
    """Call a function on each worker; return what it returns or raises, None for no answer."""
    turns = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(worker: str) -> Any:
        async with turns:
            call = client.run(function, *args, workers=[worker], on_error="return")
            try:
                answer = (await asyncio.wait_for(call, ASKED_TIME))[worker]
            except (OSError, KeyError):  # also TimeoutError; it may be gone
                return None
            return None if isinstance(answer, OSError) else answer

    async def each() -> dict[str, Any]:
        workers = [*(await client.scheduler.identity())["workers"]]
        return dict(zip(workers, await asyncio.gather(*map(one, workers)), strict=True))

    found: dict[str, Any] = client.sync(each)
    return found


def bounded(client: Any, seconds: float, call: Callable[[], Any]) -> None:
    """Let a client do something; go on after some seconds, where workers keep it waiting."""

    async def wait() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(call(), seconds)

    client.sync(wait)


class Watch:
    """Knows which workers are mute; `end` may end one, so that another takes its place."""

    def __init__(self, client: Any, say: Say, end: Say, mute: set[str]) -> None:
        self._client = client
        self._say = say
        self._end = end
        self._mute: set[str] = set()
        self._signs: dict[str, tuple[float, int]] = {}  # the last one, and looks without a new one
        self._scheduler_mute = False
        for worker in mute:
            self._loses(worker)
        self.look()

    def others(self) -> dict[str, Any]:
        """Return what lets Dask prefer the workers that are not mute, where some are."""
        live = [worker for worker in self._signs if worker not in self._mute]
        return {"workers": live, "allow_other_workers": True} if live and self._mute else {}

    def look(self) -> None:
        """See who gives signs of life."""
        try:
            found = self._client.sync(
                self._client.scheduler.identity, callback_timeout=ANSWER_TIME
            )["workers"]
        except TimeoutError:
            if not self._scheduler_mute:
                self._scheduler_mute = True
                self._say(f"the scheduler of Dask has not answered for {ANSWER_TIME:g} s")
            return
        self._scheduler_mute = False
        self._mute &= found.keys()
        self._signs = {worker: self._sign(worker, facts) for worker, facts in found.items()}
        most = MUTE_LOOKS + len(found) // 40  # with many workers each gives signs less often
        for worker, (_, looks) in self._signs.items():
            if looks == 0 and worker in self._mute:
                self._mute.remove(worker)
                self._say(f"the worker {worker} of Dask answers again")
            elif looks >= most and worker not in self._mute:
                self._loses(worker)

    def _sign(self, worker: str, facts: Mapping[str, Any]) -> tuple[float, int]:
        last, looks = self._signs.get(worker, (facts["last_seen"], 0))
        return facts["last_seen"], looks + 1 if last == facts["last_seen"] else 0

    def _loses(self, worker: str) -> None:
        self._mute.add(worker)
        self._say(f"the worker {worker} of Dask does not answer; its items go to others")
        self._end(worker)

    def stuck(self) -> set[str]:
        """Return the tasks that mute workers have, where others could do them."""
        if not self.others():
            return set()
        given: Mapping[str, list[str]] = self._client.processing()
        return {key for worker in self._mute for key in given.get(worker, ())}

    @contextmanager
    def looking(self, take_back: Callable[[set[str]], None]) -> Iterator[None]:
        """Look now and then, in a thread of its own; `take_back` gets the tasks that are stuck."""
        over = threading.Event()

        def looks() -> None:
            while not over.wait(LOOK_EVERY):
                with suppress(Exception):  # the scheduler is gone, which the batch itself sees
                    self.look()
                    take_back(self.stuck())

        thread = threading.Thread(target=looks, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(2.0)  # it may wait for a scheduler that is mute
