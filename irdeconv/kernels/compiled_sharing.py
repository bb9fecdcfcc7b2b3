"""Threads that share compiled calls without the interpreter; imported only if numba is installed.

They wait by looking at numbers that others change, which takes less than a microsecond, where
waking a thread up takes some 20 or more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from irdeconv.kernels import jit
from irdeconv.kernels.scratch import ALIGNMENT

_WORD = ir.IntType(64)


def _call(context: Any, step: Any, record: Any, bases: Any) -> Any:
    """Call the function at an address."""

    # By address: the loop over a table calls any function without a branch for each of them.
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
        step, *arguments = values
        builder.call(builder.inttoptr(step, kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


call_step: Any = intrinsic(_call)


def _add(context: Any, place: Any, number: Any) -> Any:
    """Add to the number at an address, undivided by other threads; return the old one."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place, number = values
        pointer = builder.inttoptr(place, _WORD.as_pointer())
        return builder.atomic_rmw("add", pointer, number, "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _load(context: Any, place: Any) -> Any:
    """Return the number at an address, and see what was written before it was."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(values[0], _WORD.as_pointer()), "seq_cst", 8)

    return types.int64(types.int64), generate


def _store(context: Any, place: Any, number: Any) -> Any:
    """Replace the number at an address, for others to see after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], _WORD.as_pointer())
        builder.store_atomic(values[1], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


add, load, store = (intrinsic(kind) for kind in (_add, _load, _store))


EAGER_LOOKS = 20_000  # at what another thread will change, before others may have the processor
PATIENT_LOOKS = 2000  # for which a thread that stands by lets others have it, before it leaves
OPENED, INSIDE, EXPIRED, POSTED = 0, 8, 16, 64  # bytes, in a post
TABLE, PIECES, PHASES, COUNT, COUNTERS, BASES = range(0, 48, 8)  # bytes, in a job


@jit.compiled
def _wait(looks: int, give_way: int) -> int:
    """Let other threads have the processor, after some looks; returns their number."""
    if give_way and looks > EAGER_LOOKS:
        call_step(give_way, 0, 0)
    return looks + 1


@jit.compiled
def _do_job(job: int, give_way: int) -> None:
    """Make the calls of a table that threads share: phase by phase, piece by piece.

    A phase begins when all pieces of the one before it have ended. One word counts the phases and,
    in its lower half, the pieces of the present one that were taken; another one all pieces that
    have ended. So a thread that comes late finds its place, and any number of them may come.
    """
    table, pieces, bases = load(job + TABLE), load(job + PIECES), load(job + BASES)
    phases, count, taken = load(job + PHASES), load(job + COUNT), load(job + COUNTERS)
    ended = taken + ALIGNMENT  # in another cache line: one that changes slows down who looks at it
    turn = add(taken, 1)
    while turn >> 32 < count:
        phase = turn >> 32
        first, last = load(phases + 8 * phase), load(phases + 8 * phase + 8)
        done, piece = 0, first + turn - (phase << 32)
        # The phase cannot end before the pieces are counted that this thread has done.
        while piece < last:
            words = pieces + 8 * piece
            for c in range(load(words), load(words + 8), 2):
                call_step(load(table + 8 * c), load(table + 8 * c + 8), bases)
            done += 1
            piece = first + add(taken, 1) - (phase << 32)
        if done > 0 and add(ended, done) + done == last:
            store(taken, (phase + 1) << 32)
        looks = 0
        while load(taken) >> 32 == phase:
            looks = _wait(looks, give_way)
        turn = add(taken, 1)


def _lead(job: int, post: int, give_way: int) -> None:
    """Do a job, together with the threads that stand by at a post.

    The post is open while its first word is odd. No thread enters a closed post, and the job ends
    when the last one has left it; so its counters can be cleared before the next run.
    """
    counters = load(job + COUNTERS)
    store(counters, 0)
    store(counters + ALIGNMENT, 0)
    add(post + OPENED, 1)
    _do_job(job, give_way)
    add(post + OPENED, 1)
    looks = 0
    while load(post + INSIDE) > 0:
        looks = _wait(looks, give_way)


def _stand_by(post: int, number: int, ticket: int, give_way: int) -> None:
    """Do the jobs of a post, until none came for about a millisecond or tickets have expired."""
    looks, seen = 0, 0
    while looks < EAGER_LOOKS + PATIENT_LOOKS and load(post + EXPIRED) < ticket:
        now = load(post + OPENED)
        if now == seen or now % 2 == 0:
            looks = _wait(looks, give_way)
            continue
        seen, looks = now, 0
        add(post + INSIDE, 1)
        # Both are asked again: from here on the job waits for this thread, unless another one has
        # been sent in its place.
        if load(post + OPENED) == now and load(post + EXPIRED) < ticket:
            _do_job(load(post + POSTED + 8 * number), give_way)
        add(post + INSIDE, -1)


@cache
def sharing() -> tuple[Callable[..., None], Callable[..., None]]:
    """Return `_lead` and `_stand_by`, compiled only where threads share calls."""
    return (
        jit.compiled_for("void(int64, int64, int64)")(_lead),
        jit.compiled_for("void(int64, int64, int64, int64)")(_stand_by),
    )
