"""Graphs for the tests of plans, and what compares them fused and node by node."""

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from support.layers import constant, parameter, result

RNG = np.random.default_rng(7)


class Builder:
    """Builds a graph node by node."""

    def __init__(self):
        self.graph = Graph()
        self.count = 0

    @staticmethod
    def of(shape, dtype=np.float32, name="x"):
        """Return a builder whose graph has an input, and the input."""
        b = Builder()
        return b, b.input(shape, dtype, name)

    def add(self, op, *inputs):
        self.count += 1
        values = [v if isinstance(v, Value) else self.const(v) for v in inputs]
        return Value(self.graph.add(op, values, name=f"{op.type}{self.count}").id)

    def const(self, array):
        self.count += 1
        return constant(self.graph, np.asarray(array), f"c{self.count}")

    def input(self, shape, dtype=np.float32, name="x"):
        return parameter(self.graph, shape, dtype, name)

    def done(self, *values):
        for i, v in enumerate(values):
            result(self.graph, v, f"y{i}")
        return ird.infer(self.graph)


def plans(graph, feeds, **options):
    """Run fused and node by node; return the fused plan's steps and both results."""
    fused = ird.compile(graph, None, threads=1, **options)
    outs = fused.run(feeds)
    plain = ird.compile(graph, None, threads=1, fuse=False).run(feeds)
    return [[n.type for n in s.nodes] for s in fused.steps], outs, plain


def steps_of(graph, *shapes):
    """Return the types of a fused plan's steps, whose results are those node by node."""
    steps, outs, plain = plans(graph, [randn(*shape) for shape in shapes])
    same(outs, plain)
    return steps


def same_in_every_run(graph, *shapes):
    """Run a plan with other data each time: nothing of an earlier run is left."""
    fused, plain = (ird.compile(graph, None, threads=1, fuse=fuse) for fuse in (True, False))
    for _ in range(2):
        data = [randn(*shape) for shape in shapes]
        same(fused.run(data), plain.run(data))


def same(outs, plain, terms=1000):
    assert list(outs) == list(plain)
    for name, want in plain.items():
        got = outs[name]
        assert got.dtype == want.dtype
        unit = np.finfo(np.float32).eps if want.dtype != np.float64 else np.finfo(np.float64).eps
        scale = np.abs(want).max(initial=0)
        np.testing.assert_allclose(got, want, rtol=0, atol=terms * unit * float(scale))


def randn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)
