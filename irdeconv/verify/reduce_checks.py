"""Checks of a reduction: commands, functions, comparisons with a runtime or of two models.

Pieces of ONNX models stay ONNX: each node that is left has the bytes of the whole model's. Layers
are the nodes of the model's own graph, known or not, as `outline` has them. Attributes and sizes
stay, since nodes do.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Protocol

from irdeconv.base.errors import IrdeconvError, did_you_mean, misused
from irdeconv.formats import onnx_container
from irdeconv.formats.arrays import npz
from irdeconv.formats.atomic import Files, together
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.formats.onnx_editing import keep_piece, to_edit
from irdeconv.formats.onnx_lowering import delete
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.xml_writer import stage_ir, write_ir
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.kernels.threads import Threads
from irdeconv.ops.basic import Parameter
from irdeconv.rewrite.infer_specs import infer_specs, inferred
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.peers import last_line, onnx_outputs, outlined, outputs_by_name
from irdeconv.runtime.plan import Plan, build_plan
from irdeconv.runtime.schedule import Settings
from irdeconv.verify.comparison import Comparison, compare_plan
from irdeconv.verify.partner import PlanPartner
from irdeconv.verify.reduce_pieces import KEPT_BYTES, Flow, Variant, guess, variant_of
from irdeconv.verify.runtimes import OnnxRuntimePartner, OpenVinoPartner


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check for a variant.

    `fails` is true if the fault shows, `said` describes the result in a line. `suspects` are names
    of layers that the check itself names. `valid` is False if it could say nothing.
    """

    fails: bool
    said: str
    suspects: tuple[str, ...] = ()
    valid: bool = True


class Check(Protocol):
    """Says whether the fault shows in a variant; `hint` helps if it does not show in the model."""

    hint: str

    def __call__(self, variant: Variant) -> Outcome:
        """Check one variant."""


def plan_of(graph: Graph, feeds: dict[str, Array]) -> Plan:
    """Return a plan that executes node by node, open inputs having the shapes of their values."""
    ready = graph.copy()
    for node in ready.parameters:
        if isinstance(node.op, Parameter) and not node.spec().static:
            ready.replace_op(node.id, replace(node.op, shape=feeds[node.name].shape))
            node.specs = None
    if any(n.specs is None for n in ready.nodes()):
        infer_specs(ready)
    return build_plan(ready, settings=Settings(False, Threads(1)))


_NUMBERS = re.compile(r"[-+(]*\d.*")  # sizes and values change while a mistake stays the same


@dataclass
class ComparingCheck:
    """Both sides differ by more than rounding explains, layer by layer or in an output.

    Once a mistake is known by its `kind`, only that one counts: otherwise cutting sizes would end
    at any two numbers that differ.
    """

    tolerance: float | None = None
    kind: str | None = None
    hint: str = "other inputs (-i) or a smaller --tolerance may show it"

    def __call__(self, variant: Variant) -> Outcome:
        """Compare the variant's sides; a comparison that cannot be made says nothing."""
        try:
            result = self.compare(variant)
        except IrdeconvError as e:
            first = next(iter(e.diagnostics), None)
            return Outcome(False, first.message if first else type(e).__name__, valid=False)
        found = result.first_difference
        if found is None:
            said = result.verdict if result.missing else "both sides agree"
            return Outcome(bool(result.missing), said)
        kind = _NUMBERS.sub("", found.kind or "")
        if self.kind is None:
            self.kind = kind if variant.editable else ""  # else sizes and numbers stay
        suspects = (found.name, found.name.rpartition(".")[0])
        return Outcome(self.kind in ("", kind), str(found), suspects)

    def compare(self, variant: Variant) -> Comparison:
        """Return the comparison of two graphs; raises the errors of `compare`."""
        own = variant.imported
        a, b = (plan_of(g, own.feeds) for g in own.graphs)
        start = partial(PlanPartner, a.graph, b, own.feeds)
        return compare_plan(a, start, own.feeds, self.tolerance)


@dataclass
class RuntimeCheck(ComparingCheck):
    """The sides are a graph here and in OpenVINO, or in ONNX Runtime if `onnx` is set.

    First every layer is looked at by itself. If all of them agree, `whole` lets the runtime execute
    the graph in one piece, with its fusions, and looks at the outputs.
    """

    onnx: bool = False
    whole: bool = False

    def compare(self, variant: Variant) -> Comparison:
        """Return the comparison; raises the errors of `compare`."""
        own = variant.imported
        plan = plan_of(own.graph, own.feeds)
        with TemporaryDirectory(prefix="irdeconv-") as folder:
            is_onnx = isinstance(variant, OnnxVariant)  # of a piece with the operations of ONNX
            file = Path(folder, "model.onnx" if is_onnx else "model.xml")
            if is_onnx:
                with together() as files:
                    stage_variant(variant, file, files)
            else:
                write_ir(standardize(plan.graph), file)
            feeds = dict(zip(plan.graph.inputs, plan.binder.bind(own.feeds), strict=True))
            runtime: Any = OnnxRuntimePartner if self.onnx else OpenVinoPartner
            start = partial(runtime, plan, file, feeds, whole=self.whole)
            return compare_plan(plan, start, own.feeds, self.tolerance)


def stage_variant(variant: Variant, path: Path, files: Files) -> list[Path]:
    """Write `path`, its .bin, an .npz of the inputs, and the other side's model if any.

    Pieces of ONNX models are .onnx, without a .bin. Returns the files that exist once `files` are
    put. Raises the errors of `stage_ir` and `keep_piece`, and UnsupportedError for operations
    without a standard spelling.
    """
    paths = [path, other_path(path)][: len(variant.graphs)]
    inputs = path.with_suffix(".npz")
    files.write(inputs, npz(variant.inputs))
    if isinstance(variant, OnnxVariant):
        for (model, added), target in zip(variant.models, paths, strict=True):
            onnx_container.stage_file(model, added, target, files)
        return [*paths, inputs]
    for graph, target in zip(variant.graphs, paths, strict=True):
        stage_ir(standardize(graph), target, files)
    models = [p.with_suffix(suffix) for p in paths for suffix in (".xml", ".bin")]
    return [*models, inputs]


def other_path(path: Path) -> Path:
    """Return the path of the other side's model: small_other.xml beside small.xml."""
    return path.with_name(f"{path.stem}_other{path.suffix}")


MODEL, INPUTS = "{}", "{inputs}"
SKIP = 125  # of a command: undecided, as for `git bisect run`
READ_BYTES = 1 << 20  # of a command's output; the end counts


@dataclass(frozen=True)
class Ran:
    """The result of a command: exit code (negative: a signal, None: the timeout), and output."""

    code: int | None
    printed: str

    @property
    def ended(self) -> str:
        """How it ended, in words."""
        if self.code is None:
            return f"ran into the {self.failure}"
        return f"{'was ended by' if self.code < 0 else 'returned'} {self.failure}"

    @property
    def failure(self) -> str:
        """The `--fails-with` of this failure."""
        if self.code is None:
            return "timeout"
        return signal_name(-self.code) if self.code < 0 else str(self.code)

    def shows(self, wanted: str) -> bool:
        """Whether the command failed as `--fails-with` says.

        That is a number, a signal such as SIGSEGV, `timeout`, `any` (every code but 0 and 125), or
        else a text in the output.
        """
        if wanted == "timeout" or self.code is None:
            return wanted == "timeout" and self.code is None
        if wanted == "any":
            return self.code not in (0, SKIP)
        if re.fullmatch(r"-?\d{1,5}", wanted):
            return self.code == int(wanted)
        number = getattr(signal, wanted, None) if wanted.startswith("SIG") else None
        if number is not None:
            # A shell reports a signal as 128 + its number.
            return self.code in (-number, 128 + number)
        return wanted in self.printed


def signal_name(number: int) -> str:
    """Return SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_OPERATOR = re.compile(r"\|\|?|&&?|;|<|\d?>>?(&\d|[\w./-]+)?")
_BUILTINS = ("cd", "export", "set", "source", "ulimit", "unset")


def parse_command(text: str, wanted: str | None = None) -> list[str]:
    """Split a command as a shell does; UsageError if it cannot be run on a variant."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise misused(f"--check: {e}") from None
    if not words:
        raise misused("--check is empty", "write a command, {} standing for the model's .xml")
    if not any(MODEL in w for w in words):
        raise misused(f'--check "{text}": it has no {{}}', "write {} for the model's .xml")
    shells = [w for w in words if _OPERATOR.fullmatch(w)] or [*{words[0]} & {*_BUILTINS}]
    if shells:
        hint = f"write sh -c {shlex.quote(text)}"
        raise misused(f"--check: {shells[0]} is for a shell, which is not used", hint)
    known = [s.name for s in signal.Signals] if wanted and wanted.startswith("SIG") else []
    if wanted not in known and (near := did_you_mean(str(wanted), known)):
        raise misused(f"--fails-with: there is no signal {wanted}", near)
    if shutil.which(words[0]) is None:
        hint = f"there is no file {words[0]}" if "/" in words[0] else "name it with its folder"
        missing = "is not found", hint
        denied = "is not executable", f"chmod +x {words[0]}"
        found, hint = denied if Path(words[0]).exists() else missing
        raise misused(f"--check: the command {words[0]} {found}", hint)
    script = words[1] if len(words) > 1 and re.fullmatch(r"[\w./-]+\.(py|sh)", words[1]) else None
    if script and script[0] != "-" and not Path(script).exists():  # every model would seem to fail
        raise misused(f"--check: there is no file {script}", "name it with its folder")
    return words


@dataclass
class CommandCheck:
    """Runs a command on a variant's files; `wanted` says which failure counts (None: any).

    `timeout` is in seconds. Each variant lies in a folder of its own, which is removed
    afterwards; the command runs in the folder in which irdeconv runs.
    """

    words: list[str]
    timeout: float
    wanted: str | None = None
    last: Ran | None = None
    hint: str = "the command has to fail on the model itself; --fails-with names the failure"

    def __call__(self, variant: Variant) -> Outcome:
        """Write the variant and run the command."""
        with TemporaryDirectory(prefix="irdeconv-") as folder:
            path = Path(folder, "model.xml" if variant.editable else "model.onnx")
            try:
                with together() as files:
                    stage_variant(variant, path, files)
            except IrdeconvError as e:
                said = f"it cannot be written: {e.diagnostics[0].message}"
                return Outcome(False, said, valid=False)
            return self.run(path, variant)

    def run(self, path: Path, variant: Variant) -> Outcome:
        """Run the command on a file whose inputs, if there are any, lie beside it."""
        try:
            ran = self.last = execute(filled(self.words, path), self.timeout)
        except OSError as e:
            hint = f"write '{'python' if '.py' in self.words[0] else 'sh'} {self.words[0]} {{}}'"
            raise misused(f"--check: {self.words[0]} cannot run: {e.strerror}", hint) from None
        fails, last = ran.shows(self.wanted or "any"), last_line(ran.printed)
        said = f"the command {ran.ended}" + (f": {last}" if last else "")
        suspects = _mentioned(ran.printed, variant) if fails else ()
        return Outcome(fails, said, suspects, valid=ran.code != SKIP)


def filled(words: list[str], path: Path) -> list[str]:
    """Return a command for one model, whose inputs lie beside it."""
    inputs = str(path.with_suffix(".npz"))
    return [w.replace(INPUTS, inputs).replace(MODEL, str(path)) for w in words]


def execute(words: list[str], timeout: float) -> Ran:
    """Run a command without a terminal; all its processes end with it, or after `timeout` s."""
    with TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S603 - the user's command in `--check`
            words,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        printed.seek(max(printed.seek(0, os.SEEK_END) - READ_BYTES, 0))
        return Ran(code, printed.read().decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and the processes that it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _mentioned(text: str, variant: Variant) -> tuple[str, ...]:
    """Return the layers whose names a text has as words, the last mentioned first."""
    words = set(re.findall(r"[^\s\"'`,;()\[\]{}<>=]+", text))
    words |= {w.strip(":.") for w in words}
    places = {n.name: text.rfind(n.name) for n in variant.layers if n.name in words}
    return tuple(sorted(places, key=lambda name: -places[name]))


@dataclass
class CallCheck:
    """Calls a function with the variant's model and inputs; true says that the fault shows.

    If it raises, the variant says nothing, once the whole model has been `seen` to fail.
    """

    function: Callable[[Any, dict[str, Array]], Any]
    seen: bool = False
    hint: str = "the function has to be true for the model itself"

    def __call__(self, variant: Variant) -> Outcome:
        """Call the function."""
        try:
            fails = bool(self.function(variant.subject, variant.inputs))
        except Exception as e:
            if isinstance(e, TypeError) and e.__traceback__ and not e.__traceback__.tb_next:
                raise misused(f"check is called as check(graph, inputs): {e}") from None
            if not self.seen:
                raise
            return Outcome(False, f"the check raised {type(e).__name__}: {e}", valid=False)
        return Outcome(fails, "the check says so" if fails else "the check says no")


@dataclass
class VerbCheck:
    """A function of irdeconv raises the same error on a variant as on the original.

    `wanted` has the class of that error and the codes of its diagnostics.
    """

    function: Callable[[Variant], Any]
    wanted: tuple[type, set[str]] | None = None
    hint: str = "the verb has to raise an error for the model itself"

    def __call__(self, variant: Variant) -> Outcome:
        """Call the function; the first error seen is the one that is looked for."""
        try:
            self.function(variant.imported)
        except Exception as e:
            diagnostics = getattr(e, "diagnostics", ())
            seen = type(e), {d.code for d in diagnostics}
            self.wanted = self.wanted or seen
            first = str(e).splitlines()[0] if str(e) else ""
            layers = tuple(d.layer for d in diagnostics if d.layer)
            return Outcome(seen == self.wanted, f"{type(e).__name__}: {first}", layers)
        return Outcome(False, "it works")


def layers_of(model: onnx_container.OnnxFile) -> Graph:
    """Return the layers of a model; an input with a default value becomes a constant, in place."""
    own = {t.name for t in model.proto.graph.initializer}
    if model.proto.ir_version >= 4:
        delete(model.proto.graph.input, lambda i: i.name in own)
    return outlined(model)


def opened(
    model: ModelLike, path: str | PathLike[str] | None
) -> tuple[Graph, tuple[onnx_container.OnnxFile, ...]]:
    """Return a model's inferred graph; of an ONNX model that stays ONNX its layers, and itself."""
    source = to_edit(model, path)
    return (inferred(graph_of(model)), ()) if source is None else (layers_of(source), (source,))


@dataclass
class WholeOnnx:
    """The models that pieces come from, and the values of their tensors by name.

    irdeconv computes them; if it does not read the first model, ONNX Runtime does.
    """

    models: Sequence[onnx_container.OnnxFile]
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
    def models(self) -> list[tuple[onnx_container.OnnxFile, list[Any]]]:
        """The pieces, each with its new tensors; UsageError for an output of unknown type.

        External data are inside, unless a message cannot hold them.
        """
        out = []
        for whole, graph in zip(self.whole.models, self.graphs, strict=True):
            proto = type(whole.proto).FromString(whole.proto.SerializeToString())
            model = onnx_container.OnnxFile(proto, whole.name, whole.folder)
            added, sizes = keep_piece(model, graph), 0
            for tensor in (
                t for s in onnx_container.scopes(proto) for t in onnx_container.tensors_of(s.body)
            ):
                sizes += onnx_container.bytes_of(tensor) or 0
            if model.external() and sizes < onnx_container.MESSAGE_LIMIT:
                model, added = onnx_container.OnnxFile(loaded(model), whole.name), []
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
