"""Reading an IR of version 2 to 7: its layers become operations of today's sets."""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.errors import InferenceError
from irdeconv.geometry import Semantics
from irdeconv.graph import Value
from irdeconv.importers.imported import Imported, Report
from irdeconv.importers.legacy import rules as rules  # importing fills RULES
from irdeconv.importers.legacy.grammar import read_grammar
from irdeconv.importers.legacy.layer import (
    BlobSource,
)
from irdeconv.importers.legacy.layers import LegacyLayersReader
from irdeconv.io.context import Context
from irdeconv.io.liveness import find_cycles
from irdeconv.io.weights import NoWeights
from irdeconv.io.weights_use import LEFT_OUT, UNREADABLE
from irdeconv.io.wiring import Wiring, wire
from irdeconv.limits import Limits, current
from irdeconv.ops.basic import Parameter
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.passes.overrides import ShapeLike, input_shapes
from irdeconv.source import Location, SourceFile


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
    limits = limits or current()
    out = Report(location=location, most=limits.reports)
    found = read_grammar(source, out, limits)
    if found is None:
        out.finish()
        raise AssertionError("a file that is not read has a diagnostic")
    reader = LegacyReader(
        location=location,
        shapes={},
        semantics=semantics,
        source=BlobSource(weights, seed),
        found=found,
        context=Context(source, out, weights, limits, semantics),
    )
    done = reader.read(out)
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
class LegacyReader(LegacyLayersReader):
    """Builds the graph of one file."""

    def read(self, reported: Report) -> Imported:
        """Import all layers; raise everything that is wrong at once."""
        document, context, found = self.found.document, self.context, self.found
        done = self.start(document.name or "model", f"IR version {found.version}")
        self.out, self.kinds = reported, done.kinds
        self._missing()
        wiring = wire(document, context)
        cyclic = find_cycles(wiring, context)
        self._unfed(wiring)
        if not self.out.errors and not cyclic:
            self.consumed = {v for row in wiring.sources for v in row if v is not None}
            self.layers(wiring)
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
