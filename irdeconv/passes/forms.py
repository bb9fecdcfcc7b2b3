"""The lowering forms of core.Deconvolution: a record of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from irdeconv import geometry
from irdeconv.geometry import IntVector
from irdeconv.ops import core
from irdeconv.ops.vectors import sizes, vector
from irdeconv.passes import reach, subpixel
from irdeconv.passes.emit import FormBuilder, X, convolve, flip, pad_spatial
from irdeconv.passes.form_names import FALLBACK
from irdeconv.passes.rewrite import Skip
from irdeconv.spec import Shape, Spec, bounds


class FormRule(Protocol):
    """Builds what replaces a core.Deconvolution of data (N, C, *I) and filter (g, C/g, M/g, *K)."""

    def __call__(
        self, op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X, /
    ) -> X:
        """Return the output (N, M, *O)."""


# Says by the specs of filter and pads, without building anything, why a form does not apply.
FormCheck = Callable[[core.Deconvolution, Spec, Spec, Spec], Skip | None]


def skip_nothing(*_: object) -> None:
    """Let the form apply."""


def few_nodes(*_: object) -> int:
    """Return nothing to speak of."""
    return 0


@dataclass(frozen=True)
class Form:
    """A lowering form, called as in form_names.py.

    `rule` builds it, where `skips` does not say why it does not apply. `reach` is how far a bad
    value spreads in it, `least_nodes` tells by the filter's spec how many nodes it makes at least.
    """

    name: str
    rule: FormRule
    reach: reach.Reach
    skips: FormCheck = skip_nothing
    least_nodes: Callable[[core.Deconvolution, Spec], int] = few_nodes

    def lower(
        self, op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X
    ) -> X | Skip:
        """Build the form or return why it does not apply."""
        skip = self.skips(op, *map(b.spec, (w, pads_begin, pads_end)))
        return skip or self.rule(op, b, x, w, pads_begin, pads_end)


def zero_insertion(
    op: core.Deconvolution, b: FormBuilder[X], x: X, w: X, pads_begin: X, pads_end: X
) -> X:
    """core.Deconvolution -> ZeroInsertion, Pad, Convolution (filter flipped and regrouped)."""
    axes = len(op.strides)
    window = geometry.Window(vector(b, pads_begin), vector(b, pads_end))
    kernel = sizes(b, w, 3, axes)
    trailing = _may_be_empty(b.spec(x).shape, op.strides)
    surplus = (IntVector(op.strides) - 1) * int(trailing)
    begin, end = geometry.zero_insertion_pads(window, kernel, IntVector(op.dilations), surplus)
    if any(s != 1 for s in op.strides):
        x = b.add(core.ZeroInsertion(op.strides, trailing), x)
    x = pad_spatial(b, x, begin, end)
    return convolve(b, x, flip(b, w, axes), op.dilations)


def _may_be_empty(shape: Shape | None, strides: tuple[int, ...]) -> bool:
    """Whether an axis that is spread may have no element.

    Nothing is shorter than nothing, but S(I-1)+1 is for I = 0. S*I is not, and a crop of S-1
    behind it makes one formula of all sizes.
    """
    if shape is None:
        return any(s > 1 for s in strides)
    return any(s > 1 and bounds(n)[0] == 0 for n, s in zip(shape[2:], strides, strict=True))


_FORMS = (
    Form(
        name=FALLBACK,
        rule=zero_insertion,
        reach=reach.Reach(taps=reach.every_output, inputs=reach.input_by_definition),
    ),
    Form(
        name="phases",
        rule=subpixel.phases,
        skips=subpixel.skip_open_axes,
        least_nodes=subpixel.least_nodes,
        reach=reach.Reach(taps=reach.outputs_of_residue, inputs=reach.input_by_definition),
    ),
    Form(
        name="stacked",
        rule=subpixel.stacked,
        skips=subpixel.skip_stacked,
        reach=reach.Reach(taps=reach.outputs_of_residue, inputs=reach.outputs_of_span),
    ),
    Form(
        name="gemm",
        rule=subpixel.gemm,
        skips=subpixel.skip_gemm,
        reach=reach.BY_DEFINITION,
    ),
)
FORMS = {form.name: form for form in _FORMS}
