"""Legacy shapes, slices, recurrent cells and bodies.

One blob has the weights of data and state of a cell side by side. The inputs of a TensorIterator's
body are its open input ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from irdeconv.formats.document import Context, XmlLayer, integer
from irdeconv.formats.importing import ImportBuilder, Refusal
from irdeconv.formats.legacy_layer import (
    Ints,
    LegacyLayer,
    Outputs,
    computed,
    exact_shape,
    integers,
    layer,
    plain,
    precision_of,
    standard,
)
from irdeconv.formats.wiring import Wiring, wire
from irdeconv.ir.dtypes import f32, i32, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import Op
from irdeconv.ops.basic import Result
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.channels import Split, VariadicSplit
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.generation import Range
from irdeconv.ops.indexing import ScatterUpdate
from irdeconv.ops.movement import Broadcast, Concat, Tile, Transpose
from irdeconv.ops.shape import Reshape, ShapeOf, Squeeze1, Unsqueeze
from irdeconv.ops.slicing import Gather1, Slice, StridedSlice


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


def _blocks(n: LegacyLayer, b: ImportBuilder) -> Op:
    """Channels as blocks of places, or back; the block is the slower part of the channels."""
    kind = "DepthToSpace" if n.kind == "depthtospace" else "SpaceToDepth"
    return standard(kind, "opset1", mode="blocks_first", block_size=n.integer("block_size", 1))


plain("DepthToSpace SpaceToDepth", _blocks)
plain("Shape", ShapeOf(i32))
plain("ShuffleChannels", lambda n, b: n.same("ShuffleChannels", "opset1", axis=n.axis(b, n[0])))


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
    axes = [n.axis(b, n[0], name, i) for i, name in ((1, "seq_axis"), (0, "batch_axis"))]
    op = standard("ReverseSequence", "opset1", seq_axis=axes[0], batch_axis=axes[1])
    return b.add(op, n[0], integers(b, n[1]))


@layer("OneHot")
def one_hot(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A new axis with one value at the index and another one elsewhere."""
    op = standard("OneHot", "opset1", axis=n.integer("axis", -1))
    values = (n.number("on_value", 1), n.number("off_value", 0))
    dtype = n.declared[0].dtype or f32
    terms = (b.scalar(v, dtype) for v in values)
    return b.add(op, b.convert(n[0], i64), b.scalar(n.integer("depth")), *terms)


_GATES = {"lstmcell": 4, "grucell": 3, "rnncell": 1}
_USUAL = {"lstmcell": "sigmoid,tanh,tanh", "grucell": "sigmoid,tanh", "rnncell": "tanh"}
_KINDS = {
    "lstmcell": ("LSTMCell", "opset4"),
    "grucell": ("GRUCell", "opset3"),
    "rnncell": ("RNNCell", "opset3"),
}


@layer("LSTMCell GRUCell RNNCell")
def cell(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One step. The blob [G * H, D + H] is W beside R; gates are f, i, c, o and z, r, h."""
    data, state = b.static(n[0], "the data"), b.static(n[1], "the state")
    if len(data) != 2 or len(state) != 2:
        raise Refusal(f"data {list(data)} and a state {list(state)}; each has two axes")
    hidden, gates = n.integer("hidden_size", state[1]), _GATES[n.kind]
    if n.numbers("activation_alpha", ()) or n.numbers("activation_beta", ()):
        raise Refusal("activations with parameters")
    attributes = {
        "hidden_size": hidden,
        "clip": n.number("clip", 0),
        "activations": n.text("activations", _USUAL[n.kind]),
    }
    biases = gates
    if n.kind == "grucell":
        attributes["linear_before_reset"] = n.flag("linear_before_reset", False)
        biases += bool(attributes["linear_before_reset"])
    kind, version = _KINDS[n.kind]
    op = standard(kind, version, **attributes)
    both = n.blob(b, "weights", (gates * hidden, data[1] + hidden))
    w, r = _columns(b, both, 0, data[1]), _columns(b, both, data[1], data[1] + hidden)
    bias = n.optional(b, "biases", (biases * hidden,))
    if bias is None:
        raise Refusal("it has no biases")
    return b.outputs(op, *n.given, w, r, bias)


def _columns(b: ImportBuilder, matrix: Value, begin: int, end: int) -> Value:
    one = b.ints(1)
    return b.add(Slice(), matrix, b.ints(begin), b.ints(end), one, one)


@layer("TensorIterator")
def iterator(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A body for each part of the sliced inputs, joined by a port map and back edges."""
    if n.iterate is None:
        raise Refusal("it has no body")
    return n.iterate(n, b)


_FROM, _TO = ("from-layer", "from-port"), ("to-layer", "to-port")
_INTERNAL = ("internal_layer_id", "internal_port_id")


class InnerLayers(Protocol):
    """What builds the layers of a body: its graph, and the values of outputs by layer and port."""

    graph: Graph
    builder: ImportBuilder
    values: dict[Value, Value | None]

    def layers(self, wiring: Wiring, fed: Mapping[Value, Value]) -> None:
        """Build all layers; `fed` are values of input ports that no edge feeds."""


def tensor_iterator(
    n: LegacyLayer, b: ImportBuilder, xml: XmlLayer, inner: InnerLayers, context: Context
) -> Outputs:
    """Read the body, the port map and the back edges of a layer."""
    if len(xml.bodies) != 1:
        raise Refusal(f"it has {len(xml.bodies)} bodies")
    wiring = wire(xml.bodies[0].document, context)
    entries = [(m.tag, e.tag, dict(e.attributes)) for m in xml.maps for e in m.entries]
    ends = _BodyEnds(wiring, inner, n)
    ends.open([e for tag, side, e in entries if side == "input"], _INTERNAL)
    ends.open([e for tag, side, e in entries if tag == "back_edges"], _TO)
    inner.layers(wiring, ends.fed)
    given = {p.id: i for i, p in enumerate(xml.inputs)}
    gives = {p.id: i for i, p in enumerate(xml.outputs)}
    inputs, outputs, edges = [], [], []
    for tag, side, entry in entries:
        if tag == "back_edges":
            edges.append((ends.result(entry, _FROM), ends.parameter(entry, _TO)))
            continue
        port = (given if side == "input" else gives).get(entry.get("external_port_id"))
        if port is None:
            raise Refusal(f"its port map names the port {entry.get('external_port_id')}")
        if side == "input":
            inputs.append(BodyInput(ends.parameter(entry, _INTERNAL), port, _slicing(entry)))
        else:
            outputs.append(BodyOutput(ends.result(entry, _INTERNAL), port, _slicing(entry)))
    body = Body(inner.graph, tuple(inputs), tuple(outputs), tuple(edges))
    return b.outputs(TensorIterator(bodies=(body,)), *n.given)


def _slicing(entry: Mapping[str, str]) -> Slicing | None:
    def number(name: str, usual: int) -> int:
        found = integer(entry.get(name, str(usual)))
        if found is None:
            raise Refusal(f'its port map has {name}="{entry[name]}"')
        return found

    axis = number("axis", -1)
    if axis < 0:
        return None
    return Slicing(
        axis,
        start=number("start", 0),
        end=number("end", -1),
        stride=number("stride", 1),
        part_size=number("part_size", 1),
    )


class _BodyEnds:
    """The inputs and outputs of a body by the layer and port that the maps name."""

    def __init__(self, wiring: Wiring, inner: InnerLayers, n: LegacyLayer) -> None:
        self._wiring, self._inner, self._layer = wiring, inner, n
        self._parameters: dict[Value, int] = {}
        self._results: dict[Value, int] = {}
        self.fed: dict[Value, Value] = {}

    def _place(self, entry: Mapping[str, str], names: tuple[str, str], side: int) -> Value | None:
        """Return the position of a layer and of its port; None where there is no such port."""
        layer, port = (integer(entry.get(name)) for name in names)
        index = self._wiring.ids.get(-1 if layer is None else layer)
        if index is None or port is None:
            raise Refusal(
                f"its body has no layer {entry.get(names[0])}, port {entry.get(names[1])}"
            )
        at = self._wiring.ports[index][side].get(port)
        return None if at is None else Value(index, at)

    def open(self, entries: list[dict[str, str]], names: tuple[str, str]) -> None:
        """Make Parameters of the open input ports that entries name."""
        for entry in entries:
            at = self._place(entry, names, 0)
            if at is None or at in self.fed or self._source(at) is not None:
                continue
            port = self._wiring.layers[at.node].inputs[at.port]
            dims = exact_shape(port)
            dtype = precision_of(port.precision) if port.precision else self._layer.precision
            name = f"{self._layer.name}/in{len(self.fed)}"
            self.fed[at] = self._inner.builder.parameter(name, computed(dtype) or f32, dims)

    def _source(self, at: Value) -> Value | None:
        return self._wiring.sources[at.node][at.port]

    def parameter(self, entry: Mapping[str, str], names: tuple[str, str]) -> int:
        """Return the Parameter of a port: an open input, or the output of an Input layer."""
        at = self._place(entry, names, 0)
        if at is not None and at in self.fed:
            return self.fed[at].node
        output = self._place(entry, names, 1) if at is None else self._source(at)
        value = None if output is None else self._inner.values.get(output)
        if value is None or self._inner.graph.node(value.node).type != "Parameter":
            where = " ".join(f"{name}={entry.get(name)}" for name in names)
            raise Refusal(f"its body has no input at {where}")
        return value.node

    def result(self, entry: Mapping[str, str], names: tuple[str, str]) -> int:
        """Return the Result of an output port, made once."""
        at = self._place(entry, names, 1)
        value = None if at is None else self._inner.values.get(at)
        if at is None or value is None:
            where = " ".join(f"{name}={entry.get(name)}" for name in names)
            raise Refusal(f"its body has no output at {where}, or it could not be read")
        if at not in self._results:
            spec = self._inner.graph.spec(value)
            name = f"{self._layer.name}/out{len(self._results)}"
            made = self._inner.graph.add(Result(), [value], name=name, specs=(spec,))
            self._results[at] = made.id
        return self._results[at]
