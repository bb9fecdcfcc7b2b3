"""The counting builder: a lowering rule run with it tells what the rule emits, without a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.op import Op, as_tuple
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.shape import Reshape, Squeeze1, Unsqueeze
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
        self.operations.append(
            CountedOperation(
                op=op, inputs=specs, output=outputs[0], moved=moved, macs=macs, on_data=on_data
            )
        )
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
