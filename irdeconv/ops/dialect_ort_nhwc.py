"""ONNX Runtime's channels-last deconvolution: ConvTranspose of com.ms.internal.nhwc."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from irdeconv.base.errors import Problem
from irdeconv.ir.attributes import Floats
from irdeconv.ir.op import SCALE, SUM, Builder, Rounding, attribute, op
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import Clamp, HardSigmoid, PReLU, ReLU, Sigmoid
from irdeconv.ops.dialect_onnx import ConvTranspose, spelled
from irdeconv.ops.dialect_system import BOTH, DialectSystem
from irdeconv.ops.elementwise import Tanh

Activation = Literal["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"]
_Build = Callable[[Builder[Any], Any, Floats], Any]
UNBOUNDED = 3.4e38  # from here on an upper bound of Relu bounds nothing in f32


@dataclass(frozen=True)
class NhwcConvTranspose(ConvTranspose):
    """Base of both versions: the data's layout and the activation after the bias."""

    signature = ConvTranspose.signature.replace("[N, D, *I:1..6]", "[N, *I:1..6, D]")
    mirrored_text: ClassVar[bool] = True
    whole_output_shape: ClassVar[bool] = True
    channels_last: ClassVar[bool] = True

    activation: Activation | None = None
    activation_params: Floats = attribute(())

    def check(self) -> Iterator[Problem]:
        yield from super().check()
        parameters = self.activation_params
        if self.activation is None:
            if parameters:
                text = f"activation_params {list(parameters)} without an activation"
                yield Problem("E210", text, attribute="activation_params")
            return
        _, names = _ACTIVATIONS[self.activation]
        unbounded = (
            self.activation == "Relu"
            and len(parameters) == 2
            and parameters[0] == 0
            and parameters[1] >= UNBOUNDED
        )
        if len(parameters) != len(names) and not unbounded:
            text = f"activation {self.activation} has {len(parameters)} parameters; it takes "
            text += f"{len(names)}: {', '.join(names) or 'none'}"
            yield Problem("E210", text, attribute="activation_params")

    @property
    def rounding(self) -> Rounding:  # type: ignore[override]
        """The rule by which `compare` judges it: with an activation it is not linear."""
        return SUM if self.activation is None else SCALE

    @property
    def key(self) -> str:
        return "nhwc" if self.semantics == "runtime" else "nhwc_document"

    def activate(self, b: Builder[Any], y: Any) -> Any:
        if self.activation is None:
            return y
        build, _ = _ACTIVATIONS[self.activation]
        return build(b, y, self.activation_params)


def _constant(b: Builder[Any], y: Any, value: float) -> Any:
    """Return a scalar of y's element type, which may be unknown in inference only."""
    dtype = b.spec(y).dtype
    scalar = b.const(np.array(value, dtype.container if dtype else np.float32))
    return scalar if dtype else b.refine(scalar, Spec(None, ()))


def _with_constants(op: PReLU | HardSigmoid) -> _Build:
    return lambda b, y, p: b.add(op, y, *(_constant(b, y, v) for v in p))


# The function that builds an activation, and the names of its parameters in order.
_ACTIVATIONS: dict[Activation, tuple[_Build, tuple[str, ...]]] = {
    "Relu": (lambda b, y, p: b.add(ReLU(), y), ()),
    "Tanh": (lambda b, y, p: b.add(Tanh(), y), ()),
    "Sigmoid": (lambda b, y, p: b.add(Sigmoid(), y), ()),
    "LeakyRelu": (_with_constants(PReLU()), ("alpha",)),
    "Clip": (lambda b, y, p: b.add(Clamp(p[0], p[1]), y), ("min", "max")),
    "HardSigmoid": (_with_constants(HardSigmoid()), ("alpha", "beta")),
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


_RUNTIME = partial(spelled, NhwcConvTranspose11, "runtime")
_DOCUMENT = partial(spelled, NhwcConvTranspose11, "document")
READINGS = (
    DialectSystem("nhwc", "ONNX Runtime, nhwc", BOTH, _RUNTIME),
    DialectSystem("nhwc_document", "nhwc, text", BOTH, _DOCUMENT, listed=False),
)
