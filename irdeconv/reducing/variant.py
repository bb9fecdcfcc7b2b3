"""A variant of a model: its graph, or those of both sides, and the values of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irdeconv.graph import Graph, Node
from irdeconv.op import Op
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.passes.infer_specs import infer_specs
from irdeconv.spec import Array

PASSIVE = ("Parameter", "Const", "Result")  # what is no layer of its own
Edit = Callable[[Node], Op | None]


@dataclass(frozen=True)
class Variant:
    """Inferred graphs with the same inputs and outputs in the same order; the first one counts.

    `feeds` has an array per input, by the name of its Parameter in the first graph.
    """

    graphs: tuple[Graph, ...]
    feeds: dict[str, Array]

    def __repr__(self) -> str:
        return f"Variant({', '.join(map(repr, self.graphs))})"

    @property
    def graph(self) -> Graph:
        """The first graph."""
        return self.graphs[0]

    @property
    def layers(self) -> list[Node]:
        """The layers of the first graph, producers first."""
        return layers(self.graph)

    @property
    def arrays(self) -> list[Array]:
        """The values of the inputs in order."""
        return [self.feeds[n.name] for n in self.graph.parameters]

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the inputs by the names under which other runtimes know them as well."""
        return dict(zip(self.graph.inputs, self.arrays, strict=True))

    def edited(self, edit: Edit, feeds: Mapping[str, Array] | None = None) -> Variant | None:
        """Return a copy with other operations where `edit` gives one, and with other feeds.

        None where nothing changes, or where the operations do not fit together any more.
        """
        changed, graphs = feeds is not None, []
        for graph in self.graphs:
            new = graph.copy()
            for node in new.nodes():
                op = edit(node)
                if op is not None:
                    new.replace_op(node.id, op)
                    changed = True
            if not is_valid(new, graph):
                return None
            graphs.append(new)
        return Variant(tuple(graphs), {**self.feeds, **(feeds or {})}) if changed else None


def layers(graph: Graph) -> list[Node]:
    """Return the layers of a graph, producers first; constants, inputs and outputs are none."""
    return [n for n in graph.topological() if n.type not in PASSIVE]


def is_valid(graph: Graph, before: Graph | None = None) -> bool:
    """Infer a graph in place; whether everything fits.

    The shape rule of an unknown operation is its declaration, so its inputs have to be what they
    were `before`.
    """
    if any(d.severity == "error" for d in infer_specs(graph)):
        return False
    for node in graph.nodes():
        if any(p.severity == "error" for p in node.op.check()):
            return False
        if isinstance(node.op, Opaque) and before is not None and node.id in before:
            new, old = graph.input_specs(node.id), before.input_specs(node.id)
            if [(s.dtype, s.shape) for s in new] != [(s.dtype, s.shape) for s in old]:
                return False
    return True


@dataclass
class Hasher:
    """Fingerprints of variants; data that several of them share are read once."""

    _known: dict[int, tuple[Any, bytes]] = field(default_factory=dict)

    def of(self, variant: Variant) -> bytes:
        """Return a fingerprint of everything that a check can see."""
        total = hashlib.blake2b(digest_size=16)
        for graph in variant.graphs:
            self._graph(graph, total.update)
        for name in sorted(variant.feeds):
            total.update(repr((name, self._array(variant.feeds[name]))).encode())
        return total.digest()

    def _graph(self, graph: Graph, update: Callable[[bytes], None]) -> None:
        for node in graph.nodes():
            update(repr((node.id, node.name, *self._op(node.op))).encode())
            update(repr((graph.inputs_of(node.id), node.rt_info)).encode())
            for body in bodies_of(node):
                update(repr((body.tag, body.inputs, body.outputs, body.edges)).encode())
                self._graph(body.graph, update)

    def _op(self, op: Op) -> Iterable[Any]:
        if isinstance(op, Const):
            return op.element_type, op.shape, self._array(op.data)
        if isinstance(op, Opaque):  # whose body names places in a file
            return op.kind, op.data, op.sections
        if isinstance(op, BodyOp):  # whose bodies follow
            return op.type, op.version
        return (op,)

    def _array(self, data: Any) -> bytes:
        known = self._known.get(id(data))
        if known is None:
            array = data if isinstance(data, np.ndarray) else data.array()
            plain = array.astype(str) if array.dtype == object else np.ascontiguousarray(array)
            head = repr((array.shape, str(array.dtype))).encode()
            digest = hashlib.blake2b(head, digest_size=16)
            digest.update(plain.tobytes())
            # Keeping the data keeps its id from being given to other data.
            known = self._known[id(data)] = (data, digest.digest())
        return known[1]
