"""One deconvolution layer of each of a number of published networks, with its hyper-parameters."""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

from irdeconv.verify.suite_layer import NETWORKS
from support.layers import Ints, Layer


@dataclass(frozen=True)
class Published:
    """A layer of a network; all its axes have the same K, S, P and op, dilation 1.

    `inputs` are N, C, *I.
    """

    network: str
    inputs: Ints
    outputs: int
    kernel: int
    stride: int
    pad: int = 0
    output_padding: int = 0
    groups: int = 1

    @property
    def layer(self) -> Layer:
        """The layer at full size."""
        batch, channels, *size = self.inputs
        axes, g = len(size), self.groups
        same = {
            name: (value,) * axes
            for name, value in (
                ("kernel", self.kernel),
                ("strides", self.stride),
                ("dilations", 1),
                ("pads_begin", self.pad),
                ("pads_end", self.pad),
                ("output_padding", self.output_padding),
            )
        }
        groups = None if g == 1 else g
        return Layer(batch, tuple(size), groups, channels // g, self.outputs // g, **same)

    @property
    def small(self) -> Layer:
        """The same kernel, stride and pads on a few channels and elements."""
        layer = self.layer
        return replace(
            layer,
            batch=min(layer.batch, 2),
            size=tuple(min(n, (3, 4, 3)[layer.axes - 1]) for n in layer.size),
            groups=None if layer.groups is None else min(layer.groups, 2),
            c=min(layer.c, 2),
            m=min(layer.m, 2),
        )

    @property
    def text(self) -> str:
        """The hyper-parameters in one line."""
        size = " x ".join(str(n) for n in self.layer.size)
        out = " x ".join(str(n) for n in self.layer.output_size)
        words = [f"K {self.kernel}", f"S {self.stride}", f"P {self.pad}"]
        words += [f"op {self.output_padding}"] * bool(self.output_padding)
        words += [f"g {self.groups}"] * (self.groups > 1)
        batch = f"{self.inputs[0]} x " if self.inputs[0] > 1 else ""
        channels = f"{batch}{self.inputs[1]} channels of {size} to {self.outputs} of {out}"
        return f"{channels}; {', '.join(words)}"


@dataclass(frozen=True)
class AxisTheory:
    """What the products along an axis follow from.

    I `inputs`, O `outputs`, K `kernel`, S `stride`, P `pad` in front; dilation 1. With F outputs
    more in front, E inputs are met by S neighbouring outputs (`span`), and each residue has
    I' = ceil((F+O)/S) outputs (`blocks`).
    """

    inputs: int
    outputs: int
    kernel: int
    stride: int
    pad: int

    def blocks(self, front: int = 0) -> int:
        return math.ceil((front + self.outputs) / self.stride)

    def span(self, front: int) -> int:
        """Outputs -F..S-1-F meet inputs ceil((P - F - K + 1) / S) to floor((S - 1 + P - F) / S)."""
        k, s, p = self.kernel, self.stride, self.pad - front
        return (s - 1 + p) // s + (k - 1 - p) // s + 1

    @property
    def stack(self) -> int:
        """The products of a stack, from the output or from the scatter's first one on."""
        fronts = (0, self.pad % self.stride)
        return min(self.blocks(f) * self.stride * self.span(f) for f in fronts)


# Of each form: the products along an axis, their ratio to the direct ones where I is large.
THEORY: dict[str, tuple[str, str, Callable[[AxisTheory], int]]] = {
    "zero-insertion": ("O K", "S", lambda a: a.outputs * a.kernel),
    "phases": ("I' K", "1", lambda a: a.blocks() * a.kernel),
    "stacked": ("I' S E", "S E / K", lambda a: a.stack),
    "gemm": ("I S", "1", lambda a: a.inputs * a.stride),
}


def macs_by_theory(layer: Layer) -> dict[str, int]:
    """Multiply-accumulates of the definition ("direct") and of each form, from I, O, K, S, P."""
    channels = layer.batch * layer.c * layer.m * (layer.groups or 1)
    axes = []
    for a, (begin, size) in enumerate(layer.window()):
        axes.append(AxisTheory(layer.size[a], size, layer.kernel[a], layer.strides[a], begin))
    rules = {name: macs for name, (*_, macs) in THEORY.items()}
    rules["direct"] = lambda a: a.inputs * a.kernel
    return {name: channels * math.prod(map(macs, axes)) for name, macs in rules.items()}


PUBLISHED = tuple(Published(*astuple(layer)) for layer in NETWORKS)
