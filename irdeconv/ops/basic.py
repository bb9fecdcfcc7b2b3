"""Model inputs, outputs, constants, and operations that are known only by their declaration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irdeconv.constant import ConstantData
from irdeconv.dtypes import ElementType
from irdeconv.errors import Problem
from irdeconv.limits import LARGEST_INT
from irdeconv.op import TYPES, Op, attribute, op
from irdeconv.spec import Array, Shape, Spec, bounds, is_small
from irdeconv.traits import MOVES


@op("Parameter")
class Parameter(Op):
    """A model input: element type and (possibly dynamic) shape.  [infrastructure/Parameter-1]"""

    shape: Shape | None
    element_type: ElementType

    def infer(self) -> Spec:
        return Spec(self.element_type, self.shape)

    def check(self) -> Iterator[Problem]:
        # No text has such a number: a program made it.
        beyond = [d for d in self.shape or () if max(n or 0 for n in bounds(d)) > LARGEST_INT]
        if beyond:
            text = f"shape: {beyond[0]} is above {LARGEST_INT}, the largest number of 64 bits"
            yield Problem("E213", text, "shape")


@op("Result")
class Result(Op):
    """A model output: passes its input on.  [infrastructure/Result-1]"""

    rounding = MOVES

    def infer(self, data: Spec) -> Spec:
        return data

    def evaluate(self, data: Array) -> Array:
        return data


@op("Const")
class Const(Op):
    """A constant: bytes of the `.bin` file, or an array.  [infrastructure/Constant-1]"""

    element_type: ElementType
    shape: Shape | None
    data: ConstantData = attribute(internal=True)

    def infer(self) -> Spec:
        spec = Spec(self.element_type, self.shape)
        if not is_small(spec) or not self.data.available:
            return spec
        return Spec(self.element_type, self.shape, self.data.array())

    def evaluate(self) -> Array:
        return self.data.array()


def is_indispensable(type: str) -> bool:
    """Whether an operation of this type has to be one that irdeconv knows.

    These are deconvolutions, the ends of a model, and constants.
    """
    return type in ("Parameter", "Result", "Const") or any(
        c.deconvolution for c in TYPES.get(type, ())
    )


@dataclass(frozen=True)
class Section:
    """A part of a layer that is kept as it stands: `tag` and its XML bytes."""

    tag: str
    xml: bytes


@dataclass(frozen=True)
class Opaque(Op):
    """An operation known only by its declaration: attributes and bodies are kept for writing.

    `declared` are the specs of the outputs as the file states them. `stateful` operations (Assign)
    are never dead. `sections` are children of the layer beyond ports (bodies, port maps) in the
    file's order; constants in bodies refer to the file that `weights` reads.
    """

    kind: str
    opset: str
    data: tuple[tuple[str, str], ...] = ()
    declared: tuple[Spec, ...] = ()
    sections: tuple[Section, ...] = ()
    weights: ConstantData | None = None
    stateful: bool = False

    @property
    def type(self) -> str:  # type: ignore[override]
        """The type as the file spells it."""
        return self.kind

    @property
    def version(self) -> str:  # type: ignore[override]
        """The version as the file spells it."""
        return self.opset

    @property
    def side_effect(self) -> bool:  # type: ignore[override]
        """Whether the node is needed even if nothing uses it."""
        return self.stateful

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        return self.declared

    def to_attributes(self) -> dict[str, str]:
        return dict(self.data)
