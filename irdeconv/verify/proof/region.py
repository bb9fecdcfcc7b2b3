"""The layers of a model between values that are given and one that they compute."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from irdeconv.proof.definition import CONVOLUTIONS, define, is_deconvolution
from irdeconv.proof.model import Layer, Model, Obligation, Port, Unproved


def region(model: Model, output: Port, given: Collection[Port]) -> list[int]:
    """Return the places of the layers that compute `output` from values `given`, in order."""
    found: set[int] = set()
    todo = [output]
    while todo:
        port = todo.pop()
        if port.layer not in found and port not in given:
            found.add(port.layer)
            todo += model.layers[port.layer].inputs
    return sorted(found)


def rewritten(ob: Obligation) -> list[Layer]:
    """Return the layers of the lowered model that stand for the source's, without constants."""
    places = region(ob.lowered, ob.output, ob.twins.keys())
    return [ob.lowered.layers[i] for i in places if ob.lowered.layers[i].type != "Const"]


def originals(ob: Obligation) -> list[int]:
    """Return the places of the source's layers that were rewritten, in order."""
    return region(ob.source, ob.wanted, frozenset(ob.twins.values()))


def subject(ob: Obligation) -> Layer:
    """Return the deconvolution that an obligation is of; without one the layer to be shown."""
    layers = (ob.source.layers[i] for i in reversed(originals(ob)))
    return next(filter(is_deconvolution, layers), ob.source.of(ob.wanted))


def read_by(model: Model, places: Iterable[int], given: Collection[Port]) -> list[Port]:
    """Return the given values that layers read, each once."""
    ports = (p for i in places for p in model.layers[i].inputs if p in given)
    return list(dict.fromkeys(ports))


def form_of(ob: Obligation, proved: str) -> str:
    """Tell by its layers in which form a deconvolution was lowered; `proved` where it is none."""
    layers = rewritten(ob)
    types = [y.type for y in layers]
    convolutions = [i for i, t in enumerate(types) if t in CONVOLUTIONS]
    joined = {p.layer for y in layers if y.type in ("Concat", "Add") for p in y.inputs}
    if not is_deconvolution(subject(ob)) or not convolutions:
        return "resize" if "Interpolate" in types and convolutions else proved
    first = layers[convolutions[0]]
    if "Interpolate" in types[: convolutions[0]]:
        return "resize"
    if len(convolutions) > 1 or any(ob.lowered.layers[p] is first for p in joined):
        return "phases"
    behind = types[convolutions[0] + 1 :]
    spread = "DepthToSpace" in behind or "Reshape" in behind
    if "ZeroInsertion" in types or not spread or set(_strides(ob)) == {1}:
        return "zero-insertion"
    shape = _declared(ob.lowered, first.inputs[1])
    axes = len(_strides(ob))
    return "gemm" if shape and all(k == 1 for k in shape[-axes:]) else "stacked"


def _strides(ob: Obligation) -> tuple[int, ...]:
    layer = subject(ob)
    try:
        return define(layer, len(ob.fact(layer.inputs[0]).shape or ())).strides
    except Unproved:
        return ()


def _declared(model: Model, port: Port) -> tuple[object, ...]:
    layer = model.of(port)
    if layer.elements is not None:
        return tuple(layer.elements.array.shape)
    return tuple(layer.outputs[port.port].shape or ()) if port.port < len(layer.outputs) else ()
