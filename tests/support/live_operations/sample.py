"""A sample: one layer with its attributes, inputs and what is declared of these; its IR text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.ir.packing import encode
from op_cases import Tensor

# What OpenVINO takes and gives as NumPy arrays.
PLAIN = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "boolean"}
SHOWN = "shown"  # the name of a Convert behind the layer


@dataclass(frozen=True)
class Given:
    """An input: its values, whether they are a constant, else the shape that is declared.

    `declared` has -1 for an unknown dimension; None is an unknown rank.
    """

    tensor: Tensor
    constant: bool = False
    declared: tuple[int, ...] | None = ()

    @property
    def shape_text(self) -> str:
        """The `shape` of a Parameter or Const."""
        if self.constant:
            return ",".join(map(str, self.tensor.values.shape))
        if self.declared is None:
            return "..."
        return ",".join("?" if d < 0 else str(d) for d in self.declared)

    @property
    def carried_as(self) -> str:
        """The element type of the Parameter: bf16 comes out of a Convert."""
        name = self.tensor.dtype.name
        return "f32" if name == "bf16" and not self.constant else name


def given(tensor: Tensor, *, constant: bool = False) -> Given:
    """An input whose shape is declared as it is; types that no array has become constants."""
    plain = tensor.dtype.name in PLAIN or tensor.dtype.name == "bf16"
    return Given(tensor, constant or not plain, tensor.values.shape)


@dataclass(frozen=True)
class Sample:
    """One layer to run on both sides; `made` says how it came about."""

    type: str
    version: str
    attributes: dict[str, str]
    inputs: tuple[Given, ...]
    outputs: int = 1
    made: str = ""

    def __str__(self) -> str:
        texts = " ".join(f'{k}="{v}"' for k, v in self.attributes.items())
        inputs = ", ".join(
            f"{'const ' if g.constant else ''}{g.tensor.dtype}{list(g.tensor.values.shape)}"
            + (f" as [{g.shape_text}]" if not g.constant and -1 in (g.declared or (-1,)) else "")
            for g in self.inputs
        )
        return f"{self.type} {self.version} {texts} ({inputs})"

    @property
    def feeds(self) -> list[Any]:
        """The arrays of the Parameters."""
        return [
            g.tensor.values.astype("float32") if g.carried_as != g.tensor.dtype.name
            else g.tensor.values
            for g in self.inputs
            if not g.constant
        ]  # fmt: skip


class _Text:
    """Layers, edges and constants of an IR."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.blob = b""

    def layer(
        self,
        kind: str,
        version: str,
        data: str,
        sources: Sequence[tuple[int, int]],
        outputs: int,
        name: str = "",
    ) -> int:
        """Add a layer that reads output `port` of layer `n` for each (n, port) of `sources`."""
        at = len(self.layers)
        for i, (source, port) in enumerate(sources):
            self.edges.append(
                f'<edge from-layer="{source}" from-port="{port}" to-layer="{at}" to-port="{i}"/>'
            )
        first = len(sources)
        ins = "".join(f'<port id="{i}"/>' for i in range(first))
        outs = "".join(f'<port id="{first + i}" precision="FP32"/>' for i in range(outputs))
        self.layers.append(
            f'<layer id="{at}" name="{name or at}" type="{kind}" version="{version}"><data {data}/>'
            f"<input>{ins}</input><output>{outs}</output></layer>"
        )
        return at


def ir_of(sample: Sample, results: Sequence[str | None]) -> tuple[str, bytes]:
    """The text and the constants of an IR; outputs become these types by a Convert, if any."""
    text = _Text()
    sources = [_source(text, g) for g in sample.inputs]
    data = " ".join(f'{k}="{v}"' for k, v in sample.attributes.items())
    node = text.layer(sample.type, sample.version, data, sources, sample.outputs)
    for i in range(sample.outputs):
        place = (node, len(sources) + i)
        if i < len(results) and results[i]:
            kind = f'destination_type="{results[i]}"'
            place = (text.layer("Convert", "opset1", kind, [place], 1, SHOWN), 1)
        text.layer("Result", "opset1", "", [place], 0)
    layers, edges = "".join(text.layers), "".join(text.edges)
    return (
        f'<net name="sample" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>',
        text.blob,
    )


def _source(text: _Text, g: Given) -> tuple[int, int]:
    data = f'element_type="{g.carried_as}" shape="{g.shape_text}"'
    if not g.constant:
        at = text.layer("Parameter", "opset1", data, [], 1)
        if g.carried_as == g.tensor.dtype.name:
            return at, 0
        kind = f'destination_type="{g.tensor.dtype.name}"'
        return text.layer("Convert", "opset1", kind, [(at, 0)], 1), 1
    raw = encode(g.tensor.values, g.tensor.dtype) or b"\0"
    where = f' offset="{len(text.blob)}" size="{len(raw)}"'
    text.blob += raw
    return text.layer("Const", "opset1", data + where, [], 1), 0
