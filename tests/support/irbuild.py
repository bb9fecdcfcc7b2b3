"""Little IR files as text, written line by line so that tests can name lines and columns."""

from collections.abc import Iterable
from typing import Any

PRECISIONS = {"f32": "FP32", "f16": "FP16", "f64": "FP64", "boolean": "BOOL"}
PRECISIONS |= {t: t.upper() for t in ("i64", "i32", "i8", "u8")}


def port(id: int | str, dims: Iterable[Any] = (), precision: str = "FP32", more: str = "") -> str:
    """Return one `<port>`."""
    text = "".join(f"<dim>{d}</dim>" for d in dims)
    return f'<port id="{id}" precision="{precision}"{more}>{text}</port>'


def layer(
    id: int | str,
    name: str,
    kind: str,
    data: str | None = None,
    *,
    inputs: Iterable[str] = (),
    outputs: Iterable[str] = (),
    version: str = "opset1",
    body: str = "",
    more: str = "",
) -> str:
    """Return a `<layer>` on lines of its own: the start tag, data, ports."""
    lines = [f'<layer id="{id}" name="{name}" type="{kind}" version="{version}"{more}>']
    if data is not None:
        lines.append(f"<data {data}/>")
    inputs, outputs = list(inputs), list(outputs)
    if inputs:
        lines.append("<input>" + "".join(inputs) + "</input>")
    if outputs:
        lines.append("<output>" + "".join(outputs) + "</output>")
    if body:
        lines.append(body)
    return "\n".join([*lines, "</layer>"])


def parameter(
    id: int, name: str, dims: Iterable[Any] = (2, 3), element_type: str = "f32", *, names: str = ""
) -> str:
    """Return an input; a dimension of -1 is open, `names` are the tensor's names."""
    dims = list(dims)
    shape = ",".join("?" if d == -1 else str(d) for d in dims)
    more = f' names="{names}"' if names else ""
    return layer(
        id,
        name,
        "Parameter",
        f'shape="{shape}" element_type="{element_type}"',
        outputs=[port(0, dims, PRECISIONS[element_type], more)],
    )


def const(
    id: int, name: str, dims: Iterable[Any], offset: int, size: int, element_type: str = "f32"
) -> str:
    dims = list(dims)
    shape = ",".join(str(d) for d in dims)
    return layer(
        id,
        name,
        "Const",
        f'element_type="{element_type}" shape="{shape}" offset="{offset}" size="{size}"',
        outputs=[port(0, dims, PRECISIONS[element_type])],
    )


def relu(id: int, name: str, dims: Iterable[Any] = (2, 3)) -> str:
    dims = list(dims)
    return layer(id, name, "ReLU", inputs=[port(0, dims)], outputs=[port(1, dims)])


def add(id: int, name: str, dims: Iterable[Any] = (2, 3)) -> str:
    dims = list(dims)
    return layer(id, name, "Add", inputs=[port(0, dims), port(1, dims)], outputs=[port(2, dims)])


def result(id: int, name: str, dims: Iterable[Any] = (2, 3)) -> str:
    return layer(id, name, "Result", inputs=[port(0, dims)])


def edges(*ends: tuple[Any, Any, Any, Any]) -> str:
    return "\n".join(
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'
        for a, b, c, d in ends
    )


def net(
    layers: Iterable[str],
    *ends: tuple[Any, Any, Any, Any],
    name: str = "m",
    version: Any = 11,
    rest: str = "",
) -> str:
    """Return a file: line 3 is the start tag of the first layer."""
    return (
        f'<net name="{name}" version="{version}">\n<layers>\n'
        + "\n".join(layers)
        + f"\n</layers>\n<edges>\n{edges(*ends)}\n</edges>\n{rest}</net>\n"
    )


def chain(*, version: Any = 11) -> str:
    """Return x -> ReLU -> Add with a constant -> Result."""
    layers = [parameter(0, "x"), relu(1, "r"), const(2, "c", (2, 3), 0, 24), add(3, "a")]
    ends = (0, 0, 1, 0), (1, 1, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0)
    return net([*layers, result(4, "y")], *ends, version=version)


CHAIN_BYTES = bytes(24)


def loop(
    *,
    port_map: str | None = None,
    back_edges: str = '<edge from-layer="2" to-layer="0"/>',
    body_edges: tuple[tuple[int, int, int, int], ...] = ((0, 0, 1, 0), (1, 1, 2, 0)),
) -> str:
    """Return x -> TensorIterator(a ReLU, sliced along axis 0) -> Result."""
    entries = port_map or (
        '<input external_port_id="0" internal_layer_id="0" axis="0" start="0" end="-1" stride="1" '
        'part_size="1"/>\n'
        '<output external_port_id="1" internal_layer_id="2" axis="0"/>'
    )
    inner = "\n".join([parameter(0, "bx", (1, 3)), relu(1, "br", (1, 3)), result(2, "by", (1, 3))])
    body = (
        f"<port_map>\n{entries}\n</port_map>\n<back_edges>\n{back_edges}\n</back_edges>\n"
        f"<body>\n<layers>\n{inner}\n</layers>\n<edges>\n{edges(*body_edges)}\n</edges>\n</body>"
    )
    iterator = layer(
        1, "ti", "TensorIterator", inputs=[port(0, (2, 3))], outputs=[port(1, (2, 3))], body=body
    )
    return net([parameter(0, "x"), iterator, result(2, "y")], (0, 0, 1, 0), (1, 1, 2, 0))


def state() -> str:
    """Return a model with a ReadValue and an Assign."""
    data = 'variable_id="v" variable_type="f32" variable_shape="2,3"'
    ports = {"inputs": [port(0, (2, 3))], "outputs": [port(1, (2, 3))], "version": "opset6"}
    layers = [
        parameter(0, "x"),
        layer(1, "rv", "ReadValue", data, **ports),
        layer(2, "as", "Assign", 'variable_id="v"', **ports),
        result(3, "y"),
    ]
    return net(layers, (0, 0, 1, 0), (1, 1, 2, 0), (1, 1, 3, 0))
