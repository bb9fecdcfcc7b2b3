"""What each system makes of a setting: its own operation is built and asked.

A system spells the common terms in its attributes and lets the dialect's class check and place the
window, so a verdict is what validating and running such a layer would say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from irdeconv.dialects import READINGS
from irdeconv.dialects.pads import PadsRule, as_given
from irdeconv.dialects.setting import PLAIN, Cannot, Setting, SystemReading, part
from irdeconv.dialects.template import CanonicalRecorder, DialectDeconvolution
from irdeconv.errors import OpError
from irdeconv.op import Op
from irdeconv.ops import core
from irdeconv.spec import Interval, Shape, Spec, dims, ints, is_static


@dataclass(frozen=True)
class Crop:
    """Where the output lies in the scatter: O = FULL - begin - end; a negative end adds."""

    begin: Shape
    end: Shape
    size: Shape


class System(Protocol):
    """One system of the table. `modes` are (auto_pad, whether output_shape is given)."""

    @property
    def key(self) -> str:
        """A short name for programs."""

    @property
    def title(self) -> str:
        """The name for people."""

    @property
    def modes(self) -> tuple[tuple[str, bool], ...]:
        """What `auto_pad` and `output_shape` may say."""

    def crop(self, s: Setting) -> Crop:
        """Return the window; raise OpError where the system refuses, Cannot where it has no way."""

    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes that decide the window, as the system spells them."""

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield settings that may give the wanted window here."""


def placed(op: Op, inputs: tuple[Spec, ...]) -> Crop | None:
    """Return an operation's window; None where not even the rank is known."""
    for problem in op.check():
        if problem.severity == "error":
            raise OpError.of(problem)
    recorder = CanonicalRecorder()
    recorder.expand(op, inputs)
    if recorder.out is None or recorder.out.shape is None:
        return None
    size = recorder.out.shape[2:]
    begin, end = (_pads(pads, len(size)) for pads in recorder.inputs[2:4])
    return Crop(begin, end, size)


def _pads(pads: Spec, axes: int) -> Shape:
    known = dims(pads) if pads.value is not None else None
    return (ANY,) * axes if known is None else known


ANY = Interval(-(2**63), None)  # a pad of unknown value


def setting(op: Op, inputs: tuple[Spec, ...]) -> Setting | None:
    """Return a deconvolution's setting; None where not even the number of axes is known.

    Ranks that do not fit are for inference to refuse; those that leave no axis have no setting.
    """
    if any(x.shape is not None and len(x.shape) < 3 for x in inputs[:2]):
        return None
    if isinstance(op, DialectDeconvolution):
        return op.setting(*inputs)
    return _canonical_setting(op, *inputs) if isinstance(op, core.Deconvolution) else None


def rule(op: Op, s: Setting) -> PadsRule:
    """Return the rule that makes the pads of a layer."""
    return op.rule(s) if isinstance(op, DialectDeconvolution) else as_given(s)


class DialectSystem(SystemReading):
    """A system that a dialect's operation stands for."""

    def crop(self, s: Setting) -> Crop:
        """Build the operation, check it and place its window."""
        crop = placed(*self.make(s))
        assert crop is not None
        return crop

    def spell(self, s: Setting) -> dict[str, str]:
        """Return the attributes of the operation; output_shape may be its third input."""
        op = self.make(s)[0]
        return op.spelled_window(s.output_shape) if isinstance(op, DialectDeconvolution) else {}

    def ways(self, s: Setting, wanted: Crop) -> Iterator[Setting]:
        """Yield explicit pads with what is lacking at the end as output_padding."""
        yield from explicit(s, wanted)


def explicit(s: Setting, wanted: Crop, *, symmetric: bool = False) -> Iterator[Setting]:
    """Yield the setting with explicit pads that gives a window, if integers can say it."""
    begin, end = wanted.begin, wanted.end
    if not is_static(begin) or not is_static(end):
        return
    pads = begin if symmetric else tuple(max(e, 0) for e in end)
    extra = tuple(p - e for p, e in zip(pads, end, strict=True))
    if min(extra) >= 0:
        yield replace(
            s, pads_begin=begin, pads_end=pads, output_padding=extra, auto_pad="explicit",
            output_shape=None,
        )  # fmt: skip


def _canonical_setting(
    op: core.Deconvolution, x: Spec, w: Spec, pads_begin: Spec, pads_end: Spec
) -> Setting | None:
    axes, begin, end = len(op.strides), ints(pads_begin), ints(pads_end)
    if begin is None or end is None or {len(begin), len(end), len(op.dilations)} != {axes}:
        return None
    channels, *size = part(x.shape, 1, axes + 1)
    groups, _, outputs, *kernel = part(w.shape, 0, axes + 3)
    return Setting(
        system="canonical",
        size=tuple(size),
        kernel=tuple(kernel),
        strides=op.strides,
        dilations=op.dilations,
        pads_begin=begin,
        pads_end=end,
        output_padding=(0,) * axes,
        groups=groups if isinstance(groups, int) else 1,
        channels=channels,
        outputs=groups * outputs,
        dtype=x.dtype,
    )


def _canonical(s: Setting) -> tuple[Op, tuple[Spec, ...]]:
    if s.output_shape is not None or s.auto_pad not in ("explicit", "valid"):
        raise Cannot("there are only pads")
    begin, end = (np.array(p, np.int64) for p in s.explicit_pads)
    pads = Spec.of(begin), Spec.of(end - np.array(s.output_padding, np.int64))
    op = core.Deconvolution(s.strides, s.dilations)
    return op, (s.data_spec(), s.filter_spec(grouped=True), *pads)


CANONICAL = SystemReading(
    key="canonical", title="the canonical form", modes=PLAIN[:1], make=_canonical, listed=False
)
READ = tuple(DialectSystem(**vars(reading)) for reading in (*READINGS, CANONICAL))
DIALECTS = tuple(system for system in READ if system.listed)
OTHERS = tuple(system for system in READ if not system.listed)  # without a row in the table
