"""Lowered files that ask for time or memory: huge numbers, deep and wide graphs, cycles.

The runtime refuses them, or dies; the checker has to say so in seconds and little memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from support import irbuild as ib
from support.ir_edit import Ir
from support.ir_text import write_ir
from support.layers import Layer

CASES: dict[str, Callable[[Ir], None]] = {}
LAYER = Layer(1, (4, 4), None, 2, 3, (3, 3), (2, 2), (1, 1), (0, 0), (0, 0), (0, 0))
HUGE = 2**62
HUGE_TREE = etree.XMLParser(huge_tree=True)
FAR = (2**40, 2**31, HUGE, -HUGE)


def write(edit: Callable[[Ir], None], folder: Path) -> None:
    """Write original.xml and lowered.xml, the latter as `lower` writes it and then changed."""
    import irdeconv as ird

    w = np.arange(1, 55, dtype=np.float32).reshape(LAYER.filter_shape)
    write_ir(folder / "original.xml", LAYER, w)
    ird.write(ird.lower(folder / "original.xml"), folder / "lowered.xml")
    ir = Ir.read(folder / "lowered.xml")
    edit(ir)
    ir.write(folder / "lowered.xml")


def case(name: str) -> Callable[[Callable[[Ir], None]], Callable[[Ir], None]]:
    def add(edit: Callable[[Ir], None]) -> Callable[[Ir], None]:
        CASES[name] = edit
        return edit

    return add


def constant_of(ir: Ir, type_name: str, layer: int, port: int) -> Any:
    """Return the constant that a layer of a type reads, by its number among them."""
    constant = ir.producer(ir.of_type(type_name)[layer], port)
    assert constant is not None
    return constant


def redirect(edge: Any, layer: str, port: str) -> None:
    """Let an edge come from elsewhere."""
    edge.set("from-layer", layer)
    edge.set("from-port", port)


def _numbers(type_name: str, port: int, *numbers: int, layer: int = -1) -> Callable[[Ir], None]:
    """An edit: a layer of a type, usually the last, gets another constant input."""
    return lambda ir: ir.store(constant_of(ir, type_name, layer, port), np.array(numbers, np.int64))


for _far in FAR:
    CASES[f"pad_end_{_far}"] = _numbers("Pad", 2, 0, 0, _far, 0)
    CASES[f"pad_begin_{_far}"] = _numbers("Pad", 1, 0, 0, 0, _far)
    CASES[f"zeros_{_far}"] = _numbers("Pad", 2, 0, 0, 0, _far, 0, _far, layer=0)
    CASES[f"reshape_{_far}"] = _numbers("Reshape", 1, 1, 2, _far, 8)


def _on_data(
    type_name: str, numbers: list[int], attributes: str | None = None
) -> Callable[[Ir], None]:
    """An edit: a layer of two inputs, the second a constant, in front of the convolution."""

    def edit(ir: Ir) -> None:
        (conv,) = ir.of_type("Convolution")
        edge = ir.edges_to(conv)[0]
        offset, id = len(ir.blob), int(ir.new_id())
        ir.blob += np.array(numbers, np.int64).tobytes()
        ir.add_layer(
            ib.const(id, "numbers", (len(numbers),), offset, 8 * len(numbers), "i64"), conv
        )
        ports = {
            "inputs": [ib.port(0), ib.port(1, (len(numbers),), "I64")],
            "outputs": [ib.port(2)],
        }
        ir.add_layer(ib.layer(id + 1, "more", type_name, attributes, **ports), conv)
        ir.add_edge(edge.get("from-layer"), edge.get("from-port"), str(id + 1), "0")
        ir.add_edge(str(id), "0", str(id + 1), "1")
        redirect(edge, str(id + 1), "2")

    return edit


CASES["tile"] = _on_data("Tile", [1, 1, 2**31, 2**31])
CASES["tile_of_none"] = _on_data("Tile", [0, 0, 0, 2**62])
CASES["broadcast"] = _on_data("Broadcast", [2**20, 2**20, 2**20, 2**20], 'mode="bidirectional"')
CASES["reshape"] = _on_data("Reshape", [HUGE, HUGE, HUGE, HUGE], 'special_zero="false"')
CASES["unsqueeze"] = _on_data("Unsqueeze", list(range(64)))
CASES["unsqueeze_far"] = _on_data("Unsqueeze", [HUGE])
CASES["transpose"] = _on_data("Transpose", [HUGE, -HUGE, 0, 1])
CASES["depth_to_space"] = _on_data("DepthToSpace", [1], f'mode="blocks_first" block_size="{HUGE}"')


def _attribute(type_name: str, name: str, text: str) -> Callable[[Ir], None]:
    """An edit: the only layer of a type has another attribute."""

    def edit(ir: Ir) -> None:
        (layer,) = ir.of_type(type_name)
        layer.find("data").set(name, text)

    return edit


for _case, *_edit in (
    ("strides", "Convolution", "strides", f"{2**63},1"),
    ("dilations", "Convolution", "dilations", f"{2**40},{2**40}"),
    ("pads_of_convolution", "Convolution", "pads_end", f"{2**40},{2**40}"),
    ("long_list", "Convolution", "strides", ",".join(["1"] * 10**6)),
    ("long_number", "Convolution", "strides", "9" * 10**5 + ",1"),
    ("data_of_any_size", "Parameter", "shape", f"1,2,{2**61},{2**61}"),
    ("axes_without_end", "Parameter", "shape", ",".join(["1"] * 10**5)),
):
    CASES[_case] = _attribute(*_edit)


@case("constant_of_any_size")
def constant_of_any_size(ir: Ir) -> None:
    constant_of(ir, "Convolution", 0, 1).find("data").set("shape", f"3,2,{2**40},{2**40}")


@case("constant_of_nothing")
def constant_of_nothing(ir: Ir) -> None:
    data = constant_of(ir, "Convolution", 0, 1).find("data")
    data.set("shape", f"0,2,{2**40},{2**40}")
    data.set("size", "0")


def chained(ir: Ir, length: int, *, backwards: bool = False) -> None:
    """Put ReLU behind ReLU in front of the result."""
    last = ir.of_type("Result")[0]
    (edge,) = ir.edges_to(last)
    first = int(ir.new_id())
    ids = range(first, first + length)
    layers = [ib.relu(i, f"r{i}", (1, 3, 9, 9)) for i in ids]
    last.addprevious(
        etree.fromstring("<more>" + "".join(layers[:: -1 if backwards else 1]) + "</more>")
    )
    unwrapped(ir, "layers")
    ends = ib.edges(*((i, 1, i + 1, 0) for i in ids[:-1]))
    ir.root.find("edges").append(etree.fromstring(f"<more>{ends}</more>"))
    unwrapped(ir, "edges")
    ir.add_edge(edge.get("from-layer"), edge.get("from-port"), str(first), "0")
    redirect(edge, str(ids[-1]), "1")


def unwrapped(ir: Ir, name: str) -> None:
    """Put the children of <more> in its place."""
    (more,) = ir.root.find(name).findall("more")
    for child in more:
        more.addprevious(child)
    more.getparent().remove(more)


CASES["deep"] = lambda ir: chained(ir, 100_000)
# The last layer stands first in the file.
CASES["deep_backwards"] = lambda ir: chained(ir, 30_000, backwards=True)


@case("many_edges")
def many_edges(ir: Ir) -> None:
    edge = ir.edges[-1]
    ends = tuple(edge.get(n) for n in ("from-layer", "from-port", "to-layer", "to-port"))
    more = ib.edges(*[ends] * 10**6)  # type: ignore[list-item]
    ir.root.find("edges").append(etree.fromstring(f"<more>{more}</more>", HUGE_TREE))
    unwrapped(ir, "edges")


@case("wide_concat")
def wide_concat(ir: Ir) -> None:
    """A Concat of 20,000 inputs."""
    (conv,) = ir.of_type("Convolution")
    edge, id = ir.edges_to(conv)[0], ir.new_id()
    ports = [ib.port(i, (1, 2, 11, 11)) for i in range(20_000)]
    out = [ib.port(20_000, (1, 40_000, 11, 11))]
    ir.add_layer(ib.layer(id, "wide", "Concat", 'axis="1"', inputs=ports, outputs=out), conv)
    for i in range(20_000):
        ir.add_edge(edge.get("from-layer"), edge.get("from-port"), id, str(i))
    redirect(edge, id, "20000")


def doubled(ir: Ir, edge: Any, layer: Callable[[int], str], times: int) -> None:
    """Put layers of two inputs on an edge, each of which reads the last one twice."""
    source = edge.get("from-layer"), edge.get("from-port")
    for _ in range(times):
        id = ir.new_id()
        ir.add_layer(layer(int(id)), ir.layer(edge.get("to-layer")))
        ir.add_edge(*source, id, "0")
        ir.add_edge(*source, id, "1")
        source = id, "2"
    redirect(edge, *source)


@case("doubling")
def doubling(ir: Ir) -> None:
    """Each of 80 Concats reads the last one twice."""
    ports = {"inputs": [ib.port(0), ib.port(1)], "outputs": [ib.port(2)]}
    concat = lambda id: ib.layer(id, f"double{id}", "Concat", 'axis="1"', **ports)  # noqa: E731
    doubled(ir, ir.edges_to(ir.of_type("Convolution")[0])[0], concat, 80)


@case("doubling_additions")
def doubling_additions(ir: Ir) -> None:
    """Each of 200 additions of the output reads the last one twice: 2^200 ways to the data."""
    (edge,) = ir.edges_to(ir.of_type("Result")[0])
    doubled(ir, edge, lambda id: ib.add(id, f"twice{id}", (1, 3, 9, 9)), 200)


@case("cycle")
def cycle(ir: Ir) -> None:
    conv = ir.of_type("Convolution")[0]
    edge = ir.edges_to(ir.of_type("Pad")[-1])[0]
    redirect(edge, conv.get("id"), conv.find("output/port").get("id"))


@case("self_edge")
def self_edge(ir: Ir) -> None:
    (conv,) = ir.of_type("Convolution")
    redirect(ir.edges_to(conv)[0], conv.get("id"), conv.find("output/port").get("id"))


for _case, *_end in (
    ("missing_port", "to-port", "7"),
    ("missing_source_port", "from-port", "4711"),
):
    CASES[_case] = lambda ir, end=_end: ir.edges_to(ir.of_type("Convolution")[0])[0].set(*end)
CASES["missing_layer"] = lambda ir: ir.edges[3].set("from-layer", "4711")
CASES["same_ids"] = lambda ir: ir.layers[3].set("id", ir.layers[2].get("id"))
CASES["ids_that_are_no_numbers"] = lambda ir: ir.layers[3].set("id", "-1e9")


@case("short_file")
def short_file(ir: Ir) -> None:
    del ir.blob[8:]
