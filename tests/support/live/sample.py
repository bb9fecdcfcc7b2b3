"""A sample: one layer with its attributes and inputs; its IR text, and what irdeconv says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.ir.constant import ArrayData, encode
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import lookup, parse_attributes, ports
from irdeconv.ir.spec import DYNAMIC, Array, Spec, bounds
from irdeconv.ops.basic import Const, Parameter, Result
from op_cases import Tensor, tensor_of

# What OpenVINO takes and gives as NumPy arrays.
PLAIN = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "boolean"}
SHOWN = "shown"  # the name of a Convert behind the layer
Inferred = tuple[str, tuple[tuple[int, int], ...] | None]  # element type and shape


def plain_name(dtype: ElementType | None) -> str | None:
    """What an output is converted to, so that an array has it; None where it stays."""
    if dtype is None or dtype.name in PLAIN or dtype.kind == "string":
        return None
    return "f32" if dtype.is_real else "i32"


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


def layer(text: str) -> Sample:
    """Return the layer of a text: type and opset, attributes, inputs; see differences.toml."""
    head, *ports = text.split(" // ")
    (kind, opset), *texts = head.split()[0].split("-"), *head.split()[1:]
    outputs = int(ports.pop(0).split()[1]) if ports and ports[0].startswith("outputs") else 1
    attributes = dict(t.split("=", 1) for t in texts)
    return Sample(kind, f"opset{opset}", attributes, tuple(map(_port, ports)), outputs)


def _port(text: str) -> Given:
    mode = next((m for m in ("open", "const") if text.startswith(f"{m} ")), "")
    tensor = tensor_of(text.removeprefix(mode))
    if mode == "open":
        return Given(tensor, declared=(-1,) * tensor.values.ndim)
    return given(tensor, constant=mode == "const")


class IrText:
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

    def xml(self) -> str:
        layers, edges = "".join(self.layers), "".join(self.edges)
        return (
            f'<net name="sample" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>'
        )


def ir_of(sample: Sample, results: Sequence[str | None]) -> tuple[str, bytes]:
    """The text and the constants of an IR; outputs become these types by a Convert, if any."""
    text = IrText()
    sources = [_source(text, g) for g in sample.inputs]
    data = " ".join(f'{k}="{v}"' for k, v in sample.attributes.items())
    node = text.layer(sample.type, sample.version, data, sources, sample.outputs)
    for i in range(sample.outputs):
        place = (node, len(sources) + i)
        if i < len(results) and results[i]:
            kind = f'destination_type="{results[i]}"'
            place = (text.layer("Convert", "opset1", kind, [place], 1, SHOWN), 1)
        text.layer("Result", "opset1", "", [place], 0)
    return text.xml(), text.blob


def _source(text: IrText, g: Given) -> tuple[int, int]:
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


@dataclass(frozen=True)
class Answer:
    """What a side did: `kind` is "ran", "refused" or "crashed".

    `specs` are (element type, inferred shape) of the outputs; a dimension is (lowest, highest or
    -1), a shape None where the rank is unknown. `layers` has a layer's type and the same of its
    outputs by its name. `message` says why it refused.
    """

    kind: str
    specs: tuple[Inferred, ...] = ()
    arrays: tuple[Any, ...] = ()
    message: str = ""
    layers: Mapping[str, tuple[str, tuple[Inferred, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """An IR with the values of its inputs."""

    xml: bytes
    weights: bytes
    feeds: Mapping[str, Array]


class _NotOurs(Exception):
    """What irdeconv refuses before there is a graph."""


def build(sample: Sample) -> Graph:
    """A graph of the layer with a Result for each output."""
    cls = lookup(sample.type, sample.version)
    if cls is None:
        raise _NotOurs("the operation is not known")
    values, problems = parse_attributes(cls, sample.attributes)
    errors = [p for p in problems if p.severity == "error"]
    if not errors:
        op = cls(**values)
        errors = [p for p in op.problems() if p.severity == "error"]
    if errors:
        raise _NotOurs("; ".join(f"{p.code}: {p.message}" for p in errors))
    if not ports(cls).fits(len(sample.inputs)):
        raise _NotOurs(f"{len(sample.inputs)} inputs")
    g = Graph()
    sources = [_given(g, given, i) for i, given in enumerate(sample.inputs)]
    node = g.add(op, sources, name="layer")
    for i in range(sample.outputs):
        g.add(Result(), [Value(node.id, i)], name=f"r{i}")
    return g


def _given(g: Graph, given: Given, i: int) -> Value:
    dtype, values = given.tensor.dtype, given.tensor.values
    if given.constant:
        return Value(g.add(Const(dtype, values.shape, ArrayData(values, dtype)), name=f"c{i}").id)
    declared = given.declared
    shape = None if declared is None else tuple(DYNAMIC if d < 0 else d for d in declared)
    made = Value(g.add(Parameter(shape, ELEMENT_TYPES[given.carried_as]), name=f"p{i}").id)
    if given.carried_as == dtype.name:
        return made
    convert = lookup("Convert", "opset1")
    assert convert is not None
    return Value(g.add(convert(destination_type=dtype), [made], name=f"b{i}").id)


def answer(sample: Sample) -> Answer:
    """Infer and run; what is not an error of irdeconv's own gets through."""
    try:
        graph = ird.infer(build(sample))
        (node,) = graph.find("layer")
        specs = tuple(inferred(node.spec(i)) for i in range(sample.outputs))
        arrays = ird.run(graph, sample.feeds, form=None)
    except (_NotOurs, IrdeconvError, OpError) as e:
        return Answer("refused", message=" ".join(str(e).split())[:800])
    except Exception as e:  # a fault of irdeconv, which the table shows
        return Answer("crashed", message=f"{type(e).__name__}: {e}")
    return Answer("ran", specs, tuple(np.asarray(a) for a in arrays.values()))


def inferred(spec: Spec) -> Inferred:
    """Return what is known of an output as an answer has it."""
    if spec.shape is None:
        return str(spec.dtype), None
    pairs = (bounds(d) for d in spec.shape)
    return str(spec.dtype), tuple((lo, -1 if hi is None else hi) for lo, hi in pairs)
