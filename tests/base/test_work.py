"""The account of work: sums of folded constants, values, bodies; limits in threads."""

from threading import Thread

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import work
from irdeconv.ir.spec import Interval, broadcast
from irdeconv.ops.elementwise import Add, Minimum, Sqrt
from irdeconv.ops.movement import Broadcast
from support.plan_graphs import Builder
from support.rows import each_row


def test_the_sum_of_folded_constants_is_limited():
    b, x = Builder.of((1,), np.float32)
    for number in range(8):
        row = b.add(Broadcast(), np.full(1, number + 1, np.float32), np.array([10**5]))
        x = b.add(Add(), x, b.add(Sqrt(), row))
    graph = b.done(x)
    with ird.Limits(work=3 * 10**6).applied():
        some = ird.simplify(graph, max_growth=1 << 30)
    whole = ird.simplify(graph, max_growth=1 << 30)
    assert 0 < some.report.steps["folded"] < whole.report.steps["folded"]
    data = np.ones(1, np.float32)
    (a,), (b_,) = (ird.run(g, data).values() for g in (some.graph, whole.graph))
    assert np.array_equal(a, b_)


def test_limits_hold_in_threads_started_inside():
    seen = []
    with ird.Limits(work=7).applied():
        thread = Thread(target=lambda: seen.append(ird.base.limits.current().work))
        thread.start()
        thread.join()
    other = Thread(target=lambda: seen.append(ird.base.limits.current().work))
    other.start()
    other.join()
    assert seen == [7, ird.Limits().work]


def test_half_of_an_account_is_left_for_nodes():
    @work.fresh
    def spend():
        return work.room(40), work.room(20), work.take(61)

    with ird.Limits(work=100).applied():
        with pytest.raises(ird.IrdeconvError, match="the limit of work, 100") as caught:
            spend()
        assert caught.value.diagnostics[0].code == "E602"


@each_row("a", [1, 3, Interval(0, 1), Interval(1, 2), Interval(0, 3), Interval(2)])
@each_row("b", [0, 1, 3, Interval(0, 1), Interval(1, 4), Interval(2, 3)])
def test_broadcasting_intervals_holds_for_every_size(a, b):
    def sizes(d):
        return range(d.lo, 6 if d.hi is None else d.hi + 1) if isinstance(d, Interval) else [d]

    fits = {n if m == 1 else m for m in sizes(a) for n in sizes(b) if 1 in (m, n) or m == n}
    if not fits:
        with pytest.raises(ValueError, match="do not broadcast"):
            broadcast((a,), (b,))
        return
    (found,) = broadcast((a,), (b,))
    low, high = (found.lo, found.hi) if isinstance(found, Interval) else (found, found)
    assert low <= min(fits)
    assert high is None or high >= max(fits)


def test_a_layer_that_no_output_needs_may_not_fit():
    b = Builder()
    x, y = (b.input((Interval(0),), np.float32) for _ in range(2))
    b.add(Minimum(), x, y)
    graph = b.done(b.add(Sqrt(), x))
    feeds = [np.ones(2, np.float32), np.ones(3, np.float32)]
    for fuse in (True, False):
        assert [v.tolist() for v in ird.run(graph, feeds, fuse=fuse).values()] == [[1, 1]]
