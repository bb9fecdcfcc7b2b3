"""Legacy recurrent cells: one blob has the weights of data and state side by side."""

from __future__ import annotations

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, layer, standard
from irdeconv.ops.slicing import Slice

_GATES = {"lstmcell": 4, "grucell": 3, "rnncell": 1}
_USUAL = {"lstmcell": "sigmoid,tanh,tanh", "grucell": "sigmoid,tanh", "rnncell": "tanh"}
_KINDS = {
    "lstmcell": ("LSTMCell", "opset4"),
    "grucell": ("GRUCell", "opset3"),
    "rnncell": ("RNNCell", "opset3"),
}


@layer("LSTMCell GRUCell RNNCell")
def cell(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """One step. The blob [G * H, D + H] is W beside R; gates are f, i, c, o and z, r, h."""
    data, state = b.static(n[0], "the data"), b.static(n[1], "the state")
    if len(data) != 2 or len(state) != 2:
        raise Refusal(f"data {list(data)} and a state {list(state)}; each has two axes")
    hidden, gates = n.integer("hidden_size", state[1]), _GATES[n.kind]
    if n.numbers("activation_alpha", ()) or n.numbers("activation_beta", ()):
        raise Refusal("activations with parameters")
    attributes = {
        "hidden_size": hidden,
        "clip": n.number("clip", 0),
        "activations": n.text("activations", _USUAL[n.kind]),
    }
    biases = gates
    if n.kind == "grucell":
        attributes["linear_before_reset"] = n.flag("linear_before_reset", False)
        biases += bool(attributes["linear_before_reset"])
    kind, version = _KINDS[n.kind]
    op = standard(kind, version, **attributes)
    both = n.blob(b, "weights", (gates * hidden, data[1] + hidden))
    w, r = _columns(b, both, 0, data[1]), _columns(b, both, data[1], data[1] + hidden)
    bias = n.optional(b, "biases", (biases * hidden,))
    if bias is None:
        raise Refusal("it has no biases")
    return b.outputs(op, *n.given, w, r, bias)


def _columns(b: ImportBuilder, matrix: Value, begin: int, end: int) -> Value:
    one = b.ints(1)
    return b.add(Slice(), matrix, b.ints(begin), b.ints(end), one, one)


@layer("TensorIterator")
def iterator(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """A body for each part of the sliced inputs, joined by a port map and back edges."""
    if n.iterate is None:
        raise Refusal("it has no body")
    return n.iterate(n, b)
