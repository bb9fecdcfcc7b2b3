"""Models to mutate: a random deconvolution beside a loop, a state and plain layers, lowered.

What the runtime computes of the lowered file that nothing was done to is what mutants have to
compute. Numbers are so small that every sum is exact in f32.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import bounds
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Assign6, ReadValue6
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput, Slicing
from irdeconv.ops.control import TensorIterator
from irdeconv.ops.elementwise import Add
from irdeconv.ops.indexing import CumSum
from irdeconv.ops.slicing import StridedSlice
from irdeconv.rewrite.forms import FORMS
from support.ir_edit import Ir
from support.layers import constant, parameter, result
from support.proof_layers import ProofLayer, random_model, write_source
from support.runtime_truth import Compiled, RefusedError

INEXACT = ("Tanh", "Sigmoid", "HardSigmoid", "Clip")


@dataclass
class Base:
    """A model and its lowered twin as files, inputs at several sizes, what is computed of them."""

    original: Path
    lowered: Path
    text: str
    ir: Ir
    compiled: Compiled
    feeds: list[list[Any]] = field(default_factory=list)
    wanted: list[list[Any]] = field(default_factory=list)


def random_base(rng: np.random.Generator, folder: Path) -> Base:
    """Write original.xml and lowered.xml; draw again where the runtime cannot compute them."""
    while True:
        model = _exact_model(rng)
        original, lowered = folder / "original.xml", folder / "lowered.xml"
        whole = model.graph.copy()
        for add in (loop, state, plain):
            if rng.random() < 0.3:
                add(whole)
        write_source(ird.infer(whole), original)
        source = ird.infer(ird.read(original))
        low = ird.lower(source, str(rng.choice(list(FORMS))))
        ird.write(low.graph, lowered)
        form = next(iter(low.report)).form
        try:
            base = Base(
                original, lowered, f"{form} {model.text}", Ir.read(lowered), Compiled(lowered)
            )
        except RefusedError:
            continue
        _fill(rng, base, source, model)
        if base.feeds:
            return base


def _exact_model(rng: np.random.Generator) -> ProofLayer:
    while True:
        model = random_model(rng, budget=200)
        narrow = any(t in model.text for t in ("f16", "i8 ", "u8 "))
        specs = [s for n in model.graph.nodes() for s in n.specs or ()]
        empty = any(0 in (s.shape or ()) for s in specs)
        if not (narrow or empty or any(name in model.text for name in INEXACT)) and not any(
            n.type in INEXACT for n in model.graph.nodes()
        ):
            return model


def _fill(rng: np.random.Generator, base: Base, source: Graph, model: ProofLayer) -> None:
    """Add inputs, at up to 4 sizes where these are open, and what the runtime makes of them.

    The package itself computes what the original means: the runtime's own deconvolution corrupts
    memory where output_shape is not known beforehand.
    """
    for turn in range(6 if model.dynamic else 2):
        feeds = random_feeds(rng, source, large=turn == 1)
        try:
            found = base.compiled.run(feeds)
        except RefusedError:
            continue
        if not _as_defined(source, model.graph, feeds, found):
            return  # a defect of the runtime: its values say nothing
        if not any(np.any(v) for v in found):
            continue  # zeros hide too much
        base.feeds.append(feeds)
        base.wanted.append(found)
        if len(base.feeds) == 4:
            return


def _as_defined(source: Graph, model: Graph, feeds: list[Any], found: list[Any]) -> bool:
    """Whether the package computes the same of the deconvolution, from its definition."""
    given = {p.name: f for p, f in zip(source.parameters, feeds, strict=True)}
    given = {p.name: given[p.name] for p in model.parameters}
    try:
        wanted = next(iter(ird.run(model, given, form=None, fuse=False).values()))
    except ird.IrdeconvError:
        return False  # an output_shape beyond the system's limits
    return any(w.shape == wanted.shape and np.array_equal(w, wanted) for w in found)


def random_feeds(rng: np.random.Generator, source: Graph, *, large: bool = False) -> list[Any]:
    """Quarters or integers -4..4; with `large` one open size lies between 65 and 130."""
    out = []
    for node in source.parameters:
        spec = node.specs[0]  # type: ignore[index]
        shape = [_size(rng, d) for d in spec.shape]
        open_axes = [a for a, d in enumerate(spec.shape) if not isinstance(d, int)]
        if large and open_axes:
            at = int(rng.choice(open_axes))
            low, high = bounds(spec.shape[at])
            shape[at] = max(low, min(high or 130, int(rng.integers(65, 131))))
        if node.name == "output_shape":
            out.append(rng.integers(1, 9, shape).astype(spec.dtype.container))
        elif node.name == "like":
            out.append(np.zeros(shape, np.float32))
        else:
            low = 0 if spec.dtype.kind == "uint" else -4
            values = rng.integers(low * 4, 17, shape) / 4  # sums of these are exact, too
            out.append(values.astype(spec.dtype.container))
    return out


def _size(rng: np.random.Generator, dim: Any) -> int:
    if isinstance(dim, int):
        return dim
    low, high = bounds(dim)
    low = max(low, 1)
    return int(rng.integers(low, min(high or low + 6, low + 6) + 1))


def loop(g: Graph) -> None:
    """Add a TensorIterator over rows: x + constant, ReLU."""
    inner, rows = Graph(), Slicing(0)
    row = parameter(inner, (1, 3), np.float32, "row")
    shift = constant(inner, np.array([[1, -2, 3]], np.float32), "shift")
    y = inner.add(Add(), [row, shift], name="shifted")
    result(inner, Value(inner.add(ReLU(), [Value(y.id)], name="positive").id), "done")
    ends = BodyInput(row.node, 0, rows), BodyOutput(inner.results[0].id, 0, rows)
    body = Body(inner, ends[:1], ends[1:])
    x = parameter(g, (4, 3), np.float32, "rows")
    result(g, Value(g.add(TensorIterator(bodies=(body,)), [x], name="loop").id), "looped")


def state(g: Graph) -> None:
    """Add a running sum."""
    x = parameter(g, (2, 3), np.float32, "step")
    read = g.add(ReadValue6("total", (2, 3), f32), [x], name="read")
    total = Value(g.add(Add(), [Value(read.id), x], name="sum").id)
    g.add(Assign6("total"), [total], name="assign")
    result(g, total, "sum")


def plain(g: Graph) -> None:
    """Add layers of which irdeconv models some attributes: CumSum, StridedSlice."""
    x, axis = parameter(g, (2, 4), np.float32, "table"), constant(g, np.int64(1), "axis")
    summed = Value(g.add(CumSum(), [x, axis], name="running").id)
    rows = {"begin": [0, 1], "end": [0, 4], "step": [1, 2]}
    lists = [constant(g, np.array(values), name) for name, values in rows.items()]
    odd = g.add(StridedSlice((1, 0), (1, 1)), [summed, *lists], name="odd")
    result(g, Value(odd.id), "odd")
