"""Kinds of edits of a written IR: constants, edges, layers, states, bodies (see edit_kinds)."""

from __future__ import annotations

import numpy as np
from lxml import etree

from support.edit_kinds import Edit, pick, said
from support.ir_edit import NUMPY, Element, Ir


def element(ir: Ir, rng: np.random.Generator) -> str | None:
    """One element of a constant is 1 or 2 more or less, of the other sign, or 0."""
    constant = pick(rng, ir.constants())
    if constant is None:
        return None
    array = ir.array(constant)
    at = tuple(int(rng.integers(n)) for n in array.shape)
    before, kind = array[at], int(rng.integers(4))
    if array.dtype == np.bool_:
        array[at] = not before
    else:
        by = rng.choice([-2, -1, 1, 2])
        with np.errstate(all="ignore"):
            array[at] = (before + by.astype(array.dtype), -before, 0, before * 2)[kind]
    ir.store(constant, array)
    return f"{said(constant)} {list(at)} {before} -> {array[at]}"


def elements_swapped(ir: Ir, rng: np.random.Generator) -> str | None:
    """Two elements of a constant are exchanged."""
    constant = pick(rng, [c for c in ir.constants() if ir.array(c).size > 1])
    if constant is None:
        return None
    array = ir.array(constant)
    a, b = rng.choice(array.size, 2, replace=False)
    array.flat[[a, b]] = array.flat[[b, a]]
    ir.store(constant, array)
    return f"{said(constant)} elements {a} and {b} exchanged"


def rows(ir: Ir, rng: np.random.Generator) -> str | None:
    """A filter flipped, rolled, or with two axes of one size exchanged."""
    constant = pick(rng, [c for c in ir.constants("f32", "f16", "f64") if ir.array(c).ndim > 1])
    if constant is None:
        return None
    array = ir.array(constant)
    kind, axis = int(rng.integers(3)), int(rng.integers(array.ndim))
    if kind == 2:
        other = int(rng.integers(array.ndim))
        ir.store(constant, array.swapaxes(axis, other).reshape(array.shape))
        return f"{said(constant)} axes {axis} and {other} exchanged"
    ir.store(constant, np.flip(array, axis) if kind == 0 else np.roll(array, 1, axis))
    return f"{said(constant)} {('flipped', 'rolled')[kind]} on axis {axis}"


def last_bit(ir: Ir, rng: np.random.Generator) -> str | None:
    """A weight is the next floating-point number."""
    constant = pick(rng, ir.constants("f32"))
    if constant is None:
        return None
    array = ir.array(constant)
    at = int(rng.integers(array.size))
    # A quarter, not the last place: the runtime's sums would round that away.
    array.flat[at] += np.float32(0.25)
    ir.store(constant, array)
    return f"{said(constant)} element {at} is a quarter more"


def not_finite(ir: Ir, rng: np.random.Generator) -> str | None:
    """A weight is infinite or no number, or a zero is negative."""
    constant = pick(rng, ir.constants("f32", "f16"))
    if constant is None:
        return None
    array = ir.array(constant)
    zeros = np.flatnonzero(array == 0)
    value = pick(rng, [np.nan, np.inf, -np.inf, -0.0])
    if value == 0:
        if not len(zeros):
            return None
        at = int(pick(rng, zeros))
    else:
        at = int(rng.integers(array.size))
    array.flat[at] = value
    ir.store(constant, array)
    return f"{said(constant)} element {at} -> {value}"


def constant_shape(ir: Ir, rng: np.random.Generator) -> str | None:
    """The same elements in another shape."""
    constant = pick(rng, ir.constants())
    if constant is None:
        return None
    array = ir.array(constant)
    shapes = [(array.size,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]]
    shapes += [tuple(n for n in array.shape if n != 1)]
    shape = pick(rng, [s for s in shapes if s != array.shape])
    if shape is None:
        return None
    ir.store(constant, array.reshape(shape))
    return f"{said(constant)} {list(array.shape)} -> {list(shape)}"


def constant_type(ir: Ir, rng: np.random.Generator) -> str | None:
    """The elements in another type, converted or as they are."""
    constant = pick(rng, ir.constants())
    if constant is None:
        return None
    data = constant.find("data")
    before = data.get("element_type")
    after = pick(rng, [t for t in NUMPY if t != before])
    if rng.random() < 0.7:
        with np.errstate(all="ignore"):
            ir.store(constant, ir.array(constant).astype(NUMPY[after]))
    data.set("element_type", after)
    return f"{said(constant)} {before} -> {after}"


def constant_place(ir: Ir, rng: np.random.Generator) -> str | None:
    """Another offset, another size."""
    data = pick(rng, ir.of_type("Const")).find("data")
    name = pick(rng, ["offset", "offset", "size"])
    before = int(data.get(name))
    choices = [before + 4, before - 4, before + 8, 0, len(ir.blob), 2**40, -8]
    data.set(name, str(pick(rng, [c for c in choices if c != before])))
    return f"{said(data.getparent())} {name} {before} -> {data.get(name)}"


def shared(ir: Ir, rng: np.random.Generator) -> str | None:
    """A constant takes its elements from where another one of its size has them."""
    found = [c.find("data") for c in ir.of_type("Const")]
    pairs = [
        (a, b) for a in found for b in found
        if a.get("size") == b.get("size") and a.get("offset") != b.get("offset")
    ]  # fmt: skip
    at = pick(rng, pairs)
    if at is None:
        return None
    at[0].set("offset", at[1].get("offset"))
    return f"{said(at[0].getparent())} has the bytes of {said(at[1].getparent())}"


def file_bytes(ir: Ir, rng: np.random.Generator) -> str | None:
    """One byte of the `.bin` is another, the end is missing, there is more at the end."""
    kind = int(rng.integers(4))
    if not ir.blob:
        return None
    if kind == 0:
        ir.blob += bytes(8)
        return "8 bytes more"
    if kind == 1:
        del ir.blob[-int(rng.integers(1, 9)) :]
        return "bytes missing"
    at = int(rng.integers(len(ir.blob)))
    ir.blob[at] ^= 1 << int(rng.integers(8))
    return f"byte {at}"


def edge_source(ir: Ir, rng: np.random.Generator) -> str | None:
    """An input comes from another layer."""
    edge = pick(rng, ir.edges)
    others = [la for la in ir.not_of_type("Result") if la.get("id") != edge.get("from-layer")]
    layer = pick(rng, others)
    port = layer.find("output/port")
    if port is None:
        return None
    edge.set("from-layer", layer.get("id"))
    edge.set("from-port", port.get("id"))
    return f"{said(ir.layer(edge.get('to-layer')))} reads {said(layer)}"


def inputs_swapped(ir: Ir, rng: np.random.Generator) -> str | None:
    """Two inputs of a layer are exchanged."""
    layer = pick(rng, [la for la in ir.layers if len(ir.edges_to(la)) > 1])
    if layer is None:
        return None
    a, b = (ir.edges_to(layer)[i] for i in rng.choice(len(ir.edges_to(layer)), 2, replace=False))
    first, second = a.get("to-port"), b.get("to-port")
    a.set("to-port", second)
    b.set("to-port", first)
    return f"{said(layer)} inputs {first} and {second} exchanged"


def edge_count(ir: Ir, rng: np.random.Generator) -> str | None:
    """An edge is missing or stands twice."""
    edge = pick(rng, ir.edges)
    to = said(ir.layer(edge.get("to-layer")))
    if rng.random() < 0.5:
        edge.getparent().remove(edge)
        return f"an edge to {to} is missing"
    ends = [edge.get(n) for n in ("from-layer", "from-port", "to-layer", "to-port")]
    ir.add_edge(*ends)
    return f"an edge to {to} stands twice"


def edge_port(ir: Ir, rng: np.random.Generator) -> str | None:
    """An edge begins or ends at another port, also at one that is not there."""
    edge = pick(rng, ir.edges)
    end = pick(rng, ["from-port", "to-port"])
    before = edge.get(end)
    edge.set(end, str(pick(rng, [v for v in (0, 1, 2, 3, 99) if str(v) != before])))
    return f"edge to {said(ir.layer(edge.get('to-layer')))}: {end} {before} -> {edge.get(end)}"


def edge_order(ir: Ir, rng: np.random.Generator) -> str | None:
    """Edges in another order: nothing changes."""
    parent = ir.root.find("edges")
    found = list(parent)
    for i in rng.permutation(len(found)):
        parent.append(found[int(i)])
    return "edges in another order"


def layer_order(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer stands elsewhere in the file; among inputs and results that is their order."""
    layers = ir.root.find("layers")
    layer = pick(rng, ir.layers)
    layers.remove(layer)
    layers.insert(int(rng.integers(len(layers) + 1)), layer)
    return f"{said(layer)} stands elsewhere"


def ids(ir: Ir, rng: np.random.Generator) -> str | None:
    """Layers have other ids: nothing changes."""
    order = rng.permutation(len(ir.layers))
    names = {la.get("id"): str(10 + int(i)) for la, i in zip(ir.layers, order, strict=True)}
    for layer in ir.layers:
        layer.set("id", names[layer.get("id")])
    for edge in ir.edges:
        for end in ("from-layer", "to-layer"):
            edge.set(end, names[edge.get(end)])
    return "layers have other ids"


def port_ids(ir: Ir, rng: np.random.Generator) -> str | None:
    """The ports of a layer have other ids, in the same order: nothing changes."""
    layer = pick(rng, ir.not_of_type("TensorIterator", "Loop", "If"))
    by, id = int(rng.integers(1, 9)), layer.get("id")
    for port in layer.iter("port"):
        port.set("id", str(int(port.get("id")) + by))
    for edge in ir.edges:
        for layer_end, port_end in (("from-layer", "from-port"), ("to-layer", "to-port")):
            if edge.get(layer_end) == id:
                edge.set(port_end, str(int(edge.get(port_end)) + by))
    return f"{said(layer)} ports by {by}"


def bypass(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer is left out: who reads it reads its first input."""
    found = [la for la in ir.not_of_type("Const", "Parameter", "Result") if ir.edges_to(la)]
    layer = pick(rng, found)
    if layer is None:
        return None
    source = ir.edges_to(layer)[0]
    for edge in ir.edges_from(layer):
        edge.set("from-layer", source.get("from-layer"))
        edge.set("from-port", source.get("from-port"))
    ir.remove(layer)
    return f"without {said(layer)}"


def _inserted(ir: Ir, rng: np.random.Generator, kinds: tuple[str, ...]) -> str | None:
    """Put a layer of one input on an edge; its port declares what the edge carried."""
    edge = pick(rng, ir.edges)
    source, type_name = ir.layer(edge.get("from-layer")), pick(rng, kinds)
    ports = [p for p in source.findall("output/port") if p.get("id") == edge.get("from-port")]
    if not ports:
        return None
    precision, more = ports[0].get("precision"), ""
    if type_name == "Convert":
        type_of = {"FP32": "f32", "I64": "i64", "I32": "i32", "FP16": "f16", "FP64": "f64"}
        if precision not in type_of:
            return None
        more = f'<data destination_type="{type_of[precision]}"/>'
    dims = "".join(f"<dim>{d.text}</dim>" for d in ports[0].iter("dim"))
    id, version = ir.new_id(), "opset16" if type_name == "Identity" else "opset1"
    layer = etree.fromstring(
        f'<layer id="{id}" name="new" type="{type_name}" version="{version}">{more}'
        f'<input><port id="0" precision="{precision}">{dims}</port></input>'
        f'<output><port id="1" precision="{precision}">{dims}</port></output></layer>'
    )
    source.addnext(layer)
    ends = edge.get("from-layer"), edge.get("from-port")
    edge.set("from-layer", id)
    edge.set("from-port", "1")
    ir.add_edge(*ends, id, "0")
    return f"{type_name} behind {said(source)}"


def inserted(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer of one input stands on an edge."""
    kinds = ("ReLU", "Negative", "Abs", "Sigmoid", "Floor", "Sign")
    return _inserted(ir, rng, kinds)


def inserted_nothing(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer that does nothing stands on an edge: a Convert to the same type, an Identity."""
    return _inserted(ir, rng, ("Convert", "Convert", "Identity"))


def dead(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer that nobody reads is added: nothing changes."""
    source: Element = pick(rng, ir.not_of_type("Const", "Result", "Assign"))
    port = source.find("output/port")
    if port is None:
        return None
    id, dims = ir.new_id(), "".join(f"<dim>{d.text}</dim>" for d in port.iter("dim"))
    precision = port.get("precision")
    layer = etree.fromstring(
        f'<layer id="{id}" name="dead" type="ReLU" version="opset1">'
        f'<input><port id="0" precision="{precision}">{dims}</port></input>'
        f'<output><port id="1" precision="{precision}">{dims}</port></output></layer>'
    )
    source.addnext(layer)
    ir.add_edge(source.get("id"), port.get("id"), id, "0")
    return f"nobody reads a ReLU behind {said(source)}"


KINDS: tuple[Edit, ...] = (
    element, elements_swapped, rows, last_bit, not_finite, constant_shape, constant_type,
    constant_place, shared, file_bytes, edge_source, inputs_swapped, edge_count, edge_port,
    edge_order, layer_order, ids, port_ids, bypass, inserted, inserted_nothing, dead,
)  # fmt: skip
