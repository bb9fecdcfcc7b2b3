"""Reading an IR of version 2 to 7: its layers become operations of today's sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from irdeconv.errors import InferenceError
from irdeconv.geometry import Semantics
from irdeconv.graph import Value
from irdeconv.importers.builder import Refusal, source_node
from irdeconv.importers.imported import Imported, Report
from irdeconv.importers.legacy import rules as rules  # importing fills RULES
from irdeconv.importers.legacy.grammar import blobs_of, read_grammar
from irdeconv.importers.legacy.layer import (
    RULES,
    BlobSource,
    LegacyLayer,
    computed,
    precision_of,
)
from irdeconv.importers.legacy.preprocess import preprocess
from irdeconv.importers.reader import ModelReader
from irdeconv.io.context import Context
from irdeconv.io.document import XmlLayer, XmlPort
from irdeconv.io.limits import Limits
from irdeconv.io.liveness import find_cycles
from irdeconv.io.weights import NoWeights
from irdeconv.io.weights_use import LEFT_OUT, UNREADABLE
from irdeconv.io.wiring import Wiring, wire
from irdeconv.ops.basic import Parameter
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.overrides import ShapeLike, input_shapes
from irdeconv.source import Location, SourceFile
from irdeconv.spec import Spec

_LAYER = ("precision", "id", "name", "type")
# What Model Optimizer and others note down for themselves.
_NOTES = {"originallayersnames", "primitivespriority", "quantization_level", "execorder"}
_HINT = "use the framework's model, or Model Optimizer of a release that still reads this layer"


def read_legacy(
    source: SourceFile,
    weights: NoWeights,
    *,
    limits: Limits | None = None,
    shapes: dict[str, ShapeLike] | None = None,
    seed: int | None = None,
    semantics: Semantics = "runtime",
) -> Imported:
    """Read an IR of version 2 to 7; a tensor bears its layer's name, or NAME.1, ...

    With `seed` the blobs are drawn instead of read. Every shape is checked against what the file
    declares; `shapes` then change those of inputs. Raises UnsupportedError with everything that is
    not covered, InputError for a bad file.
    """
    location = Location(source)
    reader = LegacyReader(
        location=location,
        shapes={},
        semantics=semantics,
        source=BlobSource(weights, seed),
        limits=limits or Limits(),
    )
    done = reader.read()
    if shapes:
        _reshape(done, shapes)
    return done


def _reshape(done: Imported, shapes: dict[str, ShapeLike]) -> None:
    """Give inputs other shapes; InferenceError where the layers do not allow them."""
    for node, shape in input_shapes(done.graph, shapes).items():
        op = done.graph.node(node).op
        assert isinstance(op, Parameter)
        done.graph.node(node).op = Parameter(shape=shape, element_type=op.element_type)
    for made in done.graph.nodes():
        made.declared = ()
    problems = infer_specs(done.graph)
    if any(p.severity == "error" for p in problems):
        raise InferenceError(problems)


@dataclass
class LegacyReader(ModelReader):
    """Builds the graph of one file."""

    source: BlobSource
    limits: Limits
    values: dict[Value, Value | None] = field(default_factory=dict)

    def read(self) -> Imported:
        """Import all layers; raise everything that is wrong at once."""
        self.out = Report(location=self.location)
        found = read_grammar(self.location.source, self.out, self.limits)
        if found is None:
            self.out.finish()
            raise AssertionError("a file that is not read has a diagnostic")
        document, reported = found.document, self.out
        done = self.start(document.name or "model", f"IR version {found.version}")
        self.out, self.found = reported, found
        context = Context(
            self.location.source, self.out, self.source.weights, self.limits, self.semantics
        )
        self.context = context
        self._missing()
        wiring = wire(document, context)
        cyclic = find_cycles(wiring, context)
        self._unfed(wiring)
        if not self.out.errors and not cyclic:
            self.consumed = {v for row in wiring.sources for v in row if v is not None}
            for index in _order(wiring):
                self._layer(wiring, index, done)
            self._results(wiring)
        if found.calibrated and not self.out.errors:
            self._dropped_statistics()
        return self.finish(done)

    def _missing(self) -> None:
        """Report once a weights file that is not there."""
        weights = self.source.weights
        expected = self.source.seed is None and weights.reason not in (LEFT_OUT, UNREADABLE)
        if weights.size is None and expected:
            layer = next((x for x in self.found.document.layers if x.sections), None)
            if layer is not None:
                self.context.add("E120", weights.reason, layer=layer)

    def _unfed(self, wiring: Wiring) -> None:
        for index, row in enumerate(wiring.sources):
            for port, value in enumerate(row):
                if value is None and index not in wiring.doubtful:
                    text = f"nothing feeds input port {wiring.layers[index].inputs[port].id}"
                    self.context.add("E204", text, layer=wiring.layers[index])

    def _dropped_statistics(self) -> None:
        message = (
            "the statistics for 8-bit inference are not read: the model stays as it was trained"
        )
        self.out.add("W100", message, location=self.location, hint="quantise the converted model")

    # Layers ------------------------------------------------------------------------------------

    def _layer(self, wiring: Wiring, index: int, done: Imported) -> None:
        xml = wiring.layers[index]
        kind, name = xml.type or "?", xml.name or f"layer {xml.id}"
        done.kinds[kind] += 1
        place = self.context.place(xml.anchor)
        self.builder.source, self.out.location = source_node(name, place), place
        for port in range(len(xml.outputs)):
            self.values[Value(index, port)] = None
        inputs = tuple(self.values.get(v) if v is not None else None for v in wiring.sources[index])
        if not self._known(kind, name, xml) or any(v is None for v in inputs):
            return
        title = f'{kind} "{name}"'
        self.attempt(name, title, lambda: self._build(xml, index, title, inputs))

    def _known(self, kind: str, name: str, xml: XmlLayer) -> bool:
        """Whether there is a rule for a type; what is not covered is reported in all layers."""
        if kind.lower() in RULES or kind.lower() == "activation":
            return True
        reason = rules.REFUSED.get(kind.lower(), "the layer type is not covered")
        self.out.uncovered(name, f'{kind} "{name}": {reason}', _HINT)
        return False

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
            id=int(xml.id or 0),
            precision=default,
            blobs=blobs,
            declared=tuple(_declared(p, default) for p in xml.outputs),
            source=self.source,
        )

    def _build(
        self, xml: XmlLayer, index: int, title: str, inputs: tuple[Value | None, ...]
    ) -> None:
        view = self._view(xml, self.builder.source.name, inputs)
        made = rules.apply(view, self.builder)
        results = (made,) if isinstance(made, Value) else made
        if len(results) < len(view.declared):
            raise Refusal(f"more outputs than {len(results)} are not covered")
        self._check_blobs(view)
        results = (self._input_image(view, results[0]), *results[1:])
        for port, (value, declared) in enumerate(zip(results, view.declared, strict=False)):
            self.values[Value(index, port)] = self._output(view, port, value, declared)
        for name in view.left:
            text = f'{title}: the attribute "{name}" is not read; neither did the Inference Engine'
            self.out.add("W100", text, location=self.out.location, layer=view.name)

    def _check_blobs(self, view: LegacyLayer) -> None:
        left = sorted(set(view.blobs) - view.used)
        if left:
            raise Refusal(f"its blob {', '.join(left)} is not covered")

    def _input_image(self, view: LegacyLayer, value: Value) -> Value:
        """Subtract the mean where the model's `<pre-process>` is about this input."""
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
            raise Refusal(
                f"output {port} is declared {Spec(None, declared.shape)}, but its inputs and "
                f"attributes give {Spec(None, b.spec(value).shape)}"
            )
        if declared.dtype is not None:
            value = b.convert(value, declared.dtype)
        if port == 0:
            b.own(value, layer=view.name)
        node = b.graph.node(value.node)
        if value.node in b.made and len(view.declared) == 1:
            node.declared = (declared,)
        name = view.name if len(view.declared) == 1 else f"{view.name}.{port}"
        return b.bind(value, name, alone=bool(node.names_of(value.port)))

    # Ends --------------------------------------------------------------------------------------

    def _results(self, wiring: Wiring) -> None:
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


def _declared(port: XmlPort, default: object) -> Spec:
    """Return the declared spec of a port, in the element type that is computed in."""
    try:
        shape = tuple(int(d) for d in port.dims)
    except ValueError:
        raise Refusal(f"an output port has the dimensions {', '.join(port.dims)}") from None
    dtype = precision_of(port.precision) if port.precision else default
    return Spec(computed(dtype), shape)  # type: ignore[arg-type]


def _order(wiring: Wiring) -> list[int]:
    """Return the positions of the layers, producers first, else in the order of the file."""
    users: dict[int, list[int]] = {}
    waiting = {}
    for index, row in enumerate(wiring.sources):
        sources = {v.node for v in row if v is not None}
        waiting[index] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(index)
    ready = [i for i, n in waiting.items() if n == 0]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for user in users.get(index, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                heappush(ready, user)
    return order
