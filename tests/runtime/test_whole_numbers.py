"""Plans multiply numbers that become u8 in f32; every bit is that of integers."""

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.dtypes import f32, i32, u8
from irdeconv.ops.activation import Clamp
from irdeconv.ops.basic import Convert
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add, Multiply, Round, Subtract
from irdeconv.ops.matrix import MatMul
from support.plan_graphs import Builder, plans, randn

RNG = np.random.default_rng(3)
WINDOW = ((1, 1), (1, 1), (1, 1))


def weights(*shape, high=127):
    return RNG.integers(-high, high + 1, shape, np.int32)


LAYERS = {
    "product": (MatMul(), (5, 40), weights(40, 6)),
    "transposed": (MatMul(transpose_b=True), (2, 5, 40), weights(6, 40)),
    "vector": (MatMul(), (3, 40), weights(40)),
    "single term": (MatMul(), (7, 1), weights(1, 4)),
    "convolution": (Convolution(*WINDOW), (1, 16, 20, 24), weights(16, 16, 3, 3)),
    "many channels": (Convolution(*WINDOW), (1, 128, 28, 28), weights(128, 128, 3, 3, high=90)),
    "groups": (GroupConvolution(*WINDOW), (1, 6, 7, 7), weights(3, 4, 2, 3, 3)),
    "too large": (MatMul(), (5, 40), weights(40, 6, high=1 << 15)),
}


def network(op, shape, filter, top=255.0):
    b, x = Builder.of(shape)
    ends = b.input((), name="zero")
    narrow = [b.add(Convert(u8), b.add(Clamp(0.0, top), v)) for v in (x, ends)]
    back = b.add(Add(), b.add(Round(), x), b.add(Convert(f32), narrow[1]))
    whole = [b.add(Convert(i32), v) for v in narrow]
    sums = b.add(Convert(f32), b.add(op, b.add(Subtract(), *whole), filter))
    return b.done(b.add(Multiply(), sums, np.float32(0.37)), back)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_bits_of_integers(layer):
    op, shape, filter = LAYERS[layer]
    x = 300 * randn(*shape)
    x.flat[0] = np.nan
    for zero in (0.0, 127.9, 255.0, np.nan):
        feeds = [x, np.array(zero, np.float32)]
        steps, outs, plain = plans(network(op, shape, filter), feeds)
        for name, want in plain.items():
            np.testing.assert_array_equal(outs[name].view(np.int32), want.view(np.int32))
        assert any("Whole" in step for step in steps) == (layer != "too large")


def test_threads_change_nothing():
    op, shape, filter = LAYERS["convolution"]
    graph, feeds = network(op, shape, filter), [90 * randn(*shape), np.array(7, np.float32)]
    first, *others = (ird.compile(graph, None, threads=n).run(feeds) for n in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(other["y0"], first["y0"])


def test_numbers_beyond_a_byte_stay_integers():
    op, shape, filter = LAYERS["product"]
    feeds = [300 * randn(*shape), np.array(7, np.float32)]
    steps, outs, plain = plans(network(op, shape, filter, top=256.0), feeds)
    assert not any("Whole" in step for step in steps)
    np.testing.assert_array_equal(outs["y0"], plain["y0"])
