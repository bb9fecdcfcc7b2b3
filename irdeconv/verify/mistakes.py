"""Typical mistakes in filters, groups and settings: the layer is computed with each of them.

Filters are [g, I, O, *K]; I and O may be exchanged. A kind is named if other settings give the
other side's tensor and more than one number supports it. The closest one of several is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irdeconv.formats.importing import named_operations
from irdeconv.ir.attributes import Ints
from irdeconv.ir.op import Op
from irdeconv.ir.spec import Array
from irdeconv.ops import activation, core
from irdeconv.ops.convolution import ConvolutionBase, GroupConvolution
from irdeconv.ops.dialect_template import DialectDeconvolution
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.pooling import AvgPoolBase, Pool
from irdeconv.verify.difference import Allowed, TensorDifference, listed, same
from irdeconv.verify.judge import evaluate, floats, is_exact, is_real


def with_filter_mistake(
    seen: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference if a mistake of the filter or the groups gives `b`."""
    layout = None if seen.kind is not None else _layout(op, inputs)
    if layout is None or seen.shape_a != seen.shape_b:
        return seen
    order, groups, last = layout
    x, w, *rest = floats(inputs, lambda v: v.astype(np.float64))
    ordered, back = w.transpose(order), np.argsort(order)

    def with_filter(v: Array) -> Array:
        return evaluate(op, [x, v.reshape(ordered.shape).transpose(back), *rest])[0]

    def with_data(v: Array) -> Array:
        data = np.ascontiguousarray(np.moveaxis(v, 1, -1)) if last else v
        return first(evaluate(op, [data, w, *rest])[0])

    def first(v: Array) -> Array:
        return np.moveaxis(v, -1, 1) if last else v

    kind = filter_mistake(with_filter, ordered.reshape(groups), b, allowed.slack)
    if kind is None and groups[0] > 1:
        kind = group_mistake(with_data, first(x), groups[0], first(b), allowed.slack)
    return seen if kind is None else replace(seen, kind=kind)


def _layout(op: Op, inputs: list[Array]) -> tuple[Ints, Ints, bool] | None:
    """Return the order of axes that makes a filter [g,] C, M/g, *K, and its shape [g, I, O, *K].

    Also whether the data's channels are last. None if there is no such filter.
    """
    if len(inputs) < 2 or not inputs[1].size:
        return None
    shape = inputs[1].shape
    plain = tuple(range(len(shape)))
    if isinstance(op, DialectDeconvolution) and op.group_count is not None:
        order = op.filter_order(len(shape) - 2)
        channels, *rest = (shape[axis] for axis in order)
        groups = op.group_count
        return order, (groups, channels // groups, *rest), op.channels_last
    if isinstance(op, DialectDeconvolution):
        return plain, shape, op.channels_last
    if not is_real(inputs[1]):
        return None
    if isinstance(op, (core.Deconvolution, GroupConvolution)):
        return plain, shape, False
    return (plain, (1, *shape), False) if isinstance(op, ConvolutionBase) else None


def filter_mistake(
    compute: Callable[[Array], Array], w: Array, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the filter `w` [g, I, O, *K] that gives `b` in `compute(filter)`."""
    for text, wrong in _filters(w):
        if gives(compute(np.ascontiguousarray(wrong)), b, allowed):
            return text
    return None


def _filters(w: Array) -> Iterator[tuple[str, Array]]:
    """Yield the mistakes of porting a filter: a description, and the filter that it gives."""
    g, i, o, *kernel = w.shape
    spatial = range(3, w.ndim)
    yield "the kernel is flipped", np.flip(w, tuple(spatial))
    for count in range(1, len(kernel)):
        for axes in itertools.combinations(spatial, count):
            text = f"the kernel is flipped along spatial axes {listed(a - 3 for a in axes)}"
            yield text, np.flip(w, axes)
    # Of unlike sizes the axes cannot be swapped, only be read in the wrong order.
    swapped = w if i == o else w.reshape(g, o, i, *kernel)
    yield "input and output channels are swapped", swapped.swapaxes(1, 2)
    for p, q in itertools.combinations(spatial, 2):
        if w.shape[p] == w.shape[q]:
            pair = "rows and columns" if len(kernel) == 2 else f"axes {listed((p - 3, q - 3))}"
            yield f"kernel {pair} are swapped", w.swapaxes(p, q)
    if g > 1:
        yield "the filters of the groups are in reverse order", w[::-1]


def group_mistake(
    compute: Callable[[Array], Array], x: Array, groups: int, b: Array, allowed: float
) -> str | None:
    """Name the mistake in the order of channels that gives `b`: `compute(x)` is the layer."""
    blocks = np.arange(x.shape[1]).reshape(groups, -1).T.reshape(-1)
    interleaved = f"channels of {groups} groups interleaved instead of one group after another"
    for order in (blocks, np.argsort(blocks)):
        y = compute(np.ascontiguousarray(x[:, order]))
        if gives(y, b, allowed):
            return f"input {interleaved}"
        if gives(y[:, np.arange(y.shape[1]).reshape(groups, -1).T.reshape(-1)], b, allowed):
            return f"input and output {interleaved}"
    return None


def gives(y: Array, b: Array, allowed: float) -> bool:
    """Whether two arrays have the same shape and differ by at most `allowed`."""
    return y.shape == b.shape and same(y.astype(np.float64), b.astype(np.float64), allowed)


ACTIVATIONS: tuple[tuple[str, Op], ...] = (
    *named_operations("ReLU"),
    ("ReLU6", activation.Clamp(0.0, 6.0)),
    *named_operations("Sigmoid Tanh Swish HSwish HSigmoid"),
    ("Gelu", activation.Gelu("ERF")),
    ("Gelu by Tanh", activation.Gelu("TANH")),
    *named_operations("Mish SoftPlus SoftSign"),
    ("Elu", activation.Elu(1.0)),
)
LEAST_SLOPE = 1e-6  # a smaller one is none, nor is one that is so close to 1
EPSILONS = (0.0, *(float(f"1e-{n}") for n in range(12, 0, -1)))
Alternative = tuple[str, Op, Sequence[Array]]


def with_setting_mistake(
    seen: TensorDifference, op: Op, inputs: list[Array], b: Array, allowed: Allowed
) -> TensorDifference:
    """Add the kind to a difference if other settings of the layer give `b`."""
    if not inputs or not is_real(inputs[0]) or not is_real(b):
        return seen
    kind = setting_mistake(op, inputs, b, allowed.slack)
    return seen if kind is None else replace(seen, kind=kind)


def setting_mistake(op: Op, inputs: Sequence[Array], b: Array, allowed: float) -> str | None:
    """Name the setting of a layer that gives `b` within `allowed`; None if there is none."""
    # Values that are only chosen keep their type, whose lowest number marks an empty window.
    wide = inputs if is_exact(op) else floats(inputs, lambda v: v.astype(np.float64))
    # A tiny difference explains nothing: then rounding is as good a reason.
    limit = min(allowed, _apart(op, wide, b) / 4)
    tried = ((_apart(other, values, b), text) for text, other, values in _alternatives(op, wide, b))
    found = [(apart, text) for apart, text in tried if apart <= limit]
    least = min((apart for apart, _ in found), default=0.0)
    close = [text for apart, text in found if apart <= max(2 * least, allowed / 100)]
    return " or ".join(close[:2]) or None


def _apart(op: Op, inputs: Sequence[Array], b: Array) -> float:
    """Return how far the layer is off `b`, infinite if it is not to be compared."""
    try:
        y = evaluate(op, inputs)[0].astype(np.float64)
    except Exception:  # these settings do not fit the inputs, for any reason
        return np.inf
    # Many settings explain numbers that are all the same.
    if y.shape != b.shape or b.size < 2 or bool(np.all(b == b.reshape(-1)[0])):
        return np.inf
    with np.errstate(invalid="ignore"):
        gap = np.abs(y - b.astype(np.float64))
    return float(gap.max(initial=0.0)) if np.isfinite(gap).all() else np.inf


def _alternatives(op: Op, inputs: Sequence[Array], b: Array) -> Iterator[Alternative]:
    if isinstance(op, Pool):
        yield from _poolings(op, inputs)
    elif isinstance(op, MatMul):
        yield from _products(op, inputs)
    elif isinstance(op, activation.PReLU | activation.Elu) or type(op) in _KINDS:
        yield from _activations(op, inputs, b)
    elif {"eps", "epsilon"} & set(op.__dataclass_fields__):
        yield from _epsilons(op, inputs)


_KINDS = frozenset(type(op) for _, op in ACTIVATIONS)


def _poolings(op: Pool, inputs: Sequence[Array]) -> Iterator[Alternative]:
    for name in ("floor", "ceil", "ceil_torch"):
        if name != op.rounding_type:
            text = f"sizes are rounded by {name} instead of {op.rounding_type}"
            yield text, replace(op, rounding_type=name), inputs
    if isinstance(op, AvgPoolBase):
        says = "do not count" if not op.exclude_pad else "count"
        other = replace(op, exclude_pad=not op.exclude_pad)
        yield f"pads {says} in the averages", other, inputs


def _products(op: MatMul, inputs: Sequence[Array]) -> Iterator[Alternative]:
    x, w = inputs
    if min(x.ndim, w.ndim) < 2:
        return
    turned = w.reshape(*w.shape[:-2], *w.shape[:-3:-1]).swapaxes(-1, -2)
    how = "transposed" if w.shape[-1] == w.shape[-2] else "read as if they were transposed"
    yield f"the weights are {how}", op, [x, np.ascontiguousarray(turned)]
    if x.shape[-1] == x.shape[-2]:
        yield "the data are transposed", op, [np.ascontiguousarray(x.swapaxes(-1, -2)), w]


def _activations(op: Op, inputs: Sequence[Array], b: Array) -> Iterator[Alternative]:
    x = inputs[0]
    own = next((n for n, o in ACTIVATIONS if o == op and len(inputs) == 1), op.type)
    for name, other in ACTIVATIONS:
        if name != own:
            yield f"the activation is {name} instead of {own}", other, [x]
    same = np.asarray(np.float64(1.0))
    yield f"the activation ({own}) is missing", activation.PReLU(), [x, same]
    for name, slope in _slopes(op, x, b):
        if isinstance(op, activation.PReLU | activation.Elu) and name == op.type:
            mine = op.alpha if isinstance(op, activation.Elu) else inputs[1]
            was = f"{float(np.reshape(mine, -1)[0]):.4g}" if np.size(mine) == 1 else "its own"
            text = f"alpha is {slope:.4g} instead of {was}"
        else:
            text = f"the activation is {name} of alpha {slope:.4g} instead of {own}"
        other = activation.Elu(slope) if name == "Elu" else activation.PReLU()
        yield text, other, [x] if name == "Elu" else [x, np.asarray(slope)]


def _slopes(op: Op, x: Array, b: Array) -> Iterator[tuple[str, float]]:
    """Yield the alpha of PReLU and Elu at the most negative number, if others confirm it."""
    if x.shape != b.shape:
        return
    low = np.unique(x[np.isfinite(x) & (x < 0)])
    if low.size < 2:
        return
    at = int(np.argmin(np.where(np.isfinite(x), x, 0)))
    there = float(b.reshape(-1)[at])
    for name, unit in (("PReLU", low[0]), ("Elu", np.expm1(low[0]))):
        alpha = there / float(unit)
        if np.isfinite(alpha) and min(abs(alpha), abs(alpha - 1)) > LEAST_SLOPE:
            yield name, alpha


def _epsilons(op: Op, inputs: Sequence[Array]) -> Iterator[Alternative]:
    fields = op.__dataclass_fields__
    name = "eps" if "eps" in fields else "epsilon"
    mine, modes = getattr(op, name), [getattr(op, "eps_mode", None)]
    modes += {"add": ["max"], "max": ["add"], "inside_sqrt": ["outside_sqrt"],
              "outside_sqrt": ["inside_sqrt"]}.get(str(modes[0]), [])  # fmt: skip
    for mode, eps in itertools.product(modes if "eps_mode" in fields else [None], EPSILONS):
        changes: dict[str, Any] = {name: eps} | ({"eps_mode": mode} if mode else {})
        text = f"epsilon is {eps:g} instead of {mine:g}"
        if mode != modes[0]:
            text = f"{text}, and {mode} instead of {modes[0]}"
        if eps != mine:
            yield text, replace(op, **changes), inputs  # the type's own limits are not asked
    for mode in modes[1:]:
        text = f"epsilon is {mode} instead of {modes[0]}"
        changes = {"eps_mode": mode}
        yield text, replace(op, **changes), inputs
