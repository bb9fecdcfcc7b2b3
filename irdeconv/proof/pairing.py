"""Pairs the values of two models: by equal layers, and by a proof of each rewritten region.

It begins with inputs, outputs and variables. An input that OpenVINO needs as a constant stays one.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product

import numpy as np

from irdeconv.proof import linear, symbolic
from irdeconv.proof.definition import ACTIVATIONS, CONVOLUTIONS, is_deconvolution
from irdeconv.proof.language import listed_call
from irdeconv.proof.model import (
    RULES,
    Fact,
    Layer,
    Model,
    Obligation,
    Port,
    Proof,
    Unproved,
    need,
    region,
    spend,
)
from irdeconv.proof.reader import signature
from irdeconv.proof.sums import MOST_ROUNDED, half, misled
from irdeconv.proof.symbolic import LayerProof, ProofVerdict

_OUTSIDE = {
    "input": "Parameter",
    "output": "Result",
    "read variable": "ReadValue",
    "written variable": "Assign",
}
_MADE_UP = "(Parameter|Result)_[0-9]+"
_OPSETS = re.compile("opset[0-9]+")


def interface(source: Model, lowered: Model) -> tuple[list[str], list[tuple[Port, Port, str]]]:
    """Return how inputs, outputs and variables differ, and the values that have to be equal."""
    problems: list[str] = []
    ends: list[tuple[Port, Port, str]] = []
    if source.rest != lowered.rest:
        problems.append(f"beside its layers it says {lowered.rest!r} instead of {source.rest!r}")
    sides = [(_outside(source, what), _outside(lowered, what)) for what in _OUTSIDE]
    for what, (first, second) in zip(_OUTSIDE, sides, strict=True):
        if len(first) != len(second):
            problems.append(f"{len(second)} {what}s instead of {len(first)}")
        names = [{n for y in side for port in y.names for n in port} for side in (first, second)]
        seen = [[_seen(y, names[0] & names[1]) for y in side] for side in (first, second)]
        for number, (a, b) in enumerate(zip(first, second, strict=False)):
            if seen[0][number] != seen[1][number]:
                pair = f"{seen[1][number]} instead of {seen[0][number]}"
                problems.append(f"{what} {number} is {pair}")
            if what.endswith("variable") and seen[1].count(seen[1][number]) > 1:
                problems.append(f"{what} {number} is {seen[1][number]}, as another one is")
            if what in ("output", "written variable"):
                ends += [(i, j, str(b)) for i, j in zip(a.inputs, b.inputs, strict=False)]
    return problems, ends


def _outside(model: Model, what: str) -> list[Layer]:
    """Return the inputs or outputs in their order, or the layers of variables by these."""
    if what in ("input", "output"):
        return [model.layers[i] for i in (model.parameters if what == "input" else model.results)]
    found = [y for y in model.layers if y.type == _OUTSIDE[what]]
    return sorted(found, key=lambda y: y.attributes.get("variable_id", ""))


def _seen(layer: Layer, known: set[str]) -> str:
    """Return the public text of an input, output or variable.

    Names like "Result_7", which OpenVINO makes up when it writes, are none unless both know them.
    """
    if layer.type in ("ReadValue", "Assign"):
        pairs = sorted(layer.attributes.items())
        return " ".join([layer.version, *(f"{key}={text!r}" for key, text in pairs)])
    names = [n for n in layer.names[0] if n in known or not re.fullmatch(_MADE_UP, n)]
    facts = [str(fact) for fact in layer.outputs]
    called = ", ".join(map(repr, names)) or "nothing"  # quoted, as names may be any text
    words = [*facts, f"called {called}", *layer.rest.split("\n")]
    return " ".join(filter(None, words))


# Of the listed operations these are not computed beforehand (Interpolate: not of integers).
_LATE = {"Identity", "Roll", "Interpolate", "MatMul", "Einsum"}
_LATE |= {"HardSigmoid", "PReLU", "Sigmoid", "Tanh"}
# Ports of the listed operations that have to be known: OpenVINO refuses others, computes nonsense
# (the value of a Pad) or dies (the axes of a Slice).
_ASKED = {
    **dict.fromkeys(("ReduceProd", "ReduceSum", "Squeeze", "Unsqueeze"), 1),
    "Gather": 2,
    "Pad": 3,
    "Slice": 4,
}


def known_inputs(model: Model) -> list[set[int]]:
    """Return for each layer the ports that read constants, or listed layers of constants."""
    folds: list[bool] = []
    found: list[set[int]] = []
    for y in model.layers:
        found.append({port for port, source in enumerate(y.inputs) if folds[source.layer]})
        listed = y.type in RULES.keys() - _LATE and _OPSETS.fullmatch(y.version)
        whole = len(found[-1]) == len(y.inputs) > 0
        folds.append(y.type == "Const" or bool(listed and whole))
    return found


_ALONG = {"Add", "Subtract", "Multiply", "Divide", *ACTIVATIONS}  # what runtimes join to a sum


def sums_of_parts(model: Model) -> list[int]:
    """Return the Adds of convolutions of which one reads part of a Split, if a size is open."""
    shapes = [model.layers[i].outputs[0].shape for i in model.parameters]
    found, parts = list[int](), set[int]()
    sums, cut = set[int](), set[int]()  # what has convolutions, and those of parts
    for i, y in enumerate(model.layers):
        read = [p.layer for p in y.inputs]
        if y.type in ("Split", "VariadicSplit") or (y.type in {"Pad", *_ALONG} and parts & {*read}):
            parts.add(i)
        if y.type in CONVOLUTIONS or (y.type in _ALONG and sums & {*read}):
            sums.add(i)
            cut |= {i} if y.type in CONVOLUTIONS and read[0] in parts else set()
        if y.type in _ALONG and cut & {*read}:
            cut.add(i)
            found += [i] if y.type == "Add" and all(p in sums for p in read) else []
    fixed = all(s is not None and all(type(n) is int for n in s) for s in shapes)
    return [] if fixed else found


Prover = Callable[[Obligation], Proof]
PROVERS: tuple[Prover, ...] = (symbolic.prove, linear.prove)
Inside = Callable[[str, int, int], ProofVerdict]
MOST_GUESSES = 8  # by alike layers that read a value
_IMPURE = {"RandomUniform", "Multinomial", "ReadValue", "Assign", "Parameter", "Result"}


def check(
    source: Model,
    lowered: Model,
    fact: Callable[[Port], Fact] | None = None,
    provers: Sequence[Prover] = PROVERS,
    inside: Inside | None = None,
    *,
    body: bool = False,
) -> ProofVerdict:
    """Prove that two models compute the same; `fact` returns types and shapes in the source.

    `inside(tag, a, b)` returns the verdict on a body of the layers at these places. Of a `body`
    even the declarations of its inputs are assumed: the values that flow in decide.
    """

    def plainly(tag: str, a: int, b: int) -> ProofVerdict:
        bodies = dict(source.layers[a].bodies)[tag], dict(lowered.layers[b].bodies)[tag]
        return check(*bodies, None, provers, body=True)

    return _Pairing(source, lowered, fact, provers, inside or plainly, body).verdict()


def _pure(layer: Layer) -> bool:
    """Whether a layer computes the same of the same inputs, as OpenVINO's own do but these."""
    known = _OPSETS.fullmatch(layer.version) and layer.type not in _IMPURE
    return bool(known) and (layer.type == "Const" or not layer.rest)


@dataclass
class _Pairing:
    """Finds for the values of `lowered` those of `source` that they equal: their twins."""

    _source: Model
    _lowered: Model
    _given: Callable[[Port], Fact] | None
    _provers: Sequence[Prover]
    _inside: Inside
    _body: bool

    def __post_init__(self) -> None:
        source, lowered = self._source, self._lowered
        self._fact = self._given or self._declared
        self._bodies: dict[tuple[int, int], list[ProofVerdict]] = {}  # by the places of layers
        self._signatures = [[signature(y) for y in m.layers] for m in (source, lowered)]
        self._known = [known_inputs(m) for m in (source, lowered)]
        self._twins: dict[Port, Port] = {}
        self._images: dict[Port, list[Port]] = {}  # the twins of values of the source
        self._merged: dict[Port, Port] = {}  # values of the source that were shown to be equal
        self._hits: dict[int, int] = {}  # equal layers, by their place in lowered
        self._used: dict[int, int] = {}  # the same, by their place in the source
        self._proved: list[LayerProof] = []
        self._failed: list[LayerProof] = []
        self._asked: list[str] = []
        self._assumed: dict[str, None] = {}
        self._rounding = 0.0
        self._halves: dict[Hashable, list[int]] | None = None
        self._named = {
            name: Port(i, port)
            for i, layer in enumerate(source.layers)
            for port in range(len(layer.outputs))
            for name in (layer.name, *layer.names[port])
        }
        for a, b in zip(source.parameters, lowered.parameters, strict=False):
            self._pair(Port(a), Port(b))

    def verdict(self) -> ProofVerdict:
        """Pair all values that can be, and list the rest."""
        problems, ends = interface(self._source, self._lowered)
        left = ends
        try:
            left = self._paired(ends)
        except Unproved as error:  # it takes too much work
            problems.append(str(error))
        problems += dict.fromkeys(self._unfit())
        failed = [
            y for y in self._failed if y.output not in self._twins and y.wanted not in self._images
        ]
        why = f": {failed[0].reason}" if failed else ""
        same = [self._source.layers[a] for a in self._hits.values()]
        kept = tuple(y.name for y in same if is_deconvolution(y))
        proofs = [y.proof for y in self._proved if y.proof is not None]
        return ProofVerdict(
            layers=(*self._proved, *(failed if left else ())),
            problems=tuple(problems),
            unequal=tuple(f"{label} is not proved to be equal{why}" for _, _, label in left),
            kept=kept,
            others=sum(y.elements is None for y in same) - len(kept),
            twins=self._twins,
            assumed=tuple(dict.fromkeys([*self._assumed, *(a for p in proofs for a in p.assumed)])),
            rounding=max([self._rounding, *(p.rounding for p in proofs)]),
            bodies=tuple(
                (tag, a, b, verdict)
                for b, a in self._hits.items()
                for (tag, _), verdict in zip(
                    self._source.layers[a].bodies, self._bodies.get((a, b), ()), strict=True
                )
            ),
        )

    def _paired(self, ends: Sequence[tuple[Port, Port, str]]) -> list[tuple[Port, Port, str]]:
        """Pair all values that can be; return the `ends` that cannot."""
        left = [*ends]
        known = -1
        # Merged values make more layers equal, so all are visited until nothing new is found.
        while known < len(self._twins) + len(self._merged):
            known = len(self._twins) + len(self._merged)
            self._number()
            for place in range(len(self._lowered.layers)):
                self._visit(place)
            left = [e for e in ends if not self._settle(*e[:2])]
            if not left:
                break
        return left

    def _unfit(self) -> Iterator[str]:
        """Yield faults of OpenVINO that B meets, unless the same layer of A meets them."""
        had = sums_of_parts(self._source)
        for i in sums_of_parts(self._lowered):
            if self._hits.get(i) not in had:
                yield f"{self._lowered.layers[i]} meets the fault sum-of-parts of OpenVINO 2026.4.1"
        for i, (y, known) in enumerate(zip(self._lowered.layers, self._known[1], strict=True)):
            if i in self._hits:
                continue
            port = _ASKED.get(y.type, len(y.inputs))
            if port < len(y.inputs) and port not in known:
                yield f"{y} reads a vector that OpenVINO does not know beforehand"
            # Graphs in memory may have layers that are written otherwise.
            if self._lowered.files and not _OPSETS.fullmatch(y.version):
                yield f"{y} of version {y.version} is none of OpenVINO's"

    def _agree(self, a: int, b: int) -> bool:
        """Whether the bodies of two layers compute the same: by a proof for each."""
        layer = self._source.layers[a]
        tags = [tag for tag, _ in layer.bodies]
        if tags != [tag for tag, _ in self._lowered.layers[b].bodies]:
            return False
        if (a, b) not in self._bodies:
            self._bodies[a, b] = [self._inside(tag, a, b) for tag in tags]
        # Rounded weights might decide how often a body runs.
        return all(v.passed and not v.rounding for v in self._bodies[a, b])

    def _declared(self, port: Port) -> Fact:
        layer = self._source.of(port)
        fact = layer.outputs[port.port] if port.port < len(layer.outputs) else Fact(None, None)
        own = ("Const",) if self._body else ("Parameter", "Const")
        if layer.type not in own:
            self._asked.append(f"{layer} has type and shape as declared: {fact}")
        return fact

    def _pair(self, wanted: Port, output: Port) -> None:
        self._twins[output] = wanted
        self._images.setdefault(wanted, []).append(output)

    def _number(self) -> None:
        """Make equal values of the source one: readers of any of them read the first."""
        spend(512 * len(self._source.layers))
        layers: list[Layer] = []
        self._first: dict[Port, Port] = {}
        self._table: dict[Hashable, dict[str, list[int]]] = {}  # equal layers by their names
        self._alike: dict[Hashable, deque[int]] = {}
        for i, layer in enumerate(self._source.layers):
            layers.append(replace(layer, inputs=tuple(self._first[p] for p in layer.inputs)))
            signature = self._signatures[0][i]
            same = self._table.setdefault((signature, layers[i].inputs), {})
            same.setdefault(layer.name, []).append(i)
            if layer.outputs:
                self._alike.setdefault(signature, deque()).append(i)
            for port in range(len(layer.outputs)):
                first = Port(next(iter(same.values()))[0] if _pure(layer) else i, port)
                if self._does_nothing(layer, layers[i].inputs):
                    first = layers[i].inputs[0]
                while first in self._merged:
                    first = self._merged[first]
                self._first[Port(i, port)] = first
        self._source = replace(self._source, layers=tuple(layers))
        self._tried: set[tuple[Port, Port]] = set()
        self._failed, twins = [], self._twins
        self._guessed = Counter[Port]()
        self._tries = 50 + MOST_GUESSES * sum(map(is_deconvolution, layers))
        self._twins, self._images = {}, {}
        for output, wanted in twins.items():
            self._pair(self._first[wanted], output)

    def _visit(self, place: int) -> None:
        """Find twins of a layer's outputs; for a new layer, try its probable equals."""
        layer = self._lowered.layers[place]
        if layer.type in ("Parameter", "Result") or Port(place) in self._twins or self._hit(place):
            return
        if layer.elements is None and self._tries > 0:
            for wanted, output in list(islice(self._guesses(place), 4)):
                self._settle(wanted, output)
            self._hit(place)

    def _guesses(self, place: int) -> Iterator[tuple[Port, Port]]:
        """Yield values of the source that bear the same name, or are read by a layer like this."""
        layer = self._lowered.layers[place]
        for port, names in enumerate(layer.names):
            for name in (*names, layer.name):
                wanted = self._first[self._named.get(name, Port(0))]
                if name in self._named and wanted not in self._images:
                    yield wanted, Port(place, port)
        alike = self._alike.get(self._signatures[1][place], deque())
        while alike and self._first[Port(alike[0])] in self._images:
            alike.popleft()
        for i in islice(alike, 16):
            pairs = [*zip(self._source.layers[i].inputs, layer.inputs, strict=False)]
            new = [pair for pair in pairs if self._twins.get(pair[1]) != pair[0]]
            if len(new) == 1 and new[0][0] not in self._images and new[0][1] not in self._twins:
                # Each of a thousand phases with the same bias would be tried for one layer.
                self._guessed[new[0][0]] += 1
                if self._guessed[new[0][0]] <= MOST_GUESSES:
                    yield new[0]

    def _hit(self, place: int) -> bool:
        """Find the layer of the source that computes the same of the same inputs."""
        layer = self._lowered.layers[place]
        inputs = tuple(self._twins.get(p, Port(-1)) for p in layer.inputs)
        named = self._table.get((self._signatures[1][place], inputs), {})
        found = chain(named.get(layer.name, ()), chain.from_iterable(named.values()))
        fits = (i for i in found if self._known[0][i] <= self._known[1][place])
        same = [*islice(fits, 1 if _pure(layer) else None)]  # those of its name come first
        if not _pure(layer):
            same = [i for i in same if self._used.get(i, place) == place and self._agree(i, place)]
        elif not same and layer.type == "Convert":
            same = self._stored(place)
        if not same:
            nothing = self._does_nothing(layer, inputs)
            if nothing:
                self._pair(inputs[0], Port(place))
            return nothing
        # Of layers that compute the same the namesake, so that the report names it.
        at = min(same, key=lambda i: self._source.layers[i].name != layer.name)
        self._hits[place], self._used[at] = at, place
        for port in range(min(len(layer.outputs), len(self._source.layers[at].outputs))):
            self._pair(self._first[Port(at, port)], Port(place, port))
        return True

    def _does_nothing(self, layer: Layer, inputs: Sequence[Port]) -> bool:
        """Whether a layer gives its only input as it is; `inputs` are values of the source."""
        if layer.type not in ("Identity", "Convert") or len(inputs) != 1 or inputs[0].layer < 0:
            return False
        try:
            listed_call(layer)
        except Unproved:
            return False
        self._asked = []
        kept = layer.attributes.get("destination_type", "")
        same = layer.type == "Identity" or self._fact(inputs[0]).type == kept
        self._assumed |= dict.fromkeys(self._asked if same else [])
        return same and len(layer.outputs) == 1

    def _stored(self, place: int) -> list[int]:
        """Find the constants of the source that a Convert reads from numbers in f16."""
        layer = self._lowered.layers[place]
        data = self._lowered.of(layer.inputs[0]).elements if len(layer.inputs) == 1 else None
        if data is None or data.type != "f16" or misled(self._lowered, [place]):
            return []
        if self._halves is None:
            self._halves = {}
            for i, constant in enumerate(self._source.layers):
                if constant.elements is not None and constant.elements.type in ("f32", "f64"):
                    self._halves.setdefault(half(constant.elements.array), []).append(i)
        for i in self._halves.get(half(data.array), ()):
            exact = self._source.layers[i].elements
            assert exact is not None
            moved = exact.array != data.array
            a, b = exact.array[moved].astype(np.float64), data.array[moved]
            change = float((abs(a - b) / abs(a)).max(initial=0))  # infinite if only b is
            if change <= MOST_ROUNDED and exact.type == layer.attributes.get("destination_type"):
                self._rounding = max(self._rounding, change)
                return [i]
        return []

    def _prove(self, wanted: Port, output: Port) -> None:
        """Ask the provers; each value that they prove is a twin."""
        if self._tries == 0:
            return
        layer, other = self._source.of(wanted), self._lowered.of(output)
        try:
            tasks = self._tasks(wanted, output)
        except Unproved as error:  # it takes too much work
            raise Unproved(f"{layer}: {error}") from None
        reasons = [_difference(layer, other)]
        tried = self._bodies.get((wanted.layer, output.layer), [])
        failed = (t for v in tried for t in (*v.problems, *v.unequal))
        reasons += [f"{other}: in a body, {text}" for text in islice(failed, 1)]
        reasons += [f"{other}: weights in a body are rounded"] * any(v.rounding for v in tried)
        for prove, task in product(self._provers, tasks):
            self._asked = []
            try:
                proof = prove(task)
                why = misled(self._lowered, [output.layer]) if proof.rounding else ""
                need(not why, why)
            except Unproved as error:
                reasons.append(str(error))
                continue
            self._proved.append(LayerProof(layer.name, layer.type, output, wanted, proof))
            self._assumed |= dict.fromkeys(self._asked)
            if output in self._twins:
                pair = sorted([wanted, self._twins[output]])
                self._merged[pair[1]] = pair[0]
                self._number()
            else:
                self._pair(wanted, output)
            return
        self._tries -= 1
        reason = "; ".join(r for r in dict.fromkeys(reasons) if r)
        self._failed.append(LayerProof(layer.name, layer.type, output, wanted, None, reason))

    def _tasks(self, wanted: Port, output: Port) -> list[Obligation]:
        """Return the obligation with the nearest twins, and those with twins further ahead.

        Part of a sum may be a twin of `wanted` or of the convolution that it reads, if the rest is
        zero; that rest reads the data, which the source reads only before its twin.
        """
        inner, tasks = set[Port](), [self._task(wanted, output, set())]
        for _ in range(2):
            read = ((w, self._source.of(w)) for w in tasks[-1].twins.values())
            more = {
                w for w, y in read if w == wanted or y.type in CONVOLUTIONS or is_deconvolution(y)
            }
            if not more:
                break
            inner |= more
            tasks.append(self._task(wanted, output, inner))
        return tasks

    def _task(self, wanted: Port, output: Port, inner: set[Port]) -> Obligation:
        """Return an obligation with all twins that the layers behind two values read.

        Regions go on behind the values `inner` of the source and their twins.
        """
        behind, read = region(
            self._lowered, output, lambda p, _: p in self._twins and self._twins[p] not in inner
        )
        before, ends = region(
            self._source, wanted, lambda p, _: p in self._images and p not in inner
        )
        spend(256 * (len(behind) + len(before)))
        read += [p for port in ends for p in self._images[port]]
        twins = {port: self._twins[port] for port in dict.fromkeys(read)}
        return Obligation(self._source, self._lowered, wanted, output, twins, self._fact)

    def _settle(self, wanted: Port, output: Port) -> bool:
        """Whether two values are equal: by their layers and inputs, else by a proof."""
        stack = [(wanted, output, False)]
        while stack:
            of_source, of_lowered, done = stack.pop()
            pair = (self._first[of_source], of_lowered)
            if self._twins.get(pair[1]) == pair[0] or (pair in self._tried and not done):
                continue
            self._tried.add(pair)
            a, b = self._source.of(pair[0]), self._lowered.of(pair[1])
            same = pair[0].port == pair[1].port and len(a.inputs) == len(b.inputs)
            same = same and self._signatures[0][pair[0].layer] == self._signatures[1][pair[1].layer]
            if same and not done:
                stack.append((*pair, True))
                stack += [(i, j, False) for i, j in zip(a.inputs, b.inputs, strict=True)]
            # Equal layers need no proof; a proof of each would walk the whole network.
            elif not (same and self._hit(pair[1].layer) and self._twins[pair[1]] == pair[0]):
                self._prove(*pair)
        return self._twins.get(output) == self._first[wanted]


def _difference(a: Layer, b: Layer) -> str:
    """Describe the difference of a layer and the one that replaces it."""
    if a.type != b.type:
        return ""
    keys = [
        k for k in {**a.attributes, **b.attributes} if a.attributes.get(k) != b.attributes.get(k)
    ]
    said = [f"{k} is {b.attributes.get(k)} instead of {a.attributes.get(k)}" for k in keys]
    said += ["its version differs"] * (a.version != b.version)
    said += ["its body differs, which is compared as a whole"] * (a.rest != b.rest)
    if not said and a.elements and b.elements and signature(a) != signature(b):
        said = ["its elements differ"]
    return f"{b}: {', '.join(said)}" if said else ""
