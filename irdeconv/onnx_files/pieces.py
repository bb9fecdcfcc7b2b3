"""Pieces of an ONNX model as graphs of their own: some nodes, and the constants that they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.geometry import Semantics
from irdeconv.graph import Graph
from irdeconv.importers.onnx_reader import OnnxReader
from irdeconv.importers.onnx_tensors import onnx_module
from irdeconv.onnx_files.container import OnnxFile
from irdeconv.onnx_files.scopes import Scope
from irdeconv.onnx_files.types import Types

CONV_TRANSPOSE = "ConvTranspose"
DOMAINS = ("", "ai.onnx", "com.ms.internal.nhwc")


def is_deconvolution(node: Any) -> bool:
    """Whether a node is a deconvolution that irdeconv knows, with its output."""
    known = node.op_type == CONV_TRANSPOSE and node.domain in DOMAINS
    return known and bool(node.output and node.output[0])


@dataclass(frozen=True)
class Known:
    """What is known of a tensor that comes into a piece: an element type, perhaps a shape."""

    tensor: Any
    declared: bool = False


def inputs_of(model: OnnxFile, scope: Scope, node: Any, types: Types) -> dict[str, Known]:
    """Return what is known of the tensors that a deconvolution computes with, constants left out.

    Data and filter have the same rank, a bias has one axis, and all have one element type: what is
    known of one of them, or of attributes, helps the others.
    """
    data, *rest = (i for i in node.input if i)
    every = {name: types.of(scope, name) for name in (data, *rest)}
    rank = _rank(node, [every[name][0] for name in (data, *rest[:1])])
    element = next((t.elem_type for t, _ in every.values() if t is not None), 1)
    out: dict[str, Known] = {}
    for name in dict.fromkeys((data, *(n for n in rest if not scope.is_constant(n)))):
        tensor, declared = every[name]
        if tensor is None or not tensor.HasField("shape"):
            axes = 1 if name in rest[1:] else rank
            tensor, declared = _open(element, axes), False
        out[name] = Known(tensor, declared)
    return out


def _open(element: int, rank: int | None) -> Any:
    """Return a type of open dimensions."""
    out = onnx_module().TypeProto.Tensor(elem_type=element)
    if rank is not None:
        out.shape.SetInParent()
        for _ in range(rank):
            out.shape.dim.add()
    return out


def _rank(node: Any, tensors: Sequence[Any]) -> int | None:
    """Return the rank of a deconvolution's data by tensors of that rank, else by attributes."""
    known = [len(t.shape.dim) for t in tensors if t is not None and t.HasField("shape")]
    lists = ("strides", "dilations", "kernel_shape", "output_padding")
    known += [len(a.ints) + 2 for a in node.attribute if a.name in lists and a.ints]
    return next(iter(known), None)


def piece(
    model: OnnxFile,
    scope: Scope,
    nodes: Sequence[Any],
    outputs: Iterable[str],
    known: dict[str, Known],
) -> Any:
    """Return a ModelProto of some nodes of a scope, in their order.

    Tensors of `known` are its first inputs, read or not; whatever else the nodes read has to be a
    constant, which goes along, or it becomes an input without a type.
    """
    onnx = onnx_module()
    out = onnx.ModelProto(ir_version=max(model.proto.ir_version, 4))
    for domain, version in scope.opsets.items():
        out.opset_import.add(domain=domain, version=version)
    out.graph.name = "piece"
    made = {o for n in nodes for o in n.output}
    tensors: dict[str, Any] = {}
    steps: dict[int, Any] = {}
    read = (i for n in nodes for i in n.input if i and i not in made)
    for name in dict.fromkeys((*known, *read)):
        found = None if name in known else scope.constant(name)
        if found is None:
            item = out.graph.input.add(name=name)
            if name in known:
                item.type.tensor_type.CopyFrom(known[name].tensor)
            continue
        tensors |= {t.name: t for t in found[0]}
        steps |= {id(n): n for n in found[1]}
    out.graph.initializer.extend(map(model.tensor, tensors.values()))
    out.graph.node.extend([*steps.values(), *nodes])
    for name in outputs:
        out.graph.output.add(name=name)
    return out


def graph_of(model: OnnxFile, made: Any, semantics: Semantics) -> Graph:
    """Import a piece; raises what reading an ONNX model raises."""
    return OnnxReader(model.location, {}, semantics).read(made).graph
