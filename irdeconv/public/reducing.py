"""Shrinking a model that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from irdeconv.base.arguments import checked
from irdeconv.formats.atomic import together
from irdeconv.formats.models import ModelLike
from irdeconv.ir.spec import Array
from irdeconv.runtime.feeds import Feeds
from irdeconv.verify.reduce import (
    ONNX_PEER,
    PEER,
    TIMEOUT,
    Reduced,
    Task,
    guessed_feeds,
    reduce_model,
)
from irdeconv.verify.reduce_checks import stage_variant
from irdeconv.verify.reduce_onnx import opened


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
    """Read the models, reduce, write."""
    graph, models = opened(model, path)
    if task.compare is not None and task.compare not in (PEER, ONNX_PEER):
        other, second = opened(task.compare, path)
        models, task = models + second, replace(task, compare=other)
    feeds = guessed_feeds(graph, 0) if inputs is None else inputs
    done = reduce_model(graph, feeds, replace(task, models=models))
    if path is not None:
        with together() as files:
            stage_variant(done.piece, Path(path), files)
    return done
