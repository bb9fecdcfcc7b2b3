"""Normalizations: NormalizeL2, MVN, BatchNormInference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.kernels import reductions
from irdeconv.kernels.elementwise import steps
from irdeconv.kernels.elementwise.chain import computing_type
from irdeconv.kernels.reductions import rows_of
from irdeconv.op import Op, attribute, op
from irdeconv.ops.binding import by_rows, is_computed, known, shape_of
from irdeconv.ops.channels import divided
from irdeconv.ops.checks import elements, exact, one_type, want_rank, want_type
from irdeconv.ops.reduction import mean_axes
from irdeconv.ops.unary import wide
from irdeconv.spec import Array, Spec, ints, merge
from irdeconv.traits import Bound, ChainStep, Operand


@op("NormalizeL2")
class NormalizeL2(Op):
    """x / sqrt(sum of squares over `axes`, `eps` added or as its lower bound), floating-point.

    Without axes every element but 0 is divided by itself.  [normalization/NormalizeL2-1]
    """

    eps: float = attribute(0.0, documented=True)
    eps_mode: Literal["add", "max"] = attribute("add", documented=True)

    def infer(self, data: Spec, axes: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        chosen = exact(elements(axes, 1, "axes"))
        if chosen is not None and data.shape is not None:
            mean_axes(chosen, len(data.shape), 1)
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, axes: Array) -> Array:
        chosen = mean_axes(tuple(int(a) for a in axes.reshape(-1)), data.ndim, 1)
        return wide(self._normalize)(data, chosen)

    def _normalize(self, x: Array, axes: tuple[int, ...]) -> Any:
        if not axes:
            return np.where(x == 0, x, x.dtype.type(1))
        eps = x.dtype.type(self.eps)
        squares = np.sum(x * x, axes, keepdims=True)
        return x / np.sqrt(squares + eps if self.eps_mode == "add" else np.maximum(squares, eps))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        block = _axes_block(inputs)
        if block is None:
            return None
        return by_rows(block, reductions.normalize_l2, eps=self.eps, add=self.eps_mode == "add")


def _axes_block(inputs: Sequence[Spec]) -> tuple[int, int, int] | None:
    """Return (outer, n, inner) for constant axes (the second input) that are neighbours."""
    chosen = ints(inputs[1])
    if chosen is None or not is_computed(inputs[0]):
        return None
    shape = shape_of(inputs[0])
    return rows_of(shape, mean_axes(chosen, len(shape), 1))


def standardize(
    x: Array, axes: tuple[int, ...], variance: bool, eps: float, *, inside: bool
) -> Any:
    """Subtract the mean over axes and, with `variance`, divide by the standard deviation."""
    centred = x - np.mean(x, axes, keepdims=True)
    if not variance:
        return centred
    spread = np.mean(centred * centred, axes, keepdims=True)
    small = x.dtype.type(eps)
    return centred / (np.sqrt(spread + small) if inside else np.sqrt(spread) + small)


def _standardized(
    data: Array, axes: tuple[int, ...], variance: bool, eps: float, *, inside: bool
) -> Array:
    return wide(lambda x: standardize(x, axes, variance, eps, inside=inside))(data)


@op("MVN", until=5)
class MVN2(Op):
    """Mean-variance normalization over all axes from 2 on, or from 1 with `across_channels`.

    Divides by sqrt(variance + eps) with `normalize_variance`; floating-point.
    [normalization/MVN-1]
    """

    across_channels: bool = False
    normalize_variance: bool = True
    eps: float = 1e-9

    def infer(self, data: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array) -> Array:
        axes = tuple(range(1 if self.across_channels else 2, data.ndim))
        return _standardized(data, axes, self.normalize_variance, self.eps, inside=True)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        shape = shape_of(inputs[0])
        block = rows_of(shape, tuple(range(1 if self.across_channels else 2, len(shape))))
        if block is None or not is_computed(inputs[0]):
            return None
        variance = self.normalize_variance
        return by_rows(block, reductions.standardize, variance=variance, eps=self.eps, inside=True)


@op("MVN", since=6)
class MVN(Op):
    """Mean-variance normalization over `axes` (integers, may be negative), floating-point.

    With `normalize_variance`: / sqrt(variance + eps) or / (sqrt(variance) + eps).
    [normalization/MVN-6]
    """

    normalize_variance: bool = attribute(False, documented=True)
    eps: float = attribute(0.0, documented=True)
    eps_mode: Literal["inside_sqrt", "outside_sqrt"] = attribute("inside_sqrt", documented=True)

    def infer(self, data: Spec, axes: Spec) -> Spec:
        want_type(data, "real", 0, "data")
        chosen = exact(elements(axes, 1, "axes"))
        if chosen is not None and data.shape is not None:
            mean_axes(chosen, len(data.shape), 1)
        return Spec(data.dtype, data.shape)

    def evaluate(self, data: Array, axes: Array) -> Array:
        chosen = mean_axes(tuple(int(a) for a in axes.reshape(-1)), data.ndim, 1)
        inside = self.eps_mode == "inside_sqrt"
        return _standardized(data, chosen, self.normalize_variance, self.eps, inside=inside)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        block = _axes_block(inputs)
        if block is None:
            return None
        inside, variance = self.eps_mode == "inside_sqrt", self.normalize_variance
        return by_rows(
            block, reductions.standardize, variance=variance, eps=self.eps, inside=inside
        )


_NAMES = ("data", "gamma", "beta", "mean", "variance")


def _infer_batch_norm(
    inputs: tuple[Spec, ...], ports: tuple[int, ...], names: tuple[str, ...] = _NAMES
) -> Spec:
    """Check that every parameter is a vector of one value for each channel; data comes first."""
    data, *parameters = inputs
    want_type(data, "real", ports[0], "data")
    dtype = one_type(*inputs, names=names, ports=ports)
    want_rank(data.shape, 2, None, ports[0], "data")
    channels = None if data.shape is None else data.shape[1]
    for port, name, s in zip(ports[1:], names[1:], parameters, strict=True):
        want_rank(s.shape, 1, 1, port, name)
        if s.shape is None or channels is None:
            continue
        if merge(s.shape[0], channels) is None:
            raise OpError(
                f"{name} has {s.shape[0]} values for {channels} channels (axis 1 of the data)",
                code="E302",
                port=port,
            )
    return Spec(dtype, data.shape)


def _batch_norm(x: Array, parameters: tuple[Array, ...], epsilon: float) -> Any:
    shape = (-1, *(1,) * (x.ndim - 2))
    gamma, beta, mean, variance = (p.astype(x.dtype).reshape(shape) for p in parameters)
    return (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * gamma + beta


def _affine(first: int, inputs: Sequence[Spec], epsilon: float) -> ChainStep | None:
    """Return the step of data at port `first` with constant parameters."""
    data = inputs[first]
    parameters = known([s for i, s in enumerate(inputs) if i != first])
    if data.shape is None or data.dtype is None or parameters is None:
        return None
    kind = computing_type(data.dtype.container)
    shape = (-1, *(1,) * (len(data.shape) - 2))
    gamma, beta, mean, variance = (np.asarray(p, kind).reshape(shape) for p in parameters)
    with np.errstate(all="ignore"):
        factor = gamma / np.sqrt(variance + kind.type(epsilon))
    return ChainStep(steps.affine, (Operand(first), mean, factor, beta))


@op("BatchNormInference", until=4)
class BatchNormInference1(Op):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (axis 1).

    Inputs gamma, beta, data, mean, variance: one floating-point type, vectors of C values.
    [normalization/BatchNormInference-1]
    """

    epsilon: float = attribute(0.0, documented=True)

    def infer(self, gamma: Spec, beta: Spec, data: Spec, mean: Spec, variance: Spec) -> Spec:
        return _infer_batch_norm((data, gamma, beta, mean, variance), (2, 0, 1, 3, 4))

    def evaluate(
        self, gamma: Array, beta: Array, data: Array, mean: Array, variance: Array
    ) -> Array:
        return wide(_batch_norm)(data, (gamma, beta, mean, variance), self.epsilon)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        return _affine(2, inputs, self.epsilon)


@op("BatchNormInference", since=5)
class BatchNormInference(Op):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (axis 1).

    data: [N, C, ...]; the others: vectors of C values, one floating-point type.
    [normalization/BatchNormInference-5]
    """

    epsilon: float = attribute(0.0, documented=True)

    def infer(self, data: Spec, gamma: Spec, beta: Spec, mean: Spec, variance: Spec) -> Spec:
        return _infer_batch_norm((data, gamma, beta, mean, variance), (0, 1, 2, 3, 4))

    def evaluate(
        self, data: Array, gamma: Array, beta: Array, mean: Array, variance: Array
    ) -> Array:
        return wide(_batch_norm)(data, (gamma, beta, mean, variance), self.epsilon)

    def chain_step(self, inputs: Sequence[Spec]) -> ChainStep | None:
        return _affine(0, inputs, self.epsilon)


@op("GroupNormalization", since=12)
class GroupNormalization(Op):
    """Standardize each of `num_groups` groups of channels, then * scale + bias for each channel.

    data: [N, C, ...], floating-point; scale, bias: vectors of C values.
    [normalization/GroupNormalization-12]
    """

    num_groups: int
    epsilon: float = attribute(0.0, documented=True)

    def check(self) -> Iterator[Problem]:
        if self.num_groups < 1:
            yield Problem(
                "E210",
                f"num_groups is {self.num_groups}; it must be positive",
                attribute="num_groups",
            )

    def infer(self, data: Spec, scale: Spec, bias: Spec) -> Spec:
        out = _infer_batch_norm((data, scale, bias), (0, 1, 2), ("data", "scale", "bias"))
        if data.shape is not None:
            divided(data.shape[1], self.num_groups, "the channel axis", "num_groups")
        return out

    def evaluate(self, data: Array, scale: Array, bias: Array) -> Array:
        return wide(self._normalize)(data, scale, bias)

    def _normalize(self, x: Array, scale: Array, bias: Array) -> Any:
        shape = (-1, *(1,) * (x.ndim - 2))
        grouped = x.reshape(x.shape[0], self.num_groups, -1)
        flat = standardize(grouped, (2,), True, self.epsilon, inside=True).reshape(x.shape)
        return flat * scale.astype(x.dtype).reshape(shape) + bias.astype(x.dtype).reshape(shape)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs):
            return None
        shape = shape_of(inputs[0])
        block = shape[0] * self.num_groups, math.prod(shape[1:]) // self.num_groups, 1
        flat, eps = (shape[0], shape[1], math.prod(shape[2:])), self.epsilon

        def call(x: Array, scale: Array, bias: Array, out: Array, team: Any) -> None:
            result = out.reshape(block)
            reductions.standardize(
                x.reshape(block), result, team, variance=True, eps=eps, inside=True
            )
            planes = out.reshape(flat)
            np.multiply(planes, scale[:, None], out=planes)
            np.add(planes, bias[:, None], out=planes)

        return Bound(call)
