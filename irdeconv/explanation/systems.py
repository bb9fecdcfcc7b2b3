"""The setting and the rule of any deconvolution, the canonical one included."""

from __future__ import annotations

import numpy as np

from irdeconv.dialects.pads import PadsRule, as_given
from irdeconv.dialects.setting import Setting, part
from irdeconv.dialects.system import PLAIN, Cannot, DialectSystem
from irdeconv.dialects.template import DialectDeconvolution
from irdeconv.op import Op
from irdeconv.ops import core
from irdeconv.spec import Spec, ints


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


CANONICAL = DialectSystem("canonical", "the canonical form", PLAIN[:1], _canonical, listed=False)
