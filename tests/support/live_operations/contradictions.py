"""What numbers of samples contradict each other, found without irdeconv's checks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from support.live_operations.conditions import is_open, values_of
from support.live_operations.sample import Sample

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
    softmax = s.attributes.get("do_softmax") == "true"
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


def axis_differs(port: int, axis: int, *sizes: int) -> Callable[[Sample], bool]:
    """Return whether an axis has another size than these, and is open or empty."""
    return lambda s: (
        shape_of(s, port)[axis] not in sizes and (is_open(s) or not shape_of(s, port)[axis])
    )


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
    numbers = 4 if s.attributes.get("normalized") == "true" else 5
    priors = shape_of(s, 2)[-1] // numbers
    return is_open(s) and shape_of(s, 1)[-1] != priors * _number(s, "num_classes")


def has_no_axis_for_slopes(s: Sample) -> bool:
    """Whether as many slopes as no axis has are given for a scalar or for nothing, or none are."""
    data, slopes = shape_of(s, 0), shape_of(s, 1)
    fits = math.prod(slopes) == 1 or (len(slopes) == 1 and slopes[0] in (*data[1:2], *data[-1:]))
    return not fits and (not data or 0 in data or 0 in slopes)


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


def is_empty(port: int, axis: int | None = None) -> Callable[[Sample], bool]:
    """Return whether an input, or one axis of it, has no elements."""
    if axis is None:
        return lambda s: 0 in shape_of(s, port)
    return lambda s: shape_of(s, port)[axis] == 0


def below(least: float, *names: str) -> Callable[[Sample], bool]:
    """Return whether a number of one of the attributes is below the least."""
    return lambda s: any(v < least for n in names for v in numbers_in(s, n))


def has_other_integers(s: Sample) -> bool:
    names = ("classes_index_type", "sequence_length_type")
    return any(s.attributes.get(n, "i32") not in ("i32", "i64") for n in names)


def has_another_grid(s: Sample) -> bool:
    """Whether h or w is given and not what the feature map has."""
    *_, rows, columns = shape_of(s, 1)
    return _number(s, "h") not in (0, rows) or _number(s, "w") not in (0, columns)


def has_no_size(s: Sample) -> bool:
    """Whether PriorBox has neither a min_size nor a fixed_size."""
    return not numbers_in(s, "min_size") and not numbers_in(s, "fixed_size")


def batches_outside(s: Sample) -> bool:
    count = _number(s, "batch_dims")
    return not -len(shape_of(s, 1)) <= count <= min(len(shape_of(s, i)) for i in (0, 1))


def has_foreign_labels(s: Sample) -> bool:
    """Whether a label that counts is no class."""
    labels, counts = values_of(s, 2), values_of(s, 3)
    used = np.arange(labels.shape[1]) < counts.reshape(-1, 1)
    classes = shape_of(s, 0)[-1]
    return bool(np.any(used & ((labels < 0) | (labels >= classes))))


def draws_too_many(s: Sample) -> bool:
    """Whether more classes are drawn than there are, each at most once."""
    again = s.attributes.get("with_replacement") == "true"
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
