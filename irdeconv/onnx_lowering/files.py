"""ONNX files in, ONNX files out: the public function, and writing."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from irdeconv.errors import misused
from irdeconv.geometry import Semantics
from irdeconv.io.atomic import Files, together
from irdeconv.onnx_files.container import OnnxFile, OnnxSource, load_file, stage_file
from irdeconv.onnx_lowering.rewrite import LoweredOnnx, lower_model
from irdeconv.passes.overrides import ShapeLike, parse_shape_like
from irdeconv.passes.request import LoweringRequest
from irdeconv.targets.profile import Target

SUFFIX = ".onnx"


def lower_onnx(
    model: OnnxSource,
    path: str | PathLike[str] | None = None,
    form: str | None = None,
    target: str | PathLike[str] | Target | None = None,
    *,
    explain_costs: bool = False,
    best_effort: bool = False,
    only: str | None = None,
    convolutions: bool = False,
    shapes: Mapping[str, ShapeLike] | None = None,
    semantics: Semantics = "runtime",
) -> LoweredOnnx:
    """Lower the ConvTranspose nodes of an ONNX file and leave everything else as it is.

    `model` is a path, bytes or a ModelProto, of operation set 11 or later; `path` is where the
    result is written, with copies of external data where that is another folder. The others are
    those of `lower`; `shapes` replaces shapes of inputs, in the model too. Returns the new
    ModelProto (`proto`) and a `report`, in which deconvolutions that stay have no form. Raises
    UsageError for wrong arguments, InputError for a bad file, UnsupportedError without onnx.

    >>> from onnx import TensorProto, helper
    >>> value = helper.make_tensor_value_info
    >>> shapes = {"x": [1, 3, 8, 8], "w": [3, 2, 2, 2]}
    >>> inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    >>> node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2])
    >>> graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.FLOAT, None)])
    >>> low = lower_onnx(helper.make_model(graph).SerializeToString(), form="gemm")
    >>> print(*low.report.layers[0].nodes[-2:])
    Conv DepthToSpace
    """
    request = LoweringRequest.of(form, target, explain_costs, best_effort, only, convolutions)
    given = {name: parse_shape_like(s) for name, s in (shapes or {}).items()}
    low = lower_model(load_file(model), request, shapes=given, semantics=semantics)
    if path is not None:
        with together() as files:
            stage_onnx(low, Path(path), files)
    return low


def stage_onnx(lowered: LoweredOnnx, path: Path, files: Files, *, force: bool = False) -> OnnxFile:
    """Write a lowered model; it takes its place with all others of `files`, and is read back."""
    if path.suffix != SUFFIX:
        raise misused(f"{path}: an ONNX model is written to a file *{SUFFIX}")
    return stage_file(lowered.model, lowered.added, path, files, force=force)
