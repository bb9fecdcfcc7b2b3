"""What samples have that one side refuses, found without irdeconv's checks; see conditions.py."""

import math
import re
from typing import Any

import numpy as np

from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, lookup
from irdeconv.ir.spec import DYNAMIC, Spec
from irdeconv.ops.catalog import LAST
from support.live.conditions import all_constant, attr, integers, is_open, op_of, types, values_of
from support.live.sample import Given, Sample

NUMBERS_ONLY = (
    "CumSum EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum "
    "EmbeddingSegmentsSum Elu LRN MatMul MaxPool Round SearchSorted SegmentMax TopK"
)


def _number(s: Sample, name: str, default: float = 0) -> float:
    return float(s.attributes.get(name, default))


def numbers_in(s: Sample, name: str) -> list[float]:
    return [float(v) for v in s.attributes.get(name, "").split(",") if v.strip()]


def shape_of(s: Sample, port: int) -> tuple[int, ...]:
    shape: tuple[int, ...] = values_of(s, port).shape
    return shape


def is_boolean(s: Sample) -> bool:
    """Whether the data are booleans that are used, or that are none."""
    used = s.type in NUMBERS_ONLY.split() or 0 in shape_of(s, 0)
    return used and s.inputs[0].tensor.dtype.name == "boolean"


def has_another_mask(s: Sample) -> bool:
    """Whether an attention mask is real and of another type than the query."""
    query, mask = (s.inputs[i].tensor.dtype for i in (0, 3))
    return mask.is_real and mask != query


def has_another_hidden_size(s: Sample) -> bool:
    """Whether the attribute is not what the initial state and R have."""
    return shape_of(s, 1)[-1] != _number(s, "hidden_size")


def planes_differ(s: Sample) -> bool:
    """Whether open planes of Y have more than a channel, or those of U and V not half the size."""
    luma, *chroma = (g.tensor.values.shape for g in s.inputs)
    channels = 2 if s.type.startswith("NV12") else 1
    if not chroma:
        fits = luma[1] % 3 == 0 and luma[2] % 2 == 0
    else:
        fits = all((2 * c[1], 2 * c[2], c[3]) == (luma[1], luma[2], channels) for c in chroma)
    return is_open(s) and not (fits and luma[3] == 1)


def regions_do_not_fit(s: Sample) -> bool:
    """Whether the channels are not those of the regions that RegionYolo reads."""
    softmax = attr(s, "do_softmax", "(?i)true|1")
    regions = _number(s, "num") if softmax else len(numbers_in(s, "mask"))
    needed = regions * (_number(s, "coords") + _number(s, "classes") + 1)
    return shape_of(s, 0)[1] != needed


def groups_do_not_fit(s: Sample) -> bool:
    """Whether channels, a region's numbers or the offsets are not what the attributes need."""
    outputs, group = _number(s, "output_dim"), _number(s, "group_size", 1)
    if shape_of(s, 0)[1] != outputs * group**2 or shape_of(s, 1)[1] != 5:
        return True
    if len(s.inputs) < 3:
        return False
    _, pairs, *parts = shape_of(s, 2)
    part = _number(s, "part_size", 1)
    return bool(parts != [part, part] or pairs % 2 or not pairs or outputs % (pairs // 2))


def columns_do_not_fit(s: Sample) -> bool:
    """Whether data whose sizes are inputs or open have other columns than the image windows."""
    return _windows(s) != shape_of(s, 0)[-1] and (
        is_open(s) or not all(g.constant for g in s.inputs[1:])
    )


def _windows(s: Sample) -> int:
    strides, dilations, begins, ends = (
        numbers_in(s, n) or [d, d]
        for n, d in (("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0))
    )
    rows = zip(values_of(s, 1), values_of(s, 2), strides, dilations, begins, ends, strict=True)
    return math.prod(int((i + b + e - d * (k - 1) - 1) // t + 1) for i, k, t, d, b, e in rows)


def axis_differs(s: Sample, port: int, axis: int, *sizes: int) -> bool:
    """Whether an axis has another size than these, and is open or empty."""
    return shape_of(s, port)[axis] not in sizes and (is_open(s) or not shape_of(s, port)[axis])


def scores_do_not_fit(s: Sample) -> bool:
    """Whether open regions have not 4 numbers, or their scores are not num_classes."""
    classes = _number(s, "num_classes")
    needed = (shape_of(s, 0)[1], shape_of(s, 1)[1], shape_of(s, 2)[1])
    return is_open(s) and needed != (4, 4 * classes, classes)


def anchors_differ(s: Sample) -> bool:
    """Whether open scores and shifts of Proposal are not of the same places."""
    return is_open(s) and shape_of(s, 0)[2:] != shape_of(s, 1)[2:]


def has_other_scores(s: Sample) -> bool:
    """Whether open scores of DetectionOutput are not one for each prior and class."""
    numbers = 4 if attr(s, "normalized", "(?i)true|1") else 5
    priors = shape_of(s, 2)[-1] // numbers
    return is_open(s) and shape_of(s, 1)[-1] != priors * _number(s, "num_classes")


def has_no_axis_for_slopes(s: Sample) -> bool:
    """Whether slopes fit no axis of a scalar or of nothing, are none, or of more axes than data."""
    data, slopes = shape_of(s, 0), shape_of(s, 1)
    fits = math.prod(slopes) == 1 or (len(slopes) == 1 and slopes[0] in (*data[1:2], *data[-1:]))
    return not fits and (len(slopes) > len(data) or 0 in data or 0 in slopes)


def has_fewer_regions(s: Sample) -> bool:
    return shape_of(s, 0)[0] < _number(s, "max_rois")


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


def is_empty(s: Sample, port: int, axis: int | None = None) -> bool:
    """Whether an input, or one axis of it, has no elements."""
    shape = shape_of(s, port)
    return 0 in shape if axis is None else shape[axis] == 0


def below(s: Sample, least: int, *names: str) -> bool:
    """Whether a number of one of the attributes is below the least."""
    return any(v < least for n in names for v in numbers_in(s, n))


def lacks(s: Sample, name: str) -> bool:
    """Whether an attribute has no number."""
    return not numbers_in(s, name)


def names_twice(s: Sample, name: str) -> bool:
    return len(set(numbers_in(s, name))) < len(numbers_in(s, name))


def has_no_kernel(s: Sample) -> bool:
    """Whether the kernel of a convolution has a size of 0."""
    return 0 in shape_of(s, 1)[-(len(shape_of(s, 0)) - 2) :]


def has_other_integers(s: Sample) -> bool:
    names = ("classes_index_type", "sequence_length_type")
    return any(s.attributes.get(n, "i32") not in ("i32", "i64") for n in names)


def has_another_grid(s: Sample) -> bool:
    """Whether h or w is given and not what the feature map has."""
    *_, rows, columns = shape_of(s, 1)
    return _number(s, "h") not in (0, rows) or _number(s, "w") not in (0, columns)


def batches_outside(s: Sample) -> bool:
    count = _number(s, "batch_dims")
    return not -len(shape_of(s, 1)) <= count <= min(len(shape_of(s, i)) for i in (0, 1))


def has_foreign_labels(s: Sample) -> bool:
    """Whether a label that counts is no class."""
    labels, counts = values_of(s, 2), values_of(s, 3)
    if labels.ndim != 2:
        return False
    used = np.arange(labels.shape[1]) < counts.reshape(-1, 1)
    classes = shape_of(s, 0)[-1]
    return bool(np.any(used & ((labels < 0) | (labels >= classes))))


def draws_too_many(s: Sample) -> bool:
    """Whether more classes are drawn than there are, each at most once."""
    again = attr(s, "with_replacement", "(?i)true|1")
    return not again and int(values_of(s, 1).reshape(-1)[0]) > shape_of(s, 0)[-1]


def has_a_foreign_image(s: Sample) -> bool:
    """Whether a region is of an image that the data have not."""
    images = values_of(s, 1)[:, 0].astype(np.float64)
    return bool(np.any((images < 0) | (images >= shape_of(s, 0)[0])))


def counts_other_regions(s: Sample) -> bool:
    """Whether the numbers of regions are negative, or are more than the regions together."""
    counts = values_of(s, 2).astype(np.int64)
    return bool(np.any(counts < 0) or counts.sum() > shape_of(s, 0)[1])


def squeezes_more(s: Sample) -> bool:
    """Whether an axis that Squeeze names has another size than 1."""
    return any(shape_of(s, 0)[a] != 1 for a in values_of(s, 1).reshape(-1).tolist())


def shrinks_outside(s: Sample) -> bool:
    """Whether an index of an open axis that StridedSlice drops is outside of it."""
    masks = {
        n: numbers_in(s, f"{n}_mask") for n in ("shrink_axis", "new_axis", "ellipsis", "begin")
    }
    if any(masks["new_axis"]) or any(masks["ellipsis"]) or not is_open(s):
        return False
    begins = values_of(s, 1).reshape(-1).tolist()
    ignored = masks["begin"] + [0.0] * len(begins)
    rows = zip(begins, shape_of(s, 0), masks["shrink_axis"], ignored, strict=False)
    return any(drops and not free and not -d <= b < d for b, d, drops, free in rows)


def packs_outside(s: Sample) -> bool:
    """Whether a string begins or ends outside of the bytes, or ends before it begins."""
    begins, ends, count = values_of(s, 0), values_of(s, 1), values_of(s, 2).size
    return bool(np.any((begins < 0) | (ends > count) | (begins > ends)))


def steps_by_nothing(s: Sample) -> bool:
    """Whether a real step of Range becomes 0 as an integer."""
    step = float(values_of(s, 2).reshape(-1)[0])
    return step != 0 and int(step) == 0


def empty(s: Sample) -> bool:
    return any(0 in g.tensor.values.shape for g in s.inputs)


def asks_for_more(s: Sample) -> bool:
    """Whether TopK is to take more elements than its axis has."""
    k, axis = int(values_of(s, 1).reshape(-1)[0]), int(s.attributes.get("axis", 0))
    return k > values_of(s, 0).shape[axis]


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


def transforms_by_inputs(s: Sample) -> bool:
    """Whether axes or sizes of a transform are inputs, though its data are of exact size."""
    return not all(g.constant for g in s.inputs[1:]) and not opens(s, 0)


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
    specs = [_declared(g) for g in s.inputs]
    return any(out.shape is None for out in infer_op(op_of(s), tuple(specs)))


def _declared(g: Given) -> Spec:
    spec = g.tensor.spec
    if g.constant or g.declared is None:
        return spec if g.constant else Spec(spec.dtype, None)
    return Spec(spec.dtype, tuple(DYNAMIC if d < 0 else d for d in g.declared))


def packs_a_list(s: Sample) -> bool:
    return any(g.tensor.dtype.name in ("i4", "u4") for g in s.inputs[1:])


def mixed(s: Sample) -> bool:
    return len({g.tensor.dtype.name for g in s.inputs if g.tensor.dtype.is_real}) > 1


def is_foreign(s: Sample) -> bool:
    """Whether a layer is of no operation set that OpenVINO has."""
    return not re.fullmatch(f"opset({'|'.join(map(str, range(1, LAST + 1)))})", s.version)


def has_narrow_type(s: Sample) -> bool:
    """Whether an input or an attribute has a type of less than 8 bits, of f8, or of strings."""
    names = {*types(s), *s.attributes.values()} & set(ELEMENT_TYPES)
    found = [ELEMENT_TYPES[n] for n in names]
    return any(t.is_packed or t.kind == "string" or t.name.startswith("f8") for t in found)


def is_below_nothing(s: Sample) -> bool:
    """Whether pads are negative."""
    op: Any = op_of(s)
    return min((*op.pads_begin, *op.pads_end), default=0) < 0


def whole_axes(s: Sample) -> bool:
    return -1 in values_of(s, 2).reshape(-1).tolist()[:-1]


def ends_behind(s: Sample) -> bool:
    """Whether an offset of a bag is not below the number of indices."""
    return bool(np.any(values_of(s, 2).astype(np.int64) >= values_of(s, 1).size))


def resizes_others(s: Sample) -> bool:
    """Whether Interpolate goes over other axes than all the spatial ones."""
    return axes_of(s) != set(range(2, values_of(s, 0).ndim))


def axes_of(s: Sample) -> set[int]:
    rank, opset = values_of(s, 0).ndim, int(s.version.removeprefix("opset"))
    port = 3 if opset < 11 else 2
    if port >= len(s.inputs):
        return set(range(rank))
    return {int(a) % rank for a in values_of(s, port).reshape(-1)}


def joins_one_and_none(s: Sample) -> bool:
    """Whether pdpd meets an axis of size 0 with one of size 1."""
    a, b = (values_of(s, i).shape for i in (0, 1))
    pdpd = s.attributes.get("auto_broadcast") == "pdpd" and len(a) == len(b)
    return pdpd and any((x, y) == (0, 1) for x, y in zip(a, b, strict=True))


def takes_no_filter(s: Sample) -> bool:
    """Whether the data are no f32 or are open, or the filter does."""
    return is_open(s) or s.inputs[0].tensor.dtype.name != "f32" or all_constant(s)


def finds_nothing(s: Sample) -> bool:
    found = op_of(s).evaluate(*(g.tensor.values for g in s.inputs))
    return len(found[0]) == 0


def takes_one_of_batches(s: Sample) -> bool:
    """Whether Gather takes one element, a constant says which, of batches."""
    one = s.inputs[1].constant and values_of(s, 1).size == 1
    return one and s.attributes.get("batch_dims", "0") != "0"


def feeds_a_scalar_f64(s: Sample) -> bool:
    return any(
        g.tensor.dtype.name == "f64" and not g.constant and not g.tensor.values.ndim
        for g in s.inputs
    )


def keeps_nothing(s: Sample) -> bool:
    """Whether a detection may keep no box of a class, or has none to choose from."""
    most = values_of(s, 2) if s.type == "NonMaxSuppression" and len(s.inputs) > 2 else None
    none = most is not None and not np.any(most > 0)
    return none or int(s.attributes.get("nms_top_k", -1)) == 0 or empty(s)


def has_odd_default(s: Sample) -> bool:
    """Whether the default index of an EmbeddingBag is below -1."""
    port = 4 if s.type == "EmbeddingSegmentsSum" else 3
    return len(s.inputs) > port and bool(np.any(values_of(s, port) < -1))


def normalizes_others(s: Sample) -> bool:
    """Whether LRN goes over other axes than the channels, or all spatial ones."""
    rank = values_of(s, 0).ndim
    axes = {int(a) % rank for a in values_of(s, 1).reshape(-1)}
    return varies(s, 1) or empty(s) or axes not in ({1}, set(range(2, rank)))


def dilates_integers(s: Sample) -> bool:
    return integers(s, 8, 16, 32, 64) and any(d > 1 for d in op_of(s).dilations)


def ends_regions(s: Sample) -> bool:
    """Whether an image of -1 says that no region follows."""
    return -1 in values_of(s, 2)


def pads_one_layer_of_bf16(s: Sample) -> bool:
    """Whether data of bf16, with one channel and depth 1, are padded in front of that depth."""
    x, w = values_of(s, 0).shape, values_of(s, 1).shape
    if "bf16" not in types(s) or len(x) != 5 or x[1:3] != (1, 1):
        return False
    return bool(op_of(s).effective_pads(x[2:], w[-3:])[0][0] > 0)


def lacks_lists(s: Sample) -> bool:
    return int(s.version.removeprefix("opset")) >= 16 and "dilations" not in s.attributes


def has_no_prior(s: Sample) -> bool:
    return not np.asarray(op_of(s).evaluate(*(g.tensor.values for g in s.inputs))).size


def steps_beyond_31_bits(s: Sample) -> bool:
    return bool(np.any(values_of(s, 3).astype(np.float64) <= -(2.0**31)))


def is_narrow(s: Sample) -> bool:
    """Whether the data have less than 32 bits."""
    return bool(values_of(s, 0).dtype.itemsize < 4)


def is_unsigned(s: Sample) -> bool:
    return s.inputs[0].tensor.dtype.kind == "uint"


def shifts_all_alike(s: Sample) -> bool:
    """Whether Roll has one shift for several axes."""
    return bool(values_of(s, 1).size == 1 < values_of(s, 2).size)


def has_bad_filter(s: Sample) -> bool:
    return not bool(np.all(np.isfinite(values_of(s, 1).astype(np.float64))))


def reads_nothing(s: Sample) -> bool:
    """Whether a deconvolution reads data with a spatial axis of size 0."""
    return 0 in shape_of(s, 0)[2:]


def spreads_nothing(s: Sample) -> bool:
    """Whether Broadcast of exact sizes has a 0 that is there beforehand."""
    return 0 in shape_of(s, 0) and s.inputs[1].constant and not is_open(s)
