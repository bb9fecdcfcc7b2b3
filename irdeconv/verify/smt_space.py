"""What both walks share: the variables of open sizes, named terms, and what is required of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from irdeconv.proof.model import Fact, Model, Port, Unproved
from irdeconv.verify.smt_terms import SizeTerm, SmtCondition, term, variable

PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061)
HIGHEST = 64  # elements of a vector that an input gives


@dataclass(frozen=True)
class Named:
    """A term with a name of its own, and the layer that computes it."""

    name: str
    term: SizeTerm
    layer: str


@dataclass
class SizeSpace:
    """Sizes and integer inputs of the source as variables; terms with names; requirements.

    `required` must hold at all sizes, `assumed` is what the source takes for granted (that its own
    sizes are not negative); each has a text that says what it is.
    """

    source: Model
    fact: Callable[[Port], Fact]
    variables: dict[str, SizeTerm] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    named: dict[str, Named] = field(default_factory=dict)
    required: dict[SmtCondition, str] = field(default_factory=dict)
    assumed: dict[SmtCondition, str] = field(default_factory=dict)

    def dims(self, port: Port) -> tuple[SizeTerm, ...]:
        """Return the sizes of a value of the source; a variable where one is open."""
        shape = self.fact(port).shape
        layer = self.source.of(port)
        if shape is None:
            raise Unproved(f"the rank of {layer} is unknown")
        out = []
        for axis, d in enumerate(shape):
            low, high = (d, d) if isinstance(d, int) else d
            text = f"size of axis {axis} of {layer}"
            out.append(self._variable(f"{self._name(port)}_{axis}", max(low, 0), high, text))
        return tuple(out)

    def elements(self, port: Port) -> list[SizeTerm]:
        """Return the elements of an integer vector of the source as variables."""
        shape, layer = self.fact(port).shape, self.source.of(port)
        if shape is None or len(shape) > 1 or not all(isinstance(d, int) for d in shape):
            raise Unproved(f"{layer} is no vector of known length")
        count = next((d for d in shape if isinstance(d, int)), 1)
        if count > HIGHEST:
            raise Unproved(f"{layer} has {count} elements")
        name = self._name(port)
        return [
            self._variable(f"{name}_at_{i}", None, None, f"element {i} of {layer}")
            for i in range(count)
        ]

    def name(self, value: SizeTerm, layer: str) -> SizeTerm:
        """Give a term that is no mere sum of variables a name."""
        if all(a.kind == "var" for a in value.parts):
            return value
        found = self.named.get(value.text)
        if found is None:
            found = Named(f"v{len(self.named)}", value, layer)
            self.named[value.text] = found
        return variable(found.name, *value.bounds)

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values of variables with those of the named terms."""
        out = dict(values)
        for n in self.named.values():
            out[n.name] = n.term.value(out)
        return out

    def sample(self) -> dict[str, Any]:
        """Return one choice of all sizes, unlike primes, and of the named terms."""
        names = enumerate(self.variables)
        return self.complete({n: PRIMES[i % len(PRIMES)] + i // len(PRIMES) for i, n in names})

    def _variable(self, name: str, low: int | None, high: int | None, text: str) -> SizeTerm:
        made = variable(name, low, high)
        if made.known is None and name not in self.variables:
            self.variables[name], self.comments[name] = made, text
        return made

    def _name(self, port: Port) -> str:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", self.source.of(port).name).strip("_")[:24]
        return f"{plain or 'x'}_{port.layer}" + (f"_{port.port}" if port.port else "")

    def bounds(self) -> Iterator[SmtCondition]:
        """Yield what is known of the variables."""
        for v in self.variables.values():
            low, high = v.bounds
            if low is not None:
                yield SmtCondition(v - low)
            if high is not None:
                yield SmtCondition(term(high) - v)
