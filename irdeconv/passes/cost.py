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

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.op import Op, as_tuple
from irdeconv.ops import core
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.shape import Reshape, Squeeze1, Unsqueeze
from irdeconv.passes.forms import Form
from irdeconv.passes.rewrite import Skip
from irdeconv.passes.site import DeconvolutionSite
from irdeconv.passes.subpixel import spell_depth_to_space
from irdeconv.spec import Array, Spec

STAND_IN_TYPE = ELEMENT_TYPES["f32"]  # of data and filter: what is counted are elements
VIEWS = (Reshape, Squeeze1, Unsqueeze)  # they move nothing: output and input share their memory


@dataclass(frozen=True)
class CountedValue:
    """A value without numbers: its spec, and the buffer that it lies in.

    `buffer` is None for the layer's data and filter and for constants. `on_data` says that it
    follows from the data.
    """

    spec: Spec
    buffer: int | None = None
    constant: bool = False
    on_data: bool = False


@dataclass
class CountedOperation:
    """An emitted operation, and how often it is emitted alike.

    `moved` are the elements that it reads (tensors and filters; not pads, axes, shapes) and writes,
    none for a view.
    """

    op: Op
    inputs: tuple[Spec, ...]
    output: Spec
    moved: int
    macs: int
    on_data: bool
    times: int = 1


@dataclass
class CountingBuilder:
    """Records what a rule emits for exact sizes; constants are folded at no cost.

    Without `depth_to_space` that operation is spelled out, as the lowering does it for targets that
    lack it. `buffers` has the elements of every buffer and the buffers that were read for it.
    """

    depth_to_space: bool = True
    operations: list[CountedOperation] = field(default_factory=list)
    buffers: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    _repeated: dict[object, tuple[slice, slice, CountedValue]] = field(default_factory=dict)

    def const(self, array: Array) -> CountedValue:
        """Return a constant."""
        return CountedValue(Spec.of(array), constant=True)

    def spec(self, value: CountedValue) -> Spec:
        """Return the spec of a value."""
        return value.spec

    def refine(self, value: CountedValue, spec: Spec) -> CountedValue:
        """Return the value as it is: all of its sizes are known."""
        return value

    def add(self, op: Op, *inputs: CountedValue) -> CountedValue:
        """Infer one operation and record it, unless all of its inputs are constants."""
        if isinstance(op, DepthToSpace) and not self.depth_to_space:
            spelled = spell_depth_to_space(op, self, *inputs)
            assert isinstance(spelled, CountedValue)
            return spelled
        specs = tuple(v.spec for v in inputs)
        outputs: tuple[Spec, ...] = as_tuple(op.infer(*specs))
        if all(v.constant for v in inputs):
            return CountedValue(outputs[0], constant=True)
        on_data = any(v.on_data for v in inputs)
        macs, moved, buffer = op.macs(specs, outputs) or 0, 0, inputs[0].buffer
        if not isinstance(op, VIEWS):
            written = outputs[0].size or 0
            moved = written + sum(s.size or 0 for s in specs if s.dtype == STAND_IN_TYPE)
            buffer = len(self.buffers)
            self.buffers.append((written, tuple(v.buffer for v in inputs if v.buffer is not None)))
        self.operations.append(CountedOperation(op, specs, outputs[0], moved, macs, on_data))
        return CountedValue(outputs[0], buffer, on_data=on_data)

    def repeat(self, key: object, build: Callable[[], CountedValue]) -> CountedValue:
        """Run `build` for the first of equal keys; count the same again for all others.

        Beside its own buffers it may read only the inputs of the rule and constants.
        """
        if key not in self._repeated:
            before = len(self.operations), len(self.buffers)
            value = build()
            after = len(self.operations), len(self.buffers)
            self._repeated[key] = (slice(before[0], after[0]), slice(before[1], after[1]), value)
            return value
        operations, buffers, value = self._repeated[key]
        for operation in self.operations[operations]:
            operation.times += 1
        shift = len(self.buffers) - buffers.start
        again = self.buffers[buffers]
        self.buffers.extend((n, tuple(b + shift for b in read)) for n, read in again)
        if value.buffer is None:
            return value
        return CountedValue(value.spec, value.buffer + shift, on_data=value.on_data)

    def scratch(self, result: CountedValue) -> int:
        """Return the most elements of intermediates alive at once, the result excluded."""
        last = {read: i for i, (_, reads) in enumerate(self.buffers) for read in reads}
        most = alive = 0
        for i, (elements, reads) in enumerate(self.buffers):
            alive += elements if i != result.buffer else 0
            most = max(most, alive)
            alive -= sum(self.buffers[read][0] for read in set(reads) if last[read] == i)
        return most


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
