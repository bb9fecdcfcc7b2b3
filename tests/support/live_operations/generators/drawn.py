"""A layer in the making: attributes and inputs are drawn one after the other."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from op_cases import tensor
from support.live_operations.generators.tools import Rng
from support.live_operations.sample import Given, Sample, given

FLAGS = ("true", "false")


class Drawn:
    """A layer in the making: its attributes and inputs, whose real numbers have one type."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.real = str(rng.choice(["f32", "f32", "f32", "f16", "bf16"]))
        self.open = rng.random() < 0.3  # sizes that no attribute fixes are not declared
        self.attributes: dict[str, str] = {}
        self.inputs: list[Given] = []

    def pick(self, **choices: Any) -> None:
        """Draw a value of each attribute."""
        for name, values in choices.items():
            self.attributes[name] = str(values[int(self.rng.integers(len(values)))])

    def data(self, values: Any, fixed: int = 0, kind: str = "") -> None:
        """Add an input; the last `fixed` sizes of it are always declared."""
        made = given(tensor(kind or self.real, values))
        if self.open and not made.constant:
            shape = made.tensor.values.shape
            keep = len(shape) - fixed
            declared = tuple(-1 if i < keep else d for i, d in enumerate(shape))
            made = dataclasses.replace(made, declared=declared)
        self.inputs.append(made)

    def constant(self, kind: str, value: Any) -> None:
        """Add a constant."""
        self.inputs.append(given(tensor(kind, value), constant=True))

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def boxes(self, *shape: int, reach: int = 24) -> Any:
        """Boxes [x1, y1, x2, y2] that overlap, some of them, at whole or broken numbers."""
        low = self.rng.integers(0, reach, (*shape, 2))
        out = np.concatenate([low, low + self.rng.integers(1, 11, (*shape, 2))], -1).astype(float)
        return out + self.rng.choice([0, 0.25]) * self.rng.integers(0, 3, out.shape)

    def scores(self, *shape: int) -> Any:
        """Scores above 0, of which some are equal."""
        steps = int(self.rng.choice([5, 32, 255]))
        return (self.rng.integers(1, steps + 1, shape)) / (steps + 1)

    def sample(self, kind: str, version: str, outputs: int) -> Sample:
        """Return the layer."""
        inputs = tuple(self.inputs)
        return Sample(kind, version, self.attributes, inputs, outputs, "generated")
