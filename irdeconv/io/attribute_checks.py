"""What a graph must hold before it is written: attributes that readers take.

A graph that a program built, or that the text form holds, may have operations that no file has.
"""

from __future__ import annotations

from irdeconv.errors import Collector, InputError
from irdeconv.graph import Graph
from irdeconv.limits import current
from irdeconv.ops.bodies import every_node


def require_attributes(graph: Graph) -> None:
    """Raise InputError with all attributes of layers and bodies that no reader would take."""
    found = Collector(most=current().reports)
    for node in every_node(graph):
        for problem in node.op.check():
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
