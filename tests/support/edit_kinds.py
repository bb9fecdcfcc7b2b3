"""Kinds of edits of a written IR: attributes, types, versions, interface, marks, text.

Each takes a copy of an IR, changes it in place in one way that `rng` chooses, and returns what it
did in words, or None where it finds nothing to change. Some change nothing that is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lxml import etree

from support.ir_edit import Element, Ir

Edit = Callable[[Ir, np.random.Generator], str | None]
PRECISIONS = ("FP32", "FP16", "I64", "I32", "I8", "U8", "BOOL")
ELEMENT_TYPES = ("f32", "f16", "i64", "i32", "i8", "u8")
# Names of attributes with their other values.
CHOICES: dict[str, tuple[str, ...]] = {
    "auto_pad": ("explicit", "same_upper", "same_lower", "valid", "notset"),
    "pad_mode": ("constant", "edge", "reflect", "symmetric"),
    "mode": ("blocks_first", "depth_first", "numpy", "bidirectional", "explicit"),
    "special_zero": ("true", "false"),
    "auto_broadcast": ("numpy", "none", "pdpd"),
    "output_type": ("i32", "i64"),
    "destination_type": ELEMENT_TYPES,
    "m_pythondiv": ("true", "false"),
    "transpose_a": ("true", "false"),
    "transpose_b": ("true", "false"),
    "rounding_type": ("floor", "ceil"),
    "keep_dims": ("true", "false"),
}
# Attributes that files may leave out.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum"), ("auto_broadcast",)
    ),
    **dict.fromkeys(("Convolution", "GroupConvolution"), ("auto_pad", "output_padding")),
    "Concat": ("axis",),
    "Divide": ("auto_broadcast", "m_pythondiv"),
    "Gather": ("batch_dims", "axis"),
    "Pad": ("pad_mode", "pad_value"),
    "Reshape": ("special_zero",),
    "ShapeOf": ("output_type",),
    "Unsqueeze": ("axis",),
}
# Layers of the same ports that compute something else, or the same.
SIBLINGS: tuple[tuple[str, ...], ...] = (
    ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference", "Mod",
     "FloorMod", "PRelu"),
    ("ReLU", "Abs", "Sigmoid", "Tanh", "Negative", "Floor", "Exp", "Sign", "Sqrt", "ShapeOf"),
    ("Squeeze", "Unsqueeze", "Transpose", "Reshape", "Tile", "Broadcast", "ReduceSum", "ReduceMax"),
    ("DepthToSpace", "SpaceToDepth"),
    ("Convolution", "GroupConvolution"),
)  # fmt: skip


def pick(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))] if len(items) else None


def said(layer: Element) -> str:
    return f"{layer.get('type')} {layer.get('name')}"


def attribute_list(ir: Ir, rng: np.random.Generator) -> str | None:
    """One number of a list of integers, or of a single integer, 1 or 2 more or less."""
    found = pick(rng, list(ir.lists()))
    if found is None:
        return None
    data, name = found
    parts = data.get(name).split(",")
    at = int(rng.integers(len(parts)))
    parts[at] = str(int(parts[at]) + int(rng.choice([-2, -1, 1, 2])))
    before = data.get(name)
    data.set(name, ",".join(parts))
    return f"{said(data.getparent())} {name} {before} -> {data.get(name)}"


def attribute_choice(ir: Ir, rng: np.random.Generator) -> str | None:
    """Another value of an attribute with few values."""
    found = [
        (layer.find("data"), name)
        for layer in ir.layers
        if layer.find("data") is not None
        for name in layer.find("data").keys()  # noqa: SIM118
        if name in CHOICES
    ]
    at = pick(rng, found)
    if at is None:
        return None
    data, name = at
    before = data.get(name)
    data.set(name, pick(rng, [v for v in CHOICES[name] if v != before]))
    return f"{said(data.getparent())} {name} {before} -> {data.get(name)}"


def attribute_dropped(ir: Ir, rng: np.random.Generator) -> str | None:
    """An attribute is missing."""
    found = [la.find("data") for la in ir.layers if la.find("data") is not None]
    data = pick(rng, [d for d in found if len(d.keys())])
    if data is None:
        return None
    name = pick(rng, data.keys())
    del data.attrib[name]
    return f"{said(data.getparent())} without {name}"


def attribute_new(ir: Ir, rng: np.random.Generator) -> str | None:
    """An attribute that the layer's type has and the file leaves out; seldom one unheard of."""
    if rng.random() < 0.1:
        layer, name, value = pick(rng, ir.not_of_type("Const", "Result")), "unheard_of", "1"
    else:
        found = [
            (layer, name)
            for layer in ir.layers
            for name in LEFT_OUT.get(layer.get("type"), ())
            if layer.find("data") is None or name not in layer.find("data").attrib
        ]
        at = pick(rng, found)
        if at is None:
            return None
        layer, name = at
        value = pick(rng, CHOICES.get(name, ("0", "1", "-1")))
    data = layer.find("data")
    if data is None:
        data = etree.Element("data")
        layer.insert(0, data)
    data.set(name, value)
    return f"{said(layer)} with {name}={value}"


def attribute_text(ir: Ir, rng: np.random.Generator) -> str | None:
    """A number spelled as none, or far out of range."""
    found = pick(rng, list(ir.lists()))
    if found is None:
        return None
    data, name = found
    parts = data.get(name).split(",")
    parts[int(rng.integers(len(parts)))] = pick(
        rng, ["", "x", "1.5", str(2**31), str(2**63), "-1", "0"]
    )
    data.set(name, ",".join(parts))
    return f"{said(data.getparent())} {name}={data.get(name)!r}"


def attribute_moved(ir: Ir, rng: np.random.Generator) -> str | None:
    """Two lists of one layer exchanged, such as strides and dilations."""
    rows = [(d, n) for d, n in ir.lists() if "," in d.get(n)]
    pairs = [
        (d, n, m) for d, n in rows for e, m in rows if d is e and n < m and d.get(n) != d.get(m)
    ]
    found = pick(rng, pairs)
    if found is None:
        return None
    data, a, b = found
    first, second = data.get(a), data.get(b)
    data.set(a, second)
    data.set(b, first)
    return f"{said(data.getparent())} {a} and {b} exchanged"


def attribute_spelled(ir: Ir, rng: np.random.Generator) -> str | None:
    """Blanks in lists, attributes in another order: nothing changes."""
    found = pick(rng, list(ir.lists()))
    if found is None:
        return None
    data, name = found
    data.set(name, data.get(name).replace(",", ", "))
    items = list(data.items())[::-1]
    data.attrib.clear()
    for key, value in items:
        data.set(key, value)
    return f"{said(data.getparent())} {name} with blanks, attributes in reverse"


def version(ir: Ir, rng: np.random.Generator) -> str | None:
    """Another operation set."""
    layer = pick(rng, ir.not_of_type("Const", "Parameter", "Result"))
    other = [f"opset{n}" for n in (1, 3, 4, 5, 6, 8, 11, 12, 13, 15)] + ["extension", "onnx"]
    before = layer.get("version")
    layer.set("version", pick(rng, [v for v in other if v != before]))
    return f"{said(layer)} {before} -> {layer.get('version')}"


def layer_type(ir: Ir, rng: np.random.Generator) -> str | None:
    """Another operation of the same ports."""
    found = [(la, family) for family in SIBLINGS for la in ir.of_type(*family)]
    at = pick(rng, found)
    if at is None:
        return None
    layer, family = at
    before = said(layer)
    layer.set("type", pick(rng, [t for t in family if t != layer.get("type")]))
    return f"{before} becomes {layer.get('type')}"


def parameter_shape(ir: Ir, rng: np.random.Generator) -> str | None:
    """An input's dimension other, opened, or limited."""
    data = pick(rng, ir.of_type("Parameter")).find("data")
    parts = data.get("shape").split(",")
    at = int(rng.integers(len(parts)))
    choices = ["?", "1..9", "3..", "2"]
    if parts[at].isdigit():
        choices += [str(int(parts[at]) + 1), str(max(int(parts[at]) - 1, 0))]
    before = data.get("shape")
    parts[at] = pick(rng, [c for c in choices if c != parts[at]])
    data.set("shape", ",".join(parts))
    return f"{said(data.getparent())} {before} -> {data.get('shape')}"


def parameter_type(ir: Ir, rng: np.random.Generator) -> str | None:
    """An input of another type."""
    data = pick(rng, ir.of_type("Parameter")).find("data")
    before = data.get("element_type")
    data.set("element_type", pick(rng, [t for t in ELEMENT_TYPES if t != before]))
    return f"{said(data.getparent())} {before} -> {data.get('element_type')}"


def port_dims(ir: Ir, rng: np.random.Generator) -> str | None:
    """A port declares another size; the runtime infers sizes itself."""
    dim = pick(rng, [d for layer in ir.layers for d in layer.iter("dim") if d.text])
    if dim is None:
        return None
    before = dim.text
    dim.text = pick(rng, [v for v in ("-1", str(int(before) + 1), "1", "64") if v != before])
    port = dim.getparent()
    return f"{said(port.getparent().getparent())} port {port.get('id')} dim {before} -> {dim.text}"


def port_dims_swapped(ir: Ir, rng: np.random.Generator) -> str | None:
    """Two declared sizes of a port are exchanged, or one is missing."""
    ports = [p for la in ir.layers for p in la.iter("port") if len(list(p.iter("dim"))) > 1]
    port = pick(rng, ports)
    if port is None:
        return None
    dims = list(port.iter("dim"))
    if rng.random() < 0.3:
        port.remove(dims[-1])
    else:
        a, b = rng.choice(len(dims), 2, replace=False)
        dims[a].text, dims[b].text = dims[b].text, dims[a].text
    return f"{said(port.getparent().getparent())} port {port.get('id')} declares other dims"


def port_precision(ir: Ir, rng: np.random.Generator) -> str | None:
    """A port declares another precision."""
    port = pick(rng, [p for la in ir.layers for p in la.iter("port") if p.get("precision")])
    before = port.get("precision")
    port.set("precision", pick(rng, [p for p in PRECISIONS if p != before]))
    return f"{said(port.getparent().getparent())} {before} -> {port.get('precision')}"


def tensor_names(ir: Ir, rng: np.random.Generator) -> str | None:
    """Tensor names changed, dropped, moved to another port, doubled."""
    named = [p for la in ir.layers for p in la.findall("output/port") if p.get("names")]
    port = pick(rng, named)
    if port is None:
        return None
    before, kind = port.get("names"), int(rng.integers(4))
    others = [p for la in ir.layers for p in la.findall("output/port") if p is not port]
    if kind == 0:
        port.set("names", before + "_other")
    elif kind == 1:
        del port.attrib["names"]
    elif kind == 2:
        port.set("names", f"{before},more")
    else:
        other = pick(rng, others)
        old = other.get("names", "")
        other.set("names", before)
        port.set("names", old)
    return f"tensor names {before}: {('changed', 'dropped', 'one more', 'moved')[kind]}"


def layer_name(ir: Ir, rng: np.random.Generator) -> str | None:
    """A layer inside is called otherwise, also like another one, or has no name."""
    layer = pick(rng, ir.not_of_type("Parameter", "Result"))
    before = said(layer)
    taken = pick(rng, ir.layers).get("name")
    layer.set("name", pick(rng, ["renamed", taken, before + "/ü <&>"]))
    return f"{before} is called {layer.get('name')}"


def interface_name(ir: Ir, rng: np.random.Generator) -> str | None:
    """Two inputs or two results exchange their names."""
    kind = pick(rng, ["Parameter", "Result"])
    found = ir.of_type(kind)
    if len(found) < 2:
        return None
    a, b = (found[i] for i in rng.choice(len(found), 2, replace=False))
    first, second = a.get("name"), b.get("name")
    a.set("name", second)
    b.set("name", first)
    return f"{kind}s {first} and {second} exchange names"


def mark(ir: Ir, rng: np.random.Generator) -> str | None:
    """A mark of zero-insertion says something else, stands elsewhere, or is gone."""
    marks = [m for m in ir.root.iter("attribute") if m.get("strides")]
    kind = int(rng.integers(3)) if marks else 2
    if kind == 0:
        found = pick(rng, marks)
        found.set("strides", pick(rng, ["2,2", "3,3", "1,2", "2", "4,1,1", "x", ""]))
        return f"a mark says strides {found.get('strides')}"
    if kind == 1:
        info = pick(rng, marks).getparent()
        info.getparent().remove(info)
        return "a mark is gone"
    layer = pick(rng, ir.of_type("Reshape", "Pad", "Convolution", "GroupConvolution", "ReLU"))
    if layer is None or layer.find("rt_info") is not None:
        return None
    strides = pick(rng, ["2", "2,2", "2,3", "1,1", "2,2,2"])
    text = f'<attribute name="irdeconv_zero_insertion" version="0" strides="{strides}"/>'
    layer.append(etree.fromstring(f"<rt_info>{text}</rt_info>"))
    return f"{said(layer)} is marked as zero-insertion by {strides}"


def information(ir: Ir, rng: np.random.Generator) -> str | None:
    """Information of other tools is added to a layer or to the model."""
    texts = (
        '<rt_info><attribute name="fused_names" version="0" value="a,b"/></rt_info>',
        '<rt_info><attribute name="decompression" version="0"/></rt_info>',
        '<rt_info><attribute name="old_api_map_order" version="0" value="0,2,3,1"/></rt_info>',
        '<rt_info><attribute name="old_api_map_element_type" version="0" value="f16"/></rt_info>',
        '<rt_info><attribute name="precise" version="0"/></rt_info>',
    )
    info = etree.fromstring(pick(rng, texts))
    layer = pick(rng, ir.layers)
    if layer.find("rt_info") is not None:
        return None
    layer.append(info)
    return f"{said(layer)} has {info[0].get('name')}"


def file_text(ir: Ir, rng: np.random.Generator) -> str | None:
    """A comment, another name or version of the model, unknown elements."""
    kind = int(rng.integers(5))
    if kind == 0:
        ir.root.insert(0, etree.Comment("nothing"))
    elif kind == 1:
        ir.root.set("name", "other")
    elif kind == 2:
        ir.root.set("version", str(pick(rng, [10, 12, 7])))
    elif kind == 3:
        etree.SubElement(ir.root, "meta_data").set("value", "x")
    else:
        pick(rng, ir.layers).set("unknown", "x")
    return f"the file's text ({('comment', 'name', 'version', 'element', 'attribute')[kind]})"


KINDS: tuple[Edit, ...] = (
    attribute_list, attribute_choice, attribute_dropped, attribute_new, attribute_text,
    attribute_moved, attribute_spelled, version, layer_type, parameter_shape, parameter_type,
    port_dims, port_dims_swapped, port_precision, tensor_names, layer_name, interface_name, mark,
    information, file_text,
)  # fmt: skip
