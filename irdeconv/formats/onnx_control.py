"""ONNX's control flow, sequences, random numbers and signals.

Sequences and optional values must be known while importing; a Loop over sequences is unrolled.
ONNX does not define a generator of random numbers: OpenVINO's is used. Complex numbers are pairs,
the last axis of size 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from irdeconv.base.limits import current
from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.onnx_node import (
    Entry,
    ImportedBody,
    OnnxNode,
    Outputs,
    ValueSequence,
    require_one_length,
    rule,
    wrap,
)
from irdeconv.ir.dtypes import ElementType, boolean, f32, i32, i64
from irdeconv.ir.graph import Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import MisfitBranch
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing, joined, widened
from irdeconv.ops.channels import VariadicSplit
from irdeconv.ops.control import If, Loop, TensorIterator
from irdeconv.ops.elementwise import Cos, Log, Sqrt
from irdeconv.ops.generation import Multinomial, RandomUniform
from irdeconv.ops.movement import Concat, Pad12
from irdeconv.ops.signal import DFT, IDFT, IRDFT, RDFT, STFT

MOST_UNROLLED = 256  # iterations of a Loop over sequences
SHAPE_ROUNDS = 4  # until sizes that a loop changes are taken for open
VERSIONS = "11 13 16 19 21 23 24 25"


@rule("If", f"1 {VERSIONS}")
def branch(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """One of two bodies; if the condition is known, the nodes of that body in place."""
    condition = b.as_scalar(n[0], math.inf)
    bodies = n.body("then_branch"), n.body("else_branch")
    known = b.known(condition)
    if known is not None:
        return n.bodies.inline(bodies[0] if known else bodies[1])
    both = n.bodies.branches(bodies)
    fits = next(one for one in both if isinstance(one, ImportedBody))
    inputs = [condition]
    made = []
    for tag, one in zip(If.tags, both, strict=True):
        if isinstance(one, str):
            n.remarks.append(f"a run that chooses the {tag} fails: {one}")
            one = _misfit(b, one, fits)
        entries = _captured(one, inputs)
        outputs = tuple(BodyOutput(r, at) for at, r in enumerate(one.results))
        made.append(Body(one.graph, entries, outputs, tag=tag))
    results = b.outputs(If(bodies=tuple(made)), *inputs)
    if any(b.spec(v).shape is None for v in results):
        n.remarks.append("OpenVINO refuses outputs of open rank; exact inputs (--shape) avoid them")
    return results


def _misfit(b: ImportBuilder, why: str, other: ImportedBody) -> ImportedBody:
    """Return a branch that fails, with outputs like those of the other one."""
    inner, specs = b.inner(b.source.name), (other.spec(i) for i in range(len(other.results)))
    outputs = tuple(s.without_value() for s in specs)
    op = MisfitBranch("MisfitBranch", "", (("why", why),), outputs)
    for at, value in enumerate(inner.declared(op, ())):
        inner.result(value, f"{b.source.name}/{at}")
    inner.finish()
    return ImportedBody(inner.graph, (), tuple(r.id for r in inner.graph.results), ())


def _captured(one: ImportedBody, inputs: list[Value]) -> tuple[BodyInput, ...]:
    """Return the inputs for values from outside, which become further inputs of the operation."""
    out = []
    for parameter, value in one.captured:
        out.append(BodyInput(parameter, len(inputs)))
        inputs.append(value)
    return tuple(out)


def part_by_part(axis: int, backward: bool = False) -> Slicing:
    """Return how a loop takes or gives the parts of a tensor along an axis."""
    return Slicing(axis, start=-1, end=0, stride=-1) if backward else Slicing(axis)


def _settled(
    states: Sequence[Spec], make: Callable[[Sequence[Spec]], ImportedBody], first: int
) -> ImportedBody:
    """Return a body whose states have the shapes that they keep in every iteration.

    `make` imports it for such shapes; `first` is the number of the output with the first state.
    """
    given = [s.without_value() for s in states]
    for rounds in range(SHAPE_ROUNDS + 1):
        body = make(given)
        if len(body.results) < first + len(given):
            raise Refusal(f"its body has {len(body.results)} outputs for {first + len(given)}")
        after = []
        for at, spec in enumerate(given):
            found = body.spec(first + at).without_value()
            both = joined(spec, found, ("what the body gives", "what it starts with"))
            after.append(widened(spec, both) if rounds else both)
        if after == given:
            return body
        given = after
    raise Refusal("its states have no lasting shapes")


@rule("Loop", f"1 {VERSIONS}")
def loop(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A body that runs while its condition holds, a number of times at most."""
    if n.sequences:
        return _unrolled(n, b)
    body, states = n.body("body"), [n[i] for i in range(2, len(n.inputs))]
    most = n.scalar(b, 0, -1)
    start = n.input(1)
    start = b.const(np.array(True)) if start is None else b.as_scalar(start, math.inf)
    count = len(states)
    scans = dict.fromkeys(range(1 + count, len(body.output)), 0)

    axes = {0: None, **scans}

    def make(specs: Sequence[Spec]) -> ImportedBody:
        # Whenever the body runs, the condition holds.
        known = Entry(Spec(boolean, ()), constant=np.array(True))
        return n.bodies.graph(body, [Entry(Spec(i64, ())), known, *map(Entry, specs)], axes)

    one = _settled([b.spec(s) for s in states], make, 1)
    inputs = [most, start, *states]
    number, _, *carried = one.parameters
    entries = [BodyInput(number, iteration=True)] if number is not None else []
    entries += [BodyInput(p, 2 + at) for at, p in enumerate(carried) if p is not None]
    outputs = [BodyOutput(one.results[0], condition=True)]
    outputs += [BodyOutput(r, at) for at, r in enumerate(one.results[1 : 1 + count])]
    outputs += [BodyOutput(one.results[at], at - 1, Slicing(0)) for at in scans]
    edges = [(one.results[1 + at], p) for at, p in enumerate(carried) if p is not None]
    fed = (*entries, *_captured(one, inputs))
    return b.outputs(Loop(bodies=(Body(one.graph, fed, tuple(outputs), tuple(edges)),)), *inputs)


def _unrolled(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A Loop with sequences among its states, whose iterations must be known, one by one."""
    what = "the condition of a Loop over sequences"
    states = tuple(n.sequences.get(i) or n[i] for i in range(2, len(n.inputs)))
    most = n.known(b, 0, "the number of iterations of a Loop over sequences")
    going, done = n.known(b, 1, what), 0
    while (going is None or going.item()) and (most is None or done < most.item()):
        if done == MOST_UNROLLED:
            raise Refusal(f"more than {MOST_UNROLLED} iterations over sequences")
        given = (b.scalar(done), b.const(np.array(True)), *states)
        condition, *found = n.bodies.inline(n.body("body"), given)
        if not isinstance(condition, Value) or len(found) != len(states):
            raise Refusal("a Loop over sequences that also collects outputs")
        going, states, done = b.need(condition, what), tuple(found), done + 1
    return states


@rule("Scan", f"9 {VERSIONS}")
def scan(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A body that runs once for each part of the scanned inputs; states come first."""
    body, sliced = n.body("body"), n.integer("num_scan_inputs")
    count = len(n.inputs) - sliced
    if sliced < 0 or count < 0:
        raise Refusal(f"num_scan_inputs is {sliced}, but there are {len(n.inputs)} inputs")
    states = [n[i] for i in range(count)]
    taken = _slices(n, b, "scan_input", [b.rank(n[count + i]) for i in range(sliced)])
    parts = [_part(b.spec(n[count + i]), t.axis) for i, t in enumerate(taken)]
    results = len(body.output) - count
    axes = n.ints("scan_output_axes") or (0,) * results

    def make(specs: Sequence[Spec]) -> ImportedBody:
        entries = [*map(Entry, specs)]
        entries += [Entry(s, axis=t.axis) for s, t in zip(parts, taken, strict=True)]
        return n.bodies.graph(body, entries, {count + i: a for i, a in enumerate(axes)})

    one = _settled([b.spec(s) for s in states], make, 0)
    inputs = list(n.given)
    ranks = [len(one.spec(count + i).shape or (1,)) for i in range(results)]
    given = _slices(n, b, "scan_output", ranks)
    entries = []
    for at, parameter in enumerate(one.parameters):
        assert parameter is not None
        slicing = taken[at - count] if at >= count else None
        entries.append(BodyInput(parameter, at, slicing))
    outputs = [BodyOutput(r, at) for at, r in enumerate(one.results[:count])]
    outputs += [BodyOutput(one.results[at], at, g) for at, g in enumerate(given, count)]
    states_in = enumerate(one.parameters[:count])
    edges = tuple((one.results[i], p) for i, p in states_in if p is not None)
    fed = (*entries, *_captured(one, inputs))
    made = Body(one.graph, fed, tuple(outputs), edges)
    return b.outputs(TensorIterator(bodies=(made,)), *inputs)


def _slices(n: OnnxNode, b: ImportBuilder, name: str, ranks: Sequence[int]) -> list[Slicing]:
    """Return axes and directions of inputs or outputs."""
    axes = n.ints(f"{name}_axes") or (0,) * len(ranks)
    back = n.ints(f"{name}_directions") or (0,) * len(ranks)
    names = (f"{name}s", f"{name}_axes", f"{name}_directions")
    require_one_length(**dict(zip(names, (ranks, axes, back), strict=True)))
    rows = zip(axes, ranks, back, strict=True)
    return [part_by_part(wrap(a, rank, f"{name}_axes"), bool(r)) for a, rank, r in rows]


def _part(spec: Spec, axis: int) -> Spec:
    assert spec.shape is not None
    return Spec(spec.dtype, (*spec.shape[:axis], 1, *spec.shape[axis + 1 :]))


rule("SequenceConstruct", "11")(lambda n, b: ValueSequence(n.given))
rule("SequenceLength", "11")(lambda n, b: b.scalar(len(n.sequence(0))))


@rule("SequenceAt", "11")
def item(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """One tensor of a sequence; if its place is computed, all must have one shape."""
    items = n.sequence(0)
    if b.known(n[1]) is not None:
        return items[_place(n, b, 1, len(items), 0)]
    if len({b.static(v, "an item of a sequence") for v in items}) != 1:
        raise Refusal("items of different shapes, of which one is chosen as the model runs")
    whole = b.add(Concat(0), *(b.unsqueeze(v, 0) for v in items))
    return b.take(whole, b.as_scalar(n[1]), 0)


@rule("SequenceEmpty", "11")
def empty(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence of nothing."""
    n.accept("dtype")
    return ValueSequence(())


def _place(
    n: OnnxNode, b: ImportBuilder, at: int, count: int, default: int, beyond: int = 0
) -> int:
    """Return a place in a sequence, or up to `beyond` behind it; -1 is the last one."""
    given, most = n.known(b, at, "the place in a sequence"), count + beyond
    place = default if given is None else int(given.item())
    if not -most <= place < most:
        raise Refusal(f"place {place} of a sequence that has {most}")
    return place + count if place < 0 else place


@rule("SequenceInsert", "11")
def insert(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence with one more tensor, at the end or in front of a place."""
    items = n.sequence(0)
    place = _place(n, b, 2, len(items), len(items), beyond=1)
    return ValueSequence((*items[:place], n[1], *items[place:]))


@rule("SequenceErase", "11")
def erase(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """A sequence without one tensor, the last one by default."""
    items = n.sequence(0)
    place = _place(n, b, 1, len(items), -1)
    return ValueSequence(items[:place] + items[place + 1 :])


@rule("ConcatFromSequence", "11")
def concat(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Join the tensors of a sequence along an axis, or stack them along a new one."""
    items, axis = n.sequence(0), n.integer("axis")
    if not items:
        raise Refusal("a sequence of nothing")
    if n.flag("new_axis", False):
        items = tuple(b.unsqueeze(v, axis) for v in items)
    rank = b.rank(items[0])
    return b.add(Concat(axis + rank if axis < 0 else axis), *items)


@rule("SplitToSequence", "11 24")
def split(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Cut along an axis into parts of given lengths, or of one length, the last one shorter."""
    x, lengths = n[0], n.known(b, 1, "split")
    axis, keep = n.axis(b, x), n.flag("keepdims", True)
    if lengths is None or lengths.ndim == 0:
        size = b.size(x, axis, " into a sequence")
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
        parts = tuple(b.squeeze(p, axis) for p in parts)
    return ValueSequence(parts)


@rule("Identity", "1 13 14 16 19 21 23 24 25")
@rule("Optional", "15 28")
@rule("OptionalGetElement", "15 18 28")
def element(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The value itself under another name; an optional one is there."""
    if n.type != "Identity":
        n.accept("type")
    return n.sequences[0] if 0 in n.sequences else n[0]


@rule("OptionalHasElement", "15 18 28")
def has_element(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Whether there is a value: one that has a name is there."""
    return b.const(np.array(0 in n.sequences or n.input(0) is not None))


def _seed(n: OnnxNode, b: ImportBuilder) -> int:
    """Return a seed above 0: the node's, or one that no other node of the model has."""
    if "seed" not in n:
        return len(b.graph) + 1
    given = n.number("seed", 0.0)
    if math.isnan(given):  # every NaN has a hash of its own
        raise Refusal("seed is no number")
    return abs(hash(given)) % (1 << 62) + 1


def _what(n: OnnxNode, b: ImportBuilder) -> tuple[Value, ElementType]:
    """Return shape and element type: attributes, or those of the input."""
    like = n.type.endswith("Like")
    dtype = n.element("dtype", b.dtype(n[0]) if like else f32)
    if not dtype.is_real:
        raise Refusal(f"random numbers of type {dtype}")
    return b.shape_of(n[0]) if like else b.ints(*n.ints("shape")), dtype


@rule("RandomUniform RandomUniformLike", "1 22")
def uniform(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Numbers from low up to high."""
    shape, dtype = _what(n, b)
    low, high = n.number("low", 0.0), n.number("high", 1.0)
    op = RandomUniform(dtype, 0, _seed(n, b))
    return b.add(op, shape, b.scalar(low, dtype), b.scalar(high, dtype))


@rule("RandomNormal RandomNormalLike", "1 22")
def normal(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Normally distributed numbers, each of two uniform ones: sqrt(-2 log u) cos(2 pi v)."""
    shape, dtype = _what(n, b)
    mean, scale, seed = n.number("mean", 0.0), n.number("scale", 1.0), _seed(n, b)
    least = b.scalar(np.finfo(np.float32).tiny, f32)
    u = b.add(RandomUniform(f32, 1, seed), shape, least, b.scalar(1, f32))
    v = b.add(RandomUniform(f32, 2, seed), shape, b.scalar(0, f32), b.scalar(1, f32))
    far = b.add(Sqrt(), b.mul(b.add(Log(), u), b.scalar(-2, f32)))
    turn = b.add(Cos(), b.mul(v, b.scalar(2 * math.pi, f32)))
    y = b.mul(b.mul(far, turn), b.scalar(scale, f32))
    return b.convert(b.plus(y, b.scalar(mean, f32)), dtype)


@rule("Multinomial", "7 22")
def multinomial(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Classes drawn by the logarithms of their probabilities [batch, classes]."""
    dtype = n.element("dtype", i32)
    if dtype not in (i32, i64):
        raise Refusal(f"classes of type {dtype}")
    op = Multinomial(convert_type=dtype, with_replacement=True, log_probs=True, op_seed=_seed(n, b))
    return b.add(op, n[0], b.scalar(n.integer("sample_size", 1)))


def _is_complex(b: ImportBuilder, x: Value) -> bool:
    parts = b.shape(x, 1)[-1]
    if parts not in (1, 2):
        raise Refusal(f"the last axis has {parts} elements, neither real numbers nor pairs")
    return parts == 2


def _paired(b: ImportBuilder, x: Value) -> Value:
    """Return real numbers [..., 1] as pairs."""
    if _is_complex(b, x):
        return x
    rank = b.rank(x)
    none = b.ints(*(0,) * rank)
    return b.add(Pad12("constant"), x, none, b.ints(*(0,) * (rank - 1), 1), b.like(0, x))


@rule("DFT", "17 20")
def dft(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The transform along one axis; `onesided` has its first half, for real numbers."""
    x, rank = n[0], b.rank(n[0])
    if n.version < 20:
        axis = n.axis(b, x, default=1)
    else:
        given = n.known(b, 2, "axis")
        axis = wrap(-2 if given is None else int(given.item()), rank)
    length = () if n.input(1) is None else (b.convert(b.reshape(n[1], (1,)), i64),)
    one, inverse = n.flag("onesided", False), n.flag("inverse", False)
    at = b.ints(axis)
    if inverse and one:
        return b.unsqueeze(b.add(IRDFT(), _paired(b, x), at, *length), -1)
    if inverse:
        return b.add(IDFT(), _paired(b, x), at, *length)
    if one and not _is_complex(b, x):
        return b.add(RDFT(), b.squeeze(x, -1), at, *length)
    y = b.add(DFT(), _paired(b, x), at, *length)
    return _first_half(b, y, axis) if one else y


def _first_half(b: ImportBuilder, y: Value, axis: int) -> Value:
    half = b.size(y, axis, " with onesided=1") // 2 + 1
    return b.slice(y, [0], [half], [1], [axis])


@rule("STFT", "17")
def stft(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Transforms of frames of a signal [B, L, 1 or 2], each times a window."""
    x, step, window = n[0], b.as_scalar(n[1]), n.input(2)
    if n.input(3) is not None:
        size = int(b.need(b.as_scalar(n[3]), "frame_length"))
    else:
        size = b.size(n[2], 0, ": the window")
    if not 1 <= size <= 1 << 24:
        raise Refusal(f"frame_length is {size}")
    if window is None:
        window = b.const(np.ones(size, b.dtype(x).container), b.dtype(x))
    one = n.flag("onesided", True)
    if one and not _is_complex(b, x):
        signal = b.squeeze(x, -1)
        return b.add(STFT(transpose_frames=False), signal, window, b.scalar(size), step)
    framed = _frames(b, x, size, int(b.need(step, "frame_step")))
    windowed = b.mul(framed, b.reshape(window, (-1, 1)))
    y = b.add(DFT(), _paired(b, windowed), b.ints(2))
    return _first_half(b, y, 2) if one else y


def _frames(b: ImportBuilder, x: Value, size: int, step: int) -> Value:
    """Return the frames [B, count, size, 1 or 2]."""
    length = b.shape(x, 2)[1]
    if not isinstance(length, int) or step < 1 or length < size:
        raise Refusal(f"frames of {size} every {step} of {length} elements")
    b.room(size * ((length - size) // step + 1))
    starts = np.arange((length - size) // step + 1) * step
    return b.take(x, b.const(starts[:, None] + np.arange(size)), 1)
