"""Lower, raise, write."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base import work
from irdeconv.base.arguments import checked
from irdeconv.formats.models import ModelLike, graph_of, openvino_model
from irdeconv.formats.onnx_editing import rewritten, to_edit
from irdeconv.formats.xml_writer import write_ir
from irdeconv.public.editing import imported, write_edited
from irdeconv.rewrite.lower_deconv import Lowered
from irdeconv.rewrite.lower_deconv import lower as _lower
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import Target
from irdeconv.verify.raising import Raised, raise_deconvolutions, unproved


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

    `form` is zero-insertion (the default), phases, stacked or gemm; a layer for which it is
    impossible gets zero-insertion, and the report says why. `target` is the name of a packaged
    target (`irdeconv lower --list-targets`), a .toml file or a Target; with it the default is
    "auto": each deconvolution gets the cheapest form of which all layers meet the target's
    conditions. `only` is a pattern of layer names (`*` and `?` are wildcards). `convolutions` also
    rewrites ordinary convolutions that violate conditions. `fuse` first folds scales and biases as
    `simplify` does. `explain_costs` reports the costs of all forms.

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
    model: ModelLike,
    only: Sequence[str] | None = None,
    *,
    path: str | PathLike[str] | None = None,
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
