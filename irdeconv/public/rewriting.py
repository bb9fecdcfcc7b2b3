"""Lower, raise, prove, reduce, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.formats.atomic import together
from irdeconv.formats.models import ModelLike, graph_of, openvino_model
from irdeconv.formats.onnx_editing import rewritten, to_edit
from irdeconv.formats.xml_writer import write_ir
from irdeconv.ir.spec import Array
from irdeconv.public.editing import imported, write_edited
from irdeconv.rewrite.infer_specs import ShapeLike
from irdeconv.rewrite.lower_deconv import Lowered
from irdeconv.rewrite.lower_deconv import lower as _lower
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import Target
from irdeconv.runtime.feeds import Feeds
from irdeconv.runtime.peers import require_side
from irdeconv.verify import check
from irdeconv.verify.certificates import Certificate, Certificates, CheckReport, read_certificates
from irdeconv.verify.proving import Given, both_sides
from irdeconv.verify.raising import Raised, raise_deconvolutions, unproved
from irdeconv.verify.reduce import (
    ONNX_PEER,
    PEER,
    TIMEOUT,
    Reduced,
    Task,
    guessed_feeds,
    reduce_model,
)
from irdeconv.verify.reduce_checks import opened, stage_variant


@checked
@work.counted
def lower(
    model: ModelLike,
    form: str | None = None,
    target: str | PathLike[str] | Target | None = None,
    *,
    explain_costs: bool = False,
    best_effort: bool = False,
    only: str | None = None,
    convolutions: bool = False,
    fuse: bool = False,
) -> Lowered:
    """Return a copy without deconvolutions, and a report of each: `graph, report = ...`.

    `form` is zero-insertion (the default) or another that `irdeconv lower --help` lists; a layer
    for which it is impossible gets zero-insertion, and the report says why. `target` is the name of
    a packaged target (`irdeconv lower --list-targets`), a .toml file or a Target; with it the
    default is "auto": each deconvolution gets the cheapest form of which all layers meet the
    target's conditions. `only` is a pattern of layer names (`*` and `?` are wildcards).
    `convolutions` also rewrites ordinary convolutions that violate conditions. `fuse` first folds
    scales and biases as `simplify` does. `explain_costs` reports the costs of all forms.

    Raises TargetError with every layer that violates conditions in each form, unless `best_effort`
    makes these warnings; LoweringError with every deconvolution that cannot be lowered.

    >>> graph, report = ird.lower("ir_samples/openvino/segmentation_head.xml", "stacked")
    >>> print(report)
    up1: ConvolutionBackpropData -> Convolution, DepthToSpace, StridedSlice
    up2: GroupConvolutionBackpropData -> GroupConvolution, DepthToSpace, StridedSlice
    """
    return _lower(
        graph_of(model),
        form,
        target,
        explain_costs=explain_costs,
        best_effort=best_effort,
        only=only,
        convolutions=convolutions,
        fuse=fuse,
    )


@checked
@work.counted
def raise_(
    model: ModelLike, only: Sequence[str] | None = None, *, path: str | PathLike[str] | None = None
) -> Raised:
    """Return a copy in which decompositions are deconvolutions again: `graph, report = ...`.

    The patterns are zero-insertion, phases, depth-to-space, resize, and upsample (a resize alone).
    `only` names the ones to look for; upsample is found only if it is named. Filters must be finite
    constants. A pattern that is not proved equal for every size of the data stays as it is, and the
    report says why. The bodies of loops and branches are not searched. `path` is where the model is
    written. An .onnx gets the ONNX model, whose other nodes stay as they are.

    Raises UsageError for an unknown pattern, InferenceError if the graph does not fit together.

    >>> low = ird.lower("ir_samples/openvino/segmentation_head.xml")
    >>> graph, report = ird.raise_(low)
    >>> print(report)
    up1: zero-insertion -> ConvolutionBackpropData
    up2: zero-insertion -> GroupConvolutionBackpropData
    """
    source = to_edit(model, path)
    graph = imported(model, source)
    done = raise_deconvolutions(graph, only, unproved)
    write_edited(done.graph, path, source, lambda onnx: rewritten(onnx, graph, done.graph))
    return done


@checked
def write(model: ModelLike, path: str | PathLike[str]) -> None:
    """Write `path` (.xml) and the `.bin` beside it, in standard operations, atomically.

    OpenVINO loads the result and computes the same. Raises UnsupportedError for operations that
    cannot be written in standard ones, InputError if constants have no data (E120), FileAccessError
    if the files cannot be written.

    >>> ird.write(ird.lower("ir_samples/openvino/group_deconv.xml"), "lowered.xml")
    >>> list(ird.read("lowered.xml").nodes("GroupConvolutionBackpropData"))
    []
    """
    write_ir(standardize(graph_of(model)), Path(path))


@checked
def to_openvino(model: ModelLike) -> Any:
    """Return a model as an `openvino.Model`, in standard operations and without a file.

    Raises UnsupportedError for operations without a standard spelling and if the package
    openvino is missing (extra `oracles`), InputError if constants have no data (E120).

    >>> model = ird.to_openvino(ird.lower("ir_samples/openvino/group_deconv.xml"))
    >>> [type(model).__name__, model.get_friendly_name(), *model.inputs[0].names]
    ['Model', 'group_deconv', 'x']
    """
    return openvino_model(standardize(graph_of(model)))


@checked
@work.counted
@work.gc_paused()
def certify(
    model: ModelLike,
    lowered: ModelLike,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> Certificates:
    """Prove every layer that a lowering rewrote equal to the original; return certificates.

    `model` is the one with deconvolutions. `sizes` gives the inputs of both models other shapes.
    With `probe` both models are evaluated as well, as by `check_certificate`; the certificates then
    have seed, bound and sizes.

    A certificate is true if its layer is proved for every size. Otherwise `reason` says why not,
    `holds_for` for which sizes it is proved, or `assumed` under which assumptions. All certificates
    together are true if something was rewritten and every rewritten layer is proved. `to_json`
    keeps them, with the hashes of the two files. `check_certificate` also says whether everything
    else is the same.

    Raises the errors of `read` and `infer`.

    >>> g = ird.read("ir_samples/openvino/segmentation_head.xml")
    >>> proofs = ird.certify(g, ird.lower(g, "stacked"))
    >>> bool(proofs), len(proofs), [(c.layer, c.form, c.holds_for) for c in proofs][0]
    (True, 2, ('up1', 'stacked', 'the size [1, 16, 8, 8]'))
    """
    both = both_sides(Given(model), Given(lowered), sizes)
    return check.certified(*both, probe=probe, seed=seed)


@checked
@work.counted
@work.gc_paused()
def check_certificate(
    model: ModelLike,
    lowered: ModelLike,
    certificates: Sequence[Certificate] | str | PathLike[str] | None = None,
    *,
    sizes: Mapping[str, ShapeLike] | None = None,
    probe: bool = False,
    seed: int | None = None,
) -> CheckReport:
    """Prove every rewritten layer equal to the original, and all others unchanged.

    The report is true if at least one layer was rewritten and everything is proved for every size
    that `model` allows. Its `equal` is also true if a layer is proved for some sizes only, or only
    under the assumptions in `assumed`: the file's declarations of unknown operations.
    `sizes` asks for other shapes of the inputs.

    `certificates`, or the file that `lower --certify` wrote, must have exactly one certificate for
    each rewritten layer. All must state the contents of the two models and their files' hashes.
    `probe` evaluates both sides instead of proving, at random points modulo random primes. `seed`
    repeats a probe; without it the points are new.

    >>> low = ird.lower("ir_samples/openvino/segmentation_head.xml")
    >>> report = ird.check_certificate("ir_samples/openvino/segmentation_head.xml", low)
    >>> print(report)
    ok   up1: ConvolutionBackpropData = zero-insertion for the size [1, 16, 8, 8]
    ok   up2: GroupConvolutionBackpropData = zero-insertion for the size [1, 16, 16, 16]
    2 of 2 rewritten layers equal, 10 others unchanged
    >>> bool(report)
    True
    """
    both = both_sides(Given(model), Given(lowered), sizes)
    if probe:
        return check.probed(*both, seed=seed)
    if isinstance(certificates, str | PathLike):
        certificates = read_certificates(certificates)
    return check.checked(*both, certificates)


@checked
def reduce(
    model: ModelLike,
    check: str | Callable[[Any, dict[str, Array]], Any] | None = None,
    inputs: Feeds | None = None,
    *,
    compare: ModelLike | None = None,
    verb: str | None = None,
    fails_with: str | None = None,
    timeout: float = TIMEOUT,
    tolerance: float | None = None,
    max_checks: int | None = None,
    seconds: float | None = None,
    path: str | PathLike[str] | None = None,
) -> Reduced:
    """Shrink a model as long as it shows a fault: to few layers, small sizes, simple numbers.

    Exactly one of these defines the fault. `check(graph, inputs)` is true. Or `check` is a
    command that fails on a file, as `irdeconv reduce --check` describes it, with `fails_with` and a
    `timeout` in seconds. Or `compare`, a runtime or a second model, computes other numbers than
    rounding or `tolerance` explains. Or `verb` ("lower", "raise", "run", "write") raises an error.
    A check that raises an exception says nothing about its variant.

    `inputs` are random by default; open sizes are then the smallest. The search ends after
    `max_checks` checks, after `seconds`, or on Ctrl-C. `path` is where the piece is written, with
    an .npz of its inputs. With an .onnx the piece of an ONNX model stays ONNX: nodes and sizes stay
    as they are, a function checks an onnx.ModelProto, and `compare` may be "onnxruntime".

    Raises NothingToReduceError if the model itself shows no fault, UsageError for arguments that
    exclude each other, and the errors of `check` for the model itself.

    >>> model = "ir_samples/openvino/segmentation_head.xml"
    >>> small = ird.reduce(model, lambda graph, inputs: any(graph.nodes("Sigmoid")))
    >>> print(small)
    12 layers -> 1: Sigmoid "mask"
    >>> {name: array.shape for name, array in small.inputs.items()}
    {'head/relu': (1, 1, 1, 1)}
    """
    task = Task(check, compare, verb, fails_with, timeout, tolerance, max_checks, seconds)
    return _reduced(model, inputs, task, path)


def _reduced(
    model: ModelLike, inputs: Feeds | None, task: Task, path: str | PathLike[str] | None
) -> Reduced:
    graph, models = opened(model, path)
    if task.compare is not None and task.compare not in (PEER, ONNX_PEER):
        if isinstance(task.compare, str):
            require_side(task.compare)
        other, second = opened(task.compare, path)
        models, task = models + second, replace(task, compare=other)
    feeds = guessed_feeds(graph) if inputs is None else inputs
    done = reduce_model(graph, feeds, replace(task, models=models))
    if path is not None:
        with together() as files:
            stage_variant(done.piece, Path(path), files)
    return done
