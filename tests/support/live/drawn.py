"""What generators share: shapes, axes, values, a sample of them; a layer in the making."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irdeconv.formats.importing import registrar
from irdeconv.ir.attributes import Ints, attributes
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.op import lookup
from op_cases import Tensor, tensor
from support.live.mutate import Rng, declare, pick
from support.live.sample import Given, Sample, given

Generator = Callable[[Rng, str, str], Sample | None]
GENERATORS: dict[str, Generator] = {}  # by the operation's type
generates = registrar(GENERATORS)
INDEX_TYPES = ("i64", "i64", "i32")


def shape(rng: Rng, low: int = 0, high: int = 5, top: int = 5) -> Ints:
    """A shape of `low` to `high` axes of 1 to `top`, most of them distinct; seldom an empty one."""
    rank = int(rng.integers(low, high + 1))
    sizes = [int(v) for v in rng.permutation(np.arange(1, max(top, rank) + 1))[:rank]]
    if rank and rng.random() < 0.05:
        sizes[int(rng.integers(rank))] = 0
    return tuple(sizes)


def axis(rng: Rng, rank: int) -> int:
    """An axis, from either end."""
    return int(rng.integers(-rank, rank)) if rank else 0


def axes(rng: Rng, rank: int, least: int = 0) -> list[int]:
    """Different axes in any order, some of them negative."""
    count = int(rng.integers(least, rank + 1)) if rank else 0
    chosen = rng.permutation(rank)[:count]
    return [int(a) - (rank if rng.random() < 0.3 else 0) for a in chosen]


def index(rng: Rng, values: Any) -> Tensor:
    """Integers that are axes, sizes or places, in a type that these may have."""
    array = np.asarray(values, np.int64)
    dtype = ELEMENT_TYPES[pick(rng, INDEX_TYPES)]
    return Tensor(dtype, array.astype(dtype.container))


def flag(rng: Rng) -> str:
    return str(pick(rng, ("true", "false")))


def choices(rng: Rng, text: str) -> dict[str, str]:
    """Draw a value of each attribute: "mode=linear|cubic clip=true|false"."""
    rows = (row.split("=") for row in text.split())
    return {name: str(pick(rng, values.split("|"))) for name, values in rows}


def text(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


def kind(rng: Rng, *names: str) -> ElementType:
    return ELEMENT_TYPES[pick(rng, names)]


def anything(rng: Rng) -> ElementType:
    """An element type for what only moves."""
    return kind(rng, "f32", "f32", "f16", "i32", "i64", "u8", "i8", "boolean", "f64")


def sample(
    rng: Rng,
    name: str,
    version: str,
    given_texts: dict[str, Any],
    inputs: Sequence[Tensor],
    lists: Sequence[int] = (),
    outputs: int = 1,
) -> Sample:
    """A sample; inputs of the ports `lists` are constants, attributes that the class lacks go."""
    cls = lookup(name, version)
    known = attributes(cls) if cls is not None else given_texts
    texts = {k: str(v) for k, v in given_texts.items() if k in known and v is not None}
    made = [given(t, constant=i in lists) for i, t in enumerate(inputs)]
    made = declare(rng, made, [i in lists for i in range(len(inputs))])
    return Sample(name, version, texts, tuple(made), outputs, "generated")


# Attributes, inputs, and perhaps the ports of constants and the number of outputs, as above.
Drawing = tuple[Any, ...]


def makes(kinds: str) -> Callable[[Callable[[Rng, str, str], Drawing]], Generator]:
    """Return the decorator that registers a function of what `sample` takes."""
    return lambda rule: generates(kinds)(lambda rng, *kind: sample(rng, *kind, *rule(rng, *kind)))


class Drawn:
    """A layer in the making: its attributes and inputs, whose real numbers have one type."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.real = str(rng.choice(["f32", "f32", "f32", "f16", "bf16"]))
        self.open = rng.random() < 0.3  # sizes that no attribute fixes are not declared
        self.attributes: dict[str, str] = {}
        self.inputs: list[Given] = []

    def pick(self, text: str) -> None:
        """Draw a value of each attribute."""
        self.attributes |= choices(self.rng, text)

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
