"""What a graph must hold before it is written: layers and attributes that readers take.

A graph that a program built, or that the text form holds, may have operations that no file has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from irdeconv.attributes import fits_64_bits
from irdeconv.declare import attributes
from irdeconv.errors import Collector, InputError, Problem
from irdeconv.graph import Graph, Node
from irdeconv.io.unknown import unkept
from irdeconv.limits import current, raise_hint
from irdeconv.op import Op
from irdeconv.ops.basic import Opaque
from irdeconv.ops.bodies import bodies_of


def require_attributes(graph: Graph) -> None:
    """Raise InputError with all of layers and bodies that no reader would take."""
    found = Collector(most=current().reports)
    _collect(found, graph, 0)
    found.count_rest()
    if found.diagnostics:
        raise InputError(found.diagnostics)


def _collect(found: Collector, graph: Graph, depth: int) -> None:
    for node in graph.nodes():
        own = chain(node.op.check(), _too_large(node.op), _too_much(node))
        for problem in chain(own, _misfit(graph, node)):
            if problem.severity != "error":
                continue
            place = node.location
            if place is not None and problem.attribute is not None:
                place = place.at(problem.attribute)
            text = f'{node.type} "{node.name}": {problem.message}'
            found.add(problem.code, text, location=place, layer=node.name, hint=problem.hint)
        if bodies_of(node) and depth == current().depth:
            text = f'{node.type} "{node.name}": bodies are nested more than {depth} deep'
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
    """Yield why no reader takes a layer where it stands, if only its text is known above all."""
    op, read = node.op, graph.highest_port(node.id)
    problem = unkept(op) if isinstance(op, Opaque) else None
    if problem is not None:
        yield problem
    outputs = 0 if node.type == "Result" else node.outputs
    if read >= outputs and (isinstance(op, Opaque) or not outputs):
        yield Problem("E202", f"its output {read} is read, but it has {outputs}")
