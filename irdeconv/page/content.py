"""What is on a page, before it becomes HTML. docs/page.md says what the keys mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from irdeconv import __version__
from irdeconv.page.assemble import html
from irdeconv.page.overlays import FACTS, Overlay

PAGE_SCHEMA = "irdeconv/page/1"


@dataclass(frozen=True)
class GraphContent:
    """One graph: its layers, and where they are drawn.

    `key` is "graph", or "before" and "after"; a body's is the key of its operation and its tag,
    such as "before/12/body". `parent` is the key of that operation.
    """

    key: str
    title: str
    nodes: tuple[Mapping[str, Any], ...]
    scene: Mapping[str, Any]
    parent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        more = {} if self.parent is None else {"parent": self.parent}
        nodes, scene = list(self.nodes), dict(self.scene)
        return {"key": self.key, "title": self.title, **more, "nodes": nodes, "scene": scene}


@dataclass(frozen=True)
class ChangeContent:
    """What became of one layer: keys of nodes ("before/12") on either side.

    `form` is the lowering's, `certificate` the sentence that says what is proved.
    """

    title: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    form: str | None = None
    reason: str | None = None
    certificate: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without what is not known."""
        said = {k: v for k, v in vars(self).items() if v is not None}
        return {**said, "before": list(self.before), "after": list(self.after)}


@dataclass(frozen=True)
class PageContent:
    """A page: graphs, what changed between them, and what is known of their layers by node key.

    `overlays` paint a number of each layer on the graph, beside those that every page has;
    `details` say what a layer computes, `values` what flowed through it in a run. `notes` are
    sentences about the whole, `headline` the one that stands at the top. `file` is where the model
    was read from.
    """

    title: str
    graphs: tuple[GraphContent, ...]
    changes: tuple[ChangeContent, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    headline: str = ""
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, as the page's script reads it."""
        return {
            "schema": PAGE_SCHEMA,
            "title": self.title,
            "file": self.file,
            "version": __version__,
            "graphs": [g.to_dict() for g in self.graphs],
            "changes": [c.to_dict() for c in self.changes],
            "overlays": [o.to_dict() for o in (*self.overlays, *FACTS)],
            "details": dict(self.details),
            "values": dict(self.values),
            "notes": list(self.notes),
            "headline": self.headline,
        }

    def to_html(self) -> str:
        """Return one HTML file that loads nothing."""
        return html(self.to_dict())
