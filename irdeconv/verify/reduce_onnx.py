"""Pieces of ONNX models that stay ONNX: each node that is left has the bytes of the whole model's.

Layers are the nodes of the model's own graph, known or not, as `outline` has them. Attributes and
sizes stay, since nodes do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

from irdeconv.base.errors import IrdeconvError
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.formats.onnx_container import MESSAGE_LIMIT, OnnxFile, bytes_of, scopes, tensors_of
from irdeconv.formats.onnx_editing import keep_piece, to_edit
from irdeconv.formats.onnx_lowering import delete
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.runtime.peers import onnx_outputs, outlined, outputs_by_name
from irdeconv.verify.reduce_pieces import KEPT_BYTES, Flow, Variant, guess, variant_of


def layers_of(model: OnnxFile) -> Graph:
    """Return the layers of a model; an input with a default value becomes a constant, in place."""
    own = {t.name for t in model.proto.graph.initializer}
    if model.proto.ir_version >= 4:
        delete(model.proto.graph.input, lambda i: i.name in own)
    return outlined(model)


def opened(
    model: ModelLike, path: str | PathLike[str] | None
) -> tuple[Graph, tuple[OnnxFile, ...]]:
    """Return a model's inferred graph; of an ONNX model that stays ONNX its layers, and itself."""
    source = to_edit(model, path)
    return (inferred(graph_of(model)), ()) if source is None else (layers_of(source), (source,))


@dataclass
class WholeOnnx:
    """The models that pieces come from, and the values of their tensors by name.

    irdeconv computes them; if it does not read the first model, ONNX Runtime does.
    """

    models: Sequence[OnnxFile]
    feeds: dict[str, Array]
    semantics: Semantics = "runtime"
    _arrays: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def _imported(self) -> tuple[Flow, dict[str, Value]] | None:
        with suppress(IrdeconvError):
            graph = graph_of(loaded(self.models[0]), semantics=self.semantics)
            variant = variant_of([graph], self.feeds)
            return Flow(variant.graph, variant.feeds), outputs_by_name(variant.graph)
        return None

    def tensors(self, names: Iterable[str]) -> dict[str, Array | None]:
        """Return the tensors of these names whose values can be computed."""
        names = list(names)
        if self._imported is not None:
            flow, values = self._imported
            arrays = flow.arrays(values[n] for n in names if n in values)
            return {
                n: arrays[values[n]]
                for n in names
                if n in values and values[n].node not in flow.guessed
            }
        missing = [n for n in names if n not in self._arrays]
        made = dict[str, Array]()
        with suppress(IrdeconvError):
            made = dict(
                zip(missing, onnx_outputs(self.models[0], self.feeds, missing), strict=True)
            )
        if sum(a.nbytes for a in (*self._arrays.values(), *made.values())) <= KEPT_BYTES:
            self._arrays |= made
        return {n: self._arrays.get(n, made.get(n)) for n in names}


@dataclass
class OnnxFlow(Flow):
    """The values of a model's layers."""

    whole: WholeOnnx = field(kw_only=True)

    def _compute(self, wanted: set[Value]) -> dict[Value, Array]:
        names = {v: next(iter(self.graph.node(v.node).names_of(v.port)), "") for v in wanted}
        arrays, out = self.whole.tensors(names.values()), {}
        for value, name in names.items():
            spec, array = self.graph.spec(value), arrays.get(name)
            if array is None and spec.dtype is not None and spec.shape is not None:
                array = guess(spec, value.node, value.port)
                self.guessed.add(value.node)
            if array is not None:
                out[value] = array
        return out


@dataclass(frozen=True, repr=False)
class OnnxVariant(Variant):
    """A variant whose graphs are layers of ONNX models."""

    whole: WholeOnnx = field(kw_only=True)
    editable = False

    def flow(self) -> Flow:
        """Return the values of its tensors."""
        return OnnxFlow(self.graph, self.feeds, whole=self.whole)

    @cached_property
    def models(self) -> list[tuple[OnnxFile, list[Any]]]:
        """The pieces, each with its new tensors; UsageError for an output of unknown type.

        External data are inside, unless a message cannot hold them.
        """
        out = []
        for whole, graph in zip(self.whole.models, self.graphs, strict=True):
            proto = type(whole.proto).FromString(whole.proto.SerializeToString())
            model = OnnxFile(proto, whole.name, whole.folder)
            added, sizes = keep_piece(model, graph), 0
            for tensor in (t for s in scopes(proto) for t in tensors_of(s.body)):
                sizes += bytes_of(tensor) or 0
            if model.external() and sizes < MESSAGE_LIMIT:
                model, added = OnnxFile(loaded(model), whole.name), []
            out.append((model, added))
        return out

    @cached_property
    def imported(self) -> Variant:
        """The pieces as irdeconv reads them; raises as reading and inference do."""
        protos = (loaded(model) for model, _ in self.models)
        graphs = [graph_of(proto, semantics=self.whole.semantics) for proto in protos]
        return variant_of(graphs, self.inputs)

    @property
    def subject(self) -> Any:
        """A function checks an onnx.ModelProto with all data."""
        return loaded(self.models[0][0])
