"""The piece around the first layer that differs in a comparison: both sides, inputs, outputs."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irdeconv.formats.arrays import npz
from irdeconv.formats.atomic import Files, failures, together
from irdeconv.formats.xml_writer import stage_ir
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array
from irdeconv.kernels.blas import one_blas_thread
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.plan import Plan
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.difference import TensorDifference
from irdeconv.verify.partner import Partner, layer_keys
from irdeconv.verify.reduce import listed_layers, variant_of
from irdeconv.verify.reduce_checks import plan_of
from irdeconv.verify.reduce_pieces import Knife, Unit, Variant

LAYER, OTHER, INPUTS = "layer.xml", "other.xml", "inputs.npz"
OUTPUTS_A, OUTPUTS_B, REPORT = "outputs_a.npz", "outputs_b.npz", "report.json"
NAMES = (LAYER, "layer.bin", OTHER, "other.bin", INPUTS, OUTPUTS_A, OUTPUTS_B, REPORT)


@dataclass(frozen=True)
class Around:
    """A piece that shows the first difference, and what both sides make of its inputs."""

    piece: Variant
    first: TensorDifference
    outputs_a: dict[str, Array]
    outputs_b: dict[str, Array]

    def commands(self, peer: str | None) -> list[str]:
        """Return what shows the difference, in the folder of the files."""
        others = [OTHER] if len(self.piece.graphs) > 1 else [peer] if peer else []
        commands = [["compare", LAYER, other, "-i", INPUTS] for other in (*others, OUTPUTS_B)]
        return [shlex.join(["irdeconv", *command]) for command in commands]

    def report(self, peer: str | None) -> dict[str, Any]:
        """Return the JSON form."""
        files = {
            LAYER: "the first model's layers, layer.bin beside it",
            INPUTS: "what flows into them on the second side, by name",
            OUTPUTS_A: "what the first model's layers make of these inputs",
            OUTPUTS_B: "what the second side has there",
            OTHER: "the second model's layers, other.bin beside it",
        }
        if len(self.piece.graphs) < 2:
            del files[OTHER]
        return {
            "schema": "irdeconv/piece/1",
            "first_difference": str(self.first),
            "layers": listed_layers(self.piece),
            "files": files,
            "see_it": self.commands(peer),
            "difference": {k: _finite(v) for k, v in self.first.to_dict().items()},
        }


def _finite(value: Any) -> Any:
    """Return a number as JSON can spell it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def find_around(
    plan: Plan,
    start: Callable[[], Partner],
    inputs: Feeds,
    result: Comparison,
    other: Graph | None,
) -> Around | None:
    """Cut out what first differs, by asking the partner once more; None where nothing does.

    `result` is the comparison of the plan with the partner that `start` makes; `other` is that
    side's graph, where it is one.
    """
    first = result.first_difference
    if first is None:
        return None
    graphs = [plan.graph] if other is None else [plan.graph, other]
    known = {t.node for t in result.tensors if t.node is not None and not t.output}
    knife = Knife(variant_of(graphs, inputs), known=known)
    unit = _unit(plan.graph, knife, first)
    borders = {value.node for value in knife.borders([unit])}
    arrays, ends = _fetched(plan, start, borders | {unit[0]})
    for value, array in arrays.items():
        if value.node in borders:
            knife.flow.replace(value, array)
    piece = knife.piece([unit])
    if piece is None:
        return None
    a = plan_of(piece.graph, piece.feeds).run(piece.feeds)
    keys = [_key(piece.graph, n) for n in piece.graph.results]
    return Around(
        piece=piece,
        first=first,
        outputs_a=dict(zip(keys, a.values(), strict=True)),
        outputs_b=_theirs(plan.graph, unit, arrays, ends),
    )


def _fetched(
    plan: Plan, start: Callable[[], Partner], wanted: Collection[int]
) -> tuple[dict[Value, Array], list[Array | None]]:
    """Return what a partner has of some nodes, and the model outputs."""
    arrays: dict[Value, Array] = {}
    with one_blas_thread(), closing(start()) as partner:
        for node in (step.node for step in plan.stepwise().steps):
            found = partner.fetch(node)
            if found is not None and node.id in wanted:
                ports = enumerate(found.arrays)
                arrays |= {Value(node.id, port): a for port, a in ports if a is not None}
        return arrays, partner.outputs()


def _unit(graph: Graph, knife: Knife, first: TensorDifference) -> Unit:
    """Return the layer that a difference is of, or the output."""
    found = {u[0]: u for u in knife.units}
    for i, key in layer_keys(graph).items():
        named = key == first.name or (key == first.name.rpartition(".")[0] and not first.output)
        if named and i in found and not first.output:
            return found[i]
    result = graph.results[graph.outputs.index(first.name)]
    return found.get(result.id) or found[graph.inputs_of(result.id)[0].node]


def _theirs(
    graph: Graph, unit: Unit, arrays: dict[Value, Array], ends: list[Array | None]
) -> dict[str, Array]:
    """Return what the second side has of a layer or output."""
    node = graph.node(unit[0])
    if node.type != "Result":
        return {node.output_key(v.port): a for v, a in sorted(arrays.items()) if v.node == node.id}
    index = [n.id for n in graph.results].index(node.id)
    found = ends[index] if index < len(ends) else None
    return {} if found is None else {_key(graph, node): found}


def _key(graph: Graph, result: Node) -> str:
    source = graph.inputs_of(result.id)[0]
    return graph.node(source.node).output_key(source.port)


def write_around(around: Around, folder: Path, peer: str | None) -> list[Path]:
    """Write the files, all or none, into a folder (made if missing); FileAccessError."""
    with failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with together() as files:
        written = _stage(around, folder, files)
        report = json.dumps(around.report(peer), indent=1) + "\n"
        files.write(folder / REPORT, report.encode())
    return [*written, folder / REPORT]


def _stage(around: Around, folder: Path, files: Files) -> list[Path]:
    written = []
    for graph, name in zip(around.piece.graphs, (LAYER, OTHER), strict=False):
        path = folder / name
        stage_ir(standardize(graph), path, files)
        written += [path, path.with_suffix(".bin")]
    arrays = {
        INPUTS: around.piece.inputs,
        OUTPUTS_A: around.outputs_a,
        OUTPUTS_B: around.outputs_b,
    }
    for name, content in arrays.items():
        files.write(folder / name, npz(content))
    return written + [folder / name for name in arrays]
