"""The layers as text: a name, a line of numbers, and where the layer's data come from and go to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from irdeconv.graph import Graph
from irdeconv.inspection.layers import InputFacts, LayerFacts, OutputFacts
from irdeconv.inspection.table import flat, number, scaled
from irdeconv.op import attributes
from irdeconv.ops.basic import Const, Opaque, Parameter
from irdeconv.ops.bodies import bodies_of, every_node
from irdeconv.plural import count
from irdeconv.spec import Spec, format_shape
from irdeconv.wrapping import WIDTH, columns, wrap

DEEPER = 2  # by how much a reference that does not fit on its line stands further in
READERS = 8  # of an output that are named
PRODUCERS = 32  # of a layer that are named
VALUES = 8  # elements of a constant that are shown
VALUE_WIDTH = 40  # columns that they may take
VALUE_WIDTH = 40  # columns that they may take

_LAYER = re.compile(rb"<layer[\s>]")
# What an absent list means, axis by axis.
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
        widths = [
            max(columns(t) for t in (h, *texts))
            for h, *texts in zip(head[:-1], *(c[:-1] for c in cells), strict=True)
        ]
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
        """Yield type, numbers and output, the output on the next line where it is too long."""
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
        """Return the line with less indent, where a long name would fit then."""
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
        """Return who reads an output; nothing where it is just the next layer that is shown."""
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
        known = attributes(type(op))
        return {
            k: v
            for k, v in r.attributes.items()
            if known[k].required or not _usual(k, v, known[k].kind.format(known[k].default))
        }


def _usual(name: str, text: str, default: str | None) -> bool:
    return text == default or (not default and {*text.split(",")} <= {_NEUTRAL.get(name, "0"), ""})


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
        "": [flat(_place(r))] if r.file else [],
    }
    return "; ".join(f"{term}{', '.join(items)}" for term, items in parts.items() if items)


def _place(r: LayerFacts) -> str:
    return f"{r.file}:{r.line}" if r.line is not None else r.file or ""


def quoted(name: str) -> str:
    """Return a name as it is, or in quotes where it would run into what stands beside it."""
    text = flat(name)
    return f'"{text}"' if not text or any(c in text for c in ' ,"') else text


def value(spec: Spec) -> str:
    """Return `=0,2,3,1` for a small constant whose value is known, else nothing."""
    known = spec.known
    if known is None or known.size > VALUES or known.dtype.kind not in "biuf":
        return ""
    text = ",".join(f"{v:.6g}" if known.dtype.kind == "f" else f"{v}" for v in known.reshape(-1))
    return f"={text}" if len(text) <= VALUE_WIDTH else ""
