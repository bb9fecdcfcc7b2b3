"""Judge one result: within its bound or not, and which known mistake explains it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irdeconv.conformance.layer import SuiteLayer
from irdeconv.conformance.manifest import StoredCase
from irdeconv.conformance.vectors import loaded
from irdeconv.spec import Array
from irdeconv.verify.compare import rounding
from irdeconv.verify.compare.difference import Allowed, TensorDifference, difference
from irdeconv.verify.compare.filters import filter_mistake, group_mistake
from irdeconv.verify.compare.kinds import same


@np.errstate(all="ignore")
def judge(case: StoredCase, theirs: Array) -> TensorDifference:
    """Compare a result with what is expected; `kind` names the mistake where one explains it.

    Kinds are told with the axes N, C, *spatial, whatever the dialect's layout is.
    """
    layer, (expected, allowed) = case.layer, case.expected()
    theirs = _typed(theirs, layer)
    names = (case.name, layer.element_type, str(theirs.dtype))
    wanted = _rounded(expected, layer)
    seen = difference(names, wanted, theirs, allowed, expected, output=True)
    if seen.passed or theirs.dtype.kind in "OSUT":
        return seen
    first = _first(layer, wanted), _first(layer, theirs), _first(layer, expected)
    limit = allowed.limit
    moved = allowed if np.ndim(limit) == 0 else replace(allowed, limit=_first(layer, limit))
    kind = difference(names, first[0], first[1], moved, first[2]).kind
    if kind is None:
        kind = next(_kinds(_Suspect(layer, case.arrays(), expected, theirs, allowed)), None)
    return replace(seen, kind=kind)


def _typed(theirs: Array, layer: SuiteLayer) -> Array:
    """Return raw bytes of a type that .npy has no name for as what they are."""
    raw = theirs.dtype.kind == "V" and theirs.dtype.isbuiltin != 2
    return loaded(theirs, layer.dtype) if raw else theirs


def _rounded(expected: Array, layer: SuiteLayer) -> Array:
    """Return what is expected in the layer's own type."""
    with np.errstate(all="ignore"):
        return expected.astype(layer.dtype.container)


def _first(layer: SuiteLayer, y: Any) -> Array:
    """Return an output as N, C, *spatial."""
    y = np.asarray(y)
    return np.moveaxis(y, -1, 1) if layer.op.channels_last and y.ndim > 2 else y


@dataclass(frozen=True)
class _Suspect:
    """A result that is wrong, and all that it was made of."""

    layer: SuiteLayer
    arrays: Mapping[str, Array]
    expected: Array
    theirs: Array
    allowed: Allowed

    @property
    def slack(self) -> float:
        """What rounding may do to a layer with other weights of the same size."""
        limit = np.asarray(self.allowed.limit)
        return 4 * float(limit[np.isfinite(limit)].max(initial=0.0))

    def compute(self, **changed: Array) -> Array:
        """Return what the layer gives with other arrays, channels first, in double precision."""
        arrays = {**self.arrays, **changed}
        values = [arrays[port] for port in self.layer.port_shapes]
        wide = rounding.floats(values, lambda v: v.astype(np.float64))
        return _first(self.layer, rounding.evaluate(self.layer.op, wide)[0])

    def gives(self, y: Array) -> bool:
        """Whether an array, channels first, is the result."""
        b = _first(self.layer, self.theirs)
        return y.shape == b.shape and same(_wide(y), _wide(b), self.slack)


def _kinds(suspect: _Suspect) -> Iterator[str]:
    """Yield the mistakes that explain a result, the likeliest first."""
    layer, expected, theirs = suspect.layer, suspect.expected, suspect.theirs
    if theirs.shape == expected.shape:
        if "bias" in suspect.arrays and suspect.gives(
            suspect.compute(bias=0 * suspect.arrays["bias"])
        ):
            yield "the bias is missing"
        yield from _weights(suspect)
        if layer.activation != "none":
            plain = replace(suspect, layer=replace(layer, activation="none"))
            if suspect.gives(plain.compute()):
                yield f"the activation {layer.activation.split()[0]} is missing"
    turned = np.moveaxis(expected, 1, -1), np.moveaxis(expected, -1, 1)
    for y, text in zip(turned, ("last instead of first", "first instead of last"), strict=True):
        if y.shape == theirs.shape and same(_wide(y), _wide(theirs), suspect.slack):
            yield f"channels are {text}"
    if theirs.shape == expected.shape:
        spread = np.isnan(_wide(theirs)) & np.isfinite(_wide(expected))
        if spread.any():
            number = int(spread.sum())
            yield f"NaN at {number} outputs that no NaN or infinity reaches (0 * infinity)"


def _wide(y: Array) -> Array:
    return y.astype(np.float64)


def _weights(suspect: _Suspect) -> Iterator[str]:
    """Yield mistakes of the filter and of the order of channels."""
    layer, arrays = suspect.layer, suspect.arrays
    if not arrays["filter"].size:
        return
    b = _wide(_first(layer, suspect.theirs))
    order = _filter_order(layer)
    w = arrays["filter"].transpose(order)
    inputs, outputs = layer.channels // layer.groups, layer.outputs // layer.groups
    grouped = w.reshape(layer.groups, inputs, outputs, *layer.kernel)

    def with_filter(v: Array) -> Array:
        return suspect.compute(filter=v.reshape(w.shape).transpose(np.argsort(order)))

    found = filter_mistake(with_filter, grouped, b, suspect.slack)
    if found is None and layer.groups > 1:

        def with_data(v: Array) -> Array:
            x = np.moveaxis(v, 1, -1) if layer.op.channels_last else v
            return suspect.compute(x=np.ascontiguousarray(x))

        x = _first(layer, arrays["x"])
        found = group_mistake(with_data, x, layer.groups, b, suspect.slack)
    if found is not None:
        yield found


def _filter_order(layer: SuiteLayer) -> tuple[int, ...]:
    """Return the order of axes that makes the filter [g,] C, M/g, *K."""
    if layer.op.group_count is None:
        return tuple(range(layer.axes + 3))
    return layer.op.filter_order(layer.axes)
