"""Requests for a lowering, and its results: the graph and a record of every deconvolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from os import PathLike
from typing import NamedTuple

from irdeconv.base.errors import Diagnostic, count
from irdeconv.base.form_names import AUTO, FALLBACK, require_form
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, line
from irdeconv.base.tables import printable
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.channel_folding import FusedLayer
from irdeconv.rewrite.emit import Style
from irdeconv.rewrite.forms import NonFiniteReport
from irdeconv.rewrite.infer_specs import layer_count
from irdeconv.rewrite.planning import FormCost
from irdeconv.rewrite.targets import Target, load_target


class LoweredLayer(Record, keys="... costs? spread?", repr=False):
    """The result of lowering one deconvolution."""

    name: str  # of the layer
    type: str  # of its operation
    form: str | None  # that was chosen; null if the layer stays
    reason: str | None  # why it stays, or why the form is not the requested one
    macs_direct: int | None  # multiply-accumulates of the definition; null if sizes are open
    macs_lowered: int | None  # multiply-accumulates afterwards, inserted zeros included
    nodes: tuple[str, ...] = ()  # the types of the layers that it became
    costs: tuple[FormCost, ...] = ()  # of the forms, with --form auto, --target or --explain-costs
    spread: NonFiniteReport | None = None  # how far non-finite constants spread, if there are any

    def __repr__(self) -> str:
        text = f"{self.type} -> {self.form}" if self.form else f"{self.type} stays: {self.reason}"
        return line(self, self.name, text)


class LoweringReport(Record, keys="form target? fused? layers diagnostics", repr=False):
    """One record per deconvolution, and warnings."""

    form: str  # that was requested; auto chooses one for each layer
    layers: tuple[LoweredLayer, ...]  # one for each deconvolution
    diagnostics: tuple[Diagnostic, ...] = ()  # warnings
    target: str | None = None  # the target's description, with --target
    fused: tuple[FusedLayer, ...] = ()  # layers with others beside them, with --fuse

    @property
    def verdict(self) -> str:
        """One line: the number of deconvolutions that were lowered, and their forms."""
        if not self.layers:
            return "no deconvolutions, nothing to lower"
        done = [r for r in self.layers if r.form]
        how = self.form
        if how == "auto":
            how += f" for {self.target}"
        else:
            others = Counter(r.form for r in done if r.form != how)
            how += "".join(f", {n} of them as {form} instead" for form, n in others.items())
        return f"{count(len(done), 'deconvolution')} of {len(self.layers)} lowered as {how}"

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        rows = [
            (r.name, r.type, r.form or "stays", *_sizes(r), ", ".join(r.nodes) or r.reason)
            for r in self.layers
        ]
        right = ("direct MACs", "lowered MACs")
        head = ("deconvolution", "type", "form", *right, "becomes")
        return html_table(self.verdict, head, rows, right)

    def __iter__(self) -> Iterator[LoweredLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __str__(self) -> str:
        lines = [
            f"{r.name}: {r.type} -> {', '.join(r.nodes)}"
            if r.form
            else f"{r.name}: {r.type} stays: {r.reason}"
            for r in self.layers
        ]
        return printable("\n".join(lines) or "no deconvolutions")


def _sizes(layer: LoweredLayer) -> tuple[str, str]:
    numbers = (layer.macs_direct, layer.macs_lowered if layer.form else 0)
    direct, lowered = ("?" if n is None else f"{n:,}" for n in numbers)
    return direct, lowered if layer.form else ""


class Lowered(NamedTuple):
    """The lowered graph and the report: `graph, report = ...`."""

    graph: Graph
    report: LoweringReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self.report.verdict, layer_count(self.graph))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@dataclass(frozen=True)
class LoweringRequest:
    """The arguments of a lowering.

    `explain` requests the costs of forms, `all_costs` also of those that cannot be the cheapest.
    `only` is a pattern of layer names. With `convolutions` ordinary convolutions that violate
    conditions are rewritten, too; with `best_effort` violations become warnings. `fuse` first folds
    scales and biases into the layers beside them. With `quantized` the layers run in int8.
    """

    form: str
    target: Target
    targeted: bool
    explain: bool
    all_costs: bool = False
    best_effort: bool = False
    only: str | None = None
    convolutions: bool = False
    fuse: bool = False
    quantized: bool = False

    @staticmethod
    def of(
        form: str | None,
        target: str | PathLike[str] | Target | None,
        explain_costs: bool = False,
        best_effort: bool = False,
        only: str | None = None,
        convolutions: bool = False,
        fuse: bool = False,
    ) -> LoweringRequest:
        """Return a request; the default form is zero-insertion, with a target auto.

        Raises UsageError for an unknown form or target.
        """
        targeted = target is not None
        form = form or (AUTO if targeted else FALLBACK)
        require_form(form)
        explain = explain_costs or targeted or form == AUTO
        loaded = load_target(target)
        flags = (explain_costs, best_effort, only, convolutions, fuse)
        return LoweringRequest(form, loaded, targeted, explain, *flags)

    @property
    def named(self) -> str | None:
        """The name of the target, if costs are known."""
        return self.target.name if self.explain else None

    def selects(self, name: str) -> bool:
        """Whether the layer of a name is to be lowered."""
        return self.only is None or fnmatchcase(name, self.only)

    def styled(self, style: Style) -> Style:
        """Return a style with as many axes as the target allows."""
        wide = self.target.operations is not None and (self.target.max_rank or 5) >= 5
        return replace(style, max_rank=5) if wide else style
