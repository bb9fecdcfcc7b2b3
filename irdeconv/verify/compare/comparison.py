"""Compare a graph layer by layer with another, with saved arrays or with OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from irdeconv import progress
from irdeconv.errors import Diagnostic
from irdeconv.graph import Graph
from irdeconv.kernels.shared.blas import one_blas_thread
from irdeconv.markup import html_text, html_title, line
from irdeconv.plural import count
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.verify.compare.difference import TensorDifference
from irdeconv.verify.compare.follow import Follower
from irdeconv.verify.compare.partner import Partner
from irdeconv.wrapping import printable


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Every tensor that both sides have, in the order of the first graph's execution.

    `missing` names the outputs of one side only, `alone` counts the layers that the second side
    does not have, `diagnostics` are warnings about the second side itself. `graph` is the
    first one, `other` the second where it was executed here.
    """

    tensors: tuple[TensorDifference, ...]
    missing: tuple[str, ...] = ()
    alone: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    graph: Graph | None = field(default=None, compare=False)
    other: Graph | None = field(default=None, compare=False)

    @property
    def outputs(self) -> tuple[TensorDifference, ...]:
        """The model outputs."""
        return tuple(t for t in self.tensors if t.output)

    @property
    def passed(self) -> bool:
        """Whether something was compared, every tensor agrees and no output is missing."""
        return bool(self.tensors) and not self.missing and all(t.passed for t in self.tensors)

    @property
    def first_difference(self) -> TensorDifference | None:
        """The first tensor, in execution order, that differs."""
        return next((t for t in self.tensors if not t.passed), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        first = self.first_difference
        return {
            "passed": self.passed,
            "first_difference": first.name if first else None,
            "missing": list(self.missing),
            "not_compared": self.alone,
            "tensors": [t.to_dict() for t in self.tensors],
        }

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        """Return a row for every output and every difference."""
        return html_title(self.verdict) + html_text("\n".join(self.lines()))

    def __str__(self) -> str:
        return printable("\n".join([*self.lines(), self.verdict]))

    def lines(self, *, everything: bool = False) -> list[str]:
        """Return a line for every output and difference, or for everything.

        What holds for a layer and for the output of its name is said once.
        """
        said = (str(t) for t in self.tensors if everything or t.output or not t.passed)
        return [*dict.fromkeys(said), *(f"MISSING output {name}" for name in self.missing)]

    @property
    def verdict(self) -> str:
        """One line: the same or different, and what was compared."""
        first = self.first_difference
        layers = sum(not t.output for t in self.tensors)
        counts = f"{count(len(self.outputs), 'output')}, {count(layers, 'layer')} compared"
        if self.alone:
            counts += f", {self.alone} without a counterpart"
        if self.passed:
            return f"the same: {counts}"
        if first is not None:
            return f"different: first at {first.type_a} {first.name!r}; {counts}"
        if not self.tensors:
            return "different: there is nothing to compare"
        return f"different: outputs are missing; {counts}"


def compare_plan(
    a: Plan, start: Callable[[], Partner], inputs: Feeds, tolerance: float | None = None
) -> Comparison:
    """Run a plan beside the partner that `start` makes, which is closed in the end.

    By default a layer may differ by what its own rounding explains; `tolerance`, relative to the
    largest absolute value of the first side's tensor, replaces that.
    """
    with one_blas_thread():  # around both sides: what one of them sets may not reach the other
        with progress.stage("starting the other side"):
            partner = start()
        try:
            follower = Follower(a, partner, tolerance)
            mine = a.run(inputs, watch=follower.watch)
            missing = follower.outputs(mine)
            warnings = partner.warnings()
        finally:
            partner.close()
    return Comparison(
        tensors=tuple(follower.tensors),
        missing=tuple(missing),
        alone=follower.alone,
        diagnostics=tuple(warnings),
        graph=a.graph,
    )
