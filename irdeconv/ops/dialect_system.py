"""A system as `explain` compares it: a layer in common terms in, the window of its output out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from irdeconv.ir.op import Op, require_fit
from irdeconv.ir.spec import Interval, Shape, Spec, dims, is_static
from irdeconv.ops.dialect_base import Setting
from irdeconv.ops.dialect_template import CanonicalRecorder, DialectDeconvolution

PLAIN = (("explicit", False), ("valid", False), ("same_upper", False), ("same_lower", False))
BOTH = (*PLAIN, *((mode, True) for mode, _ in PLAIN))
ANY = Interval(-(2**63), None)  # a pad of unknown value


class Cannot(Exception):
    """A system has no attribute for a setting."""


@dataclass(frozen=True)
class Crop:
    """The output's window in the scatter: O = FULL - begin - end; a negative end adds."""

    begin: Shape  # pads at the beginning of each axis, after all rules
    end: Shape  # pads at the end of each axis
    size: Shape  # of the output


@dataclass(frozen=True)
class System(ABC):
    """A system, or one of two readings of its attributes.

    `key` is its name for programs, `title` that for people. `modes` are pairs: auto_pad, and
    whether the layer has an output_shape.
    """

    symmetric: ClassVar[bool] = False  # one pad for both sides

    key: str
    title: str
    modes: tuple[tuple[str, bool], ...]

    @abstractmethod
    def crop(self, s: Setting) -> Crop:
        """Return the window; OpError if the system refuses, Cannot if it has no such attribute."""

    @abstractmethod
    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes that decide the window, as the system spells them."""

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield settings that may give the wanted window here.

        If integers can express it, these are explicit pads; elements that are missing at the end
        are output_padding.
        """
        begin, end = wanted.begin, wanted.end
        if not is_static(begin) or not is_static(end):
            return
        pads = begin if self.symmetric else tuple(max(e, 0) for e in end)
        extra = tuple(p - e for p, e in zip(pads, end, strict=True))
        if min(extra) >= 0:
            yield replace(
                s, pads_begin=begin, pads_end=pads, output_padding=extra, auto_pad="explicit",
                output_shape=None,
            )  # fmt: skip


@dataclass(frozen=True)
class DialectSystem(System):
    """A system of a dialect: its operation is built and checked.

    So a verdict is the same as if such a layer were validated and run. `make` spells a setting as
    the operation and its inputs, or raises Cannot. A system that is not `listed` has no row of its
    own in the table of verdicts.
    """

    make: Callable[[Setting], tuple[Op, tuple[Spec, ...]]]
    listed: bool = True

    def crop(self, s: Setting) -> Crop:
        """Build the operation, check it and place its window."""
        crop = placed(*self.make(s))
        assert crop is not None
        return crop

    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes of the operation; output_shape may be its third input."""
        op = self.make(s)[0]
        return op.spelled_window(s.output_shape) if isinstance(op, DialectDeconvolution) else {}


def placed(op: Op, inputs: tuple[Spec, ...]) -> Crop | None:
    """Return an operation's window; None if not even the rank is known."""
    require_fit(op)
    recorder = CanonicalRecorder()
    recorder.expand(op, inputs)
    if recorder.out is None or recorder.out.shape is None:
        return None
    size = recorder.out.shape[2:]
    unknown = (ANY,) * len(size)
    begin, end = (unknown if p.value is None else dims(p) or unknown for p in recorder.inputs[2:4])
    return Crop(begin, end, size)
