"""Hostile files that are too large to keep; each function writes one into a folder."""

from __future__ import annotations

from pathlib import Path

X = (
    '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="{0}" '
    'element_type="f32"/><output><port id="0" precision="FP32"><dim>{0}</dim></port></output>'
    "</layer>"
)
END = (
    '<layer id="{0}" name="r{0}" type="Result" version="opset1"><input><port id="0"/></input>'
    "</layer>"
)


def _net(folder: Path, layers: str, edges: str, weights: bytes = b"") -> Path:
    path = folder / "model.xml"
    text = f'<net name="n" version="11">\n<layers>\n{layers}\n</layers>\n<edges>{edges}</edges>\n'
    path.write_text(f"{text}</net>\n", "utf-8")
    path.with_suffix(".bin").write_bytes(weights)
    return path


def _edge(start: int, start_port: int, end: int, end_port: int) -> str:
    ends = f'to-layer="{end}" to-port="{end_port}"'
    return f'<edge from-layer="{start}" from-port="{start_port}" {ends}/>'


def many_attributes(folder: Path) -> Path:
    """0.9 MB of attributes on one element."""
    more = " ".join(f'a{n}="1"' for n in range(90_000))
    layers = X.format(3).replace("<data ", f"<data {more} ") + END.format(1)
    return _net(folder, layers, _edge(0, 0, 1, 0))


def many_warnings(folder: Path) -> Path:
    """A layer with 100,000 unknown elements."""
    layers = X.format(3).replace("</output>", "<a/>" * 100_000 + "</output>") + END.format(1)
    return _net(folder, layers, _edge(0, 0, 1, 0))


def many_dims(folder: Path) -> Path:
    """A port of 60,000 dimensions."""
    layers = X.format(3).replace("<dim>3</dim>", "<dim>3</dim>" * 60_000) + END.format(1)
    return _net(folder, layers, _edge(0, 0, 1, 0))


def many_inputs(folder: Path) -> Path:
    """A Concat of 20,000 inputs."""
    number = 20_000
    ports = "".join(f'<port id="{n}"/>' for n in range(number))
    concat = (
        f'<layer id="1" name="c" type="Concat" version="opset1"><data axis="0"/><input>{ports}'
        f'</input><output><port id="{number}" precision="FP32"/></output></layer>'
    )
    edges = "".join(_edge(0, 0, 1, n) for n in range(number)) + _edge(1, number, 2, 0)
    return _net(folder, X.format(1) + concat + END.format(2), edges)


def bad_layers_on_a_line(folder: Path) -> Path:
    """20,000 layers of an unknown type on one line."""
    bad = "".join(f'<layer id="{n}" type="Nope" version="opset1"/>' for n in range(2, 20_002))
    return _net(folder, X.format(3) + END.format(1) + bad, _edge(0, 0, 1, 0))


def nested_elements(folder: Path) -> Path:
    """20,000 elements in one another."""
    deep = "<a>" * 20_000 + "</a>" * 20_000
    return _net(folder, X.format(3) + END.format(1) + deep, _edge(0, 0, 1, 0))


def nested_bodies(folder: Path) -> Path:
    """20,000 bodies in one another."""
    opened = '<layer id="1" name="l" type="TensorIterator" version="opset1"><body><layers>'
    deep = opened * 20_000 + "</layers></body></layer>" * 20_000
    return _net(folder, X.format(3) + deep, "")
