"""Reduce a failing model stage by stage, until no smaller one still fails.

For a comparison also: cut out the piece around the first layer that differs, with both sides, its
inputs and outputs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irdeconv.base import progress
from irdeconv.base.errors import (
    Diagnostic,
    IrdeconvError,
    NothingToReduceError,
    count,
    did_you_mean,
    misused,
)
from irdeconv.base.json_form import NamedLayer, Record, finite
from irdeconv.base.markup import html_text, html_title, line
from irdeconv.base.tables import printable
from irdeconv.formats.arrays import npz
from irdeconv.formats.atomic import failures, together
from irdeconv.formats.models import ModelLike
from irdeconv.formats.onnx_container import OnnxFile
from irdeconv.formats.xml_writer import stage_ir
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.spec import Array
from irdeconv.kernels.machine import one_blas_thread
from irdeconv.rewrite.lower_deconv import lower
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.peers import require_peer
from irdeconv.runtime.plan import Plan
from irdeconv.verify import reduce_checks, reduce_search
from irdeconv.verify.comparison import Comparison
from irdeconv.verify.difference import TensorDifference
from irdeconv.verify.partner import Partner
from irdeconv.verify.raising import raise_deconvolutions, unproved
from irdeconv.verify.reduce_pieces import Knife, ModelSize, Unit, Variant, guess, variant_of
from irdeconv.verify.reduce_search import Exhausted, Search
from irdeconv.verify.runtimes import openvino

ROUNDS = 3  # of all stages; an omission in one may allow more in another

STAGES: Mapping[str, Callable[[Search], None]] = {
    "leaving out layers": reduce_search.fewer_layers,
    "bypassing layers": reduce_search.bypass,
    "shrinking sizes": reduce_search.smaller,
    "simplifying attributes": reduce_search.plainer_attributes,
    "simplifying numbers": reduce_search.simpler_numbers,
    "leaving out notes": reduce_search.without_notes,
}


_KEYS = """layers=piece.listed layers_before=before.layers constant_bytes=after.constant_bytes
constant_bytes_before=before.constant_bytes inputs=shapes found checks repeated undecided
seconds=rounded_seconds stopped"""


class Reduced(Record, keys=_KEYS, kw_only=True, repr=False):
    """The small model that still shows the fault.

    `graph` is the piece, `other` the same piece of the model that it was compared with, `inputs`
    the values of its inputs by name. `in_one_piece`: OpenVINO differs when it executes the whole
    model, but not layer by layer.
    """

    piece: Variant
    before: ModelSize
    after: ModelSize
    found: str  # the check's finding in the piece
    checks: int  # how many variants were checked
    repeated: int  # variants that had been checked before
    undecided: int  # checks without an answer
    seconds: float
    stopped: str | None = None  # why the search ended early; null if the piece is minimal
    in_one_piece: bool = False

    @property
    def graph(self) -> Graph:
        """The piece."""
        return self.piece.graph

    @property
    def other(self) -> Graph | None:
        """The same piece of the second model."""
        return self.piece.graphs[1] if len(self.piece.graphs) > 1 else None

    @property
    def inputs(self) -> dict[str, Array]:
        """The values of the piece's inputs by name."""
        return self.piece.inputs

    @property
    def layers(self) -> list[Node]:
        """The layers that are left, producers first."""
        return self.piece.layers

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the piece's inputs, by name."""
        return {name: a.shape for name, a in self.inputs.items()}

    @property
    def rounded_seconds(self) -> float:
        """How long the search took, in seconds."""
        return round(self.seconds, 3)

    def __repr__(self) -> str:
        return line(self, None, str(self), count(self.checks, "check"))

    def _repr_html_(self) -> str:
        return html_title(f"{self}, {count(self.checks, 'check')}") + html_text(self.found)

    def __str__(self) -> str:
        names = ", ".join(f'{n.type} "{n.name}"' for n in self.layers)
        return printable(f"{count(self.before.layers, 'layer')} -> {self.after.layers}: {names}")


def shrink(search: Search) -> Reduced:
    """Return the smallest failing variant within the search's limits; an interruption is one."""
    before, stopped = search.best.size, None
    try:
        _search(search)
    except Exhausted as e:
        stopped = str(e)
    except KeyboardInterrupt:
        stopped = "interrupted"
    return Reduced(
        piece=search.best,
        before=before,
        after=search.best.size,
        found=search.outcome.said,
        checks=search.checks,
        repeated=search.repeated,
        undecided=search.undecided,
        seconds=search.elapsed,
        stopped=stopped,
    )


def _search(search: Search) -> None:
    stages = [*STAGES.items()]
    if search.best.editable:
        reduce_search.exact_shapes(search)
    else:
        stages = stages[:1]
    for number in range(ROUNDS):
        before = search.best
        for label, stage in stages:
            with progress.stage(f"{label}, round {number + 1}") as step:
                search.step = step
                stage(search)
        if search.best is before:
            return


def nothing_to_reduce(message: str, hint: str) -> IrdeconvError:
    """Return the error of a model that shows no fault (E509)."""
    return NothingToReduceError(Diagnostic("E509", "error", message, hint=hint))


def guessed_feeds(graph: Graph) -> dict[str, Array]:
    """Return an array per input: reals in [0, 1), others 0; open sizes are the smallest ones."""
    pairs = zip(graph.inputs, graph.parameters, strict=True)
    return {name: guess(n.spec(), 0, i) for i, (name, n) in enumerate(pairs)}


TIMEOUT = 300.0  # seconds
NOT_RUN = (126, 127)  # exit codes
PEER, ONNX_PEER = "openvino", "onnxruntime"
VERBS: Mapping[str, Callable[[Variant], Any]] = {
    "lower": lambda c: lower(c.graph),
    "raise": lambda c: raise_deconvolutions(c.graph, prove=unproved),
    "run": lambda c: reduce_checks.plan_of(c.graph, c.feeds).run(c.feeds),
    "write": lambda c: standardize(c.graph),
}


@dataclass(frozen=True)
class Task:
    """The task of `reduce`: one of `check`, `compare` and `verb`, and its limits.

    `check` is a command or a function, `compare` a runtime or the second model, `verb` one of
    VERBS. `fails_with` and `timeout` (seconds) belong to a command, `tolerance` to a comparison.
    `file` is the path of the original file for a command. `models` are the ONNX models whose
    `layers_of` the graphs are, if they stay ONNX; a function then checks an onnx.ModelProto.
    """

    check: str | Callable[[Any, dict[str, Array]], Any] | None = None
    compare: ModelLike | None = None
    verb: str | None = None
    fails_with: str | None = None
    timeout: float = TIMEOUT
    tolerance: float | None = None
    max_checks: int | None = None
    seconds: float | None = None
    file: Path | None = None
    models: tuple[OnnxFile, ...] = ()
    semantics: Semantics = "runtime"

    def require_sense(self) -> None:
        """Raise UsageError if the task is none."""
        given = [n for n in ("check", "compare", "verb") if getattr(self, n) is not None]
        if len(given) != 1:
            problem = f"not {' and '.join(given)} together" if given else "none is given"
            raise misused(f"reduce needs one of check, compare and verb; {problem}")
        if isinstance(self.check, str):
            reduce_checks.parse_command(self.check, self.fails_with)
        elif self.fails_with is not None:
            raise misused("--fails-with goes with a --check that is a command")
        if self.tolerance is not None and self.compare is None:
            raise misused("--tolerance goes with --compare")
        if self.verb is not None and self.verb not in VERBS:
            hint = did_you_mean(self.verb, VERBS) or f"it is one of {', '.join(VERBS)}"
            raise misused(f'--verb "{self.verb}": reduce has no such check', hint)
        if self.compare == PEER:
            openvino()
        elif self.compare == ONNX_PEER:
            require_peer(ONNX_PEER)
            if not self.models:
                hint = "write the piece of an ONNX model to an .onnx"
                raise misused("ONNX Runtime reads only an .onnx", hint)
        elif isinstance(self.compare, str):
            hint = f'it is "{PEER}", "{ONNX_PEER}" or a model'
            raise misused(f'--compare "{self.compare}": there is no such runtime', hint)

    def made_check(self) -> reduce_checks.Check:
        """Return the check."""
        if isinstance(self.check, str):
            return reduce_checks.CommandCheck(
                reduce_checks.parse_command(self.check), self.timeout, self.fails_with
            )
        if self.check is not None:
            return reduce_checks.CallCheck(self.check)
        if self.verb is not None:
            return reduce_checks.VerbCheck(VERBS[self.verb])
        if isinstance(self.compare, Graph):
            return reduce_checks.ComparingCheck(self.tolerance)
        return reduce_checks.RuntimeCheck(self.tolerance, onnx=self.compare == ONNX_PEER)


def reduce_model(graph: Graph, inputs: Feeds, task: Task) -> Reduced:
    """Shrink a model as long as the fault of a task shows in it.

    Raises UsageError for a task that makes no sense, NothingToReduceError if the model itself shows
    no fault, and the errors of comparing or writing the model.
    """
    task.require_sense()
    graphs = [graph, task.compare] if isinstance(task.compare, Graph) else [graph]
    original, check = variant_of(graphs, inputs), task.made_check()
    if task.models:
        whole = reduce_checks.WholeOnnx(task.models, original.inputs, task.semantics)
        original = reduce_checks.OnnxVariant(original.graphs, original.feeds, whole=whole)
        if isinstance(check, reduce_checks.ComparingCheck | reduce_checks.VerbCheck):
            original.imported.graph.lint()  # raises errors of the whole model
    outcome = _seen_to_fail(task, check, original)
    done = shrink(Search(check, original, outcome, task.max_checks, task.seconds))
    return replace(done, in_one_piece=isinstance(check, reduce_checks.RuntimeCheck) and check.whole)


def _seen_to_fail(
    task: Task, check: reduce_checks.Check, original: Variant
) -> reduce_checks.Outcome:
    """Return a check's outcome for the original, which it has to fail.

    Raises NothingToReduceError (E509) with another outcome, also if two runs differ.
    """
    if isinstance(check, reduce_checks.ComparingCheck):
        result = check.compare(original)
        if isinstance(check, reduce_checks.RuntimeCheck):
            check.whole = result.passed
    outcome = check(original)
    if isinstance(check, reduce_checks.CommandCheck | reduce_checks.CallCheck):
        again = check(original)
        if outcome.fails != again.fails:
            runs = f"first: {outcome.said}; then: {again.said}"
            message = f"the check does not say the same of the same model: {runs}"
            hint = "make the check repeatable: fixed seeds, one thread, no cache"
            raise nothing_to_reduce(message, hint)
    if not outcome.fails:
        message = f"the fault does not show in the model: {outcome.said}"
        if isinstance(check, reduce_checks.CommandCheck) and task.file is not None:
            # The file itself may fail, but not irdeconv's copy of it.
            alone = not any(reduce_checks.INPUTS in w for w in check.words)
            if alone and check.run(task.file, original).fails:
                message = f"{task.file} fails the check as it stands, but not as irdeconv writes "
                message += "it anew"
        raise nothing_to_reduce(message, check.hint)
    if isinstance(check, reduce_checks.CallCheck):
        check.seen = True
    if (
        isinstance(check, reduce_checks.CommandCheck)
        and check.wanted is None
        and check.last is not None
    ):
        if check.last.code in NOT_RUN:
            message = f"a shell cannot run a command of the check: {outcome.said}"
            raise nothing_to_reduce(message, f"--fails-with {check.last.code} if it is the fault")
        check.wanted = check.last.failure
    return outcome


LAYER, OTHER, ARRAYS = "layer.xml", "other.xml", "inputs.npz"
OUTPUTS_A, OUTPUTS_B, REPORT = "outputs_a.npz", "outputs_b.npz", "report.json"
NAMES = (LAYER, "layer.bin", OTHER, "other.bin", ARRAYS, OUTPUTS_A, OUTPUTS_B, REPORT)


class PieceReport(Record, document="piece/1"):
    """A piece that shows the first difference."""

    first_difference: str  # the tensor that differs first, in words
    layers: list[NamedLayer]  # of the piece
    files: dict[str, str]  # what each file contains, by name
    see_it: list[str]  # commands that show the difference
    difference: TensorDifference  # the same difference in numbers


@dataclass(frozen=True)
class Around:
    """A piece that shows the first difference, and both sides' results for its inputs."""

    piece: Variant
    first: TensorDifference
    outputs_a: dict[str, Array]
    outputs_b: dict[str, Array]

    def commands(self, peer: str | None) -> list[str]:
        """Return the commands that show the difference, in the folder of the files."""
        others = [OTHER] if len(self.piece.graphs) > 1 else [peer] if peer else []
        commands = [["compare", LAYER, other, "-i", ARRAYS] for other in (*others, OUTPUTS_B)]
        return [shlex.join(["irdeconv", *command]) for command in commands]

    def report(self, peer: str | None) -> PieceReport:
        """Return what is written beside the piece."""
        files = {
            LAYER: "the first model's layers, layer.bin beside it",
            ARRAYS: "what flows into them on the second side, by name",
            OUTPUTS_A: "what the first model's layers make of these inputs",
            OUTPUTS_B: "what the second side has there",
            OTHER: "the second model's layers, other.bin beside it",
        }
        if len(self.piece.graphs) < 2:
            del files[OTHER]
        commands = self.commands(peer)
        return PieceReport(str(self.first), self.piece.listed, files, commands, self.first)


def find_around(
    plan: Plan, start: Callable[[], Partner], inputs: Feeds, result: Comparison, other: Graph | None
) -> Around | None:
    """Cut out the first layer that differs, by asking the partner once more; None if nothing does.

    `result` compares the plan with the partner that `start` starts. `other` is the partner's graph,
    if it has one.
    """
    first = result.first_difference
    if first is None:
        return None
    graphs = [plan.graph] if other is None else [plan.graph, other]
    known = {t.node for t in result.tensors if t.node is not None and not t.output}
    knife = Knife(variant_of(graphs, inputs), known=known)
    units = {u[0]: u for u in knife.units}
    node = first.node
    assert node is not None
    # The layer that differs, or the output.
    unit = units.get(node) or units[plan.graph.inputs_of(node)[0].node]
    borders = {value.node for value in knife.borders([unit])}
    arrays, ends = _fetched(plan, start, borders | {unit[0]})
    for value, array in arrays.items():
        if value.node in borders:
            knife.flow.replace(value, array)
    piece = knife.piece([unit])
    if piece is None:
        return None
    a = reduce_checks.plan_of(piece.graph, piece.feeds).run(piece.feeds)
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
    """Return a partner's values of some nodes, and the model outputs."""
    arrays: dict[Value, Array] = {}
    with one_blas_thread(), closing(start()) as partner:
        for node in (step.node for step in plan.stepwise().steps):
            found = partner.fetch(node)
            if found is not None and node.id in wanted:
                ports = enumerate(found.arrays)
                arrays |= {Value(node.id, port): a for port, a in ports if a is not None}
        return arrays, partner.outputs()


def _theirs(
    graph: Graph, unit: Unit, arrays: dict[Value, Array], ends: list[Array | None]
) -> dict[str, Array]:
    """Return the second side's values of a layer or output."""
    node = graph.node(unit[0])
    if node.type != "Result":
        return {node.output_key(v.port): a for v, a in sorted(arrays.items()) if v.node == node.id}
    index = [n.id for n in graph.results].index(node.id)
    found = ends[index] if index < len(ends) else None
    return {} if found is None else {_key(graph, node): found}


def _key(graph: Graph, result: Node) -> str:
    source = graph.inputs_of(result.id)[0]
    return graph.node(source.node).output_key(source.port)


def write_around(around: Around, folder: Path, peer: str | None) -> None:
    """Write the files, all or none, into a folder (made if missing); FileAccessError."""
    with failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
    arrays = {ARRAYS: around.piece.inputs, OUTPUTS_A: around.outputs_a, OUTPUTS_B: around.outputs_b}
    with together() as files:
        for graph, name in zip(around.piece.graphs, (LAYER, OTHER), strict=False):
            stage_ir(standardize(graph), folder / name, files)
        for name, content in arrays.items():
            files.write(folder / name, npz(content))
        report = json.dumps(finite(around.report(peer).to_dict()), indent=1) + "\n"
        files.write(folder / REPORT, report.encode())
