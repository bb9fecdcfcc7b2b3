"""Names of other formats that no IR can hold: replaced, still unique, each with a warning."""

from __future__ import annotations

from irdeconv.errors import Collector
from irdeconv.graph import FreshNames, Graph
from irdeconv.io.xml_writer import UNFIT
from irdeconv.ops.bodies import every_node
from irdeconv.source import Location

SHOWN_NAMES = 20


def make_names_safe(graph: Graph, out: Collector, location: Location) -> None:
    """Replace each character that no XML can hold, or that is for a terminal, by "_".

    A name that something has already gets a number; what had one name before has one after.
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
        node.tensor_names = tuple(
            tuple(new.get(t, t) for t in names) for names in node.tensor_names
        )
    for name in bad[:SHOWN_NAMES]:
        message = f'the name {name!a} has characters that no IR can hold: it becomes "{new[name]}"'
        hint = "rename it where the model was made"
        out.add("W103", message, location=location, layer=new[name], hint=hint)
    if len(bad) > SHOWN_NAMES:
        message = f"{len(bad) - SHOWN_NAMES} more names have such characters"
        out.add("W103", message, location=location)
