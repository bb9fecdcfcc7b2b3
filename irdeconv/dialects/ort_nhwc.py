"""ONNX Runtime's channels-last deconvolution: ConvTranspose of com.ms.internal.nhwc."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.attributes import Floats
from irdeconv.dialects.onnx import ConvTranspose
from irdeconv.errors import Problem
from irdeconv.op import Builder, attribute, op
from irdeconv.ops import core
from irdeconv.ops.activation import Clamp, HardSigmoid, PReLU, ReLU, Sigmoid
from irdeconv.ops.unary import Tanh
from irdeconv.spec import Spec
from irdeconv.traits import SCALE, SUM, Rounding

Activation = Literal["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"]
LARGEST = 3.4e38  # from here on an upper bound of Relu bounds nothing in f32

# Parameters in their order.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}


@dataclass(frozen=True)
class NhwcConvTranspose(ConvTranspose):
    """What both versions share: the data's layout and the activation after the bias."""

    channels_last: ClassVar[bool] = True
    mirrored_text: ClassVar[bool] = True
    whole_output_shape: ClassVar[bool] = True

    activation: Activation | None = None
    activation_params: Floats = attribute(())

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        given = self.activation_params
        if self.activation is None:
            if given:
                yield Problem(
                    "E210",
                    f"activation_params {list(given)} without an activation",
                    attribute="activation_params",
                )
            return
        wanted = PARAMETERS[self.activation]
        unbounded = (
            self.activation == "Relu"
            and len(given) == 2
            and (given[0] == 0 and given[1] >= LARGEST)
        )
        if len(given) != len(wanted) and not unbounded:
            names = ", ".join(wanted) or "none"
            yield Problem(
                "E210",
                f"activation {self.activation} has {len(given)} parameters; it takes "
                f"{len(wanted)}: {names}",
                attribute="activation_params",
            )

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """The rule by which `compare` judges it: with an activation it is not linear."""
        return SUM if self.activation is None else SCALE

    def activate(self, b: Builder[Any], y: Any) -> Any:
        """Apply the activation."""
        if self.activation is None:
            return y
        return _ACTIVATIONS[self.activation](b, y, self.activation_params)

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the filter."""
        x = inputs[0]
        if x.shape is not None:
            x = replace(x, shape=(x.shape[0], x.shape[-1], *x.shape[1:-1]))
        return core.scatter_macs(x, inputs[1])


def _constant(b: Builder[Any], y: Any, value: float) -> Any:
    """Return a scalar of y's element type, which only inference may not know."""
    dtype = b.spec(y).dtype
    scalar = b.const(np.array(value, dtype.container if dtype else np.float32))
    return scalar if dtype else b.refine(scalar, Spec(None, ()))


def _leaky(b: Builder[Any], y: Any, p: Floats) -> Any:
    return b.add(PReLU(), y, _constant(b, y, p[0]))


def _hard_sigmoid(b: Builder[Any], y: Any, p: Floats) -> Any:
    return b.add(HardSigmoid(), y, _constant(b, y, p[0]), _constant(b, y, p[1]))


_ACTIVATIONS: dict[str, Callable[[Builder[Any], Any, Floats], Any]] = {
    "Relu": lambda b, y, p: b.add(ReLU(), y),
    "Tanh": lambda b, y, p: b.add(Tanh(), y),
    "Sigmoid": lambda b, y, p: b.add(Sigmoid(), y),
    "LeakyRelu": _leaky,
    "Clip": lambda b, y, p: b.add(Clamp(p[0], p[1]), y),
    "HardSigmoid": _hard_sigmoid,
}


@op("ConvTranspose", "com.ms.internal.nhwc_1", standard=False)
class NhwcConvTranspose1(NhwcConvTranspose):
    """Deconvolution: data (N, *I, C), filter (C, M/g, *K), optional bias (M,) -> (N, *O, M).

    Only data and output are channels-last. f16, f32, f64.  [com.ms.internal.nhwc ConvTranspose-1]
    """


@op("ConvTranspose", "com.ms.internal.nhwc_11", standard=False)
class NhwcConvTranspose11(NhwcConvTranspose):
    """Deconvolution: data (N, *I, C), filter (C, M/g, *K), optional bias (M,) -> (N, *O, M).

    Only data and output are channels-last. f16, f32, f64.  [com.ms.internal.nhwc ConvTranspose-11]
    """
