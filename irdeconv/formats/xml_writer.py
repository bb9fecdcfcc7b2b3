"""Write a graph of standard operations as `.xml` and `.bin`.

The graph is checked first: a graph built by a program, or read from the text form, may have
operations or attribute values that no file can contain. Each constant is written once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from lxml import etree

from irdeconv.base import progress
from irdeconv.base.errors import Collector, Diagnostic, InputError, Problem, misused, no_access
from irdeconv.base.limits import current, raise_hint
from irdeconv.base.source import Location
from irdeconv.formats.atomic import Files, failures, require_writable, together
from irdeconv.formats.bodies import as_version_10
from irdeconv.formats.document import SAFE_PARSER, integer, marked, sources_of
from irdeconv.formats.layers import no_data, unkept
from irdeconv.ir.attributes import attributes, fits_64_bits
from irdeconv.ir.constant import FileData
from irdeconv.ir.graph import FreshNames, Graph, Node
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Interval, Shape, Spec
from irdeconv.ops.basic import Const, Opaque, Section
from irdeconv.ops.bodies import Body, Slicing, bodies_of, every_node
from irdeconv.proof.reader import weights_beside


@dataclass
class Blobs:
    """The `.bin` while it is written: identical blobs once, unaligned; `hash` is of all bytes."""

    file: BinaryIO
    size: int = 0
    seen: dict[bytes, int] = field(default_factory=dict)
    hash: Any = field(default_factory=hashlib.sha256)

    def add(self, pieces: Iterable[bytes | memoryview]) -> tuple[int, int]:
        """Store a blob that comes in pieces; returns (offset, size).

        One of several pieces is written before it is known to be new, because making the pieces
        takes longer; if there is one like it, it is taken back.
        """
        rest = iter(pieces)
        first, second = next(rest, b""), next(rest, None)
        if second is None:
            data = first if len(first) else b"\0"
            key = _key(hashlib.blake2b(data), len(data))
            if key not in self.seen:
                self.seen[key] = self.size
                self._append(data)
            return self.seen[key], len(data)
        start, hash, digest = self.size, self.hash.copy(), hashlib.blake2b()
        for piece in chain((first, second), rest):
            digest.update(piece)
            self._append(piece)
        size = self.size - start
        key = _key(digest, size)
        if key in self.seen:
            self.file.seek(start)
            self.file.truncate()
            self.size, self.hash = start, hash
        return self.seen.setdefault(key, start), size

    def _append(self, piece: bytes | memoryview) -> None:
        self.file.write(piece)
        self.hash.update(piece)
        self.size += len(piece)


def _key(digest: Any, size: int) -> bytes:
    found: bytes = digest.digest() + size.to_bytes(8, "little")
    return found


def _collect(found: Collector, graph: Graph, depth: int) -> None:
    """Collect the problems of layers and bodies that no reader would take."""
    for node in graph.nodes():
        own = chain(node.op.problems(), _too_large(node.op), _too_much(node))
        for problem in chain(own, _misfit(graph, node)):
            if problem.severity != "error":
                continue
            place = node.location
            if place is not None and problem.attribute is not None:
                place = place.at(problem.attribute)
            text = f"{node.label}: {problem.message}"
            found.add_at(node, problem.code, text, location=place, hint=problem.hint)
        if bodies_of(node) and depth == current().depth:
            text = f"{node.label}: bodies are nested more than {depth} deep"
            found.add("E603", text, layer=node.name, hint=raise_hint("depth"))
            return
        for body in bodies_of(node):
            _collect(found, body.graph, depth + 1)


def _too_large(op: Op) -> Iterator[Problem]:
    """Yield integers that no reader takes; Python's have no bounds."""
    if type(op).to_attributes is not Op.to_attributes:
        return  # its attributes are texts, as they were read
    for a in attributes(type(op)).values():
        value = getattr(op, a.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and not fits_64_bits(number):
                yield Problem("E210", f"{a.xml}={number} does not fit 64 bits", attribute=a.xml)


def _too_much(node: Node) -> Iterator[Problem]:
    """Yield texts and lists beyond the limits of reading."""
    limits, op = current(), node.op
    for what, text in (("name", node.name), ("type", op.type), ("version", op.version)):
        if len(text) > limits.name_length:
            size = f"its {what} has {len(text):,} characters; the limit is {limits.name_length:,}"
            yield Problem("E600", size, hint=raise_hint("name_length"))
    data = len(op.data) if isinstance(op, Opaque) else 0
    for count in (4 + len(node.extra), data + len(node.extra_data)):
        if count > limits.attributes:
            size = f"it has {count:,} attributes; the limit is {limits.attributes:,}"
            yield Problem("E601", size, hint=raise_hint("attributes"))


def _misfit(graph: Graph, node: Node) -> Iterator[Problem]:
    """Yield why no reader takes a layer in its place, above all if only its text is known."""
    op, read = node.op, graph.highest_port(node.id)
    problem = unkept(op) if isinstance(op, Opaque) else None
    if problem is not None:
        yield problem
    outputs = 0 if node.type == "Result" else node.outputs
    if read >= outputs and (isinstance(op, Opaque) or not outputs):
        yield Problem("E202", f"its output {read} is read, but it has {outputs}")


_SPECIAL = re.compile('[&<>"\n\r\t]')
_SPELLED = {"&": "&amp;", ">": "&gt;", "<": "&lt;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def quoted(text: str) -> str:
    """Return a quoted attribute value, as `quoteattr` does, which is slower and imports urllib."""
    if _SPECIAL.search(text) is None:
        return f'"{text}"'
    for char, spelled in _SPELLED.items():
        text = text.replace(char, spelled)
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace('"', "&quot;") + '"'


# Characters that XML forbids, and other control characters, which readers refuse in names.
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


SHOWN_NAMES = 20


def make_names_safe(graph: Graph, out: Collector, location: Location) -> None:
    """Replace each character that no XML can hold, or that is for a terminal, by "_".

    A new name that exists already gets a number; objects of one name keep one name.
    """
    nodes = list(every_node(graph))
    found = dict.fromkeys(n.name for n in nodes)
    found |= dict.fromkeys(t for n in nodes for names in n.tensor_names for t in names)
    bad = [name for name in found if UNFIT.search(name)]
    if UNFIT.search(graph.info.name):
        graph.info.name = UNFIT.sub("_", graph.info.name)
    if not bad:
        return
    fresh = FreshNames(set(found) - set(bad))
    new = {name: fresh.fresh(UNFIT.sub("_", name)) for name in bad}
    for node in nodes:
        node.name = new.get(node.name, node.name)
        node.origins = tuple(new.get(o, o) for o in node.origins)
        node.tensor_names = tuple(tuple(new.get(t, t) for t in own) for own in node.tensor_names)
    for name in bad[:SHOWN_NAMES]:
        message = f'the name {name!a} has characters that no IR can hold: it becomes "{new[name]}"'
        hint = "rename it where the model was made"
        out.add("W103", message, location=location, layer=new[name], hint=hint)
    if len(bad) > SHOWN_NAMES:
        message = f"{len(bad) - SHOWN_NAMES} more names have such characters"
        out.add("W103", message, location=location)


def note_origins(graph: Graph) -> None:
    """Note in new nodes, as OpenVINO's `fused_names`, which layers of the source they replace."""
    for node in graph.nodes():
        if node.origins and not node.rt_info:
            names = f'name="fused_names" version="0" value={quoted(",".join(node.origins))}'
            node.rt_info = f"<rt_info><attribute {names}/></rt_info>"


def write_ir(graph: Graph, path: Path) -> None:
    """Write an inferred graph of standard operations; both files appear whole, or neither.

    The `.xml` replaces a former one before the `.bin` does: it has the mark of its `.bin`, so a
    reader in between gets E124, even if the former `.xml` has no mark. Raises UsageError for a
    path that cannot be a model's, InputError if constants have no data or readers would refuse the
    attributes, FileAccessError if writing fails.
    """
    with together() as files:
        stage_ir(graph, path, files)


def stage_ir(graph: Graph, path: Path, files: Files) -> tuple[Path, Path]:
    """Write as `write_ir`, into place when `files` are put; return the temporary `.xml`, `.bin`."""
    _require_writable(graph)
    require_model_path(path)
    try:
        with failures(path):
            xml, weights = files.open(path), files.open(weights_beside(path))
            for part in _document(graph, Blobs(weights.file)):
                xml.file.write(_encoded(part, graph))
            weights.finish()
            xml.finish()
        return xml.name, weights.name
    finally:
        for source in sources_of(graph):  # a file changed meanwhile explains other errors
            source.require_intact()


def ir_bytes(graph: Graph) -> tuple[bytes, bytes]:
    """Return the `.xml` and the `.bin` of `write_ir`. Raises InputError as it does."""
    _require_writable(graph)
    weights = BytesIO()
    return _encoded("".join(_document(graph, Blobs(weights))), graph), weights.getvalue()


def _encoded(text: str, graph: Graph) -> bytes:
    """Return the bytes of a part of the document; InputError (E701) for unfit characters."""
    for char in sorted(set(UNFIT.findall(text))):
        _require_fit(char, graph)
    return text.encode("utf-8")


def _require_fit(char: str, graph: Graph) -> None:
    """Refuse a text with a character that XML forbids, and names with those for terminals."""
    named = ((n.name, n.type, n.op.version) for n in every_node(graph))
    layer = next((texts[0] for texts in named if any(map(UNFIT.search, texts))), None)
    if layer is None and "\x7f" <= char <= "\x9f":
        return
    message = f"the model has a text that no file can hold: {char!a}"
    hint = "names and other texts have to be valid Unicode without control characters"
    raise InputError(Diagnostic("E701", "error", message, layer=layer, hint=hint))


def require_model_path(path: Path) -> None:
    """Raise UsageError or FileAccessError if a path cannot be an `.xml` with its `.bin`."""
    require_writable(path)  # so that it has a name
    if path.suffix != ".xml" and (path.is_file() or not path.exists()):
        message = f"{path}: an IR is written as .xml, with its .bin beside it"
        onnx = "; lower_onnx writes an .onnx" if path.suffix.startswith(".on") else ""
        raise misused(message, f"name it {path.with_suffix('.xml')}{onnx}")
    for target in (path, weights_beside(path)):
        require_writable(target)
        if target.exists() and not target.is_file():
            message = f"{target} cannot be written: it is not a regular file"
            found = Diagnostic("E701", "error", message, hint="name a file, also a new one")
            raise no_access(found, None, target)


def _require_writable(graph: Graph) -> None:
    """Raise InputError for unfit attributes, and for constants that were never given (E120)."""
    found = Collector(most=current().reports)
    _collect(found, graph, 0)
    found.count_rest()
    if found.diagnostics:
        raise InputError(found.diagnostics)
    lacking = [n for n in every_node(graph) if not _has_data(n.op)]
    if lacking:
        raise InputError(no_data(lacking, "cannot be written"))


def _has_data(op: Op) -> bool:
    if isinstance(op, Const):
        return op.data.available
    if not isinstance(op, Opaque) or (op.weights is not None and op.weights.available):
        return True
    bodies = (etree.fromstring(s.xml, SAFE_PARSER) for s in op.sections if s.tag.endswith("body"))
    return not any(list(_stored(body)) for body in bodies)


def _document(graph: Graph, blobs: Blobs) -> Iterator[str]:
    info = graph.info
    if info.ir_version == 10:
        graph = as_version_10(graph)
    extra = "".join(f" {k}={quoted(v)}" for k, v in info.extra)
    yield '<?xml version="1.0"?>\n'
    yield f'<net name={quoted(info.name)} version="{info.ir_version}"{extra}>\n'
    yield from _Inside(graph, blobs, info.ir_version).lines()
    yield f"\t{marked(info.rt_info, blobs.size, blobs.hash.hexdigest())}\n</net>\n"


@dataclass
class _Inside:
    """The layers and edges of a `<net>` or of a body."""

    graph: Graph
    blobs: Blobs
    version: int
    order: list[Node] = field(init=False)
    number: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        self.order = list(graph.nodes())
        if any(v.node >= n.id for n in self.order for v in graph.inputs_of(n.id)):
            # Producers come first, Results last.
            self.order = [n for n in graph.topological() if n.type != "Result"] + graph.results
        self.number = {n.id: i for i, n in enumerate(self.order)}

    def lines(self) -> Iterator[str]:
        yield "\t<layers>\n"
        for node in progress.each("writing", self.order):
            yield "".join(_layer(self, node))
        yield "\t</layers>\n\t<edges>\n"
        yield from _edges(self.graph, self.order, self.number)
        yield "\t</edges>\n"


def _layer(inside: _Inside, node: Node) -> Iterator[str]:
    graph, blobs, number = inside.graph, inside.blobs, inside.number[node.id]
    extra = "".join(f" {k}={quoted(v)}" for k, v in node.extra)
    kind = f"type={quoted(node.type)} version={quoted(node.op.version)}"
    yield f'\t\t<layer id="{number}" name={quoted(node.name)} {kind}{extra}>\n'
    data = _data(node, blobs)
    if data:
        yield "\t\t\t<data" + "".join(f" {k}={quoted(v)}" for k, v in data.items()) + " />\n"
    if node.rt_info and inside.version > 10:
        yield f"\t\t\t{node.rt_info.strip()}\n"
    sections = node.op.sections if isinstance(node.op, Opaque) else ()
    yield from (_section(s, node.op, blobs) for s in sections if not s.tag.endswith("body"))
    inputs = graph.input_specs(node.id)
    bodies = [_Written(b, inside, len(inputs)) for b in bodies_of(node)]
    for body in bodies:
        yield from body.maps()
    kept = node.port_rt_info if inside.version > 10 else ()
    info = {(side, port): xml for side, port, xml in kept}
    if inputs:
        yield "\t\t\t<input>\n"
        for port, spec in enumerate(inputs):
            yield _port(port, spec, (), info.get(("input", port)))
        yield "\t\t\t</input>\n"
    if node.type != "Result" and node.outputs:
        yield "\t\t\t<output>\n"
        for port in range(node.outputs):
            names = node.tensor_names[port] if port < len(node.tensor_names) else ()
            yield _port(len(inputs) + port, node.spec(port), names, info.get(("output", port)))
        yield "\t\t\t</output>\n"
    yield from (_section(s, node.op, blobs) for s in sections if s.tag.endswith("body"))
    for body in bodies:
        yield from body.lines()
    yield "\t\t</layer>\n"


class _Written:
    """A body of a layer as it is written; ports of outputs are numbered from `first` on."""

    def __init__(self, body: Body, around: _Inside, first: int) -> None:
        self._body, self._first = body, first
        self._inside = _Inside(body.graph, around.blobs, around.version)

    def maps(self) -> Iterator[str]:
        """Yield the port map and the back edges."""
        body, number = self._body, self._inside.number
        tag = body.tag.replace("body", "port_map")
        yield f"\t\t\t<{tag}>\n"
        for entry in body.inputs:
            purpose = "current_iteration" if entry.iteration else None
            parts = self._parts(entry.slicing, body.graph.node(entry.parameter).spec())
            yield _entry("input", entry.port, number[entry.parameter], parts, purpose)
        for out in body.outputs:
            port = None if out.port is None else self._first + out.port
            purpose = "execution_condition" if out.condition else None
            parts = self._parts(out.slicing, body.graph.node(out.result).spec())
            yield _entry("output", port, number[out.result], parts, purpose)
        yield f"\t\t\t</{tag}>\n"
        if body.edges:
            yield "\t\t\t<back_edges>\n"
            for source, target in body.edges:
                ends = f'from-layer="{number[source]}" to-layer="{number[target]}"'
                yield f"\t\t\t\t<edge {ends} />\n"
            yield "\t\t\t</back_edges>\n"

    def _parts(self, slicing: Slicing | None, spec: Spec) -> Slicing | None:
        """Return the slicing with an axis from 0 on: OpenVINO reads no other."""
        if slicing is None or slicing.axis >= 0 or spec.shape is None:
            return slicing
        return replace(slicing, axis=slicing.axis + len(spec.shape))

    def lines(self) -> Iterator[str]:
        """Yield the body itself, its lines below those of the layer."""
        yield f"\t\t\t<{self._body.tag}>\n"
        info = self._body.graph.info.rt_info
        for piece in (*self._inside.lines(), *([f"\t{info.strip()}\n"] if info else [])):
            yield from (f"\t\t\t{line}" for line in piece.splitlines(keepends=True))
        yield f"\t\t\t</{self._body.tag}>\n"


def _entry(tag: str, port: int | None, layer: int, cut: Slicing | None, purpose: str | None) -> str:
    values: dict[str, object] = {} if cut is None else {"axis": cut.axis}
    values |= {"external_port_id": -1 if port is None else port, "internal_layer_id": layer}
    if cut is not None:
        values |= {k: v for k, v in vars(cut).items() if k != "axis"}
    if purpose is not None:
        values["purpose"] = purpose
    return f"\t\t\t\t<{tag} " + " ".join(f'{k}="{v}"' for k, v in values.items()) + " />\n"


def _data(node: Node, blobs: Blobs) -> dict[str, str]:
    attributes = node.op.to_attributes()
    attributes |= {k: v for k, v in node.extra_data if k not in attributes}
    if isinstance(node.op, Const):
        offset, size = blobs.add(node.op.data.pieces())
        attributes |= {"offset": str(offset), "size": str(size)}
    return attributes


def _port(number: int, spec: Spec, names: tuple[str, ...], rt_info: str | None) -> str:
    named = ""
    if names:
        named = " names=" + quoted(",".join(n.replace(",", "\\,") for n in names))
    precision = spec.dtype.precision if spec.dtype else "dynamic"
    head = f'\t\t\t\t<port id="{number}" precision="{precision}"{named}'
    if not spec.shape and not rt_info:
        return head + " />\n"
    inside = _dims(spec.shape or ()) + (f"\t\t\t\t\t{rt_info.strip()}\n" if rt_info else "")
    return f"{head}>\n{inside}\t\t\t\t</port>\n"


@lru_cache(maxsize=4096)
def _dims(shape: Shape) -> str:
    """Return the `<dim>`s of a port; most shapes of a model are those of several ports."""
    sizes = (-1 if isinstance(d, Interval) else d for d in shape)
    return "".join(f"\t\t\t\t\t<dim>{d}</dim>\n" for d in sizes)


def _edges(graph: Graph, order: list[Node], number: dict[int, int]) -> Iterator[str]:
    inputs = {n.id: graph.inputs_of(n.id) for n in order}
    for node in order:
        to = number[node.id]
        yield "".join(
            f'\t\t<edge from-layer="{number[v.node]}" from-port="{len(inputs[v.node]) + v.port}" '
            f'to-layer="{to}" to-port="{port}" />\n'
            for port, v in enumerate(inputs[node.id])
        )


def _section(section: Section, op: object, blobs: Blobs) -> str:
    """Return a kept section; constants of bodies move into the new `.bin`."""
    if not section.tag.endswith("body"):
        return f"\t\t\t{section.xml.decode('utf-8').strip()}\n"
    root = etree.fromstring(section.xml, SAFE_PARSER)
    for data in _stored(root):
        assert isinstance(op, Opaque)
        assert isinstance(op.weights, FileData)
        start, length = integer(data.attrib["offset"]), integer(data.attrib["size"])
        if start is None or length is None:
            continue  # of something else: constants have been read as such
        offset, size = blobs.add([op.weights.source.read(start, length)])
        data.attrib["offset"], data.attrib["size"] = str(offset), str(size)
    return f"\t\t\t{etree.tostring(root, encoding='unicode').strip()}\n"


def _stored(body: Any) -> Iterator[Any]:
    """Yield the `<data>` of every constant in a body, nested ones as well."""
    for data in body.iter("data"):
        if "offset" in data.attrib and "size" in data.attrib:
            yield data
