"""ONNX Runtime as the second side of a comparison (extra `oracles`): its CPU provider.

Every tensor that both sides have becomes an output of the model, so no layer is fused away. Tensors
are fetched in groups, and each group is one run: memory holds the results of one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from irdeconv.base.errors import misused
from irdeconv.base.extras import needed
from irdeconv.base.opening import missing
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.models import is_onnx
from irdeconv.formats.onnx_container import load
from irdeconv.ir.graph import Node
from irdeconv.ir.spec import Array
from irdeconv.runtime.peers import in_order, last_line, onnx_session
from irdeconv.runtime.plan import Plan
from irdeconv.verify.openvino import PIECE_BYTES, READABLE, refused
from irdeconv.verify.partner import Fetched, Partner


@dataclass
class OnnxRuntimePartner(Partner):
    """The model of an .onnx file, executed by ONNX Runtime on the inputs of a plan.

    Layers are matched by the names of their tensors. `inputs` are by the plan's input names. Raises
    UnsupportedError if ONNX Runtime is missing or refuses, UsageError for a file of another format,
    FileAccessError if there is no such file.
    """

    plan: Plan
    file: Path
    inputs: dict[str, Array]
    _groups: list[list[str]] = field(default_factory=list)
    _ready: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed("comparing with ONNX Runtime", "onnxruntime", "InferenceSession")
        if not self.file.exists():
            raise missing(self.file)
        if not is_onnx(self.file):
            hint = "onnxruntime:FILE.onnx names a model for it"
            raise misused(f"ONNX Runtime does not read {self.file}: it is no .onnx", hint)
        proto, _ = load(str(self.file), None, Location(SourceFile(str(self.file), b"")))
        self._types = {o: n.op_type for n in proto.graph.node for o in n.output if o}
        self._ends = [o.name for o in proto.graph.output]
        self._group()
        for name in {name for group in self._groups for name in group}.difference(self._ends):
            proto.graph.output.add(name=name)
        with self._errors():
            self._session = onnx_session(proto.SerializeToString())
            names = [end.name for end in self._session.get_inputs()]
            given = in_order([{name} for name in names], self.inputs)
            self._feeds = dict(zip(names, given, strict=True))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as e:  # of any class
            raise refused(f"ONNX Runtime fails on {self.file}: {last_line(str(e))}") from None

    def _group(self) -> None:
        """Divide the tensors that both sides have, in the order of the plan."""
        room = 0
        for step in self.plan.steps:
            specs = step.node.specs or ()
            known = [s.dtype is not None and s.dtype.name in READABLE for s in specs]
            named = [self._name(step.node, port) for port in range(len(specs))]
            names = [name for name, read in zip(named, known, strict=True) if name and read]
            size = sum(PIECE_BYTES // 8 if s.nbytes is None else s.nbytes for s in specs)
            # All outputs of a layer are in one group: `fetch` has no more than one at a time.
            if names and (not self._groups or size > room):
                self._groups.append([])
                room = PIECE_BYTES
            if names:
                self._groups[-1] += names
                room -= size

    def _name(self, node: Node, port: int) -> str | None:
        return next((n for n in node.names_of(port) if n in self._types), None)

    def fetch(self, node: Node) -> Fetched | None:
        """Return a layer's outputs, after the run that computes its group."""
        names = [self._name(node, port) for port in range(max(node.outputs, 1))]
        wanted = {name for name in names if name is not None}
        while self._groups and not wanted.isdisjoint(n for g in self._groups for n in g):
            group = self._groups.pop(0)
            with self._errors():
                self._ready = dict(zip(group, self._session.run(group, self._feeds), strict=True))
        found = tuple(self._ready.get(name or "") for name in names)
        if all(array is None for array in found):
            return None
        return Fetched(next(self._types[name] for name in names if name), found)

    def outputs(self) -> list[Array | None]:
        """Return the model outputs."""
        self._ready = {}
        with self._errors():
            return list(self._session.run(self._ends, self._feeds))

    def close(self) -> None:
        """Forget all values."""
        self._groups, self._ready = [], {}
