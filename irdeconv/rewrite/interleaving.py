"""Interleaving of residues, from channels or several tensors into space; zero-insertion.

Output o of an axis with stride S has the residue r = o mod S. DepthToSpace does it for equal
strides, in several steps for a stride that is a product. Transposes do it one axis after the
other, from the innermost on: (N, Sw, Sh, M, H, W) is viewed as [N, Sw, Sh*M*H*W], transposed,
viewed as [N, Sh, M*H, W*Sw], transposed, and is (N, M, H*Sh, W*Sw). Grouped convolutions put the
residues behind the channels: (N, M, Sh, Sw, H, W) is [N*M*Sh, Sw, H*W], then [N*M, Sh, H, W*Sw].
Concat does it on an axis of size 1 behind the axis that grows.

Zero-insertion in standard operations: two axes are spread at a time, from the innermost on, so that
four axes (five in 3-D) suffice: [N, C, H, W] becomes [N*C*H, 1, W, 1], padded [N*C*H, Sh, W, Sw],
and that [N, C, H*Sh, W*Sw].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import mul
from typing import Literal

import numpy as np

from irdeconv.ir.dtypes import i64
from irdeconv.ir.geometry import IntVector, Vector
from irdeconv.ir.op import Builder
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops import core
from irdeconv.ops.channels import DepthToSpace
from irdeconv.ops.dialect_base import permute, sizes
from irdeconv.ops.elementwise import Multiply
from irdeconv.ops.image import Interpolate4
from irdeconv.ops.movement import Concat, Pad1, Pad12
from irdeconv.ops.shape import Reshape, ShapeOf, Unsqueeze
from irdeconv.rewrite.builder import Skip
from irdeconv.rewrite.emit import (
    FormBuilder,
    Ints,
    Option,
    X,
    container_of,
    crop,
    exact_shape,
    needs,
    pad_spatial,
    reshaped,
    zeros_beside,
)

ONE = IntVector((1,))
MOST_BLOCK_STEPS = 3  # of DepthToSpace, unless the blocks are primes
LARGEST_BLOCK = 64
Mode = Literal["blocks_first", "depth_first"]


@dataclass(frozen=True)
class StackLayout:
    """The order of residues and channels in the channel axis of a stack, and its interleaving.

    `name` is the operation that interleaves. `blocks` are the sizes of successive DepthToSpace
    steps, by axis. With `residues_first` the channels are (first step, ..., last step, M), else (M,
    last step, ..., first step); with `last_axis_first` the residue of the last axis varies slowest.
    """

    name: str
    residues_first: bool
    blocks: tuple[Ints, ...]
    last_axis_first: bool = False

    @cached_property
    def residues(self) -> list[Ints]:
        """Return the residues (one per axis) in the order of the channels."""
        by, axes = -1 if self.last_axis_first else 1, len(self.blocks[0])
        behind: Array = np.ones(axes, np.int64)
        steps = []  # each block's addend to the residue, the last block first
        for block in reversed(self.blocks):
            steps.append(np.indices(block[::by]).reshape(axes, -1).T[:, ::by] * behind)
            behind = np.array(block) * behind
        out = np.zeros((1, axes), np.int64)
        for step in reversed(steps) if self.residues_first else steps:
            out = (out[:, None] + step).reshape(-1, axes)
        return [tuple(row) for row in out.tolist()]

    def interleave(self, b: FormBuilder[X], y: X, strides: Ints, outputs: Vector) -> X:
        """(N, M * R, *I) in this order -> (N, M, *(R I)); `outputs` is M."""
        if self.name == "DepthToSpace":
            mode: Mode = "blocks_first" if self.residues_first else "depth_first"
            steps = (DepthToSpace(mode, block[0]) for block in self.blocks)
            return reduce(lambda x, op: b.add(op, x), steps, y)
        sizes = _OutputSizes.of(b, y, outputs, strides)
        if self.name == "Transpose":
            return (_by_batch if self.residues_first else _by_transposes)(b, y, sizes)
        count, parts = outputs.values[0], []  # type: ignore[attr-defined]
        axes = [0] * (len(strides) + 1)
        for r in range(math.prod(strides)):
            behind = (math.prod(strides) - 1 - r) * count
            parts.append(crop(b, y, [0, r * count, *axes[1:]], [0, behind, *axes[1:]]))
        return _by_concat(b, parts, sizes)


def stack_layouts(strides: Ints, groups: int, blocks: bool) -> list[StackLayout]:
    """Return the layouts of a stack, the default first; `blocks`: DepthToSpace takes the rank.

    In a grouped stack the residues of an output channel stay beside it.
    """
    steps = list(_block_steps(strides)) if blocks else []
    layouts = [StackLayout("DepthToSpace", True, s) for s in steps if groups == 1]
    layouts += [StackLayout("DepthToSpace", False, s) for s in steps]
    if groups == 1:
        layouts.append(StackLayout("Transpose", True, (strides,), True))
        layouts.append(StackLayout("Concat", True, (strides,)))
    layouts.append(StackLayout("Transpose", False, (strides,)))
    return layouts


def interleave_parts(
    b: FormBuilder[X], parts: Sequence[X], strides: Ints, outputs: Vector, blocks: bool
) -> X:
    """Interleave one tensor (N, M, *I) per residue, in the order of the residues."""
    number = {r: i for i, r in enumerate(itertools.product(*map(range, strides)))}

    def stacked(layout: StackLayout) -> X:
        y = b.add(Concat(1), *(parts[number[r]] for r in layout.residues))
        return layout.interleave(b, y, strides, outputs)

    def by_concat() -> X:
        return _by_concat(b, parts, _OutputSizes.of(b, parts[0], outputs, strides))

    layouts = [w for w in stack_layouts(strides, 1, blocks) if w.residues_first]
    layouts = [w for w in layouts if w.name != "Concat"]
    options = [Option(w.name, partial(stacked, w), needs(w.name)) for w in layouts]
    return b.choose([*options, Option("Concat", by_concat, needs("Concat"))])


def _block_steps(strides: Ints) -> Iterator[tuple[Ints, ...]]:
    """Yield the sequences of DepthToSpace blocks that make equal strides, the shortest first."""
    if len(set(strides)) == 1 and 1 < strides[0] <= LARGEST_BLOCK:
        for count in range(1, strides[0].bit_length()):
            ways = list(_factorings(strides[0], count))
            longest = not list(_factorings(strides[0], count + 1))
            for factors in ways if count <= MOST_BLOCK_STEPS or longest else ():
                yield tuple((f,) * len(strides) for f in factors)


def _factorings(n: int, count: int) -> Iterator[Ints]:
    """Yield the ways to write n as an ordered product of `count` factors above 1."""
    if count == 1:
        yield from [(n,)] * (n > 1)
        return
    for f in range(2, n // 2 + 1):
        if n % f == 0:
            yield from ((f, *rest) for rest in _factorings(n // f, count - 1))


@dataclass
class _OutputSizes:
    """The sizes of an output on its way: N, M, and per axis the stride and the present size."""

    batch: Vector
    outputs: Vector
    strides: Ints
    size: list[Vector]

    @staticmethod
    def of(b: FormBuilder[X], y: X, outputs: Vector, strides: Ints) -> _OutputSizes:
        axes = [sizes(b, y, 2 + a, 1) for a in range(len(strides))]
        return _OutputSizes(sizes(b, y, 0, 1), outputs, strides, axes)

    def product(self, first: int, stop: int) -> list[Vector]:
        """Return the product of the sizes of some axes; nothing if there are none."""
        return [reduce(mul, self.size[first:stop])] if stop > first else []

    def grow(self, axis: int) -> None:
        self.size[axis] = self.size[axis] * self.strides[axis]


def _by_batch(b: FormBuilder[X], y: X, s: _OutputSizes) -> X:
    """(N, R_last, ..., R_first, M, *I) -> (N, M, *(R I)), one axis at a time, N in front."""
    left = [a for a, stride in enumerate(s.strides) if stride > 1]
    while left:
        axis = left.pop()
        rest = math.prod(s.strides[a] for a in left)
        inner = s.product(0, axis + 1)[0] * s.outputs * rest
        behind = s.product(axis + 1, len(s.size))
        y = reshaped(b, y, s.batch, IntVector((s.strides[axis],)), inner, *behind)
        y = permute(b, y, (0, 2, 1, *range(3, 3 + len(behind))))
        s.grow(axis)
    return reshaped(b, y, s.batch, s.outputs, *s.size)


def _by_transposes(b: FormBuilder[X], y: X, s: _OutputSizes) -> X:
    """(N, M * R, *I), residues behind channels -> (N, M, *(R I)), one or two axes at a time."""
    ways = dict.fromkeys((max(b.style.max_rank, len(s.size) + 2), 4))
    ways = ways if sum(n > 1 for n in s.strides) > 1 else dict.fromkeys([4])
    return b.choose([Option(f"{n} axes", partial(_transposed, b, y, s, n)) for n in ways])


def _transposed(b: FormBuilder[X], y: X, s: _OutputSizes, most: int) -> X:
    s = replace(s, size=list(s.size))
    left = [a for a, stride in enumerate(s.strides) if stride > 1]
    while left:
        two = len(left) > 1 and left[-1] == len(s.size) - 1 and most >= 5
        step, left = left[-1 - two :], left[: -1 - two]
        n, (first, *_, last) = len(step), (step[0], step[-1])
        lead = s.batch * s.outputs * math.prod(s.strides[a] for a in left)
        blocks = [IntVector((s.strides[a],)) for a in step]
        inner = [*s.product(0, first + 1), *s.product(first + 1, last + 1)]
        rest = s.product(last + 1, len(s.size))
        y = reshaped(b, y, lead, *blocks, *inner, *rest)
        pairs = itertools.chain.from_iterable((1 + n + i, 1 + i) for i in range(n))
        y = permute(b, y, (0, *pairs, *range(1 + 2 * n, 1 + 2 * n + len(rest))))
        for a in step:
            s.grow(a)
    return reshaped(b, y, s.batch, s.outputs, *s.size)


def _by_concat(b: FormBuilder[X], parts: Sequence[X], s: _OutputSizes) -> X:
    """One tensor (N, M, *I) per residue, in the order of the residues -> (N, M, *(R I))."""
    parts = list(parts)
    for a in reversed(range(len(s.size))):
        stride = s.strides[a]
        if stride == 1:
            continue
        behind = s.product(a + 1, len(s.size))
        target = [s.batch, s.outputs * s.product(0, a + 1)[0], ONE, *behind]
        parts = [reshaped(b, p, *target) for p in parts]
        runs = range(0, len(parts), stride)
        parts = [b.add(Concat(2), *parts[i : i + stride]) for i in runs]
        s.grow(a)
    return reshaped(b, parts[0], s.batch, s.outputs, *s.size)


def insert_zeros(b: FormBuilder[X], x: X, strides: Sequence[int]) -> X:
    """(N, C, *I) -> (N, C, *(S*I)): S-1 zeros behind every element."""
    if all(s == 1 for s in strides):
        return x
    insertion = core.ZeroInsertion(tuple(strides), trailing=True)
    pads, joins, masks = needs("Reshape", "Pad"), needs("Reshape", "Concat"), needs("Interpolate")
    options = [Option("zero-insertion", partial(b.add, insertion, x), pads)]
    if is_static(b.spec(x).shape):
        options += [
            Option("zeros by Concat", partial(_spread, b, x, strides, _concatenated), joins),
            Option("zeros by Interpolate", partial(_masked, b, x, strides), masks),
        ]
    return b.choose(options)


def spell_zero_insertion(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """ZeroInsertion -> Reshape, Pad, Reshape, and a crop unless zeros follow the last element."""
    if b.spec(x).rank is None:
        return Skip("the rank of the data is unknown")
    y = _spread(b, x, op.strides, _padded)
    surplus = IntVector(tuple(1 - s for s in op.strides))
    return y if op.trailing else pad_spatial(b, y, surplus * 0, surplus)


def spell_zero_insertion_as_before(op: core.ZeroInsertion, b: FormBuilder[X], x: X) -> X | Skip:
    """Spell a trailing ZeroInsertion as version 1 files do: an axis behind each spatial one."""
    shape, axes = b.spec(x).shape, len(op.strides)
    behind = np.arange(3, 3 + 2 * axes, 2)
    apart = b.add(Unsqueeze(), x, b.const(behind.astype(np.int64)))
    end = np.zeros(2 + 2 * axes, np.int64)
    end[behind] = [s - 1 for s in op.strides]
    padded = b.add(Pad12("constant"), apart, b.const(np.zeros_like(end)), b.const(end))
    factors = np.array((1, 1, *op.strides), np.int64)
    if is_static(shape):
        target = b.const(np.array(shape, np.int64) * factors)
    else:
        target = b.add(Multiply(), b.add(ShapeOf(i64), x), b.const(factors))
    return b.add(Reshape(special_zero=False), padded, target)


def _spread(b: Builder[X], x: X, strides: Sequence[int], grow: Callable[..., X]) -> X:
    """Spread the axes, two at a time; `grow` appends zeros to axes of size 1."""
    size: list[Vector] = [sizes(b, x, a, 1) for a in range(len(strides) + 2)]
    left = [a for a, s in enumerate(strides, 2) if s > 1]
    while left:  # the innermost first
        left, step = left[:-2], left[-2:]
        cuts = (0, *(a + 1 for a in step))
        runs = (size[p:q] for p, q in itertools.pairwise(cuts))
        target = [v for run in runs for v in (reduce(mul, run), ONE)]
        target += [reduce(mul, size[cuts[-1] :])] if cuts[-1] < len(size) else []
        amounts = {2 * i + 1: strides[a - 2] - 1 for i, a in enumerate(step)}
        x = grow(b, reshaped(b, x, *target), len(target), amounts)
        for a in step:
            size[a] = size[a] * strides[a - 2]
    return reshaped(b, x, *size)


def _padded(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    if len(amounts) == 1 and b.style.pads_in_pairs:
        return _padded_in_pairs(b, x, rank, amounts)
    end = np.array([amounts.get(a, 0) for a in range(rank)], np.int64)
    return b.add(Pad1("constant"), x, b.const(np.zeros(rank, np.int64)), b.const(end))


def _padded_in_pairs(b: FormBuilder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    """Pad one axis of size 1, and another one beside it that is cropped again."""
    ((axis, count),) = amounts.items()
    shape = [sizes(b, x, a, 1) for a in range(rank)]
    x = reshaped(b, x, *shape[:axis], ONE, *shape[axis:])
    x = _padded(b, x, rank + 1, {axis: 1, axis + 1: count})
    return crop(b, x, [0] * (rank + 1), [int(a == axis) for a in range(rank + 1)])


def _concatenated(b: Builder[X], x: X, rank: int, amounts: Mapping[int, int]) -> X:
    for axis, count in sorted(amounts.items(), reverse=True):
        x = b.add(Concat(axis), x, zeros_beside(b, x, axis, count))
    return x


def _masked(b: Builder[X], x: X, strides: Sequence[int]) -> X:
    """Repeat every element, and multiply the copies by 0."""
    dtype = container_of(b, x)
    factors = np.array([1.0, 1.0, *strides], np.float32)
    size = [n * s for n, s in zip(exact_shape(b, x), (1, 1, *strides), strict=True)]
    op = Interpolate4("nearest", "scales", "asymmetric", "floor")
    y = b.add(op, x, b.const(np.array(size, np.int64)), b.const(factors))
    mask = np.ones((1, 1, *size[2:]), dtype)
    for axis, (n, s) in enumerate(zip(size[2:], strides, strict=True), 2):
        mask *= (np.arange(n) % s == 0).astype(dtype).reshape(-1, *(1,) * (len(size) - axis - 1))
    return b.add(Multiply(), y, b.const(mask))
