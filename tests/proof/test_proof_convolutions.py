"""Ordinary convolutions in other words are proved for every size; what differs a little is not.

A convolution that only copies is a movement of the data; one that does more is none. Spellings with
few axes and within limits of devices: accepted pairs compute the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree

from irdeconv.proof import pairing, reader, symbolic
from irdeconv.proof.model import Unproved
from pair_texts import Pair, kinds, units
from pair_truth import difference, feeds
from support.rows import parts
from support.runtime_truth import Compiled, RefusedError, outputs, same
from test_rewritings import answer

pytestmark = pytest.mark.oracles


ov = pytest.importorskip("openvino")
op = pytest.importorskip("openvino.opset13")
Value = Any


def const(values: Any, dtype: Any = np.int64) -> Value:
    return op.constant(np.array(values, dtype, order="C"))


def size(x: Value, axis: int) -> Value:
    """Return the size of an axis, as a vector."""
    return op.gather(op.shape_of(x), const([axis]), const(0))


def pad(x: Value, before: list[int], behind: list[int]) -> Value:
    """Zeros around each axis; negative amounts crop."""
    return op.pad(x, const(before), const(behind), "constant", const(0, np.float32))


def convolution(x: Value, w: Any, begin: Any, end: Any, dilations: Any, strides: Any) -> Value:
    """Convolve with a filter [g, M/g, C/g, *K]."""
    args = list(strides), list(begin), list(end), list(dilations)
    if w.shape[0] == 1:
        return op.convolution(x, const(w[0], np.float32), *args)
    return op.group_convolution(x, const(w, np.float32), *args)


@dataclass(frozen=True)
class Conv:
    """Data [N, C, *I], a filter [g, M/g, C/g, *K]; `step` is how often an output is kept.

    `moved` moves the window of the last axis. With `alone` only the first input channel counts.
    """

    data: tuple[int, ...]
    filter: tuple[int, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dilations: tuple[int, ...]
    open_axes: tuple[int, ...]
    bias: int = 0
    changed: int = 0
    moved: int = 0
    alone: bool = False

    @property
    def weights(self) -> Any:
        count = int(np.prod(self.filter))
        values = np.random.default_rng(count).permutation(count) + 1.0
        values[count // 2] += self.changed
        filter = values.astype(np.float32).reshape(self.filter)
        filter[:, :, 1:] *= not self.alone
        return filter

    def biased(self, y: Value, axes: int = 0) -> Value:
        outputs = self.filter[0] * self.filter[1]
        shape = (1, outputs, *(1,) * (axes or len(self.strides)))
        return op.add(y, const(np.arange(outputs).reshape(shape) + 2 + self.bias, np.float32))

    def run(self, x: Value, strides: tuple[int, ...], w: Any = None) -> Value:
        """Convolve behind pads, without pads of its own."""
        begin = [*self.begin[:-1], self.begin[-1] + self.moved]
        end = [*self.end[:-1], self.end[-1] - self.moved]
        x, none = pad(x, [0, 0, *begin], [0, 0, *end]), [0] * len(end)
        w = self.weights if w is None else w
        return convolution(x, w, none, none, self.dilations, strides)

    def original(self, x: Value) -> Value:
        y = convolution(x, self.weights, self.begin, self.end, self.dilations, self.strides)
        return self.biased(y)


def every_nth(x: Value, steps: tuple[int, ...], start: int = 0) -> Value:
    ends = [size(x, a) for a in range(2 + len(steps))]
    first = [0] * (1 + len(steps)) + [start]
    mask = [1] * (1 + len(steps)) + [0]
    return op.strided_slice(x, const(first), op.concat(ends, 0), const([1, 1, *steps]), mask, mask)


def pads_apart(c: Conv, x: Value) -> Value:
    return c.biased(c.run(x, c.strides))


def sliced(c: Conv, x: Value) -> Value:
    """The bias in front of the slice, as a rule of the lowering has it."""
    ones = (1,) * len(c.strides)
    return every_nth(c.biased(replace(c, moved=0).run(x, ones)), c.strides, c.moved)


def halved(c: Conv, x: Value) -> Value:
    halves = tuple(s // 2 if s % 2 == 0 else s for s in c.strides)
    steps = tuple(s // h for s, h in zip(c.strides, halves, strict=True))
    return c.biased(every_nth(c.run(x, halves), steps))


def taps_in_parts(c: Conv, x: Value) -> Value:
    """The taps of the last axis, the first one apart."""
    first, rest = c.weights.copy(), c.weights.copy()
    first[..., 1:] = 0
    rest[..., 0] = 0
    return op.add(c.biased(c.run(x, c.strides, first)), c.run(x, c.strides, rest))


def inputs_in_parts(c: Conv, x: Value) -> Value:
    """Input channels one by one, the bias behind the first."""
    total = None
    for i in range(c.filter[2]):
        w = c.weights.copy()
        w[:, :, [j for j in range(c.filter[2]) if j != i]] = 0
        y = c.run(x, c.strides, w)
        total = c.biased(y) if total is None else op.add(total, y)
    return total


def planes(c: Conv, x: Value) -> Value:
    """The depth in the batch, windows of the depth as channels."""
    begin, end = [0, 0, *c.begin], [0, 0, *c.end]
    begin[-1], end[-1] = begin[-1] + c.moved, end[-1] - c.moved
    x, samples = pad(x, begin, end), size(x, 0)
    stride, by, count = c.strides[0], c.dilations[0], c.filter[3]
    last = c.data[2] + c.begin[0] + c.end[0] - by * (count - 1)
    axis, step = const([2]), const([stride])
    cuts = [op.slice(x, const([by * t]), const([by * t + last]), step, axis) for t in range(count)]
    x = op.transpose(op.concat(cuts, 1), const([0, 2, 1, 3, 4]))
    depth, channels = (last - 1) // stride + 1, c.filter[2] * count
    batch = op.multiply(samples, const([depth]))
    x = op.reshape(x, op.concat([batch, const([channels]), size(x, 3), size(x, 4)], 0), False)
    w = c.weights.swapaxes(2, 3).reshape(1, c.filter[1], channels, *c.filter[4:])
    y = c.biased(convolution(x, w, [0, 0], [0, 0], c.dilations[1:], c.strides[1:]), 2)
    shape = [samples, const([depth, c.filter[1]]), size(y, 2), size(y, 3)]
    return op.transpose(op.reshape(y, op.concat(shape, 0), False), const([0, 2, 1, 3, 4]))


PLANE = Conv((2, 4, 7, 9), (2, 3, 2, 3, 2), (2, 4), (1, 0), (0, 2), (2, 1), (0,))
LINE = Conv((2, 3, 9), (1, 2, 3, 3), (2,), (1,), (1,), (1,), (0, 2))
WIDE = replace(PLANE, open_axes=(0, 2, 3))
FIXED = replace(PLANE, open_axes=())
ALONE = replace(LINE, alone=True)  # the first part is the layer without its bias
ONE = Conv((1, 2, 4), (1, 2, 2, 3), (4,), (0,), (1,), (1,), (0,))  # an output of one place
DEEP = Conv((2, 2, 7, 4, 5), (1, 3, 2, 2, 2, 3), (3, 1, 2), (1, 0, 2), (2, 1, 0), (2, 1, 1), (0,))
FLAT = Conv((1, 2, 4, 5, 5), (1, 3, 2, 1, 2, 2), (3, 2, 1), (0, 1, 0), (0, 0, 1), (1, 2, 1), (3, 4))
THIN = replace(FLAT, data=(1, 2, 2, 5, 5), open_axes=(0, 4))  # an output of one place in depth
WAYS: dict[str, tuple[Callable[[Conv, Value], Value], tuple[Conv, ...]]] = {
    "pads apart": (pads_apart, (PLANE, LINE, WIDE, FIXED, ONE)),
    "every nth output of stride 1": (sliced, (PLANE, FIXED, ONE)),
    "every second output of half the stride": (halved, (PLANE, FIXED)),
    "taps in parts": (taps_in_parts, (PLANE, LINE, WIDE, FIXED)),
    "depth in the batch": (planes, (DEEP, FLAT, THIN)),
    "inputs in parts": (inputs_in_parts, (PLANE, LINE, WIDE, FIXED, ALONE)),
}
PAIRS = [(way, c) for way, (_, cases) in WAYS.items() for c in cases]


def written(way: Callable[[Conv, Value], Value], c: Conv, other: Conv, folder: Path) -> Any:
    paths = folder / "a.xml", folder / "b.xml"
    for path, case, build in zip(paths, (c, other), (Conv.original, way), strict=True):
        shape = [-1 if a in c.open_axes else n for a, n in enumerate(c.data)]
        x = op.parameter(shape, np.float32, name="x")
        x.output(0).set_names({"x"})
        y = op.result(build(case, x), name="out0")
        ov.save_model(ov.Model([y], [x], "pair"), path, compress_to_fp16=False)
    return paths


def same_numbers(paths: Any, c: Conv) -> bool:
    feed = {"x": np.random.default_rng(3).integers(-4, 5, c.data).astype(np.float32)}
    a, b = (outputs(p, feed)[0] for p in paths)
    return a.shape == b.shape and np.array_equal(a, b)


@pytest.mark.parametrize(("way", "c"), PAIRS)
def test_equal_pairs_are_proved_for_every_size(way: str, c: Conv, tmp_path: Path) -> None:
    paths = written(WAYS[way][0], c, c, tmp_path)
    assert same_numbers(paths, c)
    assert answer(paths) == 0


MISSES = {
    "another weight": {"changed": 1},
    "another bias": {"bias": 1},
    "another pad": {"moved": 1},
}


@pytest.mark.sampled(36)
@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize(("way", "c"), PAIRS)
def test_near_misses_are_refused(way: str, c: Conv, miss: str, tmp_path: Path) -> None:
    paths = written(WAYS[way][0], c, replace(c, **MISSES[miss]), tmp_path)
    assert not same_numbers(paths, c)
    assert answer(paths) == 1


@pytest.mark.parametrize("open_axes", [(), (0,)])
@pytest.mark.parametrize("way", ["pads apart", "every nth output of stride 1"])
def test_another_stride_of_as_many_outputs(
    way: str, open_axes: tuple[int, ...], tmp_path: Path
) -> None:
    c = Conv((1, 2, 4), (1, 2, 2, 1), (2,), (0,), (0,), (1,), open_axes)
    paths = written(WAYS[way][0], c, replace(c, strides=(3,)), tmp_path)
    assert not same_numbers(paths, c)
    assert answer(paths) == 1


def test_a_stride_over_one_channel_may_read_other_elements(tmp_path: Path) -> None:
    """OpenVINO does so where the last axis has one output, which an open size may give."""
    c = Conv((1, 1, 4, 3), (1, 2, 1, 1, 1), (1, 2), (0, 0), (0, 1), (1, 1), (3,))
    assert answer(written(pads_apart, c, c, tmp_path)) == 1


COPIES = kinds("equal")["legal: copies by a convolution, a deconvolution"]


def wrong(filter: Any, what: str) -> Any:
    """A filter of copies of which one channel is another one."""
    w = filter.copy()
    first = w[0, 0]
    if what == "a tap of 2":
        first *= 2
    elif what == "a tap of -1":
        first *= -1
    elif what == "two taps":
        first[0, :] = 1
    elif what == "two channels":
        first[1] = first[0]
    elif what == "no tap":
        first[:] = 0
    elif what == "another channel":
        first[:] = np.roll(first, 1, 0)
    elif what == "another place":
        first[:] = np.roll(first, 1, 1)
    elif what == "copies exchanged":
        w = np.roll(w, w.shape[1] // 2, 1)
    return w


NO_COPIES = [
    "a tap of 2",
    "a tap of -1",
    "two taps",
    "two channels",
    "no tap",
    "another channel",
    "another place",
    "copies exchanged",
]


@pytest.mark.parametrize("pair", [COPIES[i] for i in (0, 1, 4, 5)])
@pytest.mark.parametrize("what", NO_COPIES)
def test_near_misses_of_copies_are_refused(what: str, pair: Pair, tmp_path: Path) -> None:
    made = replace(pair, lets={**pair.lets, "units": lambda *args: wrong(units(*args), what)})
    paths = made.write(tmp_path)
    assert difference(made, paths) == "values"
    assert not pairing.check(*(reader.read(p) for p in paths)).passed


KINDS = kinds("equal")
NAMES = [n for n in KINDS if n.startswith(("few axes", "legal"))]


def passes(paths: tuple[Path, Path]) -> bool:
    """Whether the argument for all sizes accepts a pair."""
    try:
        models = [reader.read(p) for p in paths]
    except Unproved:
        return False
    return pairing.check(*models, None, (symbolic.prove,)).passed


def changed(xml: Path) -> list[bytes]:
    """The constants with one integer more, less or exchanged with the next one."""
    data, out = xml.with_suffix(".bin").read_bytes(), []
    for d in etree.parse(xml).getroot().iter("data"):
        if d.get("element_type") != "i64":
            continue
        at, count = int(d.get("offset")), int(d.get("size")) // 8
        numbers = np.frombuffer(data, np.int64, count, at)
        rows = [
            numbers + step * np.eye(count, dtype=int)[i] for i in range(count) for step in (-1, 1)
        ]
        for i in range(count - 1):
            row = numbers.copy()
            row[[i, i + 1]] = row[[i + 1, i]]
            rows += [row] if (row != numbers).any() else []
        out += [data[:at] + row.tobytes() + data[at + 8 * count :] for row in rows]
    return list(dict.fromkeys(out))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", parts(9, NAMES))
def test_every_changed_number_is_seen(name: str, tmp_path: Path) -> None:
    """What is accepted has to be equal where OpenVINO runs it."""
    pair = KINDS[name][-1]
    paths = pair.write(tmp_path)
    original, refused = Compiled(paths[0]), 0
    given = list(feeds(pair, original.model))
    wanted = [original.run(row) for row in given]
    candidates = changed(paths[1])
    for data in candidates:
        paths[1].with_suffix(".bin").write_bytes(data)
        if not passes(paths):
            refused += 1
            continue
        try:
            found = Compiled(paths[1])
            results = [found.run(row) for row in given]
        except RefusedError:
            continue  # some sizes are refused, which is no other result
        assert all(same(a, b) for a, b in zip(results, wanted, strict=True))
    assert refused > len(candidates) // 2


def test_what_is_claimed_of_products(tmp_path: Path) -> None:
    """Only a product of sizes of a tensor is taken to fit 32 bits, and the answer says so."""
    pair = KINDS["few axes: Reshape, Pad, Reshape"][-1]
    verdict = pairing.check(*(reader.read(p) for p in pair.write(tmp_path)))
    limits = "up to 16,777,216 per axis, and 2^31 - 1 elements per tensor"
    assert verdict.layers[0].proof.sizes == f"every size ({limits})"
