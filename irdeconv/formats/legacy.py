"""Reading an IR of version 2 to 7: its layers become operations of current opsets.

The file declares all shapes. An output whose inferred shape differs is refused, so a misread layer
is found. The `<pre-process>` of a model subtracts a mean from its input image. Weights are the
`.bin`, or random blobs. The inputs of a TensorIterator's body are its open input ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path

import numpy as np

from irdeconv.base.errors import InputError
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats import (  # noqa: F401 -- importing fills RULES
    legacy_arithmetic,
    legacy_convolution,
    reading,
)
from irdeconv.formats.document import Context, NoWeights, XmlLayer, XmlPort, integer
from irdeconv.formats.importing import (
    ImportBuilder,
    Imported,
    ModelReader,
    Refusal,
    Report,
    source_node,
)
from irdeconv.formats.layers import LEFT_OUT, UNREADABLE
from irdeconv.formats.legacy_layer import (
    RULES,
    BlobSource,
    Channel,
    LegacyDocument,
    LegacyLayer,
    Outputs,
    PreProcess,
    blobs_of,
    computed,
    decompressed,
    exact_shape,
    precision_of,
    read_grammar,
)
from irdeconv.ir.dtypes import f16, f32
from irdeconv.ir.graph import Graph, Info, Value, producers_first
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.movement import Concat
from irdeconv.rewrite.infer_specs import ShapeLike, input_shapes, require_specs

_NO_OPERATION = "no operation of OpenVINO computes it"
_STATE = "networks with state are not covered"
REFUSED = {
    "memory": _STATE,
    "simplernms": f"{_NO_OPERATION}; its successor is Proposal",
    "powerfile": _NO_OPERATION,
    "spatialtransformer": _NO_OPERATION,
    "binaryconvolution": "the layout of its packed filter is the CPU's own",
    "gemmbinary": _NO_OPERATION,
}


def preprocess(b: ImportBuilder, x: Value, found: PreProcess, source: BlobSource) -> Value:
    """Subtract the mean values, or the mean images, of all channels of an NCHW image."""
    shape = b.static(x, "the image")
    channels = sorted(found.channels, key=lambda c: c.id)
    in_order = [c.id for c in channels] == list(range(len(channels)))
    if len(shape) != 4 or len(channels) != shape[1] or not in_order:
        ids = ", ".join(str(c.id) for c in channels) or "none"
        raise Refusal(f"<pre-process> has the channels {ids}; the input is {list(shape)}")
    if any(c.scale is not None and float(c.scale) != 1 for c in channels):
        raise Refusal("<pre-process> has a scale, which the devices understood differently")
    if all(c.image is not None for c in channels):
        planes = [_plane(b, c, shape[2:], found, source) for c in channels]
        return b.sub(x, b.add(Concat(axis=1), *planes))
    if all(c.mean is not None for c in channels):
        means = np.array([float(c.mean or 0) for c in channels], np.float32)
        return b.sub(x, b.const(means.reshape(1, -1, 1, 1)))
    if any(c.mean is not None or c.image is not None for c in channels):
        raise Refusal("<pre-process> has a mean for some channels only")
    return x


def _plane(
    b: ImportBuilder, channel: Channel, size: tuple[int, ...], found: PreProcess, source: BlobSource
) -> Value:
    blob = channel.image
    assert blob is not None
    dtype = precision_of(found.precision or "FP32")
    shape = (1, 1, *size)
    if blob.size != dtype.nbytes(size[0] * size[1]):
        raise Refusal(f"a mean image has {blob.size} bytes; it is {list(size)} of {dtype}")
    data = source.data(blob, dtype, shape, (channel.id,))
    made = b.keep(Const(element_type=dtype, shape=shape, data=data))
    return decompressed(b, made) if dtype == f16 else b.convert(made, f32)


# Notes that Model Optimizer and others write for themselves.
_NOTES = {"originallayersnames", "primitivespriority", "quantization_level", "execorder"}
_HINT = "use the framework's model, or Model Optimizer of a release that still reads this layer"


@dataclass
class LegacyReader(ModelReader):
    """Builds the graph of a file, or the layers of a body in it, one after the other.

    `fed` are values of input ports that no edge feeds, by layer and port: those of a body.
    """

    source: BlobSource
    found: LegacyDocument
    context: Context
    values: dict[Value, Value | None] = field(default_factory=dict)
    fed: dict[Value, Value] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)

    def read(self, reported: Report) -> Imported:
        """Import all layers; raise all errors at once."""
        document, context, found = self.found.document, self.context, self.found
        done = self.start(document.name or "model", f"IR version {found.version}")
        self.out, self.kinds = reported, done.kinds
        self._missing()
        wiring = reading.wire(document, context)
        cyclic = reading.find_cycles(wiring, context)
        for index, row in enumerate(wiring.sources):
            for port, value in enumerate(row):
                if value is None and index not in wiring.doubtful:
                    text = f"nothing feeds input port {wiring.layers[index].inputs[port].id}"
                    context.add("E204", text, layer=wiring.layers[index])
        if not self.out.errors and not cyclic:
            self.consumed = {v for row in wiring.sources for v in row if v is not None}
            self.layers(wiring)
            self._results(wiring)
        if found.calibrated and not self.out.errors:
            what = "the statistics for 8-bit inference are not read"
            text, hint = (
                f"{what}: the model stays as it was trained",
                "quantise the converted model",
            )
            self.out.add("W100", text, location=self.location, hint=hint)
        return self.finish(done)

    def _missing(self) -> None:
        """Report a missing weights file once."""
        weights = self.source.weights
        expected = self.source.seed is None and weights.reason not in (LEFT_OUT, UNREADABLE)
        layer = next((x for x in self.found.document.layers if x.sections), None)
        if weights.size is None and expected and layer is not None:
            self.context.add("E120", weights.reason, layer=layer)

    def _results(self, wiring: reading.Wiring) -> None:
        """Make an output of each tensor that nothing reads, as the Inference Engine did."""
        self.builder.begin("outputs")
        for index, xml in enumerate(wiring.layers):
            if (xml.type or "").lower() in ("input", "const"):
                continue
            for port in range(len(xml.outputs)):
                value = self.values.get(Value(index, port))
                if Value(index, port) in self.consumed or value is None:
                    continue
                name = xml.name or f"layer {xml.id}"
                self.builder.result(value, name if len(xml.outputs) == 1 else f"{name}.{port}")

    def layers(self, wiring: reading.Wiring, fed: Mapping[Value, Value] | None = None) -> None:
        """Build all layers; record their errors."""
        self.fed = dict(fed or {})
        sources = [{v.node for v in row if v is not None} for row in wiring.sources]
        for index in producers_first(sources):
            self._layer(wiring, index)

    def inner(self) -> LegacyReader:
        """Return the reader of a body: an empty graph, the same file."""
        made = replace(self, values={}, fed={}, kinds=self.kinds)
        made.out, made.graph = self.out, Graph(Info(name="body"))
        made.builder = ImportBuilder(made.graph, self.builder.source)
        return made

    def _layer(self, wiring: reading.Wiring, index: int) -> None:
        xml = wiring.layers[index]
        kind, name = xml.type or "?", xml.name or f"layer {xml.id}"
        self.kinds[kind] += 1
        place = self.context.place(xml.anchor)
        self.builder.source, self.out.location = source_node(name, place), place
        for port in range(len(xml.outputs)):
            self.values[Value(index, port)] = None
        sources = enumerate(wiring.sources[index])
        fed, values = self.fed, self.values
        inputs = tuple(fed.get(Value(index, p)) if v is None else values.get(v) for p, v in sources)
        title = f'{kind} "{name}"'
        if kind.lower() not in RULES and kind.lower() != "activation":
            reason = REFUSED.get(kind.lower(), "the layer type is not covered")
            self.out.uncovered(name, f"{title}: {reason}", _HINT)
        elif all(v is not None for v in inputs):
            self.attempt(name, title, lambda: self._build(xml, index, title, inputs))

    def _view(self, xml: XmlLayer, name: str, inputs: tuple[Value | None, ...]) -> LegacyLayer:
        precision = dict(xml.extra).get("precision") or self.found.precision
        ports = [p.precision for p in xml.outputs if p.precision]
        default = precision_of(precision or (ports[0] if ports else "FP32"))
        if ports and (xml.type or "").lower() == "const":
            default = precision_of(ports[0])
        try:
            blobs = blobs_of(xml)
        except ValueError as e:
            raise Refusal(str(e)) from None
        data = xml.data or {}
        return LegacyLayer(
            name=name,
            attributes={k: v for k, v in data.items() if k.lower() not in _NOTES},
            inputs=inputs,
            semantics=self.semantics,
            kind=(xml.type or "").lower(),
            id=integer(xml.id) or 0,
            precision=default,
            blobs=blobs,
            declared=tuple(_declared(p, default) for p in xml.outputs),
            source=self.source,
            iterate=lambda n, b: tensor_iterator(n, b, xml, self.inner(), self.context),
        )

    def _build(
        self, xml: XmlLayer, index: int, title: str, inputs: tuple[Value | None, ...]
    ) -> None:
        view = self._view(xml, self.builder.source.name, inputs)
        # An Activation is a layer of the type that it names.
        kind = view.text("type").lower() if view.kind == "activation" else view.kind
        if kind not in RULES:
            raise Refusal(f'the activation "{kind}" is not covered')
        made = RULES[kind](replace(view, kind=kind), self.builder)
        results = (made,) if isinstance(made, Value) else made
        if len(results) < len(view.declared):
            raise Refusal(f"more outputs than {len(results)} are not covered")
        left = sorted(set(view.blobs) - view.used)
        if left:
            raise Refusal(f"its blob {', '.join(left)} is not covered")
        results = (self._input_image(view, results[0]), *results[1:])
        pairs = enumerate(zip(results, view.declared, strict=False))
        given = [self._output(view, port, value, declared) for port, (value, declared) in pairs]
        self.values |= {Value(index, port): value for port, value in enumerate(given)}
        for name in view.left:
            text = f'{title}: the attribute "{name}" is not read; neither did the Inference Engine'
            self.out.add("W100", text, location=self.out.location, layer=view.name)

    def _input_image(self, view: LegacyLayer, value: Value) -> Value:
        """Subtract the mean if the model's `<pre-process>` is about this input."""
        before = self.found.pre_process
        if view.kind != "input" or before is None or before.layer not in ("", view.name):
            return value
        b = self.builder
        first = next(p for p in b.graph.parameters if before.layer or b.rank(Value(p.id)) == 4)
        return preprocess(b, value, before, self.source) if value.node == first.id else value

    def _output(self, view: LegacyLayer, port: int, value: Value, declared: Spec) -> Value:
        """Check an output against its declaration, and give it its names."""
        b = self.builder
        if b.spec(value).shape != declared.shape:
            said, found = Spec(None, declared.shape), Spec(None, b.spec(value).shape)
            text = f"output {port} is declared {said}, but its inputs and attributes give {found}"
            raise Refusal(text)
        if declared.dtype is not None:
            value = b.convert(value, declared.dtype)
        if port == 0:
            b.own(value, layer=view.name)
        node = b.graph.node(value.node)
        if value.node in b.made and len(view.declared) == 1:
            node.declared = (declared,)
        name = view.name if len(view.declared) == 1 else f"{view.name}.{port}"
        return b.bind(value, name, alone=True)


def _declared(port: XmlPort, default: object) -> Spec:
    """Return the declared spec of a port, in the element type that is computed in."""
    shape = exact_shape(port)
    dtype = precision_of(port.precision) if port.precision else default
    return Spec(computed(dtype), shape)  # type: ignore[arg-type]


_FROM, _TO = ("from-layer", "from-port"), ("to-layer", "to-port")
_INTERNAL = ("internal_layer_id", "internal_port_id")


def tensor_iterator(
    n: LegacyLayer, b: ImportBuilder, xml: XmlLayer, inner: LegacyReader, context: Context
) -> Outputs:
    """Read the body, the port map and the back edges of a layer."""
    if len(xml.bodies) != 1:
        raise Refusal(f"it has {len(xml.bodies)} bodies")
    wiring = reading.wire(xml.bodies[0].document, context)
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
    numbers: dict[str, int] = {}
    names = (f.name for f in fields(Slicing) if f.name in entry)  # the axis comes first
    for name in names if "axis" in entry else ():
        found = integer(entry[name])
        if found is None:
            raise Refusal(f'its port map has {name}="{entry[name]}"')
        numbers[name] = found
        if numbers["axis"] < 0:
            return None
    return Slicing(**numbers) if numbers else None


class _BodyEnds:
    """The inputs and outputs of a body by the layer and port that the maps name."""

    def __init__(self, wiring: reading.Wiring, inner: LegacyReader, n: LegacyLayer) -> None:
        self._wiring, self._inner, self._layer = wiring, inner, n
        self._parameters: dict[Value, int] = {}
        self._results: dict[Value, int] = {}
        self.fed: dict[Value, Value] = {}

    def _place(self, entry: Mapping[str, str], names: tuple[str, str], side: int) -> Value | None:
        """Return the position of a layer and of its port; None if there is no such port."""
        layer, port = (integer(entry.get(name)) for name in names)
        index = self._wiring.ids.get(-1 if layer is None else layer)
        if index is None or port is None:
            said = tuple(map(entry.get, names))
            raise Refusal(f"its body has no layer {said[0]}, port {said[1]}")
        at = self._wiring.ports[index][side].get(port)
        return None if at is None else Value(index, at)

    def open(self, entries: list[dict[str, str]], names: tuple[str, str]) -> None:
        """Make Parameters of the open input ports that entries name."""
        for entry in entries:
            at = self._place(entry, names, 0)
            if at is None or at in self.fed or self._source(at) is not None:
                continue
            port = self._wiring.layers[at.node].inputs[at.port]
            spec = _declared(port, self._layer.precision)
            name = f"{self._layer.name}/in{len(self.fed)}"
            self.fed[at] = self._inner.builder.parameter(name, spec.dtype or f32, spec.shape)

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


def _read(
    source: SourceFile, weights: NoWeights, how: reading.Reading, seed: int | None
) -> Imported:
    location = Location(source)
    out = Report(location=location, most=how.limits.reports)
    found = read_grammar(source, out, how.limits)
    if found is None:
        out.finish()
        raise AssertionError("a file that is not read has a diagnostic")
    reader = LegacyReader(
        location=location,
        shapes={},
        semantics=how.semantics,
        source=BlobSource(weights, seed),
        found=found,
        context=Context(source, out, weights, how.limits, how.semantics),
    )
    return reader.read(out)


def _reshape(done: Imported, shapes: Mapping[str, ShapeLike]) -> None:
    """Give inputs other shapes; InferenceError if the layers do not allow them."""
    for node, shape in input_shapes(done.graph, shapes).items():
        op = done.graph.node(node).op
        assert isinstance(op, Parameter)
        done.graph.node(node).op = Parameter(shape=shape, element_type=op.element_type)
    for made in done.graph.nodes():
        made.declared = ()
    require_specs(done.graph)


def read_legacy_files(model: str | PathLike[str] | bytes, how: reading.Reading) -> Imported:
    """Read an IR of version 2 to 7, its `.xml` or the bytes of it.

    `weights` are the `.bin`, by default the one beside the `.xml`; "random" draws all blobs with
    `seed`, False leaves them out. A tensor has its layer's name, or NAME.1, ... Every shape is
    checked against the file's declaration; `shapes` then change those of inputs. Raises
    UnsupportedError with everything that is not covered, InputError, FileAccessError.
    """
    out = reading.Loaded()
    source = reading.open_source(model, how.name, out, how.limits)
    if source is None:
        raise out.error()
    drawn = how.weights == "random"
    xml = None if isinstance(model, bytes) else Path(model)
    store = NoWeights("") if drawn else reading.open_weights(how.weights, xml, source, out)
    if out.errors:
        raise out.error()
    try:
        done = _read(source, store, how, how.seed if drawn else None)
        if how.shapes:
            _reshape(done, how.shapes)
    except InputError as e:
        out.diagnostics += e.diagnostics
        raise out.error() from None
    if store.path:
        done.files = (Path(store.path),)
    return done
