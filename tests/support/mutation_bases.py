"""Models to mutate: a random deconvolution beside a loop, a state and plain layers, lowered.

What the runtime computes of the lowered file that nothing was done to is what mutants have to
compute. Numbers are so small that every sum is exact in f32.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import bounds
from irdeconv.rewrite.forms import FORMS
from support import irbuild as ib
from support.ir_edit import Ir
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
        write_source(model.graph, original)
        ir = Ir.read(original)
        for add in (loop, state, plain):
            if rng.random() < 0.3:
                add(ir)
        ir.write(original)
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
        empty = any(0 in (s.shape or ()) for s in _specs(model.graph))
        if not (narrow or empty or any(name in model.text for name in INEXACT)) and not any(
            n.type in INEXACT for n in model.graph.nodes()
        ):
            return model


def _specs(graph: Graph) -> list[Any]:
    return [s for n in graph.nodes() for s in n.specs or ()]


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


def _add(ir: Ir, xml: str, *sources: tuple[str, str]) -> str:
    """Add a layer with inputs from (layer, port); return its id."""
    id = ir.add_layer(xml).get("id")
    for port, (source, source_port) in enumerate(sources):
        ir.add_edge(source, source_port, id, str(port))
    return str(id)


def _result(ir: Ir, source: tuple[str, str], name: str, dims: tuple[int, ...]) -> None:
    id = ir.new_id()
    ir.root.find("layers").append(_parsed(ib.result(id, f"{name}/sink", dims)))  # type: ignore[arg-type]
    ir.add_edge(*source, id, "0")


def _parsed(xml: str) -> Any:
    from lxml import etree

    return etree.fromstring(xml)


def loop(ir: Ir) -> None:
    """Add a TensorIterator over rows: x + constant, ReLU."""
    offset = len(ir.blob)
    ir.blob += np.array([[1, -2, 3]], np.float32).tobytes()
    row = (1, 3)
    inner = "".join(
        (
            ib.parameter(0, "row", row),
            ib.const(1, "shift", row, offset, 12),
            ib.add(2, "shifted", row),
            ib.relu(3, "positive", row),
            ib.result(4, "done", row),
        )
    )
    ends = ib.edges((0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0))
    text = (
        '<port_map><input external_port_id="0" internal_layer_id="0" axis="0" start="0" end="-1" '
        'stride="1" part_size="1"/><output external_port_id="1" internal_layer_id="4" axis="0" '
        'start="0" end="-1" stride="1" part_size="1"/></port_map>'
        f"<body><layers>{inner}</layers><edges>{ends}</edges></body>"
    )
    x = _add(ir, ib.parameter(int(ir.new_id()), "rows", (4, 3), names="rows"))
    ports = {
        "inputs": [ib.port(0, (4, 3))],
        "outputs": [ib.port(1, (4, 3), more=' names="looped"')],
    }
    xml = ib.layer(ir.new_id(), "loop", "TensorIterator", body=text, **ports)
    _result(ir, (_add(ir, xml, (x, "0")), "1"), "looped", (4, 3))


def state(ir: Ir) -> None:
    """Add a running sum."""
    x = _add(ir, ib.parameter(int(ir.new_id()), "step", (2, 3), names="step"))
    ports: dict[str, Any] = {"inputs": [ib.port(0, (2, 3))], "outputs": [ib.port(1, (2, 3))]}
    data = 'variable_id="total" variable_type="f32" variable_shape="2,3"'
    read = _add(
        ir, ib.layer(ir.new_id(), "read", "ReadValue", data, version="opset6", **ports), (x, "0")
    )
    total = _add(ir, ib.add(int(ir.new_id()), "sum", (2, 3)), (read, "1"), (x, "0"))
    data = 'variable_id="total"'
    _add(
        ir, ib.layer(ir.new_id(), "assign", "Assign", data, version="opset6", **ports), (total, "2")
    )
    _result(ir, (total, "2"), "sum", (2, 3))


def plain(ir: Ir) -> None:
    """Add layers of which irdeconv models some attributes: CumSum, StridedSlice, Relu."""
    offset = len(ir.blob)
    numbers = (np.array([1]), np.array([0, 1]), np.array([0, 4]), np.array([1, 2]))
    ir.blob += b"".join(n.astype(np.int64).tobytes() for n in numbers)
    x = _add(ir, ib.parameter(int(ir.new_id()), "table", (2, 4), names="table"))
    axis = _add(ir, ib.const(int(ir.new_id()), "axis", (), offset, 8, "i64"))
    begin, end, step = (
        _add(ir, ib.const(int(ir.new_id()), name, (2,), offset + 8 + 16 * i, 16, "i64"))
        for i, name in enumerate(("begin", "end", "step"))
    )
    xml = ib.layer(
        ir.new_id(), "running", "CumSum", 'exclusive="false" reverse="false"', version="opset3",
        inputs=[ib.port(0, (2, 4)), ib.port(1, (), "I64")], outputs=[ib.port(2, (2, 4))],
    )  # fmt: skip
    summed = _add(ir, xml, (x, "0"), (axis, "0"))
    masks = 'begin_mask="1,0" end_mask="1,1" new_axis_mask="" shrink_axis_mask="" ellipsis_mask=""'
    xml = ib.layer(
        ir.new_id(), "odd", "StridedSlice", masks,
        inputs=[ib.port(0, (2, 4)), *(ib.port(i, (2,), "I64") for i in (1, 2, 3))],
        outputs=[ib.port(4, (2, 2), more=' names="odd"')],
    )  # fmt: skip
    odd = _add(ir, xml, (summed, "2"), (begin, "0"), (end, "0"), (step, "0"))
    _result(ir, (odd, "4"), "odd", (2, 2))
