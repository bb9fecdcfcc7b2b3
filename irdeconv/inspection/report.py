"""The inspection of a graph: text, JSON and DOT of the same facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from irdeconv.graph import Graph
from irdeconv.inspection.deconvolutions import deconvolutions
from irdeconv.inspection.document import document, to_json
from irdeconv.inspection.dot import dot
from irdeconv.inspection.drawn import LARGEST_FLAT, picture
from irdeconv.inspection.facts import LayerFactsTable
from irdeconv.inspection.layers import layers
from irdeconv.inspection.listing import Listing, comment
from irdeconv.inspection.notebook import fragment
from irdeconv.inspection.on_target import violations
from irdeconv.inspection.select import Order, matching, ordered, unmatched
from irdeconv.inspection.table import flat, number, scaled, table
from irdeconv.inspection.table import share as percentage
from irdeconv.markup import line
from irdeconv.plural import count
from irdeconv.targets.profile import Target
from irdeconv.wrapping import WIDTH, wrap


@dataclass(frozen=True, repr=False)
class Inspection(LayerFactsTable):
    """What `inspect` found; `str()` is a table."""

    lowered: Inspection | None = None

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self._sums(len(self.shown)))

    def _repr_html_(self) -> str:
        return fragment(self, f"{self.graph.info.name}: {self._sums(len(self.shown))}")

    def to_text(self, *, constants: bool = False, width: int = WIDTH) -> str:
        """Return plain text: layers, types, deconvolutions, and before and after lowering.

        Constants stand in the rows of their readers; with `constants`, or where nothing else is
        shown, they have rows of their own. Lines have at most `width` columns where names allow it.
        """
        rows = [r for r in self.shown if not r.constant]
        listed = self.shown if constants or not rows else rows
        listing = Listing(self.graph, listed, constants=constants, width=width)
        title = wrap(self._title(len(listed)), width)
        parts = [title, str(listing), self._summary_table(width)]
        if self.deconvolutions:
            parts.append(self._deconvolution_table(width))
        if self.lowered is not None:
            parts.append(self._before_after(width))
        if self.target is not None:
            parts.append(wrap(self._on_target(), width))
        return "\n\n".join(parts)

    def _title(self, listed: int) -> str:
        return f"{flat(self.graph.info.name)}: {self._sums(listed)}"

    def _sums(self, listed: int) -> str:
        t = self.totals
        hidden = sum(r.constant for r in self.layers)
        narrowed = len(self.shown) < t.layers
        return (
            f"{t.layers} layers ({hidden} constant), "
            f"{number(t.parameters)} parameters ({scaled(t.bytes, 'B')}), "
            f"{scaled(t.macs, 'MAC')}"
            + (f" and {t.unknown} of unknown MACs" if t.unknown else "")
            + (f"; shown: {count(listed, 'layer')}" if narrowed else "")
        )

    def _summary_table(self, width: int) -> str:
        total = self.totals.macs
        rows = [
            (
                r.type,
                str(r.count),
                number(r.parameters),
                number(r.macs) + (" + ?" if r.macs and r.unknown else "")
                if r.macs or not r.unknown
                else "?",
                percentage(r.macs, total) if r.macs or not r.unknown else "",
            )
            for r in self.summary
        ]
        right = ("count", "parameters", "MACs", "share")
        return table(("type", "count", "parameters", "MACs", "share"), rows, right, width=width)

    def _deconvolution_table(self, width: int) -> str:
        right = ("direct MACs", "zero-insertion MACs", "ratio")
        resolved = ("C->M", "g", "kernel", "strides", "dilations", "pads", "output")
        head = ("deconvolution", "type", *resolved, *right)
        rows = [
            (
                d.name,
                d.type,
                f"{d.channels_in or '?'}->{d.channels_out or '?'}",
                *(v or "?" for v in (d.groups, d.kernel, d.strides, d.dilations)),
                f"{d.pads_begin or '?'} / {d.pads_end or '?'}",
                d.problem or d.output or "?",
                number(d.macs_direct),
                number(d.macs_zero_insertion),
                ratio(d.macs_zero_insertion, d.macs_direct),
            )
            for d in self.deconvolutions
        ]
        return table(head, rows, right, width=width)

    def _on_target(self) -> str:
        """Return how many layers the target cannot execute."""
        graphs = [self] if self.lowered is None else [self, self.lowered]
        texts = []
        for rows in ([r for r in g.layers if not r.constant] for g in graphs):
            bad = sum(bool(r.violations) for r in rows)
            texts.append(f"{bad} of {count(len(rows), 'layer')} that are not constant")
        return f"{self.target} cannot execute {', after lowering '.join(texts)}"

    def _before_after(self, width: int) -> str:
        assert self.lowered is not None
        before, after = vars(self.totals), vars(self.lowered.totals)
        rows = [
            (key, number(before[key]), number(after[key]), ratio(after[key], before[key]))
            for key in before
            if key != "unknown" or before[key] or after[key]
        ]
        right = ("before", "after", "ratio")
        return table(("lowering", "before", "after", "ratio"), rows, right, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form (`irdeconv/inspect/2`, docs/inspect.md); unknown numbers are null.

        It has all of the graph but the values of constants, unless `only` left layers out.
        """
        return document(self)

    def to_json(self) -> str:
        """Return the JSON text, a layer on a line."""
        return to_json(self.to_dict()) + "\n"

    def comments(self) -> dict[int, str]:
        """Return a line for each layer: where its data come from and go to, its place in a file."""
        return {r.id: comment(r) for r in self.layers}

    def to_dot(self, *, constants: bool = False) -> str:
        """Return the graph (not the lowered one) in Graphviz's language, shapes on the edges.

        Constants stand in their readers; with `constants` they are nodes.
        """
        return dot(self.graph, self.layers, constants=constants)

    def to_svg(self, *, constants: bool = False) -> str:
        """Return a picture of the graph; beside it the lowered graph, where there is one.

        Constants stand in the boxes of their readers; with `constants` they have boxes. Needs no
        Graphviz and no browser. Groups of a large graph are closed.
        """
        return self._picture(constants, None) or ""

    def _repr_svg_(self) -> str | None:
        return self._picture(False, LARGEST_FLAT)

    def _picture(self, constants: bool, most: int | None) -> str | None:
        lowered = None if self.lowered is None else self.lowered.graph
        return picture(self.graph, self.layers, lowered, constants=constants, most=most)


def ratio(a: int | None, b: int | None) -> str:
    """Return `2.25x`, empty where it is unknown."""
    return f"{a / b:.2f}x" if a is not None and b else ""


def inspect(
    graph: Graph,
    lowered: Graph | None = None,
    *,
    only: Iterable[str] = (),
    sort: Order | None = None,
    target: Target | None = None,
) -> Inspection:
    """Return layers, parameters, MACs and deconvolutions of a graph, inferred or not.

    With `lowered` it also compares before and after. `only` are types and patterns of names; in the
    lowered graph they stand also for what was made of such layers. Raises UsageError for one that
    fits nothing, and for an unknown `sort`. A `target` marks the layers that it cannot execute.
    """
    whole = _whole(graph, target)
    other = None if lowered is None else _whole(lowered, target)
    only = tuple(only)
    if only:
        fits = matching(whole.layers, only)
        ids = set().union(*fits.values())
        if other is not None:
            fits_lowered = matching(other.layers, only)
            fits = {text: fits[text] | fits_lowered[text] for text in only}
            names = {r.name for r in whole.layers if r.id in ids}
            made = {r.id for r in other.layers if not names.isdisjoint(r.origins)}
            other = _narrowed(other, made.union(*fits_lowered.values()))
        for text in only:
            if not fits[text]:
                raise unmatched(text, whole.layers)
        whole = _narrowed(whole, ids)
    if other is not None:
        other = replace(other, shown=tuple(ordered(other.shown, sort)))
    return replace(whole, shown=tuple(ordered(whole.shown, sort)), lowered=other)


def _whole(graph: Graph, target: Target | None) -> Inspection:
    bad = {} if target is None else violations(graph, target)
    found = tuple(replace(r, violations=bad[r.id]) if r.id in bad else r for r in layers(graph))
    name = None if target is None else target.name
    return Inspection(graph, found, found, tuple(deconvolutions(graph)), target=name)


def _narrowed(whole: Inspection, ids: set[int]) -> Inspection:
    return replace(
        whole,
        shown=tuple(r for r in whole.layers if r.id in ids),
        deconvolutions=tuple(d for d in whole.deconvolutions if d.id in ids),
    )
