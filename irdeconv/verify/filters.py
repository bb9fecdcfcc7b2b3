"""Mistakes in a (de)convolution's filter or groups: the layer is computed with each of them.

Filters are seen as [g, I, O, *K], the spatial axes last; which of I and O are input channels does
not matter here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from irdeconv.op import Op
from irdeconv.ops import core
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.spec import Array
from irdeconv.verify.difference import Allowed, TensorDifference
from irdeconv.verify.kinds import listed, same
from irdeconv.verify.rounding import evaluate, floats, is_deconvolution, is_real

Variant = tuple[str, Callable[[], Array]]


def with_filter_mistake(
    found: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference where a mistake of the filter or the groups gives `b`."""
    groups = filter_groups(op, inputs)
    if found.kind is not None or groups is None or found.shape_a != found.shape_b:
        return found
    wide = floats(inputs, lambda v: v.astype(np.float64))
    x, w, *rest = wide
    limit = np.asarray(allowed.limit)
    # Another filter has other magnitudes: of the same order, but not the same ones.
    slack = 4 * float(limit[np.isfinite(limit)].max(initial=0.0))

    def compute(v: Array) -> Array:
        return evaluate(op, [x, v.reshape(w.shape), *rest])[0]

    kind = filter_mistake(compute, w.reshape(groups), b, slack)
    if kind is None and groups[0] > 1:
        kind = group_mistake(lambda v: evaluate(op, [v, w, *rest])[0], x, groups[0], b, slack)
    return found if kind is None else replace(found, kind=kind)


def filter_groups(op: Op, inputs: list[Array]) -> tuple[int, ...] | None:
    """Return the shape [g, I, O, *K] of a layer's filter; None where the layout is another one."""
    if len(inputs) < 2 or not is_real(inputs[1]) or not inputs[1].size:
        return None
    shape = inputs[1].shape
    if not (isinstance(op, ConvolutionBase) or is_deconvolution(op)):
        return None
    if isinstance(op, core.Deconvolution) or op.type.startswith("Group"):
        return shape
    if getattr(op, "channels_last", False) or hasattr(op, "filter_format"):
        return None
    groups = int(getattr(op, "group", getattr(op, "num_groups", 1)))
    return (groups, shape[0] // groups, *shape[1:])


def filter_mistake(
    compute: Callable[[Array], Array], w: Array, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the filter that gives `b`: `compute(filter)` computes the layer.

    `w` is grouped [g, I, O, *K].
    """
    return _first(((text, lambda m=make: compute(m())) for text, make in _variants(w)), b, allowed)  # type: ignore[misc]


def group_mistake(
    compute: Callable[[Array], Array], x: Array, groups: int, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the order of channels that gives `b`: `compute(x)` the layer."""
    into = np.arange(x.shape[1]).reshape(groups, -1).T.reshape(-1)
    variants: list[Variant] = []
    for text, order in (("interleaved", into), ("dealt out", np.argsort(into))):
        name = f"input channels of {groups} groups {text}"
        variants.append((name, lambda o=order: compute(x[:, o])))  # type: ignore[misc]
        variants.append((f"{name}, and output channels", lambda o=order: _both(compute, x, o, groups)))  # type: ignore[misc]
    return _first(variants, b, allowed)


def _both(compute: Callable[[Array], Array], x: Array, order: Array, groups: int) -> Array:
    y = compute(x[:, order])
    back = np.arange(y.shape[1]).reshape(-1, groups).T.reshape(-1)
    return np.asarray(y[:, back])


def _first(variants: Iterator[Variant] | list[Variant], b: Array, allowed: float) -> str | None:
    wanted = b.astype(np.float64)
    for text, make in variants:
        y = make()
        if y.shape == b.shape and same(y.astype(np.float64), wanted, allowed):
            return text
    return None


def _variants(w: Array) -> Iterator[Variant]:
    """Yield the mistakes that porting a filter makes: what it is, and the filter it gives."""
    spatial = range(3, w.ndim)
    yield "the kernel is flipped", lambda: np.flip(w, tuple(spatial))
    if len(spatial) > 1:
        for count in range(1, len(spatial)):
            for axes in itertools.combinations(spatial, count):
                text = f"the kernel is flipped along spatial axes {listed(a - 3 for a in axes)}"
                yield text, lambda a=axes: np.flip(w, a)  # type: ignore[misc]
    if w.shape[1] == w.shape[2]:
        yield "input and output channels are swapped", lambda: w.swapaxes(1, 2)
    else:
        other = (w.shape[0], w.shape[2], w.shape[1], *w.shape[3:])
        yield (
            "input and output channels are swapped",
            lambda: w.reshape(other).swapaxes(1, 2),
        )
    for p, q in itertools.combinations(spatial, 2):
        if w.shape[p] == w.shape[q]:
            text = "kernel rows and columns are swapped" if w.ndim == 5 else "kernel axes are swapped"
            yield text, lambda p=p, q=q: w.swapaxes(p, q)  # type: ignore[misc]
    if w.shape[0] > 1:
        yield "the groups' filters are in reverse order", lambda: w[::-1]
