"""What samples have that makes OpenVINO's CPU plugin part from irdeconv, found in one sample.

differences.toml names these functions; what stands behind a name there are the arguments.
"""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.geometry import same_pads
from irdeconv.ir.op import lookup, parse_attributes
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


def has_type(s: Sample, *names: str) -> bool:
    return bool(types(s) & set(names))


def has_rank(s: Sample, rank: int) -> bool:
    return bool(values_of(s, 0).ndim == rank)


def has_outputs(s: Sample, count: int) -> bool:
    return s.outputs == count


def has_inputs(s: Sample, count: int) -> bool:
    return len(s.inputs) == count


def has_zero(s: Sample, port: int) -> bool:
    return not values_of(s, port).all()


def is_zero(s: Sample, port: int) -> bool:
    return not values_of(s, port).any()


def is_negative(s: Sample, port: int) -> bool:
    return bool(np.any(values_of(s, port) < 0))


def is_scalar(s: Sample, port: int) -> bool:
    return not values_of(s, port).ndim


def first(s: Sample, port: int, value: int) -> bool:
    return bool(values_of(s, port)[0] == value)


def repeats_fewer(s: Sample) -> bool:
    """Whether Tile has fewer repeats than axes."""
    return bool(values_of(s, 1).size < values_of(s, 0).ndim)


def has_logits_above(s: Sample, most: int) -> bool:
    return has(s, lambda x: x > most, "f32", "f16", "bf16")


def becomes_packed(s: Sample) -> bool:
    target = ELEMENT_TYPES.get(s.attributes.get("destination_type", ""))
    return target is not None and target.is_packed


def unequal_shapes(s: Sample) -> bool:
    return len({g.tensor.values.shape for g in s.inputs}) > 1


def aligned_at_the_end(s: Sample) -> bool:
    """Whether pdpd aligns a shorter second shape, and the plugin does so as numpy."""
    if s.attributes.get("auto_broadcast") != "pdpd" or len(s.inputs) != 2:
        return False
    known = s.type in ALIGNED_AT_THE_END or (
        s.type == "Divide" and s.inputs[0].tensor.dtype.is_real
    )
    return known and 0 < values_of(s, 1).ndim < values_of(s, 0).ndim


def shifted_out(s: Sample) -> bool:
    """Whether a shift is negative or has 32 bits and more, or a left one leaves 32 bits."""
    data, shift = (values_of(s, i).astype(object) for i in (0, 1))
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


def sees_padding_alone(s: Sample) -> bool:
    """Whether a window of a pooling holds no element of the data."""
    axes, _ = op_of(s).windows(values_of(s, 0).shape)
    return any(bool(np.any(a.valid() == 0)) for a in axes)


def ends_early(s: Sample) -> bool:
    """Whether a sequence ends before the longest, where the plugin runs it as open.

    GRU and LSTM in both directions it takes apart before.
    """
    if s.type != "RNNSequence" and s.attributes.get("direction") == "bidirectional":
        return False
    lengths = values_of(s, 3 if s.type == "LSTMSequence" else 2)
    return is_open(s) and bool(np.any(lengths < values_of(s, 0).shape[1]))


def broken_bias(s: Sample) -> bool:
    return not float(s.attributes.get("bias", 1)).is_integer()


def normalizes_rows(s: Sample) -> bool:
    """Whether LRN of a matrix goes over its first axis, too."""
    return values_of(s, 0).ndim == 2 and bool(np.any(values_of(s, 1) % 2 == 0))


def parts_of_bytes(s: Sample) -> bool:
    """Whether the channels of a filter do not fill bytes."""
    return bool(values_of(s, 1).shape[1] % 8)


def takes_time(s: Sample) -> bool:
    """Whether both seeds are 0."""
    return not any(int(s.attributes.get(n, 0)) for n in ("global_seed", "op_seed"))


def runs_out_of_classes(s: Sample) -> bool:
    """Whether chances are negative, or fewer classes have one than are drawn."""
    chances, op = values_of(s, 0).astype(np.float64), op_of(s)
    if op.log_probs:
        return False
    needed = 1 if op.with_replacement else int(values_of(s, 1).reshape(-1)[0])
    return bool(np.any(chances < 0) or np.any(np.sum(chances > 0, 1) < needed))


def unsorted(s: Sample) -> bool:
    """Whether edges, or the rows in which to search, go down somewhere."""
    edges = values_of(s, 1 if s.type == "Bucketize" else 0).astype(np.float64)
    return bool(np.any(np.diff(edges) < 0) or np.any(np.isnan(edges)))


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


def rounds_a_range(s: Sample) -> bool:
    """Whether start, stop or step of a Range of integers is no integer, and no constant."""
    target = op_of(s).output_type if "output_type" in s.attributes else s.inputs[0].tensor.dtype
    values = [values_of(s, i).astype(np.float64) for i in range(3)]
    whole = all(bool(np.all(v == np.trunc(v))) for v in values)
    return target.is_integral and not whole and not all_constant(s)


def leads_away(s: Sample) -> bool:
    """Whether the step of a Range that is not folded has another sign than its distance."""
    start, stop, step = (float(values_of(s, i).reshape(-1)[0]) for i in range(3))
    return (stop - start) * step < 0 and not all_constant(s)


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
        ("Proposal", (0, 1)),
        ("Transpose", (0,)),
    )
    for name in names.split()
}


def stays_unwritten(s: Sample) -> bool:
    """Whether the plugin does not run a layer because an input that it looks at is empty."""
    return any(0 in values_of(s, i).shape for i in UNREAD.get(s.type, ()) if i < len(s.inputs))


def is_least_of_nothing(s: Sample) -> bool:
    """Whether ReduceMin of f32 goes along an axis of no elements that a constant names."""
    x, axes = values_of(s, 0), values_of(s, 1).reshape(-1).tolist()
    folded = s.inputs[1].constant and s.inputs[0].tensor.dtype.name in ("f32", "f64")
    return folded and any(x.shape[a] == 0 for a in axes)


def divides_by_itself(s: Sample) -> bool:
    """Whether NormalizeL2 has an input of no axes: the plugin still adds eps below the root."""
    return not s.inputs[1].constant and not values_of(s, 1).size


def takes_from_nothing(s: Sample) -> bool:
    """Whether TopK goes along an axis of no elements."""
    return values_of(s, 0).shape[int(s.attributes["axis"])] == 0


def transforms_nothing(s: Sample) -> bool:
    """Whether an axis along which RDFT goes has no elements."""
    return any(values_of(s, 0).shape[int(a)] == 0 for a in values_of(s, 1).reshape(-1))


def fills_nothing(s: Sample) -> bool:
    """Whether Reshape of an open shape has a -1 beside a 0 that is one."""
    pattern = values_of(s, 1).reshape(-1).tolist()
    special = attr(s, "special_zero", "(?i)true|1")
    return is_open(s) and -1 in pattern and 0 in pattern and not special


def joins_nothing(s: Sample) -> bool:
    """Whether all that an open Concat joins is empty."""
    return is_open(s) and all(0 in g.tensor.values.shape for g in s.inputs)


def slices_by_inputs(s: Sample) -> bool:
    """Whether start, stop, step or axes of SliceScatter are no constants."""
    return not all(g.constant for g in s.inputs[2:])


def singular(s: Sample) -> bool:
    x = values_of(s, 0).astype(np.float64)
    if not math.prod(x.shape) or not np.all(np.isfinite(x)):
        return False
    return bool(np.any(np.linalg.matrix_rank(x, tol=1e-4) < x.shape[-1]))


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


def finds_too_few(s: Sample) -> bool:
    """Whether Proposal fills rows up: the first behind the regions is of image -1."""
    return bool(np.any(op_of(s).evaluate(*(g.tensor.values for g in s.inputs))[0][:, 0] == -1))


def hides_all(s: Sample) -> bool:
    """Whether a boolean mask shows some query of f64 no key."""
    if len(s.inputs) < 4 or s.inputs[0].tensor.dtype.name != "f64":
        return False
    mask = s.inputs[3].tensor
    return mask.dtype.kind == "bool" and mask.values.ndim > 0 and not mask.values.any(-1).all()


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


def masks_beside_a_sink(s: Sample) -> bool:
    """Whether attention has a sink and a mask that is one number, and not 0."""
    return len(s.inputs) == 6 and values_of(s, 3).ndim == 0 and bool(values_of(s, 3) != 0)


def folds_wide_integers(s: Sample) -> bool:
    return all_constant(s) and integers(s, 16, 32, 64)


def pads_beside_its_axes(s: Sample) -> bool:
    """Whether Interpolate-1 pads axes that it does not resize."""
    if s.version not in ("opset1", "opset2", "opset3"):
        return False
    op = op_of(s)
    padded = {i for pads in (op.pads_begin, op.pads_end) for i, n in enumerate(pads) if n}
    return not padded <= set(op.axes)


def limits_go_down(s: Sample) -> bool:
    """Whether FakeQuantize has constants for limits, and input_low lies above input_high."""
    fixed = all(g.constant for g in s.inputs[1:])
    return fixed and bool(np.any(values_of(s, 1) > values_of(s, 2)))


def fills_with_nothing(s: Sample) -> bool:
    """Whether a bidirectional Broadcast of exact sizes makes 0 of 1."""
    rows = zip(reversed(values_of(s, 0).shape), reversed(values_of(s, 1).tolist()), strict=False)
    exact = s.inputs[1].constant and not is_open(s)
    return exact and s.attributes.get("mode") == "bidirectional" and (1, 0) in rows


def sums_nothing(s: Sample) -> bool:
    """Whether MatMul sums up no products."""
    return values_of(s, 0).shape[-1] == 0 or values_of(s, 1).shape[-1] == 0


def ties(s: Sample) -> bool:
    """Whether TopK, which need not be stable, has values that are equal."""
    stable = attr(s, "stable", "(?i)true|1")
    rows = np.moveaxis(values_of(s, 0).astype(np.float64), int(s.attributes["axis"]), -1)
    if rows.size == 0:
        return False
    rows = rows.reshape(-1, rows.shape[-1])
    return not stable and any(len(np.unique(row)) < len(row) for row in rows)


def places_out_of_order(s: Sample) -> bool:
    """Whether a place of SparseFillEmptyRows is not behind the one before, row by row."""
    places = [tuple(p) for p in values_of(s, 2).astype(np.int64).tolist()]
    return any(a >= b for a, b in itertools.pairwise(places))


def has_a_quotient_that_rounds(s: Sample) -> bool:
    """Whether a quotient of reals is rounded up to the next integer, or down to it."""
    if not all(g.tensor.dtype.is_real for g in s.inputs):
        return False
    a, b = (values_of(s, i).astype(np.float32) for i in (0, 1))
    with np.errstate(all="ignore"):
        rounded, exact = a / b, a.astype(np.float64) / b.astype(np.float64)
        return bool(np.any((np.trunc(rounded) != np.trunc(exact)) & np.isfinite(exact)))


# Numbers that types of the plugin do not hold, or that overflow on the way.


def _reals(s: Sample) -> list[tuple[str, Any]]:
    """The magnitudes of all real inputs, by their types."""
    found = [g.tensor for g in s.inputs if g.tensor.dtype.is_real]
    return [(t.dtype.name, np.abs(t.values.astype(np.float64))) for t in found]


def has_nonfinite(s: Sample) -> bool:
    return any(bool(np.any(~np.isfinite(x))) for _, x in _reals(s))


def has_huge(s: Sample) -> bool:
    """Whether the square of an input overflows f32, or f16 if that is its type."""
    limits = {"f16": 2.0**8}
    return any(bool(np.any(x >= limits.get(name, 2.0**64))) for name, x in _reals(s))


def has_subnormal(s: Sample) -> bool:
    return any(bool(np.any((x > 0) & (x < 2.0**-126))) for _, x in _reals(s))


def has_large_integers(s: Sample) -> bool:
    """Whether an integer has more digits than an f32, in which the plugin computes."""
    found = [g.tensor for g in s.inputs if g.tensor.dtype.is_integral]
    return any(bool(np.any(np.abs(t.values.astype(np.float64)) > 2**24)) for t in found)


def _wide(s: Sample) -> Any:
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
    found = _wide(s)
    return bool(np.any((found < limits.min) | (found > limits.max)))


def overflows_8_bits(s: Sample) -> bool:
    return integers(s, 8) and overflows(s)


def overflows_as_a_sum(s: Sample) -> bool:
    """Whether a total of 8-bit integers leaves their range."""
    x = values_of(s, 0)
    if x.dtype not in (np.int8, np.uint8):
        return False
    axes = tuple(int(a) for a in values_of(s, 1).reshape(-1))
    totals, limits = np.sum(x, axes, dtype=np.int64), np.iinfo(x.dtype)
    return bool(np.any((totals < limits.min) | (totals > limits.max)))


def squares_overflow(s: Sample) -> bool:
    """Whether a total of squares of 8-bit integers leaves their range."""
    x, axes = values_of(s, 0), tuple(int(a) for a in values_of(s, 1).reshape(-1))
    totals = np.sum(x.astype(np.int64) ** 2, axes)
    return integers(s, 8) and bool(np.any(totals > np.iinfo(x.dtype).max))


def has_no_result(s: Sample) -> bool:
    """Whether a function of 8-bit integers in three or four axes is NaN somewhere."""
    if values_of(s, 0).ndim not in (3, 4) or not integers(s, 8) or len(s.inputs) > 1:
        return False
    return bool(np.any(np.isnan(_wide(s))))


def divides_unevenly(s: Sample) -> bool:
    """Whether quotients that the plugin computes in f32 are not whole, or none."""
    rounded = s.attributes.get("auto_broadcast") == "pdpd" or (integers(s, 8) and is_open(s))
    found = _wide(s)
    return rounded and integers(s, 8, 16, 32, 64) and bool(np.any(found != np.trunc(found)))


def saturates_as_open(s: Sample) -> bool:
    """Whether reals of an open shape lie beyond the 8-bit integers that they become."""
    name = s.attributes.get("destination_type") or s.inputs[-1].tensor.dtype.name
    data, target = s.inputs[0].tensor, ELEMENT_TYPES[name]
    if not (data.dtype.is_real and target.is_integral and target.bits == 8 and is_open(s)):
        return False
    whole, limits = np.trunc(data.values.astype(np.float64)), np.iinfo(target.container)
    return not bool(np.all((whole >= limits.min) & (whole <= limits.max)))


def is_beyond_f32(s: Sample) -> bool:
    """Whether a result of integers is so large that its last digits are those of an f32."""
    found = _wide(s)
    large = bool(np.any(np.abs(found) > 2**22))
    return integers(s, 16, 32, 64) and (large or (integers(s, 16) and overflows(s)))


def is_beyond_32_bits(s: Sample) -> bool:
    """Whether a wide integer that goes in or comes out needs more than the 32 bits of an i32.

    A NaN becomes the lowest i32 first.
    """
    wide = ("i64", "u64", "u32")
    if has(s, _no_i32, *wide):
        return True
    if s.attributes.get("destination_type") in wide:
        return has(s, lambda x: _no_i32(x) | np.isnan(x))
    return s.inputs[0].tensor.dtype.name in wide and bool(np.any(_no_i32(_wide(s))))


def _no_i32(values: np.ndarray) -> np.ndarray:
    return np.abs(values) >= 2**31


def leaves_f32(s: Sample) -> bool:
    """Whether a number of f64 that goes in or comes out is no finite f32."""
    if "f64" not in types(s):
        return False
    return has(s, _no_f32, "f64") or bool(np.any(_no_f32(_wide(s))))


def _no_f32(values: np.ndarray) -> np.ndarray:
    return ~(np.abs(values) <= float(np.finfo(np.float32).max))


def is_infinite(s: Sample) -> bool:
    """Whether a result is an infinity."""
    return bool(np.any(np.isinf(_wide(s))))


def clips_nan(s: Sample) -> bool:
    """Whether a cell that clips has a NaN for the result of a sum."""
    if not float(s.attributes.get("clip", 0)):
        return False
    with np.errstate(all="ignore"):
        found = op_of(s).evaluate(*(g.tensor.values for g in s.inputs))
    arrays = found if isinstance(found, tuple) else (found,)
    return any(bool(np.any(np.isnan(a.astype(np.float64)))) for a in arrays)


def multiplies_beyond_15_bits(s: Sample) -> bool:
    """Whether a product of u8 along the axes has more than 15 bits."""
    axes = tuple(int(a) for a in values_of(s, 1).reshape(-1))
    wide = values_of(s, 0).astype(np.float64)
    return types(s) >= {"u8"} and bool(np.any(np.prod(wide, axes) > 32767))
