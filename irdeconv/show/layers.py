"""Facts about layers, deconvolutions and constants of a graph, and their listing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import islice
from operator import or_
from typing import Any, TypedDict

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import OpError, count
from irdeconv.base.json_form import Record
from irdeconv.base.source import Location
from irdeconv.base.tables import WIDTH, columns, flat, number, scaled, wrap
from irdeconv.ir.constant import FileData
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op
from irdeconv.ir.op import attributes as op_attributes
from irdeconv.ir.spec import Array, Shape, Spec, dims, format_shape, is_static
from irdeconv.ops.basic import Const, Opaque, Parameter, macs
from irdeconv.ops.bodies import bodies_of, every_node
from irdeconv.ops.dialect_template import CanonicalRecorder
from irdeconv.rewrite.infer_specs import constant_layers
from irdeconv.show.groups import connected


class ConstantSources:
    """The nodes of a graph that depend on constants alone, and the constants behind each.

    Constants that meet before they reach a layer are a group. The constants behind a node are a set
    of bits, one for each constant of its group: most groups are one constant, and if thousands are
    added up before anything else reads them, sets of their ids would take gigabytes.
    """

    def __init__(self, graph: Graph, inputs: dict[int, tuple[Value, ...]]) -> None:
        self.own: dict[int, tuple[int, int]] = {}
        self._bits: dict[int, int] = {}
        self._sizes: dict[int, tuple[list[int], list[int]]] = {}
        self._arrays: dict[int, Array] = {}
        constant = constant_layers(graph, inputs)
        links = ((p, node) for node, producers in constant.items() for p in producers)
        self._group = connected(constant, links)
        for node, producers in constant.items():
            if not producers:
                counts, stored = self._sizes.setdefault(self._group[node], ([], []))
                self._bits[node] = 1 << len(counts)
                size = self.own[node] = const_size(graph.node(node).op)
                counts.append(size[0])
                stored.append(size[1])
            else:
                self._bits[node] = reduce(or_, (self._bits[p] for p in producers))

    def __contains__(self, node: int) -> bool:
        return node in self._bits

    def behind(self, nodes: Iterable[int]) -> tuple[int, int]:
        """Return elements and bytes of all constants behind the nodes; none counts twice."""
        bits: dict[int, int] = {}
        for node in nodes:
            if node in self._bits:
                group = self._group[node]
                bits[group] = bits.get(group, 0) | self._bits[node]
        totals = [self._total(group, mask) for group, mask in bits.items()]
        return sum(n for n, _ in totals), sum(b for _, b in totals)

    def _total(self, group: int, bits: int) -> tuple[int, int]:
        """Return the sums of the sizes whose bits are set."""
        sizes = self._sizes[group]
        number = len(sizes[0])
        if bits.bit_count() == number:
            return sum(sizes[0]), sum(sizes[1])
        if group not in self._arrays:
            exact = np.int64 if sum(map(sum, sizes)) < 1 << 62 else object
            self._arrays[group] = np.array(sizes, exact)
        held = np.frombuffer(bits.to_bytes(-(-number // 8), "little"), np.uint8)
        chosen = np.unpackbits(held, count=number, bitorder="little") == 1
        elements, stored = self._arrays[group][:, chosen].sum(1)
        return int(elements), int(stored)


def const_size(op: Op) -> tuple[int, int]:
    """Return elements and stored bytes of a constant; zeros for other operations."""
    if not isinstance(op, Const) or not is_static(op.shape):
        return 0, 0
    count = math.prod(op.shape)
    if isinstance(op.data, FileData):
        return count, op.data.size
    return count, op.element_type.nbytes(count)


class SpecForm(TypedDict):
    """Element type and shape."""

    element_type: str | None  # such as f32
    shape: list[int | str] | None  # sizes; open ones as texts


def spec_form(spec: Spec) -> SpecForm:
    """Return the JSON form of a spec."""
    sizes = spec.shape
    shape = None if sizes is None else [d if isinstance(d, int) else str(d) for d in sizes]
    return {"element_type": None if spec.dtype is None else spec.dtype.name, "shape": shape}


class InputFacts(Record, keys="producer port name *form"):
    """An input: its producer, and the elements of constants behind it (None: not constant)."""

    producer: int  # id of the layer that it comes from
    port: int  # number of that layer's output
    name: str  # of that layer
    spec: Spec
    parameters: int | None

    @property
    def form(self) -> SpecForm:
        """The JSON form of the spec."""
        return spec_form(self.spec)

    @cached_property
    def text(self) -> str:
        """The spec as text; all readers of a value share it."""
        return str(self.spec)


@dataclass(frozen=True)
class ConsumerFacts:
    """A layer that reads an output, at this input port."""

    id: int  # of the layer
    port: int  # number of its input
    name: str  # of the layer


class OutputFacts(Record, keys="*form tensor_names consumers declared=declared_form?"):
    """An output and its readers; `declared` is the file's declaration if that differs."""

    spec: Spec
    tensor_names: tuple[str, ...]  # of the tensor
    consumers: tuple[ConsumerFacts, ...]  # the layers that read it
    declared: Spec | None

    @property
    def form(self) -> SpecForm:
        """The JSON form of the spec."""
        return spec_form(self.spec)

    @property
    def declared_form(self) -> SpecForm | None:
        """The file's declaration, if it differs."""
        return None if self.declared is None else spec_form(self.declared)


_KEYS = """id name type version attributes inputs outputs parameters bytes macs deconvolution
constant origins file line violations?"""


class LayerFacts(Record, keys=_KEYS):
    """One layer; ports count from 0 on either side.

    `parameters` and `bytes` count the constants that reach the layer without passing another layer
    with other inputs, so weights behind a Convert belong to the convolution.
    """

    id: int  # of the layer
    name: str  # of the layer
    type: str  # of its operation
    version: str  # operation set
    attributes: dict[str, str]  # as the file spells them
    inputs: tuple[InputFacts, ...]  # in the order of ports
    outputs: tuple[OutputFacts, ...]  # in the order of ports
    parameters: int  # elements of its constants
    bytes: int  # of its constants
    macs: int | None  # multiply-accumulates; null if sizes are open
    deconvolution: bool  # whether it is a deconvolution
    constant: bool  # whether it is computed from constants alone
    origins: tuple[str, ...]  # layers that it was made of
    location: Location | None
    violations: tuple[str, ...] = ()  # conditions of the target that it violates, with --target

    @property
    def file(self) -> str | None:
        """The file that the layer comes from; null for a graph that was built."""
        return None if self.location is None else self.location.file

    @property
    def line(self) -> int | None:
        """The line in the file."""
        place = None if self.location is None else self.location.position
        return None if place is None else place[0]

    @property
    def place(self) -> str:
        """The file, and the line if it is known."""
        return f"{self.file}:{self.line}" if self.line is not None else self.file or ""


def layers(graph: Graph) -> list[LayerFacts]:
    """Return the facts of all nodes in id order."""
    reader = _Reader(graph)
    with progress.stage("inspecting layers", total=len(graph)) as step:
        return [reader.layer(n, step) for n in graph.nodes()]


class _Reader:
    """Reads the facts of one graph; every edge is looked at once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._inputs = {n.id: graph.inputs_of(n.id) for n in graph.nodes()}
        self._sources = ConstantSources(graph, self._inputs)
        self._users: dict[Value, list[ConsumerFacts]] = {}
        self._input = cache(self._input_of)
        self._ports: dict[int, int] = {}
        for node in graph.nodes():
            for port, value in enumerate(self._inputs[node.id]):
                user = ConsumerFacts(node.id, port, node.name)
                self._users.setdefault(value, []).append(user)
                self._ports[value.node] = max(self._ports.get(value.node, 0), value.port + 1)

    def layer(self, node: Node, step: progress.Advance) -> LayerFacts:
        step()
        inputs = tuple(self._input(v) for v in self._inputs[node.id])
        specs = node.specs if node.specs is not None else node.declared
        held = self._sources.own.get(node.id, (0, 0))
        if node.id not in self._sources:
            held = self._sources.behind(v.node for v in self._inputs[node.id])
        return LayerFacts(
            id=node.id,
            name=node.name,
            type=node.op.type,
            version=node.op.version,
            attributes=attributes(node.op),
            inputs=inputs,
            outputs=tuple(self._outputs(node, specs)),
            parameters=held[0],
            bytes=held[1],
            macs=macs(node.op, tuple(i.spec for i in inputs), specs),
            deconvolution=node.op.deconvolution,
            constant=node.id in self._sources,
            origins=node.origins,
            location=node.location,
        )

    def _input_of(self, value: Value) -> InputFacts:
        producer = self._graph.node(value.node)
        constant = value.node in self._sources
        held = self._sources.behind([value.node])[0] if constant else None
        return InputFacts(value.node, value.port, producer.name, producer.spec(value.port), held)

    def _outputs(self, node: Node, specs: tuple[Spec, ...]) -> Iterator[OutputFacts]:
        known = max(len(specs), self._ports.get(node.id, 0), len(node.tensor_names))
        for port in range(known):
            spec = node.spec(port)
            declared = node.declared[port] if port < len(node.declared) else None
            if declared and (declared.dtype, declared.shape) == (spec.dtype, spec.shape):
                declared = None
            consumers = tuple(self._users.get(Value(node.id, port), ()))
            yield OutputFacts(spec, node.names_of(port), consumers, declared)


def attributes(op: Op) -> dict[str, str]:
    """Return the attributes as an IR spells them, a constant's place in the `.bin` among them."""
    texts = op.to_attributes()
    if isinstance(op, Const) and isinstance(op.data, FileData):
        texts |= {"offset": str(op.data.offset), "size": str(op.data.size)}
    return texts


DEEPER = 2  # by how much a reference that does not fit on its line stands further in
READERS = 8  # of an output that are named
PRODUCERS = 32  # of a layer that are named
VALUES = 8  # elements of a constant that are shown
VALUE_WIDTH = 40  # columns that they may take

_LAYER = re.compile(rb"<layer[\s>]")
# The meaning of an absent list, axis by axis.
_NEUTRAL = {"strides": "1", "dilations": "1"}


class Listing:
    """Prints layers in lines of at most `width` columns; a name is never broken."""

    def __init__(
        self, graph: Graph, rows: Sequence[LayerFacts], *, constants: bool, width: int = WIDTH
    ) -> None:
        self._graph = graph
        self._rows = rows
        self._constants = constants
        self._width = width
        self._ids = max(len("id"), *(len(str(r.id)) for r in rows), 0)
        self._indent = " " * (self._ids + 2)

    def __str__(self) -> str:
        head = ("type", "params", "bytes", "MACs", "output")
        cells = [_numbers(r) for r in self._rows]
        widths = [max(map(columns, texts)) for texts in zip(head, *cells, strict=True)][:-1]
        first = f"{'id':>{self._ids}}  name"
        lines = [first, *self._numbered(head, widths)]
        lines.append("-" * min(self._width, max(map(columns, lines))))
        for n, (r, texts) in enumerate(zip(self._rows, cells, strict=True), 1):
            after = self._rows[n].id if n < len(self._rows) else None
            lines.append(f"{r.id:>{self._ids}}  {flat(r.name)}")
            lines += self._numbered(texts, widths)
            for term, items in self._details(r, after):
                lines += self._filled(term, items, "" if term == "with" else ",")
        return "\n".join(lines)

    def _numbered(self, cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        """Yield type, numbers and output, the output on the next line if it is too long."""
        type, *numbers = (
            cell + " " * (width - columns(cell)) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells[:-1], widths, strict=True))
        )
        line = "  ".join([self._indent + type, *numbers])
        if columns(line) + 2 + columns(cells[-1]) <= self._width:
            yield f"{line}  {cells[-1]}".rstrip()
        else:
            yield line.rstrip()
            yield from self._filled("", [cells[-1]])

    def _filled(self, term: str, items: Sequence[str], comma: str = ",") -> Iterator[str]:
        """Yield lines with the term and the items; one that fits on a line is not broken."""
        folded = self._indent + " " * DEEPER
        line = self._indent + term
        for n, item in enumerate(items):
            text = item if n == len(items) - 1 else item + comma
            if columns(line) + 1 + columns(text) <= self._width:
                line = f"{line} {text}" if line.strip() else line + text
            else:
                if line.strip():
                    yield line
                *full, line = wrap(folded + text, self._width, len(folded)).split("\n")
                yield from map(self._outdented, full)
        yield self._outdented(line)

    def _outdented(self, line: str) -> str:
        """Return the line with less indent if a long name fits then."""
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, max(0, columns(line) - self._width)) :]

    def _details(self, r: LayerFacts, after: int | None) -> Iterator[tuple[str, list[str]]]:
        if r.inputs:
            producers = (self._producer(i) for i in r.inputs)
            yield "from", _listed(producers, len(r.inputs), PRODUCERS)
        for port, output in enumerate(r.outputs):
            readers = self._readers(r, output, after)
            if port:
                yield f"output {port} {output.spec}{' to' if readers else ''}", readers
            elif readers:
                yield "to", readers
        written = [f"{k}={flat(v)}" for k, v in self._attributes(r).items()]
        if written:
            yield "with", written
        node = self._graph.node(r.id)
        for section in node.op.sections if isinstance(node.op, Opaque) else ():
            if section.tag.endswith("body"):
                yield section.tag, [f"of {count(len(_LAYER.findall(section.xml)), 'layer')}"]
        for body in bodies_of(node):
            inner = sum(n.op.deconvolution for n in every_node(body.graph))
            more = [count(inner, "deconvolution")] * bool(inner)
            yield body.tag, [f"of {count(len(body.graph), 'layer')}", *more]
        if r.violations:
            yield "not executed:", list(r.violations)
        names = [n for o in r.outputs for n in o.tensor_names if n != r.name]
        if names:
            yield "tensors" if len(names) > 1 else "tensor", [quoted(n) for n in names]
        if r.origins and r.origins != (r.name,):
            yield "made of", [quoted(n) for n in r.origins]

    def _producer(self, i: InputFacts) -> str:
        port = f":{i.port}" if i.port else ""
        if i.parameters is None:
            return f"{i.producer} {quoted(i.name)}{port} {format_shape(i.spec.shape)}"
        ident = f"{i.producer} " if self._constants else ""
        held = value(i.spec) or f" {number(i.parameters)}"
        return f"{ident}{quoted(i.name)}{port} {i.spec}{held}"

    def _readers(self, r: LayerFacts, output: OutputFacts, after: int | None) -> list[str]:
        """Return the readers of an output; nothing if only the next layer in the list reads it."""
        readers = output.consumers
        if not readers:
            return [] if r.type == "Result" else ["nothing"]
        if len(r.outputs) == len(readers) == 1 and readers[0].id == after:
            return []
        texts = (f"{c.id} {quoted(c.name)}{f':{c.port}' if c.port else ''}" for c in readers)
        return _listed(texts, len(readers), READERS)

    def _attributes(self, r: LayerFacts) -> dict[str, str]:
        """Return the attributes that say more than their defaults."""
        op = self._graph.node(r.id).op
        if isinstance(op, (Parameter, Const)):
            return {}
        if isinstance(op, Opaque):
            return r.attributes
        known = op_attributes(type(op))

        def usual(name: str, text: str) -> bool:
            default = known[name].kind.format(known[name].default)
            neutral = {_NEUTRAL.get(name, "0"), ""}
            return text == default or (not default and {*text.split(",")} <= neutral)

        return {k: v for k, v in r.attributes.items() if known[k].required or not usual(k, v)}


def _numbers(r: LayerFacts) -> tuple[str, ...]:
    return (
        ("! " if r.violations else "") + ("* " if r.deconvolution else "") + flat(r.type),
        scaled(r.parameters) if r.parameters else "",
        scaled(r.bytes, "B") if r.bytes else "",
        scaled(r.macs) if r.macs != 0 else "",
        str(r.outputs[0].spec) if r.outputs else "",
    )


def _listed(texts: Iterable[str], total: int, most: int) -> list[str]:
    first = list(islice(texts, most if total > most + 1 else total))
    return [*first, f"and {number(total - len(first))} more"] if len(first) < total else first


def comment(r: LayerFacts) -> str:
    """Return the neighbours and the place of a layer in one line."""
    producers = (quoted(i.name) + (f":{i.port}" if i.port else "") for i in r.inputs)
    readers = [c for o in r.outputs for c in o.consumers]
    names = (quoted(c.name) + (f":{c.port}" if c.port else "") for c in readers)
    parts = {
        "from ": _listed(producers, len(r.inputs), PRODUCERS),
        "to ": _listed(names, len(readers), READERS),
        "": [flat(r.place)] if r.file else [],
    }
    return "; ".join(f"{term}{', '.join(items)}" for term, items in parts.items() if items)


def quoted(name: str) -> str:
    """Return a name as it is, or in quotes if it would merge with the text beside it."""
    text = flat(name)
    return f'"{text}"' if not text or any(c in text for c in ' ,"') else text


def value(spec: Spec) -> str:
    """Return `=0,2,3,1` for a small constant whose value is known, else nothing."""
    known = spec.known
    if known is None or known.size > VALUES or known.dtype.kind not in "biuf":
        return ""
    text = ",".join(f"{v:.6g}" if known.dtype.kind == "f" else f"{v}" for v in known.reshape(-1))
    return f"={text}" if len(text) <= VALUE_WIDTH else ""


@dataclass(frozen=True)
class DeconvolutionFacts:
    """One deconvolution with all rules applied; null or `?` if sizes are unknown."""

    id: int  # of the layer
    name: str  # of the layer
    type: str  # of its operation
    version: str  # operation set
    attributes: dict[str, str]  # as the file spells them
    groups: str | None = None  # number of groups
    channels_in: str | None = None  # number of input channels
    channels_out: str | None = None  # number of output channels
    kernel: str | None = None  # its size along each axis
    strides: str | None = None  # one for each axis
    dilations: str | None = None  # one for each axis
    pads_begin: str | None = None  # after all rules
    pads_end: str | None = None  # after all rules
    output: str | None = None  # its shape
    macs_direct: int | None = None  # multiply-accumulates of the definition
    macs_zero_insertion: int | None = None  # multiply-accumulates after zero-insertion
    problem: str | None = None  # why the layer is refused


def deconvolutions(graph: Graph) -> list[DeconvolutionFacts]:
    """Return the facts of every deconvolution in id order."""
    known: dict[object, DeconvolutionFacts] = {}
    found = []
    for node in graph.nodes():
        if node.op.deconvolution:
            specs = (*graph.input_specs(node.id), node.spec())
            values = (None if s.value is None else s.value.tobytes() for s in specs)
            key = (type(node.op), repr(node.op), *((s.dtype, s.shape) for s in specs), *values)
            if key not in known:  # many layers of a network have the same numbers
                known[key] = _facts(graph, node)
            found.append(replace(known[key], id=node.id, name=node.name))
    return found


def _facts(graph: Graph, node: Node) -> DeconvolutionFacts:
    inputs = graph.input_specs(node.id)
    op, problem = node.op, None
    recorder = CanonicalRecorder()
    try:
        recorder.expand(op, inputs)
    except OpError as e:
        problem = str(e)
    except TypeError:
        problem = f"{len(inputs)} inputs do not fit {op.type}"
    resolved = _resolved(recorder, node.spec()) if recorder.op else {}
    known = node.id, node.name, op.type, op.version, op.to_attributes()
    direct = macs(op, inputs, node.specs or node.declared)
    return DeconvolutionFacts(*known, macs_direct=direct, problem=problem, **resolved)


def _resolved(canonical: CanonicalRecorder, own: Spec) -> dict[str, Any]:
    op, inputs, out = canonical.op, canonical.inputs, canonical.out
    assert op is not None
    assert out is not None
    filter = inputs[1].shape
    channels = {}
    if filter:
        g, c, m, *_ = filter
        channels = {"groups": str(g), "channels_in": str(g * c), "channels_out": str(g * m)}
    inserted = None
    if is_static(filter) and is_static(out.shape):  # N * M * C/g * prod(K) * prod(O)
        inserted = out.shape[0] * math.prod(filter) * math.prod(out.shape[2:])
    return {
        **channels,
        "kernel": _dims(filter[3:] if filter else None),
        "strides": _dims(op.strides),
        "dilations": _dims(op.dilations),
        "pads_begin": _dims(dims(inputs[2])),
        "pads_end": _dims(dims(inputs[3])),
        "output": _dims(own.shape or out.shape),
        "macs_zero_insertion": inserted,
    }


def _dims(values: Shape | None) -> str | None:
    return None if values is None else ",".join(map(str, values))
