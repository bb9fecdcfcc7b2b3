"""ONNX's operations on places: Compress, Unique, EyeLike, NonMaxSuppression, sampling, ..."""

from __future__ import annotations

import numpy as np

from irdeconv.dtypes import i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule
from irdeconv.importers.onnx_tensors import element_type
from irdeconv.ops.broadcasting import Broadcast
from irdeconv.ops.detection.roi_align import ROIAlign
from irdeconv.ops.detection.suppression import NonMaxSuppression
from irdeconv.ops.einsum import Einsum
from irdeconv.ops.elementwise import Add, FloorMod, Greater, Multiply, Select
from irdeconv.ops.generate import Eye, Range
from irdeconv.ops.indexing import ScatterElementsUpdate
from irdeconv.ops.patches import Col2Im
from irdeconv.ops.places import NonZero
from irdeconv.ops.sampling import GridSample
from irdeconv.ops.shape import Squeeze1
from irdeconv.ops.slicing import Gather
from irdeconv.ops.turning import ReverseSequence
from irdeconv.ops.unique import Unique


@rule("Einsum", "12 28")
def einsum(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Sums of products over letters."""
    return b.add(Einsum(n.text("equation", "").replace(" ", "")), *n.given)


@rule("Compress", "9 11 28")
def compress(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take the slices along an axis, or of the flat data, at which a condition holds."""
    x = n[0]
    axis = 0
    if "axis" in n:
        axis = n.axis(b, x)
    else:
        x = b.reshape(x, (-1,))
    places = b.add(Squeeze1(), b.add(NonZero(i64), n[1]), b.ints(0))
    return b.add(Gather(), x, places, b.scalar(axis))


@rule("Unique", "11 28")
def unique(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Distinct elements or slices, their first places, the number of each element, how often."""
    axis = (b.scalar(n.axis(b, n[0])),) if "axis" in n else ()
    return b.outputs(Unique(bool(n.integer("sorted", 1)), i64, i64), n[0], *axis)


@rule("EyeLike", "9 22")
def eye_like(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 on the k-th diagonal of a matrix of the input's shape."""
    wanted = n.integer("dtype", 0)
    dtype = element_type(wanted) if wanted else b.dtype(n[0])
    shape = b.shape_of(n[0])
    rows, columns = (b.add(Gather(), shape, b.scalar(i), b.scalar(0)) for i in (0, 1))
    return b.add(Eye(dtype), rows, columns, b.scalar(n.integer("k", 0)))


@rule("NonMaxSuppression", "10 11")
def non_max_suppression(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The kept boxes as (batch, class, box), classes in order, the best of each first."""
    center = n.integer("center_point_box", 0)
    op = NonMaxSuppression("center" if center else "corner", False, i64)
    most = b.scalar(0) if n.input(2) is None else b.as_scalar(n[2])
    iou = b.like(0, n[1]) if n.input(3) is None else b.as_scalar(n[3])
    least = b.like(np.finfo(np.float32).min, n[1]) if n.input(4) is None else b.as_scalar(n[4])
    return b.outputs(op, n[0], n[1], most, _above(b, iou), least)[0]


def _above(b: ImportBuilder, overlap: Value) -> Value:
    """Return the next larger overlap: in ONNX a box goes above the threshold, here from it on."""
    known = b.known(overlap)
    if known is None:
        return b.add(Multiply(), overlap, b.like(1 + 2.0**-23, overlap))
    above = np.nextafter(known.astype(np.float32), np.float32(np.inf))
    return b.like(max(float(above), float(np.finfo(np.float32).tiny)), overlap)


SAMPLING = {
    "bilinear": "bilinear",
    "linear": "bilinear",
    "nearest": "nearest",
    "bicubic": "bicubic",
    "cubic": "bicubic",
}
OUTSIDE = {w: w for w in ("zeros", "border", "reflection")}


@rule("GridSample", "16 20 22")
def grid_sample(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Read an image at places from -1 to 1."""
    if b.rank(n[0]) != 4:
        raise Refusal(f"data of rank {b.rank(n[0])}: only images are covered")
    op = GridSample(
        align_corners=bool(n.integer("align_corners", 0)),
        mode=n.meaning("mode", "bilinear" if n.version < 20 else "linear", SAMPLING),
        padding_mode=n.meaning("padding_mode", "zeros", OUTSIDE),
    )
    return b.add(op, n[0], n[1])


@rule("TensorScatter", "24")
def tensor_scatter(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Write updates into a cache along an axis, from a place on that each batch element has."""
    cache, updates = n[0], n[1]
    axis, rank = n.axis(b, cache, default=-2), b.rank(cache)
    circular = n.meaning("mode", "linear", {"linear": False, "circular": True})
    size, count = (b.add(Gather(), b.shape_of(v), b.scalar(axis), b.scalar(0)) for v in n.given[:2])
    start = b.scalar(0) if n.input(2) is None else b.convert(n[2], i64)
    if b.rank(start):
        start = b.reshape(start, (-1, *(1,) * (rank - 1)))
    steps = b.add(Range(i64), b.scalar(0), count, b.scalar(1))
    steps = b.reshape(steps, ((1,) * axis + (-1,) + (1,) * (rank - axis - 1)))
    places = b.add(Add(), start, steps)
    if circular:
        places = b.add(FloorMod(), places, size)
    places = b.add(Broadcast("bidirectional"), places, b.shape_of(updates))
    return b.add(ScatterElementsUpdate(), cache, places, updates, b.scalar(axis))


@rule("ReverseSequence", "10 28")
def reverse_sequence(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Reverse the first elements of each sequence, as many as its length says."""
    x = n[0]
    op = ReverseSequence(n.axis(b, x, "batch_axis", 1), n.axis(b, x, "time_axis", 0))
    return b.add(op, x, n[1])


@rule("Col2Im", "18")
def col2im(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Add up columns at the windows of an image that they came from."""
    axes = b.shape(n[1], 1)[0]
    if axes != 2:
        raise Refusal(f"{axes} spatial axes: only images are covered")
    pads = n.ints("pads") or (0,) * 4
    op = Col2Im(
        strides=n.ints("strides") or (1, 1),
        dilations=n.ints("dilations") or (1, 1),
        pads_begin=pads[:2],
        pads_end=pads[2:],
    )
    return b.add(op, n[0], n[1], n[2])


@rule("ArrayFeatureExtractor", "1", "ai.onnx.ml")
def features(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Take elements along the last axis; a vector counts as a row."""
    x = n[0] if b.rank(n[0]) > 1 else b.reshape(n[0], (1, -1))
    return b.add(Gather(), x, b.reshape(n[1], (-1,)), b.scalar(-1))


@rule("Binarizer", "1", "ai.onnx.ml")
def binarizer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 where x is above the threshold, else 0."""
    x = n[0]
    above = b.add(Greater(), x, b.like(n.number("threshold", 0.0), x))
    return b.add(Select(), above, b.like(1, x), b.like(0, x))


@rule("RoiAlign", "10 16 22")
def roi_align(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Pool regions of images; half_pixel subtracts half an element from the scaled places."""
    words = {"half_pixel": "half_pixel_for_nn", "output_half_pixel": "asymmetric"}
    usual = "half_pixel" if n.version >= 16 else "output_half_pixel"
    if n.text("mode", "avg") != "avg":
        raise Refusal("mode=max: systems differ in what is the largest of a sample")
    op = ROIAlign(
        pooled_h=n.integer("output_height", 1),
        pooled_w=n.integer("output_width", 1),
        sampling_ratio=n.integer("sampling_ratio", 0),
        spatial_scale=n.number("spatial_scale", 1.0),
        mode="avg",
        aligned_mode=n.meaning("coordinate_transformation_mode", usual, words),
    )
    return b.add(op, n[0], n[1], n[2])
