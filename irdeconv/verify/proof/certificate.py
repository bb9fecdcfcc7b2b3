"""What a certificate states: of one rewritten layer, and of the two files that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from irdeconv.markup import plain

CERTIFICATE_SCHEMA = "irdeconv/certificate/2"
LONGEST_VALUE = 80  # characters of a value in a message
IF_ASSUMED = " if what is assumed is so"


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """One rewritten layer, and what is proved about it.

    `source` has the attributes and constants of the original layer, `nodes` the layers in its
    place, producers first. `holds_for` says for which sizes both are equal; it is None if that is
    not proved, and `reason` says why. `every` says whether these are all sizes that the original
    allows; if not, `partly` says why. `maps` has the index maps, `rounding` the largest relative
    change of a weight, `assumed` the assumptions.
    """

    layer: str
    type: str
    form: str = "unknown"
    source: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Mapping[str, str], ...] = ()
    holds_for: str | None = None
    every: bool = False
    partly: str | None = None
    maps: tuple[str, ...] = ()
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        content = {"schema": CERTIFICATE_SCHEMA, **vars(self), "source": dict(self.source)}
        lists = {"nodes": [dict(n) for n in self.nodes]}
        return content | lists | {"maps": list(self.maps), "assumed": list(self.assumed)}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Certificate:
        """Read the JSON form; ValueError where it is none."""
        require_schema(content, CERTIFICATE_SCHEMA)
        unknown = set(content) - {"schema", *(f.name for f in fields(Certificate))}
        if unknown:
            raise ValueError(f"a certificate has no field {', '.join(sorted(map(str, unknown)))}")
        try:
            return Certificate(
                layer=str(content["layer"]),
                type=str(content["type"]),
                form=str(content["form"]),
                source=dict(content["source"]),
                nodes=tuple(dict(n) for n in content["nodes"]),
                holds_for=content["holds_for"],
                every=content["every"],
                partly=content["partly"],
                maps=tuple(content["maps"]),
                rounding=content["rounding"],
                assumed=tuple(content["assumed"]),
                reason=content["reason"],
            )
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"the certificate is incomplete: {e}") from None

    @property
    def proved(self) -> bool:
        """Whether the layer is proved, be it for some sizes only."""
        return self.holds_for is not None

    def __bool__(self) -> bool:
        """Whether the layer is proved for every size, and nothing is taken for granted."""
        return self.proved and self.every and not self.assumed

    def __repr__(self) -> str:
        return f"<Certificate {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        if self.holds_for is None:
            return f"NOT proved {plain(self.layer)}: {self.reason}"
        nodes = ", ".join(n["type"] for n in self.nodes)
        title = "proved" if self.every else "NOT proved for every size"
        title += IF_ASSUMED if self.assumed else ""
        first = (
            f"{title} {plain(self.layer)}: {self.type} = {nodes} ({self.form}) for {self.holds_for}"
        )
        return "\n".join([first, *remarks(self)])

    def differs(self, other: Certificate) -> str | None:
        """Return the first field that it states differently from the other one, both values."""
        return unlike("the certificate", self.to_dict(), other.to_dict())


class Remarked(Protocol):
    """What has remarks below its line: a certificate, the verdict on a layer."""

    @property
    def partly(self) -> str | None:
        """Why it is not proved for every size."""

    @property
    def rounding(self) -> float:
        """The largest relative change of a weight."""

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was taken for granted."""


def remarks(proof: Remarked) -> list[str]:
    """Return the lines below a proof."""
    out = [f"  not for every size: {proof.partly}"] if proof.partly else []
    out += [f"  assuming that {text}" for text in proof.assumed]
    if proof.rounding:
        change = f"largest relative change {proof.rounding:.1e}"
        out.append(f"  equal up to the rounding of weights: {change}")
    return out


def whole_remarks(layers: Iterable[Remarked], rounding: float, assumed: Iterable[str]) -> list[str]:
    """Return the lines below all proofs: what no layer assumes, and how far weights are rounded."""
    told = {text for one in layers for text in one.assumed}
    out = [f"assuming that {text}" for text in assumed if text not in told]
    if rounding:
        change = f"largest relative change {rounding:.1e}"
        out.append(f"all weights are equal up to rounding: {change}")
    return out


def require_schema(content: object, schema: str) -> None:
    """Raise ValueError where a JSON value is not of a schema; older ones are told."""
    name = content.get("schema") if isinstance(content, Mapping) else None
    if name == schema:
        return
    kind, _, _ = schema.rpartition("/")
    if isinstance(name, str) and name.rpartition("/")[0] == kind:
        raise ValueError(f"it is of the schema {name}; make it anew, as {schema}")
    raise ValueError(f"this is no {schema}")


def unlike(what: str, stated: Any, made: Any) -> str | None:
    """Say where two JSON values first differ; None where they do not."""
    found = _unlike("", stated, made)
    if found is None:
        return None
    name, here, there = found
    return f"{what} states another {name}: {_short(here)} instead of {_short(there)}"


def _unlike(name: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    """Return where two JSON values first differ, as `source.strides`, and what stands there."""
    if a == b:
        return None
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        prefix = f"{name}." if name else ""
        keys = dict.fromkeys([*a, *b])
        return _first(_unlike(f"{prefix}{k}", a.get(k), b.get(k)) for k in keys)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        inside = _first(_unlike(f"{name}[{i}]", *p) for i, p in pairs if isinstance(p[0], Mapping))
        return inside or (name, a, b)
    return name, a, b


def _first(found: Iterator[tuple[str, Any, Any] | None]) -> tuple[str, Any, Any] | None:
    return next((f for f in found if f is not None), None)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
