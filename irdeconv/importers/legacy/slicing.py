"""Legacy layers that take parts: Split, Crop, StridedSlice, Gather, ScatterUpdate, sequences."""

from __future__ import annotations

from irdeconv.dtypes import f32, i64
from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import (
    Ints,
    LegacyLayer,
    Outputs,
    integers,
    layer,
    standard,
)
from irdeconv.ops.indexing import ScatterUpdate
from irdeconv.ops.slicing import Gather1, Slice
from irdeconv.ops.splitting import Split, VariadicSplit
from irdeconv.ops.strided import StridedSlice


@layer("Split Slice")
def split(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Parts along an axis, as long as the declared outputs."""
    axis, shapes = n.axis(b, n[0]), n.shapes
    n.ignore("out_sizes", "num_split", "slice_point")
    if any(len(s) <= axis for s in shapes):
        raise Refusal(f"an output without the axis {axis}")
    lengths = [s[axis] for s in shapes]
    if sum(lengths) != b.static(n[0], "the data")[axis]:
        raise Refusal(f"parts of {lengths} along an axis of {b.shape(n[0])[axis]}")
    at = b.scalar(axis)
    if len(lengths) == 1:
        return n[0]
    if len(set(lengths)) == 1:
        return b.outputs(Split(num_splits=len(lengths)), n[0], at)
    return b.outputs(VariadicSplit(), n[0], at, b.ints(*lengths))


@layer("Crop")
def crop(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A part of some axes.

    It is given by offsets with sizes `dim`, with those of a second input, or with how much to leave
    out at the end (`crop_begin`, `crop_end`).
    """
    axes, shape = n.ints("axis"), b.static(n[0], "the data")
    if any(not 0 <= a < len(shape) for a in axes):
        raise Refusal(f"the axes {list(axes)} of {len(shape)}")
    begin = n.ints("crop_begin" if "crop_begin" in n else "offset", (0,) * len(axes))
    end = _ends(n, b, axes, begin)
    if not len(axes) == len(begin) == len(end):
        raise Refusal(f"{len(axes)} axes, {len(begin)} begins and {len(end)} ends")
    for axis, first, last in zip(axes, begin, end, strict=True):
        if not 0 <= first < last <= shape[axis]:
            raise Refusal(f"{first} to {last} of axis {axis}, which has {shape[axis]} elements")
    return _slice(b, n[0], axes, begin, end)


def _ends(n: LegacyLayer, b: ImportBuilder, axes: Ints, begin: Ints) -> Ints:
    shape = b.static(n[0], "the data")
    like = n.input(1)
    if like is not None:
        n.ignore("dim")
        sizes = b.static(like, "the second input")
        if any(a >= len(sizes) for a in axes):
            raise Refusal(f"the axes {list(axes)} of a second input {list(sizes)}")
        return tuple(o + sizes[a] for a, o in zip(axes, begin, strict=False))
    if "dim" in n:
        return tuple(o + d for o, d in zip(begin, n.ints("dim"), strict=False))
    return tuple(shape[a] - e for a, e in zip(axes, n.ints("crop_end"), strict=False))


def _slice(b: ImportBuilder, x: Value, axes: Ints, begin: Ints, end: Ints) -> Value:
    steps = (1,) * len(axes)
    return b.add(Slice(), x, b.ints(*begin), b.ints(*end), b.ints(*steps), b.ints(*axes))


def cropped(b: ImportBuilder, x: Value, first: int, begin: int, end: int) -> Value:
    """Return an image without elements at both sides of the axes from `first` on."""
    axes = tuple(range(first, b.rank(x)))
    shape = b.static(x, "the data")
    if any(begin + end >= shape[a] for a in axes):
        raise Refusal(f"{begin} and {end} elements are cut off of {list(shape)}")
    last = tuple(shape[a] - end for a in axes)
    return _slice(b, x, axes, (begin,) * len(axes), last)


@layer("StridedSlice")
def strided_slice(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Parts of all axes. In the masks of begin and end 1 means: as given; today 1 means: not."""
    masks = {name: n.ints(name, ()) for name in ("begin_mask", "end_mask")}
    rest = {a: n.ints(a, ()) for a in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")}
    inverted = {name: tuple(1 - bool(m) for m in mask) for name, mask in masks.items()}
    terms = (integers(b, v) for v in n.given[1:])
    return b.add(StridedSlice(**inverted, **rest), n[0], *terms)


@layer("Gather")
def gather(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Slices of an axis by their numbers."""
    axis = n.axis(b, n[0], default=0)
    return b.add(Gather1(), n[0], integers(b, n[1]), b.scalar(axis))


@layer("ScatterUpdate")
def scatter_update(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The data with slices of an axis replaced."""
    axis = n.axis(b, n[0], default=0)
    return b.add(ScatterUpdate(), n[0], integers(b, n[1]), n[2], b.scalar(axis))


@layer("ReverseSequence")
def reverse_sequence(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The first elements of each sequence in reverse order, as many as the second input says."""
    axes = {
        "seq_axis": n.axis(b, n[0], "seq_axis", 1),
        "batch_axis": n.axis(b, n[0], "batch_axis", 0),
    }
    return b.add(standard("ReverseSequence", "opset1", **axes), n[0], integers(b, n[1]))


@layer("OneHot")
def one_hot(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A new axis with one value at the index and another one elsewhere."""
    op = standard("OneHot", "opset1", axis=n.integer("axis", -1))
    values = (n.number("on_value", 1), n.number("off_value", 0))
    dtype = n.declared[0].dtype or f32
    terms = (b.scalar(v, dtype) for v in values)
    return b.add(op, b.convert(n[0], i64), b.scalar(n.integer("depth")), *terms)
