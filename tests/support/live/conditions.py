"""What samples have that makes OpenVINO's CPU plugin part from irdeconv, or that one side refuses.

differences.toml names these functions, with arguments behind a name, and has shorter conditions as
expressions. None of them uses irdeconv's checks.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.geometry import same_pads
from irdeconv.ir.op import as_tuple, infer_op, lookup, parse_attributes
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.ops.catalog import LAST
from support.live.judging import LIMITS, close
from support.live.sample import Given, Sample

# The plugin aligns the axes of these under pdpd as under numpy; of Divide the real ones only.
ALIGNED_AT_THE_END = frozenset(
    "Subtract Greater GreaterEqual Less LessEqual Equal NotEqual LogicalAnd LogicalOr LogicalXor "
    "Xor BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift".split()
)


def types(s: Sample) -> set[str]:
    return {g.tensor.dtype.name for g in s.inputs}


def has(s: Sample, test: Callable[[np.ndarray], np.ndarray], *names: str) -> bool:
    """Whether an input of one of these types (any without names) has such a value."""
    return any(
        bool(np.any(test(g.tensor.values.astype(np.float64))))
        for g in s.inputs
        if g.tensor.dtype.kind != "string" and (not names or g.tensor.dtype.name in names)
    )


def integers(s: Sample, *bits: int) -> bool:
    return any(
        ELEMENT_TYPES[n].is_integral and ELEMENT_TYPES[n].bits in bits for n in types(s)
    )  # fmt: skip


def is_open(s: Sample) -> bool:
    """Whether a dimension or a rank is not declared."""
    return any(not g.constant and -1 in _declared(g) for g in s.inputs)


def _declared(g: Given) -> tuple[int, ...]:
    return (-1,) * g.tensor.values.ndim if g.declared is None else g.declared


def values_of(s: Sample, port: int) -> Any:
    return s.inputs[port].tensor.values


def op_of(s: Sample) -> Any:
    cls = lookup(s.type, s.version)
    assert cls is not None
    return cls(**parse_attributes(cls, s.attributes)[0])


def attr(s: Sample, name: str, text: str = "") -> bool:
    """Whether an attribute is such a text (a regular expression); empty where it is not given."""
    return bool(re.fullmatch(text, s.attributes.get(name, "")))


def aligned_at_the_end(s: Sample) -> bool:
    """Whether pdpd aligns a shorter second shape, and the plugin does so as numpy."""
    if s.attributes.get("auto_broadcast") != "pdpd" or len(s.inputs) != 2:
        return False
    known = s.type in ALIGNED_AT_THE_END or (
        s.type == "Divide" and s.inputs[0].tensor.dtype.is_real
    )
    return known and 0 < values_of(s, 1).ndim < values_of(s, 0).ndim


def aligned(s: Sample) -> tuple[Any, Any]:
    """Return two operands that broadcast as numpy's do."""
    a, b = values_of(s, 0), values_of(s, 1)
    first = attr(s, "auto_broadcast", "pdpd")
    return a, b.reshape(b.shape + (1,) * (a.ndim - b.ndim)) if first else b


def shifted_out(s: Sample) -> bool:
    """Whether a shift is negative or has 32 bits and more, or a left one leaves 32 bits."""
    data, shift = (v.astype(object) for v in aligned(s))
    if any(not 0 <= v < 32 for v in shift.flat):
        return True
    wide = s.type == "BitwiseLeftShift" and s.inputs[0].tensor.dtype.bits == 64
    return wide and any(
        abs(int(v)) << int(n) >= 2**31 for v, n in np.broadcast(data, shift)
    )  # fmt: skip


def fills_by_an_input(s: Sample) -> bool:
    """Whether Pad has constant pads, but its value is an input that the plugin misreads.

    Of open shapes it takes four bytes as f32, of exact ones nothing at all.
    """
    if s.type != "Pad" or len(s.inputs) != 4 or s.attributes.get("pad_mode") != "constant":
        return False
    _, begin, end, value = s.inputs
    misread = value.tensor.dtype.name != "f32" or -1 not in _declared(s.inputs[0])
    return begin.constant and end.constant and not value.constant and misread


def pads_an_open_axis(s: Sample) -> bool:
    """Whether MaxPool gives places, and auto_pad is to pad an axis that is not declared."""
    mode = s.attributes.get("auto_pad", "")
    if s.type != "MaxPool" or s.outputs != 2 or not mode.startswith("same"):
        return False
    op, g = op_of(s), s.inputs[0]
    axes = len(op.kernel)
    rows = zip(
        _declared(g)[2:],
        g.tensor.values.shape[2:],
        op.kernel,
        op.strides or (1,) * axes,
        op.dilations or (1,) * axes,
        strict=True,
    )
    return any(d < 0 and any(same_pads(mode, *row)) for d, *row in rows)


def ends_early(s: Sample) -> bool:
    """Whether a sequence ends before the longest, where the plugin runs it as open.

    GRU and LSTM in both directions it takes apart before.
    """
    if s.type != "RNNSequence" and s.attributes.get("direction") == "bidirectional":
        return False
    lengths = values_of(s, 3 if s.type == "LSTMSequence" else 2)
    return is_open(s) and bool(np.any(lengths < values_of(s, 0).shape[1]))


def has_index_outside(s: Sample) -> bool:
    """Whether an index of Gather, a scatter or their kin is out of range."""
    data, index = values_of(s, 0), values_of(s, 1).astype(np.int64)
    if s.type in ("GatherND", "ScatterNDUpdate"):
        start = int(s.attributes.get("batch_dims", 0))
        sizes: Any = np.array(data.shape[start : start + index.shape[-1]])
    else:
        port = 3 if s.type.startswith("Scatter") else 2
        named = s.attributes.get("axis")
        sizes = data.shape[int(values_of(s, port).flat[0] if named is None else named)]
    from_the_end = s.type != "Gather" or int(s.version.removeprefix("opset")) >= 8
    return bool(np.any((index >= sizes) | (index < (-sizes if from_the_end else 0))))


def all_constant(s: Sample) -> bool:
    """Whether OpenVINO folds the layer before the plugin sees it."""
    return all(g.constant for g in s.inputs)


def ranges_beyond_8_bits(s: Sample) -> bool:
    """Whether a Range that is not folded has 8-bit results beyond their type."""
    target = ELEMENT_TYPES[s.attributes.get("output_type") or s.inputs[0].tensor.dtype.name]
    if all_constant(s) or not target.is_integral or target.bits != 8:
        return False
    start, stop, step = (int(values_of(s, i).reshape(-1)[0]) for i in range(3))
    wide, limits = range(start, stop, step), np.iinfo(target.container)
    return bool(wide) and not (limits.min <= min(wide) and max(wide) <= limits.max)


# The plugin does not run a layer that has an empty input: by operation, the inputs that may be.
UNREAD = {
    name: ports
    for names, ports in (
        ("DFT IDFT RDFT IRDFT STFT ISTFT", (0,)),
        ("Interpolate ROIAlign ROIAlignRotated ROIPooling PSROIPooling", (0,)),
        ("DeformablePSROIPooling DeformableConvolution Convolution GroupConvolution", (0, 1)),
        ("ExperimentalDetectronGenerateProposalsSingleImage GenerateProposals", (1, 2, 3)),
        ("ExperimentalDetectronPriorGridGenerator", (0, 1, 2)),
        ("NonMaxSuppression NMSRotated MatrixNms MulticlassNms", (0, 1)),
        ("GatherND", (1,)),
        ("SearchSorted", (0,)),
        ("Proposal", (0, 1)),
        ("Transpose", (0,)),
        ("ScaledDotProductAttention", (1,)),
        ("ExperimentalDetectronROIFeatureExtractor", (1, 2, 3, 4, 5)),
    )
    for name in names.split()
}


def stays_unwritten(s: Sample) -> bool:
    """Whether the plugin does not run a layer because an input that it looks at is empty."""
    return any(0 in values_of(s, i).shape for i in UNREAD.get(s.type, ()) if i < len(s.inputs))


def adds_and_drops(s: Sample) -> bool:
    """Whether StridedSlice adds and drops axes, and has fewer entries than it takes for all."""
    count = values_of(s, 1).size
    masks = {
        n: {i for i, bit in enumerate(_bits(s, n)[:count]) if bit == "1"}
        for n in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    new = masks["new_axis_mask"] - masks["ellipsis_mask"]
    shrunk = masks["shrink_axis_mask"] - new - masks["ellipsis_mask"]
    named = count - len(new | masks["ellipsis_mask"])
    return bool(new and shrunk) and named < values_of(s, 0).ndim


def _bits(s: Sample, name: str) -> list[str]:
    return s.attributes.get(name, "").replace(" ", "").split(",")


def ties_at_the_last(s: Sample) -> bool:
    """Whether TopK of an open shape leaves a value that equals the last it takes."""
    k = int(values_of(s, 1).reshape(-1)[0])
    data = np.sort(values_of(s, 0).astype(np.float64), int(s.attributes["axis"]))
    rows = np.moveaxis(data, int(s.attributes["axis"]), 0)
    if not is_open(s) or not 0 < k < len(rows):
        return False
    at = k if s.attributes["mode"] == "min" else len(rows) - k
    return bool(np.any(rows[at - 1] == rows[at]))


def pools_the_lowest(s: Sample) -> bool:
    """Whether a window holds nothing above the lowest number of its type."""
    found = np.asarray(op_of(s).evaluate(values_of(s, 0))[0])
    if found.dtype.kind not in "iu":
        found = found.astype(np.float32)
    limits = np.iinfo(found.dtype) if found.dtype.kind in "iu" else np.finfo(np.float32)
    return bool(np.any(found == limits.min))


def pads_beside_its_axes(s: Sample) -> bool:
    """Whether Interpolate-1 pads axes that it does not resize."""
    if s.version not in ("opset1", "opset2", "opset3"):
        return False
    op = op_of(s)
    padded = {i for pads in (op.pads_begin, op.pads_end) for i, n in enumerate(pads) if n}
    return not padded <= set(op.axes)


def ties(s: Sample) -> bool:
    """Whether TopK, which need not be stable, has values that are equal."""
    stable = attr(s, "stable", "(?i)true|1")
    rows = np.moveaxis(values_of(s, 0).astype(np.float64), int(s.attributes["axis"]), -1)
    if rows.size == 0:
        return False
    rows = rows.reshape(-1, rows.shape[-1])
    return not stable and any(len(np.unique(row)) < len(row) for row in rows)


def has_a_quotient_that_rounds(s: Sample) -> bool:
    """Whether a quotient of reals is rounded up to the next integer, or down to it."""
    if not all(g.tensor.dtype.is_real for g in s.inputs):
        return False
    a, b = (v.astype(np.float32) for v in aligned(s))
    with np.errstate(all="ignore"):
        rounded, exact = a / b, a.astype(np.float64) / b.astype(np.float64)
        return bool(np.any((np.trunc(rounded) != np.trunc(exact)) & np.isfinite(exact)))


# Numbers that types of the plugin do not hold, or that overflow on the way.


def reals(s: Sample) -> list[tuple[str, Any]]:
    """The magnitudes of all real inputs, by their types."""
    found = [g.tensor for g in s.inputs if g.tensor.dtype.is_real]
    return [(t.dtype.name, np.abs(t.values.astype(np.float64))) for t in found]


def wide(s: Sample) -> Any:
    """What a layer gives of the same numbers in f64, as far as these say so; else nothing."""
    kind = s.inputs[0].tensor.dtype
    inputs = [g.tensor.values.astype(np.float64) if g.tensor.dtype == kind else g.tensor.values
              for g in s.inputs]  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(op_of(s).evaluate(*inputs))
    except (TypeError, ValueError, OpError):
        return np.zeros(0)
    return found if found.dtype.kind == "f" else np.zeros(0)


def overflows(s: Sample) -> bool:
    """Whether a result leaves the type of the data."""
    limits = np.iinfo(values_of(s, 0).dtype)
    found = wide(s)
    return bool(np.any((found < limits.min) | (found > limits.max)))


def overflows_as_a_sum(s: Sample) -> bool:
    """Whether a total of 8-bit integers leaves their range."""
    x = values_of(s, 0)
    if x.dtype not in (np.int8, np.uint8):
        return False
    axes = tuple(int(a) for a in values_of(s, 1).reshape(-1))
    totals, limits = np.sum(x, axes, dtype=np.int64), np.iinfo(x.dtype)
    return bool(np.any((totals < limits.min) | (totals > limits.max)))


def saturates_as_open(s: Sample) -> bool:
    """Whether reals of an open shape lie beyond the 8-bit integers that they become."""
    name = s.attributes.get("destination_type") or s.inputs[-1].tensor.dtype.name
    data, target = s.inputs[0].tensor, ELEMENT_TYPES[name]
    if not (data.dtype.is_real and target.is_integral and target.bits == 8 and is_open(s)):
        return False
    whole, limits = np.trunc(data.values.astype(np.float64)), np.iinfo(target.container)
    return not bool(np.all((whole >= limits.min) & (whole <= limits.max)))


def is_beyond_32_bits(s: Sample) -> bool:
    """Whether a wide integer that goes in or comes out needs more than the 32 bits of an i32.

    A NaN becomes the lowest i32 first.
    """
    names = ("i64", "u64", "u32")
    if has(s, _no_i32, *names):
        return True
    if s.attributes.get("destination_type") in names:
        return has(s, lambda x: _no_i32(x) | np.isnan(x))
    return s.inputs[0].tensor.dtype.name in names and bool(np.any(_no_i32(wide(s))))


def _no_i32(values: np.ndarray) -> np.ndarray:
    return np.abs(values) >= 2**31


def _no_f32(values: np.ndarray) -> np.ndarray:
    return ~(np.abs(values) <= float(np.finfo(np.float32).max))


def clips_nan(s: Sample) -> bool:
    """Whether a cell that clips has a NaN for the result of a sum."""
    if not float(s.attributes.get("clip", 0)):
        return False
    with np.errstate(all="ignore"):
        found = op_of(s).evaluate(*(g.tensor.values for g in s.inputs))
    arrays = found if isinstance(found, tuple) else (found,)
    return any(bool(np.any(np.isnan(a.astype(np.float64)))) for a in arrays)


def loses_digits(s: Sample) -> bool:
    """Whether computing in f32 alone moves a result by more than samples may differ."""
    if types(s) & {"f16", "bf16", "f64"}:
        return False
    arrays = [g.tensor.values for g in s.inputs]
    wider = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    with np.errstate(all="ignore"):
        rows = zip(*(as_tuple(op_of(s).evaluate(*a)) for a in (arrays, wider)), strict=True)
        return not all(np.all(close(a, b, LIMITS["f32"])) for a, b in rows)


NUMBERS_ONLY = (
    "CumSum EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum "
    "EmbeddingSegmentsSum Elu LRN MatMul MaxPool Round SearchSorted SegmentMax TopK"
)


def number(s: Sample, name: str, default: float = 0) -> float:
    return float(s.attributes.get(name, default))


def numbers(s: Sample, name: str) -> list[float]:
    return [float(v) for v in s.attributes.get(name, "").split(",") if v.strip()]


def shape_of(s: Sample, port: int) -> tuple[int, ...]:
    shape: tuple[int, ...] = values_of(s, port).shape
    return shape


def is_boolean(s: Sample) -> bool:
    """Whether the data are booleans that are used, or that are none."""
    used = s.type in NUMBERS_ONLY.split() or 0 in shape_of(s, 0)
    return used and s.inputs[0].tensor.dtype.name == "boolean"


def planes_differ(s: Sample) -> bool:
    """Whether open planes of Y have more than a channel, or those of U and V not half the size."""
    luma, *chroma = (g.tensor.values.shape for g in s.inputs)
    channels = 2 if s.type.startswith("NV12") else 1
    if not chroma:
        fits = luma[1] % 3 == 0 and luma[2] % 2 == 0
    else:
        fits = all((2 * c[1], 2 * c[2], c[3]) == (luma[1], luma[2], channels) for c in chroma)
    return is_open(s) and not (fits and luma[3] == 1)


def groups_do_not_fit(s: Sample) -> bool:
    """Whether channels, a region's numbers or the offsets are not what the attributes need."""
    outputs, group = number(s, "output_dim"), number(s, "group_size", 1)
    if shape_of(s, 0)[1] != outputs * group**2 or shape_of(s, 1)[1] != 5:
        return True
    if len(s.inputs) < 3:
        return False
    _, pairs, *parts = shape_of(s, 2)
    part = number(s, "part_size", 1)
    return bool(parts != [part, part] or pairs % 2 or not pairs or outputs % (pairs // 2))


def windows(s: Sample) -> int:
    strides, dilations, begins, ends = (
        numbers(s, n) or [d, d]
        for n, d in (("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0))
    )
    rows = zip(values_of(s, 1), values_of(s, 2), strides, dilations, begins, ends, strict=True)
    return math.prod(int((i + b + e - d * (k - 1) - 1) // t + 1) for i, k, t, d, b, e in rows)


def has_no_axis_for_slopes(s: Sample) -> bool:
    """Whether slopes fit no axis of a scalar or of nothing, are none, or fit the last alone."""
    data, slopes = shape_of(s, 0), shape_of(s, 1)
    fits = math.prod(slopes) == 1 or (len(slopes) == 1 and slopes[0] in (*data[1:2], *data[-1:]))
    last = all(1 in (a, b) or a == b for a, b in zip(data[-1:], slopes[-1:], strict=False))
    return not fits and (last or len(slopes) > len(data) or 0 in data or 0 in slopes)


def updates_another_slice(s: Sample) -> bool:
    """Whether places that are inputs name a slice of another shape than the updates."""
    data, updates, *places = (g.tensor.values for g in s.inputs)
    begin, end, step = (p.reshape(-1).tolist() for p in places[:3])
    axes = places[3].reshape(-1).tolist() if len(places) > 3 else range(len(begin))
    shape = list(data.shape)
    for axis, b, e, t in zip(axes, begin, end, step, strict=True):
        shape[axis] = len(range(*slice(b, e if e >= -data.shape[axis] else None, t).indices(
            data.shape[axis])))  # fmt: skip
    return tuple(shape) != updates.shape and not all(g.constant for g in s.inputs[2:])


def below(s: Sample, least: int, *names: str) -> bool:
    """Whether a number of one of the attributes is below the least."""
    return any(v < least for n in names for v in numbers(s, n))


def has_foreign_labels(s: Sample) -> bool:
    """Whether a label that counts is no class."""
    labels, counts = values_of(s, 2), values_of(s, 3)
    if labels.ndim != 2:
        return False
    used = np.arange(labels.shape[1]) < counts.reshape(-1, 1)
    classes = shape_of(s, 0)[-1]
    return bool(np.any(used & ((labels < 0) | (labels >= classes))))


def shrinks_outside(s: Sample) -> bool:
    """Whether an index of an open axis that StridedSlice drops is outside of it."""
    masks = {n: numbers(s, f"{n}_mask") for n in ("shrink_axis", "new_axis", "ellipsis", "begin")}
    if any(masks["new_axis"]) or any(masks["ellipsis"]) or not is_open(s):
        return False
    begins = values_of(s, 1).reshape(-1).tolist()
    ignored = masks["begin"] + [0.0] * len(begins)
    rows = zip(begins, shape_of(s, 0), masks["shrink_axis"], ignored, strict=False)
    return any(drops and not free and not -d <= b < d for b, d, drops, free in rows)


def empty(s: Sample) -> bool:
    return any(0 in g.tensor.values.shape for g in s.inputs)


def transforms_more(s: Sample) -> bool:
    """Whether a real transform goes over more than its data have; the last axis has pairs."""
    if len(s.inputs) < 3:
        return False
    shape, axes, sizes = values_of(s, 0).shape, *(values_of(s, i).reshape(-1) for i in (1, 2))
    inverse = s.type == "IRDFT"
    rows = zip(axes.tolist(), sizes.tolist(), strict=True)
    held = [(shape[:-1] if inverse else shape)[a] for a, _ in rows]
    needed = sizes.tolist()
    if inverse and needed:
        needed[-1] = needed[-1] // 2 + 1
    return any(n > h for n, h in zip(needed, held, strict=True))


def opens(s: Sample, port: int) -> bool:
    """Whether the shape of an input is not declared exactly."""
    g = s.inputs[port]
    return not g.constant and (g.declared is None or -1 in g.declared)


def varies(s: Sample, *ports: int) -> bool:
    """Whether one of these inputs is no constant."""
    return any(i < len(s.inputs) and not s.inputs[i].constant for i in ports)


def has_no_rank(s: Sample) -> bool:
    """Whether the number of axes of an input or output is not known beforehand."""
    if any(not g.constant and g.declared is None for g in s.inputs):
        return True
    if lookup(s.type, s.version) is None:
        return False
    specs = [_declared_spec(g) for g in s.inputs]
    return any(out.shape is None for out in infer_op(op_of(s), tuple(specs)))


def _declared_spec(g: Given) -> Spec:
    spec = g.tensor.spec
    if g.constant or g.declared is None:
        return spec if g.constant else Spec(spec.dtype, None)
    return Spec(spec.dtype, tuple(DYNAMIC if d < 0 else d for d in g.declared))


def is_foreign(s: Sample) -> bool:
    """Whether a layer is of no operation set that OpenVINO has."""
    return not re.fullmatch(f"opset({'|'.join(map(str, range(1, LAST + 1)))})", s.version)


def has_narrow_type(s: Sample) -> bool:
    """Whether an input or an attribute has a type of less than 8 bits, of f8, or of strings."""
    names = {*types(s), *s.attributes.values()} & set(ELEMENT_TYPES)
    found = [ELEMENT_TYPES[n] for n in names]
    return any(t.is_packed or t.kind == "string" or t.name.startswith("f8") for t in found)


def axes_of(s: Sample) -> set[int]:
    rank, opset = values_of(s, 0).ndim, int(s.version.removeprefix("opset"))
    port = 3 if opset < 11 else 2
    if port >= len(s.inputs):
        return set(range(rank))
    return {int(a) % rank for a in values_of(s, port).reshape(-1)}


def scatters_behind_ones(s: Sample) -> bool:
    """Whether the updates of one index are smaller without so many axes as sizes of 1 are there."""
    data, indices, updates = (values_of(s, port).shape for port in range(3))
    axis, depth = int(values_of(s, 3).reshape(-1)[0]) % len(data), len(indices)
    ones = len([*itertools.takewhile(lambda n: n == 1, indices[1:])]) + data[axis + 1 :].count(1)
    at = axis + depth
    return all_constant(s) and math.prod(updates[at:]) != math.prod(updates[at + ones :])


BOUND: tuple[Callable[..., Any], ...] = (
    all_constant, attr, empty, has, integers, is_open, number, numbers, opens, overflows, reals,
    varies, wide, windows,
)  # fmt: skip
_compiled = functools.cache(functools.partial(compile, filename="differences.toml", mode="eval"))


def holds(expression: str, s: Sample, *arguments: Any) -> Any:
    """Return whether a condition of the table holds; one with arguments is a function of these."""
    arrays = [g.tensor.values for g in s.inputs]
    names = {f.__name__: functools.partial(f, s) for f in BOUND} | {
        "np": np,
        "itertools": itertools,
        "ELEMENT_TYPES": ELEMENT_TYPES,
        "F32": float(np.finfo(np.float32).max),
        "s": s,
        "x": arrays,
        "shape": [a.shape for a in arrays],
        "dtype": [g.tensor.dtype for g in s.inputs],
        "kind": [g.tensor.dtype.name for g in s.inputs],
        "const": [g.constant for g in s.inputs],
        "real": lambda i: arrays[i].astype(np.float64),
        "flat": lambda i: arrays[i].reshape(-1).tolist(),
        "op": lambda: op_of(s),
        "run": lambda: op_of(s).evaluate(*arrays),
        "axes": lambda: axes_of(s),
    }
    value = eval(_compiled(expression), names)
    return bool(value(*arguments) if arguments else value)
