"""What a graph must hold before it is written: attributes that readers take.

A graph that a program built, or that the text form holds, may have operations that no file has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from irdeconv.attributes import fits_64_bits
from irdeconv.declare import attributes
from irdeconv.errors import Collector, InputError, Problem
from irdeconv.graph import Graph
from irdeconv.limits import current
from irdeconv.op import Op
from irdeconv.ops.bodies import every_node


def require_attributes(graph: Graph) -> None:
    """Raise InputError with all attributes of layers and bodies that no reader would take."""
    found = Collector(most=current().reports)
    for node in every_node(graph):
        for problem in chain(node.op.check(), _too_large(node.op)):
            if problem.severity != "error":
                continue
            place = node.location
            if place is not None and problem.attribute is not None:
                place = place.at(problem.attribute)
            text = f'{node.type} "{node.name}": {problem.message}'
            found.add(problem.code, text, location=place, layer=node.name, hint=problem.hint)
    found.count_rest()
    if found.diagnostics:
        raise InputError(found.diagnostics)


def _too_large(op: Op) -> Iterator[Problem]:
    """Yield integers that no reader takes; Python's have no bounds."""
    if type(op).to_attributes is not Op.to_attributes:
        return  # its attributes are texts, as they were read
    for a in attributes(type(op)).values():
        value = getattr(op, a.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and not fits_64_bits(number):
                yield Problem("E210", f"{a.xml}={number} does not fit 64 bits", attribute=a.xml)
