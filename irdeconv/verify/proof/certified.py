"""The certificates of a rewritten graph together: what they prove, and the file of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from irdeconv.markup import html_table
from irdeconv.plural import count
from irdeconv.verify.proof.certificate import Certificate

CERTIFICATES_SCHEMA = "irdeconv/certificates/1"


@dataclass(frozen=True)
class Certificates(Sequence[Certificate]):
    """One certificate per rewritten layer; true where there is one and all are proved."""

    all: tuple[Certificate, ...]

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, at: int) -> Certificate: ...
    @overload
    def __getitem__(self, at: slice) -> Certificates: ...
    def __getitem__(self, at: int | slice) -> Certificate | Certificates:
        return Certificates(self.all[at]) if isinstance(at, slice) else self.all[at]

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.all)

    @property
    def passed(self) -> bool:
        """Whether a layer was rewritten and every such layer is proved."""
        return bool(self.all) and all(self.all)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<Certificates: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            (c.layer, c.type, c.form if c else "", c.holds_for if c else f"not proved: {c.reason}")
            for c in self.all
        ]
        return html_table(self.verdict, ("layer", "type", "form", "proved for"), rows)

    @property
    def verdict(self) -> str:
        """One line: how many layers are proved."""
        if not self.all:
            return "no layer was rewritten, nothing is proved"
        return f"{sum(map(bool, self.all))} of {count(len(self.all), 'layer')} proved"

    def __str__(self) -> str:
        return "\n".join(map(str, self.all)) or self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form (`irdeconv/certificates/1`)."""
        return {"schema": CERTIFICATES_SCHEMA, "certificates": [c.to_dict() for c in self.all]}

    def to_json(self) -> str:
        """Return the JSON form as text, as `lower --certify FILE` writes it."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Certificates:
        """Read what `to_json` returned; ValueError where it is something else."""
        try:
            content = json.loads(text)
            found = content["certificates"] if isinstance(content, dict) else content
            return Certificates(tuple(Certificate.from_dict(c) for c in found))
        except KeyError as e:
            raise ValueError(f"{e} is missing") from None
        except (TypeError, RecursionError) as e:
            raise ValueError(str(e)) from None
