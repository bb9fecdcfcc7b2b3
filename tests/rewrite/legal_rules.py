"""The rules of legal_rules.toml: targets that each force one rule, and layers for them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irdeconv.rewrite.targets import Target
from legal_layers import FREE, Shapes, target_of

Ints = tuple[int, ...]
BOTH = ("Convolution", "GroupConvolution")
SPARE = ("Interpolate", "Multiply", *BOTH, "Add", "Slice")
NATIVE = ("ConvolutionBackpropData", "GroupConvolutionBackpropData", "Slice", "Reshape")
KEYS = set("target shapes forms uses nodes absent convolution open chained".split())
LISTS = {
    "SIZES": (*FREE, "ShapeOf", "Gather", "Broadcast", "Multiply"),  # what open sizes may take
    "SPARE": SPARE,
    "NATIVE": NATIVE,
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One target and what it forces.

    With `chained` a convolution may read another one's result, which the second checker does not
    follow.
    """

    name: str
    target: Target
    shapes: Shapes
    form: str | None
    uses: Sequence[str]
    nodes: Sequence[str]
    absent: Sequence[str]
    convolution: bool
    open: Ints
    chained: bool

    def __str__(self) -> str:
        return self.name


def both(*conditions: str) -> dict[str, Sequence[str]]:
    return dict.fromkeys(BOTH, conditions)


def _target(
    *, listed: str = "", without: str = "", head: str = "", native: Any = None, **conditions: Any
) -> Target:
    if "both" in conditions:
        conditions |= both(*conditions.pop("both"))
    if native is not None:
        listed = listed or "NATIVE"
        conditions |= {n: native for n in NATIVE[:2] if n not in without.split()}
    names = [n for name in listed.split() for n in LISTS.get(name, (name,))]
    return target_of(conditions, listed=names or FREE, without=without.split(), head=head)


def _shapes(given: dict[str, Any]) -> Shapes:
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    if "more" in given:
        lists["more"] = lambda layer: eval(given["more"], {}, vars(layer))
    return Shapes(**lists)


def _rules(name: str, row: dict[str, Any]) -> Iterator[Rule]:
    """Yield a rule for each form."""
    assert row.keys() <= KEYS, name
    words = {key: row.get(key, "").split() for key in ("uses", "nodes", "absent")}
    usual = "any" if "native" in row["target"] else "zero-insertion"
    for form in row.get("forms", usual).split():
        yield Rule(
            name=name if form in ("any", "zero-insertion") else f"{form}: {name}",
            target=_target(**row["target"]),
            shapes=_shapes(row.get("shapes", {})),
            form=None if form == "any" else form,
            convolution=row.get("convolution", False),
            open=tuple(row.get("open", (0,))),
            chained=row.get("chained", False),
            **words,
        )


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
EVERY = [rule for name, row in TABLE.items() for rule in _rules(name, row)]
assert len({r.name for r in EVERY}) == len(EVERY)
