"""Mutants of IRs: the samples, single layers, old versions and random graphs, changed."""

import copy
import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from fuzzing import formats
from fuzzing.seeds import irs
from lxml import etree

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.constant import encode
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import lookup
from irdeconv.ir.spec import Array, Spec, bounds, compatible
from irdeconv.verify.reduce_pieces import guess
from support.live.graphs import random_graph
from support.live.mutate import cast, mutate_attributes, numbers
from support.live.sample import PLAIN, Model

LARGEST = 1 << 18  # elements of an input or a layer: larger ones are not run


@cache
def roots() -> tuple[tuple[Any, bytes], ...]:
    found = ((etree.fromstring(s.files["m.xml"]), s.files["m.bin"]) for s in irs())
    return tuple((root, weights) for root, weights in found if _is_standard(root))


def _is_standard(root: Any) -> bool:
    """Whether OpenVINO reads it: not of version 2 to 7, without layers of other systems."""
    versions = [layer.get("version", "") for layer in root.iter("layer")]
    return all(v.startswith("opset") for v in versions)


def mutant(seed: int, number: int) -> Model | None:
    """Return a changed IR with inputs that suit it; None where it would take too much."""
    rng = random.Random(f"{seed}:{number}")
    given: dict[str, Array] = {}
    if rng.random() < 0.4:
        root, weights = rng.choice(roots())
    else:
        made = random_graph(seed, rng.randrange(1 << 30))
        if not made.graph.results:
            return None
        xml, weights = ir_bytes(ird.infer(made.graph))
        root, given = etree.fromstring(xml), made.feeds
    share = rng.random()
    if share < 0.6:
        xml, weights = mildly(rng, root, weights)
    else:  # one or two changes leave a model in most cases
        times = rng.choice((1, 1, 2)) if share < 0.85 else None
        xml, weights = formats.mutate_ir(rng, etree.tostring(root), weights, times)
    weights = weights or b"\0"  # as the runtime gets them
    feeds = _feeds(xml, weights, given, np.random.default_rng(rng.randrange(1 << 30)))
    return None if feeds is None else Model(xml, weights, feeds)


def _feeds(
    xml: bytes, weights: bytes, given: dict[str, Array], rng: np.random.Generator
) -> dict[str, Array] | None:
    """Return what the inputs are fed: as before where that fits, else small numbers."""
    try:
        graph = ird.infer(ird.read(xml, weights))
    except Exception:  # refused, or a bug: running it says which
        return {}
    sizes = [n.spec(p).size or 0 for n in graph.nodes() for p in range(max(n.outputs, 1))]
    if max(sizes, default=0) > LARGEST:
        return None
    specs = [node.spec() for node in graph.parameters]
    if any(math.prod(bounds(d)[0] for d in s.shape or ()) > LARGEST for s in specs):
        return None
    rows = zip(graph.inputs, specs, strict=True)
    return {name: _fed(spec, given.get(name), rng) for name, spec in rows}


def _fed(spec: Spec, before: Array | None, rng: np.random.Generator) -> Array:
    dtype = spec.dtype or ELEMENT_TYPES["f32"]
    if before is not None and compatible(spec.shape, before.shape):
        return before if before.dtype == dtype.container else cast(before, dtype).values
    if dtype.kind == "string":
        return guess(spec)
    shape = tuple(
        int(rng.integers(max(low, 1), min(max(low, 1) + 3, low + 4 if high is None else high + 1)))
        if low != high
        else low
        for low, high in map(bounds, spec.shape or ())
    )
    if dtype.is_real or rng.random() < 0.5:
        return numbers(rng, dtype, shape).values
    return np.zeros(shape, dtype.container)  # places and counts that are always there


# Changes after which most are models still: attributes, sizes, element types, constants.


REALS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("i64", "i32", "u8", "i8", "i16", "u32")
LISTED = 8  # values of a constant of integers that says where or how much


class Mild:
    """A document and its weights while they are changed."""

    def __init__(self, rng: random.Random, root: Any, weights: bytes) -> None:
        self.rng, self.root, self.weights = rng, root, weights
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))

    def data(self, *kinds: str) -> list[Any]:
        """Return the <data> of layers of these types."""
        layers = [e for e in self.root.iter("layer") if e.get("type") in kinds]
        return [d for d in (e.find("data") for e in layers) if d is not None]

    def values(self, data: Any) -> np.ndarray | None:
        """Return a constant's values; None where its type is packed or it is cut off."""
        dtype = ELEMENT_TYPES.get(data.get("element_type"))
        if dtype is None or (dtype.name not in PLAIN and dtype.name != "bf16"):
            return None
        start, size = int(data.get("offset")), int(data.get("size"))
        raw = self.weights[start : start + size]
        count = len(raw) // dtype.container.itemsize
        return np.frombuffer(raw, dtype.container, count) if count else None

    def replace(self, data: Any, values: np.ndarray, kind: str) -> None:
        """Give a constant other values, which come to lie behind the weights."""
        raw = encode(values.astype(ELEMENT_TYPES[kind].container), ELEMENT_TYPES[kind])
        data.set("element_type", kind)
        data.set("offset", str(len(self.weights)))
        data.set("size", str(len(raw)))
        self.weights += raw


def mildly(rng: random.Random, root: Any, weights: bytes) -> tuple[bytes, bytes]:
    """Return the files of a copy with one or two such changes."""
    made = Mild(rng, copy.deepcopy(root), weights)
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(_MILD)(made)
    return etree.tostring(made.root, encoding="utf-8"), made.weights


def _attributes(m: Mild) -> None:
    """Give attributes of a layer other values that such attributes have."""
    layers = [e for e in m.root.iter("layer") if e.get("type") not in ("Const", "Parameter")]
    found = [e for e in layers if e.find("data") is not None and _class(e) is not None]
    if not found:
        return
    layer = m.rng.choice(found)
    data, cls = layer.find("data"), _class(layer)
    assert cls is not None
    try:
        texts = mutate_attributes(m.numbers, dict(data.attrib), cls)
    except ValueError:  # one of them is no value of its kind
        return
    data.attrib.clear()
    data.attrib.update(texts)


def _class(layer: Any) -> Any:
    return lookup(layer.get("type", ""), layer.get("version", ""))


def _sizes(m: Mild) -> None:
    """Let all axes of inputs that have one size, or one of them, have another, or be open."""
    found = [d for d in m.data("Parameter") if d.get("shape")]
    sizes = sorted({s for d in found for s in d.get("shape").split(",") if s.strip().isdigit()})
    if not sizes:
        return
    old = m.rng.choice(sizes)
    near = max(int(old) + m.rng.choice((-1, 1, 2)), 0)
    new = m.rng.choice((str(near), str(2 * int(old)), "1", "0", "?", "?", f"..{near + 2}"))
    chosen = found if m.rng.random() < 0.7 else [m.rng.choice(found)]
    for d in chosen:
        parts = [new if s == old else s for s in d.get("shape").split(",")]
        d.set("shape", ",".join(parts))


def _types(m: Mild) -> None:
    """Give all inputs and constants of one type another, or one of them alone."""
    found = m.data("Parameter", "Const")
    kinds = sorted({d.get("element_type", "") for d in found} & {*REALS, *INTEGERS})
    if not kinds:
        return
    old = m.rng.choice(kinds)
    others = REALS if old in REALS and m.rng.random() < 0.8 else (*REALS, *INTEGERS)
    new, alone = m.rng.choice(others), m.rng.random() < 0.2
    chosen = [d for d in found if d.get("element_type") == old]
    for d in [m.rng.choice(chosen)] if alone else chosen:
        values = m.values(d) if d.get("offset") is not None else None
        if values is not None and (old in REALS or values.size > LISTED):
            with np.errstate(all="ignore"):
                m.replace(d, values, new)
        elif d.get("offset") is None:
            d.set("element_type", new)


def _constants(m: Mild) -> None:
    """Change one number of a list a little, or all numbers of a constant of reals."""
    found = [(d, m.values(d)) for d in m.data("Const")]
    held = [(d, v) for d, v in found if v is not None and v.dtype.kind != "b"]
    if not held:
        return
    data, values = m.rng.choice(held)
    values, kind = values.copy(), data.get("element_type")
    if values.dtype.kind in "iu":
        at = m.rng.randrange(values.size)
        values[at] = max(
            int(values[at]) + m.rng.choice((-2, -1, 1, 1, 2)), 0 if kind[0] == "u" else -9
        )
    else:
        values = numbers(m.numbers, ELEMENT_TYPES[kind], values.shape).values
    m.replace(data, values, kind)


def _opset(m: Mild) -> None:
    """Let a layer be of another opset."""
    layers = [e for e in m.root.iter("layer") if e.get("type") not in ("Const", "Parameter")]
    if layers:
        m.rng.choice(layers).set("version", f"opset{m.rng.randint(1, 16)}")


def _operation(m: Mild) -> None:
    """Let a layer be another that takes the same: element-wise, a reduction, a pooling."""
    found = [(e, row) for e in m.root.iter("layer") for row in ALIKE if e.get("type") in row]
    if found:
        layer, row = m.rng.choice(found)
        layer.set("type", m.rng.choice(row))


ALIKE = tuple(
    tuple(row.split())
    for row in (
        "Add Subtract Multiply Divide Maximum Minimum SquaredDifference Mod FloorMod Power",
        "Equal NotEqual Less LessEqual Greater GreaterEqual",
        "LogicalAnd LogicalOr LogicalXor",
        "Abs ReLU Sigmoid Tanh Negative Sign Ceiling Floor Exp Erf Sin Cos Atan Sqrt Sinh Cosh Log",
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceProd ReduceSumSquare",
        "SoftMax LogSoftmax",
        "Convolution ConvolutionBackpropData",
        "GroupConvolution GroupConvolutionBackpropData",
    )
)
Way = Callable[[Mild], None]
_MILD: tuple[Way, ...] = (
    _attributes, _attributes, _attributes, _sizes, _sizes, _types, _types, _constants, _constants,
    _opset, _operation, _operation,
)  # fmt: skip
