"""What holds of a layer that OpenVINO refuses, or computes otherwise: tests on one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irdeconv.ir.op import infer_op, lookup
from irdeconv.ir.spec import DYNAMIC, Spec
from support.live_operations.conditions import (
    all_constant,
    integers,
    is_open,
    op_of,
    types,
    unequal_shapes,
    values_of,
)
from support.live_operations.sample import Given, Sample


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
    return not all(g.constant for g in s.inputs[1:]) and not opens(s.inputs[0])


def opens(g: Given) -> bool:
    return not g.constant and (g.declared is None or -1 in g.declared)


def varies(*ports: int) -> Callable[[Sample], bool]:
    """Return whether one of these inputs is no constant."""
    return lambda s: any(i < len(s.inputs) and not s.inputs[i].constant for i in ports)


def has_no_rank(s: Sample) -> bool:
    """Whether the number of axes of an output is not known beforehand."""
    cls = lookup(s.type, s.version)
    if cls is None:
        return False
    specs = [declared(g) for g in s.inputs]
    return any(out.shape is None for out in infer_op(op_of(s), tuple(specs)))


def declared(g: Given) -> Spec:
    spec = g.tensor.spec
    if g.constant or g.declared is None:
        return spec if g.constant else Spec(spec.dtype, None)
    return Spec(spec.dtype, tuple(DYNAMIC if d < 0 else d for d in g.declared))


def odd_lists(s: Sample) -> bool:
    """Whether lists are of other integer types than i32 and i64, or of two types."""
    listed = s.inputs if s.type in ("Eye", "PriorBox", "PriorBoxClustered") else s.inputs[1:]
    kinds = {g.tensor.dtype.name for g in listed if g.tensor.dtype.is_integral}
    return len(kinds) > 1 or not kinds <= {"i32", "i64"}


def is_f64(s: Sample) -> bool:
    return "f64" in types(s)


def mixed(s: Sample) -> bool:
    return len({g.tensor.dtype.name for g in s.inputs if g.tensor.dtype.is_real}) > 1


def is_foreign(s: Sample) -> bool:
    return not op_of(s).standard


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


def places_of_a_row(s: Sample) -> bool:
    return s.outputs == 2 and values_of(s, 0).ndim == 3


def joins_one_and_none(s: Sample) -> bool:
    """Whether pdpd meets an axis of size 0 with one of size 1."""
    a, b = (values_of(s, i).shape for i in (0, 1))
    pdpd = s.attributes.get("auto_broadcast") == "pdpd" and len(a) == len(b)
    return pdpd and any((x, y) == (0, 1) for x, y in zip(a, b, strict=True))


def divides_8_bits(s: Sample) -> bool:
    return s.attributes.get("auto_broadcast") == "pdpd" and integers(s, 8) and unequal_shapes(s)


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
    return varies(1)(s) or empty(s) or axes not in ({1}, set(range(2, rank)))


def dilates_integers(s: Sample) -> bool:
    return integers(s, 8, 16, 32, 64) and any(d > 1 for d in op_of(s).dilations)


def is_under_pdpd(s: Sample) -> bool:
    return "pdpd" in (s.attributes.get("mode"), s.attributes.get("auto_broadcast"))


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
    given = s.attributes.keys() >= {"strides", "dilations"}
    return int(s.version.removeprefix("opset")) >= 16 and not given


def has_no_labels(s: Sample) -> bool:
    return not values_of(s, 3).all()


def has_no_prior(s: Sample) -> bool:
    found = op_of(s).evaluate(*(g.tensor.values for g in s.inputs))
    return not np.asarray(found).size


def steps_beyond_31_bits(s: Sample) -> bool:
    return bool(np.any(values_of(s, 3).astype(np.float64) <= -(2.0**31)))


def gives_places_of_bf16(s: Sample) -> bool:
    return s.outputs == 2 and "bf16" in types(s)


def squares_wide_integers(s: Sample) -> bool:
    """Whether differences under pdpd are of integers of more than 8 bits."""
    return s.attributes.get("auto_broadcast") == "pdpd" and integers(s, 16, 32, 64)


def has_unequal_masks(s: Sample) -> bool:
    """Whether masks differ in length; those of new, shrunk and elided axes may be absent."""
    names = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    texts = [s.attributes.get(n, "").strip() for n in names]
    lengths = [len(t.split(",")) if t else 0 for t in texts]
    return len({*lengths[:2], *(n for n in lengths[2:] if n)}) > 1
