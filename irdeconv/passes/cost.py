"""What each lowering form of a deconvolution costs, counted on what its rule emits.

With R = prod(S) residues, per axis I inputs, O outputs, and from `subpixel.analyse`: I' = I + more
outputs of every residue, K_r taps of residue r (they sum up to K), E the inputs that a stacked
filter spans (`*` is a product over axes), this comes to:

    form            multiply-accumulates                intermediates, elements
    zero-insertion  N M C/g *(O K)                      N C *(S(I-1)+1), N C *(O + D(K-1))
    phases          sum over r: N M C/g *(I' K_r)       per r: N C *(I'+E_r-1), N M *I'; N M R *I'
                      = N M C/g *(I' K)
    stacked         N M R C/g *(I' E)                   N C *(I'+E-1), N M R *I', twice
    gemm            N M C/g *(S I)                      N M R *I, twice

- bytes: what every operation reads (tensors, filters; not pads, axes, shapes) and writes.
- scratch: the most bytes of intermediates alive at once, without the layer's data, output and
  constants. Reshape, Squeeze and Unsqueeze move nothing: they share their input's memory.
- nodes: operations without constants. Arithmetic on sizes that are known only at run time, and the
  Convert of compressed filters, are not counted.
- wasted: the share of products that reach no output: inserted or padded zeros, cropped outputs.

An unknown batch counts as 1, an unknown size as 32 (or the nearest that its bounds allow), and the
site's `assumed` says so. Constant filters are rearranged before anything runs, at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from irdeconv.ops import core
from irdeconv.passes.counting import STAND_IN_TYPE, CountedOperation, CountedValue, CountingBuilder
from irdeconv.passes.forms import Form
from irdeconv.passes.rewrite import Skip
from irdeconv.passes.site import DeconvolutionSite
from irdeconv.spec import Spec


@dataclass(frozen=True)
class Cost:
    """The costs of one form; units in the module's docstring."""

    macs: int
    bytes: int
    scratch: int
    nodes: int
    wasted: float


@dataclass(frozen=True)
class Emission:
    """What a form emits for a site: its operations, those that are alike once, and their cost."""

    operations: tuple[CountedOperation, ...]
    cost: Cost


def count(form: Form, site: DeconvolutionSite, *, depth_to_space: bool = True) -> Emission | Skip:
    """Run a form's rule for a site and count what it emits.

    Without `depth_to_space` all interleaving is by Transpose. Raises OpError where the rule does.
    """
    b = CountingBuilder(depth_to_space)
    result = form.lower(
        core.Deconvolution(site.strides, site.dilations),
        b,
        CountedValue(Spec(STAND_IN_TYPE, site.data_shape), on_data=True),
        CountedValue(Spec(STAND_IN_TYPE, site.filter_shape), constant=site.constant_filter),
        b.const(np.array(site.begin, np.int64)),
        b.const(np.array(site.end, np.int64)),
    )
    if isinstance(result, Skip):
        return result
    macs = sum(o.macs * o.times for o in b.operations)
    cost = Cost(
        macs=macs,
        bytes=sum(o.moved * o.times for o in b.operations) * site.itemsize,
        scratch=b.scratch(result) * site.itemsize,
        nodes=sum(o.times for o in b.operations),
        wasted=max(0.0, 1 - site.useful_macs() / macs) if macs else 0.0,
    )
    return Emission(tuple(b.operations), cost)
