"""A self-contained page: totals, summary, deconvolutions and all layers as tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from irdeconv import __version__
from irdeconv.inspection.facts import Facts
from irdeconv.inspection.layers import LayerFacts, OutputFacts
from irdeconv.inspection.table import number, scaled, share

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --mark: #f90; --soft: #8881; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; }
.tile b { display: block; font-size: 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: Canvas; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td { overflow-wrap: anywhere; } tr:hover td { background: var(--soft); }
tr.d td:first-child { border-left: 3px solid var(--mark); } tr.c { opacity: .6; }
tr:target { background: var(--soft); outline: 1px solid var(--mark); }
td small { display: block; opacity: .7; } td a { color: inherit; }
.bar { background: linear-gradient(var(--mark), var(--mark)) no-repeat left / var(--w) 2px; }
footer { margin-top: 2rem; opacity: .6; }
"""

UNFOLDED = 8  # inputs or readers that are shown at once

# Nothing on the page may load or run anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(facts: Facts) -> str:
    """Return the HTML document; every text of the model is escaped."""
    name = escape(facts.graph.info.name)
    body = [f"<h1>{name}</h1>", _tiles(facts)]
    if facts.lowered is not None:
        body += ["<h2>After lowering</h2>", _tiles(facts.lowered)]
    body += ["<h2>Operations</h2>", _summary(facts)]
    if facts.deconvolutions:
        body += ["<h2>Deconvolutions</h2>", _deconvolutions(facts)]
    body += ["<h2>Layers</h2>", _layers(facts)]
    if facts.lowered is not None:
        body += ["<h2>Layers after lowering</h2>", _layers(facts.lowered, "lowered")]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name} - irdeconv</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + f"\n<footer>irdeconv {__version__}</footer>\n</body></html>\n"
    )


def _tiles(facts: Facts) -> str:
    t = facts.totals
    tiles = [
        (number(t.layers), "layers"),
        (number(t.deconvolutions), "deconvolutions"),
        (scaled(t.parameters), "parameters"),
        (scaled(t.bytes, "B"), "of constants"),
        (scaled(t.macs, "MAC"), f"per run{f', {t.unknown} layers unknown' if t.unknown else ''}"),
    ]
    inner = "".join(f'<div class="tile"><b>{escape(a)}</b>{escape(b)}</div>' for a, b in tiles)
    return f'<div class="tiles">{inner}</div>'


def _summary(facts: Facts) -> str:
    total = facts.totals.macs
    rows = []
    for r in facts.summary:
        macs = "?" if r.unknown and not r.macs else number(r.macs)
        width = f"--w: {100 * r.macs / total if total else 0:.1f}%"
        cells = [_cell(r.type), *(_cell(v, n=True) for v in (str(r.count), number(r.parameters)))]
        cells.append(_cell(macs, n=True))
        cells.append(f'<td class="n bar" style="{width}">{escape(share(r.macs, total))}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(("type", "#count", "#parameters", "#MACs", "#share"), rows)


def _deconvolutions(facts: Facts) -> str:
    head = ("name", "type", "C", "M", "g", "kernel", "strides", "dilations", "pads begin")
    rows = []
    for d in facts.deconvolutions:
        resolved = (d.channels_in, d.channels_out, d.groups, d.kernel, d.strides, d.dilations)
        texts = (d.name, d.type, *resolved, d.pads_begin, d.pads_end, d.problem or d.output)
        cells = [_cell(t or "?") for t in texts]
        cells += [_cell(number(m), n=True) for m in (d.macs_direct, d.macs_zero_insertion)]
        rows.append(f'<tr class="d">{"".join(cells)}</tr>')
    return _table((*head, "pads end", "output", "#direct MACs", "#zero-insertion MACs"), rows)


def _layers(facts: Facts, prefix: str = "layer") -> str:
    linked = {r.id for r in facts.shown}
    rows = [_layer(r, _Links(prefix, linked)) for r in facts.shown]
    head = ("id", "name", "type", "attributes", "inputs", "outputs")
    return _table((*head, "#parameters", "#bytes", "#MACs"), rows)


class _Links:
    """Names of layers, linked to their rows where they have one."""

    def __init__(self, prefix: str, ids: set[int]) -> None:
        self._prefix = prefix
        self._ids = ids

    def anchor(self, id: int) -> str:
        return f"{self._prefix}-{id}"

    def name(self, id: int, name: str, port: int) -> str:
        text = escape(f"{id} {name}" + (f":{port}" if port else ""))
        return f'<a href="#{self.anchor(id)}">{text}</a>' if id in self._ids else text


def _layer(r: LayerFacts, links: _Links) -> str:
    kind = ' class="d"' if r.deconvolution else ' class="c"' if r.constant else ""
    place = f"{r.file}:{r.line}" if r.line is not None else r.file or ""
    made = f"made of {', '.join(r.origins)}" if r.origins else ""
    attributes = " ".join(f"{k}={v}" for k, v in r.attributes.items())
    inputs = [f"{links.name(i.producer, i.name, i.port)} {escape(str(i.spec))}" for i in r.inputs]
    cells = [
        _cell(str(r.id)),
        f"<td>{escape(r.name)}{_small(made)}{_small(place)}</td>",
        f"<td>{escape(r.type)}{_small(r.version)}</td>",
        _cell(attributes),
        f"<td>{_folded(inputs)}</td>",
        f"<td>{'<br>'.join(_output(o, links) for o in r.outputs)}</td>",
        *(_cell(number(v) if v != 0 else "", n=True) for v in (r.parameters, r.bytes, r.macs)),
    ]
    return f'<tr id="{links.anchor(r.id)}"{kind}>{"".join(cells)}</tr>'


def _output(o: OutputFacts, links: _Links) -> str:
    readers = _folded([links.name(c.id, c.name, c.port) for c in o.consumers])
    names = _small(", ".join(o.tensor_names))
    return escape(str(o.spec)) + names + (f"<small>to</small> {readers}" if readers else "")


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>" if text else ""


def _folded(items: Sequence[str]) -> str:
    """Return the items on lines of their own; many can be unfolded by a click."""
    text = "<br>".join(items)
    if len(items) <= UNFOLDED:
        return text
    return f"<details><summary>{number(len(items))} layers</summary>{text}</details>"


def _cell(text: str, *, n: bool = False) -> str:
    return f"<td{' class=n' if n else ''}>{escape(text)}</td>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table; `#` in front of a column's title aligns it right."""
    titles = "".join(
        f'<th class="n">{escape(h[1:])}</th>' if h[0] == "#" else f"<th>{escape(h)}</th>"
        for h in head
    )
    inner = f"<tr>{titles}</tr>\n" + "\n".join(rows)
    return f'<div class="scroll"><table>\n{inner}\n</table></div>'
