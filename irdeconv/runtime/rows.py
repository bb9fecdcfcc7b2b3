"""A plan over many samples: as many rows of the first axis at a time as its model takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from irdeconv.errors import Diagnostic, UsageError
from irdeconv.plural import count
from irdeconv.runtime.feeds import Binder
from irdeconv.runtime.plan import Plan
from irdeconv.spec import Array, Shape


def batch_size(binder: Binder, names: Collection[str], shapes: Mapping[str, Shape]) -> int | None:
    """Return the size of the first axis of inputs that are cut; None where it is open.

    `shapes` are those of the inputs in `names`, which have to have equally many rows. Raises
    UsageError (E501) where an input has no rows, or where inputs differ.
    """
    sizes, rows = {}, {}
    for name in names:
        spec = binder.names[name].spec()
        if not shapes[name] or (spec.shape is not None and not spec.shape):
            raise _unfit(f'input "{name}" has no first axis along which it could be cut')
        rows[name] = shapes[name][0]
        if spec.shape is not None and isinstance(spec.shape[0], int):
            sizes[name] = spec.shape[0]
    for what, found in (("model takes", sizes), ("arrays have", rows)):
        if len(set(found.values())) > 1:
            each = ", ".join(f'{n} of "{name}"' for name, n in found.items())
            raise _unfit(f"the {what} unlike numbers of rows: {each}")
    return next(iter(sizes.values()), None)


def require_whole(rows: int, size: int | None) -> None:
    """Raise UsageError (E501) where rows are no multiple of what the model takes at a time."""
    if size is not None and (size == 0 or rows % size):
        message = f"{count(rows, 'row')} cannot be cut into batches of {size}"
        raise _unfit(message, f"take a multiple of {size}, or a model whose batch is open")


def run_rows(plan: Plan, feeds: Mapping[str, Array], cut: Collection[str]) -> dict[str, Array]:
    """Run a plan on all rows of the inputs in `cut`; the other inputs are the same for each batch.

    Outputs are joined along their first axis. Each batch begins with the state of the first one.
    """
    size = batch_size(plan.binder, cut, {name: feeds[name].shape for name in cut})
    rows = len(feeds[next(iter(cut))]) if cut else 0
    require_whole(rows, size)
    found = list(_batches(plan, feeds, cut, rows, size))
    if len(found) == 1:
        return found[0]
    for name, array in found[0].items():
        if array.ndim == 0:
            raise _unfit(f'output "{name}" is a scalar, which cannot be joined')
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _batches(
    plan: Plan, feeds: Mapping[str, Array], cut: Collection[str], rows: int, size: int | None
) -> Iterator[dict[str, Array]]:
    step = size or max(rows, 1)
    for begin in range(0, max(rows, 1), step):
        part: dict[str, Any] = {n: feeds[n][begin : begin + step] for n in cut}
        plan.reset()
        yield plan.run({**feeds, **part})


def _unfit(message: str, hint: str | None = None) -> UsageError:
    return UsageError([Diagnostic("E501", "error", message, hint=hint)])
