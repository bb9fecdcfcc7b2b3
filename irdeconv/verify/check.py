"""Run the core on two models, write down its proofs, and check certificates against them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import count, first_names
from irdeconv.proof import pairing
from irdeconv.proof.definition import is_deconvolution
from irdeconv.proof.model import Model, Obligation, Proof, TypedArray, Unproved
from irdeconv.proof.reader import signature
from irdeconv.proof.symbolic import ProofVerdict
from irdeconv.verify import probe
from irdeconv.verify.adapter import (
    AskedProver,
    ProofSide,
    form_of,
    rewritten,
    source_region,
    subject,
)
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, LayerCheck

# Fields that a certificate and the verdict on its layer share.
SHARED = ("layer", "type", "form", "every", "partly", "rounding", "assumed")
LISTED = 64  # longer vectors are given by their hash


@dataclass
class Compared:
    """The core's verdict on two models, and the obligations that it met or did not meet.

    `tasks` has each with its proof, or the reason, and the first prover's reason.
    """

    verdict: ProofVerdict
    other: tuple[str, ...]  # layers that are not rewritten and not the same
    tasks: list[tuple[Obligation, Proof | str, str | None]]


def _compared(source: ProofSide, lowered: ProofSide) -> Compared:
    provers = [AskedProver(p, source.believed) for p in pairing.PROVERS]
    inner: dict[tuple[str, int, int], Compared] = {}

    def inside(tag: str, a: int, b: int) -> ProofVerdict:
        inner[tag, a, b] = _compared(source.body(a, tag), lowered.body(b, tag))
        return inner[tag, a, b].verdict

    with progress.stage("proving"):
        verdict = pairing.check(source.model, lowered.model, source.fact, provers, inside)
    asked = {key: task for p in provers for key, task in p.asked.items()}
    changed = _changed(source, lowered, verdict)
    matched = {wanted.layer for wanted in verdict.twins.values()}
    tasks: list[tuple[Obligation, Proof | str, str | None]] = []
    for layer in verdict.layers:
        task = asked[layer.wanted, layer.output]
        # A layer that failed for one value may have been tried for others.
        reported = layer.proof is None and any(subject(t) == subject(task) for t, *_ in tasks)
        if not reported and (layer.proof or is_deconvolution(subject(task))):
            first = provers[0].unproved.get((layer.wanted, layer.output))
            why = _reason(task, layer.reason, changed, matched)
            tasks.append((task, layer.proof or why, first))
    made = Compared(verdict, tuple(dict.fromkeys(changed.values())), tasks)
    equal = {(a, b) for _, a, b, _ in verdict.bodies}
    for (_, a, b), found in inner.items():
        same = source.model.layers[a].name == lowered.model.layers[b].name
        if found.verdict.passed if (a, b) in equal else same:
            made = _with_body(made, found)
    return made


def _with_body(made: Compared, body: Compared) -> Compared:
    a, b = made.verdict, body.verdict
    verdict = replace(
        a,
        kept=(*a.kept, *b.kept),
        others=a.others + b.others,
        assumed=tuple(dict.fromkeys([*a.assumed, *b.assumed])),
        rounding=max(a.rounding, b.rounding),
    )
    return Compared(verdict, (*made.other, *body.other), [*made.tasks, *body.tasks])


def _changed(source: ProofSide, lowered: ProofSide, verdict: ProofVerdict) -> dict[int, str]:
    """Return the source's layers with another type, version, body or attributes now."""
    out = {}
    for layer in verdict.layers:
        a, b = source.model.of(layer.wanted), lowered.model.of(layer.output)
        if layer.proof is not None or (is_deconvolution(a) and a.type != b.type):
            continue
        if a.type == b.type and signature(a) != signature(b):
            out[layer.wanted.layer] = layer.reason or f"{b} is not the same"
        elif (
            a.type != b.type
            and a.name == b.name
            and list(a.inputs) == [verdict.twins.get(p) for p in b.inputs]
        ):
            out[layer.wanted.layer] = f"{a} is a {b.type} in the lowered model"
    return out


def _reason(
    task: Obligation, said: str | None, changed: Collection[int], equal: Collection[int]
) -> str:
    """Return why a layer is not proved; one that follows from another's failure says so."""
    layer = subject(task)
    read = ((i, task.source.layers[i]) for i in source_region(task)[0])
    unequal = ((i, y) for i, y in read if y is not layer and i not in equal)
    before = [y.name for i, y in unequal if i in changed or is_deconvolution(y)]
    if before:
        return f'what it reads is not proved to be equal, because of "{before[-1]}"'
    return said or "it is not proved"


def certified(
    source: ProofSide, lowered: ProofSide, *, probe: bool = False, seed: int | None = None
) -> Certificates:
    """Prove every rewritten layer, or give the reason; with `probe` evaluate them as well."""
    found = compared(source, lowered)
    made = examined(source, lowered, found)[0]
    if not probe or found is None:
        return made
    return with_probe(made, probed(source, lowered, seed=seed, found=found))


def compared(source: ProofSide, lowered: ProofSide) -> Compared | None:
    """Compare two models once, for all that needs it; None if they are refused."""
    return _compared(source, lowered) if _refusal(source, lowered) is None else None


def with_probe(made: Certificates, found: CheckReport) -> Certificates:
    """Return certificates with the results of a probe."""
    layers = [{"layer": r.layer, "sizes": r.proved, "reason": r.reason} for r in found.layers]
    stated = {"seed": found.seed, "error_probability": found.error_probability, "layers": layers}
    return replace(made, probe={**stated, "differs": found.differs})


def checked(
    source: ProofSide, lowered: ProofSide, certificates: Sequence[Certificate] | None = None
) -> CheckReport:
    """Prove every rewritten layer equal, and that all else is the same.

    With `certificates` there must be exactly one for each rewritten layer, which states the
    contents of the two models; `Certificates` must also be of their files.
    """
    made, report = examined(source, lowered)
    if certificates is None:
        return report
    return judged(made, certificates, report)


def examined(
    source: ProofSide, lowered: ProofSide, found: Compared | None = None
) -> tuple[Certificates, CheckReport]:
    """Return the certificates of two models, and the verdict on these."""
    refusal = _refusal(source, lowered)
    if refusal is not None:
        return Certificates((), refused=refusal.problems), refusal
    found = found or _compared(source, lowered)
    if other := _unrelated(source, lowered, found):
        warnings = (*source.warnings, *lowered.warnings)
        unrelated = CheckReport(layers=(), problems=other, warnings=warnings)
        return Certificates((), refused=other), unrelated
    made = _certificates(source, lowered, found)
    return made, judged(made, None, _rest(source, lowered, found))


def judged(
    made: Certificates, certificates: Sequence[Certificate] | None, rest: CheckReport
) -> CheckReport:
    """Return the verdict on certificates just made, beside given ones; `rest` is all else.

    Wrong statements of given certificates on models and files are problems.
    """
    given = () if certificates is None else tuple(certificates)
    by_layer: dict[str, list[Certificate]] = {c.layer: [] for c in (*made, *given)}
    for c in given:
        by_layer[c.layer].append(c)
    layers = []
    names, said = ([c.layer for c in side] for side in (made, given))
    if said and isinstance(certificates, Certificates) and not {*names} & {*said}:
        text = f"the certificates are of {first_names(said)}, not of {first_names(names)}"
        return replace(rest, problems=(*rest.problems, text))
    for c in made:
        reason, stated = c.reason, by_layer[c.layer]
        if certificates is not None:
            differs = stated.pop(0).differs(c) if stated else "it has no certificate"
            reason = reason or differs
        shared = {key: getattr(c, key) for key in SHARED}
        layers.append(LayerCheck(**shared, proved=c.holds_for, reason=reason))
    problems = [*rest.problems]
    if isinstance(certificates, Certificates):
        problems += certificates.contradictions(made)
    more = [name for name, left in by_layer.items() if left]
    problems += [f'a certificate of "{n}" is of no rewritten layer' for n in more]
    return replace(rest, layers=tuple(layers), problems=tuple(problems))


def probed(
    source: ProofSide,
    lowered: ProofSide,
    *,
    seed: int | None = None,
    found: Compared | None = None,
) -> CheckReport:
    """Evaluate every rewritten layer of both models at random points and compare.

    Without a `seed` a fresh one is drawn. The report's `error_probability` bounds how likely a
    layer that differs at the sizes evaluated passes unseen.
    """
    refusal = _refusal(source, lowered)
    if refusal is not None:
        return refusal
    found = found or _compared(source, lowered)
    chosen = secrets.randbits(48) if seed is None else seed
    layers, chance = [], 0.0
    with progress.stage("probing", total=len(found.tasks)) as step:
        for number, (ob, proof, _) in enumerate(found.tasks):
            step(detail=subject(ob).name)
            made, unseen = _probed(ob, proof, (chosen, number))
            layers.append(made)
            chance = max(chance, unseen)
    return replace(
        _rest(source, lowered, found),
        layers=tuple(layers),
        seed=chosen,
        error_probability=chance if any(r.passed for r in layers) else None,
    )


def _probed(ob: Obligation, proof: Proof | str, seed: tuple[int, int]) -> tuple[LayerCheck, float]:
    """Probe one layer; returns the verdict, and how likely it is wrong."""
    layer, done, reason, unclear, chance = subject(ob), None, None, False, 0.0
    try:
        if isinstance(proof, Proof) and proof.rounding:
            raise Unproved("its weights are rounded, which residues cannot distinguish from others")
        done, chance = probe.probe(ob, seed)
    except probe.Differs as e:
        reason = str(e)
    except Unproved as e:
        reason, unclear = f"not probed: {e}", True
    said: Any = {"proved": done, "reason": reason, "unclear": unclear}
    made = LayerCheck(layer=layer.name, type=layer.type, form="probe", **said)
    return made, chance


def _rest(source: ProofSide, lowered: ProofSide, found: Compared) -> CheckReport:
    """Return the report on all but the rewritten layers: equal ones and problems."""
    verdict = found.verdict
    explained = found.other or any(isinstance(proof, str) for _, proof, _ in found.tasks)
    unequal = () if explained else verdict.unequal  # else they follow from the layers
    return CheckReport(
        layers=(),
        problems=(*verdict.problems, *found.other, *unequal),
        kept=verdict.kept,
        others=verdict.others,
        sizes=tuple(source.sizes.items()),
        rounding=verdict.rounding,
        assumed=verdict.assumed,
        warnings=(*source.warnings, *lowered.warnings),
    )


def _refusal(source: ProofSide, lowered: ProofSide) -> CheckReport | None:
    """Return the verdict on two models that are not compared; None if they are."""
    refused = tuple(side.refused for side in (source, lowered) if side.refused)
    problems = refused or _swapped(source, lowered)
    warnings = (*source.warnings, *lowered.warnings)
    return CheckReport(layers=(), problems=problems, warnings=warnings) if problems else None


def _unrelated(source: ProofSide, lowered: ProofSide, found: Compared) -> tuple[str, ...]:
    """Return how the inputs differ if no layer is proved: the second is of another model."""
    sides = [[m.layers[i].outputs for i in m.parameters] for m in (source.model, lowered.model)]
    if sides[0] == sides[1] or any(isinstance(proof, Proof) for _, proof, _ in found.tasks):
        return ()
    first = "the inputs of the second model are not those of the first: it is no lowered form of it"
    return (first, *found.verdict.problems)


def _certificates(source: ProofSide, lowered: ProofSide, found: Compared) -> Certificates:
    from irdeconv import __version__

    return Certificates(
        tuple(_certificate(*task) for task in found.tasks),
        source=source.stamp,
        lowered=lowered.stamp,
        tool=__version__,
        sizes=source.sizes,
        values=_values(source.model, lowered.model, found.verdict.twins),
        rounding=found.verdict.rounding,
        assumed=found.verdict.assumed,
    )


def _certificate(ob: Obligation, proof: Proof | str, open_sizes: str | None) -> Certificate:
    layer, said = subject(ob), dict[str, Any]()
    if isinstance(proof, str):
        said["reason"] = proof
    else:
        said = {key: getattr(proof, key) for key in ("every", "maps", "rounding", "assumed")}
        said["holds_for"] = _sizes(ob, proof) if proof.every else proof.sizes
        said["partly"] = None if proof.every else open_sizes
    return Certificate(
        layer=layer.name,
        type=layer.type,
        form=form_of(ob, proof),
        source=_parameters(ob),
        nodes=tuple({"name": y.name, "type": y.type} for y in rewritten(ob)),
        **said,
    )


def _sizes(ob: Obligation, proof: Proof) -> str:
    """Describe all sizes of a layer, and the limits of open ones."""
    layer, given = subject(ob), set(ob.twins.values())
    shape = ob.fact(layer.inputs[0]).shape if is_deconvolution(layer) else None
    asked = any(p in given for p in layer.inputs[2:])  # sizes, or a bias
    if shape is None or asked or not all(isinstance(n, int) for n in shape):
        return proof.sizes if proof.sizes.startswith("every size") else "every size"
    return f"the size {list(shape)}"


def _parameters(ob: Obligation) -> dict[str, Any]:
    """Return version, attributes and constants of the source's layers, by their names."""
    out = {}
    for place in source_region(ob)[0]:
        layer = ob.source.layers[place]
        if layer.type == "Const":
            continue
        read = (ob.source.of(p).elements for p in layer.inputs)
        constants = {str(i): _described(e) for i, e in enumerate(read) if e is not None}
        said = {"version": layer.version, "attributes": dict(layer.attributes)}
        out[layer.name] = {"type": layer.type, **said, "constants": constants}
    return out


def _described(elements: TypedArray) -> dict[str, Any]:
    """Return type and shape of a constant, short vectors of integers themselves, else a hash."""
    array = np.ascontiguousarray(elements.array)
    out: dict[str, Any] = {"type": elements.type, "shape": list(array.shape)}
    if array.size <= LISTED and array.dtype.kind in "iu":
        return out | {"values": array.tolist()}
    data = array.data if array.dtype != object else repr(array.tolist()).encode()
    return out | {"sha256": hashlib.sha256(data).hexdigest()}


def _values(source: Model, lowered: Model, twins: Any) -> tuple[tuple[str, str], ...]:
    pairs = sorted((a, b) for a, b in twins.items() if lowered.of(a).type != "Const")
    rows = ((lowered.of(a).name, a.port, source.of(b).name, b.port) for a, b in pairs)
    return tuple((f"{low}:{i}", f"{name}:{j}") for low, i, name, j in rows)


def _swapped(source: ProofSide, lowered: ProofSide) -> tuple[str, ...]:
    """Return the problem that only the second of two models has deconvolutions, if so."""
    here, there = (sum(map(is_deconvolution, s.model.layers)) for s in (source, lowered))
    if here or not there:
        return ()
    number = count(there, "deconvolution")
    order = "the original comes first, then the lowered one; are they swapped?"
    return (f"the first model has no deconvolution, the second has {number}: {order}",)
