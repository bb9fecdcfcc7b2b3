"""Models over arrays of Dask."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Mapping
from os import PathLike
from typing import Any
from uuid import uuid4

import numpy as np

from irdeconv.base.arguments import checked
from irdeconv.base.errors import ArgumentTypeError, Diagnostic, misused
from irdeconv.base.extras import needed
from irdeconv.base.form_names import FALLBACK
from irdeconv.formats.models import ModelLike, graph_of
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array, Shape, Spec, is_static
from irdeconv.public.reading import infer
from irdeconv.public.running import compile
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.runtime.feeds import Binder
from irdeconv.runtime.plan import Plan, batch_size, require_whole, run_rows

PLANS = 4  # kept by each thread
_local = threading.local()
Outputs = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]  # shape and element type by name


@checked
def map_blocks(
    model: ModelLike,
    inputs: Mapping[str, Any] | Any,
    form: str | None = FALLBACK,
    *,
    exact: bool = False,
    fuse: bool = True,
    tune: bool | str | PathLike[str] = False,
    threads: int = 1,
    max_memory: int | None = None,
) -> dict[str, Any]:
    """Run a model lazily on arrays of Dask, a block of samples at a time; needs `distributed`.

    `inputs` maps names of inputs to arrays, or is the array of a single input. Arrays of Dask are
    cut along their first axis, the batch, and must agree in its chunks; other axes become one chunk
    each. Anything else is the same for every block. Returns arrays of Dask by the name of the
    output, in Result order; their shapes, chunks and element types are known without computing.

    A block is run by itself. If the model's batch is exact, a block is run in batches of that size,
    and each chunk must be a multiple of it. If it is open, a block is one batch. The plan, with the
    options of `compile`, is sent to each worker once. Raises UsageError for arrays that do not fit,
    for outputs whose shape depends on values, and the errors of `compile`.

    >>> import dask.array as da
    >>> images = da.zeros((8, 3, 32, 32), chunks=(2, -1, -1, -1), dtype=np.float32)
    >>> masks = ird.map_blocks("ir_samples/openvino/segmentation_head.xml", images)["mask"]
    >>> masks.shape, masks.chunks[0]
    ((8, 2, 32, 32), (2, 2, 2, 2))
    >>> masks[:1].compute().shape
    (1, 2, 32, 32)
    """
    needed("map_blocks", "dask.array", "Array")
    graph = inferred(graph_of(model))
    given, whole = _sorted_out(graph, inputs)
    given = _aligned(given)
    specs = _block_specs(graph, given, whole)
    how: dict[str, Any] = {"exact": exact, "fuse": fuse, "tune": tune, "max_memory": max_memory}
    return _lazily((compile(graph, form, threads, **how), whole), given, specs)


def _block_specs(
    graph: Graph, given: Mapping[str, Any], whole: Mapping[str, Array]
) -> dict[int, Outputs]:
    """Return shape and element type of the outputs for each number of rows that a block has."""
    shapes = {name: array.shape for name, array in given.items()}
    size = batch_size(Binder.of(graph), list(given), shapes)
    chunks = dict.fromkeys(next(iter(given.values())).chunks[0])
    for rows in chunks:
        require_whole(rows, size)
    return {rows: _outputs(graph, given, whole, rows, size) for rows in chunks}


def _sorted_out(graph: Graph, inputs: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the arrays of Dask, and those that all blocks share, by the usual names."""
    from dask.array import Array as DaskArray

    usual = dict(zip((n.id for n in graph.parameters), graph.inputs, strict=True))
    named = {usual[node]: value for node, value in Binder.of(graph).given(inputs).items()}
    missing = [name for name in graph.inputs if name not in named]
    if missing:
        raise misused(f'input "{missing[0]}" is missing', code="E501")
    given = {name: value for name, value in named.items() if isinstance(value, DaskArray)}
    if not given:
        message = "none of the inputs is an array of Dask"
        hint = "run takes other arrays; dask.array.from_array makes one of them"
        raise ArgumentTypeError(Diagnostic("E700", "error", message, hint=hint))
    return given, {n: np.asarray(v) for n, v in named.items() if n not in given}


def _aligned(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays with one chunk in every axis but the first, whose chunks must agree."""
    for name, array in given.items():
        if array.ndim == 0 or any(np.isnan(size) for size in array.shape):
            raise misused(f'input "{name}": its sizes are unknown, or it has no axis', code="E501")
    out = {n: a.rechunk(dict.fromkeys(range(1, a.ndim), -1)) for n, a in given.items()}
    chunks = {name: array.chunks[0] for name, array in out.items()}
    if len(set(chunks.values())) > 1:
        shown = ", ".join(f'"{n}" {c[:4]}{"..." * (len(c) > 4)}' for n, c in chunks.items())
        raise misused(
            f"the inputs have unlike chunks along the first axis: {shown}", "rechunk", code="E501"
        )
    return out


def _outputs(
    graph: Graph, given: Mapping[str, Any], whole: Mapping[str, Array], rows: int, size: int | None
) -> Outputs:
    """Return shape and element type of the outputs for a block of `rows`."""
    at_once = rows if size is None else size
    shapes: dict[str, Shape] = {n: (at_once, *a.shape[1:]) for n, a in given.items()}
    shapes |= {name: array.shape for name, array in whole.items()}
    found = infer(graph, shapes=shapes)
    outputs = zip(found.outputs, found.results, strict=True)
    pieces = 1 if size is None else rows // size
    return {name: _times(name, node.spec(), pieces) for name, node in outputs}


def _times(name: str, spec: Spec, pieces: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if not is_static(spec.shape) or spec.dtype is None:
        raise misused(f'output "{name}" is {spec}: its shape depends on values', code="E501")
    if not spec.shape:
        raise misused(f'output "{name}" is a scalar, which blocks cannot be joined to', code="E501")
    shape = (spec.shape[0] * pieces, *spec.shape[1:])
    return shape, np.dtype(spec.dtype.container)


def _lazily(
    shipped: tuple[Plan, dict[str, Array]], given: Mapping[str, Any], specs: Mapping[int, Outputs]
) -> dict[str, Any]:
    """Return the outputs as arrays of Dask, a task for each block and one for each part of it."""
    import dask.array as da
    from dask.delayed import delayed

    token = uuid4().hex
    once = delayed(shipped, name=f"irdeconv-plan-{token}", pure=True, traverse=False)
    blocks = {name: a.to_delayed(optimize_graph=False).ravel() for name, a in given.items()}
    run = delayed(_run_block, pure=True)
    parts: dict[str, list[Any]] = {}
    for index, rows in enumerate(next(iter(given.values())).chunks[0]):
        arrays = [block[index] for block in blocks.values()]
        key = f"irdeconv-block-{token}-{index}"
        done = run(once, token, list(blocks), arrays, dask_key_name=key)
        for name, (shape, dtype) in specs[rows].items():
            parts.setdefault(name, []).append(da.from_delayed(done[name], shape, dtype))
    return {name: da.concatenate(found, axis=0) for name, found in parts.items()}


def _run_block(
    shipped: tuple[Plan, dict[str, Array]], token: str, names: list[str], arrays: list[Array]
) -> dict[str, Array]:
    """Run a block; every thread of a worker has its own plan, as threads take turns at one plan."""
    plan, whole = shipped
    plans: OrderedDict[str, Plan] = _local.__dict__.setdefault("plans", OrderedDict())
    if token not in plans:
        plans[token] = copy.copy(plan)
        while len(plans) > PLANS:
            plans.popitem(last=False)
    feeds = dict(zip(names, arrays, strict=True))
    return run_rows(plans[token], {**whole, **feeds}, names)
