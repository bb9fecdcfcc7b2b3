"""ONNX's sequences and optional values, as far as both are known while importing."""

from __future__ import annotations

import numpy as np

from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import Found, OnnxNode, Outputs, ValueSequence, rule
from irdeconv.limits import current
from irdeconv.ops.movement import Concat
from irdeconv.ops.shape import Squeeze1, Unsqueeze
from irdeconv.ops.splitting import VariadicSplit


@rule("SequenceConstruct", "11")
def construct(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence of the inputs."""
    return ValueSequence(n.given)


@rule("SequenceEmpty", "11")
def empty(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence of nothing."""
    n.accept("dtype")
    return ValueSequence(())


def _place(n: OnnxNode, b: ImportBuilder, at: int, most: int, default: int) -> int:
    """Return a place in a sequence, from 0; negative ones count from the end."""
    given = n.known(b, at, "the place in a sequence")
    place = default if given is None else int(given.item())
    if not -most <= place < most:
        raise Refusal(f"place {place} of a sequence that has {most}")
    return place % most


@rule("SequenceAt", "11")
def at(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """One tensor of a sequence."""
    items = n.sequence(0)
    return items[_place(n, b, 1, len(items), 0)]


@rule("SequenceInsert", "11")
def insert(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence with one more tensor, at the end or in front of a place."""
    items = n.sequence(0)
    place = _place(n, b, 2, len(items) + 1, len(items))
    given = n.known(b, 2, "the place in a sequence")
    if given is not None and int(given.item()) < 0:
        place = len(items) + int(given.item())
    return ValueSequence((*items[:place], n[1], *items[place:]))


@rule("SequenceErase", "11")
def erase(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence without one tensor, the last one by default."""
    items = n.sequence(0)
    place = _place(n, b, 1, len(items), -1)
    return ValueSequence(items[:place] + items[place + 1 :])


@rule("SequenceLength", "11")
def length(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """How many tensors a sequence has."""
    return b.scalar(len(n.sequence(0)))


@rule("ConcatFromSequence", "11")
def concat(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Join the tensors of a sequence along an axis, or stack them along a new one."""
    items, axis = n.sequence(0), n.integer("axis")
    if not items:
        raise Refusal("a sequence of nothing")
    if n.integer("new_axis", 0):
        items = tuple(b.add(Unsqueeze(), v, b.ints(axis)) for v in items)
    rank = b.rank(items[0])
    return b.add(Concat(axis + rank if axis < 0 else axis), *items)


@rule("SplitToSequence", "11 24")
def split(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Cut along an axis into parts of given lengths, or of one length, the last one shorter."""
    x, lengths = n[0], n.known(b, 1, "split")
    axis, keep = n.axis(b, x), bool(n.integer("keepdims", 1))
    size = b.shape(x, 1)[axis]
    if lengths is None or lengths.ndim == 0:
        if not isinstance(size, int):
            raise Refusal(f"axis {axis} of open size into a sequence")
        part = 1 if lengths is None else int(lengths)
        if part < 1 or size // part > current().ports:
            raise Refusal(f"axis {axis} of size {size} into a sequence by parts of {part}")
        found = [part] * (size // part) + [size % part] * (size % part > 0)
    else:
        found = [int(v) for v in lengths]
    if not found:
        return ValueSequence(())
    parts = b.outputs(VariadicSplit(), x, b.scalar(axis), b.ints(*found))
    if lengths is None and not keep:
        parts = tuple(b.add(Squeeze1(), p, b.ints(axis)) for p in parts)
    return ValueSequence(parts)


@rule("Optional", "15 28")
@rule("OptionalGetElement", "15 18 28")
def element(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The value itself, which is there."""
    n.accept("type")
    return _given(n)


@rule("OptionalHasElement", "15 18 28")
def has_element(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Whether there is a value: one that has a name is there."""
    there = 0 in n.sequences or n.input(0) is not None
    return b.const(np.array(there))


@rule("Identity", "1 13 14 16 19 21 23 24 25")
def identity(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The input itself under another name."""
    return _given(n)


def _given(n: OnnxNode) -> Found:
    return n.sequences[0] if 0 in n.sequences else n[0]
