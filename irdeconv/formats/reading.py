"""Reading a model: files to bytes, bytes to a Document, Document to Graph, with all diagnostics.

Ids, ports and edges are resolved and checked: which output feeds which input. The edges alone,
before there is a graph, decide which layers the results need, and show cycles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from irdeconv.base import errors, progress, work
from irdeconv.base.errors import Note, count, some
from irdeconv.base.limits import Limits, current
from irdeconv.base.opening import contents, reason_of, unreadable
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.bodies import as_version_11, read_bodies
from irdeconv.formats.document import (
    Context,
    Document,
    Edge,
    MemoryWeights,
    NotReadFurther,
    NoWeights,
    WeightsFile,
    XmlLayer,
    XmlPort,
    check_mark,
    edge_end,
    identifier,
    integer,
    why_no_identifier,
)
from irdeconv.formats.kinds import BEGIN, BINARY, kind_of
from irdeconv.formats.layers import (
    LEFT_OUT,
    STATEFUL,
    UNREADABLE,
    OperationReader,
    check_names,
    check_weights,
    report_unknown,
    single_output,
    unknown_attributes,
)
from irdeconv.formats.xml_layer import EDGE_ATTRIBUTES, declared_specs, tensor_names
from irdeconv.formats.xml_reader import read_document
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Info, Value, cycle_in, reached
from irdeconv.ir.op import Op, ports
from irdeconv.ir.spec import Shape
from irdeconv.ops.basic import Opaque
from irdeconv.ops.catalog import CATALOG
from irdeconv.proof.reader import weights_beside
from irdeconv.rewrite.infer_specs import ShapeLike, parse_shape_like

Positions = dict[int, int]
Weights = str | PathLike[str] | bytes | Literal[False]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How something that is no Graph yet is read; the names are those of `graph_of`."""

    weights: Weights | None = None
    semantics: Semantics = "runtime"
    limits: Limits = field(default_factory=current)
    shapes: Mapping[str, ShapeLike] = field(default_factory=dict)
    seed: int = 0
    name: str = "<bytes>"

    @property
    def exact_shapes(self) -> dict[str, Shape | None]:
        """The shapes by the names of inputs."""
        found = {}
        for name, shape in self.shapes.items():
            try:
                found[name] = parse_shape_like(shape)
            except ValueError as e:
                raise errors.misused(f'shape of input "{name}": {e}', code="E310") from None
        return found

    def refuse(self, names: Iterable[str], why: str, hint: str | None = None) -> None:
        """Raise UsageError (E700) if one of these differs from its default."""
        usual = Reading()
        given = [n for n in names if getattr(self, n) != getattr(usual, n)]
        if given:
            raise errors.misused(f"{', '.join(given)}: {why}", hint)


@dataclass
class Wiring:
    """Layers by their position in the document.

    `sources[i]` has the producer of each input port of layer i, None if there is none.
    `doubtful` are layers with a reported problem of ids, ports or edges: consequences of it are
    not reported again. `broken` says that some edge could not be resolved.
    """

    layers: tuple[XmlLayer, ...]
    ids: dict[int, int] = field(default_factory=dict)
    sources: list[list[Value | None]] = field(default_factory=list)
    doubtful: set[int] = field(default_factory=set)
    broken: bool = False
    # Layers whose ids or ports have been reported; an edge that misses them is no news.
    odd: set[int] = field(default_factory=set)
    # Whether some layer has no id of its own, and how many edges lead nowhere.
    lost: bool = False
    loose: int = 0
    # Port id -> position, for the inputs and the outputs of each layer.
    ports: list[tuple[Positions, Positions]] = field(default_factory=list)

    def doubt(self, *indices: int) -> None:
        """Note layers whose ids or ports have been reported."""
        self.doubtful |= set(indices)
        self.odd |= set(indices)


def wire(document: Document, context: Context) -> Wiring:
    """Resolve the edges of a document and report every inconsistency of ids, ports and edges."""
    wiring = Wiring(document.layers)
    for index, layer in enumerate(document.layers):
        wiring.sources.append([None] * len(layer.inputs))
        _add_id(wiring, index, layer, context)
        _check_ports(wiring, index, layer, context)
    feeders: dict[tuple[int, int], Edge] = {}
    for edge in document.edges:
        ends = _numbers(edge, wiring, context)
        if ends is None or not _connect(wiring, edge, ends, feeders, context):
            wiring.broken = True
    unfed = [i for i, row in enumerate(wiring.sources) for v in row if v is None]
    unfed = [i for i in unfed if i not in wiring.doubtful]
    wiring.broken = wiring.broken or bool(unfed)
    if len(unfed) <= wiring.loose:  # edges that lead nowhere were meant for these inputs
        wiring.doubtful |= set(unfed)
    return wiring


def _ids(ports: tuple[XmlPort, ...]) -> tuple[str | None, ...]:
    return tuple([p[0] for p in ports])


@lru_cache(maxsize=4096)
def _port_ids(
    inputs: tuple[str | None, ...], outputs: tuple[str | None, ...]
) -> tuple[Positions, Positions, bool]:
    """Return id -> position on both sides, and whether every id is an integer of its own.

    Most layers of a model number their ports in the same way, so there are few of these.
    """
    sides: list[Positions] = []
    for texts in (inputs, outputs):
        side: Positions = {}
        for position, text in enumerate(texts):
            number = identifier(text)
            if number is not None:
                side.setdefault(number, position)
        sides.append(side)
    return sides[0], sides[1], len(sides[0] | sides[1]) == len(inputs) + len(outputs)


def _add_id(wiring: Wiring, index: int, layer: XmlLayer, context: Context) -> None:
    number = identifier(layer.id)
    if number is None:
        wiring.doubtful.add(index)
        wiring.broken = wiring.lost = True
        _bad_id(layer, layer.id, "id", 'the attribute "id" is missing', context)
        return
    first = wiring.ids.setdefault(number, index)
    if first != index:
        wiring.doubt(index, first)
        wiring.broken = wiring.lost = True
        text = f"the id {number} is already that of {wiring.layers[first].label}"
        notes = [context.stands(wiring.layers[first], "id")]
        hint = "give one of them another id; OpenVINO reads only the last one, or refuses the file"
        context.add("E200", text, attribute="id", layer=layer, notes=notes, hint=hint)


def _check_ports(wiring: Wiring, index: int, layer: XmlLayer, context: Context) -> None:
    ins, outs, fine = _port_ids(_ids(layer.inputs), _ids(layer.outputs))
    wiring.ports.append((ins, outs))
    if fine:
        return
    inputs: dict[int, str] = {}
    outputs: dict[int, str] = {}
    for side, mine, other, what in (
        (layer.inputs, inputs, outputs, "input"),
        (layer.outputs, outputs, inputs, "output"),
    ):
        for port in side:
            text, number = port.id, identifier(port.id)
            if text is None or number is None:
                wiring.doubt(index)
                _bad_id(layer, text, "port id", 'a port has no attribute "id"', context, port.sub)
                continue
            where: dict[str, Any] = {"attribute": "id", "layer": layer, "sub": port.sub}
            if number in mine:
                wiring.doubt(index)
                context.add("E201", f"two {what} ports have the id {text}", **where)
            elif number in other:
                message = f"an input and an output port have the id {text}"
                context.add("E201", message, severity="warning", **where)
            mine[number] = text


def _bad_id(
    layer: XmlLayer, text: str | None, what: str, lack: str, context: Context, sub: int = 0
) -> None:
    """Report the id of a layer or port that is missing or no identifier."""
    if text is None:
        context.add("E105", lack, layer=layer, sub=sub)
    else:
        message = f'the {what} "{text}" {why_no_identifier(text)}'
        context.add("E106", message, attribute="id", layer=layer, sub=sub)


def _numbers(edge: Edge, wiring: Wiring, context: Context) -> tuple[int, int, int, int] | None:
    """Return the four numbers of an edge, or None after reporting their errors."""
    a, b, c, d = map(edge_end, edge[:4])
    if a is not None and b is not None and c is not None and d is not None and not edge.extra:
        return a, b, c, d
    out, there = [], zip(EDGE_ATTRIBUTES, edge[:4], strict=True)
    given = [*(name for name, text in there if text is not None), *dict(edge.extra)]
    for name, text in zip(EDGE_ATTRIBUTES, edge[:4], strict=True):
        number = edge_end(text)
        if text is None:
            near = context.misspelt(name, given, EDGE_ATTRIBUTES)
            hint = f'write "{name}"' if near else None
            text = f'<edge> has no attribute "{name}"' + (f', but "{near}"' if near else "")
            context.add("E105", text, edge.anchor, attribute=near, hint=hint)
        elif number is None:
            context.add("E106", f'{name}="{text}" is not an integer', edge.anchor, attribute=name)
        else:
            out.append(number)
    meant = [context.misspelt(name, given, EDGE_ATTRIBUTES) for name in EDGE_ATTRIBUTES]
    rest = [name for name in given if name not in meant]
    context.unknown_attributes(rest, EDGE_ATTRIBUTES, "<edge>", edge.anchor)
    if len(out) == 4:
        return out[0], out[1], out[2], out[3]
    # The layer that the edge was meant for lacks an input because of it.
    target = integer(edge.to_layer)
    if target in wiring.ids:
        wiring.doubtful.add(wiring.ids[target])
    else:
        wiring.loose += 1
    return None


def _connect(
    wiring: Wiring,
    edge: Edge,
    ends: tuple[int, int, int, int],
    feeders: dict[tuple[int, int], Edge],
    context: Context,
) -> bool:
    """Feed an input port; False after reporting why the edge cannot."""
    from_layer, from_port, to_layer, to_port = ends
    target = _end(wiring, edge, to_layer, to_port, False, context)
    source = _end(wiring, edge, from_layer, from_port, True, context)
    if target is None:
        wiring.loose += 1
        return False
    index, port = target
    if source is None:
        wiring.doubtful.add(index)
        return False
    first = feeders.setdefault(target, edge)
    if first is not edge:
        layer = wiring.layers[index]
        both = f"{first.from_layer}:{first.from_port} and {from_layer}:{from_port}"
        text = f"input port {to_port} has two producers: {both}"
        notes = [Note("the other edge stands here", context.place(first.anchor))]
        context.add("E203", text, edge.anchor, layer=layer, notes=notes)
        wiring.doubtful.add(index)
        return False
    wiring.sources[index][port] = Value(*source)
    return True


def _end(
    wiring: Wiring, edge: Edge, number: int, port: int, start: bool, context: Context
) -> tuple[int, int] | None:
    """Return (layer, position of the port) of one end of an edge; None after reporting."""
    index = wiring.ids.get(number)
    side = "from" if start else "to"
    if index is None and wiring.lost:
        return None
    if index is None:
        message = f"an edge {side} layer {number}, which does not exist"
        hint = f"the layers have the ids {some(sorted(wiring.ids))}"
        context.add("E202", message, edge.anchor, attribute=f"{side}-layer", hint=hint)
        return None
    inputs, outputs = wiring.ports[index]
    mine, others = (outputs, inputs) if start else (inputs, outputs)
    layer = wiring.layers[index]
    ends = start and layer.type == "Result"
    if port in mine and not ends:
        return index, mine[port]
    if index in wiring.odd:
        return None
    kind, other = ("output", "input") if start else ("input", "output")
    if ends:
        message = "the edge starts at a Result, which has no outputs"
    elif port in others:
        verb = "starts" if start else "ends"
        message = f"the edge {verb} at port {port}, which is an {other} port"
    else:
        message = f"no {kind} port {port} (there are: {some(mine)})"
    notes = [context.stands(layer)]
    context.add("E202", message, edge.anchor, attribute=f"{side}-port", layer=layer, notes=notes)
    if not start:
        wiring.doubtful.add(index)
    return None


_LAYERS_NAMED = 12
_CYCLES = 21  # that are reported


def live_layers(wiring: Wiring) -> set[int]:
    """Return the positions of the layers that a Result or a layer with side effects needs."""
    sinks = ("Result", *STATEFUL)
    ends = (i for i, layer in enumerate(wiring.layers) if layer.type in sinks)
    return reached(ends, lambda i: (v.node for v in wiring.sources[i] if v is not None))


def check_liveness(document: Document, wiring: Wiring, live: set[int], context: Context) -> None:
    """Report a missing Result, unused inputs, and layers that no result needs."""
    if document.complete and not any(layer.type == "Result" for layer in document.layers):
        text = "the model has no Result, so nothing of it is computed"
        text = "the body has no Result" if document.anchor.section else text
        context.add("E209", text, document.anchor, severity="warning" if live else None)
        return
    # Behind a broken edge everything looks dead; the edge has been reported.
    if wiring.broken or wiring.doubtful:
        return
    dead = [i for i in range(len(document.layers)) if i not in live]
    sources = {i: [v.node for v in wiring.sources[i] if v is not None] for i in dead}
    read = {n for i in dead for n in sources[i] if document.layers[i].type in CATALOG}
    for i in dead:
        layer = document.layers[i]
        if layer.type == "Parameter":
            if not document.anchor.section:
                context.add("W205", "the input is not used", layer=layer)
        elif layer.type in CATALOG and i not in read:
            before = reached(sources[i], lambda n: sources.get(n, ())) - live
            more = f", nor {count(len(before), 'layer')} before it" if before else ""
            hint = "connect its output, or delete it: OpenVINO drops it, and so does lower"
            context.add("W201", f"no result needs it{more}", layer=layer, hint=hint)


def find_cycles(wiring: Wiring, context: Context) -> bool:
    """Report every cycle (those that share no layer); whether there is one."""
    found: set[int] = set()
    producers = {i: [v.node for v in row if v is not None] for i, row in enumerate(wiring.sources)}
    for _ in range(_CYCLES):
        cycle = cycle_in(producers, found)
        if not cycle:
            break
        _report([wiring.layers[i] for i in cycle], context)
        found.update(cycle)
    return bool(found)


def _report(cycle: list[XmlLayer], context: Context) -> None:
    start = min(range(len(cycle)), key=lambda i: cycle[i].anchor)
    cycle = cycle[start:] + cycle[:start]
    names = [f'"{layer.name}"' for layer in cycle[:_LAYERS_NAMED]]
    if len(cycle) > _LAYERS_NAMED:
        names.append(f"... {len(cycle) - _LAYERS_NAMED} more")
    path = " -> ".join([*names, f'"{cycle[0].name}"'])
    text = f"it needs its own output: {path}" if len(cycle) == 1 else f"a cycle: {path}"
    others = ((layer, context.place(layer.anchor)) for layer in cycle[1:_LAYERS_NAMED])
    notes = [Note(f"{layer.label} is part of it", place) for layer, place in others]
    context.add("E205", text, layer=cycle[0], notes=notes)


def build(document: Document, context: Context) -> Graph | None:
    """Return the graph of a document or body, broken layers as Opaque; None for a cycle."""
    wiring = wire(document, context)
    live = live_layers(wiring)
    graph = Graph()
    operations = OperationReader(context)
    for index, layer in enumerate(progress.each("building the graph", document.layers)):
        outputs = declared_specs(layer, layer.outputs, True, context)
        inputs = declared_specs(layer, layer.inputs, False, context)
        bodies = read_bodies(layer, context, build) if layer.bodies or layer.maps else None
        op = operations.read(layer, outputs, index in live or wiring.broken, bodies)
        if not check_inputs(wiring, index, op, context) and not isinstance(op, Opaque):
            op = operations.opaque(layer, outputs)
        node = graph.add(op, name=layer.name or f"layer {layer.id}", id=index)
        node.location = context.place(layer.anchor)
        node.tensor_names = tensor_names(layer.outputs)
        node.declared, node.declared_inputs = outputs, inputs
        node.rt_info, node.extra = layer.rt_info, layer.extra
        node.extra_data = unknown_attributes(layer, op)
        if layer.inputs or layer.outputs:
            ins, outs = layer.inputs, layer.outputs
            node.port_elements = tuple([p.sub for p in ins]), tuple([p.sub for p in outs])
            if [p for p in (*ins, *outs) if p.rt_info]:
                node.port_rt_info = _port_rt_info("input", ins) + _port_rt_info("output", outs)
    check_names(document, context)
    check_liveness(document, wiring, live, context)
    if find_cycles(wiring, context):
        return None
    for index, sources in enumerate(wiring.sources):
        for port, value in enumerate(v for v in sources if v is not None):
            graph.connect(value, index, port)
    if (document.version or "").strip() == "10":
        as_version_11(graph)
    return graph


def _port_rt_info(side: str, ports: tuple[XmlPort, ...]) -> tuple[tuple[str, int, str], ...]:
    return tuple([(side, i, p.rt_info) for i, p in enumerate(ports) if p.rt_info is not None])


def check_inputs(wiring: Wiring, index: int, op: Op, context: Context) -> bool:
    """Report missing and surplus ports; whether the operation can take the inputs it has."""
    layer, sources = wiring.layers[index], wiring.sources[index]
    if None not in sources:
        if isinstance(op, Opaque):
            return True
        if len(layer.outputs) < 2 and ports(type(op)).fits(len(sources)):
            return True
    known = None if isinstance(op, Opaque) else ports(type(op))
    if index not in wiring.doubtful:
        for port, value in enumerate(sources):
            if value is None and (known is None or known.variadic or port < len(known.names)):
                name = known.name(port) if known else f"input {port}"
                number, sub = layer.inputs[port].id, layer.inputs[port].sub
                hint = f'an <edge to-layer="{layer.id}" to-port="{number}"> is missing'
                text = f"input port {number} ({name}) has no producer"
                context.add("E204", text, layer=layer, sub=sub, hint=hint)
        if known is not None:
            _check_count(layer, op, context)
    fed = [i for i, value in enumerate(sources) if value is not None]
    return fed == list(range(len(fed))) and (known is None or known.fits(len(fed)))


def _check_count(layer: XmlLayer, op: Op, context: Context) -> None:
    known, number = ports(type(op)), len(layer.inputs)
    if number < known.required:
        names = ", ".join(known.names[: known.required]) or "one input or more"
        text = f"it has {count(number, 'input port')}, but needs {known.required}: {names}"
        context.add("E208", text, layer=layer)
    elif not known.fits(number):
        names = ", ".join(known.names) or "none"
        most = len(known.names)
        text = f"it has {count(number, 'input port')}, but takes {most} at most: {names}"
        context.add("E208", text, layer=layer, sub=layer.inputs[most].sub)
    if len(layer.outputs) > 1 and single_output(type(op)):
        text = f"it has {len(layer.outputs)} output ports; {op.type} has one"
        context.add("E208", text, layer=layer, sub=layer.outputs[1].sub)


PathLikeText = str | PathLike[str]
Stored = Weights | NoWeights | None
_LATE_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?\s+(<\?xml\s[^>]*\?>)")


@dataclass
class Loaded(errors.Collector):
    """The result of reading: the graph (None if nothing can be built) and every diagnostic.

    `denied` is why a file could not be opened, `missing` the weights file that is not there.
    """

    graph: Graph | None = None
    denied: OSError | None = None
    missing: str | None = None

    def add_denied(self, path: str, what: str, location: Location, error: Exception) -> None:
        """Record a file that cannot be opened (E100)."""
        found = unreadable(path, error, what, location)
        self.diagnostics += found.diagnostics
        if isinstance(error, OSError):
            self.denied = OSError(error.errno, reason_of(error), path)

    def error(self) -> errors.IrdeconvError:
        """Return the exception for these diagnostics."""
        if self.denied is not None and {d.code for d in self.errors} == {"E100"}:
            return errors.no_access(self.diagnostics, self.denied.errno, self.denied.filename)
        if self.missing is not None and {d.code for d in self.errors} == {"E120"}:
            return errors.MissingWeightsError(self.diagnostics, ENOENT, self.missing)
        return errors.InputError(self.diagnostics)


def load(
    path: PathLikeText | bytes,
    weights: Stored = None,
    *,
    semantics: Semantics = "runtime",
    limits: Limits | None = None,
    name: str = "<stdin>",
) -> Loaded:
    """Read an IR (version 10 or 11); a bad file is described by diagnostics, never by an exception.

    `path` names the `.xml`, or is its bytes (then called `name`). `weights` names or is the `.bin`;
    by default it is the file beside the `.xml` with the same stem, which may be missing if no
    constant needs it. False leaves the weights out: the structure alone is read.
    """
    if semantics not in get_args(Semantics):
        message = f'semantics is "{semantics}"; it is {" or ".join(get_args(Semantics))}'
        raise errors.misused(message)
    with work.gc_paused():
        out = _load(path, weights, semantics, limits or current(), name)
    if out.graph is None and not out.errors:
        raise AssertionError("a file that is not read has a diagnostic")
    return out


def _load(
    path: PathLikeText | bytes, weights: Stored, semantics: Semantics, limits: Limits, name: str
) -> Loaded:
    out = Loaded(most=limits.reports)
    source = open_source(path, name, out, limits)
    if source is None or _is_foreign(source, out):
        return out
    source = _without_lead(source, out)
    document = read_document(source, out, limits)
    if document is None:
        return out
    store = open_weights(weights, None if isinstance(path, bytes) else Path(path), source, out)
    context = Context(source, out, store, limits, semantics)
    try:
        out.graph = build(document, context)
        report_unknown(context)
        check_weights(document, context)
        check_mark(document.mark, store, weights is not None, context)
    except NotReadFurther:
        out.graph = None
    try:
        store.require_intact()
    except errors.InputError as e:
        out.diagnostics += e.diagnostics
    out.count_rest()
    if out.graph is not None:
        out.graph.info = Info(
            name=document.name or "model",
            ir_version=10 if (document.version or "").strip() == "10" else 11,
            rt_info=document.rt_info,
            file=source.path,
            extra=document.extra,
        )
    return out


def open_source(
    path: PathLikeText | bytes, name: str, out: Loaded, limits: Limits
) -> SourceFile | None:
    """Return the bytes of an `.xml`; None, with a diagnostic, if they cannot be read."""
    if isinstance(path, bytes):
        work.earn(len(path), first=True)
        return SourceFile(name, path)
    text = os.fspath(path)
    try:
        return SourceFile(text, contents(text, limits.xml_bytes))
    except errors.LimitError as e:
        out.diagnostics += e.diagnostics
        return None
    except (OSError, ValueError) as e:
        out.add_denied(text, "", Location(SourceFile(text, b"")), e)
        return None


def _without_lead(source: SourceFile, out: errors.Collector) -> SourceFile:
    """Return a file whose XML declaration does not come first without it, places kept.

    XML forbids blanks in front of the declaration, OpenVINO's reader skips them and takes the text
    for UTF-8.
    """
    late = _LATE_DECLARATION.match(source.data)
    if late is None:
        return source
    message = "there are blanks in front of the XML declaration; XML forbids them"
    hint = "let the file begin with <?xml"
    out.add("W103", message, location=Location(source, fixed=(1, 1)), hint=hint)
    blank = re.sub(rb"[^\r\n]", b" ", late[1])
    return SourceFile(source.path, source.data[: late.start(1)] + blank + source.data[late.end() :])


def _is_foreign(source: SourceFile, out: errors.Collector) -> bool:
    """Report a file that is known to be something else; whether it is."""
    path = source.path or source.name
    kind = kind_of(source.data[:BEGIN], path)
    if kind.format == "xml" or not (kind.format or kind.foreign or kind.name == BINARY):
        return False
    message = f"the file is {kind.name}, no OpenVINO IR"
    place = Location(SourceFile(path, b""), fixed=(1, 1))  # all of the file is meant
    out.add("E110", message, location=place, hint=kind.mend)
    return True


def open_weights(weights: Stored, xml: Path | None, source: SourceFile, out: Loaded) -> NoWeights:
    """Return the given `.bin`, or the one beside the `.xml`; `out` names a missing file."""
    if isinstance(weights, bytes):
        return MemoryWeights(weights)
    if isinstance(weights, NoWeights):
        return weights
    if weights is False:
        return NoWeights("", LEFT_OUT)
    if weights is None:
        if xml is None:
            return NoWeights("", "the weights were not given")
        weights = weights_beside(xml)
        weights = weights if weights.exists() else xml.with_suffix(".bin")
    text = os.fspath(weights)
    try:
        found = WeightsFile(text)
        out.missing = text if found.size is None else None
        return found
    except (OSError, ValueError) as e:
        out.add_denied(text, "the weights file ", Location(source, fixed=(1, 1)), e)
        return NoWeights(text, UNREADABLE)
