"""Certificates of lowered layers: what a layer was, what became of it, and that both are equal.

A certificate names the source layer with its canonical parameters and the emitted nodes, so that it
can be kept beside a written IR. `check` does not believe it: the parameters are read again from the
source, the nodes from the lowered graph, and the equality is proved anew (checker.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from irdeconv import progress
from irdeconv.graph import Graph, Node
from irdeconv.plural import count
from irdeconv.spec import Array, is_static
from irdeconv.verify.proof import sizes
from irdeconv.verify.proof.checker import prove
from irdeconv.verify.proof.definition import Unproved, is_defined
from irdeconv.verify.proof.evaluator import Constants
from irdeconv.verify.proof.layer import LayerPlace, SourceLayer, region, source_layer
from irdeconv.verify.proof.matching import Matching, match
from irdeconv.verify.proof.probe import RANDOM_POINTS, error_probability, probe
from irdeconv.verify.proof.report import CheckReport, LayerCheck

CERTIFICATE_SCHEMA = "irdeconv/certificate/1"
MOST_PROBED = 10  # sizes of one layer
LISTED = 64  # longer vectors are given by their hash
LONGEST_VALUE = 80  # characters of a value in a message


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate:
    """One rewritten layer and what is proved of it.

    `source` are its canonical parameters, `nodes` what was emitted: name, type, attributes and
    constant inputs, producers first. `form` is told by the nodes. `holds_for` says for which sizes
    the equality was proved when the certificate was made; None where it was not, for `reason`.
    """

    layer: str
    type: str
    form: str = "unknown"
    source: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Mapping[str, Any], ...] = ()
    holds_for: str | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        changed = {"source": dict(self.source), "nodes": [dict(n) for n in self.nodes]}
        return {"schema": CERTIFICATE_SCHEMA, **vars(self), **changed}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Certificate:
        """Read the JSON form; ValueError where it is none."""
        if not isinstance(content, Mapping) or content.get("schema") != CERTIFICATE_SCHEMA:
            raise ValueError(f"this is no {CERTIFICATE_SCHEMA}")
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
                holds_for=content.get("holds_for"),
                reason=content.get("reason"),
            )
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"the certificate is incomplete: {e}") from None

    def __bool__(self) -> bool:
        return self.holds_for is not None

    def __repr__(self) -> str:
        return f"<Certificate {self}>"

    def __str__(self) -> str:
        if self.holds_for is None:
            return f"NOT proved {self.layer}: {self.reason}"
        nodes = ", ".join(n["type"] for n in self.nodes)
        return f"proved {self.layer}: {self.type} = {nodes} ({self.form}) for {self.holds_for}"

    def differs(self, other: Certificate) -> str | None:
        """Return the first field that it states differently from the other one, both values."""
        unlike = _unlike("", self.to_dict(), other.to_dict())
        if unlike is None:
            return None
        name, here, there = unlike
        return f"the certificate states another {name}: {_short(here)} instead of {_short(there)}"


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


def certify(source: Graph, lowered: Graph) -> list[Certificate]:
    """Return a certificate for every deconvolution of `source` that `lowered` has rewritten.

    `source` must be inferred. A layer that cannot be proved has `holds_for` None and a reason.
    """
    matching, constants = match(source, lowered), Constants(source)
    out = []
    for node in progress.each("proving", _rewritten(source, matching), name=attrgetter("name")):
        made = Certificate(layer=node.name, type=node.type)
        try:
            place = matching.place(node)
            layer = source_layer(source, node, constants, matching.biases.get(node.id))
            made = _describe(layer, lowered, place)
            made = replace(made, holds_for=prove(layer, lowered, place))
        except Unproved as e:
            made = replace(made, reason=str(e))
        out.append(made)
    return out


def check(
    source: Graph, lowered: Graph, certificates: Sequence[Certificate] | None = None
) -> CheckReport:
    """Prove every rewritten layer of `lowered` equal to that of `source`, and the rest unchanged.

    `source` must be inferred. With `certificates` there must be exactly one for each rewritten
    layer, and it must state what the two graphs contain.
    """
    matching, made = match(source, lowered), certify(source, lowered)
    problems = list(matching.problems)
    if problems and not made and not matching.kept:
        problems = [*_swapped(lowered), *problems]
    unchanged = CheckReport(
        layers=(), problems=tuple(problems), kept=tuple(matching.kept), others=matching.others
    )
    return judged(made, certificates, unchanged)


def judged(
    made: Sequence[Certificate], certificates: Sequence[Certificate] | None, rest: CheckReport
) -> CheckReport:
    """Return the verdict on certificates just made, beside given ones; `rest` is all else."""
    by_layer: dict[str, list[Certificate]] | None = None
    if certificates is not None:
        by_layer = {c.layer: [] for c in (*made, *certificates)}
        for c in certificates:
            by_layer[c.layer].append(c)
    layers = []
    for c in made:
        reason = c.reason
        if by_layer is not None:
            stated = by_layer[c.layer]
            differs = stated.pop(0).differs(c) if stated else "it has no certificate"
            reason = reason or differs
        layers.append(
            LayerCheck(layer=c.layer, type=c.type, form=c.form, proved=c.holds_for, reason=reason)
        )
    more = [name for name, left in (by_layer or {}).items() if left]
    problems = [*rest.problems, *(f'a certificate of "{n}" is of no rewritten layer' for n in more)]
    return replace(rest, layers=tuple(layers), problems=tuple(problems))


def _swapped(lowered: Graph) -> list[str]:
    """Tell that the second model is the one with deconvolutions, which the first has none of."""
    there = sum(map(is_defined, lowered.nodes()))
    what = count(there, "deconvolution")
    order = "the original comes first, then the lowered one; are they swapped?"
    return [f"the first model has no deconvolution, the second has {what}: {order}"] * (there > 0)


def probe_layers(
    source: Graph, lowered: Graph, *, seed: int = 0, trials: int = RANDOM_POINTS
) -> CheckReport:
    """Evaluate every rewritten layer of both graphs modulo a prime on random data and compare.

    The report's `error_probability` bounds how likely a layer that differs passes unseen.
    """
    matching, constants = match(source, lowered), Constants(source)
    layers, axes = [], 0
    for node in progress.each("probing", _rewritten(source, matching), name=attrgetter("name")):
        proved = reason = None
        try:
            place = matching.place(node)
            layer = source_layer(source, node, constants, matching.biases.get(node.id))
            axes = max(axes, layer.definition.axes)
            proved = _probe_sizes(layer, lowered, place, (seed, node.id), trials)
        except Unproved as e:
            reason = str(e)
        layers.append(
            LayerCheck(layer=node.name, type=node.type, form="probe", proved=proved, reason=reason)
        )
    return CheckReport(
        layers=tuple(layers),
        problems=tuple(matching.problems),
        kept=tuple(matching.kept),
        others=matching.others,
        error_probability=error_probability(axes, trials),
    )


def _probe_sizes(
    layer: SourceLayer, lowered: Graph, place: LayerPlace, seed: tuple[int, ...], trials: int
) -> str:
    """Probe at every chosen size; returns how many there were."""
    done = 0
    every = list(sizes.choices(layer))
    for chosen in every[:: -(-len(every) // MOST_PROBED)]:
        if min(layer.output(chosen.data, chosen.filter, chosen.output_shape)) < 0:
            continue
        for trial in range(trials):
            probe(layer, lowered, place, chosen, (*seed, done, trial))
        done += 1
    if not done:
        raise Unproved("no size was found for which the layer has an output")
    return f"{count(trials, 'random point')} at {count(done, 'size')}"


def _rewritten(source: Graph, matching: Matching) -> list[Node]:
    return [n for n in source.topological() if n.id in matching.places]


def _describe(layer: SourceLayer, lowered: Graph, place: LayerPlace) -> Certificate:
    node = layer.definition.node
    nodes = region(lowered, place)
    return Certificate(
        layer=node.name,
        type=node.type,
        form=_form(layer, lowered, nodes),
        source=_parameters(layer),
        nodes=tuple(_emitted(lowered, n) for n in nodes),
    )


def _parameters(layer: SourceLayer) -> dict[str, Any]:
    """Return the canonical parameters; None where they follow at run time."""
    d = layer.definition
    out: dict[str, Any] = {"strides": list(d.strides), "dilations": list(d.dilations)}
    out |= {"pads_begin": None, "pads_end": None, "output": None, "groups": None, "filter": None}
    if is_static(layer.filter_shape):
        canonical = d.canonical_shape(layer.filter_shape)
        out |= {"groups": canonical[0], "filter": list(canonical)}
        if is_static(layer.data) and not layer.computed_output:
            extents = d.extents(layer.data, canonical, layer.output_shape)
            windows = d.windows(layer.data, canonical, layer.output_shape)
            out["pads_begin"] = [b for b, _ in windows]
            out["pads_end"] = [e.full - b - o for e, (b, o) in zip(extents, windows, strict=True)]
            out["output"] = [o for _, o in windows]
    filter = None if layer.filter is None else d.canonical_filter(layer.filter)
    out["filter_type"] = None if filter is None else str(filter.dtype)
    out["filter_sha256"] = None if filter is None else _hash(filter)
    out["bias"] = "constant" if layer.bias is not None else "computed" if layer.has_bias else None
    if layer.bias is not None:
        out["bias_sha256"] = _hash(layer.bias)
    kind = d.activation
    out["activation"] = None if kind is None else [kind[0], *map(float, kind[1])]
    return out


def _hash(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _emitted(graph: Graph, node: Node) -> dict[str, Any]:
    """Return name, type, attributes and constant inputs by port."""
    constants: dict[str, Any] = {}
    for port, v in enumerate(graph.inputs_of(node.id)):
        if graph.node(v.node).type != "Const":
            continue
        array = Constants(graph).get(v)
        if array is None:
            continue
        short = array.size <= LISTED and array.dtype.kind in "iu"
        constants[str(port)] = array.tolist() if short else {"sha256": _hash(array)}
    attributes = node.op.to_attributes()
    return {"name": node.name, "type": node.type, "attributes": attributes, "constants": constants}


def _form(layer: SourceLayer, graph: Graph, nodes: Sequence[Node]) -> str:
    """Tell the form by the nodes; a single convolution of stride 1 inserts no zeros."""
    types = [n.type for n in nodes]
    if "Interpolate" in types:
        return "resize"
    convolutions = [n for n in nodes if n.type in ("Convolution", "GroupConvolution")]
    joined = {v.node for n in nodes if n.type == "Concat" for v in graph.inputs_of(n.id)}
    if len(convolutions) != 1 or convolutions[0].id in joined:
        return "phases"
    d = layer.definition
    if "ZeroInsertion" in types or all(s == 1 for s in d.strides):
        return "zero-insertion"
    after = types[types.index(convolutions[0].type) + 1 :]
    if "DepthToSpace" not in after and "Reshape" not in after:
        return "zero-insertion"
    shape = graph.spec(graph.inputs_of(convolutions[0].id)[1]).shape or ()
    one = all(k == 1 for k in shape[-d.axes :])
    return "gemm" if one else "stacked"
