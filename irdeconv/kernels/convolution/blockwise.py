"""What convolution kernels have in common that compute and finish one block after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from irdeconv.kernels.compiled.recorded import Repeated
from irdeconv.kernels.convolution.conv3d import Conv3d
from irdeconv.kernels.shared.candidate import Epilogue, Fix, Piece
from irdeconv.kernels.shared.scratch import Space
from irdeconv.kernels.shared.team import Team
from irdeconv.spec import Array

B = TypeVar("B")  # a block


@dataclass(frozen=True)
class Blockwise(ABC, Generic[B]):
    """A `Kernel` whose blocks are computed and finished one by one."""

    conv: Conv3d
    blocks: Sequence[B]

    def __call__(self, x: Array, out: Array, epilogue: Epilogue | None, team: Team) -> None:
        """See `Kernel`."""
        data, y = self._data(x, team.space), self._planes(out)
        team.each(self.blocks, lambda b, space: self._block(data, y, b, epilogue, space))

    def _data(self, x: Array, space: Space) -> Array:
        """Return what blocks read; `[N, C, depth, row, column]` unless said otherwise."""
        return self.conv.data(x)

    def _planes(self, out: Array) -> Array:
        return out.reshape(*out.shape[:2], self.conv.plane)

    @abstractmethod
    def _block(self, x: Array, out: Array, b: B, epilogue: Epilogue | None, space: Space) -> None:
        """Compute a block of `out [N, M, positions]`."""


class FixedBlockwise(Blockwise[B]):
    """One that is also a `FixedKernel`: it reads contiguous input where it lies."""

    def fixed(self, x: Array, out: Array, finish: Fix) -> Callable[[Team], None] | None:
        """Return the call for arrays that stay where they are; None where they need a copy."""
        if not (self.conv.direct and x.dtype == self.conv.compute and self._lies(x)):
            return None
        data, y = self._data(x, Space()), self._planes(out)
        return Repeated(tuple(self._fixed(data, y, b, finish) for b in self.blocks))

    def _lies(self, x: Array) -> bool:
        """Whether blocks can read the input where it is."""
        return bool(x.flags.c_contiguous)

    @abstractmethod
    def _fixed(self, x: Array, out: Array, b: B, finish: Fix) -> Piece:
        """Return the call that computes a block."""
