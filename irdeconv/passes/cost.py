"""What each lowering form of a deconvolution costs, by formulas.

A form is a list of steps, in the order in which it emits them. With R = prod(S) residues, per axis
I inputs, O outputs, and from `subpixel.analyse`: I' = I + more outputs of every residue, K_r taps
of residue r (they sum up to K), E the inputs that a stacked filter spans (`*` is a product over
axes):

    form            multiply-accumulates                intermediates, elements
    zero-insertion  N M C/g *(O K)                      N C *(S(I-1)+1), N C *(O + D(K-1))
    phases          sum over r: N M C/g *(I' K_r)       per r: N C *(I'+E_r-1), N M *I'; N M R *I'
                      = N M C/g *(I' K)
    stacked         N M R C/g *(I' E)                   N C *(I'+E-1), N M R *I', twice
    gemm            N M C/g *(S I)                      N M R *I, twice

- bytes: what every step reads (tensors, filters; not pads, axes, shapes) and writes.
- scratch: the most bytes of intermediates alive at once, without the layer's data, output and
  constants. Reshape, Squeeze and Unsqueeze move nothing: they share their input's memory.
- nodes: operations without constants. Arithmetic on sizes that are known only at run time, and the
  Convert of compressed filters, are not counted.
- wasted: the share of products that reach no output: inserted or padded zeros, cropped outputs.

An unknown batch counts as 1, an unknown size as 32 (or the nearest that its bounds allow), and the
site's `assumed` says so. Constant filters are rearranged before anything runs, at no cost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from irdeconv.passes.site import Ints, Site
from irdeconv.passes.subpixel import Axis, Residue, Widened, widen

DATA = -1
FILTER = -2


@dataclass(frozen=True)
class Step:
    """One emitted operation (with `nodes` > 1 together with views of its input or output).

    `reads` are numbers of earlier steps, DATA or FILTER; `constant` and `out` count elements read
    from constants and written. `kernel`, `dilations` and `channels` (outputs of a group) are a
    convolution's, `pads` a Pad's amounts, `strides` those of inserting or interleaving.
    """

    kind: str
    reads: tuple[int, ...]
    out: int
    constant: int = 0
    macs: int = 0
    nodes: int = 1
    kernel: Ints = ()
    dilations: Ints = ()
    channels: int = 0
    strides: Ints = ()
    pads: Ints = ()


@dataclass(frozen=True)
class Cost:
    """The costs of one form; units in the module's docstring."""

    macs: int
    bytes: int
    scratch: int
    nodes: int
    wasted: float


@dataclass
class Steps:
    """Collects steps; `add` returns a step's number."""

    site: Site
    native: bool
    steps: list[Step] = field(default_factory=list)

    def add(self, kind: str, reads: tuple[int, ...], out: int, **more: object) -> int:
        """Append a step."""
        self.steps.append(Step(kind, reads, out, **more))  # type: ignore[arg-type]
        return len(self.steps) - 1

    def pad(self, x: int, begin: Sequence[int], end: Sequence[int], out: int) -> int:
        """Append a Pad unless it does nothing."""
        if not any(begin) and not any(end):
            return x
        return self.add("Pad", (x,), out, pads=(*begin, *end))

    def filter(self, w: int, size: int) -> int:
        """Append the Transpose and, for one group, the Squeeze in front of a convolution."""
        if self.site.constant_filter:
            return w
        return self.add("Transpose", (w,), size, nodes=1 + (self.site.groups == 1))

    def convolution(self, x: int, w: int, taps: int, out: int, **more: object) -> int:
        """Append a convolution of `out` outputs, `taps` filter elements per output channel pair."""
        s, channels = self.site, more.pop("outputs", self.site.m)
        assert isinstance(channels, int)
        elements = s.groups * s.c * channels * taps
        constant = elements if s.constant_filter else 0
        reads = (x,) if s.constant_filter else (x, w)
        kind = "Convolution" if s.groups == 1 else "GroupConvolution"
        macs = out * s.c * taps
        return self.add(kind, reads, out, constant=constant, macs=macs, channels=channels, **more)

    def interleave(self, x: int, groups: int, inner: Sequence[int]) -> int:
        """Append the interleaving of residues `[.., *inner]` into space."""
        s = self.site
        if math.prod(s.strides) == 1:
            return x
        out = s.batch * s.outputs * math.prod(s.strides) * math.prod(inner)
        if self.native and groups == 1 and len(set(s.strides)) == 1:
            return self.add("DepthToSpace", (x,), out, strides=s.strides)
        return self.add("Transpose", (x,), out, nodes=3, strides=s.strides)


def steps_of(form: str, site: Site, *, depth_to_space: bool = True) -> list[Step]:
    """Return what a form emits; without `depth_to_space` all interleaving is by Transpose."""
    out = Steps(site, depth_to_space)
    _FORMS[form](out, site)
    return out.steps


def cost_of(steps: Sequence[Step], site: Site) -> Cost:
    """Return the costs of a list of steps."""
    data = site.batch * site.groups * site.c * math.prod(site.size)
    sizes = {DATA: data, FILTER: site.filter_size, **{i: s.out for i, s in enumerate(steps)}}
    moved = sum(sum(sizes[r] for r in s.reads) + s.constant + s.out for s in steps)
    macs = sum(s.macs for s in steps)
    wasted = max(0.0, 1 - site.useful_macs() / macs) if macs else 0.0
    nodes = sum(s.nodes for s in steps)
    return Cost(macs, moved * site.itemsize, _scratch(steps) * site.itemsize, nodes, wasted)


def _scratch(steps: Sequence[Step]) -> int:
    """Return the most elements of intermediates alive during any step, the last output excluded."""
    last = {r: i for i, s in enumerate(steps) for r in s.reads}
    most, alive = 0, 0
    for i, s in enumerate(steps[:-1]):
        alive += s.out
        most = max(most, alive)
        alive -= sum(steps[r].out for r in set(s.reads) if r >= 0 and last[r] == i)
    return max(most, alive)


def _zero_insertion(b: Steps, s: Site) -> None:
    x, channels = DATA, s.batch * s.groups * s.c
    spread = tuple(t * (i - 1) + 1 if i else 0 for i, t in zip(s.size, s.strides, strict=True))
    if any(t > 1 for t in s.strides):
        x = b.add("ZeroInsertion", (x,), channels * math.prod(spread), strides=s.strides)
    reach = [d * (k - 1) for k, d in zip(s.kernel, s.dilations, strict=True)]
    begin = [r - p for r, p in zip(reach, s.begin, strict=True)]
    wide = [o + r for o, r in zip(s.output, reach, strict=True)]
    end = [p - q - z for p, q, z in zip(wide, begin, spread, strict=True)]
    x = b.pad(x, begin, end, channels * math.prod(wide))
    w, size = FILTER, s.filter_size
    if not s.constant_filter and any(k > 1 for k in s.kernel):
        w = b.add("Slice", (w,), size)
    w = b.filter(w, size)
    out = s.batch * s.outputs * math.prod(s.output)
    b.convolution(x, w, math.prod(s.kernel), out, kernel=s.kernel, dilations=s.dilations)


def _phases(b: Steps, s: Site) -> None:
    axes = s.axes
    inner = [i + a.more for i, a in zip(s.size, axes, strict=True)]
    part = s.batch * s.outputs * math.prod(inner)
    parts, nothing = [], 0
    for residues in itertools.product(*(a.residues for a in axes)):
        if all(r.taps for r in residues):
            parts.append(_phase(b, s, axes, residues, part))
        else:
            nothing += part
    total = len(parts) * part + nothing
    y = parts[0] if total == part else b.add("Concat", tuple(parts), total, constant=nothing)
    _interleave(b, s, y, 1, inner)


def _phase(b: Steps, s: Site, axes: list[Axis], residues: Sequence[Residue], out: int) -> int:
    taps = [len(r.taps) for r in residues]
    begin = [-r.first for r in residues]
    end = [a.more + r.extent - 1 + r.first for a, r in zip(axes, residues, strict=True)]
    seen = [i + p + q for i, p, q in zip(s.size, begin, end, strict=True)]
    x = b.pad(DATA, begin, end, s.batch * s.groups * s.c * math.prod(seen))
    elements = s.groups * s.c * s.m * math.prod(taps)
    w = FILTER if s.constant_filter else b.add("Slice", (FILTER,), elements)
    w = b.filter(w, elements)
    dilations = tuple(r.dilation for r in residues)
    count = math.prod(taps)
    return b.convolution(x, w, count, out, kernel=tuple(taps), dilations=dilations)


def _interleave(b: Steps, s: Site, y: int, groups: int, inner: Sequence[int]) -> None:
    y = b.interleave(y, groups, inner)
    end = [-a.surplus for a in s.axes]
    b.pad(y, [0], end, s.batch * s.outputs * math.prod(s.output))


def _stacked(b: Steps, s: Site) -> None:
    axes, residues = s.axes, math.prod(s.strides)
    wide = [widen(a, k) for a, k in zip(axes, s.kernel, strict=True)]
    inner = [i + a.more for i, a in zip(s.size, axes, strict=True)]
    spans = [v.span for v in wide]
    elements = s.filter_size // math.prod(s.kernel) * residues * math.prod(spans)
    w = FILTER if s.constant_filter else _widened(b, s, wide, elements)
    begin = [-v.low for v in wide]
    end = [a.more + v.span - 1 + v.low for a, v in zip(axes, wide, strict=True)]
    seen = [i + n - 1 for i, n in zip(inner, spans, strict=True)]
    x = b.pad(DATA, begin, end, s.batch * s.groups * s.c * math.prod(seen))
    w = b.filter(w, elements)
    out, ones = s.batch * s.outputs * residues * math.prod(inner), (1,) * len(axes)
    more = {"kernel": tuple(spans), "dilations": ones, "outputs": s.m * residues}
    y = b.convolution(x, w, math.prod(spans), out, **more)
    _interleave(b, s, y, s.groups, inner)


def _widened(b: Steps, s: Site, wide: Sequence[Widened], elements: int) -> int:
    """Append what makes the stacked filter of one that is known only at run time."""
    pairs = s.groups * s.c * s.m
    lacking = [int(v.lacks) for v in wide]
    sizes = [k + n for k, n in zip(s.kernel, lacking, strict=True)]
    w = b.pad(FILTER, [0], lacking, pairs * math.prod(sizes))
    for a, v in enumerate(wide):
        if not v.is_filter:
            sizes[a] = len(v.index)
            w = b.add("Gather", (w,), pairs * math.prod(sizes))
    if math.prod(s.strides) == 1:
        return w
    return b.add("Transpose", (w,), elements, nodes=3)


def _gemm(b: Steps, s: Site) -> None:
    axes, residues = len(s.size), math.prod(s.strides)
    w = FILTER
    if not s.constant_filter:
        w = b.add("Transpose", (w,), s.filter_size, nodes=2 + (s.groups == 1))
    out, ones = s.batch * s.outputs * residues * math.prod(s.size), (1,) * axes
    y = b.convolution(DATA, w, 1, out, kernel=ones, dilations=ones, outputs=s.m * residues)
    y = b.interleave(y, s.groups, s.size)
    pads = ([-p for p in s.begin], [-p for p in s.end])
    b.pad(y, *pads, s.batch * s.outputs * math.prod(s.output))


_FORMS = {
    "zero-insertion": _zero_insertion,
    "phases": _phases,
    "stacked": _stacked,
    "gemm": _gemm,
}
