"""The one table of known differences from OpenVINO: what explains a disagreement, and its page."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from lxml import etree

from irdeconv.ir.graph import Graph
from support.live import conditions, wholes
from support.live.judging import Finding, Verdict
from support.live.sample import Sample

PAGE = Path(__file__).resolve().parents[3] / "docs/disagreements.md"
PART = re.compile(r"(<!-- generated: (plugin|layer|model) -->\n).*?(<!-- end of)", re.S)
HEADS = {"plugin": ("layer", "the plugin"), "layer": ("layer", "the plugin"),
         "model": ("model", "OpenVINO")}  # fmt: skip
MODULES = (conditions, wholes)
# Rows whose causes are found by other means than a look at one layer.
EXACT = "models that depend on what is declared"
WHOLE = "layers that give something else in a whole model"
ENLARGED = "rounding that later layers enlarge"
OWN_SIZES = "a Reshape to sizes gathered from its own data"
UNUSED = "layers that no Result needs"
PORTS = "ports, edges and declarations that contradict each other"
FILES = "files that are not written as the specification says"
# What OpenVINO's reader takes for characters: a < in an attribute, a & of no entity.
CHARACTERS = re.compile(rb'="[^"\n]*<[^"\n]*"|&(?!(amp|lt|gt|quot|apos|#\w+);)')
BY_OTHER_MEANS = (EXACT, WHOLE, ENLARGED, UNUSED, OWN_SIZES)


@dataclass(frozen=True)
class Cause:
    """Kinds of disagreements, types of layers, what holds and what is said: all have to fit."""

    kinds: str
    layers: str
    holds: str
    words: str

    @cached_property
    def conditions(self) -> list[list[tuple[Callable[..., bool], list[Any]]]]:
        """Functions and their arguments; those of one of the lists have to hold."""
        found = [[c.split() for c in way.split(" and ")] for way in self.holds.split(" or ")]
        return [[(_function(n), list(map(_argument, a))) for n, *a in way] for way in found]

    def fits(self, finding: Finding, layer: str, subject: Any) -> bool:
        """Whether it explains a finding of a layer; `subject` is a sample or a graph."""
        if self.kinds.startswith("E"):
            said = finding.kind == "only OpenVINO" and self._codes(finding.detail)
        else:
            said = bool(re.fullmatch(self.kinds, finding.kind))
        if not said or not re.fullmatch(self.layers, layer):
            return False
        return bool(re.search(self.words, finding.detail)) and self.hold(subject)

    def _codes(self, text: str) -> bool:
        return re.search(rf"\b({self.kinds})\b", text) is not None

    def hold(self, subject: Any) -> bool:
        return not self.holds or any(
            all(test(subject, *args) for test, args in way) for way in self.conditions
        )


@dataclass(frozen=True)
class Difference:
    """A row: what OpenVINO does and what irdeconv does; causes by where they are looked for."""

    part: str
    title: str
    openvino: str
    irdeconv: str
    causes: dict[str, list[Cause]]
    examples: tuple[tuple[str, str, str, str], ...]  # kind, words, a layer that fits, one that not


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def written() -> dict[str, str]:
    """Return the conditions that are expressions."""
    return _file()["conditions"]  # type: ignore[no-any-return]


@cache
def table() -> tuple[Difference, ...]:
    names = _file()["names"]
    parts = {part: rows for part, rows in _file().items() if isinstance(rows, list)}
    return tuple(_row(part, dict(row), names) for part, rows in parts.items() for row in rows)


def _row(part: str, row: dict[str, Any], names: dict[str, str]) -> Difference:
    said = [row.pop(n) for n in ("title", "openvino", "irdeconv")]
    examples = tuple(map(tuple, row.pop("examples", ())))
    causes = {k: [_cause(k, c, names) for c in v] for k, v in row.items()}
    return Difference(part, *said, causes, examples)


def _cause(place: str, text: str, names: dict[str, str]) -> Cause:
    text = re.sub(r"\{([A-Z]+)\}", lambda m: names[m[1]], text)
    kinds, *rest = re.split(r" //(?: |$)", text)
    kinds = "|".join(names.get(k, k) for k in kinds.split("|"))
    if place == "whole":
        return Cause(kinds, ".*", *(*rest, "")[:2])
    if place == "file":
        return Cause(kinds, rest[0], "", rest[1])
    return Cause(kinds, *(*rest, "", "")[:3])


def _function(name: str) -> Callable[..., Any]:
    if name in written():
        return partial(conditions.holds, written()[name])
    return next(getattr(m, name) for m in MODULES if hasattr(m, name))  # type: ignore[no-any-return]


def _argument(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _first(place: str, finding: Finding, layer: str, subject: Any) -> str:
    """The title of the first row with a cause that fits; empty where there is none."""
    rows = ((row.title, c) for row in table() for c in row.causes.get(place, ()))
    return next((title for title, c in rows if c.fits(finding, layer, subject)), "")


def explanation(verdict: Verdict) -> str:
    """The title of what explains a disagreement about a sample; empty where nothing does."""
    return _first("alone", verdict.finding, verdict.sample.type, verdict.sample)


def reason_for(finding: Finding, alone: Verdict | None, xml: bytes = b"") -> str:
    """The title of what explains a finding of a model; `alone` is what its layer does alone."""
    if finding.kind == "only OpenVINO":
        cause = explanation(alone) if alone is not None and alone.kind == finding.kind else ""
        return cause or lenient(finding.detail, xml)
    if alone is None:
        return ""
    places = ("within", "settled") if alone.kind == "agree" else ("within",)
    sample = alone.sample
    found = [t for p in places if (t := _first(p, finding, sample.type, sample))]
    known = ("values", "shape", "inferred", "only irdeconv", "OpenVINO crashes")
    return found[0] if found else explanation(alone) if finding.kind in known else ""


def of_a_whole(finding: Finding, graph: Graph) -> str:
    """The title of what explains a finding of no layer alone; empty where nothing does."""
    return _first("whole", finding, "", graph)


def lenient(error: str, xml: bytes = b"") -> str:
    """The title of what explains a refusal of a file; empty where nothing does."""
    # An error that follows from a declared shape is a note of the layer that declares it.
    error = re.sub(r'(error\[E\d+\]: )[^\0]*?note: (\w+ "[^"\n]*") does not fit', r"\1\2", error)
    found = re.search(r'error\[(E\d+)\]: (?:(\w+) ")?', error)
    if found is None:
        return ""
    code, layer, text = found.group(1), found.group(2) or "", error[found.start() :]
    rows = ((row.title, c) for row in table() for c in row.causes.get("file", ()))
    fits = (
        title
        for title, c in rows
        if re.fullmatch(c.kinds, code)
        and re.fullmatch(c.layers, layer)
        and re.search(c.words, text)
    )
    return next(fits, "") or _of_the_file(error, text, xml)


def _of_the_file(error: str, text: str, xml: bytes) -> str:
    """The title of what the layer that a diagnostic names, or the others, explain."""
    name = re.match(r'error\[E\d+\]: \w+ "([^"\n]*)"', text)
    place = re.match(r"[^:]*:(\d+):", error)
    try:
        root = etree.fromstring(xml)
    except etree.XMLSyntaxError:
        return FILES if "E101" in text and CHARACTERS.search(xml) else ""
    layers = root.findall("layers/layer")
    found = [e for e in layers if name and e.get("name") == name.group(1)]
    if place and len(found) > 1:  # the line tells which of them, or one in it
        found = [e for e in found if (e.sourceline or 0) <= int(place[1])][-1:]
    if not found:
        return ""
    last = {e.get("id"): e for e in layers}
    if all(last[e.get("id")] is not e for e in found):  # OpenVINO drops the first of one id
        return PORTS
    if not needed(root, {n for n, e in last.items() if e.get("type") in ("Result", "Assign")}) & {
        e.get("id") for e in found
    }:
        return UNUSED
    if _reshapes_to_own_sizes(root, found[0]):
        return OWN_SIZES
    return _by_attributes(found[0], text)


def _reshapes_to_own_sizes(root: Any, layer: Any) -> bool:
    """Whether a Reshape reads sizes that a Gather takes from the shape of its own data."""
    sources = {(e.get("to-layer"), e.get("to-port")): e for e in root.iterfind("edges/edge")}
    layers = {e.get("id"): e for e in root.iterfind("layers/layer")}
    data, value = (sources.get((layer.get("id"), port)) for port in "01")
    for kind in ("Gather", "ShapeOf"):
        maker = layers.get(value.get("from-layer")) if value is not None else None
        if layer.get("type") != "Reshape" or maker is None or maker.get("type") != kind:
            return False
        value = sources.get((maker.get("id"), "0"))
    ends = [(e.get("from-layer"), e.get("from-port")) for e in (data, value) if e is not None]
    return len(ends) == 2 and ends[0] == ends[1]


def needed(root: Any, ends: set[Any]) -> set[Any]:
    """The ids of layers from which edges lead to these, however many."""
    edges, before, found = list(root.iterfind("edges/edge")), -1, set(ends)
    while len(found) != before:
        before = len(found)
        found |= {e.get("from-layer") for e in edges if e.get("to-layer") in found}
    return found


def _by_attributes(layer: Any, text: str) -> str:
    """The title of what attributes that are refused explain."""
    if not text.startswith("error[E210]"):
        return ""
    data = layer.find("data")
    texts = {} if data is None else dict(data.attrib)
    sample = Sample(layer.get("type", ""), layer.get("version", ""), texts, ())
    try:
        return explanation(Verdict("only OpenVINO", sample, text))
    except (IndexError, ValueError):  # it goes by inputs, too
        return ""


def page() -> str:
    """The page with the rows as the table has them."""

    def rows(part: str) -> str:
        columns = (*HEADS[part], "irdeconv")
        lines = [columns, *((d.title, d.openvino, d.irdeconv) for d in table() if d.part == part)]
        texts = [f"| {' | '.join(cells)} |\n" for cells in lines]
        return "".join([texts[0], f"|{'---|' * len(columns)}\n", *texts[1:]])

    return PART.sub(lambda m: f"{m[1]}{rows(m[2])}{m[3]}", PAGE.read_text("utf-8"))
