"""How the work of `terms` is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from irdeconv.kernels.deconvolution import residues as geo
from irdeconv.kernels.deconvolution.blocks import Blocking, OutputBlock, split_output
from irdeconv.kernels.shared import blocking
from irdeconv.kernels.shared.blocking import shares
from irdeconv.kernels.shared.problem import ConvProblem
from irdeconv.kernels.shared.products import CACHED, lanes, worth_copying


@dataclass(frozen=True)
class TermsLayout:
    """How the work is cut: blocks of positions, then `channels` output channels at a time."""

    problem: ConvProblem
    axes: tuple[geo.DeconvAxis, ...]
    blocks: Blocking
    channels: int
    padded: bool

    @cached_property
    def copied(self) -> bool:
        """Whether an input whose rows alias is worth a copy."""
        stride = self.problem.positions * self.problem.itemsize
        return worth_copying(self.channels * self.problem.taps, stride)

    @cached_property
    def halo(self) -> bool:
        """Whether terms of different inputs meet."""
        return any(a.halo for a in self.axes)

    def edged(self, block: OutputBlock) -> bool:
        """Whether shifted planes are added flat, and what leaves their rows apart."""
        return self.halo and len(self.axes) == 2 and self.axes[1].halo <= block.parts[1].inputs

    def flat(self, block: OutputBlock) -> bool:
        """Whether inputs without zeros around them are summed like that."""
        return not self.padded and self.edged(block)

    def cells(self, block: OutputBlock) -> int:
        """How many places lie behind the ends of a plane's rows; none if it is not edged."""
        if not self.flat(block):
            return 0
        return block.count * (block.parts[0].inputs + self.axes[0].halo) * self.axes[1].halo

    def beyond(self, block: OutputBlock) -> int:
        """Columns behind those of the product, for rows that only shifted planes reach."""
        if not self.flat(block):
            return 0
        return self.axes[0].halo * block.parts[1].inputs * block.count

    def width(self, block: OutputBlock) -> int:
        """The columns of the product."""
        if self.padded:
            return lanes(block.columns)
        return block.input_positions


def layouts_of(problem: ConvProblem, padded: bool) -> Iterator[TermsLayout]:
    """Yield the ways to cut the work: larger blocks compute fewer terms twice."""
    m, c = problem.group_outputs, problem.group_inputs
    room = max(1, blocking.SIZES.terms_bytes // problem.itemsize)
    usual = max(min(blocking.SIZES.terms_columns, CACHED // 2 // c), room // (m * problem.taps))
    most = room // problem.taps
    if problem.narrow or padded or split_output(problem, most).images > 1:  # the inputs are copied
        most = min(most, max(blocking.SIZES.terms_columns, room // c))
    limits = {max(1, min(n, most)) for n in (usual, 4 * usual, 16 * usual, 64 * usual)}
    known: set[int] = set()
    for limit in sorted(limits):
        blocks = split_output(problem, limit)
        if len(blocks) not in known:
            known.add(len(blocks))
            channels = _channels(problem, blocks, room)
            yield TermsLayout(problem, geo.axes_of(problem), blocks, channels, padded)


def _channels(problem: ConvProblem, blocks: Blocking, room: int) -> int:
    """Return how many output channels are computed at a time, in memory for `room` terms."""
    m, most = problem.group_outputs, blocks.most(lambda b: b.columns)
    channels = max(1, min(m, room // (problem.taps * most)))
    macs = m * problem.taps * problem.group_inputs * most
    if len(blocks) * problem.groups == 1 and macs > blocking.SIZES.terms_macs:
        channels = min(channels, -(-m // 2))
    return shares(m, -(-m // channels))
