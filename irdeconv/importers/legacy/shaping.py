"""Legacy layers of shapes: inputs, constants, reshapes, concatenation, tiles, blocks."""

from __future__ import annotations

from irdeconv.dtypes import f32, i32
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import (
    LegacyLayer,
    Outputs,
    computed,
    integers,
    layer,
    standard,
)
from irdeconv.ops.broadcasting import Broadcast, Tile
from irdeconv.ops.generate import Range
from irdeconv.ops.movement import Concat, Transpose
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze1, Unsqueeze


@layer("Input")
def parameter(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A model input of the declared shape, of f32 where the file says FP16."""
    spec = n.declared[0]
    n.ignore("shape")
    return b.parameter(n.name, spec.dtype or f32, n.shape)


@layer("Const")
def constant(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The blob `custom`, in the declared shape."""
    names = set(n.blobs)
    if len(names) != 1:
        raise Refusal(f"a constant with {len(names)} blobs")
    n.ignore("shape", "element_type")
    return n.blob(b, names.pop(), n.shape)


@layer("Reshape")
def reshape(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The elements in another shape: 0 keeps a size, -1 takes the rest.

    Without `dim` and a second input, and where they are outdated, it is the declared shape, as it
    always was in the Inference Engine; so it is where the blobs are random.
    """
    n.ignore("axis", "num_axes")
    target = n.input(1)
    if target is not None and n.source.seed is None:
        return b.add(Reshape(special_zero=True), n[0], integers(b, target))
    dims = n.ints("dim", ())
    if not dims:
        return b.reshape(n[0], n.shape)
    y = b.add(Reshape(special_zero=True), n[0], b.ints(*dims))
    return y if b.shape(y) == n.shape else b.reshape(n[0], n.shape)


@layer("Flatten")
def flatten(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The axes from `axis` to `end_axis` as one."""
    shape = b.static(n[0], "the data")
    first, last = n.integer("axis", 0), n.integer("end_axis", -1)
    last += len(shape) if last < 0 else 0
    if not 0 <= first <= last < len(shape):
        raise Refusal(f"the axes {first} to {last} of {len(shape)}")
    kept = (*(0,) * first, -1, *shape[last + 1 :])
    return b.add(Reshape(special_zero=True), n[0], b.ints(*kept))


@layer("Squeeze")
def squeeze(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Without axes of size 1."""
    if n.source.seed is not None:
        return b.reshape(n[0], n.shape)
    axes = n.input(1)
    return b.add(Squeeze1(), n[0], *(() if axes is None else (integers(b, axes),)))


@layer("Unsqueeze")
def unsqueeze(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """With axes of size 1."""
    if n.source.seed is not None:
        return b.reshape(n[0], n.shape)
    return b.add(Unsqueeze(), n[0], integers(b, n[1]))


@layer("Permute")
def permute(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The axes in another order."""
    return b.add(Transpose(), n[0], b.ints(*n.ints("order")))


@layer("Concat")
def concat(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """All inputs along an axis, of the first one's element type."""
    dtype = b.dtype(n[0])
    axis = n.axis(b, n[0])
    return b.add(Concat(axis=axis), *(b.convert(v, dtype) for v in n.given))


@layer("Tile")
def tile(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The data several times along an axis."""
    axis, tiles, rank = n.axis(b, n[0]), n.integer("tiles"), b.rank(n[0])
    return b.add(Tile(), n[0], b.ints(*(tiles if a == axis else 1 for a in range(rank))))


@layer("Pad")
def pad(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """More elements on both sides of each axis: a value, the edge, or a reflection."""
    mode = n.word("pad_mode", "constant", "constant edge reflect symmetric")
    begin, end = b.ints(*n.ints("pads_begin")), b.ints(*n.ints("pads_end"))
    value = n.number("pad_value", 0)
    op = standard("Pad", "opset12", pad_mode=mode)
    return b.add(op, n[0], begin, end, *((b.like(value, n[0]),) if mode == "constant" else ()))


@layer("Shape")
def shape(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The sizes of the axes."""
    return b.add(ShapeOf(i32), n[0])


@layer("Broadcast")
def broadcast(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The data repeated to the shape that the second input tells."""
    return b.add(Broadcast(), n[0], integers(b, n[1]))


@layer("Fill")
def fill(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A tensor of the shape of the first input, full of the second."""
    return b.add(Broadcast(), b.as_scalar(n[1]), integers(b, n[0]))


@layer("Range")
def arange(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The numbers from a start by a step up to a stop."""
    dtype = computed(n.declared[0].dtype) or f32
    terms = (b.as_scalar(b.convert(n[i], dtype)) for i in range(3))
    return b.add(Range(output_type=dtype), *terms)


@layer("ShuffleChannels")
def shuffle_channels(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The groups of an axis interleaved."""
    axis, group = n.axis(b, n[0]), n.integer("group", 1)
    return b.add(standard("ShuffleChannels", "opset1", axis=axis, group=group), n[0])


@layer("DepthToSpace SpaceToDepth")
def blocks(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Channels as blocks of places, or back; the block is the slower part of the channels."""
    kind = "DepthToSpace" if n.kind == "depthtospace" else "SpaceToDepth"
    size = n.integer("block_size", 1)
    op = standard(kind, "opset1", mode="blocks_first", block_size=size)
    return b.add(op, n[0])
