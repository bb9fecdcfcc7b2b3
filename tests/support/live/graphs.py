"""Random graphs: several layers, branches, shared constants, several inputs and outputs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import Op, lookup, parse_attributes, ports
from irdeconv.ir.spec import Array
from irdeconv.rewrite.infer_specs import inferred
from support.live.making import Held, Making, NothingFitsError, fitted, layer
from support.live.mutate import LISTS, numbers, pick
from support.live.sample import Given, Model, Sample
from support.live.sweep import Target, sample_of, targets

Ints = tuple[int, ...]
Maker = Callable[[Making], "list[Held] | None"]
UNARY = (
    "Abs ReLU Sigmoid Tanh Negative Sign Ceiling Floor Exp Erf SoftPlus HSwish Sin Cos Atan Sqrt"
).split()
ANY_TYPE = ("Abs", "ReLU", "Negative", "Sign")
BINARY = "Add Add Subtract Multiply Multiply Maximum Minimum SquaredDifference Mod".split()
COMPARED = "Equal NotEqual Less LessEqual Greater GreaterEqual".split()
REALS = ("f32", "f16", "bf16", "f64")
SIGNED = (*REALS, "i32", "i64")
NUMBERS = (*SIGNED, "u8", "i8")
REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceProd".split()


def unary(m: Making) -> list[Held] | None:
    kind = pick(m.rng, UNARY)
    held = m.take(*(SIGNED if kind in ANY_TYPE else REALS))
    return m.add(layer(kind, 4 if kind in ("HSwish", "SoftPlus") else 1), [held])


def binary(m: Making) -> list[Held] | None:
    kind = pick(m.rng, BINARY + COMPARED)
    a = m.take(*(SIGNED if kind in BINARY else NUMBERS))
    b = _beside(m, a)
    return m.add(layer(kind, 1), [a, b] if m.chance(0.7) else [b, a])


def _beside(m: Making, a: Held) -> Held:
    """Return something that broadcasts with a value: another value, or a new one."""
    fits = [h for h in m.held if h.dtype is a.dtype and _broadcasts(h, a) and h is not a]
    if fits and m.chance(0.6):
        return fits[m.below(len(fits))]
    shape = tuple(1 if m.chance(0.4) else d for d in a.array.shape)
    if m.chance(0.3):
        shape = shape[m.below(len(shape) + 1) :]
    return m.fresh(a.dtype, shape)


def _broadcasts(a: Held, b: Held) -> bool:
    rows = zip(reversed(a.array.shape), reversed(b.array.shape), strict=False)
    return all(1 in (x, y) or x == y for x, y in rows)


def select(m: Making) -> list[Held] | None:
    mask, a = m.some("boolean"), m.some(*NUMBERS)
    if a is None or mask is None or not _broadcasts(mask, a):
        return None
    return m.add(layer("Select", 1), [mask, a, _beside(m, a)])


def concat(m: Making) -> list[Held] | None:
    a = m.take(least=1)
    axis = m.below(a.array.ndim)
    fits = [h for h in m.held if h.dtype is a.dtype and _differ_at_most(h, a, axis)]
    others = [fits[m.below(len(fits))] for _ in range(1 + m.below(2))]
    if m.chance(0.3):
        others.append(m.fresh(a.dtype, a.array.shape))
    from_end = axis - (a.array.ndim if m.chance(0.3) else 0)
    return m.add(layer("Concat", 1, axis=from_end), [a, *others])


def _differ_at_most(a: Held, b: Held, axis: int) -> bool:
    if a.array.ndim != b.array.ndim:
        return False
    rows = enumerate(zip(a.array.shape, b.array.shape, strict=True))
    return all(x == y or i == axis for i, (x, y) in rows)


def split(m: Making) -> list[Held] | None:
    a = m.take(least=1)
    axis = m.below(a.array.ndim)
    size = a.array.shape[axis]
    if m.chance(0.5):
        parts = [n for n in (2, 3, 4) if size and size % n == 0]
        if not parts:
            return None
        return m.add(layer("Split", 1, num_splits=pick(m.rng, parts)), [a, m.constant(axis)])
    if size < 2:
        return None
    cut = 1 + m.below(size - 1)
    lengths = [cut, -1 if m.chance(0.3) else size - cut]
    return m.add(layer("VariadicSplit", 1), [a, m.constant(axis), m.constant(lengths)])


def transpose(m: Making) -> list[Held] | None:
    a = m.take(least=2)
    return m.add(layer("Transpose", 1), [a, m.constant(m.rng.permutation(a.array.ndim))])


def reshape(m: Making) -> list[Held] | None:
    """Two neighbours become one, or an axis two; sizes that stay are 0."""
    a = m.take(least=2)
    at = m.below(a.array.ndim - 1)
    sizes = [0] * a.array.ndim
    sizes[at : at + 2] = [-1]
    special = True
    if at < a.array.ndim - 2:  # 0 copies the axis of the same place, which has moved
        sizes, special = list(a.array.shape), False
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        if 0 in sizes:
            return None
        sizes[m.below(len(sizes))] = -1
    return m.add(layer("Reshape", 1, special_zero=special), [a, m.constant(sizes)])


def by_shape(m: Making) -> list[Held] | None:
    """A shape that is computed: of another value, in part, in another order."""
    a, like = m.take(least=1), m.take(least=1)
    kind = pick(m.rng, ("i64", "i32"))
    made = m.add(layer("ShapeOf", 3, output_type=ELEMENT_TYPES[kind]), [like])
    if not made:
        return None
    sizes = made[0]
    way = m.below(3)
    if way == 0 and a.array.size == like.array.size:
        return m.add(layer("Reshape", 1, special_zero=False), [a, sizes])
    if way == 1:
        return m.add(layer("Broadcast", 3, mode="bidirectional"), [a, sizes])
    order = m.constant(m.rng.permutation(a.array.ndim))
    own = m.add(layer("ShapeOf", 3), [a])
    moved = own and m.add(layer("Gather", 8), [own[0], order, m.constant(0)])
    return m.add(layer("Reshape", 1, special_zero=False), [a, moved[0]]) if moved else None


def reduction(m: Making) -> list[Held] | None:
    a = m.take(*SIGNED, least=1)
    kind = pick(m.rng, REDUCTIONS)
    count = 1 + m.below(min(2, a.array.ndim))
    axes = m.rng.permutation(a.array.ndim)[:count]
    opset = 4 if kind in ("ReduceL1", "ReduceL2") else 1
    return m.add(layer(kind, opset, keep_dims=m.chance(0.5)), [a, m.constant(axes)])


def softmax(m: Making) -> list[Held] | None:
    a = m.take(*REALS, least=1)
    return m.add(layer("SoftMax", 8, axis=m.below(a.array.ndim)), [a])


def matmul(m: Making) -> list[Held] | None:
    a = m.take(*REALS, least=2)
    across = m.chance(0.4)
    rows = a.array.shape[-1]
    columns = 1 + m.below(4)
    b = m.fresh(a.dtype, (columns, rows) if across else (rows, columns))
    return m.add(layer("MatMul", 1, transpose_a=False, transpose_b=across), [a, b])


def pad(m: Making) -> list[Held] | None:
    a = m.take(*NUMBERS, least=1)
    rank = a.array.ndim
    begin, end = m.rng.integers(0, 3, rank), m.rng.integers(0, 3, rank)
    mode = pick(m.rng, ("constant", "edge", "reflect", "symmetric"))
    inputs = [a, m.constant(begin), m.constant(end)]
    if mode == "constant":
        inputs.append(m.constant(np.array(m.below(3)), a.dtype))
    return m.add(layer("Pad", 12, pad_mode=mode), inputs)


def convert(m: Making) -> list[Held] | None:
    a = m.some(*NUMBERS, "boolean")
    target = ELEMENT_TYPES[pick(m.rng, REALS)]
    return m.add(layer("Convert", 1, destination_type=target), [a]) if a else None


def convolution(m: Making) -> list[Held] | None:
    a = m.take(*REALS, least=3)
    if a.array.ndim > 5 or 0 in a.array.shape:
        return None
    c, size = a.array.shape[1], a.array.shape[2:]
    n = len(size)
    kernel = [1 + m.below(min(3, s)) for s in size]
    attributes = {
        "strides": tuple(1 + m.below(2) for _ in size),
        "dilations": (1,) * n,
        "pads_begin": tuple(m.below(k) for k in kernel),
        "pads_end": tuple(m.below(k) for k in kernel),
        "auto_pad": pick(m.rng, ("explicit", "explicit", "same_upper", "same_lower", "valid")),
    }
    groups = pick(m.rng, [g for g in (1, 2, 3, 4) if c % g == 0])
    outputs = 1 + m.below(3)
    if groups == 1 and m.chance(0.8):
        w = m.fresh(a.dtype, (outputs, c, *kernel))
        return m.add(layer("Convolution", 1, **attributes), [a, w])
    w = m.fresh(a.dtype, (groups, outputs, c // groups, *kernel))
    return m.add(layer("GroupConvolution", 1, **attributes), [a, w])


def pooling(m: Making) -> list[Held] | None:
    a = m.take("f32", "f16", least=3)
    if a.array.ndim > 5 or 0 in a.array.shape:
        return None
    size = a.array.shape[2:]
    kernel = tuple(1 + m.below(min(3, s)) for s in size)
    attributes = {
        "kernel": kernel,
        "strides": tuple(1 + m.below(2) for _ in size),
        "pads_begin": tuple(m.below(k) for k in kernel),
        "pads_end": tuple(m.below(k) for k in kernel),
        "rounding_type": pick(m.rng, ("floor", "ceil")),
        "auto_pad": pick(m.rng, ("explicit", "same_upper", "same_lower", "valid")),
    }
    if m.chance(0.5):
        return m.add(layer("AvgPool", 1, exclude_pad=m.chance(0.5), **attributes), [a])
    return m.add(layer("MaxPool", 1, **attributes), [a])


MAKERS: tuple[Maker, ...] = (
    unary, unary, binary, binary, binary, select, concat, concat, split, transpose, reshape,
    by_shape, by_shape, reduction, softmax, matmul, pad, convert, convolution, pooling,
)  # fmt: skip


def deconvolution(m: Making) -> list[Held] | None:
    """Add a deconvolution of a value with one to three spatial axes."""
    held = m.take("f32", "f16", "bf16", "f64", least=3)
    if held.array.ndim > 5 or 0 in held.array.shape:
        return None
    n, channels = held.array.ndim - 2, held.array.shape[1]
    kernel = _ints(m, n, 1, 4 if n < 3 else 3)
    groups = pick(m.rng, [g for g in range(1, channels + 1) if channels % g == 0])
    outputs = 1 + m.below(3)
    shape = (channels // groups, outputs, *kernel)
    grouped = groups > 1 or (m.chance(0.1) and channels == outputs == 1)
    if grouped:
        shape = (groups, *shape)
    weights = _filter(m, held, shape)
    if weights is None:
        return None
    attributes, extra = _attributes(m, held, kernel)
    kind = "GroupConvolutionBackpropData" if grouped else "ConvolutionBackpropData"
    made = m.add(layer(kind, 1, **attributes), [held, weights, *extra])
    return _tail(m, made) if made else None


def _ints(m: Making, count: int, low: int, high: int) -> Ints:
    return tuple(int(v) for v in m.rng.integers(low, high + 1, count))


def _filter(m: Making, held: Held, shape: Ints) -> Held | None:
    """A constant, an input, or 8-bit numbers that are scaled."""
    values = numbers(m.rng, held.dtype, shape, 4).values
    way = m.rng.random()
    if way < 0.7:
        return m.constant(values, held.dtype)
    if way < 0.85:
        return m.parameter(values, held.dtype)
    eight = m.constant(np.clip(values, -8, 7).astype(np.int8), "i8")
    made = m.add(layer("Convert", 1, destination_type=held.dtype), [eight])
    if made and m.chance(0.6):
        made = m.add(layer("Multiply", 1), [made[0], m.constant(np.array(0.25), held.dtype)])
    return made[0] if made else None


def _attributes(m: Making, held: Held, kernel: Ints) -> tuple[dict[str, Any], list[Held]]:
    n, size = len(kernel), held.array.shape[2:]
    strides, dilations = _ints(m, n, 1, 3), _ints(m, n, 1, 2)
    begin, end = (
        tuple(m.below(d * (k - 1) + 1) for d, k in zip(dilations, kernel, strict=True))
        for _ in range(2)
    )
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "pads_begin": begin if m.chance(0.6) else (0,) * n,
        "pads_end": end if m.chance(0.6) else (0,) * n,
        "auto_pad": pick(m.rng, ("explicit", "explicit", "same_upper", "same_lower", "valid")),
        "output_padding": tuple(m.below(s) for s in strides) if m.chance(0.4) else (0,) * n,
    }
    if m.chance(0.6):
        return attributes, []
    rows = zip(size, strides, dilations, kernel, strict=True)
    full = [s * (i - 1) + d * (k - 1) + 1 for i, s, d, k in rows]
    wanted = [max(1, f - m.below(3) + (m.below(2) if m.chance(0.3) else 0)) for f in full]
    return attributes, [_sizes(m, wanted)]


def _sizes(m: Making, wanted: list[int]) -> Held:
    """The output's size: a constant, or what another tensor's shape says."""
    kind = pick(m.rng, ("i64", "i64", "i32"))
    if m.chance(0.75):
        return m.constant(wanted, kind)
    f32 = ELEMENT_TYPES["f32"]
    like = m.parameter(np.zeros((1, 1, *wanted), np.float32), f32)
    made = m.add(layer("ShapeOf", 3, output_type=ELEMENT_TYPES[kind]), [like])
    places = m.constant(np.arange(2, 2 + len(wanted)))
    spatial = made and m.add(layer("Gather", 8), [made[0], places, m.constant(0)])
    return spatial[0] if spatial else m.constant(wanted, kind)


def _tail(m: Making, made: list[Held]) -> list[Held] | None:
    """Add a bias and an activation now and then, as networks have them."""
    y = made[0]
    if m.chance(0.4):
        channels = (1, y.array.shape[1], *(1,) * (y.array.ndim - 2))
        bias = m.constant(numbers(m.rng, y.dtype, channels, 3).values, y.dtype)
        made = m.add(layer("Add", 1), [y, bias]) or made
    if m.chance(0.3):
        made = m.add(layer("ReLU", 1), [made[0]]) or made
    return made


# What they make of arbitrary numbers depends on the last bits of these: ranks, searches, chances.
OWN_INPUTS = frozenset(
    "Bucketize CTCGreedyDecoder CTCGreedyDecoderSeqLen CTCLoss DetectionOutput "
    "ExperimentalDetectronDetectionOutput ExperimentalDetectronGenerateProposalsSingleImage "
    "ExperimentalDetectronPriorGridGenerator ExperimentalDetectronROIFeatureExtractor "
    "ExperimentalDetectronTopKROIs GatherTree GenerateProposals Inverse MatrixNms MulticlassNms "
    "Multinomial NMSRotated NonMaxSuppression Proposal PSROIPooling RandomUniform ROIAlign "
    "ROIAlignRotated ROIPooling DeformablePSROIPooling SearchSorted GridSample BinaryConvolution "
    "Gather GatherElements GatherND EmbeddingSegmentsSum EmbeddingBagOffsets "
    "EmbeddingBagOffsetsSum EmbeddingBagPackedSum EmbeddingBagPacked OneHot "
    "ScatterUpdate ScatterElementsUpdate ScatterNDUpdate ReverseSequence Range Einsum".split()
)


@cache
def known_targets() -> tuple[Target, ...]:
    """Return the operations; those of one class once, in its newest opset."""
    newest = {}
    for target in targets():
        cls = lookup(target.type, target.version)
        if cls is not None:
            newest[cls] = target
    return tuple(newest.values())


def add_sampled(m: Making) -> list[Held] | None:
    """Add a random layer of a random operation."""
    sample = sample_of(pick(m.rng, known_targets()), m.below(1 << 30))
    return None if sample is None else add_sample(m, sample)


def add_sample(m: Making, sample: Sample) -> list[Held] | None:
    """Add a sample; its data come from values of the graph where these can be made to fit."""
    op = operation(sample)
    if op is None or sum(g.tensor.values.size for g in sample.inputs) > 2000:
        return None
    if sample.type in ("RandomUniform", "Multinomial", "FakeQuantize") and m.chance(0.7):
        return None
    return m.add(op, [_input(m, sample, i, g) for i, g in enumerate(sample.inputs)])


def operation(sample: Sample) -> Op | None:
    """Return the operation of a sample, if its attributes are right."""
    cls = lookup(sample.type, sample.version)
    if cls is None or not ports(cls).fits(len(sample.inputs)):
        return None
    values, problems = parse_attributes(cls, sample.attributes)
    if any(p.severity == "error" for p in problems):
        return None
    op = cls(**values)
    return None if any(p.severity == "error" for p in op.problems()) else op


def _input(m: Making, sample: Sample, port: int, given: Given) -> Held:
    tensor = given.tensor
    if given.constant:
        return m.constant(tensor.values, tensor.dtype)
    if sample.type not in OWN_INPUTS and not _is_list(sample, port) and m.chance(0.8):
        fits = [
            h for h in m.held if h.dtype is tensor.dtype and h.array.shape == tensor.values.shape
        ]
        held = fits[m.below(len(fits))] if fits and m.chance(0.7) else m.some()
        out = held and fitted(m, held, tensor.dtype, tensor.values.shape)
        if out:
            return out
    counts = sample.type == "VariadicSplit" and port == 2  # its length is the number of outputs
    declared = given.declared if m.openness and not counts else tensor.values.shape
    return m.parameter(tensor.values, tensor.dtype, declared)


def _is_list(sample: Sample, port: int) -> bool:
    cls = lookup(sample.type, sample.version)
    names = ports(cls).names if cls is not None else ()
    return port < len(names) and names[port] in LISTS


TYPES = ("f32", "f32", "f32", "f32", "f16", "f64", "i32", "i64", "u8", "i8", "bf16", "boolean",
         "i16", "u16", "u32", "u64")  # fmt: skip
TRIES = 6  # for each layer that is wanted


@dataclass(frozen=True)
class RandomGraph:
    """A graph and the values of its inputs by name."""

    graph: Graph
    feeds: dict[str, Array]


def random_graph(seed: int, number: int) -> RandomGraph:
    """Make a graph with one to a dozen layers; the same for the same numbers."""
    rng = np.random.default_rng([seed, number])
    m = Making(rng, float(pick(rng, (0.0, 0.0, 0.3, 1.0))))
    for i in range(1 + m.below(3)):
        _begin(m, "f32" if not i and m.chance(0.7) else pick(rng, TYPES))
    wanted, deconvolutes = 1 + m.below(12), m.chance(0.4)
    before, tries = len(m.graph), 0
    while len(m.graph) - before < 2 * wanted and tries < TRIES * wanted:
        tries += 1
        share = m.rng.random()
        with suppress(NothingFitsError):
            if deconvolutes and share < 0.3:
                deconvolution(m)
            elif share < 0.6:
                add_sampled(m)
            else:
                pick(rng, MAKERS)(m)
    m.finish(float(pick(rng, (0.0, 0.2, 1.0))))
    return RandomGraph(_tidied(m), m.feeds)


def _begin(m: Making, kind: str) -> None:
    """Add an input; images more often than the rest."""
    rank = pick(m.rng, (4, 4, 4, 3, 5, 2, 1, 0))
    top = 6 if rank < 5 else 4
    shape = [1 + m.below(top) for _ in range(rank)]
    if rank > 2:
        shape[0] = 1 + m.below(2)
    dtype = ELEMENT_TYPES[kind]
    m.parameter(numbers(m.rng, dtype, shape, 6).values, dtype)


def _tidied(m: Making) -> Graph:
    """Leave out constants that only layers read which were not kept."""
    for node in list(m.graph.nodes("Const")):
        if not m.graph.users(Value(node.id)):
            m.graph.remove(node.id)
    return m.graph


def random_model(seed: int, number: int) -> Model | None:
    """Return a random graph as an IR."""
    made = random_graph(seed, number)
    if not made.graph.results:
        return None
    return Model(*ir_bytes(inferred(made.graph)), made.feeds)
