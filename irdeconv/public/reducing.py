"""Shrinking a model that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.runtime.feeds import Feeds
from irdeconv.verify.reduce import PEER, TIMEOUT, Reduced, Task, guessed_feeds, reduce_model


def reduce(
    model: ModelLike,
    check: str | Callable[[Graph, dict[str, Array]], Any] | None = None,
    inputs: Feeds | None = None,
    *,
    compare: ModelLike | None = None,
    verb: str | None = None,
    fails_with: str | None = None,
    timeout: float = TIMEOUT,
    tolerance: float | None = None,
    max_checks: int | None = None,
    seconds: float | None = None,
) -> Reduced:
    """Shrink a model as long as it shows a fault: to few layers, small sizes, simple numbers.

    Exactly one of these defines the fault. `check(graph, inputs)` is true. Or `check` is a
    command that fails on a file, as `irdeconv reduce --check` describes it, with `fails_with` and a
    `timeout` in seconds. Or `compare`, "openvino" or a second model, computes other numbers than
    rounding or `tolerance` explains. Or `verb` ("lower", "raise", "run", "write") raises an error.
    A check that raises an exception says nothing about its variant.

    `inputs` are random by default; open sizes are then the smallest. The search ends after
    `max_checks` checks, after `seconds`, or on Ctrl-C.

    Raises NothingToReduceError if the model itself shows no fault, UsageError for arguments that
    exclude each other, and the errors of `check` for the model itself.

    >>> model = "ir_samples/openvino/segmentation_head.xml"
    >>> small = ird.reduce(model, lambda graph, inputs: any(graph.nodes("Sigmoid")))
    >>> print(small)
    12 layers -> 1: Sigmoid "mask"
    >>> {name: array.shape for name, array in small.inputs.items()}
    {'head/relu': (1, 1, 1, 1)}
    """
    graph = inferred(graph_of(model))
    other = compare if compare is None or compare == PEER else inferred(graph_of(compare))
    task = Task(
        check, other, verb, fails_with, timeout, tolerance, max_checks=max_checks, seconds=seconds
    )
    return reduce_model(graph, guessed_feeds(graph, 0) if inputs is None else inputs, task)
