"""Certificates of a rewritten model, their file, and the verdict on them.

A certificate describes one rewritten layer, and the two files that it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from os import PathLike, fspath
from typing import Annotated, Any, NotRequired, TypedDict

from irdeconv.base.errors import Diagnostic, Judged, count, misused
from irdeconv.base.json_form import NamedLayer, Record, json_form
from irdeconv.base.limits import current
from irdeconv.base.markup import html_table, plain
from irdeconv.base.opening import parse_json, read_text

CERTIFICATE_SCHEMA = "irdeconv/certificate/2"
LONGEST_VALUE = 80  # characters of a value in a message
IF_ASSUMED = " if what is assumed is so"


class _Constant(TypedDict):
    """A constant, by its content."""

    shape: list[int]  # its sizes
    type: str  # element type
    sha256: NotRequired[str]  # of its bytes, unless its values are given
    values: NotRequired[list[float | bool | str]]  # of a small constant


class _OriginalLayer(TypedDict):
    """An original layer as it was read."""

    type: str  # its operation
    version: str  # operation set
    attributes: dict[str, str]  # as the file spells them
    constants: dict[str, _Constant]  # by input port


class Certificate(Record, keys="schema ...", kw_only=True, repr=False):
    """One rewritten layer, and its proof."""

    layer: str  # name of the original layer
    type: str  # its operation
    form: str = "unknown"  # in which it was lowered, such as phases
    # the original layers that were read, by name
    source: Annotated[Mapping[str, Any], dict[str, _OriginalLayer]] = field(default_factory=dict)
    # the layers in its place, producers first
    nodes: Annotated[tuple[Mapping[str, str], ...], list[NamedLayer]] = ()
    holds_for: str | None = None  # the sizes for which it is proved; null if it is not proved
    every: bool = False  # whether these are all sizes that the original allows
    partly: str | None = None  # why it is not proved for every size
    maps: tuple[str, ...] = ()  # which inputs and taps each output reads, as formulas
    rounding: float = 0.0  # largest relative change of a stored weight; 0 if none is rounded
    assumed: tuple[str, ...] = ()  # the assumptions
    reason: str | None = None  # why it is not proved

    @property
    def schema(self) -> str:
        """irdeconv/certificate/2."""
        return CERTIFICATE_SCHEMA

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Certificate:
        """Read the JSON form; ValueError if it is none."""
        require_schema(content, CERTIFICATE_SCHEMA)
        unknown = set(content) - {"schema", *(f.name for f in fields(Certificate))}
        if unknown:
            raise ValueError(f"a certificate has no field {', '.join(sorted(map(str, unknown)))}")
        try:
            said = {f.name: content[f.name] for f in fields(Certificate)}
            said |= {key: str(said[key]) for key in ("layer", "type", "form")}
            said |= {key: tuple(said[key]) for key in ("maps", "assumed")}
            said |= {"source": dict(said["source"]), "nodes": tuple(map(dict, said["nodes"]))}
            return Certificate(**said)
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
        first = f"{title} {plain(self.layer)}: {self.type} = {nodes} ({self.form})"
        return "\n".join([f"{first} for {self.holds_for}", *remarks(self)])

    def differs(self, other: Certificate) -> str | None:
        """Return the first field that it states differently from the other one, both values."""
        return unlike("the certificate", self.to_dict(), other.to_dict())


def remarks(proof: Certificate | LayerCheck) -> list[str]:
    """Return the lines below a proof."""
    out = [f"  not for every size: {proof.partly}"] if proof.partly else []
    out += [f"  assuming that {text}" for text in proof.assumed]
    if proof.rounding:
        change = f"largest relative change {proof.rounding:.1e}"
        out.append(f"  equal up to the rounding of weights: {change}")
    return out


def whole_remarks(
    layers: Iterable[Certificate | LayerCheck], rounding: float, assumed: Iterable[str]
) -> list[str]:
    """Return the lines below all proofs: assumptions of no single layer, rounding of weights."""
    assumed_by_layers = {text for one in layers for text in one.assumed}
    out = [f"assuming that {text}" for text in assumed if text not in assumed_by_layers]
    if rounding:
        change = f"largest relative change {rounding:.1e}"
        out.append(f"all weights are equal up to rounding: {change}")
    return out


def read_certificates(path: str | PathLike[str]) -> Certificates:
    """Read certificates as `lower --certify` writes them; UsageError if the file holds none."""
    hint = "irdeconv lower MODEL --certify FILE writes them"
    try:
        return Certificates.from_json(read_text(path, current().json_bytes))
    except json.JSONDecodeError as e:
        text = f"{fspath(path)} holds no certificates: line {e.lineno} is not JSON"
        raise misused(text, hint) from e
    except ValueError as e:
        raise misused(f"{fspath(path)} holds no certificates: {e}", hint) from e


def require_schema(content: object, schema: str) -> None:
    """Raise ValueError if a JSON value is not of a schema; the message names an older one."""
    name = content.get("schema") if isinstance(content, Mapping) else None
    if name == schema:
        return
    kind, _, _ = schema.rpartition("/")
    if isinstance(name, str) and name.rpartition("/")[0] == kind:
        raise ValueError(f"it is of the schema {name}; make it anew, as {schema}")
    raise ValueError(f"this is no {schema}")


def unlike(what: str, stated: Any, made: Any) -> str | None:
    """Describe the first difference of two JSON values; None if they are equal."""
    found = _unlike("", stated, made)
    if found is None:
        return None
    name, here, there = found
    return f"{what} states another {name}: {_short(here)} instead of {_short(there)}"


def _unlike(name: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    """Return the path of the first difference, as `source.strides`, and both values there."""
    if a == b:
        return None
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        prefix = f"{name}." if name else ""
        keys = dict.fromkeys([*a, *b])
        rows = (_unlike(f"{prefix}{k}", a.get(k), b.get(k)) for k in keys)
        return next(filter(None, rows), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        rows = (_unlike(f"{name}[{i}]", *p) for i, p in pairs if isinstance(p[0], Mapping))
        return next(filter(None, rows), (name, a, b))
    return name, a, b


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


Stamp = Mapping[str, Mapping[str, Any]]  # by "xml", "bin", ...: sha256 and size in bytes


class _FileStamp(TypedDict):
    """A file, by its content."""

    sha256: str  # of its bytes
    size: int  # in bytes


class _Stamp(TypedDict):
    """The files of a model; null if there is none of a kind."""

    xml: _FileStamp | None  # the model
    bin: _FileStamp | None  # the weights


class _ProbedLayer(TypedDict):
    """A layer that was evaluated."""

    layer: str  # name of the original layer
    sizes: str | None  # the sizes at which both agreed; null if it has not passed
    reason: str | None  # why it has not passed


class ProbeSummary(TypedDict):
    """The evaluation of all layers at random points."""

    seed: int  # of the random numbers
    error_probability: float | None  # bound of the probability that a difference is missed
    layers: list[_ProbedLayer]  # the rewritten layers
    differs: bool  # whether a difference was found


_FILE_KEYS = "tool source lowered sizes rounding assumed values certificates=all probe"


class Certificates(
    Record, Judged, Sequence[Certificate], document="certificates/2", keys=_FILE_KEYS
):
    """One certificate for each rewritten layer; true if there is one and all are proved.

    `source` and `lowered` are None for models in memory. `refused` says why two models were not
    compared at all.
    """

    all: tuple[Certificate, ...]  # one for each rewritten layer
    source: Annotated[Stamp | None, _Stamp | None] = None  # files of the original model
    lowered: Annotated[Stamp | None, _Stamp | None] = None  # files of the lowered model
    tool: str | None = None  # name and version
    sizes: Mapping[str, str] = field(default_factory=dict)  # the requested shapes of inputs
    values: tuple[tuple[str, str], ...] = ()  # tensors of both models that are equal: lowered first
    rounding: float = 0.0  # largest relative change of a stored weight
    assumed: tuple[str, ...] = ()  # all assumptions
    # the evaluation at random points, with --probe
    probe: Annotated[Mapping[str, Any] | None, ProbeSummary | None] = None
    refused: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, at: Any) -> Any:
        return self.all[at]

    @property
    def passed(self) -> bool:
        """Whether a layer was rewritten, all are proved for every size, and nothing is assumed."""
        return bool(self.all) and all(self.all) and not self.assumed

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
        """The lines below all certificates: assumptions of no single layer, rounding, the probe."""
        lines = [f"not proved: {text}" for text in self.refused]
        lines += whole_remarks(self.all, self.rounding, self.assumed)
        return lines if self.probe is None else [*lines, *_probe_lines(self.probe)]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.all), *self.remarks]) or self.verdict

    def to_json(self) -> str:
        """Return the JSON form as text, as `lower --certify FILE` writes it."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Certificates:
        """Read the text of `to_json`; ValueError if it is something else."""
        try:
            content = parse_json(text)
            require_schema(content, Certificates.json_schema)
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
        """Return the statements on whole models that differ from those of new certificates."""
        out = _other_files("source", self.source, made.source)
        out += _other_files("lowered", self.lowered, made.lowered)
        whole = (json_form(c, "sizes rounding assumed values") for c in (self, made))
        found = None if out else unlike("the file of certificates", *whole)
        return out + ([found] if found else [])


def _stamp_of(said: Any) -> Stamp | None:
    """Return a file's record of a model's files; TypeError if it is something else."""
    if said is None:
        return None
    if not isinstance(said, dict) or not all(isinstance(one, dict) for one in said.values()):
        raise TypeError("what it says of its files is no hash and size of each")
    return said


def _probe_of(said: Any) -> Mapping[str, Any] | None:
    """Return a file's record of a probe; KeyError, TypeError or ValueError if it is none."""
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
    lines = []
    for said in probe["layers"]:
        found = said["reason"] or f"the same at {said['sizes']}"
        lines.append(f"probe {said['layer']}: {found}")
    bound, again = probe["error_probability"], f"the seed {probe['seed']} repeats it"
    if bound is None:
        return [*lines, f"probe: nothing was evaluated to the end; {again}"]
    end = f"passes with a probability of at most {bound:.1e}; {again}"
    return [*lines, f"probe: a layer that differs at these sizes {end}"]


def _other_files(side: str, stated: Stamp | None, made: Stamp | None) -> list[str]:
    """Say which file is not the one that a certificate was made of."""
    if stated is None:
        return []
    now, other = made or {}, f"of the {side} model is another file than certified"
    pairs = ((kind, stated.get(kind), now.get(kind)) for kind in {**stated, **now})
    return [f"the .{kind} {other}: {_size(a)} and {_size(b)}" for kind, a, b in pairs if a != b]


def _size(stamp: Mapping[str, Any] | None) -> str:
    if stamp is None:
        return "none"
    return f"{stamp.get('size')} bytes, sha256 {str(stamp.get('sha256'))[:12]}..."


_LAYER_KEYS = "layer type form passed proved every partly rounding assumed unclear reason"


class LayerCheck(Record, keys=_LAYER_KEYS, kw_only=True):
    """The verdict on one rewritten layer."""

    layer: str  # name of the original layer
    type: str  # its operation
    form: str  # in which it was lowered, or "probe"
    proved: str | None  # for which sizes it is proved; null if it is not
    reason: str | None = None  # why it has not passed
    every: bool = True  # whether these are all sizes that the original allows
    partly: str | None = None  # why it is not proved for every size
    rounding: float = 0.0  # largest relative change of a stored weight
    assumed: tuple[str, ...] = ()  # the assumptions
    unclear: bool = False  # whether a probe could not decide, rather than found a difference

    @property
    def passed(self) -> bool:
        """Whether the layer was proved equal for every size, without assumptions."""
        return self.reason is None and self.every and not self.assumed

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return super().to_dict() | {"every": self.every and self.reason is None}

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{'not ' if self.unclear else 'FAIL'} {plain(self.layer)}: {self.reason}"
        title = "ok  " if self.passed else "part"
        first = f"{title} {plain(self.layer)}: {self.type} = {self.form} for {self.proved}"
        return "\n".join([first, *remarks(self)])


class CheckReport(Record, Judged, keys="passed equal ...", kw_only=True, repr=False):
    """The verdict on a lowered model."""

    layers: tuple[LayerCheck, ...]  # the rewritten layers
    problems: tuple[str, ...] = ()  # differences outside of these layers
    kept: tuple[str, ...] = ()  # deconvolutions that were not rewritten
    others: int = 0  # layers that are the same in both models
    # the requested shapes of inputs, by name
    sizes: Annotated[tuple[tuple[str, str], ...], dict[str, str]] = ()
    rounding: float = 0.0  # largest relative change of a stored weight
    assumed: tuple[str, ...] = ()  # all assumptions
    # wrong declarations of shapes and types in a file; they do not change the verdict
    warnings: tuple[Diagnostic, ...] = ()
    seed: int | None = None  # of the random numbers of a probe
    # bound of the probability that a probe misses a difference at the sizes that it evaluated
    error_probability: float | None = None

    @property
    def equal(self) -> bool:
        """Whether a layer was rewritten and all are equal, for some sizes or on assumptions."""
        done = [r.reason is None for r in self.layers]
        return bool(done) and all(done) and not self.problems

    @property
    def passed(self) -> bool:
        """Whether layers were rewritten, and all is proved for every size without assumptions."""
        return self.equal and all(self.layers) and not self.assumed

    @property
    def _remedy(self) -> str | None:
        nothing = "no layer was rewritten: the second model is one that lower made of the first"
        return None if self.layers or self.problems else nothing

    @property
    def differs(self) -> bool:
        """Whether anything was found that is not equal, or not proved to be."""
        return bool(self.problems) or any(r.reason and not r.unclear for r in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return super().to_dict() | {"sizes": dict(self.sizes)}

    def __repr__(self) -> str:
        return f"<CheckReport: {'; '.join([self.verdict, *self.problems[:1]])}>"

    def _repr_html_(self) -> str:
        rows = [
            (r.layer, r.type, r.form if r.reason is None else "", r.reason or r.proved)
            for r in self.layers
        ]
        rows += [(name, "", "", "not rewritten") for name in self.kept]
        rows += [("", "", "", problem) for problem in self.problems]
        rows += [(r.layer, "", "", line.strip()) for r in self.layers for line in remarks(r)]
        rows += [("", "", "", line) for line in self._whole()]
        return html_table(self.verdict, ("layer", "type", "form", "equal for"), rows)

    @property
    def verdict(self) -> str:
        """One line: how many layers are equal."""
        done = [r.every for r in self.layers if r.reason is None]
        few = done.count(False)
        some = f", {few} for some sizes only" if few else ""
        some += IF_ASSUMED if done and self.assumed else ""
        others = count(self.others, "other")
        return f"{len(done)} of {len(self.layers)} rewritten layers equal{some}, {others} unchanged"

    def _whole(self) -> list[str]:
        """Return the lines on the two models as a whole."""
        lines = [f"with the inputs {', '.join(n + s for n, s in self.sizes)}"] * bool(self.sizes)
        return lines + whole_remarks(self.layers, self.rounding, self.assumed)

    def __str__(self) -> str:
        lines = [str(r) for r in self.layers]
        lines += [f"kept {name}: not rewritten" for name in self.kept]
        lines += [f"FAIL {p}" for p in self.problems]
        return "\n".join([*lines, *self._whole(), self.verdict])
