"""Reading IR texts in tests: diagnostics as (code, line, column)."""

import irdeconv.ops  # noqa: F401 -- importing fills the registry
from irdeconv.formats.reading import Loaded, load
from irdeconv.ir.graph import Graph
from support import irbuild as ib

Found = list[tuple[str, int, int]]


def found(loaded: Loaded) -> Found:
    out = []
    for d in loaded.diagnostics:
        assert d.location is not None, d
        where = d.location.position or (0, 0)
        out.append((d.code, *where))
        assert d.render()
    return sorted(out)


def read(xml: str | bytes, weights: bytes | None = ib.CHAIN_BYTES) -> Loaded:
    return load(xml if isinstance(xml, bytes) else xml.encode(), weights, name="net.xml")


def codes(loaded: Loaded) -> list[str]:
    return sorted(d.code for d in loaded.diagnostics)


def structure(g: Graph) -> list[object]:
    """What stays when ids are renumbered: types, attributes, names, wiring, constants."""
    order = {n.id: k for k, n in enumerate(g.topological())}
    rows = {}
    for n in g.nodes():
        inputs = [(g.node(v.node).type, v.port) for v in g.inputs_of(n.id)]
        values = n.op.evaluate().tolist() if n.type == "Const" else None
        rows[order[n.id]] = (n.type, n.op.version, n.op.to_attributes(), inputs, values)
    return sorted(rows.values(), key=str)
