"""Two models become the sides of a proof: read, validated, inferred, then read by the core itself.

Declared shapes of a file are not believed: they are inferred from the inputs. A file that
cannot be read or inferred is refused with its diagnostics.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base import work
from irdeconv.base.errors import InferenceError
from irdeconv.base.opening import open_file
from irdeconv.formats.bodies import as_version_10
from irdeconv.formats.models import ModelLike, graph_of, is_legacy
from irdeconv.formats.reading import Weights
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Shape, format_shape
from irdeconv.ops.basic import Parameter
from irdeconv.proof import reader
from irdeconv.proof.model import Fact, Model, Unproved
from irdeconv.rewrite.infer_specs import ShapeLike, infer_specs, input_shapes, naming_shapes
from irdeconv.rewrite.standardize import with_split_pads
from irdeconv.verify.adapter import ProofSide, meant, model_side, paired, reshaped, side_of
from irdeconv.verify.certificates import Stamp

NOTHING = ProofSide(Model((), (), ()), lambda port: Fact(None, None))


@dataclass(frozen=True)
class Given:
    """A model and how it is read; `staged`: an IR under temporary names."""

    model: ModelLike
    weights: Weights | None = None
    semantics: Semantics = "runtime"
    name: str = "<bytes>"
    seed: int = 0
    staged: bool = False

    @property
    def is_ir(self) -> bool:
        """Whether it is the path of an IR that the core can read itself: not of version 2 to 7."""
        path = self.path
        if path is None or not (self.weights is None or isinstance(self.weights, str | PathLike)):
            return False
        return self.staged or (path.suffix == ".xml" and not is_legacy(path))

    @property
    def path(self) -> Path | None:
        """The file that the model is read from; None in memory."""
        if not isinstance(self.model, str | PathLike):
            return None
        return Path(os.fspath(self.model))

    @property
    def beside(self) -> Path | None:
        """The file of the weights, if it is named."""
        weights = self.weights
        return Path(os.fspath(weights)) if isinstance(weights, str | PathLike) else None


@work.gc_paused()
def both_sides(
    a: Given, b: Given, shapes: Mapping[str, ShapeLike] | None = None
) -> tuple[ProofSide, ProofSide]:
    """Return two models as sides, with `shapes` for both; raises as `infer`.

    Two IRs are read by the core, all others by irdeconv.
    """
    own = a.is_ir and b.is_ir
    source = _graph(a, shapes or {}, spelled=own)
    wanted = input_shapes(source, shapes or {})
    numbers = {n.id: i for i, n in enumerate(source.parameters)}
    chosen = {numbers[i]: shape for i, shape in wanted.items()}
    names = {source.inputs[i]: format_shape(shape) for i, shape in chosen.items()}
    if b.staged and b.path is not None:  # a file of the user's own would earn this
        known = a.path.stat().st_size if a.path is not None and a.path.is_file() else 0
        size = max(0, b.path.stat().st_size - known)
        work.take(work.EARNED * size, "the proof of what was written")
    pair = []
    for given, graph in ((a, source), (b, _graph(b, {}, spelled=own))):
        with naming_shapes(shapes or {}, partial(_side, given, graph, {}, own=own)):
            pair.append(_side(given, graph, chosen, own=own))
    return tuple(replace(s, sizes=names) for s in pair)  # type: ignore[return-value]


def _graph(given: Given, shapes: Mapping[str, ShapeLike], *, spelled: bool) -> Graph:
    return graph_of(
        given.model,
        given.weights,
        given.semantics,
        shapes=shapes,
        seed=given.seed,
        name=given.name,
        recognised=not spelled,
    )


def _side(
    given: Given, graph: Graph, shapes: Mapping[int, Shape | None], *, own: bool
) -> ProofSide:
    graph = graph.copy()
    parameters = graph.parameters
    for number, shape in shapes.items():
        if number < len(parameters):
            old: Any = parameters[number].op
            graph.replace_op(parameters[number].id, Parameter(shape, old.element_type))
    diagnostics = infer_specs(graph, remarks=True, compare=not shapes)
    if any(d.severity == "error" for d in diagnostics):
        raise InferenceError([d for d in diagnostics if d.severity == "error"])
    found = (d for d in diagnostics if d.code in ("W202", "W203"))
    warnings = () if given.path is None else tuple(found)
    if not own:
        staged = "xml" if given.staged else None
        stamped = None if given.path is None else stamp_of(given.path, staged, given.beside)
        return replace(side_of(with_split_pads(graph)), stamp=stamped, warnings=warnings)
    try:
        assert given.path is not None
        model = meant(reader.read(given.path, given.beside), document=given.semantics == "document")
    except Unproved as e:
        return replace(NOTHING, refused=str(e), warnings=warnings)
    if graph.info.ir_version == 10:
        graph = as_version_10(graph)  # the core sees the types that the file has inside
    inside = {n: s for n, s in shapes.items() if n < len(model.parameters)}
    side = model_side(graph, model, paired(graph, model))
    stamp = {kind: {"sha256": h, "size": size} for kind, (h, size) in model.files.items()}
    return replace(side, model=reshaped(model, inside), stamp=stamp, warnings=warnings)


def stamp_of(path: Path, kind: str | None = None, weights: Path | None = None) -> Stamp:
    """Return hash and size of a file, called after its suffix or `kind`, and of an IR's weights."""
    kind = kind or path.suffix.removeprefix(".") or "file"
    out = {kind: _hashed(path)}
    beside = weights or path.with_suffix(".bin")
    if kind == "xml" and beside.is_file():
        out["bin"] = _hashed(beside)
    return out


def _hashed(path: Path) -> dict[str, Any]:
    with open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        return {"sha256": digest, "size": file.tell()}
