"""The certificates of a rewritten model together, the files that they are of, their own file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from irdeconv.markup import html_table
from irdeconv.opening import parse_json
from irdeconv.plural import count
from irdeconv.verify.proof.certificate import (
    IF_ASSUMED,
    Certificate,
    remarks,
    require_schema,
    unlike,
    whole_remarks,
)

CERTIFICATES_SCHEMA = "irdeconv/certificates/2"
Stamp = Mapping[str, Mapping[str, Any]]  # by "xml", "bin", ...: sha256 and size in bytes


@dataclass(frozen=True)
class Certificates(Sequence[Certificate]):
    """One certificate for each rewritten layer; true if there is one and all are proved.

    `source` and `lowered` have the hash and size of the files, None for models in memory. `tool` is
    the version of irdeconv, `sizes` are the input shapes that were asked for. `values` pairs each
    value that both models have, the lowered one first. `rounding` is the largest relative change of
    any weight, `assumed` has all assumptions. `probe` has seed, bound and sizes if the layers were
    evaluated as well. `refused` says why two models were not compared at all.
    """

    all: tuple[Certificate, ...]
    source: Stamp | None = None
    lowered: Stamp | None = None
    tool: str | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    values: tuple[tuple[str, str], ...] = ()
    rounding: float = 0.0
    assumed: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    refused: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, at: int) -> Certificate: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Certificate]: ...
    def __getitem__(self, at: int | slice) -> Certificate | Sequence[Certificate]:
        return self.all[at]

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.all)

    @property
    def passed(self) -> bool:
        """Whether a layer was rewritten, all are proved for every size, and nothing is assumed."""
        return bool(self.all) and all(self.all) and not self.assumed

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<Certificates: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            (c.layer, c.type, c.form if c.proved else "", c.holds_for or f"not proved: {c.reason}")
            for c in self.all
        ]
        rows += [(c.layer, "", "", said.strip()) for c in self.all for said in remarks(c)]
        rows += [("", "", "", line) for line in self.remarks]
        return html_table(self.verdict, ("layer", "type", "form", "proved for"), rows)

    @property
    def verdict(self) -> str:
        """One line: how many layers are proved."""
        if self.refused:
            return "not proved: " + "; ".join(self.refused)
        if not self.all:
            return "no layer was rewritten, nothing is proved"
        few = sum(c.proved and not c.every for c in self.all)
        some = f", {few} for some sizes only" if few else ""
        done, given = sum(c.proved for c in self.all), IF_ASSUMED if self.assumed else ""
        return f"{done} of {count(len(self.all), 'layer')} proved{some}{given if done else ''}"

    @property
    def remarks(self) -> list[str]:
        """The lines below all certificates: what no layer assumes, rounding, the probe."""
        lines = [f"not proved: {text}" for text in self.refused]
        lines += whole_remarks(self.all, self.rounding, self.assumed)
        return lines if self.probe is None else [*lines, *_probe_lines(self.probe)]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.all), *self.remarks]) or self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form (`irdeconv/certificates/2`)."""
        return {
            "schema": CERTIFICATES_SCHEMA,
            "tool": self.tool,
            "source": _plain(self.source),
            "lowered": _plain(self.lowered),
            **self._whole(),
            "certificates": [c.to_dict() for c in self.all],
            "probe": None if self.probe is None else dict(self.probe),
        }

    def _whole(self) -> dict[str, Any]:
        """Return what is stated of the models as a whole."""
        return {
            "sizes": dict(self.sizes),
            "rounding": self.rounding,
            "assumed": list(self.assumed),
            "values": [list(v) for v in self.values],
        }

    def to_json(self) -> str:
        """Return the JSON form as text, as `lower --certify FILE` writes it."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Certificates:
        """Read what `to_json` returned; ValueError where it is something else."""
        try:
            content = parse_json(text)
            require_schema(content, CERTIFICATES_SCHEMA)
            return Certificates(
                tuple(Certificate.from_dict(c) for c in content["certificates"]),
                source=_stamp_of(content["source"]),
                lowered=_stamp_of(content["lowered"]),
                tool=content["tool"],
                sizes={str(k): str(v) for k, v in dict(content["sizes"]).items()},
                values=tuple((str(a), str(b)) for a, b in content["values"]),
                rounding=content["rounding"],
                assumed=tuple(content["assumed"]),
                probe=_probe_of(content["probe"]),
            )
        except KeyError as e:
            raise ValueError(f"{e} is missing") from None
        except (TypeError, AttributeError, ArithmeticError) as e:
            raise ValueError(str(e)) from None

    def contradictions(self, made: Certificates) -> list[str]:
        """Return what these state of the models as a whole that those just made do not."""
        out = [
            text
            for side in ("source", "lowered")
            for text in _other_files(side, getattr(self, side), getattr(made, side))
        ]
        whole = self._whole(), made._whole()
        found = None if out else unlike("the file of certificates", *whole)
        return out + ([found] if found else [])


def _stamp_of(said: Any) -> Stamp | None:
    """Return what a file says of a model's files; TypeError where it says something else."""
    if said is None:
        return None
    if not isinstance(said, dict) or not all(isinstance(one, dict) for one in said.values()):
        raise TypeError("what it says of its files is no hash and size of each")
    return said


def _probe_of(said: Any) -> Mapping[str, Any] | None:
    """Return what a file says of a probe; KeyError, TypeError or ValueError where it is none."""
    if said is None:
        return None
    layers = [{key: one[key] for key in ("layer", "sizes", "reason")} for one in said["layers"]]
    bound = said["error_probability"]
    return {
        "seed": int(said["seed"]),
        "error_probability": None if bound is None else float(bound),
        "layers": layers,
        "differs": bool(said["differs"]),
    }


def _probe_lines(probe: Mapping[str, Any]) -> list[str]:
    """Say what a probe found."""
    lines = []
    for said in probe["layers"]:
        found = said["reason"] or f"the same at {said['sizes']}"
        lines.append(f"probe {said['layer']}: {found}")
    bound, again = probe["error_probability"], f"the seed {probe['seed']} repeats it"
    if bound is None:
        return [*lines, f"probe: nothing was evaluated to the end; {again}"]
    end = f"passes with a probability of at most {bound:.1e}; {again}"
    return [*lines, f"probe: a layer that differs at these sizes {end}"]


def _plain(stamp: Stamp | None) -> dict[str, Any] | None:
    return None if stamp is None else {kind: dict(said) for kind, said in stamp.items()}


def _other_files(side: str, stated: Stamp | None, made: Stamp | None) -> list[str]:
    """Say which file is not the one that a certificate was made of."""
    if stated is None:
        return []
    if made is None:
        return [f"the certificate is of files, the {side} model is none"]
    out = []
    for kind in dict.fromkeys([*stated, *made]):
        a, b = stated.get(kind), made.get(kind)
        if a != b:
            sizes = " and ".join(_size(s) for s in (a, b))
            out.append(f"the .{kind} of the {side} model is another file than certified: {sizes}")
    return out


def _size(stamp: Mapping[str, Any] | None) -> str:
    if stamp is None:
        return "none"
    return f"{stamp.get('size')} bytes, sha256 {str(stamp.get('sha256'))[:12]}..."
