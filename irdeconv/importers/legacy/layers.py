"""Building the layers of a file or of a body: views for the rules, checks of what they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from irdeconv.graph import Graph, Info, Value
from irdeconv.importers.builder import ImportBuilder, Refusal, source_node
from irdeconv.importers.legacy import rules as rules  # importing fills RULES
from irdeconv.importers.legacy.bodies import tensor_iterator
from irdeconv.importers.legacy.grammar import LegacyDocument, blobs_of
from irdeconv.importers.legacy.layer import (
    RULES,
    BlobSource,
    LegacyLayer,
    computed,
    exact_shape,
    precision_of,
)
from irdeconv.importers.legacy.preprocess import preprocess
from irdeconv.importers.reader import ModelReader
from irdeconv.io.context import Context, integer
from irdeconv.io.document import XmlLayer, XmlPort
from irdeconv.io.wiring import Wiring
from irdeconv.spec import Spec

# What Model Optimizer and others note down for themselves.
_NOTES = {"originallayersnames", "primitivespriority", "quantization_level", "execorder"}
_HINT = "use the framework's model, or Model Optimizer of a release that still reads this layer"


@dataclass
class LegacyLayersReader(ModelReader):
    """Builds the layers of a file, or of a body in it, one after the other.

    `fed` are values of input ports that no edge feeds, by layer and port: those of a body.
    """

    source: BlobSource
    found: LegacyDocument
    context: Context
    values: dict[Value, Value | None] = field(default_factory=dict)
    fed: dict[Value, Value] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)

    def layers(self, wiring: Wiring, fed: Mapping[Value, Value] | None = None) -> None:
        """Build all layers; what is wrong is recorded."""
        self.fed = dict(fed or {})
        for index in _order(wiring):
            self._layer(wiring, index)

    def inner(self) -> LegacyLayersReader:
        """Return the reader of a body: an empty graph, the same file."""
        made = replace(self, values={}, fed={}, kinds=self.kinds)
        made.out, made.graph = self.out, Graph(Info(name="body"))
        made.builder = ImportBuilder(made.graph, self.builder.source)
        return made

    def _layer(self, wiring: Wiring, index: int) -> None:
        xml = wiring.layers[index]
        kind, name = xml.type or "?", xml.name or f"layer {xml.id}"
        self.kinds[kind] += 1
        place = self.context.place(xml.anchor)
        self.builder.source, self.out.location = source_node(name, place), place
        for port in range(len(xml.outputs)):
            self.values[Value(index, port)] = None
        sources = enumerate(wiring.sources[index])
        inputs = tuple(
            self.fed.get(Value(index, port)) if v is None else self.values.get(v)
            for port, v in sources
        )
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
        made = rules.apply(view, self.builder)
        results = (made,) if isinstance(made, Value) else made
        if len(results) < len(view.declared):
            raise Refusal(f"more outputs than {len(results)} are not covered")
        self._check_blobs(view)
        results = (self._input_image(view, results[0]), *results[1:])
        pairs = enumerate(zip(results, view.declared, strict=False))
        given = [self._output(view, port, value, declared) for port, (value, declared) in pairs]
        self.values |= {Value(index, port): value for port, value in enumerate(given)}
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
        return b.bind(value, name, alone=True)


def _declared(port: XmlPort, default: object) -> Spec:
    """Return the declared spec of a port, in the element type that is computed in."""
    shape = exact_shape(port)
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
